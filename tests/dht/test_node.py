"""Nodes whose sockets and clocks are virtual: what a peer does in its ring, in milliseconds."""

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Literal

import anyio
import pytest

from dht import udp
from dht.core.effects import ArcsChanged, Joined, JoinFailed, PeerChanged
from dht.core.ids import Key, NetworkId, PeerKey, key_of
from dht.core.places import BY_PEER, PlaceRules
from dht.core.records import Address, Contact, Line, SignedRecord, Stay
from dht.core.rules import RingRules
from dht.endpoint import packed_address
from dht.errors import NoAnswerError
from dht.identity import peer_key
from dht.node import RingNode, open_node
from dht.node_types import EVENTS_MAX, EventsLost, NodePorts, NodeSettings, Subscription
from dht.transport import OwnAddressChanged, TransportLimits
from tests.dht.link_world import NETWORK, key_from

pytestmark = pytest.mark.anyio

EPOCH_S = 1_790_000_000.0
LOCALHOST = bytes((127, 0, 0, 1))
RULES = RingRules(
    network=NetworkId(NETWORK),
    id_check="off",
    stabilize_s=2.0,
    rumour_s=1.0,
    digest_s=5.0,
    graveyard_s=5.0,
)
NAMES = ("anna", "bert", "carl", "dora", "emil")


@pytest.fixture
def anyio_backend(virtual_time: Any) -> Any:
    return virtual_time


@dataclass(slots=True, kw_only=True)
class Peer:
    """What a test may see of a node, and do to it."""

    node: RingNode
    records: list[SignedRecord]
    met: list[Contact]
    clock_step_s: list[float]

    @property
    def address(self) -> Address:
        return self.node.me.address


@dataclass(slots=True, kw_only=True)
class Ways:
    """How a node of a test differs from the usual one."""

    port: int = 0
    host: bytes = LOCALHOST
    is_address_guessed: bool = False
    virtual_nodes: int = 1
    incarnation: int = 0
    id_check: Literal["ip", "off"] = "off"
    previous: str = ""  # whose key was rotated
    since: int = 0
    trail: tuple[Stay, ...] = ()
    places: PlaceRules = BY_PEER
    copies: int = 6
    dial_backs: int = 0


def free_port() -> int:
    sock = udp.bind(("127.0.0.1", 0))
    try:
        return int(sock.getsockname()[1])
    finally:
        sock.close()


@asynccontextmanager
async def opened(name: str, ways: Ways | None = None) -> AsyncIterator[Peer]:
    ways = ways or Ways()
    records: list[SignedRecord] = []
    met: list[Contact] = []
    step_s = [0.0]

    port = ways.port or free_port()
    settings = NodeSettings(
        rules=replace(RULES, copies=ways.copies, id_check=ways.id_check, places=ways.places),
        since=ways.since,
        trail=ways.trail,
        address=Address(host=ways.host, port=port),
        is_address_guessed=ways.is_address_guessed,
        virtual_nodes=ways.virtual_nodes,
        incarnation=ways.incarnation,
        previous_key=key_from(ways.previous) if ways.previous else None,
        limits=TransportLimits.for_one_machine(),
        dial_backs_wanted=ways.dial_backs,
    )
    ports = NodePorts(
        wall_clock=lambda: EPOCH_S + anyio.current_time() + step_s[0],
        random=Random(name),
        entropy=Random(f"{name} {port}").randbytes,
        on_record=records.append,
        on_met=met.append,
    )
    async with open_node(settings, key_from(name), ports, [("127.0.0.1", port)]) as node:
        yield Peer(node=node, records=records, met=met, clock_step_s=step_s)


@asynccontextmanager
async def ring_of(*names: str) -> AsyncIterator[list[Peer]]:
    """Peers in one ideal ring; the first is the contact of the others."""
    async with anyio.create_task_group() as tasks, _all_opened(names) as peers:
        assert not await peers[0].node.join([])
        for peer in peers[1:]:
            tasks.start_soon(peer.node.join, [peers[0].address])
        await until_ideal(peers)
        yield peers


