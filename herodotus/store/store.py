"""How does the rest of the peer use its archive? Through one asynchronous face, on disk or in memory.

Small captures are hashed and compressed in the caller's thread, as a trip to another thread would cost more. Large
ones, and everything that waits for a disk, go to threads. Storing returns when the capture is durable: many captures
share one flush.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from itertools import filterfalse, islice
from threading import Event
from typing import TypeVar

import anyio

from herodotus.core.bundles import NO_ANSWER, Visit, plain_problem
from herodotus.core.captures import CaptureId, Deposit, Mode
from herodotus.core.errors import ArchiveError, UpkeepStoppedError
from herodotus.core.index_rows import Unreachable, bucket_of
from herodotus.core.ports import Lane, Workers
from herodotus.core.warc import TIME_MAX_S
from herodotus.store.committer import (
    CommitQueue,
    Committer,
    PreparedInVainError,
    current_bell,
    open_committer,
)
from herodotus.store.deletion import count_outdated, delete, expunge, outdated
from herodotus.store.engine import Archive
from herodotus.store.intake import Copy, Intake, Prepared, StoreOutcome
from herodotus.store.large_parcels import Packed
from herodotus.store.log import Item, NewCapture, NewTombstones, NewVisits
from herodotus.store.losses import settle
from herodotus.store.reader import HISTORY_MAX, ShownReader, Version
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.sealing import DEAD_MIN, Pace, Sealed, compact, seal
from herodotus.store.stored_records import StoredCapture
from herodotus.store.streams import Cursor, Query, Stream
from herodotus.store.throttle import Throttle
from herodotus.store.verification import Verification, verify

READING = Lane("archive readers", 4)  # two cores are full with two; more only helps slow disks
UPKEEP = Lane("archive upkeep", 1)
OPENING = Lane("archive opening", 1)
INLINE_BYTES_MAX = 64 * 1024
IN_FLIGHT_MAX = 1_024
STREAM_PAGE = 64
URLS_SHOWN = 3
NEW = (StoreOutcome.NEW, StoreOutcome.REVISIT)

T = TypeVar("T")
Acknowledge = Callable[[CaptureId], Awaitable[None]]


async def at_once(id_: CaptureId) -> None:
    """Durable here is enough."""
    del id_


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    id: CaptureId
    outcome: StoreOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStatistics:
    captures: int
    bytes: int
    """Of the WARC files."""
    index_bytes: int
    files: int
    logs: int
    stored: int
    """Since opening, as all that follow."""
    commits: int
    refused: int
    damaged: int
    recovered: int
    truncated_bytes: int
    refusal: str | None
    """Why nothing can be stored now, or None."""
    lost: int
    """Captures that went with files, and are not back."""
    lost_files: tuple[str, ...]
    quarantined: int = 0
    """Captures that lie damaged in quarantine and are not whole again."""
    quarantined_urls: tuple[str, ...] = ()
    """The first of them, where something still says it."""
    quarantine_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    captures: tuple[StoredCapture, ...]
    cursor: Cursor
    is_last: bool
    skipped: int


class _Told:
    """What becomes of a list of captures: told in several threads, of each once."""

    def __init__(
        self, found: dict[int, Stored | ArchiveError], left: set[int], on_all: Callable[[], None]
    ) -> None:
        self._found, self._left, self._on_all = found, left, on_all

    def take(self, number: int, one: Stored | ArchiveError | None) -> None:
        """None: not yet, it is to be prepared again."""
        if one is not None:
            self._found[number] = one
        self._left.discard(number)
        if not self._left:  # two threads may find this; all is noted before
            self._on_all()

    def committed(self, number: int, prepared: Prepared, error: ArchiveError | None) -> None:
        if isinstance(error, PreparedInVainError):
            self.take(number, None)
        else:
            self.take(number, error or Stored(id=prepared.id, outcome=prepared.outcome))


class DiskStore:
    """The archive of a peer. Made by `open_store`, which also closes it."""

    def __init__(self, archive: Archive, intake: Intake, committer: Committer, workers: Workers) -> None:
        self.archive = archive
        self.workers = workers
        self._bell = current_bell(workers)
        self.intake = intake
        self._reader = ShownReader(archive)
        self._committer = committer
        self._closing = Event()
        self.acknowledge: Acknowledge = at_once
        # Without a turn of the loop when there is room: committing waits anyway.
        self._in_flight = anyio.Semaphore(IN_FLIGHT_MAX, fast_acquire=True)

    async def _in_thread(self, work: Callable[[], T], lane: Lane = READING) -> T:
        return await self.workers.work(work, lane)

    def stop(self) -> None:
        self._closing.set()
        self._committer.stop()
        self.archive.close()

    # -- storing ------------------------------------------------------------------------------------------

    def has_room(self, bytes_: int) -> bool:
        return self.archive.has_room(bytes_)

    def is_removed(self, url: str) -> bool:
        return self.archive.removed.covers(url)

    async def store(
        self, deposit: Deposit, mode: Mode = Mode.REGULAR, packed: Packed | None = None
    ) -> Stored:
        """`packed`: the bytes of a deposit whose body is not here."""
        async with self._in_flight:
            prepared = await self._prepare(deposit, mode, packed)
            while prepared.item is not None and not await self._commit(prepared.item, prepared):
                prepared = await self._prepare(deposit, mode, packed)
        if prepared.item is not None:
            await self.acknowledge(prepared.id)
        return Stored(id=prepared.id, outcome=prepared.outcome)

    async def store_all(self, copies: Sequence[Copy]) -> list[Stored | ArchiveError]:
        """Captures of other holders in one go: for each what `store` gives or raises."""
        found: dict[int, Stored | ArchiveError] = {}
        async with self._in_flight:
            while left := [number for number in range(len(copies)) if number not in found]:
                done = anyio.Event()
                told = _Told(found, set(left), partial(self._bell.ring, done.set))
                await self._in_thread(partial(self._store_list, copies, left, told))
                await done.wait()
        if self.acknowledge is not at_once:
            for one in found.values():
                if isinstance(one, Stored) and one.outcome in NEW:
                    await self.acknowledge(one.id)
        return [found[number] for number in range(len(copies))]

    def _store_list(self, copies: Sequence[Copy], left: Sequence[int], told: "_Told") -> None:
        """What rests on another of the list is left for the next round: that one can only be referred to when it is in
        the queue of the disk."""
        prepared: list[tuple[int, Prepared, NewCapture]] = []
        names = set[object]()
        for number in left:
            try:
                one = self.intake.prepare_copy(copies[number])
            except ArchiveError as error:
                told.take(number, error)
                continue
            its_names = {one.id, (bucket_of(one.id.key), one.id.digest) if one.original else one.id}
            if one.item is None:
                told.take(number, Stored(id=one.id, outcome=one.outcome))
            elif names & its_names:
                told.take(number, None)
            else:
                names |= its_names
                prepared.append((number, one, one.item))
        some = [
            (item, partial(told.committed, number, one), one.generation) for number, one, item in prepared
        ]
        answers = self._committer.submit_all(some) if some else []
        for (number, one, _), is_taken in zip(prepared, answers, strict=True):
            if is_taken is True:
                self.intake.promise(one)
            else:
                told.take(number, None if is_taken is False else is_taken)

    async def _prepare(self, deposit: Deposit, mode: Mode, packed: Packed | None) -> Prepared:
        if len(deposit.capture.body) <= INLINE_BYTES_MAX and mode is not Mode.COMPARE:
            return self.intake.prepare(deposit, mode, packed)
        return await self._in_thread(lambda: self.intake.prepare(deposit, mode, packed))

    async def decline(self, ids: Iterable[CaptureId]) -> None:
        """Note durably that these captures, which are not here, are not wanted: other holders then stop offering
        them."""
        await self._commit(NewTombstones(ids=tuple(ids)), None)

    async def note_visits(self, visits: Sequence[Visit]) -> None:
        if visits:
            async with self._in_flight:
                await self._commit(NewVisits(visits=tuple(visits)), None)

    async def note_failure(self, url: str, time_s: int, problem: str) -> None:
        if self.archive.heeds_failure(url, time_s):
            words = plain_problem(problem) or "no answer"
            await self.note_visits([Visit(url=url, time_s=time_s, status=NO_ANSWER, problem=words)])

    async def note_answer(self, url: str, time_s: int) -> None:
        if self.archive.unreachable_at(url) is not None:
            await self.note_visits([Visit(url=url, time_s=time_s, status=NO_ANSWER)])

    async def _commit(self, item: Item, prepared: Prepared | None) -> bool:
        """False if it was prepared in vain. A caller that is cancelled here may have stored anyway."""
        done = anyio.Event()
        failure: list[ArchiveError] = []
        bell = self._bell

        def tell(error: ArchiveError | None) -> None:
            if error is not None:
                failure.append(error)
            bell.ring(done.set)

        generation = None if prepared is None else prepared.generation
        if not self._committer.submit(item, tell, generation):
            return False
        if prepared is not None:
            self.intake.promise(prepared)
        await done.wait()
        if failure and isinstance(failure[0], PreparedInVainError):
            return False
        if failure:
            raise failure[0]
        return True

    # -- reading ------------------------------------------------------------------------------------------

    async def newest(self, url: str, not_after_s: int) -> StoredCapture | None:
        return await self._in_thread(lambda: self._reader.newest(url, not_after_s))

    async def read(self, id_: CaptureId) -> StoredCapture | None:
        return await self._in_thread(lambda: self._reader.read(id_))

    async def history(
        self, url: str, from_s: int = 0, to_s: int = TIME_MAX_S, limit: int = HISTORY_MAX
    ) -> list[Version]:
        return await self._in_thread(lambda: self._reader.history(url, from_s, to_s, limit))

    async def unreachable(self, url: str) -> Unreachable | None:
        return await self._in_thread(lambda: self._reader.unreachable(url))

    async def spellings(self, asked: Sequence[str]) -> list[str]:
        return await self._in_thread(lambda: self._reader.spellings(asked))

    async def of_payload(self, digest: bytes) -> list[CaptureId]:
        return await self._in_thread(lambda: self._reader.of_payload(digest))

    async def page(self, query: Query, cursor: Cursor | None = None, limit: int = STREAM_PAGE) -> Page:
        def work() -> Page:
            stream = Stream(self.archive, query, cursor)
            captures = tuple(stream.take(limit))
            return Page(
                captures=captures, cursor=stream.cursor, is_last=len(captures) < limit, skipped=stream.skipped
            )

        return await self._in_thread(work)

    async def stream(self, query: Query, cursor: Cursor | None = None) -> AsyncIterator[StoredCapture]:
        stream = Stream(self.archive, query, cursor)
        captures = iter(stream)
        while True:
            batch = await self._in_thread(
                lambda: [capture for _, capture in zip(range(STREAM_PAGE), captures, strict=False)]
            )
            for capture in batch:
                yield capture
            if len(batch) < STREAM_PAGE:
                return

    # -- upkeep -------------------------------------------------------------------------------------------

    async def delete(self, ids: Iterable[CaptureId]) -> int:
        victims = list(ids)
        return await self._in_thread(lambda: delete(self.archive, self.intake, victims), UPKEEP)

    async def expunge(self, before_s: int, limit: int = 10_000) -> Sequence[CaptureId]:
        return await self._in_thread(lambda: expunge(self.archive, self.intake, before_s, limit), UPKEEP)

    async def outdated(self, before_s: int, limit: int) -> tuple[int, list[tuple[CaptureId, str]]]:
        """The captures that `expunge` would delete: their number, and the first of them with their URLs."""

        def work() -> tuple[int, list[tuple[CaptureId, str]]]:
            return count_outdated(self.archive, before_s), outdated(self.archive, before_s, limit)

        return await self._in_thread(work, UPKEEP)

    async def verify(self, *, repair: bool = False) -> Verification:
        return await self._in_thread(lambda: verify(self.archive, repair=repair), UPKEEP)

    async def rebuild(self) -> None:
        await self._in_thread(lambda: rebuild(self.archive), UPKEEP)

    async def seal(self) -> Sealed:
        return await self._in_thread(lambda: seal(self.archive, self.pace()), UPKEEP)

    async def settle(self) -> None:
        """Look which captures in quarantine are whole again."""
        if self.archive.quarantine:
            await self._in_thread(lambda: settle(self.archive), UPKEEP)

    async def compact(self, dead_min: float = DEAD_MIN) -> Sealed:
        return await self._in_thread(lambda: compact(self.archive, dead_min, self.pace()), UPKEEP)

    def pace(self) -> Pace:
        """As fast as disks like it; where work holds up the loop itself, waiting would end nothing."""
        throttle = Throttle(
            self.archive.settings.upkeep_bytes_per_s, self.workers.steady_s, self._closing.wait
        )

        def pace(moved: int) -> None:
            if self.workers.has_threads:
                throttle(moved)
            if self._closing.is_set():
                raise UpkeepStoppedError

        return pace

    def end_upkeep(self) -> None:
        """Sealing and compaction under way are given up, and none begins: before closing, so that it is quick."""
        self._closing.set()

    async def statistics(self) -> ArchiveStatistics:
        return await self._in_thread(lambda: statistics_of(self.archive), UPKEEP)


def statistics_of(archive: Archive) -> ArchiveStatistics:
    counters = archive.counters
    numbers = list(archive.files.catalogue)
    return ArchiveStatistics(
        captures=archive.captures,
        bytes=archive.files.bytes_used(),
        index_bytes=archive.index.bytes_used(),
        files=len(numbers),
        logs=len(archive.files.logs()),
        stored=counters.stored,
        commits=counters.commits,
        refused=counters.refused,
        damaged=counters.damaged,
        recovered=counters.recovered,
        truncated_bytes=counters.truncated_bytes,
        refusal=archive.problem,
        quarantined=archive.quarantine.captures,
        quarantined_urls=tuple(
            islice(filterfalse(archive.removed.covers, archive.quarantine.urls()), URLS_SHOWN)
        ),
        quarantine_bytes=archive.quarantine.bytes_used,
        lost=archive.lost_files.waiting,
        lost_files=tuple(f"{loss.path} {loss.what}" for loss in archive.lost_files.open),
    )


@asynccontextmanager
async def open_store(archive: Archive, workers: Workers) -> AsyncIterator[DiskStore]:
    """Recover, serve, and on leaving commit the submitted items."""
    await workers.work(lambda: open_archive(archive), OPENING)
    intake = Intake(archive)
    async with open_committer(CommitQueue(archive, intake), workers) as committer:
        store = DiskStore(archive, intake, committer, workers)
        try:
            yield store
        finally:
            with anyio.CancelScope(shield=True):
                await workers.work(store.stop, OPENING)
