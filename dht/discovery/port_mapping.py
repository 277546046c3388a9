"""Can the router be asked to let others in? PCP, then NAT-PMP, then UPnP; renewed at half time.

A mapping is a lease of an hour, so that a peer that crashed leaves no hole for long. Whatever comes out is
a value with a sentence for the owner; membership is not decided here but by dial-backs
(`dht.core.reachability`).
"""

import ipaddress
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

import anyio

from dht.discovery.addresses import parse_ip
from dht.discovery.gateway_codec import (
    GATEWAY_PORT,
    NONCE_BYTES,
    GatewayRefused,
    Mapped,
    parse_pcp_map,
    parse_pmp_address,
    parse_pmp_map,
    pcp_map_request,
    pmp_address_request,
    pmp_map_request,
)

log = logging.getLogger(__name__)

LIFETIME_S = 3600
LIFETIME_SHORTEST_S = 120
"""A router that grants less than two minutes is renewed at this pace and no faster."""
RETRY_AFTER_S = 900.0
ROUTES = Path("/proc/net/route")
_CARRIER_NAT = ipaddress.ip_network("100.64.0.0/10")
T = TypeVar("T")


class MappingState(Enum):
    MAPPED = "mapped"
    DOUBLE_NAT = "double NAT"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingOutcome:
    state: MappingState
    explanation: str
    """For the owner, in plain words."""
    protocol: str = ""
    external_ip: str | None = None
    external_port: int | None = None
    lifetime_s: int = 0


class PortGateway(Protocol):
    async def map(
        self, internal_port: int, external_port: int, lifetime_s: int
    ) -> Mapped | GatewayRefused: ...
    async def unmap(self, external_port: int) -> None: ...


def default_gateway() -> str | None:
    """The router of the default route, where the system tells it in a file (Linux); else `None`."""
    try:
        rows = [line.split() for line in ROUTES.read_text(encoding="ascii").splitlines()[1:]]
    except OSError:
        return None
    for row in rows:
        if row[1] == "00000000" and int(row[3], 16) & 2:
            return str(ipaddress.IPv4Address(int(row[2], 16).to_bytes(4, "little")))
    return None


