"""Servers that mean harm, on real sockets: each beside a good host that must not notice.

Every case is a whole crawl of two origins. It must end by itself and soon; what happened is recorded
against the URL; and the good host's pages are all there.
"""

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import anyio
import brotli
import pytest
import zstandard

from crawler.core.capture import DECODED_BYTES_MAX, Capture, Truncation
from crawler.core.errors import ForbiddenAddressError
from crawler.core.politeness import HostSteward
from crawler.core.recrawl import Known
from crawler.core.scope import ContentChoice, CrawlScope
from crawler.core.urls import canonical
from crawler.frontier import Frontier
from crawler.frontier_rows import frontier_rows
from crawler.http import FetchSettings, HttpFetcher
from crawler.ports import FetchRequest
from crawler.steward import LocalSteward
from crawler.worker import Crawler, WorkerSettings
from tests.crawler.memory import MemorySink
from tests.crawler.origin import Answer, Origin, origin, says
from tests.crawler.synthetic import QUICK

pytestmark = pytest.mark.anyio

LIMITS = FetchSettings(
    allow_private_addresses=True,
    connect_timeout_s=1.0,
    head_timeout_s=0.5,
    body_timeout_s=0.5,
    body_bytes_max=2 * 2**20,
)
ENDS_WITHIN_S = 60.0
GOOD_PAGES = 5


def page(body: bytes, *headers: bytes, mime: bytes = b"text/html") -> Answer:
    lines = (b"HTTP/1.1 200 OK", b"Content-Type: " + mime, b"Content-Length: %d" % len(body), *headers)
    return says(b"\r\n".join(lines) + b"\r\n\r\n" + body)


NOT_FOUND = says(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")


def without_end(start: bytes, piece: bytes) -> Answer:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while True:
            writer.write(piece)
            await writer.drain()

    return write


def drips(start: bytes, piece: bytes) -> Answer:
    """A byte now and then, for ever."""

    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        while not writer.is_closing():
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.02)

    return write


def resets(start: bytes) -> Answer:
    async def write(writer: asyncio.StreamWriter) -> None:
        writer.write(start)
        await writer.drain()
        writer.transport.abort()

    return write


class Outcome:
    def __init__(
        self, crawler: Crawler, frontier: Frontier, sink: MemorySink, evil: Origin, good: Origin
    ) -> None:
        self.crawler = crawler
        self.frontier = frontier
        self.sink = sink
        self.evil = evil
        self.good = good

    def known(self, target: str = "/") -> Known:
        found = self.frontier.known(self.evil.url(target))
        assert found is not None
        return found

    def capture(self, target: str = "/") -> Capture:
        return next(one for one in self.sink.captures if one.url == self.evil.url(target))


