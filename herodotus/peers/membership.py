"""How do charter, settings and home become a node of the ring with its finders, and what does it report?

The part of the composition root that knows `dht`: everything else of the peer sees `dht.Ring`.
"""

import logging
from collections import Counter
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Collection,
    Hashable,
    Iterable,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_network
from pathlib import Path
from random import Random
from typing import Protocol

import anyio
import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact, NodePorts, NodeSettings, RingNode, open_node
from dht.core.ids import IPV4_BYTES, NetworkId, PeerKey
from dht.core.machine import NodeView
from dht.core.places import FORGOTTEN_DAYS, PlaceRules, Standing, day_from, moved, moves_at_will
from dht.core.reachability import Reachability
from dht.core.reader import Member
from dht.core.records import SECONDS_PER_DAY, Address, Birth, Line, PeerRecord, SignedRecord, Stay
from dht.core.rules import RingRules
from dht.dialback import DialBack
from dht.discovery.lan import LanDiscovery
from dht.discovery.port_mapping import MappingOutcome, MappingState, PortGateway, PortMapper
from dht.discovery.remembered import RememberedPeers
from dht.discovery.rendezvous import PublishedRecord, RendezvousTimes
from dht.endpoint import socket_address
from dht.finding import Finders, first_contacts, is_wildcard, keep_finding, record_facts, remember
from dht.identity import Verifier, peer_key
from dht.transport import TransportLimits
from dht.udp import ANY_IPV6, every_family
from dht.wire import encode_record
from herodotus.core.charter import Charter
from herodotus.core.errors import PortTaken, StorageFailure
from herodotus.core.invitation import CHARTER_BYTES, Invitation, InvitedContact, key_hash
from herodotus.core.ports import Clocks
from herodotus.core.settings.fields import HostPort, PeerDoor
from herodotus.core.settings.sections import DiscoverySettings, Settings
from herodotus.core.status import (
    NeighbourStatus,
    NodeStatus,
    PlacesStatus,
    RingStatus,
    SilentStatus,
    TrafficStatus,
)
from herodotus.core.whereabouts import LOOK_EVERY_S, Finding, Whereabouts
from herodotus.home.folder import Home
from herodotus.home.rotation import last_record, previous_key_life_s, retire_previous_key
from herodotus.home.second_copies import write_twice
from herodotus.peers.net.line import Port
from herodotus.peers.seat_book import SeatBook

logger = logging.getLogger(__name__)

_UNIQUE_LOCAL = ip_network("fc00::/7")
SILENT_S, SILENT_ROUNDS = 45, 3
"""A peer in a ring is asked, or answered, in each of its rounds of asking neighbours; one answer may be lost. Its
operator is to read within a minute that the line is cut."""
HEADERS_V4, HEADERS_V6 = 28, 48
"""Of IP and UDP, by the family of the first address; most datagrams of a peer are of it."""
DOORS_MAX = 3
"""Members that an invitation names: the line stays short enough to be read out."""
IPV6_VERSION = 6
_ANY_ADDRESS = Address(host=bytes(IPV4_BYTES), port=1)
"""Beside any of IPv4 the other line is that of IPv6."""
JOIN_PATIENCE_S = 3.0
"""How long the peer's other parts wait for the ring: readers are served even where no contact answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinderParts:
    """The parts from which finders are built."""

    settings: DiscoverySettings
    network: NetworkId
    peer: PeerKey
    listen: HostPort
    address: Address
    given: Sequence[PeerDoor]
    families: Collection[bool]
    """Of our own sockets, whether it is IPv6: addresses of another one are of no use."""
    remembered: RememberedPeers
    state: Path
    """A file for the rendezvous's memory."""
    validate: Callable[[bytes], PublishedRecord | None]
    is_one_machine: bool
    """All of the network's peers may share an address."""

    @property
    def times(self) -> RendezvousTimes:
        return RendezvousTimes(
            find_every_s=self.settings.rendezvous_find_s, publish_every_s=self.settings.rendezvous_publish_s
        )


