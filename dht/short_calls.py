"""How does a small question reach another peer, and its answer come back, as one datagram each?

The asker repeats until it hears something. The asked peer answers a repeated question as it answered the first, or says
that it is at work. Silence is no failure: the asker then takes a stream. Who may ask, and what the services are, is not
known here; `serve` is told the one that answers.
"""

from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final

import anyio
import anyio.abc

from dht.core.ids import PeerKey
from dht.core.messages import UNDER_WAY, Message, ShortAnswer, ShortCall
from dht.core.records import Contact
from dht.core.short_answers import ShortAnswers

REPEAT_AFTER_S: Final = (0.5, 0.7, 1.0)
"""Silence before each repetition, and before the asker gives up: a far peer behind a full line answers within the
first, a handshake that loses a datagram within the second."""
UNDER_WAY_AGAIN_S: Final = 1.0
"""An answer may be lost as well: a peer that was at work is asked again so often."""
SHORT_CALL_S: Final = 10.0
"""An asker's patience with a peer that is at work, and that peer's own."""
WAITING_MAX: Final = 1_024
"""Questions of ours without an answer yet."""

Answerer = Callable[[Contact, ShortCall], Awaitable[ShortAnswer | None]]
"""None: no answer now."""


@dataclass(slots=True)
class _Asked:
    peer: PeerKey
    heard: anyio.Event = field(default_factory=anyio.Event)
    was_heard: bool = False
    answer: ShortAnswer | None = None


class ShortCalls:
    """Both sides; `tasks` carries the work for others."""

    def __init__(self, send: Callable[[Message, Contact], object], random: Random) -> None:
        self._send = send
        self._random = random
        self._asked: dict[int, _Asked] = {}
        self._answers = ShortAnswers()
        self._answerer: Answerer | None = None
        self.tasks: anyio.abc.TaskGroup | None = None
        self.counts: Counter[str] = Counter()

    def serve(self, answerer: Answerer | None) -> None:
        """From now on it answers; None: nobody does."""
        self._answerer = answerer

    # --- the asker

    async def ask(self, to: Contact, service: str, body: bytes) -> ShortAnswer | None:
        """None: silence, or too much is being asked already."""
        if len(self._asked) >= WAITING_MAX:
            return None
        question = ShortCall(id=self._random.getrandbits(64), service=service, body=body)
        asked = self._asked[question.id] = _Asked(to.peer)
        try:
            with anyio.move_on_after(SHORT_CALL_S):
                return await self._ask(question, to, asked)
        finally:
            del self._asked[question.id]
        return None

    async def _ask(self, question: ShortCall, to: Contact, asked: _Asked) -> ShortAnswer | None:
        for wait_s in REPEAT_AFTER_S:
            if await self._said(question, to, asked, wait_s):
                break
        else:
            self.counts["silent"] += 1
            return None
        while asked.answer is None:  # it is at work; the caller's deadline ends this
            await self._said(question, to, asked, UNDER_WAY_AGAIN_S)
        return asked.answer

    async def _said(self, question: ShortCall, to: Contact, asked: _Asked, wait_s: float) -> bool:
        """Ask; was anything heard?"""
        asked.heard = anyio.Event()
        self._send(question, to)
        with anyio.move_on_after(wait_s) as waiting:
            while asked.answer is None:
                await asked.heard.wait()
                if asked.answer is None:  # it is at work, and its answer comes by itself
                    asked.was_heard, asked.heard = True, anyio.Event()
        return asked.was_heard or not waiting.cancelled_caught

    def answered(self, answer: ShortAnswer, sender: Contact) -> None:
        asked = self._asked.get(answer.id)
        if asked is None or asked.peer != sender.peer:
            self.counts["unasked"] += 1
            return
        if answer.outcome != UNDER_WAY:
            asked.answer = answer
        asked.heard.set()

    # --- the asked peer

    def arrived(self, question: ShortCall, sender: Contact) -> None:
        now = anyio.current_time()
        answerer, tasks = self._answerer, self.tasks
        if answerer is None or tasks is None:
            return
        if self._answers.is_full(sender.peer, question.id):
            self.counts["full"] += 1
            return
        known = self._answers.begin(sender.peer, question.id, now)
        if known is None:
            tasks.start_soon(self._work, answerer, question, sender)
        else:
            self.counts["again"] += 1
            self._send(known, sender)

    async def _work(self, answerer: Answerer, question: ShortCall, sender: Contact) -> None:
        answer = None
        try:
            with anyio.move_on_after(SHORT_CALL_S):
                answer = await answerer(sender, question)
        finally:
            self._answers.done(sender.peer, answer, question.id, anyio.current_time())
        if answer is not None:
            self._send(answer, sender)
