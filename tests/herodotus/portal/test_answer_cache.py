"""Is what was asked before answered at once, rightly, and only that?"""

import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from herodotus.core.errors import UnusableArchiveError
from herodotus.core.settings.fields import HostPort
from herodotus.core.settings.sections import HttpSettings
from herodotus.machine import Machine
from herodotus.portal import Portal
from herodotus.portal.answer import Answer, Request, moved
from herodotus.portal.answer_cache import ANSWER_BYTES_MAX, ANSWERS_KEPT_BYTES_MAX, Front, WeighedCache
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.handlers import Handlers
from herodotus.store.catalogue import ArchiveCatalogue
from tests.herodotus.portal.library import HOME, Library, at, response
from tests.herodotus.portal.test_server import parsed, received, status

PLAIN = b"GET /web/2026/https://a.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    return "asyncio", {"use_uvloop": request.param}


def front(stamp: int = 1) -> Front:
    return Front(lambda: stamp, lambda: 1_767_225_600.5)


def given(location: str = "/web/x", **changes: object) -> Answer:
    return dataclasses.replace(moved(location), **{"is_of_archive_alone": True, **changes})  # type: ignore[arg-type]  # by name


def asked(*fields: str, target: str = "/web/2026/https://a.example/", version: str = "1.1") -> bytes:
    return "\r\n".join([f"GET {target} HTTP/{version}", "Host: 127.0.0.1", *fields, "", ""]).encode()


# -- what is a plain question -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.replace(b"GET", b"HEAD"),
        PLAIN.replace(b"GET", b"POST"),
        asked(version="1.0"),
        PLAIN + PLAIN,
        PLAIN[:-2],
        PLAIN[:-2] + b"Content-Length: 5\r\n\r\nhello",
        asked("Content-Length: 0"),
        asked("Transfer-Encoding: chunked"),
        asked("Expect: 100-continue"),
        asked("Connection: close"),
        asked("Connection: Upgrade"),
        asked("Range: bytes=0-1"),
        asked('If-None-Match: "x"'),
        asked("Service-Worker: script"),
        asked("X-Herodotus-Relayed: 1"),
        asked("X-Nobody-Knows: 1"),
        asked("Host: b.example"),
        asked(" folded: 1"),
        asked("No colon"),
        asked("Name : 1"),
        PLAIN.replace(b"Host: 127.0.0.1\r\n", b"Accept: */*\r\n"),
        PLAIN.replace(b"127.0.0.1", b"a\nX: b"),
        PLAIN.replace(b"127.0.0.1", b"a\0"),
        PLAIN.replace(b"127.0.0.1", b"\xff"),
        asked(target="/status"),
        asked(target="/api/v1/status"),
        asked(target="http://127.0.0.1/web/2026/x"),
        asked(target="/web/" + "a" * 5_000),
        asked(*["Accept: x"] * 60),
        b"\r\n" + PLAIN,
        b"",
    ],
    ids=lambda data: repr(data[:60]),
)
def test_what_is_not_plainly_one_question_takes_the_long_way(data: bytes) -> None:
    assert front().question(data) is None


@pytest.mark.parametrize(
    "field",
    ["Accept: application/json", "Accept-Encoding: gzip", "Accept-Datetime: Mon, 05 Jan 2026 09:00:00 GMT",
     "Origin: null", "Sec-Fetch-Dest: document", "Upgrade-Insecure-Requests: 1"],
)  # fmt: skip
def test_a_field_that_decides_makes_another_question(field: str) -> None:
    one = front()
    assert one.question(asked(field)) not in (None, one.question(PLAIN))


def test_host_and_address_make_another_question_and_what_decides_nothing_does_not() -> None:
    one = front()
    question = one.question(PLAIN)
    assert one.question(PLAIN.replace(b"127.0.0.1", b"localhost")) != question
    assert one.question(PLAIN.replace(b"2026", b"2025")) != question
    idle = asked("User-Agent: x", "Cookie: a=1", "Connection: keep-alive", "Referer: http://x/")
    assert one.question(idle.replace(b"Host", b"HOST")) == question


def test_at_a_label_every_path_is_a_question_and_who_asks_decides() -> None:
    one = front()
    host = "Host: 20260105000000-s-example-org.localhost:5484"

    def question(*fields: str, target: str = "/a?b") -> object:
        return one.question("\r\n".join([f"GET {target} HTTP/1.1", host, *fields, "", ""]).encode())

    plain = question()
    assert plain not in (None, question(target="/"), question(target="/web/2026/x"))
    assert question("User-Agent: x", "Sec-Fetch-Mode: cors", "Cookie: a=1") == plain
    for field in (
        "Referer: http://a.example/",
        "Sec-Fetch-Site: cross-site",
        "Origin: null",
        "Sec-Fetch-Dest: script",
    ):
        assert question(field) not in (None, plain)
    assert question("If-None-Match: x") is None
    assert question("Service-Worker: script") is None
    for name in (
        "s-example-org.localhost",
        "x.20260105000000-s-example-org.localhost",
        "20260105000000-s-example-org",
    ):
        assert one.question(asked(target="/a").replace(b"127.0.0.1", name.encode())) is None


