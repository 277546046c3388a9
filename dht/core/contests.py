"""Two peers claim one position: whose is it?  Both are called; one that answers alone has it, else the older claim.

Positions follow from addresses, so a rival sits behind the same address and slot, or invented that.  A record proves
a key and no address, but an answer proves both: a session opens only with the key and at the address.  The age of a
claim is when its peer was first seen to make it, so that a peer cannot lose its place by renewing its record.

Two that started together may be known in a different order to each half of the ring: each is then told by half of it
that it was first. So where the loser of a young claim has not given way when the contest is fought again, the lesser
key has the position: that is the same for all.

Few contests run at a time, and what was settled rests for a minute, then for longer: a flood of rivals costs us two
pings each now and then. It does not rest for good, as a lost datagram may have settled it, or kept from the loser that
it lost: two peers that started at once would then sit at one position for ever.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dht.core import rules as bounds
from dht.core.host import MachineHost
from dht.core.ids import PeerKey
from dht.core.membership import MemberTable
from dht.core.messages import Ping, Reply, Rumour
from dht.core.records import Contact, SignedRecord, first_contact_of

OnWon = Callable[[SignedRecord, SignedRecord, float], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Settled:
    """The claimant was refused."""

    until: float
    rests_s: float
    both_lived: bool


class Contests:
    def __init__(self, host: MachineHost, table: MemberTable, won: OnWon) -> None:
        self._host = host
        self._table = table
        self._won = won  # the claimant is right, and its rival is not
        self._open: dict[PeerKey, dict[PeerKey, bool]] = {}  # claimant -> who answered
        self._settled: OrderedDict[tuple[PeerKey, PeerKey], _Settled] = OrderedDict()  # (claimant, rival)

    def begin(self, claimant: SignedRecord, now: float) -> None:
        """A sound record claims what somebody in the table (perhaps ourselves) has."""
        rival, peer = self._table.rival_of(claimant), claimant.record.peer
        if rival is None or peer in self._open:
            return
        before = self._settled.get((peer, rival.record.peer))
        if before is not None and now < before.until:
            return
        if len(self._open) >= bounds.CONTESTS_MAX:
            self._host.counts["contests refused"] += 1
            return
        answers: dict[PeerKey, bool] = {}
        self._open[peer] = answers
        for signed in (claimant, rival):
            self._call(signed, partial(self._answered, claimant, rival, signed.record.peer), now)

    def _call(self, signed: SignedRecord, done: Callable[[Reply | None, float], None], now: float) -> None:
        contact = self._contact(signed)
        self._host.ask(contact, Ping(id=self._host.new_id()), done, now, is_favour=True)

    def _answered(
        self,
        claimant: SignedRecord,
        rival: SignedRecord,
        peer: PeerKey,
        reply: Reply | None,
        now: float,
    ) -> None:
        answers = self._open[claimant.record.peer]
        assert peer not in answers, "both are called once"
        answers[peer] = reply is not None
        if len(answers) == 2:
            del self._open[claimant.record.peer]
            self._settle(claimant, rival, answers, now)

    def _settle(
        self, claimant: SignedRecord, rival: SignedRecord, answers: dict[PeerKey, bool], now: float
    ) -> None:
        if self._table.records.get(rival.record.peer) is None:
            return  # gone meanwhile: the claim will be heard again
        lives, rival_lives = answers[claimant.record.peer], answers[rival.record.peer]
        pair = claimant.record.peer, rival.record.peer
        before = self._settled.get(pair)
        is_again = before is not None and before.both_lived
        if lives and (not rival_lives or self._is_first(claimant, rival, now, is_again=is_again)):
            self._won(claimant, rival, now)
            return
        rests_s = bounds.CONTEST_RESTS_FIRST_S
        if before is not None:
            rests_s = min(2 * before.rests_s, bounds.CONTEST_RESTS_LONGEST_S)
        both_lived = lives and rival_lives
        self._settled[pair] = _Settled(until=now + rests_s, rests_s=rests_s, both_lived=both_lived)
        self._settled.move_to_end(pair)
        if len(self._settled) > bounds.CONTESTS_REMEMBERED_MAX:
            self._settled.popitem(last=False)
        if lives:  # so that it knows why nobody takes it in
            self._host.send(self._contact(claimant), Rumour(id=self._host.new_id(), news=(rival,)))

    def _is_first(self, claimant: SignedRecord, rival: SignedRecord, now: float, *, is_again: bool) -> bool:
        if (claimant.record.seat is None) != (rival.record.seat is None):
            return claimant.record.seat is not None  # it was there first, and is remembered
        since_s, claimed_s = self._table.claimed_s(rival), claimant.record.issued_s
        if is_again and now - min(since_s, claimed_s) < bounds.YOUNG_CLAIM_S:
            return claimant.record.peer < rival.record.peer
        return (claimed_s, claimant.record.peer) < (since_s, rival.record.peer)

    def _contact(self, signed: SignedRecord) -> Contact:
        return first_contact_of(signed.record, self._host.rules.id_check)
