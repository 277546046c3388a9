"""Is this an address of the public internet? The rule of the SSRF guard, for every form an address
can take.
"""

import ipaddress

_PROTOCOL_ASSIGNMENTS = ipaddress.IPv4Network("192.0.0.0/24")
"""Never an origin's address; older Pythons call parts of it global."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")
"""RFC 8215: where in these the IPv4 address stands is a network's own affair, so none is an origin's."""
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")
_IPV4_TRANSLATED = ipaddress.IPv6Network("::ffff:0:0:0/96")
"""RFC 7915, 2.1; a translator on the way takes it for the address in it."""
_NOBODYS = (ipaddress.IPv6Network("3fff::/20"), ipaddress.IPv6Network("5f00::/16"))
"""For documentation (RFC 9637) and segment routing (RFC 9602); older Pythons call both global."""


def is_public(text: str) -> bool:
    """False for anything else, and for what is no address. Embedded IPv4 addresses are judged as
    what they reach.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return _is_public_ipv4(address)
    embedded = _embedded(address)
    if embedded is not None:
        return _is_public_ipv4(embedded)
    if address in _NAT64_LOCAL or any(address in network for network in _NOBODYS):
        return False
    return address.is_global and not address.is_multicast and not address.is_site_local


def is_literal(host: str) -> bool:
    """Whether a canonical URL's host is an address and no name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _is_public_ipv4(address: ipaddress.IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and address not in _PROTOCOL_ASSIGNMENTS


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or address in _IPV4_COMPATIBLE or address in _IPV4_TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None
