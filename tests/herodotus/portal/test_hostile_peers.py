"""What can a peer do to the readers of another, whose portal passes on what it says? Lie about the past, no more."""

import gzip
import json
import re
import threading
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path

import anyio
import pytest
from trio.testing import MockClock

from herodotus.core.captures import position_of
from herodotus.core.saves import SaveOutcome
from herodotus.core.settings.fields import HostPort
from herodotus.core.settings.sections import HttpSettings
from herodotus.machine import Machine
from herodotus.portal import Portal
from herodotus.portal.answer import Answer, Request
from herodotus.portal.archive_pages import ArchivePages, Asked
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.differences import DiffPages
from herodotus.portal.handlers import Handlers
from herodotus.portal.http_relay import HttpRelay
from herodotus.portal.other_holders import RELAYED_S, Elsewhere, PortalAddress
from herodotus.portal.save_pages import TOLD_BYTES_MAX, SavePages
from tests.herodotus.portal.browser import browser
from tests.herodotus.portal.library import HOME, HOST, ORIGIN, Library, no_cache, response
from tests.herodotus.portal.rooms import Room
from tests.herodotus.portal.shelves import BOXED, NAMED
from tests.herodotus.portal.test_save_pages import OwnSaves

THERE = "http://192.0.2.66:5484"
DATE = "20260101000000"
DAY = "Thu, 01 Jan 2026 00:00:00 GMT"
SCRIPT = b"<script>fetch('/status')</script>"
HARMFUL = {
    "Set-Cookie": "a=1; Path=/",
    "Clear-Site-Data": '"*"',
    "Service-Worker-Allowed": "/",
    "Strict-Transport-Security": "max-age=99999999",
    "Content-Security-Policy": "default-src *; script-src * 'unsafe-inline'; sandbox allow-same-origin allow-scripts",
    "X-Frame-Options": "ALLOWALL",
    "Access-Control-Allow-Origin": "https://evil.example",
    "Access-Control-Allow-Credentials": "true",
    "Alt-Svc": 'h3="evil.example:443"',
    "Refresh": "0;url=https://evil.example/",
    "Reporting-Endpoints": 'x="https://evil.example/"',
    "WWW-Authenticate": 'Basic realm="herodotus"',
    "Content-Disposition": 'attachment; filename="a.exe"',
    "Etag": '"ours"',
    "X-Herodotus-Peer": "-".join(["aaaa"] * 13),
    "X-Herodotus-Confirmed": "true",
    "Link": "<https://evil.example/s.css>; rel=stylesheet, </x>; rel=preload; as=script",
    "Location": "https://evil.example/",
    "Content-Length": "5",
    "Vary": "*",
}  # fmt: skip
ROWS, RECORD = "/web/*/", "/api/v1/records/warc"


def said(body: bytes = SCRIPT, kind: str = "text/html", status: int = 200, **headers: str) -> Answer:
    given = HARMFUL | {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=HTTPStatus(status), content_type=kind, body=body, headers=given)


class Hostile:
    """Says whatever it wants, and notes what it was asked."""

    def __init__(self, answer: Answer | Callable[[Request], Answer | None] | None) -> None:
        self._answer = answer
        self.asked: list[Request] = []

    async def holders(self, url: str) -> tuple[PortalAddress, ...]:
        return (PortalAddress(origin=THERE, name="bbbb-bbbb"),)

    async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
        self.asked.append(request)
        return self._answer(request) if callable(self._answer) else self._answer


def telling(library: Library, rows: bytes = b"", record: bytes = b"") -> Hostile:
    """As the library's peer, in harmful words, and with other rows and another record where they are given."""

    def lie(request: Request) -> Answer | None:
        there = Request(target=request.target, headers={"host": HOST, "accept": request.header("accept")})
        honest = anyio.run(library.handlers.answer, there)
        body = (rows if request.path.startswith(ROWS) else record) or honest.body
        return said(body, honest.content_type)

    answers: dict[str, Answer | None] = {}

    def known(request: Request) -> Answer | None:
        return answers.get(request.target)

    for target in (f"{ROWS}{HOME}", f"{RECORD}?url=https%3A%2F%2Fexample.org%2F&date={DATE}"):
        answers[target] = lie(Request(target=target, headers={"accept": "application/json"}))
    return Hostile(known)


def portal_of(peer: Hostile) -> Handlers:
    library = Library()
    elsewhere = Elsewhere(peer, peer, Machine(), now=lambda: 0.0, catalogue=lambda: library.catalogue)
    pages = ArchivePages(library.shelf, elsewhere=elsewhere, peer="us")
    return Handlers(library.status, pages)


