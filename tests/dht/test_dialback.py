"""Nodes on loopback addresses of different /16: who can be called back becomes a member, who cannot a leaf."""

from collections import Counter
from collections.abc import AsyncIterator, Callable, Container, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from dht import udp
from dht.core.effects import ArcsChanged
from dht.core.frames import DATAGRAM_BYTES_MAX, Echo, Nonce, parse_greeting
from dht.core.frames import Address as SocketAddress
from dht.core.ids import PeerKey, key_of
from dht.core.messages import DialBackReply, DialBackRequest, Message, StrangerDial, StrangerDialled
from dht.core.reachability import Reachability
from dht.core.records import LEAF, Address, Contact
from dht.dialback import AT_ONCE_MAX, STREAM_S, DialBacks, Dialled, dial_back
from dht.endpoint import SessionEndpoint, address_text, packed_address
from dht.node import RingNode, open_node
from dht.node_types import NodePorts, NodeSettings, OpenTransport
from dht.transport import OnEvent, OnMessages, TransportLimits
from dht.udp import UdpTransport, open_udp
from tests.dht.link_world import NETWORK, key_from
from tests.dht.memory_sockets import MemorySocket
from tests.dht.test_node import EPOCH_S, RULES, until

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(virtual_time: Any) -> Any:
    return virtual_time


class Firewalled(MemorySocket):
    """What a home router does: only whom we have sent to may send to us, from that very address and port."""

    def __init__(self) -> None:
        super().__init__()
        self.called: set[Any] = set()
        self.kept_out = 0

    def sendto(self, data: bytes, address: SocketAddress, /) -> int:
        self.called.add(address)
        return super().sendto(data, address)

    def recvfrom(self, bufsize: int = DATAGRAM_BYTES_MAX, /) -> tuple[bytes, Any]:
        while True:
            data, source = super().recvfrom(bufsize)
            if source in self.called:
                return data, source
            self.kept_out += 1


def behind(sock: Firewalled) -> OpenTransport:
    @asynccontextmanager
    async def opened(
        endpoint: SessionEndpoint,
        listen: Sequence[SocketAddress],
        *,
        on_messages: OnMessages,
        on_event: OnEvent,
    ) -> AsyncIterator[UdpTransport]:
        with closing(sock):
            sock.bind(listen[0])
            transport = UdpTransport(endpoint, [sock], on_messages, on_event)
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(transport.run)
                try:
                    yield transport
                finally:
                    transport.close()
                    tasks.cancel_scope.cancel()

    return opened


def free_port(host: str) -> int:
    with udp.bind((host, 0)) as sock:
        return int(sock.getsockname()[1])


@asynccontextmanager
async def opened(
    name: str,
    network: int,
    wanted: int,
    open_transport: OpenTransport = open_udp,
    *,
    gets_through: bool | None = None,
    streamed_to: Callable[[str], bool] = lambda host: False,
) -> AsyncIterator[RingNode]:
    """`gets_through`: what this one's dials by stream come to; None: there are no streams."""
    host = f"127.{network}.0.1"
    port = free_port(host)
    settings = NodeSettings(
        rules=replace(RULES, id_check="ip"),
        address=packed_address((host, port)),
        virtual_nodes=2,
        limits=TransportLimits.for_one_machine(),
        dial_backs_wanted=wanted,
    )

    async def dial_stream(_address: SocketAddress, _key: PeerKey) -> bool:
        return bool(gets_through)

    ports = NodePorts(
        streamed_to=streamed_to,
        dial_stream=None if gets_through is None else dial_stream,
        wall_clock=lambda: EPOCH_S + anyio.current_time(),
        random=Random(name),
        entropy=Random(f"{name} {port}").randbytes,
    )
    async with open_node(
        settings, key_from(name), ports, [(host, port)], open_transport=open_transport
    ) as node:
        yield node


@asynccontextmanager
async def ring_of_networks(
    count: int, wanted: int = 3, let_in: Container[int] | None = None
) -> AsyncIterator[list[RingNode]]:
    """Members on trust and tested ones, each of a network of its own; `let_in`: the networks whose streams pass."""
    async with AsyncExitStack() as stack:
        nodes: list[RingNode] = []
        for number in range(count):
            gets_through = None if let_in is None else number + 1 in let_in
            node = await stack.enter_async_context(
                opened(f"peer {number}", number + 1, wanted, gets_through=gets_through)
            )
            await node.join([nodes[0].me.address] if nodes else [])
            nodes.append(node)
        await until(lambda: all(standing(node) is Reachability.MEMBER for node in nodes))
        await until(lambda: all(node.statistics().is_joined and node.my_arcs() for node in nodes))
        yield nodes


def at(node: RingNode) -> str:
    return address_text(node.me.address)


def standing(node: RingNode) -> Reachability:
    return node.statistics().standing


