"""What of the links that others send is kept, when is it acknowledged, and who is not listened to any more?"""

from collections.abc import Sequence
from itertools import islice
from random import Random
from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.link import Link
from crawler.core.recrawl import Bounds
from crawler.core.scope import THE_WHOLE_WEB, Territory
from crawler.core.urls import STANDARD
from dht.core.ids import key_of
from dht.core.placement import Rule
from dht.core.records import PeerRecord
from herodotus.core.links.senders import FIRST_JUDGED, IGNORED_S, Silences
from herodotus.crawl.links import hand_over
from herodotus.crawl.links.hand_over import KNOWS_ALL, HandingOver
from herodotus.crawl.links.outbox import Outbox, Standby
from herodotus.crawl.links.owner import LinkReceiver, ReceiverParts
from herodotus.crawl.links.walks import LinkWalks
from herodotus.crawl.links.wire import Taken, decode_batch, decode_taken, encode_batch, encode_taken, in_order
from herodotus.peers.calls import RefusedError
from herodotus.peers.ring_view import RingView
from simnet.rows import KeptRows
from tests.herodotus.crawl.links.world import MemoryFrontier
from tests.herodotus.peers.table_ring import TableRing, link_peer

pytestmark = pytest.mark.anyio
SENDER = b"\x07" * 32


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Scene:
    """One peer of a ring, by default of two that both hold everything."""

    def __init__(self, *, peers: int = 2, copies: int = 2, territory: Territory = THE_WHOLE_WEB) -> None:
        self.records = [link_peer(number) for number in range(peers)]
        self.ring = TableRing(self.records[0])
        self.ring.copies = copies
        self.ring.see(self.records)
        self.view = RingView(self.ring, Rule(copies))
        self.rows = KeptRows()
        self.frontier = MemoryFrontier()
        self.standby = Standby(self.rows.opened())
        self.order: list[str] = []
        make_durable = self.frontier.make_durable

        def frontier_durable() -> None:
            self.order.append("frontier durable")
            make_durable()

        vars(self.frontier)["make_durable"] = frontier_durable
        self.receiver = LinkReceiver(
            ReceiverParts(
                view=self.view,
                frontier=self.frontier,
                standby=self.standby,
                make_durable=self._standby_durable,
                is_given=lambda key: False,
                rules=STANDARD,
                territory=territory,
                fetches_all=False,
            )
        )

    def _standby_durable(self) -> None:
        self.order.append("standby durable")
        self.rows.flush()

    async def take(self, urls: list[str]) -> Taken:
        links = in_order([Link(url) for url in urls])
        answer = await self.receiver.take(SENDER, encode_batch(links))
        self.order.append("acknowledged")
        return decode_taken(answer, len(links), "ip")

    def kept(self) -> set[str]:
        return self.frontier.all_known | {link.url for _, link in self.standby.after(None)}


async def test_what_is_acknowledged_outlives_a_power_cut() -> None:
    scene = Scene()
    urls = [f"http://host{number}.org/" for number in range(50)]
    taken = await scene.take(urls)
    assert (taken.strays, taken.rubbish) == ((), ())
    assert scene.order == ["frontier durable", "standby durable", "acknowledged"]
    assert scene.kept() == set(urls)
    assert scene.frontier.all_known  # some are ours to fetch, the others are held as a stand-in
    assert len(scene.standby)
    scene.rows.crash(Random(1))
    after_crash = {link.url for _, link in Standby(scene.rows.opened()).after(None)}
    assert after_crash == set(urls) - scene.frontier.all_known


async def test_batches_of_links_are_read_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    scene, read = Scene(), list[int]()
    under_way = 0

    async def sorted_slowly(_receiver: LinkReceiver, links: Sequence[Link]) -> Taken:
        nonlocal under_way
        under_way += 1
        read.append(under_way)
        for _ in range(10):
            await anyio.lowlevel.checkpoint()
        under_way -= 1
        return Taken()

    monkeypatch.setattr(LinkReceiver, "_sorted", sorted_slowly)
    async with anyio.create_task_group() as tasks:
        for number in range(5):
            tasks.start_soon(scene.take, [f"http://host{number}.org/"])
    assert read == [1] * 5


@pytest.mark.parametrize(
    "url",
    [
        "http://EXAMPLE.org/",
        "http://example.org/a/../b",
        "http://example.org/#top",
        "http://example.org",
        "http://example.org/?utm_source=x",
        "ftp://example.org/",
        "http://other.org/",
        "http://example.org:6379/",
    ],
)
async def test_only_one_spelling_of_what_the_network_archives_is_kept(url: str) -> None:
    scene = Scene(territory=Territory.of(["example.org"]))
    taken = await scene.take(["http://example.org/good", url])
    assert len(taken.rubbish) == 1
    assert scene.kept() == {"http://example.org/good"}


async def test_a_link_under_bounds_of_a_seed_that_is_no_address_is_rubbish() -> None:
    scene = Scene()
    seeds = ["http://a.example/", "HTTP://a.example", "x", "http://a.example/"]
    links = [Link(f"http://a{n}.org/", bounds=Bounds(seed, "site")) for n, seed in enumerate(seeds)]
    answer = await scene.receiver.take(SENDER, encode_batch(links))
    assert decode_taken(answer, len(links), "ip").rubbish == (1, 2)
    assert scene.kept() == {"http://a0.org/", "http://a3.org/"}


