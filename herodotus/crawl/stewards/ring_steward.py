"""Who permits fetches when a peer is one of many? The crawler's `StewardPort` on the ring, and the peer's own office.

Between its own fetches a peer keeps the rules of a peer alone: the charter's floor, crawl-delay, backoff. In addition
it needs a window of the host's steward. If it is the steward itself, the way is the same, without a call. robots.txt
comes from the steward, which fetches it once for all peers. Every lease repeats a number for the host's rules, so the
peer notices a change with the next lease.
"""

import dataclasses
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import anyio.abc
from msgspec.structs import replace

from crawler.core.errors import MalformedUrlError
from crawler.core.lease_office import CallBack
from crawler.core.politeness import (
    HostSteward,
    Lease,
    LeaseRefusal,
    LeaseTerms,
    OptOutList,
    OriginReport,
    Stay,
    Wait,
)
from crawler.core.robots import RobotsRules
from crawler.core.urls import Origin, canonical, host_of, origin_of, reached
from crawler.ports import CaptureSink, Fetcher
from crawler.steward import LocalSteward
from dht import Contact
from dht.core.ids import PeerKey as MemberKey
from dht.errors import NoAnswerError
from herodotus.core.errors import MalformedError
from herodotus.core.pacer import OwnQueue, SlowLine
from herodotus.core.signatures import SignedWindow, window_statement
from herodotus.core.status import StewardStatus
from herodotus.crawl.stewards.ask_queue import ASK_DEADLINE_S, ASK_SERVICE, FAILED, Desk, Told
from herodotus.crawl.stewards.office import (
    ROBOTS_LATER,
    OfficeWorld,
    RuleBook,
    StewardOffice,
    StewardRing,
    Tenure,
    follow_ring,
    key_of_subject,
    rules_of,
    stewarded_by,
    subject_of,
    version_of,
)
from herodotus.crawl.stewards.windows import WAIT_MAX_S, Windows, signed_window, soon
from herodotus.crawl.stewards.wire import (
    Answer,
    Ask,
    CarriedRules,
    Deputy,
    Granted,
    No,
    NoRules,
    NotYet,
    Return,
    RulesAnswer,
    RulesLater,
    SameRules,
    ToldRules,
    decode_asks,
    decode_called_back,
    decode_ends,
    decode_rules,
    decode_rules_ask,
    encode_answers,
    encode_called_back,
    encode_ends,
    encode_rules,
    encode_rules_ask,
    to_ms,
)
from herodotus.peers.calls import CallError, PeerKey, Questions, RefusedError, Services

logger = logging.getLogger(__name__)