def get(peer: Hostile, target: str, **headers: str) -> Answer:
    given = {"host": HOST} | {name.replace("_", "-"): value for name, value in headers.items()}
    return anyio.run(portal_of(peer).answer, Request(target=target, headers=given, client="192.0.2.9"))


@pytest.fixture(scope="module")
def page() -> Room:
    return Room(response(HOME, "20260101", SCRIPT))


def check_ours(answer: Answer, own: Answer) -> None:
    """Nothing but what is said of whose word it is comes on top of what we say of captures of our own."""
    headers = {name: value for name, value in answer.headers.items() if not name.startswith("X-Herodotus")}
    expected = {name: value for name, value in own.headers.items() if not name.startswith("X-Herodotus")}
    differing = {name for name in headers.keys() | expected if headers.get(name) != expected.get(name)}
    assert differing <= {"Cache-Control", "ETag"}
    assert answer.headers["X-Herodotus-Peer"] == "bbbb-bbbb"
    assert answer.headers["X-Herodotus-Confirmed"] == "false"
    told = json.dumps([dict(answer.headers), answer.repeated])
    assert "evil.example" not in told
    assert THERE not in told


@pytest.mark.parametrize("flag", ["", "if_", "mp_", "im_", "js_", "cs_", "oe_", "id_", "ir_"])
def test_an_archived_page_of_another_peer_is_kept_in_as_one_of_ours(flag: str, page: Room) -> None:
    target = f"/web/{DATE}{flag}/{HOME}"
    answer = get(telling(page), target)
    own = anyio.run(page.handlers.answer, Request(target=target, headers={"host": HOST}))
    check_ours(answer, own)
    assert (answer.status, answer.content_type) == (own.status, own.content_type)
    assert "allow-same-origin" not in answer.headers["Content-Security-Policy"]


@pytest.mark.parametrize(
    "target",
    [f"/web/*/{HOME}", f"/web/timemap/link/{HOME}", f"/web/timemap/json/{HOME}", f"/cdx/search/cdx?url={HOME}",
     f"/wayback/available?url={HOME}", f"/web/2026/{HOME}", f"/web/{HOME}"],
)  # fmt: skip
def test_lists_are_made_here_and_nothing_of_theirs_is_passed_on(target: str, page: Room) -> None:
    answer = get(telling(page), target)
    own = anyio.run(page.handlers.answer, Request(target=target, headers={"host": HOST}))
    check_ours(answer, own)
    assert (answer.status, answer.content_type) == (own.status, own.content_type)


def test_another_peer_is_told_nothing_of_the_reader(page: Room) -> None:
    peer = telling(page)
    secret = {"cookie": "a=1", "authorization": "Bearer x", "referer": "y", "user_agent": "z"}
    assert get(peer, f"/web/{DATE}/{HOME}", sec_fetch_dest="document", **secret).status == 200
    assert [set(one.headers) for one in peer.asked] == [
        {"accept", "x-herodotus-relayed"}, {"x-herodotus-relayed"},
    ]  # fmt: skip


def test_at_a_label_another_peers_page_is_shown_as_our_own_is(page: Room) -> None:
    peer = telling(page)
    headers = {"host": f"{DATE}-s-example-org.localhost:5484", "sec-fetch-dest": "iframe"}
    shown = anyio.run(portal_of(peer).answer, Request(target="/", headers=headers, client="192.0.2.9"))
    assert shown.status == 200
    assert "frame-ancestors http://localhost:5484" in shown.headers["Content-Security-Policy"]
    assert shown.headers["X-Herodotus-Confirmed"] == "false"


ROW = {"url": HOME, "date": "2026-01-01T00:00:00Z", "digest": f"sha256:{'0' * 64}", "status": 200,
       "mime": "text/html", "first_seen": "2026-01-01T00:00:00Z", "last_seen": "2026-01-01T00:00:00Z", "visits": 0,
       "size": 5}  # fmt: skip


