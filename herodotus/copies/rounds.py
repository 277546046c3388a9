"""Which peers do we compare with, and what follows from it? Two comparisons at a time, each started when it is due.

What the other has comes here; what it lacks goes there; its promise is noted. An interrupted comparison starts again.
"""

import logging
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import anyio

from dht import Contact
from herodotus.copies import wire
from herodotus.copies.comparison import SetDifference, compare
from herodotus.copies.fetch_queue import Puller
from herodotus.copies.push_queue import Pusher
from herodotus.copies.shared_state import Parts
from herodotus.copies.spares import Spares, count_alike
from herodotus.core.copies import PeerKey
from herodotus.core.copies.ledger import LACKING_MAX, WANTED_MAX, Comparison
from herodotus.core.copies.schedule import UNHURRIED, ComparisonSchedule, Purpose, Task
from herodotus.core.errors import ArchiveError, MalformedError
from herodotus.core.index_rows import CAPTURE, TOMBSTONE
from herodotus.core.reconciliation import Scope, arcs_of, member_of, split
from herodotus.peers.calls import CallError

logger = logging.getLogger(__name__)

COMPARED_AT_ONCE = 2
COMPARE_DEADLINE_S = 600.0
LOOK_S = 30.0
CONTRADICTIONS_MAX = 3
FILLED_AT_ONCE = 1_024
"""Spare copies that one comparison asks for: what must be held never waits for more of them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Met:
    """The last comparison with a peer."""

    at: float
    differences: int
    bytes: int


class Lacked(NamedTuple):
    """How many captures a peer lacks: those that are on their way to it, those that no door lets in there now, and
    those brought in here that the network does not spread."""

    coming: int
    turned_away: int = 0
    kept_out: int = 0


@dataclass(slots=True)
class _Unwanted:
    """Captures that a peer lacks and does not take; the rest of them it removed itself."""

    all: set[bytes] = field(default_factory=set)
    turned_away: int = 0
    kept_out: int = 0


class Rounds:
    def __init__(
        self, parts: Parts, *, every_s: float, puller: Puller, pusher: Pusher, spares: Spares
    ) -> None:
        self._parts = parts
        self._puller, self._pusher = puller, pusher
        self._schedule = ComparisonSchedule(
            every_s=every_s, soon_s=min(5.0, every_s / 10), random=parts.random
        )
        self._scopes: dict[Task, Scope] = {}
        self._scheduled = anyio.Event()
        self._contradictions: Counter[PeerKey] = Counter()
        """In a row."""
        self._spares = spares
        self._is_filling = False
        self.unfilled: set[PeerKey] = set()
        """They have more that we might keep as a spare."""
        self.met: dict[PeerKey, Met] = {}
        self._missing: Counter[PeerKey] = Counter()
        """Found so far in the comparison under way."""
        self.missing: dict[PeerKey, int] = {}
        """Members that the peer had and we had not, in the last comparison of all that we share."""

    # -- when ---------------------------------------------------------------------------------------------

    def plan(self, scopes: Mapping[Task, Scope]) -> None:
        """All that there is to compare; what is new or changed is due soon."""
        changed = [task for task, scope in scopes.items() if self._scopes.get(task) != scope]
        self._scopes = dict(scopes)
        self._schedule.set_tasks(scopes.keys(), self._parts.now(), changed=changed)
        self.met = {peer: met for peer, met in self.met.items() if (peer, Purpose.SHARED) in scopes}
        for peer in [known for known in self._contradictions if known not in self.met]:
            del self._contradictions[peer]
        self.missing = {peer: count for peer, count in self.missing.items() if peer in self.met}
        self._scheduled.set()

    def hurry(self, peer: PeerKey, *purposes: Purpose) -> None:
        for purpose in purposes or Purpose:
            self._schedule.hurry((peer, purpose), self._parts.now())
        self._scheduled.set()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            for _ in range(COMPARED_AT_ONCE):
                tasks.start_soon(self._compare_when_due)

    async def _compare_when_due(self) -> None:
        while True:
            self._scheduled = anyio.Event()
            now, is_busy = self._parts.now(), self._is_busy()
            task = self._schedule.take(now, is_busy=is_busy)
            if task is None:
                deadline = self._schedule.next_deadline(is_busy=is_busy)
                wait_s = LOOK_S if deadline is None else max(0.0, deadline - now)
                with anyio.move_on_after(min(wait_s, LOOK_S)):
                    await self._scheduled.wait()
                continue
            if await self._compare(task):
                self._schedule.done(task, self._parts.now())
            else:
                self._parts.counts.failed += 1
                self._schedule.failed(task, self._parts.now())

    def _is_busy(self) -> bool:
        """With what the network promised: spare copies wait for it, and for each other."""
        return self._is_filling or bool(len(self._parts.wanted)) or bool(self._pusher.pending)

    async def _compare(self, task: Task) -> bool:
        self._is_filling |= task[1] in UNHURRIED
        try:
            return await self._compared(task)
        finally:
            self._is_filling &= task[1] not in UNHURRIED

    async def _compared(self, task: Task) -> bool:
        peer = task[0]
        try:
            with anyio.fail_after(COMPARE_DEADLINE_S):
                if task[1] is Purpose.SHARED:
                    self._missing[peer] = 0
                if task[1] is Purpose.COUNT:
                    await self._count(peer, self._scopes.get(task, ()))
                    return True
                if task[1] is Purpose.SPARE:
                    self.unfilled.discard(peer)
                for scope in split(self._scopes.get(task, ())):
                    await self.compare_scope(peer, task[1], scope)
                if task[1] is Purpose.SHARED:
                    self.missing[peer] = self._missing.pop(peer)
        except (CallError, TimeoutError):
            return False
        except MalformedError as error:
            self._parts.suspects.note(peer, str(error) or "malformed answer")
            return False
        except ArchiveError as error:
            logger.warning("copies could not be compared error=%s", error)
            return False
        return True

    async def _count(self, peer: PeerKey, scope: Scope) -> None:
        contact = self._parts.contact(peer)
        if contact is None:
            raise CallError
        counts = [await count_alike(self._parts, contact, part) for part in split(scope)]
        self._spares.alike[peer] = sum(counts)

    # -- what ---------------------------------------------------------------------------------------------

    async def compare_scope(self, peer: PeerKey, purpose: Purpose, scope: Scope) -> Lacked:
        """What the peer lacks: it is on its way, or no door lets it in there now."""
        parts, contact = self._parts, self._parts.contact(peer)
        if contact is None:
            raise CallError
        began = parts.ledger.begin(peer, arcs_of(scope), parts.now())
        try:
            found, lacking, unwanted = await self._look(contact, purpose, scope)
        except BaseException:
            parts.ledger.give_up(began)
            raise
        self._pusher.add_missing(peer, sorted(lacking)[:LACKING_MAX])
        self._conclude(began, found, lacking, unwanted.all, is_exact=purpose is Purpose.SURPLUS)
        return Lacked(len(lacking), unwanted.turned_away, unwanted.kept_out)

    async def _look(
        self, contact: Contact, purpose: Purpose, scope: Scope
    ) -> tuple[SetDifference, set[bytes], _Unwanted]:
        """Also the captures that it lacks and would take, and those that it does not take."""
        parts, holdings = self._parts, self._parts.opened()
        nonce = parts.random.randbytes(wire.NONCE_BYTES)
        wants = purpose is Purpose.SURPLUS
        found = await compare(parts, contact, scope, nonce, wants_promise=wants)
        absent = await self._act_on(contact.peer, purpose, found)
        # A copy to be dropped must be there to the last content, not only something of each day. And what a URL got
        # on one day besides the first would miss for good a holder that was none when it came, or that a split kept
        # from the one that fetched it: by the whole ring that may have a spare copy only.
        keys = await holdings.keys(scope, beside_others=purpose is not Purpose.SURPLUS)
        removed = {one for one in found.missing_here if one[-1:] == TOMBSTONE}
        absent_for_good = {key for key in absent if member_of(TOMBSTONE + key) in removed}
        lacking, unwanted = await self._contents_lacking(contact, sorted({*keys, *absent_for_good}))
        return found, lacking | (absent - absent_for_good - unwanted.all), unwanted

    def _conclude(
        self,
        began: Comparison,
        found: SetDifference,
        lacking: Collection[bytes],
        declined: Collection[bytes],
        *,
        is_exact: bool,
    ) -> None:
        parts = self._parts
        parts.hear()  # before the word of this peer counts for what it did not hear of
        is_promise = is_exact and found.is_holder
        parts.ledger.confirm(began, lacking, declined=declined, is_promise=is_promise, is_exact=is_exact)
        parts.counts.compared += 1
        self._weigh(began.peer, is_contradictory=found.is_contradictory)
        differences = len(found.missing_here) + len(found.missing_there)
        self.met[began.peer] = Met(at=parts.now(), differences=differences, bytes=found.sent + found.received)

    def _weigh(self, peer: PeerKey, *, is_contradictory: bool) -> None:
        """Once may be chance: what came to the peer between its digests and its members."""
        self._contradictions[peer] = self._contradictions[peer] + 1 if is_contradictory else 0
        if self._contradictions[peer] >= CONTRADICTIONS_MAX:
            self._parts.suspects.note(peer, "its digests are not those of its captures")

    async def _act_on(self, peer: PeerKey, purpose: Purpose, found: SetDifference) -> set[bytes]:
        """Fetch what is missing here; the captures that the peer lacks."""
        holdings = self._parts.opened()
        if purpose is not Purpose.SURPLUS:
            missing = sorted(one for one in found.missing_here if one[-1:] == CAPTURE)
            wanted = await holdings.lacking(missing)
            if purpose is Purpose.SHARED:
                self._missing[peer] += len(wanted)
            elif len(wanted) > FILLED_AT_ONCE or not self._spares.fills:
                wanted = wanted[: FILLED_AT_ONCE if self._spares.fills else 0]
                self.unfilled.add(peer)
            now, offers, doors = self._parts.now(), self._parts.offers, self._parts.doors
            if not await holdings.has_room(wire.ROOM_BYTES):
                wanted = []
            if doors is not None:
                wanted = doors.declined.not_from(peer, wanted, now)
            self._parts.wanted.add((one for one in wanted if not offers.is_coming(one, now)), peer)
            if len(found.missing_here) > WANTED_MAX:
                self._parts.wanted.cut(peer)
            self._puller.poke()
        return await holdings.keys_of([one for one in found.missing_there if one[-1:] == CAPTURE])

    async def _contents_lacking(
        self, contact: Contact, keys: Sequence[bytes]
    ) -> tuple[set[bytes], _Unwanted]:
        """And those that it does not take: they are not sent, and nothing goes here because of that."""
        lacking, unwanted = set[bytes](), _Unwanted()
        for at in range(0, len(keys), wire.ASKED_MAX):
            asked = keys[at : at + wire.ASKED_MAX]
            answer = await self._parts.calls().call(contact, wire.LACKS, wire.encode_list(asked))
            outcomes = wire.decode_outcomes(answer, len(asked))
            for key, outcome in zip(asked, outcomes, strict=True):
                if outcome in wire.UNWANTED:
                    unwanted.all.add(key)
                    unwanted.turned_away += outcome == wire.DECLINED
                    unwanted.kept_out += outcome == wire.KEPT_OUT
                elif outcome not in wire.HELD:
                    lacking.add(key)
                if outcome == wire.FULL:
                    self._parts.full.note(contact.peer, self._parts.now())
        return lacking, unwanted
