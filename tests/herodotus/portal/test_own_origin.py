"""Do archived pages under a name of their own get what an origin gives, and still nothing of the portal?"""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from herodotus.core.errors import SettingError
from herodotus.core.settings.sections import HttpSettings
from herodotus.portal.archive_pages import ArchivePages
from herodotus.portal.handlers import Handlers
from herodotus.portal.replay import WORKER_BYTES_MAX, ReplayPlace, replay_place
from tests.herodotus.operate.cli.processes import RunningPeer
from tests.herodotus.portal.browser import browser
from tests.herodotus.portal.library import HOME, ORIGIN, SITE, Library, response
from tests.herodotus.portal.shelves import peer_with
from tests.herodotus.test_ring_lab import free_base

REPLAY = "http://localhost:5484"
PAGE = f"/web/20260101000000/{HOME}"


@pytest.fixture
def library() -> Library:
    library = Library(
        response(HOME, "20260101", b"<p>page"), response(f"{SITE}/i.png", "20260101", b"i", "image/png")
    )
    place = ReplayPlace(origin=REPLAY, portal_origin=ORIGIN)
    pages = ArchivePages(library.shelf, replay=place, peer="p")
    library.handlers = Handlers(library.status, pages, public_url=ORIGIN, replay_url=REPLAY)
    return library


THERE = {"host": "localhost:5484"}


def test_the_frame_is_the_portals_and_what_is_in_it_is_not(library: Library) -> None:
    around = library.get(PAGE, {"sec-fetch-dest": "document"})
    assert f'src="{REPLAY}/web/20260101000000mp_/{HOME}"'.encode() in around.body
    assert f"frame-src {REPLAY}/web/;" in around.headers["Content-Security-Policy"]
    inside = library.get(PAGE.replace("/https", "mp_/https"), {**THERE, "sec-fetch-dest": "iframe"})
    policy = inside.headers["Content-Security-Policy"]
    assert "sandbox allow-scripts allow-forms allow-modals allow-pointer-lock allow-same-origin;" in policy
    assert ORIGIN not in policy
    # Under the portal's own name pages stay in the sandbox.
    assert "allow-same-origin" not in library.get(PAGE).headers["Content-Security-Policy"]


@pytest.mark.parametrize("flag", ["", "mp_"])
def test_a_window_at_the_pages_own_name_is_led_to_the_portal(library: Library, flag: str) -> None:
    target = PAGE.replace("/https", f"{flag}/https")
    assert library.location(target, {**THERE, "sec-fetch-dest": "document"}) == f"{ORIGIN}{PAGE}"


@pytest.mark.parametrize(
    "target",
    ["/", "/status", "/metrics", "/healthz", "/search?url=a", "/api/v1/status", "/save/https://a.example/",
     "/cdx/search/cdx?url=a",
     "/wayback/available?url=a", f"/web/*/{HOME}", f"/web/{HOME}", f"/web/timemap/link/{HOME}"],
)  # fmt: skip
def test_under_the_pages_own_name_there_is_nothing_of_the_portal(library: Library, target: str) -> None:
    assert library.get(target, THERE).status == 404
    from_page = library.get(target, {**THERE, "referer": f"{REPLAY}{PAGE}"})
    if target.startswith("/web/"):
        assert from_page.status == 404
    else:  # the archived site's own
        assert from_page.headers["Location"] == f"/web/20260101000000/https://example.org{target}"


def test_our_worker_is_given_out_there_and_no_other(library: Library) -> None:
    asked = {**THERE, "service-worker": "script"}
    worker = library.get("/web/_/worker.js", asked)
    assert (worker.status, worker.headers["Service-Worker-Allowed"]) == (200, "/web/")
    assert library.get(f"/web/20260101000000js_/{SITE}/i.png", asked).status == 403
    assert library.get("/web/_/worker.js", {"service-worker": "script"}).status == 403
    assert library.get("/web/_/worker.js").status in (400, 404)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"service_worker": "w.js"}, "needs http.replay_url"),
        ({"replay_url": "https://b.example"}, "needs http.public_url"),
        ({"replay_url": "https://a.example:8", "public_url": "https://a.example"}, "under another name"),
        ({"replay_url": "mailto:a@b.example", "public_url": "https://a.example"}, "under another name"),
        ({"replay_url": "https://b.example", "public_url": "https://a.example", "service_worker": "/no/such"},
         "no such file"),
    ],
)  # fmt: skip
def test_a_place_that_cannot_be_is_named(settings: dict[str, str], said: str) -> None:
    with pytest.raises(SettingError, match=said):
        replay_place(HttpSettings(**settings))  # type: ignore[arg-type]  # strings by name


def test_a_worker_that_is_too_large_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "w.js"
    with file.open("wb") as out:
        os.truncate(out.fileno(), WORKER_BYTES_MAX + 1)
    with pytest.raises(SettingError, match="has more than"):
        replay_place(
            HttpSettings(
                replay_url="https://b.example", public_url="https://a.example", service_worker=str(file)
            )
        )


# -- in a browser -------------------------------------------------------------------------------------------

