"""Do datagrams reach a peer behind a closed router? Endpoints in virtual time, routers between them."""

import heapq
from random import Random

import pytest
from msgspec.structs import replace

from dht.core.frames import HELLO
from dht.core.frames import Address as SocketAddress
from dht.core.ids import PeerKey
from dht.core.messages import Knock, Knocked, Message, Ping, Post, Posted
from dht.core.records import CLOSED, LEAF, RELAY_BYTES, Address, Contact, Line, PeerRecord, SignedRecord
from dht.endpoint import SessionEndpoint, is_posted, packed_address
from dht.identity import peer_key, sign_record
from dht.relaying import KEEP_OPEN_S, KNOCKS, POSTS, Relaying
from dht.transport import PeerMet, TransportEvent
from dht.wire import MessageCodec, encode_message
from tests.dht.link_world import key_from
from tests.dht.values import record_of

LATENCY_S = 0.02
FORGETS_S = 30.0
"""As Linux does with UDP that nobody answers."""


class Router:
    """Lets in what answers, for half a minute. With `changes` each other end sees another port."""

    def __init__(self, *, changes: bool) -> None:
        self._changes = changes
        self._sent: dict[SocketAddress, float] = {}

    def shown(self, source: SocketAddress, target: SocketAddress, now: float) -> SocketAddress:
        self._sent[target] = now
        return (source[0], 20_000 + sorted(self._sent).index(target)) if self._changes else source

    def admits(self, source: SocketAddress, port: int, now: float) -> bool:
        is_answer = now - self._sent.get(source, float("-inf")) < FORGETS_S
        return is_answer and (not self._changes or port == 20_000 + sorted(self._sent).index(source))


class One:
    """An endpoint with its table, which is everybody's."""

    def __init__(self, world: "World", name: str, host: str, router: Router | None) -> None:
        self.world, self.name, self.at, self.router = world, name, (host, 4484), router
        self.key = peer_key(key_from(name))
        self.family = len(packed_address(self.at).host)
        self.is_deaf_to = ""
        self.got: list[tuple[Message, Contact]] = []
        self.events: list[TransportEvent] = []
        self.endpoint = SessionEndpoint(
            key=key_from(name),
            network=record_of(name).network,
            id_check="ip",
            record=lambda: self.record,
            entropy=Random(name).randbytes,
        )
        self.relaying = Relaying(self.endpoint, self, lambda: self.record)
        self.endpoint.way_to = self.relaying.way_to
        self.endpoint.contact_of = lambda peer: next(
            (one.contact for one in world.ones if one.key == peer), None
        )
        self.record: SignedRecord = sign_record(
            key_from(name), replace(record_of(name), lines=(Line.at(packed_address(self.at)),))
        )

    @property
    def contact(self) -> Contact:
        return Contact.at(self.key, self.record.record.address, 0, 0, "ip")

    def names(self, *relays: "One", flags: int = CLOSED) -> None:
        named = tuple(relay.key[:RELAY_BYTES] for relay in relays)
        self.record = sign_record(key_from(self.name), replace(self.record.record, relays=named, flags=flags))

    def record_of(self, peer: PeerKey) -> PeerRecord | None:
        return next((one.record.record for one in self.world.ones if one.key == peer), None)

    def relays_of(self, peer: PeerKey) -> tuple[Contact, ...]:
        record = self.record_of(peer)
        named = () if record is None else record.relays
        return tuple(one.contact for one in self.world.ones if one.key[:RELAY_BYTES] in named)

    def own_relays(self) -> tuple[Contact, ...]:
        return self.relays_of(self.key)

    def is_apart(self, peer: PeerKey) -> bool:
        record = self.record_of(peer)
        return record is not None and all(len(line.host) != self.family for line in record.lines)

    def say(self, to: "One", number: int = 1) -> None:
        self.endpoint.send(Ping(id=number), to.contact, self.world.now)
        self.world.carry()

    def heard(self) -> list[int]:
        return [message.id for message, _ in self.got]


