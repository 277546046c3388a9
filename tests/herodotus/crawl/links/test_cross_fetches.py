"""Do peers notice who stores what no site sent? Whole crawlers of one web, of which one alters what it fetches."""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import pytest
import trio.testing

from crawler.core.capture import Capture, PayloadDigest, payload_digests
from crawler.core.link import Link
from crawler.core.politeness import Lease, Wait
from crawler.core.recrawl import Result
from crawler.core.urls import Origin, url_key
from crawler.ports import FetchRequest, Skipped
from herodotus.core.captures import Deposit
from herodotus.core.disputes import disputed
from herodotus.core.status import CrossFetchStatus
from herodotus.crawl.links.cross_fetches import ACCUSATION
from herodotus.crawl.stewards import RingSteward
from herodotus.peer import Peer
from simnet.host import open_world
from simnet.origins import SimulatedFetcher
from simnet.peers import Peers, PeersSettings
from simnet.web import Web, WebSettings
from simnet.world.world import World
from tests.herodotus.crawl.links.world import DAY_S, LinkPeer, LinkWorld
from tests.herodotus.deposits import make_deposit
from tests.herodotus.peers.net.memory_calls import LineFaults

pytestmark = pytest.mark.anyio
DELAY_S = 0.5
RUN_S = 1_200.0
Alter = Callable[[int, Capture], bytes]
"""What a peer, by its number, says that a site said."""


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@dataclass
class Watched:
    """Whole peers, each of which holds a copy of every capture."""

    peers: Peers
    leases: Counter[tuple[int, str]] = field(default_factory=Counter)
    """Granted, by peer and host."""
    fetches: Counter[tuple[int, str]] = field(default_factory=Counter)

    def of(self, peer: int) -> CrossFetchStatus:
        return self._peer(peer)._exchange.cross_fetches()

    def accused_by(self, peer: int) -> set[tuple[bytes, str]]:
        counts = self._peer(peer)._copies.parts.suspects.counts
        return {(accused, how) for accused, reasons in counts.items() for how in reasons}

    async def contents(self, peer: int) -> dict[str, int]:
        """How many different captures of each page a peer has."""
        store = self._peer(peer)._archive.opened_store()
        return {url: len({one.id.digest for one in await store.history(url)}) for url in self.pages}

    async def disputed(self, peer: int) -> int:
        store = self._peer(peer)._archive.opened_store()
        return sum([bool(disputed(await store.history(url))) for url in self.pages])

    @property
    def pages(self) -> dict[str, list[int]]:
        """And who came to each."""
        visits = self.peers.origins.visits[0]
        return {url: who for url, who in visits.items() if not url.endswith("/robots.txt")}

    def _peer(self, number: int) -> Peer:
        peer = self.peers.members[number].peer
        assert peer is not None
        return peer


@asynccontextmanager
async def crawled(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    share: float,
    alter: Alter = lambda _peer, capture: capture.body,
) -> AsyncIterator[Watched]:
    web = Web(WebSettings(seed=5, hosts=3, names="test", pages_min=8, pages_max=12, troubles=False))
    settings = PeersSettings(
        peers=3, day_s=DAY_S, copies=3, delay_s=DELAY_S, wait_s=5.0, cross_fetch_share=share
    )
    async with open_world(World(seed=5)) as carrier, Peers(carrier, folder, settings, web).running() as peers:
        watched = Watched(peers)
        fetch, ask = SimulatedFetcher.fetch, RingSteward.lease

        async def fetch_and_alter(self: SimulatedFetcher, request: FetchRequest) -> Capture | Skipped:
            number = self._peer
            watched.fetches[number, urlsplit(request.url).netloc] += not request.url.endswith("/robots.txt")
            found = await fetch(self, request)
            if not isinstance(found, Capture) or not found.body or found.status != 200:
                return found
            body = alter(number, found)
            sha256, sha1 = payload_digests(body)
            return replace(found, body=body, sha256=PayloadDigest(sha256), sha1=sha1)

        async def lease(self: RingSteward, origin: Origin, address: str) -> Lease | Wait:
            answer = await ask(self, origin, address)
            number = next(one.number for one in peers.members if one.id == self._parts.own_key)
            watched.leases[number, urlsplit(origin).netloc] += isinstance(answer, Lease)
            return answer

        monkeypatch.setattr(SimulatedFetcher, "fetch", fetch_and_alter)
        monkeypatch.setattr(RingSteward, "lease", lease)
        await anyio.sleep(60)
        await peers.seed(peers.origins.oracle.front_pages())
        await anyio.sleep(RUN_S)
        yield watched


