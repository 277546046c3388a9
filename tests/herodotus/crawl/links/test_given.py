"""Is what an owner left to a stand-in fetched today, whatever becomes of the stand-in? And once?"""

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.link import Link
from crawler.core.urls import url_key
from dht import Contact
from herodotus.crawl.daily import CrawlState, NotCrawling
from herodotus.crawl.links import owner as owner_module
from herodotus.crawl.links import substitute
from herodotus.crawl.links.substitute import StandingIn
from tests.herodotus.crawl.links.test_exchange import SEEDS, delivered, links, look_seldom, urls, world_of
from tests.herodotus.crawl.links.world import DAY_S, LinkPeer, LinkWorld

pytestmark = pytest.mark.anyio
HOUR_S = DAY_S / 24
ASKED_AFTER_S = 0.021 * DAY_S
"""Owners ask their stand-ins about once in half an hour."""


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    look_seldom(monkeypatch)


@dataclass
class Late:
    """A world just after the first stand-ins have looked: one owner has visited nothing."""

    world: LinkWorld
    owner: LinkPeer
    left: set[str]

    def of(self, stand_in: LinkPeer) -> set[str]:
        return {url for url in self.left if self.world.holders(url)[1] is stand_in}

    def turns(self, url: str) -> list[LinkPeer]:
        """Whose frontiers have it and may fetch it, among the living."""
        living = [peer for peer in self.world.peers if not peer.is_down.is_set()]
        return [one for one in living if url in one.frontier.urls and one.exchange.is_our_turn(url)]

    @property
    def stand_in(self) -> LinkPeer:
        """Of the first of its URLs."""
        return self.world.holders(min(self.left))[1]


@asynccontextmanager
async def late(folder: Path, seed: int = 1, peers: int = 10) -> AsyncIterator[Late]:
    async with world_of(folder, seed, peers) as world:
        found = links(300)
        world.peers[0].found(found)
        await delivered(world)
        owner = world.peers[5]
        for peer in world.peers:
            for url in peer.frontier.urls if peer is not owner else ():
                peer.frontier.visit(url)
        scene = Late(world, owner, set(owner.frontier.urls))
        assert scene.left
        await anyio.sleep(0.55 * DAY_S)
        for url in scene.left:
            assert scene.turns(url) == world.holders(url)[1:2]
        yield scene


async def test_what_was_left_to_a_stand_in_that_died_is_its_owners_again(tmp_path: Path) -> None:
    async with late(tmp_path) as scene:
        dead, theirs = scene.stand_in, scene.of(scene.stand_in)
        await scene.world.crash(dead)
        scene.world.agree({dead.key: "dead"})
        await anyio.sleep(30)
        for url in scene.left:
            expected = scene.owner if url in theirs else scene.world.holders(url)[1]
            assert scene.turns(url) == [expected]
        assert theirs <= scene.owner.frontier.doubted  # it may have fetched some, and pushed copies


async def test_a_stand_in_that_cannot_be_reached_keeps_what_it_was_left(tmp_path: Path) -> None:
    async with late(tmp_path) as scene:
        silent, theirs = scene.stand_in, scene.of(scene.stand_in)
        scene.world.net.kill(silent.key)
        scene.world.agree({silent.key: "unreachable"})
        await anyio.sleep(2 * ASKED_AFTER_S)
        for url in theirs:
            assert scene.turns(url) == [silent]


async def test_what_a_stand_in_forgot_as_it_started_again_is_its_owners_again(tmp_path: Path) -> None:
    async with late(tmp_path) as scene:
        theirs = scene.of(scene.stand_in)
        await scene.world.crash(scene.stand_in)
        await scene.world.restart(scene.stand_in)
        await anyio.sleep(ASKED_AFTER_S + 60)
        for url in theirs:
            assert scene.turns(url) == [scene.owner]


async def test_what_a_stand_in_that_was_paused_does_not_fetch_is_its_owners_again(tmp_path: Path) -> None:
    async with late(tmp_path) as scene:
        theirs = sorted(scene.of(scene.stand_in))
        scene.stand_in.frontier.visit(theirs[0])
        scene.stand_in.frontier.may_fetch = False
        await anyio.sleep(ASKED_AFTER_S + 60)
        assert theirs[0] not in scene.owner.frontier.urls  # that is done
        for url in theirs[1:]:
            assert url in scene.owner.frontier.urls
            assert scene.owner.exchange.is_our_turn(url)


