"""Do readers' bytes take turns with what else leaves by the line of this house? Over real sockets."""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import anyio
import pytest

from herodotus.core.settings.sections import HttpSettings
from herodotus.portal import Portal, server
from herodotus.portal.answer import Answer, Request
from herodotus.portal.answer_cache import CachedRequest, Front
from herodotus.portal.client_limits import is_outside
from herodotus.portal.handlers import Handlers
from herodotus.portal.http_connection import PACED_BYTES
from tests.herodotus.portal.library import no_cache
from tests.herodotus.portal.test_server import LOOPBACK, exchange, request, status

pytestmark = pytest.mark.anyio

SLOW_BYTES_PER_S = 32_000.0


class Line:
    """Implements `SharedLine`: what it was asked to carry."""

    def __init__(self, *, waits_s: float = 0.0) -> None:
        self.rate: float | None = SLOW_BYTES_PER_S
        self.waits_s = waits_s
        self.charged: list[int] = []
        self.sent: list[int] = []

    def charge(self, size: int) -> None:
        self.charged.append(size)

    def reader(
        self,
        sock: socket.socket,
        host: str,
        write: Callable[[bytes], Awaitable[None]],
        held: Callable[[], int],
    ) -> Callable[[bytes], Awaitable[float]]:
        assert (sock.getpeername()[0], host) == ("127.0.0.1", "127.0.0.1")
        assert held() >= 0

        async def send(data: bytes) -> float:
            self.sent.append(len(data))
            await anyio.sleep(self.waits_s)
            await write(data)
            return self.waits_s

        return send


class Sized(Handlers):
    """As many bytes as the path says."""

    async def answer(self, request: Request) -> Answer:
        size = int(request.target[1:])
        return Answer(content_type="text/plain", body=bytes(size), is_of_archive_alone=True)


class Kept(Front):
    """A cache that has the answer to whatever is asked."""

    def __init__(self, size: int) -> None:
        super().__init__(lambda: 1, lambda: 1_700_000_000.0)
        self._size = size

    def question(self, data: bytes) -> CachedRequest | None:
        return CachedRequest(data, b"")

    def answer(self, question: CachedRequest) -> tuple[bytes, bytes, bytes] | None:
        head = b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self._size
        return head, b"", bytes(self._size)

    def keep(self, question: CachedRequest, answer: Answer, stamp: int | None) -> None:
        pass


@asynccontextmanager
async def portal(line: Line, front: Front | None = None, *, idle_s: float = 30.0) -> AsyncIterator[Portal]:
    settings = HttpSettings(listen=LOOPBACK, connections_max=8, idle_s=idle_s)
    made = Portal(settings, Sized(status), front or no_cache(), lambda address: line)
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5):
            yield made


async def test_what_is_large_leaves_by_turns_and_the_rest_is_counted() -> None:
    line = Line()
    async with portal(line) as made:
        for size in (PACED_BYTES, PACED_BYTES + 1, 700_000):
            assert (await exchange(made, request(f"/{size}"))).body == bytes(size)
        assert (await exchange(made, request("/700000", "HEAD"))).status == 200
    assert line.charged == [PACED_BYTES]
    assert (line.sent[0], sum(line.sent[1:])) == (PACED_BYTES + 1, 700_000)


async def test_a_reader_is_not_left_for_what_our_own_line_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SLOWEST_BYTES_PER_S", 1e9)
    line = Line(waits_s=0.2)
    async with portal(line, idle_s=0.3) as made:
        assert len((await exchange(made, request("/1000000"))).body) == 1_000_000
        assert made.left == 0


@pytest.mark.parametrize("rate", [None, SLOW_BYTES_PER_S])
async def test_an_answer_of_the_cache_passes_no_queue(rate: float | None) -> None:
    """On a line that was never full it leaves at once; on one that was it takes turns like any other."""
    line, size = Line(), 40_000
    line.rate = rate
    async with (
        portal(line, Kept(size)) as made,
        await anyio.connect_tcp("127.0.0.1", made.endpoint.port) as stream,
    ):
        for _ in range(2):
            await stream.send(f"GET /{size} HTTP/1.1\r\nHost: a.example\r\n\r\n".encode())
            found = b""
            while found.count(b"\0") < size:
                found += await stream.receive()
    assert line.sent == ([] if rate is None else [size, size])
    assert [one > size for one in line.charged] == ([True, True] if rate is None else [])


def test_readers_in_the_house_take_another_line() -> None:
    assert is_outside("93.184.0.1", is_one_house=False)
    assert not is_outside("192.168.1.7", is_one_house=False)
    assert is_outside("192.168.1.7", is_one_house=True)
    assert not is_outside("127.0.0.1", is_one_house=True)