class World:
    def __init__(self) -> None:
        self.now = 1_000.0
        self.ones: list[One] = []
        self.sent: list[tuple[One, SocketAddress, bytes]] = []
        self._queue: list[tuple[float, int, SocketAddress, SocketAddress, bytes]] = []
        self._keeping: list[One] = []

    def add(self, name: str, host: str, router: Router | None = None) -> One:
        self.ones.append(One(self, name, host, router))
        return self.ones[-1]

    def keep_open(self, *ones: One) -> None:
        self._keeping = list(ones)

    def carry(self) -> None:
        for one in self.ones:
            if one.endpoint.divert is not None:
                one.endpoint.divert(self.now)
            sent, one.endpoint.link.outgoing[:] = one.endpoint.link.outgoing[:], []
            for data, target in sent:
                self.sent.append((one, target, data))
                source = one.at if one.router is None else one.router.shown(one.at, target, self.now)
                heapq.heappush(self._queue, (self.now + LATENCY_S, len(self.sent), source, target, data))

    def settle(self, seconds: float = 3.0) -> None:
        end, keep_at = self.now + seconds, self.now
        while True:
            deadlines = [d for one in self.ones if (d := one.endpoint.link.next_deadline()) is not None]
            upcoming = min([*deadlines, keep_at, *(entry[0] for entry in self._queue[:1])])
            if upcoming >= end:
                break
            self.now = max(self.now, upcoming)
            if self.now >= keep_at:
                keep_at = self.now + KEEP_OPEN_S
                for one in self._keeping:
                    one.relaying.keep_open(one.relays_of(one.key), self.now)
            while self._queue and self._queue[0][0] <= self.now:
                _, _, source, target, data = heapq.heappop(self._queue)
                self._deliver(source, target, data)
            for one in self.ones:
                one.endpoint.link.advance(self.now)
            self.carry()
        self.now = end

    def _deliver(self, source: SocketAddress, target: SocketAddress, data: bytes) -> None:
        for one in self.ones:
            if one.at[0] != target[0] or one.is_deaf_to == source[0]:
                continue
            if one.router is None:
                if one.at != target:
                    continue
            elif not one.router.admits(source, target[1], self.now):
                continue
            for message, sender in one.endpoint.receive([(data, source)], self.now):
                self._take(one, message, sender)
            one.events += one.endpoint.take_events(self.now)

    def _take(self, one: One, message: Message, sender: Contact) -> None:
        if not isinstance(message, Knock | Knocked | Post | Posted):
            one.got.append((message, sender))
            return
        for inside in one.relaying.receive(message, sender, self.now):
            self._take(one, *inside)

    def hellos(self, source: One, target: One) -> int:
        return sum(
            1 for one, at, data in self.sent if one is source and at[0] == target.at[0] and data[1] == HELLO
        )


def town(*, changes: bool = False, is_asker_closed: bool = False) -> tuple[World, One, One, One]:
    """An asker, a relay, and a closed peer that keeps a session with the relay."""
    world = World()
    asker = world.add("asker", "192.0.2.1", Router(changes=False) if is_asker_closed else None)
    relay = world.add("relay", "198.51.100.2")
    closed = world.add("closed", "203.0.113.3", Router(changes=changes))
    closed.names(relay)
    if is_asker_closed:
        asker.names(relay)
    world.keep_open(closed, *([asker] if is_asker_closed else []))
    world.settle()
    return world, asker, relay, closed


@pytest.mark.parametrize("changes", [False, True], ids=["same port", "other ports"])
@pytest.mark.parametrize("is_asker_closed", [False, True], ids=["open asker", "closed asker"])
def test_a_closed_peer_hears_the_first_word_of_a_stranger(changes: bool, is_asker_closed: bool) -> None:
    """Only where both routers are closed and one shows other ports, it does not."""
    world, asker, _, closed = town(changes=changes, is_asker_closed=is_asker_closed)
    asker.say(closed)
    world.settle()
    assert closed.heard() == ([] if changes and is_asker_closed else [1])
    assert not asker.endpoint.dropped["posts"]


