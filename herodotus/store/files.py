"""Of which files does the archive consist, and which bytes are at a place?

Several slices (disks, or folders on them) make one archive; a missing slice takes its own files away and
nothing else. Open files are kept, within a bound, and the present readers of a removed file read it to the end.
"""

import errno
import hashlib
import os
import re
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from threading import Lock

from cachetools import LRUCache

from herodotus.core.errors import DamagedRecordError, MalformedRecordError
from herodotus.core.index_rows import FilePlace
from herodotus.core.layout import (
    DICTIONARY_FIELD,
    JOURNAL_FOLDER,
    LOG_FOLDER,
    SEGMENT_FOLDER,
    FileName,
    parse_path,
)
from herodotus.core.manifest import MANIFEST_FOLDER
from herodotus.store.disk import Disk, exists, is_folder, make_folder, read_file
from herodotus.store.members import (
    DICTIONARY_BYTES_MAX,
    Dictionary,
    decode_member,
    dictionary_bytes_at_start,
)
from herodotus.store.spools import OnDisk

OPEN_FILES_MAX = 256
LARGE_KNOWN_MAX = 64
DICTIONARIES_MAX = 64  # of 110 kB each, and as much again prepared
PIECE_BYTES = 1024 * 1024
SECTOR_BYTES = 4_096
MISSING_NUMBERS = 1_000_000  # 256 TB of segments; the index has room for 4,000 such leaps


_DICTIONARY_DIGEST = re.compile(DICTIONARY_FIELD.encode() + rb": sha256:([0-9a-f]{64})\r\n")


@dataclass(slots=True, eq=False)
class _Open:
    fd: int
    users: int = 0
    is_retired: bool = False


@dataclass(frozen=True, slots=True)
class Located:
    slice: int
    name: FileName


