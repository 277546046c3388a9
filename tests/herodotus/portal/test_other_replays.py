"""Do the replay tools of others show what a peer has: from its CDX and raw pages, and from its WACZ?"""

import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from shutil import copyfile

import pytest

from tests.herodotus.operate.cli.processes import RunningPeer, called
from tests.herodotus.portal.browser import browser
from tests.herodotus.portal.library import HOME, SITE, response
from tests.herodotus.portal.shelves import peer_with
from tests.herodotus.portal.test_walking import picture, site
from tests.herodotus.store import judging
from tests.herodotus.store.judging import fetch, judge

REPLAYWEB = Path(sys.prefix) / "judges" / "npm" / "replaywebpage" / "package"
pytestmark = pytest.mark.e2e


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPeer]:
    moved = response(f"{SITE}/old", "20260101060000", b"", "text/html", 301, "Location: /second.html")
    with peer_with(tmp_path_factory.mktemp("others"), *site(), moved) as running:
        yield running


@pytest.mark.needs(judge("pywb"))
def test_pywb_replays_from_our_index_and_our_raw_pages(peer: RunningPeer, tmp_path: Path) -> None:
    """As it is told to use the Wayback Machine: `cdx+<archive>/cdx /web`."""
    with judging.pywb(tmp_path, collections={"far": f"cdx+{peer.http}/cdx /web"}) as theirs:
        for day in ("20260101060000", "20260105060000"):
            page = fetch(f"{theirs}/far/{day}mp_/{HOME}")
            assert page.status == 200
            assert f"Front of {day}".encode() in page.body
            image = fetch(f"{theirs}/far/{day}im_/{SITE}/pictures/one.png")
            assert image.body == picture(*(200, 0, 0) if day.startswith("20260101") else (0, 0, 200))
        assert fetch(f"{theirs}/far/20260101mp_/{SITE}/never").status == 404
        listed = fetch(f"{theirs}/far/cdx?url={HOME}").body.decode().splitlines()
        assert [line.split(" ")[1] for line in listed] == ["20260101060000", "20260105060000"]


@pytest.mark.needs(judge("pywb"))
def test_pywb_follows_our_redirects_by_the_flag_that_leads_them(peer: RunningPeer, tmp_path: Path) -> None:
    """`id_` gives bytes alone; `ir_` gives them with the redirect."""
    index = {
        "type": "cdx",
        "api_url": f"{peer.http}/cdx?url={{url}}&closest={{closest}}&sort=closest",
        "replay_url": f"{peer.http}/web/{{timestamp}}ir_/{{url}}",
    }
    with judging.pywb(tmp_path, collections={"far": {"index": index}}) as theirs:
        assert b"Front of 20260101060000" in fetch(f"{theirs}/far/20260101060000mp_/{HOME}").body
        moved = fetch(f"{theirs}/far/20260101060000mp_/{SITE}/old")
        assert moved.status == 301
        assert moved.headers["Location"].endswith("/second.html")


@pytest.mark.needs(judge("pywb"))
def test_pywb_loads_records_from_our_files_by_their_place(peer: RunningPeer, tmp_path: Path) -> None:
    """By name and offset, as from WARC files that lie anywhere; without an address of ours it could replay from."""
    fields = "urlkey,timestamp,original,mimetype,statuscode,digest,redirect,offset,filename"
    index = {
        "type": "cdx",
        "api_url": f"{peer.http}/cdx?url={{url}}&closest={{closest}}&sort=closest&fl={fields}",
        "replay_url": "http://127.0.0.1:9/{timestamp}/{url}",
    }
    far = {"index": index, "archive_paths": f"{peer.http}/api/v1/"}
    with judging.pywb(tmp_path, collections={"far": far}) as theirs:
        for day in ("20260101060000", "20260105060000"):
            page = fetch(f"{theirs}/far/{day}mp_/{HOME}")
            assert page.status == 200
            assert f"Front of {day}".encode() in page.body
            image = fetch(f"{theirs}/far/{day}im_/{SITE}/pictures/one.png")
            assert image.body == picture(*(200, 0, 0) if day.startswith("20260101") else (0, 0, 200))
        moved = fetch(f"{theirs}/far/20260101060000mp_/{SITE}/old")
        assert (moved.status, moved.headers["Location"].rpartition("/")[2]) == (301, "second.html")


def served_folder(folder: Path, wacz: Path) -> Path:
    (folder / "replay").mkdir(parents=True)
    copyfile(REPLAYWEB / "ui.js", folder / "ui.js")
    copyfile(REPLAYWEB / "sw.js", folder / "replay" / "sw.js")
    copyfile(wacz, folder / "archive.wacz")
    (folder / "index.html").write_text(
        "<!DOCTYPE html><title>ReplayWeb.page</title><script src=ui.js></script>"
        f'<replay-web-page style="height:90vh" source="archive.wacz" url="{HOME}" ts="20260105060000" '
        'embed="replayonly">'
        "</replay-web-page>"
    )
    return folder


class _Parts(SimpleHTTPRequestHandler):
    """With ranges, by which a WACZ is read."""

    def do_GET(self) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range", ""))
        path = Path(self.translate_path(self.path))
        if asked is None or not path.is_file():
            super().do_GET()
            return
        whole = path.read_bytes()
        start, end = int(asked[1]), min(int(asked[2] or len(whole)), len(whole) - 1)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{end}/{len(whole)}")
        self.send_header("Content-Length", str(end + 1 - start))
        self.end_headers()
        self.wfile.write(whole[start : end + 1])

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        pass


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(_Parts, directory=str(folder))) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


# Through shadow roots and frames, which ReplayWeb.page has within each other.
DEEPLY = """(function look(root, want) {
  if (root.title && root.title === want.title && root.readyState === "complete") return want.of(root);
  for (var e of root.querySelectorAll("*")) {
    var inner = e.shadowRoot || (e.tagName === "IFRAME" && e.contentDocument);
    var found = inner && look(inner, want);
    if (found) return found;
  }
  return null;
})"""


def deeply(title: str, of: str) -> str:
    return f"{DEEPLY}(document, {{title: {title!r}, of: d => {of}}})"


@pytest.mark.needs("chromium", REPLAYWEB)
@pytest.mark.anyio
async def test_replaywebpage_shows_our_wacz(peer: RunningPeer, tmp_path: Path) -> None:
    wacz = tmp_path / "archive.wacz"
    exported = called("export", "--home", peer.home, "--wacz", wacz)
    assert exported.code == 0, exported.err
    front = "Front 20260105060000"
    with serving(served_folder(tmp_path / "served", wacz)) as address:
        async with browser(tmp_path) as window:
            await window.visit(f"{address}/index.html")
            await window.until(deeply(front, "true"), anywhere=False)
            assert (
                await window.run(deeply(front, "d.querySelector('h1').textContent"))
                == "Front of 20260105060000"
            )
            colour = "d.defaultView.getComputedStyle(d.querySelector('h1')).color"
            assert await window.run(deeply(front, colour)) == "rgb(0, 0, 200)"
            await window.until(deeply(front, "d.getElementById('plain').naturalWidth === 40"), anywhere=False)
            await window.until(
                deeply(
                    front, "d.getElementById('scripted') && d.getElementById('scripted').naturalWidth === 40"
                ),
                anywhere=False,
            )
            await window.picture(tmp_path / "replayweb.png")
            await window.run(deeply(front, "(d.querySelector('#next').click(), true)"))
            await window.until(deeply("Second 20260105060000", "true"), anywhere=False)
