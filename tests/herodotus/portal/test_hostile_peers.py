"""What can a peer do to the readers of another, whose portal passes on what it says? Lie about the past, no more."""

import json
import threading
from collections.abc import Callable
from dataclasses import replace
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
from herodotus.portal.answer import Answer
from herodotus.portal.archive_pages import ArchivePages, Asked
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.differences import DiffPages
from herodotus.portal.handlers import Handlers
from herodotus.portal.http_relay import HttpRelay
from herodotus.portal.other_holders import RELAYED_S, Elsewhere, PortalAddress
from herodotus.portal.relayed_answers import Adopting, adopted_words
from herodotus.portal.replay import ReplayPlace
from herodotus.portal.request import Request
from herodotus.portal.save_pages import TOLD_BYTES_MAX, SavePages
from tests.herodotus.portal.browser import browser
from tests.herodotus.portal.library import HOME, HOST, ORIGIN, SITE, Library, no_cache, response
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
    "Cross-Origin-Opener-Policy": "unsafe-none",
    "Cross-Origin-Resource-Policy": "cross-origin",
    "Public-Key-Pins": "x",
    "Alt-Svc": 'h3="evil.example:443"',
    "Refresh": "0;url=https://evil.example/",
    "SourceMap": "https://evil.example/",
    "NEL": "{}",
    "Report-To": "{}",
    "Reporting-Endpoints": 'x="https://evil.example/"',
    "WWW-Authenticate": 'Basic realm="herodotus"',
    "Content-Disposition": 'attachment; filename="a.exe"',
    "Cache-Control": "public, max-age=999999999, immutable",
    "Etag": '"ours"',
    "X-Herodotus-Peer": "-".join(["aaaa"] * 13),
    "Link": "<https://evil.example/s.css>; rel=stylesheet, </x>; rel=preload; as=script",
    "Content-Length": "5",
    "Transfer-Encoding": "chunked",
    "Vary": "*",
    "Expires": "x",
    "Content-type": "text/html",
}  # fmt: skip
OURS = {
    "content-security-policy", "referrer-policy", "permissions-policy", "access-control-allow-origin",
    "cross-origin-resource-policy", "cross-origin-opener-policy", "x-robots-tag", "x-dns-prefetch-control",
    "x-content-type-options", "memento-datetime", "link", "content-location", "cache-control", "vary", "etag",
    "accept-ranges", "x-herodotus-peer", "location", "content-disposition", "x-herodotus-save", "content-encoding",
}  # fmt: skip


def said(body: bytes = SCRIPT, kind: str = "text/html", status: int = 200, **headers: str) -> Answer:
    given = HARMFUL | {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status=HTTPStatus(status), content_type=kind, body=body, headers=given)


def capture(body: bytes = SCRIPT, kind: str = "text/html", status: int = 200, **headers: str) -> Answer:
    return said(body, kind, status, Memento_Datetime=DAY, **headers)


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


def gateway(peer: Hostile, replay: ReplayPlace | None = None) -> Handlers:
    library = Library()
    elsewhere = Elsewhere(peer, peer, Machine(), now=lambda: 0.0, is_gateway=True, replay=replay)
    pages = ArchivePages(library.shelf, elsewhere=elsewhere, peer="us", replay=replay)
    return Handlers(library.status, pages)


def get(
    answer: Answer | Callable[[Request], Answer | None] | None,
    target: str,
    method: str = "GET",
    **headers: str,
) -> Answer:
    given = {"host": HOST} | {name.replace("_", "-"): value for name, value in headers.items()}
    request = Request(method=method, target=target, headers=given, client="192.0.2.9")
    return anyio.run(gateway(Hostile(answer)).answer, request)


def check_ours(answer: Answer) -> None:
    names = [name.lower() for name in answer.headers]
    assert set(names) <= OURS, set(names) - OURS
    assert len(names) == len(set(names))
    told = json.dumps([dict(answer.headers), answer.repeated])
    assert "evil.example" not in told
    assert '"aaaa-' not in told
    assert THERE not in told
    assert "\\n" not in told


def policy(answer: Answer) -> dict[str, str]:
    parts = answer.headers["Content-Security-Policy"].split(";")
    return {name: rest for name, _, rest in (part.strip().partition(" ") for part in parts)}


