"""How do the files, the log and the index stay one archive, whatever happens between two of their steps?

`Archive` is synchronous and owns the order: write to the log, flush it, then index, then tell. `recovery`
opens it after any crash. Its users: `reader`, `intake` (is this new?), `sealing`, `streams`,
`verification`; threads and loops are the business of `committer` and `store`.
"""

import hashlib
import logging
import secrets
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from threading import RLock

from herodotus.core.bundles import NO_ANSWER, Visit
from herodotus.core.captures import CaptureId, Deposit, position_of
from herodotus.core.copies.possession import Room
from herodotus.core.errors import IndexFailedError, StoreRefusedError, UnusableArchiveError
from herodotus.core.index_rows import (
    META,
    SEEN,
    TOMBSTONE,
    VISITS,
    FilePlace,
    IndexEntry,
    RowKind,
    Unreachable,
    VisitCount,
    address_key,
    after,
    arrival_of,
    auxiliary_key,
    capture_key,
    decode_entry,
    decode_numbers,
    decode_seen,
    decode_unreachable,
    decode_visits,
    encode_entry,
    encode_numbers,
    encode_seen,
    encode_unreachable,
    encode_visits,
    failed_key,
    family_key,
    payload_key,
    seen_key,
    stem_row,
    time_of,
    unreachable_after,
    url_prefix,
)
from herodotus.core.manifest import FileRow
from herodotus.core.removals import NOTHING_REMOVED, Removals
from herodotus.core.warc import TIME_MAX_S
from herodotus.store.digests import DirectoryDigests
from herodotus.store.disk import Disk
from herodotus.store.files import Files
from herodotus.store.index import Index, IndexBatch
from herodotus.store.log import (
    FullDiskError,
    IngestLog,
    Item,
    NewCapture,
    NewTombstones,
    NewVisits,
    lay_out,
    rewrites,
    waves,
)
from herodotus.store.manifest import LostFiles, Manifest
from herodotus.store.members import checksum
from herodotus.store.quarantine import Quarantine
from herodotus.store.settings import ArchiveSettings
from herodotus.store.spools import Lying, OnDisk, Spool

logger = logging.getLogger(__name__)

