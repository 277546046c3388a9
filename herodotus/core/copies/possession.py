"""Does a holder have the bytes, and when may our own copy of them go?

A *full proof* is a hash over every capture that is to go, each with its whole payload: the one proof that a deletion
may rest on, as samples find liars and prove nothing of the captures that were not drawn. The asker's nonce is in it,
so no proof can be made before the question; prover and asker are in it, so that a proof that one peer gave is no
other's. The payload is what the capture's SHA-256 is of: holders compress records differently, and this they have
alike.

The inner hash is the same for all holders that are asked with one nonce. So the asker reads its captures once for all
of them; what a peer hands out is the outer hash, from which nobody finds the inner one.
"""

import hashlib
from collections import deque
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from herodotus.core.captures import LargeBody, pieces_of
from herodotus.core.copies import PeerKey

_INNER, _OUTER = b"herodotus/full-proof/1", b"herodotus/proof/1"
FULL_PROOF_BYTES: Final = 32
PROOF_USED_WITHIN_S: Final = 3_600.0
"""From the first question to the deletion: what a holder had longer ago, its disk may have lost."""
VETERANS: Final = 3
"""Of the holders that a deletion rests on: one address makes many keys within a day, but none that this peer has seen
for two months. Three, so that the capture outlives even the loss of all the others and of two of these."""
DAY_S: Final = 86_400.0


class FullProof:
    """The hash over captures, in the order of their keys, as their payloads are read."""

    def __init__(self, nonce: bytes) -> None:
        self._hash = hashlib.sha256(_INNER + nonce)

    def add(self, digest: bytes, payload: bytes | LargeBody) -> None:
        """The digest has a fixed length and binds the payload's, so two lists of captures are never one text."""
        self._hash.update(digest)
        for piece in pieces_of(payload):
            self._hash.update(piece)

    def by(self, prover: PeerKey, asker: PeerKey) -> bytes:
        return hashlib.sha256(_OUTER + prover + asker + self._hash.digest()).digest()


class Standings(Protocol):
    """What this peer knows of the others' age and places."""

    def place_of(self, peer: PeerKey) -> Hashable:
        """What two keys of one machine have alike, as far as an address tells."""
        ...

    def is_of_age(self, peer: PeerKey) -> bool:
        """By the peer's record, as everybody sees it."""
        ...

    def is_veteran(self, peer: PeerKey) -> bool:
        """By this peer's own sight: nobody else's word counts where our copies go."""
        ...


class EachItsOwn:
    """The standings of a laboratory: each key is a place, and everybody is known for long."""

    def place_of(self, peer: PeerKey) -> Hashable:
        return peer

    def is_of_age(self, peer: PeerKey) -> bool:
        del peer
        return True

    def is_veteran(self, peer: PeerKey) -> bool:
        del peer
        return True


def are_trusted(
    holders: Sequence[PeerKey], members: Collection[PeerKey], standings: Standings, copies: int
) -> bool:
    """May our copy go on the word of these, if each of them proves that it has it?

    They are in as many places as there can be, all of age, and three of them veterans. In a network younger than the
    veterans' age that age is shorter (trust.md 3), so that its founders can be veterans.
    """
    if len(holders) < copies:
        return False
    if not all(map(standings.is_of_age, holders)):
        return False
    if sum(map(standings.is_veteran, holders)) < min(VETERANS, copies):
        return False
    places = len({standings.place_of(peer) for peer in holders})
    return places >= copies or places == len({standings.place_of(peer) for peer in members})


@dataclass(frozen=True, slots=True)
class Room:
    """Bytes of the archive, and what it may reach: its offer."""

    used: int
    offered: int

    def excess(self, share: float) -> float:
        """Bytes above a share of the offer; below 0 where the store is not so full."""
        return self.used - share * self.offered


class Allowance:
    """How many captures may go now? At most a share of the store in any 24 hours.

    A wrong rule, or one that somebody found a way around, then needs three weeks for a store, in which its operator
    can notice. Nothing is remembered on disk: after a start nothing goes for `copies.keep_s`, as long as the default
    of that is a day or more, so a restart gives nothing back.
    """

    def __init__(self, share: float) -> None:
        self._share = share
        self._gone: deque[tuple[float, int]] = deque()

    def left(self, captures: int, room: Room, full_share: float, now: float) -> int:
        """Of a store of so many captures: no more than makes room, and no more than the day's share.

        Bytes of what went are there until the files are compacted, so what went today counts as room.
        """
        excess = room.excess(full_share)
        if excess < 0 or not captures:
            return 0
        while self._gone and now - self._gone[0][0] >= DAY_S:
            self._gone.popleft()
        gone = sum(count for _, count in self._gone)
        allowed = int(self._share * (captures + gone)) - gone
        wanted = int(excess * captures / max(1, room.used)) + 1 - gone if full_share else captures
        return max(0, min(wanted, allowed))

    def spend(self, count: int, now: float) -> None:
        if count:
            self._gone.append((now, count))
