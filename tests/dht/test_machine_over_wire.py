"""The ring machine through the real codec, sealed: what one machine means is what the other one hears."""

from random import Random

from msgspec.structs import replace

from dht.core.effects import Send
from dht.core.frames import Address as SocketAddress
from dht.core.ids import NetworkId
from dht.core.machine import RingMachine
from dht.core.records import Line, first_contact_of
from dht.core.rules import RingRules
from dht.endpoint import SessionEndpoint, packed_address
from dht.identity import KeyNotary
from dht.transport import TransportLimits
from tests.dht.link_world import NETWORK, key_from
from tests.dht.values import record_of

START_S = 1_790_000_100.0
RULES = RingRules(network=NetworkId(NETWORK), proves_newcomers=False)


class Peer:
    def __init__(self, name: str, address: SocketAddress) -> None:
        notary = KeyNotary(key_from(name), NetworkId(NETWORK))
        record = replace(record_of(name), lines=(Line.at(packed_address(address)),), virtual_nodes=2)
        self.address = address
        self.contact = first_contact_of(record, RULES.id_check)
        self.machine = RingMachine(record=record, rules=RULES, notary=notary, random=Random(name))
        signed = notary.sign_record(record)
        self.endpoint = SessionEndpoint(
            key=key_from(name),
            network=NetworkId(NETWORK),
            id_check=RULES.id_check,
            record=lambda: signed,
            entropy=Random(name).randbytes,
            limits=TransportLimits.for_one_machine(),
        )

    def perform(self, now: float) -> None:
        for effect in self.machine.take_effects():
            if isinstance(effect, Send):
                self.endpoint.send(effect.message, effect.to, now)


def run(peers: list[Peer], seconds: int) -> None:
    """Ticks of 50 ms, which is also how long a datagram takes."""
    places = {peer.address: peer for peer in peers}
    for tick in range(seconds * 20):
        now = START_S + tick / 20
        for peer in peers:
            peer.machine.advance(now)
            peer.endpoint.link.advance(now)
            peer.perform(now)
        sent = [(peer.address, *datagram) for peer in peers for datagram in peer.endpoint.link.outgoing]
        for peer in peers:
            peer.endpoint.link.outgoing.clear()
        for source, data, target in sent:
            receiver = places[target]
            for message, sender in receiver.endpoint.receive([(data, source)], now):
                receiver.machine.receive(message, sender, now)
            receiver.perform(now)


def test_four_machines_form_one_ring_through_sealed_datagrams() -> None:
    peers = [Peer(f"peer {n}", (f"192.0.{n}.1" if n % 2 else f"2001:db8:{n + 1}::1", 4484)) for n in range(4)]
    peers[0].machine.create(START_S)
    for peer in peers[1:]:
        peer.machine.join([peers[0].contact], START_S)
    run(peers, 120)
    positions = sorted(
        (node.contact.position, node.contact.peer)
        for peer in peers
        for node in peer.machine.statistics().nodes
    )
    for peer in peers:
        for node in peer.machine.statistics().nodes:
            at = positions.index((node.contact.position, node.contact.peer))
            assert node.is_member
            assert node.predecessor is not None
            assert node.predecessor.position == positions[at - 1][0]
            assert node.successors[0].position == positions[(at + 1) % len(positions)][0]
        assert not peer.endpoint.dropped
        # What two that dial each other at once leave over: one yields, its dial is answered in vain or half open.
        assert set(peer.endpoint.link.dropped) <= {"yielded", "early", "unasked", "half_open"}
