"""How much do answers hold that are under way to us? What is larger than a piece of the line waits for room."""

from contextlib import suppress
from typing import Any

import anyio
import anyio.abc
import pytest

from herodotus.peers.calls import CALL_BYTES_MAX
from herodotus.peers.net.answer_memory import SMALL_BYTES, AnswerRoom
from herodotus.peers.net.certificate import called_context
from herodotus.peers.net.connection import FrameConnection
from herodotus.peers.net.line import LineBrokenError
from herodotus.peers.net.tls_line import TlsLine
from herodotus.peers.net.wire import FrameKind, Greeting, frame
from tests.dht.link_world import NETWORK, key_from
from tests.herodotus.peers.net.peers import caller, contact

pytestmark = pytest.mark.anyio
LARGE = SMALL_BYTES + 1


@pytest.fixture(params=[("asyncio", {}), ("trio", {})], ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


async def test_a_large_answer_waits_until_another_was_read() -> None:
    room, order = AnswerRoom(bytes_max=2 * LARGE, bytes_per_peer=2 * LARGE), list[str]()
    first_is_over = anyio.Event()

    async def first() -> None:
        async with room.held(b"one", 2 * LARGE):
            order.append("first")
            await first_is_over.wait()
            order.append("first is over")

    async def second() -> None:
        async with room.held(b"two", LARGE):
            order.append("second")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(first)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(second)
        await anyio.wait_all_tasks_blocked()
        async with room.held(b"three", SMALL_BYTES):
            order.append("a small one")
        first_is_over.set()
    assert order == ["first", "a small one", "first is over", "second"]
    assert room.bytes_held == 0


async def test_one_peer_does_not_fill_the_room_of_all() -> None:
    room = AnswerRoom(bytes_max=3 * LARGE, bytes_per_peer=LARGE)
    async with room.held(b"one", LARGE):
        with anyio.move_on_after(0.0) as waited:
            async with room.held(b"one", LARGE):
                raise AssertionError("twice its share")
        assert waited.cancelled_caught
        async with room.held(b"two", LARGE):
            assert room.bytes_held == 2 * LARGE


async def test_answers_whose_last_byte_is_kept_back_hold_no_more_than_the_room() -> None:
    key = key_from("called")
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    context = called_context(key)

    async def serve(raw: anyio.abc.SocketStream) -> None:
        with suppress(LineBrokenError):
            connection = FrameConnection(await TlsLine.opened(raw, context, is_called=True))
            try:
                await connection.send(Greeting(network=NETWORK, nonce=bytes(32)).pack())
                await connection.read(frozenset({FrameKind.HELLO}))
                await connection.send(frame(FrameKind.ANSWER, bytes(CALL_BYTES_MAX))[:-1])
                await connection.drain()
            finally:
                await connection.close()

    async with listener, caller() as calls, anyio.create_task_group() as tasks:
        calls.room = AnswerRoom(bytes_max=CALL_BYTES_MAX, bytes_per_peer=CALL_BYTES_MAX)
        tasks.start_soon(listener.serve, serve)
        to = contact(key, port)

        async def ask() -> None:
            await calls.call(to, "echo", b"hi", deadline_s=120.0)

        async with anyio.create_task_group() as asking:
            for _ in range(3):
                asking.start_soon(ask)
            with anyio.fail_after(60):
                while not calls.room.bytes_held:  # noqa: ASYNC110  # nobody tells that a head was read
                    await anyio.sleep(0.01)
            assert calls.room.bytes_held == CALL_BYTES_MAX  # of three that announced as much
            asking.cancel_scope.cancel()
        assert calls.room.bytes_held == 0
        tasks.cancel_scope.cancel()