@pytest.mark.parametrize("flag", ["", "if_", "mp_", "im_", "js_", "cs_", "oe_", "id_", "ir_"])
@pytest.mark.parametrize("kind", ["text/html", "image/svg+xml", "text/xml", "application/pdf", "", "x"])
def test_an_archived_page_of_another_peer_is_kept_in_as_one_of_ours(flag: str, kind: str) -> None:
    answer = get(capture(kind=kind), f"/web/{DATE}{flag}/{HOME}")
    check_ours(answer)
    said_of_it = policy(answer)
    assert "allow-same-origin" not in said_of_it["sandbox"]
    assert ("allow-scripts" in said_of_it["sandbox"]) is (flag not in ("id_", "ir_"))
    assert said_of_it["connect-src"].split()[0] == said_of_it["form-action"] == f"{ORIGIN}/web/"
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert answer.headers["Memento-Datetime"] == DAY
    assert answer.content_type == (kind if "/" in kind else "application/octet-stream")


def test_a_window_gets_a_page_of_ours_around_it_and_nothing_of_theirs() -> None:
    peer = Hostile(capture(Link=f'<{THERE}/web/20250101000000/{HOME}>; rel="first memento"'))
    headers = {
        "host": HOST,
        "sec-fetch-dest": "document",
        "cookie": "a=1",
        "authorization": "Bearer x",
        "referer": "y",
    }
    answer = anyio.run(gateway(peer).answer, Request(target=f"/web/{DATE}/{HOME}", headers=headers))
    check_ours(answer)
    assert SCRIPT not in answer.body
    assert f'src="/web/{DATE}mp_/{HOME}"'.encode() in answer.body
    assert f'href="/web/20250101000000/{HOME}"'.encode() in answer.body
    assert policy(answer)["frame-src"] == f"{ORIGIN}/web/"
    assert [one.method for one in peer.asked] == ["HEAD"]
    assert set(peer.asked[0].headers) == {"accept-encoding", "x-herodotus-relayed"}  # nothing of the reader's


def test_pages_with_an_origin_of_their_own_have_it_there_too() -> None:
    place = ReplayPlace(origin="http://pages.example", portal_origin=ORIGIN)
    peer = Hostile(capture())
    frame = anyio.run(
        gateway(peer, place).answer,
        Request(target=f"/web/{DATE}/{HOME}", headers={"host": HOST, "sec-fetch-dest": "document"}),
    )
    assert f'src="http://pages.example/web/{DATE}mp_/{HOME}"'.encode() in frame.body
    elsewhere = Elsewhere(peer, peer, Machine(), now=lambda: 0.0, is_gateway=True)
    pages = ArchivePages(Library().shelf, elsewhere=elsewhere, replay=place)
    request = Request(target=f"/web/{DATE}mp_/{HOME}", headers={"host": "pages.example"})
    shown = anyio.run(pages.answer, Asked(request=request, origin="http://pages.example", is_replay=True))
    assert shown is not None
    assert "allow-same-origin" in policy(shown)["sandbox"]
    check_ours(shown)


@pytest.mark.parametrize(
    "answer",
    [
        said(),  # no capture
        said(Memento_Datetime="Fri, 02 Jan 2026 00:00:00 GMT"),  # of another day
        said(Memento_Datetime="x"),
        capture(Content_Encoding="zstd"),
        capture(Content_Encoding="gzip, gzip"),
        capture(status=206, Content_Range="bytes 0-4/5"),
        said(status=302, Location="https://evil.example/"),
        said(status=302, Location="//evil.example/web/20260101000000/https://a.example/"),
        said(status=302, Location="/status"),
        said(status=302, Location="/web/20260101000000/javascript:alert(1)"),
        said(status=302, Location="/save/https://a.example/"),
        said(status=302, Location=f"{THERE}.evil.example/web/{DATE}/{HOME}"),
        said(status=302, Location=f"/web/{DATE}/{HOME}\r\nSet-Cookie: a=1"),
        said(status=303),
        said(status=401),
        said(status=500),
        None,
    ],
    ids=lambda answer: (
        "none" if answer is None else f"{answer.status} {list(answer.headers.items())[-1]}"[:60]
    ),
)
@pytest.mark.parametrize("flag", ["", "im_"])
def test_what_is_no_answer_to_the_question_is_none(answer: Answer | None, flag: str) -> None:
    found = get(answer, f"/web/{DATE}{flag}/{HOME}")
    assert found.status == 404
    assert SCRIPT not in found.body