async def test_a_stand_in_that_is_paused_takes_nothing_over(tmp_path: Path) -> None:
    async with world_of(tmp_path, 1, 10) as world:
        found = links(300)
        world.peers[0].found(found)
        await delivered(world)
        for peer in world.peers:
            peer.frontier.may_fetch = False
        await anyio.sleep(0.95 * DAY_S)
        for url in urls(found):
            turns = [peer for peer in world.peers if peer.exchange.is_our_turn(url)]
            assert turns == world.holders(url)[:1]


async def test_what_a_stand_in_could_not_take_over_is_its_owners_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its crawl failed between the owner's answer and its own frontier."""
    async with world_of(tmp_path, 1, 10) as world:
        world.peers[0].found(links(300))
        await delivered(world)
        owner = world.peers[5]
        for peer in world.peers:
            for url in peer.frontier.urls if peer is not owner else ():
                peer.frontier.visit(url)
        left = set(owner.frontier.urls)
        stand_in = world.holders(min(left))[1]

        def fail(_links: object, *, may_be_done: bool = False) -> int:
            raise NotCrawling(CrawlState.FAILED, None)

        monkeypatch.setattr(stand_in.frontier, "take_over", fail)
        await anyio.sleep(0.55 * DAY_S)
        monkeypatch.undo()
        await anyio.sleep(2 * ASKED_AFTER_S)
        scene = Late(world, owner, left)
        for url in scene.of(stand_in):
            assert scene.turns(url) == [owner]


async def test_a_stand_in_wants_what_it_was_left_while_the_owner_still_names_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that names a few at a time may ask after the first ones before the stand-in knows the last."""
    monkeypatch.setattr(substitute, "CHUNK", 1)
    monkeypatch.setattr(substitute, "ROWS_MAX", 1)
    named: dict[StandingIn, list[bytes]] = {}
    wanted = list[tuple[int, int]]()
    ask = StandingIn._ask

    async def watched(self: StandingIn, contact: Contact, service: str, body: bytes) -> bytes:
        if service == substitute.MISSED and named.get(self):
            bits = await self.visited(contact.peer, b"".join(named[self]))
            wanted.append((sum(byte.bit_count() for byte in bits), len(named[self])))
        answer = await ask(self, contact, service, body)
        if service == substitute.MISSED:
            named.setdefault(self, []).extend(substitute._keys(answer)[1:])
        return answer

    monkeypatch.setattr(StandingIn, "_ask", watched)
    async with late(tmp_path):
        assert len(wanted) > 3
        assert [yes for yes, _ in wanted] == [count for _, count in wanted]


async def test_what_a_living_stand_in_has_yet_to_do_stays_with_it(tmp_path: Path) -> None:
    async with late(tmp_path) as scene:
        await anyio.sleep(5 * ASKED_AFTER_S)
        for url in scene.left:
            assert scene.turns(url) == scene.world.holders(url)[1:2]


async def test_when_the_second_stand_in_dies_the_first_goes_on(tmp_path: Path) -> None:
    """The owner told both, and does not know which of them fetches it."""
    async with late(tmp_path) as scene:
        await anyio.sleep(0.1 * DAY_S)  # the second ones have looked
        url = min(scene.left)
        first, second = scene.world.holders(url)[1:3]
        assert scene.turns(url) == [first]
        await scene.world.crash(second)
        scene.world.agree({second.key: "dead"})
        await anyio.sleep(2 * ASKED_AFTER_S)
        assert scene.turns(url) == [first]
        await scene.world.crash(first)
        scene.world.agree({first.key: "dead", second.key: "dead"})
        await anyio.sleep(30)
        assert scene.turns(url) == [scene.owner]


async def test_a_link_that_is_found_again_stays_left_to_the_stand_in(tmp_path: Path) -> None:
    """It became due again, and was passed over each time: the owner's day was never done."""
    async with late(tmp_path) as scene:
        again = [Link(url, depth=1) for url in sorted(scene.left)]
        finder = next(peer for peer in scene.world.peers if peer not in (scene.owner, scene.world.peers[0]))
        finder.found(again)
        await delivered(scene.world)
        assert not scene.left & scene.owner.frontier.urls


