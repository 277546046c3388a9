"""How does fresh news reach everybody, at little more than the price of telling each once?

A peer with news offers it to random members, 4 log10(N + 1) times: by a *mark* of eight bytes, not by the news
itself, for late in its spread almost everybody offered has it already.  Who lacks it asks the offerer for
it, and offers it on.  To be offered what one is offering oneself counts as an offer made, so news that
everybody knows dies down at half the price.
"""

from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from itertools import islice
from math import ceil, log10

from dht.core import rules as bounds
from dht.core.host import MachineHost
from dht.core.ids import PeerKey
from dht.core.membership import MemberTable
from dht.core.messages import MARKS_MAX, NEWS_MAX, MemberRecords, Offer, Reply, Want
from dht.core.records import Contact, News
from dht.core.thrift import MARK_BYTES, NEWS_BYTES, SAMPLED, SEALED_BYTES, Thrift


class Rumours:
    __slots__ = (
        "_anybody",
        "_asked",
        "_chains",
        "_hear",
        "_host",
        "_is_telling",
        "_table",
        "_thrift",
        "waiting",
    )

    def __init__(
        self,
        host: MachineHost,
        table: MemberTable,
        thrift: Thrift,
        anybody: Callable[[], Contact | None],
        hear: Callable[[News, float], object],
    ) -> None:
        self._host = host
        self._table = table
        self._thrift = thrift
        self._anybody = anybody
        self._hear = hear
        self.waiting: OrderedDict[PeerKey, int] = OrderedDict()  # peer -> how often its news is still offered
        self._asked: OrderedDict[int, float] = OrderedDict()  # mark -> until when it is not asked for again
        self._chains = 0  # questions for news that are under way
        self._is_telling = False

    def tell(self, peer: PeerKey, now: float) -> None:
        if self._thrift.level == SAMPLED:
            return
        self.waiting[peer] = ceil(bounds.RUMOUR_FACTOR * log10(len(self._table) + 2))
        self.waiting.move_to_end(peer)
        if len(self.waiting) > bounds.RUMOURS_MAX:
            self.waiting.popitem(last=False)
        if not self._is_telling:
            self._is_telling = True
            self._host.at(now + self._host.random.uniform(0, self._period()), self._spread)

    def _period(self) -> float:
        return self._host.rules.rumour_s * (1 + self._thrift.level)

    # --- offering

    def _spread(self, now: float) -> None:
        for _ in range(bounds.RUMOUR_PEERS):
            target = self._anybody()
            if target is not None:
                self._offer_some(target)
        self._is_telling = bool(self.waiting)
        if self._is_telling:
            self._host.at(now + self._host.jittered(self._period()), self._spread)

    def _offer_some(self, target: Contact) -> None:
        """The newest first: what is old has been offered by many."""
        for _ in range(bounds.OFFERS_MAX):
            chosen = list(islice(reversed(self.waiting), MARKS_MAX))
            known = [peer for peer in chosen if self._table.incarnation(peer) >= 0]
            if known:
                marks = tuple(map(self._table.mark_of, known))
                self._host.send(target, Offer(id=self._host.new_id(), marks=marks))
                self._thrift.spend(SEALED_BYTES + MARK_BYTES * len(marks))
            for peer in chosen:
                self._count_down(peer)
                if peer in self.waiting:
                    self.waiting.move_to_end(peer, last=False)
            if len(chosen) < MARKS_MAX:
                return

    def _count_down(self, peer: PeerKey) -> None:
        left = self.waiting.get(peer)
        if left is not None and left > 1:
            self.waiting[peer] = left - 1
        else:
            self.waiting.pop(peer, None)

    # --- being offered

    def offered(self, offer: Offer, sender: Contact, now: float) -> None:
        wanted = []
        for mark in offer.marks[:MARKS_MAX]:
            peer, is_known = self._table.marked(mark)
            if is_known and peer is not None:
                self._count_down(peer)
            elif self._asked.get(mark, now) <= now and (peer is not None or self._thrift.level != SAMPLED):
                wanted.append(mark)
        if wanted and self._chains < bounds.WANTS_MAX:
            for mark in wanted:
                self._asked[mark] = now + bounds.WANT_AGAIN_S
                self._asked.move_to_end(mark)
            while len(self._asked) > bounds.RUMOURS_MAX:
                self._asked.popitem(last=False)
            self._chains += 1
            self._want(sender, tuple(wanted), now)

    def _want(self, source: Contact, marks: tuple[int, ...], now: float) -> None:
        assert 0 < self._chains <= bounds.WANTS_MAX
        request = Want(id=self._host.new_id(), marks=marks[:NEWS_MAX])
        self._thrift.spend(SEALED_BYTES + MARK_BYTES * len(request.marks))
        self._host.ask(source, request, partial(self._brought, source, marks), now)

    def _brought(self, source: Contact, marks: tuple[int, ...], reply: Reply | None, now: float) -> None:
        if not isinstance(reply, MemberRecords):
            for mark in marks:
                self._asked.pop(mark, None)  # somebody else may have it
            self._chains -= 1
            return
        for news in reply.news:
            self._hear(news, now)
        rest = marks[NEWS_MAX:]
        if reply.more and reply.news:  # seven deaths are longer than a datagram
            rest = (*(mark for mark in marks[:NEWS_MAX] if not self._table.marked(mark)[1]), *rest)
        if rest and len(rest) < len(marks):
            self._want(source, rest, now)
        else:
            self._chains -= 1

    def answer(self, request: Want, asker: Contact) -> None:
        peers = [self._table.marked(mark)[0] for mark in request.marks[:NEWS_MAX]]
        news = tuple(self._table.news_of(peer) for peer in peers if peer is not None)
        self._host.send(asker, MemberRecords(id=request.id, news=news, more=False))
        self._thrift.spend(SEALED_BYTES + NEWS_BYTES * len(news))
