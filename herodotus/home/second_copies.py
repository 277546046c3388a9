"""What if one of a home's small files is lost, or a bit of it turns over? Each is kept twice, and put back.

Settings, charter, mark, key, record and the JSON files of `state/` are in no other place: a peer that lost one would
not start, or would forget what it was told to hide. The second copy lies in `state/second/`: the file's bytes, and
behind them the first eight bytes of their BLAKE2b (docs/protocol/home.md). It guards against a bad sector and a slip of
the hand, and is no backup: it lies on the same disk.

A second copy never wins against what somebody wrote: see `is_damage`.
"""

import json
import logging
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from herodotus.core.errors import HerodotusError, StorageFailure
from herodotus.home.durable import set_aside, write_durably

logger = logging.getLogger(__name__)

FOLDER = "second"
CHECK_BYTES = 8
TURNED_MAX = 8
"""Bytes that differ in a file of the same length: nobody writes so little into a file that programs write."""


class Kept(NamedTuple):
    content: bytes
    changed_s: float
    """When the copy was written, by the disk; copying and restoring cannot pretend it."""


def second_of(path: Path) -> Path:
    """Of a file in `state/`."""
    return path.parent / FOLDER / path.name


def encode(content: bytes) -> bytes:
    return content + blake2b(content, digest_size=CHECK_BYTES).digest()


def keep(content: bytes, second: Path) -> None:
    """A disk that refuses it is no trouble yet: the first copy is there."""
    try:
        if not second.parent.is_dir():
            if second.parent.exists():
                set_aside(second.parent)
            second.parent.mkdir(mode=0o700, exist_ok=True)
        write_durably(second, encode(content), mode=0o600)
    except (OSError, StorageFailure) as error:
        logger.warning("no second copy path=%s error=%s", second, error)


def kept(second: Path) -> Kept | None:
    """None where there is none, or it is damaged itself."""
    with suppress(OSError):
        data = second.read_bytes()
        content = data[:-CHECK_BYTES]
        if encode(content) == data:
            return Kept(content, second.stat().st_ctime)
    return None


def is_damage(path: Path, content: bytes, copy: Kept, *, is_by_hand: bool = False) -> bool:
    """Whether the file is what was kept, with damage, rather than something that somebody wrote later. A disk that rots
    changes bytes and no times. `is_by_hand`: people change a few bytes of it."""
    if content == copy.content:
        return False
    is_later = path.stat().st_ctime > copy.changed_s
    if not is_later or copy.content.startswith(content):
        return True
    is_as_long = len(content) == len(copy.content)
    turned = sum(one != other for one, other in zip(content, copy.content, strict=False))
    return is_as_long and turned <= TURNED_MAX and not is_by_hand


def put_back(path: Path, content: bytes, problem: str, *, mode: int = 0o600) -> None:
    """Raises StorageFailure, OSError."""
    logger.warning("put back from its second copy path=%s problem=%s", path, problem)
    if path.exists():
        set_aside(path)
    write_durably(path, content, mode=mode)


def read_twice_kept(path: Path, bytes_max: int, is_sound: Callable[[bytes], bool]) -> bytes | None:
    """A file of `state/`, or its second copy where the first is gone or damaged; None where neither is there. Raises
    OSError."""
    copy, content, problem = kept(second_of(path)), None, "it was gone"
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max)
        problem = "it is damaged"
    except FileNotFoundError:
        pass
    except IsADirectoryError:
        problem = "it is a folder"
    is_whole = content is not None and (copy is None or not is_damage(path, content, copy))
    if copy is None or (is_whole and is_sound(content or b"")):
        return content
    with suppress(OSError, StorageFailure):
        put_back(path, copy.content, problem)
    return copy.content


