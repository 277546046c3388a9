"""Do the bytes of calls leave in turn, in pieces, each connection's in order? With connections of a test's making."""

import socket
from itertools import pairwise
from typing import Any

import anyio
import pytest
import trio.testing

from herodotus.core.pacer import SHARE, Traffic, WaySample
from herodotus.peers.net.connection import FrameConnection
from herodotus.peers.net.pacing import HAS_TCP_INFO, LinePacer, traffic_of, way_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Wire:
    """Implements `Line`: what was sent, and when."""

    key = None
    host = "192.0.2.1"

    def __init__(self, log: list[tuple[str, int, float]], name: str) -> None:
        self.log, self.name, self.data = log, name, b""
        self.unsent_max = 0
        self.is_stuck = False

    async def send(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if self.is_stuck:
            await anyio.sleep_forever()
        self.data += data
        self.log.append((self.name, len(data), anyio.current_time()))

    async def receive(self) -> bytes:
        raise NotImplementedError

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()

    def carried(self) -> tuple[int, int]:
        return 0, 0

    def way(self) -> WaySample | None:
        return None

    def keep_unsent_below(self, size: int) -> None:
        self.unsent_max = size


def test_services_have_the_urgency_of_their_room() -> None:
    assert traffic_of("leases.ask") is Traffic.LEASES
    assert traffic_of("copies.put") is Traffic.COPIES
    assert traffic_of("links.take") is Traffic.LINKS
    assert traffic_of("lines.knock") is Traffic.LINKS


async def test_copies_leave_in_pieces_at_the_rate_and_whole() -> None:
    log: list[tuple[str, int, float]] = []
    wire, pacer = Wire(log, "a"), LinePacer(offered=32_000.0)
    data = bytes(range(256)) * 64
    began = anyio.current_time()
    await pacer.send(FrameConnection(wire), data, "copies.put")
    assert wire.data == data
    assert max(size for _, size, _ in log) == 1_600
    assert wire.unsent_max == 3_200
    assert anyio.current_time() - began == pytest.approx((len(data) - 1_600) / 32_000, abs=0.05)


async def test_a_lease_leaves_at_once_and_links_before_copies() -> None:
    log: list[tuple[str, int, float]] = []
    pacer = LinePacer(offered=32_000.0)
    async with anyio.create_task_group() as tasks:
        for name, service, size in (("c", "copies.put", 9_600), ("l", "links.take", 4_800)):
            tasks.start_soon(pacer.send, FrameConnection(Wire(log, name)), bytes(size), service)
            await anyio.sleep(0.01)
        await pacer.send(FrameConnection(Wire(log, "ask")), bytes(100), "leases.ask")
    assert [name for name, _, _ in log] == ["c", "ask", "l", "l", "l", "c", "c", "c", "c", "c"]


async def test_a_connection_that_takes_nothing_holds_up_no_other() -> None:
    log: list[tuple[str, int, float]] = []
    pacer = LinePacer(offered=32_000.0)
    stuck, free = Wire(log, "stuck"), Wire(log, "free")
    stuck.is_stuck = True
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(pacer.send, FrameConnection(stuck), bytes(9_600), "copies.put")
        await anyio.sleep(0.01)
        await pacer.send(FrameConnection(free), bytes(3_200), "copies.put")
        tasks.cancel_scope.cancel()
    assert len(free.data) == 3_200


async def test_patience_is_for_the_other_end_and_not_for_our_own_line() -> None:
    log: list[tuple[str, int, float]] = []
    pacer = LinePacer(offered=1_000.0)
    wire = Wire(log, "a")
    await pacer.send(FrameConnection(wire), bytes(12_000), "copies.put", lambda size: 0.5)
    assert len(wire.data) == 12_000
    wire.is_stuck = True
    with pytest.raises(TimeoutError):
        await pacer.send(FrameConnection(wire), bytes(1_000), "copies.put", lambda size: 0.5)


async def test_bytes_of_the_ring_are_counted() -> None:
    log: list[tuple[str, int, float]] = []
    pacer, ring = LinePacer(offered=32_000.0), 0
    pacer.sent_beside = lambda: ring
    connection = FrameConnection(Wire(log, "a"))
    await pacer.send(connection, bytes(1_600), "copies.put")
    ring = 16_000
    await anyio.sleep(1.0)
    await pacer.send(connection, bytes(1_600), "copies.put")
    began = anyio.current_time()
    await pacer.send(connection, bytes(1_600), "copies.put")
    assert anyio.current_time() - began == pytest.approx(0.5, abs=0.1)


async def test_a_line_that_shows_no_queue_takes_all_without_waiting() -> None:
    log: list[tuple[str, int, float]] = []
    wire = Wire(log, "a")
    began = anyio.current_time()
    await LinePacer().send(FrameConnection(wire), bytes(1 << 20), "copies.put")
    assert anyio.current_time() == began
    assert len(wire.data) == 1 << 20


async def test_another_address_is_another_line() -> None:
    pacer, lines = LinePacer(), "home"
    pacer.own_lines = lambda: lines
    connection = FrameConnection(Wire([], "a"))
    await pacer.send(connection, bytes(100), "copies.put")
    pacer._rate._note(30_000.0, anyio.current_time())
    await anyio.sleep(1.0)
    await pacer.send(connection, bytes(100), "copies.put")
    assert pacer.rate == pytest.approx(SHARE * 30_000)
    lines = "office"
    await anyio.sleep(1.0)
    await pacer.send(connection, bytes(100), "copies.put")
    assert pacer.rate is None


async def test_a_reader_takes_turns_with_copies_and_a_lease_passes_both() -> None:
    log: list[tuple[str, int, float]] = []
    pacer, read = LinePacer(offered=32_000.0), bytearray()
    ours, other = socket.socketpair()

    async def write(data: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        read.extend(data)
        log.append(("reader", len(data), anyio.current_time()))

    with ours, other:
        send, waited = pacer.reader(ours, "192.0.2.9", write, lambda: 0), 0.0
        body = bytes(range(256)) * 64

        async def be_read() -> None:
            nonlocal waited
            waited = await send(body)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pacer.send, FrameConnection(Wire(log, "copy")), bytes(16_000), "copies.put")
            tasks.start_soon(be_read)
            await anyio.sleep(0.2)
            asked = anyio.current_time()
            await pacer.send(FrameConnection(Wire(log, "ask")), bytes(100), "leases.ask")
            assert anyio.current_time() == asked
    assert bytes(read) == body
    assert waited == pytest.approx(1.0, abs=0.1), "half of the line"
    both = [name for name, _, _ in log if name != "ask"]
    assert all({"copy", "reader"} == set(pair) for pair in pairwise(both[:18]))
    assert max(size for _, size, _ in log) == 1_600


def test_a_socket_tells_how_its_way_looks_until_it_is_closed() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as ours, server.accept()[0] as other:
            ours.sendall(bytes(5_000))
            while len(other.recv(5_000, socket.MSG_PEEK)) < 5_000:
                pass
            found = way_of(ours)
            if HAS_TCP_INFO:
                assert found is not None
                assert found.acknowledged_bytes + found.under_way_bytes + found.unsent_bytes == 5_000
        assert way_of(ours) is None