def strangers() -> tuple[World, One, One, One]:
    """Two closed peers whose routers let nothing through between them; the third word goes by the relay."""
    world, asker, relay, closed = town(changes=True, is_asker_closed=True)
    for number in (1, 2, 3):
        asker.say(closed, number)
        world.settle(1.5)
    return world, asker, relay, closed


def test_a_relay_passes_on_what_two_closed_routers_do_not_let_through() -> None:
    world, asker, _, closed = strangers()
    assert closed.heard() == [3]
    ((_, sender),) = closed.got
    assert sender == asker.contact, "as the table has it, since no address was proven"
    closed.say(asker, 4)
    world.settle(1.0)
    assert asker.heard() == [4]
    assert not [1 for one, at, _ in world.sent if is_posted(at)]


def test_a_peer_that_nobody_knows_proves_no_address_by_post() -> None:
    world, asker, relay, closed = town(changes=True, is_asker_closed=True)
    asker.endpoint.contact_of = closed.endpoint.contact_of = lambda peer: None
    for number in (1, 2, 3):
        asker.say(closed, number)
        world.settle(1.5)
    ((_, sender),) = closed.got
    assert sender.address.host == b"\x01\x00" + asker.key[:14]
    assert not [
        one for one in world.ones if one.endpoint.link.sessions.of(relay.key) is None and one is not relay
    ]


def test_two_families_speak_by_a_relay_that_has_both() -> None:
    world, asker, _, closed = strangers()
    del asker, closed
    six = world.add("six", "2001:db8::6", Router(changes=True))
    four = next(one for one in world.ones if one.name == "asker")
    relay = next(one for one in world.ones if one.name == "relay")
    six.names(relay)
    world.keep_open(*[one for one in world.ones if one.record.record.relays])
    world.settle(20.0)
    for number in (1, 2, 3):
        four.say(six, number)
        world.settle(1.5)
    assert six.heard() == [1, 2, 3], "no knock could bring it here, so nothing waits for one"


def test_two_open_peers_of_one_family_each_speak_by_a_relay_that_one_of_them_named() -> None:
    world = World()
    four, six = world.add("four", "192.0.2.1"), world.add("six", "2001:db8::6")
    relay = world.add("relay", "198.51.100.2")
    four.is_deaf_to, six.is_deaf_to = six.at[0], four.at[0]
    six.say(four)
    world.settle()
    assert four.heard() == [], "nobody passes anything on yet"
    six.names(relay, flags=0)
    world.keep_open(six)
    four.say(relay)
    world.settle()
    four.say(six, 2)
    world.settle(1.0)
    six.say(four, 3)
    world.settle(1.0)
    assert (four.heard(), six.heard()) == ([3], [2])
    assert not relay.endpoint.dropped["knock_unknown"]


def test_a_closed_peer_begins_to_speak_with_one_of_another_family() -> None:
    """The other one can be called and names no relay, but speaks with ours."""
    world, asker, relay, _ = town()
    asker.say(relay)
    six = world.add("six", "2001:db8::6", Router(changes=False))
    six.names(relay)
    asker.is_deaf_to = six.at[0]
    world.keep_open(six)
    world.settle()
    for number in (1, 2, 3):
        six.say(asker, number)
        world.settle(1.5)
    assert asker.heard() == [1, 2, 3]
    asker.say(six, 4)
    world.settle(1.0)
    assert six.heard() == [4]


def test_the_ring_never_hears_of_the_address_that_stands_for_a_peer() -> None:
    """What the other end sees us at would be taken for our own address."""
    world, asker, _, closed = strangers()
    closed.say(asker, 4)
    world.settle(1.0)
    seen = [event.seen for one in (asker, closed) for event in one.events if isinstance(event, PeerMet)]
    assert seen
    assert not [one for one in seen if one is not None and one.host.startswith(b"\x01\x00")]