@asynccontextmanager
async def _all_opened(names: tuple[str, ...]) -> AsyncIterator[list[Peer]]:
    if not names:
        yield []
        return
    async with opened(names[0]) as first, _all_opened(names[1:]) as others:
        yield [first, *others]


def is_ideal(peers: list[Peer]) -> bool:
    figures = [peer.node.statistics() for peer in peers]
    return all(one.is_joined and one.is_ideal and one.ring.members == len(peers) for one in figures)


async def until(fact: Callable[[], object], within_s: float = 300) -> None:
    """In virtual time, so that waiting costs what the waited-for costs."""
    with anyio.fail_after(within_s):
        while not fact():
            with anyio.move_on_after(0.1):  # no event tells of all that is waited for here
                await anyio.sleep_forever()


async def until_ideal(peers: list[Peer]) -> None:
    await until(lambda: is_ideal(peers))


def in_ring_order(peers: list[Peer], key: Key) -> list[PeerKey]:
    """From the positions alone: who owns the key, and who comes after."""
    after = sorted(peers, key=lambda peer: (peer.node.me.position < key, peer.node.me.position))
    return [peer.node.me.peer for peer in after]


async def test_a_node_that_finds_nobody_is_a_ring_of_one_that_owns_everything() -> None:
    async with opened("anna") as anna:
        assert not await anna.node.join([Address(host=LOCALHOST, port=free_port())])
        assert is_ideal([anna])
        (arc,) = anna.node.my_arcs()
        assert arc.start == arc.end
        assert await anna.node.owner(key_of(b"anything")) == anna.node.me


async def test_five_nodes_form_one_ring_and_name_the_holders_in_ring_order() -> None:
    async with ring_of(*NAMES) as peers:
        for number in range(10):
            key = key_of(b"page %d" % number)
            expected = in_ring_order(peers, key)
            for peer in peers:
                holders = await peer.node.holders(key, 3)
                assert [holder.peer for holder in holders] == expected[:3]
                assert (await peer.node.owner(key)).peer == expected[0]
        assert len(await peers[0].node.holders(key_of(b"x"), 9)) == 5
        assert {member.peer for member in peers[3].node.members()} == {peer_key(key_from(n)) for n in NAMES}
        assert {member.clock for member in peers[3].node.members()} == {"well"}


async def test_arcs_of_one_copy_divide_the_circle() -> None:
    async with ring_of(*NAMES) as peers:
        own = sorted((arc for peer in peers for arc in peer.node.my_arcs(1)), key=lambda arc: arc.end)
        assert [arc.start for arc in own] == [own[-1].end, *(arc.end for arc in own[:-1])]
        (whole,) = peers[0].node.my_arcs()
        assert whole.start == whole.end, "six copies in a ring of five: everybody holds everything"


async def test_virtual_nodes_join_one_by_one_and_are_one_member() -> None:
    async with opened("anna", Ways(virtual_nodes=3)) as anna, opened("bert", Ways(virtual_nodes=2)) as bert:
        await anna.node.join([])
        with bert.node.events() as events:
            assert await bert.node.join([anna.address])
            await until_ideal([anna, bert])
            assert sum(isinstance(event, Joined) for event in await events.wait()) == 2
        assert [len(peer.node.statistics().ring.nodes) for peer in (anna, bert)] == [3, 2]


async def test_arcs_that_change_are_told() -> None:
    one_copy = Ways(copies=1)
    async with opened("anna", one_copy) as anna, opened("bert", one_copy) as bert:
        await anna.node.join([])
        with anna.node.events() as events:
            await bert.node.join([anna.address])
            arcs: list[ArcsChanged] = []
            with anyio.fail_after(60):
                while not arcs:
                    arcs += [event for event in await events.wait() if isinstance(event, ArcsChanged)]
        assert arcs[-1].arcs == anna.node.my_arcs()