def contact_at(host: str, port: int = 4484) -> Contact:
    return Contact.at(PeerKey(bytes(32)), packed_address((host, port)), 0, 0, "ip")


async def test_who_is_reached_from_three_networks_becomes_a_member_with_all_its_positions() -> None:
    async with ring_of_networks(3) as nodes, opened("new", 9, 3) as new:
        assert await new.join([nodes[0].me.address])
        assert new.record is not None
        assert new.record.record.flags & LEAF, "untested, it owns nothing"
        await until(lambda: standing(new) is Reachability.MEMBER)
        assert new.statistics().reachability == (
            f"Member. 3 peers in 3 networks called this peer by UDP and TCP at {at(new)}, none of them a stranger"
            " to it."
        )
        await until(lambda: new.statistics().is_joined and new.my_arcs())
        assert len(new.statistics().ring.nodes) == 2
        assert not new.record.record.flags & LEAF


async def test_a_young_ring_makes_members_on_trust_and_says_so() -> None:
    async with ring_of_networks(2) as nodes:
        for node in nodes:
            assert node.statistics().reachability.startswith("Member on trust: ")
            assert node.statistics().reachability.endswith(" known, a test needs 3.")


async def test_whose_firewall_keeps_strangers_out_stays_a_leaf_with_a_reason_and_finds_every_owner() -> None:
    wall = Firewalled()
    async with ring_of_networks(4) as nodes, opened("shy", 9, 3, behind(wall)) as shy:
        assert await shy.join([nodes[0].me.address])
        await until(lambda: standing(shy) is Reachability.LEAF)
        assert wall.kept_out >= 9, "three nonces of each who was asked"
        assert sum(node.statistics().dial_backs["dial_back_failed"] for node in nodes) >= 3
        assert "none got through to" in shy.statistics().reachability
        assert shy.my_arcs() == ()
        await until(lambda: all(len(node.members()) == 5 for node in (*nodes, shy)))
        for number in range(10):
            key = key_of(b"page %d" % number)
            owner = await shy.owner(key)
            assert owner == await nodes[0].owner(key)
            assert owner.peer != shy.me.peer


async def test_a_leaf_whose_router_opens_becomes_a_member_at_the_next_test() -> None:
    wall = Firewalled()
    async with ring_of_networks(4) as nodes, opened("shy", 9, 3, behind(wall)) as shy:
        await shy.join([nodes[0].me.address])
        await until(lambda: standing(shy) is Reachability.LEAF)
        wall.called = _Everybody()
        shy.test_reachability()
        await until(lambda: standing(shy) is Reachability.MEMBER, within_s=20)
        await until(lambda: shy.statistics().is_joined and shy.my_arcs())


async def test_a_member_that_is_shut_off_becomes_a_leaf_and_the_others_close_the_ring_behind_it() -> None:
    wall = Firewalled()
    wall.called = _Everybody()
    async with ring_of_networks(4) as nodes, opened("shy", 9, 3, behind(wall)) as shy:
        await shy.join([nodes[0].me.address])
        await until(lambda: standing(shy) is Reachability.MEMBER)
        await until(lambda: shy.statistics().is_joined and shy.my_arcs())
        wall.called = set(wall.called)
        with shy.events() as events:
            shy.test_reachability()
            await until(lambda: standing(shy) is Reachability.LEAF)
            assert ArcsChanged(arcs=()) in await events.wait()
        await until(lambda: all(node.statistics().is_ideal for node in nodes))
        await until(lambda: all(not holds(node, shy) for node in nodes))


async def test_the_relays_of_a_closed_peer_in_a_small_ring_do_not_make_it_a_member() -> None:
    """Its router filters by address: it lets in by stream those to which it opened one from its port."""
    relays = {1, 2, 3}
    async with (
        ring_of_networks(5, wanted=0, let_in=relays) as nodes,
        opened("shy", 9, 3, streamed_to=lambda host: int(host.split(".")[1]) in relays) as shy,
    ):
        await shy.join([nodes[0].me.address])
        await until(lambda: standing(shy) is Reachability.LEAF)
        assert "those get through whom this peer has called" in shy.statistics().reachability


def holds(node: RingNode, other: RingNode) -> bool:
    lists = [contact for view in node.statistics().ring.nodes for contact in view.successors]
    return any(contact.peer == other.me.peer for contact in lists)


async def test_a_leaf_that_leaves_is_forgotten_by_all() -> None:
    async with ring_of_networks(4) as nodes, opened("shy", 9, 3, behind(Firewalled())) as shy:
        await shy.join([nodes[0].me.address])
        await until(lambda: standing(shy) is Reachability.LEAF)
        await until(lambda: all(len(node.members()) == 5 for node in nodes))
        shy.leave()
        await until(lambda: all(len(node.members()) == 4 for node in nodes))


