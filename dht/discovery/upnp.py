"""How is a UPnP router asked? By miniupnpc (BSD), a C library that blocks: each call runs in a worker
thread.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import anyio
import anyio.to_thread
import miniupnpc

from dht.discovery.gateway_codec import GatewayRefused, Mapped, Transport

DISCOVER_MS = 2000
UPNP_S = 15.0
"""If the router stalls, the call stays behind in its thread and the peer continues."""


@dataclass(slots=True)
class UpnpGateway:
    """`multicast_interface` and `description_url` narrow the search down, for machines with many networks."""

    multicast_interface: str = ""
    description_url: str = ""
    _limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))

    async def map(
        self, internal_port: int, external_port: int, lifetime_s: int, transport: Transport = Transport.UDP
    ) -> Mapped | GatewayRefused:
        return await self._in_thread(lambda: self._map(internal_port, external_port, lifetime_s, transport))

    async def unmap(self, external_port: int, transport: Transport = Transport.UDP) -> None:
        def delete() -> Mapped | GatewayRefused:
            self._device().deleteportmapping(external_port, transport.name)
            return Mapped(external_port=external_port, lifetime_s=0)

        await self._in_thread(delete)

    async def epoch_s(self) -> int | None:
        """UPnP has no such clock."""
        return None

    async def _in_thread(self, work: Callable[[], Mapped | GatewayRefused]) -> Mapped | GatewayRefused:
        try:
            with anyio.fail_after(UPNP_S):
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True, limiter=self._limiter)
        except TimeoutError:
            return GatewayRefused(code=-1, reason="no UPnP router answered in time")
        except Exception as error:  # noqa: BLE001 - the library raises bare Exception, and only that
            # Where no device is found the library's message is the C library's "Success".
            reason = "no usable router found" if str(error) in ("", "Success") else str(error)
            return GatewayRefused(code=-1, reason=f"UPnP: {reason}")

    def _device(self) -> "miniupnpc.UPnP":
        device = miniupnpc.UPnP(multicastif=self.multicast_interface or None, discoverdelay=DISCOVER_MS)
        if self.description_url:
            device.selectigd(self.description_url)
        else:
            device.discover()
            device.selectigd()
        return device

    def _map(
        self, internal_port: int, external_port: int, lifetime_s: int, transport: Transport
    ) -> Mapped | GatewayRefused:
        device = self._device()
        # Arguments: outside port, protocol, inside address and port, description, remote host (any), lease.
        is_done = device.addportmapping(
            external_port, transport.name, device.lanaddr, internal_port, "Herodotus", "", lifetime_s
        )
        if not is_done:
            return GatewayRefused(code=-1, reason="the router did not take the mapping")
        ip = device.externalipaddress()
        return Mapped(external_port=external_port, lifetime_s=lifetime_s, external_ip=ip or None)
