"""Knocks at neighbours, in virtual time: what is said to a member that does not answer by TCP, and when."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio.testing

from dht import Contact
from dht.core.ids import PeerKey
from dht.core.reader import Member
from herodotus.core.reach import ARRANGED_REST_S, NEIGHBOURS_RARER
from herodotus.peers.reach import COMPLAIN_S, KNOCK_S, ReachWatch, next_key
from tests.dht.machines import member

pytestmark = pytest.mark.anyio
EVERY_S = 30.0


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Figures:
    def __init__(self, nodes: Any) -> None:
        self.ring = nodes


class Neighbours:
    """A ring of four members, as one of them sees it."""

    def __init__(self) -> None:
        self._machine = member(range(1, 4))
        self.complaints: list[tuple[float, PeerKey]] = []
        self.closed: set[PeerKey] = set()
        self.apart: set[PeerKey] = set()
        self.is_closed = False

    @property
    def me(self) -> Contact:
        return self._machine.me

    def statistics(self) -> Any:
        return Figures(self._machine.statistics())

    def members(self) -> tuple[Member, ...]:
        contacts = self._machine.nodes[0].successors
        return tuple(
            Member(peer=one.peer, address=one.address, virtual_nodes=1, clock="well") for one in contacts
        )

    def callable_members(self) -> list[Contact]:
        return [one for one in self._machine.nodes[0].successors if one.peer not in self.closed]

    def relays_of(self, peer: PeerKey) -> tuple[Contact, ...]:
        return (self.me,) if peer in self.closed else ()

    def is_apart(self, peer: PeerKey) -> bool:
        return peer in self.apart

    def closed_apart_and_open(self) -> tuple[PeerKey, PeerKey, PeerKey]:
        apart, closed, other = (one.peer for one in self._machine.nodes[0].successors)
        self.apart |= {apart, closed}
        self.closed.add(closed)
        return apart, closed, other

    def tell_calls_fail(self, peer: PeerKey) -> None:
        self.complaints.append((anyio.current_time(), peer))


async def watched(knock: Callable[[Member], Awaitable[None]], for_s: float) -> tuple[Neighbours, ReachWatch]:
    ring, watch = Neighbours(), ReachWatch(knock, EVERY_S)
    async with watch.running(ring):
        await anyio.sleep(for_s)
    return ring, watch


async def test_a_member_is_told_that_calls_fail_while_the_first_knock_still_waits() -> None:
    async def dropped(_member: Member) -> None:
        await anyio.sleep_forever()

    began = anyio.current_time()
    ring, _ = await watched(dropped, KNOCK_S - 1)
    told = {peer: at - began for at, peer in ring.complaints}
    assert len(told) == 3, "three neighbours, all at once"
    assert max(told.values()) < COMPLAIN_S + 1


async def test_a_member_that_refuses_is_told_at_once() -> None:
    async def refused(_member: Member) -> None:
        raise ConnectionRefusedError(111, "refused")

    ring, _ = await watched(refused, 1)
    assert len({peer for _, peer in ring.complaints}) == 3


async def test_a_member_that_is_slow_to_answer_hears_nothing() -> None:
    async def slow(_member: Member) -> None:
        await anyio.sleep(COMPLAIN_S - 1)

    ring, _ = await watched(slow, 60)
    assert ring.complaints == []


async def test_one_ward_is_knocked_at_all_the_time_and_who_is_closed_hardly_ever() -> None:
    knocks: list[PeerKey] = []

    async def answers(member: Member) -> None:
        knocks.append(member.peer)

    ring, watch = Neighbours(), ReachWatch(answers, EVERY_S)
    others = sorted(one.peer for one in ring.callable_members())
    ward = next_key(ring.me.peer, others)
    closed = next(peer for peer in others if peer != ward)
    ring.closed.add(closed)
    async with watch.running(ring):
        await anyio.sleep(2 * ARRANGED_REST_S)
    counts = {peer: knocks.count(peer) for peer in others}
    assert ward is not None
    assert counts[PeerKey(ward)] > 0.9 * 2 * ARRANGED_REST_S / EVERY_S
    assert counts[closed] in (2, 3)
    (third,) = set(others) - {ward, closed}
    assert 0.8 < counts[third] * 3 * NEIGHBOURS_RARER * EVERY_S / (2 * ARRANGED_REST_S) <= 1.1


def test_everybody_is_somebodys_ward() -> None:
    keys = [bytes((n,)) for n in (7, 3, 250, 90)]
    wards = {one: next_key(one, [key for key in keys if key != one]) for one in keys}
    assert wards == {b"\x07": b"\x5a", b"\x03": b"\x07", b"\xfa": b"\x03", b"\x5a": b"\xfa"}
    assert next_key(b"\x07", []) is None


async def test_who_has_no_family_of_ours_and_no_relay_is_neither_tried_nor_blamed() -> None:
    knocks: list[PeerKey] = []

    async def fails(member: Member) -> None:
        knocks.append(member.peer)
        raise OSError("network is unreachable")

    ring, watch = Neighbours(), ReachWatch(fails, EVERY_S)
    apart, closed, _ = ring.closed_apart_and_open()
    async with watch.running(ring):
        await anyio.sleep(300)
    assert apart not in knocks
    assert closed in knocks, "through its relay"
    assert {peer for _, peer in ring.complaints}.isdisjoint({apart, closed})
    assert ring.complaints


async def test_a_peer_that_nobody_can_call_has_no_ward() -> None:
    knocks: list[PeerKey] = []

    async def answers(member: Member) -> None:
        knocks.append(member.peer)

    ring, watch = Neighbours(), ReachWatch(answers, EVERY_S)
    ring.is_closed = True
    async with watch.running(ring):
        await anyio.sleep(30 * EVERY_S)
    assert max(knocks.count(peer) for peer in set(knocks)) <= 11, "each neighbour has its turn"