@asynccontextmanager
async def crawled(
    folder: Path,
    answers: dict[str, Answer],
    *,
    settings: FetchSettings = LIMITS,
    content: ContentChoice = ContentChoice.ALL,
    seeds: tuple[str, ...] = ("/",),
    adjust: Callable[[dict[str, Answer], Origin, Origin], None] = lambda answers, evil, good: None,
) -> AsyncIterator[Outcome]:
    """A crawl of an evil origin and a good one, both fully crawled when the body begins."""
    links = b"".join(b'<a href="/%d">x</a>' % number for number in range(1, GOOD_PAGES))
    fine: dict[str, Answer] = {f"/{number}": page(b"page") for number in range(1, GOOD_PAGES)}
    answers.setdefault("/robots.txt", NOT_FOUND)

    async with (
        origin(answers) as evil,
        origin({"/": page(links), "/robots.txt": NOT_FOUND, **fine}, host="127.0.0.2") as good,
    ):
        adjust(answers, evil, good)
        frontier = Frontier(frontier_rows(folder), day=20_000)
        try:
            async with HttpFetcher(settings, wall_clock=lambda: 1.7e9) as fetcher:
                sink = MemorySink()
                core = HostSteward(QUICK)
                steward = LocalSteward(
                    core, fetcher, product_token="Herodotus", wall_clock=lambda: 1.7e9, sink=sink
                )
                scope = CrawlScope(content=content)
                crawler = Crawler(
                    frontier, fetcher, sink, steward, scope, WorkerSettings(), wall_clock=lambda: 1.7e9
                )
                crawler.seed([*(evil.url(seed) for seed in seeds), good.url("/", "127.0.0.2")])
                with anyio.fail_after(ENDS_WITHIN_S):
                    await crawler.run()
                fetched = {
                    one.url for one in sink.captures if one.remote_ip == "127.0.0.2" and one.status == 200
                }
                assert len(fetched) == GOOD_PAGES  # whatever the other did
                assert crawler.progress().due == 0
                assert crawler.progress().busy == 0
                yield Outcome(crawler, frontier, sink, evil, good)
        finally:
            frontier.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (without_end(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 1_000), None),
        (without_end(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536), None),
        (drips(b"HTTP/1.1 200 OK\r\nX: ", b"x"), "TooSlow"),
        (says(b"HTTP/1.1 200 OK\r\nSet-Cookie: " + b"c" * 1_000_000 + b"\r\n\r\n"), None),
        (says(b"<html>HTTP/0.9 is no more</html>"), "MalformedResponse"),
        (says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n\xff\xff"), "MalformedResponse"),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\nhello"), None),
        (resets(b""), "Unreachable"),
        (resets(b"HTTP/1.1 200 O"), None),
    ],
)
async def test_what_is_no_answer_is_recorded_against_the_url_three_times_and_that_is_all(
    tmp_path: Path, answer: Answer, error: str | None
) -> None:
    async with crawled(tmp_path, {"/once": answer}, seeds=("/once",)) as outcome:
        known = outcome.known("/once")
        assert (known.last_result, known.failures) == ("failed", 3)
        assert known.due_day > outcome.frontier.day
        errors = outcome.crawler.counts.by_error
        assert errors.total() == 3
        assert error is None or errors[error] == 3
        host = next(one for name, one in outcome.crawler.counts.by_host.items() if "127.0.0.1" in name)
        assert (host.failed, bool(host.problem)) == (3, True)


