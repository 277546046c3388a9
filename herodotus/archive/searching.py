"""Where does a file go on being whole, behind a damaged place?

Wherever the codec's magic number stands, a member may begin; bodies that are packed already hold such numbers, too,
and a hostile one may hold nothing else. So each place is first asked for five bytes of its content, and all that is
done for one file has a bound. Beyond it the rest of the file is given up: reported, and not cut.
"""

from collections.abc import Iterator

from herodotus.archive.files import PIECE_BYTES, Files
from herodotus.archive.members import first_bytes
from herodotus.archive.scan import scan_bundles
from herodotus.core.archive_errors import MalformedRecordError

SEARCH_BYTES_MAX = 4 * 1024 * 1024 * 1024
"""Read and decoded in one file: seconds. By chance a file of 256 MB holds 16 false numbers."""
_PROBE_BYTES = 1_024
_PROBE_COSTS = 16 * 1024  # a decoder begins in 10 microseconds, in which bytes are read at 1.6 GB/s
_RECORD_BEGINS = b"WARC/"


class Search:
    """Of one file; what it spent is kept from one damaged place to the next."""

    def __init__(self, files: Files, number: int) -> None:
        self._files = files
        self._number = number
        self._magic = files.catalogue[number].name.codec.magic
        self._dictionary = files.dictionary(number)
        self._spent = 0
        self.is_given_up = False

    def next_whole(self, at: int, end: int) -> int | None:
        """Where the next capture or note begins that can be read, or a record that belongs to one."""
        for offset, window in self._candidates(at, end):
            self._spent += _PROBE_COSTS
            if self._is_record(window) and self._is_whole(offset, end):
                return offset
            if self._spent > SEARCH_BYTES_MAX:
                self.is_given_up = True
                return None
        return None

    def _candidates(self, at: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Places of the magic number, and what stands there."""
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
        try:
            bundles = scan_bundles(self._read_at, offset, end, dictionary=self._dictionary)
            bundle = next(bundles, None)
        except MalformedRecordError:
            return False
        self._spent += 0 if bundle is None else len(bundle.content)
        return bundle is not None

    def _read_at(self, offset: int, length: int) -> bytes:
        self._spent += length
        return self._files.read_at(self._number, offset, length)
