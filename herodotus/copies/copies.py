"""How does this peer's share stay right while peers come and go? `Copies` watches the ring and keeps all at work.

One task watches the ring and plans comparisons (`rounds`), others hear what is new (`arrivals`), fetch, send, count,
drop and audit. All decisions are made in `core.copies`; everything known here can be found out again,
so a peer that ends in the middle of anything starts again.

What was stored here, and which parts hear of it? From the thread that made it durable to ledger and queues.

The number of what was stored changes last: a reader of it that then calls `hear` has heard of all
that is counted in it. So nothing is dropped that no other holder was asked about.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import anyio

from dht import EventsLost, PeerChanged
from dht.core.arcs import NONE, Arcs
from herodotus.copies.audits import Auditor, Repairs
from herodotus.copies.failures import Failures
from herodotus.copies.fetch_queue import Puller
from herodotus.copies.hand_over import HandedOver, give, hand_over, heirs
from herodotus.copies.push_queue import Added, Backlog, Pusher
from herodotus.copies.report import audits_of, holders_of, shown, suspects_of, told_by_holders
from herodotus.copies.rounds import COMPARE_DEADLINE_S, LOOK_S, Rounds
from herodotus.copies.services import CopyServices
from herodotus.copies.shared_state import (
    Parts,
    WatchedRing,
)
from herodotus.copies.spares import Spares
from herodotus.copies.surplus import DIRECTORIES, LettingGo, ShareSurvey, counted, foreign, spares_of, survey
from herodotus.core.captures import CaptureId
from herodotus.core.copies import PeerKey
from herodotus.core.copies.absence import Absence
from herodotus.core.copies.holder_states import FULL_S, FullHolders, HolderStates
from herodotus.core.copies.places import is_short_of_places, places_told
from herodotus.core.copies.schedule import Pace, Purpose, Task
from herodotus.core.errors import ArchiveError
from herodotus.core.index_rows import CAPTURE, capture_key
from herodotus.core.ports import Lane
from herodotus.core.reconciliation import Scope, member_of, ranges_of
from herodotus.core.settings.sections import CopiesSettings
from herodotus.core.status import CopiesStatus, CopyPlacesStatus, DoorStatus
from herodotus.peers.calls import CallError, Services
from herodotus.peers.ring_view import LastingView
from herodotus.store import Bell, Holdings, current_bell

logger = logging.getLogger(__name__)

ACKNOWLEDGE_S = 60.0
"""So long a store waits for other holders, where it waits for them."""


class Arrivals:
    def __init__(self, parts: Parts, pusher: Pusher) -> None:
        self._parts = parts
        self._pusher = pusher
        self._fresh: deque[tuple[bytes, bool]] = deque()
        """Keys, and whether another holder sent it."""
        self._unwritten: deque[Added] = deque()
        self._arrived = anyio.Event()
        self._bell: Bell
        self.stored = 0

    def listen(self) -> None:
        """In the loop that `run` is in, before anything is stored."""
        self._bell = current_bell(self._parts.workers)

    def on_stored(self, ids: Sequence[CaptureId]) -> None:
        """In the thread that made it durable."""
        for id_ in ids:
            key = capture_key(id_)
            self._fresh.append((key[1:], key in self._parts.receiving))
        self.stored += len(ids)
        self._bell.ring(self._note_fresh)

    def _note_fresh(self) -> None:
        self._arrived.set()

    def hear(self) -> None:
        """Nobody is known to have what just came here; what no holder sent is on its way to them."""
        heard: list[bytes] = []
        keys: list[bytes] = []
        while self._fresh:
            key, is_copy = self._fresh.popleft()
            heard.append(key)
            if not is_copy:
                keys.append(key)
        if heard:
            self._parts.ledger.stored(*heard)
        if keys:
            self._unwritten.append(self._pusher.add_fresh(keys))
            self._arrived.set()

    async def run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            self.hear()
            while self._unwritten:
                added = self._unwritten.popleft()
                await self._parts.workers.work(partial(self._pusher.write, added), LISTING)

    async def wait_copied(self, id_: CaptureId) -> None:
        """Until every holder of a capture that can be reached has it, or has said why not; some time at most."""
        self.hear()
        with anyio.move_on_after(ACKNOWLEDGE_S):
            await self._pusher.wait_settled(capture_key(id_)[1:])


SETTLE_S = 1.0
"""After a change of the ring, others often follow at once."""
LISTING = Lane("list of new captures", 1)
SURVEY_SHARE = 10
"""Surveys in the time between two comparisons with one peer, but one in `LOOK_S` at most."""


class Copies:
    """`services` answers others; inside `opened` this peer's share is kept."""

    def __init__(
        self,
        parts: Parts,
        settings: CopiesSettings,
        *,
        ring: Callable[[], WatchedRing],
        archive_opened: Callable[[], Awaitable[object]],
        backlog: Path | None = None,
        failures: Failures | None = None,
    ) -> None:
        """`ring` is there only while the peer is open; `archive_opened` returns once `parts.holdings` gives some.
        Without `failures` a restart forgets who failed."""
        self.parts = parts
        self._settings = settings
        self._ring = ring
        self._archive_opened = archive_opened
        self._seen = LastingView(
            Absence(departed_s=settings.departed_s, low_s=settings.low_s, rule=parts.view.table.rule)
        )
        self._puller = Puller(self.parts, on_more=self._compare_again)
        self._pusher = Pusher(self.parts, Backlog(backlog), on_given_up=self._compare_again)
        self._repairs = Repairs(self.parts)
        self._spares = Spares(settings)
        self._rounds = Rounds(
            self.parts,
            every_s=settings.compare_s,
            puller=self._puller,
            pusher=self._pusher,
            spares=self._spares,
        )
        self._arrivals = Arrivals(self.parts, self._pusher)
        self.parts.hear = self._arrivals.hear
        self._auditor = Auditor(self.parts, every_s=settings.audit_s, on_doubt=self._compare_again)
        self.parts.states = HolderStates(every_s=settings.audit_s)
        self.parts.full = FullHolders(for_s=min(FULL_S, settings.compare_s / SURVEY_SHARE))
        self._planned_full: frozenset[PeerKey] = frozenset()
        self.parts.on_failed = self._failed
        self._failures = failures
        self._answers = CopyServices(self.parts, on_come=self._puller.poke, push=self._pusher.add_missing)
        self._survey = ShareSurvey()
        self._letting_go = LettingGo(
            parts, settings, stored=lambda: self._arrivals.stored, on_doubt=self._compare_again
        )
        self._lost = 0
        """Of this archive's captures, as of the last look."""
        self._pace = Pace()

    def services(self) -> Services:
        return self._answers.services()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self._arrivals.listen()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._work, tasks)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _work(self, tasks: anyio.abc.TaskGroup) -> None:
        await self._wait_for_archive()
        if self._failures is not None:
            self.parts.states.restore(self._failures.load(), self.parts.now())
        self._look(self._ring())
        self._pusher.resume()
        parts = (self._arrivals, self._rounds, self._auditor, self._puller, self._pusher)
        looks = (self._watch_ring, self._survey_now_and_then, self._let_go_now_and_then)
        for work in (*looks, *(part.run for part in parts)):
            tasks.start_soon(work)

    async def _wait_for_archive(self) -> None:
        await self._archive_opened()
        waits = self._settings.acknowledge == "k"
        self.parts.opened().listen(
            self._arrivals.on_stored,
            sign=self.parts.sign,
            acknowledge=self._arrivals.wait_copied if waits else None,
        )

    # -- who holds what -----------------------------------------------------------------------------------

    async def _watch_ring(self) -> None:
        ring = self._ring()
        with ring.events() as events:
            self._look(ring)
            while True:
                with anyio.move_on_after(self._look_s()):
                    for event in await events.wait():
                        if isinstance(event, PeerChanged) and event.clock in ("departed", "rotated"):
                            self._seen.depart(event.peer)
                        if isinstance(event, EventsLost):
                            logger.debug("events of the ring were lost")
                    await anyio.sleep(min(SETTLE_S, self._settings.compare_s / 10))
                self._look(ring)

    def _look_s(self) -> float:
        return min(LOOK_S, self._settings.compare_s / SURVEY_SHARE)

    def _look(self, ring: WatchedRing) -> None:
        now, view, seen = self.parts.now(), self.parts.view, self._seen
        is_other = seen.look(ring, now)
        for peer in seen.returned:
            self.parts.ledger.doubt(peer)  # it may have lost its disk
        view.end_promises(now)
        if self.parts.doors is not None:
            self.parts.doors.look(self.parts)
        if not is_other:
            return
        view.absent = seen.absent
        view.take(seen.table, seen.contacts, now)
        self.parts.ledger.keep_only(view.table.peers)
        self.parts.states.keep_only(view.table.peers, now)
        self.parts.full.keep_only(view.table.peers)
        self._plan()

    def _plan(self) -> None:
        """Tasks for all that we share, or have too much of, with somebody."""
        view = self.parts.view
        scopes: dict[Task, Scope] = {
            (peer, Purpose.SHARED): ranges_of(view.shared_with(peer)) for peer in view.others()
        }
        self._planned_full = self.parts.full.now_full(self.parts.now())
        extra = spares_of(view, self.parts.states.failed(self.parts.now()) | self._planned_full)
        for peer in sorted({peer for group in self._survey.surplus for peer in group.holders} | set(extra)):
            scopes[peer, Purpose.SURPLUS] = ranges_of(self._survey.surplus_of(peer) | extra.get(peer, NONE))
        self._rounds.plan({**scopes, **self._spares.tasks(view)})

    def _failed(self) -> None:
        """Others hold more, or less, for one that failed its proofs, or counts again."""
        if self._failures is not None:
            self._failures.save(self.parts.states.saved(self.parts.now()))
        self._plan()

    def _compare_again(self, peer: PeerKey) -> None:
        self._rounds.hurry(peer)

    # -- counting, dropping -------------------------------------------------------------------------------

    async def _survey_now_and_then(self) -> None:
        while True:
            try:
                await self.survey()
            except ArchiveError as error:
                logger.warning("copies could not be counted error=%s", error)
            await anyio.sleep(self._look_s())

    async def _let_go_now_and_then(self) -> None:
        """Beside the surveys: a slow holder may take minutes to prove what it has."""
        while True:
            await anyio.sleep(self._look_s())
            try:
                await self._letting_go.run_once(self.parts.opened(), self._survey)
            except (ArchiveError, CallError) as error:
                logger.warning("surplus copies stay error=%s", error)

    async def survey(self) -> None:
        holdings, parts = self.parts.opened(), self.parts
        is_otherwise_full = self._spares.look(await holdings.room(), parts.view)
        before = self._survey
        self._survey = await survey(parts, holdings, before)
        self._spares.held = self._survey.spare
        self._spares.own = sum(
            self._survey.counts.get(one, 0) for group in self._survey.own for one in ranges_of(group.arcs)
        )
        now = parts.now()
        for peer in parts.full.take_over(now):
            self._rounds.hurry(peer)
        if self._spares.is_next_due(len(parts.wanted)):
            for peer in sorted(self._rounds.unfilled):
                self._rounds.hurry(peer, Purpose.SPARE)
        is_other = parts.full.now_full(now) != self._planned_full or is_otherwise_full
        if is_other or self._survey.surplus != before.surplus:
            self._plan()
        self._pace.note(parts.counts.received + parts.counts.pushed, now)
        if await self._repairs.look(holdings):
            self._puller.poke()
        await self._mend_losses(holdings, now)
        await self._ask_about_surplus(holdings)
        self._ask_about_lacking(now)

    async def _mend_losses(self, holdings: Holdings, now: float) -> None:
        """What went with a file, the index no longer claims: so it is missing here in the next comparisons."""
        lost, before, self._lost = holdings.lost, self._lost, holdings.lost
        others, missing = self.parts.view.others(), self._rounds.missing
        if lost > before:
            missing.clear()  # what was compared earlier says nothing of this
            for peer in others:
                self._rounds.hurry(peer, Purpose.SHARED)
        if not lost or not others:
            return
        if all(missing.get(peer) == 0 and peer not in self.parts.view.absent for peer in others):
            share = self.parts.view.share
            await holdings.compared_with_all(lambda key: member_of(CAPTURE + key) in share)
            return
        for peer in others:
            met = self._rounds.met.get(peer)
            is_due = met is not None and now - met.at >= self._settings.compare_s / SURVEY_SHARE
            if is_due and missing.get(peer) and not len(self.parts.wanted):
                self._rounds.hurry(peer, Purpose.SHARED)

    async def _ask_about_surplus(self, holdings: Holdings) -> None:
        """Promises are short; those that are needed now are asked for again."""
        for group in await self._letting_go.may_wait_for(holdings, self._survey):
            for peer in self.parts.ledger.needs_promises(group, self.parts.now()):
                if not self._pusher.is_pending(peer) and peer not in self.parts.view.absent:
                    self._rounds.hurry(peer, Purpose.SURPLUS)

    def _ask_about_lacking(self, now: float) -> None:
        """What came from another holder, the others may have as well: nobody knows until they are asked."""
        for peer in self.parts.view.others():
            met = self._rounds.met.get(peer)
            is_due = met is not None and now - met.at >= self._settings.compare_s / SURVEY_SHARE
            is_due = is_due and not self.parts.full.is_full(peer, now)
            if is_due and self.parts.ledger.is_behind(peer) and not self._pusher.is_pending(peer):
                self._rounds.hurry(peer, Purpose.SHARED)

    @property
    def histogram(self) -> dict[int, int]:
        """How many captures of ours are known to be with how many hosts, as of the last survey."""
        return self._histogram(counts_declined=False)

    def _histogram(self, *, counts_declined: bool) -> dict[int, int]:
        found = self._survey
        since = self.parts.now() - 2 * self._settings.compare_s - COMPARE_DEADLINE_S
        return self.parts.ledger.histogram(
            self.parts.view.me,
            counted([*found.own, *found.surplus], self.parts.states.failed(self.parts.now())),
            found.counts,
            since,
            counts_declined=counts_declined,
        )

    def _too_few(self, *, counts_declined: bool) -> int:
        expected = self._expected_copies()
        histogram = self._histogram(counts_declined=counts_declined)
        return sum(count for copies, count in histogram.items() if copies < expected)

    # -- leaving, status ----------------------------------------------------------------------------------

    async def hand_over(self, tell: Callable[[HandedOver], None] = lambda _: None) -> HandedOver:
        """Give what we hold to those who will hold it without us; tries until all of them have it. At once over
        where the archive is not open yet."""
        self.parts.hear()
        holdings = self.parts.holdings()
        if holdings is None:
            return HandedOver()
        everything = await foreign(holdings, Arcs(), DIRECTORIES)  # a survey does not look at all of it

        def heirs_now() -> dict[PeerKey, Scope]:
            return heirs(self.parts, self._ring(), everything)

        return await hand_over(heirs_now, partial(give, self.parts, self._rounds, self._pusher), tell)

    async def told_by_holders(self, id_: CaptureId) -> list[dict[str, Any]]:
        """What the holders of a capture say of it now."""
        return await told_by_holders(self.parts, capture_key(id_)[1:], id_.digest)

    def status(self, capture_bytes: float = 0.0) -> CopiesStatus:
        """`capture_bytes`: what a capture takes here on average."""
        counts, to_send, to_fetch = self.parts.counts, self._pusher.pending, len(self.parts.wanted)
        too_few = self._too_few(counts_declined=True)
        view = self.parts.view
        in_places, places = self._survey.in_places(view.table), view.table.places_of(view.table.peers)
        return CopiesStatus(
            to_send=to_send,
            to_fetch=to_fetch,
            done_in_s=self._pace.left_s(to_send + to_fetch),
            too_few=too_few,
            too_few_bytes=round(too_few * capture_bytes),
            under_repair=len(self._repairs),
            declined=self._too_few(counts_declined=False) - too_few,
            without_source=self._repairs.without_source,
            pushed=counts.pushed,
            pulled=counts.pulled,
            received=counts.received,
            refused=counts.refused,
            dropped=counts.dropped,
            compared=counts.compared,
            failed=counts.failed,
            audited=counts.audited,
            disputed=counts.disputed,
            repaired=counts.repaired,
            bytes_in=self.parts.download.spent,
            bytes_out=self.parts.upload.spent,
            places=CopyPlacesStatus(
                captures=in_places,
                told=places_told(in_places, view.copies, places),
                is_short=is_short_of_places(in_places, view.copies, places),
            ),
            holders=holders_of(self.parts, self._rounds.met),
            audits=audits_of(self.parts, self._auditor.past),
            doors=DoorStatus() if self.parts.doors is None else self.parts.doors.status(self.parts),
            suspects=suspects_of(self.parts),
            spares=self._spares.status(view),
            full=tuple(shown(peer) for peer in sorted(self.parts.full.now_full(self.parts.now()))),
        )

    def _expected_copies(self) -> int:
        """k, or as many as there are hosts."""
        return min(self.parts.view.copies, len(self.parts.view.table.peers))
