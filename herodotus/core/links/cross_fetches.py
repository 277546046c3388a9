"""Which captures of others are checked at the origin, by which peers, and what do the checks say of their signers?

A share of today's captures is drawn by a hash of key and day. Each holder draws for itself, with a salt that no other
peer knows: a peer that alters pages cannot tell which ones are checked, or by whom. A page that differs again at
another visit proves nothing. The third look comes as long after the second as that came after the first. So a page that
changes with probability p in such a time counts against an honest peer with p(1 - p), a quarter at most.

What one place sees may be its own trouble: a site that answers each country differently, or a provider that writes into
pages. So a peer is named by those alone that see it stand out themselves and hear the same from two other places.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from dht.core.records import Contact

_PREFIX: Final = b"herodotus/cross-fetch/1"
CHECKS_MIN: Final = 8
"""Before anything is said of a peer."""
DIFFERING_SHARE: Final = 0.75
"""From this share on a signer stands out: three times the most that chance gives an honest peer."""
PEERS_MAX: Final = 1_024
"""As many as are suspected at most; those beyond are counted together."""
PLACES_NEEDED: Final = 3
"""That of the peer which names another is one of them."""
WITNESSES_MAX: Final = 16
"""Of one peer: those that hold keys together with it and with us."""


def is_drawn(salt: bytes, key: bytes, day: int, share: float) -> bool:
    """The same answer for the same URL, day and salt; of very many URLs it is `share` of them."""
    mark = hashlib.sha256(_PREFIX + salt + day.to_bytes(8, "big") + key).digest()
    return int.from_bytes(mark[:8], "big") < share * 2.0**64


def own_share(holders: Sequence[Contact], fetched_by: bytes, me: bytes, share: float) -> float:
    """What each of the live holders draws, so that all of them look at `share` of the captures."""
    others = [contact.peer for contact in holders if contact.peer != fetched_by]
    return share / len(others) if me in others else 0.0


class CrossVerdict(Enum):
    AGREES = "agrees"
    DIFFERS = "differs"
    CHANGES = "changes"
    """The origin says something else each time."""
    UNCLEAR = "unclear"
    """The origin did not answer, or the day was over."""


@dataclass(slots=True)
class Crossed:
    agreed: int = 0
    differed: int = 0
    changing: int = 0

    @property
    def checks(self) -> int:
        return self.agreed + self.differed + self.changing

    @property
    def stands_out(self) -> bool:
        """Pages that change each time count too. Otherwise pages that mostly change would count against honest
        peers."""
        return self.checks >= CHECKS_MIN and self.differed >= DIFFERING_SHARE * self.checks


class CrossTally:
    """The results of second looks since the start."""

    def __init__(self) -> None:
        self.total = Crossed()
        self.unclear = 0
        self.of_peer: dict[bytes, Crossed] = {}
        self._witnesses: dict[bytes, set[bytes]] = {}

    def stands_out(self, peer: bytes) -> bool:
        """As we saw it ourselves; what we tell others."""
        known = self.of_peer.get(peer)
        return known is not None and known.stands_out

    def heard(self, peer: bytes, witness: bytes) -> None:
        """Of one that stands out here: it does so there, too."""
        known = self._witnesses.setdefault(peer, set()) if self.stands_out(peer) else set()
        if len(known) < WITNESSES_MAX:
            known.add(witness)

    def witnesses(self, peer: bytes) -> frozenset[bytes]:
        return frozenset(self._witnesses.get(peer, ()))

    def note(self, peer: bytes | None, answer: CrossVerdict) -> bool:
        """Whether the peer stands out here by this. None: a key that is no member's, of which anybody may make many."""
        if answer is CrossVerdict.UNCLEAR:
            self.unclear += 1
            return False
        known = None if peer is None else self.of_peer.get(peer)
        if known is None and peer is not None and len(self.of_peer) < PEERS_MAX:
            known = self.of_peer[peer] = Crossed()
        for one in (self.total, known):
            if one is not None:
                one.agreed += answer is CrossVerdict.AGREES
                one.differed += answer is CrossVerdict.DIFFERS
                one.changing += answer is CrossVerdict.CHANGES
        return answer is CrossVerdict.DIFFERS and known is not None and known.stands_out
