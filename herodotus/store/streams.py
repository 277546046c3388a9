"""How does a reader take a million captures, stop, and continue tomorrow?

A stream is a query over the captures that had arrived when it began. Its state is a cursor of some 40 bytes
that the reader keeps; the archive remembers nothing, so a stream survives sealing, compaction and restarts,
and an abandoned one costs nothing. Each capture of the snapshot that is still there comes exactly once, in
ring order.

In which order do a host's captures come? By address: the walk visits the host's addresses and not the whole
archive.

Like a stream's, its place is the last capture looked at and the arrival number at its beginning. Later arrivals
belong to the next stream, so each capture comes exactly once.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from urllib.parse import urlsplit

from herodotus.core.captures import position_of
from herodotus.core.errors import CursorExpiredError, DamagedRecordError, MalformedRecordError
from herodotus.core.index_rows import (
    CAPTURE,
    KEY_BYTES,
    IndexEntry,
    address_key,
    after,
    arrival_of,
    decode_entry,
    stretch,
    time_of,
    url_of_address,
    url_prefix,
)
from herodotus.store.engine import Archive
from herodotus.store.reader import MemberCache, ShownReader
from herodotus.store.stored_records import StoredCapture

RING_BATCH = 512


Found = tuple[bytes, IndexEntry, int]
"""Key, entry, and how often captures had been deleted or written again when the entry was read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """Which captures. Bounds include their start and leave out their end."""

    key_from: bytes = b""
    key_to: bytes | None = None
    from_s: int = 0
    to_s: int = 2**32
    host: str | None = None
    """This host and those below it: `org` takes a whole top-level domain."""
    mime: str | None = None
    """The start of the media type: `image/` takes all images."""
    status: int | None = None

    def fits(self, capture: StoredCapture) -> bool:
        if self.status is not None and capture.status != self.status:
            return False
        if self.mime is not None and not capture.mime.startswith(self.mime):
            return False
        return self.host is None or _is_below(capture.url, self.host)


