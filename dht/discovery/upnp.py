"""How is a UPnP router asked? By miniupnpc (BSD), a C library that blocks: each call runs in a worker
thread.

UPnP has no clock that routers agree on: some give the age of their own process, others that of their line, others a
number that never moves. But each can be asked for one mapping, and a router that began anew has none.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import anyio
import anyio.to_thread
import miniupnpc

from dht.discovery.gateway_codec import GatewayRefused, Mapped, Transport

T = TypeVar("T")
DISCOVER_MS = 2000
ONLY_FOR_EVER = "OnlyPermanentLeasesSupported"
"""The library's word for error 725: an old router takes mappings without an end alone. Ours are given back when a peer
ends; one that crashed leaves its mapping, as any program does there."""
TAKEN = "ConflictInMappingEntry"
"""Error 718: another machine of the house has this outside port."""
PORTS_TRIED = 8
"""From the wanted one up; as many peers as a place may have positions."""
PORT_MAX = 65_535
UPNP_S = 15.0
"""If the router stalls, the call stays behind in its thread and the peer continues."""


@dataclass(slots=True)
class UpnpGateway:
    """`multicast_interface` and `description_url` narrow the search down, for machines with many networks."""

    multicast_interface: str = ""
    description_url: str = ""
    _limiter: anyio.CapacityLimiter = field(default_factory=lambda: anyio.CapacityLimiter(1))
    _found: "miniupnpc.UPnP | None" = None
    """The router that answered last. Who uses it takes it out, so no call that stalls shares it with the next one."""

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

    async def holds(self, external_port: int, transport: Transport) -> bool | None:
        def asked(device: "miniupnpc.UPnP") -> bool:
            device.statusinfo()  # raises where nobody answers: the next call says "no such mapping" there, too
            entry = device.getspecificportmapping(external_port, transport.name)
            self._found = device
            return entry is not None and entry[0] == device.lanaddr

        device, self._found = self._found, None
        answer = None if device is None else await self._in_thread(lambda: asked(device))
        if not isinstance(answer, bool):  # after a restart the router may listen at another port
            answer = await self._in_thread(lambda: asked(self._device()))
        return answer if isinstance(answer, bool) else None

    async def _in_thread(self, work: Callable[[], T]) -> T | GatewayRefused:
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
        for outside in range(external_port, min(external_port + PORTS_TRIED, PORT_MAX + 1)):
            if self._is_added(device, outside, internal_port, lifetime_s, transport):
                ip = device.externalipaddress()
                return Mapped(external_port=outside, lifetime_s=lifetime_s, external_ip=ip or None)
        return GatewayRefused(code=-1, reason="the router did not take the mapping")

    def _is_added(
        self, device: "miniupnpc.UPnP", outside: int, inside: int, lease_s: int, transport: Transport
    ) -> bool:
        """Whether the router maps this outside port to us. Raises the library's Exception if no other one would do."""
        try:
            # The last three: description, remote host (any), lease.
            return bool(
                device.addportmapping(
                    outside, transport.name, device.lanaddr, inside, "Herodotus", "", lease_s
                )
            )
        except Exception as error:
            if str(error) == ONLY_FOR_EVER and lease_s:
                return self._is_added(device, outside, inside, 0, transport)
            if str(error) == TAKEN:
                return False
            raise
