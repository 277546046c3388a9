"""Do the faults of the network in memory happen, at no cost of time, and the same for the same seed?"""

import random
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
import trio.testing

from herodotus.peers.calls import CallError, PeerUnreachableError, RefusedError, Services
from tests.dht.link_world import key_from
from tests.herodotus.peers.net.memory_calls import LineFaults, MemoryCalls
from tests.herodotus.peers.net.peers import contact

pytestmark = pytest.mark.anyio
ANNA, BERT = contact(key_from("anna"), 1), contact(key_from("bert"), 2)


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Counted:
    def __init__(self, net: MemoryCalls) -> None:
        self.carried_out = 0
        net.joined(BERT.peer, Services(calls={"add": self.add}, streams={"count": self.count}))
        self.calls = net.joined(ANNA.peer, Services())

    async def add(self, peer: bytes, body: bytes) -> bytes:
        self.carried_out += 1
        return b"%d" % self.carried_out

    async def count(self, peer: bytes, body: bytes) -> AsyncIterator[bytes]:
        for number in range(100):
            yield b"%d" % number

    async def answers(self, number: int) -> list[bytes | None]:
        got: list[bytes | None] = []
        for _ in range(number):
            try:
                got.append(await self.calls.call(BERT, "add", b"", deadline_s=30))
            except PeerUnreachableError:
                got.append(None)
        return got


async def test_a_lost_answer_is_a_call_that_was_carried_out() -> None:
    world = Counted(MemoryCalls(random.Random(1), LineFaults(lost=0.5)))
    answers = await world.answers(200)
    lost = answers.count(None)
    assert 60 < lost < 140
    assert 200 - lost < world.carried_out < 200
    assert anyio.current_time() > 30 * lost - 1  # each was waited for, in virtual time


async def test_some_calls_are_carried_out_twice() -> None:
    world = Counted(MemoryCalls(random.Random(2), LineFaults(twice=0.5)))
    await world.answers(100)
    assert 130 < world.carried_out < 170


async def test_the_same_seed_loses_the_same_calls() -> None:
    runs = [await Counted(MemoryCalls(random.Random(3), LineFaults(lost=0.3))).answers(50) for _ in range(2)]
    assert runs[0] == runs[1]
    assert None in runs[0]


async def test_a_call_takes_the_time_of_the_line() -> None:
    world = Counted(MemoryCalls(random.Random(4), LineFaults(delay_s=0.1)))
    start = anyio.current_time()
    await world.answers(1)
    assert 0.2 <= anyio.current_time() - start <= 0.3


async def test_the_dead_answer_nobody_and_reach_nobody_until_they_are_back() -> None:
    net = MemoryCalls(random.Random(5))
    world = Counted(net)
    net.kill(BERT.peer)
    assert await world.answers(1) == [None]
    net.kill(ANNA.peer)
    net.revive(BERT.peer)
    assert await world.answers(1) == [None]
    net.revive(ANNA.peer)
    assert await world.answers(1) == [b"1"]


async def test_a_line_may_be_cut_between_two() -> None:
    net = MemoryCalls(random.Random(6))
    world = Counted(net)
    net.cut_between(ANNA.peer, BERT.peer)
    assert await world.answers(1) == [None]
    net.heal()
    assert await world.answers(1) == [b"1"]


async def test_a_stream_may_break_in_the_middle() -> None:
    world = Counted(MemoryCalls(random.Random(7), LineFaults(cut=0.05)))
    got = []
    with pytest.raises(CallError):
        async with world.calls.stream(BERT, "count", b"") as pieces:
            got = [piece async for piece in pieces]
    assert got == []


async def test_bytes_are_counted_by_service() -> None:
    net = MemoryCalls(random.Random(8))
    world = Counted(net)
    await world.answers(1)
    assert net.calls == {"add": 1}
    assert net.bytes == {"add": 5 + 4 + 1 + 3 + 5 + 1}  # two heads, deadline, name with length, one digit


async def test_who_never_joined_has_no_services() -> None:
    net = MemoryCalls(random.Random(9))
    calls = net.joined(ANNA.peer, Services())
    with pytest.raises(RefusedError):
        await calls.call(BERT, "add", b"")
