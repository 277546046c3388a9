"""Can a reader walk through the old web in a real browser, from peer to peer of a real ring?

Each capture is kept once, so that no peer has all of a page: the front page, its style, its images and the pages
behind its links live where the ring puts them.
"""

import json
import re
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

import pytest

from herodotus.core.captures import Deposit, position_of
from herodotus.operate.lab_ring import LabPeer
from tests.herodotus.operate.cli.processes import called, herodotus
from tests.herodotus.portal.browser import Browser, browser
from tests.herodotus.portal.library import HOME, SITE
from tests.herodotus.portal.shelves import warc_of
from tests.herodotus.portal.test_walking import site
from tests.herodotus.test_ring_lab import free_base

pytestmark = [pytest.mark.e2e, pytest.mark.needs("chromium"), pytest.mark.anyio]
PEERS = 4
DAY = "20260105060000"
PAGES = {"Front": HOME, "Second": f"{SITE}/second.html", "Third": f"{SITE}/third.html"}
PARTS = {*PAGES.values(), f"{SITE}/style.css", f"{SITE}/pictures/one.png", f"{SITE}/pictures/two.png"}


def owner(peers: list[LabPeer], url: str) -> LabPeer:
    """By what each peer says it holds."""
    key = position_of(url).hex()

    def holds(peer: LabPeer) -> bool:
        with urllib.request.urlopen(f"{peer.http}/api/v1/ring", timeout=30) as answer:
            arcs = json.load(answer)["arcs"]
        return any(start < key <= end if start < end else key > start or key <= end for start, end in arcs)

    return next(peer for peer in peers if holds(peer))


@dataclass
class Ring:
    peers: list[LabPeer]
    owners: dict[str, LabPeer]


@pytest.fixture(scope="module")
def ring(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ring]:
    folder = tmp_path_factory.mktemp("ring")
    made = herodotus("init", "--home", folder / "first", "--network", "test")
    assert made.code == 0, made.err
    charter = (folder / "first" / "network.toml").read_text()
    network = folder / "network.toml"
    network.write_text(charter.replace('name = "test"', 'name = "one copy"') + "\ncopies = 1\n")
    for attempt in range(8):  # places on the ring follow from ports: sometimes one peer has all
        homes = folder / f"homes{attempt}"
        up = herodotus("ring", "up", "--peers", str(PEERS), "--base-port", str(free_base(PEERS)), "--dir", homes,
                       "--network", network, "--json")  # fmt: skip
        assert up.code == 0, up.err
        try:
            peers = [LabPeer(**one) for one in json.loads(up.out)["peers"]]
            if len({owner(peers, url).http for url in PARTS}) > 1:
                yield Ring(peers, spread(peers, folder))
                return
        finally:
            assert herodotus("ring", "down", "--dir", homes).code == 0
    pytest.fail("one of four peers owned everything, eight times")


def spread(peers: list[LabPeer], folder: Path) -> dict[str, LabPeer]:
    deposits = sorted(site(), key=lambda one: one.capture.url)
    owners = {url: owner(peers, url) for url in {one.capture.url for one in deposits}}

    def place(deposit: Deposit) -> str:
        return owners[deposit.capture.url].http

    for number, (http, some) in enumerate(groupby(sorted(deposits, key=place), key=place)):
        home = next(peer.home for peer in peers if peer.http == http)
        done = called("import", "--home", home, warc_of(folder / f"made{number}", *some))
        assert done.code == 0, done.err
    return owners


def outside(ring: Ring, window: Browser) -> list[str]:
    """Of ours are the peers, and the names that archived sites have at their ports."""
    ports = "|".join(peer.http.rpartition(":")[2] for peer in ring.peers)
    ours = re.compile(rf"(data|blob|about):|http://(127\.0\.0\.1|[0-9a-z-]+\.localhost):({ports})/")
    return [one for one in window.asked if not ours.match(one)]


async def test_a_reader_walks_through_a_day_that_is_spread_over_the_ring(ring: Ring, tmp_path: Path) -> None:
    assert len({ring.owners[url].http for url in PARTS}) >= 2
    door = next(peer for peer in ring.peers if peer.http != ring.owners[HOME].http)
    async with browser(tmp_path) as window:
        await window.visit(f"{door.http}/")
        await window.until("document.querySelector('#box') !== null && document.readyState === 'complete'")
        await window.picture(tmp_path / "start.png")
        await window.run("document.querySelector('#box').value = 'example.org'; document.forms[0].submit()")
        await window.until("document.title.startsWith('History of') && document.readyState === 'complete'")
        assert await window.run("location.origin") == door.http  # nobody is sent on
        assert await window.run("document.body.textContent.includes('told by one other peer only')")
        await window.picture(tmp_path / "history.png")
        await window.picture(tmp_path / "history-phone.png", width=390, height=844)
        await window.picture(tmp_path / "history-dark.png", is_dark=True)
        await window.picture(tmp_path / "start-again.png")
        front = await window.follow(
            "td.stored a[href*='/20260105/']", window.session, shown("Front"), framed=True
        )
        await window.until("window.scripted && window.scripted.naturalWidth === 40")
        assert (
            await window.run("getComputedStyle(document.querySelector('h1')).color", front)
            == "rgb(0, 0, 200)"
        )
        assert await window.run("document.getElementById('plain').naturalWidth", front) == 40
        assert await window.run(_COLOUR, front) == [0, 0, 200]  # the script's image is that of this day
        await window.picture(tmp_path / "page.png")
        await window.picture(tmp_path / "page-phone.png", width=390, height=844)
        await window.picture(tmp_path / "page-dark.png", is_dark=True)
        await window.picture(tmp_path / "page-again.png")
        for name in ("Second", "Third", "Front"):
            front = await window.follow("#next", front, shown(name), framed=True)
            assert await window.run("location.origin") == door.http
        assert outside(ring, window) == []
        dates = {one.split("/web/")[1][:14] for one in window.asked if "/web/2" in one}
        assert dates == {"20260105/https", DAY}


def shown(name: str) -> str:
    return f"document.title === '{name} {DAY}' && document.readyState === 'complete'"


# Pixels of a picture may not be read by a page in a sandbox; they are looked at in what is fetched.
_COLOUR = """fetch(window.scripted.src).then(a => a.blob()).then(b => createImageBitmap(b)).then(function (i) {
  var c = new OffscreenCanvas(1, 1).getContext("2d");
  c.drawImage(i, 0, 0);
  return Array.from(c.getImageData(0, 0, 1, 1).data).slice(0, 3);
})"""


async def test_what_one_peer_lacks_is_told_with_what_there_is(ring: Ring, tmp_path: Path) -> None:
    async with browser(tmp_path) as window:
        await window.visit(f"{ring.peers[0].http}/web/2026/{SITE}/never.html")
        await window.until("document.title === 'Not archived'")
        assert outside(ring, window) == []
