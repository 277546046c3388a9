"""What is asked about the peer itself and the ring that it is in?

Strangers get the figures that machines may rely on (DESIGN 9). The operator gets all of them, from the peer's machine
or with the secret, but not if another site's page asks in the operator's browser.
"""

from collections.abc import Awaitable, Callable
from typing import Annotated

import msgspec
from msgspec import Meta

from herodotus.core.replay import may_change
from herodotus.core.status import NodeStatus, PeerStatus
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, ApiReply, Token
from herodotus.portal.api.tokens import number_of
from herodotus.portal.archive_pages import Asked
from herodotus.portal.operator_rule import OperatorRule


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


def network_endpoints(
    status: Callable[[], Awaitable[PeerStatus]],
    peers: Callable[[], tuple[PeerFacts, ...]] = tuple,
    operator: OperatorRule | None = None,
) -> list[ApiEndpoint]:
    found = NetworkAnswers(status, peers, operator or OperatorRule(has_public_name=True))
    return [
        ApiEndpoint(
            path="/api/v1/status",
            summary="What this peer says about itself; its operator gets everything.",
            shape=PublicStatus,
            operators_shape=PeerStatus,
            work=found.status,
            cost=0.0,
        ),
        ApiEndpoint(
            path="/api/v1/ring", summary="The ring as this peer sees it.", shape=RingFacts, work=found.ring
        ),
        ApiEndpoint(
            path="/api/v1/peers",
            summary="The members of the ring that this peer knows.",
            question=PeersQuestion,
            shape=Peers,
            work=found.peers,
        ),
    ]


class NetworkAnswers:
    def __init__(
        self,
        status: Callable[[], Awaitable[PeerStatus]],
        peers: Callable[[], tuple[PeerFacts, ...]],
        operator: OperatorRule,
    ) -> None:
        self._status = status
        self._peers = peers
        self._operator = operator

    async def status(self, question: ApiQuestion, asked: Asked) -> ApiReply:
        status, request = await self._status(), asked.request
        if self._operator.may_see(request) is None and may_change(request.headers, asked.origin):
            return ApiReply(value=status, is_private=True)
        return ApiReply(value=public_status(status))

    async def ring(self, question: ApiQuestion, asked: Asked) -> ApiReply:
        status = await self._status()
        return ApiReply(
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

    async def peers(self, question: PeersQuestion, asked: Asked) -> ApiReply:
        known, start = self._peers(), number_of(question.after)
        end = start + question.limit
        following = str(end) if end < len(known) else None
        return ApiReply(value=Peers(peers=known[start:end], known=len(known), next=following), next=following)
