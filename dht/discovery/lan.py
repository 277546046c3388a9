"""Who of our network is on this LAN?

DNS-SD by the zeroconf package (LGPL-2.1, used as a dynamically imported library): `_herodotus._udp.local.`,
the network id in the TXT record. Anybody on the LAN can announce anything, so what comes out is only where
to try a handshake. The package's own tasks live inside its `AsyncZeroconf`; we start none: names heard of
are kept, and resolved when somebody asks.
"""

import ipaddress
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

import anyio
from zeroconf import InterfaceChoice, NonUniqueNameException, ServiceStateChange, Zeroconf
from zeroconf.asyncio import AsyncServiceBrowser, AsyncServiceInfo, AsyncZeroconf

from dht.discovery.addresses import Endpoint, parse_ip

SERVICE = "_herodotus._udp.local."
NAMES_MAX = 64
RESOLVE_MS = 1500


class LanDiscovery:
    """Finds peers on the local network; this one is switched off."""

    async def start(self) -> None:
        return

    async def stop(self) -> None:
        return

    async def contacts(self) -> list[Endpoint]:
        """Others of our network heard of on the LAN so far; may wait a second or two for their addresses."""
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class LanSettings:
    network: bytes
    peer_id: bytes
    port: int
    addresses: Sequence[str]
    """Ours on the LAN, as announced."""
    interfaces: Sequence[str] = ()
    """Addresses of the interfaces to use; empty: all of them."""


class ZeroconfLan(LanDiscovery):
    """`start` raises `OSError` where there is no usable interface."""

    def __init__(self, settings: LanSettings) -> None:
        self._settings = settings
        self._name = f"{settings.peer_id.hex()[:24]}.{SERVICE}"
        self._zeroconf: AsyncZeroconf | None = None
        self._browser: AsyncServiceBrowser | None = None
        self._names: OrderedDict[str, None] = OrderedDict()
        self._heard = anyio.Event()

    async def start(self) -> None:
        assert self._zeroconf is None, "started twice"
        settings = self._settings
        interfaces = list(settings.interfaces) or InterfaceChoice.All
        self._zeroconf = AsyncZeroconf(interfaces=interfaces)
        self._browser = AsyncServiceBrowser(self._zeroconf.zeroconf, SERVICE, handlers=[self._on_change])
        info = AsyncServiceInfo(
            SERVICE,
            self._name,
            port=settings.port,
            addresses=[ipaddress.ip_address(address).packed for address in settings.addresses],
            properties={"network": settings.network.hex(), "peer": settings.peer_id.hex()},
            server=f"{settings.peer_id.hex()[:24]}.local.",
        )
        try:
            # The name is a digest of our key: nobody else has it, so the slow search for a rival is left out.
            announced = await self._zeroconf.async_register_service(info, cooperating_responders=True)
            await announced
        except (OSError, NonUniqueNameException):
            await self.stop()
            raise

    async def stop(self) -> None:
        zeroconf, self._zeroconf = self._zeroconf, None
        if zeroconf is None:
            return
        if self._browser is not None:
            await self._browser.async_cancel()
        await zeroconf.async_close()

    def _on_change(
        self, zeroconf: Zeroconf, service_type: str, name: str, state_change: ServiceStateChange
    ) -> None:
        del zeroconf, service_type
        if name == self._name:
            return
        if state_change is ServiceStateChange.Removed:
            self._names.pop(name, None)
            return
        self._names[name] = None
        if len(self._names) > NAMES_MAX:
            self._names.popitem(last=False)
        self._heard.set()
        self._heard = anyio.Event()

    async def contacts(self) -> list[Endpoint]:
        if self._zeroconf is None:
            return []
        found: dict[str, list[Endpoint]] = {}
        zeroconf, network = self._zeroconf.zeroconf, self._settings.network.hex().encode()

        async def resolve(name: str) -> None:
            info = AsyncServiceInfo(SERVICE, name)
            is_resolved = await info.async_request(zeroconf, RESOLVE_MS)
            if is_resolved and (info.properties or {}).get(b"network") == network:
                hosts = [host for host in info.parsed_scoped_addresses() if parse_ip(host) is not None]
                found[name] = [(host, info.port or 0) for host in hosts[:4] if info.port]

        async with anyio.create_task_group() as group:
            for name in list(self._names):
                group.start_soon(resolve, name)
        return [endpoint for name in sorted(found) for endpoint in found[name]]