async def test_events_tell_of_the_death_of_a_peer() -> None:
    """Whoever notices first tells of all the steps; the others may learn of the end alone, by rumour."""
    gone = peer_key(key_from("dora"))
    clocks: dict[str, list[str]] = {"anna": [], "bert": [], "carl": []}

    async def watch(name: str, events: Subscription) -> None:
        while "dead" not in clocks[name]:
            clocks[name] += [
                event.clock
                for event in await events.wait()
                if isinstance(event, PeerChanged) and event.peer == gone
            ]

    async with ring_of("anna", "bert", "carl") as (anna, bert, carl):
        with anna.node.events() as at_anna, bert.node.events() as at_bert, carl.node.events() as at_carl:
            async with opened("dora") as dora:
                await dora.node.join([bert.address])
                await until_ideal([anna, bert, carl, dora])
            with anyio.fail_after(600):
                async with anyio.create_task_group() as tasks:
                    for name, events in zip(clocks, (at_anna, at_bert, at_carl), strict=True):
                        tasks.start_soon(watch, name, events)
        assert all(told[-1] == "dead" for told in clocks.values())
        steps = [told[: told.index("dead")] for told in clocks.values()]
        assert any("unreachable" in before for before in steps), clocks
        await until_ideal([anna, bert, carl])


async def test_a_slow_subscriber_is_told_that_events_were_lost() -> None:
    subscription = Subscription()
    event = ArcsChanged(arcs=())
    for _ in range(EVENTS_MAX):
        subscription.put(event)
    assert await subscription.wait() == [event] * EVENTS_MAX
    for _ in range(EVENTS_MAX + 2):
        subscription.put(event)
    assert await subscription.wait() == [EventsLost(), event]
    with anyio.move_on_after(1) as scope:
        await subscription.wait()
    assert scope.cancelled_caught, "nothing is told twice"


async def test_a_node_that_leaves_is_gone_from_the_others_at_once() -> None:
    async with ring_of("anna", "bert", "carl") as (anna, bert, carl):
        began = anyio.current_time()
        carl.node.leave()
        await until_ideal([anna, bert])
        assert anyio.current_time() - began < 15, "a goodbye is not a suspicion of half a minute"
        with pytest.raises(NoAnswerError):
            await carl.node.owner(key_of(b"anything"))


@pytest.mark.parametrize("step_s", [300.0, -720.0])  # a record may be ten minutes off
async def test_a_clock_that_jumped_makes_a_newer_self_that_joins_again(step_s: float) -> None:
    async with ring_of("anna", "bert", "carl") as (anna, bert, carl):
        before = carl.records[-1].record.incarnation
        position = carl.node.me.position
        carl.clock_step_s[0] = step_s
        await until(lambda: carl.node.statistics().restarts == 1)
        await until_ideal([anna, bert, carl])
        assert carl.records[-1].record.incarnation > before
        assert carl.node.me.position == position


async def test_a_clock_that_drifts_a_little_changes_nothing() -> None:
    async with ring_of("anna", "bert") as (anna, bert):
        bert.clock_step_s[0] = 30.0
        await anyio.sleep(60)
        assert bert.node.statistics().restarts == 0
        assert is_ideal([anna, bert])


async def test_a_guessed_address_gives_way_to_what_the_contacts_see() -> None:
    guess = Ways(host=bytes((192, 0, 2, 77)), is_address_guessed=True)
    async with opened("anna") as anna, opened("bert", guess) as bert:
        await anna.node.join([])
        await bert.node.join([anna.address])
        assert bert.node.me.address.host == LOCALHOST
        await until_ideal([anna, bert])