def _is_below(url: str, host: str) -> bool:
    try:
        found = urlsplit(url).hostname or ""
    except ValueError:
        return False
    return found == host or found.endswith(f".{host}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cursor:
    """A stream's place: the last capture that it gave, and the arrival number when it began."""

    incarnation: bytes
    boundary: int
    arrival: int = 0
    key: bytes = b""

    def encode(self) -> str:
        data = (
            self.incarnation + self.boundary.to_bytes(8, "big") + self.arrival.to_bytes(8, "big") + self.key
        )
        return base64.urlsafe_b64encode(data).decode()

    @classmethod
    def decode(cls, text: str) -> "Cursor":
        try:
            data = base64.b64decode(text.encode(), altchars=b"-_", validate=True)
        except (ValueError, binascii.Error) as error:
            raise MalformedRecordError("this is no cursor") from error
        if not 24 <= len(data) <= 64:
            raise MalformedRecordError("this is no cursor")
        return cls(
            incarnation=data[:8],
            boundary=int.from_bytes(data[8:16], "big"),
            arrival=int.from_bytes(data[16:24], "big"),
            key=data[24:],
        )


class _Walk:
    """How streams read: `is_whole` also gives the records that belong to a capture. They are parsed and checked, and a
    capture whose companions are damaged is passed over."""

    def __init__(self, archive: Archive, cache: MemberCache, *, is_whole: bool, hides: bool = True) -> None:
        self._archive = archive
        self._reader = ShownReader(archive)
        self._hides = hides
        self._cache = cache
        self._is_whole = is_whole
        self.skipped = 0
        """Damaged captures, passed over."""

    def _arrived(self) -> int:
        """The arrival number of what is stored next."""
        with self._archive.lock:
            return arrival_of(self._archive.log.number, self._archive.log.tail)

    def _read(self, key: bytes, entry: IndexEntry) -> StoredCapture | None:
        """None when it was deleted meanwhile, or is damaged."""
        capture = None
        try:
            capture = self._reader.read_entry(key, entry, self._cache)
            if capture is not None and self._is_whole:
                _ = capture.companions
        except (DamagedRecordError, FileNotFoundError) as error:
            if capture is not None:
                self._archive.note_damage(capture.place.file, capture.place.offset, str(error))
            self.skipped += 1
            return None
        return capture if capture is None or not self._hides or self._reader.shows(capture) else None


class Stream(_Walk):
    """One reader's walk. `cursor` is always the place after the last capture given."""

    def __init__(
        self,
        archive: Archive,
        query: Query,
        cursor: Cursor | None = None,
        *,
        is_whole: bool = False,
        arrived_from: int = 0,
        hides: bool = True,
        rows_max: int | None = None,
    ) -> None:
        """`arrived_from` leaves out earlier arrivals; without `hides` it also gives what was removed. After about
        `rows_max` captures that it came past, given or not, it ends: `is_cut`, and the cursor is where."""
        cache = MemberCache(archive.files, reads_ahead=True)
        super().__init__(archive, cache, is_whole=is_whole, hides=hides)
        self._query = query
        self._arrived_from = arrived_from
        begun = cursor or Cursor(incarnation=archive.incarnation, boundary=self._arrived())
        self._incarnation, self._boundary = begun.incarnation, begun.boundary
        self._last = begun.arrival, begun.key
        self._rows_max = rows_max
        self.is_cut = False

    @property
    def cursor(self) -> Cursor:
        arrival, key = self._last
        return Cursor(incarnation=self._incarnation, boundary=self._boundary, arrival=arrival, key=key)

    def take(self, limit: int) -> list[StoredCapture]:
        """The next captures, at most `limit`; fewer only at the end."""
        return list(islice(self, limit))

    def __iter__(self) -> Iterator[StoredCapture]:
        if self._incarnation != self._archive.incarnation:
            raise CursorExpiredError
        query = self._query
        is_filtered = query.status is not None or query.mime is not None or query.host is not None
        for key, entry, rewrites in self._found():
            capture = self._read_anew(key, entry, rewrites)
            self._last = entry.arrival, key
            if capture is not None and (not is_filtered or query.fits(capture)):
                yield capture
            del capture  # it may be large: not to be held beside the next

    def _admits(self, key: bytes, entry: IndexEntry) -> bool:
        is_in_time = self._query.from_s <= time_of(key) < self._query.to_s
        return self._arrived_from <= entry.arrival < self._boundary and is_in_time

    def _found(self) -> Iterator[Found]:
        start, end = stretch(CAPTURE, self._query.key_from, self._query.key_to)
        if self._last[1]:
            start = max(start, self._last[1] + b"\0")
        passed = 0
        while True:
            rewrites = self._archive.rewrites
            # A short batch each time: an iterator kept open would hold back space that compaction wants to free.
            batch = list(islice(self._archive.index.scan(start, end), RING_BATCH))
            if not batch:
                return
            for key, value in batch:
                entry = decode_entry(value)
                if self._admits(key, entry):
                    yield key, entry, rewrites
            start, passed = batch[-1][0] + b"\0", passed + len(batch)
            if self._rows_max is not None and passed >= self._rows_max:
                self._last, self.is_cut = (self._last[0], batch[-1][0]), True
                return

    def _read_anew(self, key: bytes, entry: IndexEntry, rewrites: int) -> StoredCapture | None:
        if self._archive.rewrites != rewrites:
            value = self._archive.index.get(key)
            if value is None:
                return None
            entry = decode_entry(value)
        return self._read(key, entry)


WALKED_MAX = 20_000
"""Addresses that are walked through for one part."""
PLACE_ADDRESS_BYTES = 1_024


@dataclass(frozen=True, slots=True, kw_only=True)
class HostPlace:
    """The last capture looked at: the start of its URL's address and its key (empty: none of this address yet). Also
    the arrival number when the stream began."""

    incarnation: bytes
    boundary: int
    address: bytes
    position: bytes
    key: bytes


class HostStream(_Walk):
    """`ranges` are those of the addresses."""

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
        super().__init__(archive, MemberCache(archive.files), is_whole=is_whole)
        self._ranges = ranges
        self._query = query
        self._boundary = self._arrived() if place is None else place.boundary
        self._begun = place
        self._url = ""
        self._key = b""
        self.is_cut = False
        """The stream stopped at its limit of addresses; there are more."""

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
        # A key of another address is a stranger's invention, or of an address that was deleted since.
        start = self._key + b"\0" if self._key.startswith(prefix) else prefix
        for key, value in self._archive.index.scan(start, after(prefix)):
            entry = decode_entry(value)
            if entry.arrival < self._boundary and self._query.from_s <= time_of(key) < self._query.to_s:
                self._key = key
                capture = self._read(key, entry)
                if capture is not None:
                    yield capture

    def _urls(self) -> Iterator[str]:
        """From where the place is, that address included, or what follows it if it was deleted: long ones are told
        apart by their positions."""
        begun = self._begun
        is_there = begun is None
        for start, end in self._ranges:
            if begun is not None and end <= begun.address:
                continue
            low = start if begun is None else max(start, begun.address)
            for url in map(url_of_address, self._reader.address_keys(low, end)):
                is_there = is_there or (begun is not None and _is_reached(begun, url))
                if is_there:
                    yield url


def _is_reached(place: HostPlace, url: str) -> bool:
    is_behind = address_key(url)[:PLACE_ADDRESS_BYTES] > place.address
    return is_behind or position_of(url)[:KEY_BYTES] == place.position