# -- what is kept -------------------------------------------------------------------------------------------


def test_an_answer_is_given_again_with_the_date_of_today() -> None:
    one = front()
    question = one.question(PLAIN)
    assert question is not None
    assert one.answer(question) is None
    one.keep(question, given(), 1)
    parts = one.answer(question)
    assert parts is not None
    reply = parsed(b"".join(parts))
    assert (reply.status, reply.headers["Location"], reply.headers["Content-Length"]) == (302, "/web/x", "0")
    assert reply.headers["Date"] == "Thu, 01 Jan 2026 00:00:00 GMT"


@pytest.mark.parametrize(
    ("answer", "stamp"),
    [
        (given(is_of_archive_alone=False), 1),
        (given(), 2),  # something was stored while it was made
        (given(), None),
        (given("/web/x\r\nSet-Cookie: a=1"), 1),
        (given("/web/x\nX: y"), 1),
        (given("/web/\0"), 1),
        (given("/web/\ud800"), 1),
        (given(body=bytes(ANSWER_BYTES_MAX + 1)), 1),
    ],
    ids=["not of the archive alone", "stale", "no archive", "two lines", "a bare line end", "NUL", "no text", "large"],
)  # fmt: skip
def test_what_may_be_wrong_later_is_not_kept(answer: Answer, stamp: int | None) -> None:
    one = front()
    question = one.question(PLAIN)
    assert question is not None
    one.keep(question, answer, stamp)
    assert one.answer(question) is None


def test_an_archive_that_is_closed_gives_nothing_again() -> None:
    is_open = [True]

    def stamp() -> int:
        if not is_open[0]:
            raise UnusableArchiveError("x", "closed")
        return 1

    one = Front(stamp, lambda: 0.0)
    question = one.question(PLAIN)
    assert question is not None
    one.keep(question, given(), one.stamp())
    assert one.answer(question) is not None
    is_open[0] = False
    assert (one.stamp(), one.answer(question)) == (None, None)


def test_what_is_kept_has_a_bound() -> None:
    kept: WeighedCache[int, str] = WeighedCache(1_600)
    for number in range(1_000):
        kept.keep(number, "x", 100)
        assert len(kept) <= 16
        assert kept.get(number) == "x"
    kept.keep(-1, "large", 101)
    assert (kept.get(-1), kept.get(0)) == (None, None)
    one = front()
    for number in range(1_200):
        question = one.question(PLAIN.replace(b"2026", b"%d" % (1000 + number)))
        assert question is not None
        one.keep(question, given(body=bytes(ANSWER_BYTES_MAX)), 1)
    assert len(one._answers) * ANSWER_BYTES_MAX <= ANSWERS_KEPT_BYTES_MAX


def test_what_is_asked_for_again_outlives_what_is_not() -> None:
    kept: WeighedCache[int, int] = WeighedCache(1_600)
    kept.keep(0, 0, 100)
    for number in range(1, 100):
        kept.keep(number, number, 100)
        assert kept.get(0) == 0


def test_a_stored_capture_changes_the_stamp_of_a_shelf() -> None:
    library = Library(response(HOME, "20260101", b"a"))
    before = library.shelf.stamp
    library.add(response(HOME, "20260102", b"b"))
    assert library.shelf.stamp != before


def test_another_archive_at_the_same_count_has_another_stamp() -> None:
    """As one that was closed, replaced or rebuilt, and opened again: each counts from its opening on."""
    first = Library(response(HOME, "20260101", b"a"))
    second = Library(response(HOME, "20260102", b"b"))
    catalogues = [ArchiveCatalogue(one.store.archive) for one in (first, second)]
    opened = [catalogues[0]]
    shelf = Shelf(lambda: opened[0], Machine())

    async def first_seen_s() -> int:
        async with shelf.history((HOME,)) as versions:
            return versions[0].first_seen_s

    stamps = [shelf.stamp]
    assert anyio.run(first_seen_s) == at("20260101")
    opened[0] = catalogues[1]
    stamps.append(shelf.stamp)
    assert second.store.archive.counters.commits == first.store.archive.counters.commits
    assert anyio.run(first_seen_s) == at("20260102")
    opened[0] = catalogues[0]
    stamps.append(shelf.stamp)
    assert len(set(stamps)) == 3
    assert shelf.stamp == stamps[2]


@pytest.mark.parametrize(
    ("target", "is_kept"),
    [
        (f"/web/2026/{HOME}", True),
        (f"/web/20260101000000/{HOME}", True),
        (f"/web/{HOME}", True),
        (f"/web/timemap/link/{HOME}", True),
        (f"/cdx/search/cdx?url={HOME}", True),
        (f"/wayback/available?url={HOME}", True),
        ("/web/2026/https://nobody.example/", False),
        ("/", False),
        ("/api/v1/status", False),
        (f"/cdx/search/cdx?url={HOME}&limit=x", False),
    ],
)
def test_answers_from_the_archive_are_kept_and_others_not(target: str, is_kept: bool) -> None:
    assert Library(response(HOME, "20260101", b"a")).get(target).is_of_archive_alone is is_kept