def test_a_relay_passes_on_only_for_those_that_named_it_and_so_much() -> None:
    world, asker, relay, closed = strangers()
    nobody = world.add("nobody", "192.0.2.9")
    nobody.say(relay)
    world.settle(1.0)
    posted = Post(id=1, to=nobody.key, data=bytes(1_000))
    before = relay.endpoint.dropped["post_unknown"]
    closed.names(asker)
    asker.names(closed)
    relay.relaying.receive(posted, closed.contact, world.now)
    assert relay.endpoint.dropped["post_unknown"] == before + 1
    closed.names(relay)
    before = len(relay.endpoint.link.outgoing)
    for _ in range(200):
        relay.relaying.receive(posted, closed.contact, world.now)
    assert len(relay.endpoint.link.outgoing) - before == int(POSTS.burst) // 1_000


def test_what_a_relay_changes_or_sends_twice_is_dropped() -> None:
    world, asker, relay, closed = strangers()
    kept: list[Posted] = []
    passed = relay.relaying._link.send

    def bent(payload: bytes, *rest: object, **more: object) -> bool:
        message = MessageCodec("ip").decode(payload)
        if isinstance(message, Posted):
            kept.append(message)
            payload = encode_message(replace(message, data=message.data[:-1] + bytes([message.data[-1] ^ 1])))
        return passed(payload, *rest, **more)  # type: ignore[arg-type]  # as it was called

    heard = closed.heard()
    relay.relaying._link.send = bent  # type: ignore[method-assign]  # a relay that lies
    asker.say(closed, 5)
    world.settle(0.5)
    assert closed.heard() == heard
    assert closed.endpoint.link.dropped["forged"] == 1
    for _ in range(3):
        for message, _sender in closed.relaying.receive(kept[-1], relay.contact, world.now):
            closed.got.append((message, _sender))
    assert closed.heard() == [*heard, 5], "once"
    assert closed.endpoint.link.dropped["replayed"] == 2


def test_a_stranger_brings_no_posts() -> None:
    world, asker, _, closed = strangers()
    stranger = world.add("stranger", "192.0.2.77")
    told = Posted(id=1, source=asker.key, data=bytes(100))
    assert not closed.relaying.receive(told, stranger.contact, world.now)
    assert closed.endpoint.dropped["post_unknown"] == 1


@pytest.mark.parametrize("changes", [False, True], ids=["same port", "other ports"])
def test_it_is_seen_where_it_really_is_whatever_the_relay_says(changes: bool) -> None:
    world, asker, _, closed = town(changes=changes)
    asker.say(closed)
    world.settle()
    closed.say(asker, 2)
    world.settle()
    ((_, sender),) = asker.got
    assert (sender.peer, sender.address.host) == (closed.key, packed_address(closed.at).host)


def test_after_a_long_silence_it_is_reached_again() -> None:
    """Its router has forgotten the asker; the session has not."""
    world, asker, _, closed = town()
    asker.say(closed)
    world.settle(200.0)
    asker.say(closed, 2)  # is lost, and has the closed peer speak
    world.settle()
    asker.say(closed, 3)
    world.settle()
    assert closed.heard() == [1, 3]
    assert world.hellos(closed, asker) <= 2, "one handshake, for all that time"


def test_a_session_of_which_something_came_just_now_needs_no_relay() -> None:
    world, asker, relay, closed = town()
    asker.say(closed)
    world.settle()
    closed.say(asker, 2)
    world.settle(1.0)
    knocks = asker.endpoint.dropped["knocks"]
    for number in range(3, 10):
        asker.say(closed, number)
        world.settle(0.5)
    assert closed.heard() == [1, *range(3, 10)]
    assert asker.endpoint.dropped["knocks"] == knocks
    assert not relay.got


def test_a_session_at_another_host_carries_nothing() -> None:
    """What is sent to the address of its record must not be answered from elsewhere: it would prove the address."""
    world, asker, _, closed = town()
    there = world.add("closed", "203.0.113.99")
    there.say(asker)
    world.settle()
    assert asker.endpoint.link.sessions.of(closed.key) is not None
    asker.say(closed, 2)
    world.settle(0.01)
    assert not [1 for one, at, _ in world.sent[-2:] if one is asker and at[0] == there.at[0]]
    assert there.heard() == []


