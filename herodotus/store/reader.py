"""Which captures of a URL does the archive hold, and how is one read? Every read checks.

Which addresses lie around a URL is known from the index alone.

What of the archive do readers see? All that no removal covers. A hidden capture stays where it is, in the files, the
index and the digests, so other holders find and prove it as before. `ShownReader`, for readers and exports, looks at
the rules each time, so a rule holds at once, after a restart, with a new index, and for what comes in later; without
it everything is back as it was. Rows of the index name no address, so a rule about addresses is asked with the
address, and one about contents with the start of a digest that the row has.
"""

from collections import OrderedDict
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from struct import pack, unpack
from sys import intern

from crawler.core.urls import STEM_KEY_BYTES, nearest, origin_of, stem, stem_key
from herodotus.core.captures import CaptureId, Original, position_of
from herodotus.core.errors import DamagedRecordError, MalformedRecordError
from herodotus.core.index_rows import (
    ADDRESS,
    BUCKETS,
    CAPTURE,
    KEY_BYTES,
    SEEN,
    VISITS,
    FilePlace,
    IndexEntry,
    RowKind,
    Unreachable,
    address_key,
    after,
    bucket_of,
    capture_key,
    captures_of_payload,
    decode_entry,
    decode_seen,
    decode_visits,
    family_key,
    payload_prefix,
    spelled_as,
    time_of,
    url_of_address,
    url_prefix,
)
from herodotus.core.removals import Removals
from herodotus.core.warc import TIME_MAX_S
from herodotus.store.engine import ROBOTS_PATH, Archive
from herodotus.store.files import Files
from herodotus.store.large_captures import read_large
from herodotus.store.members import LARGE_BYTES, MemberTooLargeError, decode_member
from herodotus.store.stored_records import OURS, StoredCapture, checked_record

READ_AHEAD_BYTES = 256 * 1024  # a stream's neighbours in one call to the disk
READ_AHEAD_FILES = 4  # segments of one bucket alternate in ring order
MOVES_MAX = 5  # sealing and compaction take longer than a read, so one is enough; five is certain
_VARIANT = slice(1 + KEY_BYTES + 4, 1 + KEY_BYTES + 4 + 3)
Row = tuple[bytes, bytes]
SIZES_MAX = 1_024
"""Remembered while a history is read: 100 kB."""
SPELLINGS_MAX = 64
"""Looked at of one stem; of 5,771 linked addresses no more than four had the same."""
RECORDS_TRIED_MAX = 4
"""Of a URL whose first records are damaged."""
HISTORY_MAX = 100_000  # some 40 MB; larger histories are read by spans of time
SEEN_MAX = 100_000
"""Visits whose times one history holds, 400 kB; of later versions the last visit alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """One line of a URL's history: a capture, and how often it was found unchanged since."""

    id: CaptureId
    url: str
    status: int
    mime: str
    size: int
    is_revisit: bool
    visits: int
    last_seen_s: int
    sha1: str
    """WARC-Payload-Digest as the record has it, "" when it has none."""
    stored_bytes: int
    """Of the member that the record is in."""
    voucher: str = ""
    """The key of the peer that brought it in, in hex; "" when nobody signed it."""
    door: str = ""
    """By which it came in (`core.doors`), in words; "" when its record does not say."""
    steward: str = ""
    """The key of the steward that permitted the fetch, in hex; "" when its record names none."""
    seen: bytes = b""
    """When it was found unchanged, four bytes each, ascending; of many visits, or of old ones, the last may be all."""

    @property
    def first_seen_s(self) -> int:
        return self.id.time_s

    @property
    def seen_s(self) -> Sequence[int]:
        if not self.seen:
            return (self.last_seen_s,) if self.visits else ()
        return unpack(f">{len(self.seen) // 4}I", self.seen)


