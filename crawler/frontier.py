"""Which URL next, which are known? Every URL we ever heard of, on disk, and today's queue of each origin.

RocksDB holds three kinds of rows (docs/protocol/frontier.md): `k` + key -> what is known of the URL, `d` +
origin + day + priority + key -> the URL is due from that day on, `o` + origin -> the origin's counts. A URL
has one due row, moved to a later day by the same atomic batch that records its visit. So the daily reset is
one number: the day up to which due rows count; nothing is rewritten. Memory holds the origins that are
being crawled, each with a handful of its next keys, whatever the number of known URLs.

Crash safety: every change is one atomic batch in the write-ahead log, which outlives the process; `sync()`
makes it outlive the machine. Keys handed out are marked first; after a crash the marked ones come again as
suspects, and the worker asks the archive whether it has today's capture already, so none is captured twice.
It knows neither HTTP nor politeness. Used from one task at a time; every call is short.
"""

import hashlib
import heapq
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import msgspec
from rocksdict import (
    AccessType,
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    Rdict,
    ReadOptions,
    WriteBatch,
    WriteOptions,
)

from crawler.core.capture import UrlKey
from crawler.core.errors import FrontierUnusableError
from crawler.core.recrawl import Known, Recrawl, Result, after_visit, decode_known, encode_known, priority_of
from crawler.core.urls import Origin, origin_of, url_key

FORMAT_VERSION = 1
_KNOWN, _DUE, _ORIGIN, _MARK, _LINKS, _META = b"k", b"d", b"o", b"t", b"l", b"m"
_FORMAT_ROW, _DAY_ROW = _META + b"format", _META + b"day"
_DUE_COUNT = _META + b"due"
_TO_BE_READ = frozenset({Result.CHANGED.value, Result.UNCHANGED.value})

REFILL = 64
"""Keys that an active origin keeps in memory at most twice of; one disk scan hands them out."""
CACHE_BYTES = 24 * 2**20
WRITE_BUFFER_BYTES = 8 * 2**20
ORIGINS_CACHED_MAX = 20_000
URLS_REMEMBERED = 32_768
"""Known URLs that are not looked up on the disk again: what pages link to repeats. Some 6 MB."""
FRESH_MAX = 4_096
"""Origins remembered as having something new to do; above it they are found by scanning."""
FINGERPRINT_BYTES = 6
"""Two different links of a page collide with probability 2**-48: no link is lost that way."""
LINKS_KEPT_MAX = 50_000
"""As many as a sitemap may have; none is taken that is not kept, or it would be new again every day."""
REREAD_BATCH = 1_000
ETAG_CHARACTERS_MAX = 1_000
DATE_CHARACTERS_MAX = 100


class FoundLink(NamedTuple):
    """A canonical URL to be known, and where it was found."""

    url: str
    depth: int = 0
    is_embedded: bool = False
    is_seed: bool = False
    is_doubtful: bool = False
    """Found on a page much like others: it comes after all that is not."""
    via: str = ""


@dataclass(slots=True)
class Entry:
    """A URL handed out; give it back with `record` or `release`."""

    key: UrlKey
    origin: Origin
    known: Known
    is_suspect: bool
    """It was handed out before a crash, or is to be read again: the archive may have today's capture."""
    due_row: bytes
    rests_until: float = 0.0
    """Seconds since 1970; how long its origin is to be left alone after this visit."""


class OriginCounts(msgspec.Struct, array_like=True):
    """What is counted per origin; the order of the fields is the file format."""

    origin: str
    known: int = 0
    over_budget: int = 0
    """Links not taken because the origin has its share: visible, not silent."""
    last_day: int = -1
    """Of its last visit, and how many there were on that day."""
    visits: int = 0
    rests_until: float = 0.0
    """Seconds since 1970: a rest is owed whatever happens to the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierLimits:
    urls_per_origin_max: int = 1_000_000
    """Bounds what a trap can make us remember."""
    visits_per_origin_max: int = 50_000
    """A day's; the others wait for the next one. At the public delay of 2 s a day has 43,200."""
    tracks_depth: bool = False
    """Whether a shorter way to a known page matters (a crawl with a depth limit): its links are read again.
    """