def write_twice(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Raises StorageFailure where the first copy cannot be written."""
    write_durably(path, content, mode=mode)
    keep(content, second_of(path))


# -- the files that make a home ---------------------------------------------------------------------------


class _Member(NamedTuple):
    path: Path
    mode: int
    is_by_hand: bool = False
    may_end_earlier: bool = False
    """Somebody may take its last lines out, and mean it."""


def _members(home: Path) -> Iterator[_Member]:
    yield _Member(home / "state" / "home.json", 0o644)
    yield _Member(home / "network.toml", 0o644, is_by_hand=True)
    yield _Member(home / "config.toml", 0o600, is_by_hand=True, may_end_earlier=True)
    yield _Member(home / "identity.key", 0o600)
    yield _Member(home / "identity.previous.key", 0o600)


def _second(home: Path, path: Path) -> Path:
    return home / "state" / FOLDER / path.name


def restore_home(home: Path) -> list[str]:
    """Put back what is lost or damaged; names of those files. For a home that is locked, or about to be."""
    return [one.path.name for one in _members(home) if _restore(home, one)]


class HomeWatch:
    """Puts back what a running peer's home lost. What is hurt at one look may just be written; at two it is not."""

    def __init__(self, home: Path, hold_on: Callable[[], bool]) -> None:
        """`hold_on` looks after the lock: True where it had to be taken again."""
        self._home = home
        self._hold_on = hold_on
        self._hurt: set[str] = set()

    def look(self) -> list[str]:
        return [*(["lock"] if self._lost_the_lock() else []), *self._put_back()]

    def _lost_the_lock(self) -> bool:
        try:
            return self._hold_on()
        except (OSError, HerodotusError) as error:
            logger.warning("the home's lock is not ours any more error=%s", error)
            return False

    def _put_back(self) -> list[str]:
        hurt = {one.path.name: one for one in _members(self._home) if _problem_of(self._home, one)}
        again = [one for name, one in hurt.items() if name in self._hurt]
        self._hurt = set(hurt)
        return [one.path.name for one in again if _restore(self._home, one)]


def _restore(home: Path, member: _Member) -> bool:
    copy = kept(_second(home, member.path))
    if copy is None:
        return False
    try:
        problem = _problem(member, copy)
        if problem:
            put_back(member.path, copy.content, problem, mode=member.mode)
    except (OSError, HerodotusError) as error:
        logger.warning("not put back path=%s error=%s", member.path, error)
        return False
    return bool(problem)


def _problem_of(home: Path, member: _Member) -> str:
    copy = kept(_second(home, member.path))
    if copy is None:
        return ""
    try:
        return _problem(member, copy)
    except OSError as error:
        return str(error)


def keep_home(home: Path) -> None:
    """All that makes the home was read and is sound."""
    for path, *_ in _members(home):
        second = _second(home, path)
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            second.unlink(missing_ok=True)
            continue
        except OSError:
            continue
        copy = kept(second)
        if copy is None or copy.content != content:
            keep(content, second)


def forget(home: Path, name: str) -> None:
    """What is to be in no place any more."""
    _second(home, home / name).unlink(missing_ok=True)


def _problem(member: _Member, copy: Kept) -> str:
    path = member.path
    if path.is_dir():
        return "it is a folder"
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return "it was gone"
    if member.may_end_earlier and _ends_at_a_line(content, copy.content) and _is_toml(content):
        return ""
    if is_damage(path, content, copy, is_by_hand=member.is_by_hand):
        return "it is damaged"
    if not _can_be_read(path.name, content):
        return "it cannot be read"
    return ""


def _ends_at_a_line(content: bytes, kept_content: bytes) -> bool:
    """Whether whole lines are missing at the end, and nothing else."""
    rest = kept_content[len(content) :]
    is_at_a_line = content.endswith(b"\n") or rest.startswith(b"\n")
    return bool(content) and kept_content.startswith(content) and is_at_a_line


def _is_toml(content: bytes) -> bool:
    try:
        tomllib.loads(content.decode())
    except (ValueError, RecursionError):
        return False
    return True


def _can_be_read(name: str, content: bytes) -> bool:
    """Of files that only programs write. What a person wrote is answered with the line that is wrong."""
    try:
        if name == "home.json":
            mark = json.loads(content)
            bytes.fromhex(mark["network"])
        elif name.endswith(".key"):
            return b"ENCRYPTED" in content or isinstance(
                load_pem_private_key(content, None), Ed25519PrivateKey
            )
    except (ValueError, KeyError, TypeError, RecursionError):
        return False
    return True