def test_a_peer_that_can_be_called_is_never_knocked_at() -> None:
    world = World()
    one, other = world.add("asker", "192.0.2.1"), world.add("relay", "198.51.100.2")
    one.say(other)
    world.settle(100.0)
    one.say(other, 2)
    world.settle()
    assert other.heard() == [1, 2]
    assert not one.endpoint.dropped["knocks"]


def test_a_closed_peer_speaks_with_those_that_can_be_called_and_never_by_a_relay() -> None:
    """Once it was silent for two seconds, and from then on all that was for it went to a relay: at times to itself,
    as a relay of ours, which knew nobody of that key to pass it on to."""
    world, _, relay, closed = town()
    other = world.add("other", "198.51.100.9")
    closed.names(relay, other)
    world.keep_open(closed)
    world.settle()
    for one in (relay, other):
        one.is_deaf_to = closed.at[0]
        world.settle(20.0)
        for number in (1, 2, 3):
            closed.say(one, number)
            world.settle(1.5)
        one.is_deaf_to = ""
        closed.say(one, 4)
        world.settle(1.0)
        assert one.heard()[-1:] == [4]
        assert closed.endpoint.dropped["posts"] == 0


def test_nobody_is_asked_to_pass_on_what_is_for_itself() -> None:
    world, asker, relay, _ = town()
    asker.say(relay)
    six = world.add("six", "2001:db8::6", Router(changes=False))
    six.names(asker, relay)
    asker.is_deaf_to = six.at[0]
    world.keep_open(six)
    world.settle()
    for number in (1, 2, 3):
        six.say(asker, number)
        world.settle(1.5)
    assert asker.heard() == [1, 2, 3]
    assert not asker.endpoint.dropped["post_unknown"]


def test_a_relay_knocks_only_at_those_that_named_it() -> None:
    world, asker, relay, closed = town()
    closed.names(asker)
    asker.endpoint.send(Knock(id=1, called=closed.key), relay.contact, world.now)
    world.carry()
    before = len(world.sent)
    world.settle(1.0)
    assert relay.endpoint.dropped["knock_unknown"] == 1
    assert not [1 for one, at, _ in world.sent[before:] if one is relay and at[0] == closed.at[0]]


def test_one_asker_knocks_so_often_and_no_more() -> None:
    world, asker, relay, closed = town()
    asker.say(relay)
    world.settle()
    for number in range(60):
        relay.relaying.receive(Knock(id=number, called=closed.key), asker.contact, world.now)
    assert relay.endpoint.dropped["flood"] == 60 - int(KNOCKS.burst)


def test_a_peer_heeds_only_its_own_relays() -> None:
    world, asker, relay, closed = town()
    stranger = world.add("stranger", "192.0.2.77")
    victim = Knocked(id=1, caller=PeerKey(bytes(32)), address=Address(host=bytes((192, 0, 2, 99)), port=53))
    closed.relaying.receive(victim, stranger.contact, world.now)
    world.carry()
    assert closed.endpoint.dropped["knock_unknown"] == 1
    assert not [1 for _, at, _ in world.sent if at[0] == "192.0.2.99"]
    del asker, relay


def test_a_relay_that_names_others_addresses_gets_one_hello_a_minute_out_of_us() -> None:
    world, _, relay, closed = town()
    aimed = Address(host=bytes((192, 0, 2, 99)), port=53)
    for number in range(50):
        closed.relaying.receive(
            Knocked(id=number, caller=PeerKey(bytes(32)), address=aimed), relay.contact, world.now
        )
        world.carry()
        world.settle(0.5)
    assert len([1 for _, at, _ in world.sent if at[0] == "192.0.2.99"]) == 1


def test_a_leaf_that_names_a_relay_and_anothers_address_has_nobody_send_much_there() -> None:
    """A leaf's record enters tables unproven."""
    world, asker, _, closed = town()
    closed.names(*[one for one in world.ones if one.name == "relay"], flags=CLOSED | LEAF)
    closed.router = None
    closed.at = ("203.0.113.77", 4484)  # not where its record says
    for number in range(50):
        asker.say(closed, number)
        world.settle(0.5)
    assert len([1 for one, at, _ in world.sent if one is asker and at[0] == "203.0.113.3"]) <= 1
