"""How do links reach all their holders? A walk around the ring, with one batch for each peer (thesis §4.6).

The plan follows from the ring's table, so no lookups are made. A receiver that says "not mine" names peers it thinks
of; those are visited in another round. A peer that does not answer is passed by, by the next walks too for a while.
What is not acknowledged stays in the outbox. A few stops are under way at a time; two walks of one peer never.
"""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import anyio

from crawler.core.link import Link
from dht import Contact
from dht.core.holders import Table
from dht.core.ids import IdCheck, Key
from herodotus.core.errors import MalformedError
from herodotus.core.links.senders import Silences
from herodotus.core.links.walk_plan import Keys, WalkStop, mark_of, stops_of
from herodotus.crawl.links.outbox import Outbox, short
from herodotus.crawl.links.wire import Taken, decode_taken, encode_batch, in_order
from herodotus.peers.calls import CallError, Questions, RefusedError
from herodotus.peers.ring_view import RingView

logger = logging.getLogger(__name__)

SERVICE: Final = "links.take"
AT_ONCE: Final = 8
"""Stops under way: a ring of 20,000 is walked in some twenty minutes where an answer takes half a second."""
ROUNDS_MAX: Final = 3
"""After the first, for links that their supposed holders said are somebody else's."""
LEARNED_MAX: Final = 256
BATCH_LINKS: Final = 2_000
BATCH_LETTERS: Final = 512 * 1024
"""What is packed at once: some 20 ms of the loop."""
DEADLINE_S: Final = 60.0
WAIT_MAX_S: Final = 30.0
"""A receiver that asks for more than this is left to the next walk."""
KEPT_S: Final = 48 * 3600.0
"""A link that some holder has and others never took is given up: dead peers have departed by then, and holders compare
what they have."""
UNWANTED_KEPT_S: Final = 14 * 24 * 3600.0
"""A link that no holder took in so long is given up too."""
CHUNK: Final = 1_000


@dataclass(slots=True)
class WalkReport:
    links: int = 0
    stops: int = 0
    batches: int = 0
    delivered: int = 0
    """Links that all their holders have."""
    left: int = 0
    acknowledged: int = 0
    """Links times receivers."""
    unreachable: int = 0
    bytes_sent: int = 0
    """Bodies, without what carries them."""


@dataclass(slots=True)
class _State:
    """What a walk knows beside the outbox."""

    keys: Keys
    ring: Table
    done: set[bytes] = field(default_factory=set)
    """They acknowledged all that is theirs."""
    have: dict[Key, set[bytes]] = field(default_factory=dict)
    """Acknowledged apart from `done`: by earlier walks, or in part."""
    excused: dict[Key, set[bytes]] = field(default_factory=dict)
    """Who said that it is not theirs."""
    also: dict[Key, dict[bytes, Contact]] = field(default_factory=dict)
    """Contacts that receivers named for a link instead of themselves."""
    rubbish: set[Key] = field(default_factory=set)
    learned: dict[Key, Contact] = field(default_factory=dict)
    report: WalkReport = field(default_factory=WalkReport)