@pytest.mark.parametrize(
    ("answer", "truncated"),
    [
        (
            without_end(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", b"x" * 65_536),
            Truncation.LENGTH,
        ),
        (drips(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", b"y"), Truncation.TIME),
        (resets(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst"), Truncation.DISCONNECT),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst"), Truncation.DISCONNECT),
        (
            says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\nfffff\r\nx"),
            Truncation.DISCONNECT,
        ),
    ],
)
async def test_a_body_that_ends_badly_is_kept_as_far_as_it_came(
    tmp_path: Path, answer: Answer, truncated: Truncation
) -> None:
    async with crawled(tmp_path, {"/once": answer}, seeds=("/once",)) as outcome:
        capture = outcome.capture("/once")
        assert capture.truncated is truncated
        assert len(capture.body) <= LIMITS.body_bytes_max
        # Half a page is no version to compare with; what our own limit cuts will be cut there again.
        assert (outcome.known("/once").digest == b"") == (truncated is not Truncation.LENGTH)


async def test_a_body_longer_than_its_length_is_taken_as_long_as_it_says(tmp_path: Path) -> None:
    answers = {
        "/": says(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 16\r\n\r\n<a href='/next'>\n\n"
        ),
        "/next": NOT_FOUND,
    }
    async with crawled(tmp_path, answers) as outcome:
        capture = outcome.capture()
        assert (capture.body, capture.truncated) == (b"<a href='/next'>", None)
        assert outcome.known("/next").last_result == "gone"


BOMB = b"<a href='/found'>x</a>" + b" " * 2 * DECODED_BYTES_MAX + b"<a href='/behind-the-limit'>x</a>"


def packed(coding: str) -> bytes:
    if coding == "gzip":
        return gzip.compress(BOMB, 1)
    if coding == "br":
        return bytes(brotli.compress(BOMB, quality=1))
    return zstandard.ZstdCompressor(level=1).compress(BOMB)


@pytest.mark.parametrize("coding", ["gzip", "br", "zstd"])
async def test_a_bomb_is_kept_packed_and_unfolds_no_further_than_the_limit(
    tmp_path: Path, coding: str
) -> None:
    body = packed(coding)
    answers = {"/": page(body, b"Content-Encoding: " + coding.encode()), "/found": NOT_FOUND}
    async with crawled(tmp_path, answers) as outcome:
        assert outcome.capture().body == body
        assert outcome.known("/found").last_result == "gone"
        assert outcome.frontier.known(outcome.evil.url("/behind-the-limit")) is None


async def test_servers_without_end_cost_little_memory(tmp_path: Path) -> None:
    """Heads, fields, interim answers and bodies that never end, 30 kB a piece, as fast as it goes."""
    endless = {
        "/fields": without_end(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 3_000),
        "/field": without_end(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 30_000),
        "/interim": without_end(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_200),
        "/body": without_end(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n", b"<a>" * 10_000),
        "/chunks": without_end(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 5_000
        ),
    }
    tracemalloc.start()
    try:
        async with crawled(tmp_path, dict(endless), seeds=tuple(endless)):
            _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 48 * LIMITS.body_bytes_max  # a tree of nothing but elements is 35 times its page


async def test_redirects_in_a_circle_end_where_they_began(tmp_path: Path) -> None:
    def to(target: str) -> Answer:
        return says(f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())

    answers = {"/": to("/b"), "/b": to("/c"), "/c": to("/"), "/self": to("/self")}
    async with crawled(tmp_path, answers, seeds=("/", "/self")) as outcome:
        visits = [request.split(b" ")[1] for request in outcome.evil.requests]
        assert sorted(visits) == [b"/", b"/b", b"/c", b"/robots.txt", b"/self"]


def moved(length: int) -> Answer:
    """Each URL to a new one."""
    to = "/" + "x" * (length + 1)
    return says(f"HTTP/1.1 301 Moved\r\nLocation: {to}\r\nContent-Length: 0\r\n\r\n".encode())


async def test_redirects_without_end_are_followed_as_far_as_a_browser_does_and_counted(
    tmp_path: Path,
) -> None:
    """A redirect leads as deep as its page, so no depth ends it."""
    answers = {"/" + "x" * length: moved(length) for length in range(200)}
    async with crawled(tmp_path, answers) as outcome:
        assert outcome.crawler.counts.by_status[301] == 21
        assert outcome.crawler.counts.links_left["trap: redirects"] == 1
        assert len(outcome.evil.requests) == 22  # with robots.txt
        assert outcome.known("/" + "x" * 20).hops == 20


async def test_a_chain_begins_anew_where_a_page_links_into_it(tmp_path: Path) -> None:
    answers = {"/" + "x" * length: moved(length) for length in range(30)}
    answers["/" + "x" * 30] = page(b"here at last")
    answers["/z"] = page(b"<a href='/%b'>in the middle</a>" % (b"x" * 15))
    async with crawled(tmp_path, answers, seeds=("/", "/z")) as outcome:
        assert outcome.capture("/" + "x" * 30).body == b"here at last"
        visits = [request.split(b" ")[1] for request in outcome.evil.requests]
        assert len(visits) == len(set(visits)) == 33  # each once: 30 redirects, two pages, robots.txt


PRIVATE = (
    "http://127.0.0.1:{port}/secret",
    "http://2130706433:{port}/secret",
    "http://0x7f.0.0.1:{port}/secret",
    "http://[::ffff:127.0.0.1]:{port}/secret",
    "http://localhost:{port}/secret",
    "http://rebound.example:{port}/secret",
    "http://169.254.169.254/latest/meta-data/",
)


async def test_a_chain_to_private_addresses_is_cut_before_any_connection(tmp_path: Path) -> None:
    """The evil host is "public" by its name's first look, and sends us to the listening socket in all spellings."""
    async with origin({"/secret": NOT_FOUND}) as secret:
        targets = [one.format(port=secret.port) for one in PRIVATE]
        looks = {"rebound.example": iter([["93.184.216.34"]])}
        frontier = Frontier(frontier_rows(tmp_path), day=20_000)

        async def look_up(name: str) -> list[str]:
            return next(looks.get(name, iter(())), ["127.0.0.1"])

        settings = FetchSettings(connect_timeout_s=0.2, head_timeout_s=0.2, dns_ttl_s=0.0)
        async with HttpFetcher(settings, wall_clock=lambda: 1.7e9, resolve=look_up) as fetcher:
            assert (
                await fetcher.address_of("rebound.example") == "93.184.216.34"
            )  # its first look is harmless
            sink = MemorySink()
            steward = LocalSteward(
                HostSteward(QUICK),
                fetcher, product_token="Herodotus", wall_clock=lambda: 1.7e9, sink=sink,
            )  # fmt: skip
            crawler = Crawler(
                frontier, fetcher, sink, steward, CrawlScope(), WorkerSettings(), wall_clock=lambda: 1.7e9
            )
            crawler.seed([canonical(target) for target in targets])
            with anyio.fail_after(ENDS_WITHIN_S):
                await crawler.run()
        frontier.close()
        assert secret.connections == 0
        assert crawler.counts.fetched == 0
        assert crawler.counts.forbidden == len({canonical(target) for target in targets})
        assert sink.captures == []


async def test_a_host_that_redirects_to_private_addresses_in_all_spellings_makes_us_open_no_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the point of view of the socket that must not be reached. 127.0.0.2 is "the internet" here, and only it;
    its pages, images, sitemap and redirects, and the proxies of the environment, all lead to 127.0.0.1.
    """

    def is_outside(address: str) -> bool:
        return address == "127.0.0.2"

    monkeypatch.setattr("crawler.connections.is_public", is_outside)
    monkeypatch.setattr("crawler.resolving.is_public", is_outside)
    answers: dict[str, Answer] = {}
    looks = iter([["127.0.0.2"], ["127.0.0.2"]])

    async def look_up(name: str) -> list[str]:
        if name == "evil.example":
            return ["127.0.0.2"]
        return next(looks, ["127.0.0.1"]) if name == "rebound.example" else ["127.0.0.1"]

    async with origin({"/secret": NOT_FOUND}) as secret, origin(answers, host="127.0.0.2") as evil:
        targets = [one.format(port=secret.port) for one in (*PRIVATE, "http://127.1:{port}/secret")]
        for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, secret.url())
        for number, target in enumerate(targets):
            head = f"HTTP/1.1 302 Found\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n"
            answers[f"/{number}"] = says(head.encode())
        links = "".join(f"<a href='/{number}'>x</a><img src='{one}'>" for number, one in enumerate(targets))
        answers["/"] = page(links.encode())
        answers["/robots.txt"] = page(f"sitemap: {targets[0]}\n".encode())
        settings = FetchSettings(connect_timeout_s=0.5, head_timeout_s=0.5, dns_ttl_s=0.0)
        frontier = Frontier(frontier_rows(tmp_path), day=20_000)
        async with HttpFetcher(settings, wall_clock=lambda: 1.7e9, resolve=look_up) as fetcher:
            sink = MemorySink()
            steward = LocalSteward(
                HostSteward(QUICK),
                fetcher, product_token="Herodotus", wall_clock=lambda: 1.7e9, sink=sink,
            )  # fmt: skip
            crawler = Crawler(
                frontier, fetcher, sink, steward, CrawlScope(), WorkerSettings(), wall_clock=lambda: 1.7e9
            )
            crawler.seed([evil.url("/", "evil.example")])
            with anyio.fail_after(ENDS_WITHIN_S):
                await crawler.run()
        frontier.close()
        assert len([one for one in sink.captures if one.status == 302]) == len(targets)
        assert {one.remote_ip for one in sink.captures} == {"127.0.0.2"}
        assert crawler.progress().due == 0
        assert secret.connections == 0


BAD_PORTS = (11211, 11300, 6380, 6667)
"""None of them is of the system: a test may listen there. On one that is taken another test, or a service, listens."""


async def test_no_link_redirect_picture_or_sitemap_leads_to_a_port_of_another_service(tmp_path: Path) -> None:
    """From the point of view of the sockets that must not be reached."""
    async with AsyncExitStack() as opened:
        victims: list[Origin] = []
        for port in BAD_PORTS:
            with suppress(OSError):
                victims.append(
                    await opened.enter_async_context(origin({"/": NOT_FOUND}, host="127.0.0.3", port=port))
                )
        assert victims
        targets = [one.url("/", "127.0.0.3") for one in victims]
        first = targets[0].encode()
        links = "".join(f"<a href='{one}'>x</a><img src='{one}i.png'>" for one in targets).encode()
        answers = {
            "/": page(links + b"<a href='/moved'>x</a><a href='http://127.0.0.3:25/'>x</a>"),
            "/moved": says(b"HTTP/1.1 302 Found\r\nLocation: " + first + b"\r\nContent-Length: 0\r\n\r\n"),
            "/robots.txt": page(b"sitemap: " + first + b"\n", mime=b"text/plain"),
        }
        async with crawled(tmp_path, answers) as found:
            assert found.known("/moved").visits == 1
            assert [one for one in targets if found.frontier.known(one) is not None] == []
            assert found.crawler.counts.links_left["port"] == 2 * len(victims) + 1 + 1
        assert [one.connections for one in victims] == [0] * len(victims)


async def test_a_port_of_another_service_is_refused_once_more_before_the_socket(tmp_path: Path) -> None:
    """Whoever asks for it: a seed, a frontier of before, robots.txt for a steward."""
    frontier = Frontier(frontier_rows(tmp_path), day=20_000)
    async with HttpFetcher(LIMITS, wall_clock=lambda: 1.7e9) as fetcher:
        with pytest.raises(ForbiddenAddressError, match="port 6379 is not one of the web's"):
            await fetcher.fetch(FetchRequest(url="http://127.0.0.1:6379/robots.txt"))
        steward = LocalSteward(
            HostSteward(QUICK),
            fetcher,
            product_token="Herodotus",
            wall_clock=lambda: 1.7e9,
            sink=MemorySink(),
        )
        crawler = Crawler(
            frontier, fetcher, MemorySink(), steward, CrawlScope(), WorkerSettings(), wall_clock=lambda: 1.7e9
        )
        crawler.seed(["http://127.0.0.1:6379/"])
        with anyio.fail_after(ENDS_WITHIN_S):
            await crawler.run()
    frontier.close()
    assert (crawler.counts.fetched, crawler.counts.by_error["port"]) == (0, 1)


async def test_a_page_of_100000_links_gives_as_many_as_a_page_may_and_counts_the_rest(tmp_path: Path) -> None:
    body = b"".join(b'<a href="mailto:%d">' % n for n in range(80_000))
    body += b"".join(b'<a href="//x%d.invalid:1/">' % (n % 3) for n in range(20_000))
    async with crawled(tmp_path, {"/": page(body)}, settings=LIMITS) as outcome:
        left = outcome.crawler.counts.links_left
        assert left["too many on a page"] + left["malformed"] >= 80_000
        assert outcome.known().last_result == "changed"


async def test_links_of_megabytes_are_refused_and_the_others_taken(tmp_path: Path) -> None:
    body = b'<a href="/' + b"x" * 3 * 2**19 + b'">a</a><a href="/good">b</a>'
    settings = FetchSettings(
        allow_private_addresses=True, head_timeout_s=5.0, body_timeout_s=30.0, body_bytes_max=12 * 2**20
    )
    async with crawled(tmp_path, {"/": page(body), "/good": page(b"")}, settings=settings) as outcome:
        assert outcome.known("/good").last_result == "changed"
        assert outcome.crawler.counts.links_left["malformed"] == 1


async def test_a_redirect_to_ten_megabytes_of_url_is_a_broken_head(tmp_path: Path) -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: /" + b"x" * 10 * 2**20 + b"\r\n\r\n"
    async with crawled(tmp_path, {"/once": says(answer)}, seeds=("/once",)) as outcome:
        assert outcome.known("/once").last_result == "failed"


@pytest.mark.parametrize(
    ("mime", "body"),
    [
        (b"text/html", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 50),
        (b"image/png", b"<html><a href='/never'>x</a>"),
        (b"text/css", b"@import '" + b"(" * 100_000),
        (b"application/xml", b"<urlset>" + b"<loc>" * 100_000),
        (
            b"application/xml",
            b'<!DOCTYPE x [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]><urlset><loc>&b;</loc>',
        ),
        (b"text/html; charset=utf-7", b"+ADw-a href=+ACI-/never+ACI-+AD4-"),
        (b"text/html; charset=utf-16", b"<a href='/odd'"),
        (b"\xff\xfe/\x00", b"<a href='/x'>"),
        (b"text/html", b"<" * 1_000_000),
        (b"text/html", b"<div>" * 200_000),
        (b"text/html", b"<a href='" * 100_000),
    ],
)
async def test_bodies_that_are_not_what_they_say_do_no_harm(tmp_path: Path, mime: bytes, body: bytes) -> None:
    answers = {
        "/": page(body, mime=mime),
        **dict.fromkeys(("/never", "/odd", "/x", "/&b;", "/&amp;b;"), NOT_FOUND),
    }
    async with crawled(tmp_path, answers) as outcome:
        visits = {request.split(b" ")[1] for request in outcome.evil.requests}
        assert b"/never" not in visits
        assert outcome.crawler.counts.fetched >= GOOD_PAGES


async def test_a_robots_txt_of_100_megabytes_is_read_to_its_limit_and_its_rules_are_kept(
    tmp_path: Path,
) -> None:
    start = b"User-agent: *\nDisallow: /closed\n"
    answers = {
        "/robots.txt": without_end(
            b"HTTP/1.1 200 OK\r\nContent-Length: 104857600\r\n\r\n" + start, b"#" * 65_536
        ),
        "/": page(b"<a href='/closed'>x</a>"),
    }
    async with crawled(tmp_path, answers) as outcome:
        assert outcome.known("/closed").last_result == "forbidden"
        robots = outcome.capture("/robots.txt")
        assert (robots.truncated, len(robots.body) <= 2**20) == (Truncation.LENGTH, True)


@pytest.mark.parametrize(
    "answer",
    [drips(b"HTTP/1.1 200 OK\r\n\r\n", b"#"), resets(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nUser")],
)
async def test_half_a_robots_txt_forbids_everything_for_now(tmp_path: Path, answer: Answer) -> None:
    async with crawled(tmp_path, {"/robots.txt": answer, "/": page(b"")}) as outcome:
        assert outcome.known().last_result == "forbidden"
        assert outcome.crawler.counts.by_error["robots unreachable"] == 1
        assert not any(b"GET / " in request for request in outcome.evil.requests)


async def test_sitemaps_that_include_themselves_and_each_other_end(tmp_path: Path) -> None:
    def index(*targets: str) -> Callable[[Origin], bytes]:
        def make(evil: Origin) -> bytes:
            places = "".join(f"<sitemap><loc>{evil.url(target)}</loc></sitemap>" for target in targets)
            return f"<sitemapindex>{places}</sitemapindex>".encode()

        return make

    def adjust(answers: dict[str, Answer], evil: Origin, good: Origin) -> None:
        answers["/robots.txt"] = page(f"Sitemap: {evil.url('/a.xml')}\n".encode(), mime=b"text/plain")
        answers["/a.xml"] = page(index("/a.xml", "/b.xml.gz")(evil), mime=b"text/xml")
        packed = gzip.compress(index("/a.xml", "/b.xml.gz", "/c.xml")(evil))
        answers["/b.xml.gz"] = page(packed, mime=b"application/gzip")
        urls = f"<urlset><url><loc>{evil.url('/page')}</loc></url></urlset>"
        answers["/c.xml"] = page(urls.encode(), mime=b"text/xml")
        answers["/page"] = page(b"end")

    async with crawled(
        tmp_path, {"/": page(b"")}, adjust=adjust, content=ContentChoice.HTML_AND_IMAGES
    ) as outcome:
        visits = [request.split(b" ")[1] for request in outcome.evil.requests]
        assert sorted(visits) == [b"/", b"/a.xml", b"/b.xml.gz", b"/c.xml", b"/page", b"/robots.txt"]


async def test_pages_much_like_others_are_counted_and_their_links_come_last(tmp_path: Path) -> None:
    words = [b"%d" % n * 3 + b" letter" * n + b" " + bytes([97 + n]) * 7 for n in range(6)]
    answers = {
        f"/t?n={n}": page(b"<p>the same every day %d</p><a href='/t?n=%d'>next</a>" % (n, n + 1))
        for n in range(20)
    }
    answers |= {f"/{n}": page(words[n] + b"<a href='/%d'>on</a>" % (n + 1)) for n in range(5)}
    answers |= {"/": page(b"<a href='/t?n=0'>a</a><a href='/0'>b</a>"), "/5": NOT_FOUND, "/t?n=20": NOT_FOUND}
    async with crawled(tmp_path, answers) as outcome:
        visits = [request.split(b" ")[1].decode() for request in outcome.evil.requests]
        assert len(visits) == len(answers)  # nothing is left out
        assert outcome.crawler.counts.near_duplicates == 19
        assert visits.index("/5") < visits.index("/t?n=2")


async def test_a_robots_txt_whose_connection_broke_is_asked_for_once_more_before_its_host_is_closed(
    tmp_path: Path,
) -> None:
    tries: list[int] = []

    async def breaks_once(writer: asyncio.StreamWriter) -> None:
        tries.append(1)
        if len(tries) == 1:
            writer.transport.abort()
        else:
            await NOT_FOUND(writer)

    async with crawled(tmp_path, {"/robots.txt": breaks_once, "/": page(b"")}) as outcome:
        assert outcome.known().last_result == "changed"
        assert len(tries) == 2
