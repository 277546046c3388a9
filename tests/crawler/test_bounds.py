"""How far does a crawl go from a seed with bounds, and what do its links carry on their way?"""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from crawler.core.capture import Capture
from crawler.core.link import Link, LinkKind
from crawler.core.recrawl import (
    Bounds,
    Known,
    Recrawl,
    Result,
    after_visit,
    decode_known,
    encode_known,
    reaches_further,
)
from crawler.core.scope import ContentChoice, CrawlScope, ScopeKind, bounded, leaves_bounds, narrower
from crawler.core.urls import Origin, url_key
from crawler.frontier import NEVER, Frontier
from crawler.frontier_rows import frontier_rows
from crawler.ports import FetchRequest
from crawler.worker import Crawler, WorkerSettings
from tests.crawler.memory import MemorySink
from tests.crawler.visiting import DAY, DAY_S, Owner, Permits, Site, answer

pytestmark = pytest.mark.anyio
HOME = "https://vote.example/"
SITE = Bounds(HOME, "site")
A = Origin("https://vote.example")


@pytest.mark.parametrize(
    ("seed", "scope", "inside", "outside"),
    [
        (HOME, "page", [HOME], ["https://vote.example/a"]),
        ("https://www.vote.example/", "site", [HOME, "http://x.vote.example/a"], ["https://example/", "https://avote.example/"]),
        ("https://vote.example/index.html", "site", ["http://vote.example/b/c"], ["https://other.example/"]),
        ("https://vote.example/~ann/cv?x=/y", "site", ["https://vote.example/~ann/z"], [HOME, "http://vote.example/~ann/z"]),
        (HOME, "host", ["http://vote.example:8080/x"], ["https://www.vote.example/"]),
        (HOME, "any", ["https://other.example/"], []),
    ],
)  # fmt: skip
def test_what_each_scope_holds(seed: str, scope: str, inside: list[str], outside: list[str]) -> None:
    bounds = Bounds(seed, ScopeKind(scope).value)
    assert [url for url in inside if leaves_bounds(bounds, url, HOME, is_redirect=False)] == []
    assert [url for url in outside if not leaves_bounds(bounds, url, HOME, is_redirect=False)] == []


def test_one_redirect_may_lead_out_and_none_from_there() -> None:
    assert not leaves_bounds(SITE, "https://new.example/", HOME, is_redirect=True)
    assert leaves_bounds(SITE, "https://newer.example/", "https://new.example/", is_redirect=True)


def test_content_is_never_more_than_the_crawls() -> None:
    assert narrower(ContentChoice.PAGES, None) is ContentChoice.PAGES
    assert narrower(ContentChoice.PAGES, Bounds(HOME, content="all")) is ContentChoice.PAGES
    assert narrower(ContentChoice.PAGES, Bounds(HOME, content="html")) is ContentChoice.HTML
    assert bounded(Bounds(HOME, content="html")).refuses_at(0, LinkKind.IMAGE) == "content"


def test_the_wider_bounds_count_and_none_are_the_widest() -> None:
    ranked = [
        Bounds(HOME, "page", depth_max=9, content="all"),
        Bounds(HOME, "site", depth_max=1),
        Bounds(HOME, "site", content="html"),
        Bounds(HOME, "site", limit=10),
        Bounds(HOME, "site", last_day=DAY),
        Bounds(HOME, "site", every_days=7),
        SITE,
        Bounds(HOME, "any", depth_max=0),
        None,
    ]
    for place, wider in enumerate(ranked):
        assert [one for one in ranked if reaches_further(wider, one)] == ranked[:place]


def test_bounds_are_these_bytes_in_a_row() -> None:
    known = Known(url=HOME, bounds=Bounds(HOME, "site", 3, "pages", 7, DAY, 50))
    row = encode_known(known)
    assert row[-40:].hex() == (
        "0097b568747470733a2f2f766f74652e6578616d706c652fa47369746503a5706167657307cd4e2032"
    )[-80:]  # fmt: skip
    assert decode_known(row) == known


def test_what_a_seed_led_to_is_visited_as_often_as_its_bounds_say_and_after_a_failure_the_next_day() -> None:
    known = Known(url=HOME, bounds=Bounds(HOME, every_days=7))
    assert after_visit(known, Result.CHANGED, 100, Recrawl.DAILY).due_day == 107
    assert after_visit(known, Result.GONE, 100, Recrawl.DAILY).due_day == 107
    for _ in range(3):
        known = after_visit(known, Result.FAILED, 100, Recrawl.DAILY)
    assert known.due_day == 101