def altered_by(liar: int) -> Alter:
    return lambda peer, found: found.body + b"<!-- so they said -->" * (peer == liar)


async def test_who_alters_pages_is_disputed_and_named_once_it_stands_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crawled(tmp_path, monkeypatch, 1.0, altered_by(1)) as watched:
        liar = watched.peers.members[1].id
        assert watched.accused_by(0) | watched.accused_by(2) == {(liar, ACCUSATION)}
        counts = [watched.of(0), watched.of(2)]
        against = sum(one.peers.get(liar.hex()[:16], {"differed": 0})["differed"] for one in counts)
        assert against >= 8
        assert sum(one.differed for one in counts) == against
        assert await watched.disputed(0) >= against


async def test_of_honest_peers_nobody_is_accused_and_nothing_is_stored_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crawled(tmp_path, monkeypatch, 1.0) as watched:
        counts = [watched.of(number) for number in range(3)]
        assert sum(one.agreed for one in counts) >= 20
        assert [(one.differed, one.changing, one.unclear) for one in counts] == [(0, 0, 0)] * 3
        assert set((await watched.contents(0)).values()) == {1}
        assert not any(watched.accused_by(number) for number in range(3))


async def test_pages_that_are_other_each_time_speak_against_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crawled(
        tmp_path, monkeypatch, 1.0, lambda _peer, found: found.body + b"%f" % anyio.current_time()
    ) as watched:
        counts = [watched.of(number) for number in range(3)]
        assert sum(one.changing for one in counts) >= 20
        assert [(one.agreed, one.differed) for one in counts] == [(0, 0)] * 3
        assert not any(watched.accused_by(number) for number in range(3))


async def test_each_fetch_of_a_second_look_has_a_lease_and_hosts_have_their_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crawled(tmp_path, monkeypatch, 1.0, altered_by(2)) as watched:
        assert max(map(len, watched.pages.values())) == 3, "the owner, another peer, and that one once more"
        assert watched.fetches <= watched.leases
        for starts in watched.peers.origins.starts.values():
            assert all(second.at - first.at >= DELAY_S - 1e-6 for first, second in pairwise(starts))


