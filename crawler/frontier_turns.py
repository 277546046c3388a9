"""Which origin is crawled next, and which of its URLs? The queues of the origins that are active.

The disk holds the due rows in the order in which they are to be visited. An active origin has a handful of them in
memory and a cursor: where on the disk more may be. Inactive origins that something came due for are noted, or found
by a scan. So memory holds what is being crawled, whatever the number of known URLs. Rows are marked before they are
handed out: after a crash the marked ones come again as suspects.

How many URLs are known, how many are due, and what is counted of an origin? Numbers kept beside the rows.

Every change goes into the batch of the change that it counts, so that the numbers are as durable and as exact as the
rows. Memory holds the days that have something due and a bounded number of origins.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain

import msgspec

from crawler.core.link import (
    DUE,
    KNOWN,
    MARK,
    META,
    ORIGIN,
    ORIGIN_ID_BYTES,
    DueEntry,
    OriginCounts,
    day_of,
    due_row,
    key_of,
    number_in,
    origin_id_of,
)
from crawler.core.recrawl import Known, decode_known
from crawler.core.rows import Batch, Rows, after
from crawler.core.urls import Origin, UrlKey

_KNOWN_COUNT, _DUE_COUNT = META + b"known", META + b"due"
ORIGINS_CACHED_MAX = 20_000

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(OriginCounts)


class FrontierCounts:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._origins: dict[bytes, OriginCounts] = {}
        self.known = number_in(rows.get(_KNOWN_COUNT))
        self.over_budget = 0
        self._due = self._read_due()

    def _read_due(self) -> dict[int, int]:
        """How many URLs are due on each day; counted again if an older release left no counts."""
        rows = self._rows.keys(_DUE_COUNT, after(_DUE_COUNT))
        found = {
            int.from_bytes(row[len(_DUE_COUNT) :], "big"): number_in(self._rows.get(row)) for row in rows
        }
        if found or not self.known:
            return found
        batch = Batch()
        counted = Counter(day_of(row) for row in self._rows.keys(DUE, after(DUE)))
        for day, count in counted.items():
            batch.put(_DUE_COUNT + day.to_bytes(4, "big"), count.to_bytes(8, "big"))
        self._rows.write(batch)
        return dict(counted)

    def due_until(self, day: int) -> int:
        return sum(count for due_day, count in self._due.items() if due_day <= day)

    def change_due(self, batch: Batch, day: int, change: int) -> None:
        count = self._due.get(day, 0) + change
        row = _DUE_COUNT + day.to_bytes(4, "big")
        if count > 0:
            self._due[day] = count
            batch.put(row, count.to_bytes(8, "big"))
        else:
            self._due.pop(day, None)
            batch.delete(row)

    def move_due(self, batch: Batch, day: int, to: int) -> None:
        if day != to:
            self.change_due(batch, day, -1)
            self.change_due(batch, to, 1)

    def add_known(self, batch: Batch, day: int, new: int) -> None:
        """So many URLs more, all due on that day."""
        self.change_due(batch, day, new)
        self.known += new
        batch.put(_KNOWN_COUNT, self.known.to_bytes(8, "big"))

    def origin(self, origin_id: bytes) -> OriginCounts:
        """What is counted of it; to be changed in place and given to `put_origin` in the same batch."""
        counts = self._origins.get(origin_id)
        if counts is None:
            found = self._rows.get(ORIGIN + origin_id)
            counts = _DECODER.decode(found) if found is not None else OriginCounts(origin="")
            self._origins[origin_id] = counts
        return counts

    def put_origin(self, batch: Batch, origin_id: bytes, counts: OriginCounts) -> None:
        batch.put(ORIGIN + origin_id, _ENCODER.encode(counts))

    def forget_some(self) -> None:
        """Keeps the memory within its bound; only while no batch is open, when all is on disk."""
        if len(self._origins) > ORIGINS_CACHED_MAX:
            self._origins.clear()


REFILL = 64
"""Keys that an active origin keeps in memory at most twice of; one disk scan hands them out."""
FRESH_MAX = 4_096
"""Origins remembered as having something new to do; above it they are found by scanning."""


class _Active:
    """An origin that is being crawled: its next keys, and from where on the disk has more."""

    __slots__ = ("cursor", "is_exhausted", "queue")

    def __init__(self) -> None:
        self.is_exhausted = False  # `take` found nothing more, and nothing came or was released since
        # A heap of due rows, with the known row, empty if not read: a row that is there twice must compare.
        self.queue: list[tuple[bytes, bytes]] = []
        self.cursor = b""


class FrontierTurns:
    def __init__(self, rows: Rows, counts: FrontierCounts, *, visits_per_origin_max: int) -> None:
        self._rows = rows
        self._counts = counts
        self._visits_per_origin_max = visits_per_origin_max
        self._day = 0
        self._active: dict[bytes, _Active] = {}
        self._suspects = {row[1:] for row in rows.keys(MARK, after(MARK))}
        self._scan_from = b""
        self._needs_scan = True
        self._fresh: dict[bytes, None] = {}  # inactive origins that something came due for since the scan
        self._held_back: set[bytes] = set()
        self.taken: dict[bytes, DueEntry] = {}

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def suspects(self) -> int:
        return len(self._suspects)

    @property
    def held_back(self) -> int:
        return len(self._held_back)

    def start_day(self, day: int) -> None:
        self._day = day
        self._needs_scan = True
        self._held_back.clear()
        for active in self._active.values():
            active.cursor = b""
            active.queue = []

    def look_again(self) -> None:
        """What was passed over is handed out again."""
        self._needs_scan = True
        for active in self._active.values():
            active.cursor = b""
            active.queue = []
            active.is_exhausted = False

    def look_again_at(self, origin_id: bytes) -> None:
        active = self._active.get(origin_id)
        if active is None:
            self._note_fresh(origin_id)
        else:
            active.cursor, active.queue, active.is_exhausted = b"", [], False

    # -- what is due

    def put_due(self, batch: Batch, origin_id: bytes, known: Known, key: bytes) -> None:
        """The URL's due row, to be found in its turn."""
        row = due_row(origin_id, known, key)
        batch.put(row, b"")
        if known.due_day > self._day:
            return
        active = self._active.get(origin_id)
        if active is None:
            self._note_fresh(origin_id)
            return
        active.is_exhausted = False
        # Rows before the cursor are in the queue, handed out, or passed over: no scan comes there again today. So a
        # new row before it goes to the queue, and one behind it is left to the next scan.
        if row < active.cursor:
            batch.put(MARK + key, b"")
            heapq.heappush(active.queue, (row, b""))
            if len(active.queue) > 2 * REFILL:
                self._shrink(active)

    def delete_due(self, batch: Batch, origin_id: bytes, row: bytes) -> None:
        """The URL is due elsewhen: its old row goes, from the queue too."""
        batch.delete(row)
        active = self._active.get(origin_id)
        if active is not None:
            active.queue = [item for item in active.queue if item[0] != row]
            heapq.heapify(active.queue)

    def move_taken(self, batch: Batch, entry: DueEntry) -> None:
        """The record of a URL that is handed out has another priority: its row says the same, or it would not be found
        again when the URL is released, or after a crash.
        """
        assert entry.key in self.taken, "a row in a queue would be handed out under its old name"
        batch.delete(entry.due_row)
        entry.due_row = due_row(origin_id_of(entry.origin), entry.known, entry.key)
        batch.put(entry.due_row, b"")

    def suspect(self, batch: Batch, key: bytes) -> None:
        """The archive may have this URL's capture: it is to be asked before anybody fetches."""
        self._suspects.add(key)
        batch.put(MARK + key, b"")

    def clear(self, batch: Batch, key: bytes) -> None:
        """Its visit is over."""
        self._suspects.discard(key)
        batch.delete(MARK + key)

    def _shrink(self, active: _Active) -> None:
        """The queue is full: its larger half is left to the disk, from where the cursor will find it again."""
        assert len(active.queue) > REFILL
        active.queue.sort()
        active.cursor = active.queue[REFILL][0]
        del active.queue[REFILL:]

    # -- which origin

    @property
    def may_activate(self) -> bool:
        return bool(self._fresh) or self._needs_scan

    def activate(self, wanted: int, takes: Callable[[Origin], bool] | None) -> list[Origin]:
        self._counts.forget_some()
        found: list[Origin] = []
        while self._fresh and len(found) < wanted:
            self._activate(next(iter(self._fresh)), found, takes)
        if not self._needs_scan or len(found) >= wanted:
            return found
        start = self._scan_from
        for row in chain(self._first_due(start, after(DUE)), self._first_due(b"", DUE + start)):
            origin_id = row[1:9]
            if len(found) >= wanted:
                self._scan_from = origin_id
                return found
            if day_of(row) <= self._day:
                self._activate(origin_id, found, takes)
        self._needs_scan = False
        self._scan_from = b""
        return found

    def _first_due(self, start: bytes, end: bytes) -> Iterator[bytes]:
        """The first due row of each origin, in the order of their ids from `start` on."""
        return self._rows.first_keys(DUE + start, end, len(DUE) + ORIGIN_ID_BYTES)

    def _activate(
        self, origin_id: bytes, found: list[Origin], takes: Callable[[Origin], bool] | None
    ) -> None:
        self._fresh.pop(origin_id, None)
        if origin_id in self._active or origin_id in self._held_back:
            return
        origin = Origin(self._counts.origin(origin_id).origin)
        if takes is None or takes(origin):
            self._active[origin_id] = _Active()
            found.append(origin)

    def _note_fresh(self, origin_id: bytes) -> None:
        if len(self._fresh) < FRESH_MAX:
            self._fresh[origin_id] = None
        else:
            self._needs_scan = True

    def retire(self, origin: Origin) -> None:
        origin_id = origin_id_of(origin)
        active = self._active.pop(origin_id, None)
        if active is not None and not active.is_exhausted:
            self._note_fresh(origin_id)

    # -- which URL

    def take(self, origin: Origin) -> DueEntry | None:
        origin_id = origin_id_of(origin)
        active = self._active[origin_id]
        if self._has_had_its_share(origin_id):
            self._held_back.add(origin_id)
            return None
        while True:
            if not active.queue and not self._refill(origin_id, active):
                active.is_exhausted = True
                return None
            row, record = heapq.heappop(active.queue)
            key = key_of(row)
            # The queue may be behind the disk: a row can be in it twice, and its URL visited, moved or deleted since.
            # To take such rows out of the heap at each change would cost a walk over it; here it is one comparison.
            if key in self.taken:
                continue
            stored = record or self._rows.get(KNOWN + key)
            if stored is None:
                continue
            known = decode_known(stored)
            if due_row(origin_id, known, key) != row:
                continue  # moved since it was queued
            entry = DueEntry(UrlKey(key), origin, known, key in self._suspects, row)
            self.taken[key] = entry
            return entry

    def _has_had_its_share(self, origin_id: bytes) -> bool:
        counts = self._counts.origin(origin_id)
        return counts.last_day == self._day and counts.visits >= self._visits_per_origin_max

    def _refill(self, origin_id: bytes, active: _Active) -> bool:
        assert not active.queue, "it is replaced"
        start = active.cursor or DUE + origin_id
        rows: list[bytes] = []
        last = start
        for row in self._rows.keys(start, after(DUE + origin_id)):
            if len(rows) == REFILL or day_of(row) > self._day:
                break
            last = row
            if key_of(row) not in self.taken:
                rows.append(row)
        if rows:
            # On disk before one of them is handed out: a crash later leaves marks, and a marked URL is looked up in the
            # archive before it is fetched. The marks of a whole refill are one write instead of 64.
            batch = Batch()
            for row in rows:
                batch.put(MARK + key_of(row), b"")
            self._rows.write(batch)
            records = self._rows.get_many([KNOWN + key_of(row) for row in rows])
            active.queue = [(row, record or b"") for row, record in zip(rows, records, strict=True)]
        # The first row that follows, whatever it is: a row and a zero byte have no other row between them.
        active.cursor = last + b"\x00" if last != start or rows else start
        assert active.cursor >= start
        return bool(rows)

    def release(self, entry: DueEntry) -> None:
        """It stays due, and is the next to come."""
        del self.taken[entry.key]
        origin_id = origin_id_of(entry.origin)
        active = self._active.get(origin_id)
        if active is not None:
            heapq.heappush(active.queue, (entry.due_row, b""))
            active.is_exhausted = False
        else:
            self._note_fresh(origin_id)

    def pass_over(self, entry: DueEntry) -> None:
        """It stays due, without a mark."""
        del self.taken[entry.key]
        if not entry.is_suspect:
            self._rows.write(Batch([(MARK + entry.key, None)]))