@dataclass(frozen=True, slots=True)
class FrontierStatistics:
    known: int
    handed_out: int
    active_origins: int
    over_budget: int
    day: int
    due: int
    """Today, those handed out included."""
    held_back: int
    """Origins that had their share of today's visits."""


class _Active:
    """An origin that is being crawled: its next keys, and from where on the disk has more."""

    __slots__ = ("cursor", "is_exhausted", "queue")

    def __init__(self) -> None:
        self.is_exhausted = False  # `take` found nothing more, and nothing came or was released since
        self.queue: list[tuple[bytes, bytes | None]] = []  # a heap of due rows, with the known row if read
        self.cursor = b""


class Frontier:
    """Opened on a folder of its own; closed by `close`. One process at a time, which RocksDB's lock holds."""

    def __init__(self, folder: Path, *, day: int, limits: FrontierLimits | None = None) -> None:
        self._limits = limits or FrontierLimits()
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        try:
            self._db = Rdict(str(folder), _options(), access_type=AccessType.read_write())
        except Exception as error:  # rocksdict raises bare Exception for all of RocksDB's errors
            raise FrontierUnusableError(str(folder), str(error)) from error
        self._check_format()
        self._read_options = ReadOptions()
        self._write_options = WriteOptions()
        self._active: dict[bytes, _Active] = {}
        self._taken: dict[bytes, Entry] = {}
        self._counts: dict[bytes, OriginCounts] = {}
        self._remembered: set[str] = set()
        self._suspects = {row[1:] for row in self._rows(_MARK)}
        self._scan_from = b""
        self._needs_scan = True
        self._fresh: dict[bytes, None] = {}  # inactive origins that something came due for since the scan
        self._known = self._number(_META + b"known")
        self._over_budget = 0
        self._held_back: set[bytes] = set()
        self._due_counts = self._read_due_counts()
        self._day = self._number(_DAY_ROW)
        if day > self._day:
            self.start_day(day)

    # -- days

    @property
    def day(self) -> int:
        return self._day

    def start_day(self, day: int) -> None:
        """The daily reset: all that is due until `day` counts from now on. It writes one number."""
        if day < self._day:
            raise ValueError(f"day {day} is before {self._day}")
        self._db.put(_DAY_ROW, day.to_bytes(4, "big"))
        self._day = day
        self._needs_scan = True
        self._held_back.clear()
        for active in self._active.values():
            active.cursor = b""
            active.queue = []

    # -- adding

    def add(self, links: Sequence[FoundLink]) -> int:
        """Make URLs known and due today; those already known change nothing. Says how many were new."""
        batch = WriteBatch(raw_mode=True)
        new = self._add(batch, links)
        self._db.write(batch, self._write_options)
        return new

    def _add(self, batch: WriteBatch, links: Sequence[FoundLink]) -> int:
        if len(self._counts) > ORIGINS_CACHED_MAX:
            self._counts.clear()  # they are all on disk: no batch is open here
        if len(self._remembered) > URLS_REMEMBERED:
            self._remembered.clear()
        unique: dict[bytes, FoundLink] = {}
        known: Container[str] = () if self._limits.tracks_depth else self._remembered
        for link in links:
            if link.is_seed or link.url not in known:
                unique.setdefault(_KNOWN + url_key(link.url), link)
        rows = list(unique)
        new = 0
        counted: dict[bytes, OriginCounts] = {}
        for row, link, found in zip(rows, unique.values(), self._get_many(rows), strict=True):
            if found is None:
                new += self._add_new(batch, row, link, counted)
                continue
            self._remembered.add(link.url)
            if self._limits.tracks_depth or link.is_seed:
                self._shorten(batch, row[1:], decode_known(found), link)
        for origin_id, counts in counted.items():
            batch.put(_ORIGIN + origin_id, msgspec.msgpack.encode(counts))
        if new:
            self._count_due(batch, self._day, new)
            self._known += new
            batch.put(_META + b"known", self._known.to_bytes(8, "big"))
        return new

    def _add_new(
        self, batch: WriteBatch, row: bytes, link: FoundLink, counted: dict[bytes, OriginCounts]
    ) -> bool:
        origin = origin_of(link.url)
        origin_id = _origin_id(origin)
        counts = counted[origin_id] = self._origin_counts(origin_id)
        counts.origin = origin
        if counts.known >= self._limits.urls_per_origin_max and not link.is_seed:
            counts.over_budget += 1
            self._over_budget += 1
            return False
        counts.known += 1
        self._remembered.add(link.url)
        priority = _priority_of(link)
        known = Known(url=link.url, depth=link.depth, priority=priority, via=link.via, due_day=self._day)
        batch.put(row, encode_known(known))
        self._put_due(batch, origin_id, known, row[1:])
        return True

    def _shorten(self, batch: WriteBatch, key: bytes, known: Known, link: FoundLink) -> None:
        """A shorter way to a known URL: it moves up, and if today's visit is over its links are read
        again.
        """
        priority = _priority_of(link)
        if link.depth >= known.depth and priority >= known.priority:
            return
        origin_id = _origin_id(origin_of(known.url))
        old_due = _due_row(origin_id, known, key)
        known.depth, known.priority = min(link.depth, known.depth), min(priority, known.priority)
        entry = self._taken.get(key)
        if entry is not None:  # being fetched: its links will be given the new depth
            entry.known.depth, entry.known.priority = known.depth, known.priority
            batch.put(_KNOWN + key, encode_known(known))
            return
        if known.last_day == self._day and known.due_day > self._day:
            self._count_due(batch, known.due_day, -1)
            known.due_day = self._day
            self._count_due(batch, known.due_day, 1)
            self._suspects.add(key)
            batch.put(_MARK + key, b"")
        batch.delete(old_due)
        self._forget_queued(origin_id, old_due)
        batch.put(_KNOWN + key, encode_known(known))
        self._put_due(batch, origin_id, known, key)

    def _put_due(self, batch: WriteBatch, origin_id: bytes, known: Known, key: bytes) -> None:
        row = _due_row(origin_id, known, key)
        batch.put(row, b"")
        if known.due_day > self._day:
            return
        active = self._active.get(origin_id)
        if active is None:
            self._note_fresh(origin_id)
            return
        active.is_exhausted = False
        if row < active.cursor:
            batch.put(_MARK + key, b"")
            heapq.heappush(active.queue, (row, None))
            if len(active.queue) > 2 * REFILL:
                self._shrink(active)

    def _shrink(self, active: _Active) -> None:
        """The queue is full: its larger half is left to the disk, from where the cursor will find it
        again.
        """
        active.queue.sort()
        active.cursor = active.queue[REFILL][0]
        del active.queue[REFILL:]

    def _forget_queued(self, origin_id: bytes, row: bytes) -> None:
        active = self._active.get(origin_id)
        if active is not None:
            active.queue = [item for item in active.queue if item[0] != row]
            heapq.heapify(active.queue)

    # -- handing out

    def activate(self, wanted: int, takes: Callable[[Origin], bool] | None = None) -> list[Origin]:
        """Up to `wanted` further origins with something due that `takes` takes, in turn; each stays active
        until `retire`.
        """
        found: list[Origin] = []
        while self._fresh and len(found) < wanted:
            self._activate(next(iter(self._fresh)), found, takes)
        if not self._needs_scan or len(found) >= wanted:
            return found
        start = self._scan_from
        for origin_id, day in chain(self._origins_from(start, None), self._origins_from(b"", start)):
            if len(found) >= wanted:
                self._scan_from = origin_id
                return found
            if day <= self._day:
                self._activate(origin_id, found, takes)
        self._needs_scan = False
        self._scan_from = b""
        return found

    @property
    def may_activate(self) -> bool:
        """Whether `activate` might find anything: something new came, or not all was looked through."""
        return bool(self._fresh) or self._needs_scan

    def _activate(
        self, origin_id: bytes, found: list[Origin], takes: Callable[[Origin], bool] | None
    ) -> None:
        self._fresh.pop(origin_id, None)
        if origin_id in self._active or origin_id in self._held_back:
            return
        origin = Origin(self._origin_counts(origin_id).origin)
        if takes is None or takes(origin):
            self._active[origin_id] = _Active()
            found.append(origin)

    def _note_fresh(self, origin_id: bytes) -> None:
        if len(self._fresh) < FRESH_MAX:
            self._fresh[origin_id] = None
        else:
            self._needs_scan = True

    def _origins_from(self, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, int]]:
        """Origins with any due row, in the order of their ids, with the day of the first; one seek each."""
        cursor = self._db.iter(self._read_options)
        following: bytes | None = start
        while following is not None and (end is None or following < end):
            cursor.seek(_DUE + following)
            if not cursor.valid():
                return
            row = cursor.key()
            origin_id = row[1:9]
            if row[:1] != _DUE or (end is not None and origin_id >= end):
                return
            yield origin_id, _day_of(row)
            following = _next_id(origin_id)

    def retire(self, origin: Origin) -> None:
        """The origin is not being crawled any more; `activate` finds it again when something is due."""
        origin_id = _origin_id(origin)
        active = self._active.pop(origin_id, None)
        if active is not None and not active.is_exhausted:
            self._note_fresh(origin_id)

    def take(self, origin: Origin) -> Entry | None:
        """The active origin's next URL that is due, or None when there is nothing left for today."""
        origin_id = _origin_id(origin)
        active = self._active[origin_id]
        if self._has_had_its_share(origin_id):
            self._held_back.add(origin_id)
            return None
        while True:
            if not active.queue and not self._refill(origin_id, active):
                active.is_exhausted = True
                return None
            row, record = heapq.heappop(active.queue)
            key = row[14:]
            if key in self._taken:
                continue
            record = record or self._db.get(_KNOWN + key)
            if record is None:
                continue
            known = decode_known(record)
            if _due_row(origin_id, known, key) != row:
                continue  # moved since it was queued
            entry = Entry(UrlKey(key), origin, known, key in self._suspects, row)
            self._taken[key] = entry
            return entry

    def _has_had_its_share(self, origin_id: bytes) -> bool:
        counts = self._origin_counts(origin_id)
        return counts.last_day == self._day and counts.visits >= self._limits.visits_per_origin_max

    def _refill(self, origin_id: bytes, active: _Active) -> bool:
        start = active.cursor or _DUE + origin_id
        cursor = self._db.iter(self._read_options)
        cursor.seek(start)
        rows: list[bytes] = []
        last = start
        prefix = _DUE + origin_id
        while cursor.valid() and len(rows) < REFILL:
            row = cursor.key()
            if not row.startswith(prefix) or _day_of(row) > self._day:
                break
            last = row
            if row[14:] not in self._taken:
                rows.append(row)
            cursor.next()
        if rows:
            batch = WriteBatch(raw_mode=True)
            for row in rows:
                batch.put(_MARK + row[14:], b"")
            self._db.write(batch, self._write_options)
            records = self._get_many([_KNOWN + row[14:] for row in rows])
            active.queue = list(zip(rows, records, strict=True))
        active.cursor = last + b"\x00" if last != start or rows else start
        return bool(rows)

    # -- giving back

    def record(
        self,
        entry: Entry,
        result: Result,
        *,
        recrawl: Recrawl = Recrawl.DAILY,
        links: Sequence[FoundLink] = (),
        fingerprints: bytes | None = None,
        etag: str = "",
        last_modified: str = "",
        digest: bytes | None = None,
    ) -> int:
        """The visit is over and its capture durable: its outcome and the page's links, in one atomic
        batch. Without a digest the known one stays; an empty one forgets it.
        """
        del self._taken[entry.key]
        self._suspects.discard(entry.key)
        known = after_visit(entry.known, result, self._day, recrawl)
        if result in (Result.CHANGED, Result.UNCHANGED):
            # Half a validator is none: some servers would refuse the request.
            known.etag = etag if len(etag) <= ETAG_CHARACTERS_MAX else ""
            known.last_modified = last_modified if len(last_modified) <= DATE_CHARACTERS_MAX else ""
        if digest is not None:
            known.digest = digest
        if known.due_day == self._day:
            known.priority = 255  # a retry comes after all that is due today
        elif known.priority == 255:
            known.priority = priority_of(known.depth, is_embedded=False)
        batch = WriteBatch(raw_mode=True)
        origin_id = _origin_id(entry.origin)
        batch.delete(entry.due_row)
        batch.delete(_MARK + entry.key)
        batch.put(_KNOWN + entry.key, encode_known(known))
        self._put_due(batch, origin_id, known, entry.key)
        if fingerprints is not None:
            batch.put(_LINKS + entry.key, fingerprints)
        new = self._add(batch, links) if links else 0
        self._count_visit(batch, origin_id, entry, known.due_day)
        self._db.write(batch, self._write_options)
        return new

    def release(self, entry: Entry) -> None:
        """Not visited after all; it stays due, and is the next to come."""
        del self._taken[entry.key]
        active = self._active.get(_origin_id(entry.origin))
        if active is not None:
            heapq.heappush(active.queue, (entry.due_row, None))
            active.is_exhausted = False
        else:
            self._note_fresh(_origin_id(entry.origin))

    def reread(self, takes: Callable[[Origin], bool]) -> int:
        """The crawl takes in more than before: pages that may hold links left out then come again as
        suspects, to be read from the archive. Says how many.
        """
        count = 0
        batch = WriteBatch(raw_mode=True)
        for row in self._rows(_KNOWN):
            record = self._db.get(row)
            known = None if record is None else decode_known(record)
            if known is None or known.last_result not in _TO_BE_READ or not takes(origin_of(known.url)):
                continue
            self._bring_back(batch, row[1:], known)
            count += 1
            if count % REREAD_BATCH == 0:
                self._db.write(batch, self._write_options)
                batch = WriteBatch(raw_mode=True)
        self._db.write(batch, self._write_options)
        return count

    def _bring_back(self, batch: WriteBatch, key: bytes, known: Known) -> None:
        if key in self._taken:
            return
        origin_id = _origin_id(origin_of(known.url))
        if known.due_day > self._day:
            batch.delete(_due_row(origin_id, known, key))
            self._count_due(batch, known.due_day, -1)
            known.due_day = self._day
            self._count_due(batch, known.due_day, 1)
            batch.put(_KNOWN + key, encode_known(known))
            self._put_due(batch, origin_id, known, key)
        batch.put(_MARK + key, b"")
        self._suspects.add(key)

    def pass_over(self, entry: Entry) -> None:
        """Not for this crawl: it stays due, and is not handed out again before the next day or process."""
        del self._taken[entry.key]
        if not entry.is_suspect:
            self._db.delete(_MARK + entry.key)

    # -- asking

    def known(self, url: str) -> Known | None:
        record = self._db.get(_KNOWN + url_key(url))
        return None if record is None else decode_known(record)

    def last_links(self, key: UrlKey) -> frozenset[bytes]:
        """Fingerprints of the links that the last version had."""
        row = self._db.get(_LINKS + key)
        if row is None:
            return frozenset()
        size = FINGERPRINT_BYTES
        return frozenset(row[at : at + size] for at in range(0, len(row), size))

    def has_due(self) -> bool:
        """Whether anything is due today that is not handed out."""
        probe = self.activate(1)
        for origin in probe:
            self.retire(origin)
        return bool(probe)

    def origin_counts(self, origin: Origin) -> OriginCounts:
        return self._origin_counts(_origin_id(origin))

    def statistics(self) -> FrontierStatistics:
        return FrontierStatistics(
            known=self._known,
            handed_out=len(self._taken),
            active_origins=len(self._active),
            over_budget=self._over_budget,
            day=self._day,
            due=sum(count for day, count in self._due_counts.items() if day <= self._day),
            held_back=len(self._held_back),
        )

    def sync(self) -> None:
        """All that was said so far outlives a power cut."""
        self._db.flush_wal(sync=True)

    def close(self) -> None:
        self._db.close()

    # -- rows

    def _check_format(self) -> None:
        found = self._db.get(_FORMAT_ROW)
        if found is None:
            self._db.put(_FORMAT_ROW, FORMAT_VERSION.to_bytes(2, "big"))
        elif int.from_bytes(found, "big") != FORMAT_VERSION:
            version = int.from_bytes(found, "big")
            self._db.close()
            raise FrontierUnusableError(
                str(self._folder),
                f"it was written by another release (format {version}); upgrade herodotus: this release"
                f" reads format {FORMAT_VERSION}",
            )

    # -- counts

    def _read_due_counts(self) -> dict[int, int]:
        """How many URLs are due on each day; counted anew where an older release left no counts."""
        found = {
            int.from_bytes(row[len(_DUE_COUNT) :], "big"): self._number(row) for row in self._rows(_DUE_COUNT)
        }
        if found or not self._known:
            return found
        batch = WriteBatch(raw_mode=True)
        counted = Counter(_day_of(row) for row in self._rows(_DUE))
        for day, count in counted.items():
            batch.put(_DUE_COUNT + day.to_bytes(4, "big"), count.to_bytes(8, "big"))
        self._db.write(batch)
        return dict(counted)

    def _count_due(self, batch: WriteBatch, day: int, change: int) -> None:
        count = self._due_counts.get(day, 0) + change
        row = _DUE_COUNT + day.to_bytes(4, "big")
        if count > 0:
            self._due_counts[day] = count
            batch.put(row, count.to_bytes(8, "big"))
        else:
            self._due_counts.pop(day, None)
            batch.delete(row)

    def _count_visit(self, batch: WriteBatch, origin_id: bytes, entry: Entry, next_day: int) -> None:
        if entry.known.due_day != next_day:
            self._count_due(batch, entry.known.due_day, -1)
            self._count_due(batch, next_day, 1)
        counts = self._origin_counts(origin_id)
        counts.rests_until = entry.rests_until or counts.rests_until
        counts.visits = counts.visits + 1 if counts.last_day == self._day else 1
        counts.last_day = self._day
        batch.put(_ORIGIN + origin_id, msgspec.msgpack.encode(counts))

    def _rows(self, kind: bytes) -> Iterable[bytes]:
        cursor = self._db.iter(ReadOptions())
        cursor.seek(kind)
        while cursor.valid() and cursor.key().startswith(kind):
            yield cursor.key()
            cursor.next()

    def _get_many(self, rows: list[bytes]) -> list[bytes | None]:
        keys: list[str | int | float | bytes | bool] = list(rows)  # as rocksdict's signature spells it
        return list(self._db.get(keys) or ())

    def _number(self, row: bytes) -> int:
        found = self._db.get(row)
        return int.from_bytes(found, "big") if found else 0

    def _origin_counts(self, origin_id: bytes) -> OriginCounts:
        counts = self._counts.get(origin_id)
        if counts is None:
            found = self._db.get(_ORIGIN + origin_id)
            decoded = msgspec.msgpack.decode(found, type=OriginCounts) if found is not None else None
            counts = self._counts[origin_id] = decoded or OriginCounts(origin="")
        return counts