class MemberCache:
    """Members by their places. Neighbours share one, so the last is kept; a stream reads ahead."""

    def __init__(self, files: Files, *, reads_ahead: bool = False) -> None:
        self._files = files
        self._at: tuple[int, int] | None = None
        self._content, self._rest = b"", b""
        self.seen_left = SEEN_MAX
        self.sizes: dict[bytes, int] = {}
        """Of payloads that were met in other records."""
        self._ahead: OrderedDict[int, tuple[int, bytes]] | None = OrderedDict() if reads_ahead else None

    def capture(self, place: FilePlace) -> StoredCapture:
        """As it was written, not compared with the digest yet. DamagedRecordError when it is not whole,
        FileNotFoundError when the file is not here (any more)."""
        at = (place.file, place.offset)
        try:
            if at != self._at:
                self._at = None
                self._content, self._rest = b"", b""  # not held beside the next, which may be as large
                if place.length > LARGE_BYTES or self._files.known_large(place) is not None:
                    return read_large(self._files, place)
                data = self._bytes_at(place)
                try:
                    self._content, length = decode_member(
                        data, LARGE_BYTES, self._files.dictionary(place.file)
                    )
                except MemberTooLargeError:
                    return read_large(self._files, place)
                self._rest = data[length:]
                self._at = at
            parsed = OURS.match(self._content, place.skip) or checked_record(self._content, place.skip)
            return StoredCapture(self._content, place, self._files, parsed, self._rest)
        except MalformedRecordError as error:
            path = self._files.path(place.file)
            raise DamagedRecordError(path, place.offset, error.reason) from error

    def _bytes_at(self, place: FilePlace) -> bytes:
        if self._ahead is None or place.length > READ_AHEAD_BYTES:
            return self._files.read(place)
        start, data = self._ahead.get(place.file, (0, b""))
        at = place.offset - start
        if not 0 <= at <= len(data) - place.length:
            data, at = self._files.read_at(place.file, place.offset, READ_AHEAD_BYTES), 0
            self._ahead[place.file] = (place.offset, data)
            self._ahead.move_to_end(place.file)
            if len(self._ahead) > READ_AHEAD_FILES:
                self._ahead.popitem(last=False)
            if len(data) < place.length:
                return self._files.read(place)  # which raises with the reason
        return data[at : at + place.length]


