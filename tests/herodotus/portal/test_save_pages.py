"""Is a page that a reader asks for archived now, as politely as by any crawl, and nothing that must not be?"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from http import HTTPStatus

import anyio
import pytest

from crawler.core.politeness import HostSteward
from crawler.steward import LocalSteward
from herodotus.core.charter import TEST_CHARTER, Charter
from herodotus.core.connections import NO_BOUND
from herodotus.core.errors import UnusableArchiveError
from herodotus.core.removals import Removals
from herodotus.core.saves import SaveOutcome, SaveResult
from herodotus.core.settings.sections import CrawlSettings, Settings
from herodotus.crawl.gear import ROBOT, lookout_of, standing_order
from herodotus.crawl.page_saves import HomeSaves
from herodotus.machine import Machine
from herodotus.peers.net.rooms import Rooms
from herodotus.portal.answer import Answer, Request
from herodotus.portal.other_holders import RELAYED
from herodotus.store import Store
from tests.crawler.origin import Origin, origin, says
from tests.herodotus.portal.library import HOME, HOST, SITE
from tests.herodotus.portal.rooms import Ring, Room
from tests.herodotus.store.memory_store import MemoryStore

NOW_S = 1_767_300_000.0  # 2026-01-01T20:40:00Z


class OwnSaves:
    """Answers what it is told, and remembers what was asked."""

    def __init__(self, result: SaveResult = SaveResult.SAVED) -> None:
        self.result = result
        self.urls: list[str] = []

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        yield

    async def save(self, url: str) -> SaveOutcome:
        self.urls.append(url)
        return SaveOutcome(
            result=self.result, url=url, time_s=int(NOW_S), reason="its owner asks robots not to visit it",
            retry_after_s=12.2,
        )  # fmt: skip


# -- the page ---------------------------------------------------------------------------------------------


def test_a_saved_page_is_shown_at_its_memento() -> None:
    saves = OwnSaves()
    room = Room(saves=saves)
    answer = room.ask("/save/example.org/a?b=c")
    assert (answer.status, answer.headers["Location"]) == (
        302,
        "/web/20260101204000/https://example.org/a?b=c",
    )
    assert answer.headers["Content-Location"] == answer.headers["Location"]
    assert answer.headers["Cache-Control"] == "no-store"
    room.ask("/save/?url=example.org", method="POST")
    assert saves.urls == ["https://example.org/a?b=c", HOME]


@pytest.mark.parametrize(
    ("result", "status"),
    [
        (SaveResult.UNCHANGED, 302),
        (SaveResult.REFUSED, 403),
        (SaveResult.FAILED, 502),
        (SaveResult.LATER, 202),
    ],
)
def test_what_was_not_stored_says_why_to_people_and_programs(result: SaveResult, status: int) -> None:
    room = Room(saves=OwnSaves(result))
    page, told = room.ask(f"/save/{HOME}", {"accept": "text/html"}), room.ask(f"/save/{HOME}")
    assert page.status == told.status == status
    if status != 302:
        assert b"Its owner asks robots not to visit it." in page.body
        assert told.content_type == "application/problem+json"
        assert told.headers.get("Retry-After") == ("13" if result is SaveResult.LATER else None)


def test_without_the_charter_s_leave_there_is_no_such_page() -> None:
    assert Room().ask(f"/save/{HOME}").status == 404


@pytest.mark.parametrize(
    ("headers", "method"),
    [
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors"}, "GET"),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "cors"}, "GET"),
        ({"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}, "POST"),
        ({"origin": "null"}, "POST"),
    ],
)
def test_another_site_s_page_cannot_have_pages_saved_by_its_visitors(
    headers: dict[str, str], method: str
) -> None:
    saves = OwnSaves()
    assert Room(saves=saves).ask(f"/save/{HOME}", headers, method).status == 403
    assert saves.urls == []


def test_a_look_without_a_body_and_what_is_no_address_save_nothing() -> None:
    saves = OwnSaves()
    room = Room(saves=saves)
    assert room.ask(f"/save/{HOME}", method="HEAD").status == 405
    for target in ("/save/", "/save/mailto:a@b.example", "/save/http://[::1", "/save/" + "a" * 20_000):
        assert room.ask(target).status in (400, 414)
    assert saves.urls == []


def test_each_reader_has_a_share_and_all_together_one() -> None:
    room = Room(saves=OwnSaves(), client="192.0.2.1")
    statuses = [room.ask(f"/save/{SITE}/{n}").status for n in range(7)]
    assert statuses == [302] * 5 + [429] * 2
    others = []
    for number in range(2, 30):
        room.client = f"192.0.2.{number}"
        others.append(room.ask(f"/save/{HOME}").status)
    assert others.count(HTTPStatus.FOUND) in (15, 16), "twenty at once, and one a second"


def test_the_peer_that_answers_for_the_address_does_it_and_passes_it_on_to_nobody() -> None:
    ring, here, there = Ring(), "http://192.0.2.10:5484", "http://192.0.2.11:5484"
    ring.holders_of = lambda url: (there, here)
    saves = {here: OwnSaves(), there: OwnSaves()}
    rooms = {one: Room(ring=ring, origin=one, saves=saves[one]) for one in (here, there)}
    answer = rooms[here].ask(f"/save/{HOME}")
    assert (answer.status, answer.headers["Location"]) == (302, f"/web/20260101204000/{HOME}")
    assert (saves[here].urls, saves[there].urls) == ([], [HOME])
    # Each believes that the other one is responsible: whoever was asked by a peer does it.
    views = iter([(there,), (here,)])
    ring.holders_of = lambda url: next(views)
    assert rooms[here].ask(f"/save/{HOME}").status == 302
    assert saves[there].urls == [HOME, HOME]
    ring.holders_of = lambda url: ("http://192.0.2.99:5484", here)  # the first one does not answer
    assert rooms[here].ask(f"/save/{HOME}").status == 302
    assert saves[here].urls == [HOME]
    assert all(request.header(RELAYED) for _, request in ring.questions)


# -- who fetches ------------------------------------------------------------------------------------------


class Clock:
    def __init__(self) -> None:
        self.now_s = NOW_S

    def __call__(self) -> float:
        return self.now_s


PAGE = says(b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\nETag: "1"\r\n\r\n<p>hi')
ROBOTS = b"User-agent: *\nDisallow: /private\n"
ANSWERS = {
    "/robots.txt": says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(ROBOTS), ROBOTS)),
    "/": PAGE,
    "/private": PAGE,
    "/other": PAGE,
    "/zip": says(b"HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\nContent-Length: 2\r\n\r\nPK"),
    "/broken": says(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n"),
    "/gone": says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
    "/noarchive": says(
        b'HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 42\r\n\r\n'
        b'<meta name="robots" content="noarchive">hi'
    ),
}  # fmt: skip


@asynccontextmanager
async def home_saves(
    store: Callable[[], Store], charter: Charter, settings: Settings, clock: Clock
) -> AsyncIterator[HomeSaves]:
    """With a steward of its own, for a peer alone."""
    order, machine = standing_order(charter, settings, Rooms(NO_BOUND)), Machine()
    async with lookout_of(order, machine, wall_clock=clock) as fetcher:
        steward = LocalSteward(
            HostSteward(order.politeness),
            fetcher,
            product_token=ROBOT,
            wall_clock=clock,
            opted_out=order.opted_out,
        )
        yield HomeSaves(store, charter, settings, machine, order, wall_clock=clock, steward=steward)


def saved(
    work: Callable[[HomeSaves, Origin, MemoryStore, Clock], Awaitable[None]],
    charter: Charter = TEST_CHARTER,
    settings: Settings | None = None,
) -> None:
    store, clock = MemoryStore(now=lambda: NOW_S), Clock()

    async def run() -> None:
        async with (
            origin(ANSWERS) as web,
            home_saves(lambda: store, charter, settings or Settings(), clock) as saves,
            saves.opened(),
        ):
            with anyio.fail_after(30):
                await work(saves, web, store, clock)

    anyio.run(run)


def paths(web: Origin) -> list[str]:
    return [head.split(b" ")[1].decode() for head in web.requests]


def test_a_page_is_fetched_behind_robots_and_is_in_the_archive() -> None:
    async def work(saves: HomeSaves, web: Origin, store: MemoryStore, clock: Clock) -> None:
        outcome = await saves.save(web.url("/"))
        assert (outcome.result, outcome.time_s) == (SaveResult.SAVED, int(NOW_S))
        assert paths(web) == ["/robots.txt", "/"]
        assert b"User-Agent: Herodotus/" in web.requests[1]
        (version,) = await store.history(web.url("/"))
        assert (version.status, version.size) == (200, 5)

    saved(work)


def test_what_is_fresh_is_not_fetched_again_and_what_is_not_is_asked_for_conditionally() -> None:
    async def work(saves: HomeSaves, web: Origin, store: MemoryStore, clock: Clock) -> None:
        await saves.save(web.url("/"))
        again = await saves.save(web.url("/"))
        assert (again.result, again.time_s) == (SaveResult.UNCHANGED, int(NOW_S))
        assert paths(web).count("/") == 1
        clock.now_s += 3_600
        later = await saves.save(web.url("/"))
        assert (later.result, later.time_s) == (SaveResult.UNCHANGED, int(NOW_S))
        assert b'If-None-Match: "1"' in web.requests[-1]
        (version,) = await store.history(web.url("/"))
        assert (version.visits, version.last_seen_s) == (1, int(NOW_S) + 3_600)

    saved(work)


@pytest.mark.parametrize(
    ("path", "result", "reason"),
    [
        ("/private", SaveResult.REFUSED, "its owner asks robots not to visit it"),
        ("/noarchive", SaveResult.REFUSED, "the page asks not to be archived"),
        ("/zip", SaveResult.REFUSED, "application/zip is not what this network archives"),
        ("/broken", SaveResult.FAILED, "the host answered with 500"),
    ],
)
def test_what_must_not_be_archived_is_not(path: str, result: SaveResult, reason: str) -> None:
    async def work(saves: HomeSaves, web: Origin, store: MemoryStore, clock: Clock) -> None:
        outcome = await saves.save(web.url(path))
        assert (outcome.result, outcome.reason) == (result, reason)
        assert await store.history(web.url(path)) == []
        assert ("/private" in paths(web)) is False

    saved(work)


def test_a_public_network_reaches_no_private_address_whatever_its_name() -> None:
    charter = Charter(name="public", save_endpoint=True)

    async def work(saves: HomeSaves, web: Origin, store: MemoryStore, clock: Clock) -> None:
        literal = await saves.save(web.url("/"))
        assert (literal.result, "private address" in literal.reason) == (SaveResult.REFUSED, True)
        named = await saves.save(web.url("/", host="localhost"))
        assert named.result in (SaveResult.FAILED, SaveResult.REFUSED)
        assert web.requests == []

    saved(work, charter)


def test_scope_and_opt_out_are_kept() -> None:
    charter = Charter(
        name="small",
        scope=("example.org",),
        allow_private_addresses=True,
        delay_floor_s=0.0,
        save_endpoint=True,
    )
    settings = Settings(crawl=CrawlSettings(opt_out=("no.example.org",)))

    async def work(saves: HomeSaves, web: Origin, store: MemoryStore, clock: Clock) -> None:
        outside = await saves.save(web.url("/"))
        assert "outside of what network" in outside.reason
        asked_not_to = await saves.save("https://www.no.example.org/")
        assert "its owner asked not to be visited" in asked_not_to.reason
        assert web.requests == []

    saved(work, charter, settings)


def test_what_was_removed_for_good_is_not_fetched_again() -> None:
    async def work(saves: HomeSaves, web: Origin, store: MemoryStore, clock: Clock) -> None:
        store.archive.removed = Removals.of(hosts=(), urls=[web.url("/")])
        outcome = await saves.save(web.url("/"))
        assert (outcome.result, "removed for good" in outcome.reason) == (SaveResult.REFUSED, True)
        assert web.requests == []

    saved(work)


def test_a_host_has_its_pause_however_many_ask() -> None:
    charter = Charter(name="slow", allow_private_addresses=True, delay_floor_s=0.5, save_endpoint=True)

    async def work(saves: HomeSaves, web: Origin, store: MemoryStore, clock: Clock) -> None:
        outcomes: dict[str, SaveOutcome] = {}

        async def save(path: str) -> None:
            outcomes[path] = await saves.save(web.url(path))

        started = anyio.current_time()
        async with anyio.create_task_group() as tasks:
            for path in ("/", "/other", "/gone"):
                tasks.start_soon(save, path)
        assert anyio.current_time() - started >= 3 * 0.5  # robots.txt, and three pages
        assert {one.result for one in outcomes.values()} == {SaveResult.SAVED}

    saved(work, charter)


def test_a_host_that_must_rest_for_long_is_asked_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.crawl.page_saves.PATIENCE_S", 1.0)
    charter = Charter(name="slow", allow_private_addresses=True, delay_floor_s=20.0, save_endpoint=True)

    async def work(saves: HomeSaves, web: Origin, store: MemoryStore, clock: Clock) -> None:
        outcome = await saves.save(web.url("/"))
        assert outcome.result is SaveResult.LATER
        assert 10 < outcome.retry_after_s <= 20
        assert paths(web) == ["/robots.txt"]

    saved(work, charter)


def test_a_reader_waits_no_longer_for_a_server_that_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.crawl.page_saves.PATIENCE_S", 0.5)

    async def silence(writer: object) -> None:
        await anyio.sleep_forever()

    monkeypatch.setitem(ANSWERS, "/", silence)

    async def work(saves: HomeSaves, web: Origin, store: MemoryStore, clock: Clock) -> None:
        assert (await saves.save(web.url("/"))).result is SaveResult.LATER
        assert (await saves.save(web.url("/other"))).result is not SaveResult.FAILED  # nothing is left locked

    saved(work)


def test_an_archive_that_is_closed_saves_later() -> None:
    def closed() -> MemoryStore:
        raise UnusableArchiveError("/home", "torn")

    async def run() -> SaveOutcome:
        async with home_saves(closed, TEST_CHARTER, Settings(), Clock()) as saves:
            assert (await saves.save(HOME)).result is SaveResult.LATER
            async with saves.opened():
                return await saves.save(HOME)

    outcome = anyio.run(run)
    assert (outcome.result, "torn" in outcome.reason) == (SaveResult.LATER, True)
    assert "/home" not in outcome.reason, "its folders are the operator's business"


def test_the_whole_way_from_a_reader_s_request_to_the_shown_page() -> None:
    """The portal over the archive into which its own fetcher stores."""

    class Lazy:
        inner: HomeSaves | None = None

        @asynccontextmanager
        async def opened(self) -> AsyncIterator[None]:
            yield

        async def save(self, url: str) -> SaveOutcome:
            assert self.inner is not None
            return await self.inner.save(url)

    lazy = Lazy()
    room = Room(saves=lazy)

    async def ask(target: str) -> Answer:
        return await room.handlers.answer(
            Request(target=target, headers={"host": HOST, "accept": "text/html"}, client="127.0.0.1")
        )

    async def run() -> None:
        async with (
            origin(ANSWERS) as web,
            home_saves(lambda: room.store, TEST_CHARTER, Settings(), Clock()) as lazy.inner,
            lazy.inner.opened(),
        ):
            moved = await ask(f"/save/{web.url('/')}")
            assert moved.status == HTTPStatus.FOUND
            assert b"<p>hi" in (await ask(moved.headers["Location"])).body

    anyio.run(run)
