"""Can a reader walk through the old web in a real browser, and does nothing leave the archive?"""

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus.core.captures import Deposit
from tests.herodotus.operate.cli.processes import RunningPeer
from tests.herodotus.portal.browser import browser
from tests.herodotus.portal.library import HOME, SITE, response
from tests.herodotus.portal.shelves import peer_with

pytestmark = [pytest.mark.e2e, pytest.mark.needs("chromium"), pytest.mark.anyio]
DAYS = {"20260101060000": (200, 0, 0), "20260105060000": (0, 0, 200)}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def picture(red: int, green: int, blue: int) -> bytes:
    """A PNG of 40 x 40 points of one colour."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = (b"\0" + bytes((red, green, blue)) * 40) * 40
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 40, 40, 8, 2, 0, 0, 0))
        + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    )  # fmt: skip


FRONT = """<!DOCTYPE html><title>Front {day}</title><link rel=stylesheet href=/style.css>
<h1>Front of {day}</h1><img id=plain src="pictures/one.png" alt=""><p id=made></p>
<a id=next href="/second.html">second</a> <a href="https://live.example/">elsewhere</a>
<img src="https://tracker.example/spy.png">
<script>var i = new Image(); i.id = "scripted"; i.src = "/pictures/" + "two.png";
document.getElementById("made").appendChild(i);
fetch("https://tracker.example/beacon").catch(function () {{}});</script>"""


MIXED = """<!DOCTYPE html><title>Mixed</title><img src=/pictures/old.png><img src=/pictures/one.png>
<img src="/never.png"><a id=front href="/">front</a>"""


def site() -> Iterator[Deposit]:
    for day, colour in DAYS.items():
        red, _, blue = colour
        yield response(HOME, day, FRONT.format(day=day).encode())
        style = f"h1 {{ color: rgb({red}, 0, {blue}) }} body {{ border-image: url(pictures/one.png) }}"
        yield response(f"{SITE}/style.css", day, style.encode(), "text/css")
        yield response(f"{SITE}/pictures/one.png", day, picture(*colour), "image/png")
        yield response(f"{SITE}/pictures/two.png", day, picture(*colour), "image/png")
        second = f'<title>Second {day}</title><h1>Second of {day}</h1><a id=next href="third.html">third</a>'
        yield response(f"{SITE}/second.html", day, second.encode())
        third = f'<title>Third {day}</title><h1>Third of {day}</h1><a id=next href="/">front</a>'
        yield response(f"{SITE}/third.html", day, third.encode())
    yield response(f"{SITE}/mixed.html", "20260105060000", MIXED.encode())
    yield response(f"{SITE}/pictures/old.png", "20250503", picture(1, 2, 3), "image/png")
    yield response(f"{SITE}/attack.html", "20260101000000", ATTACKS.encode())
    yield response(f"{SITE}/sw.js", "20260101000000", b"self.x = 1", "text/javascript")


ATTACKS = """<!DOCTYPE html><title>Attack</title><h1>attack</h1><iframe name=inner></iframe>
<form id=form method=post action="/" target=inner><input name=a value=b></form>
<script>
var won = [], tried = 0, all = [];
function attempt(name, work) {
  function note(gain) { if (gain) won.push(name + ": " + gain); }
  tried += 1;
  all.push(Promise.resolve().then(work).then(note, function () {}));
}
var real = new URL(String(location)), portal = real.protocol + "//" + real.host;  // as the browser has it
attempt("origin", function () { return self.origin === portal && self.origin; });
attempt("api", function () {
  return fetch(portal + "/api/v1/status").then(function (a) { return a.ok && a.url.indexOf("/web/") < 0 && "read"; });
});
attempt("xhr", function () {
  return new Promise(function (done, failed) {
    var x = new XMLHttpRequest();
    x.onload = function () { done(x.status === 200 && "read"); };
    x.onerror = failed;
    x.open("GET", portal + "/healthz");
    x.send();
  });
});
attempt("worker", function () {
  var script = "/web/20260101000000js_/https://example.org/sw.js";
  return navigator.serviceWorker.register(script).then(function (one) { return one && one.scope; });
});
attempt("parent", function () { return parent !== self && parent.document.title; });
attempt("top", function () { top.location = portal + "/healthz"; return false; });
attempt("opener", function () { var w = open(portal + "/"); return w && w.document && w.document.title; });
attempt("post", function () { document.getElementById("form").submit(); return false; });
attempt("live", function () { new Image().src = "https://live.example/x.png"; return false; });
attempt("frame", function () { document.querySelector("iframe").src = portal + "/"; return false; });
Promise.all(all).then(function () { document.title = "Attacked " + tried + " " + JSON.stringify(won); });
</script>"""


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPeer]:
    with peer_with(tmp_path_factory.mktemp("walking"), *site()) as running:
        yield running


def outside(peer: RunningPeer, asked: list[str]) -> list[str]:
    return [one for one in asked if not one.startswith((f"{peer.http}/", "data:", "blob:", "about:"))]


async def test_a_reader_types_an_address_picks_a_day_and_follows_links(
    peer: RunningPeer, tmp_path: Path
) -> None:
    async with browser(tmp_path) as window:
        await window.visit(f"{peer.http}/")
        await window.until("document.querySelector('#box') !== null && document.readyState === 'complete'")
        await window.run("document.querySelector('#box').value = 'example.org'; document.forms[0].submit()")
        await window.until("document.title.startsWith('History of')")
        assert await window.run("document.querySelectorAll('td.stored a').length") == 2
        there = "document.title === 'Front 20260105060000' && document.readyState === 'complete'"
        front = await window.follow("td.stored a[href*='/20260105/']", window.session, there, framed=True)
        assert (
            await window.run("getComputedStyle(document.querySelector('h1')).color", front)
            == "rgb(0, 0, 200)"
        )
        await window.until(
            "document.getElementById('scripted') && document.getElementById('scripted').naturalWidth"
        )
        assert await window.run("document.getElementById('plain').naturalWidth", front) == 40
        for name in ("Second", "Third", "Front"):
            there = f"document.title === '{name} 20260105060000' && document.readyState === 'complete'"
            front = await window.follow("#next", front, there, framed=True)
        assert outside(peer, window.asked) == []
        shown = {one.split("/web/")[1].split("/")[0][:14] for one in window.asked if "/web/2" in one}
        assert "20260101060000" not in shown
        assert any("two.png" in one for one in window.asked)
        # A place on a page is found within the frame, too.
        await window.visit(f"{peer.http}/web/20260105000000/{SITE}/second.html#next")
        await window.until(
            "location.hash === '#next' && document.title === 'Second 20260105060000'", framed=True
        )


async def test_a_reader_is_told_that_all_there_is_is_newer(peer: RunningPeer, tmp_path: Path) -> None:
    async with browser(tmp_path) as window:
        words = "document.querySelector('header').innerText.includes('nearest newer version')"
        for asked, is_told in (("2025", "true"), ("2027", "false")):
            await window.visit(f"{peer.http}/web/{asked}/{HOME}")
            await window.until(
                "document.title.startsWith('Front 2026') && document.readyState === 'complete'"
            )
            assert await window.run(f"{words} === {is_told}"), asked


@pytest.mark.parametrize("flag", ["", "mp_"])
async def test_attacks_of_an_archived_page_gain_nothing(peer: RunningPeer, tmp_path: Path, flag: str) -> None:
    """In the frame that a reader sees, and when somebody opens the inner page as a window."""
    async with browser(tmp_path) as window:
        await window.visit(f"{peer.http}/web/20260101000000{flag}/{SITE}/attack.html")
        attacked = await window.until("document.title.startsWith('Attacked')")
        assert await window.run("document.title", attacked) == "Attacked 10 []"
        assert await window.run("location.pathname") != "/healthz"
        assert outside(peer, window.asked) == []
        functions = ("/api", "/healthz", "/status", "/save")
        assert [one for one in window.asked if one.removeprefix(peer.http).startswith(functions)] == []
        assert f"{peer.http}/" not in window.asked


async def test_the_banner_says_from_which_days_the_parts_are(peer: RunningPeer, tmp_path: Path) -> None:
    async with browser(tmp_path) as window:
        await window.visit(f"{peer.http}/web/20260105060000/{SITE}/mixed.html")
        told = "document.querySelector('header details:not([hidden]) summary')"
        await window.until(f"{told} !== null", anywhere=False)
        assert await window.run(f"{told}.textContent") == (
            "parts from 3 May 2025 to 5 January 2026, 1 more than 30 days away, 1 part not archived"
        )
        await window.run(f"{told}.click()")
        rows = await window.run("Array.from(document.querySelectorAll('header li'), e => e.innerText)")
        assert rows == [
            f"3 May 2025 {SITE}/pictures/old.png",
            f"5 January 2026 {SITE}/pictures/one.png",
            f"not archived {SITE}/never.png",
        ]
        assert await window.run("document.querySelector('header li.far a').getAttribute('href')") == (
            f"/web/20250503000000/{SITE}/pictures/old.png"
        )
        inside = await window.until("document.title === 'Mixed'", framed=True)
        await window.follow("#front", inside, "document.title === 'Front 20260105060000'", framed=True)
        await window.until(
            "document.querySelector('header summary').textContent === '1 part not archived'", anywhere=False
        )


async def test_in_the_box_a_page_goes_where_its_scripts_go_and_a_reader_comes_back(
    peer: RunningPeer, tmp_path: Path
) -> None:
    """By ways that our server cannot change: the browser stops them, and the page around the frame leads them."""
    base = f"{peer.http}/web/20260105060000/"

    def shows(title: str) -> str:
        return f"document.title.startsWith('{title}') && document.readyState === 'complete'"

    async with browser(tmp_path) as window:
        await window.visit(base + HOME)
        inside = await window.until(shows("Front"), framed=True)
        assert await window.run("[location.pathname, document.URL].join()", inside) == f"/,{HOME}"
        await window.run("setTimeout(() => { self['location'] = '/second.html' }), 1", inside)
        await window.until(shows("Second"), framed=True)
        await window.until(f"location.href === '{base}{SITE}/second.html'", anywhere=False)
        await window.run("history.back(), 1")
        inside = await window.until(shows("Front"), framed=True)
        await window.until(f"location.href === '{base}{HOME}'", anywhere=False)
        await window.run("history.pushState(1, '', '/third.html')", inside)
        await window.until(f"location.href === '{base}{SITE}/third.html'", anywhere=False)
        await window.run("setTimeout(() => location.reload()), 1", inside)
        await window.until(shows("Third"), framed=True)