async def test_a_changed_address_moves_a_guesser_and_leaves_alone_who_was_told() -> None:
    told = Ways(is_address_guessed=False)
    guessed = Ways(is_address_guessed=True)
    async with opened("anna") as anna, opened("bert", guessed) as bert, opened("carl", told) as carl:
        await anna.node.join([])
        for peer in (bert, carl):
            await peer.node.join([anna.address])
        await until_ideal([anna, bert, carl])
        moved = OwnAddressChanged(address=Address(host=bytes((127, 0, 0, 2)), port=1))
        for peer in (bert, carl):
            peer.node._on_event(moved, anyio.current_time())
        assert bert.node.me.address == Address(host=bytes((127, 0, 0, 2)), port=bert.address.port)
        assert bert.node.statistics().restarts == 1
        assert carl.node.statistics().restarts == 0
        assert carl.node.me.address.host == LOCALHOST


async def test_a_port_with_another_number_outside_is_the_one_in_the_record() -> None:
    async with ring_of("anna", "bert") as (_, bert):
        bert.node.advertise_port(50_001)
        bert.node.advertise_port(50_001)
        assert bert.node.statistics().restarts == 1
        record = bert.node.record
        assert record is not None
        assert record.record.lines == (Line(host=LOCALHOST, udp=50_001, tcp=50_001),)


async def test_two_nodes_that_only_name_each_other_still_become_a_ring() -> None:
    ports = free_port(), free_port()
    async with opened("anna", Ways(port=ports[0])) as anna, opened("bert", Ways(port=ports[1])) as bert:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anna.node.join, [Address(host=LOCALHOST, port=ports[1])])
            tasks.start_soon(bert.node.join, [Address(host=LOCALHOST, port=ports[0])])
        await until_ideal([anna, bert])


async def test_a_join_that_fails_is_tried_again_until_there_is_a_ring() -> None:
    """The contact answers handshakes, but is itself in no ring yet."""
    async with opened("anna") as anna, opened("bert") as bert:
        with bert.node.events() as events:
            assert await bert.node.join([anna.address])
            await anyio.sleep(30)
            await anna.node.join([])
            await until_ideal([anna, bert])
            assert not any(isinstance(event, JoinFailed) for event in await events.wait())


async def test_a_contact_that_was_down_is_met_when_it_is_shown_later() -> None:
    port = free_port()
    async with opened("bert") as bert:
        there = Address(host=LOCALHOST, port=port)
        assert not await bert.node.join([there])
        assert not await bert.node.show(there)
        async with opened("anna", Ways(port=port)) as anna:
            await anna.node.join([])
            assert not bert.node.is_known(there)
            assert await bert.node.show(there)
            await until_ideal([anna, bert])
            assert bert.node.is_known(there)
            assert not await bert.node.show(there), "nothing new"
            assert anna.node.record is not None
            assert not bert.node.show_record(anna.node.record)


async def test_the_dead_among_the_contacts_do_not_hold_up_a_join() -> None:
    async with ring_of("anna", "bert") as (anna, bert), opened("carl") as carl:
        silent = udp.bind(("127.0.0.1", 0))
        try:
            began = anyio.current_time()
            dead = [packed_address(silent.getsockname())]
            assert await carl.node.join([*dead, anna.address, bert.address])
            assert anyio.current_time() - began < 2
        finally:
            silent.close()
        await until_ideal([anna, bert, carl])


STRANGERS = Ways(places=PlaceRules())
"""No laboratory: what others name is dialled rarely, and all are in one network."""


async def test_strangers_behind_one_address_join_among_dead_contacts_and_two_rings_of_them_merge() -> None:
    dead = [Address(host=LOCALHOST, port=free_port()) for _ in range(20)]
    async with (
        opened("anna", STRANGERS) as anna,
        opened("bert", STRANGERS) as bert,
        opened("carl", STRANGERS) as carl,
        opened("dora", STRANGERS) as dora,
    ):
        assert not await anna.node.join(dead[:8])
        assert await bert.node.join([*dead[8:15], anna.address])
        assert not await carl.node.join(dead[15:])
        assert await dora.node.join([carl.address])
        await until(lambda: is_ideal([anna, bert]) and is_ideal([carl, dora]), 60)
        assert anna.node.record is not None
        assert dora.node.show_record(anna.node.record)  # as the rendezvous does
        await until_ideal([anna, bert, carl, dora])


