"""Which addresses count as one place, and how often may a place ask?

A stranger chooses ports and identities freely but addresses only at a price, so every limit of this package
is counted per prefix: /24 (IPv6 /56) for rates, /16 (IPv6 /32) for diversity.
"""

import hashlib
import ipaddress

Endpoint = tuple[str, int]


def parse_ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address, an IPv4 one out of its IPv6 mapping; `None` for names, junk, multicast and 0.0.0.0."""
    try:
        ip = ipaddress.ip_address(text)
    except ValueError:
        return None
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return None if ip.is_multicast or ip.is_unspecified else ip


def wide_prefix(text: str) -> bytes:
    """What counts once where distinct networks are wanted: /16, or /32 of IPv6."""
    ip = parse_ip(text)
    if ip is None:
        return b""
    return ip.packed[:2] if ip.version == 4 else ip.packed[:4]


def overlay_node_id(host: str, port: int) -> bytes:
    """SHA-1(anchor || port): an identity that binds any answer from the address."""
    ip = parse_ip(host)
    if ip is None:
        raise ValueError(f"{host!r} is not the address of one host")
    anchor = ip.packed if ip.version == 4 else ip.packed[:8]
    return hashlib.sha1(anchor + port.to_bytes(2, "big"), usedforsecurity=False).digest()
