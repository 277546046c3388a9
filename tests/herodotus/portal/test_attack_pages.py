"""What does each attack of an archived page achieve? Nothing, seen from the browser and from the peer.

Each page tries one thing on a real peer and says in its title what it gained. Whatever it says: the banner is as it
was, the window is where it was, nothing was asked but the archive, and the peer still answers. The first page of the
list attacks nothing, so that a list which fails by itself would be noticed.
"""

import json
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import anyio
import anyio.to_thread
import pytest

from herodotus.portal.answer import Request
from tests.herodotus.operate.cli.processes import RunningPeer
from tests.herodotus.portal.browser import Browser, browser
from tests.herodotus.portal.library import SITE, Library, response
from tests.herodotus.portal.shelves import BOXED, NAMED, peer_with

DATE = "20260101000000"
TRIED = """function gained(what) { if (!document.title.startsWith('Gained')) document.title = 'Gained ' + what; }
function nothing() { if (!/^(Gained|Nothing)/.test(document.title)) document.title = 'Nothing'; }
function tried(work) {
  return Promise.resolve().then(work).then(function (g) { if (g) gained(g); }, function () {});
}
var portal = new URL(String(location)).origin;  // as the browser has it
// A window of the page's own, in which no script of ours has changed anything.
function raw() { return document.body.appendChild(document.createElement('iframe')).contentWindow; }
setTimeout(nothing, 1000);
"""


def attacks() -> dict[str, str]:
    sections = Path(__file__).with_name("attacks.js").read_text().split("\n//# ")[1:]
    return {name: script for name, _, script in (one.partition("\n") for one in sections)}


ATTACKS = attacks()
# Bytes that a browser and a rewriter may read differently: type, fields and body, and where the page that has them.
POLYGLOTS = {
    "gif-script": ("image/gif", b"GIF89a=1;parent.document.title;document.title='Gained gif'"),
    "markup-as-image": ("image/png", b"<script>document.title='Gained png'</script>"),
    "markup-as-text": ("text/plain", b"<html><script>document.title='Gained text'</script>"),
    "no-type": ("", b"<html><script>fetch('/api/v1/status')</script>"),
    "svg": ("image/svg+xml", (b"<svg xmlns='http://www.w3.org/2000/svg'><script>fetch('/api/v1/status')</script>"
             b"<image href='https://live.example/x'/></svg>")),
    "xhtml": ("application/xhtml+xml", (b"<html xmlns='http://www.w3.org/1999/xhtml'><head><title>x</title></head><body>"
               b"<img src='https://live.example/x'/></body></html>")),
    "utf-7": ("text/html; charset=utf-7", b"+ADw-img src=https://live.example/x+AD4-"),
    "utf-16": ("text/html", b"\xff\xfe" + "<img src=https://live.example/x>".encode("utf-16-le")),
    "utf-16, told": ("text/html; charset=utf-16be", "<img src=https://live.example/x>".encode("utf-16-be")),
    "utf-32": ("text/html; charset=utf-32", "<img src=https://live.example/x>".encode("utf-32")),
    "iso-2022-jp": ("text/html; charset=iso-2022-jp", b"<p title='\x1b$B'><img src=https://live.example/x>\x1b(B'>"),
    "gb18030": ("text/html; charset=gb18030", b"<p title=\x81\"><img src=https://live.example/x>\""),
    "shift_jis": ("text/html; charset=shift_jis", b"<p title=\"\x81\"><img src=https://live.example/x>\">"),
    "wrong-meta": ("text/html", b"<meta charset=utf-7><meta charset=utf-16><img src=https://live.example/x>"),
    "unclosed": ("text/html", b"<img src='https://live.example/x'><a href=\"https://live.example/y"),
    "unclosed-comment": ("text/html", b"<!-- <img src=https://live.example/x> --!><img src=https://live.example/x><!--"),
    "noscript": ("text/html", b"<noscript><p title=\"</noscript><img src=https://live.example/x>\">"),
    "template": ("text/html", (b"<svg><style><img src=https://live.example/x></style></svg><math><mtext><table><mglyph>"
                  b"<style><img src=https://live.example/x>")),
    "nul": ("text/html", (b"<im\0g src=https://live.example/x><img\0src=https://live.example/x>"
             b"<img src=\0https://live.example/x>")),
}  # fmt: skip

