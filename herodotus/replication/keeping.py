"""How does this peer's share stay right while peers come and go? `Copies` watches the ring and keeps all at work.

One task looks at the ring and says with whom to compare, two compare, others fetch, send, count, let go and audit.
What is decided is decided in `core.replication`; everything known here can be found out again, so a peer that ends in
the middle of anything begins anew.
"""

import logging
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import anyio
import anyio.to_thread

from dht import Contact, EventsLost, PeerChanged
from herodotus.archive.engine import Archive
from herodotus.archive.holding import Sign, has_member, keys_in, keys_of
from herodotus.archive.loops import Bell, current_bell
from herodotus.archive.store import ArchiveStore
from herodotus.calls import CallError, Calls, Services
from herodotus.config.sections import CopiesSettings
from herodotus.core.archive_errors import ArchiveError
from herodotus.core.deposits import CaptureId
from herodotus.core.entries import CAPTURE, TOMBSTONE, capture_key
from herodotus.core.replication.absence import Absence
from herodotus.core.replication.places import PeerKey, Places
from herodotus.core.replication.schedule import Purpose, Schedule, Task
from herodotus.core.replication.scope import Range, Scope, joined, split
from herodotus.core.status import CopiesStatus, HolderStatus
from herodotus.replication import wire
from herodotus.replication.answering import Answers
from herodotus.replication.auditing import Auditor
from herodotus.replication.backlog import Added, Backlog
from herodotus.replication.comparing import Compared, compare
from herodotus.replication.deletions import Deletions
from herodotus.replication.leaving import HandedOver, hand_over
from herodotus.replication.meter import Meter, Spend, freely
from herodotus.replication.parts import SHOWN_KEY, Parts, RingView
from herodotus.replication.pulling import Puller
from herodotus.replication.pushing import Pusher
from herodotus.replication.surveying import Survey, let_go, survey
from herodotus.replication.view import View

logger = logging.getLogger(__name__)