class RingWorld(Clocks, Protocol):
    """A ring member's demands on the world."""

    @property
    def chance(self) -> Random: ...

    def claim(self, listen: HostPort, key: Ed25519PrivateKey) -> Port:
        """The port for the ring's datagrams and for calls, on which the key is proven. Raises OSError."""
        ...

    def outgoing_hosts(self) -> Sequence[str]:
        """The addresses of interfaces that lead to the internet, one of a family at most, that of IPv4 first."""
        ...

    def finders(self, parts: FinderParts) -> Finders: ...

    def gateways(self) -> Sequence[tuple[str, PortGateway]]:
        """Routers that may be asked to let other peers in, by how they are asked."""
        ...

    def pinholes(self, host: str) -> Sequence[tuple[str, PortGateway]]:
        """The same, for an address of ours that needs no mapping and may be behind a firewall: of IPv6."""
        ...

    @property
    def dial_back(self) -> DialBack: ...

    async def dial_stream(self, address: tuple[str, int], peer: PeerKey) -> bool:
        """Whether a stream there leads to the peer of this key."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MembershipParts:
    home: Home
    charter: Charter
    settings: Settings
    world: RingWorld
    key: Ed25519PrivateKey
    previous_key: Ed25519PrivateKey | None = field(default=None, repr=False)  # of a rotation, while it counts


class RingMembership:
    """The peer's part in the ring; `opened` holds it open."""

    def __init__(self, parts: MembershipParts) -> None:
        self._parts = parts
        self._ring = parts.settings.ring
        self.rules = rules_of(parts.charter, parts.settings)
        self._is_private = parts.charter.allow_private_addresses
        self._mapping: MappingOutcome | None = None
        self._mappers: list[PortMapper] = []
        """For our line by IPv4, and for that by IPv6."""
        self._random = parts.world.chance
        self.node: RingNode
        self.port: Port
        """The TCP side of the port, for calls; nobody answers there yet."""

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Inside the block the peer is in a ring: that of a peer it found, or its own until it finds one."""
        self.port = self._claimed(self._ring.listen)
        with closing(self.port):
            async with self._in_ring(HostPort(host=self._ring.listen.host, port=self.port.number)):
                yield

    @asynccontextmanager
    async def _in_ring(self, listen: HostPort) -> AsyncIterator[None]:
        hosts = self._parts.world.outgoing_hosts()
        address, is_guessed = own_address(listen, self._ring.advertise, hosts)
        last = self._last_record()
        if is_guessed:
            address = as_last_run(listen, address, last, hosts)
        others = () if self._ring.advertise else other_lines(listen, address, hosts)
        book, now = SeatBook(self._parts.home.seats, self._parts.world), self._parts.world.unix_s()
        keeps_seat = book.before.keeps_own(now)
        slot = first_slot(self._ring.slot, last, address, keeps_seat=keeps_seat)
        since, trail, seat = age_on(last, address, slot, self.rules.places, now, keeps_seat=keeps_seat)
        outgoing = [host for host in hosts if (":" in host) == (len(address.host) != IPV4_BYTES)]
        settings = NodeSettings(
            rules=self.rules,
            address=address,
            others=others,
            is_address_guessed=is_guessed,
            inside=outgoing[0] if outgoing else "",
            slot=slot,
            virtual_nodes=self._ring.virtual_nodes,
            incarnation=last.incarnation if last is not None else 0,  # else the clock alone makes us newer
            since=since,
            trail=trail,
            seat=seat,
            seats=book.memory,
            limits=TransportLimits.for_one_machine() if self._is_private else None,
            previous_key=self._parts.previous_key,
            dial_backs_wanted=self._parts.settings.discovery.dial_backs,
        )
        finders = self._finders(listen, address)
        ports = NodePorts(
            wall_clock=self._parts.world.unix_s,
            random=self._random,
            entropy=self._random.randbytes,
            on_record=self._keep_record,
            on_met=lambda contact: remember(finders, contact),
            on_failed_test=self._ask_routers_again,
            streamed_to=self._has_streamed_to,
            dial_back=self._parts.world.dial_back,
            dial_stream=self._parts.world.dial_stream,
        )
        async with (
            open_node(
                settings,
                self._parts.key,
                ports,
                every_family((listen.host, listen.port)),
                open_transport=self.port.datagrams,
            ) as self.node,
            book.kept(),
            anyio.create_task_group() as tasks,
        ):
            try:
                await finders.lan.start()
            except OSError as error:  # no interface that knows multicast: the other finders remain
                logger.warning("no discovery on the local network error=%s", error)
                finders = replace(finders, lan=LanDiscovery())
            try:
                asked = anyio.Event()
                tasks.start_soon(self._take_part, finders, asked)
                if self._parts.previous_key is not None:
                    tasks.start_soon(self._retire_previous_key)
                with anyio.move_on_after(JOIN_PATIENCE_S):
                    await asked.wait()
                if self._parts.settings.discovery.port_mapping:
                    tasks.start_soon(self._map_port, listen.port)
                if not self._ring.advertise:
                    tasks.start_soon(self._follow_other, listen, others)
                if is_guessed:
                    tasks.start_soon(self._watch_address, listen)
                yield
                self.node.leave()
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await finders.lan.stop()

    def _has_streamed_to(self, host: str) -> bool:
        arranged = self.port.arrangements
        return arranged is not None and arranged.has_dialled(host)

    async def _take_part(self, finders: Finders, asked: anyio.Event) -> None:
        await self.node.join(await first_contacts(finders, self.node.me.address))
        asked.set()
        await keep_finding(finders, self.node)

    async def _watch_address(self, listen: HostPort) -> None:
        """What the operator stated stays; a guess is looked at again, all the time."""
        world = self._parts.world

        def outgoing() -> bytes:
            """In the family of our first line, while we have an interface for that."""
            family, hosts = len(self.node.me.address.host), world.outgoing_hosts()
            same = [host for host in hosts if len(ip_address(host).packed) == family]
            return own_address(listen, "", same or hosts)[0].host

        whereabouts = Whereabouts(outgoing(), world.unix_s(), world.steady_s())
        while True:
            await anyio.sleep(LOOK_EVERY_S)
            ours = self.node.me.address.host
            finding = whereabouts.look(outgoing(), ours, world.unix_s(), world.steady_s())
            if finding is Finding.ELSEWHERE:
                logger.info("this peer has another address host=%s", ip_address(whereabouts.outgoing))
                self.node.moved_to(whereabouts.outgoing)
            elif finding is Finding.OTHER_FAMILY:
                logger.info("no way out in the first line's family host=%s", ip_address(whereabouts.outgoing))
                self.node.goes_to(Address(host=whereabouts.outgoing, port=listen.port))
            elif finding is Finding.UNSURE:
                self.node.look_around()

    async def _retire_previous_key(self) -> None:
        """Records signed by both keys are needed for as long as the ring refuses the old one by itself."""
        await anyio.sleep(previous_key_life_s(self._parts.home, self._parts.world.unix_s()))
        self.node.forget_previous_key()
        retire_previous_key(self._parts.home)

    def _claimed(self, listen: HostPort) -> Port:
        try:
            return self._parts.world.claim(listen, self._parts.key)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise PortTaken(
                address=str(listen), setting="ring.listen", flag="--listen", reason=reason
            ) from error

    def _finders(self, listen: HostPort, address: Address) -> Finders:
        discovery, world = self._parts.settings.discovery, self._parts.world
        remembered = RememberedPeers(self._parts.home.met, self.rules.network)
        remembered.load(world.unix_s())
        return world.finders(
            FinderParts(
                settings=discovery,
                network=self.rules.network,
                peer=peer_key(self._parts.key),
                listen=listen,
                address=address,
                given=(*self._ring.join, *self._parts.charter.contacts),
                families={":" in host for host, _ in every_family((listen.host, listen.port))},
                remembered=remembered,
                state=self._parts.home.rendezvous,
                validate=record_facts(self.rules, Verifier()),
                is_one_machine=self._is_private,
            )
        )

    def _last_record(self) -> PeerRecord | None:
        """Our own record from our last run."""
        try:
            signed = last_record(self._parts.home)
        except StorageFailure:
            return None
        is_ours = signed is not None and signed.record.peer == peer_key(self._parts.key)
        return signed.record if signed is not None and is_ours else None

    def _keep_record(self, signed: SignedRecord) -> None:
        write_twice(self._parts.home.record, encode_record(signed), mode=0o644)

    async def _map_port(self, port: int) -> None:
        own, world = self.node.me.address.host, self._parts.world
        gateways = world.gateways() if len(own) == IPV4_BYTES else world.pinholes(str(ip_address(own)))

        async def note(outcome: MappingOutcome) -> None:
            before = self._mapping.state if self._mapping else MappingState.FAILED
            self._mapping = outcome
            is_first = len(self.node.me.address.host) == len(own)
            if is_first and not self._ring.advertise:  # the operator's statement stays
                self.node.advertise_port(outside_port(outcome, port))
                host = outside_host(outcome, self.node.me.address.host)
                if host is not None and not self._is_private:
                    self.node.moved_to(host)
            if outcome.state is not before or self.node.is_closed:
                self.node.test_reachability()
            logger.info("port mapping state=%s %s", outcome.state.value, outcome.explanation)

        await self._keep_mapped(PortMapper(list(gateways), port), note)

    async def _follow_other(self, listen: HostPort, lines: Sequence[Line]) -> None:
        """Our line in the other family is what our interfaces say; firewalls of IPv6 are asked to let others in, also
        once that line has become our first. One that was our first from the start is `_map_port`'s.
        """
        starts_with_six = len(self.node.me.address.host) != IPV4_BYTES
        while True:
            hosts = self._parts.world.outgoing_hosts()
            six = () if starts_with_six else other_lines(listen, _ANY_ADDRESS, hosts)
            async with anyio.create_task_group() as tasks:
                if six and self._parts.settings.discovery.port_mapping:
                    tasks.start_soon(self._open_pinhole, six[0])
                while starts_with_six or six == other_lines(listen, _ANY_ADDRESS, hosts):
                    found = other_lines(listen, self.node.me.address, hosts)
                    if found != lines:
                        lines = found
                        logger.info(
                            "another line in the other family hosts=%s", [one.host.hex() for one in lines]
                        )
                        self.node.has_other(lines[0] if lines else None)
                    await anyio.sleep(LOOK_EVERY_S)
                    hosts = self._parts.world.outgoing_hosts()
                tasks.cancel_scope.cancel()

    async def _open_pinhole(self, line: Line) -> None:
        async def note(outcome: MappingOutcome) -> None:
            logger.info("pinhole state=%s %s", outcome.state.value, outcome.explanation)
            if outcome.state is MappingState.MAPPED:
                is_first = self.node.me.address.host == line.host
                (self.node.test_reachability if is_first else self.node.test_other)()

        pinholes = self._parts.world.pinholes(str(ip_address(line.host)))
        await self._keep_mapped(PortMapper(list(pinholes), line.udp), note)

    async def _keep_mapped(
        self, mapper: PortMapper, note: Callable[[MappingOutcome], Awaitable[None]]
    ) -> None:
        self._mappers.append(mapper)
        try:
            await mapper.run(note)
        finally:
            self._mappers.remove(mapper)

    def _ask_routers_again(self) -> None:
        """A test of one of our lines failed."""
        for mapper in self._mappers:
            mapper.ask_again()

    def _reachability(self, standing: Reachability, reason: str) -> str:
        """A sentence on the finding of other peers, which alone counts, and on the router's answer where it explains
        that.
        """
        mapping = self._mapping
        if mapping is None or (standing is Reachability.MEMBER and mapping.state is not MappingState.MAPPED):
            return reason
        return f"{reason} {mapping.explanation}"

    def traffic(self) -> tuple[int, int]:
        """Bytes of datagrams in and out since the start, with the headers of IP and UDP."""
        traffic = self.node.statistics().transport
        headers = HEADERS_V4 if len(self.node.me.address.host) == IPV4_BYTES else HEADERS_V6
        return (
            traffic.bytes_in + traffic.datagrams_in * headers,
            traffic.bytes_out + traffic.datagrams_out * headers,
        )

    def _invitation(self, standings: Mapping[PeerKey, Standing]) -> str:
        """For others, as things are now; empty while nobody could come in by it."""
        is_reachable = self._is_private or self.node.statistics().standing is Reachability.MEMBER
        doors = doors_to(self.node.me, self.node.members(), standings, is_reachable=is_reachable)
        contacts = tuple(
            InvitedContact(key_hash=key_hash(peer), host=socket_address(at.host, at.port)[0], port=at.port)
            for peer, at in doors
        )
        day = int(self._parts.world.unix_s() // SECONDS_PER_DAY)
        hashed = self._parts.charter.network_id()[:CHARTER_BYTES]
        return str(Invitation(charter_hash=hashed, day=day, contacts=contacts)) if contacts else ""

    def status(self) -> RingStatus:
        figures = self.node.statistics()
        ring, traffic = figures.ring, figures.transport
        clocks = dict(ring.unwell)
        host, port = socket_address(self.node.me.address.host, self.node.me.address.port)

        def neighbour(contact: Contact) -> NeighbourStatus:
            at = HostPort(
                host=socket_address(contact.address.host, contact.address.port)[0], port=contact.address.port
            )
            word = clocks.get(contact.peer, "well")
            return NeighbourStatus(position=contact.position.hex(), address=str(at), clock=word)

        def node(view: NodeView) -> NodeStatus:
            return NodeStatus(
                position=view.contact.position.hex(),
                is_member=view.is_member,
                predecessor=neighbour(view.predecessor) if view.predecessor else None,
                successors=tuple(map(neighbour, view.successors)),
            )

        standings, rules = self.node.standings(), self.rules.places
        own = standings.get(self.node.me.peer)
        silent_after_s = silent_after(self.node.machine.rules, has_neighbours=bool(ring.nodes))
        is_heard = ring.members <= 1 or (figures.heard_s is not None and figures.heard_s < silent_after_s)
        return RingStatus(
            places=places_status(
                standings.values(), rules, rules.day_of(self._parts.world.unix_s()), own=own
            ),
            silent=silent_status(self.node.members(), self.node.machine.silent_strangers()),
            invitation=self._invitation(standings),
            members=ring.members,
            silent_after_s=silent_after_s,
            heard_s=None if figures.heard_s is None else int(figures.heard_s),
            ideal=figures.is_ideal and figures.is_joined and is_heard,
            arcs=tuple((arc.start.hex(), arc.end.hex()) for arc in self.node.my_arcs()),
            address=str(HostPort(host=host, port=port)),
            slot=figures.slot,
            reachability=self._reachability(figures.standing, figures.reachability)
            if is_heard
            else unheard(figures.reachability, figures.heard_s),
            nodes=tuple(map(node, ring.nodes)),
            unwell={peer.hex()[:16]: word for peer, word in ring.unwell},
            traffic=TrafficStatus(
                bytes_in=traffic.bytes_in,
                bytes_out=traffic.bytes_out,
                datagrams_in=traffic.datagrams_in,
                datagrams_out=traffic.datagrams_out,
                sessions=traffic.sessions,
                gossip_bits_per_s=round(ring.gossip_bits_per_s, 1),
                kinds=dict(traffic.kinds),
                dropped={**dict(traffic.dropped), **dict(ring.counts), **dict(figures.dial_backs)},
            ),
        )


def silent_after(rules: RingRules, *, has_neighbours: bool) -> int:
    """For so long a peer may hear nobody. One without a position has no neighbours: it compares tables, and nobody asks
    it."""
    period_s = rules.stabilize_s if has_neighbours else rules.digest_s
    return max(SILENT_S, round(SILENT_ROUNDS * period_s))


def unheard(reason: str, heard_s: float | None) -> str:
    """What a test found while others answered says nothing of now."""
    if heard_s is None:
        return "Not known: no member has answered yet."
    return f"Not known: no member has answered for {int(heard_s)} s. Before: {reason}"


def doors_to(
    me: Contact,
    members: Iterable[Member],
    standings: Mapping[PeerKey, Standing],
    *,
    is_reachable: bool,
) -> list[tuple[PeerKey, Address]]:
    """At which members a newcomer should knock: at this one if it can be called, then at those of age, each in
    another place."""
    mine = [(me.peer, me.address)] if is_reachable else []
    others = sorted(
        (one for one in members if one.peer != me.peer and one.clock == "well" and one.peer in standings),
        key=lambda one: (not standings[one.peer].is_of_age, one.peer),
    )
    own = standings.get(me.peer)
    places = {own.place} if own is not None and is_reachable else set[Hashable]()
    apart, beside = list[tuple[PeerKey, Address]](), list[tuple[PeerKey, Address]]()
    for one in others:
        place = standings[one.peer].place
        (beside if place in places else apart).append((one.peer, one.address))
        places.add(place)
    return [*mine, *apart, *beside][:DOORS_MAX]


def places_status(
    standings: Collection[Standing], rules: PlaceRules, day: int, *, own: Standing | None = None
) -> PlacesStatus:
    of_age = [one for one in standings if one.is_of_age]
    return PlacesStatus(
        by=rules.by,
        places=len({one.place for one in of_age}),
        areas=len({one.area for one in of_age}),
        of_age=len(of_age),
        probation_days=rules.probation_on(day),
        veteran_days=rules.veteran_on(day),
        is_counted=own is None or own.is_of_age,
    )


def silent_status(members: Iterable[Member], strangers: Sequence[bytes]) -> SilentStatus:
    """Members that the ring's clocks hold for unreachable or worse, and hosts at which no stranger answered."""
    silent = [one.address.host for one in members if one.clock != "well"]
    networks = Counter(map(_network_of, (*silent, *strangers)))
    if not networks:
        return SilentStatus()
    network, most = max(networks.items(), key=lambda item: (item[1], item[0]))
    return SilentStatus(members=len(silent), strangers=len(strangers), network=network, in_network=most)


