"""Can the router be asked to let others in? PCP, then NAT-PMP, then UPnP; renewed at half time.

A mapping is a lease of an hour, so that a peer that crashed leaves no hole for long. A router that was switched off has
forgotten it: PCP and NAT-PMP tell their clock, which begins again then, and UPnP tells whether the mapping is there;
the router is asked again at once. Whatever comes out is a value with a sentence for the owner; membership is not
decided here but by dial-backs (`dht.core.reachability`).
"""

import ipaddress
import logging
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from enum import Enum
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

import anyio

from dht.discovery.addresses import parse_ip
from dht.discovery.gateway_codec import (
    GATEWAY_PORT,
    NONCE_BYTES,
    Epoch,
    GatewayRefused,
    Mapped,
    Transport,
    parse_epoch,
    parse_pcp_map,
    parse_pmp_address,
    parse_pmp_map,
    pcp_announce_request,
    pcp_map_request,
    pmp_address_request,
    pmp_map_request,
)

log = logging.getLogger(__name__)

LIFETIME_S = 3600
LIFETIME_SHORTEST_S = 120
"""A router that grants less than two minutes is renewed at this pace and no faster."""
RETRY_AFTER_S = 900.0
AGAIN_S = 15.0
"""Less than lies between the two failed tests that end a membership."""
EPOCH_EVERY_S = 15.0
"""To the router alone, 24 bytes each way. Others find the peer closed after a minute."""
HELD_EVERY_S = 30.0
"""By UPnP: three requests of a kilobyte each to a machine that may be slow, inside the house. Twice within the minute
after which others find the peer closed."""
LOSSES_BELIEVED = 2
"""In a row. A router whose clock stands still, or that denies what it holds, would be asked for its mappings at each
look."""
ROUTES = Path("/proc/net/route")
ROUTES_V6 = Path("/proc/net/ipv6_route")
_CARRIER_NAT = ipaddress.ip_network("100.64.0.0/10")
T = TypeVar("T")


class MappingState(Enum):
    MAPPED = "mapped"
    HALF = "half"
    """Datagrams come in and streams do not."""
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
        self, internal_port: int, external_port: int, lifetime_s: int, transport: Transport
    ) -> Mapped | GatewayRefused: ...
    async def unmap(self, external_port: int, transport: Transport) -> None: ...
    async def epoch_s(self) -> int | None:
        """For how long the router has remembered mappings, by its own clock; None where it does not say."""

    async def holds(self, external_port: int, transport: Transport) -> bool | None:
        """Whether our mapping is there, by the word of a router without a clock; None where it does not say."""


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


def default_gateway_v6() -> str | None:
    """The same for IPv6, with its interface: a router's address is good on one link alone."""
    try:
        rows = [line.split() for line in ROUTES_V6.read_text(encoding="ascii").splitlines()]
    except OSError:
        return None
    for to, bits, _, _, via, _, _, _, flags, interface in (row for row in rows if len(row) == 10):
        if int(to, 16) == 0 == int(bits, 16) and int(flags, 16) & 2:
            router = ipaddress.IPv6Address(bytes.fromhex(via))
            return f"{router}%{interface}" if router.is_link_local else str(router)
    return None


class _Wanted(NamedTuple):
    internal_port: int
    external_port: int
    lifetime_s: int
    transport: Transport


