"""What does a steward do when peers ask it for leases? The shell around the books of `crawler.core.lease_office`.

It grants windows only for keys that it owns on the ring, after the silence of a new steward, for hosts that did not
opt out and that resolve, here, to addresses which the network may visit. A window of a host lies within a window of
its address, from that address's steward, so that all hosts at one address together keep within the charter's cap.
Where no other steward has a host there, it is made the address's deputy and asks no more.

Which rules did a steward find for its hosts, and how are they told? By version, and for each host by one number.

The number follows from the versions alone: all stewards that found the same rules have the same number, so a change
of stewards makes no peer ask again.

What do stewards ask of the ring? Who owns a key, which keys are ours, and when that changes.

Since when is a key ours without a break? A steward grants nothing until all earlier grants are over.

Remembered are the arcs that were ours within the last `memory_s`; a key that was in all of them is ours for as long.
"""

import hashlib
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

import anyio
from cachetools import FIFOCache
from msgspec.structs import replace

from crawler.core.errors import MalformedUrlError
from crawler.core.lease_office import CallBack, Deputed, LeaseOffice, OfficeStatistics
from crawler.core.politeness import Holder, LeaseTerms, OptOutList, OriginReport, Wait, Window
from crawler.core.robots import RobotsRules, parse_robots
from crawler.core.urls import Origin, canonical, host_of, is_literal, is_public, origin_of, reached
from dht import Arc, Contact, EventsLost, Subscription, key_of
from dht.core.arcs import WHOLE, Arcs
from dht.core.effects import ArcsChanged, PaceChanged, PeerChanged, RingChanged
from dht.core.ids import Key
from dht.core.ids import PeerKey as MemberKey
from dht.core.limits import Buckets, Rate
from dht.node_types import RingEvent
from herodotus.crawl.stewards.ask_queue import AskSteward
from herodotus.crawl.stewards.wire import (
    RULES_BYTES_MAX,
    Answer,
    Ask,
    Deputy,
    Granted,
    NewRules,
    No,
    NotYet,
    Return,
    SameRules,
    ToldRules,
    to_ms,
)
from herodotus.peers.calls import PeerKey, RefusedError

CHANGES_MAX = 256
"""A ring that changes more often within the silence is judged by its oldest change: longer silence, never shorter."""


class Tenure:
    def __init__(self, memory_s: float, *, begins_ring: bool = False) -> None:
        """`begins_ring`: nobody was a member before us. The whole circle, had at once and alone, was then ours always:
        no steward before us can have granted anything."""
        self._memory_s = memory_s
        self._begins_ring = begins_ring
        self._arcs = Arcs()
        self._earlier: deque[tuple[float, Arcs]] = deque()  # and when each ended

    def change(self, arcs: Arcs, now: float) -> None:
        """From now on these are ours; nothing was, before the first call."""
        assert not self._earlier or self._earlier[-1][0] <= now, "time does not run backwards"
        if self._begins_ring and arcs:
            self._begins_ring = False
            if arcs == WHOLE:
                self._arcs = arcs
                self._earlier.clear()
                return
        if arcs == self._arcs and self._earlier:
            return
        self._earlier.append((now, self._arcs))
        self._arcs = arcs
        while len(self._earlier) > CHANGES_MAX:
            self._join_oldest()
        while len(self._earlier) > 1 and self._earlier[0][0] + self._memory_s < now:
            self._earlier.popleft()

    def lose_all(self, now: float) -> None:
        """Our knowledge may have gaps: every key of ours counts as ours from now."""
        self._earlier.append((now, Arcs()))

    def has(self, key: Key) -> bool:
        return key in self._arcs

    def opens_at(self, key: Key) -> float:
        """`memory_s` after the last moment at which the key was not ours; meaningless for one that is not."""
        for ended, arcs in reversed(self._earlier):
            if key not in arcs:
                return ended + self._memory_s
        return 0.0

    def _join_oldest(self) -> None:
        """Join the two oldest: the end of the second, with the keys that both had."""
        _, first = self._earlier.popleft()
        ended, second = self._earlier.popleft()
        self._earlier.appendleft((ended, first & second))