def evil(status: int = 302) -> Answer:
    return said(status=status, Location=f"/web/{DATE}/http://evil.example/")


@pytest.mark.parametrize(
    "target", [f"/web/{HOME}", f"/web/2026/{HOME}", f"/web/{DATE}/{HOME}", "/web/example.org"]
)
def test_nobody_is_led_to_another_address_than_the_one_asked_for(target: str) -> None:
    answer = get(evil(), target)
    assert (answer.status, "Location" in answer.headers) == (404, False)
    for same in ("https://example.org/", "http://example.org/", "http://www.example.org/"):
        led = get(said(status=302, Location=f"{THERE}/web/{DATE}/{same}"), target)
        assert (led.status, led.headers["Location"]) == (302, f"/web/{DATE}/{same}")


@pytest.mark.parametrize("status", [401, 407, 204, 205, 304, 421, 299, 100])
def test_no_status_of_another_peer_makes_a_browser_do_anything(status: int) -> None:
    try:
        answer = get(capture(status=status), f"/web/{DATE}mp_/{HOME}")
    except ValueError:  # 299 is no status that has a name
        return
    assert answer.status in (200, 404)
    check_ours(answer)


def test_an_archived_redirect_and_an_archived_error_are_passed_on() -> None:
    moved = get(capture(status=301, Location=f"/web/{DATE}/{SITE}/b"), f"/web/{DATE}/{HOME}")
    assert (moved.status, moved.headers["Location"]) == (301, f"/web/{DATE}/{SITE}/b")
    away = get(capture(status=301, Location="https://evil.example/"), f"/web/{DATE}/{HOME}")
    assert (away.status, "Location" in away.headers) == (200, False)
    missing = get(capture(status=404), f"/web/{DATE}/{HOME}")
    assert (missing.status, missing.headers["Memento-Datetime"]) == (404, DAY)


def test_links_and_archived_fields_are_made_anew() -> None:
    link = f'<{THERE}/web/20250101000000/{HOME}>; rel="first memento", <https://evil.example/>; rel="next"'
    answer = replace(
        capture(Link=link),
        repeated=(
            ("X-Archive-Orig-Server", "a"), ("X-Archive-Orig-A b", "c"), ("Set-Cookie", "d=e"),
            ("X-Archive-Orig-Long", "x" * 9_000), ("X-Archive-Orig-Line", "a\r\nb\0"),
        ),
    )  # fmt: skip
    shown = get(answer, f"/web/{DATE}mp_/{HOME}")
    check_ours(shown)
    assert f'<{ORIGIN}/web/20250101000000/{HOME}>; rel="first memento"' in shown.headers["Link"]
    assert shown.repeated == (("X-Archive-Orig-Server", "a"), ("X-Archive-Orig-Line", "a  b "))


def test_a_part_is_passed_on_if_it_is_what_it_says() -> None:
    def peer(request: Request) -> Answer | None:
        assert request.header("range") == "bytes=2-4"
        assert request.header("accept-encoding") == "identity"
        return capture(b"cde", "video/mp4", 206, Content_Range="bytes 2-4/9")

    answer = get(peer, f"/web/{DATE}oe_/{HOME}", range="bytes=2-4", accept_encoding="gzip")
    assert (answer.status, answer.headers.get("Content-Range")) == (206, "bytes 2-4/9")
    for lie in ("bytes 2-5/9", "bytes 4-2/9", "bytes 7-9/9", "x"):
        wrong = capture(b"cde", "video/mp4", 206, Content_Range=lie)
        assert get(wrong, f"/web/{DATE}oe_/{HOME}", range="bytes=2-4").status == 404


def test_who_gave_it_is_who_was_asked_whatever_he_says() -> None:
    right = "-".join(["bbbb"] * 13)
    assert get(capture(), f"/web/{DATE}mp_/{HOME}").headers["X-Herodotus-Peer"] == "bbbb-bbbb"
    told = get(capture(X_Herodotus_Peer=right), f"/web/{DATE}mp_/{HOME}")
    assert told.headers["X-Herodotus-Peer"] == right


# -- what is no archived page -----------------------------------------------------------------------------

DATA = [f"/web/timemap/link/{HOME}", f"/web/timemap/json/{HOME}", f"/cdx/search/cdx?url={HOME}",
        f"/wayback/available?url={HOME}"]  # fmt: skip


