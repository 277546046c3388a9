"""Who gives permission when a peer is one of many? The crawler's `StewardPort` on the ring, and the peer's own office.

Between its own fetches a peer keeps its own rules, those of a peer alone: the charter's floor, crawl-delay, backoff.
On top of them it needs a window of the host's steward. Where it is the steward itself, the way is the same, without a
call. robots.txt comes from the steward, who fetches it once for all; what it gets of a host is known by a number that
every lease repeats, so that a change is noticed with the next one.
"""

import hashlib
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc

from crawler.core.errors import MalformedUrlError
from crawler.core.leases import HeldWindow, LeaseTerms
from crawler.core.politeness import HostSteward, Lease, OptOutList, OriginReport, Wait
from crawler.core.robots import RobotsRules, parse_robots
from crawler.core.urls import Origin, canonical, host_of, origin_of
from crawler.ports import CaptureSink, Fetcher
from crawler.steward import LocalSteward
from dht import Contact
from herodotus.calls import CallError, Calls, PeerKey, RefusedError, Services
from herodotus.core.status import StewardStatus
from herodotus.core.tenure import Tenure
from herodotus.stewards.desk import ASK_DEADLINE_S, ASK_SERVICE, Desk
from herodotus.stewards.office import OfficeWorld, StewardOffice, key_of_subject, subject_of
from herodotus.stewards.ports import StewardRing
from herodotus.stewards.wire import (
    RULES_BYTES_MAX,
    Answer,
    Ask,
    Granted,
    MalformedError,
    NewRules,
    No,
    NoRules,
    NotYet,
    Return,
    RulesAnswer,
    RulesLater,
    SameRules,
    decode_asks,
    decode_rules,
    decode_rules_ask,
    encode_answers,
    encode_rules,
    encode_rules_ask,
    to_ms,
)

logger = logging.getLogger(__name__)

RULES_SERVICE = "leases.rules"
RULES_PATIENCE_S = 3.0
"""What a call for rules may wait for robots.txt to come; then it is asked again."""
RULES_COST = 5
"""A rules ask may make us fetch: it counts like so many asks."""
ASK_AGAIN_S = 1.0
SOON_S = 0.25
WANTED_FIRST, WANTED_MAX = 4, 256
HOSTS_NOTED_MAX = 100_000
"""Windows held, and what is known of hosts; those without a window are forgotten beyond it."""
SEARCHES_MAX = 128
"""For robots.txt, at once: each may have a connection open, to a server that answers slowly on purpose."""
ORIGINS_OF_A_HOST_MAX = 64
"""Ports of a host whose rules are told apart by their number; those of more are asked for daily."""
IDLE_LOOK_S, IDLE_S = 0.5, 2.0
"""A window that could have been used for so long goes back."""
TROUBLE_S = 30.0
SLOW_AFTER_S = 600.0
"""A host that waits so long for its steward, without being told of a rest, is shown to the operator."""
_CLOSED = {"opted-out", "not-public", "malformed"}


@dataclass(frozen=True, slots=True, kw_only=True)
class StewardParts:
    own_key: PeerKey
    terms: LeaseTerms
    fetcher: Fetcher
    """For robots.txt, and to see where names lead; not the crawl's own, which comes and goes."""
    product_token: str
    wall_clock: Callable[[], float]
    ring: Callable[[], StewardRing]
    calls: Callable[[], Calls]
    may_visit_private: bool
    opted_out: OptOutList = field(default_factory=OptOutList)


@dataclass(slots=True)
class _HostNote:
    """What this peer holds and knows of a host."""

    window: HeldWindow | None = None
    steward: Contact | None = None
    rules: int = 0
    returned: int = -1
    """Of this steward; what was returned is not used again, whatever a late answer says."""
    wanted: int = WANTED_FIRST
    waits_since: float | None = None
    is_out: bool = False
    """A fetch is under way."""


