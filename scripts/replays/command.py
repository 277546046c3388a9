"""Which mechanisms of the web work on an archived page, beside the live one? `scripts/fidelity [acid|attacks]`.

Three sites are served live by a proxy, and stored as captures in a peer of its own. A browser opens the entry live, by
names and in the box; each check of `acid.js` says by itself whether it works. What reaches the proxy meanwhile is a
leak, but for what the browser asks for itself.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from scripts.replays.attacks import GOING, LIVE, QUIET, SITE, attack_site
from scripts.replays.browsers import Window, opened
from scripts.replays.live import Live, live_web
from scripts.replays.pages import ENTRY, IMPOSSIBLE, IMPOSSIBLE_IN_BOX, Thing, acid_site
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import BOXED, NAMED, peer_with

DATE = "20260101000000"
WAYS = {"names": NAMED, "box": BOXED}
DONE_S = 60.0
QUIET_S = 8.0
"""The last attack begins after 1.5 s; a peer connection asks its server within a second."""
GOING_S = 1.0
_OWN = re.compile(
    r"(?:CONNECT |GET http://)[\w.-]+\.(?:googleapis\.com|google\.com|mozilla\.com|mozilla\.net|mozilla\.org)(?::443|/)"
)
"""Names that no page of ours has."""


@dataclass(kw_only=True)
class Result:
    passed: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    leaks: list[str] = field(default_factory=list)


def deposits(site: dict[str, Thing]) -> list[Any]:
    return [
        response(
            url, DATE, one.body, one.kind, one.status, *([f"Location: {one.location}"] * bool(one.location))
        )
        for url, one in site.items()
    ]


async def acid(window: Window, address: str) -> Result:
    await window.visit(address)
    said: dict[str, Any] = {}
    with anyio.move_on_after(DONE_S):
        while not said.get("isDone"):
            await anyio.sleep(0.2)
            found = await window.everywhere("window.acid || null")
            said = next((one for one in found if one), said)
    failed = said.get("failed", {}) if said.get("isDone") else {"the page": f"did not end: {said}"[:300]}
    return Result(passed=set(said.get("passed", [])), failed=failed)


async def compared(name: str, live: Live, pages: dict[str, str], folder: Path) -> dict[str, Result]:
    results = {}
    async with opened(name, folder, live.proxy) as window:
        for way, address in pages.items():
            live.forget()
            results[way] = await acid(window, address)
            if way != "live":
                results[way].leaks = [one for one in live.asked if not _OWN.search(one)]
    return results


def acid_in(name: str, ways: Sequence[str] = tuple(WAYS), *, is_live_too: bool = True) -> dict[str, Result]:
    """The page in one browser, live and in each way."""
    site = acid_site()
    with tempfile.TemporaryDirectory() as given, live_web(site) as live:
        folder = Path(given)
        with peer_with(folder / "peer", *deposits(site), at="0.0.0.0") as peer:  # noqa: S104  # both loopback addresses
            port = peer.http.rpartition(":")[2]
            portals = {way: f"http://{WAYS[way]}:{port}/web/{DATE}/{ENTRY}" for way in ways}
            pages = {**({"live": ENTRY} if is_live_too else {}), **portals}
            return anyio.run(compared, name, live, pages, folder)


def attacked_in(name: str, ways: Sequence[str] = tuple(WAYS)) -> dict[str, list[str]]:
    """What the attacks gained or let out in one browser, by way; nothing is as it should be."""
    with tempfile.TemporaryDirectory() as given, live_web({}) as live:
        folder, site = Path(given), attack_site(live.tcp_port, live.udp_port)
        with peer_with(folder / "peer", *deposits(site), at="0.0.0.0") as peer:  # noqa: S104  # both loopback addresses
            live.site = site
            port = peer.http.rpartition(":")[2]
            portals = {way: f"http://{WAYS[way]}:{port}/web/{DATE}/{SITE}/" for way in ways}
            return anyio.run(_attacked, name, live, portals, folder)


async def _attacked(name: str, live: Live, portals: dict[str, str], folder: Path) -> dict[str, list[str]]:
    gains: dict[str, list[str]] = {}
    async with opened(name, folder, live.proxy) as window:
        await window.visit(f"{SITE}/")  # live, to see that what leaves is noticed
        await anyio.sleep(QUIET_S)
        heard = " ".join(live.asked)
        deaf = [one for one in (LIVE, "a TCP connection", "a datagram") if one not in heard]
        gains["live"] = [f"{one} was not noticed" for one in deaf]
        for way, address in portals.items():
            found = gains[way] = []
            for number in range(len(GOING) + 1):
                live.forget()
                attack = f"{address}{number or ''}"
                await window.visit(attack)
                await anyio.sleep(GOING_S if number else QUIET_S)
                found += [f"{attack}: {one}" for one in await _noticed(window, address)]
                found += [f"{attack}: {one} arrived" for one in live.asked if not _OWN.search(one)]
    return gains


async def _noticed(window: Window, address: str) -> list[str]:
    said = [f"gained {one}" for gains in await window.everywhere("window.gains || []") for one in gains]
    outer = (await window.everywhere("[location.href, !!document.querySelector('header nav')]"))[0]
    if not outer[1] or not outer[0].startswith(address):
        said.append(f"the window shows {outer}")
    return said


def shown(name: str, results: dict[str, Result]) -> bool:
    """Prints a line for what does not work live and archived alike; whether all is as it was promised."""
    checks = sorted(set().union(*(one.passed | set(one.failed) for one in results.values())))
    for check in checks:
        if any(check in one.failed for one in results.values()):
            marks = " ".join(f"{way}:{'+' if check in one.passed else '-'}" for way, one in results.items())
            reasons = "; ".join(one.failed[check] for one in results.values() if check in one.failed)
            print(f"{name}  {marks}  {check}  ({reasons})")
    for way, one in results.items():
        print(f"{name}  {way}: {len(one.passed)} of {len(checks)}, leaks {one.leaks}")
    excused = {"names": IMPOSSIBLE, "box": IMPOSSIBLE_IN_BOX, "live": frozenset[str]()}
    missing = [results["live"].passed - one.passed - excused[way] for way, one in results.items()]
    return not any(missing) and not any(one.leaks for one in results.values())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="acid", choices=("acid", "attacks"))
    parser.add_argument("--browser", action="append", choices=("chromium", "firefox"))
    parser.add_argument("--way", action="append", choices=tuple(WAYS))
    given = parser.parse_args()
    if given.what == "attacks":
        all_gains = [
            f"{name} {way}: {gain}"
            for name in given.browser or ("chromium", "firefox")
            for way, gains in attacked_in(name, given.way or tuple(WAYS)).items()
            for gain in gains
        ]
        print("\n".join([*all_gains, f"{len(QUIET) + len(GOING)} attacks, {len(all_gains)} gains"]))
        return 1 if all_gains else 0
    good = [
        shown(name, acid_in(name, given.way or tuple(WAYS)))
        for name in given.browser or ("chromium", "firefox")
    ]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