@pytest.mark.parametrize("target", DATA)
def test_lists_are_data_and_nothing_that_runs(target: str) -> None:
    assert get(said(), target).body != SCRIPT  # HTML is no list
    answer = get(said(kind="application/json", body=b'["%s/web/1"]' % THERE.encode()), target)
    check_ours(answer)
    assert (answer.status, answer.content_type) == (200, "application/json")
    assert answer.body == f'["{ORIGIN}/web/1"]'.encode()
    assert policy(answer) == {"default-src": "'none'", "sandbox": ""}
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    packed = get(said(kind="application/json", Content_Encoding="gzip"), target)
    assert packed.body != SCRIPT
    led = get(said(status=301, Location="https://evil.example/"), target)
    assert "Location" not in led.headers


ROW = {"url": "x", "date": "2026-01-01T00:00:00Z", "digest": f"sha256:{'0' * 64}", "status": 200, "mime": "text/html",
       "first_seen": "2026-01-01T00:00:00Z", "last_seen": "2026-01-01T00:00:00Z", "visits": 0, "size": 5}  # fmt: skip


def test_a_history_is_our_page_of_their_rows() -> None:
    peer = Hostile(said(json.dumps([ROW | {"mime": "<script>"}]).encode(), "application/json"))
    answer = anyio.run(
        gateway(peer).answer, Request(target=f"/web/*/{HOME}", headers={"host": HOST, "accept": "text/html"})
    )
    check_ours(answer)
    assert f'href="/web/{DATE}/{HOME}"'.encode() in answer.body
    assert b"<script>" not in answer.body
    assert policy(answer)["default-src"] == "'none'"
    assert peer.asked[0].header("accept") == "application/json"


@pytest.mark.parametrize(
    "body",
    [SCRIPT, b"[]", b"{}", b"[1]", b"[{}]", b"[" * 100_000, json.dumps([ROW | {"first_seen": "x"}]).encode(),
     json.dumps([ROW | {"digest": "sha256:x"}]).encode(), json.dumps([ROW | {"status": "200"}]).encode(),
     json.dumps([ROW] * 20_001).encode()],
)  # fmt: skip
def test_rows_that_are_none_make_no_history(body: bytes) -> None:
    assert get(said(body, "application/json"), f"/web/*/{HOME}", accept="text/html").status == 404


def test_a_browser_that_takes_rows_as_well_gets_the_page() -> None:
    peer = said(json.dumps([ROW]).encode(), "application/json")
    answer = get(peer, f"/web/*/{HOME}", accept="text/html,application/json;q=0.9")
    assert (answer.status, answer.content_type) == (200, "text/html; charset=utf-8")
    assert get(peer, f"/web/*/{HOME}", accept="application/json").content_type == "application/json"


def test_a_history_is_weighed_before_it_is_read_and_read_beside_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("herodotus.portal.relayed_answers.HISTORY_BYTES_MAX", 1_000)
    rows = json.dumps([ROW]).encode()
    are_main: list[bool] = []

    def noted(url: str) -> bytes:
        are_main.append(threading.current_thread() is threading.main_thread())
        return position_of(url)

    monkeypatch.setattr("herodotus.portal.relayed_answers.position_of", noted)
    for size, status in ((1_000, 200), (1_001, 404)):
        peer = said(rows.ljust(size), "application/json")
        assert get(peer, f"/web/*/{HOME}", accept="text/html").status == status
    assert are_main == [False]


def test_a_page_of_words_runs_nothing_and_sends_nothing() -> None:
    adopting = Adopting(there=THERE, here=ORIGIN)
    answer = adopted_words(said(), adopting)
    assert answer is not None
    check_ours(answer)
    said_of_it = policy(answer)
    assert (said_of_it["sandbox"], said_of_it["default-src"], said_of_it["form-action"]) == (
        "",
        "'none'",
        "'none'",
    )
    assert adopted_words(said(status=302, Location="https://evil.example/"), adopting) is None
    led = adopted_words(said(status=302, Location=f"/web/diff/{DATE}/{DATE}/{HOME}"), adopting)
    assert led is not None
    assert led.headers == {"Location": f"/web/diff/{DATE}/{DATE}/{HOME}"}


