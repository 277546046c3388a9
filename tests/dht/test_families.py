"""Peers with IPv4, with IPv6 and with both: do they find each other, and are they one ring?"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from msgspec.structs import replace as changed

from dht import udp
from dht.core.frames import Address as SocketAddress
from dht.core.ids import NetworkId, PeerKey, key_of
from dht.core.messages import Ping
from dht.core.reachability import Reachability
from dht.core.records import Contact, Line
from dht.core.sessions import Session
from dht.dialback import DialStream
from dht.endpoint import FRESH_S, SessionEndpoint, packed_address, socket_address
from dht.identity import sign_record
from dht.node import RingNode, open_node
from dht.node_types import NodePorts, NodeSettings
from dht.transport import TransportLimits
from dht.ways import FORGOTTEN_S, NEXT_LINE_S, Ways
from dht.wire import encode_record
from tests.dht.link_world import NETWORK, key_from
from tests.dht.test_node import EPOCH_S, RULES, until
from tests.dht.values import record_of

FOUR = Line(host=bytes((192, 0, 2, 7)), udp=4484, tcp=4484)
SIX = Line(host=bytes.fromhex("20010db8000000000000000000000007"), udp=4485, tcp=4485)
ELSEWHERE = Line(host=bytes((192, 0, 2, 99)), udp=4484, tcp=4484)
BY_FOUR, BY_SIX = (socket_address(line.host, line.udp) for line in (FOUR, SIX))


@pytest.fixture
def anyio_backend(virtual_time: Any) -> Any:
    return virtual_time


class Known:
    """A table that holds one other peer."""

    def __init__(self, others: Sequence[Line]) -> None:
        self._lines = {key(b"other"): tuple(others)}

    def lines_of(self, peer: PeerKey) -> tuple[Line, ...]:
        return self._lines.get(peer, ())


def key(name: bytes) -> Any:
    return name.ljust(32, b"-")


def endpoint_of(name: str) -> SessionEndpoint:
    return SessionEndpoint(
        key=key_from(name),
        network=NetworkId(NETWORK),
        id_check="ip",
        record=lambda: None,
        entropy=Random(name).randbytes,
    )


def ways_of(own: Sequence[Line], others: Sequence[Line], of: SessionEndpoint | None = None) -> Ways:
    return Ways(of or endpoint_of("anna"), Known(others), lambda: own, (False, True))


def other(line: Line = FOUR) -> Contact:
    return Contact.at(key(b"other"), line.address, 0, 0, "ip")


def test_with_ipv6_of_our_own_it_is_tried_first_and_each_line_has_a_quarter_of_a_second() -> None:
    ways = ways_of((FOUR, SIX), (FOUR, SIX))
    found = [ways.way_to(other(), BY_FOUR, now) for now in (0.0, 0.1, NEXT_LINE_S, NEXT_LINE_S + 0.1, 1.0)]
    assert found == [BY_SIX, BY_SIX, BY_FOUR, BY_FOUR, BY_SIX]
    assert ways_of((FOUR,), (FOUR, SIX)).way_to(other(), BY_FOUR, 0.0) == BY_FOUR


def test_a_line_without_datagrams_is_no_way() -> None:
    ways = ways_of((FOUR, SIX), (FOUR, changed(SIX, udp=0)))
    assert {ways.way_to(other(), BY_FOUR, now) for now in (0.0, 1.0, 2.0)} == {BY_FOUR}


def test_what_goes_to_an_address_of_no_record_goes_there() -> None:
    elsewhere = ("192.0.2.99", 4484)
    ways = ways_of((FOUR, SIX), (FOUR, SIX))
    at = Contact.at(key(b"other"), packed_address(elsewhere), 0, 0, "ip")
    assert ways.way_to(at, elsewhere, 0.0) == elsewhere


def test_the_line_that_answered_last_comes_first_and_gives_way_when_it_is_silent() -> None:
    anna = endpoint_of("anna")
    ways = ways_of((FOUR, SIX), (FOUR, SIX), anna)
    anna.link.sessions.add(session_at(BY_FOUR), 0.0)
    assert ways.way_to(other(), BY_FOUR, FRESH_S) == BY_FOUR
    later = FRESH_S + 100.0
    assert [ways.way_to(other(), BY_FOUR, later + s) for s in (0.0, 0.5, 1.0)] == [BY_FOUR, BY_SIX, BY_FOUR]
    assert ways.way_to(other(), BY_FOUR, later + 1.0 + FORGOTTEN_S) == BY_FOUR


@pytest.mark.parametrize(
    ("own", "met_at", "expected"),
    [
        (FOUR, ("192.168.1.12", 4484), ("192.168.1.12", 4484)),
        (FOUR, BY_FOUR, None),  # it answered outside
        (FOUR, ("8.8.4.4", 4484), None),
        (ELSEWHERE, ("192.168.1.12", 4484), None),  # behind another router: a network of the same numbers
    ],
)
def test_a_peer_behind_our_router_is_near_where_it_answered_inside(
    own: Line, met_at: SocketAddress, expected: SocketAddress | None
) -> None:
    anna = endpoint_of("anna")
    anna.link.sessions.add(session_at(met_at), 0.0)
    ways = ways_of((own,), (FOUR,), anna)
    assert ways.near(key(b"other"), 1.0) == expected
    assert ways.near(key(b"third"), 1.0) is None
    assert ways.near(key(b"other"), 25 * 3600.0) is None, "the session is over"


@pytest.mark.parametrize("known", [(FOUR,), ()], ids=["a member", "one that claims our position"])
def test_datagrams_to_a_peer_behind_our_router_stay_in_the_house(known: Sequence[Line]) -> None:
    """Its outside address leads nowhere from here. Two peers of a house were never one ring, and both had slot 0."""
    anna = endpoint_of("anna")
    ways = ways_of((FOUR,), known, anna)
    assert ways.way_to(other(), BY_FOUR, 0.0) == BY_FOUR, "not met yet"
    for at, host in ((1.0, "192.168.1.12"), (2.0, "192.168.1.77"), (1.5, "192.168.1.13")):
        session = session_at((host, 4484))
        session.local_id = host.encode()[-8:]
        session.used_at = at
        anna.link.sessions.add(session, 0.0)
    assert ways.way_to(other(), BY_FOUR, 3.0) == ("192.168.1.77", 4484), "where it was heard last"
    at_another_router = ways_of((ELSEWHERE,), known, anna)
    assert at_another_router.way_to(other(), BY_FOUR, 3.0) == BY_FOUR


def session_at(address: SocketAddress, record: bytes = b"") -> Session:
    return Session(
        local_id=bytes(8),
        remote_id=bytes(8),
        public_key=key(b"other"),
        address=address,
        keys=(b"a" * 32, b"b" * 32),
        record=record,
        is_initiator=True,
        now=0.0,
    )


@pytest.mark.parametrize(("own", "expected"), [((SIX,), BY_SIX), ((FOUR, SIX), BY_FOUR)])
def test_a_newcomer_is_asked_where_its_place_is_unless_we_have_no_such_address(
    own: Sequence[Line], expected: SocketAddress
) -> None:
    anna, record = endpoint_of("anna"), changed(record_of("bert"), lines=(FOUR, SIX))
    session = session_at(BY_SIX, encode_record(sign_record(key_from("bert"), record)))
    session.public_key = record.peer
    anna.link.sessions.add(session, 0.0)
    first = Contact.at(record.peer, FOUR.address, 0, 0, "ip")
    assert ways_of(own, (), anna).way_to(first, BY_FOUR, 1.0) == expected


@asynccontextmanager
async def opened(
    name: str,
    hosts: Sequence[str],
    wanted: int = 0,
    dial_stream: DialStream | None = None,
    *,
    is_guessed: bool = False,
    on_failed: Callable[[], None] = lambda: None,
) -> AsyncIterator[RingNode]:
    with udp.bind((hosts[0], 0)) as probe:
        port = int(probe.getsockname()[1])
    first, *others = (packed_address((host, port)) for host in hosts)
    settings = NodeSettings(
        rules=replace(RULES, id_check="ip"),
        address=first,
        others=tuple(map(Line.at, others)),
        is_address_guessed=is_guessed,
        limits=TransportLimits.for_one_machine(),
        dial_backs_wanted=wanted,
    )
    ports = NodePorts(
        wall_clock=lambda: EPOCH_S + anyio.current_time(),
        random=Random(name),
        entropy=Random(f"{name} {port}").randbytes,
        dial_stream=dial_stream,
        on_failed_test=on_failed,
    )
    async with open_node(settings, key_from(name), ports, [(host, port) for host in hosts]) as node:
        yield node


@pytest.mark.anyio
async def test_peers_with_ipv6_alone_and_peers_with_both_are_one_ideal_ring() -> None:
    async with AsyncExitStack() as stack:
        both, six, again = [
            await stack.enter_async_context(opened(name, hosts))
            for name, hosts in (
                ("both", ("127.1.0.1", "::1")),
                ("six", ("::1",)),
                ("both again", ("127.2.0.1", "::1")),
            )
        ]
        await both.join([])
        assert await six.join([both.lines_of(both.me.peer)[1].address])
        assert await again.join([both.me.address])
        nodes = (both, six, again)
        await until(lambda: all(len(node.members()) == 3 for node in nodes), within_s=120)
        await until(lambda: all(node.statistics().is_ideal for node in nodes), within_s=120)
        assert all(node.statistics().is_joined for node in nodes)
        assert six.statistics().restarts == 0
        found = [await node.holders(key_of(b"a page"), 3) for node in nodes]
        assert found[0] == found[1] == found[2]


class Web:
    """Streams get through to the hosts that are open."""

    def __init__(self, *closed: str) -> None:
        self.closed = set(closed)
        self.dialled: list[SocketAddress] = []

    async def stream(self, address: SocketAddress, peer: bytes) -> bool:
        del peer
        self.dialled.append(address)
        await anyio.lowlevel.checkpoint()
        return address[0] not in self.closed


def hosts_of(node: RingNode, of: RingNode) -> list[str]:
    """The hosts at which this node would call the other one."""
    return [socket_address(line.host, 0)[0] for line in node.lines_of(of.me.peer)]


@pytest.mark.anyio
async def test_each_line_of_a_peer_is_tested_where_it_is() -> None:
    web = Web()
    async with opened("both", ("127.1.0.1", "::1"), dial_stream=web.stream) as both:
        await both.join([])
        async with opened("again", ("127.2.0.1", "::1"), wanted=1) as again:
            await again.join([both.lines_of(both.me.peer)[1].address])
            await until(lambda: again.statistics().reachability.startswith("Member. 1 peer"), within_s=60)
            await until(lambda: len(web.dialled) == 2, within_s=60)
            port = again.me.address.port
            assert set(web.dialled) == {("127.2.0.1", port), ("::1", port)}, "though they had met by IPv6"


@pytest.mark.anyio
async def test_a_second_line_that_nobody_gets_through_to_is_named_no_more_until_it_is_open() -> None:
    web = Web("::1")
    failed: list[float] = []
    async with opened("both", ("127.1.0.1", "::1"), dial_stream=web.stream) as both:
        await both.join([])
        async with opened(
            "again", ("127.2.0.1", "::1"), wanted=1, on_failed=lambda: failed.append(anyio.current_time())
        ) as again:
            await again.join([both.me.address])
            await until(lambda: hosts_of(both, again) == ["127.2.0.1"], within_s=120)
            assert failed, "its firewall is asked again"
            assert again.statistics().standing is Reachability.MEMBER
            web.closed.clear()
            again.test_other()
            await until(lambda: hosts_of(both, again) == ["127.2.0.1", "::1"], within_s=120)


@pytest.mark.anyio
async def test_a_second_line_that_changes_is_followed_and_the_ring_is_told() -> None:
    async with opened("both", ("127.1.0.1", "::1"), dial_stream=Web().stream) as both:
        await both.join([])
        async with opened("again", ("127.2.0.1", "::1"), wanted=1) as again:
            await again.join([both.me.address])
            await until(lambda: hosts_of(both, again) == ["127.2.0.1", "::1"], within_s=120)
            again.has_other(SIX)
            await until(lambda: hosts_of(both, again) == ["127.2.0.1", BY_SIX[0]], within_s=60)
            again.has_other(None)
            await until(lambda: hosts_of(both, again) == ["127.2.0.1"], within_s=60)


@pytest.mark.anyio
async def test_where_the_first_line_is_dead_the_second_becomes_the_first() -> None:
    web = Web("127.2.0.1")
    async with opened("both", ("127.1.0.1", "::1"), dial_stream=web.stream) as both:
        await both.join([])
        async with opened("again", ("127.2.0.1", "::1"), wanted=1, is_guessed=True) as again:
            await again.join([both.me.address])
            await until(lambda: hosts_of(both, again) == ["::1"], within_s=120)
            await until(lambda: again.statistics().standing is Reachability.MEMBER, within_s=60)
            nodes = (both, again)
            await until(lambda: all(node.statistics().is_ideal for node in nodes), within_s=60)
            assert again.my_arcs()


@pytest.mark.anyio
async def test_a_first_line_that_dies_later_gives_way_to_the_second_if_that_is_open_then() -> None:
    web = Web()
    async with opened("both", ("127.1.0.1", "::1"), dial_stream=web.stream) as both:
        await both.join([])
        async with opened("again", ("127.2.0.1", "::1"), wanted=1, is_guessed=True) as again:
            await again.join([both.me.address])
            await until(lambda: len(web.dialled) == 2, within_s=60)
            assert hosts_of(both, again) == ["127.2.0.1", "::1"]
            web.closed.add("127.2.0.1")
            again.test_reachability()
            await until(lambda: hosts_of(both, again) == ["::1"], within_s=120)
            await until(lambda: again.statistics().standing is Reachability.MEMBER, within_s=40)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("tester", "closed", "is_guessed", "expected"),
    [
        (("127.1.0.1", "::1"), ("127.2.0.1", "::1"), True, ["127.2.0.1"]),
        (("127.1.0.1", "::1"), ("127.2.0.1",), False, ["127.2.0.1", "::1"]),
        (("127.1.0.1",), ("127.2.0.1",), True, ["127.2.0.1", "::1"]),
    ],
    ids=["both are dead", "the operator stated it", "nobody can test the second"],
)
async def test_the_first_line_stays_first(
    tester: Sequence[str], closed: Sequence[str], is_guessed: bool, expected: Sequence[str]
) -> None:
    web = Web(*closed)
    async with opened("both", tester, dial_stream=web.stream) as both:
        await both.join([])
        async with opened("again", ("127.2.0.1", "::1"), wanted=1, is_guessed=is_guessed) as again:
            await again.join([both.me.address])
            await until(lambda: again.statistics().standing is Reachability.LEAF, within_s=200)
            await until(lambda: len(web.dialled) >= 2, within_s=200)
            await until(lambda: hosts_of(both, again) == expected, within_s=60)
            assert again.statistics().standing is Reachability.LEAF


@pytest.mark.parametrize(("is_strict", "expected"), [(True, BY_FOUR), (False, BY_SIX)])
def test_what_is_meant_for_one_address_takes_no_other_way(is_strict: bool, expected: SocketAddress) -> None:
    anna = endpoint_of("anna")
    anna.way_to = lambda _to, _target, _now: (BY_SIX, False)
    assert anna.send(Ping(id=1), other(), 0.0, is_strict=is_strict)
    assert [address for _, address in anna.link.outgoing] == [expected]