RULES_SERVICE = "leases.rules"
CALL_BACK_SERVICE = "leases.call-back"
CALL_BACK_DEADLINE_S = 4.0
"""A deputy's answer needs no other peer's."""
CALLS_BACK_MAX = 128
"""At a time. Whoever waits for another asks again."""
RULES_PATIENCE_S = 3.0
"""What a call for rules may wait for robots.txt to come; then it is asked again."""
CARRIED_PATIENCE_S = 1.0
"""The same of an ask for a lease that wants the rules as well: other asks may share its call. A usual host answers in a
tenth of a second."""
RULES_COST = 5
"""A question about rules may make us fetch, so it counts like several asks."""
ORIGINS_NOTED_MAX = 200_000
SEARCHES_MAX = 128
"""For robots.txt of others' origins, at a time: each may hold a connection to a server that is slow on purpose."""
SOON_S = 0.25
LINE_LOOK_S = 30.0
TROUBLE_S = 30.0
SLEPT_S = 1.0
"""A machine that slept for longer has a clock that says nothing of its leases."""
_UNUSED = OriginReport(status=None, duration_s=0.0, fetches=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class StewardParts:
    own_key: PeerKey
    terms: LeaseTerms
    fetcher: Fetcher
    """For robots.txt, and to see where names lead; not the crawl's own, which comes and goes."""
    product_token: str
    wall_clock: Callable[[], float]
    slept_s: Callable[[], float]
    """Grows from one look to the next by as long as the machine slept."""
    ring: Callable[[], StewardRing]
    calls: Callable[[], Questions]
    may_visit_private: bool
    network: bytes
    """The first bytes of the charter's hash."""
    sign: Callable[[bytes], bytes]
    """With this peer's key."""
    own_queue: OwnQueue = field(default_factory=OwnQueue)
    """How long bytes wait in our own line now."""
    opted_out: OptOutList = field(default_factory=OptOutList)
    begins_ring: bool = False
    """This peer was made with its network a moment ago, and is the first of it."""


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
        self._tenure = Tenure(parts.terms.silent_s, begins_ring=parts.begins_ring)
        self._desk = Desk(parts.calls)
        self._windows = Windows(
            parts.terms, self._ask_steward, self._return_to, own_key=parts.own_key, own_queue=parts.own_queue
        )
        self._line = SlowLine(parts.own_queue)
        self._book = RuleBook()
        self._searching: dict[Origin, anyio.Event] = {}
        self._search_again: dict[Origin, float] = {}  # when a waiting search may continue
        self._seen: dict[Origin, int] = {}  # by which number its host's rules were known when they came
        self._calls_back = 0
        self._slept_s = parts.slept_s()
        self._tasks: anyio.abc.TaskGroup | None = None
        self.office = StewardOffice(
            parts.terms,
            self._tenure,
            OfficeWorld(
                own_key=parts.own_key,
                address_of=parts.fetcher.address_of,
                ask_elsewhere=self._ask_steward,
                return_elsewhere=self._return_to,
                call_back=self._call_back,
                rules_number=self._book.number,
                knows_rules=self._knows_rules,
                may_visit_private=parts.may_visit_private,
                opted_out=parts.opted_out,
                sign=self._signed,
            ),
        )

    def attach(self, sink: CaptureSink | None) -> "RingSteward":
        """Where robots.txt goes: the archive, while it is open."""
        self._sink = sink
        return self

    @property
    def services(self) -> Services:
        return Services(
            calls={
                ASK_SERVICE: self._serve_asks,
                RULES_SERVICE: self._serve_rules,
                CALL_BACK_SERVICE: self._serve_call_back,
            },
            by_datagram=frozenset({ASK_SERVICE, RULES_SERVICE, CALL_BACK_SERVICE}),
        )

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Inside, the ring is open; leases end with it."""
        self.office.forget_mandates()
        self._tenure.change(stewarded_by(self._parts.ring()), anyio.current_time())
        async with self._desk.opened(), anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._follow_ring)
            tasks.start_soon(self._windows.return_idle)
            tasks.start_soon(self._watch_line)
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    def status(self) -> StewardStatus:
        books = self.office.statistics()
        return StewardStatus(
            subjects=books.subjects,
            windows=books.windows,
            waiting=books.waiting,
            granted=books.granted,
            lost=books.lost,
            backing_off=books.backing_off,
            overdue=books.overdue,
            elsewhere=self.office.elsewhere,
            refused=dict(self.office.refused),
            is_passed_over=self._line.is_slow,
            held=self._windows.held,
            slow=self._windows.slow,
            calls=self._desk.calls_made,
            calls_failed=self._desk.calls_failed,
        )

    def window_of(self, url: str, time_s: float) -> SignedWindow | None:
        """Under which a URL was fetched at a time by our clock; None when its steward signed none."""
        return self._windows.signed(host_of(url), time_s)

    def _signed(self, asker: PeerKey, subject: str, answer: Granted) -> Granted:
        granted_s = int(self._parts.wall_clock())
        window = signed_window(self._parts.own_key, replace(answer, granted_s=granted_s))
        statement = window_statement(window, self._parts.network, asker, subject)
        return replace(answer, granted_s=granted_s, signature=self._parts.sign(statement))

    # -- the crawler's side

    async def rules(self, origin: Origin) -> RobotsRules | Wait:
        """For a fetch: where the steward is asked, it is asked for a window as well."""
        return await self._rules(origin, takes_window=True)

    async def rules_alone(self, origin: Origin) -> RobotsRules | Wait:
        """For who fetches nothing there, or in another's window."""
        return await self._rules(origin, takes_window=False)

    async def _rules(self, origin: Origin, *, takes_window: bool) -> RobotsRules | Wait:
        known = self.core.rules(origin, anyio.current_time())
        if known is not None:
            return known
        steward = await self._owner(subject_of(_host(origin)))
        if steward is None:
            return soon("nobody answers for its steward")
        if steward.peer != self._parts.own_key:
            found = await self._rules_with_window(origin) if takes_window else None
            return found or await self._rules_from(steward, origin)
        if origin in self._searching:
            return soon("robots.txt is being asked for", SOON_S)
        return await self._find_rules(origin)

    async def lease(self, origin: Origin, address: str) -> Lease | Wait:
        own = self.core.lease(origin, anyio.current_time(), address=address)
        if isinstance(own, Wait):
            return own
        turn: Stay | Wait = soon("it was broken off")
        try:
            turn = await self._take_turn(origin, address)
        finally:
            if isinstance(turn, Wait):
                self.core.give_back(own, _UNUSED, anyio.current_time())
        if isinstance(turn, Wait):
            return turn
        return dataclasses.replace(own, stay=turn, starts_by=self._windows.starts_by(_host(origin)))

    async def give_back(self, lease: Lease, report: OriginReport) -> float:
        next_at = self.core.give_back(lease, report, anyio.current_time())
        return self._windows.ended(_host(lease.origin), report, next_at)

    async def _take_turn(self, origin: Origin, address: str) -> Wait | Stay:
        """A fetch starts now, at an address that the window covers."""
        is_for_robots = origin in self._searching
        self._has_slept()
        found = await self._windows.get(_host(origin), "" if is_for_robots else origin, reached(address))
        if isinstance(found, Wait):
            return found
        if isinstance(found, LeaseRefusal):
            # The crawler asks for the rules next, and finds that nothing is allowed for now.
            self._close(origin, found.reason)
            return soon(found.reason, 0.0)
        is_told = found.steward is not None and not is_for_robots  # as steward we know by ourselves
        window = found.window
        if is_told and window is not None and self._seen.setdefault(origin, found.rules) != found.rules:
            self._seen[origin] = found.rules
            # Once: a steward that always says so would keep us asking for ever.
            if found.doubted != window.number:
                found.doubted = window.number
                self.core.doubt_rules(origin)
                return soon("robots.txt may have changed", 0.0)
        if self._has_slept():
            return soon("the machine slept, and its windows are over")
        return self._windows.start(found) or found.stay

    def _has_slept(self) -> bool:
        """Just now, while our clock stood still: others have had our windows' time, and our hosts another steward."""
        slept_s = self._parts.slept_s()
        if slept_s - self._slept_s < SLEPT_S:
            return False
        self._slept_s = slept_s
        self._windows.end_all()
        self._tenure.lose_all(anyio.current_time())
        self.office.forget_mandates()
        return True

    # -- which steward to ask

    async def _owner(self, subject: str) -> Contact | None:
        """None when nobody answers now."""
        try:
            return await self._parts.ring().prompt_owner(key_of_subject(subject))
        except NoAnswerError:
            return None

    async def _ask_steward(self, ask: Ask) -> Told:
        steward = await self._owner(ask.subject)
        if steward is None:
            return FAILED
        if steward.peer == self._parts.own_key:
            self._has_slept()
            answer = await self.office.grant(self._parts.own_key, ask)
            now = anyio.current_time()
            return Told(answer, now, now)
        began, life = anyio.current_time(), self._parts.ring().life_of(steward.peer)
        self._has_slept()
        told = self._told_as_deputy(ask, steward, life) or await self._desk.ask(steward, ask)
        if told.answer is not None and told.steward is not None:
            self._line.asked(steward.peer, told.got - told.asked, told.got)
        if ask.known is not None and told.rules is not None:
            origin = Origin(ask.purpose)
            self._keep_rules(origin, self.core.doubt_rules(origin), told.rules)
        if isinstance(told.answer, Deputy) and not self._has_slept():
            self.office.become_deputy(ask.subject, told.answer, steward.peer, life, told.asked)
            from_s = ask.from_ms / 1000 - (anyio.current_time() - began)
            told = self._told_as_deputy(replace(ask, from_ms=to_ms(from_s)), steward, life) or FAILED
        return told

    def _told_as_deputy(self, ask: Ask, steward: Contact, life: int | None) -> Told | None:
        answer = self.office.grant_as_deputy(ask, steward.peer, life)
        now = anyio.current_time()
        return None if answer is None else Told(answer, now, now)

    def _call_back(self, subject: str, deputy: CallBack) -> None:
        if self._tasks is not None and self._calls_back < CALLS_BACK_MAX:
            self._calls_back += 1
            self._tasks.start_soon(self._hear_deputy, subject, deputy)

    async def _hear_deputy(self, subject: str, deputy: CallBack) -> None:
        ends_s = None
        contact = next((one for one in self._parts.ring().positions() if one.peer == deputy.peer), None)
        if contact is not None:
            body = encode_called_back(subject)
            try:
                reply = await self._parts.calls().call(
                    contact, CALL_BACK_SERVICE, body, deadline_s=CALL_BACK_DEADLINE_S
                )
                ends_s = decode_ends(reply)
            except (CallError, MalformedError) as error:
                logger.debug("a deputy does not answer subject=%s error=%s", subject, error)
        self._calls_back -= 1
        self.office.books.called_back(subject, deputy.number, ends_s, anyio.current_time())

    def _return_to(self, steward: Contact | None, returned: Return) -> None:
        if steward is None:
            self.office.take_back(self._parts.own_key, returned)
        else:
            self._desk.give_back(steward, returned)

    async def _rules_from(self, steward: Contact, origin: Origin) -> RobotsRules | Wait:
        old = self.core.doubt_rules(origin)
        try:
            body = encode_rules_ask(origin, version_of(old) if old is not None else b"")
            reply = await self._parts.calls().call(steward, RULES_SERVICE, body, deadline_s=ASK_DEADLINE_S)
            answer = decode_rules(reply)
        except (CallError, MalformedError) as error:
            logger.debug("no robots.txt rules origin=%s error=%s", origin, error)
            return soon("its steward does not answer")
        if isinstance(answer, RulesLater):
            return soon(answer.reason, min(max(answer.wait_ms / 1000, 0.05), WAIT_MAX_S))
        if isinstance(answer, NoRules):
            return (
                soon(answer.reason) if answer.reason == "not-steward" else self._close(origin, answer.reason)
            )
        return self._keep_rules(origin, old, answer) or soon("its steward repeats what we never had")

    async def _rules_with_window(self, origin: Origin) -> RobotsRules | Wait | None:
        """By one question for both, as the first fetch needs both. None: there is no such question now, or its answer
        had no room for the rules.
        """
        address = await self._fetcher.address_of(_host(origin))
        if isinstance(address, Wait):
            return None
        # With the host's own lease, so that no other origin of it asks for a window meanwhile.
        own = self.core.lease(origin, anyio.current_time(), address=address)
        if isinstance(own, Wait):
            return None
        old = self.core.doubt_rules(origin)
        try:
            found = await self._windows.get(
                _host(origin), origin, reached(address), known=version_of(old) if old is not None else b""
            )
        finally:
            self.core.give_back(own, _UNUSED, anyio.current_time())
        if isinstance(found, LeaseRefusal):
            return self._close(origin, found.reason)
        rules = self.core.rules(origin, anyio.current_time())
        if rules is not None and not rules.is_reachable:
            self._windows.end_unused(_host(origin))
        return found if rules is None and isinstance(found, Wait) else rules

    def _keep_rules(self, origin: Origin, old: RobotsRules | None, told: ToldRules) -> RobotsRules | None:
        """None: they are to be those that we had, and there are none."""
        rules = old if isinstance(told, SameRules) else rules_of(told, self._product_token)
        if rules is not None:
            if len(self._seen) >= ORIGINS_NOTED_MAX:
                self._seen.clear()
            self._seen[origin] = told.rules
            self.core.set_rules(origin, rules, anyio.current_time(), for_s=told.age_ms / 1000)
        return rules

    def _close(self, origin: Origin, reason: str) -> RobotsRules:
        closed = RobotsRules(is_reachable=False, problem=f"its steward says: {reason}")
        self.core.set_rules(origin, closed, anyio.current_time())
        return closed

    # -- the steward's side

    async def _serve_asks(self, asker: PeerKey, body: bytes) -> bytes:
        try:
            message = decode_asks(body)
        except MalformedError as error:
            raise RefusedError(str(error)[:50]) from error
        wanting = sum(ask.known is not None for ask in message.asks)
        self.office.charge(asker, 1 + len(message.asks) + RULES_COST * wanting)
        self._has_slept()
        for returned in message.returns:
            self.office.take_back(asker, returned)
        answers: list[Answer] = [NotYet(to_ms(SOON_S), "being looked at")] * len(message.asks)

        carried: list[CarriedRules] = []

        async def answer(at: int) -> None:
            ask = message.asks[at]
            answers[at] = answer = await self.office.grant(asker, ask)
            if ask.known is None:
                return
            if answer == ROBOTS_LATER and await self._has_search_ended(Origin(ask.purpose)):
                answers[at] = answer = await self.office.grant(asker, ask)
            told = None if isinstance(answer, No) else self._carried_rules(ask, ask.known)
            if told is not None:
                carried.append(CarriedRules(at, told))

        async with anyio.create_task_group() as tasks:
            for at in range(len(message.asks)):
                tasks.start_soon(answer, at)
        return encode_answers(answers, carried)

    def _carried_rules(self, ask: Ask, known: bytes) -> ToldRules | None:
        """Of a host of ours: the office has just found that `purpose` is an origin of it."""
        origin, now = Origin(ask.purpose), anyio.current_time()
        found = self.core.rules(origin, now) if ask.subject.startswith("host:") else None
        if found is None:
            return None
        self._note_rules(origin, found)
        return self._book.told(_host(origin), found, known, self.core.rules_for_s(origin, now))

    async def _has_search_ended(self, origin: Origin) -> bool:
        """Soon enough to be waited for by all who share the call."""
        done = self._searching.get(origin)
        with anyio.move_on_after(CARRIED_PATIENCE_S):
            if done is not None:
                await done.wait()
                return True
        return False

    async def _serve_call_back(self, steward: PeerKey, body: bytes) -> bytes:
        try:
            message = decode_called_back(body)
        except MalformedError as error:
            raise RefusedError("malformed") from error
        self.office.charge(steward, 1)
        return encode_ends(self.office.end_mandate(steward, message.subject))

    async def _serve_rules(self, asker: PeerKey, body: bytes) -> bytes:
        try:
            message = decode_rules_ask(body)
            origin = origin_of(canonical(f"{message.origin}/"))
        except (MalformedError, MalformedUrlError) as error:
            raise RefusedError("malformed") from error
        if origin != message.origin:
            raise RefusedError("malformed")
        self.office.charge(asker, RULES_COST)
        return encode_rules(await self._answer_rules(origin, message.known))

    async def _answer_rules(self, origin: Origin, known: bytes) -> RulesAnswer:
        host = _host(origin)
        refusal = await self.office.refusal_of_host(host)
        if isinstance(refusal, str):
            return NoRules(refusal)
        found = refusal or await self._found_rules(origin)
        now = anyio.current_time()
        if isinstance(found, Wait):
            return RulesLater(to_ms(found.until - now, up=True), found.reason[:100])
        self._note_rules(origin, found)
        return self._book.told(host, found, known, self.core.rules_for_s(origin, now))

    async def _found_rules(self, origin: Origin) -> RobotsRules | Wait:
        """Searched for by a task of ours: who asked may leave, and others ask meanwhile."""
        known = self.core.rules(origin, anyio.current_time())
        if known is not None:
            return known
        if self._search_again.get(origin, 0.0) <= anyio.current_time():
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
            logger.warning("robots.txt could not be fetched for others origin=%s error=%s", origin, error)
            found = soon("its steward is in trouble", TROUBLE_S)
        if isinstance(found, Wait):
            if len(self._search_again) >= ORIGINS_NOTED_MAX:
                self._search_again.clear()
            self._search_again[origin] = found.until
        else:
            self._search_again.pop(origin, None)

    async def _find_rules(self, origin: Origin) -> RobotsRules | Wait:
        done = self._searching.setdefault(origin, anyio.Event())
        try:
            found = await super().rules(origin)
        finally:
            self._searching.pop(origin, None)
            done.set()
        if isinstance(found, RobotsRules):
            self._note_rules(origin, found)
            self._windows.end_unused(_host(origin))
        return found

    def _knows_rules(self, origin: Origin) -> bool:
        now = anyio.current_time()
        rules = self.core.rules(origin, now)
        if rules is None:
            if self._search_again.get(origin, 0.0) <= now:
                self._start_search(origin)
            return False
        if not self._book.knows(origin):  # they came while we were no steward
            self._note_rules(origin, rules)
        return True

    def _note_rules(self, origin: Origin, rules: RobotsRules) -> None:
        self._book.note(origin, rules)
        if rules.crawl_delay_s:
            self.office.note_crawl_delay(_host(origin), rules.crawl_delay_s)

    async def _watch_line(self) -> None:
        """While others would wait for our answers, the next holders of our keys are stewards in our place."""
        while True:
            await anyio.sleep(LINE_LOOK_S)
            if self._line.look(anyio.current_time()):
                logger.info("our line is slow slow=%s", self._line.is_slow)
                self._parts.ring().say_slow(is_slow=self._line.is_slow)

    async def _follow_ring(self) -> None:
        await follow_ring(self._parts.ring(), self._tenure, self._note_ring)

    def _note_ring(self) -> None:
        self.office.forget_others()
        life_of = self._parts.ring().life_of
        self.office.books.note_members(
            lambda peer: life_of(MemberKey(peer)) is not None, anyio.current_time()
        )


def _host(origin: Origin) -> str:
    return host_of(f"{origin}/")