def test_busy_holders_are_told_of_in_our_words() -> None:
    answer = get(said(status=503), f"/web/{DATE}/{HOME}")
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
    peer, own = Hostile(evil()), OwnSaves()
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


def test_holders_that_say_nothing_hold_nobody_up_for_long() -> None:
    class Silent(Hostile):
        async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
            await anyio.sleep_forever()
            raise AssertionError

    handlers = gateway(Silent(None))

    async def work() -> float:
        started = anyio.current_time()
        answer = await handlers.answer(Request(target=f"/web/{DATE}im_/{HOME}", headers={"host": HOST}))
        assert answer.status == 404
        return anyio.current_time() - started

    waited = anyio.run(work, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)})
    assert RELAYED_S <= waited < RELAYED_S + 1


def test_an_honest_peer_is_passed_on_as_before() -> None:
    library = Library(response(HOME, "20260101", b"<p>there"))

    class Honest(Hostile):
        async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
            headers = {**request.headers, "host": THERE.removeprefix("http://")}
            return await library.handlers.answer(replace(request, headers=headers))

    handlers = gateway(Honest(None))
    for target, status in ((f"/web/{DATE}/{HOME}", 200), (f"/web/2026/{HOME}", 302), (f"/web/{HOME}", 302),
                           (f"/web/*/{HOME}", 200), *((one, 200) for one in DATA)):  # fmt: skip
        answer = anyio.run(handlers.answer, Request(target=target, headers={"host": HOST}))
        assert answer.status == status, target
        check_ours(answer)


# -- in a browser -----------------------------------------------------------------------------------------

EVIL = b"""<!DOCTYPE html><title>Page</title><body><script>
var gained = [];
function tried(name, work) { return Promise.resolve().then(work).then(g => { if (g) gained.push(name); }, () => {}); }
Promise.all([
  tried("origin", () => self.origin !== "null"),
  tried("cookie", () => { document.cookie = "a=1"; return /Set|a=1; /.test(document.cookie); }),
  tried("status", () => fetch("/status").then(a => a.text())),
  tried("api", () => fetch("/api/v1/status", {mode: "no-cors"}).then(() => "sent")),
  tried("worker", () => navigator.serviceWorker.register("/web/20260101000000js_/https://example.org/sw.js")),
  tried("top", () => { top.location = "https://evil.example/"; return false; }),
  tried("live", () => fetch("https://evil.example/").then(() => "sent")),
]).then(() => { document.title = gained.length ? "Gained " + gained : "Nothing"; });
</script></body>"""


@pytest.mark.e2e
@pytest.mark.needs("chromium")
@pytest.mark.anyio
async def test_a_hostile_peer_gains_nothing_in_a_browser(tmp_path: Path) -> None:
    library = await anyio.to_thread.run_sync(Library)
    peer = Hostile(lambda request: capture(b"" if request.method == "HEAD" else EVIL))
    elsewhere = Elsewhere(peer, peer, Machine(), now=lambda: 0.0, is_gateway=True)
    rooms = [DiffPages(library.shelf, ClientLimits(lambda: 0.0), elsewhere)]
    handlers = Handlers(library.status, ArchivePages(library.shelf, elsewhere=elsewhere), rooms=rooms)
    made = Portal(HttpSettings(listen=HostPort(host="127.0.0.1", port=0)), handlers, no_cache())
    async with made.serving(stop_s=0.5), browser(tmp_path) as window:
        base = f"http://127.0.0.1:{made.endpoint.port}"
        await window.visit(f"{base}/web/{DATE}/{HOME}")
        inside = await window.until("/^(Gained|Nothing)/.test(document.title)")
        assert inside != window.session
        assert await window.run("document.title", inside) == "Nothing"
        assert await window.run("location.href") == f"{base}/web/{DATE}/{HOME}"
        assert await window.run("document.cookie") == ""
        for target in (f"/web/diff/{DATE}/{DATE}/{HOME}", f"/web/{DATE}id_/{HOME}"):
            await window.visit(base + target)
            await window.until(
                "document.title === 'Page' && document.readyState === 'complete'", anywhere=False
            )
            assert (
                await window.run("[self.origin, typeof gained].join()") == "null,undefined"
            )  # it was not run
        sent = [
            one for one in window.asked if one not in window.blocked and not one.startswith(f"{base}/web/")
        ]
        assert [one for one in sent if not one.endswith("/favicon.ico")] == []
