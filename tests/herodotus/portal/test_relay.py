"""What is another peer asked, on the wire?"""

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream

from herodotus.portal.elsewhere import Place
from herodotus.portal.relay import HttpRelay
from herodotus.portal.request import Request

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
                    Place(origin=f"http://127.0.0.1:{port}"), Request(target="/cdx", headers=headers)
                )
            tasks.cancel_scope.cancel()
    assert answer is not None
    assert answer.body == b"[]"
    return heads[0]


async def test_packed_answers_are_asked_for_only_where_the_reader_takes_them() -> None:
    """Answers are passed on as they come, and lists of other peers are read here: packed they were no lists."""
    assert "accept-encoding: identity\r\n" in await asked({"accept": "application/json"})
    assert "accept-encoding: gzip, br\r\n" in await asked({"accept-encoding": "gzip, br"})