FORMAT = b"3"
FORMAT_KEY, APPLIED_KEY = META + b"format", META + b"applied"
INCARNATION_KEY, EPOCH_KEY, COUNT_KEY = META + b"incarnation", META + b"epoch", META + b"count"
MISSING_KEY, DAMAGED_KEY = META + b"missing", META + b"damaged"
DAMAGE_MAX = 10_000
FAILURES_APART_S = 1_800
"""Of one address: a site with a seed is asked every minute while it is away, and 48 lines a day say the same."""
ROBOTS_PATH = "/robots.txt"
NO_COUNTS: Mapping[bytes, VisitCount] = {}
FREE_UNKNOWN = 1 << 62
NO_ROOM = "the disk is full: no new log can be begun"
VOUCHED_MAX = 16_384
"""Captures, 200 bytes each. They are sent to their holders within seconds, and a fast crawl brings 2,000 a second."""
VOUCHED_BYTES_MAX = 1 << 20
"""Of one capture: of larger ones a checksum costs as much as unpacking saves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Damage:
    path: str
    offset: int
    reason: str


@dataclass(slots=True)
class StoreCounters:
    stored: int = 0
    refused: int = 0
    commits: int = 0
    damaged: int = 0
    recovered: int = 0
    truncated_bytes: int = 0


@dataclass(slots=True)
class Applying:
    batch: IndexBatch = field(default_factory=IndexBatch)
    visits: list[Visit] = field(default_factory=list)


class Archive:
    def __init__(
        self,
        files: Files,
        index: Index,
        *,
        now: Callable[[], float],
        settings: ArchiveSettings | None = None,
        free_bytes: Callable[[int], int] | None = None,
        scratch: Path | None = None,
        state: Disk | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        digest_of: Callable[[bytes], bytes] = lambda body: hashlib.sha256(body).digest(),
    ) -> None:
        self.files = files
        self.index = index
        self.settings = settings or ArchiveSettings()
        self.counters = StoreCounters()
        self.damage: dict[tuple[str, int], Damage] = {}
        """Captures found broken, to be fetched from another copy."""
        self.rotten: set[int] = set()
        """Files of which some members are damaged: to be written again without them."""
        self.quarantine = Quarantine(files)
        self.scrubbed_share = 0.0
        """Of the files, so much was read by the present round of scrubbing."""
        self.digest_of = digest_of
        self.lock = RLock()
        """Held while the log, the catalogue or the index change together."""
        self.upkeep_lock = RLock()
        """Held by sealing, compaction and deletion, which take one another's records for granted."""
        self.now = now
        self.log = IngestLog(files, self.settings.software, random_bytes)
        self.manifest = Manifest(files, self.log, state)
        self._spooled = count()
        self.lost_files = LostFiles(files, state)
        self.uncut: set[int] = set()
        """Logs of which nothing is left to continue: another one is begun."""
        self._free_bytes = free_bytes
        self.scratch = scratch
        """The folder for sorting on disk; the system's temporary folder if None."""
        self._removed = NOTHING_REMOVED
        self.removals = 0
        """How often the rules about removed pages changed."""
        self.refusal: str | None = None
        """Why nothing can be stored until the next opening."""
        self._unflushed = 0
        self.directories = DirectoryDigests(index)
        self.captures = 0
        self.has_tombstones = False
        self.rewrites = 0
        """How often captures were deleted or written again. Earlier reads of the index may be stale."""
        self.sign: Callable[[Deposit], Deposit] = lambda deposit: deposit
        """How this peer signs the captures that it brings in; only a running peer has its key at hand."""
        self.has_signer = False
        self.vouched: OrderedDict[bytes, int] = OrderedDict()
        """Captures that this peer signed and wrote since it opened, whole and in the log, and the CRC-32 of their bytes
        there: they can be sent as they lie, and nobody checks their digests and signatures again."""
        self.on_stored: Callable[[Sequence[CaptureId]], None] = lambda ids: None
        """Called with captures that have just become durable, in the thread that committed them: it must be quick."""
        self.on_written: Callable[[IndexBatch], None] | None = None
        """Called with each batch that adds or takes away captures, when it can be read, under `lock`: it must be
        quick."""
        self.on_removals: Callable[[], None] = lambda: None
        """Called when `removed` changed, in the thread that changed it: it must be quick."""
        self.on_gone: Callable[[], None] = lambda: None
        """Called when captures left the index that new ones may be about to refer to."""

    @property
    def is_index_damaged(self) -> bool:
        """It is made again at the next opening."""
        return self.index.is_damaged

    @property
    def removed(self) -> Removals:
        """Captures of these are shown to nobody and brought in by nobody here; some are taken from other holders."""
        return self._removed

    @removed.setter
    def removed(self, removed: Removals) -> None:
        self._removed = removed
        self.removals += 1
        self.on_removals()

    # -- storing ------------------------------------------------------------------------------------------

    def commit(self, items: Sequence[Item]) -> None:
        """Make the items durable and visible; returning is the acknowledgement. Parts of a refused batch may be
        stored."""
        with self.lock, self.writing_index():
            for wave in waves(items):
                self._commit_at_once(wave)

    def _commit_at_once(self, items: Sequence[Item]) -> None:
        """All or none."""
        if self.refusal is not None:
            self.counters.refused += len(items)
            raise StoreRefusedError(self.refusal)
        notes, buffers = lay_out(items)
        size = sum(map(len, buffers))
        self._make_room(size, is_clearing=all(map(rewrites, items)))
        good_tail = self.log.tail
        try:
            self._perform(items, notes, buffers)
        except OSError as error:
            self.counters.refused += len(items)
            logger.error(  # noqa: TRY400 - the error is the disk's; a traceback of ours says nothing
                "log abandoned path=%s at=%d error=%s", self.files.path(self.log.number), good_tail, error
            )
            self.log.abandon(good_tail)
            self.begin_log()
            raise StoreRefusedError(f"the disk failed: {error.strerror}") from error
        self.counters.commits += 1
        self.rewrites += any(map(rewrites, items))
        self.counters.stored += len(items)
        self._unflushed += size
        if self._unflushed > self.settings.index_flush_bytes:
            self.flush_index()
        self.on_stored([item.id for item in items if isinstance(item, NewCapture)])

    @contextmanager
    def writing_index(self) -> Iterator[None]:
        """An index that cannot be written is behind the log. Nothing more may be stored until the next opening
        applies the missing part. Reading continues."""
        try:
            yield
        except (IndexFailedError, UnusableArchiveError) as error:
            self.refusal = str(error)
            logger.error("index failed error=%s", error.reason)  # noqa: TRY400 - RocksDB's words say it all
            raise StoreRefusedError(self.refusal) from error

    def _perform(self, items: Sequence[Item], notes: list[Item], buffers: list[Lying]) -> None:
        start = self.log.write(buffers)
        self.log.flush()
        self.log.note_durable(sum(isinstance(item, NewCapture) for item in items))
        self._apply_committed(items, notes, buffers, start)

    def _make_room(self, size: int, *, is_clearing: bool) -> None:
        """Deleting is let through, a few bytes each: it is the way out of an archive that is full."""
        if not is_clearing:
            self._check_room(size)
        if not self.log.is_open or self.log.tail + size > self.settings.log_bytes_max:
            self.roll()

    def _check_room(self, size: int) -> None:
        """A log whose disk is full continues on another one, if there is one."""
        if not self._is_within_offer(size):
            raise StoreRefusedError(
                f"the archive is full: it may have {self.settings.archive_bytes_max} bytes"
            )
        if not self.has_room_on(self.log.slice, size) and self._roomy(size):
            self.roll()
        if not self.has_room_on(self.log.slice, size):
            raise StoreRefusedError(f"the disk is full: {self.settings.reserve_bytes} bytes stay in reserve")

    def has_room(self, bytes_: int) -> bool:
        """Whether so many bytes fit now, judging by the disks and the operator's limits."""
        if self.refusal is not None:
            return False
        with self.lock:
            has_disk = self.has_room_on(self.log.slice, bytes_) or bool(self._roomy(bytes_))
            return has_disk and self._is_within_offer(bytes_)

    def room(self) -> Room:
        """As `offered_bytes` of the whole peer: what is there, and what the disks can still take."""
        used, most = self.files.bytes_used(), self.settings.archive_bytes_max
        reserve = self.settings.reserve_bytes
        free = sum(max(0, self.free_on(slice_) - reserve) for slice_ in self.files.present)
        reachable = used + free
        return Room(used, reachable if most is None else min(reachable, most))

    def has_room_on(self, slice_: int, bytes_: int) -> bool:
        return self._free_bytes is None or self._free_bytes(slice_) - bytes_ >= self.settings.reserve_bytes

    def free_on(self, slice_: int) -> int:
        """Its reserve included, which is there for sealing."""
        return FREE_UNKNOWN if self._free_bytes is None else self._free_bytes(slice_)

    def _is_within_offer(self, bytes_: int) -> bool:
        most = self.settings.archive_bytes_max
        return most is None or self.files.bytes_used() + self.quarantine.bytes_used + bytes_ <= most

    def _roomy(self, bytes_: int) -> list[int]:
        """The other disks that could take a log."""
        others = [slice_ for slice_ in self.files.present if slice_ != self.log.slice]
        return [slice_ for slice_ in others if self.has_room_on(slice_, bytes_)]

    def roll(self) -> None:
        """Close the log and begin another, so that everything stored so far can be sealed."""
        with self.lock:
            if self.refusal is not None:
                raise StoreRefusedError(self.refusal)
            if not self.begin_log():
                raise StoreRefusedError(self.problem or NO_ROOM)

    def begin_log(self) -> bool:
        """Where it fails, storing is refused: for now if the disk is full, else until the next opening."""
        is_short = not self.has_room_on(self.log.slice, 0)
        before = self._row_of_log()
        try:
            self.log.begin(int(self.now()), first=self._roomy(0) if is_short else [])
        except FullDiskError:
            logger.warning("no new log: the disk is full")
            return False
        except OSError as error:
            self.refusal = f"no new log can be begun: {error.strerror}"
            return False
        self.manifest.began(before)
        return True

    def _row_of_log(self) -> FileRow | None:
        """Where the log ended, whatever became of it; None before the first, and of one that is gone."""
        located = self.files.catalogue.get(self.log.number)
        if located is None or not located.name.is_log:
            return None
        return FileRow(located.name, located.slice, self.log.tail, self.log.captures)

    @property
    def problem(self) -> str | None:
        """Why nothing can be stored now, or None."""
        return self.refusal or (None if self.log.is_open else NO_ROOM)

    def is_at_damage(self, entry: bytes) -> bool:
        """Whether an entry of the index leads to a place where damage was found."""
        place = decode_entry(entry).place
        located = self.files.catalogue.get(place.file)
        return located is not None and (self.files.path(place.file), place.offset) in self.damage

    # -- indexing -----------------------------------------------------------------------------------------

    def is_deleted(self, key: bytes) -> bool:
        """For good; `key` is one of family c. Most archives never delete, and need not look."""
        return self.has_tombstones and self.index.get(family_key(TOMBSTONE, key)) is not None

    def load_counts(self) -> None:
        """Read the index's own settings and counts, after it was opened or rebuilt."""
        self.captures = decode_numbers(self.index.get(COUNT_KEY) or b"\0")[0]
        self.directories.load()
        self.has_tombstones = next(self.index.scan(TOMBSTONE, after(TOMBSTONE)), None) is not None

    def put(
        self, batch: IndexBatch, id_: CaptureId, entry: IndexEntry, *, url: str = "", is_checked: bool = False
    ) -> None:
        """Deleted is deleted: a tombstone outlives whatever comes back from elsewhere."""
        key = capture_key(id_)
        if not is_checked and self.is_deleted(key):
            return
        if self.index.get(key) is None:
            batch.put_new(key, encode_entry(entry))
            if url:
                batch.put(address_key(url))
                if (row := stem_row(url, id_.key)) is not None:
                    batch.put(row)
        else:
            # Written again: a revisit may have got the body, or a body that was found twice its place.
            batch.put(key, encode_entry(entry))
            batch.delete(
                payload_key(key, id_.digest, RowKind.REVISIT if entry.kind is RowKind.BODY else RowKind.BODY)
            )
        batch.put(payload_key(key, id_.digest, entry.kind))

    def write(self, batch: IndexBatch) -> None:
        """Every change of captures passes here, as the batch carries their number."""
        if batch.added:
            batch.put(COUNT_KEY, encode_numbers((self.captures + batch.added,)))
        do_members_change = self.directories.prepare(batch)
        self.index.write(batch)
        self.captures += batch.added
        if self.on_written is not None:
            self.on_written(batch)
        if do_members_change:
            self.directories.applied()

    def put_tombstones(self, batch: IndexBatch, ids: Sequence[CaptureId], number: int, offset: int) -> None:
        self.has_tombstones = True
        batch.put(auxiliary_key(number, offset))
        gone_before: set[bytes] = set()
        for id_ in ids:
            key = capture_key(id_)
            if key in batch.fresh or (self.index.get(key) is not None and key not in gone_before):
                batch.added -= 1
                batch.fresh.discard(key)
            gone_before.add(key)
            batch.put(family_key(TOMBSTONE, key))
            batch.delete(key)
            batch.delete(family_key(VISITS, key))
            self.forget_seen(batch, key)
            for kind in RowKind:
                batch.delete(payload_key(key, id_.digest, kind))

    def _apply_committed(
        self, items: Sequence[Item], notes: list[Item], buffers: list[Lying], start: int
    ) -> None:
        applying = Applying()
        number, offset, at = self.log.number, start, 0
        for item in items:
            if isinstance(item, NewCapture):
                length = sum(map(len, item.members))
                arrival = arrival_of(number, offset) if item.arrival is None else item.arrival
                entry = IndexEntry(place=FilePlace(number, offset, length), kind=item.kind, arrival=arrival)
                self.put(applying.batch, item.id, entry, url=item.url, is_checked=True)
                if item.is_vouched:
                    self._vouch(item, length)
                offset += length
                at += len(item.members)
        for note in notes:
            if isinstance(note, NewVisits):
                applying.visits += note.visits
                applying.batch.put(auxiliary_key(number, offset))
            elif isinstance(note, NewTombstones):
                self.put_tombstones(applying.batch, note.ids, number, offset)
            offset += len(buffers[at])
            at += 1
        self.finish(applying, (number, offset))

    def _vouch(self, item: NewCapture, length: int) -> None:
        if length <= VOUCHED_BYTES_MAX and not any(isinstance(one, OnDisk) for one in item.members):
            self.vouched[capture_key(item.id)] = checksum(self.log.as_it_lies(item.members))
            if len(self.vouched) > VOUCHED_MAX:
                self.vouched.popitem(last=False)

    def finish(self, applying: Applying, applied: tuple[int, int]) -> None:
        """Write the collected rows. The visits and the position come last, in one batch."""
        position = (APPLIED_KEY, encode_numbers(applied))
        if not applying.visits:
            applying.batch.put(*position)
            self.write(applying.batch)
            return
        self.write(applying.batch)
        counts: dict[bytes, VisitCount] = {}
        seen: dict[bytes, set[int]] = {}
        vain: list[Visit] = []
        for visit in sorted(applying.visits):
            if visit.status == NO_ANSWER:
                vain.append(visit)
                continue
            key = self.version_at(visit.url, visit.time_s)
            if key is None:
                continue
            visits_key = family_key(VISITS, key)
            data = self.index.get(visits_key)
            known = counts.get(visits_key) or (decode_visits(data) if data else VisitCount(count=0, last_s=0))
            counts[visits_key] = VisitCount(count=known.count + 1, last_s=max(known.last_s, visit.time_s))
            seen.setdefault(seen_key(key, visit.time_s), set()).add(visit.time_s)
        changes: list[tuple[bytes, bytes | None]] = [
            (key, encode_visits(value)) for key, value in counts.items()
        ]
        for key, times in seen.items():
            data = self.index.get(key)
            changes.append((key, encode_seen(key, times.union(decode_seen(key, data) if data else ()))))
        changes += self._failed_rows(vain, counts)
        self.index.write(IndexBatch([*changes, position]))

    def _failed_rows(
        self, visits: Sequence[Visit], counts: Mapping[bytes, VisitCount]
    ) -> list[tuple[bytes, bytes | None]]:
        """After visits without an answer, in their order. `counts` are those that are written with them."""
        rows: dict[bytes, Unreachable | None] = {}
        for visit in visits:
            key = failed_key(position_of(visit.url))
            known = rows[key] if key in rows else self.unreachable_at(visit.url)
            answered_s = self.answered_s(visit.url, counts)
            rows[key] = unreachable_after(known, visit.time_s, visit.problem, answered_s)
        return [(key, None if row is None else encode_unreachable(row)) for key, row in rows.items()]

    def unreachable_at(self, url: str) -> Unreachable | None:
        """As noted; an answer may have come since."""
        data = self.index.get(failed_key(position_of(url)))
        return None if data is None else decode_unreachable(data)

    def answered_s(self, url: str, counts: Mapping[bytes, VisitCount] = NO_COUNTS) -> int:
        """When its newest version was last seen; 0 where there is none."""
        key = self.version_at(url, TIME_MAX_S)
        if key is None:
            return 0
        visits_key = family_key(VISITS, key)
        data = self.index.get(visits_key)
        visits = counts.get(visits_key) or (None if data is None else decode_visits(data))
        return max(time_of(key), 0 if visits is None else visits.last_s)

    def heeds_failure(self, url: str, time_s: int) -> bool:
        """Whether it has a version here, or is robots.txt of a site of which something is here; and whether the last
        failure is not too near."""
        known = self.unreachable_at(url)
        if known is not None and known.last_s <= time_s < known.last_s + FAILURES_APART_S:
            return self.answered_s(url) >= known.last_s  # that one was before an answer
        if self.version_at(url, TIME_MAX_S) is not None:
            return True
        site, _, rest = url.rpartition(ROBOTS_PATH)
        prefix = address_key(f"{site}/").rpartition(b"\0")[0]
        return bool(site) and not rest and next(self.index.scan(prefix, after(prefix)), None) is not None

    def forget_seen(self, batch: IndexBatch, capture: bytes) -> None:
        prefix = family_key(SEEN, capture)
        for key, _ in self.index.scan(prefix, after(prefix)):
            batch.delete(key)

    def version_at(self, url: str, time_s: int) -> bytes | None:
        """The index key of the newest capture of a URL that is not newer than a time."""
        prefix = url_prefix(position_of(url))
        found = self.index.last_before(prefix, prefix + time_s.to_bytes(4, "big") + b"\xff" * 4)
        return None if found is None else found[0]

    @property
    def applied(self) -> tuple[int, int]:
        """Log number and offset up to which the index has everything."""
        number, offset = decode_numbers(self.index.get(APPLIED_KEY) or b"\0\0")
        return number, offset

    @property
    def epoch(self) -> int:
        """The number of the last sealing that the index includes."""
        return decode_numbers(self.index.get(EPOCH_KEY) or b"\0")[0]

    @property
    def incarnation(self) -> bytes:
        """Changes when the index is rebuilt, because arrivals then get new numbers."""
        return self.index.get(INCARNATION_KEY) or b""

    def flush_index(self) -> None:
        self.index.flush()
        self._unflushed = 0

    # -- damage, closing ----------------------------------------------------------------------------------

    def spool(self) -> Spool:
        """Where a large capture waits."""
        # After a power cut between two lines an empty file of that name is left, which the next of its number takes.
        return Spool(self.files.disk(self.files.present[0]), f"spool.{next(self._spooled)}")

    def note_damage(self, file: int, offset: int, reason: str, *, is_rotten: bool = True) -> None:
        """Not rotten: the member is whole, and what it refers to is not."""
        if is_rotten:
            self.rotten.add(file)
        path = self.files.path(file)
        if (path, offset) not in self.damage:
            logger.warning("damaged record path=%s offset=%d reason=%s", path, offset, reason)
            if len(self.damage) < DAMAGE_MAX:  # beyond, nobody knows which were counted
                self.counters.damaged += 1
                self.damage[path, offset] = Damage(path=path, offset=offset, reason=reason)

    def rotten_files(self) -> frozenset[int]:
        """Of those that sealing and compaction may take."""
        return frozenset(self.rotten) & self.files.catalogue.keys() - self.files.unreadable

    def close(self) -> None:
        with self.lock:
            try:
                if self.refusal is None:
                    self.flush_index()
            except IndexFailedError as error:  # the log has it, and the next opening reads it there
                logger.warning("index closed as it was error=%s", error.reason)
            self.log.end()
            self.log.tail_file.end()
            self.files.close()
            self.index.close()
            self.refusal = "the archive is closed"
