"""What is asked about the peer itself and the ring that it is in?

Strangers get the figures that machines may rely on (DESIGN 9). The operator gets all of them, from the peer's machine
or with the secret, but not if another site's page asks in the operator's browser.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Meta

from herodotus.core.replay import may_change
from herodotus.core.status import NodeStatus, PeerStatus
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, Token
from herodotus.portal.archive_pages import Asked
from herodotus.portal.operator_rule import OperatorRule
from herodotus.portal.tokens import number_of


class PeerFacts(msgspec.Struct, frozen=True, kw_only=True):
    """`clock` is how long ago it last gave a sign of life, in a word; `http` where its portal should be."""

    key: str
    address: str
    http: str | None
    positions: int
    clock: str
    is_self: bool


class PublicRing(msgspec.Struct, frozen=True, kw_only=True):
    members: int
    ideal: bool
    arcs: tuple[tuple[str, str], ...]


class PublicCrawl(msgspec.Struct, frozen=True, kw_only=True):
    """`known` and `due` as they are now; the rest is of today."""

    known: int
    due: int
    fetched: int
    unchanged: int
    failed: int


class PublicStore(msgspec.Struct, frozen=True, kw_only=True):
    captures: int
    bytes: int
    state: str


class PublicStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What anybody may know of a peer; `copies` counts captures by how many peers hold them."""

    peer_id: str
    nickname: str
    version: str
    network: str
    network_id: str
    http: str
    started: str
    uptime_s: int
    ring: PublicRing
    crawl: PublicCrawl
    store: PublicStore
    copies: dict[str, int]


def public_status(status: PeerStatus) -> PublicStatus:
    return msgspec.convert(status, PublicStatus, from_attributes=True)


class PeersQuestion(ApiQuestion, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1000, description="peers in one answer")] = 100
    after: Token | None = None


class Peers(msgspec.Struct, frozen=True, kw_only=True):
    """Members of the ring that this peer knows, by key."""

    peers: tuple[PeerFacts, ...]
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


@dataclass(frozen=True, slots=True)
class NetworkAnswers:
    peer_status: Callable[[], Awaitable[PeerStatus]]
    known_peers: Callable[[], tuple[PeerFacts, ...]]
    operator: OperatorRule

    @ApiEndpoint(
        "/api/v1/status", "What this peer says about itself; its operator gets everything.", cost=0.0
    )
    async def status(self, question: ApiQuestion, asked: Asked) -> PublicStatus | PeerStatus:
        status, request = await self.peer_status(), asked.request
        if self.operator.may_see(request) is None and may_change(request.headers, asked.origin):
            return status
        return public_status(status)

    @ApiEndpoint("/api/v1/ring", "The ring as this peer sees it.")
    async def ring(self, question: ApiQuestion, asked: Asked) -> RingFacts:
        status = await self.peer_status()
        return RingFacts(
            network=status.network,
            network_id=status.network_id,
            members=status.ring.members,
            ideal=status.ring.ideal,
            address=status.ring.address,
            arcs=status.ring.arcs,
            nodes=status.ring.nodes,
        )

    @ApiEndpoint("/api/v1/peers", "The members of the ring that this peer knows.")
    async def peers(self, question: PeersQuestion, asked: Asked) -> Peers:
        known, start = self.known_peers(), number_of(question.after)
        end = start + question.limit
        following = str(end) if end < len(known) else None
        return Peers(peers=known[start:end], known=len(known), next=following)