class Reader:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    # -- finding ------------------------------------------------------------------------------------------

    def find(self, id_: CaptureId) -> IndexEntry | None:
        data = self._archive.index.get(capture_key(id_))
        return None if data is None else decode_entry(data)

    def newest(self, url: str, not_after_s: int) -> StoredCapture | None:
        """The newest capture of a URL that is not newer than a time and can be read; damaged ones are passed
        over."""
        prefix = url_prefix(position_of(url))
        end = prefix + not_after_s.to_bytes(4, "big") + b"\xff" * 4
        while (found := self._archive.index.last_before(prefix, end)) is not None:
            capture = self.try_read(*found)
            if capture is not None and capture.url == url and self.shows(capture):
                return capture
            end = found[0]
        return None

    def spellings(self, asked: Sequence[str], *, is_sure: bool = True) -> list[str]:
        """The addresses with captures that are least bent from one of the asked, which are not among them."""
        held: list[str] = []
        for text in dict.fromkeys(map(stem, asked)):
            found = islice(self._archive.index.scan(*spelled_as(text)), SPELLINGS_MAX)
            positions = [stem_key(text), *(key[-STEM_KEY_BYTES:] for key, _ in found)]
            held += (url for position in positions if (url := self._url_at(position)) is not None)
        return nearest(asked, [url for url in held if url not in asked], is_sure=is_sure)

    def _url_at(self, position: bytes) -> str | None:
        """Of the captures whose position begins so; from the first that can be read."""
        rows = islice(self.rows(CAPTURE + position, after(CAPTURE + position)), RECORDS_TRIED_MAX)
        found = (self.record_at(*row) for row in rows)
        capture = next((one for one in found if one is not None), None)
        return None if capture is None or not self.shows(capture) else capture.url

    def shows(self, capture: StoredCapture) -> bool:
        """Everything is shown here; `ShownReader` is for those who are not shown what was removed."""
        del capture
        return True

    def history(
        self, url: str, from_s: int = 0, to_s: int = TIME_MAX_S, limit: int = HISTORY_MAX
    ) -> list[Version]:
        """Oldest first, both ends included. Neighbours share a member, so a long history costs few reads."""
        cache = MemberCache(self._archive.files)
        found = (self.version_at(url, *pair, cache) for pair in self.entries_of(url, from_s, to_s, limit))
        return [version for version in found if version is not None]

    def entries_of(self, url: str, from_s: int, to_s: int, limit: int) -> Iterator[tuple[bytes, bytes]]:
        """The index entries of a URL's captures, for `version_at`. Equal pairs are always the same version."""
        prefix = url_prefix(position_of(url))
        start, end = prefix + from_s.to_bytes(4, "big"), prefix + to_s.to_bytes(4, "big") + b"\xff" * 4
        return islice(self.rows(start, end), limit)

    def rows(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        return self._archive.index.scan(start, end)

    def version_at(self, url: str, key: bytes, value: bytes, cache: MemberCache) -> Version | None:
        """None where it is damaged, gone meanwhile, or of another URL."""
        capture = self.record_at(key, value, cache)
        if capture is None or capture.url != url or not self.shows(capture):
            return None
        data = self._archive.index.get(family_key(VISITS, key))
        visits = decode_visits(data) if data is not None else None
        seen = () if visits is None or visits.count == 1 else self.seen_s(key, cache.seen_left)
        cache.seen_left -= len(seen)
        # Versions of one URL have most words in common, and of a long history each would be there many times.
        return Version(
            id=capture.id,
            url=url,
            status=capture.status,
            mime=intern(capture.media_type),
            size=self._size_of(capture, cache),
            is_revisit=capture.is_revisit,
            visits=0 if visits is None else visits.count,
            last_seen_s=max(time_of(key), 0 if visits is None else visits.last_s),
            sha1=capture.sha1 or "",
            stored_bytes=capture.place.length,
            voucher=intern(capture.voucher),
            door=intern(capture.door),
            steward=intern(capture.steward),
            seen=pack(f">{len(seen)}I", *seen),
        )

    def seen_s(self, key: bytes, most: int = SEEN_MAX) -> list[int]:
        """When a version was found unchanged, ascending; the last visit is among them. Older releases kept that one
        alone."""
        data = self._archive.index.get(family_key(VISITS, key))
        if data is None:
            return []
        prefix = family_key(SEEN, key)
        found = (
            time_s
            for row, value in self._archive.index.scan(prefix, after(prefix))
            for time_s in decode_seen(row, value)
        )
        return sorted({decode_visits(data).last_s, *islice(found, max(0, most - 1))})

    def unreachable(self, url: str) -> Unreachable | None:
        """Since its newest version was last seen: it, or robots.txt of its site, which is asked first."""
        archive, answered_s = self._archive, self._archive.answered_s(url)
        asked = [url, origin_of(url) + ROBOTS_PATH] if url.startswith(("http://", "https://")) else [url]
        found = (archive.unreachable_at(one) for one in dict.fromkeys(asked))
        rows = [one for one in found if one is not None and one.last_s > answered_s]
        if not rows or not answered_s:
            return None
        both = rows[0].and_of_site(rows[1]) if len(rows) == 2 else rows[0]
        return both._replace(since_s=max(both.since_s, answered_s))

    def _size_of(self, capture: StoredCapture, cache: "MemberCache") -> int:
        """Of its payload, which another record has; a history repeats few of them."""
        if not capture.is_revisit:
            return capture.body_bytes
        digest = capture.id.digest
        if digest not in cache.sizes:
            if len(cache.sizes) >= SIZES_MAX:
                cache.sizes.clear()
            bodies = self._bodies(bucket_of(capture.id.key), digest)
            found = next((one for one in bodies if one.id.digest == digest), None)
            cache.sizes[digest] = 0 if found is None else found.body_bytes
        return cache.sizes[digest]

    def of_payload(self, digest: bytes, buckets: range = range(BUCKETS)) -> list[CaptureId]:
        """Every capture with a payload, revisits included: their number is the reference count."""
        found = (id_ for bucket in buckets for id_, _ in self.named_by_payload(bucket, digest))
        return list(dict.fromkeys(found))

    def named_by_payload(self, bucket: int, digest: bytes) -> Iterator[tuple[CaptureId, RowKind]]:
        """The captures whose records can be read, one at a time: there may be very many."""
        for key, value in self.entries_of_payload(bucket, digest):
            capture = self.record_at(key, value)
            if capture is not None and capture.id.digest == digest:
                yield capture.id, decode_entry(value).kind

    def has_original(self, id_: CaptureId, leaving: Container[CaptureId]) -> bool:
        """Whether this revisit's original is here and stays."""
        value = self._archive.index.get(capture_key(id_))
        revisit = None if value is None else self.record_at(capture_key(id_), value)
        original = None if revisit is None else revisit.named_original()
        found = None if original is None else self.find(original)
        return found is not None and found.kind is RowKind.BODY and original not in leaving

    def entries_of_payload(self, bucket: int, digest: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Index entries that may have the payload: those with the body before those that refer to it."""
        prefix = payload_prefix(bucket, digest)
        for found, _ in self._archive.index.scan(prefix, after(prefix)):
            url_start, time_s = captures_of_payload(found)
            at = url_start
            # Nearly always there is one URL with these eight bytes; its versions are not walked through.
            while (first := next(self._archive.index.scan(at, after(url_start)), None)) is not None:
                url = first[0][: 1 + KEY_BYTES]
                moment = url + time_s.to_bytes(4, "big")
                yield from self._archive.index.scan(moment, after(moment))
                at = after(url)

    def record_at(self, key: bytes, value: bytes, cache: MemberCache | None = None) -> StoredCapture | None:
        """As it was written: not compared with its digest, and a revisit without its body. None when it is damaged,
        which is noted, or was deleted meanwhile."""
        cache = cache or MemberCache(self._archive.files)
        try:
            return self._found(key, decode_entry(value), cache, is_whole=False)
        except DamagedRecordError:
            return None
        except FileNotFoundError as error:
            self._note(decode_entry(self._archive.index.get(key) or value).place, error)
            return None

    def _found(
        self, key: bytes, entry: IndexEntry, cache: MemberCache, *, is_whole: bool
    ) -> StoredCapture | None:
        for _ in range(MOVES_MAX):
            try:
                capture = cache.capture(entry.place)
            except DamagedRecordError as error:
                self._note(entry.place, error)
                raise
            except FileNotFoundError:
                # Sealing moved it since the index was read, which knows the new place.
                value = self._archive.index.get(key)
                if value is None:
                    return None
                moved = decode_entry(value)
                if moved == entry:
                    raise
                entry = moved
            else:
                return self._checked(capture) if is_whole else capture
        raise FileNotFoundError("the capture keeps moving")

    # -- reading ------------------------------------------------------------------------------------------

    def read(self, id_: CaptureId) -> StoredCapture | None:
        """None when there is no such capture; DamagedRecordError when it is there and broken."""
        entry = self.find(id_)
        if entry is None:
            lost = self._archive.quarantine.lost(capture_key(id_))
            if lost is not None:
                raise DamagedRecordError(lost[0].source, lost[0].offset, "its bytes are in quarantine")
            return None
        try:
            capture = self.read_entry(capture_key(id_), entry)
        except FileNotFoundError as error:
            path = self._archive.files.path(entry.place.file)
            raise DamagedRecordError(path, entry.place.offset, str(error)) from error
        # The key has only the start of each.
        return capture if capture is not None and capture.id == id_ else None

    def try_read(self, key: bytes, value: bytes) -> StoredCapture | None:
        try:
            return self.read_entry(key, decode_entry(value))
        except (DamagedRecordError, FileNotFoundError):
            return None

    def read_entry(
        self, key: bytes, entry: IndexEntry, cache: MemberCache | None = None
    ) -> StoredCapture | None:
        """None when it was deleted meanwhile; DamagedRecordError when it is broken, which is noted; FileNotFoundError
        when it is on a slice that is missing."""
        return self._found(key, entry, cache or MemberCache(self._archive.files), is_whole=True)

    def _checked(self, capture: StoredCapture) -> StoredCapture:
        try:
            return self._complete(capture)
        except DamagedRecordError as error:
            place = capture.place
            self._archive.note_damage(place.file, place.offset, str(error), is_rotten=False)
            raise

    def _complete(self, capture: StoredCapture) -> StoredCapture:
        if capture.is_revisit:
            capture.borrow(self._original_of(capture))
        elif capture.payload_digest(self._archive.digest_of) != capture.id.digest:
            raise DamagedRecordError(capture.url, 0, "the payload does not match its digest")
        return capture

    def _original_of(self, revisit: StoredCapture) -> StoredCapture:
        for original in self._possible_originals(revisit):
            if original.payload_digest(self._archive.digest_of) == revisit.id.digest:
                return original
        raise DamagedRecordError(revisit.url, 0, "the original of this revisit is not here")

    def _possible_originals(self, revisit: StoredCapture) -> Iterator[StoredCapture]:
        """The one that is named, then any other that has the body."""
        original = revisit.named_original()
        if original is not None:
            key = capture_key(original)
            value = self._archive.index.get(key)
            if value is not None:
                named = self.record_at(key, value)
                if named is not None and not named.is_revisit:
                    yield named
        yield from self._bodies(bucket_of(revisit.id.key), revisit.id.digest)

    def _bodies(self, bucket: int, digest: bytes) -> Iterator[StoredCapture]:
        for key, value in self.entries_of_payload(bucket, digest):
            if decode_entry(value).kind is RowKind.BODY:
                capture = self.record_at(key, value)
                if capture is not None and not capture.is_revisit:
                    yield capture

    def original(
        self,
        bucket: int,
        digest: bytes,
        size: int,
        body: bytes | None,
        leaving: Container[CaptureId] = frozenset(),
    ) -> Original | None:
        """A capture with this payload in the bucket that stays; with a body given, every byte of it is compared."""
        for capture in self._bodies(bucket, digest):
            is_same = capture.id.digest == digest and capture.body_bytes == size
            if is_same and capture.id not in leaving and (body is None or capture.body == body):
                return capture.as_original()
        return None

    def _note(self, place: FilePlace, error: Exception) -> None:
        self._archive.note_damage(place.file, place.offset, str(error))


class ShownReader(Reader):
    """As `Reader`, for readers and exports."""

    def __init__(self, archive: Archive) -> None:
        super().__init__(archive)
        self._raw = Reader(archive)

    @property
    def removed(self) -> Removals:
        return self._archive.removed

    def shows(self, capture: StoredCapture) -> bool:
        return not self.removed.covers_capture(capture.url, capture.id.digest)

    def shows_url(self, url: str) -> bool:
        return not self.removed.covers(url)

    def newest(self, url: str, not_after_s: int) -> StoredCapture | None:
        return super().newest(url, not_after_s) if self.shows_url(url) else None

    def unreachable(self, url: str) -> Unreachable | None:
        return super().unreachable(url) if self.shows_url(url) else None

    def spellings(self, asked: Sequence[str], *, is_sure: bool = True) -> list[str]:
        """What was removed is not found by another of its names."""
        return super().spellings(asked, is_sure=is_sure) if all(map(self.shows_url, asked)) else []

    def entries_of(self, url: str, from_s: int, to_s: int, limit: int) -> Iterator[Row]:
        if not self.shows_url(url):
            return iter(())
        return super().entries_of(url, from_s, to_s, limit)

    # -- rows ---------------------------------------------------------------------------------------------

    def rows(self, start: bytes, end: bytes) -> Iterator[Row]:
        found = self._archive.index.scan(start, end)
        return (row for row in found if self._shows_row(row)) if self.removed.digests else found

    def last_row(self, start: bytes, end: bytes) -> Row | None:
        while (found := self._archive.index.last_before(start, end)) is not None:
            if self._shows_row(found):
                return found
            end = found[0]
        return None

    def _shows_row(self, row: Row) -> bool:
        """By its content alone."""
        key, value = row
        if key[_VARIANT] not in self.removed.variants or key[:1] != CAPTURE:
            return True
        capture = self._raw.record_at(key, value)
        return capture is None or capture.id.digest not in self.removed.digests

    # -- addresses ----------------------------------------------------------------------------------------

    def address_keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        removed = self.removed
        if not removed.is_by_address:
            yield from (key for key, _ in self._archive.index.scan(start, end))
            return
        while start < end:
            for key, _ in self._archive.index.scan(start, end):
                if not removed.covers(url_of_address(key)):
                    yield key
                    continue
                jump = _end_of_removed(removed, key)
                if (
                    jump is not None
                ):  # a removed site may have a million addresses: they are not walked through
                    start = jump
                    break
            else:
                return


def site_ranges(host: str, *, with_subdomains: bool = True) -> list[tuple[bytes, bytes]]:
    """Where the addresses of a host lie in the archive's list: without a port, with one, and those below it."""
    key = address_key(f"http://{host}/")
    site = key[: key.index(b")")]
    ends = (b")", b":", b",") if with_subdomains else (b")", b":")
    return [(site + end, after(site + end)) for end in ends]


def odd_addresses(archive: Archive) -> Iterator[str]:
    """Addresses that are not sorted with their host, since they were recorded in an unusual spelling."""
    start = ADDRESS + b"~"
    return (url for url in addresses(archive, start, after(start)) if url[:4].lower() == "http")


def addresses(archive: Archive, start: bytes, end: bytes) -> Iterator[str]:
    """URLs between two keys of `address_key`, in order. One of them may have lost its last capture since."""
    for key, _ in archive.index.scan(start, end):
        yield url_of_address(key)


def _end_of_removed(removed: Removals, key: bytes) -> bytes | None:
    """Where the removed addresses around this one end; None where only this one may be."""
    host = url_of_address(key).partition("://")[2].partition("/")[0].rpartition("@")[2].partition(":")[0]
    labels = host.split(".")
    for at in range(len(labels)):
        name = ".".join(labels[at:])
        if name in removed.hosts.hosts:
            return next((end for start, end in site_ranges(name) if start <= key < end), None)
    for start, end in prefix_ranges(removed):
        if start <= key < end:
            return end
    return None


def prefix_ranges(removed: Removals) -> Iterator[tuple[bytes, bytes]]:
    for names in removed.prefixes.values():
        for name in names:
            yield prefix_range(f"http://{name}")


def prefix_range(url: str) -> tuple[bytes, bytes]:
    """Where the addresses are that begin so, of both schemes."""
    key = address_key(url).rpartition(b"\0")[0]
    return key, after(key)
