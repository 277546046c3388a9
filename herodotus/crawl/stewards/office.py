"""What does a steward do when peers ask it for leases? The shell around the books of `crawler.core.lease_office`.

It grants windows only for keys that it owns on the ring, after the silence of a new steward, for hosts that did not
opt out and that resolve, here, to addresses which the network may visit. A window of a host lies within a window of
its address, from that address's steward, so that all hosts at one address together keep within the charter's cap.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio

from crawler.core.addresses import is_literal, is_public
from crawler.core.errors import MalformedUrlError
from crawler.core.lease_office import LeaseOffice, OfficeStatistics
from crawler.core.leases import Holder, LeaseTerms, Window
from crawler.core.politeness import OptOutList, OriginReport, Wait
from crawler.core.urls import Origin, canonical, host_of, origin_of
from dht import Contact, Key, key_of
from herodotus.core.tenure import Tenure
from herodotus.crawl.stewards.wire import Answer, Ask, Granted, No, NotYet, Return, to_ms
from herodotus.peers.calls import PeerKey, RefusedError

ASKS_PER_S, ASKS_BURST = 100.0, 1_000.0
"""Of one peer: a lease serves many fetches, so this is far more than a crawl needs."""
ASKERS_MAX = 20_000
WITH_ADDRESSES_MAX = 100_000
SOON_S = 0.5


def subject_of(host: str) -> str:
    return f"host:{host}"


def key_of_subject(subject: str) -> Key:
    return key_of(subject.encode())


@dataclass(slots=True)
class _Allowance:
    left: float
    at: float


@dataclass(frozen=True, slots=True)
class _AddressWindow:
    subject: str
    number: int
    steward: Contact | None
    """None: ourselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OfficeWorld:
    """What the office asks of the rest."""

    own_key: PeerKey
    address_of: Callable[[str], Awaitable[str | Wait]]
    """Where a host's name leads from here, "" when nowhere."""
    ask_elsewhere: Callable[[Ask], Awaitable[tuple[Answer | None, float, float, Contact | None]]]
    """An answer of the subject's steward with the moments of asking and getting; the contact is None for ourselves."""
    return_elsewhere: Callable[[Contact | None, Return], None]
    rules_number: Callable[[str], int]
    knows_rules: Callable[[Origin], bool]
    """Where not, they are being looked for from now on."""
    may_visit_private: bool
    opted_out: OptOutList


class StewardOffice:
    def __init__(self, terms: LeaseTerms, tenure: Tenure, world: OfficeWorld) -> None:
        self.books = LeaseOffice(terms)
        self._terms = terms
        self._tenure = tenure
        self._world = world
        self._askers: OrderedDict[PeerKey, _Allowance] = OrderedDict()
        self._addresses: OrderedDict[tuple[Holder, str, int], _AddressWindow] = OrderedDict()
        self._opted_out = world.opted_out
        self.refused: dict[str, int] = {}

    def charge(self, asker: PeerKey, count: int) -> None:
        """Raises RefusedError if the asker asks too much."""
        now = anyio.current_time()
        allowance = self._askers.setdefault(asker, _Allowance(ASKS_BURST, now))
        self._askers.move_to_end(asker)
        if len(self._askers) > ASKERS_MAX:
            self._askers.popitem(last=False)
        allowance.left = min(ASKS_BURST, allowance.left + (now - allowance.at) * ASKS_PER_S)
        allowance.at = now
        if allowance.left < count:
            self._note_refusal("too-many")
            raise RefusedError("too-many", retry_after_s=(count - allowance.left) / ASKS_PER_S)
        allowance.left -= count

    async def grant(self, asker: PeerKey, ask: Ask) -> Answer:
        reason = self._refusal(asker, ask)
        if reason is None:
            now, opens_at = anyio.current_time(), self._tenure.opens_at(key_of_subject(ask.subject))
            if now < opens_at:
                return NotYet(to_ms(opens_at - now, up=True), "a new steward stays silent at first")
            if ask.subject.startswith("address:"):
                return self._grant_address(asker, ask)
            address = await self._world.address_of(ask.subject.removeprefix("host:"))
            if isinstance(address, Wait):
                return NotYet(to_ms(address.until - now, up=True), address.reason[:100])
            if address and not self.may_visit(address):
                reason = "not-public"
            elif ask.purpose and not self._world.knows_rules(Origin(ask.purpose)):
                return NotYet(to_ms(SOON_S), "robots.txt comes first")
            else:
                return await self._grant_host(asker, ask, address)
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
        for subject in self.books.subjects():
            if not self._tenure.has(key_of_subject(subject)):
                self.books.forget(subject)

    def statistics(self) -> OfficeStatistics:
        return self.books.statistics(anyio.current_time())

    # -- inside

    def _refusal(self, asker: PeerKey, ask: Ask) -> str | None:
        if not self._tenure.has(key_of_subject(ask.subject)):
            return "not-steward"
        kind, _, name = ask.subject.partition(":")
        if kind == "address":
            return None if is_literal(name) and self.may_visit(name) else "not-public"
        is_for_robots = not ask.purpose and asker == self._world.own_key
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

    def may_visit(self, address: str) -> bool:
        return self._world.may_visit_private or is_public(address)

    def _note_refusal(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

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

    async def _grant_host(self, asker: PeerKey, ask: Ask, address: str) -> Answer:
        now = anyio.current_time()
        found = self.books.ask(asker, ask.subject, ask.wanted, now)
        if isinstance(found, Wait):
            return _answer_of(found, now)
        mark = (asker, ask.subject, found.number)
        outer = self._addresses.get(mark)
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
        return _answer_of(found, now, rules)

    async def _enter_address(
        self, mark: tuple[Holder, str, int], window: Window, address: str
    ) -> NotYet | Window:
        """The window, moved to where the address has one, too."""
        now = anyio.current_time()
        # The last fetch ends before others at the address begin. Where fetches take so long that nothing of a window
        # would be left, no window would ever be granted again, and nobody would learn that the host is well.
        tail_s = min(2 * self.books.duration_s(mark[1]), self._terms.window_s / 2)
        ask = Ask(
            subject=f"address:{address}",
            wanted=window.count,
            from_ms=to_ms(window.starts_at - now),
            lasts_ms=to_ms(window.ends_at - window.starts_at + tail_s, up=True),
            purpose=_purpose_of(mark),
        )
        answer, asked, got, steward = await self._world.ask_elsewhere(ask)
        if isinstance(answer, NotYet):
            return NotYet(answer.wait_ms, "its address is busy")
        if not isinstance(answer, Granted):
            return NotYet(to_ms(SOON_S), "its address's steward does not answer")
        starts_in_s = answer.starts_in_ms / 1000
        self._addresses[mark] = _AddressWindow(ask.subject, answer.number, steward)
        if len(self._addresses) > WITH_ADDRESSES_MAX:
            self._addresses.popitem(last=False)
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