class LinkWalks:
    def __init__(
        self, outbox: Outbox, calls: Questions, view: RingView, silences: Silences, id_check: IdCheck
    ) -> None:
        self._outbox = outbox
        self._calls = calls
        self._view = view
        self._silences = silences
        self._id_check = id_check
        self._is_under_way = False

    async def walk(self, now_s: float) -> WalkReport:
        """Once around the ring. `now_s` is of the wall clock. An interrupted walk continues where it was."""
        assert not self._is_under_way, "one walk at a time"
        self._is_under_way = True
        try:
            return await self._walk(now_s)
        finally:
            self._is_under_way = False

    async def _walk(self, now_s: float) -> WalkReport:
        keys = self._outbox.begin()
        state = _State(keys=keys, ring=self._view.live)
        state.report.links = len(keys)
        for chunk in _chunks(keys):
            for key, have in zip(chunk, self._outbox.have(chunk), strict=True):
                if have:
                    state.have[key] = set(have)
            await anyio.lowlevel.checkpoint()
        stops = stops_of(keys, state.ring, self._view.me)
        state.done = self._done_before(stops, keys)
        stops = [stop for stop in stops if short(stop.contact.peer) not in state.done]
        await self._visit_all(stops, state, is_first=True)
        for _ in range(ROUNDS_MAX - 1):
            again = self._stops_for_strays(state)
            if not again:
                break
            await self._visit_all(again, state, is_first=False)
        await self._settle(state, now_s)
        self._outbox.end()
        return state.report

    def _done_before(self, stops: Sequence[WalkStop], keys: Keys) -> set[bytes]:
        """Before the walk was cut off. In a ring that changed since, a peer may have more to get."""
        done = self._outbox.done()
        marks = {short(stop.contact.peer): mark_of(keys, stop) for stop in stops if done}
        return {peer for peer, mark in done.items() if marks.get(peer) == mark}

    # --- stops

    async def _visit_all(self, stops: Sequence[WalkStop], state: _State, *, is_first: bool) -> None:
        waiting = iter(stops)

        async def work() -> None:
            for stop in waiting:
                await self._visit(stop, state, is_first=is_first)

        async with anyio.create_task_group() as tasks:
            for _ in range(min(AT_ONCE, len(stops))):
                tasks.start_soon(work)

    async def _visit(self, stop: WalkStop, state: _State, *, is_first: bool) -> None:
        """In the first round one row says that a peer took all; what is not all of a peer's is noted link by link."""
        if self._silences.is_silent(stop.contact.peer, anyio.current_time()):
            return
        state.report.stops += 1
        has_all, taken_keys = True, list[Key]()
        for keys, links in self._batches(stop, state):
            taken = await self._send(stop.contact, links, state)
            if taken is None:
                has_all = False
                break
            mine = self._note(stop.contact, keys, taken, state)
            has_all = has_all and not taken.strays
            taken_keys += mine
        if has_all and is_first:
            state.done.add(short(stop.contact.peer))
            self._outbox.note_done(stop.contact.peer, mark_of(state.keys, stop))
        elif taken_keys:
            for key in taken_keys:
                state.have.setdefault(key, set()).add(short(stop.contact.peer))
            self._outbox.note_have(taken_keys, stop.contact.peer)

    def _batches(self, stop: WalkStop, state: _State) -> Iterator[tuple[list[Key], list[Link]]]:
        """What it has not yet, in pieces, each sorted by URL."""
        peer = short(stop.contact.peer)
        links: list[Link] = []
        keys: list[Key] = []
        letters = 0
        for chunk in _parts(state.keys, stop):
            for key, link in zip(chunk, self._outbox.read(chunk), strict=True):
                if link is None or peer in state.have.get(key, ()) or peer in state.excused.get(key, ()):
                    continue
                keys.append(key)
                links.append(link)
                letters += len(link.url)
                if len(links) == BATCH_LINKS or letters >= BATCH_LETTERS:
                    yield _sorted(keys, links)
                    keys, links, letters = [], [], 0
        if links:
            yield _sorted(keys, links)

    async def _send(self, to: Contact, links: list[Link], state: _State) -> Taken | None:
        """None: it is silent, or wants no more now."""
        taken, asks_for_s = await self._try(to, links, state.report)
        if taken is None:
            self._silences.failed(to.peer, anyio.current_time(), asks_for_s=asks_for_s)
        else:
            self._silences.answered(to.peer)
        return taken

    async def _try(self, to: Contact, links: list[Link], report: WalkReport) -> tuple[Taken | None, float]:
        """What it took, or how long it wants to be left alone."""
        body = encode_batch(links)
        wait_s = 0.0
        for _ in range(2):
            await anyio.sleep(wait_s)
            report.batches += 1
            report.bytes_sent += len(body)
            try:
                answer = await self._calls.call(to, SERVICE, body, deadline_s=DEADLINE_S)
                return decode_taken(answer, len(links), self._id_check), 0.0
            except RefusedError as error:
                wait_s = error.retry_after_s or 0.0
                if not wait_s or wait_s > WAIT_MAX_S:
                    break
            except (CallError, MalformedError) as error:
                logger.debug("a walk skipped a peer error=%s", error)
                report.unreachable += 1
                break
        return None, wait_s

    def _note(self, contact: Contact, keys: list[Key], taken: Taken, state: _State) -> list[Key]:
        """What it took."""
        peer, report = short(contact.peer), state.report
        strays = {keys[place] for place in taken.strays}
        rubbish = {keys[place] for place in taken.rubbish}
        report.acknowledged += len(keys) - len(strays) - len(rubbish)
        for key in (*rubbish, *strays):
            state.excused.setdefault(key, set()).add(peer)
        state.rubbish |= rubbish
        for key in strays:
            state.also.setdefault(key, {})
        for one in taken.contacts:
            if one.peer != self._view.me.peer and len(state.learned) < LEARNED_MAX:
                state.learned.setdefault(one.position, one)
        return [key for key in keys if key not in strays and key not in rubbish]

    def _stops_for_strays(self, state: _State) -> list[WalkStop]:
        """Contacts that receivers named for links that they returned; the table's holders stay responsible too."""
        if not state.learned or not state.also:
            return []
        known_at = {contact.position: contact for contact in state.ring.contacts} | state.learned
        ring = Table(known_at.values(), state.ring.rule, standings=state.ring.standings)
        stops: dict[bytes, WalkStop] = {}
        for key in sorted(state.also):
            place = state.keys.place(key)
            for contact in ring.of(key):
                peer = short(contact.peer)
                known = state.excused.get(key, set()) | state.have.get(key, set())
                if contact.peer == self._view.me.peer or peer in known or peer in state.also[key]:
                    continue
                if self._is_planned(key, peer, state):
                    continue
                state.also[key][peer] = contact
                stops.setdefault(peer, WalkStop(contact)).ranges.append((place, place + 1))
        return list(stops.values())

    def _is_planned(self, key: Key, peer: bytes, state: _State) -> bool:
        """It is a holder by our table: it was asked in the first round."""
        return any(short(one.peer) == peer for one in state.ring.of(key))

    # --- the end

    async def _settle(self, state: _State, now_s: float) -> None:
        for chunk in _chunks(state.keys):
            gone, have = set[Key](), dict[Key, frozenset[bytes]]()
            for key in chunk:
                holding, is_missing = self._standing(key, state)
                if not is_missing and (holding or key in state.rubbish):
                    gone.add(key)
                else:
                    have[key] = frozenset(holding)
            state.report.delivered += len(gone)
            held = [key for key in have if have[key]]
            gone |= set(self._outbox.give_up(held, now_s - KEPT_S))
            gone |= set(self._outbox.give_up([key for key in have if not have[key]], now_s - UNWANTED_KEPT_S))
            state.report.left += len(chunk) - len(gone)
            self._outbox.settle(chunk, gone=gone, have=have)
            await anyio.lowlevel.checkpoint()

    def _standing(self, key: Key, state: _State) -> tuple[set[bytes], bool]:
        """Who acknowledged the link, and whether any of its holders has not."""
        holding = set(state.have.get(key, ()))
        excused = state.excused.get(key, set())
        is_missing = False
        for contact in state.ring.of(key):
            peer = short(contact.peer)
            if contact.peer == self._view.me.peer or peer in excused:
                continue
            if peer in state.done:
                holding.add(peer)
            is_missing = is_missing or peer not in holding
        for peer in state.also.get(key, ()):
            is_missing = is_missing or (peer not in holding and peer not in excused)
        return holding, is_missing


def _sorted(keys: list[Key], links: list[Link]) -> tuple[list[Key], list[Link]]:
    """In the order of the batch: places in the answer mean it."""
    key_of_url = {link.url: key for key, link in zip(keys, links, strict=True)}
    ordered = in_order(links)
    return [key_of_url[link.url] for link in ordered], ordered


def _chunks(keys: Keys) -> Iterator[list[Key]]:
    for start in range(0, len(keys), CHUNK):
        yield [keys[place] for place in range(start, min(start + CHUNK, len(keys)))]


def _parts(keys: Keys, stop: WalkStop) -> Iterator[list[Key]]:
    part: list[Key] = []
    for place in stop.places():
        part.append(keys[place])
        if len(part) == CHUNK:
            yield part
            part = []
    if part:
        yield part
