"""One question to the ring: who is asked for what, who instead of peers that fail or are late, and what counts?

A share of the cover is answered by its peer, or else by others of whom each takes a part of it: never by both, so
that nothing counts twice. It is decided at the end, and the whole share goes before its parts. Pure: a shell asks, and
says what came of it.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

from dht.core.ids import PeerKey
from herodotus.core.search.cover import Share, Stretch, cover, part_of_circle

PEERS_MAX: Final = 256
"""Asked at first: two turns of the connections that a peer keeps (`peers/net/calling.py`)."""
ASKED_MAX: Final = 2 * PEERS_MAX
"""With those that are asked instead."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Part(Generic[T]):
    """A question to one peer."""

    share: Share
    answer: T | None = None
    has_failed: bool = False
    is_elsewhere: bool = False
    """The peer has not all of it, maybe some."""
    instead: "list[Part[T]] | None" = None

    @property
    def is_settled(self) -> bool:
        """No answer that could still come would change anything."""
        if self.answer is not None:
            return True
        if self.instead is None:
            return False
        others = all(part.is_settled for part in self.instead)
        return others and (self.has_failed or self._is_replaced)

    @property
    def _is_replaced(self) -> bool:
        told = {number for part in self.told() for number in part.share.stretches}
        return told >= {*self.share.stretches}

    def told(self) -> "Iterator[Part[T]]":
        """Those whose answers count."""
        if self.answer is not None:
            yield self
        else:
            for part in self.instead or ():
                yield from part.told()


class Round(Generic[T]):
    def __init__(
        self,
        stretches: Sequence[Stretch],
        *,
        first: PeerKey | None = None,
        avoid: Collection[PeerKey] = (),
        section: int = 0,
        peers_max: int = PEERS_MAX,
    ) -> None:
        """`avoid`: are asked only where nobody else could be. `section`: which so many peers of a large ring, from
        0."""
        chosen = [
            stretch._replace(
                indexers=tuple(peer for peer in stretch.indexers if peer not in avoid) or stretch.indexers
            )
            for stretch in stretches
        ]
        shares = cover(chosen, first=first)
        begin = section * peers_max
        self._stretches = stretches
        self._silent: set[PeerKey] = set()
        """Failed, or are late."""
        self._refused: dict[tuple[PeerKey, int], bool] = {}
        """Stretches of shares of which the peer has not all; whether it was asked for the stretch alone."""
        self._first = first
        self._late: list[Part[T]] = []
        self._count = 0
        self.has_more = len(shares) > begin + peers_max
        """Peers that another section would ask."""
        self.parts = self._made(shares[begin : begin + peers_max])

    def _made(self, shares: Iterable[Share]) -> list[Part[T]]:
        made: list[Part[T]] = [Part(share) for share in shares]
        self._count += len(made)
        return made

    def answered(self, part: Part[T], answer: T) -> None:
        part.answer = answer

    def failed(self, part: Part[T]) -> list[Part[T]]:
        """Who is asked instead, if somebody is not yet."""
        part.has_failed = True
        share = part.share
        if part.is_elsewhere:
            self._refused.update(
                dict.fromkeys(((share.peer, number) for number in share.stretches), len(share.stretches) == 1)
            )
        else:
            self._silent.add(share.peer)
        return self._replaced(part) if part.instead is None else []

    def late(self) -> list[Part[T]]:
        """Much of the time is over: who is asked beside those who are silent."""
        silent = [part for part in self._open(self.parts) if part.instead is None]
        self._silent.update(part.share.peer for part in silent)
        self._late += silent
        return [other for part in silent for other in self._replaced(part)]

    def _open(self, parts: Iterable[Part[T]]) -> Iterator[Part[T]]:
        for part in parts:
            if part.answer is None:
                yield part
                yield from self._open(part.instead or ())

    def _replaced(self, part: Part[T]) -> list[Part[T]]:
        """By peers that may have a share already: in a small ring there are no others."""
        wanted = part.share.stretches
        shares = self._cover(wanted, lambda peer, number: (peer, number) not in self._refused)
        # After a member left, each of the others may lack another stretch: then they are asked for one at a time.
        taken = {number for share in shares for number in share.stretches}
        for number in sorted({*wanted} - taken):
            shares += self._cover([number], lambda peer, number: self._refused.get((peer, number)) is False)
        part.instead = self._made(shares[: ASKED_MAX - self._count])
        return part.instead

    def _cover(self, wanted: Collection[int], may_have: Callable[[PeerKey, int], bool]) -> list[Share]:
        chosen = [*self._stretches]
        for number in wanted:
            indexers = tuple(peer for peer in chosen[number].indexers if may_have(peer, number))
            chosen[number] = chosen[number]._replace(indexers=indexers)
        return cover(chosen, wanted=wanted, avoid=self._silent)

    @property
    def is_settled(self) -> bool:
        return all(part.is_settled for part in self.parts)

    def silent(self) -> set[PeerKey]:
        """Others that were late, and have not answered since."""
        return {part.share.peer for part in self._late if part.answer is None} - {self._first}

    def told(self) -> list[Part[T]]:
        """Those whose answers count; their shares have nothing in common."""
        return [one for part in self.parts for one in part.told()]

    def covered(self) -> float:
        """How much of the circle they answer for."""
        return part_of_circle(arc for part in self.told() for arc in part.share.arcs)
