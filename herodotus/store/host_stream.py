"""In which order do a host's captures come? By address: the walk visits the host's addresses and not the whole
archive.

Like a stream's, its place is the last capture looked at and the arrival number at its beginning. Later arrivals
belong to the next stream, so each capture comes exactly once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from herodotus.core.captures import StoredCapture
from herodotus.core.errors import CursorExpiredError, DamagedRecordError
from herodotus.core.index_rows import (
    KEY_BYTES,
    IndexEntry,
    address_key,
    after,
    arrival_of,
    decode_entry,
    time_of,
    url_prefix,
)
from herodotus.core.positions import position_of
from herodotus.store.engine import Archive
from herodotus.store.neighbours import addresses
from herodotus.store.reader import Reader
from herodotus.store.stored_records import MemberCache
from herodotus.store.streams import Query

WALKED_MAX = 20_000
"""Addresses that are walked through for one part."""
PLACE_ADDRESS_BYTES = 1_024
_TRIES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlace:
    """The last capture looked at: the start of its URL's address and its key (empty: none of this address yet). Also
    the arrival number when the stream began."""

    incarnation: bytes
    boundary: int
    address: bytes
    position: bytes
    key: bytes


class HostStream:
    """`ranges` are those of the addresses; `is_whole` passes over captures whose companions are damaged."""

    def __init__(
        self,
        archive: Archive,
        ranges: Sequence[tuple[bytes, bytes]],
        query: Query,
        place: HostPlace | None,
        *,
        is_whole: bool,
    ) -> None:
        if place is not None and place.incarnation != archive.incarnation:
            raise CursorExpiredError
        with archive.lock:
            boundary = arrival_of(archive.log.number, archive.log.tail)
        self._archive = archive
        self._ranges = ranges
        self._query = query
        self._boundary = boundary if place is None else place.boundary
        self._begun = place
        self._is_whole = is_whole
        self._reader = Reader(archive)
        self._cache = MemberCache(archive.files)
        self._url = ""
        self._key = b""
        self.is_cut = False
        """The stream stopped at its limit of addresses; there are more."""
        self.skipped = 0

    @property
    def place(self) -> HostPlace:
        return HostPlace(
            incarnation=self._archive.incarnation,
            boundary=self._boundary,
            address=address_key(self._url)[:PLACE_ADDRESS_BYTES],
            position=position_of(self._url)[:KEY_BYTES],
            key=self._key,
        )

    def __iter__(self) -> Iterator[StoredCapture]:
        begun_key = b"" if self._begun is None else self._begun.key
        for number, url in enumerate(self._urls()):
            self._url, self._key = url, begun_key
            begun_key = b""
            if number == WALKED_MAX:
                self.is_cut = True
                return
            yield from self._of_url(url_prefix(position_of(url)))

    def _of_url(self, prefix: bytes) -> Iterator[StoredCapture]:
        start = self._key + b"\0" if self._key else prefix
        for key, value in self._archive.index.scan(start, after(prefix)):
            entry = decode_entry(value)
            if entry.arrival < self._boundary and self._query.from_s <= time_of(key) < self._query.to_s:
                self._key = key
                capture = self._read(key, entry)
                if capture is not None:
                    yield capture

    def _read(self, key: bytes, entry: IndexEntry) -> StoredCapture | None:
        """None for a capture that is damaged (counted) or was deleted meanwhile."""
        for _ in range(_TRIES):
            try:
                capture = self._reader.read_entry(entry, self._cache)
                if self._is_whole:
                    _ = capture.companions
            except DamagedRecordError:
                break
            except FileNotFoundError:  # sealed in this very moment: the index knows the new place
                data = self._archive.index.get(key)
                if data is None:
                    return None
                entry = decode_entry(data)
            else:
                return capture
        self.skipped += 1
        return None

    def _urls(self) -> Iterator[str]:
        """From where the place is, that address included: long ones are told apart by their positions."""
        begun = self._begun
        is_there = begun is None
        for start, end in self._ranges:
            if begun is not None and end <= begun.address:
                continue
            for url in addresses(self._archive, start if begun is None else max(start, begun.address), end):
                is_there = is_there or (begun is not None and position_of(url)[:KEY_BYTES] == begun.position)
                if is_there:
                    yield url