class _Everybody(set[Any]):
    def __contains__(self, address: object) -> bool:
        return True


async def test_others_are_served_one_per_second_and_prefix_and_sixteen_at_once() -> None:
    served: list[SocketAddress] = []
    go_on = anyio.Event()

    async def slowly(
        host: str, network: bytes, nonce: bytes, target: SocketAddress, counts: Counter[str], tries: int
    ) -> bool:
        del host, network, nonce, counts, tries
        served.append(target)
        await go_on.wait()
        return True

    dial_backs = DialBacks(NETWORK, ["127.0.0.1"], Random(1).randbytes, slowly)
    answers: list[tuple[Message, Contact]] = []

    def send(message: Message, to: Contact) -> None:
        answers.append((message, to))

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            sender = contact_at(f"10.0.{number // 2}.{number}")
            request = DialBackRequest(id=number, udp=99, tcp=99)
            if dial_backs.take((sender.peer, number), (f"10.0.{number // 2}.{number}", 99), 0.0):
                tasks.start_soon(dial_backs.serve, request, sender, send)
                assert not dial_backs.take((sender.peer, number), ("10.99.0.1", 99), 0.0), "asked again"
        await anyio.wait_all_tasks_blocked()
        assert len(served) == AT_ONCE_MAX
        assert len({host.rsplit(".", 1)[0] for host, _ in served}) == AT_ONCE_MAX
        assert {port for _, port in served} == {99}
        assert dial_backs.counts["dial_back_flood"] == 100 - AT_ONCE_MAX
        go_on.set()
    assert {message for message, _ in answers} == {
        DialBackReply(id=number, is_reached=True, by_stream=True, is_cold=False)
        for number in range(0, 2 * AT_ONCE_MAX, 2)
    }
    assert not dial_backs.take("one", ("10.0.0.9", 1), 0.5)
    assert dial_backs.take("one", ("10.0.0.9", 1), 1.5)
    assert not dial_backs.take("two", ("2001:db8::1", 1), 2.0), "there is no socket of that family"


@pytest.mark.parametrize("how", ["open", "closed", "slow"])
async def test_the_reply_says_by_which_protocol_the_asker_was_reached(how: str) -> None:
    dialled: list[tuple[SocketAddress, PeerKey]] = []
    sender, answers = contact_at("10.0.0.1"), list[Message]()

    async def by_datagram(*_: object) -> bool:
        await anyio.lowlevel.checkpoint()
        return True

    async def by_stream(address: SocketAddress, peer: PeerKey) -> bool:
        dialled.append((address, peer))
        await anyio.sleep(10 * STREAM_S if how == "slow" else 0)
        return how == "open"

    dial_backs = DialBacks(NETWORK, ["127.0.0.1"], Random(1).randbytes, by_datagram, by_stream)
    assert dial_backs.take((sender.peer, 1), ("10.0.0.1", 99), 0.0)
    request = DialBackRequest(id=1, udp=99, tcp=98)
    await dial_backs.serve(request, sender, lambda message, _: answers.append(message))
    assert dialled == [(("10.0.0.1", 98), sender.peer)]
    assert answers == [DialBackReply(id=1, is_reached=True, by_stream=how == "open", is_cold=False)]
    assert dial_backs.counts["dial_back_failed"] == (how != "open")


async def test_an_echo_of_other_bytes_is_counted_and_does_not_reach() -> None:
    counts: Counter[str] = Counter()
    with udp.bind(("127.1.0.1", 0)) as liar:
        target = liar.getsockname()

        async def lie() -> None:
            for _ in range(3):
                await anyio.wait_readable(liar)
                data, source = liar.recvfrom(2_000)
                frame = parse_greeting(data, NETWORK)
                assert isinstance(frame, Nonce)
                liar.sendto(Echo(network=NETWORK, value=bytes(32)).pack(), source)
                liar.sendto(data, source)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lie)
            assert not await dial_back("127.2.0.1", NETWORK, b"n" * 32, target, counts)
    assert counts["dial_back_nonce"] == 6


async def test_an_echo_from_elsewhere_does_not_count() -> None:
    counts: Counter[str] = Counter()
    with udp.bind(("127.1.0.1", 0)) as asked, udp.bind(("127.3.0.1", 0)) as other:

        async def answer_from_elsewhere() -> None:
            await anyio.wait_readable(asked)
            data, source = asked.recvfrom(2_000)
            frame = parse_greeting(data, NETWORK)
            assert isinstance(frame, Nonce)
            other.sendto(Echo(network=NETWORK, value=frame.value).pack(), source)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer_from_elsewhere)
            assert not await dial_back("127.2.0.1", NETWORK, b"n" * 32, asked.getsockname(), counts)
    assert counts["dial_back_nonce"] == 1


