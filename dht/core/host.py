"""What do the parts of the machine share?  The host's own identity, its timers, its open questions, its
effects.

A part asks with `ask(...)` and is called back exactly once, with the answer or with None when every try
stayed silent. Timers and deadlines are one heap; an answered question leaves its entry behind, which is
dropped when it comes up.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from random import Random

from dht.core import rules as bounds
from dht.core.effects import Effect, Send
from dht.core.ids import PeerKey
from dht.core.messages import Message, Reply, Request
from dht.core.records import Contact, Notary
from dht.core.round_trips import RoundTrips
from dht.core.rules import RingRules

OnReply = Callable[[Reply | None, float], None]
OnTime = Callable[[float], None]

JITTER_LOW = 1 - bounds.JITTER
JITTER_SPREAD = 1 + bounds.JITTER - JITTER_LOW


@dataclass(slots=True)
class PendingRequest:
    """A request on its way."""

    to: Contact
    message: Request
    on_reply: OnReply
    sent_at: float
    timeout_s: float  # 0: by round trip
    is_favour: bool  # asked for somebody else: silence is theirs to judge
    tries: int = 1


class MachineHost:
    __slots__ = (
        "_heap", "_round_trips", "_sequence", "counts", "effects", "families", "health", "loopback", "me",
        "notary", "on_loss", "questions", "random", "rules", )  # fmt: skip

    def __init__(
        self, me: Contact, rules: RingRules, notary: Notary, random: Random, families: frozenset[int]
    ) -> None:
        self.me = me
        self.families = families
        """How long the packed addresses are that we have ourselves: 4, 16, or both."""
        self.rules = rules
        self.notary = notary
        self.random = random
        self.effects: list[Effect] = []
        self.loopback: list[Message] = []  # from one of our virtual nodes to another: never leaves the host
        self.counts: Counter[str] = Counter()
        self.questions: dict[int, PendingRequest] = {}
        self.health = 1  # 1 good .. 8: stretches our patience while our own network is in doubt
        self._heap: list[tuple[float, int, OnTime | int]] = []
        self._sequence = 0
        self._round_trips = RoundTrips(bounds.ROUND_TRIPS_MAX)
        self.on_loss: Callable[[Contact, float], None] = lambda _contact, _now: None
        """Told, before the asker, that a peer left every try unanswered."""

    # --- time

    def at(self, when: float, what: OnTime | int) -> None:
        self._sequence += 1
        heappush(self._heap, (when, self._sequence, what))

    def next_deadline(self) -> float | None:
        heap = self._heap
        while heap:
            when, _, what = heap[0]
            if what.__class__ is not int or what in self.questions:
                return when
            heappop(heap)
        return None

    def run_due(self, now: float) -> None:
        """Everything due by `now`; what is scheduled meanwhile for `now` runs too."""
        heap = self._heap
        while heap and heap[0][0] <= now:
            _, _, what = heappop(heap)
            if not isinstance(what, int):
                what(now)
            elif what in self.questions:
                self._expire(what, now)

    def jittered(self, period_s: float) -> float:
        return period_s * (JITTER_LOW + JITTER_SPREAD * self.random.random())

    # --- questions

    def new_id(self) -> int:
        return self.random.getrandbits(64)

    def send(self, to: Contact, message: Message) -> None:
        if to.peer == self.me.peer:
            self.loopback.append(message)
        else:
            self.effects.append(Send(to=to, message=message))

    def ask(
        self,
        to: Contact,
        message: Request,
        on_reply: OnReply,
        now: float,
        *,
        timeout_s: float = 0.0,
        is_favour: bool = False,
    ) -> None:
        if len(self.questions) >= bounds.PENDING_MAX:
            self.counts["questions refused"] += 1
            self.at(now, lambda later: on_reply(None, later))
            return
        question = PendingRequest(to, message, on_reply, now, timeout_s, is_favour)
        self.questions[message.id] = question
        self.at(now + (timeout_s or self._timeout(to.peer)), message.id)
        self.send(to, message)

    def answer(self, reply: Reply, sender: Contact, now: float) -> None:
        """Give a reply to its asker; drop it if nobody asked, or another peer was asked."""
        question = self.questions.get(reply.id)
        if question is None or question.to.peer != sender.peer:
            self.counts["replies unasked"] += 1
            return
        del self.questions[reply.id]
        assert question.tries <= bounds.TRIES
        if question.tries == 1 and not question.timeout_s:
            self._round_trips.measured(sender.peer, now - question.sent_at)
        if self.health > 1:
            self.health -= 1
        question.on_reply(reply, now)

    def forget_questions(self) -> None:
        self.questions.clear()
        self._heap.clear()

    def _expire(self, question_id: int, now: float) -> None:
        question = self.questions[question_id]
        if question.tries < bounds.TRIES:
            question.tries += 1
            self.at(now + (question.timeout_s or self._timeout(question.to.peer)), question_id)
            self.send(question.to, question.message)
            return
        del self.questions[question_id]
        if not question.is_favour:
            self.on_loss(question.to, now)
        question.on_reply(None, now)

    def _timeout(self, peer: PeerKey) -> float:
        return self._round_trips.timeout_s(peer) * self.health
