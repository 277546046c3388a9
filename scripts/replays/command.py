"""Which mechanisms of the web work on an archived page, beside the live one? `scripts/fidelity [acid|attacks]`.

Three sites are served live by a proxy, and stored as captures in a peer of its own. A browser opens the entry live, by
names and in the box; each check of `acid.js` says by itself whether it works. What reaches the proxy meanwhile is a
leak, but for what the browser asks for itself.
"""

import argparse
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio

from scripts.replays.attacks import GOING, LIVE, NUMBERS, RAW_PAGE, SITE, attack_site, whose
from scripts.replays.browsers import Window, opened
from scripts.replays.doors import door
from scripts.replays.live import Live, live_web
from scripts.replays.pages import ENTRY, IMPOSSIBLE, IMPOSSIBLE_IN_BOX, Thing, acid_site
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import BOXED, NAMED, peer_with

DATE = "20260101000000"
BARE = "127.0.0.3"
WAYS = {"names": NAMED, "box": BOXED, "bare": BARE}
DONE_S = 60.0
EARS = (LIVE, "a TCP connection", "a datagram")
SURE = frozenset({"the portal's interface", "another site's storage"})
"""These gain something in every browser where nothing keeps a page in."""
PROVEN_MIN = 50
"""Of the attacks, that must achieve something where nothing keeps a page in."""
QUIET_S = 8.0
"""The last attack begins after 1.5 s; a peer connection asks its server within a second."""
GOING_S = 1.0
_OWN = re.compile(
    r"(?:CONNECT |\w+ http://)[\w.-]+\.(?:googleapis\.com|google\.com|mozilla\.com|mozilla\.net|mozilla\.org)[:/]"
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


@contextmanager
def doors(folder: Path, site: dict[str, Thing]) -> Iterator[str]:
    """The port of a peer that holds the site, at every address of `WAYS`: nothing listens but on this machine."""
    with peer_with(folder / "peer", *deposits(site), at=NAMED) as peer:
        port = peer.http.rpartition(":")[2]
        with door(BOXED, int(port)), door(BARE, int(port), is_bare=True):
            yield port


def acid_in(
    name: str, ways: Sequence[str] = ("names", "box"), *, is_live_too: bool = True
) -> dict[str, Result]:
    """The page in one browser, live and in each way."""
    site = acid_site()
    with tempfile.TemporaryDirectory() as given, live_web(site) as live:
        folder = Path(given)
        with doors(folder, site) as port:
            portals = {way: f"http://{WAYS[way]}:{port}/web/{DATE}/{ENTRY}" for way in ways}
            pages = {**({"live": ENTRY} if is_live_too else {}), **portals}
            return anyio.run(compared, name, live, pages, folder)


def attacked_in(name: str, pages: Mapping[str, Sequence[int]]) -> dict[str, list[str]]:
    """What the attacks gained or let out in one browser, by way, on these pages of `attack_site`; nothing is as it
    should be, but in the bare way."""
    with tempfile.TemporaryDirectory() as given, live_web({}) as live:
        folder, site = Path(given), attack_site(live.tcp_port, live.udp_port)
        live.site = site
        with doors(folder, site) as port:
            portals = {
                f"http://{WAYS[way]}:{port}/web/{DATE}/{SITE}/": (way, those) for way, those in pages.items()
            }
            return anyio.run(_attacked, name, live, portals, folder)


async def _attacked(
    name: str, live: Live, portals: dict[str, tuple[str, Sequence[int]]], folder: Path
) -> dict[str, list[str]]:
    gains: dict[str, list[str]] = {}
    async with opened(name, folder, live.proxy) as window:
        for address, (way, numbers) in portals.items():
            found = gains[way] = []
            for number in numbers:
                live.forget()
                attack = f"{address}{number or ''}"
                await window.visit(attack)
                quiet_s = QUIET_S if way != "bare" else 2 * QUIET_S  # there much more happens
                await anyio.sleep(GOING_S if 0 < number < RAW_PAGE else quiet_s)
                if way == "bare" and not number:
                    await _heard(live, window)
                said = await _noticed(window, address)
                said += [f"{one} arrived" for one in live.asked if not _OWN.search(one)]
                is_shown = not any("chrome-error" in one for one in said)
                if way == "bare" and 0 < number < RAW_PAGE and said and is_shown:
                    said.append(f"gained {NUMBERS[list(GOING)[number - 1]]}: the way")
                found += [f"{attack}: {one}" for one in said]
    return gains


async def _heard(live: Live, window: Window) -> None:
    """By each of the ears, and gained within the browser, however busy the machine is."""
    for _ in range(int(DONE_S)):
        gained = [f"gained {one}" for gains in await window.everywhere(_GAINS) for one in gains]
        if all(one in " ".join(live.asked) for one in EARS) and whose(gained) >= SURE:
            return
        await anyio.sleep(1)


_GAINS = """(function all(w) {
  var found = [];
  try { found = found.concat(w.gains || []); } catch (error) {}
  for (var at = 0; at < w.length; at++) try { found = found.concat(all(w[at])); } catch (error) {}
  return found;
})(window)"""
"""Of a frame and the frames in it that it may look into."""


async def _noticed(window: Window, address: str) -> list[str]:
    said = [f"gained {one}" for gains in await window.everywhere(_GAINS) for one in gains]
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


def attacks_held(name: str, ways: Sequence[str]) -> bool:
    """Prints what was gained or let out; whether nothing was, and where nothing keeps a page in, enough."""
    found = attacked_in(name, dict.fromkeys(ways, range(RAW_PAGE + 1)))
    bare = found.pop("bare", None)
    for way, gains in found.items():
        print("\n".join([*(f"{name} {way}: {gain}" for gain in gains), f"{name} {way}: {len(gains)} gains"]))
    if bare is not None:
        achieved = whose(bare)
        print(f"{name} bare: {len(achieved)} of {len(NUMBERS)} attacks achieve something")
        print(f"{name} bare: nothing by {sorted(set(NUMBERS) - achieved)}")
    return not any(found.values()) and (bare is None or len(whose(bare)) >= PROVEN_MIN)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", default="acid", choices=("acid", "attacks"))
    parser.add_argument("--browser", action="append", choices=("chromium", "firefox"))
    parser.add_argument("--way", action="append", choices=tuple(WAYS))
    given = parser.parse_args()
    browsers = given.browser or ("chromium", "firefox")
    if given.what == "attacks":
        held = [attacks_held(name, given.way or tuple(WAYS)) for name in browsers]
        return 0 if all(held) else 1
    good = [shown(name, acid_in(name, given.way or ("names", "box"))) for name in browsers]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