@pytest.mark.parametrize(
    "body",
    [SCRIPT, b"[]", b"{}", b"[1]", b"[{}]", b"[" * 100_000, json.dumps([ROW | {"first_seen": "x"}]).encode(),
     json.dumps([ROW | {"digest": "sha256:x"}]).encode(), json.dumps([ROW | {"status": "200"}]).encode(),
     json.dumps([ROW] * 20_001).encode(), json.dumps([ROW | {"url": "http://evil.example/"}]).encode(),
     json.dumps([ROW | {"url": "https://example.org/other"}]).encode(), json.dumps([ROW | {"url": 7}]).encode()],
)  # fmt: skip
@pytest.mark.parametrize(
    "target", [f"/web/*/{HOME}", f"/web/{HOME}", f"/web/{DATE}/{HOME}", "/web/example.org"]
)
def test_rows_that_are_none_or_of_another_address_make_no_history(body: bytes, target: str) -> None:
    answer = get(Hostile(said(body, "application/json")), target)
    assert (answer.status, "Location" in answer.headers) == (404, False)
    assert SCRIPT not in answer.body


def test_words_in_rows_are_words_and_nothing_that_runs() -> None:
    evil = dict.fromkeys(("mime", "door", "fetched_by", "permitted_by", "sha1"), "<script>")
    peer = Hostile(said(json.dumps([ROW | evil]).encode(), "application/json"))
    for target in (f"/web/*/{HOME}", f"/cdx?url={HOME}", f"/web/timemap/cdxj/{HOME}"):
        answer = get(peer, target)
        assert answer.status == 200
        assert b"<script" not in answer.body


def test_a_history_is_weighed_before_it_is_read_and_read_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("herodotus.portal.lent_histories.HISTORY_BYTES_MAX", 1_000)
    rows = json.dumps([ROW]).encode()
    are_main: list[bool] = []

    def noted(url: str) -> bytes:
        are_main.append(threading.current_thread() is threading.main_thread())
        return position_of(url)

    monkeypatch.setattr("herodotus.portal.lent_histories.position_of", noted)
    for size, status in ((1_000, 200), (1_001, 404)):
        assert get(Hostile(said(rows.ljust(size), "application/json")), f"/web/*/{HOME}").status == status
    assert are_main == [False]


def gzipped(*parts: bytes) -> bytes:
    return b"".join(gzip.compress(part) for part in parts)


def forged_records(page: Room) -> dict[str, bytes]:
    honest = page.ask(f"{RECORD}?url={HOME}&date={DATE}").body
    plain = gzip.decompress(honest)
    other = Room(response(HOME, "20260101", b"<p>another body")).ask(f"{RECORD}?url={HOME}&date={DATE}").body
    return {
        "nothing": b"",
        "no record": SCRIPT,
        "another body": other,
        "another body under the digest": gzipped(plain.replace(SCRIPT, SCRIPT.upper())),
        "another address": gzipped(plain.replace(b"https://example.org/", b"https://example.net/")),
        "another day": gzipped(plain.replace(b"2026-01-01T", b"2026-01-02T")),
        "cut off": honest[:-20],
        "more than fits": gzipped(plain, bytes(40 << 20)),
        "a bomb": gzipped(bytes(200 << 20)),
        "broken companions": honest + gzipped(b"WARC/1.1\r\nWARC-Type: request\r\n\r\n"),
    }


def test_a_record_that_is_not_what_was_told_is_not_shown(page: Room) -> None:
    for name, record in forged_records(page).items():
        answer = get(telling(page, record=record or b"\0"), f"/web/{DATE}id_/{HOME}")
        assert answer.status == 503, name
        assert SCRIPT not in answer.body


def test_a_capture_that_is_said_to_be_larger_than_any_is_not_fetched() -> None:
    rows = json.dumps([ROW | {"size": 33 << 20}]).encode()
    peer = Hostile(said(rows, "application/json"))
    answer = get(peer, f"/web/{DATE}/{HOME}")
    assert (answer.status, len(peer.asked)) == (503, 1)
    assert b"34,603,008 bytes" in answer.body


def test_busy_holders_are_told_of_in_our_words() -> None:
    answer = get(Hostile(said(status=503)), f"/web/{DATE}/{HOME}")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")
    assert SCRIPT not in answer.body


class NoSaves:
    async def save(self, url: str) -> SaveOutcome:
        raise AssertionError("the owner was asked")