async def test_without_a_share_each_page_is_fetched_once_a_day(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with crawled(tmp_path, monkeypatch, 0.0) as watched:
        pages = list(watched.pages.values())
        assert len(pages) >= 20
        assert {len(who) for who in pages} == {1}


# -- which captures, and what becomes of a look: exchanges alone, whose frontiers a test fills


PAGE = "http://example.org/page"


def capture(url: str = PAGE, *, status: int = 200, time_s: float | None = None) -> Deposit:
    at = anyio.current_time() if time_s is None else time_s
    return make_deposit(
        url=url,
        time_s=int(at),
        head=b"HTTP/1.1 %d Said\r\nContent-Type: text/html\r\n\r\n" % status,
        body=b"so",
    )


@asynccontextmanager
async def exchanges(
    folder: Path, url: str = PAGE, *, is_known: bool = True
) -> AsyncIterator[tuple[LinkPeer, LinkPeer, list[LinkPeer]]]:
    """The owner of a URL, its first stand-in and the others. Each may know the URL, and the owner was there today."""
    world = LinkWorld(folder, 1, LineFaults(delay_s=0.05), cross_fetch_share=1.0)
    async with world.running(5):
        await anyio.sleep(10)
        owner, checker, *others = world.holders(url)
        if is_known:
            owner.found([Link(url, depth=1)])
            await anyio.sleep(600)
            owner.frontier.visit(url)
        yield owner, checker, others


def turns(peers: list[LinkPeer], url: str = PAGE) -> list[LinkPeer]:
    return [peer for peer in peers if peer.exchange.is_our_turn(url)]


def visited(peer: LinkPeer, result: Result, url: str = PAGE) -> None:
    """Its crawler was there."""
    peer.frontier.visit(url)
    known = peer.frontier.known_of([url_key(url)])[0]
    assert known is not None
    known.last_result = result.value


async def test_of_all_holders_that_get_a_capture_the_first_besides_its_owner_looks_again(
    tmp_path: Path,
) -> None:
    async with exchanges(tmp_path) as (owner, checker, others):
        for peer in (owner, checker, *others):
            peer.exchange.came(capture(), owner.key)
        assert turns([checker, *others]) == [checker]
        assert PAGE in checker.frontier.urls


async def test_what_a_stand_in_fetched_its_owner_looks_at_unless_it_was_there_today(tmp_path: Path) -> None:
    async with exchanges(tmp_path) as (owner, checker, others):
        for peer in (owner, *others):
            peer.exchange.came(capture(), checker.key)
        await anyio.sleep(20)
        assert turns(others) == []
        assert owner.exchange.cross_fetches().made == 0
        owner.frontier.today = 1
        owner.exchange.came(capture(time_s=DAY_S + 5), checker.key)
        known = owner.frontier.known_of([url_key(PAGE)])[0]
        assert known is not None
        assert (known.due_day, known.digest) == (1, hashlib.sha256(b"so").digest())


@pytest.mark.parametrize(
    ("url", "status", "day"),
    [
        (PAGE, 200, 1),
        (PAGE, 404, 0),
        ("http://example.org/robots.txt", 200, 0),
        ("http://EXAMPLE.org/not canonical", 200, 0),
    ],
)
async def test_old_captures_other_answers_and_strange_addresses_are_not_looked_at(
    tmp_path: Path, url: str, status: int, day: int
) -> None:
    async with exchanges(tmp_path, url, is_known=url == PAGE) as (owner, checker, others):
        for peer in (checker, *others):
            peer.frontier.today = 0
            peer.exchange.came(capture(url, status=status, time_s=(day + 0.1) * DAY_S), owner.key)
            assert url not in peer.frontier.urls


async def test_a_page_that_nobody_linked_to_is_looked_at_as_well(tmp_path: Path) -> None:
    async with exchanges(tmp_path, is_known=False) as (owner, checker, others):
        for peer in (owner, checker, *others):
            peer.exchange.came(capture(), owner.key)
        assert turns([checker, *others]) == [checker]
        assert PAGE in checker.frontier.urls


async def test_a_page_that_the_origin_does_not_have_differs_at_once(tmp_path: Path) -> None:
    async with exchanges(tmp_path) as (owner, checker, _):
        checker.exchange.came(capture(), owner.key)
        visited(checker, Result.GONE)
        await anyio.sleep(20)
        assert checker.exchange.cross_fetches().differed == 1


async def test_an_origin_that_does_not_answer_and_a_day_that_ends_say_nothing(tmp_path: Path) -> None:
    async with exchanges(tmp_path) as (owner, checker, _):
        checker.exchange.came(capture(), owner.key)
        visited(checker, Result.FAILED)
        await anyio.sleep(20)
        assert (checker.exchange.cross_fetches().unclear, checker.exchange.cross_fetches().made) == (1, 1)
    async with exchanges(tmp_path / "again") as (owner, checker, _):
        checker.exchange.came(capture(), owner.key)
        await anyio.sleep(20)
        assert checker.exchange.cross_fetches().made == 0, "it is still to be fetched"
        checker.frontier.today = 1
        await anyio.sleep(20)
        assert (checker.exchange.cross_fetches().unclear, checker.exchange.cross_fetches().made) == (1, 1)
        assert turns([checker]) == []
        assert PAGE not in checker.frontier.urls


async def test_the_third_look_comes_as_long_after_the_second_as_that_after_the_first(tmp_path: Path) -> None:
    async with exchanges(tmp_path) as (owner, checker, _):
        checker.exchange.came(capture(time_s=anyio.current_time() - 500), owner.key)
        await anyio.sleep(100)
        visited(checker, Result.CHANGED)
        known = checker.frontier.known_of([url_key(PAGE)])[0]
        assert known is not None
        known.digest = b"ours"
        await anyio.sleep(550)
        assert known.due_day == 1
        await anyio.sleep(100)
        assert known.due_day == 0, "once more today"
        visited(checker, Result.UNCHANGED)
        await anyio.sleep(20)
        assert checker.exchange.cross_fetches().differed == 1


async def test_what_an_interrupted_crawl_reads_from_its_archive_speaks_against_nobody(tmp_path: Path) -> None:
    async with exchanges(tmp_path) as (owner, checker, _):
        checker.exchange.came(capture(), owner.key)
        visited(checker, Result.CHANGED)  # with the digest of what came: nobody asked the origin
        await anyio.sleep(20)
        assert (checker.exchange.cross_fetches().unclear, checker.exchange.cross_fetches().made) == (1, 1)


async def test_of_what_a_stranger_signed_its_owner_asks_the_origin_and_names_nobody(tmp_path: Path) -> None:
    async with exchanges(tmp_path) as (owner, checker, others):
        owner.frontier.today = 1
        for peer in (owner, checker, *others):
            peer.exchange.came(capture(time_s=DAY_S + 5), b"nobody knows me".ljust(32))
        visited(owner, Result.GONE)
        await anyio.sleep(20)
        assert (owner.exchange.cross_fetches().differed, owner.exchange.cross_fetches().peers) == (1, {})
        assert not any(peer.exchange.cross_fetches().made for peer in (checker, *others))
