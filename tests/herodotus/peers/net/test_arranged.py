"""Do two ports get a line by arrangement: called back, both at once, or joined by a third?"""

from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from typing import Any

import anyio
import pytest

from dht.core.handshake import raw_public_key
from herodotus.core.relays import Arrangement, Way
from herodotus.peers.net import arranged as arranged_module
from herodotus.peers.net.arranged import (
    AWAITED_MAX,
    MAGIC,
    TOKEN_BYTES,
    AwaitedTokens,
    first_of,
    read_exactly,
)
from herodotus.peers.net.certificate import caller_context
from herodotus.peers.net.line import Line, LineBrokenError
from herodotus.peers.net.tls_line import TcpPort, claim_tcp, dial_tls
from tests.dht.link_world import key_from

BACKENDS = [pytest.param(("asyncio", {}), id="asyncio"), pytest.param(("trio", {}), id="trio")]
pytestmark = pytest.mark.anyio
TOKEN = bytes(range(TOKEN_BYTES))
NOBODY = ("127.0.0.1", 9)


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


class Listening:
    """A port whose callers' lines are collected, as far as they come about."""

    def __init__(self, name: str) -> None:
        self.key = raw_public_key(key_from(name))
        self.port: TcpPort = claim_tcp("127.0.0.1", 0, key_from(name))
        self.lines: list[Line] = []
        self.broken: list[str] = []
        self.answered = anyio.Event()

    @property
    def at(self) -> tuple[str, int]:
        return "127.0.0.1", self.port.number

    async def listen(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                arrival = await self.port.accept()

                async def answer(arrival: Any = arrival) -> None:
                    try:
                        line = await arrival.answer()
                    except LineBrokenError as error:
                        self.broken.append(str(error))
                        self.answered.set()
                        return
                    if line is not None:
                        self.lines.append(line)
                        self.answered.set()

                tasks.start_soon(answer)


@asynccontextmanager
async def listening(*names: str) -> AsyncIterator[tuple[Listening, ...]]:
    ports = tuple(map(Listening, names))
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for port in ports:
                tasks.start_soon(port.listen)
            yield ports
            tasks.cancel_scope.cancel()
    for port in ports:
        for line in port.lines:
            await line.close()
        port.port.close()


def arranged(way: Way, other: tuple[str, int], relay: tuple[str, int] = NOBODY) -> Arrangement:
    return Arrangement(token=TOKEN, way=way, lines=(other,), relay=relay)


async def speak(one: Line, other: Line) -> None:
    await one.send(b"question")
    assert await other.receive() == b"question"
    await other.send(b"answer")
    assert await one.receive() == b"answer"


async def meet(caller: Listening, called: Listening, way: Way, relay: tuple[str, int] = NOBODY) -> Way:
    """Both ends follow the arrangement; the called one has proven its key, and bytes pass."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(called.port.arrangements.answer, arranged(way, caller.at, relay))
        line, by = await caller.port.arrangements.call(arranged(way, called.at, relay))
    assert line.key == called.key
    await called.answered.wait()
    await speak(line, called.lines[0])
    await line.close()
    return by


@pytest.mark.parametrize("way", [Way.CALL_BACK, Way.OPEN_AT_ONCE])
async def test_the_called_peer_is_the_server_whoever_opened_the_connection(way: Way) -> None:
    async with listening("caller", "called") as (caller, called):
        assert await meet(caller, called, way) is way


@pytest.mark.parametrize("way", [Way.CALL_BACK, Way.JOIN])
async def test_a_relay_joins_two_that_cannot_reach_each_other(way: Way) -> None:
    """The caller's line leads nowhere, so that calling back fails."""
    async with listening("caller", "called", "relay") as (caller, called, relay):
        carried: list[int] = []

        async def admits(size: int) -> None:
            carried.append(size)

        async def join() -> None:
            async with relay.port.arrangements.both(TOKEN) as joint:
                assert joint is not None
                await joint.carry(admits, 60.0)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(join)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(called.port.arrangements.answer, arranged(way, NOBODY, relay.at))
            line, by = await caller.port.arrangements.call(arranged(way, NOBODY, relay.at))
            assert (line.key, by) == (called.key, Way.JOIN)
            await called.answered.wait()
            await speak(line, called.lines[0])
            await line.close()
        assert sum(carried) > len(b"questionanswer")


async def test_a_port_that_expects_arranged_lines_answers_calls_as_before() -> None:
    async with listening("called") as (called,):
        with called.port._own.awaited.awaiting(TOKEN, _unexpected):
            line = await dial_tls(*called.at, caller_context())
            assert line.key == called.key
            await line.close()


async def _unexpected(stream: object) -> None:
    raise AssertionError("nobody said the token")


@pytest.mark.parametrize("said", [MAGIC + bytes(16), b"HLN2" + TOKEN, b"HTTP/1.1 200 OK\r\n\r\n\r\n"])
async def test_a_connection_with_another_token_is_closed(said: bytes) -> None:
    async with listening("called") as (called,):
        with called.port._own.awaited.awaiting(TOKEN, _unexpected):
            async with await anyio.connect_tcp(*called.at) as stream:
                await stream.send(said)
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()
        await called.answered.wait()
        assert called.broken == ["no such token"]


async def test_who_only_repeats_the_magic_does_not_get_the_line() -> None:
    """A caller that answers a call back with another token is left for the relay, here for nobody."""
    async with listening("called") as (called,):
        liar = await anyio.create_tcp_listener(local_host="127.0.0.1")

        async def lie(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                await read_exactly(stream, 20)
                await stream.send(MAGIC + bytes(16))
                await anyio.sleep_forever()

        at = "127.0.0.1", int(liar.extra(anyio.abc.SocketAttribute.local_port))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(liar.serve, lie)
            with anyio.move_on_after(0.5) as waiting:
                await called.port.arrangements.answer(arranged(Way.CALL_BACK, at))
            assert waiting.cancelled_caught
            tasks.cancel_scope.cancel()
        await liar.aclose()
        assert not called.lines


async def test_the_third_connection_with_a_token_is_closed_by_the_relay() -> None:
    async with listening("relay") as (relay,):
        ends = []

        async def come() -> None:
            stream = await anyio.connect_tcp(*relay.at)
            await stream.send(MAGIC + TOKEN)
            ends.append(stream)

        async with anyio.create_task_group() as tasks:

            async def join() -> None:
                async with relay.port.arrangements.both(TOKEN) as joint:
                    assert joint is not None
                    await joint.carry(_admits, 60.0)

            tasks.start_soon(join)
            await anyio.wait_all_tasks_blocked()
            await come()
            await come()
            for stream in ends:
                assert await read_exactly(stream, 20) == MAGIC + TOKEN
            await come()
            with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                await ends[2].receive()
            await ends[0].send(b"through")
            assert await read_exactly(ends[1], 7) == b"through"
            for stream in ends:
                await stream.aclose()


async def test_a_relay_waits_for_both_and_not_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arranged_module, "TOKEN_S", 0.1)
    async with listening("relay") as (relay,), anyio.create_task_group() as tasks:

        async def come() -> None:
            async with await anyio.connect_tcp(*relay.at) as stream:
                await stream.send(MAGIC + TOKEN)
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()

        tasks.start_soon(come)
        async with relay.port.arrangements.both(TOKEN) as joint:
            assert joint is None


async def _admits(size: int) -> None:
    await anyio.lowlevel.checkpoint()


async def test_a_joint_in_which_nothing_moves_is_closed() -> None:
    async with listening("relay") as (relay,), anyio.create_task_group() as tasks:

        async def come() -> None:
            async with await anyio.connect_tcp(*relay.at) as stream:
                await stream.send(MAGIC + TOKEN)
                await read_exactly(stream, 20)
                with pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
                    await stream.receive()

        async def join() -> None:
            async with relay.port.arrangements.both(TOKEN) as joint:
                assert joint is not None
                await joint.carry(_admits, 0.05)

        tasks.start_soon(join)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(come)
        tasks.start_soon(come)


async def test_one_line_after_the_other_is_tried_and_the_first_that_opens_wins() -> None:
    tried = []

    async def opened(line: str) -> bool:
        tried.append(line)
        if line == "silent":
            await anyio.sleep_forever()
        return line == "right"

    assert await first_of(["refused", "silent", "right", "late"], opened, 0.05)
    assert tried == ["refused", "silent", "right"]
    assert not await first_of(["refused"], opened, 0.05)


async def test_so_many_tokens_are_awaited_and_no_more() -> None:
    awaited = AwaitedTokens()
    with ExitStack() as held:
        for number in range(AWAITED_MAX):
            held.enter_context(awaited.awaiting(number.to_bytes(16, "big"), _unexpected))
        with pytest.raises(OSError, match="too many"):
            held.enter_context(awaited.awaiting(bytes([255]) * 16, _unexpected))


async def test_a_host_to_which_a_line_left_from_our_port_is_known_for_as_long_as_routers_remember() -> None:
    async with listening("anna", "bert") as (anna, bert):
        arrangements = anna.port.arrangements
        host, port = bert.at
        assert not arrangements.has_dialled(host)
        with anyio.fail_after(10):
            line = await arrangements.dial_from_port(host, port)
        own = arrangements._own
        much_later = anyio.current_time() + 10_000
        assert own.has_dialled(host, much_later), "the line is open"
        await line.close()
        assert own.has_dialled(host, much_later), "it was, until now"
        assert own.has_dialled(host, much_later + 299)
        assert not own.has_dialled(host, much_later + 300)