ASKS = Rate(per_second=100.0, burst=1_000.0)
"""Of one peer: a lease serves many fetches, so this is far more than a crawl needs."""
ASKERS_MAX = 20_000
WITH_ADDRESSES_MAX = 100_000
CALLS_NOTED_MAX = 4_096
"""Of stewards that called us back. They matter for as long as an ask may be under way, which is ten seconds."""
DRIFT = 2e-4
"""By which the rates of two clocks differ at most."""
SOON_S = 0.5
ROBOTS_LATER = NotYet(to_ms(SOON_S), "robots.txt comes first")


def subject_of(host: str) -> str:
    return f"host:{host}"


def key_of_subject(subject: str) -> Key:
    return key_of(subject.encode())


@dataclass(frozen=True, slots=True)
class _AddressWindow:
    subject: str
    number: int
    steward: Contact | None
    """None: ourselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mandate:
    """We are the deputy of an address's steward."""

    steward: PeerKey
    life: int | None
    """The steward's incarnation: after a restart it knows nothing of us. None: it is not in our table."""
    until: float


SignWindow = Callable[[PeerKey, str, Granted], Granted]
"""A host's window for an asker, with the steward's signature."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeWorld:
    """What the office asks of the rest."""

    own_key: PeerKey
    address_of: Callable[[str], Awaitable[str | Wait]]
    """Where a host's name leads from here, "" when nowhere."""
    ask_elsewhere: AskSteward
    return_elsewhere: Callable[[Contact | None, Return], None]
    call_back: Callable[[str, CallBack], None]
    """Tell a deputy; its answer comes to `books.called_back`."""
    rules_number: Callable[[str], int]
    knows_rules: Callable[[Origin], bool]
    """Where not, they are being looked for from now on."""
    may_visit_private: bool
    opted_out: OptOutList
    sign: SignWindow


