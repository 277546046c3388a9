"""What is asked about the peer itself and the ring that it is in?"""

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from herodotus.core.status import NodeStatus, PeerStatus
from herodotus.portal.api.table import Endpoint, Question, Reply, Token
from herodotus.portal.api.tokens import number_of
from herodotus.portal.web import Asked


class Peer(msgspec.Struct, frozen=True, kw_only=True):
    """`clock` is how long ago it last gave a sign of life, in a word; `http` where its portal should be."""

    key: str
    address: str
    http: str | None
    positions: int
    clock: str
    is_self: bool


class PeersQuestion(Question, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1000, description="peers in one answer")] = 100
    after: Token | None = None


class Peers(msgspec.Struct, frozen=True, kw_only=True):
    """Members of the ring that this peer knows, by key."""

    peers: tuple[Peer, ...]
    known: int
    next: str | None


class RingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """As this peer sees it; `arcs` are the keys that it must hold, (start, end] in hexadecimal."""

    network: str
    network_id: str
    members: int
    ideal: bool
    address: str
    arcs: tuple[tuple[str, str], ...]
    nodes: tuple[NodeStatus, ...]


def network_endpoints(
    status: Callable[[], Awaitable[PeerStatus]], peers: Callable[[], tuple[Peer, ...]] = tuple
) -> list[Endpoint]:
    found = NetworkAnswers(status, peers)
    return [
        Endpoint(
            path="/api/v1/status",
            summary="What this peer says about itself.",
            shape=PeerStatus,
            work=found.status,
            cost=0.0,
        ),
        Endpoint(
            path="/api/v1/ring", summary="The ring as this peer sees it.", shape=RingFacts, work=found.ring
        ),
        Endpoint(
            path="/api/v1/peers",
            summary="The members of the ring that this peer knows.",
            question=PeersQuestion,
            shape=Peers,
            work=found.peers,
        ),
    ]


class NetworkAnswers:
    def __init__(
        self, status: Callable[[], Awaitable[PeerStatus]], peers: Callable[[], tuple[Peer, ...]]
    ) -> None:
        self._status = status
        self._peers = peers

    async def status(self, question: Question, asked: Asked) -> Reply:
        return Reply(value=await self._status())

    async def ring(self, question: Question, asked: Asked) -> Reply:
        status = await self._status()
        return Reply(
            value=RingFacts(
                network=status.network,
                network_id=status.network_id,
                members=status.ring.members,
                ideal=status.ring.ideal,
                address=status.ring.address,
                arcs=status.ring.arcs,
                nodes=status.ring.nodes,
            )
        )

    async def peers(self, question: PeersQuestion, asked: Asked) -> Reply:
        known, start = self._peers(), number_of(question.after)
        end = start + question.limit
        following = str(end) if end < len(known) else None
        return Reply(value=Peers(peers=known[start:end], known=len(known), next=following), next=following)
