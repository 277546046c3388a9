"""What becomes of a visit: what is archived of it, what is recorded, and in which order."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from crawler.core.capture import Capture
from crawler.core.errors import UnreachableError
from crawler.core.link import Link
from crawler.core.recrawl import Recrawl, Result
from crawler.core.scope import REDIRECT_HOPS_MAX, ContentChoice, CrawlScope
from crawler.core.urls import STANDARD, origin_of
from crawler.frontier import DueEntry, Frontier
from crawler.frontier_rows import frontier_rows
from crawler.outcomes import CrawlCounts, Outcomes
from crawler.ports import CaptureSink, Skipped
from tests.crawler.memory import MemorySink
from tests.crawler.visiting import DAY, DAY_S, Owner, answer

pytestmark = pytest.mark.anyio
URL = "http://a.example/page"


class Visits:
    """One URL of one frontier, visited as often as a test likes."""

    def __init__(
        self,
        frontier: Frontier,
        sink: CaptureSink,
        content: ContentChoice = ContentChoice.HTML_AND_IMAGES,
    ) -> None:
        self.frontier = frontier
        self.owner = Owner()
        self.counts = CrawlCounts()
        self.outcomes = Outcomes(
            frontier,
            sink,
            self.owner,
            CrawlScope(content=content),
            self.counts,
            recrawl=Recrawl.DAILY,
            robot="Herodotus",
            reads_sitemaps=True,
            rules=STANDARD,
            day_start=lambda: frontier.day * DAY_S,
        )

    def begin(self, url: str = URL) -> DueEntry:
        taken: dict[str, DueEntry] = {}
        for origin in self.frontier.activate(9):
            while (entry := self.frontier.take(origin)) is not None:
                taken[entry.known.url] = entry
        wanted = taken.pop(url)
        for entry in taken.values():
            self.frontier.release(entry)
        self.frontier.retire(wanted.origin)
        return wanted

    async def visit(self, found: Capture) -> None:
        await self.outcomes.visited(self.begin(found.url), found)

    def next_day(self, days: int = 1) -> None:
        self.frontier.start_day(self.frontier.day + days)


@pytest.fixture
def sink() -> MemorySink:
    return MemorySink()


@pytest.fixture
def visits(tmp_path: Path, sink: MemorySink) -> Iterator[Visits]:
    frontier = Frontier(frontier_rows(tmp_path), day=DAY)
    frontier.add([Link(url=URL, is_seed=True)])
    yield Visits(frontier, sink)
    frontier.close()


@pytest.fixture
def whole(visits: Visits, sink: MemorySink) -> Visits:
    """Of a crawl that takes what pages need."""
    return Visits(visits.frontier, sink, ContentChoice.PAGES)


@pytest.mark.parametrize("status", [404, 410])
async def test_that_a_page_is_gone_is_archived_once_and_again_after_it_came_back(
    visits: Visits, sink: MemorySink, status: int
) -> None:
    gone, there = answer(URL, b"no such page", status=status), answer(URL, b"<p>here</p>")
    for found, days in ((there, 1), (gone, 1), (gone, 2), (there, 1), (gone, 1)):
        await visits.visit(found)
        visits.next_day(days)
    assert [one.status for one in sink.captures] == [200, status, 200, status]
    assert visits.counts.gone == 3


async def test_the_very_first_visit_of_a_page_that_is_not_there_is_archived(
    visits: Visits, sink: MemorySink
) -> None:
    await visits.visit(answer(URL, b"no such page", status=404))
    assert [one.status for one in sink.captures] == [404]


async def test_a_server_that_fails_is_noted_and_not_archived(visits: Visits, sink: MemorySink) -> None:
    await visits.visit(answer(URL, b"overloaded", status=503))
    assert sink.captures == []
    known = visits.frontier.known(URL)
    assert known is not None
    assert (known.last_result, known.due_day) == (Result.FAILED.value, DAY)  # tried once more today


ROBOTS = "http://a.example/robots.txt"


async def test_the_sink_hears_of_failures_and_of_answers_that_are_not_stored(
    visits: Visits, sink: MemorySink
) -> None:
    gone, there = answer(URL, b"no such page", status=404), answer(URL, b"<p>here</p>")
    for found in (answer(URL, b"overloaded", status=503), there, gone, gone):
        await visits.visit(found)
        visits.next_day(2)
    refused = UnreachableError(URL, "no answer in time")
    await visits.outcomes.visited(visits.begin(), refused)
    visits.next_day()
    unwanted = Skipped(url=URL, status=200, mime="video/mp4", duration_s=0.1)
    await visits.outcomes.visited(visits.begin(), unwanted)
    assert sink.notes == [
        (URL, "answered with 503"),
        (ROBOTS, ""),  # once, while nothing else is found
        (URL, ""),  # the second 404 is not stored
        (URL, "no answer in time"),
        (URL, ""),
    ]


async def test_that_a_site_is_back_is_noted_with_the_first_answer_after_it_was_closed(
    visits: Visits, sink: MemorySink
) -> None:
    origin = origin_of(URL)
    there = answer(URL, b"<p>here</p>")
    await visits.visit(there)
    visits.next_day()
    await visits.outcomes.found_closed(origin, "name not found", is_left=False)
    await visits.outcomes.found_closed(origin, "name not found", is_left=True)
    assert visits.counts.by_error == {"robots unreachable": 1}
    await visits.visit(there)
    assert sink.notes == [(ROBOTS, ""), (ROBOTS, "name not found"), (ROBOTS, "name not found"), (ROBOTS, "")]


async def test_a_page_that_asks_not_to_be_archived_is_visited_and_not_kept(
    visits: Visits, sink: MemorySink
) -> None:
    fields = b"Content-Type: text/html\r\nX-Robots-Tag: noarchive\r\n"
    await visits.visit(answer(URL, b"<a href=/next>next</a>", fields=fields))
    assert sink.captures == []
    assert visits.counts.noarchive == 1
    assert visits.frontier.known("http://a.example/next") is not None
    visits.next_day()
    assert visits.begin().known.visits == 1


class FullDisk(MemorySink):
    async def store(self, capture: Capture) -> None:
        raise OSError(f"no room for {capture.url}")


async def test_a_visit_whose_capture_could_not_be_stored_is_not_recorded(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=DAY)
    frontier.add([Link(url=URL, is_seed=True)])
    visits = Visits(frontier, FullDisk())
    entry = visits.begin()
    with pytest.raises(OSError, match="no room"):
        await visits.outcomes.visited(entry, answer(URL, b"<a href=/next>next</a>"))
    known = frontier.known(URL)
    assert known is not None
    assert (known.visits, known.due_day) == (0, DAY)
    assert frontier.known("http://a.example/next") is None
    frontier.close()


async def test_only_links_that_the_last_version_did_not_have_are_given_to_their_owners(
    visits: Visits,
) -> None:
    await visits.visit(answer(URL, b"<a href=/1>1</a><a href=/2>2</a>"))
    assert visits.owner.divided == ["http://a.example/1", "http://a.example/2"]
    visits.owner.divided.clear()
    visits.next_day()
    await visits.visit(answer(URL, b"<a href=/1>1</a><a href=/2>2</a><a href=/3>3</a>"))
    assert visits.owner.divided == ["http://a.example/3"]


async def test_a_chain_of_redirects_ends_after_twenty_hops(tmp_path: Path) -> None:
    frontier = Frontier(frontier_rows(tmp_path), day=DAY)
    near, far = (f"http://a.example/{number}" for number in (REDIRECT_HOPS_MAX - 1, REDIRECT_HOPS_MAX))
    frontier.add([Link(url=near, hops=REDIRECT_HOPS_MAX - 1), Link(url=far, hops=REDIRECT_HOPS_MAX)])
    visits = Visits(frontier, MemorySink())
    for url, target in ((near, "http://a.example/near"), (far, "http://a.example/far")):
        await visits.visit(answer(url, status=302, redirect_to=target))
    assert frontier.known("http://a.example/near") is not None
    assert frontier.known("http://a.example/far") is None
    assert visits.counts.links_left["trap: redirects"] == 1
    frontier.close()


async def test_what_a_crash_left_is_recovered_by_todays_capture_and_not_by_an_older_one(
    visits: Visits, sink: MemorySink
) -> None:
    sink.captures.append(answer(URL, b"yesterday's", requested_at=(DAY - 1) * DAY_S))
    entry = visits.begin()
    assert not await visits.outcomes.recover(entry)
    sink.captures.append(answer(URL, b"today's", requested_at=DAY * DAY_S + 5))
    assert await visits.outcomes.recover(entry)
    assert (visits.counts.recovered, visits.counts.stored) == (1, 1)


def script(url: str, body: bytes) -> Capture:
    return replace(answer(url, body), mime="text/javascript")


async def test_the_names_of_a_pages_import_map_are_known_in_the_scripts_that_it_leads_to(
    whole: Visits,
) -> None:
    """Also in those that these import; nothing of it is known on other pages."""
    page = b"""<script type=importmap>{"imports": {"lib/": "./parts/"}}</script>
        <script type=module src=/js/main.js></script>"""
    await whole.visit(answer(URL, page))
    await whole.visit(script("http://a.example/js/main.js", b"import 'lib/one.js'"))
    await whole.visit(script("http://a.example/parts/one.js", b"import 'lib/two.js'"))
    assert whole.frontier.known("http://a.example/parts/two.js") is not None
    whole.frontier.add([Link(url="http://a.example/other.js", is_seed=True)])
    await whole.visit(script("http://a.example/other.js", b"import 'lib/three.js'"))
    assert whole.frontier.known("http://a.example/parts/three.js") is None


async def test_an_import_map_longer_than_any_is_not_kept(whole: Visits) -> None:
    names = ", ".join(f'"lib{number}/": "./parts{number}/"' for number in range(2_000))
    page = f'<script type=importmap>{{"imports": {{{names}}}}}</script><script type=module src=/main.js></script>'
    await whole.visit(answer(URL, page.encode()))
    await whole.visit(script("http://a.example/main.js", b"import 'lib1/a.js'"))
    assert whole.frontier.known("http://a.example/parts1/a.js") is None
