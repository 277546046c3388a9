"""How does a sealed segment come to be? Ring-ordered captures, versions of a URL in one frame, an index
beside it.

A segment is written as `.part` and gets its name from the journal. It is never changed afterwards.

Which `.cdxj` lines belong to a member that is copied unchanged? Those in the list beside its segment.
"""

import os
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from typing import NamedTuple

from cachetools import FIFOCache

from herodotus.core.cdxj import format_line, move_line, place_of_line
from herodotus.core.index_rows import KEY_BYTES, FilePlace, IndexEntry
from herodotus.core.layout import CDXJ_BYTES_MAX, DICTIONARY_FIELD, Compression, FileName
from herodotus.core.warc import Fields
from herodotus.store.disk import exists, make_folder, read_file, write_all
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.journal import PART
from herodotus.store.large_captures import LargeCapture
from herodotus.store.log import format_warcinfo
from herodotus.store.members import (
    ZSTD_LEVEL,
    Dictionary,
    gzip_in_parts,
    gzip_member,
    gzip_stored,
    member_of_codec,
    zstd_frame,
    zstd_frame_in_pieces,
)
from herodotus.store.stored_records import StoredCapture

PACK_VERSIONS_MAX = 16
PACK_BYTES_MAX = 256 * 1024
_BUFFER_BYTES = 1024 * 1024
_FAST_LEVEL = 1
URL_BYTES = 1 + KEY_BYTES
"""Of an index key: its family and the position, which all versions of a URL share."""


class Row(NamedTuple):
    """Of a capture that moves: its index key, the value that must still stand there, and its entry: the one in that
    value, or the new one."""

    key: bytes
    value: bytes
    entry: IndexEntry

    def at(self, place: FilePlace) -> "Row":
        return Row(self.key, self.value, IndexEntry(place, self.entry.kind, self.entry.arrival))


class Moving(NamedTuple):
    """A capture on its way: its row, and its records as written."""

    row: Row
    capture: StoredCapture
    parts: tuple[bytes, ...]
    """None of a capture whose body is not held."""
    packed: bytes | None
    """Its members, if they can be copied unchanged."""

    @property
    def mime(self) -> str:
        return mime_of(self.capture)

    @property
    def size(self) -> int:
        return sum(map(len, self.parts))