SVG = b"<svg xmlns='http://www.w3.org/2000/svg' width='7' height='7'/>"
STRAYS = b"""<!doctype html><title>Strays</title><body><script>
var said = {}, portal = "PORTAL";
function tried(name, work) {
  return Promise.resolve().then(work).then(function (v) { said[name] = v; }, function () { said[name] = "refused"; });
}
function stray(url) { document.body.insertAdjacentHTML("beforeend", "<p style='background:url(" + url + ")'>.</p>"); }
stray("/early.svg");
var raw = document.body.appendChild(document.createElement("iframe")).contentWindow;
var all = [
  tried("stored", function () { raw.localStorage.a = "kept"; return raw.localStorage.a; }),
  tried("origin", function () { return self.origin; }),
  tried("portal", function () { return raw.fetch(portal + "/api/v1/status").then(function (a) { return a.text(); }); }),
  tried("own api", function () { return raw.fetch("/api/v1/status").then(function (a) { return String(a.status); }); }),
  tried("parent", function () { return parent.document.title; }),
  tried("worker", function () {
    return Object.getPrototypeOf(navigator.serviceWorker).register.call(navigator.serviceWorker,
      "/web/20260101000000js_/https://example.org/sw.js").then(function () { return "registered"; });
  })
];
Promise.all(all).then(function () {
  function late() { stray("/late.svg"); stray("https://live.example/live.svg"); document.title = JSON.stringify(said); }
  if (navigator.serviceWorker.controller) late(); else navigator.serviceWorker.oncontrollerchange = late;
});
</script>"""

CHOSEN = b"""self.addEventListener("install", function () { self.skipWaiting(); });
self.addEventListener("activate", function (event) { event.waitUntil(self.clients.claim()); });
self.addEventListener("fetch", function (event) {
  if (event.request.url.endsWith("/magic")) event.respondWith(new Response("of the operator's worker"));
});"""

ASKS = b"""<!doctype html><title>Asks</title><script>
function ask() { fetch("/magic").then(function (a) { return a.text(); }).then(function (t) { document.title = t; }); }
if (navigator.serviceWorker.controller) ask(); else navigator.serviceWorker.oncontrollerchange = ask;
</script>"""


@dataclass
class Place:
    peer: RunningPeer
    replay: str


@pytest.fixture
def place(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Place]:
    port = free_base(1)
    portal, replay = f"http://127.0.0.1:{port}", f"http://localhost:{port}"
    deposits = [
        response(HOME, "20260101", STRAYS.replace(b"PORTAL", portal.encode())),
        response(f"{SITE}/asks", "20260101", ASKS),
        response(f"{SITE}/sw.js", "20260101", b"self.x = 1", "text/javascript"),
        *(response(f"{SITE}/{name}.svg", "20260101", SVG, "image/svg+xml") for name in ("early", "late")),
    ]
    chosen = tmp_path / "chosen.js"
    chosen.write_bytes(CHOSEN)
    arguments = ("--service-worker", str(chosen)) if getattr(request, "param", False) else ()
    with peer_with(
        tmp_path,
        *deposits,
        public_url=portal,
        arguments=("--http", f"127.0.0.1:{port}", *arguments),
        replay_url=replay,
    ) as peer:
        yield Place(peer, replay)


@pytest.mark.e2e
@pytest.mark.needs("chromium")
@pytest.mark.anyio
async def test_a_page_with_an_origin_has_storage_and_a_worker_and_its_strays_come_back(
    place: Place, tmp_path: Path
) -> None:
    async with browser(tmp_path / "b") as window:
        await window.visit(f"{place.peer.http}{PAGE}")
        inside = await window.until("document.title.startsWith('{')")
        said = await window.run("JSON.parse(document.title)", inside)
        assert said == {
            "stored": "kept", "origin": place.replay, "portal": "refused", "own api": "refused", "parent": "refused",
            "worker": "refused",
        }  # fmt: skip
        loaded = "performance.getEntriesByType('resource').some(e => e.name === {!r} && e.responseStatus === 200 && {})"
        await window.until(
            loaded.format(f"{place.replay}/early.svg", "!e.workerStart")
        )  # led back by its Referer
        await window.until(loaded.format(f"{place.replay}/late.svg", "e.workerStart"))
        for name in ("early", "late"):
            assert f"{place.replay}/web/20260101000000im_/{SITE}/{name}.svg" in window.asked
        ours = (f"{place.peer.http}/", f"{place.replay}/", "data:", "blob:", "about:")
        # What is of another host and made by a script's style, the policy refuses before any worker sees it.
        assert [one for one in window.asked if not one.startswith(ours)] == ["https://live.example/live.svg"]
        assert any("live.svg' violates" in one for one in window.complaints)


@pytest.mark.e2e
@pytest.mark.needs("chromium")
@pytest.mark.anyio
@pytest.mark.parametrize("place", [True], indirect=True, ids=["chosen"])
async def test_the_operators_own_worker_takes_the_place_of_ours(place: Place, tmp_path: Path) -> None:
    async with browser(tmp_path / "b") as window:
        await window.visit(f"{place.peer.http}/web/20260101000000/{SITE}/asks")
        await window.until('document.title === "of the operator\'s worker"')