# -- over a socket ------------------------------------------------------------------------------------------


class Slowly(Handlers):
    """Tells each question apart, and answers when it is let."""

    def __init__(self) -> None:
        super().__init__(status)
        self.may_answer = anyio.Event()
        self.may_answer.set()
        self.asked: list[str] = []

    async def answer(self, request: Request) -> Answer:
        self.asked.append(request.target)
        await self.may_answer.wait()
        return given(f"/web/{len(self.asked)}")


@asynccontextmanager
async def serving(handlers: Handlers, one: Front, idle_s: float = 30) -> AsyncIterator[Portal]:
    listen = HostPort(host="127.0.0.1", port=0)
    made = Portal(HttpSettings(listen=listen, connections_max=8, idle_s=idle_s), handlers, one)
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5):
            yield made


async def locations(stream: anyio.abc.SocketStream, count: int) -> list[str]:
    whole = b""
    while whole.count(b"\r\n\r\n") < count:
        whole += await stream.receive()
    return [line[10:].decode() for line in whole.split(b"\r\n") if line.startswith(b"Location: ")]


@pytest.mark.anyio
async def test_a_second_question_in_the_same_words_does_not_reach_the_handlers() -> None:
    handlers, one = Slowly(), front()
    async with (
        serving(handlers, one) as served,
        await anyio.connect_tcp("127.0.0.1", served.endpoint.port) as stream,
    ):
        for _ in range(3):
            await stream.send(PLAIN)
            assert await locations(stream, 1) == ["/web/1"]
        assert (len(handlers.asked), one.answered) == (1, 2)
        await stream.send(asked("X-Other: 1"))
        assert await locations(stream, 1) == ["/web/2"]
        await stream.send(PLAIN)  # after the long way, the short one is open again
        assert await locations(stream, 1) == ["/web/1"]
        assert one.answered == 3


@pytest.mark.anyio
async def test_questions_sent_together_are_answered_in_their_order() -> None:
    """However they are cut, also where the front could answer a later one before an earlier one is ready."""
    handlers, one = Slowly(), front()
    async with serving(handlers, one) as served:
        async with await anyio.connect_tcp("127.0.0.1", served.endpoint.port) as stream:
            await stream.send(PLAIN)
            assert await locations(stream, 1) == ["/web/1"]
            handlers.may_answer = anyio.Event()
            await stream.send(asked("X-Other: 1"))
            while len(handlers.asked) < 2:
                await anyio.lowlevel.checkpoint()
            await stream.send(PLAIN)  # is kept, and must wait
            handlers.may_answer.set()
            assert await locations(stream, 2) == ["/web/2", "/web/3"]
        other = PLAIN.replace(b"2026", b"2025")
        async with await anyio.connect_tcp("127.0.0.1", served.endpoint.port) as stream:
            whole = PLAIN + other + PLAIN
            for at in range(0, len(whole), 50):
                await stream.send(whole[at : at + 50])
                await anyio.lowlevel.checkpoint()
            found = await locations(stream, 3)
            assert len(found) == 3
            await stream.send(PLAIN)
            assert len(await locations(stream, 1)) == 1


@pytest.mark.anyio
async def test_who_does_not_read_is_not_listened_to_and_left() -> None:
    handlers, one = Slowly(), front()
    question = one.question(PLAIN)
    assert question is not None
    one.keep(question, given(body=bytes(60_000)), 1)
    async with (
        serving(handlers, one, idle_s=1) as served,
        await anyio.connect_tcp("127.0.0.1", served.endpoint.port) as stream,
    ):
        visitor = next(iter(served._visitors.values()))
        while not visitor._is_paused:
            before = one.answered
            await stream.send(PLAIN)
            while one.answered == before:  # one at a time, as several take the long way
                await anyio.lowlevel.checkpoint()
        await stream.send(PLAIN)
        while served._visitors:
            await anyio.lowlevel.checkpoint()
        assert 0 < one.answered < 5_000
        assert handlers.asked == []


@pytest.mark.anyio
async def test_a_connection_that_asks_what_is_known_is_kept_and_closed_when_it_falls_silent() -> None:
    handlers, one = Slowly(), front()
    async with (
        serving(handlers, one, idle_s=1) as served,
        await anyio.connect_tcp("127.0.0.1", served.endpoint.port) as stream,
    ):
        started = anyio.current_time()
        while anyio.current_time() - started < 2.5:
            await stream.send(PLAIN)
            assert await locations(stream, 1) == ["/web/1"]
            await anyio.sleep(0.02)  # a reader's pace, who takes no whole processor
        assert (await received(stream)) == b""
        assert 0.5 < anyio.current_time() - started - 2.5 < 5
