"""Which new captures do their holders not have yet, also after a crash? A short list on disk.

Segments of capture keys in `state/copies/`, written after the store has acknowledged: a crash may lose a key, because
comparing copies finds it anyway. A segment goes when every holder of every key in it has answered. Captures that do
not fit are not listed; their holders are compared with instead.
"""

import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from herodotus.copies.wire import CAPTURE_KEY_BYTES

logger = logging.getLogger(__name__)

SEGMENT_KEYS = 4_096
BACKLOG_MAX = 65_536
"""Captures that wait for a holder: ten minutes of a fast crawl, 20 MB of memory."""
_HEAD = b"herodotus copies 1\n"
_NAME = re.compile(r"\d{8}\.keys")


@dataclass(frozen=True, slots=True, kw_only=True)
class Added:
    segment: int
    taken: list[bytes]
    """Those that are new on the list."""
    refused: list[bytes]
    """For which there was no room."""


class Backlog:
    """Without a folder it forgets, for tests and simulations. Not for use from several threads."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._segment_of: dict[bytes, int] = {}
        self._left: dict[int, int] = {}
        self._open = 1
        self._added = 0

    def __len__(self) -> int:
        return len(self._segment_of)

    def __contains__(self, key: bytes) -> bool:
        return key in self._segment_of

    def load(self) -> list[bytes]:
        """What was on it when the peer ended, in order. A torn end is left out."""
        if self._folder is None:
            return []
        self._folder.mkdir(mode=0o700, exist_ok=True)
        for path in sorted(path for path in self._folder.iterdir() if _NAME.fullmatch(path.name)):
            number = int(path.name[:8])
            self._open = max(self._open, number + 1)
            for key in _keys_in(path):
                if key not in self._segment_of and len(self._segment_of) < BACKLOG_MAX:
                    self._segment_of[key] = number
                    self._left[number] = self._left.get(number, 0) + 1
            if number not in self._left:
                path.unlink()
        return list(self._segment_of)

    def add(self, keys: Iterable[bytes]) -> "Added":
        """`write` makes them durable."""
        if self._added >= SEGMENT_KEYS:
            self._begin_segment()
        taken: list[bytes] = []
        refused: list[bytes] = []
        for key in keys:
            if key in self._segment_of:
                continue
            if len(self._segment_of) >= BACKLOG_MAX:
                refused.append(key)
                continue
            self._segment_of[key] = self._open
            taken.append(key)
        self._added += len(taken)
        if taken:
            self._left[self._open] = self._left.get(self._open, 0) + len(taken)
        return Added(segment=self._open, taken=taken, refused=refused)

    def _begin_segment(self) -> None:
        self.end()
        self._open += 1
        self._added = 0

    def write(self, added: "Added") -> None:
        """Blocks on the disk; may be called in a thread. An OSError is logged: the list is a help, not the truth."""
        if self._folder is None or not added.taken:
            return
        try:
            with self._path(added.segment).open("ab") as file:
                if file.tell() == 0:
                    file.write(_HEAD)
                file.write(b"".join(added.taken))
                file.flush()
                os.fdatasync(file.fileno())
        except OSError as error:
            logger.warning("the list of copies to send cannot be written error=%s", error)

    def settle(self, key: bytes) -> None:
        """Every holder has answered for it."""
        number = self._segment_of.pop(key, None)
        if number is None:
            return
        self._left[number] -= 1
        if not self._left[number]:
            del self._left[number]
            if self._folder is not None and number != self._open:
                self._path(number).unlink(missing_ok=True)

    def end(self) -> None:
        """Leave no segment behind that has nothing in it."""
        if self._folder is not None and self._open not in self._left:
            self._path(self._open).unlink(missing_ok=True)

    def _path(self, number: int) -> Path:
        assert self._folder is not None
        return self._folder / f"{number:08}.keys"


def _keys_in(path: Path) -> list[bytes]:
    data = path.read_bytes()
    if not data.startswith(_HEAD):
        logger.warning("not a list of copies to send, left alone path=%s", path)
        return []
    data = data[len(_HEAD) :]
    whole = len(data) - len(data) % CAPTURE_KEY_BYTES
    return [data[at : at + CAPTURE_KEY_BYTES] for at in range(0, whole, CAPTURE_KEY_BYTES)]
