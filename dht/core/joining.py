"""How does a virtual node become a member?  One position of a host at a time.

Two contacts are asked, apart, for the owner of the position, and should agree: a single liar cannot send us
astray.  In a join storm honest answers differ too, so after some rounds the nearer of two is taken.  The
owner's own state is then adopted.
"""

from collections import deque
from collections.abc import Callable, Iterable
from functools import partial

from dht.core import rules as bounds
from dht.core.effects import Joined, JoinFailed
from dht.core.host import MachineHost
from dht.core.ids import distance
from dht.core.lookup import LookupResult
from dht.core.messages import GetState, NeighbourState, Reply
from dht.core.records import Contact
from dht.core.ring import VirtualNode
from dht.core.routing import Router


class Joining:
    def __init__(
        self,
        host: MachineHost,
        nodes: Iterable[VirtualNode],
        contacts: Iterable[Contact],
        router: Router,
        on_joined: Callable[[Contact, float], None],
        on_taken: Callable[[Contact], None],
    ) -> None:
        """`on_joined` is told the owner of the position until now, `on_taken` who answered at our very position: only
        another slot leads into the ring then.
        """
        self._host = host
        self._waiting = deque(nodes)
        unique = {contact.peer: contact for contact in contacts if contact.peer != host.me.peer}
        self._contacts = list(unique.values())[: bounds.CONTACTS_MAX]
        self._router = router
        self._on_joined = on_joined
        self._on_taken = on_taken
        self._round = 0
        self._silent_rounds = 0
        self.is_over = False

    def go(self, now: float) -> None:
        if not self._waiting or self.is_over:
            self.is_over = True
            return
        self._round += 1
        is_hopeless = self._silent_rounds >= bounds.JOIN_SILENT_ROUNDS_MAX
        if is_hopeless or not self._contacts or self._round > bounds.JOIN_ROUNDS_MAX:
            self.is_over = True
            self._host.effects.append(JoinFailed(contact=self._waiting[0].contact))
            return
        asked = self._host.random.sample(self._contacts, min(2, len(self._contacts)))
        answers: list[LookupResult] = []
        for contact in asked:
            done = partial(self._found, answers, len(asked))
            self._router.find_via(contact, self._waiting[0].contact.position, done, now)

    def _found(self, answers: list[LookupResult], asked: int, found: LookupResult, now: float) -> None:
        answers.append(found)
        if self.is_over:
            return
        assert len(answers) <= asked, "each question is answered once"
        node, holder = self._waiting[0], found.holders[0] if found.says_so else None
        if (
            holder is not None
            and holder.position == node.contact.position
            and holder.peer != self._host.me.peer
        ):
            self.is_over = True
            self._on_taken(holder)
            return
        if len(answers) < asked:
            return
        owners = [answer.holders[0] for answer in answers if answer.holders]
        self._silent_rounds = 0 if owners else self._silent_rounds + 1
        if any(owner.position == node.contact.position for owner in owners):
            # Another peer is said to be there, and does not say so itself: it has just come, or it moved and is still
            # remembered. Soon it is known which.
            self._again(now)
            return
        agree = len(owners) == asked and len(set(owners)) == 1
        if not owners or not (agree or self._round > bounds.JOIN_AGREE_ROUNDS):
            self._again(now)
            return
        owner = min(owners, key=lambda contact: distance(node.contact.position, contact.position))
        request = GetState(id=self._host.new_id(), source=node.contact, target=owner.index, known=0)
        self._host.ask(owner, request, partial(self._stated, owner), now)

    def _stated(self, owner: Contact, reply: Reply | None, now: float) -> None:
        if self.is_over:
            return
        if not isinstance(reply, NeighbourState):
            self._again(now)  # BUSY, silent, or no member any more
            return
        node = self._waiting.popleft()
        node.join(owner, reply, now)
        self._round = 0
        if all(contact.peer != owner.peer for contact in self._contacts):
            self._contacts = [*self._contacts[: bounds.CONTACTS_MAX - 1], owner]
        self._host.effects.append(Joined(contact=node.contact))
        self._on_joined(owner, now)
        self.go(now)

    def _again(self, now: float) -> None:
        delay_s = self._host.random.uniform(bounds.RETRY_MIN_S, bounds.RETRY_MAX_S) * min(self._round, 8)
        self._host.at(now + delay_s, self.go)
