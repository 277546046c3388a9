"""Does what belongs to the operator alone stay with him: key and passphrase, and every file of a home in use?"""

import base64
import os
import stat
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from herodotus.home.identity import load_key
from tests.herodotus.operate.cli.processes import WAIT_S, called, new_home, running
from tests.herodotus.store.making import NOW_S, open_on, page, store

pytestmark = pytest.mark.e2e
PASSPHRASE = "correct horse battery staple 93"
PUBLIC = {"network.toml", "state/home.json"}
"""The charter is everybody's, and the mark only says which one it is."""


def spellings_of(secret: bytes) -> list[bytes]:
    """As it could end up in words: plain, in hexadecimal, in base 64, as Python shows bytes."""
    return [secret, secret.hex().encode(), base64.b64encode(secret).rstrip(b"="), repr(secret)[2:-1].encode()]


def secrets_of(home: Path) -> Iterator[bytes]:
    key = load_key(home / "identity.key", PASSPHRASE.encode())
    raw = key.private_bytes(Encoding.Raw, PrivateFormat.Raw, NoEncryption())
    yield from spellings_of(raw)
    yield from spellings_of(PASSPHRASE.encode())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    yield pem.splitlines()[1]


def fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=WAIT_S) as answer:
        content: bytes = answer.read()
        return content


def test_no_secret_reaches_the_log_the_terminal_or_the_status(tmp_path: Path) -> None:
    secret = {"HERODOTUS_PASSPHRASE": PASSPHRASE}
    home = tmp_path / "home"
    made = called(
        "init", "--home", home, "--network", "test", "--preset", "test", "--json", environment=secret
    )
    assert made.code == 0, made.err
    heard = [made.out, made.err]
    wordy = {**secret, "HERODOTUS_LOG_LEVEL": "debug"}
    with running(home, environment=wordy, options=["--debug", "-v"]) as peer:
        heard += [fetched(f"{peer.http}{path}").decode() for path in ("/", "/api/v1/status")]
        _, out, err = peer.end()
        heard += [out, err]
    # What goes wrong is what tends to show too much.
    for arguments in (["run", "--debug"], ["identity", "show", "--debug"], ["identity", "rotate", "--debug"]):
        wrong = called(*arguments, "--home", home, environment={"HERODOTUS_PASSPHRASE": PASSPHRASE + "x"})
        assert wrong.code == 2
        heard += [wrong.out, wrong.err]
    heard += [called("config", "show", "--home", home, environment=secret).out]
    said = "\n".join(heard).encode()
    written = b"\n".join(one.read_bytes() for one in (home / "log").iterdir())
    assert b"ready http=" in written
    for secret_bytes in secrets_of(home):
        assert secret_bytes not in said
        assert secret_bytes not in written
    elsewhere = [one for one in home.rglob("*") if one.is_file() and one.name != "identity.key"]
    raw = next(secrets_of(home))
    assert [one for one in elsewhere if raw in one.read_bytes()] == []


def open_to_others(home: Path) -> list[str]:
    """Below the home, whatever its own mode: a mounted disk may be everybody's."""
    reachable = []
    for folder, folders, files in os.walk(home):
        for name in files:
            path = Path(folder) / name
            if stat.S_IMODE(path.lstat().st_mode) & 0o077:
                reachable.append(str(path.relative_to(home)))
        # Nobody enters a folder that is its owner's alone, so what is in it may say what it likes.
        folders[:] = [one for one in folders if stat.S_IMODE((Path(folder) / one).stat().st_mode) & 0o077]
        reachable += [str((Path(folder) / one).relative_to(home)) for one in folders]
    return sorted(reachable)


@pytest.mark.parametrize("is_mounted", [False, True])
def test_nobody_else_may_look_into_a_home_that_was_used(tmp_path: Path, is_mounted: bool) -> None:
    home = tmp_path / "home"
    if is_mounted:  # an empty folder that was there already, open to all
        home.mkdir(mode=0o755)
    new_home(home)
    (tmp_path / "elsewhere").mkdir()
    archive = open_on(tmp_path / "elsewhere")
    store(archive, page("http://example.org/", NOW_S))
    archive.close()
    log = next((tmp_path / "elsewhere" / "log").iterdir())
    assert called("import", "--home", home, log).code == 0
    assert called("seed", "add", "--home", home, "http://127.0.0.1:40009/").code == 0
    called("crawl", "--home", home, "--limit", "1")
    assert called("remove", "--home", home, "--erase", "--yes", "http://example.org/").code == 0
    assert called("rebuild-index", "--home", home).code == 0
    with running(home) as peer:
        door = home / "state" / "door"
        assert stat.S_IMODE(door.stat().st_mode) == 0o600
        assert set(open_to_others(home)) <= PUBLIC
        assert peer.end()[0] == 0
    assert set(open_to_others(home)) <= PUBLIC
    assert stat.S_IMODE((home / "identity.key").stat().st_mode) == 0o600
    if not is_mounted:
        assert stat.S_IMODE(home.stat().st_mode) == 0o700


def test_what_is_open_to_others_is_found(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o700)
    (tmp_path / "closed" / "file").touch(mode=0o644)
    (tmp_path / "open").mkdir(mode=0o755)
    (tmp_path / "open" / "file").touch(mode=0o644)
    (tmp_path / "mine").touch(mode=0o600)
    assert open_to_others(tmp_path) == ["open", "open/file"]