# -- in the frontier


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    frontier = Frontier(frontier_rows(tmp_path), day=DAY)
    yield frontier
    frontier.close()


def link(path: str, bounds: Bounds | None, kind: LinkKind = LinkKind.PAGE, depth: int = 1) -> Link:
    return Link(f"{HOME}{path}", kind, depth, bounds=bounds)


def bounds_of(frontier: Frontier, path: str) -> Bounds | None:
    known = frontier.known(f"{HOME}{path}")
    assert known is not None
    return known.bounds


def visit(frontier: Frontier, result: Result = Result.CHANGED) -> list[tuple[str, bool]]:
    """Everything that is due: each with whether the archive is asked first."""
    found = []
    for origin in frontier.activate(9):
        while (entry := frontier.take(origin)) is not None:
            found.append((entry.known.url, entry.is_suspect))
            frontier.record(entry, result, fingerprints=b"123456")
        frontier.retire(origin)
    return found


def test_a_known_url_gets_wider_bounds_and_keeps_them(frontier: Frontier) -> None:
    near, far = Bounds(HOME, "site", depth_max=1), Bounds(HOME, "site", depth_max=5)
    frontier.add([link("a", near), link("b", None)])
    frontier.add([link("a", far), link("b", near)])
    frontier.add([link("a", near)])
    assert (bounds_of(frontier, "a"), bounds_of(frontier, "b")) == (far, None)
    frontier.add([link("a", None)])
    assert bounds_of(frontier, "a") is None


def test_under_wider_bounds_a_visited_page_is_read_again_for_the_links_that_were_left_out(
    frontier: Frontier,
) -> None:
    frontier.add([link("a", Bounds(HOME, "page", every_days=7))])
    assert visit(frontier) == [(f"{HOME}a", False)]
    assert frontier.add([link("a", SITE)]) == 0
    assert not frontier.last_links(url_key(f"{HOME}a"))
    assert visit(frontier) == [(f"{HOME}a", True)]
    frontier.add([link("a", SITE)])
    assert visit(frontier) == []


def test_a_page_that_waits_for_its_week_is_due_under_wider_bounds(frontier: Frontier) -> None:
    frontier.add([link("a", Bounds(HOME, "site", every_days=7))])
    visit(frontier)
    frontier.start_day(DAY + 2)
    assert visit(frontier) == []
    frontier.add([link("a", SITE)])
    assert visit(frontier) == [(f"{HOME}a", True)]


def test_a_limit_counts_pages_and_not_what_they_embed_also_after_a_restart(tmp_path: Path) -> None:
    bounds = Bounds(HOME, "site", limit=2)
    frontier = Frontier(frontier_rows(tmp_path), day=DAY)
    assert frontier.add([link("a", bounds), link("a.png", bounds, LinkKind.IMAGE)]) == 2
    assert frontier.add([link("b", bounds), link("c", bounds)]) == 1
    frontier.close()
    frontier = Frontier(frontier_rows(tmp_path), day=DAY)
    assert frontier.add([link("d", bounds), link("d.png", bounds, LinkKind.IMAGE)]) == 1
    assert frontier.add([link("e", None), link("f", Bounds(HOME, "site", limit=1))]) == 2
    frontier.close()


def test_a_shorter_way_counts_where_bounds_count_clicks(frontier: Frontier) -> None:
    near = Bounds(HOME, "site", depth_max=3)
    frontier.add([link("a", near, depth=3)])
    frontier.add([link("a", near, depth=1)])
    known = frontier.known(f"{HOME}a")
    assert known is not None
    assert known.depth == 1


def test_what_is_over_is_never_due_until_its_bounds_are_others(frontier: Frontier) -> None:
    over = Bounds(HOME, "site", last_day=DAY)
    frontier.add([link("a", over)])
    frontier.start_day(DAY + 1)
    frontier.activate(1)
    entry = frontier.take(A)
    assert entry is not None
    frontier.end(entry)
    frontier.retire(A)
    known = frontier.known(f"{HOME}a")
    assert known is not None
    assert known.due_day == NEVER
    frontier.start_day(DAY + 400)
    assert visit(frontier) == []
    assert frontier.statistics().due == 0
    frontier.add([link("a", Bounds(HOME, "site", last_day=DAY + 500))])
    assert visit(frontier) == [(f"{HOME}a", False)]