async def test_a_stretch_that_comes_back_brings_nothing_that_was_left_to_a_stand_in(tmp_path: Path) -> None:
    async with late(tmp_path) as scene:
        newcomer = await scene.world.add(10)
        scene.world.agree()
        await anyio.sleep(60)
        await scene.world.crash(newcomer)
        scene.world.agree({newcomer.key: "dead"})
        await anyio.sleep(60)
        due_but_not_ours = {
            url for url in scene.owner.frontier.urls if not scene.owner.exchange.is_our_turn(url)
        }
        assert not due_but_not_ours & scene.left


async def test_an_owner_gives_no_more_than_it_can_remember(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner_module, "TAKEN_OVER_MAX", 5)
    async with world_of(tmp_path, 1, 10) as world:
        world.peers[0].found(links(300))
        await delivered(world)
        own = {peer.key: set(peer.frontier.urls) for peer in world.peers}
        await anyio.sleep(0.95 * DAY_S)
        for peer in world.peers:
            given = [url for url in own[peer.key] if not peer.exchange.is_our_turn(url)]
            assert len(given) <= 5


async def test_a_peer_that_starts_in_the_afternoon_makes_up_for_no_look(tmp_path: Path) -> None:
    """In a ring that was just founded, each owner has as yet fetched nothing."""
    world = LinkWorld(tmp_path, 1)
    await anyio.sleep(0.56 * DAY_S)  # between the first and the second look of each
    async with world.running(10):
        await anyio.sleep(10)
        found = links(200)
        world.peers[0].found(found)
        await delivered(world)
        await anyio.sleep(1_500)
        for url in urls(found):
            turns = [peer for peer in world.peers if peer.exchange.is_our_turn(url)]
            assert turns == world.holders(url)[:1]


@pytest.mark.parametrize("seed", SEEDS)
async def test_whatever_becomes_of_stand_ins_all_is_fetched_today_and_at_most_twice(
    tmp_path: Path, seed: int
) -> None:
    """Late owners; from noon on peers die, start again, or are paused, and all the others fetch a little at a time."""
    async with world_of(tmp_path, seed, 10) as world:
        chance, found = Random(seed), links(250)
        world.peers[0].found(found)
        await delivered(world)
        await anyio.sleep(0.5 * DAY_S - anyio.current_time())
        fetches = Counter[str]()
        down = list[LinkPeer]()
        while anyio.current_time() < 0.97 * DAY_S:
            is_early = anyio.current_time() < 0.85 * DAY_S  # then they have time to be done
            if is_early and chance.random() < 0.3:
                await _strike(world, chance.choice(world.peers), down, chance)
            for peer in world.peers:
                if peer not in down and peer.frontier.may_fetch:
                    _fetch_some(peer, 2 if is_early else 30, fetches)
            await anyio.sleep(600)
        assert set(fetches) == set(urls(found)), f"seed {seed}"
        assert max(fetches.values()) <= 2, f"seed {seed}"
        assert sum(fetches.values()) <= 1.1 * len(found), f"seed {seed}"


async def _strike(world: LinkWorld, peer: LinkPeer, down: list[LinkPeer], chance: Random) -> None:
    if peer in down:
        await world.restart(peer)
        down.remove(peer)
    elif not peer.frontier.may_fetch:
        peer.frontier.may_fetch = True
    elif len(down) == 3:
        return
    elif chance.random() < 0.3:
        peer.frontier.may_fetch = False
    else:
        await world.crash(peer)
        down.append(peer)
    world.agree({one.key: "dead" for one in down})


def _fetch_some(peer: LinkPeer, count: int, fetches: Counter[str]) -> None:
    """What others fetched, and pushed, is found in the archive where it is looked for."""
    for url in sorted(peer.frontier.urls):
        known = peer.frontier.known_of([url_key(url)])[0]
        if known is None or known.due_day > peer.frontier.today or not peer.exchange.is_our_turn(url):
            continue
        peer.frontier.visit(url)
        if not fetches[url] or url not in peer.frontier.doubted:
            fetches[url] += 1
            count -= 1
        if not count:
            return


async def test_who_could_not_fetch_most_sites_takes_nothing_over_late_in_the_day() -> None:
    """Else nobody would: those who ask it hear that it sees to them."""
    nothing: Any = None  # it asks nobody
    without_ipv4 = StandingIn(nothing, nothing, nothing, nothing, nothing, lambda: False)
    await without_ipv4.look(1)
    assert without_ipv4.counts.taken_over == 0
