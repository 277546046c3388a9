"""Which way does a call take to a peer of the same house? In virtual time, without sockets."""

from dataclasses import dataclass, field
from typing import Any, cast

import anyio
import pytest
import trio.testing

from dht.core.ids import PeerKey
from dht.core.records import Address, Line
from herodotus.core.reach import CONFIRM_S
from herodotus.peers.calls import PeerUnreachableError
from herodotus.peers.net.ways import LEARNED_S, Ways, WaysParts

pytestmark = pytest.mark.anyio
INSIDE = ("192.168.1.12", 4484)
OUTSIDE = Line(host=bytes((62, 1, 0, 1)), udp=4485, tcp=4485)
MATE = PeerKey(b"m" * 32)


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@dataclass
class Stream:
    key: bytes

    async def close(self) -> None:
        await anyio.lowlevel.checkpoint()


@dataclass
class House:
    """Its router does not lead its own hosts back to its outside address."""

    key: bytes | None = None
    """Who answers inside; None: nobody does yet."""
    dialled: list[float] = field(default_factory=list)

    async def dial(self, host: str, port: int) -> Any:
        assert (host, port) == INSIDE
        self.dialled.append(anyio.current_time())
        if self.key is None:
            await anyio.sleep_forever()
        return Stream(cast("bytes", self.key))

    async def answers(self, address: Address) -> bool:
        assert address == OUTSIDE.address
        await anyio.lowlevel.checkpoint()
        return False

    def ways(self) -> Ways:
        async def ask(*_: object) -> bytes:
            raise AssertionError("no relay is needed")

        parts = WaysParts(
            dial=self.dial, lines_of=lambda peer: (OUTSIDE,), near=lambda peer: INSIDE, answers=self.answers
        )
        return Ways(parts, ask)


async def test_a_mate_that_was_slow_once_is_called_again_before_it_is_held_for_uncallable() -> None:
    """It was not tried inside for ten minutes then, and there is no other way."""
    house = House()
    ways = house.ways()
    with pytest.raises(PeerUnreachableError):
        await ways.line_to(MATE, OUTSIDE.address)
    assert not ways.is_near(MATE)
    house.key = MATE
    await anyio.sleep(CONFIRM_S)
    assert (await ways.line_to(MATE, OUTSIDE.address)).key == MATE
    assert len(house.dialled) == 2


async def test_an_address_that_another_one_has_now_is_left_alone_for_long() -> None:
    house = House(key=b"x" * 32)
    ways = house.ways()
    for _ in range(2):
        with pytest.raises(PeerUnreachableError):
            await ways.line_to(MATE, OUTSIDE.address)
        await anyio.sleep(LEARNED_S / 2 - 1)
    assert len(house.dialled) == 1
