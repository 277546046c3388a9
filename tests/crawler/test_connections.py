"""Kept connections: how many, for how long, and what they say unasked."""

import asyncio

import pytest

from crawler.connections import Limits, Opener, OriginConnection, OriginEndpoint, Pool
from crawler.core.answers import AnswerReader
from tests.crawler.origin import Origin, origin, says

pytestmark = pytest.mark.anyio

FINE = says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")


async def opened(served: Origin) -> OriginConnection:
    opener = Opener(allow_private=True, connect_timeout_s=10.0)
    endpoint = OriginEndpoint("127.0.0.1", served.port, is_secure=False)
    return await opener.open(endpoint, ["127.0.0.1"], asyncio.get_running_loop())


async def test_the_oldest_connection_goes_when_there_are_too_many() -> None:
    loop = asyncio.get_running_loop()
    pool = Pool(idle_max=2, keepalive_s=60.0)
    async with origin({"/": FINE}) as served:
        kept = [await opened(served) for _ in range(3)]
        endpoints = [OriginEndpoint(f"host{number}", 80, is_secure=False) for number in range(3)]
        for endpoint, connection in zip(endpoints, kept, strict=True):
            pool.give(endpoint, connection, loop)
        assert [pool.take(endpoint) for endpoint in endpoints] == [None, kept[1], kept[2]]
        for connection in kept:
            connection.abort()
        pool.close()


async def test_an_idle_connection_that_speaks_unasked_is_not_used_again() -> None:
    loop = asyncio.get_running_loop()
    pool = Pool(idle_max=2, keepalive_s=60.0)
    async with origin({"/": FINE}) as served:
        connection = await opened(served)
        endpoint = OriginEndpoint("host", 80, is_secure=False)
        pool.give(endpoint, connection, loop)
        connection.data_received(b"HTTP/1.1 408 Request Timeout\r\n\r\n")
        assert pool.take(endpoint) is None
        pool.close()


@pytest.mark.parametrize("is_large", [False, True])
async def test_an_answer_that_comes_as_its_asker_is_cancelled_leaves_no_open_connection(
    is_large: bool,
) -> None:
    room = asyncio.Event()
    limits = Limits(
        head_timeout_s=60.0,
        body_timeout_s=60.0,
        body_bytes_max=2**30,
        is_wanted=lambda reader: True,
        wait_for_room=room.wait,
    )
    size = 2**21 if is_large else 1
    async with origin({}) as served:
        connection = await opened(served)
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(connection.ask(b"", AnswerReader(), limits))
            await asyncio.sleep(0)  # it waits for the head
            if is_large:
                connection.data_received(
                    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size + bytes(size - 1)
                )
                await asyncio.sleep(0)  # and now for room
                asking.cancel()
                connection.data_received(bytes(1))
            else:
                asking.cancel()
                connection.data_received(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na")
        assert asking.cancelled()
        assert connection.transport.is_closing()
        assert not connection.is_open
