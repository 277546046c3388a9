"""What do NAT-PMP (RFC 6886) and PCP (RFC 6887) look like on the wire? UDP mappings only; no I/O.

Both speak to UDP port 5351 of the router. Anybody who can spoof the router's address can answer, so
lengths, versions, opcodes, nonce and ports are checked, and what does not fit is `None`.
"""

import ipaddress
import struct
from dataclasses import dataclass

GATEWAY_PORT = 5351
NONCE_BYTES = 12
_PMP_UDP = 1
_PCP_MAP = 1
_UDP = 17
_RESULTS = {
    0: "done",
    1: "this version is not spoken by the router",
    2: "the router refuses: port mapping is switched off in its settings, or not for this machine",
    3: "the router has no connection of its own",
    4: "the router has no room for more mappings",
    5: "the router does not know this request",
}
_PCP_RESULTS = {
    2: "the router refuses: port mapping is switched off in its settings, or not for this machine",
    7: "the router's connection is down",
    8: "the router has no room for more mappings",
    10: "this machine has used up its mappings",
    11: "the router cannot give the wanted outside port",
    12: "another router stands between this machine and the one that answered",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Mapped:
    external_port: int
    lifetime_s: int
    external_ip: str | None = None
    """PCP says it with the mapping; NAT-PMP is asked for it apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ExternalAddress:
    ip: str


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayRefused:
    code: int
    reason: str


def pmp_address_request() -> bytes:
    return struct.pack("!BB", 0, 0)


def pmp_map_request(internal_port: int, external_port: int, lifetime_s: int) -> bytes:
    return struct.pack("!BBHHHI", 0, _PMP_UDP, 0, internal_port, external_port, lifetime_s)


def _pmp_result(data: bytes, opcode: int) -> int | None:
    if len(data) < 4 or data[0] != 0 or data[1] != 128 + opcode:
        return None
    code: int = struct.unpack_from("!H", data, 2)[0]
    return code


def parse_pmp_address(data: bytes) -> ExternalAddress | GatewayRefused | None:
    code = _pmp_result(data, 0)
    if code is None:
        return None
    if code:
        return GatewayRefused(code=code, reason=_RESULTS.get(code, f"the router answered with code {code}"))
    if len(data) != 12:
        return None
    return ExternalAddress(ip=str(ipaddress.IPv4Address(data[8:12])))


def parse_pmp_map(data: bytes, internal_port: int) -> Mapped | GatewayRefused | None:
    code = _pmp_result(data, _PMP_UDP)
    if code is None:
        return None
    if code:
        return GatewayRefused(code=code, reason=_RESULTS.get(code, f"the router answered with code {code}"))
    if len(data) != 16:
        return None
    port, external_port, lifetime_s = struct.unpack_from("!HHI", data, 8)
    if port != internal_port or (external_port == 0 and lifetime_s > 0):
        return None
    return Mapped(external_port=external_port, lifetime_s=lifetime_s)


def pcp_map_request(
    *, nonce: bytes, client_ip: str, internal_port: int, external_port: int, lifetime_s: int
) -> bytes:
    ip = ipaddress.ip_address(client_ip)
    client = ip.packed if ip.version == 6 else b"\0" * 10 + b"\xff\xff" + ip.packed
    any_address = b"\0" * 16 if ip.version == 6 else b"\0" * 10 + b"\xff\xff" + bytes(4)
    header = struct.pack("!BBHI", 2, _PCP_MAP, 0, lifetime_s) + client
    return header + nonce + struct.pack("!B3xHH", _UDP, internal_port, external_port) + any_address


def parse_pcp_map(data: bytes, nonce: bytes, internal_port: int) -> Mapped | GatewayRefused | None:
    """`GatewayRefused` with code 1 where the router speaks NAT-PMP only (version 0: RFC 6886, 3.5)."""
    if len(data) >= 4 and data[0] == 0:
        return GatewayRefused(code=1, reason=_RESULTS[1])
    if len(data) < 24 or len(data) > 1100 or data[0] != 2 or data[1] != 128 + _PCP_MAP:
        return None
    code, lifetime_s = data[3], struct.unpack_from("!I", data, 4)[0]
    if code:
        default = f"the router answered with code {code}"
        return GatewayRefused(code=code, reason=_RESULTS[1] if code == 1 else _PCP_RESULTS.get(code, default))
    if len(data) < 60 or data[24 : 24 + NONCE_BYTES] != nonce or data[36] != _UDP:
        return None
    port, external_port = struct.unpack_from("!HH", data, 40)
    if port != internal_port or (external_port == 0 and lifetime_s > 0):
        return None
    ip = ipaddress.IPv6Address(data[44:60])
    external = str(ip.ipv4_mapped or ip)
    return Mapped(external_port=external_port, lifetime_s=lifetime_s, external_ip=external)
