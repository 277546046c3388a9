"""DNS that takes its time: who waits for it, and who does not."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from crawler.core.politeness import HostSteward
from crawler.core.scope import CrawlScope
from crawler.frontier import Frontier
from crawler.http import HttpFetcher
from crawler.names import LOOKUPS_MAX, LOOKUPS_PER_ZONE_MAX, SystemNames, TooManyLookupsError, zone_of
from crawler.steward import LocalSteward
from crawler.worker import Crawler, CrawlSettings
from tests.crawler.memory import MemorySink
from tests.crawler.origin import origin, says
from tests.crawler.synthetic import FIRST_DAY, LOCAL, QUICK

pytestmark = pytest.mark.anyio


class Dns:
    """Answers at once, but for names below `slow.example`, which wait until they may go on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.goes_on = threading.Event()

    def __call__(self, host: str) -> list[str]:
        self.asked.append(host)
        if host.endswith(("slow.example", ".test")):
            self.goes_on.wait(60)
            raise OSError("no answer")
        return ["127.0.0.1"]


@contextmanager
def slow_dns() -> Iterator[Dns]:
    dns = Dns()
    try:
        yield dns
    finally:
        dns.goes_on.set()


async def begun(names: SystemNames, hosts: list[str]) -> int:
    """How many of them could begin; nobody waits for any."""
    count = len(hosts)
    for host in hosts:
        try:
            async with asyncio.timeout(0):
                await names(host)
        except TooManyLookupsError:
            count -= 1
        except TimeoutError:
            pass
    return count


async def test_one_slow_zone_stops_nobody_else(tmp_path: Path) -> None:
    """With fewer connections than it has hosts, and while none of its names has an answer."""
    answers = {
        "/robots.txt": says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
        "/": says(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 16\r\n\r\n<a href='/page'>x"
        ),
        "/page": says(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\ntext"),
    }
    settings = replace(LOCAL, dns_patience_s=0.02)
    frontier = Frontier(tmp_path, day=FIRST_DAY)
    with slow_dns() as dns:
        async with (
            origin(answers) as served,
            HttpFetcher(settings, wall_clock=lambda: 1.7e9, resolve=SystemNames(dns)) as fetcher,
        ):
            steward = LocalSteward(
                HostSteward(QUICK, now=anyio.current_time()),
                fetcher,
                product_token="Herodotus",
                wall_clock=lambda: 1.7e9,
            )
            limits = CrawlSettings(connections=4)
            crawler = Crawler(
                frontier, fetcher, MemorySink(), steward, CrawlScope(), limits, wall_clock=lambda: 1.7e9
            )
            crawler.seed([f"http://h{number}.slow.example/" for number in range(40)])
            crawler.seed([f"http://good{number}.example:{served.port}/" for number in range(10)])
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(crawler.run)
                    while crawler.counts.stored < 20:  # the loop turns, as sockets do
                        await anyio.lowlevel.checkpoint()
                    assert not dns.goes_on.is_set()
                    assert len([name for name in dns.asked if "slow" in name]) <= LOOKUPS_PER_ZONE_MAX
                    dns.goes_on.set()
            assert crawler.progress().due == 0
            assert crawler.counts.by_error["robots unreachable"] == 40
    frontier.close()


async def test_a_lookup_goes_on_when_nobody_waits_and_its_answer_is_there_later() -> None:
    with slow_dns() as dns:
        names = SystemNames(dns)
        for _ in range(3):
            assert await begun(names, ["a.slow.example"]) == 1
        dns.goes_on.set()
        for _ in range(2):
            with pytest.raises(OSError, match="no answer"):
                await names("a.slow.example")
        assert dns.asked == ["a.slow.example"]


async def test_a_zone_and_all_together_have_a_bound() -> None:
    with slow_dns() as dns:
        names = SystemNames(dns)
        assert await begun(names, [f"{n}.slow.example" for n in range(50)]) == LOOKUPS_PER_ZONE_MAX
        assert await names("good.example") == ["127.0.0.1"]
        rest = LOOKUPS_MAX - LOOKUPS_PER_ZONE_MAX
        assert await begun(names, [f"www.zone{n}.test" for n in range(LOOKUPS_MAX)]) == rest


async def test_a_system_without_threads_left_is_asked_again_later(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    names = SystemNames(lambda host: ["127.0.0.1"])
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        for _ in range(LOOKUPS_PER_ZONE_MAX + 1):
            with pytest.raises(TooManyLookupsError, match="no thread"):
                await names("www.example.org")
    assert await names("www.example.org") == ["127.0.0.1"]


@pytest.mark.parametrize(
    ("host", "zone"),
    [
        ("www.example.org", "example.org"),
        ("example.org.", "example.org"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("localhost", "localhost"),
    ],
)
def test_a_zone_is_told_by_the_name(host: str, zone: str) -> None:
    assert zone_of(host) == zone