class StewardOffice:
    def __init__(self, terms: LeaseTerms, tenure: Tenure, world: OfficeWorld) -> None:
        self.books = LeaseOffice(terms)
        self._terms = terms
        self._tenure = tenure
        self._world = world
        self._askers = Buckets(ASKERS_MAX)
        self._addresses = FIFOCache[tuple[Holder, str, int], _AddressWindow](WITH_ADDRESSES_MAX)
        self._opted_out = world.opted_out
        self._mandates: OrderedDict[str, _Mandate] = OrderedDict()
        self._called_at = FIFOCache[tuple[PeerKey, str], float](CALLS_NOTED_MAX)
        self._uncounted_until = 0.0
        """Until then there may be windows at addresses of which we know nothing any more."""
        self.refused: dict[str, int] = {}
        self.elsewhere = 0
        """Leases for an address to which the host's name does not lead for us."""

    def charge(self, asker: PeerKey, count: int) -> None:
        """Raises RefusedError if the asker asks too much."""
        wait_s = self._askers.ration(asker, ASKS, count, anyio.current_time())
        if wait_s:
            self._note_refusal("too-many")
            raise RefusedError("too-many", retry_after_s=wait_s)

    async def grant(self, asker: PeerKey, ask: Ask) -> Answer:
        reason = self._refusal(asker, ask)
        if reason is None:
            now, opens_at = anyio.current_time(), self._tenure.opens_at(key_of_subject(ask.subject))
            if now < opens_at:
                return NotYet(to_ms(opens_at - now, up=True), "a new steward stays silent at first")
            if ask.subject.startswith("address:"):
                return self._deputed(asker, ask.subject, now) or self._grant_address(asker, ask)
            address = await self._world.address_of(ask.subject.removeprefix("host:"))
            if isinstance(address, Wait):
                return NotYet(to_ms(address.until - now, up=True), address.reason[:100])
            covered = reached(address) if ask.address is None else ask.address
            if not self._may_send_to(address, covered):
                reason = "not-public"
            elif ask.purpose and not self._world.knows_rules(Origin(ask.purpose)):
                return ROBOTS_LATER
            else:
                return await self._grant_host(asker, ask, covered, own=reached(address))
        self._note_refusal(reason)
        return No(reason)

    async def refusal_of_host(self, host: str) -> str | Wait | None:
        """Why we have nothing to say about it, or None."""
        if not self._tenure.has(key_of_subject(subject_of(host))):
            return "not-steward"
        if self._opted_out.covers(host):
            return "opted-out"
        address = await self._world.address_of(host)
        if isinstance(address, Wait):
            return address
        return None if not address or self.may_visit(address) else "not-public"

    # -- as the deputy of an address's steward

    def become_deputy(
        self, subject: str, deputy: Deputy, steward: PeerKey, life: int | None, asked: float
    ) -> None:
        """As it said, unless it called us back since. Its time runs from our question, by a clock that may be slower
        than its own.
        """
        # We would not hear that a steward outside our table started again; it is silent for longer than a life.
        lasts_s = deputy.lasts_ms / 1000 if life is not None else self._terms.life_s
        if subject not in self._mandates and len(self._mandates) >= WITH_ADDRESSES_MAX:
            self._mandates.popitem(last=False)
        if self._called_at.get((steward, subject), -1.0) >= asked:
            return  # the answer is older than the call, however it came here
        until = asked + lasts_s * (1 - DRIFT)
        self._mandates[subject] = _Mandate(steward=steward, life=life, until=until)

    def grant_as_deputy(self, ask: Ask, steward: PeerKey, life: int | None) -> Answer | None:
        """None: we are not that steward's deputy, or it is not in the same life."""
        mandate = self._mandates.get(ask.subject)
        if mandate is None:
            return None
        if (mandate.steward, mandate.life) != (steward, life) or anyio.current_time() >= mandate.until:
            # Another steward begins with silence, which is longer than our last window. Those that are out count on.
            del self._mandates[ask.subject]
            return None
        return self._grant_address(self._world.own_key, ask)

    def end_mandate(self, steward: PeerKey, subject: str) -> list[float]:
        """A steward calls us back: in how many seconds are our windows there over? Asked again, we say it again."""
        mandate, now = self._mandates.get(subject), anyio.current_time()
        self._called_at.pop((steward, subject), None)
        self._called_at[steward, subject] = now
        if mandate is not None and mandate.steward == steward:
            del self._mandates[subject]
        found = self.books.ends_s(subject, now)
        uncounted_s = self._uncounted_until - now
        if uncounted_s > 0:
            found += [uncounted_s] * self._terms.policy.per_address_concurrency
        return found

    def forget_mandates(self) -> None:
        """Our clock stood still, or we start: a steward may have ended them since, or know of some that we do not."""
        self._mandates.clear()
        self._uncounted_until = anyio.current_time() + self.books.last_windows_s

    def take_back(self, asker: PeerKey, returned: Return) -> None:
        now = anyio.current_time()
        holder = asker + returned.purpose.encode()
        report = OriginReport(
            status=returned.status or None,
            duration_s=returned.duration_ms / 1000,
            retry_after_s=None if returned.retry_after_ms < 0 else returned.retry_after_ms / 1000,
            fetches=returned.fetches,
        )
        self.books.give_back(holder, returned.subject, returned.number, report, now)
        self._leave_address((holder, returned.subject, returned.number))

    def _withdraw(self, mark: tuple[Holder, str, int]) -> None:
        """The window of a host that found no place at its address; what place it found goes back."""
        self.books.withdraw(*mark)
        self._leave_address(mark)

    def _leave_address(self, mark: tuple[Holder, str, int]) -> None:
        outer = self._addresses.pop(mark, None)
        if outer is not None:
            returned = Return(outer.subject, outer.number, 1, 200, 0, -1, _purpose_of(mark))
            self._world.return_elsewhere(outer.steward, returned)

    def note_crawl_delay(self, host: str, crawl_delay_s: float) -> None:
        self.books.set_crawl_delay(subject_of(host), crawl_delay_s, anyio.current_time())

    def forget_others(self) -> None:
        """Our arcs changed: forget what is not ours any more; its new steward takes over."""
        now = anyio.current_time()
        for subject in [one for one, mandate in self._mandates.items() if mandate.until <= now]:
            del self._mandates[subject]
        for subject in self.books.subjects():
            if not self._tenure.has(key_of_subject(subject)) and subject not in self._mandates:
                self.books.forget(subject, now)

    def statistics(self) -> OfficeStatistics:
        return self.books.statistics(anyio.current_time())

    # -- inside

    def _refusal(self, asker: PeerKey, ask: Ask) -> str | None:
        if not self._tenure.has(key_of_subject(ask.subject)):
            return "not-steward"
        kind, _, name = ask.subject.partition(":")
        if kind == "address":
            return None if self._is_address(name) and self.may_visit(name) else "not-public"
        is_for_robots = not ask.purpose
        if is_for_robots and asker != self._world.own_key:
            # Only a host's steward asks for its robots.txt. The asker was that a moment ago, and now it is us.
            return "not-steward"
        try:
            if host_of(canonical(f"http://{name}/")) != name:
                return "malformed"
            if not is_for_robots and (
                origin_of(canonical(f"{ask.purpose}/")) != ask.purpose or host_of(f"{ask.purpose}/") != name
            ):
                return "malformed"
        except MalformedUrlError:
            return "malformed"
        return "opted-out" if self._opted_out.covers(name) else None

    def _may_send_to(self, own: str, covered: str) -> bool:
        """Names may lead elsewhere for the asker than for us; neither of us goes where nobody may."""
        if own and not self.may_visit(own):
            return False
        return not covered or (self._is_address(covered) and self.may_visit(covered))

    @staticmethod
    def _is_address(text: str) -> bool:
        """In the one spelling by which all peers find its steward."""
        return is_literal(text) and reached(text) == text

    def may_visit(self, address: str) -> bool:
        return self._world.may_visit_private or is_public(address)

    def _note_refusal(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def _deputed(self, asker: PeerKey, subject: str, now: float) -> Answer | None:
        found = self.books.deputy_for(asker, subject, now, may_be=asker != self._world.own_key)
        if isinstance(found, Deputed):
            return Deputy(to_ms(found.lasts_s))
        if found is not None:
            if found.is_time:
                self._world.call_back(subject, found)
            return _answer_of(found.wait, now)
        return None

    def _grant_address(self, asker: PeerKey, ask: Ask) -> Answer:
        now = anyio.current_time()
        holder = asker + ask.purpose.encode()
        found = self.books.ask(
            holder,
            ask.subject,
            ask.wanted,
            now,
            not_before=now + ask.from_ms / 1000,
            lasts_s=ask.lasts_ms / 1000,
            place=asker + ask.purpose.partition(" ")[2].encode(),
        )
        return _answer_of(found, now)

    async def _grant_host(self, asker: PeerKey, ask: Ask, address: str, *, own: str) -> Answer:
        now = anyio.current_time()
        found = self.books.ask(asker, ask.subject, ask.wanted, now, late_s=ask.lasts_ms / 1000)
        if isinstance(found, Wait):
            return _answer_of(found, now)
        mark = (asker, ask.subject, found.number)
        outer = self._addresses.get(mark)
        if outer is not None and outer.subject != f"address:{address}":
            self._leave_address(mark)
            outer = None
        if address and outer is None:
            inside = await self._enter_address(mark, found, address)
            if isinstance(inside, NotYet):
                self._withdraw(mark)
                now = anyio.current_time()
                self.books.put_first(asker, ask.subject, now + inside.wait_ms / 1000, now)
                return inside
            found = inside
        now = anyio.current_time()
        rules = self._world.rules_number(ask.subject.removeprefix("host:"))
        answer = _answer_of(found, now, rules)
        if not isinstance(answer, Granted):
            return answer
        self.elsewhere += address != own
        covers = [address] if address else []
        return self._world.sign(asker, ask.subject, replace(answer, addresses=covers))

    async def _enter_address(
        self, mark: tuple[Holder, str, int], window: Window, address: str
    ) -> NotYet | Window:
        """The window, moved to where the address has one, too."""
        now = anyio.current_time()
        tail_s = self.books.tail_s(mark[1])
        ask = Ask(
            subject=f"address:{address}",
            wanted=window.count,
            from_ms=to_ms(window.starts_at - now),
            lasts_ms=to_ms(window.ends_at - window.starts_at + tail_s, up=True),
            purpose=_purpose_of(mark),
        )
        answer, asked, got, steward, _ = await self._world.ask_elsewhere(ask)
        if isinstance(answer, NotYet):
            return NotYet(answer.wait_ms, "its address is busy")
        if not isinstance(answer, Granted):
            return NotYet(to_ms(SOON_S), "its address's steward does not answer")
        starts_in_s = answer.starts_in_ms / 1000
        self._addresses[mark] = _AddressWindow(ask.subject, answer.number, steward)
        starts_at, ends_at = got + starts_in_s, asked + starts_in_s + answer.lasts_ms / 1000 - tail_s
        if starts_at <= window.starts_at and window.ends_at <= ends_at:
            return window
        moved = None
        starts_at = max(starts_at, window.starts_at)
        if starts_at < ends_at:
            moved = self.books.shift(mark[0], mark[1], mark[2], starts_at, ends_at, anyio.current_time())
        return moved or NotYet(to_ms(SOON_S), "its address is busy")


def _purpose_of(mark: tuple[Holder, str, int]) -> str:
    """Of each window of the host its own: the next one's must not be taken for it."""
    return f"{mark[2]} {mark[1]}"


def _answer_of(found: Window | Wait, now: float, rules: int = 0) -> Answer:
    if isinstance(found, Wait):
        return NotYet(to_ms(found.until - now, up=True), found.reason)
    starts_in_ms = to_ms(found.starts_at - now, up=True)
    lasts_ms = to_ms(found.ends_at - max(found.starts_at, now))
    return Granted(found.number, starts_in_ms, lasts_ms, found.count, to_ms(found.spacing_s, up=True), rules)


HOSTS_MAX = 100_000
ORIGINS_OF_A_HOST_MAX = 64
"""Ports of a host whose rules its number tells of; those of more are asked for daily."""


def version_of(rules: RobotsRules) -> bytes:
    said = b"%d\0%b\0%b" % (rules.is_reachable, rules.problem.encode(), rules.as_text())
    return hashlib.sha256(said).digest()[:8]


def rules_of(answer: NewRules, product_token: str) -> RobotsRules:
    if not answer.is_reachable:
        return RobotsRules(is_reachable=False, problem=answer.problem)
    return parse_robots(answer.text, product_token)


class RuleBook:
    """Of the hosts that we are steward of."""

    def __init__(self) -> None:
        self._versions: dict[str, dict[Origin, bytes]] = {}

    def note(self, origin: Origin, rules: RobotsRules) -> None:
        if len(self._versions) >= HOSTS_MAX:
            self._versions.clear()
        versions = self._versions.setdefault(host_of(f"{origin}/"), {})
        if len(versions) < ORIGINS_OF_A_HOST_MAX or origin in versions:
            versions[origin] = version_of(rules)

    def knows(self, origin: Origin) -> bool:
        return origin in self._versions.get(host_of(f"{origin}/"), ())

    def number(self, host: str) -> int:
        versions = self._versions.get(host)
        if not versions:
            return 0
        joined = b"".join(version for _, version in sorted(versions.items()))
        return int.from_bytes(hashlib.sha256(joined).digest()[:6], "big")

    def told(self, host: str, rules: RobotsRules, known: bytes, for_s: float) -> ToldRules:
        """For an asker that knows this version, or none."""
        version, age_ms, number = version_of(rules), to_ms(for_s), self.number(host)
        if version == known:
            return SameRules(number, age_ms)
        text = rules.as_text()
        if len(text) > RULES_BYTES_MAX:
            return NewRules(number, age_ms, version, False, b"", "robots.txt has too many rules")
        return NewRules(number, age_ms, version, rules.is_reachable, text, rules.problem[:300])


class StewardRing(Protocol):
    """What stewards ask of `dht.Ring`."""

    async def prompt_owner(self, key: Key) -> Contact: ...
    def prompt_arcs(self) -> tuple[Arc, ...]: ...
    def positions(self) -> tuple[Contact, ...]: ...
    def life_of(self, peer: MemberKey) -> int | None: ...
    def say_slow(self, *, is_slow: bool) -> None: ...
    def events(self) -> AbstractContextManager[Subscription]: ...


def stewarded_by(ring: StewardRing) -> Arcs:
    return Arcs(ring.prompt_arcs())


AGES_LOOK_S = 50.0
"""No event tells that members came of age, at the day's boundary: who owns a key is asked this often without one."""


async def follow_ring(ring: StewardRing, tenure: Tenure, on_change: Callable[[], None]) -> None:
    """Tell the tenure whenever other keys are ours."""
    with ring.events() as news:
        tenure.change(stewarded_by(ring), anyio.current_time())
        while True:
            events: Sequence[RingEvent] | None = None
            with anyio.move_on_after(AGES_LOOK_S):
                events = await news.wait()
            if events is not None and not may_change_owners(events):
                continue
            now = anyio.current_time()
            if events is not None and any(isinstance(event, EventsLost) for event in events):
                tenure.lose_all(now)
            tenure.change(stewarded_by(ring), now)
            on_change()


def may_change_owners(events: Iterable[RingEvent]) -> bool:
    # In a ring of few all hold everything: what we own changes there without what we hold. And where copies count by
    # place, the table says who owns a key, as soon as it finds that somebody is silent.
    # A slow member that says so hands its hosts over from one moment to the next.
    kinds = ArcsChanged | RingChanged | PeerChanged | PaceChanged | EventsLost
    return any(isinstance(event, kinds) for event in events)