class Files:
    def __init__(self, slices: Sequence[Disk | None]) -> None:
        self.slices = tuple(slices)
        self.catalogue: dict[int, Located] = {}
        self._sizes: dict[int, int] = {}
        self.foreign: list[str] = []
        """Files in the archive's folders that are none of ours: reported, left alone."""
        self.unreadable: set[int] = set()
        """Files with places that the disk could not read since opening: not cut, and not removed for new ones. And
        those that a journal removes when its slice is back."""
        self._large: LRUCache[FilePlace, object] = LRUCache(LARGE_KNOWN_MAX)
        self._dictionaries: OrderedDict[int, Dictionary | None] = OrderedDict()
        self._open: OrderedDict[int, _Open] = OrderedDict()
        self._lock = Lock()
        self._last_number = 0
        self._given_before = 0

    @property
    def present(self) -> list[int]:
        return [number for number, disk in enumerate(self.slices) if disk is not None]

    @property
    def missing(self) -> list[int]:
        return [number for number, disk in enumerate(self.slices) if disk is None]

    def disk(self, number: int) -> Disk:
        disk = self.slices[number]
        if disk is None:
            raise FileNotFoundError(f"slice {number} is missing")
        return disk

    def make_folders(self) -> None:
        for number in self.present:
            for folder in (LOG_FOLDER, JOURNAL_FOLDER, SEGMENT_FOLDER, MANIFEST_FOLDER):
                make_folder(self.disk(number), folder)

    def load(self) -> None:
        """Read the directory listings, which are the catalogue."""
        catalogue: dict[int, Located] = {}
        foreign: list[str] = []
        for number in self.present:
            for path in self._paths(self.disk(number)):
                name = parse_path(path)
                if name is not None and not is_folder(self.disk(number), path):
                    catalogue[name.number] = Located(number, name)
                elif not path.endswith((".cdxj", ".zdict", ".part")):
                    foreign.append(path)
        # At once: there may be readers, who must not find a half.
        self.catalogue, self.foreign = catalogue, foreign

    def _paths(self, disk: Disk) -> Iterator[str]:
        for folder in (LOG_FOLDER, SEGMENT_FOLDER):
            if not exists(disk, folder):
                continue
            for name in sorted(disk.listdir(folder)):
                path = f"{folder}/{name}"
                if folder == SEGMENT_FOLDER and len(name) == 1 and is_folder(disk, path):
                    yield from (f"{path}/{below}" for below in sorted(disk.listdir(path)))
                else:
                    yield path

    def take_number(self) -> int:
        """A new file number. It is never given twice, not even while its file is still being written."""
        given = max(self._given_before, max(self.catalogue, default=0))
        if not self._last_number and len(self.present) < len(self.slices):
            # What a missing slice holds has numbers that nobody here knows: stay clear of them.
            given += MISSING_NUMBERS
        self._last_number = max(self._last_number, given) + 1
        return self._last_number

    def keep_clear_of(self, number: int) -> None:
        """It was given once, and all below it, whether or not there is such a file today."""
        self._given_before = max(self._given_before, number)

    def logs(self) -> list[int]:
        return sorted(number for number, at in self.catalogue.items() if at.name.is_log)

    def segments(self) -> list[int]:
        """In ring order, oldest first within a bucket."""
        found = [at.name for at in self.catalogue.values() if not at.name.is_log]
        return [name.number for name in sorted(found, key=lambda name: (name.bucket, name.number))]

    def size(self, number: int) -> int:
        located = self.catalogue[number]
        return self.disk(located.slice).stat(located.name.path).st_size

    def bytes_used(self) -> int:
        """The size of all files. Sealed ones never change, so only logs are measured each time."""
        sizes: dict[int, int] = {}
        for number, located in list(self.catalogue.items()):
            known = None if located.name.is_log else self._sizes.get(number)
            with suppress(FileNotFoundError):  # it went, rightly or not: others say so
                sizes[number] = self.size(number) if known is None else known
        self._sizes = sizes
        return sum(sizes.values())

    def path(self, number: int) -> str:
        located = self.catalogue.get(number)
        return f"file {number}" if located is None else located.name.path

    def read(self, place: FilePlace) -> bytes:
        """The bytes at a place; DamagedRecordError when the file ends before."""
        data = self.read_at(place.file, place.offset, place.length)
        if len(data) != place.length:
            raise DamagedRecordError(
                self.path(place.file), place.offset, "the file ends before the record does"
            )
        return data

    def known_large(self, place: FilePlace) -> object:
        """What was told of a large capture there; None when nothing was."""
        with self._lock:
            return self._large.get(place)

    def know_large(self, place: FilePlace, found: object) -> None:
        """No place is ever used for something else."""
        with self._lock:
            self._large[place] = found

    def forget_large(self, place: FilePlace) -> None:
        with self._lock:
            self._large.pop(place, None)

    def lying(self, place: FilePlace) -> OnDisk:
        """The same, to be read in slices. Its file may go meanwhile, which is then a FileNotFoundError."""
        return OnDisk(lambda at, length: self.read_at(place.file, place.offset + at, length), place.length)

    def read_at(self, number: int, offset: int, length: int) -> bytes:
        disk, opened = self._acquire(number)
        try:
            data = self._pread(disk, opened, number, length, offset)
            while 0 < len(data) < length:  # a single read stops at 2 GiB, and on some file systems earlier
                more = self._pread(disk, opened, number, length - len(data), offset + len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            with self._lock:
                opened.users -= 1
                if opened.is_retired and not opened.users:
                    disk.close(opened.fd)

    def _pread(self, disk: Disk, opened: _Open, number: int, length: int, offset: int) -> bytes:
        """Unreadable bytes are replaced by zeros, which checksums detect: a bad sector costs only its own
        contents."""
        try:
            return disk.pread(opened.fd, length, offset)
        except OSError as error:
            if error.errno != errno.EIO:
                raise
        self.unreadable.add(number)
        data = bytearray()
        while len(data) < length:
            wanted = min(SECTOR_BYTES - (offset + len(data)) % SECTOR_BYTES, length - len(data))
            try:
                piece = disk.pread(opened.fd, wanted, offset + len(data))
            except OSError as error:
                if error.errno != errno.EIO:
                    raise
                piece = bytes(wanted)
            data += piece
            if len(piece) < wanted:
                break
        return bytes(data)

    def dictionary(self, number: int) -> Dictionary | None:
        """The dictionary of a segment's frames; None for nearly all segments."""
        located = self.catalogue.get(number)
        if located is None or located.name.is_log or not located.name.codec.takes_dictionary:
            return None
        with self._lock:
            if number in self._dictionaries:
                self._dictionaries.move_to_end(number)
                return self._dictionaries[number]
        found = self._load_dictionary(number, located)
        with self._lock:
            self._dictionaries[number] = found
            if len(self._dictionaries) > DICTIONARIES_MAX:
                self._dictionaries.popitem(last=False)
        return found

    def _load_dictionary(self, number: int, located: Located) -> Dictionary | None:
        """It is in the file and beside it, so that rot in one of them does not cost the segment. The warcinfo
        record, which needs no dictionary, says which one is whole."""
        embedded = dictionary_bytes_at_start(partial(self.read_at, number))
        if embedded is None:
            return None
        candidates = [embedded]
        with suppress(FileNotFoundError):
            candidates.append(read_file(self.disk(located.slice), located.name.zdict, DICTIONARY_BYTES_MAX))
        with suppress(MalformedRecordError):
            info, _ = decode_member(self.read_at(number, 8 + len(embedded), PIECE_BYTES))
            stated = _DICTIONARY_DIGEST.search(info)
            for content in candidates:
                if stated is not None and hashlib.sha256(content).hexdigest() == stated[1].decode():
                    return Dictionary(content)
        return None

    def _acquire(self, number: int) -> tuple[Disk, _Open]:
        located = self.catalogue.get(number)
        if located is None:
            raise FileNotFoundError(f"the archive has no file {number}")
        disk = self.disk(located.slice)
        with self._lock:
            opened = self._open.get(number)
            if opened is None:
                opened = _Open(disk.open(located.name.path, os.O_RDONLY))
                self._open[number] = opened
                self._shrink(disk)
            self._open.move_to_end(number)
            opened.users += 1
        return disk, opened

    def _shrink(self, disk: Disk) -> None:
        while len(self._open) > OPEN_FILES_MAX:
            number, opened = self._open.popitem(last=False)
            self._retire(
                self.disk(self.catalogue[number].slice) if number in self.catalogue else disk, opened
            )

    def _retire(self, disk: Disk, opened: _Open) -> None:
        opened.is_retired = True
        if not opened.users:
            disk.close(opened.fd)

    def add(self, slice_: int, name: FileName) -> None:
        self.catalogue[name.number] = Located(slice_, name)

    def forget(self, number: int) -> None:
        """The file is removed; its present readers read on."""
        located = self.catalogue.pop(number, None)
        self.unreadable.discard(number)
        with self._lock:
            self._dictionaries.pop(number, None)
            opened = self._open.pop(number, None)
            if opened is not None and located is not None:
                self._retire(self.disk(located.slice), opened)

    def close(self) -> None:
        with self._lock:
            for number, opened in self._open.items():
                self._retire(self.disk(self.catalogue[number].slice), opened)
            self._open.clear()
