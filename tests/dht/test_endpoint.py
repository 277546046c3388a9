"""Link, codec and rates together, without sockets."""

from random import Random

import msgspec
import pytest
from msgspec.structs import replace

from dht.core import messages as m
from dht.core.frames import Address as SocketAddress
from dht.core.ids import NetworkId
from dht.core.limits import AmplificationLedger, Bucket, Buckets, Rate, prefix_of
from dht.core.records import Contact, SignedRecord
from dht.core.round_trips import RoundTrips
from dht.endpoint import SessionEndpoint, packed_address
from dht.identity import Verifier, peer_key, sign_record
from dht.transport import (
    OwnAddressChanged,
    OwnAddressDoubted,
    PeerMet,
    Received,
    TransportEvent,
    TransportLimits,
)
from dht.wire import encode_record
from tests.dht.link_world import NETWORK, key_from
from tests.dht.values import record_of

HOME: SocketAddress = ("192.0.2.1", 4484)
NEW_HOME: SocketAddress = ("192.0.2.99", 4484)


class Net:
    """Endpoints that hear each other at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.places: dict[SocketAddress, SessionEndpoint] = {}
        self.received: list[Received] = []
        self.events: dict[SocketAddress, list[TransportEvent]] = {}

    def add(
        self,
        name: str,
        address: SocketAddress,
        record: SignedRecord | None = None,
        limits: TransportLimits | None = None,
    ) -> SessionEndpoint:
        signed = record or sign_record(key_from(name), record_of(name))
        self.places[address] = SessionEndpoint(
            key=key_from(name),
            network=NetworkId(NETWORK),
            id_check="off",
            record=lambda: signed,
            entropy=Random(f"{name} {address}").randbytes,
            limits=limits,
        )
        return self.places[address]

    def settle(self) -> None:
        while any(place.link.outgoing for place in self.places.values()):
            for address, place in list(self.places.items()):
                sent, place.link.outgoing[:] = place.link.outgoing[:], []
                for data, target in sent:
                    if target in self.places:
                        self.received += self.places[target].receive([(data, address)], self.now)
        for address, place in self.places.items():
            self.events.setdefault(address, []).extend(place.take_events(self.now))


def contact_of(name: str, address: SocketAddress) -> Contact:
    return Contact.at(peer_key(key_from(name)), packed_address(address), 0, 0, "off")


def test_the_sender_of_a_message_is_the_key_of_its_session_at_its_address() -> None:
    net = Net()
    net.add("anna", HOME)
    net.add("bert", NEW_HOME)
    net.places[HOME].send(m.Ping(id=1), contact_of("bert", NEW_HOME), 0.0)
    net.settle()
    [(message, sender)] = net.received
    assert message == m.Ping(id=1)
    assert (sender.peer, sender.address, sender.slot) == (peer_key(key_from("anna")), packed_address(HOME), 3)
    [event] = net.events[NEW_HOME]
    assert isinstance(event, PeerMet)
    assert event.record == sign_record(key_from("anna"), record_of("anna"))


@pytest.mark.parametrize("fault", ["other key", "other network", "bad signature"])
def test_a_record_that_does_not_belong_to_the_session_opens_none(fault: str) -> None:
    record = record_of("anna")
    bad = {
        "other key": sign_record(key_from("carl"), record_of("carl")),
        "other network": sign_record(key_from("anna"), replace(record, network=NetworkId(bytes(8)))),
        "bad signature": replace(sign_record(key_from("anna"), record), signature=bytes(64)),
    }[fault]
    net = Net()
    net.add("anna", HOME, record=bad)
    bert = net.add("bert", NEW_HOME)
    net.places[HOME].send(m.Ping(id=1), contact_of("bert", NEW_HOME), 0.0)
    net.settle()
    assert net.received == []
    assert bert.link.dropped["record"] >= 1
    assert len(bert.link.sessions) == 0


def test_refused_messages_and_floods_are_counted() -> None:
    net = Net()
    net.add("anna", HOME)
    bert = net.add("bert", NEW_HOME, limits=TransportLimits(find=Rate(per_second=1, burst=2)))
    anna = net.places[HOME]
    for payload in ((99, 1), (1, "x")):
        anna.link.send(msgspec.msgpack.encode(payload), NEW_HOME, None, 0.0)
    for number in range(5):
        anna.send(m.Find(id=number, key=contact_of("bert", HOME).position), contact_of("bert", NEW_HOME), 0.0)
    anna.send(m.Ping(id=9), contact_of("bert", NEW_HOME), 0.0)
    net.settle()
    assert bert.dropped == {"kind": 1, "malformed": 1, "flood": 3}
    assert [message.id for message, _ in net.received] == [0, 1, 9]
    net.now = 1.0
    anna.send(m.Find(id=10, key=contact_of("bert", HOME).position), contact_of("bert", NEW_HOME), 1.0)
    net.settle()
    assert net.received[-1][0].id == 10
    assert bert.statistics(waiting=0).dropped["flood"] == 3


def test_many_keys_of_one_prefix_share_its_limit() -> None:
    net = Net()
    limits = TransportLimits(other=Rate(per_second=1, burst=2), prefix_factor=2)
    net.add("bert", ("198.51.100.1", 1), limits=limits)
    for number in range(4):
        address = ("192.0.2.1", 1 + number)
        net.add(f"peer {number}", address)
        for _ in range(2):
            net.places[address].send(m.Ping(id=number), contact_of("bert", ("198.51.100.1", 1)), 0.0)
    net.settle()
    assert len(net.received) == 4


def test_our_address_has_changed_when_two_prefixes_say_so() -> None:
    net = Net()
    anna = net.add("anna", HOME)
    peers = [(f"198.51.{100 + n}.1", 4484) for n in range(6)]
    for number, address in enumerate(peers):
        net.add(f"peer {number}", address)
    for place in peers[:3]:
        anna.link.dial(place, None, 0.0)
        net.settle()
    changes = [event for event in net.events[HOME] if isinstance(event, OwnAddressChanged)]
    assert changes == []  # the first address known is no change
    net.places[NEW_HOME] = net.places.pop(HOME)
    anna.link.dial(peers[3], None, 0.0)
    net.settle()
    assert not [event for event in net.events[NEW_HOME] if isinstance(event, OwnAddressChanged)]
    anna.link.dial(peers[4], None, 0.0)
    anna.link.dial(peers[5], None, 0.0)
    net.settle()
    changes = [event for event in net.events[NEW_HOME] if isinstance(event, OwnAddressChanged)]
    assert changes == [OwnAddressChanged(address=packed_address(NEW_HOME))]


def test_an_address_of_the_other_family_is_no_new_one() -> None:
    net = Net()
    anna = net.add("anna", HOME)
    for number in range(4):
        anna._note_sighting(("2001:db8::7", 4484), bytes((number,)))
        anna._note_sighting(HOME, bytes((number,)))
    assert anna.take_events(0.0) == []
    anna._note_sighting(NEW_HOME, b"a")
    assert anna.take_events(0.0) == [OwnAddressDoubted()]
    anna._note_sighting(NEW_HOME, b"a")
    assert anna.take_events(0.0) == [], "one may lie"
    anna._note_sighting(NEW_HOME, b"b")
    assert anna.take_events(0.0) == [OwnAddressChanged(address=packed_address(NEW_HOME))]


def test_prefixes_are_a_24_or_a_56() -> None:
    assert prefix_of(("192.0.2.1", 1)) == prefix_of(("192.0.2.254", 2))
    assert prefix_of(("192.0.2.1", 1)) != prefix_of(("192.0.3.1", 1))
    assert prefix_of(("2001:db8:0:0aff::1", 1)) == prefix_of(("2001:db8:0:0a00::2", 1))
    assert prefix_of(("2001:db8:0:0aff::1", 1)) != prefix_of(("2001:db8:0:0bff::1", 1))


def test_a_bucket_refills_with_time_and_survives_a_clock_that_goes_back() -> None:
    bucket = Bucket(Rate(per_second=2, burst=3), 10.0)
    assert [bucket.take(10.0) for _ in range(4)] == [True, True, True, False]
    assert [bucket.take(10.6) for _ in range(2)] == [True, False]
    assert not bucket.take(5.0)
    assert [bucket.take(1_000.0) for _ in range(4)] == [True, True, True, False]


def test_a_verifier_is_shared_although_it_has_seen_nothing_yet() -> None:
    verifier = Verifier()
    endpoint = SessionEndpoint(
        key=key_from("anna"),
        network=NetworkId(NETWORK),
        id_check="off",
        record=lambda: None,
        entropy=Random(1).randbytes,
        verifier=verifier,
    )
    signed = sign_record(key_from("bert"), record_of("bert"))
    assert endpoint._is_record_good(encode_record(signed), signed.peer)
    assert len(verifier._good) == 1


def test_the_tables_of_strangers_are_bounded() -> None:
    buckets, ledger, trips = (
        Buckets(buckets_max=2),
        AmplificationLedger(addresses_max=2),
        RoundTrips(peers_max=2),
    )
    for number in range(5):
        buckets.take(number, Rate(per_second=1, burst=1), 0.0)
        ledger.received(("192.0.2.1", number), 10)
        trips.measured(bytes((number,)), 0.1)
    assert (len(buckets._known), len(ledger._credit), len(trips._known)) == (2, 2, 2)
    assert not ledger.spend(("192.0.2.1", 0), 1)
    assert ledger.spend(("192.0.2.1", 4), 30)
    assert not ledger.spend(("192.0.2.1", 4), 1)


def test_a_rate_lets_something_through() -> None:
    with pytest.raises(ValueError, match="lets something through"):
        Rate(per_second=0, burst=1)


def test_the_timeout_follows_rfc_6298_within_the_rings_clamp() -> None:
    trips = RoundTrips()
    assert trips.timeout_s(b"a") == 1.0
    trips.measured(b"a", 0.4)
    assert trips.timeout_s(b"a") == pytest.approx(0.4 + 4 * 0.2)
    trips.measured(b"a", 0.8)
    assert trips.timeout_s(b"a") == pytest.approx(0.45 + 4 * 0.25)
    trips.measured(b"near", 0.001)
    assert trips.timeout_s(b"near") == 0.5
    trips.measured(b"far", 5.0)
    assert trips.timeout_s(b"far") == 3.0
