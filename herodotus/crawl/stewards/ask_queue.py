"""How do asks reach the stewards? A few calls at a time to each; asks that come meanwhile share the next one.

A call that fits a datagram is made to fit one (`herodotus.peers.net.short_calls`): a few asks, and returns as far as
there is room. Where much waits it is one call by stream.

Asks for addresses have a queue of their own. While a steward answers for a host, it asks an address's steward. If
that ask waited behind our own asks for hosts there, peers would wait for each other in a circle until their
deadlines.

Returned windows travel with the next asks, or by themselves after a moment. No return is sent twice, because a failed
call may have arrived: a window that was not given back runs out by itself.
"""

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

import anyio
import anyio.abc

from dht import Contact
from dht.core.messages import SHORT_BYTES_MAX
from herodotus.core.errors import MalformedError
from herodotus.crawl.stewards.wire import (
    ASKS_MAX,
    RETURNS_MAX,
    Answer,
    Ask,
    No,
    Return,
    ToldRules,
    decode_answers,
    encode_asks,
)
from herodotus.peers.calls import CallError, PeerKey, Questions, RefusedError

ASK_SERVICE = "leases.ask"
ASK_DEADLINE_S = 10.0
RETURN_AFTER_S = 0.2
ASKS_SHORT_MAX = 7
"""So many of the longest answers, 160 bytes each, fit a datagram."""
SHORT_CALLS_MAX = 2
"""What would take more datagrams, one after another, goes by stream at once."""
RETURNS_SHORT_MAX = 12
"""In a datagram, beside some asks: a return of a usual host has 40 to 70 bytes."""
CALLS_AT_ONCE = 3
"""To one steward. Some of its answers wait for another steward's; the asks that come next do not wait for those."""
RETURNS_WAITING_MAX = 4 * RETURNS_MAX
STEWARDS_MAX = 40_000
"""Two for each member of a large ring, at some 200 bytes."""


class Told(NamedTuple):
    """An answer of a subject's steward, and when its call began and ended by our clock."""

    answer: Answer | None = None
    """None: the call failed."""
    asked: float = 0.0
    got: float = 0.0
    steward: Contact | None = None
    """None: ourselves."""
    rules: ToldRules | None = None
    """They came along."""


FAILED = Told()
AskSteward = Callable[[Ask], Awaitable[Told]]


@dataclass(slots=True)
class _Waiting:
    ask: Ask
    done: anyio.Event
    told: Told | None = None


@dataclass(slots=True)
class _Counter:
    """One steward's: what is to be said to it."""

    contact: Contact
    waiting: deque[_Waiting] = field(default_factory=deque)
    returns: deque[Return] = field(default_factory=deque)
    calls: int = 0
    """Under way."""


class Desk:
    def __init__(self, calls: Callable[[], Questions]) -> None:
        self._calls = calls
        self._counters: dict[tuple[PeerKey, bool], _Counter] = {}
        """For hosts, and for addresses."""
        self._has_returns = anyio.Event()
        self._tasks: anyio.abc.TaskGroup | None = None
        self.calls_made = 0
        self.calls_failed = 0

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            tasks.start_soon(self._send_returns)
            try:
                yield
            finally:
                self._tasks = None
                tasks.cancel_scope.cancel()

    async def ask(self, steward: Contact, ask: Ask) -> Told:
        if self._tasks is None:
            return FAILED
        counter = self._counter(steward, ask.subject)
        mine = _Waiting(ask, anyio.Event())
        counter.waiting.append(mine)
        if counter.calls < CALLS_AT_ONCE:
            counter.calls += 1
            self._tasks.start_soon(self._call_until_answered, counter)
        await mine.done.wait()
        return mine.told or FAILED

    def give_back(self, steward: Contact, returned: Return) -> None:
        counter = self._counter(steward, returned.subject)
        if len(counter.returns) < RETURNS_WAITING_MAX:
            counter.returns.append(returned)
            self._has_returns.set()

    async def _send_returns(self) -> None:
        """What no ask took along."""
        while self._tasks is not None:
            await self._has_returns.wait()
            with anyio.move_on_after(RETURN_AFTER_S):
                await anyio.sleep_forever()
            self._has_returns = anyio.Event()
            for counter in self._counters.values():
                if counter.returns and not counter.calls:
                    counter.calls += 1
                    self._tasks.start_soon(self._call_until_answered, counter)

    def _counter(self, steward: Contact, subject: str) -> _Counter:
        key = steward.peer, subject.startswith("address:")
        counter = self._counters.get(key)
        if counter is None:
            if len(self._counters) >= STEWARDS_MAX:
                self._counters = {busy: one for busy, one in self._counters.items() if _is_busy(one)}
            counter = self._counters[key] = _Counter(steward)
        counter.contact = steward
        return counter

    async def _call_until_answered(self, counter: _Counter) -> None:
        batch: list[_Waiting] = []
        try:
            while counter.waiting or counter.returns:
                asks, givings = _fitting(counter)
                batch = [counter.waiting.popleft() for _ in range(asks)]
                returns = [counter.returns.popleft() for _ in range(givings)]
                await self._call(counter.contact, batch, returns)
        finally:
            counter.calls -= 1
            for waiting in batch:  # we close: nobody waits for ever
                _tell(waiting, FAILED)
            if not counter.calls:
                while counter.waiting:
                    _tell(counter.waiting.popleft(), FAILED)

    async def _call(self, steward: Contact, batch: list[_Waiting], returns: list[Return]) -> None:
        asked = anyio.current_time()
        answers: list[Answer | None] = [None] * len(batch)
        carried: dict[int, ToldRules] = {}
        self.calls_made += 1
        try:
            body = encode_asks([waiting.ask for waiting in batch], returns)
            reply = await self._calls().call(steward, ASK_SERVICE, body, deadline_s=ASK_DEADLINE_S)
            told = decode_answers(reply, expected=len(batch))
            answers, carried = list(told.answers), {one.at: one.rules for one in told.carried}
        except RefusedError as error:
            self.calls_failed += 1
            if error.retry_after_s is None:
                answers = [No(error.reason[:50]) for _ in batch]
        except (CallError, MalformedError):
            self.calls_failed += 1
        got = anyio.current_time()
        for at, (waiting, answer) in enumerate(zip(batch, answers, strict=True)):
            _tell(waiting, Told(answer, asked, got, steward, carried.get(at)))


def _fitting(counter: _Counter) -> tuple[int, int]:
    """How many asks and returns the next call takes."""
    asks, returns = min(ASKS_MAX, len(counter.waiting)), min(RETURNS_MAX, len(counter.returns))
    if asks > SHORT_CALLS_MAX * ASKS_SHORT_MAX or returns > SHORT_CALLS_MAX * RETURNS_SHORT_MAX:
        return asks, returns
    first = [waiting.ask for waiting in islice(counter.waiting, ASKS_SHORT_MAX)]
    given = list(islice(counter.returns, RETURNS_SHORT_MAX))
    while len(encode_asks(first, given)) > SHORT_BYTES_MAX:
        if given:
            given.pop()
        elif len(first) > 1:
            first.pop()
        else:
            return asks, returns
    return len(first), len(given)


def _tell(waiting: _Waiting, told: Told) -> None:
    if not waiting.done.is_set():
        waiting.told = told
        waiting.done.set()


def _is_busy(counter: _Counter) -> bool:
    return bool(counter.calls) or bool(counter.waiting) or bool(counter.returns)