class DatagramGateway:
    """PCP first, NAT-PMP where the router says that it speaks only that, or is silent."""

    def __init__(
        self,
        host: str,
        port: int = GATEWAY_PORT,
        *,
        inside: str = "",
        first_wait_s: float = 0.25,
        tries: int = 4,
    ) -> None:
        """`inside` is which of our addresses to open; empty: the one that leads to the router. Of IPv6 it must be said:
        to a router on its link a peer speaks from another one.
        """
        self._inside = inside
        self._address = (host, port)
        # RFC 6886 3.1 doubles from 250 ms through nine tries, a minute in all: four tell a router from none.
        self._first_wait_s, self._tries = first_wait_s, tries
        self._nonces = {transport: secrets.token_bytes(NONCE_BYTES) for transport in Transport}
        self._internal_port = 0
        self.protocol = "PCP"

    async def map(
        self, internal_port: int, external_port: int, lifetime_s: int, transport: Transport = Transport.UDP
    ) -> Mapped | GatewayRefused:
        self._internal_port = internal_port
        wanted = _Wanted(internal_port, external_port, lifetime_s, transport)
        with self._socket() as sock:
            try:
                self._connected(sock)
            except OSError as error:
                return GatewayRefused(code=-1, reason=f"no way to the router: {error.strerror}")
            result = await self._map_by_pcp(sock, wanted)
            if isinstance(result, Mapped) or (result is not None and result.code != 1):
                self.protocol = "PCP"
                return result
            self.protocol = "NAT-PMP"
            return await self._map_by_pmp(sock, wanted)

    async def unmap(self, external_port: int, transport: Transport = Transport.UDP) -> None:
        del external_port
        await self.map(self._internal_port, 0, 0, transport)

    async def epoch_s(self) -> int | None:
        with self._socket() as sock:
            try:
                own = self._connected(sock)
            except OSError:
                return None
            is_pcp = self.protocol == "PCP"
            return await self._ask(
                sock, pcp_announce_request(own) if is_pcp else pmp_address_request(), parse_epoch
            )

    async def holds(self, external_port: int, transport: Transport) -> bool | None:
        """Neither protocol can ask that without asking for a mapping."""
        del external_port, transport
        return None

    def _connected(self, sock: socket.socket) -> str:
        """Our address, as the router sees it. Raises OSError: it is gone, or the way to the router."""
        if self._inside:
            sock.bind((self._inside, 0))
        sock.connect(self._address)
        return str(sock.getsockname()[0])

    def _socket(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self._address[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        sock.setblocking(False)
        return sock

    async def _map_by_pcp(self, sock: socket.socket, wanted: "_Wanted") -> Mapped | GatewayRefused | None:
        port, transport, nonce = wanted.internal_port, wanted.transport, self._nonces[wanted.transport]
        request = pcp_map_request(
            nonce=nonce,
            client_ip=sock.getsockname()[0],
            internal_port=port,
            external_port=wanted.external_port,
            lifetime_s=wanted.lifetime_s,
            transport=transport,
        )
        return await self._ask(sock, request, lambda data: parse_pcp_map(data, nonce, port, transport))

    async def _map_by_pmp(self, sock: socket.socket, wanted: "_Wanted") -> Mapped | GatewayRefused:
        request = pmp_map_request(*wanted)
        parse: Callable[[bytes], Mapped | GatewayRefused | None]
        parse = partial(parse_pmp_map, internal_port=wanted.internal_port, transport=wanted.transport)
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
        explanation = (
            f"The router forwards UDP and TCP port {result.external_port} of {where} here ({protocol})."
        )
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
        self._has_tcp = False
        self._asked_at = float("-inf")
        self._again = anyio.Event()
        self._epoch: tuple[PortGateway, Epoch] | None = None
        self._looked_at = float("-inf")
        self._losses = 0
        self._is_forgotten = False
        self.outcome: MappingOutcome | None = None

    def ask_again(self) -> None:
        """Strangers do not get through: perhaps the router has started anew, and forgotten us."""
        if anyio.current_time() - self._asked_at >= AGAIN_S:
            self._again.set()

    async def map_once(self) -> MappingOutcome:
        """Ask each kind of router in turn; the one that answered last time first."""
        wanted = self._held[1] if self._held else self._port
        ordered = sorted(self._gateways, key=lambda pair: self._held is None or pair[1] is not self._held[0])
        failures = []
        for kind, gateway in ordered:
            result, tcp = await self._map_both(gateway, wanted)
            name = gateway.protocol if isinstance(gateway, DatagramGateway) else kind
            if isinstance(result, Mapped):
                self._held = (gateway, result.external_port)
                self._has_tcp = isinstance(tcp, Mapped)
                self.outcome = judge(name, result)
                if isinstance(tcp, GatewayRefused):
                    self.outcome = self._half(self.outcome, tcp)
                return self.outcome
            failures.append(f"{name}: {result.reason}")
        self._held = None
        self.outcome = MappingOutcome(
            state=MappingState.FAILED,
            explanation="No port could be opened on the router ("
            + "; ".join(failures or ["none found"])
            + ").",
        )
        return self.outcome

    async def _map_both(
        self, gateway: PortGateway, wanted: int
    ) -> tuple[Mapped | GatewayRefused, Mapped | GatewayRefused]:
        """By UDP and TCP, at one outside port, because a peer's record names one."""
        by_udp = await gateway.map(self._port, wanted, LIFETIME_S, Transport.UDP)
        if isinstance(by_udp, GatewayRefused):
            return by_udp, by_udp
        by_tcp = await gateway.map(self._port, by_udp.external_port, LIFETIME_S, Transport.TCP)
        if isinstance(by_tcp, Mapped) and by_tcp.external_port != by_udp.external_port:
            again = await gateway.map(self._port, by_tcp.external_port, LIFETIME_S, Transport.UDP)
            by_udp = again if isinstance(again, Mapped) else by_udp
            if by_udp.external_port != by_tcp.external_port:
                await gateway.unmap(by_tcp.external_port, Transport.TCP)
                reason = f"the router gives TCP another outside port than {by_udp.external_port}"
                return by_udp, GatewayRefused(code=-1, reason=reason)
        return by_udp, by_tcp

    def _half(self, outcome: MappingOutcome, refusal: GatewayRefused) -> MappingOutcome:
        explanation = (
            f"The router forwards UDP port {outcome.external_port} here, but not TCP ({refusal.reason}), and other"
            f" peers need both. In the router, forward TCP port {outcome.external_port} to port {self._port} of this"
            " machine by hand."
        )
        state = MappingState.HALF if outcome.state is MappingState.MAPPED else outcome.state
        return replace(outcome, state=state, explanation=explanation)

    async def run(self, on_outcome: Callable[[MappingOutcome], Awaitable[None]]) -> None:
        """Until cancelled; reports each outcome that differs from the one before, and that of a router which had
        forgotten us."""
        before: MappingOutcome | None = None
        try:
            while True:
                self._asked_at, self._again = anyio.current_time(), anyio.Event()
                outcome = await self.map_once()
                if outcome != before or self._is_forgotten:
                    log.info("port mapping state=%s explanation=%s", outcome.state.value, outcome.explanation)
                    await on_outcome(outcome)
                before, self._is_forgotten = outcome, False
                is_failed = outcome.state is MappingState.FAILED
                lease_s = max(outcome.lifetime_s, LIFETIME_SHORTEST_S)
                with anyio.move_on_after(RETRY_AFTER_S if is_failed else lease_s / 2):
                    await self._wait_forgotten()
        finally:
            with anyio.move_on_after(2, shield=True):
                await self.release()

    async def _wait_forgotten(self) -> None:
        """Until somebody asks, or the router shows that it has begun anew."""
        while not self._again.is_set():
            with anyio.move_on_after(EPOCH_EVERY_S):
                await self._again.wait()
            if not self._again.is_set() and self._held is not None and await self._has_forgotten(*self._held):
                log.info("the router has forgotten this peer")
                self._is_forgotten = True
                return

    async def _has_forgotten(self, gateway: PortGateway, external_port: int) -> bool:
        is_lost = await self._has_restarted(gateway)
        if is_lost is None:
            is_lost = await self._is_missing(gateway, external_port)
        if is_lost is None:
            return False
        self._losses = self._losses + 1 if is_lost else 0
        return is_lost and self._losses <= LOSSES_BELIEVED

    async def _has_restarted(self, gateway: PortGateway) -> bool | None:
        """None where it tells no time."""
        told_s = await gateway.epoch_s()
        if told_s is None:
            return None
        seen, before = Epoch(told_s, anyio.current_time()), self._epoch
        self._epoch = gateway, seen
        return before is not None and before[0] is gateway and seen.has_restarted(before[1])

    async def _is_missing(self, gateway: PortGateway, external_port: int) -> bool | None:
        """One of the mappings that it gave us; None where it does not say, or did so a moment ago."""
        if anyio.current_time() - self._looked_at < HELD_EVERY_S:
            return None
        is_held: bool | None = None
        for transport in self._transports:
            is_held = await gateway.holds(external_port, transport)
            if not is_held:
                break
        if is_held is None:
            return None
        self._looked_at = anyio.current_time()
        return not is_held

    @property
    def _transports(self) -> tuple[Transport, ...]:
        """That the router forwards here."""
        return (Transport.UDP, Transport.TCP) if self._has_tcp else (Transport.UDP,)

    async def release(self) -> None:
        held, self._held = self._held, None
        if held is not None:
            for transport in self._transports:
                await held[0].unmap(held[1], transport)
