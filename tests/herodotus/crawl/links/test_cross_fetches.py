"""Do peers notice who stores what no site sent? Whole crawlers of one web, of which one alters what it fetches."""

import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio
import anyio.lowlevel
import pytest
import trio.testing

from crawler.core.capture import Capture, FetchOutcome, PayloadDigest, payload_digests
from crawler.core.link import Link
from crawler.core.politeness import Lease, Wait
from crawler.core.recrawl import Result
from crawler.core.scope import THE_WHOLE_WEB
from crawler.core.urls import STANDARD, Origin, url_key
from crawler.ports import FetchRequest, Skipped
from dht import Contact
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.places import PlaceRules, Standing
from herodotus.core.captures import Deposit
from herodotus.core.disputes import disputed
from herodotus.core.links.cross_fetches import CrossTally, CrossVerdict
from herodotus.core.status import CrossFetchStatus
from herodotus.crawl.links.cross_fetches import (
    ACCUSATION,
    ASK_AGAIN_S,
    CROSSED,
    CrossFetches,
    CrossParts,
)
from herodotus.crawl.links.disk import link_rows
from herodotus.crawl.links.outbox import Outbox, Standby
from herodotus.crawl.links.owner import RingOwner
from herodotus.crawl.stewards import RingSteward
from herodotus.peer import Peer
from herodotus.peers.calls import PeerUnreachableError, RefusedError
from herodotus.peers.ring_view import RingView
from simnet.host import open_world
from simnet.origins import SimulatedFetcher
from simnet.peers import Peers, PeersSettings
from simnet.web import Web, WebSettings
from simnet.world.world import World
from tests.herodotus.crawl.links.world import DAY_S, LinkPeer, LinkWorld, MemoryFrontier
from tests.herodotus.deposits import make_deposit
from tests.herodotus.peers.net.memory_calls import LineFaults
from tests.herodotus.peers.table_ring import TableRing, link_peer

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

    def frames(self, peer: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """From now on it says of everybody what is said of liars."""
        opened = self._peer(peer)._exchange._open
        assert opened is not None
        monkeypatch.setattr(opened.crossing._tally, "stands_out", lambda _peer: True)

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
    *,
    peers: int = 3,
    pages: int = 10,
) -> AsyncIterator[Watched]:
    web = Web(
        WebSettings(seed=5, hosts=3, names="test", pages_min=pages - 2, pages_max=pages + 2, troubles=False)
    )
    settings = PeersSettings(
        peers=peers, day_s=DAY_S, copies=peers, delay_s=DELAY_S, wait_s=5.0, cross_fetch_share=share
    )
    async with open_world(World(seed=5)) as carrier, Peers(carrier, folder, settings, web).running() as ring:
        watched = Watched(ring)
        fetch, ask = SimulatedFetcher.fetch, RingSteward.lease

        async def fetch_and_alter(self: SimulatedFetcher, request: FetchRequest) -> Capture | Skipped:
            number = self._peer
            watched.fetches[number, urlsplit(request.url).netloc] += not request.url.endswith("/robots.txt")
            found = await fetch(self, replace(request, etag="", last_modified="", digest=None))
            if not isinstance(found, Capture) or not found.body or found.status != 200:
                return found
            body = alter(number, found)
            sha256, sha1 = payload_digests(body)
            found = replace(found, body=body, sha256=PayloadDigest(sha256), sha1=sha1)
            if sha256 == request.digest:
                found = replace(found, body=b"", outcome=FetchOutcome.SAME_DIGEST)
            return found

        async def lease(self: RingSteward, origin: Origin, address: str) -> Lease | Wait:
            answer = await ask(self, origin, address)
            number = next(one.number for one in ring.members if one.id == self._parts.own_key)
            watched.leases[number, urlsplit(origin).netloc] += isinstance(answer, Lease)
            return answer

        monkeypatch.setattr(SimulatedFetcher, "fetch", fetch_and_alter)
        monkeypatch.setattr(RingSteward, "lease", lease)
        await anyio.sleep(60)
        await ring.seed(ring.origins.oracle.front_pages())
        await anyio.sleep(RUN_S)
        yield watched


