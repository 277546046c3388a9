"""What do routers do with packets of strangers? Each kind that volunteers have, as rules of nftables and a daemon.

A router lets answers in. Beyond that it may translate addresses in ways that let others through (the four classes of
RFC 3489, still the words that people use), forward ports by hand, or by asking (miniupnpd). Where a mapping is
remembered by a set with a timeout, any packet that leaves renews it, as in a cheap router.
"""

from dataclasses import dataclass

HOME_LAN, CARRIER_LAN = "192.168.1", "100.64.0"
RING_PORT = 4484
_MAPPING_S = 120
"""RFC 4787, 4.3: not less than two minutes; many routers keep to that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Behaviour:
    v4: bool = True
    v6: bool = False
    """A prefix for its hosts, behind a firewall."""
    filters: str = "port"
    """Which strangers come in where a host has sent from: "none" of them is filtered (full cone), by "address", by
    "port" (what Linux does)."""
    is_symmetric: bool = False
    """Another outside port for each destination."""
    forwarded: tuple[str, ...] = ()
    """Protocols that the owner has forwarded by hand, at the ring's port, to the first host."""
    asks_by: tuple[str, ...] = ()
    """"upnp", "pcp": how hosts may have ports forwarded; "pinholes": by UPnP, and for IPv6 alone."""
    hairpins: bool = False
    """Whether its own hosts reach each other at its outside address."""
    loss: float = 0.0


def rules(one: Behaviour, lan: str) -> str:
    """All of its rules; what was there before is gone."""
    first = f"{lan}.10"
    random = " fully-random" if one.is_symmetric else ""
    forwards = "".join(
        f'  iifname "wan" {protocol} dport {RING_PORT} dnat ip to {first}\n' for protocol in one.forwarded
    )
    hairpin = "".join(
        f'  iifname "lan" fib daddr type local {protocol} dport {RING_PORT} dnat ip to {first}\n'
        for protocol in one.forwarded
        if one.hairpins
    )
    masquerade = '  oifname "lan" ct status dnat iifname "lan" masquerade\n' if one.hairpins else ""
    # miniupnpd 2.3.1 answers PCP by IPv6 also where it is switched off.
    deaf = "" if "pcp" in one.asks_by else '  iifname "lan" udp dport 5351 drop\n'
    deaf += '  iifname "lan" ip protocol udp udp dport 1900 drop\n' if "pinholes" in one.asks_by else ""
    loses = f"numgen random mod 1000 < {round(one.loss * 1000)} drop"
    losses = f'  iifname "wan" {loses}\n  oifname "wan" {loses}\n' if one.loss else ""
    return f"""flush ruleset
table inet lab_faults {{
 chain forward {{ type filter hook forward priority -10; policy accept;
 }}
 chain losses {{ type filter hook forward priority -9; policy accept;
{losses} }}
}}
table inet filter {{
{_memory(one)}
 chain miniupnpd {{ }}
 chain prerouting_miniupnpd {{ }}
 chain postrouting_miniupnpd {{ }}
 chain input {{ type filter hook input priority 0; policy accept;
  iifname "wan" meta nfproto ipv4 ct state new drop
{deaf} }}
 chain forward {{ type filter hook forward priority 0; policy drop;
{_remember(one)}  ct state established,related accept
  iifname "lan" accept
  ct status dnat accept
  meta l4proto ipv6-icmp accept
  jump miniupnpd
 }}
 chain prerouting {{ type nat hook prerouting priority dstnat; policy accept;
  jump prerouting_miniupnpd
{forwards}{hairpin}{_let_in(one)} }}
 chain postrouting {{ type nat hook postrouting priority srcnat; policy accept;
  jump postrouting_miniupnpd
{masquerade}  meta nfproto ipv4 oifname "wan" masquerade{random}
 }}
}}
"""


_KEYS = {"none": "inet_service", "address": "ipv4_addr . inet_service"}


def _memory(one: Behaviour) -> str:
    """Who sent from which port (and to whom): strangers who fit are let in there."""
    if one.filters == "port" or not one.v4:
        return ""
    return "".join(
        f" map sent_{protocol} {{ type {_KEYS[one.filters]} : ipv4_addr; size 4096; flags dynamic,timeout;"
        f" timeout {_MAPPING_S}s; }}\n"
        for protocol in ("tcp", "udp")
    )


def _remember(one: Behaviour) -> str:
    if one.filters == "port" or not one.v4:
        return ""
    to = "ip daddr . " if one.filters == "address" else ""
    return "".join(
        f'  meta nfproto ipv4 iifname "lan" oifname "wan" update @sent_{protocol}'
        f" {{ {to}{protocol} sport : ip saddr }}\n"
        for protocol in ("tcp", "udp")
    )


def _let_in(one: Behaviour) -> str:
    if one.filters == "port" or not one.v4:
        return ""
    source = "ip saddr . " if one.filters == "address" else ""
    return "".join(
        f'  meta nfproto ipv4 iifname "wan" dnat ip to {source}{protocol} dport map @sent_{protocol}\n'
        for protocol in ("tcp", "udp")
    )


def daemon_config(one: Behaviour, lan: str) -> str | None:
    """Of miniupnpd; None where nobody may ask."""
    if not one.asks_by:
        return None
    yes = {way: "yes" if way in one.asks_by else "no" for way in ("upnp", "pcp")}
    if "pinholes" in one.asks_by:
        yes["upnp"] = "yes"
    return f"""ext_ifname=wan
listening_ip=lan
port=0
enable_upnp={yes["upnp"]}
enable_natpmp={yes["pcp"]}
secure_mode=yes
system_uptime=no
min_lifetime=120
max_lifetime=86400
uuid=7448838b-515e-4d25-970e-8c459bed5619
serial=1
model_number=1
allow 1024-65535 {lan}.0/24 1024-65535
deny 0-65535 0.0.0.0/0 0-65535
"""
