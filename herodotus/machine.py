"""What is the world to a daemon? This machine: its clocks, threads, disks, sockets, and the web."""

import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.core.rows import RowLimits
from crawler.core.urls import UrlRules, is_public
from crawler.http import FetchSettings, HttpFetcher
from crawler.ports import ConnectionRoom
from crawler.rocks import RocksRows, mended_rows
from dht.dialback import dial_back
from dht.discovery.port_mapping import PortGateway
from dht.finding import Finders
from herodotus.core.settings.fields import HostPort
from herodotus.core.settings.sections import HttpSettings
from herodotus.core.whereabouts import has_family
from herodotus.home import clock
from herodotus.peers.finders import finders_of, outgoing_hosts, pinhole_gateways, router_gateways
from herodotus.peers.membership import FinderParts
from herodotus.peers.net.arranged import connect_and_reset
from herodotus.peers.net.certificate import caller_context
from herodotus.peers.net.line import LineBrokenError, WrongProtocolError
from herodotus.peers.net.tls_line import TcpPort, TlsLine, claim_tcp, dial_tls
from herodotus.peers.supplies import watch_supplies
from herodotus.portal.answer_cache import Front
from herodotus.portal.handlers import Handlers
from herodotus.portal.http_connection import SharedLine
from herodotus.portal.http_relay import AT_ONCE, BODY_BYTES_MAX, HttpRelay
from herodotus.portal.server import Portal
from herodotus.store import LocalStorage, ThreadWorkers


class Machine(ThreadWorkers, LocalStorage):
    """Implements `herodotus.world.World`."""

    dial_back = staticmethod(dial_back)

    def __init__(self) -> None:
        super().__init__()
        self.chance: random.Random = random.SystemRandom()
        self.process_id = os.getpid()
        self._tls = caller_context()

    # -- time

    unix_s = staticmethod(clock.unix_seconds)
    elapsed_s = staticmethod(clock.elapsed_seconds)
    local_offset_s = staticmethod(clock.local_offset_seconds)

    # -- disks

    def rows(self, folder: Path, limits: RowLimits) -> RocksRows:
        return mended_rows(folder, limits)

    # -- other peers

    def claim(self, listen: HostPort, key: Ed25519PrivateKey) -> TcpPort:
        return claim_tcp(listen.host, listen.port, key)

    async def dial(self, host: str, port: int) -> TlsLine:
        return await dial_tls(host, port, self._tls)

    async def knock(self, host: str, port: int) -> None:
        await connect_and_reset((host, port))

    async def dial_stream(self, address: tuple[str, int], peer: bytes) -> bool:
        try:
            line = await dial_tls(*address, self._tls)
        except (OSError, LineBrokenError, WrongProtocolError):
            return False
        try:
            return line.key == peer
        finally:
            await line.close()

    def outgoing_hosts(self) -> Sequence[str]:
        return outgoing_hosts()

    def finders(self, parts: FinderParts) -> Finders:
        return finders_of(parts, self.unix_s, self.chance)

    watch_supplies = staticmethod(watch_supplies)

    def gateways(self) -> Sequence[tuple[str, PortGateway]]:
        return router_gateways()

    def pinholes(self, host: str) -> Sequence[tuple[str, PortGateway]]:
        return pinhole_gateways(host)

    # -- the web, readers

    def fetcher(
        self, settings: FetchSettings, rules: UrlRules, wall_clock: Callable[[], float]
    ) -> HttpFetcher:
        able = replace(settings, leads_out=_leads_out)
        return HttpFetcher(able, wall_clock=wall_clock, rules=rules)

    def serve(
        self,
        settings: HttpSettings,
        handlers: Handlers,
        front: Front,
        shared: Callable[[str], SharedLine | None],
    ) -> Portal:
        return Portal(settings, handlers, front, shared)

    def relay(
        self,
        body_bytes_max: int | None = None,
        at_once: int | None = None,
        *,
        room: ConnectionRoom | None = None,
    ) -> HttpRelay:
        return HttpRelay(
            body_bytes_max=body_bytes_max or BODY_BYTES_MAX, at_once=at_once or AT_ONCE, room=room
        )


def _leads_out(address: str) -> bool:
    """A private address may be reached without a way out."""
    return not is_public(address) or has_family(outgoing_hosts(), of=address)
