"""Is a ring that is founded in the afternoon done with its day? Whole peers, some of which die while they stand in."""

import math
from collections import Counter
from pathlib import Path
from urllib.parse import urlsplit

import anyio
import pytest
import trio

from herodotus.core.status import CrawlStatus
from herodotus.crawl.daily import CrawlState
from herodotus.crawl.stewards.office import key_of_subject, subject_of
from simnet.host import TrioCarrier, run_world
from simnet.peers import Member, Peers, PeersSettings
from simnet.web import Web, WebSettings

pytestmark = pytest.mark.timeout(600)
DAY_S = 7_200.0
PEERS = 5
NOON, AFTERNOON, EVENING = 62, 45, 42
"""Minutes until the first day ends. At noon the world begins shortly before the first stand-ins look, in the evening
shortly before the last ones do: all of them within five minutes.
"""


class FirstDay:
    def __init__(
        self,
        folder: Path,
        seed: int,
        minutes: int,
        *,
        kill_at_s: float = math.inf,
        blind: int | None = None,
        hosts: int = 6,
    ) -> None:
        """`blind`: this peer has IPv6 alone, and the web IPv4, but where the peer is a site's steward: by its record
        others would be."""
        self._blind = blind
        self.fetched = Counter[str]()
        self.reachable = set[str]()
        self.crawls: list[CrawlStatus] = []
        self.taken_over = 0
        self.troubles: list[str] = []
        self._folder, self._minutes, self._kill_at_s = folder, minutes, kill_at_s
        self._web = Web(
            WebSettings(seed=seed, hosts=hosts, names="test", pages_min=8, pages_max=24, troubles=False)
        )
        run_world(self._live, seed=seed)

    async def _live(self, carrier: TrioCarrier) -> None:
        start = f"{self._minutes // 60:02}:{self._minutes % 60:02}"
        settings = PeersSettings(
            peers=PEERS, day_s=DAY_S, day_start=start, delay_s=12.0, cross_fetch_share=0.0
        )
        peers = Peers(carrier, self._folder, settings, self._web)
        ends_at = 60.0 * self._minutes
        async with peers.running():
            await anyio.sleep(90.0)  # each has joined
            if self._blind is not None:
                await self._lose_ipv4(peers, peers.members[self._blind])
            await peers.seed(peers.origins.oracle.front_pages())
            await trio.sleep_until(min(self._kill_at_s, ends_at - 5.0))
            if self._kill_at_s < ends_at:
                await self._kill_the_busiest(peers)
            await trio.sleep_until(ends_at - 5.0)
            self.crawls = [(await one.peer.status()).crawl for one in peers.members if one.peer is not None]
        starts = [start.url for host in peers.origins.starts.values() for start in host]
        out_of_reach = {host for _, host in peers.origins.no_way}
        self.fetched_blindly = sum(
            start.peer == self._blind for host in out_of_reach for start in peers.origins.starts[host]
        )
        self.fetched = Counter(url for url in starts if not url.endswith("/robots.txt"))
        self.reachable = peers.origins.oracle.reachable(peers.origins.oracle.front_pages(), 0)
        self.troubles = [one.what for one in peers.origins.rude] + peers.fallen

    async def _lose_ipv4(self, peers: Peers, blind: Member) -> None:
        assert blind.peer is not None
        node = blind.peer._membership.node
        for page in peers.origins.oracle.front_pages():
            host = urlsplit(page).netloc
            steward = await node.prompt_owner(key_of_subject(subject_of(host)))
            if steward.peer != node.me.peer:
                peers.origins.no_way.add((blind.number, host))

    async def _kill_the_busiest(self, peers: Peers) -> None:
        """The two that took most over."""
        taken_over = [
            (await one.peer.status()).links.taken_over if one.peer is not None else 0 for one in peers.members
        ]
        for count, number in sorted(zip(taken_over, range(PEERS), strict=True))[-2:]:
            self.taken_over += count
            peers.lose(peers.members[number], power_cut=True)

    @property
    def is_done(self) -> bool:
        return all(one.state == CrawlState.DONE.value and not one.due for one in self.crawls)


@pytest.mark.parametrize("minutes", [NOON, pytest.param(AFTERNOON, marks=pytest.mark.sweep)])
def test_a_ring_of_the_afternoon_fetches_each_page_once(tmp_path: Path, minutes: int) -> None:
    day = FirstDay(tmp_path, 1, minutes)
    assert day.fetched == Counter(day.reachable)
    assert (day.is_done, day.troubles) == (True, [])


def test_what_dead_stand_ins_had_taken_over_is_fetched_by_its_owners(tmp_path: Path) -> None:
    day = FirstDay(tmp_path, 2, EVENING, kill_at_s=330.0)
    assert day.taken_over > 10
    assert set(day.fetched) == day.reachable
    assert max(day.fetched.values()) <= 2  # the dead had fetched some, and not yet pushed a copy
    assert (day.is_done, day.troubles) == (True, [])


def test_pages_that_their_owner_has_no_way_to_are_fetched_by_its_stand_ins_on_the_same_day(
    tmp_path: Path,
) -> None:
    day = FirstDay(tmp_path, 1, NOON, blind=0, hosts=3)
    assert day.fetched == Counter(day.reachable)
    assert day.fetched_blindly == 0
    assert sum(one.due for one in day.crawls) == 0
    assert day.troubles == []