# -- a whole crawl


def page(*links: str, embeds: tuple[str, ...] = ()) -> bytes:
    return "".join(
        [f'<a href="{url}">x</a>' for url in links] + [f'<img src="{url}">' for url in embeds]
    ).encode()


WEB = {
    HOME: page("/a", "https://other.example/", "/moved", embeds=("https://cdn.example/logo.png",)),
    "https://vote.example/a": page("/a/b"),
    "https://vote.example/a/b": page("/a/b/c"),
    "https://vote.example/a/b/c": page(),
    "https://new.example/": page("https://new.example/more", embeds=("https://new.example/new.png",)),
}
EMBEDDED = {"https://cdn.example/logo.png"}
REDIRECTED = {"https://vote.example/moved", "https://new.example/", "https://new.example/new.png"}


def answers(request: FetchRequest) -> Capture:
    if request.url.endswith("/moved"):
        return answer(request.url, status=301, redirect_to="https://new.example/")
    return answer(request.url, WEB.get(request.url, b"x"))


async def crawled(
    folder: Path, seeds: Mapping[str, Bounds | None], *, day: int = DAY, scope: CrawlScope | None = None
) -> set[str]:
    frontier = Frontier(frontier_rows(folder), day=day)
    site = Site(answers)
    crawler = Crawler(
        frontier,
        site,
        MemorySink(),
        Permits(),
        scope or CrawlScope(content=ContentChoice.PAGES),
        WorkerSettings(connections=2),
        wall_clock=lambda: day * DAY_S,
        owner=Owner(),
    )
    crawler.seed(list(seeds), {url: one for url, one in seeds.items() if one is not None})
    await crawler.run()
    frontier.close()
    return {request.url for request in site.asked}


async def test_a_page_is_taken_with_what_it_embeds_from_anywhere(tmp_path: Path) -> None:
    assert await crawled(tmp_path, {HOME: Bounds(HOME, "page")}) == {HOME} | EMBEDDED


async def test_a_site_is_taken_with_what_it_embeds_and_one_redirect_away(tmp_path: Path) -> None:
    inside = {url for url in WEB if url.startswith(HOME)}
    assert await crawled(tmp_path, {HOME: SITE}) == inside | EMBEDDED | REDIRECTED


async def test_a_crawl_goes_as_many_clicks_as_the_bounds_say_and_further_when_they_widen(
    tmp_path: Path,
) -> None:
    first = await crawled(tmp_path, {HOME: Bounds(HOME, "site", depth_max=1)})
    assert first == {HOME, "https://vote.example/a"} | EMBEDDED | REDIRECTED
    second = await crawled(tmp_path, {HOME: SITE}, day=DAY + 1)
    assert second == {url for url in WEB if url.startswith(HOME)} | EMBEDDED | REDIRECTED


async def test_after_the_last_day_nothing_is_visited(tmp_path: Path) -> None:
    bounds = Bounds(HOME, "site", last_day=DAY + 1)
    assert len(await crawled(tmp_path, {HOME: bounds})) == 8
    assert len(await crawled(tmp_path, {HOME: bounds}, day=DAY + 1)) == 8
    assert await crawled(tmp_path, {HOME: bounds}, day=DAY + 2) == set()


async def test_a_crawl_of_one_site_leaves_what_another_crawl_knows(tmp_path: Path) -> None:
    """A crawl by hand shares its frontier with earlier ones."""
    other = "https://other.example/"
    await crawled(tmp_path, {other: None})
    scope = CrawlScope(kind=ScopeKind.HOST, content=ContentChoice.PAGES, bounds=(SITE,))
    found = await crawled(tmp_path, {HOME: SITE}, day=DAY + 1, scope=scope)
    assert found == {url for url in WEB if url.startswith(HOME)} | EMBEDDED | REDIRECTED


async def test_what_was_known_before_is_judged_by_the_bounds_of_the_crawl_that_covers_it(
    tmp_path: Path,
) -> None:
    await crawled(tmp_path, {HOME: Bounds(HOME, "page")})
    narrow = Bounds(HOME, "page", content="html")
    scope = CrawlScope(kind=ScopeKind.HOST, content=ContentChoice.PAGES, bounds=(narrow,))
    assert await crawled(tmp_path, {HOME: narrow}, day=DAY + 1, scope=scope) == {HOME}
