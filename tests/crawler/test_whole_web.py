"""A web of 200 hosts with traps, errors, redirects and slow hosts, over days: exactly what its oracle says.

Judged by the server's log alone, and by what the crawler gave to be kept or reported as new.
"""

from collections import defaultdict
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote, unquote

import pytest

from crawler.core.capture import FetchOutcome
from crawler.core.link import Link
from crawler.core.politeness import PolitenessPolicy
from crawler.core.urls import host_of
from tests.crawler.synthetic import SyntheticWeb, crawling, synthetic_web

pytestmark = pytest.mark.anyio

DELAY_S = 0.01
POLITE = PolitenessPolicy(
    delay_floor_s=DELAY_S,
    delay_factor=1.0,
    crawl_delay_max_s=2 * DELAY_S,
    backoff_base_s=DELAY_S,
    backoff_max_s=2 * DELAY_S,
    retry_after_max_s=2 * DELAY_S,
    per_address_concurrency=1,
)
URLS_PER_HOST = 60
SAFE = "/?=&;:@!$'()*+,~"


def hosts_hurried(requests: list[dict[str, object]]) -> set[object]:
    """Hosts that were asked again before their delay was over, by the server's own clock."""
    times: dict[object, list[float]] = defaultdict(list)
    for line in requests:
        times[line["host"]].append(float(str(line["time"])))
    return {
        host
        for host, seconds in times.items()
        if any(later - earlier < DELAY_S - 1e-4 for earlier, later in pairwise(seconds))
    }


def meant(url: str) -> str:
    """A page of UTF-8 whose server calls it Shift_JIS: browsers, and we, ask for what its links then are."""
    host, slash, path = url.partition("//")[2].partition("/")
    try:
        octets = unquote(path).encode("shift_jis")
    except UnicodeEncodeError:
        return url
    return f"http://{host}{slash}{quote(octets, safe=SAFE)}" if "%EF%BD" in url or "%EF%BE" in url else url


async def crawl_200_hosts(folder: Path, seed: int) -> None:
    async with synthetic_web(seed, hosts=200, pages_max=3, delay_factor=0.01, huge_bytes=300_000) as web:
        async with crawling(web, folder, policy=POLITE, urls_per_origin_max=URLS_PER_HOST) as crawler:
            await crawler.run()
            progress = crawler.progress()
        requests = web.requests(with_robots=True)
        assert hosts_hurried(requests) == set()
        pages = [line for line in requests if line["path"] != "/robots.txt"]
        forbidden = {str(line["url"]) for line in pages if not web.oracle.is_allowed(str(line["url"]))}
        assert forbidden == set()
        fetched = web.fetched(pages)
        reachable = web.reachable(0)
        assert {url for url in fetched if meant(url) not in reachable} == set()
        assert reachable <= set(fetched)
        failing = {str(line["url"]) for line in pages if line["status"] in (500, 503)}
        assert {url for url, times in fetched.items() if times > 1} <= failing
        trapped = {host_of(str(line["url"])) for line in pages if not web.is_outside_traps(str(line["url"]))}
        assert len(pages) - fetched.total() <= URLS_PER_HOST * len(trapped)
        assert progress.over_budget > 0  # what the traps had more is counted
        assert (progress.due, progress.busy) == (0, 0)
        robots = [str(line["url"]) for line in requests if line["path"] == "/robots.txt"]
        assert len(robots) == len(set(robots)) == 200
        kept = [one.url for one in web.sink.captures]
        assert set(robots) <= set(kept)
        assert len(kept) == len(set(kept))


async def test_a_crawl_of_200_hosts_fetches_exactly_what_may_be_had_and_hurries_nobody(
    tmp_path: Path,
) -> None:
    await crawl_200_hosts(tmp_path, 21)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(22, 30))
async def test_crawls_of_200_hosts_are_exact_on_many_seeds(tmp_path: Path, seed: int) -> None:
    await crawl_200_hosts(tmp_path, seed)


class Reports:
    """An owner of every URL who remembers the links that were reported."""

    def __init__(self) -> None:
        self.by_page: dict[str, set[str]] = defaultdict(set)

    @property
    def urls(self) -> set[str]:
        return set().union(*self.by_page.values())

    def divide(self, links: Sequence[Link]) -> list[Link]:
        for link in links:
            self.by_page[link.via].add(link.url)
        return list(links)

    def is_our_turn(self, url: str) -> bool:
        return True


async def crawl_day(web: SyntheticWeb, folder: Path, day: int) -> tuple[Reports, list[dict[str, object]]]:
    reports = Reports()
    web.sink.captures[:] = [one for one in web.sink.captures if one.is_new]
    async with crawling(web, folder, day=day, owner=reports) as crawler:
        await crawler.run()
        assert crawler.progress().due == 0
    return reports, web.requests()


def is_hidden(web: SyntheticWeb, url: str) -> bool:
    """Its server says "not modified" whatever happened, so that nobody can know."""
    place = web.oracle.place(url)
    return place is not None and place.host.validators == "stuck"


async def test_days_two_and_three_store_what_changed_and_report_what_is_new(tmp_path: Path) -> None:
    async with synthetic_web(31, hosts=12, pages_max=10, huge_bytes=300_000) as web:
        reports, _ = await crawl_day(web, tmp_path, 0)
        told = {*web.seeds, *reports.urls}
        for day in (1, 2):
            before = {one.url for one in web.sink.captures if one.is_new and one.status == 200}
            count = len([one for one in web.sink.captures if one.is_new])
            reports, requests = await crawl_day(web, tmp_path, day)
            told |= reports.urls
            visits = web.sink.captures[count:]
            answered = {str(line["url"]) for line in requests if line["status"] in (200, 304)}
            truly = web.oracle.changed(before & answered, day - 1, day)
            changed = {url for url in truly if not is_hidden(web, url)}
            stored = {one.url for one in visits if one.is_new and one.status == 200} & before
            assert stored == changed
            assert len(changed) > 10
            assert {one.url for one in visits if one.outcome is FetchOutcome.NOT_MODIFIED} == {
                str(line["url"])
                for line in requests
                if line["status"] == 304 and line["path"] != "/robots.txt"
            } | {one.url for one in visits if one.url.endswith("/robots.txt") and one.status == 304}
            for line in requests:
                place = web.oracle.place(str(line["url"]))
                if line["url"] in before and place and place.host.validators != "none":
                    assert line["conditional"], line
            for page in changed:
                new = set(web.oracle.links(page, day, follow_nofollow=False))
                new -= set(web.oracle.links(page, day - 1, follow_nofollow=False))
                wanted = {url for url in new if web.is_outside_traps(url)}
                found = {url for url in reports.by_page[page] if web.is_outside_traps(url)}
                assert found <= wanted, page
                assert wanted <= told, page  # once: what was reported before need not be said again
            silent = before - changed
            assert not any(reports.by_page.get(page) for page in silent)
