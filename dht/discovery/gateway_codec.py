"""What do NAT-PMP (RFC 6886) and PCP (RFC 6887) look like on the wire? Port mappings and the router's clock; no I/O.

Both speak to UDP port 5351 of the router. Anybody who can spoof the router's address can answer, so
lengths, versions, opcodes, nonce and ports are checked, and what does not fit is `None`.
"""

import ipaddress
import struct
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

GATEWAY_PORT = 5351
NONCE_BYTES = 12
_PCP_ANNOUNCE, _PCP_MAP = 0, 1
_RESULTS = {
    0: "done",
    1: "this version is not spoken by the router",
    2: "the router refuses: port mapping is switched off in its settings, or not for this machine",
    3: "the router has no connection of its own",
    4: "the router has no room for more mappings",
    5: "the router does not know this request",
}
_PCP_RESULTS = {
    1: _RESULTS[1],
    2: "the router refuses: port mapping is switched off in its settings, or not for this machine",
    7: "the router's connection is down",
    8: "the router has no room for more mappings",
    10: "this machine has used up its mappings",
    11: "the router cannot give the wanted outside port",
    12: "another router stands between this machine and the one that answered",
}


class Transport(Enum):
    """By the numbers of the internet's protocols, as PCP names them."""

    TCP = 6
    UDP = 17


_PMP_OPCODES = {Transport.UDP: 1, Transport.TCP: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    external_port: int
    lifetime_s: int
    external_ip: str | None = None
    """PCP says it with the mapping; NAT-PMP is asked for it apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRefused:
    code: int
    reason: str


def pmp_address_request() -> bytes:
    return struct.pack("!BB", 0, 0)


def pmp_map_request(
    internal_port: int, external_port: int, lifetime_s: int, transport: Transport = Transport.UDP
) -> bytes:
    opcode = _PMP_OPCODES[transport]
    return struct.pack("!BBHHHI", 0, opcode, 0, internal_port, external_port, lifetime_s)


def _refused(code: int, reasons: dict[int, str]) -> GatewayRefused:
    return GatewayRefused(code=code, reason=reasons.get(code, f"the router answered with code {code}"))


def _parse_pmp(data: bytes, opcode: int, size: int) -> GatewayRefused | bool:
    """Is it a whole answer to this question?"""
    if len(data) < 4 or data[0] != 0 or data[1] != 128 + opcode:
        return False
    (code,) = struct.unpack_from("!H", data, 2)
    return _refused(code, _RESULTS) if code else len(data) == size


def parse_pmp_address(data: bytes) -> str | GatewayRefused | None:
    answer = _parse_pmp(data, 0, 12)
    if isinstance(answer, GatewayRefused):
        return answer
    return str(ipaddress.IPv4Address(data[8:12])) if answer else None


def parse_pmp_map(
    data: bytes, internal_port: int, transport: Transport = Transport.UDP
) -> Mapped | GatewayRefused | None:
    answer = _parse_pmp(data, _PMP_OPCODES[transport], 16)
    if isinstance(answer, GatewayRefused):
        return answer
    port, external_port, lifetime_s = struct.unpack_from("!HHI", data, 8) if answer else (None, 0, 0)
    if port != internal_port or (external_port == 0 and lifetime_s > 0):
        return None
    return Mapped(external_port=external_port, lifetime_s=lifetime_s)


def _pcp_header(opcode: int, lifetime_s: int, client_ip: str) -> bytes:
    ip = ipaddress.ip_address(client_ip)
    client = ip.packed if ip.version == 6 else b"\0" * 10 + b"\xff\xff" + ip.packed
    return struct.pack("!BBHI", 2, opcode, 0, lifetime_s) + client


def pcp_announce_request(client_ip: str) -> bytes:
    """Asks for nothing but the answer's head, which has the router's clock (RFC 6887, 14.1)."""
    return _pcp_header(_PCP_ANNOUNCE, 0, client_ip)


def parse_epoch(data: bytes) -> int | None:
    """For how many seconds the router has remembered mappings: in each answer of PCP, also where it does not know
    what was asked, and in that of NAT-PMP to the question for its address."""
    if 24 <= len(data) <= 1100 and data[:2] == bytes((2, 128 + _PCP_ANNOUNCE)):
        (epoch_s,) = struct.unpack_from("!I", data, 8)
    elif len(data) >= 8 and data[:2] == bytes((0, 128)):
        (epoch_s,) = struct.unpack_from("!I", data, 4)
    else:
        return None
    return int(epoch_s)


class Epoch(NamedTuple):
    """What the router's clock said, and when by ours."""

    router_s: int
    at: float

    def has_restarted(self, before: "Epoch") -> bool:
        """The router's clock fell, or did not go on as ours did: what it was asked is forgotten (RFC 6887, 8.5)."""
        if self.router_s < before.router_s - 1:
            return True
        ours, theirs = self.at - before.at, self.router_s - before.router_s
        return ours + 2 < theirs - theirs / 16 or theirs + 2 < ours - ours / 16


def pcp_map_request(
    *,
    nonce: bytes,
    client_ip: str,
    internal_port: int,
    external_port: int,
    lifetime_s: int,
    transport: Transport = Transport.UDP,
) -> bytes:
    any_address = b"\0" * 16 if ":" in client_ip else b"\0" * 10 + b"\xff\xff" + bytes(4)
    header = _pcp_header(_PCP_MAP, lifetime_s, client_ip)
    return header + nonce + struct.pack("!B3xHH", transport.value, internal_port, external_port) + any_address


def parse_pcp_map(
    data: bytes, nonce: bytes, internal_port: int, transport: Transport = Transport.UDP
) -> Mapped | GatewayRefused | None:
    """`GatewayRefused` with code 1 where the router speaks NAT-PMP only (version 0: RFC 6886, 3.5)."""
    if len(data) >= 4 and data[0] == 0:
        return _refused(1, _RESULTS)
    if len(data) < 24 or len(data) > 1100 or data[0] != 2 or data[1] != 128 + _PCP_MAP:
        return None
    code, lifetime_s = data[3], struct.unpack_from("!I", data, 4)[0]
    if code:
        return _refused(code, _PCP_RESULTS)
    if len(data) < 60 or data[24 : 24 + NONCE_BYTES] != nonce or data[36] != transport.value:
        return None
    port, external_port = struct.unpack_from("!HH", data, 40)
    if port != internal_port or (external_port == 0 and lifetime_s > 0):
        return None
    ip = ipaddress.IPv6Address(data[44:60])
    external = str(ip.ipv4_mapped or ip)
    return Mapped(external_port=external_port, lifetime_s=lifetime_s, external_ip=external)