class SegmentWriter:
    def __init__(
        self,
        files: Files,
        slice_: int,
        name: FileName,
        software: Fields,
        time_s: int,
        dictionary: Dictionary | None = None,
    ) -> None:
        self.name = name
        self.slice = slice_
        self._file_name = name.path.rpartition("/")[2]
        self.moved: list[Row] = []
        """With the new entries."""
        self._disk = files.disk(slice_)
        self._lines: list[str] = []
        self._buffers: list[bytes] = []
        self._buffered = 0
        self._written = 0
        make_folder(self._disk, name.path.rpartition("/")[0])
        self._fd = self._disk.open(name.path + PART, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        self.dictionary = dictionary
        if dictionary is not None:
            self._append(dictionary.frame)
            software = (*software, (DICTIONARY_FIELD, f"sha256:{dictionary.sha256.hex()}"))
        info = format_warcinfo(name, time_s, software)
        self._append(member_of_codec(name.codec, info))

    @property
    def size(self) -> int:
        return self._written + self._buffered

    def add_pack(self, pack: Sequence[Moving], *, is_compressed: bool) -> None:
        """Versions of one URL, oldest first: in one member, or a member to the record."""
        if self.name.codec.shares_members:
            # Versions of a page are nearly the same text, so one frame for them costs little more than for one of them.
            # To read the last, all of them are decoded: hence the two bounds on a pack.
            content, skips = bytearray(), []
            for moving in pack:
                skips.append(len(content))
                for part in moving.parts:
                    content += part
            self._add_member(pack, self._encode(bytes(content), is_compressed=is_compressed), skips)
            return
        encode = gzip_stored if is_compressed else gzip_member
        for moving in pack:
            member = moving.packed
            if member is None:
                member = b"".join((encode(moving.parts[0]), *map(gzip_member, moving.parts[1:])))
            self._add_member([moving], member, [0])

    def add_large(self, moving: Moving, capture: LargeCapture, *, is_compressed: bool) -> None:
        """In a member of its own, which is never held as a whole."""
        beside = capture.beside
        if self.name.codec.shares_members:
            size = capture.following + sum(map(len, beside))
            level = _FAST_LEVEL if is_compressed else ZSTD_LEVEL
            parts = zstd_frame_in_pieces(chain(capture.own_pieces(), beside), size, level)
        else:
            own = gzip_in_parts(capture.own_pieces(), is_stored=is_compressed)
            parts = chain(own, map(gzip_member, beside))
        offset = self.size
        for part in parts:
            if part:
                self._append(part)
        self._place([moving], offset, [0])

    def add_copied(self, member: bytes, pack: Sequence[Row], lines: Sequence[str]) -> None:
        """A member of another segment as it is: rows and lines of its captures."""
        offset = self._append(member)
        assert self._is_next(pack[0].key, offset)
        for row, line in zip(pack, lines, strict=True):
            self.moved.append(row.at(FilePlace(self.name.number, offset, len(member), row.entry.place.skip)))
            self._lines.append(move_line(line, offset, self._file_name))

    def _add_member(self, pack: Sequence[Moving], member: bytes, skips: Sequence[int]) -> None:
        offset = self._append(member)
        self._place(pack, offset, skips)

    def _place(self, pack: Sequence[Moving], offset: int, skips: Sequence[int]) -> None:
        """What was appended from there on is theirs."""
        assert self._is_next(pack[0].row.key, offset)
        length = self.size - offset
        for moving, skip in zip(pack, skips, strict=True):
            place = FilePlace(self.name.number, offset, length, skip)
            self.moved.append(moving.row.at(place))
            self._lines.append(line_of(moving.capture, place, self._file_name))

    def _is_next(self, key: bytes, offset: int) -> bool:
        """Offsets grow and URLs ascend, so that an arc of the ring is one stretch of the file. Within a URL members
        that were copied come before those that were packed again."""
        if not self.moved:
            return True
        last = self.moved[-1]
        return last.entry.place.offset < offset and last.key[:URL_BYTES] <= key[:URL_BYTES]

    def add_note(self, record: bytes) -> int:
        return self._append(self._encode(record))

    def _encode(self, content: bytes, *, is_compressed: bool = False) -> bytes:
        if self.name.codec is Compression.ZSTD and is_compressed:
            return zstd_frame(content, _FAST_LEVEL)
        if self.dictionary is not None:
            return self.dictionary.encode(content)
        return member_of_codec(self.name.codec, content)

    def _append(self, member: bytes) -> int:
        offset = self.size
        self._buffers.append(member)
        self._buffered += len(member)
        if self._buffered >= _BUFFER_BYTES:
            self._write()
        return offset

    def _write(self) -> None:
        end = self.size
        self._written = write_all(self._disk, self._fd, self._buffers, self._written)
        assert self._written == end, "offsets were given out for bytes that were not written yet"
        self._buffers, self._buffered = [], 0

    def give_up(self) -> None:
        """Remove the files written so far. The next opening removes any that remain."""
        with suppress(OSError):
            if self._fd >= 0:
                self._disk.close(self._fd)
        self._fd = -1
        for path in (self.name.path, self.name.cdxj, self.name.zdict):
            if exists(self._disk, path + PART):
                with suppress(OSError):
                    self._disk.unlink(path + PART)

    def finish(self) -> list[tuple[int, str]]:
        """Slice and path of the files, whole and durable but for their names."""
        # All is durable under names that the next opening would remove. Only the journal makes them count, so a crash
        # at any step here leaves the old files, whole, and nothing else.
        self._write()
        self._disk.fsync(self._fd)
        self._disk.close(self._fd)
        self._fd = -1
        lines = "".join(f"{line}\n" for line in sorted(self._lines)).encode()
        beside = [(self.name.cdxj, lines)]
        if self.dictionary is not None:
            beside.append((self.name.zdict, self.dictionary.content))
        for path, content in beside:
            self._write_beside(path, content)
        return [(self.slice, self.name.path), *((self.slice, path) for path, _ in beside)]

    def _write_beside(self, path: str, content: bytes) -> None:
        fd = self._disk.open(path + PART, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        try:
            write_all(self._disk, fd, [content], 0)
            self._disk.fsync(fd)
        finally:
            self._disk.close(fd)


def line_of(capture: StoredCapture, place: FilePlace, file_name: str) -> str:
    """Of the list beside a segment; the same again whenever it is made from the segment alone."""
    return format_line(
        url=capture.url,
        time_s=capture.time_s,
        mime="warc/revisit" if capture.is_revisit else mime_of(capture),
        status=capture.status,
        digest=capture.sha1 or "-",
        place=place,
        file_name=file_name,
    )


def mime_of(capture: StoredCapture) -> str:
    """In lower case."""
    return capture.media_type.partition(";")[0].lower()


LINES_FILES_MAX = 4


class Lines:
    """The `.cdxj` lines of segments by member; those of the last few segments are kept."""

    def __init__(self, archive: Archive) -> None:
        self._files = archive.files
        self._of: FIFOCache[int, dict[int, list[tuple[int, str]]]] = FIFOCache(LINES_FILES_MAX)

    def of_member(self, number: int, offset: int, writer: SegmentWriter) -> list[str]:
        """In the order of the member; empty when it cannot go into that segment as it is."""
        name = self._files.catalogue[number].name
        if name.is_log or name.codec is not writer.name.codec:
            return []
        if writer.dictionary is not None or self._files.dictionary(number) is not None:
            return []
        if number not in self._of:
            self._of[number] = self._load(number)
        return [line for _, line in sorted(self._of[number].get(offset, []))]

    def _load(self, number: int) -> dict[int, list[tuple[int, str]]]:
        lines: defaultdict[int, list[tuple[int, str]]] = defaultdict(list)
        located = self._files.catalogue[number]
        try:
            data = read_file(self._files.disk(located.slice), located.name.cdxj, CDXJ_BYTES_MAX)
        except FileNotFoundError:
            return {}
        for line in data.decode(errors="replace").split("\n"):
            place = place_of_line(line)
            if place is not None:
                lines[place[0]].append((place[1], line))
        return lines
