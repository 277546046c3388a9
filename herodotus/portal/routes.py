"""Which parts of the portal have paths of their own, and what do they share? Put together here, in the order in which
they are asked."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Protocol

import anyio

from herodotus.core.orders import Order, OrderReport, Say
from herodotus.core.ports import Workers
from herodotus.core.saves import SaveOutcome
from herodotus.core.status import PeerStatus
from herodotus.portal.api.captures import capture_endpoints
from herodotus.portal.api.completeness import NEAREST_BYTES_MAX, completeness_endpoints
from herodotus.portal.api.containers import container_endpoints
from herodotus.portal.api.imports import ImportDesk
from herodotus.portal.api.links import LinkAnswers, link_endpoints
from herodotus.portal.api.network import PeerFacts, network_endpoints
from herodotus.portal.api.paths import path_endpoints
from herodotus.portal.api.rest import RestApi
from herodotus.portal.api.search import search_endpoints
from herodotus.portal.api.statistics import statistics_endpoints
from herodotus.portal.api.streams import stream_endpoints
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.differences import DiffPages
from herodotus.portal.handlers import Room
from herodotus.portal.operator_pages import OperatingPages
from herodotus.portal.operator_rule import OperatorRule
from herodotus.portal.order_form import OrderPages
from herodotus.portal.other_holders import Directions, Elsewhere, Relay, RelayMaker
from herodotus.portal.reader_counts import PortalFigures
from herodotus.portal.ring_lists import TogetherPages
from herodotus.portal.ring_questions import ANSWER_BYTES_MAX, AT_ONCE, Gatherer, Members
from herodotus.portal.save_pages import SavePages


class RingView(Directions, Members, Protocol):
    def peers(self) -> tuple[PeerFacts, ...]: ...


class OwnSaves(Protocol):
    def opened(self) -> AbstractAsyncContextManager[None]: ...
    async def save(self, url: str) -> SaveOutcome: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RoomParts:
    """`saves` is None where readers may not ask for pages; `log` gives the last lines of it, for the operator."""

    shelf: Shelf
    status: Callable[[], Awaitable[PeerStatus]]
    figures: Callable[[], PortalFigures]
    log: Callable[[], Awaitable[Sequence[str]]]
    directions: RingView
    relay: Relay
    relay_of: RelayMaker
    elsewhere: Elsewhere
    workers: Workers
    operator: OperatorRule
    perform: Callable[[Order, Say], Awaitable[OrderReport]]
    saves: OwnSaves | None
    peer: str


class PortalRooms:
    """What takes orders or asks many peers works inside `opened`."""

    def __init__(self, parts: RoomParts, *, asking: Relay | None = None) -> None:
        """`asking` fetches the parts of answers that all peers have; its own by default."""
        self._parts = parts
        shelf, limits = parts.shelf, ClientLimits(anyio.current_time)
        self._limits = limits
        # Beside that of single questions, as many at once must not hold those up.
        self._asking = parts.relay_of(ANSWER_BYTES_MAX, AT_ONCE)
        self._completing = parts.relay_of(NEAREST_BYTES_MAX, None)
        self._gatherer = gatherer = Gatherer(parts.directions, asking or self._asking, parts.workers)
        self._desk = ImportDesk(parts.perform)
        links = LinkAnswers(shelf, gatherer, limits)
        endpoints = [
            *network_endpoints(parts.status, parts.directions.peers, parts.operator),
            *capture_endpoints(shelf),
            *search_endpoints(shelf),
            *container_endpoints(shelf),
            *statistics_endpoints(shelf),
            *stream_endpoints(shelf),
            *link_endpoints(links),
            *path_endpoints(shelf, links),
            *completeness_endpoints(shelf, parts.directions, asking or self._completing),
            *self._desk.endpoints(),
        ]
        self._saving = None
        if parts.saves is not None:
            self._saving = SavePages(
                parts.saves, anyio.current_time, directions=parts.directions, relay=parts.relay
            )
        rooms: list[Room | None] = [
            OperatingPages(parts.status, parts.figures, parts.log, parts.operator),
            OrderPages(parts.perform, parts.operator),
            RestApi(
                endpoints, limits, parts.operator, parts.workers, elsewhere=parts.elsewhere, peer=parts.peer
            ),
            self._saving,
            DiffPages(shelf, limits, parts.elsewhere),
            TogetherPages(shelf, gatherer, limits, parts.workers.steady_s),
        ]
        self.all = tuple(room for room in rooms if room is not None)

    @property
    def rationed(self) -> int:
        return self._limits.refused

    @property
    def disbelieved(self) -> int:
        return self._gatherer.disbelieved

    @property
    def saves_asked(self) -> int:
        return 0 if self._saving is None else self._saving.asked

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._asking.opened())
            await stack.enter_async_context(self._completing.opened())
            await stack.enter_async_context(self._desk.opened())
            if self._parts.saves is not None:
                await stack.enter_async_context(self._parts.saves.opened())
            yield
