"""Which addresses count as one place, and how often may a place ask?

A stranger chooses ports and identities freely but addresses only at a price, so every limit of this package
is counted per prefix: /24 (IPv6 /56) for rates, /16 (IPv6 /32) for diversity.
"""

import hashlib
import ipaddress
from collections import OrderedDict

PREFIXES_MAX = 4096
"""Token buckets kept; 4,096 x some 200 B stays below a megabyte. The least recently used is forgotten."""

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


def rate_prefix(text: str) -> bytes:
    """What shares one token bucket: /24, or /56 of IPv6."""
    ip = parse_ip(text)
    if ip is None:
        return b""
    return ip.packed[:3] if ip.version == 4 else ip.packed[:7]


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


class PrefixBuckets:
    """Token buckets per rate prefix: `rate_per_s` in the long run, as many at once."""

    def __init__(self, rate_per_s: float, prefixes_max: int = PREFIXES_MAX) -> None:
        self._rate_per_s = rate_per_s
        self._prefixes_max = prefixes_max
        self._buckets: OrderedDict[bytes, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, host: str, now: float) -> bool:
        prefix = rate_prefix(host)
        tokens, since = self._buckets.pop(prefix, (self._rate_per_s, now))
        tokens = min(self._rate_per_s, tokens + max(0.0, now - since) * self._rate_per_s)
        is_allowed = tokens >= 1.0
        self._buckets[prefix] = (tokens - 1.0 if is_allowed else tokens, now)
        if len(self._buckets) > self._prefixes_max:
            self._buckets.popitem(last=False)
        return is_allowed