class RingSteward(LocalSteward):
    """Made for a peer's life; `running` is open inside the ring."""

    def __init__(self, parts: StewardParts, core: HostSteward) -> None:
        super().__init__(
            core,
            parts.fetcher,
            product_token=parts.product_token,
            wall_clock=parts.wall_clock,
            opted_out=parts.opted_out,
        )
        self._parts = parts
        self._tenure = Tenure(parts.terms.silent_s)
        self._desk = Desk(parts.calls)
        self._notes: dict[str, _HostNote] = {}
        self._searching: dict[Origin, anyio.Event] = {}
        self._search_again: dict[Origin, float] = {}  # when a search that has to wait may go on
        self._versions: dict[str, dict[Origin, bytes]] = {}  # of hosts that we are steward of
        self._seen: dict[Origin, int] = {}
        self._tasks: anyio.abc.TaskGroup | None = None
        self._office = StewardOffice(
            parts.terms,
            self._tenure,
            OfficeWorld(
                own_key=parts.own_key,
                address_of=self._address_of,
                ask_elsewhere=self._ask_steward,
                return_elsewhere=self._return_to,
                rules_number=self._rules_number,
                knows_rules=self._knows_rules,
                may_visit_private=parts.may_visit_private,
                opted_out=parts.opted_out,
            ),
        )

    def attach(self, sink: CaptureSink | None) -> "RingSteward":
        """Where robots.txt goes that is fetched for others: the archive, while it is open."""
        self._sink = sink
        return self

    @property
    def services(self) -> Services:
        return Services(calls={ASK_SERVICE: self._serve_asks, RULES_SERVICE: self._serve_rules})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Inside, the ring is open; leases end with it."""
        self._tenure.change(self._parts.ring().my_arcs(), anyio.current_time())
        async with self._desk.opened(), anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._follow_ring)
            tasks.start_soon(self._return_idle_windows)
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    def status(self) -> StewardStatus:
        now = anyio.current_time()
        books = self._office.statistics()
        notes = self._notes.values()
        return StewardStatus(
            subjects=books.subjects,
            windows=books.windows,
            waiting=books.waiting,
            granted=books.granted,
            lost=books.lost,
            backing_off=books.backing_off,
            held=sum(note.window is not None for note in notes),
            slow=sum(
                note.waits_since is not None and now - note.waits_since > SLOW_AFTER_S for note in notes
            ),
            calls=self._desk.calls_made,
            calls_failed=self._desk.calls_failed,
            refused=dict(self._office.refused),
        )

    # -- the crawler's side

    async def rules(self, origin: Origin) -> RobotsRules | Wait:
        known = self.core.rules(origin, anyio.current_time())
        if known is not None:
            return known
        steward = await self._owner(subject_of(_host(origin)))
        if steward is None:
            return _soon("nobody answers for its steward")
        if steward.peer != self._parts.own_key:
            return await self._rules_from(steward, origin)
        if origin in self._searching:
            return _soon("robots.txt is being asked for")
        return await self._find_rules(origin)

    async def lease(self, origin: Origin, address: str) -> Lease | Wait:
        own = self.core.lease(origin, anyio.current_time(), address=address)
        if isinstance(own, Wait):
            return own
        wait: Wait | None = _soon("the ring is closed")
        try:
            wait = await self._use_window(origin)
        finally:
            if wait is not None:
                unused = OriginReport(status=None, duration_s=0.0, fetches=0)
                self.core.give_back(own, unused, anyio.current_time())
        return own if wait is None else wait

    async def give_back(self, lease: Lease, report: OriginReport) -> float:
        now = anyio.current_time()
        next_at = self.core.give_back(lease, report, now)
        note = self._notes.get(_host(lease.origin))
        window = note.window if note is not None else None
        if note is not None:
            note.is_out = False
        if note is None or window is None:
            return next_at
        _note_fetch(window, report)
        is_failure = bool(report.fetches) and report.status in (None, 429, 503)
        if not report.fetches or is_failure or window.is_over(max(now, next_at)):
            self._end_window(_host(lease.origin), note)
            return next_at
        return max(next_at, window.opens_at())

    async def _use_window(self, origin: Origin) -> Wait | None:
        """None when a fetch may start now."""
        host = _host(origin)
        note = self._note(host)
        if note.window is not None and note.window.is_over(anyio.current_time()):
            self._end_window(host, note)
        if note.window is None:
            wait = await self._get_window(origin, note)
            if wait is not None:
                self._note_waiting(note, wait)
                return wait
        now, window = anyio.current_time(), note.window
        if window is None or window.is_over(now):
            return _soon("the window is over")
        is_told = note.steward is not None  # as steward we know by ourselves
        if is_told and self._seen.setdefault(origin, note.rules) != note.rules:
            self._seen[origin] = note.rules
            self.core.doubt_rules(origin)
            return _soon("robots.txt may have changed", 0.0)
        if now < window.opens_at():
            return Wait(until=window.opens_at(), reason="its turn has not come")
        note.waits_since = None
        note.is_out = True
        window.start(now)
        return None

    async def _get_window(self, origin: Origin, note: _HostNote) -> Wait | None:
        host = _host(origin)
        purpose = "" if origin in self._searching else origin
        ask = Ask(subject=subject_of(host), wanted=note.wanted, purpose=purpose)
        answer, asked, got, steward = await self._ask_steward(ask)
        if isinstance(answer, Granted):
            if note.steward is None or steward is None or note.steward.peer != steward.peer:
                note.returned = -1
            if answer.number == note.returned:
                return _soon("the steward has not heard yet that its window was given back")
            note.steward, note.rules = steward, answer.rules
            note.window = HeldWindow.received(
                answer.number,
                answer.starts_in_ms / 1000,
                answer.lasts_ms / 1000,
                answer.count,
                max(answer.spacing_ms / 1000, self._parts.terms.policy.delay_floor_s),
                asked=asked,
                got=got,
            )
            return None
        if isinstance(answer, NotYet):
            return Wait(until=got + max(answer.wait_ms / 1000, 0.01), reason=answer.reason)
        if isinstance(answer, No) and answer.reason in _CLOSED:
            self._close_host(host, answer.reason)
            return _soon(answer.reason, 0.0)
        return _soon("its steward does not answer" if answer is None else answer.reason)

    def _close_host(self, host: str, reason: str) -> None:
        """The crawler asks for the rules next, and finds that nothing is allowed for now."""
        closed = RobotsRules(is_reachable=False, problem=f"its steward says: {reason}")
        for origin in [one for one in self._seen if _host(one) == host] or [Origin(f"http://{host}")]:
            self.core.set_rules(origin, closed, anyio.current_time())

    def _end_window(self, host: str, note: _HostNote) -> None:
        window = note.window
        if window is None:
            return
        note.window = None
        note.returned = window.number
        if window.is_used_up():
            note.wanted = min(2 * note.wanted, WANTED_MAX)
        elif window.fetches:
            note.wanted = max(WANTED_FIRST, window.fetches)
        self._return_to(
            note.steward,
            Return(
                subject_of(host),
                window.number,
                window.fetches,
                window.status or 0,
                to_ms(window.duration_s, up=True),
                -1 if window.retry_after_s is None else to_ms(window.retry_after_s, up=True),
            ),
        )

    def _note(self, host: str) -> _HostNote:
        note = self._notes.get(host)
        if note is None:
            if len(self._notes) >= HOSTS_NOTED_MAX:
                self._notes = {name: one for name, one in self._notes.items() if one.window is not None}
            if len(self._seen) >= 2 * HOSTS_NOTED_MAX:
                self._seen.clear()
            note = self._notes[host] = _HostNote()
        return note

    def _note_waiting(self, note: _HostNote, wait: Wait) -> None:
        is_rest = wait.reason in ("resting", "backing off")
        if is_rest:
            note.waits_since = None
        elif note.waits_since is None:
            note.waits_since = anyio.current_time()

    # -- whom to ask

    async def _owner(self, subject: str) -> Contact | None:
        return await self._parts.ring().owner(key_of_subject(subject))

    async def _ask_steward(self, ask: Ask) -> tuple[Answer | None, float, float, Contact | None]:
        steward = await self._owner(ask.subject)
        if steward is None:
            return None, 0.0, 0.0, None
        if steward.peer == self._parts.own_key:
            answer = await self._office.grant(self._parts.own_key, ask)
            now = anyio.current_time()
            return answer, now, now, None
        told = await self._desk.ask(steward, ask)
        return told.answer, told.asked, told.got, steward

    def _return_to(self, steward: Contact | None, returned: Return) -> None:
        if steward is None:
            self._office.take_back(self._parts.own_key, returned)
        else:
            self._desk.give_back(steward, returned)

    async def _rules_from(self, steward: Contact, origin: Origin) -> RobotsRules | Wait:
        old = self.core.doubt_rules(origin)
        known = _version(old) if old is not None else b""
        try:
            body = encode_rules_ask(origin, known)
            reply = await self._parts.calls().call(steward, RULES_SERVICE, body, deadline_s=ASK_DEADLINE_S)
            answer = decode_rules(reply)
        except (CallError, MalformedError) as error:
            logger.debug("no rules origin=%s error=%s", origin, error)
            return _soon("its steward does not answer")
        now = anyio.current_time()
        if isinstance(answer, RulesLater):
            return Wait(until=now + max(answer.wait_ms / 1000, 0.05), reason=answer.reason)
        if isinstance(answer, NoRules):
            if answer.reason not in _CLOSED:
                return _soon(answer.reason)
            rules, for_s = RobotsRules(is_reachable=False, problem=f"its steward says: {answer.reason}"), None
        elif isinstance(answer, SameRules):
            if old is None:
                return _soon("its steward repeats what we never had")
            rules, for_s = old, answer.age_ms / 1000
        else:
            rules, for_s = _rules_of(answer, self._parts.product_token), answer.age_ms / 1000
        self.core.set_rules(origin, rules, now, for_s=for_s)
        if not isinstance(answer, NoRules):
            self._seen[origin] = self._note(_host(origin)).rules = answer.rules
        return rules

    # -- the steward's side

    async def _serve_asks(self, asker: PeerKey, body: bytes) -> bytes:
        try:
            message = decode_asks(body)
        except MalformedError as error:
            raise RefusedError(error.problem[:50]) from error
        self._office.charge(asker, 1 + len(message.asks))
        for returned in message.returns:
            self._office.take_back(asker, returned)
        answers: list[Answer] = [NotYet(to_ms(ASK_AGAIN_S), "being looked at")] * len(message.asks)

        async def answer(at: int) -> None:
            answers[at] = await self._office.grant(asker, message.asks[at])

        async with anyio.create_task_group() as tasks:
            for at in range(len(message.asks)):
                tasks.start_soon(answer, at)
        return encode_answers(answers)

    async def _serve_rules(self, asker: PeerKey, body: bytes) -> bytes:
        try:
            message = decode_rules_ask(body)
            origin = origin_of(canonical(f"{message.origin}/"))
        except (MalformedError, MalformedUrlError) as error:
            raise RefusedError("malformed") from error
        if origin != message.origin:
            raise RefusedError("malformed")
        self._office.charge(asker, RULES_COST)
        return encode_rules(await self._answer_rules(origin, message.known))

    async def _answer_rules(self, origin: Origin, known: bytes) -> RulesAnswer:
        host = _host(origin)
        if not self._tenure.has(key_of_subject(subject_of(host))):
            return NoRules("not-steward")
        if self._parts.opted_out.covers(host):
            return NoRules("opted-out")
        address = await self._address_of(host)
        if isinstance(address, Wait):
            return RulesLater(to_ms(address.until - anyio.current_time(), up=True), address.reason[:100])
        if address and not self._office.may_visit(address):
            return NoRules("not-public")
        found = await self._found_rules(origin)
        now = anyio.current_time()
        if isinstance(found, Wait):
            return RulesLater(to_ms(found.until - now, up=True), found.reason[:100])
        self._note_rules(origin, found)
        version, age_ms = _version(found), to_ms(self.core.rules_for_s(origin, now))
        number = self._rules_number(host)
        if version == known:
            return SameRules(number, age_ms)
        text = found.as_text()
        if len(text) > RULES_BYTES_MAX:
            return NewRules(number, age_ms, version, False, b"", "robots.txt has too many rules")
        return NewRules(number, age_ms, version, found.is_reachable, text, found.problem[:300])

    async def _found_rules(self, origin: Origin) -> RobotsRules | Wait:
        """Searched for by a task of ours: who asked may leave, and others ask meanwhile."""
        known = self.core.rules(origin, anyio.current_time())
        if known is not None:
            return known
        if self._tasks is None:
            return _soon("the steward is closing")
        done = self._start_search(origin)
        with anyio.move_on_after(RULES_PATIENCE_S):
            await done.wait()
        found = self.core.rules(origin, anyio.current_time())
        if found is not None:
            return found
        until = max(self._search_again.get(origin, 0.0), anyio.current_time() + SOON_S)
        return Wait(until=until, reason="robots.txt is being asked for")

    def _start_search(self, origin: Origin) -> anyio.Event:
        """Set when the search that is under way has come to something, if only to a wait."""
        done = self._searching.get(origin)
        if done is not None or self._tasks is None or len(self._searching) >= SEARCHES_MAX:
            return done or anyio.Event()
        done = self._searching[origin] = anyio.Event()
        self._tasks.start_soon(self._search, origin)
        return done

    async def _search(self, origin: Origin) -> None:
        try:
            found = await self._find_rules(origin)
        except Exception as error:  # noqa: BLE001  # a task meets its supervisor: others are served all the same
            logger.warning("robots.txt could not be had for others origin=%s error=%s", origin, error)
            found = _soon("its steward is in trouble", TROUBLE_S)
        if isinstance(found, Wait):
            if len(self._search_again) >= HOSTS_NOTED_MAX:
                self._search_again.clear()
            self._search_again[origin] = found.until
        else:
            self._search_again.pop(origin, None)

    def _knows_rules(self, origin: Origin) -> bool:
        now = anyio.current_time()
        if self.core.rules(origin, now) is None:
            if self._search_again.get(origin, 0.0) <= now:
                self._start_search(origin)
            return False
        if origin not in self._versions.get(_host(origin), ()):  # known since we were no steward
            self._note_rules(origin, self.core.rules(origin, now) or RobotsRules())
        return True

    async def _find_rules(self, origin: Origin) -> RobotsRules | Wait:
        done = self._searching.setdefault(origin, anyio.Event())
        try:
            found = await super().rules(origin)
        finally:
            self._searching.pop(origin, None)
            done.set()
        if isinstance(found, RobotsRules):
            self._note_rules(origin, found)
            note = self._notes.get(_host(origin))
            if note is not None and not note.is_out:  # perhaps it was for others, who wait for it
                self._end_window(_host(origin), note)
        return found

    def _note_rules(self, origin: Origin, rules: RobotsRules) -> None:
        host = _host(origin)
        if len(self._versions) >= HOSTS_NOTED_MAX:
            self._versions.clear()
        versions = self._versions.setdefault(host, {})
        if len(versions) < ORIGINS_OF_A_HOST_MAX or origin in versions:
            versions[origin] = _version(rules)
        if rules.crawl_delay_s:
            self._office.note_crawl_delay(host, rules.crawl_delay_s)

    def _rules_number(self, host: str) -> int:
        """The same for every steward who found the same."""
        versions = self._versions.get(host)
        if not versions:
            return 0
        joined = b"".join(version for _, version in sorted(versions.items()))
        return int.from_bytes(hashlib.sha256(joined).digest()[:6], "big")

    async def _address_of(self, host: str) -> str | Wait:
        return await self._fetcher.address_of(host)

    async def _return_idle_windows(self) -> None:
        """A crawl that was paused, or ended, does not keep others waiting."""
        while True:
            await anyio.sleep(IDLE_LOOK_S)
            now = anyio.current_time()
            for host, note in self._notes.items():
                window = note.window
                if window is not None and not note.is_out and window.opens_at() + IDLE_S < now:
                    self._end_window(host, note)

    async def _follow_ring(self) -> None:
        async with self._parts.ring().changes() as changes:
            self._tenure.change(self._parts.ring().my_arcs(), anyio.current_time())
            async for is_whole in changes:
                now = anyio.current_time()
                if not is_whole:
                    self._tenure.lose_all(now)
                self._tenure.change(self._parts.ring().my_arcs(), now)
                self._office.forget_others()


def _host(origin: Origin) -> str:
    return host_of(f"{origin}/")


def _soon(reason: str, in_s: float = ASK_AGAIN_S) -> Wait:
    return Wait(until=anyio.current_time() + in_s, reason=reason)


def _version(rules: RobotsRules) -> bytes:
    said = b"%d\0%b\0%b" % (rules.is_reachable, rules.problem.encode(), rules.as_text())
    return hashlib.sha256(said).digest()[:8]


def _rules_of(answer: NewRules, product_token: str) -> RobotsRules:
    if not answer.is_reachable:
        return RobotsRules(is_reachable=False, problem=answer.problem)
    return parse_robots(answer.text, product_token)


def _note_fetch(window: HeldWindow, report: OriginReport) -> None:
    if report.fetches:
        window.fetches += report.fetches
        window.status = report.status
        window.duration_s = max(window.duration_s, report.duration_s)
        window.retry_after_s = report.retry_after_s
