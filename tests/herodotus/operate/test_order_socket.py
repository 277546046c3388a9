"""Does an order get through the door, and its report back, whatever stands at either end?"""

import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import anyio.to_thread
import pytest

from herodotus.core.errors import HerodotusError, NotFound
from herodotus.core.orders import Begin, Get, Import, Order, OrderReport, Say, Statistics
from herodotus.home.folder import Home
from herodotus.operate.order_socket import NoDoor, OrderRefused, ask_at_door, open_door

pytestmark = pytest.mark.anyio


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Deeper than a socket's path may be."""
    home = Home(tmp_path / ("deep" * 30))
    home.state.mkdir(parents=True)
    return home


@asynccontextmanager
async def door(home: Home, perform: Callable[[Order, Say], Awaitable[OrderReport]]) -> AsyncIterator[None]:
    with anyio.fail_after(30):
        async with open_door(home, perform):
            yield


async def asked(home: Home, order: Order, say: Say = lambda words: None) -> OrderReport:
    return await anyio.to_thread.run_sync(ask_at_door, home, order, say)


async def test_an_order_arrives_as_it_was_given_and_its_report_comes_back(home: Home) -> None:
    orders = []

    async def perform(order: Order, say: Say) -> OrderReport:
        orders.append(order)
        return OrderReport(facts={"found": ["ä", 1, None]}, content=b"\0\n{}" * 100_000)

    async with door(home, perform):
        report = await asked(home, Import(files=("/a", "/b"), resume_at=3))
        await asked(home, Get(url="http://example.org/", not_after_s=7, is_raw=True))
        await asked(home, Begin(urls=("http://example.org/",)))
    assert orders == [
        Import(files=("/a", "/b"), resume_at=3),
        Get(url="http://example.org/", not_after_s=7, is_raw=True),
        Begin(urls=("http://example.org/",)),
    ]
    assert report == OrderReport(facts={"found": ["ä", 1, None]}, content=b"\0\n{}" * 100_000)


async def test_progress_is_told_on_the_way(home: Home) -> None:
    async def perform(order: Order, say: Say) -> OrderReport:
        for part in range(3):
            say(f"{part} %")
            await anyio.lowlevel.checkpoint()
        return OrderReport(facts=None)

    said: list[str] = []
    async with door(home, perform):
        await asked(home, Statistics(), said.append)
    assert said == ["0 %", "1 %", "2 %"]


async def test_a_refusal_is_a_sentence_with_the_exit_code_of_its_family(home: Home) -> None:
    async def perform(order: Order, say: Say) -> OrderReport:
        raise NotFound("there is no such thing")

    async with door(home, perform):
        with pytest.raises(OrderRefused, match="there is no such thing") as caught:
            await asked(home, Statistics())
    assert isinstance(caught.value, HerodotusError)
    assert caught.value.exit_code == 3


async def test_a_disk_that_fails_over_there_is_told_here(home: Home) -> None:
    async def perform(order: Order, say: Say) -> OrderReport:
        raise FileNotFoundError(2, "No such file or directory", "/gone.warc")

    async with door(home, perform):
        with pytest.raises(OrderRefused, match=r"/gone\.warc: no such file or directory"):
            await asked(home, Statistics())


async def test_an_order_that_goes_wrong_does_not_take_the_peer_along(home: Home) -> None:
    async def perform(order: Order, say: Say) -> OrderReport:
        if isinstance(order, Get):
            raise ExceptionGroup("several", [RuntimeError("unheard of")])
        return OrderReport(facts="still here")

    async with door(home, perform):
        with pytest.raises(OrderRefused, match="a mistake of ours: ExceptionGroup"):
            await asked(home, Get(url="http://example.org/"))
        assert (await asked(home, Statistics())).facts == "still here"


@pytest.mark.parametrize(
    "line",
    [b"\n", b"hello\n", b"{}\n", b"[1]\n", b'{"order": "fly", "arguments": {}}\n',
     b'{"order": "get", "arguments": {"url": 5}}\n', b'{"order": "get", "arguments": []}\n', b"\xff\xfe\n"],
)  # fmt: skip
async def test_what_is_no_order_is_refused_and_the_next_one_carried_out(home: Home, line: bytes) -> None:
    async def perform(order: Order, say: Say) -> OrderReport:
        return OrderReport(facts="done")

    def send() -> bytes:
        with socket.socket(socket.AF_UNIX) as stranger:
            with pytest.MonkeyPatch.context() as place:
                place.chdir(home.state)
                stranger.connect("door")
            stranger.sendall(line)
            stranger.settimeout(20)
            return stranger.makefile("rb").readline()

    async with door(home, perform):
        assert b"does not understand" in await anyio.to_thread.run_sync(send)
        assert (await asked(home, Statistics())).facts == "done"


async def test_who_leaves_ends_the_order(home: Home) -> None:
    begun, ended = anyio.Event(), anyio.Event()

    async def perform(order: Order, say: Say) -> OrderReport:
        begun.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        return OrderReport(facts=None)

    async with door(home, perform):
        with pytest.MonkeyPatch.context() as place:
            place.chdir(home.state)
            stream = await anyio.connect_unix("door")
        await stream.send(b'{"order": "stats", "arguments": {}}\n')
        await begun.wait()
        await stream.aclose()
        await ended.wait()


async def test_a_door_that_nobody_holds_is_no_door(home: Home) -> None:
    with pytest.raises(NoDoor, match="takes no orders: no such file"):
        await asked(home, Statistics())


async def test_a_door_left_by_a_crash_is_replaced_and_closed_behind_us(home: Home) -> None:
    async def perform(order: Order, say: Say) -> OrderReport:
        return OrderReport(facts="new")

    with pytest.MonkeyPatch.context() as place, socket.socket(socket.AF_UNIX) as stale:
        place.chdir(home.state)
        stale.bind("door")
    async with door(home, perform):
        assert (await asked(home, Statistics())).facts == "new"
        assert home.door.stat().st_mode & 0o777 == 0o600
    assert not home.door.exists()
