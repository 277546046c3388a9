"""What does a peer ask of the world? Everything that is not the same for a daemon and a simulated peer.

`machine.py` is the daemon's world: the system's clocks, threads, sockets, RocksDB, DNS and the web. `simnet` has
another, in virtual time, with a network, disks and a web of its own; the peer that runs in it is this very one. So a
part of a peer that opens a socket, starts a thread, reads a clock or draws from the system's chance by itself is a
mistake: it takes what it needs from here, by `peer.py`.

Each room says what it asks: `core.ports` for clocks and workers, the store for disks and rows, the peers for their ring
and calls, the crawl for the web. This is all of it together, and what readers need.

Sleeping, deadlines, locks and task groups are anyio's in both worlds; steady time in the loop is `anyio.current_time`.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from crawler.ports import ConnectionRoom
from herodotus.core.settings.fields import HostPort
from herodotus.core.settings.sections import HttpSettings
from herodotus.crawl.gear import WebWorld
from herodotus.peers.membership import RingWorld
from herodotus.peers.net.line import Line
from herodotus.peers.rests import SuppliedWorld
from herodotus.portal.answer_cache import Front
from herodotus.portal.handlers import Handlers
from herodotus.portal.http_connection import SharedLine
from herodotus.portal.other_holders import OpenRelay
from herodotus.store import StoreWorld


class PortalServer(Protocol):
    """Answers readers. `claimed` holds the port, `serving` answers on it; `endpoint` is where it listens meanwhile."""

    @property
    def endpoint(self) -> HostPort: ...
    @property
    def refused(self) -> int:
        """Connections that were one too many."""
        ...

    @property
    def connections(self) -> int: ...
    @property
    def crowd(self) -> str:
        """The address that wants many more connections than it may have, if one does."""
        ...

    @property
    def left(self) -> int:
        """Readers who took their answer too slowly."""
        ...

    @property
    def malformed(self) -> int:
        """Requests that were not HTTP."""
        ...

    @property
    def carried(self) -> tuple[int, int]:
        """Bytes in and out of readers' connections that are closed, with headers, but for readers of this machine."""
        ...

    def claimed(self) -> AbstractContextManager[None]:
        """Readers who come wait until `serving`. Raises PortTaken."""
        ...

    def serving(self, stop_s: float) -> AbstractAsyncContextManager[None]:
        """Leaving waits up to `stop_s` for answers under way."""
        ...


class World(StoreWorld, RingWorld, WebWorld, SuppliedWorld, Protocol):
    @property
    def process_id(self) -> int: ...

    async def dial(self, host: str, port: int) -> Line:
        """To a peer that proves its key. Raises OSError where nobody answers, LineBrokenError, WrongProtocolError."""
        ...

    async def knock(self, host: str, port: int) -> None:
        """Opens a connection and closes it. Raises OSError where nobody answers."""
        ...

    def serve(
        self,
        settings: HttpSettings,
        handlers: Handlers,
        front: Front,
        shared: Callable[[str], SharedLine | None],
    ) -> PortalServer: ...

    def relay(
        self,
        body_bytes_max: int | None = None,
        at_once: int | None = None,
        *,
        room: ConnectionRoom | None = None,
    ) -> OpenRelay:
        """The client by which other peers' portals are asked. `room`: for its connections."""
        ...