COMPARED_AT_ONCE = 2
COMPARE_DEADLINE_S = 600.0
SETTLE_S = 1.0
"""After a change of the ring, others often follow at once."""
LOOK_S = 30.0
SURVEY_SHARE = 10
"""Surveys in the time between two comparisons with one peer, but one in `LOOK_S` at most."""
ACKNOWLEDGE_S = 60.0
"""So long a store waits for other holders, where it waits for them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiesPorts:
    """What the copying asks of the rest of the peer. Ring and archive are there only while the peer is open."""

    me: PeerKey
    copies: int
    ring: Callable[[], RingView]
    store: Callable[[], ArchiveStore | None]
    store_opened: Callable[[], Awaitable[None]]
    """Returns once `store` gives one."""
    calls: Callable[[], Calls]
    sign: Sign
    random: Random
    backlog: Path | None = None
    spend_out: Spend = freely
    spend_in: Spend = freely


@dataclass(slots=True)
class _Met:
    """The last comparison with a peer."""

    at: float
    differences: int
    bytes: int


class Copies:
    """`services` answers others; inside `opened` this peer's share is kept."""

    def __init__(self, ports: CopiesPorts, settings: CopiesSettings) -> None:
        self._ports = ports
        self._settings = settings
        self.parts = Parts(
            view=View(me=ports.me, copies=ports.copies, places=Places((), ports.copies)),
            store=ports.store,
            calls=ports.calls,
            sign=ports.sign,
            random=ports.random,
            upload=Meter(ports.spend_out),
            download=Meter(ports.spend_in),
        )
        self._absence = Absence(departed_s=settings.departed_s, low_s=settings.low_s, copies=ports.copies)
        self._schedule = Schedule(
            every_s=settings.compare_s, soon_s=min(5.0, settings.compare_s / 10), random=ports.random
        )
        self._puller = Puller(self.parts)
        self._pusher = Pusher(self.parts, Backlog(ports.backlog), on_given_up=self._compare_again)
        self._deletions = Deletions(self.parts)
        self._auditor = Auditor(self.parts, every_s=settings.audit_s, on_doubt=self._compare_again)
        self._answers = Answers(self.parts, on_come=self._puller.poke)
        self._scopes: dict[Task, Scope] = {}
        self._survey = Survey()
        self._met: dict[PeerKey, _Met] = {}
        self._fresh: deque[bytes] = deque()
        self._unwritten: deque[Added] = deque()
        self._stored = 0
        self._bell: Bell
        self._scheduled = anyio.Event()
        self._arrived = anyio.Event()
        self.histogram: dict[int, int] = {}

    def services(self) -> Services:
        return self._answers.services()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        self._bell = current_bell()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._work, tasks)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()

    async def _work(self, tasks: anyio.abc.TaskGroup) -> None:
        await self._wait_for_store()
        self._look(self._ports.ring())
        self._pusher.resume()
        loops = (self._watch_ring, self._watch_store, self._survey_now_and_then, self._auditor.run)
        for work in (*loops, self._puller.run, self._pusher.run):
            tasks.start_soon(work)
        for _ in range(COMPARED_AT_ONCE):
            tasks.start_soon(self._compare_when_due)

    async def _wait_for_store(self) -> None:
        await self._ports.store_opened()
        store = self.parts.opened_store()
        if self._settings.acknowledge == "k":
            store.acknowledge = self.wait_copied
        await store.work(lambda archive, _intake: self._listen_to(archive))

    def _listen_to(self, archive: Archive) -> None:
        archive.sign, archive.on_stored = self._ports.sign, self._on_stored

    # -- what is new here ---------------------------------------------------------------------------------

    def _on_stored(self, ids: Sequence[CaptureId]) -> None:
        """In the thread that made it durable."""
        self._stored += len(ids)
        for id_ in ids:
            key = capture_key(id_)
            if key not in self.parts.receiving:
                self._fresh.append(key[1:])
        self._bell.ring(self._note_fresh)

    def _note_fresh(self) -> None:
        self._arrived.set()

    def _push_fresh(self) -> None:
        """Nobody is known to have what just came here."""
        keys: list[bytes] = []
        while self._fresh:
            key = self._fresh.popleft()
            self.parts.ledger.stored(key)
            keys.append(key)
        if keys:
            self._unwritten.append(self._pusher.add_fresh(keys))
            self._arrived.set()

    async def _watch_store(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            self._push_fresh()
            while self._unwritten:
                added = self._unwritten.popleft()
                if self._ports.backlog is not None:
                    await anyio.to_thread.run_sync(self._pusher.write, added)

    async def wait_copied(self, id_: CaptureId) -> None:
        """Until every holder of a capture that can be reached has it, or has said why not; some time at most."""
        self._push_fresh()
        with anyio.move_on_after(ACKNOWLEDGE_S):
            await self._pusher.wait_settled(capture_key(id_)[1:])

    # -- who holds what -----------------------------------------------------------------------------------

    async def _watch_ring(self) -> None:
        ring = self._ports.ring()
        with ring.events() as events:
            self._look(ring)
            while True:
                with anyio.move_on_after(self._look_s()):
                    for event in await events.wait():
                        if isinstance(event, PeerChanged) and event.clock in ("departed", "rotated"):
                            self._absence.depart(event.peer)
                        if isinstance(event, EventsLost):
                            logger.debug("events of the ring were lost")
                    await anyio.sleep(min(SETTLE_S, self._settings.compare_s / 10))
                self._look(ring)

    def _look_s(self) -> float:
        return min(LOOK_S, self._settings.compare_s / SURVEY_SHARE)

    def _look(self, ring: RingView) -> None:
        now = self.parts.now()
        contacts = ring.positions()
        for peer in self._absence.see([(contact.position, contact.peer) for contact in contacts], now):
            self.parts.ledger.doubt(peer)  # it may have lost its disk
        self._absence.advance(now)
        view = self.parts.view
        view.absent = self._absence.absent
        first: dict[PeerKey, Contact] = {contact.peer: contact for contact in reversed(contacts)}
        view.take(self._absence.places(now), first, now)
        self.parts.ledger.keep_only(view.places.peers)
        self._plan()

    def _plan(self) -> None:
        """Tasks for all that we share, or have too much of, with somebody."""
        view = self.parts.view
        scopes: dict[Task, Scope] = {(peer, Purpose.SHARED): view.shared_with(peer) for peer in view.others()}
        for peer in sorted({peer for segment in self._survey.surplus for peer in segment.holders}):
            scopes[peer, Purpose.SURPLUS] = self._survey.surplus_of(peer)
        changed = [task for task, scope in scopes.items() if self._scopes.get(task) != scope]
        self._scopes = scopes
        self._schedule.set_tasks(scopes.keys(), self.parts.now(), changed=changed)
        self._scheduled.set()

    def _compare_again(self, peer: PeerKey) -> None:
        for purpose in Purpose:
            self._schedule.hurry((peer, purpose), self.parts.now())
        self._scheduled.set()

    # -- comparing ----------------------------------------------------------------------------------------

    async def _compare_when_due(self) -> None:
        while True:
            self._scheduled = anyio.Event()
            now = self.parts.now()
            task = self._schedule.take(now)
            if task is None:
                deadline = self._schedule.next_deadline()
                with anyio.move_on_after(LOOK_S if deadline is None else max(0.0, deadline - now)):
                    await self._scheduled.wait()
                continue
            if await self._compare(task):
                self._schedule.done(task, self.parts.now())
            else:
                self.parts.counts.failed += 1
                self._schedule.failed(task, self.parts.now())

    async def _compare(self, task: Task) -> bool:
        peer = task[0]
        try:
            with anyio.fail_after(COMPARE_DEADLINE_S):
                for scope in split(self._scopes.get(task, ())):
                    await self._compare_scope(peer, task[1], scope)
        except (CallError, TimeoutError):
            return False
        except wire.MalformedMessageError as error:
            self.parts.suspects.note(peer, str(error) or "malformed answer")
            return False
        except ArchiveError as error:
            logger.warning("copies could not be compared error=%s", error)
            return False
        return True

    async def _compare_scope(self, peer: PeerKey, purpose: Purpose, scope: Scope) -> int:
        """How many captures the peer lacks; they are on their way."""
        parts, store, contact = self.parts, self.parts.opened_store(), self.parts.contact(peer)
        if contact is None:
            raise CallError
        began = parts.ledger.begin(peer, scope, parts.now())
        try:
            nonce = parts.random.randbytes(wire.NONCE_BYTES)
            wants = purpose is Purpose.SURPLUS
            found = await compare(parts.calls(), store, contact, scope, nonce, wants_promise=wants)
            lacking = await self._act_on(peer, purpose, found)
            if purpose is Purpose.SURPLUS:
                lacking |= await self._contents_lacking(contact, scope)
        except BaseException:
            parts.ledger.give_up(began)
            raise
        self._pusher.add_missing(peer, sorted(lacking))
        self._push_fresh()  # before the word of this peer counts for what it did not hear of
        is_promise = found.is_holder and purpose is Purpose.SURPLUS
        parts.ledger.confirm(began, lacking, is_promise=is_promise)
        parts.counts.compared += 1
        differences = len(found.missing_here) + len(found.missing_there)
        self._met[peer] = _Met(parts.now(), differences, found.sent + found.received)
        return len(lacking)

    async def _act_on(self, peer: PeerKey, purpose: Purpose, found: Compared) -> set[bytes]:
        """Fetch what is missing here; the captures that the peer lacks."""
        store = self.parts.opened_store()
        self._deletions.claim(peer, {one for one in found.missing_here if one[-1:] == TOMBSTONE})
        if purpose is Purpose.SHARED:
            missing = sorted(one for one in found.missing_here if one[-1:] == CAPTURE)
            wanted = await store.work(
                lambda archive, _intake: [one for one in missing if not has_member(archive, one)]
            )
            self.parts.wanted.add(wanted, peer)
            self._puller.poke()
        lacking = [one for one in found.missing_there if one[-1:] == CAPTURE]
        return await store.work(
            lambda archive, _intake: {key for one in lacking for key in keys_of(archive, one)}
        )

    async def _contents_lacking(self, contact: Contact, scope: Scope) -> set[bytes]:
        """What is to be let go must be there to the last content, not only something of each day."""
        keys = await self.parts.opened_store().work(
            lambda archive, _intake: [key for one in scope for key in keys_in(archive, *one)]
        )
        lacking: set[bytes] = set()
        for at in range(0, len(keys), wire.ASKED_MAX):
            asked = keys[at : at + wire.ASKED_MAX]
            answer = await self.parts.calls().call(contact, wire.LACKS, wire.encode_keys(asked))
            outcomes = wire.decode_outcomes(answer, len(asked))
            lacking |= {key for key, outcome in zip(asked, outcomes, strict=True) if outcome not in wire.HELD}
        return lacking

    # -- counting, letting go -----------------------------------------------------------------------------

    async def _survey_now_and_then(self) -> None:
        while True:
            try:
                await self.survey()
            except ArchiveError as error:
                logger.warning("copies could not be counted error=%s", error)
            await anyio.sleep(self._look_s())

    async def survey(self) -> None:
        store, parts = self.parts.opened_store(), self.parts
        before = self._survey
        self._survey = await survey(parts, store, before)
        if self._survey.surplus != before.surplus:
            self._plan()
        now = parts.now()
        segments = [*parts.view.segments, *self._survey.surplus]
        since = now - 2 * self._settings.compare_s - COMPARE_DEADLINE_S
        self.histogram = parts.ledger.histogram(parts.view.me, segments, self._survey.counts, since)
        await self._deletions.follow(store)
        keep_s = self._settings.keep_s
        await let_go(parts, store, self._survey, keep_s=keep_s, stored=lambda: self._stored)
        self._ask_about_surplus(now)
        self._ask_about_lacking(now)

    def _ask_about_surplus(self, now: float) -> None:
        """Promises are short; those that are needed now are asked for again."""
        if now - self.parts.view.changed_at < self._settings.keep_s:
            return
        for segment in self._survey.surplus:
            if self.parts.view.is_promised(segment.ranges, now):
                continue
            for peer in self.parts.ledger.needs_promises(segment, now):
                if not self._pusher.is_pending(peer) and peer not in self.parts.view.absent:
                    self._schedule.hurry((peer, Purpose.SURPLUS), now)
        self._scheduled.set()

    def _ask_about_lacking(self, now: float) -> None:
        """What came from another holder, the others may have as well: nobody knows until they are asked."""
        for peer in self.parts.view.others():
            met = self._met.get(peer)
            is_due = met is not None and now - met.at >= self._settings.compare_s / SURVEY_SHARE
            if is_due and self.parts.ledger.is_behind(peer) and not self._pusher.is_pending(peer):
                self._schedule.hurry((peer, Purpose.SHARED), now)

    # -- leaving, status ----------------------------------------------------------------------------------

    async def hand_over(self, tell: Callable[[HandedOver], None] = lambda _: None) -> HandedOver:
        """Give what we hold to those who will hold it without us; tries until all of them have it."""
        self._push_fresh()
        return await hand_over(self._heirs, self._give, tell)

    def _heirs(self) -> dict[PeerKey, Scope]:
        view = self.parts.view
        others = Places(
            [(c.position, c.peer) for c in self._ports.ring().positions() if c.peer != view.me], view.copies
        )
        surplus = [one for segment in self._survey.surplus for one in segment.ranges]
        scopes: dict[PeerKey, list[Range]] = {}
        for segment in others.segments_in([*view.scope, *surplus]):
            for peer in segment.holders:
                scopes.setdefault(peer, []).extend(segment.ranges)
        return {peer: joined(ranges) for peer, ranges in scopes.items()}

    async def _give(self, peer: PeerKey, scope: Scope) -> int | None:
        try:
            with anyio.fail_after(COMPARE_DEADLINE_S):
                lacking = await self._compare_scope(peer, Purpose.SURPLUS, scope)
        except (CallError, TimeoutError, wire.MalformedMessageError, ArchiveError) as error:
            logger.warning("a share could not be handed over yet error=%s", error)
            return None
        await self._pusher.wait_idle(peer)
        return lacking

    def status(self) -> CopiesStatus:
        counts, now = self.parts.counts, self.parts.now()
        return CopiesStatus(
            to_send=self._pusher.pending,
            to_fetch=len(self.parts.wanted),
            pushed=counts.pushed,
            pulled=counts.pulled,
            received=counts.received,
            refused=counts.refused,
            dropped=counts.dropped,
            compared=counts.compared,
            failed=counts.failed,
            audited=counts.audited,
            disputed=counts.disputed,
            claimed_deleted=len(self._deletions),
            bytes_in=self.parts.download.spent,
            bytes_out=self.parts.upload.spent,
            holders=tuple(
                HolderStatus(
                    peer=peer.hex()[:SHOWN_KEY],
                    compared_s_ago=None if (met := self._met.get(peer)) is None else int(now - met.at),
                    differences=0 if met is None else met.differences,
                    is_absent=peer in self.parts.view.absent,
                )
                for peer in self.parts.view.others()
            ),
            suspects={
                peer.hex()[:SHOWN_KEY]: ", ".join(
                    f"{how} ({number})" for how, number in sorted(known.items())
                )
                for peer, known in sorted(self.parts.suspects.counts.items())
            },
        )
