"""Who may have a page saved? Programs and people, and no page of another site by its visitors' browsers."""

import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import anyio
import pytest

from herodotus.core.settings.sections import HttpSettings
from herodotus.portal import Portal
from herodotus.portal.other_holders import RELAYED
from tests.herodotus.portal.browser import browser
from tests.herodotus.portal.library import HOME, ORIGIN, SITE, no_cache, response
from tests.herodotus.portal.rooms import Ring, Room
from tests.herodotus.portal.test_save_pages import OwnSaves
from tests.herodotus.portal.test_server import LOOPBACK, exchange, request

FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
WINDOW = {"accept": "text/html,application/xhtml+xml", "user-agent": FIREFOX}
PICTURE = {"accept": "image/avif,image/webp,*/*", "user-agent": FIREFOX}


@pytest.mark.parametrize(
    ("headers", "method"),
    [
        ({}, "GET"),
        ({"user-agent": "waybackpy 3.0.6"}, "GET"),
        ({}, "POST"),
        ({**WINDOW, "sec-fetch-site": "none", "sec-fetch-mode": "navigate"}, "GET"),
        ({**WINDOW, "sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate"}, "GET"),
        ({**WINDOW, "origin": ORIGIN}, "POST"),
        ({**WINDOW, "origin": ORIGIN, "sec-fetch-site": "same-origin"}, "POST"),
    ],
    ids=["a program", "a client library", "a program's form", "typed", "a link of ours", "our form",
         "our form on a secure line"],
)  # fmt: skip
def test_programs_and_people_may(headers: dict[str, str], method: str) -> None:
    saves = OwnSaves()
    assert Room(saves=saves).ask(f"/save/{HOME}", headers, method).status == 302
    assert saves.urls == [HOME]


@pytest.mark.parametrize(
    ("headers", "method"),
    [
        (PICTURE, "GET"),
        ({**PICTURE, "sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors"}, "GET"),
        ({**WINDOW, "origin": "http://evil.example"}, "POST"),
        ({**WINDOW, "origin": "http://127.0.0.1:8000"}, "POST"),
        ({"origin": "http://evil.example"}, "GET"),
        ({**WINDOW, "sec-fetch-site": "cross-site"}, "POST"),
    ],
    ids=["a picture on plain HTTP", "a picture", "a form", "a form of another port", "a script", "no origin"],
)
def test_pages_of_other_sites_may_not(headers: dict[str, str], method: str) -> None:
    saves = OwnSaves()
    assert Room(saves=saves).ask(f"/save/{HOME}", headers, method).status == 403
    assert saves.urls == []


@pytest.mark.parametrize(
    "headers",
    [WINDOW, {**WINDOW, "sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"}],
    ids=["plain HTTP", "led here by another site"],
)
def test_a_window_that_may_have_been_led_here_is_asked_first(headers: dict[str, str]) -> None:
    saves = OwnSaves()
    room = Room(saves=saves)
    answer = room.ask(f"/save/{HOME}?a=<b>", headers)
    assert (answer.status, saves.urls) == (200, [])
    assert b'<form action="/save/" method="post">' in answer.body
    assert b'value="https://example.org/?a=%3Cb%3E"' in answer.body
    assert (
        "frame-ancestors 'none'" in answer.headers["Content-Security-Policy"]
    )  # or its button could be covered
    assert answer.headers["Referrer-Policy"] == "same-origin"  # or its form would say `Origin: null`
    assert answer.headers["Cache-Control"] == "no-store"


