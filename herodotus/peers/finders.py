"""How does a daemon find the peers of its network? On the local network, at the public rendezvous, by its router."""

import socket
from collections.abc import Callable, Sequence
from functools import partial
from ipaddress import ip_address
from random import Random

from dht.discovery.kademlia_rendezvous import KademliaRendezvous, KademliaSettings
from dht.discovery.lan import LanDiscovery, LanSettings, ZeroconfLan
from dht.discovery.overlay_protocol import REQUESTS_PER_S
from dht.discovery.port_mapping import DatagramGateway, PortGateway, default_gateway
from dht.discovery.rendezvous import Rendezvous
from dht.discovery.upnp import UpnpGateway
from dht.endpoint import socket_address
from dht.finding import Finders
from herodotus.peers.contact_names import places_of
from herodotus.peers.membership import FinderParts

RENDEZVOUS_PORT_OFFSET = 2000
_REQUESTS_OF_ONE_MACHINE = 2_000.0  # a second: all of a test's overlay share one prefix


def finders_of(parts: FinderParts, wall_clock: Callable[[], float], chance: Random) -> Finders:
    return Finders(
        given=partial(places_of, parts.given, is_ipv6=parts.is_ipv6),
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
        listen_host=parts.listen.host,
        listen_port=port + RENDEZVOUS_PORT_OFFSET,
        public_endpoint=(host, port + RENDEZVOUS_PORT_OFFSET),
        contacts=[(known_host, known_port + RENDEZVOUS_PORT_OFFSET) for known_host, known_port in known],
        state_path=parts.state,
        requests_per_s=_REQUESTS_OF_ONE_MACHINE if parts.is_one_machine else REQUESTS_PER_S,
    )
    return KademliaRendezvous(settings, validate=parts.validate, wall_clock=wall_clock, chance=chance)


def router_gateways() -> Sequence[tuple[str, PortGateway]]:
    gateway = default_gateway()
    gateways: list[tuple[str, PortGateway]] = [("PCP", DatagramGateway(gateway))] if gateway else []
    return [*gateways, ("UPnP", UpnpGateway())]


def outgoing_host() -> str:
    """The address of the interface that a datagram to the internet would leave by; none is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # TEST-NET-1: nobody's
        except OSError:
            return "127.0.0.1"
        host: str = probe.getsockname()[0]
        return host
