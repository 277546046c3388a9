"""Do holders that acknowledged links and forgot them come to know them again, without anything else happening?"""

from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.link import Link
from dht import Contact
from dht.core.ids import Key, key_of
from herodotus.core.errors import MalformedError
from herodotus.core.reconciliation import PARTS, Sum, parts_of, sums_of
from herodotus.crawl.links import comparison, exchange
from herodotus.crawl.links.wire import decode_sums, encode_sums
from herodotus.peers.calls import RefusedError, Services
from tests.herodotus.crawl.links.world import DAY_S, LinkPeer, LinkWorld
from tests.herodotus.peers.net.memory_calls import LineFaults
from tests.herodotus.peers.table_ring import contact_of

pytestmark = pytest.mark.anyio
HIGHEST = Key(b"\xff" * 20)
LOWEST = Key(bytes(20))


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@pytest.fixture(autouse=True)
def few_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A virtual day in as few steps as can be."""
    monkeypatch.setattr(exchange, "LOOK_EVERY_S", 1_000.0)
    monkeypatch.setattr(exchange, "ASK_AGAIN_S", 20_000.0)
    monkeypatch.setattr(exchange, "COMPARE_LOOK_S", 1_000.0)


async def told(world: LinkWorld, count: int) -> list[str]:
    """All holders know these."""
    await anyio.sleep(10)  # each has seen the others
    urls = [f"http://host{number % 31}.org/{number}" for number in range(count)]
    world.peers[0].found([Link(url, depth=1) for url in urls])
    with anyio.fail_after(3_600):
        while any(peer.exchange.waiting for peer in world.peers):  # noqa: ASYNC110  # outboxes tell nobody
            await anyio.sleep(5)
    assert world.missing(urls) == []
    return urls


async def test_an_owner_that_forgot_is_reminded_within_a_day(tmp_path: Path) -> None:
    world = LinkWorld(tmp_path, 1, LineFaults(delay_s=0.05))
    async with world.running(10):
        urls = await told(world, 300)
        forgetful = world.peers[6]
        forgetful.frontier.forget()
        lost = {url for url in urls if world.holders(url)[0] is forgetful}
        assert lost
        assert world.missing(urls) != []
        await anyio.sleep(0.45 * DAY_S)  # before anybody looks whether owners keep up
        assert world.missing(urls) == []
        assert lost <= forgetful.frontier.urls  # and it is to fetch them
        assert sum(peer.exchange.status().reminded for peer in world.peers) >= len(lost)


async def test_a_stand_in_that_forgot_learns_from_the_owner(tmp_path: Path) -> None:
    world = LinkWorld(tmp_path, 1, LineFaults(delay_s=0.05))
    async with world.running(10):
        urls = await told(world, 300)
        forgetful = world.peers[4]
        await world.crash(forgetful)
        for row in (forgetful.folder).iterdir():
            row.unlink()
        await world.restart(forgetful)
        assert [url for url, _ in world.missing(urls)] != []
        await anyio.sleep(0.45 * DAY_S)
        assert world.missing(urls) == []


async def test_holders_that_know_the_same_ask_once_a_stretch_and_tell_nothing(tmp_path: Path) -> None:
    world = LinkWorld(tmp_path, 1, LineFaults(delay_s=0.05))
    async with world.running(10):
        await told(world, 300)
        before = world.net.calls["links.known"]
        await anyio.sleep(0.45 * DAY_S)
        assert world.net.calls["links.sums"] == 55  # 10 stretches, five stand-ins; one lies across zero
        assert world.net.calls["links.known"] == before
        assert world.net.bytes["links.sums"] < 55 * 500


async def test_large_differences_are_found_part_by_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "LEAF_LINKS", 5)
    monkeypatch.setattr(comparison, "ROWS_MAX", 40)
    world = LinkWorld(tmp_path, 2, LineFaults(delay_s=0.01))
    async with world.running(8):
        urls = await told(world, 800)
        world.peers[3].frontier.forget()
        await anyio.sleep(0.45 * DAY_S)
        assert world.missing(urls) == []


async def test_sums_that_never_agree_cost_a_bounded_number_of_questions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparison, "LEAF_LINKS", 0)
    chance = Random(1)
    world = LinkWorld(tmp_path, 1, LineFaults(delay_s=0.01))
    async with world.running(7):
        await told(world, 100)
        liar = world.peers[2]
        services = world.net.services_of(liar.key)

        async def lie(peer: bytes, body: bytes) -> bytes:
            await anyio.lowlevel.checkpoint()
            sums = [Sum(1, chance.getrandbits(160)) for _ in range(PARTS)]
            return encode_sums(Key(body[20:]), sums)

        calls = {**services.calls, comparison.SUMS: lie}
        world.net.joined(liar.key, Services(calls=calls, streams=services.streams))
        await anyio.sleep(0.45 * DAY_S)
        assert world.net.calls["links.sums"] <= 6 * comparison.QUESTIONS_MAX + 6 * 6 * 2


async def test_who_holds_nothing_there_is_told_nothing(tmp_path: Path) -> None:
    world = LinkWorld(tmp_path, 1)
    async with world.running(10):
        await told(world, 20)
        around: list[LinkPeer] = sorted(world.peers, key=lambda peer: contact_of(peer.record).position)
        asked = world.net.services_of(around[1].key).calls[comparison.SUMS]
        arc = position(around[0]) + position(around[1])
        assert len(await asked(around[2].key, arc)) == 20 + PARTS * 24
        with pytest.raises(RefusedError, match="busy"):
            await asked(around[8].key, arc)
        with pytest.raises(RefusedError, match="nonsense"):
            await asked(around[2].key, position(around[1]) + position(around[0]))


def position(peer: LinkPeer) -> bytes:
    found: Contact = contact_of(peer.record)
    return found.position


async def test_a_crawl_that_fails_in_the_midst_ends_no_exchange(tmp_path: Path) -> None:
    world = LinkWorld(tmp_path, 1, LineFaults(delay_s=0.05))
    async with world.running(10):
        urls = await told(world, 100)
        broken = world.peers[5]
        broken.frontier.is_broken = True
        gone = world.peers.pop(2)
        world.agree()  # somebody's stretch is to be taken up
        await anyio.sleep(0.6 * DAY_S)
        broken.frontier.is_broken = False
        await anyio.sleep(21_000)
        assert not broken.is_down.is_set()
        assert {url for url in urls if world.holders(url)[0] is broken} <= broken.frontier.urls
        assert gone not in world.peers


# --- sums


def test_sums_of_a_stretch_are_these() -> None:
    start, end = LOWEST, Key(bytes(19) + b"\xa0")  # parts of ten
    keys = [bytes(19) + bytes([number]) for number in (0, 1, 10, 11, 12, 160, 161)]
    assert sums_of(keys, start, end) == [Sum(2, 1 ^ 10), Sum(2, 11 ^ 12), *[Sum(0, 0)] * 13, Sum(1, 160)]


def test_parts_lie_side_by_side_however_small_the_stretch() -> None:
    for end in (HIGHEST, Key(bytes(19) + b"\x03")):
        parts = parts_of(LOWEST, end)
        assert len(parts) == PARTS
        assert (parts[0][0], parts[-1][1]) == (LOWEST, end)
        assert all(one[1] == other[0] for one, other in pairwise(parts))


def test_an_answer_about_sums_is_these_bytes() -> None:
    reached = key_of(b"http://a.example/")
    sums = [Sum(2, 258), *[Sum(0, 0)] * (PARTS - 1)]
    data = encode_sums(reached, sums)
    assert data.hex() == reached.hex() + "00000002" + "00" * 18 + "0102" + "00" * 24 * 15
    assert decode_sums(data) == (reached, sums)
    for wrong in (b"", data[:-1], data + b"\0"):
        with pytest.raises(MalformedError):
            decode_sums(wrong)
