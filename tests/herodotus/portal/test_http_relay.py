"""What is another peer asked, on the wire?"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from herodotus.portal.answer import Answer, Request
from herodotus.portal.http_relay import AT_ONCE_OF_ONE, HttpRelay
from herodotus.portal.other_holders import PortalAddress

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(20)]


async def asked(headers: dict[str, str]) -> str:
    """The head of the question that leaves, in small letters."""
    heads: list[str] = []

    async def serve(stream: SocketStream) -> None:
        async with stream:
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += await stream.receive()
            heads.append(head.decode().lower())
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        port = listener.extra(SocketAttribute.local_port)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(listener.serve, serve)
            relay = HttpRelay()
            async with relay.opened():
                answer = await relay.fetch(
                    PortalAddress(origin=f"http://127.0.0.1:{port}"), Request(target="/cdx", headers=headers)
                )
            tasks.cancel_scope.cancel()
    assert answer is not None
    assert answer.body == b"[]"
    return heads[0]


async def test_packed_answers_are_asked_for_only_where_the_reader_takes_them() -> None:
    """Answers are passed on as they come, and lists of other peers are read here: packed they were no lists."""
    assert "accept-encoding: identity\r\n" in await asked({"accept": "application/json"})
    assert "accept-encoding: gzip, br\r\n" in await asked({"accept-encoding": "gzip, br"})


async def test_all_answers_that_come_in_have_one_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two that are half here leave no room for a third; when they are gone there is room again."""
    monkeypatch.setattr("herodotus.portal.http_relay.HELD_BYTES_MAX", 250)
    half, both_half_here = b"x" * 100, anyio.Event()
    goes_on, waiting = anyio.Event(), 0

    async def serve(stream: SocketStream) -> None:
        nonlocal waiting
        async with stream:
            is_slow = b"/slow" in await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 101\r\nConnection: close\r\n\r\n" + half)
            if is_slow:
                waiting += 1
                if waiting == 2:
                    both_half_here.set()
                await goes_on.wait()
            await stream.send(b"x")

    async with await anyio.create_tcp_listener(local_host="127.0.0.1") as listener:
        place = PortalAddress(origin=f"http://127.0.0.1:{listener.extra(SocketAttribute.local_port)}")
        relay, found = HttpRelay(), dict[str, bool]()

        async def fetch(target: str) -> None:
            found[target] = await relay.fetch(place, Request(target=target)) is not None

        async with anyio.create_task_group() as tasks, relay.opened():
            tasks.start_soon(listener.serve, serve)
            async with anyio.create_task_group() as slow:
                slow.start_soon(fetch, "/slow/1")
                slow.start_soon(fetch, "/slow/2")
                await both_half_here.wait()
                while relay.held_bytes < 200:  # noqa: ASYNC110  # the last of it is on its way
                    await anyio.sleep(0.001)
                await fetch("/third")
                goes_on.set()
            await fetch("/fourth")
            tasks.cancel_scope.cancel()
    assert found == {"/slow/1": True, "/slow/2": True, "/third": False, "/fourth": True}
    assert relay.held_bytes == 0


async def test_a_peer_that_says_nothing_leaves_room_for_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty ask it, and more than all the room there is; another peer answers at once."""
    monkeypatch.setattr("herodotus.portal.http_relay.TURN_S", 0.05)
    goes_on, silent = anyio.Event(), anyio.Event()
    asked_of_it = 0

    async def stall(stream: SocketStream) -> None:
        nonlocal asked_of_it
        async with stream:
            await stream.receive()
            asked_of_it += 1
            if asked_of_it == AT_ONCE_OF_ONE:
                silent.set()
            await goes_on.wait()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

    async def serve(stream: SocketStream) -> None:
        async with stream:
            await stream.receive()
            await stream.send(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n[]")

    found: list[Answer | None] = []
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as stalling,
        await anyio.create_tcp_listener(local_host="127.0.0.1") as serving,
        anyio.create_task_group() as tasks,
    ):
        relay = HttpRelay()
        places = [
            PortalAddress(origin=f"http://127.0.0.1:{one.extra(SocketAttribute.local_port)}")
            for one in (stalling, serving)
        ]

        async def ask() -> None:
            found.append(await relay.fetch(places[0], Request(target="/")))

        tasks.start_soon(stalling.serve, stall)
        tasks.start_soon(serving.serve, serve)
        async with relay.opened():
            async with anyio.create_task_group() as asking:
                for _ in range(20):
                    asking.start_soon(ask)
                await silent.wait()
                other = await relay.fetch(places[1], Request(target="/"))
                assert other is not None
                assert other.body == b"[]"
                while len(found) < 20 - AT_ONCE_OF_ONE:  # noqa: ASYNC110  # they give up by the clock
                    await anyio.sleep(0.001)
                assert found == [None] * (20 - AT_ONCE_OF_ONE)
                goes_on.set()
            assert asked_of_it == AT_ONCE_OF_ONE
            assert sum(one is not None for one in found) == AT_ONCE_OF_ONE
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def saying(*answers: bytes) -> AsyncIterator[tuple[PortalAddress, list[bytes]]]:
    """A peer that says these words to one question after the other; and the questions."""
    questions: list[bytes] = []

    async def serve(stream: SocketStream) -> None:
        async with stream:
            with suppress(anyio.EndOfStream, anyio.BrokenResourceError):
                questions.append(await stream.receive())
                await stream.send(answers[min(len(questions), len(answers)) - 1])

    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(listener.serve, serve)
        port = listener.extra(SocketAttribute.local_port)
        yield PortalAddress(origin=f"http://127.0.0.1:{port}"), questions
        tasks.cancel_scope.cancel()


async def test_another_peer_cannot_lead_us_to_somebody_else() -> None:
    """A redirect is its answer, and none that we follow: it may name a host of our operator's own network."""
    async with saying(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nsecret") as (inside, asked_inside):
        moved = b"HTTP/1.1 302 Found\r\nLocation: %b/admin\r\nContent-Length: 0\r\n\r\n"
        async with saying(moved % inside.origin.encode()) as (liar, _):
            relay = HttpRelay()
            async with relay.opened():
                answer = await relay.fetch(liar, Request(target="/web/2026/http://a.example/"))
    assert answer is not None
    assert (answer.status, answer.body) == (302, b"")
    assert asked_inside == []


async def test_an_answer_larger_than_its_bound_is_given_up() -> None:
    large = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 101
    async with saying(large) as (place, _):
        for bound, is_taken in ((100, False), (101, True)):
            relay = HttpRelay(body_bytes_max=bound)
            async with relay.opened():
                answer = await relay.fetch(place, Request(target="/cdx"))
            assert (answer is not None) is is_taken
            assert relay.held_bytes == 0
