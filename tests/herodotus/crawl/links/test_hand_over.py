"""Who tells what is known, how much, and to whom: what a liar, a full outbox and a full standby make of it."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.link import Link
from herodotus.crawl.links import exchange, hand_over, outbox, owner
from herodotus.crawl.links.hand_over import KNOWN, KNOWS_ALL
from herodotus.crawl.links.wire import encode_batch, in_order
from herodotus.peers.calls import RefusedError, Services
from herodotus.peers.net.connection import closed_at_once
from tests.herodotus.crawl.links.world import LinkWorld
from tests.herodotus.peers.net.memory_calls import LineFaults
from tests.herodotus.peers.table_ring import contact_of

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def pages(count: int) -> list[Link]:
    return [Link(f"http://host{number % 31}.org/{number}", depth=1) for number in range(count)]


async def delivered(world: LinkWorld, found: list[Link]) -> None:
    urls = [link.url for link in found]
    with anyio.fail_after(20_000):
        while any(peer.exchange.waiting for peer in world.peers) or world.missing(urls):  # noqa: ASYNC110  # nobody tells
            await anyio.sleep(10)


@pytest.mark.parametrize("is_judged", [True, False])
async def test_a_holder_that_tells_rubbish_keeps_nobody_from_hearing_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_judged: bool
) -> None:
    """By its rubbish, or, where that is not looked at, by having no end."""
    monkeypatch.setattr(hand_over, "FIRST_JUDGED", 200 if is_judged else 10**9)
    monkeypatch.setattr(hand_over, "TOLD_S_MAX", 600.0 if is_judged else 20.0)
    world = LinkWorld(tmp_path, 1, LineFaults(delay_s=0.05))
    asked: list[bytes] = []

    async def lie(peer: bytes, body: bytes) -> AsyncIterator[bytes]:
        asked.append(peer)
        yield KNOWS_ALL
        number = 0
        while True:
            number += 1
            await anyio.sleep(1.0)
            urls = [f"http://liar.example/{number}/{place}" for place in range(100)]
            yield encode_batch(in_order([Link(url) for url in urls]))

    async with world.running(7):
        await anyio.sleep(10)
        found = pages(150)
        world.peers[0].found(found)
        await delivered(world, found)
        around = sorted(world.peers, key=lambda peer: contact_of(peer.record).position)
        for liar in around[:2]:
            services = world.net.services_of(liar.key)
            world.net.joined(liar.key, Services(calls=services.calls, streams={KNOWN: lie}))
        late = await world.add(7)
        world.agree()
        await delivered(world, found)
        mine = {link.url for link in found if late in world.holders(link.url)}
        assert mine
        assert mine <= late.remembers
        assert late.key in asked
        assert len(asked) <= 4  # each liar at most once or twice, then it comes last


async def test_one_answer_at_a_time_for_each_and_few_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hand_over, "ANSWERS_MAX", 2)
    world = LinkWorld(tmp_path, 1)
    async with world.running(4):
        await anyio.sleep(10)
        known = world.net.services_of(world.peers[0].key).streams[KNOWN]
        whole = bytes(40)
        async with (
            closed_at_once(known(world.peers[1].key, whole)) as one,
            closed_at_once(known(world.peers[2].key, whole)) as two,
        ):
            assert await anext(one) == await anext(two) == KNOWS_ALL
            for peer in (world.peers[1], world.peers[3]):
                with pytest.raises(RefusedError, match="busy"):
                    await anext(known(peer.key, whole))
            assert [piece async for piece in one] == []  # to its end: the place is free
            async with closed_at_once(known(world.peers[3].key, whole)) as three:
                assert await anext(three) == KNOWS_ALL


async def test_all_that_a_lone_peer_knew_is_given_away_however_much_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, "GIVEN_AWAY_AT", 60)
    monkeypatch.setattr(hand_over, "PIECE_LINKS", 25)
    monkeypatch.setattr(exchange, "ASK_AGAIN_S", 30.0)
    world = LinkWorld(tmp_path, 1, LineFaults(delay_s=0.01), copies=2)
    async with world.running(1):
        await anyio.sleep(400)  # it is alone, and knows it
        found = pages(500)
        world.peers[0].found(found)
        for number in range(1, 6):
            await world.add(number)
        world.agree()
        await delivered(world, found)


async def test_what_two_peers_sent_each_other_lately_is_told_to_those_who_come_in_their_place(
    tmp_path: Path,
) -> None:
    world = LinkWorld(tmp_path, 1, LineFaults(delay_s=0.01), copies=2)
    async with world.running(2):
        await anyio.sleep(10)
        found = pages(200)
        for peer in world.peers:
            peer.found(found)
        await delivered(world, found)
        for number in range(2, 12):
            await world.add(number)
        world.agree()
        await delivered(world, found)


async def test_what_is_told_on_asking_has_the_same_bound(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is refused there: what has no room is left out."""
    monkeypatch.setattr(outbox, "URLS_MAX", 20)
    monkeypatch.setattr(hand_over, "PIECE_LINKS", 15)
    world = LinkWorld(tmp_path, 1)
    async with world.running(1):
        await anyio.sleep(400)  # it is alone, and knows it
        found = pages(200)
        world.peers[0].found(found)
        late = await world.add(1)
        world.agree()
        with anyio.fail_after(5_000):
            while late.exchange.status().standby < 20:  # noqa: ASYNC110  # nobody tells
                await anyio.sleep(10)
        await anyio.sleep(1_000)
        assert [peer.exchange.status().standby for peer in world.peers] == [20, 20]


async def test_who_is_crowded_forgets_what_others_hold_by_now_and_takes_links_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "URLS_MAX", 250)
    world = LinkWorld(tmp_path, 1, LineFaults(delay_s=0.01), copies=2)
    async with world.running(2):
        await anyio.sleep(10)
        found = pages(400)
        world.peers[0].found(found)
        await delivered(world, found)
        full = world.peers[1]
        assert full.exchange.status().standby == 250
        for number in range(2, 12):
            await world.add(number)
        world.agree()
        await delivered(world, found)
        assert full.exchange.status().standby < 100
        later = [Link(f"http://later.example/{number}") for number in range(60)]
        world.peers[5].found(later)
        await delivered(world, [*found, *later])


async def test_who_remembers_too_much_takes_no_more_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outbox, "URLS_MAX", 0)
    world = LinkWorld(tmp_path, 1)
    async with world.running(2):
        await anyio.sleep(10)
        take = world.net.services_of(world.peers[0].key).calls["links.take"]
        with pytest.raises(RefusedError, match="full") as refused:
            await take(world.peers[1].key, encode_batch([Link("http://a.example/")]))
        assert refused.value.retry_after_s == 3_600.0