@pytest.mark.parametrize(
    ("answer", "status"),
    [
        (said(b'{"detail": "<script>no</script>"}', "application/problem+json", 403), 403),
        (said(b'{"detail": "soon"}', "application/problem+json", 202, Retry_After="7"), 202),
        (said(status=302, Location=f"/web/{DATE}/{HOME}", X_Herodotus_Save="<b>"), 302),
    ],
)
def test_what_another_peer_saved_is_told_in_our_words(answer: Answer, status: int) -> None:
    peer = Hostile(answer)
    room = SavePages(NoSaves(), lambda: 0.0, directions=peer, relay=peer)
    headers = {"host": HOST, "accept": "text/html", "cookie": "a=1"}
    request = Request(target=f"/save/{HOME}", headers=headers, client="192.0.2.9")
    told = anyio.run(room.answer, Asked(request=request, origin=ORIGIN))
    assert told is not None
    assert told.status == status
    assert b"<script>" not in told.body
    assert set(peer.asked[0].headers) == {"accept", "x-herodotus-relayed"}
    assert not {"Set-Cookie", "Refresh", "Clear-Site-Data"} & set(told.headers)
    assert told.headers.get("X-Herodotus-Save", "saved") == "saved"


def test_a_long_sentence_about_a_saved_page_is_not_read() -> None:
    peer = Hostile(said(b'{"detail": "no"}'.ljust(TOLD_BYTES_MAX + 1), "application/problem+json", 403))
    own = OwnSaves()
    room = SavePages(own, lambda: 0.0, directions=peer, relay=peer)
    request = Request(target=f"/save/{HOME}", headers={"host": HOST}, client="192.0.2.9")
    told = anyio.run(room.answer, Asked(request=request, origin=ORIGIN))
    assert told is not None
    assert (told.status, own.urls) == (302, [HOME])


def test_a_page_saved_elsewhere_is_the_one_that_was_asked_for() -> None:
    evil = said(status=302, Location=f"/web/{DATE}/http://evil.example/")
    peer, own = Hostile(evil), OwnSaves()
    room = SavePages(own, lambda: 0.0, directions=peer, relay=peer)
    request = Request(target=f"/save/{HOME}", headers={"host": HOST}, client="192.0.2.9")
    told = anyio.run(room.answer, Asked(request=request, origin=ORIGIN))
    assert told is not None
    assert (told.headers["Location"].endswith(f"/{HOME}"), own.urls) == (True, [HOME])


def test_holders_that_say_nothing_do_not_keep_a_page_from_being_saved() -> None:
    class Silent(Hostile):
        async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
            await anyio.sleep_forever()
            raise AssertionError

    peer, own = Silent(None), OwnSaves()
    room = SavePages(own, lambda: 0.0, directions=peer, relay=peer)
    request = Request(target=f"/save/{HOME}", headers={"host": HOST}, client="192.0.2.9")

    async def work() -> float:
        started = anyio.current_time()
        assert await room.answer(Asked(request=request, origin=ORIGIN)) is not None
        return anyio.current_time() - started

    waited = anyio.run(work, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)})
    assert RELAYED_S <= waited < RELAYED_S + 1
    assert own.urls == [HOME]


# -- over a socket ----------------------------------------------------------------------------------------


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


ASKED = Request(
    target="/web/x",
    headers={"cookie": "secret", "authorization": "secret", "referer": "secret", "user-agent": "secret",
             "x-forwarded-for": "secret", "x-herodotus-relayed": "1"},
)  # fmt: skip


async def fetched(
    reply: bytes, *, body_bytes_max: int = 1_000_000, heard: bytearray | None = None
) -> Answer | None:
    """By the real relay, from a peer that sends just these bytes. What it hears is put into `heard`."""
    found: list[Answer | None] = []
    async with (
        await anyio.create_tcp_listener(local_host="127.0.0.1") as listener,
        anyio.create_task_group() as tasks,
    ):
        port = listener.extra(anyio.abc.SocketAttribute.local_port)

        async def serve(stream: anyio.abc.SocketStream) -> None:
            async with stream:
                question = await stream.receive()
                if heard is not None:
                    heard.extend(question)
                try:
                    await stream.send(reply)
                except anyio.BrokenResourceError:
                    return

        async def ask() -> None:
            relay = HttpRelay(body_bytes_max=body_bytes_max)
            async with relay.opened():
                with anyio.fail_after(30):
                    found.append(await relay.fetch(PortalAddress(origin=f"http://127.0.0.1:{port}"), ASKED))
            tasks.cancel_scope.cancel()

        tasks.start_soon(listener.serve, serve)
        tasks.start_soon(ask)
    return found[0]


@pytest.mark.anyio
@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 2000000\r\n\r\n" + b"x" * 2_000_000,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        + (b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n") * 20,
        b"HTTP/1.1 299 What\r\nContent-Length: 0\r\n\r\n",
        b"rubbish\r\n\r\n",
        b"",
    ],
    ids=["cut", "a long head", "a long body", "many chunks", "no status", "no HTTP", "nothing"],
)
async def test_what_is_no_whole_answer_of_bounded_size_is_none(reply: bytes) -> None:
    assert await fetched(reply) is None


