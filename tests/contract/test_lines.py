"""A line of TLS over TCP and a simulated one carry bytes alike; so what is simulated above them can be believed."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import anyio
import pytest
import trio
import trio.testing

from herodotus.core.settings.fields import HostPort
from herodotus.machine import Machine
from herodotus.peers.net.line import Line, LineBrokenError
from simnet.host import open_world
from simnet.lines import Lines
from simnet.world.network import LineQuality
from simnet.world.world import World
from tests.dht.link_world import key_from

KEY = key_from("called")
LARGE = bytes(range(256)) * 4_096


Work = Callable[[Line, Line], Awaitable[None]]


@asynccontextmanager
async def tls() -> AsyncIterator[tuple[Line, Line]]:
    machine = Machine()
    port = machine.claim(HostPort(host="127.0.0.1", port=0), KEY)
    found: list[Line] = []
    async with anyio.create_task_group() as tasks:

        async def answer() -> None:
            arrival = await port.accept()
            assert arrival.host == "127.0.0.1"
            line = await arrival.answer()
            assert line is not None
            found.append(line)

        tasks.start_soon(answer)
        ours = await machine.dial("127.0.0.1", port.number)
    try:
        yield ours, found[0]
    finally:
        await ours.close()
        await found[0].close()
        port.close()


@asynccontextmanager
async def simulated(loss: float = 0.1) -> AsyncIterator[tuple[Line, Line]]:
    async def nothing(_port: object) -> None:
        await trio.sleep_forever()

    async with open_world(World(seed=1, link=LineQuality(loss=loss))) as carrier:
        one, two = carrier.add_host(nothing), carrier.add_host(nothing)
        await trio.sleep(1)
        lines = Lines(carrier)
        port = lines.claim(two, KEY.public_key().public_bytes_raw())
        ours = await lines.dial(one, two.address)
        arrival = await port.accept()
        assert arrival.host == one.address[0]
        yield ours, await arrival.answer()


KINDS = ["tls", "simulated"]


def run(kind: str, work: Work) -> None:
    opened: Callable[[], AbstractAsyncContextManager[tuple[Line, Line]]]
    opened = tls if kind == "tls" else simulated

    async def main() -> None:
        with anyio.fail_after(60):
            async with opened() as ends:
                await work(*ends)

    if kind == "tls":
        anyio.run(main)
    else:
        trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


async def read(line: Line, size: int) -> bytes:
    got = b""
    while len(got) < size:
        got += await line.receive()
    return got


@pytest.mark.parametrize("kind", KINDS)
def test_the_called_end_alone_has_proven_its_key(kind: str) -> None:
    async def work(ours: Line, theirs: Line) -> None:
        await anyio.lowlevel.checkpoint()
        assert (ours.key, theirs.key) == (KEY.public_key().public_bytes_raw(), None)

    run(kind, work)


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_come_in_order_in_both_directions(kind: str) -> None:
    async def work(ours: Line, theirs: Line) -> None:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ours.send, LARGE)
            tasks.start_soon(theirs.send, b"short")
            assert await read(theirs, len(LARGE)) == LARGE
            assert await read(ours, 5) == b"short"

    run(kind, work)


@pytest.mark.parametrize("kind", KINDS)
def test_who_is_not_read_from_waits(kind: str) -> None:
    async def work(ours: Line, theirs: Line) -> None:
        with anyio.move_on_after(1) as patience:
            for _ in range(100):
                await ours.send(LARGE)
        assert patience.cancelled_caught

    run(kind, work)


@pytest.mark.parametrize("kind", KINDS)
def test_a_line_that_was_closed_is_broken_at_both_ends(kind: str) -> None:
    async def work(ours: Line, theirs: Line) -> None:
        await ours.send(b"last words")
        assert await read(theirs, 10) == b"last words"
        await ours.close()
        with pytest.raises(LineBrokenError):
            await theirs.receive()
        with pytest.raises(LineBrokenError):
            await ours.receive()
        with pytest.raises(LineBrokenError):
            await ours.send(b"more")

    run(kind, work)


# --- what only a simulation can show


def test_what_is_cut_off_comes_late_and_in_order_or_the_line_breaks() -> None:
    async def main() -> None:
        async def nothing(_port: object) -> None:
            await trio.sleep_forever()

        async with open_world(World(seed=2)) as carrier:
            one, two = carrier.add_host(nothing), carrier.add_host(nothing)
            await trio.sleep(1)
            lines = Lines(carrier)
            port = lines.claim(two, bytes(32))
            ours = await lines.dial(one, two.address)
            theirs = await (await port.accept()).answer()
            network = carrier.world.network
            network.partition("cut", [one.number], [two.number])
            await ours.send(b"first ")
            await trio.sleep(5)
            await ours.send(b"second")
            network.heal("cut")
            assert await read(theirs, 12) == b"first second"
            network.partition("cut", [one.number], [two.number])
            await ours.send(b"lost")
            with pytest.raises(LineBrokenError):
                await theirs.receive()
            assert lines.broken == 1

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))


def test_a_machine_without_power_says_nothing_and_a_killed_process_hangs_up() -> None:
    async def main() -> None:
        async def nothing(_port: object) -> None:
            await trio.sleep_forever()

        async with open_world(World(seed=3)) as carrier:
            hosts = [carrier.add_host(nothing) for _ in range(3)]
            await trio.sleep(1)
            lines = Lines(carrier)
            ours = []
            for host in hosts[1:]:
                port = lines.claim(host, bytes(32))
                ours.append(await lines.dial(hosts[0], host.address))
                await port.accept()
            lines.lose(hosts[1].number, is_silent=True)
            with trio.move_on_after(600) as waiting:
                await ours[0].receive()
            assert waiting.cancelled_caught
            lines.lose(hosts[2].number, is_silent=False)
            with pytest.raises(LineBrokenError):
                await ours[1].receive()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