def _network_of(host: bytes) -> str:
    """For people, whatever the charter's places are: a /24, or a /48."""
    return str(ip_network((host, 24 if len(host) == IPV4_BYTES else 48), strict=False))


def rules_of(charter: Charter, settings: Settings) -> RingRules:
    ring = settings.ring
    return RingRules(
        network=NetworkId(charter.network_id()[:8]),
        id_check="off" if charter.id_check == "off" else "ip",
        places=place_rules_of(charter),
        successors=charter.successors,
        copies=charter.copies,
        stabilize_s=ring.stabilize_s,
        rumour_s=ring.rumour_s,
        digest_s=ring.digest_s,
        graveyard_s=ring.graveyard_s,
        suspicion_s=ring.suspicion_s,
        gossip_bits_per_s_max=ring.gossip_bits_per_s_max,
    )


def place_rules_of(charter: Charter) -> PlaceRules:
    return PlaceRules(
        by="peer" if charter.places == "peer" or charter.id_check == "off" else "prefix",
        place_v4=charter.place_v4,
        place_v6=charter.place_v6,
        area_v4=charter.area_v4,
        area_v6=charter.area_v6,
        positions_per_place=charter.positions_per_place,
        spare_copies=charter.spare_copies,
        founded_day=day_from(charter.founded),
        probation_days=charter.probation_days,
        veteran_days=charter.veteran_days,
        day_start_s=60 * (60 * int(charter.day_start[:2]) + int(charter.day_start[3:])),
    )