class DatagramGateway:
    """PCP first, NAT-PMP where the router says that it speaks only that, or is silent."""

    def __init__(
        self, host: str, port: int = GATEWAY_PORT, *, first_wait_s: float = 0.25, tries: int = 4
    ) -> None:
        self._address = (host, port)
        # RFC 6886 3.1 doubles from 250 ms through nine tries, a minute in all: four tell a router from none.
        self._first_wait_s, self._tries = first_wait_s, tries
        self._nonce = secrets.token_bytes(NONCE_BYTES)
        self._internal_port = 0
        self.protocol = "PCP"

    async def map(self, internal_port: int, external_port: int, lifetime_s: int) -> Mapped | GatewayRefused:
        self._internal_port = internal_port
        with self._socket() as sock:
            sock.connect(self._address)
            result = await self._map_by_pcp(sock, internal_port, external_port, lifetime_s)
            if isinstance(result, Mapped) or (result is not None and result.code != 1):
                self.protocol = "PCP"
                return result
            self.protocol = "NAT-PMP"
            return await self._map_by_pmp(sock, internal_port, external_port, lifetime_s)

    async def unmap(self, external_port: int) -> None:
        del external_port
        await self.map(self._internal_port, 0, 0)

    def _socket(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setblocking(False)
        return sock

    async def _map_by_pcp(
        self, sock: socket.socket, internal_port: int, external_port: int, lifetime_s: int
    ) -> Mapped | GatewayRefused | None:
        request = pcp_map_request(
            nonce=self._nonce,
            client_ip=sock.getsockname()[0],
            internal_port=internal_port,
            external_port=external_port,
            lifetime_s=lifetime_s,
        )
        return await self._ask(sock, request, lambda data: parse_pcp_map(data, self._nonce, internal_port))

    async def _map_by_pmp(
        self, sock: socket.socket, internal_port: int, external_port: int, lifetime_s: int
    ) -> Mapped | GatewayRefused:
        request = pmp_map_request(internal_port, external_port, lifetime_s)
        parse: Callable[[bytes], Mapped | GatewayRefused | None]
        parse = partial(parse_pmp_map, internal_port=internal_port)
        mapped: Mapped | GatewayRefused | None = await self._ask(sock, request, parse)
        if mapped is None:
            return GatewayRefused(code=-1, reason="the router answers neither PCP nor NAT-PMP")
        if isinstance(mapped, GatewayRefused):
            return mapped
        address = await self._ask(sock, pmp_address_request(), parse_pmp_address)
        ip = address if isinstance(address, str) else None
        return Mapped(external_port=mapped.external_port, lifetime_s=mapped.lifetime_s, external_ip=ip)

    async def _ask(self, sock: socket.socket, request: bytes, parse: Callable[[bytes], T | None]) -> T | None:
        """The first answer that parses, or `None`; the socket is connected, so only the router is heard."""
        for attempt in range(self._tries):
            with anyio.move_on_after(self._first_wait_s * 2**attempt):
                try:
                    sock.send(request)
                    while True:
                        await anyio.wait_readable(sock)
                        answer = parse(sock.recv(1200))
                        if answer is not None:
                            return answer
                except OSError:
                    return None  # nobody listens on that port of the router
        return None


def judge(protocol: str, result: Mapped | GatewayRefused) -> MappingOutcome:
    """What the router's answer means to the owner."""
    if isinstance(result, GatewayRefused):
        return MappingOutcome(state=MappingState.FAILED, explanation=result.reason, protocol=protocol)
    ip = parse_ip(result.external_ip) if result.external_ip else None
    is_double = ip is not None and not ip.is_global
    opened = f"The router opened port {result.external_port}, but its own address {ip} is"
    if is_double and ip in _CARRIER_NAT:
        explanation = (
            f"{opened} shared among customers of the provider (carrier-grade NAT), so others cannot reach "
            "it. Ask the provider for a public address or IPv6; until then this peer takes part as a leaf."
        )
    elif is_double:
        explanation = (
            f"{opened} private: there is a second router in front of it (double NAT). Forward the port on "
            "that one too, or set one of them to bridge mode; until then this peer takes part as a leaf."
        )
    else:
        where = f"{ip}" if ip else "an address it did not tell"
        explanation = f"The router forwards UDP port {result.external_port} of {where} here ({protocol})."
    return MappingOutcome(
        state=MappingState.DOUBLE_NAT if is_double else MappingState.MAPPED,
        explanation=explanation,
        protocol=protocol,
        external_ip=result.external_ip,
        external_port=result.external_port,
        lifetime_s=result.lifetime_s,
    )


class PortMapper:
    """Keeps one mapping alive while `run` runs, and gives it back at the end."""

    def __init__(self, gateways: list[tuple[str, PortGateway]], port: int) -> None:
        self._gateways = gateways
        self._port = port
        self._held: tuple[PortGateway, int] | None = None
        self.outcome: MappingOutcome | None = None

    async def map_once(self) -> MappingOutcome:
        """Ask each kind of router in turn; the one that answered last time first."""
        wanted = self._held[1] if self._held else self._port
        ordered = sorted(self._gateways, key=lambda pair: self._held is None or pair[1] is not self._held[0])
        failures = []
        for kind, gateway in ordered:
            result = await gateway.map(self._port, wanted, LIFETIME_S)
            name = gateway.protocol if isinstance(gateway, DatagramGateway) else kind
            if isinstance(result, Mapped):
                self._held = (gateway, result.external_port)
                self.outcome = judge(name, result)
                return self.outcome
            failures.append(f"{name}: {result.reason}")
        self._held = None
        self.outcome = MappingOutcome(
            state=MappingState.FAILED,
            explanation="No port could be opened on the router ("
            + "; ".join(failures or ["none found"])
            + ")."
            f" Forward UDP port {self._port} by hand, or continue as a leaf.",
        )
        return self.outcome

    async def run(self, on_outcome: Callable[[MappingOutcome], Awaitable[None]]) -> None:
        """Until cancelled; reports each outcome that differs from the one before."""
        before: MappingOutcome | None = None
        try:
            while True:
                outcome = await self.map_once()
                if outcome != before:
                    log.info("port mapping state=%s explanation=%s", outcome.state.value, outcome.explanation)
                    await on_outcome(outcome)
                before = outcome
                is_failed = outcome.state is MappingState.FAILED
                lease_s = max(outcome.lifetime_s, LIFETIME_SHORTEST_S)
                await anyio.sleep(RETRY_AFTER_S if is_failed else lease_s / 2)
        finally:
            with anyio.move_on_after(2, shield=True):
                await self.release()

    async def release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            await held[0].unmap(held[1])