async def test_whoever_sends_nonsense_is_not_listened_to_for_a_day() -> None:
    scene = Scene()
    with pytest.raises(RefusedError, match="nonsense"):
        await scene.receiver.take(SENDER, b"\xff nonsense")
    assert scene.receiver.counts.nonsense == 1
    with pytest.raises(RefusedError, match="ignored"):
        await scene.take(["http://example.org/"])
    assert scene.kept() == set()
    await anyio.sleep(IGNORED_S + 1)
    await scene.take(["http://example.org/"])
    assert scene.kept() == {"http://example.org/"}


async def test_whoever_sends_rubbish_is_not_listened_to_for_a_day_and_others_are() -> None:
    scene = Scene()
    await scene.take([f"http://example.org/#{number}" for number in range(FIRST_JUDGED)])
    with pytest.raises(RefusedError, match="ignored"):
        await scene.take(["http://example.org/"])
    links = encode_batch([Link("http://example.org/")])
    await scene.receiver.take(b"\x08" * 32, links)
    assert scene.kept() == {"http://example.org/"}


# --- what a former holder tells


class Telling:
    """The other peer: what it tells of each stretch that it is asked about."""

    def __init__(self, *pieces: list[str], is_endless: bool = False) -> None:
        self.pieces = pieces
        self.is_endless = is_endless
        self.told = 0

    def stream(self, to: object, service: str, body: bytes) -> "Telling":
        del to, service, body
        return self

    async def __aenter__(self) -> Any:
        async def said() -> Any:
            yield KNOWS_ALL
            while True:
                for urls in self.pieces:
                    await anyio.sleep(1.0)
                    self.told += 1
                    yield encode_batch(in_order([Link(url) for url in urls]))
                if not self.is_endless:
                    return

        return said()

    async def __aexit__(self, *error: object) -> None:
        """Nothing is held."""


def handing_over(scene: Scene, telling: Telling) -> HandingOver:
    return HandingOver(
        scene.view,
        telling,  # type: ignore[arg-type]  # streams are all that is asked of it
        scene.frontier,
        scene.standby,
        scene.rows.opened(),
        scene.receiver,
        lambda links: True,
    )


def urls_of(scene: Scene, owner: PeerRecord, count: int) -> list[str]:
    urls = (f"http://host{number}.org/" for number in range(10_000))
    return list(
        islice((url for url in urls if scene.view.live.of(key_of(url.encode()))[0].peer == owner.peer), count)
    )


async def test_of_what_a_former_holder_tells_only_what_was_asked_for_is_taken() -> None:
    """Else one that is asked about a small stretch fills everything that we hold."""
    scene = Scene()
    mine, others = (urls_of(scene, record, 20) for record in scene.records)
    telling = Telling(mine + others)
    assert await handing_over(scene, telling).catch_up()
    assert telling.told == 2  # it was asked about both stretches, and told all both times
    assert scene.kept() == set(mine + others)
    alone = Scene()
    asked: list[bytes] = []

    class Once(Telling):
        def stream(self, to: object, service: str, body: bytes) -> Telling:
            asked.append(body)
            return self if len(asked) == 1 else Telling()

    assert await handing_over(alone, Once(mine + others)).catch_up()
    start, end = asked[0][:20], asked[0][20:]
    inside = {url for url in mine + others if _is_within(start, key_of(url.encode()), end)}
    assert alone.kept() == inside
    assert 0 < len(inside) < 40


def _is_within(start: bytes, key: bytes, end: bytes) -> bool:
    return start < key <= end if start < end else key > start or key <= end


async def test_a_former_holder_that_tells_rubbish_without_end_is_left_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hand_over, "FIRST_JUDGED", 100)
    scene = Scene()
    telling = Telling([f"http://example.org/#{number}" for number in range(40)], is_endless=True)
    assert not await handing_over(scene, telling).catch_up()
    assert 3 <= telling.told <= 6  # of each stretch three pieces at most


# --- what a walk takes for delivered


def holders(scene: Scene, url: str) -> set[bytes]:
    return {contact.peer for contact in scene.view.live.of(key_of(url.encode()))}


class Declining:
    """Takes all but one link, which it says is not its own; the others never answer."""

    def __init__(self, only: bytes, declined: str) -> None:
        self.only, self.declined = only, declined
        self.asked: list[list[str]] = []

    async def call(self, to: Any, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        del service
        if to.peer != self.only:
            await anyio.sleep(deadline_s)
            raise TimeoutError
        urls = [link.url for link in decode_batch(body)]
        self.asked.append(urls)
        strays = tuple(place for place, url in enumerate(urls) if url == self.declined)
        return encode_taken(Taken(strays=strays, rubbish=(), contacts=()))


async def test_what_a_peer_sent_back_is_offered_to_it_again_after_a_walk_was_cut_off() -> None:
    """Nothing says that anybody has it."""
    scene = Scene(peers=3, copies=2)
    owner, mute = scene.records[1:]
    urls = (f"http://host{number}.org/" for number in range(1_000))
    both = {owner.peer, mute.peer}
    first, second = islice((url for url in urls if holders(scene, url) == both), 2)
    declining = Declining(owner.peer, first)

    async def walk_for(seconds: float) -> None:
        box = Outbox(scene.rows.opened())
        box.add([Link(first), Link(second)], 0.0)
        with anyio.move_on_after(seconds):
            await LinkWalks(box, declining, scene.view, Silences(Random(1)), "ip").walk(0.0)

    await walk_for(10.0)
    scene.rows.flush()
    await walk_for(10.0)
    assert declining.asked == [[first, second], [first]]
