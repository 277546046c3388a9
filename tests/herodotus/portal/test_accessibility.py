"""Do the portal's own pages keep anybody out? Judged by axe in a real browser, light, dark and on a phone."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.herodotus.operate.cli.processes import RunningPeer
from tests.herodotus.portal.browser import browser
from tests.herodotus.portal.library import HOME, SITE
from tests.herodotus.portal.shelves import found_in_words, peer_with
from tests.herodotus.portal.test_walking import site

AXE = Path(sys.prefix) / "judges" / "npm" / "axe-core" / "package" / "axe.min.js"
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.needs("chromium", AXE),
    pytest.mark.anyio,
]
PAGES = {
    "start": "/",
    "history": f"/web/*/{HOME}",
    "not archived": f"/web/2026/{SITE}/never.html",
    "listing": f"/web/*/{SITE}/*",
    "around a page": f"/web/20260105060000/{HOME}",
    "no address": "/web/2026/mailto:somebody",
    "differences": f"/web/diff/20260101060000/20260105060000/{HOME}",
    "differences in one column": f"/web/diff/inline/20260101060000/20260105060000/{HOME}",
    "history of a year": f"/web/2026*/{HOME}",
    "nothing to list": "/web/*/https://nobody.example/*",
    "no such page": "/nowhere",
    "results": "/search?q=second",
    "a question that is not understood": "/search?q=ferry+colour:red",
    "status": "/status",
}
LOOKS = {"desktop": (1200, False), "phone": (390, False), "dark": (1200, True)}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningPeer]:
    with peer_with(tmp_path_factory.mktemp("axe"), *site()) as running:
        assert found_in_words(running, "second")
        yield running


async def test_axe_finds_nothing_that_bars_a_reader(peer: RunningPeer, tmp_path: Path) -> None:
    script = AXE.read_text()  # a test reads a small file
    found: dict[str, list[str]] = {}
    async with browser(tmp_path) as window:
        for page, path in PAGES.items():
            await window.visit(peer.http + path)
            await window.until(
                f"document.readyState === 'complete' && location.href.startsWith({peer.http!r})"
            )
            for look, (width, is_dark) in LOOKS.items():
                await window.picture(tmp_path / f"{page}-{look}.png", width=width, is_dark=is_dark)
                await window.run(script + "; 0")
                ran = json.loads(await window.run("axe.run(document, {iframes: false}).then(JSON.stringify)"))
                assert len(ran["passes"]) >= 5, (page, ran["passes"])  # it looked at something
                found[f"{page}, {look}"] = [
                    f"{one['impact']} {one['id']}: {one['nodes'][0]['html'][:200]}"
                    for one in ran["violations"]
                ]
    assert {where: what for where, what in found.items() if what} == {}
    assert len(found) == len(PAGES) * len(LOOKS)


async def test_axe_notices_a_page_that_bars_readers(tmp_path: Path) -> None:
    async with browser(tmp_path) as window:
        await window.visit("data:text/html,<title>x</title><img src=x><input><p style='color:%23eee'>pale")
        await window.until("document.readyState === 'complete'")
        await window.run(AXE.read_text() + "; 0")  # a test reads a small file
        ran = json.loads(await window.run("axe.run().then(JSON.stringify)"))
        assert {"image-alt", "label", "color-contrast"} <= {one["id"] for one in ran["violations"]}
