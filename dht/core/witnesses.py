"""Whose word about a peer's death do we no longer take?  That of witnesses whom this very peer refuted again and again.

A death needs two signatures of peers near the dead one, and two keys of one liar may sit there.  Each false death
throws a living peer out of every table until its refutation has come round, so one each minute would keep it out for
good.  A witness that was refuted three times in a day by one peer is therefore not believed about this peer for the
rest of the day, except by itself.

Only about this peer: otherwise a peer that falls silent and comes back at once would make its honest neighbours
unbelievable, and with them its accomplices' deaths.  So the liar gets three false deaths a day for each victim and key.
"""

from collections import OrderedDict
from itertools import islice

from dht.core.ids import PeerKey
from dht.core.records import Death

REFUTED_MAX = 3
"""An honest witness may err when a line fails for a minute, or the peer itself restarts slowly; rarely so often."""
REFUTED_WITHIN_S = 60.0
"""A living peer hears of its death from its neighbours at once.  One that needs longer has restarted: it was dead."""
DISCREDITED_S = 24 * 3600.0
REMEMBERED_MAX = 8_192


class Refutations:
    __slots__ = ("_times",)

    def __init__(self) -> None:
        # (subject, witness) -> when the last ones were refuted, the latest last; the pair refuted last comes last
        self._times: OrderedDict[tuple[PeerKey, PeerKey], tuple[float, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._times)

    def refuted(self, death: Death, now: float) -> None:
        """The peer lives, as its newer record shows."""
        for witness in (death.accuser, death.confirmer):
            self.note(death.peer, witness, now)

    def note(self, subject: PeerKey, witness: PeerKey, now: float) -> None:
        """This witness was refuted by this peer once more."""
        pair = subject, witness
        self._times[pair] = (*self._times.get(pair, ()), now)[-REFUTED_MAX:]
        self._times.move_to_end(pair)
        while len(self._times) > REMEMBERED_MAX or (self._times and self._is_old(now)):
            self._times.popitem(last=False)

    def is_discredited(self, death: Death, now: float) -> bool:
        """Is one of its witnesses no longer believed?"""
        return any(self.is_worn_out(death.peer, by, now) for by in (death.accuser, death.confirmer))

    def is_worn_out(self, subject: PeerKey, witness: PeerKey, now: float) -> bool:
        """Was this witness refuted by this peer so often that its word about it counts no more?"""
        times = self._times.get((subject, witness), ())
        return len(times) == REFUTED_MAX and now - times[0] < DISCREDITED_S

    def _is_old(self, now: float) -> bool:
        oldest = next(islice(self._times.values(), 1))
        return now - oldest[-1] >= DISCREDITED_S