CLICKED = f"""<!DOCTYPE html><title>Waiting</title><button id=b>b</button><button id=c>c</button><script>
var portal = new URL(String(location)).origin;  // as the browser has it
var outer = parent === window ? top : parent;
function say(address) {{ outer.postMessage({{hd: 'go', url: address}}, '*'); }}
b.onclick = function () {{
  ['javascript:alert(1)', '../../status', '/status', '{DATE}/{SITE}/', 'file:///etc/passwd', 'data:text/html,x', 7,
   null, {{}}, 'http:', 'https://', 'blob:' + portal + '/x', 'HTTP://' + 'x'.repeat(5000)].forEach(say);
  setTimeout(function () {{ document.title = 'Nothing'; }}, 500);
}};
c.onclick = function () {{ say('{SITE}/x/../no-attack'); }};
</script>""".encode()
e2e = pytest.mark.e2e
chromium = pytest.mark.needs("chromium")


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def slug(name: str) -> str:
    return name.replace(" ", "-").replace(",", "")


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPeer]:
    pages = [
        response(
            f"{SITE}/{slug(name)}",
            DATE,
            f"<!DOCTYPE html><title>Page</title><body><script>{TRIED}{script.replace('SITE', SITE)}</script>".encode(),
        )
        for name, script in ATTACKS.items()
    ]
    others = [
        response(f"{SITE}/p/{slug(name)}", DATE, body, kind) for name, (kind, body) in POLYGLOTS.items()
    ]
    parts = [
        response(f"{SITE}/sw.js", DATE, b"self.x = 1", "text/javascript"),
        response(f"{SITE}/to-api", DATE, b"", "text/html", 302, "Location: /../../../../api/v1/status"),
        response(
            f"{SITE}/polyglots",
            DATE,
            b"<!DOCTYPE html><title>Page</title><script src=/p/gif-script></script><body>"
            + "".join(f"<iframe src=/p/{slug(name)}></iframe>" for name in POLYGLOTS).encode()
            + b"<script>onload = () => document.title = 'Nothing'</script>",
        ),
    ]
    parts.append(response(f"{SITE}/clicked", DATE, CLICKED))
    with peer_with(tmp_path_factory.mktemp("attacks"), *pages, *others, *parts) as running:
        yield running


def check_nothing_happened(peer: RunningPeer, window: Browser, name: str) -> None:
    ours = (f"{peer.http}/web/", "data:", "blob:", "about:")
    outside = [one for one in window.asked if not one.startswith(ours)]
    # A request that a policy stopped was announced all the same, and was never sent.
    sent = [one for one in outside if one not in window.blocked]
    assert sent == [], name
    with urllib.request.urlopen(f"{peer.http}/healthz", timeout=20) as answer:
        assert answer.read() == b"ok\n"


@e2e
@chromium
@pytest.mark.anyio
async def test_every_attack_achieves_nothing(peer: RunningPeer, tmp_path: Path) -> None:
    async with browser(tmp_path) as window:
        for name in ATTACKS:
            address = f"{peer.http}/web/{DATE}/{SITE}/{slug(name)}"
            window.forget()
            await window.visit(address)
            try:
                inside = await window.until("/^(Gained|Nothing)/.test(document.title)")
            except TimeoutError as error:
                raise AssertionError(f"no end of {name!r}: {window.asked[-5:]}") from error
            assert await window.run("document.title", inside) == "Nothing", name
            assert await window.run("location.href") == address, name
            banner = await window.run("document.querySelector('header').innerText")
            assert banner.startswith("1 January 2026, 00:00:00"), name
            assert await window.run("document.querySelector('header').getBoundingClientRect().top") == 0, name
            check_nothing_happened(peer, window, name)


@e2e
@chromium
@pytest.mark.anyio
async def test_a_click_leads_the_window_to_archived_pages_only(peer: RunningPeer, tmp_path: Path) -> None:
    """What the page says to the banner counts for a moment after a click."""
    async with browser(tmp_path) as window:
        address = f"{peer.http}/web/{DATE}/{SITE}/clicked"
        await window.visit(address)
        inside = await window.until(
            "document.title === 'Waiting' && document.readyState === 'complete'", framed=True
        )
        window.forget()
        await window.follow("#b", inside, "document.title === 'Nothing'")
        assert await window.run("location.href") == address
        check_nothing_happened(peer, window, "clicked")
        # The same way, to where it may lead:
        await window.follow("#c", inside, f"location.href === '{peer.http}/web/{DATE}/{SITE}/no-attack'")


@e2e
@chromium
@pytest.mark.anyio
async def test_bytes_of_two_meanings_gain_nothing_by_either(peer: RunningPeer, tmp_path: Path) -> None:
    async with browser(tmp_path) as window:
        await window.visit(f"{peer.http}/web/{DATE}/{SITE}/polyglots")
        inside = await window.until("document.title === 'Nothing'", framed=True)
        assert inside != window.session
        check_nothing_happened(peer, window, "in frames")
        for name in POLYGLOTS:
            for flag in ("", "id_", "im_", "oe_"):
                window.forget()
                await window.visit(f"{peer.http}/web/{DATE}{flag}/{SITE}/p/{slug(name)}")
                await window.until("document.readyState === 'complete'")
                titles = [
                    await window.run("document.title", one)
                    for one in [window.session, *window.frames.values()]
                ]
                assert not any("peer_id" in str(title) for title in titles), (name, flag)
                if flag != "id_":  # whose addresses are as they were: there the policy is what holds
                    check_nothing_happened(peer, window, f"{name} {flag}")
                assert [
                    one
                    for one in window.asked
                    if one not in window.blocked
                    and "live.example/" in one.replace(f"{SITE}", "")
                    and not one.startswith(f"{peer.http}/web/")
                ] == [], (name, flag)


