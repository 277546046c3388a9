"""Which peer is this? An Ed25519 key in a file that only its owner may read, and an id that people can compare."""

import base64
import hashlib
import os
import shlex
import stat
from pathlib import Path
from typing import NewType

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)

from herodotus.core.errors import IdentityError, KeyLocked, Misuse, StorageFailure
from herodotus.home.durable import storage_failure

PeerId = NewType("PeerId", bytes)

_KEY_BYTES_MAX = 10_000  # an Ed25519 key in PEM is 119 bytes, with a passphrase about 400
PASSPHRASE_BYTES_MAX = 1023  # what OpenSSL takes
_RESTORE = "restore identity.key from a backup, or make a new home with `herodotus init --home`"


def peer_id(public_key: Ed25519PublicKey) -> PeerId:
    """SHA-256 of the public key (design of the ring, 4.2)."""
    return PeerId(hashlib.sha256(public_key.public_bytes(Encoding.Raw, PublicFormat.Raw)).digest())


def shown_peer_id(identity: PeerId) -> str:
    """Thirteen groups of four letters and digits (base 32, no 0, 1, 8, 9): long enough to trust, easy to read out."""
    text = base64.b32encode(identity).decode().rstrip("=").lower()
    return "-".join(text[start : start + 4] for start in range(0, len(text), 4))


def names_of_key(public_key: bytes) -> tuple[str, str]:
    """By which an operator may name a peer: as `identity show` prints it, and the key in hexadecimal digits."""
    return shown_peer_id(peer_id(Ed25519PublicKey.from_public_bytes(public_key))), public_key.hex()


def short_name(identity: PeerId) -> str:
    """Tells the peers on one page apart; nothing depends on it."""
    return shown_peer_id(identity)[:9]


class PassphraseTooLong(Misuse):
    def __str__(self) -> str:
        return f"the passphrase is too long: at most {PASSPHRASE_BYTES_MAX} bytes"


def key_to_pem(key: Ed25519PrivateKey, passphrase: bytes | None) -> bytes:
    if passphrase and len(passphrase) > PASSPHRASE_BYTES_MAX:
        raise PassphraseTooLong
    encryption = BestAvailableEncryption(passphrase) if passphrase else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)


def public_pem(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def load_key(path: Path, passphrase: bytes | None) -> Ed25519PrivateKey:
    """The key. Refused if others can read it: then somebody else may have it too."""
    return key_from_pem(_read_privately(path), passphrase, file=str(path))


def _read_privately(path: Path) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)  # a pipe must not block us
    except FileNotFoundError as error:
        missing = "no such file or directory"
        raise StorageFailure(path=str(path), action="read", reason=missing, hint=_RESTORE) from error
    except OSError as error:
        raise storage_failure(error, path, "read") from error
    try:
        facts = os.fstat(descriptor)  # of the very file that is read
        if not stat.S_ISREG(facts.st_mode):
            raise IdentityError(file=str(path), problem="is not a file", hint="restore the key from a backup")
        mode = stat.S_IMODE(facts.st_mode)
        if mode & 0o077:
            raise IdentityError(
                file=str(path),
                problem=f"can be read by others (mode {mode:04o})",
                hint=f"correct it with: chmod 600 {shlex.quote(str(path))}",
            )
        return os.read(descriptor, _KEY_BYTES_MAX)
    except OSError as error:
        raise storage_failure(error, path, "read") from error
    finally:
        os.close(descriptor)


def key_from_pem(pem: bytes, passphrase: bytes | None, *, file: str) -> Ed25519PrivateKey:
    try:
        key = load_pem_private_key(pem, passphrase)
    except TypeError as error:
        if passphrase is None:
            raise KeyLocked(file=file) from error
        hint = "unset HERODOTUS_PASSPHRASE"
        raise IdentityError(file=file, problem="has no passphrase, but one was given", hint=hint) from error
    except (ValueError, UnsupportedAlgorithm) as error:
        if passphrase is not None:
            hint = "check the passphrase; if it is right, the file is damaged"
            raise IdentityError(file=file, problem="does not open with this passphrase", hint=hint) from error
        raise IdentityError(file=file, problem="is not a private key in PEM form", hint=_RESTORE) from error
    if not isinstance(key, Ed25519PrivateKey):
        kind = type(key).__name__.removesuffix("PrivateKey").lstrip("_")
        raise IdentityError(
            file=file, problem=f"holds a key of another kind ({kind}), not Ed25519", hint=_RESTORE
        )
    return key
