"""Is the key kept from others, found by its passphrase alone, and every other file refused?"""

import os
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from herodotus.core.errors import IdentityError, KeyLocked, StorageFailure
from herodotus.home.identity import (
    PassphraseTooLong,
    key_from_pem,
    key_to_pem,
    load_key,
    peer_id,
    public_pem,
    shown_peer_id,
)

# RFC 8032, 7.1, test 1
SECRET = bytes.fromhex("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60")
KEY = Ed25519PrivateKey.from_private_bytes(SECRET)


def stored(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    file = folder / "identity.key"
    file.write_bytes(content)
    file.chmod(mode)
    return file


def refusal(file: Path, passphrase: bytes | None = None) -> str:
    with pytest.raises(IdentityError) as caught:
        load_key(file, passphrase)
    assert caught.value.exit_code == 2
    return str(caught.value).removeprefix(str(file))


def test_the_id_is_the_sha256_of_the_public_key_in_groups_of_four() -> None:
    assert (
        peer_id(KEY.public_key()).hex() == "21fe31dfa154a261626bf854046fd2271b7bed4b6abe45aa58877ef47f9721b9"
    )
    assert (
        shown_peer_id(peer_id(KEY.public_key()))
        == "eh7d-dx5b-ksrg-cytl-7bka-i36s-e4nx-x3kl-nk7e-lksy-q57p-i74x-eg4q"
    )


def test_a_key_survives_its_file(tmp_path: Path) -> None:
    content = key_to_pem(KEY, None)
    assert content.startswith(b"-----BEGIN PRIVATE KEY-----\n")
    assert load_key(stored(tmp_path, content), None).private_bytes_raw() == SECRET


def test_the_public_key_alone_is_exported() -> None:
    assert public_pem(KEY).startswith(b"-----BEGIN PUBLIC KEY-----\n")


def test_a_passphrase_locks_and_opens_the_key(tmp_path: Path) -> None:
    content = key_to_pem(KEY, b"open sesame")
    assert content.startswith(b"-----BEGIN ENCRYPTED PRIVATE KEY-----\n")
    file = stored(tmp_path, content)
    assert load_key(file, b"open sesame").private_bytes_raw() == SECRET
    assert refusal(file, b"open barley").startswith(" does not open with this passphrase; check")
    with pytest.raises(KeyLocked):
        load_key(file, None)
    assert refusal(file) == (
        " is locked with a passphrase; set HERODOTUS_PASSPHRASE, or run where it can be typed"
    )


def test_a_superfluous_passphrase_is_refused(tmp_path: Path) -> None:
    file = stored(tmp_path, key_to_pem(KEY, None))
    assert refusal(file, b"x") == " has no passphrase, but one was given; unset HERODOTUS_PASSPHRASE"


def test_a_passphrase_longer_than_openssl_takes_is_refused_when_the_key_is_made() -> None:
    with pytest.raises(PassphraseTooLong, match="at most 1023 bytes"):
        key_to_pem(KEY, b"x" * 1024)
    assert key_from_pem(key_to_pem(KEY, b"x" * 1023), b"x" * 1023, file="f") is not None


def test_a_key_of_another_kind_is_named(tmp_path: Path) -> None:
    keys: dict[str, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey] = {
        "EC": ec.generate_private_key(ec.SECP256R1()),
        "RSA": rsa.generate_private_key(65537, 2048),
    }
    for kind, key in keys.items():
        pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        assert refusal(stored(tmp_path, pem)).startswith(
            f" holds a key of another kind ({kind}), not Ed25519;"
        )


@pytest.mark.parametrize(
    "content",
    [b"", b"garbage", b"\x00" * 20_000, public_pem(KEY), key_to_pem(KEY, None)[:60], key_to_pem(KEY, None)[:-40]],
    ids=["empty", "garbage", "zeros", "public", "cut early", "cut late"],
)  # fmt: skip
def test_what_is_not_a_private_key_is_refused(tmp_path: Path, content: bytes) -> None:
    assert refusal(stored(tmp_path, content)).startswith(" is not a private key in PEM form; restore")


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o601])
def test_a_key_that_others_can_reach_is_refused_with_the_command_that_mends_it(
    tmp_path: Path, mode: int
) -> None:
    file = stored(tmp_path, key_to_pem(KEY, None), mode)
    assert refusal(file) == f" can be read by others (mode {mode:04o}); correct it with: chmod 600 {file}"


def test_the_command_that_mends_a_key_can_be_pasted_wherever_the_key_is(tmp_path: Path) -> None:
    folder = tmp_path / "my peer"
    folder.mkdir()
    file = stored(folder, key_to_pem(KEY, None), 0o644)
    assert refusal(file).endswith(f"; correct it with: chmod 600 '{file}'")


def test_a_folder_or_a_pipe_in_place_of_the_key_neither_opens_nor_blocks(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, 0o600)
    for path in (tmp_path, pipe):
        assert refusal(path) == " is not a file; restore the key from a backup"


def test_a_missing_key_is_a_failure_of_the_world(tmp_path: Path) -> None:
    with pytest.raises(StorageFailure, match=r"no such file or directory; restore identity\.key") as caught:
        load_key(tmp_path / "none", None)
    assert caught.value.exit_code == 1