@e2e
@chromium
@pytest.mark.anyio
async def test_a_leak_would_be_noticed(tmp_path: Path) -> None:
    """The same look at a page that no archive keeps in."""
    async with browser(tmp_path) as window:
        await window.visit("data:text/html,<title>Nothing</title><img src=http://127.0.0.1:9/spy.png>")
        await window.until("document.title === 'Nothing' && document.readyState === 'complete'")
        assert [one for one in window.asked if one not in window.blocked and one.startswith("http")] == [
            "http://127.0.0.1:9/spy.png"
        ]


# -- large pages --------------------------------------------------------------------------------------------

RULES = """<script type=speculationrules>{"prefetch": [{"urls": ["LIVE/ahead-as-written"], "eagerness": "immediate",
  "referrer_policy": "no-referrer"}]}</script><script>
var made = raw().document.createElement('script');
made.type = 'speculationrules';
made.textContent = JSON.stringify({prefetch: [
  {urls: ['LIVE/ahead-as-made', 'HERE/status'], eagerness: 'immediate', referrer_policy: 'no-referrer'}]});
document.body.appendChild(made);
</script>"""


class _Live(BaseHTTPRequestHandler):
    """Serves a page that has another one fetched ahead, and notes what was asked for."""

    heard: ClassVar[list[str]] = []
    is_noticed: ClassVar[threading.Event] = threading.Event()

    def do_GET(self) -> None:
        self.heard.append(self.path)
        if self.path == "/ahead-of-control":
            self.is_noticed.set()
        body = b"<!DOCTYPE html>" + RULES.partition("<script>")[0].encode()
        body = body.replace(b"LIVE/ahead-as-written", b"/ahead-of-control")
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        pass


@pytest.fixture(params=[BOXED, NAMED])
def ahead(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[RunningPeer, str]]:
    """A peer whose page has others fetched ahead, and where the live web is."""
    _Live.heard.clear()
    _Live.is_noticed.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), _Live) as live:
        thread = threading.Thread(target=live.serve_forever)
        thread.start()
        elsewhere = f"http://127.0.0.1:{live.server_port}"
        rules = RULES.replace("LIVE", elsewhere).replace("HERE", "' + portal + '")
        page = f"<!DOCTYPE html><title>Page</title><body><script>{TRIED}</script>{rules}"
        try:
            with peer_with(
                tmp_path / "peer",
                response(f"{SITE}/ahead", DATE, page.encode()),
                at=request.param,
            ) as peer:
                yield peer, elsewhere
        finally:
            live.shutdown()
            thread.join()


@e2e
@chromium
@pytest.mark.anyio
async def test_nothing_is_fetched_ahead_for_a_page_in_the_frame(
    ahead: tuple[RunningPeer, str], tmp_path: Path
) -> None:
    """No policy governs speculation rules: in a window of its own, a page has them followed."""
    peer, elsewhere = ahead
    async with browser(tmp_path) as window:
        await window.visit(f"{peer.http}/web/{DATE}/{SITE}/ahead")
        await window.until("document.title === 'Nothing'")
        await window.visit(f"{elsewhere}/control")
        assert await anyio.to_thread.run_sync(_Live.is_noticed.wait, 45)
    assert {path for path in _Live.heard if "ahead" in path} == {"/ahead-of-control"}


LARGE = 100_000_000
# How each begins, and what it then repeats: made when it is asked for, as every run of tests loads this module.
LARGE_PAGES = {
    "links": (b"", b'<a href="/x">x</a>'),
    "one tag": (b'<a href="', b"x"),
    "tags without an end": (b"", b"<a "),
    "one comment": (b"<!--", b"-"),
    "nested": (b"", b"<div>"),
}


@pytest.mark.sweep
@pytest.mark.parametrize("name", LARGE_PAGES)
def test_a_page_of_100_mb_is_shown_while_others_are_answered(name: str) -> None:
    start, again = LARGE_PAGES[name]
    page = start + again * (LARGE // len(again))
    library = Library(response(f"{SITE}/large", DATE, page), response(f"{SITE}/small", DATE, b"<p>small"))
    slowest: list[float] = []

    async def work() -> None:
        def asked(path: str) -> Request:
            return Request(target=path, headers={"host": "127.0.0.1:5484"})

        done = anyio.Event()

        async def others() -> None:
            while not done.is_set():
                started = anyio.current_time()
                answer = await library.handlers.answer(asked(f"/web/{DATE}mp_/{SITE}/small"))
                assert b"<p>small" in answer.body
                slowest.append(anyio.current_time() - started)
                await anyio.sleep(0.01)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(others)
            with anyio.fail_after(120):
                large = await library.handlers.answer(asked(f"/web/{DATE}mp_/{SITE}/large"))
            done.set()
        assert large.status == 200
        assert large.headers["Content-Security-Policy"].startswith("sandbox ")

    anyio.run(work)
    assert len(slowest) > 3
    assert max(slowest) < 5, json.dumps(slowest[-20:])