def outside_port(outcome: MappingOutcome, port: int) -> int:
    """At which port strangers reach ours: a router may give it another number."""
    is_mapped = (
        outcome.state in (MappingState.MAPPED, MappingState.HALF) and outcome.external_port is not None
    )
    return outcome.external_port or port if is_mapped else port


def outside_host(outcome: MappingOutcome, host: bytes) -> bytes | None:
    """The address by which strangers find us, by the word of the router. It counts while ours means nothing outside:
    the first peer of a network has nobody else to tell it, and those who see us are believed before any router.
    """
    if ip_address(host).is_global or outcome.state is not MappingState.MAPPED or outcome.external_ip is None:
        return None
    outside = ip_address(outcome.external_ip)
    return outside.packed if outside.is_global else None


def first_slot(stated: int, last: PeerRecord | None, address: Address, *, keeps_seat: bool = False) -> int:
    """The slot in the settings, or else that of our seat, or the one that was free the last time at this address."""
    if stated or last is None or (keeps_seat and last.seat is not None) or last.lines[0].host != address.host:
        return stated
    return last.slot


def age_on(
    last: PeerRecord | None,
    address: Address,
    slot: int,
    rules: PlaceRules,
    now: float,
    *,
    keeps_seat: bool = False,
) -> tuple[int, tuple[Stay, ...], Birth | None]:
    """Since when we are a member, where we were, and where our seat is from, by our last run's record. After 30 days
    away we begin anew, and so if we were of age and sit elsewhere now: the others would refuse our record."""
    if last is None or now - last.issued_s >= FORGOTTEN_DAYS * SECONDS_PER_DAY:
        return 0, (), None
    seat = last.seat if keeps_seat and slot == 0 and rules.by == "prefix" else None
    today = msgspec.structs.replace(last, lines=(Line.at(address),), slot=slot, seat=seat)
    if rules.by == "prefix" and moves_at_will(today, last, rules):
        return 0, (), None
    trail = () if seat is not None else moved(last, address.host, rules)
    return last.since, trail, seat