def test_the_form_names_the_address_in_its_body() -> None:
    saves = OwnSaves()
    room = Room(saves=saves)
    own = {**WINDOW, "origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}
    body = b"url=https%3A%2F%2Fexample.org%2Fa%3Fb%3Dc%26d"
    assert room.ask("/save/", own, "POST", body).status == 302
    assert saves.urls == [f"{SITE}/a?b=c&d"]
    for nothing in (b"", b"url=", b"url=mailto:a", b"\xff" * 99, b"&".join([b"a=b"] * 1_000)):
        assert room.ask("/save/", own, "POST", nothing).status == 400
    assert len(saves.urls) == 1


def test_what_a_form_asks_for_is_saved_by_the_peer_that_answers_for_it() -> None:
    ring, here, there = Ring(), ORIGIN, "http://192.0.2.11:5484"
    ring.holders_of = lambda url: (there,)
    saves = {here: OwnSaves(), there: OwnSaves()}
    rooms = {one: Room(ring=ring, origin=one, saves=saves[one]) for one in (here, there)}
    own = {**WINDOW, "origin": ORIGIN, "content-type": "application/x-www-form-urlencoded"}
    assert rooms[here].ask("/save/", own, "POST", b"url=https%3A%2F%2Fexample.org%2Fa%3Fb").status == 302
    assert (saves[here].urls, saves[there].urls) == ([], [f"{SITE}/a?b"])


def test_the_mark_of_another_peer_buys_a_share_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(saves=OwnSaves(), client="192.0.2.1")
    monkeypatch.setattr(room.rooms._saving, "_now", lambda: 7.0)
    statuses = [room.ask(f"/save/{SITE}/{n}", {RELAYED: "1"}).status for n in range(30)]
    assert statuses.count(HTTPStatus.FOUND) == 20
    assert set(statuses[20:]) == {429}


@pytest.mark.parametrize("takes_saves", [True, False])
def test_what_is_not_archived_can_be_asked_for_where_the_network_allows_it(takes_saves: bool) -> None:
    room = Room(response(f"{SITE}/a", "20260101", b"1"), saves=OwnSaves() if takes_saves else None)
    for target in (f"/web/*/{SITE}/b", f"/web/2026/{SITE}/b"):
        answer = room.ask(target, {"accept": "text/html"})
        assert answer.status == 404
        assert (b'method="post"' in answer.body) is takes_saves
        assert answer.headers["Referrer-Policy"] == ("same-origin" if takes_saves else "no-referrer")
    assert b'method="post"' not in room.ask(f"/web/*/{SITE}/a", {"accept": "text/html"}).body


# -- over real sockets ------------------------------------------------------------------------------------


@asynccontextmanager
async def served(room: Room) -> AsyncIterator[Portal]:
    portal = Portal(HttpSettings(listen=LOOPBACK), room.handlers, no_cache())
    with anyio.fail_after(120):
        async with portal.serving(stop_s=0.5):
            yield portal


def test_over_http_a_form_needs_the_name_by_which_it_asks() -> None:
    saves = OwnSaves()
    room = Room(saves=saves)
    form = b"url=https%3A%2F%2Fexample.org%2F"

    async def run() -> None:
        async with served(room) as portal:

            async def post(*headers: str) -> int:
                asked = request("/save/", "POST", f"Content-Length: {len(form)}", *headers)
                return (await exchange(portal, asked + form)).status

            assert await post("Origin: http://evil.example") == 403
            assert await post("Origin: null") == 403
            assert await post("Origin: https://127.0.0.1") == 403
            assert await post("Sec-Fetch-Site: cross-site") == 403
            assert saves.urls == []
            assert await post("Origin: http://127.0.0.1") == 302
            assert (
                await exchange(portal, request(f"/save/{HOME}", "GET", f"User-Agent: {FIREFOX}"))
            ).status == 403
            assert (
                await exchange(portal, request(f"/save/{HOME}", "GET", "User-Agent: curl/8"))
            ).status == 302
            assert saves.urls == [HOME, HOME]

    anyio.run(run)


class _OtherSite(BaseHTTPRequestHandler):
    """Everything by which a page can make a visitor's browser ask."""

    portal: ClassVar[str] = ""

    def do_GET(self) -> None:
        save = f"{self.portal}/save/http://victim.example"
        body = f"""<!DOCTYPE html><title>other</title><img src="{save}/picture"><script src="{save}/script"></script>
        <link rel="stylesheet" href="{save}/style"><iframe src="{save}/frame" name="inside"></iframe>
        <form id="form" method="post" action="{save}/form" target="inside"></form>
        <script>fetch("{save}/fetch", {{mode: "no-cors"}}).catch(function () {{}}).then(function () {{
          return fetch("{save}/post", {{mode: "no-cors", method: "POST", body: "url=http://victim.example/body"}});
        }}).catch(function () {{}}).then(function () {{
          document.getElementById("form").submit(); document.title = "done"; }});</script>""".encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        pass


@pytest.fixture
def other_site() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _OtherSite) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}"  # another site than 127.0.0.1
        server.shutdown()
        thread.join()


@pytest.mark.e2e
@pytest.mark.needs("chromium")
def test_in_a_browser_the_button_saves_and_another_site_s_page_does_not(
    tmp_path: Path, other_site: str
) -> None:
    saves = OwnSaves()
    room = Room(saves=saves)

    async def run() -> None:
        async with served(room) as portal, browser(tmp_path) as window:
            _OtherSite.portal = f"http://127.0.0.1:{portal.endpoint.port}"
            await window.visit(other_site)
            await window.until("document.title === 'done'")
            await window.visit(f"{_OtherSite.portal}/web/*/{SITE}/missing")
            await window.until(
                "document.readyState === 'complete' && !!document.querySelector('form[method=post] button')"
            )
            assert saves.urls == []
            await window.press("form[method=post] button")
            await window.until(
                f"location.pathname.indexOf('/{SITE}/missing') > 0 && location.pathname.indexOf('*') < 0"
            )

    anyio.run(run)
    assert saves.urls == [f"{SITE}/missing"]
