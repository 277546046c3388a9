"""Is it known what a connection really carried? By real sockets, as both loops show them."""

import asyncio
import socket
import sys

import anyio
import pytest
import uvloop

from crawler.carried import FAREWELL_SEGMENTS, carried

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell")

BODY = 100_000
HEADERS_MAX = 0.06 * BODY


class Asking(asyncio.Protocol):
    """Reads until the end, and looks when it is there, as a crawler's connection does."""

    def __init__(self) -> None:
        self.read = 0
        self.found: tuple[int, int] | None = None
        self.ended = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.read += len(data)

    def connection_lost(self, error: Exception | None) -> None:
        self.found = carried(self.transport.get_extra_info("socket"))
        self.ended.set_result(None)


async def _exchange(host: str) -> Asking:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(3)
        writer.write(bytes(BODY))
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, host, 0) as server:
        port = server.sockets[0].getsockname()[1]
        transport, asking = await asyncio.get_running_loop().create_connection(Asking, host, port)
        transport.write(b"ask")
        with anyio.fail_after(20):
            await asking.ended
        return asking


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
@pytest.mark.parametrize(("host", "header"), [("127.0.0.1", 52), ("::1", 72)])
def test_both_loops_tell_at_the_end_what_was_carried_with_headers(
    run: object, host: str, header: int
) -> None:
    assert callable(run)
    asking = run(_exchange(host))
    assert asking.read == BODY
    bytes_in, bytes_out = asking.found
    assert BODY < bytes_in < BODY + HEADERS_MAX
    # Its three bytes, and segments: SYN, ACK, the question, some acknowledgements.
    assert (3 + (3 + FAREWELL_SEGMENTS) * header) <= bytes_out < HEADERS_MAX
    assert (bytes_out - 3) % header == 0


def test_of_a_closed_connection_nothing_is_known() -> None:
    one, other = socket.socketpair()
    assert carried(one) == (0, 0), "no TCP"
    one.close()
    other.close()
    assert carried(one) == (0, 0)
    assert carried(None) == (0, 0)