def altered_by(liar: int) -> Alter:
    return lambda peer, found: found.body + b"<!-- so they said -->" * (peer == liar)


EACH = 4.0
"""The share of which each of so many holders draws all."""


async def test_who_alters_pages_is_named_by_three_places_and_nobody_whom_one_place_and_a_liar_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One peer alters what it fetches first. Another says of everybody that it stands out. A third sees other pages
    than all others, where they fetched them before, as if its provider wrote into them."""
    misled, liar, framer, framed = 0, 1, 2, 3
    fetched: set[str] = set()

    def alter(peer: int, found: Capture) -> bytes:
        is_second, said = found.url in fetched, b""
        fetched.add(found.url)
        if peer == liar and not is_second:
            said = b"<!-- so they said -->"
        elif peer == misled and is_second:
            said = b"<!-- so they say here -->"
        return found.body + said

    async with crawled(tmp_path, monkeypatch, EACH, alter, peers=4, pages=32) as watched:
        ids = [one.id for one in watched.peers.members]
        watched.frames(framer, monkeypatch)
        await anyio.sleep(4_000)
        honest = {n for n in range(4) if n != liar}
        seen = {n: watched.of(n).peers[ids[liar].hex()[:16]]["differed"] for n in honest}
        assert min(seen.values()) >= 8
        against = watched.of(misled).peers[ids[framed].hex()[:16]]
        assert against["differed"] >= 8, "it stands out where one is misled"
        assert {n: watched.accused_by(n) for n in honest} == {n: {(ids[liar], ACCUSATION)} for n in honest}
        assert await watched.disputed(0) >= 8


@dataclass
class Told:
    """What other holders say of a peer; those who are not among them are silent."""

    words: dict[PeerKey, bytes]
    asked: list[PeerKey] = field(default_factory=list)

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 20.0) -> bytes:
        del body, deadline_s
        assert service == CROSSED
        self.asked.append(to.peer)
        await anyio.lowlevel.checkpoint()
        if to.peer not in self.words:
            raise PeerUnreachableError
        return self.words[to.peer]


YES, NO = b"\1", b"\0"
ACCUSED = 1


def crossing_of(
    folder: Path, words: dict[int, bytes], places: Sequence[int]
) -> tuple[CrossFetches, Told, list[str]]:
    """Of peer 0, to which peer 1 stands out. Each peer is in a place; the others say what a test says."""
    records = [link_peer(number) for number in range(len(places))]
    ring = TableRing(records[0])
    ring.see(records)
    ring.placed = {
        one.peer: Standing(b"place %d" % place, b"area %d" % place)
        for one, place in zip(records, places, strict=True)
    }
    rows = link_rows(folder)
    view, standby = RingView(ring, Rule(6, PlaceRules())), Standby(rows)
    owner = RingOwner(
        view,
        Outbox(rows),
        standby,
        wall_clock=anyio.current_time,
        today=lambda: 0,
        fetches_all=False,
        on_filled=lambda: None,
    )
    told = Told({records[number].peer: word for number, word in words.items()})
    tally, named = CrossTally(), list[str]()
    crossing = CrossFetches(
        CrossParts(
            view=view,
            calls=told,
            frontier=MemoryFrontier(),
            standby=standby,
            owner=owner,
            rules=STANDARD,
            territory=THE_WHOLE_WEB,
            share=1.0,
            salt=b"",
            wall_clock=anyio.current_time,
            accuse=lambda peer, how: named.append(f"{peer == records[ACCUSED].peer} {how}"),
        ),
        tally,
    )
    for _ in range(8):
        tally.note(records[ACCUSED].peer, CrossVerdict.DIFFERS)
    crossing._doubted[records[ACCUSED].peer] = Key(bytes(20))
    return crossing, told, named


@pytest.mark.parametrize(
    ("words", "is_named"),
    [
        ({}, False),
        ({2: YES}, False),
        ({2: YES, 3: NO, 4: NO}, False),
        ({2: YES, 3: YES}, True),
        ({2: NO, 3: YES, 4: YES}, True),
        ({2: YES, 3: b"rubbish"}, False),
    ],
)
async def test_whoever_stands_out_in_two_other_places_is_named(
    tmp_path: Path, words: dict[int, bytes], is_named: bool
) -> None:
    crossing, told, named = crossing_of(tmp_path, words, places=range(5))
    await crossing.ask()
    assert bool(named) == is_named
    assert len(told.asked) == 3, "all but the two"
    await crossing.ask()
    assert len(told.asked) == 3, "not again within the hour"


@pytest.mark.parametrize("places", [(0, 1, 2, 2), (0, 1, 0, 2), (0, 1, 1, 2)])
async def test_two_keys_of_one_place_are_one_witness(tmp_path: Path, places: tuple[int, ...]) -> None:
    """Neither do those count that sit beside us, or beside the one that they speak of."""
    crossing, _, named = crossing_of(tmp_path, {2: YES, 3: YES}, places)
    await crossing.ask()
    assert not named


async def test_who_was_silent_is_asked_again_after_an_hour_and_who_left_is_no_witness(tmp_path: Path) -> None:
    crossing, told, named = crossing_of(tmp_path, {2: YES}, places=range(4))
    await crossing.ask()
    told.words[link_peer(3).peer] = YES
    await anyio.sleep(ASK_AGAIN_S)
    await crossing.ask()
    assert named == [f"True {ACCUSATION}"]
    assert told.asked.count(link_peer(2).peer) == 1, "it has said so"
    ring = crossing._parts.view._ring
    assert isinstance(ring, TableRing)
    ring.see([link_peer(number) for number in (0, 1, 2)])
    crossing._parts.view.look_again()
    assert not crossing._is_shown(link_peer(ACCUSED).peer)


async def test_members_hear_who_stands_out_and_of_itself_nobody_does(tmp_path: Path) -> None:
    crossing, _, _ = crossing_of(tmp_path, {}, places=range(4))
    accused, other = link_peer(ACCUSED).peer, link_peer(2).peer
    assert await crossing.crossed(other, accused) == YES
    assert await crossing.crossed(accused, accused) == NO
    assert await crossing.crossed(accused, other) == NO
    with pytest.raises(RefusedError, match="no-member"):
        await crossing.crossed(link_peer(9).peer, accused)
    with pytest.raises(RefusedError, match="nonsense"):
        await crossing.crossed(other, accused[1:])
    for _ in range(255):
        await crossing.crossed(other, accused)
    with pytest.raises(RefusedError, match="busy"):
        await crossing.crossed(other, accused)


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
        assert max(map(len, watched.pages.values())) <= 5, "the owner, and each of two others twice"
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
    world = LinkWorld(folder, 1, LineFaults(delay_s=0.05), cross_fetch_share=EACH)
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


async def test_of_all_holders_that_get_a_capture_each_besides_its_owner_may_look_again(
    tmp_path: Path,
) -> None:
    async with exchanges(tmp_path) as (owner, checker, others):
        for peer in (owner, checker, *others):
            peer.exchange.came(capture(), owner.key)
        assert turns([checker, *others]) == [checker, *others]
        assert PAGE in checker.frontier.urls


async def test_what_a_stand_in_fetched_its_owner_looks_at_unless_it_was_there_today(tmp_path: Path) -> None:
    async with exchanges(tmp_path) as (owner, checker, others):
        for peer in (owner, *others):
            peer.exchange.came(capture(), checker.key)
        await anyio.sleep(20)
        assert turns(others) == others
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
        assert turns([checker, *others]) == [checker, *others]
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