def fingerprint(url: str) -> bytes:
    """What a page's link set keeps of a link."""
    return url_key(url)[:FINGERPRINT_BYTES]


def _options() -> Options:
    table = BlockBasedOptions()
    table.set_block_cache(Cache(CACHE_BYTES))
    table.set_bloom_filter(10, False)
    table.set_cache_index_and_filter_blocks(True)
    # Filters and indexes of millions of keys are megabytes a file: in pieces, so that the cache holds those
    # in use.
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(4 * 1024)
    table.set_pin_top_level_index_and_filter(True)
    table.set_block_size(4 * 1024)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(WRITE_BUFFER_BYTES)
    options.set_max_write_buffer_number(3)
    options.set_max_background_jobs(2)
    options.set_max_open_files(256)
    options.set_keep_log_file_num(2)
    options.set_max_log_file_size(2**20)
    # Queues leave tombstones at their front; files full of them are compacted early.
    options.add_compact_on_deletion_collector_factory(4096, 1024, 0.25)
    return options


def _priority_of(link: FoundLink) -> int:
    return priority_of(
        link.depth, is_embedded=link.is_embedded, is_seed=link.is_seed, is_doubtful=link.is_doubtful
    )


@lru_cache(maxsize=16_384)
def _origin_id(origin: str) -> bytes:
    return hashlib.sha1(b"host:" + origin.encode(), usedforsecurity=False).digest()[:8]


def _due_row(origin_id: bytes, known: Known, key: bytes) -> bytes:
    return b"%b%b%b%c%b" % (_DUE, origin_id, known.due_day.to_bytes(4, "big"), known.priority, key)


def _day_of(row: bytes) -> int:
    return int.from_bytes(row[9:13], "big")


def _next_id(origin_id: bytes) -> bytes | None:
    number = int.from_bytes(origin_id, "big") + 1
    return None if number >= 1 << 64 else number.to_bytes(8, "big")
