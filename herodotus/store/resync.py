"""Where is a file whole again, behind a damaged place?

A body may hold whole members of its own, whose records must not be taken for ours: in a log ours bear its mark, and
the list beside a segment gives their starts. Only if neither is known, each magic number of the codec may begin a
member. A hostile body may consist of magic numbers, so only five bytes are decoded at each place first, and the work
for one file has a limit. Beyond it the rest of the file is given up: reported, and not cut.
"""

from bisect import bisect_left
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain

from herodotus.core.cdxj import extent_of_line
from herodotus.core.errors import MalformedRecordError
from herodotus.core.layout import CDXJ_BYTES_MAX
from herodotus.store.disk import read_file
from herodotus.store.files import PIECE_BYTES, Files
from herodotus.store.members import MEMBER_BYTES_MAX, decode_member, decoded_sizes, first_bytes
from herodotus.store.scan import scan_file

SEARCH_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Read and decoded in one file: seconds. A random file of 256 MB holds 16 false numbers."""
_PROBE_BYTES = 1_024
_PROBE_COSTS = 16 * 1024  # a decoder begins in 10 microseconds, in which bytes are read at 1.6 GB/s
_MARK_WITHIN = 64 * 1024
_RECORD_BEGINS = b"WARC/"


class Search:
    """The search in one file. The work spent is carried from one damaged place to the next."""

    def __init__(self, files: Files, number: int) -> None:
        self._files = files
        self._number = number
        self._name = files.catalogue[number].name
        self._magic = self._name.codec.magic
        self._listed: list[tuple[int, int]] | None = None
        self._dictionary = files.dictionary(number)
        self._spent = 0
        self.is_given_up = False

    def next_whole(self, at: int, end: int) -> int | None:
        """Where the next readable capture or note begins, or a record that belongs to one. The failed attempt just
        before counts as work, too."""
        self._try(at - 1, end)
        listed = self._members()
        behind = max(at, listed[-1][1]) if listed else at  # members do not overlap
        for offset, window in chain(self._beside(at, end), self._candidates(behind, end)):
            self._spent += _PROBE_COSTS
            if self._is_record(window) and self._is_whole(offset, end):
                return offset
            if self._spent > SEARCH_BYTES_MAX:
                self.is_given_up = True
                return None
        return None

    def _members(self) -> list[tuple[int, int]]:
        """From where to where, as the `.cdxj` of a segment has it. Of a log the magic number becomes its own."""
        if self._listed is not None:
            return self._listed
        self._listed = []
        if self._name.is_log:
            self._magic = self._mark() or self._magic
            return self._listed
        disk = self._files.disk(self._files.catalogue[self._number].slice)
        with suppress(FileNotFoundError):
            lines = read_file(disk, self._name.cdxj, CDXJ_BYTES_MAX).decode(errors="replace").split("\n")
            self._listed = sorted({extent for line in lines if (extent := extent_of_line(line)) is not None})
        return self._listed

    def _mark(self) -> bytes | None:
        """How the log's members begin, if the first two agree: no checksum covers it."""
        start = self._files.read_at(self._number, 0, _MARK_WITHIN)
        try:
            _, length = decode_member(start)
        except MalformedRecordError:
            return None
        following = start[length : length + 8]
        if not any(start[4:8]) or (len(following) == 8 and following != start[:8]):
            return None
        return start[:8]

    def _beside(self, at: int, end: int) -> Iterator[tuple[int, bytes]]:
        listed = self._members()
        for index in range(bisect_left(listed, (at, 0)), len(listed)):
            offset, _ = listed[index]
            if offset < end:
                yield offset, self._read_at(offset, _PROBE_BYTES)

    def _candidates(self, at: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Places of the magic number, and the bytes there."""
        while at < end:
            piece = self._read_at(at, min(PIECE_BYTES + _PROBE_BYTES, end - at))
            found = piece.find(self._magic)
            while 0 <= found < PIECE_BYTES:
                yield at + found, piece[found : found + _PROBE_BYTES]
                found = piece.find(self._magic, found + 1)
            at += PIECE_BYTES

    def _is_record(self, window: bytes) -> bool:
        return first_bytes(window, len(_RECORD_BEGINS), self._dictionary) == _RECORD_BEGINS

    def _is_whole(self, offset: int, end: int) -> bool:
        size = self._try(offset, end)
        if size is None:
            return False
        self._spent += size  # decoded once more
        try:
            found = scan_file(self._files, self._number, offset, end, read_at=self._read_at)
            return next(found, None) is not None
        except MalformedRecordError:
            return False

    def _try(self, offset: int, end: int) -> int | None:
        """How many bytes a member holds, each of which is charged, whole or not; None if going further is useless."""
        size = 0
        for piece in decoded_sizes(self._read_at, offset, end, self._dictionary):
            size += piece
            self._spent += piece
            if size > MEMBER_BYTES_MAX or self._spent > SEARCH_BYTES_MAX:
                return None
        return size

    def _read_at(self, offset: int, length: int) -> bytes:
        self._spent += length
        return self._files.read_at(self._number, offset, length)