def other_lines(listen: HostPort, address: Address, outgoing: Sequence[str]) -> tuple[Line, ...]:
    """Our line in the other family, if the default listens there and it is no address of the house alone."""
    if listen.host != ANY_IPV6:
        return ()
    hosts = (ip_address(host) for host in outgoing)
    others = [host for host in hosts if len(host.packed) != len(address.host)]
    return tuple(
        Line(host=host.packed, udp=listen.port, tcp=listen.port)
        for host in others
        if host not in _UNIQUE_LOCAL
        and not host.is_link_local
        and not host.is_loopback
        # A private address of IPv4 is behind a router, which would have to be asked where it is outside.
        and (host.version == IPV6_VERSION or host.is_global)
    )


def as_last_run(
    listen: HostPort, address: Address, last: PeerRecord | None, outgoing: Sequence[str]
) -> Address:
    """Our first line in the family that it had in our last run: in the other one nobody got through to us."""
    others = other_lines(listen, address, outgoing)
    if last is None or not others or len(last.lines[0].host) != len(others[0].host):
        return address
    return others[0].address


def own_address(listen: HostPort, advertise: str, outgoing: Sequence[str]) -> tuple[Address, bool]:
    """Where others reach us, and whether that is a guess: of the interface that leads out."""
    if advertise or not is_wildcard(listen.host):
        return Address(host=ip_address(advertise or listen.host).packed, port=listen.port), False
    families = {":" in host for host, _ in every_family((listen.host, listen.port))}
    ours = [host for host in outgoing if (":" in host) in families]
    return Address(host=ip_address(ours[0] if ours else "127.0.0.1").packed, port=listen.port), True
