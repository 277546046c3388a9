"""Where do acknowledged bytes go that cannot be read any more, and what is known of them?

Into `quarantine/` beside the files that held them, byte for byte: `LOG-OFFSET.bin`, and `LOG-OFFSET.json` that names
the captures. Both are durable before the file that held them goes. They stay until each of these captures is whole
again or was deleted for good, and for thirty days after that. This module keeps the folder; `salvage` decides what
goes in.
"""

import hashlib
import json
import logging
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from herodotus.core.index_rows import CAPTURE, KEY_BYTES
from herodotus.core.warc import format_date
from herodotus.store.disk import Disk, exists, make_folder, read_file, sync_folder, write_file
from herodotus.store.files import Files

logger = logging.getLogger(__name__)

FOLDER = "quarantine"
VERSION = 1
ITEMS_MAX = 10_000
"""Two small files each, and some 500 bytes of memory: beyond, the disk is no place for an archive."""
OFFER_PARTS = 100
"""Of what the archive may take, one part may lie here."""
OFFER_MIN_BYTES = 10_000_000_000
"""Stands for an offer that is not bounded, or the archive itself where it is larger."""
NOTE_BYTES_MAX = 1024 * 1024
_NAME = re.compile(r"(\d{8,10})-(\d+)\.json")
_MOMENT_BYTES = KEY_BYTES + 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Lost:
    """A capture that had bytes there."""

    key: bytes
    """Of its index row, without the family; without the digest where only its list named it."""
    url: str = ""
    """Where something still says it."""
    arrival: int | None = None
    records: int = 0
    """So many of its records were whole and stayed in the archive; 0: the capture itself is lost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quarantined:
    file: int
    offset: int
    length: int
    source: str
    reason: str
    found_s: int
    captures: tuple[Lost, ...]
    """None where nobody can say whose bytes these are."""
    sha256: bytes = b""
    slice: int = 0
    is_in_place: bool = False
    """Too much for this folder: the bytes stay in their file, which is not sealed."""
    repaired_s: int | None = None

    @property
    def name(self) -> str:
        return f"{FOLDER}/{self.file:08}-{self.offset}"

    @property
    def count(self) -> int:
        """Captures; where nobody knows, at least one."""
        return max(1, len(self.captures))


def format_note(item: Quarantined) -> bytes:
    note = {
        "version": VERSION,
        "file": item.file,
        "offset": item.offset,
        "length": item.length,
        "source": item.source,
        "reason": item.reason,
        "found": item.found_s,
        "sha256": item.sha256.hex(),
        "in_place": item.is_in_place,
        "captures": [
            {
                "url": one.url,
                "date": format_date(_time_of(one.key)),
                "digest": one.key[_MOMENT_BYTES:].hex(),
                "key": one.key.hex(),
                "arrival": one.arrival,
                "records": one.records,
            }
            for one in item.captures
        ],
        "repaired": item.repaired_s,
    }
    return json.dumps(note, indent=1).encode() + b"\n"


def parse_note(data: bytes, slice_: int) -> Quarantined:
    """Raises ValueError or another LookupError or TypeError for what is no note."""
    note: dict[str, Any] = json.loads(data)
    if note["version"] != VERSION:
        raise ValueError(f"a note of version {note['version']}")
    return Quarantined(
        file=int(note["file"]),
        offset=int(note["offset"]),
        length=int(note["length"]),
        source=str(note["source"]),
        reason=str(note["reason"]),
        found_s=int(note["found"]),
        captures=tuple(
            Lost(
                key=_key(one["key"]),
                url=str(one["url"]),
                arrival=None if one["arrival"] is None else int(one["arrival"]),
                records=int(one["records"]),
            )
            for one in note["captures"]
        ),
        sha256=bytes.fromhex(note["sha256"]),
        slice=slice_,
        is_in_place=bool(note["in_place"]),
        repaired_s=None if note["repaired"] is None else int(note["repaired"]),
    )


def _key(text: str) -> bytes:
    key = bytes.fromhex(text)
    if len(key) not in (_MOMENT_BYTES, _MOMENT_BYTES + 3):
        raise ValueError("a key has another length")
    return key


def _time_of(key: bytes) -> int:
    return int.from_bytes(key[KEY_BYTES:_MOMENT_BYTES], "big")


class Quarantine:
    def __init__(self, files: Files) -> None:
        self._files = files
        self.items: dict[tuple[int, int], Quarantined] = {}
        """By file and offset, those that were repaired included."""
        self.waiting: list[Quarantined] = []
        """Not repaired yet, the first found first."""
        self.bytes_used = 0
        self._lost: dict[bytes, list[tuple[Quarantined, Lost]]] = {}
        """Of those, by URL and second."""

    def __bool__(self) -> bool:
        return bool(self.items)

    # -- asked --------------------------------------------------------------------------------------------

    @property
    def captures(self) -> int:
        return sum(item.count for item in self.waiting)

    def keys(self) -> Iterator[bytes]:
        """Index keys of the captures that are waited for; they may lack the digest."""
        for item in self.waiting:
            for one in item.captures:
                yield CAPTURE + one.key

    def urls(self) -> Iterator[str]:
        """Those that are known."""
        return (one.url for item in self.waiting for one in item.captures if one.url)

    def lost(self, key: bytes) -> tuple[Quarantined, Lost] | None:
        """Where the bytes of a capture are that is waited for; `key` is of the index."""
        pairs = self._lost.get(key[1 : 1 + _MOMENT_BYTES], ())
        return next(((item, one) for item, one in pairs if key[1:].startswith(one.key)), None)

    def has_room(self, bytes_: int, count: int, offer: int | None) -> bool:
        most = max(OFFER_MIN_BYTES, self._files.bytes_used()) if offer is None else offer
        return self.bytes_used + bytes_ <= most // OFFER_PARTS and len(self.items) + count <= ITEMS_MAX

    # -- changed ------------------------------------------------------------------------------------------

    def load(self) -> None:
        items: dict[tuple[int, int], Quarantined] = {}
        for slice_ in self._files.present:
            disk = self._files.disk(slice_)
            for name in sorted(disk.listdir(FOLDER)) if exists(disk, FOLDER) else ():
                found = _NAME.fullmatch(name)
                if found is not None:
                    at = int(found[1]), int(found[2])
                    items[at] = _read_note(disk, slice_, f"{FOLDER}/{name}", at)
                elif name.endswith(".part"):
                    with suppress(OSError):
                        disk.unlink(f"{FOLDER}/{name}")
        self.items = items
        self.changed()
        # What had no room here is still where it was, and must not go with its file.
        self._files.unreadable |= {item.file for item in items.values() if item.is_in_place}

    def put(self, item: Quarantined, data: bytes) -> None:
        """Durable when it returns; `changed` follows. OSError when no disk takes it: then its file must stay."""
        known = self.items.get((item.file, item.offset))
        if known is not None and known.length >= item.length and known.repaired_s is None:
            # Found again, or its file could not go the last time: who knew more captures then, keeps them.
            item = replace(item, captures=_joined(item.captures, known.captures), found_s=known.found_s)
        item = replace(item, sha256=b"" if item.is_in_place else hashlib.sha256(data).digest())
        failures: list[OSError] = []
        for slice_ in sorted(self._files.present, key=lambda one: (one != item.slice, one)):
            try:
                self._write(replace(item, slice=slice_), data)
            except OSError as error:
                failures.append(error)
            else:
                logger.warning(
                    "quarantined source=%s offset=%d bytes=%d captures=%d",
                    item.source,
                    item.offset,
                    item.length,
                    len(item.captures),
                )
                return
        raise failures[0]

    def _write(self, item: Quarantined, data: bytes) -> None:
        disk = self._files.disk(item.slice)
        make_folder(disk, FOLDER)
        # The bytes first: a note says that they are there.
        if not item.is_in_place:
            write_file(disk, item.name + ".bin", [data])
        write_file(disk, item.name + ".json", [format_note(item)])
        self.items[item.file, item.offset] = item

    def repaired(self, item: Quarantined, now_s: int) -> None:
        item = replace(item, repaired_s=now_s)
        write_file(self._files.disk(item.slice), item.name + ".json", [format_note(item)])
        self.items[item.file, item.offset] = item
        self.changed()

    def discard(self, item: Quarantined) -> None:
        """For good. A note without its bytes, after a crash, is discarded again."""
        disk = self._files.disk(item.slice)
        for path in (item.name + ".bin", item.name + ".json"):
            if exists(disk, path):
                disk.unlink(path)
        sync_folder(disk, FOLDER)
        self.items.pop((item.file, item.offset), None)
        self.changed()

    def changed(self) -> None:
        """Say to all readers what is here now."""
        waiting = [item for item in self.items.values() if item.repaired_s is None]
        waiting.sort(key=lambda item: (item.found_s, item.file, item.offset))
        lost: dict[bytes, list[tuple[Quarantined, Lost]]] = {}
        for item in waiting:
            for one in item.captures:
                lost.setdefault(one.key[:_MOMENT_BYTES], []).append((item, one))
        self.bytes_used = sum(item.length for item in self.items.values() if not item.is_in_place)
        self.waiting, self._lost = waiting, lost  # whole, as readers in other threads see them


def _joined(new: Sequence[Lost], old: Sequence[Lost]) -> tuple[Lost, ...]:
    return (
        *new,
        *(one for one in old if all(one.key[:_MOMENT_BYTES] != known.key[:_MOMENT_BYTES] for known in new)),
    )


def _read_note(disk: Disk, slice_: int, path: str, at: tuple[int, int]) -> Quarantined:
    """A note that cannot be read is no reason to forget the bytes beside it."""
    try:
        return parse_note(read_file(disk, path, NOTE_BYTES_MAX), slice_)
    except (OSError, ValueError, LookupError, TypeError) as error:
        logger.warning("note in quarantine cannot be read path=%s error=%s", path, error)
    length = 0
    with suppress(OSError):
        length = disk.stat(path.removesuffix(".json") + ".bin").st_size
    return Quarantined(
        file=at[0],
        offset=at[1],
        length=length,
        source=f"file {at[0]}",
        reason="its note cannot be read",
        found_s=0,
        captures=(),
        slice=slice_,
    )
