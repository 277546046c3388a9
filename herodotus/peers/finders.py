"""How does a daemon find the peers of its network? On the local network, at the public rendezvous, by its router."""

import socket
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from random import Random

from dht.core.ids import IPV4_BYTES
from dht.discovery.kademlia_rendezvous import KademliaRendezvous, KademliaSettings
from dht.discovery.lan import LanDiscovery, LanSettings, ZeroconfLan
from dht.discovery.overlay_protocol import REQUESTS_PER_S
from dht.discovery.pinholes import PinholeGateway
from dht.discovery.port_mapping import DatagramGateway, PortGateway, default_gateway, default_gateway_v6
from dht.discovery.rendezvous import Rendezvous
from dht.discovery.upnp import UpnpGateway
from dht.endpoint import socket_address
from dht.finding import Finders
from dht.udp import ANY_IPV4, ANY_IPV6
from herodotus.peers.contact_names import places_of
from herodotus.peers.membership import FinderParts

RENDEZVOUS_PORT_OFFSET = 2000
_REQUESTS_OF_ONE_MACHINE = 2_000.0  # a second: all of a test's overlay share one prefix


def finders_of(parts: FinderParts, wall_clock: Callable[[], float], chance: Random) -> Finders:
    return Finders(
        given=partial(places_of, parts.given, families=parts.families, network=parts.network),
        remembered=parts.remembered,
        lan=_lan(parts) if parts.settings.lan else LanDiscovery(),
        rendezvous=_rendezvous(parts, wall_clock, chance) if parts.settings.kademlia else Rendezvous(),
        times=parts.times,
        wall_clock=wall_clock,
        random=chance,
    )


def _lan(parts: FinderParts) -> LanDiscovery:
    host, port = socket_address(parts.address.host, parts.address.port)
    return ZeroconfLan(
        LanSettings(
            network=parts.network,
            peer_id=parts.peer,
            port=port,
            addresses=[host],
            interfaces=[host] if ip_address(host).is_loopback else [],
        )
    )


def _rendezvous(parts: FinderParts, wall_clock: Callable[[], float], chance: Random) -> Rendezvous:
    host, port = socket_address(parts.address.host, parts.address.port)
    given = [(one.host, one.port) for one in parts.given if one.port is not None and not one.is_name]
    known = [*given, *(one.endpoint for one in parts.remembered.in_order())]
    settings = KademliaSettings(
        network=parts.network,
        listen_host=_listening_for(parts),
        listen_port=port + RENDEZVOUS_PORT_OFFSET,
        public_endpoint=(host, port + RENDEZVOUS_PORT_OFFSET),
        contacts=[(known_host, known_port + RENDEZVOUS_PORT_OFFSET) for known_host, known_port in known],
        state_path=parts.state,
        requests_per_s=_REQUESTS_OF_ONE_MACHINE if parts.is_one_machine else REQUESTS_PER_S,
    )
    return KademliaRendezvous(settings, validate=parts.validate, wall_clock=wall_clock, chance=chance)


def _listening_for(parts: FinderParts) -> str:
    """The rendezvous has one socket, so it speaks the family of our first address."""
    if parts.listen.host != ANY_IPV6 or len(parts.address.host) != IPV4_BYTES:
        return parts.listen.host
    return ANY_IPV4


def router_gateways() -> Sequence[tuple[str, PortGateway]]:
    gateway = default_gateway()
    gateways: list[tuple[str, PortGateway]] = [("PCP", DatagramGateway(gateway))] if gateway else []
    return [*gateways, ("UPnP", UpnpGateway())]


def pinhole_gateways(host: str) -> Sequence[tuple[str, PortGateway]]:
    """A firewall has no port to give, but may be asked to let in what comes for an address (RFC 6887, 11.2)."""
    gateway = default_gateway_v6()
    by_pcp: list[tuple[str, PortGateway]] = (
        [("PCP", DatagramGateway(gateway, inside=host))] if gateway else []
    )
    return [*by_pcp, ("IGD 2", PinholeGateway(host))]


def outgoing_hosts() -> Sequence[str]:
    """The addresses that datagrams to the internet would leave by, one of a family at most; none is sent."""
    found = []
    for family, nobody in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):  # of documents
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((nobody, 9))
                found.append(str(probe.getsockname()[0]))
        except OSError:
            continue  # no such interface
    return found
