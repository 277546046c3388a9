"""What every way of calling a peer must do: by sockets, and in memory, which so can be believed."""

import random
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import anyio
import pytest

from dht import Contact
from dht.core.handshake import raw_public_key
from herodotus.peers.calls import CALL_BYTES_MAX, Calls, PeerUnreachableError, RefusedError, Services
from tests.dht.link_world import key_from
from tests.herodotus.peers.net.memory_calls import MemoryCalls
from tests.herodotus.peers.net.peers import called, caller, contact

pytestmark = pytest.mark.anyio
CALLER = raw_public_key(key_from("caller"))


class Answers:
    """What the called peer answers, and what it saw."""

    def __init__(self) -> None:
        self.seen: list[tuple[bytes, bytes]] = []
        self.begun = anyio.Event()
        self.given_up = anyio.Event()
        self.made = 0
        self.is_stream_closed = False

    @property
    def services(self) -> Services:
        return Services(
            calls={"echo": self.echo, "no": self.no, "never": self.never},
            streams={"pieces": self.pieces, "broken": self.broken, "large": self.large},
        )

    async def echo(self, peer: bytes, body: bytes) -> bytes:
        self.seen.append((peer, body))
        return body[::-1]

    async def no(self, peer: bytes, body: bytes) -> bytes:
        raise RefusedError("not today", retry_after_s=2.5)

    async def never(self, peer: bytes, body: bytes) -> bytes:
        self.begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.given_up.set()
        raise AssertionError

    async def pieces(self, peer: bytes, body: bytes) -> AsyncIterator[bytes]:
        try:
            for number in range(int(body)):
                self.made += 1
                yield b"%d" % number
        finally:
            self.is_stream_closed = True

    async def broken(self, peer: bytes, body: bytes) -> AsyncIterator[bytes]:
        yield b"first"
        raise RefusedError("moved")

    async def large(self, peer: bytes, body: bytes) -> AsyncIterator[bytes]:
        for _ in range(64):
            self.made += 1
            yield bytes(1 << 20)


@dataclass
class World:
    calls: Calls
    to: Contact
    other: Answers


@pytest.fixture(
    params=[
        pytest.param(("tls", ("asyncio", {})), id="tls-asyncio"),
        pytest.param(("tls", ("asyncio", {"use_uvloop": True})), id="tls-uvloop"),
        pytest.param(("tls", ("trio", {})), id="tls-trio"),
        pytest.param(("memory", ("trio", {})), id="memory-trio"),
        pytest.param(("memory", ("asyncio", {})), id="memory-asyncio"),
    ]
)
def way(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
def anyio_backend(way: Any) -> Any:
    return way[1]


@pytest.fixture
async def world(way: Any, anyio_backend: Any) -> AsyncIterator[World]:
    other = Answers()
    if way[0] == "memory":
        net = MemoryCalls(random.Random(1))
        to = contact(key_from("called"), 1)
        net.joined(to.peer, other.services)
        yield World(net.joined(CALLER, Services()), to, other)
        return
    async with called(other.services) as there, caller() as calls:
        yield World(calls, there.contact, other)


async def test_a_call_is_answered_and_says_who_calls(world: World) -> None:
    assert await world.calls.call(world.to, "echo", b"abc") == b"cba"
    assert world.other.seen == [(CALLER, b"abc")]


async def test_an_empty_question_may_have_an_empty_answer(world: World) -> None:
    assert await world.calls.call(world.to, "echo", b"") == b""


async def test_the_largest_question_and_answer_arrive_whole(world: World) -> None:
    body = random.Random(2).randbytes(CALL_BYTES_MAX)
    assert await world.calls.call(world.to, "echo", body) == body[::-1]


async def test_many_calls_at_once_do_not_mix_their_answers(world: World) -> None:
    async def one(number: int) -> None:
        body = b"%06d" % number
        assert await world.calls.call(world.to, "echo", body) == body[::-1]

    async with anyio.create_task_group() as tasks:
        for number in range(100):
            tasks.start_soon(one, number)
    assert len(world.other.seen) == 100


async def test_a_refusal_keeps_its_reason_and_the_connection(world: World) -> None:
    with pytest.raises(RefusedError) as refused:
        await world.calls.call(world.to, "no", b"")
    assert (refused.value.reason, refused.value.retry_after_s) == ("not today", 2.5)
    assert await world.calls.call(world.to, "echo", b"ab") == b"ba"


async def test_a_service_that_is_not_there_is_refused(world: World) -> None:
    with pytest.raises(RefusedError, match="service"):
        await world.calls.call(world.to, "nonsense", b"")
    with pytest.raises(RefusedError, match="service"):
        async with world.calls.stream(world.to, "nonsense", b"") as pieces:
            assert [piece async for piece in pieces] == []


async def test_a_call_without_answer_ends_at_its_deadline_and_the_work_is_given_up(world: World) -> None:
    deadline_s = 0.2  # on a busy machine it may be over before the question has arrived
    while not world.other.begun.is_set():
        with pytest.raises(PeerUnreachableError):
            await world.calls.call(world.to, "never", b"", deadline_s=deadline_s)
        deadline_s *= 2
    with anyio.fail_after(5):
        await world.other.given_up.wait()
    assert await world.calls.call(world.to, "echo", b"ab") == b"ba"


async def test_a_caller_that_leaves_ends_the_work(world: World) -> None:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(world.calls.call, world.to, "never", b"")
        await world.other.begun.wait()
        tasks.cancel_scope.cancel()
    with anyio.fail_after(5):
        await world.other.given_up.wait()


async def test_a_stream_comes_in_order_and_to_its_end(world: World) -> None:
    async with world.calls.stream(world.to, "pieces", b"5") as pieces:
        assert [piece async for piece in pieces] == [b"0", b"1", b"2", b"3", b"4"]
    async with world.calls.stream(world.to, "pieces", b"0") as pieces:
        assert [piece async for piece in pieces] == []


async def test_a_stream_that_is_refused_in_the_middle_says_so(world: World) -> None:
    async with world.calls.stream(world.to, "broken", b"") as pieces:
        assert await anext(pieces) == b"first"
        with pytest.raises(RefusedError, match="moved"):
            await anext(pieces)


async def test_a_reader_that_stops_reading_stops_the_making(world: World) -> None:
    async with world.calls.stream(world.to, "large", b"") as pieces:
        async for _ in pieces:
            break
        await anyio.wait_all_tasks_blocked()
        assert world.other.made < 32  # what the sockets' buffers hold
    assert await world.calls.call(world.to, "echo", b"ab") == b"ba"


async def test_nobody_answers_where_nobody_listens(world: World, way: Any) -> None:
    nobody = contact(key_from("nobody"), 1)
    with pytest.raises(PeerUnreachableError if way[0] == "tls" else (RefusedError, PeerUnreachableError)):
        await world.calls.call(nobody, "echo", b"", deadline_s=1)