async def test_sixteen_strangers_of_one_network_form_a_ring_as_fast_as_a_laboratory() -> None:
    took = []
    for ways in (Ways(), STRANGERS):
        async with AsyncExitStack() as stack:
            peers = [await stack.enter_async_context(opened(f"peer {n}", ways)) for n in range(16)]
            begun = anyio.current_time()
            assert not await peers[0].node.join([])
            async with anyio.create_task_group() as tasks:
                for peer in peers[1:]:
                    tasks.start_soon(peer.node.join, [peers[0].address])
            await until_ideal(peers)
            took.append(anyio.current_time() - begun)
    assert took[1] <= took[0] + 20, took


async def test_a_restart_goes_on_from_the_last_incarnation_where_the_clock_was_set_back() -> None:
    ahead = int(EPOCH_S) + 5_000
    async with opened("anna", Ways(incarnation=ahead)) as anna:
        await anna.node.join([])
        assert anna.records[-1].record.incarnation == ahead + 1
        assert anna.node.record == anna.records[-1]


async def test_a_restart_keeps_the_age_of_the_last_record_and_tells_of_a_move() -> None:
    today = int(EPOCH_S) // 86_400
    stay = Stay(place=bytes((4, 10, 0, 0)), since=today - 90)
    ways = Ways(since=today - 90, trail=(stay,), id_check="ip", places=PlaceRules(probation_days=99))
    async with opened("anna", ways) as anna:
        await anna.node.join([])
        said = anna.records[-1].record
        assert (said.since, said.trail) == (
            today - 90,
            (stay, Stay(place=bytes((4, 127, 0, 0)), since=today)),
        )
    async with opened("bert", replace(ways, since=today + 30, trail=())) as bert:
        await bert.node.join([])
        assert bert.records[-1].record.since == today, "a day to come would be refused by all"
    async with opened("carl") as carl:
        await carl.node.join([])
        assert carl.records[-1].record.since == today


async def test_whom_a_node_met_is_reported_for_remembering() -> None:
    async with ring_of("anna", "bert") as (anna, bert):
        assert [contact.address for contact in bert.met] == [anna.address]


async def test_who_is_there_goes_on_sending_frames_and_who_left_does_not() -> None:
    async with ring_of("anna", "boris", "carla") as (anna, boris, carla):
        leaver = boris.node.me.peer
        boris.node.leave()
        await until(lambda: not anna.node.knows(leaver))
        before = dict(anna.node.frames_received())
        await anyio.sleep(600)
        after = anna.node.frames_received()
        assert after[carla.node.me.peer] > before[carla.node.me.peer]
        assert after.get(leaver, 0) <= before.get(leaver, 0) + 1, "what was under way"


async def test_a_node_that_started_over_and_finds_nobody_goes_on_trying() -> None:
    async with opened("bert") as bert:
        async with opened("anna") as anna:
            await anna.node.join([])
            await bert.node.join([anna.address])
            await until_ideal([anna, bert])
        bert.clock_step_s[0] = 3_600.0  # a laptop wakes up, and its network is not there yet
        await until(lambda: bert.node.statistics().restarts == 1)
        await until(lambda: bert.node.statistics().is_joined)


async def test_after_a_new_address_what_is_said_waits_for_a_handshake_from_there() -> None:
    async with opened("bert") as bert, opened("anna", Ways(is_address_guessed=True)) as anna:
        await bert.node.join([])
        await anna.node.join([bert.address])
        await until_ideal([anna, bert])
        before = list(anna.node.endpoint.link.sessions)
        assert before
        anna.node.moved_to(bytes((127, 0, 0, 2)))
        assert all(session.is_doubtful for session in before)