@pytest.mark.anyio
async def test_another_peer_hears_nothing_of_the_reader_and_is_asked_for_plain_bytes() -> None:
    heard = bytearray()
    assert await fetched(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", heard=heard) is not None
    said_of_it = {line.partition(b":")[0].lower() for line in bytes(heard).split(b"\r\n")[1:-2]}
    assert said_of_it == {b"host", b"accept", b"accept-encoding", b"user-agent", b"x-herodotus-relayed"}
    assert b"accept-encoding: identity\r\n" in bytes(heard).lower()
    assert b"secret" not in heard


@pytest.mark.anyio
async def test_all_types_that_a_peer_names_are_seen() -> None:
    reply = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\ncontent-TYPE: text/html\r\nContent-Length: 2\r\n\r\nab"
    answer = await fetched(reply)
    assert answer is not None
    assert (answer.content_type, answer.body) == ("text/plain, text/html", b"ab")


# -- in a browser -----------------------------------------------------------------------------------------

EVIL = b"""<!DOCTYPE html><title>Page</title><body><script>
var gained = [];
function tried(name, work) { return Promise.resolve().then(work).then(g => { if (g) gained.push(name); }, () => {}); }
Promise.all([
  tried("origin", () => !URL.createObjectURL(new Blob([])).startsWith("blob:null")),
  tried("cookie", () => { document.cookie = "a=1"; return /Set|a=1; /.test(document.cookie); }),
  tried("status", () => fetch("/status").then(a => a.ok)),
  tried("api", () => fetch("/api/v1/status").then(a => a.ok)),
  tried("worker", () => navigator.serviceWorker.register("/web/20260101000000js_/https://example.org/sw.js")),
  tried("top", () => { top.location = "https://evil.example/"; return false; }),
  tried("live", () => fetch("https://evil.example/").then(a => a.ok)),
]).then(() => { document.title = gained.length ? "Gained " + gained : "Nothing"; });
</script></body>"""


@pytest.mark.e2e
@pytest.mark.needs("chromium")
@pytest.mark.anyio
@pytest.mark.parametrize(("host", "gained"), [(BOXED, "Nothing"), (NAMED, "Gained origin")])
async def test_a_hostile_peer_gains_nothing_in_a_browser(tmp_path: Path, host: str, gained: str) -> None:
    """By names a page has an origin: that of its own label."""
    peer = await anyio.to_thread.run_sync(lambda: telling(Room(response(HOME, "20260101", EVIL))))
    library = await anyio.to_thread.run_sync(Library)
    elsewhere = Elsewhere(peer, peer, Machine(), now=lambda: 0.0, catalogue=lambda: library.catalogue)
    rooms = [DiffPages(library.shelf, ClientLimits(lambda: 0.0), elsewhere)]
    handlers = Handlers(library.status, ArchivePages(library.shelf, elsewhere=elsewhere), rooms=rooms)
    made = Portal(HttpSettings(listen=HostPort(host=host, port=0)), handlers, no_cache())
    async with made.serving(stop_s=0.5), browser(tmp_path) as window:
        base = f"http://{host}:{made.endpoint.port}"
        ours = re.compile(rf"{base}/web/|http://[0-9a-z-]+\.localhost:{made.endpoint.port}/")
        await window.visit(f"{base}/web/{DATE}/{HOME}")
        inside = await window.until("/^(Gained|Nothing)/.test(document.title)", framed=True)
        assert inside != window.session
        assert await window.run("document.title", inside) == gained
        assert await window.run("location.href") == f"{base}/web/{DATE}/{HOME}"
        assert await window.run("document.cookie") == ""
        await window.visit(f"{base}/web/{DATE}id_/{HOME}")
        await window.until("document.title === 'Page' && document.readyState === 'complete'", anywhere=False)
        assert await window.run("[self.origin, typeof gained].join()") == "null,undefined"  # it was not run
        await window.visit(f"{base}/web/diff/{DATE}/{DATE}/{HOME}")
        await window.until("document.readyState === 'complete'", anywhere=False)
        assert await window.run("typeof gained") == "undefined"
        sent = [one for one in window.asked if one not in window.blocked and not ours.match(one)]
        assert [one for one in sent if not one.endswith("/favicon.ico")] == []
