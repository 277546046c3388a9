"""Knocks at neighbours, in virtual time: what is said to a member that does not answer by TCP, and when."""

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
import trio.testing

from dht import Contact
from dht.core.ids import PeerKey
from dht.core.reader import Member
from herodotus.peers.reach import COMPLAIN_S, KNOCK_S, ReachWatch
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