async def test_an_answer_of_somebody_who_was_not_asked_is_for_nobody() -> None:
    async with opened("anna", 1, 3) as anna:
        anna._reach.answered(
            DialBackReply(id=7, is_reached=True, by_stream=True, is_cold=True), contact_at("127.2.0.1")
        )
        assert standing(anna) is Reachability.UNKNOWN
        assert anna.me.address == Address(host=bytes((127, 1, 0, 1)), port=anna.me.address.port)


@pytest.mark.parametrize("use_uvloop", [False, True])
def test_a_dial_back_reaches_an_open_peer_on_the_loops_of_production_too(use_uvloop: bool) -> None:
    async def reached() -> bool:
        async with opened("anna", 1, 0) as anna:
            anna.endpoint.link.strangers.nonces_awaited_until = float("inf")
            address = anna.me.address
            target = (".".join(map(str, address.host)), address.port)
            return await dial_back("127.2.0.1", NETWORK, b"n" * 32, target, Counter())

    assert anyio.run(reached, backend="asyncio", backend_options={"use_uvloop": use_uvloop})


async def test_a_stranger_dials_for_a_peer_that_it_has_never_heard_of() -> None:
    async with ring_of_networks(3) as nodes, opened("new", 9, 0) as new:
        new.endpoint.link.strangers.nonces_awaited_until = float("inf")
        request = DialBackRequest(id=1, udp=new.me.address.port, tcp=new.me.address.port)
        asked = nodes[0]._cold_dials
        assert await asked.by_stranger(request, new.me) == Dialled(is_reached=True, by_stream=True)
        served = [node.statistics().dial_backs for node in nodes]
        assert not any(counts.get("dial_back_failed") for counts in served)
        assert await nodes[1].meet(new.me.address)
        assert await nodes[2].meet(new.me.address)
        assert await asked.by_stranger(request, new.me) is None, "now both know it"
        assert nodes[0].statistics().dial_backs["dial_back_warm"] == 1


async def test_a_stranger_dials_for_members_alone_and_one_address_once_a_minute() -> None:
    sent: list[Message] = []
    async with ring_of_networks(2) as (node, member):
        dials = node._cold_dials
        dials._send = lambda message, _to: sent.append(message)
        request = StrangerDial(id=1, peer=PeerKey(b"k" * 32), host=bytes((127, 77, 0, 1)), udp=9, tcp=9)
        now = anyio.current_time()
        assert not dials.take(request, contact_at("127.8.0.1"), now), "asked by somebody unknown"
        assert dials.take(request, member.me, now)
        assert not dials.take(request, member.me, now + 2), "under way"
        await dials.serve(request, member.me)
        assert sent[-1] == StrangerDialled(id=1, is_stranger=True, is_reached=False, by_stream=False)
        assert not dials.take(request, member.me, now + 50)
        assert node.statistics().dial_backs["unanswered_address"] == 1
        assert dials.take(request, member.me, now + 62)
        dials._dial_backs.give_back((member.me.peer, 1))
        known = StrangerDial(id=2, peer=member.me.peer, host=bytes((127, 78, 0, 1)), udp=9, tcp=9)
        assert not dials.take(known, member.me, now + 70), "a peer that we talk to"
        assert sent[-1] == StrangerDialled(id=2, is_stranger=False, is_reached=False, by_stream=False)


async def test_a_cold_dial_of_a_silent_address_sends_one_nonce() -> None:
    counts: Counter[str] = Counter()
    with udp.bind(("127.1.0.1", 0)) as silent:
        dial_backs = DialBacks(NETWORK, ["127.2.0.1"], Random(1).randbytes)
        dial_backs.counts = counts
        target = silent.getsockname()
        found = await dial_backs.dial(target, target, PeerKey(bytes(32)), is_cold=True)
        assert found == Dialled(is_reached=False, by_stream=False)
        assert silent.recvfrom(2_000)
        with pytest.raises(BlockingIOError):
            silent.recvfrom(2_000)


async def test_a_member_whose_calls_are_said_to_fail_is_tested_again() -> None:
    async with ring_of_networks(4) as nodes:
        rounds = nodes[0]._reach.machine._round
        with anyio.fail_after(300):
            await anyio.sleep(61)
            nodes[1].tell_calls_fail(nodes[0].me.peer)
            await until(lambda: nodes[0]._reach.machine._round > rounds)
            await until(lambda: standing(nodes[0]) is Reachability.MEMBER)
        nodes[0]._reach.calls_fail(contact_at("10.9.9.9"))
        assert nodes[0]._reach.machine.next_deadline() != anyio.current_time(), "no member says so"


async def test_a_lan_needs_one_peer_that_calls_back() -> None:
    async with ring_of_networks(2, wanted=1) as nodes:
        assert (
            nodes[1].statistics().reachability
            == f"Member. 1 peer called this peer by UDP and TCP at {at(nodes[1])}, none of them a stranger to it."
        )
