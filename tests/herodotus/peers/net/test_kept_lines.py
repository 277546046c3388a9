"""When is a line at a relay given up? In virtual time; the connection is read by hand."""

from random import Random
from types import SimpleNamespace
from typing import Any

import anyio
import pytest
import trio.testing

from herodotus.peers.net.kept_lines import SILENT_S, STANDSTILL_S, KeptLines
from herodotus.peers.net.line import LineBrokenError
from herodotus.peers.net.lines_wire import Alive, pack
from herodotus.peers.net.wire import FrameKind

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Relay:
    """A connection on which one sign of life comes when it is let."""

    def __init__(self) -> None:
        self.speaks = anyio.Event()

    async def read(self, _kinds: object) -> Any:
        await self.speaks.wait()
        return SimpleNamespace(kind=FrameKind.PIECE, content=pack(Alive()))


def kept() -> KeptLines:
    parts: Any = SimpleNamespace(chance=Random(1), wanted=3, full_after_s=1_800.0)
    nothing: Any = None
    return KeptLines(parts, nothing, nothing)


async def heard(lines: KeptLines, relay: Any, words: list[object]) -> None:
    try:
        words.append(await lines._piece(relay))
    except LineBrokenError as error:
        words.append(str(error))


async def test_what_came_while_our_machine_stood_still_is_read_before_the_line_is_given_up() -> None:
    lines, relay, words = kept(), Relay(), list[object]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heard, lines, relay, words)
        await anyio.wait_all_tasks_blocked()
        begun = anyio.current_time()
        lines._lose_patience(begun + SILENT_S + 60.0)  # the first look after a minute's standstill
        relay.speaks.set()
        await anyio.wait_all_tasks_blocked()
        lines._lose_patience(begun + SILENT_S + 62.0)
    assert words == [Alive()]


async def test_a_relay_that_stays_silent_is_given_up() -> None:
    lines, relay, words = kept(), Relay(), list[object]()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(heard, lines, relay, words)
        await anyio.wait_all_tasks_blocked()
        begun = anyio.current_time()
        for at in (SILENT_S - 1.0, SILENT_S, SILENT_S + STANDSTILL_S / 2):
            lines._lose_patience(begun + at)
            await anyio.wait_all_tasks_blocked()
            assert not words
        lines._lose_patience(begun + SILENT_S + STANDSTILL_S)
    assert words == ["silent"]
