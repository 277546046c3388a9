"""Are real sites captured whole, and shown as they were? `scripts/realweb [--short] [SITE...]`.

Each site is served on loopback, loaded twice live, crawled by the ordinary crawler, and shown by names, in the box and
by pywb, in Chromium at 1200 x 800. A page is right if it has the live page's words, at most one pixel in a hundred is
another, nothing failed that came live, and nothing was asked of the live web. Pages that are not alike in two live
loads are told and counted by nobody.
"""

import argparse
import hashlib
import html
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import anyio
import anyio.to_thread

from herodotus.core.replay.labels import read_label
from scripts.realsites.archives import Pywb, crawled, got, pywb, shown, wgot
from scripts.realsites.live import Host, LiveWeb, live_web
from scripts.realsites.packages import MissingError
from scripts.realsites.sites import SHORT, Site, listed
from scripts.realsites.watching import Load, Watcher, watcher
from tests.herodotus.portal.shelves import BOXED, NAMED

ROOT = Path(__file__).parents[2]
CACHE = ROOT / ".venv" / "realweb"
APART_MAX = 0.01
WAYS = ("names", "box", "pywb")
_EMPTY = hashlib.sha1(b"", usedforsecurity=False).hexdigest()


@dataclass(kw_only=True)
class Seen:
    """Of one page by one way, beside the live one."""

    pixels: float
    words: bool
    failed: list[str] = field(default_factory=list)
    """That came live."""
    leaks: list[str] = field(default_factory=list)
    lacking: list[str] = field(default_factory=list)
    """Some words that are only on the live page, or only on this one."""
    problem: str = ""

    @property
    def is_right(self) -> bool:
        return (
            self.words
            and self.pixels <= APART_MAX
            and not self.failed
            and not self.leaks
            and not self.problem
        )

    @property
    def why(self) -> str:
        reasons = [self.problem] if self.problem else []
        reasons += [f"{self.pixels:.1%} of pixels"] if self.pixels > APART_MAX else []
        reasons += [f"words: {' '.join(self.lacking)}"[:90]] if not self.words else []
        reasons += [f"{len(self.failed)} failed, such as {self.failed[0]}"] if self.failed else []
        reasons += [f"{len(self.leaks)} leaks, such as {self.leaks[0]}"] if self.leaks else []
        return "; ".join(reasons)


@dataclass(kw_only=True)
class Page:
    path: str
    needed: int
    captured: int
    wget: int | None
    missing: list[str]
    live: Seen
    """Once more."""
    ways: dict[str, Seen] = field(default_factory=dict)


@dataclass(kw_only=True)
class Result:
    site: str
    is_application: bool
    pages: list[Page] = field(default_factory=list)
    crawl: dict[str, object] = field(default_factory=dict)
    problem: str = ""
    """Why nothing was looked at."""


def compared(live: Load, other: Load, pixels: float, failed: list[str], leaks: Sequence[str]) -> Seen:
    differing = (live.words - other.words) + (other.words - live.words)
    return Seen(
        pixels=pixels,
        words=not differing,
        failed=failed[:20],
        leaks=list(leaks)[:20],
        lacking=sorted(differing)[:8],
    )


def original(address: str) -> str | None:
    """What an address of one of the archives is that of."""
    host, _, path = address.partition("://")[2].partition("/")
    label = read_label(host.partition(".localhost")[0]) if ".localhost" in host else None
    if label is not None:
        return f"{label.origin}/{path}"
    _, _, path = path.partition("/")  # the name of ours is `web`, of pywb's that of its collection
    date, _, url = path.partition("/")
    return url if date[:4].isdigit() and "://" in url else None


class _Looking:
    """One site, from live to archived."""

    def __init__(
        self,
        site: Site,
        web: LiveWeb,
        watch: Watcher,
        theirs: Pywb | None,
        pictures: Path,
        *,
        ours_alone: bool,
    ) -> None:
        self._site, self._web, self._watch, self._pywb, self._pictures = site, web, watch, theirs, pictures
        self._ours_alone = ours_alone
        self.result = Result(site=site.name, is_application=site.is_application)

    def _url(self, path: str) -> str:
        return self._web.address(self._site.host, path)

    async def all(self, folder: Path) -> Result:
        site, web = self._site, self._web
        urls = [self._url(path) for path in site.pages]
        live = [await self._watch.look(url) for url in urls]
        again = [await self._watch.look(url) for url in urls]
        home = folder / "home"
        found = await crawled(home, urls)
        self.result.crawl = {key: found[key] for key in ("ended", "fetched", "stored", "gone", "failed")}
        taken = None
        if not self._ours_alone:
            taken = await anyio.to_thread.run_sync(wgot, folder / "wget", web.proxy, urls)
        date = datetime.now(UTC).strftime("%Y%m%d%H%M%S")
        theirs = await anyio.to_thread.run_sync(self._pywb.showing, home, site.name) if self._pywb else ""
        with shown(home) as port:
            for number, path in enumerate(site.pages):
                page = await self._page(
                    path, live[number], again[number], f"http://{BOXED}:{port}", date, taken
                )
                self.result.pages.append(page)
                for way in WAYS:
                    if way != "pywb":
                        host = NAMED if way == "names" else BOXED
                        address = f"http://{host}:{port}/web/{date}/{urls[number]}"
                    elif theirs:
                        address = f"{theirs}/{date}/{urls[number]}"
                    else:
                        continue
                    page.ways[way] = await self._seen_best(way, number, live[number], address)
        return self.result

    async def _page(
        self, path: str, live: Load, again: Load, portal: str, date: str, taken: Mapping[str, str] | None
    ) -> Page:
        needed = sorted(url for url in live.succeeded if self._is_ours(url))
        bodies = {url: self._web.body(url) for url in needed}
        missing, by_wget = [], 0
        for url in needed:
            wanted = bodies[url]
            have = await anyio.to_thread.run_sync(got, portal, date, url)
            if have is None or (wanted is not None and have != wanted):
                missing.append(url)
            if taken is not None:
                digest = hashlib.sha1(wanted or b"", usedforsecurity=False).hexdigest()
                by_wget += taken.get(url) == digest
        steady = compared(live, again, await self._watch.difference(live.picture, again.picture), [], [])
        name = _file_name(path)
        self._keep(f"{name}.live.png", live.picture)
        return Page(
            path=path, needed=len(needed), captured=len(needed) - len(missing), missing=missing[:50],
            wget=None if taken is None else by_wget, live=steady,
        )  # fmt: skip

    def _is_ours(self, url: str) -> bool:
        return any(url.startswith(f"http://{host}:{self._web.port}/") for host in self._web.hosts)

    async def _seen_best(self, way: str, number: int, live: Load, address: str) -> Seen:
        """Of two looks, if the first is not right: a busy machine may be late. What leaked in one has leaked."""
        seen = await self._seen(way, number, live, address)
        if not seen.is_right:
            again = await self._seen(way, number, live, address)
            again.leaks = seen.leaks + again.leaks
            seen = again if again.is_right or again.leaks else seen
        return seen

    async def _seen(self, way: str, number: int, live: Load, address: str) -> Seen:
        self._web.forget()
        load = await self._watch.look(address, framed_by=way)
        leaks = [one for one in self._web.asked if ".example" in one]
        failed = sorted(
            {url for one in load.failed if (url := original(one)) in live.succeeded and url is not None}
        )
        seen = compared(live, load, await self._watch.difference(live.picture, load.picture), failed, leaks)
        if way == "names" and not any(".localhost" in frame for frame in load.frames):
            seen.problem = f"shown by no name: {load.frames[:2]}"
        self._keep(f"{_file_name(self._site.pages[number])}.{way}.png", load.picture)
        return seen

    def _keep(self, name: str, picture: bytes) -> None:
        self._pictures.mkdir(parents=True, exist_ok=True)
        (self._pictures / name).write_bytes(picture)


def _file_name(path: str) -> str:
    return quote(path, safe="").replace("%2F", "_") or "index"


async def look_at(
    sites: Sequence[Site], cache: Path, out: Path, told: Callable[[Result], None], *, ours_alone: bool
) -> list[Result]:
    """One after the other; what is not to be had is told, and the others are looked at."""
    results = []
    with (
        tempfile.TemporaryDirectory() as given,
        live_web({}) as web,
        nullcontext() if ours_alone else pywb(Path(given) / "pywb") as theirs,
    ):
        async with watcher(Path(given), web.proxy) as watch:
            for site in sites:
                folder = Path(given) / site.name
                folder.mkdir()
                looking = _Looking(site, web, watch, theirs, out / site.name, ours_alone=ours_alone)
                try:
                    files = await anyio.to_thread.run_sync(site.folder, cache)
                except MissingError as error:
                    looking.result.problem = str(error)
                else:
                    web.hosts = {
                        site.host: Host(folder=files, fallback=site.fallback, cdn=site.cdn and site.cdn_host)
                    }
                    if site.cdn:
                        web.hosts[site.cdn_host] = Host(folder=files / site.cdn)
                    await looking.all(folder)
                shutil.rmtree(folder)
                results.append(looking.result)
                told(looking.result)
    return results


# -- what was found


def _share(part: int, whole: int) -> str:
    return f"{part} of {whole} ({part / whole:.1%})" if whole else "none"


def _kind(is_application: object) -> str:
    return "applications" if is_application else "documents"


def summed(results: Sequence[Result]) -> dict[str, dict[str, str]]:
    """For documents and applications: what was captured, and how many pages are right by each way."""
    sums = {}
    for kind in (False, True):
        pages = [page for one in results if one.is_application is kind for page in one.pages]
        if not pages:
            continue
        steady = [page for page in pages if page.live.is_right]
        needed = sum(page.needed for page in pages)
        line = {"captured": _share(sum(page.captured for page in pages), needed)}
        if all(page.wget is not None for page in pages):
            line["wget"] = _share(sum(page.wget or 0 for page in pages), needed)
        for way in WAYS:
            shown_by = [page.ways[way] for page in steady if way in page.ways]
            if shown_by:
                line[way] = _share(sum(seen.is_right for seen in shown_by), len(shown_by))
        whole = [page.ways["names"].is_right for page in steady if "names" in page.ways and not page.missing]
        line["names, of pages wholly captured"] = _share(sum(whole), len(whole))
        line["unsteady"] = str(len(pages) - len(steady))
        line["leaks"] = str(
            sum(len(seen.leaks) for page in pages for way, seen in page.ways.items() if way != "pywb")
        )
        sums[_kind(kind)] = line
    return sums


def table(result: Result) -> str:
    if result.problem:
        return f"{result.site:12} not looked at: {result.problem}"
    lines = []
    for page in result.pages:
        marks = " ".join(f"{way}:{'+' if seen.is_right else '-'}" for way, seen in page.ways.items())
        wget = "" if page.wget is None else f" wget {page.wget:3}"
        figures = f"needed {page.needed:3} captured {page.captured:3}{wget}"
        lines.append(f"{result.site:12} {page.path or '/':40.40} {figures}  {marks}")
        lines += [f"{'':12} missing: {url}" for url in page.missing[:5]]
        if not page.live.is_right:
            lines.append(f"{'':12} not alike in two live loads: {page.live.why}")
        lines += [f"{'':12} {way}: {seen.why}" for way, seen in page.ways.items() if not seen.is_right]
    return "\n".join(lines)


def side_by_side(results: Sequence[Result], out: Path) -> Path:
    """A page of pictures, those first that are not alike."""
    rows = []
    for result in results:
        for page in result.pages:
            name = f"{result.site}/{_file_name(page.path)}"
            shown_by = {
                "live": "",
                **{way: "" if seen.is_right else seen.why for way, seen in page.ways.items()},
            }
            shots = "".join(
                f"<td><img src='{name}.{way}.png' loading=lazy><br>{way} {html.escape(why)}"
                for way, why in shown_by.items()
            )
            wrong = sum(not seen.is_right for seen in page.ways.values())
            rows.append((-wrong, f"<tr><th>{result.site} {page.path}{shots}"))
    style = "img{width:400px}td{vertical-align:top;font:12px sans-serif}"
    text = f"<!DOCTYPE html><meta charset=utf-8><style>{style}</style>"
    index = out / "index.html"
    index.write_text(text + "<table>" + "\n".join(row for _, row in sorted(rows)) + "</table>")
    return index


def _code() -> str:
    """By which the results of an earlier run are those of this code."""
    sha = hashlib.sha1(usedforsecurity=False)
    for package in ("crawler", "herodotus", "scripts/realsites"):
        for file in sorted((ROOT / package).rglob("*")):
            if file.is_file() and file.suffix in (".py", ".js", ".html", ".css"):
                sha.update(file.read_bytes())
    return sha.hexdigest()


def _result(said: dict[str, Any]) -> Result:
    pages = []
    for page in said.pop("pages"):
        live, ways = Seen(**page.pop("live")), page.pop("ways")
        pages.append(Page(live=live, ways={way: Seen(**seen) for way, seen in ways.items()}, **page))
    return Result(pages=pages, **said)


def main() -> int:
    """0: all is right by names and nothing leaked; 1: something is not; 2: that, but some sites are not to be had."""
    sites = {one.name: one for one in listed()}
    given = _given(sites)
    if given.list:
        print("\n".join(f"{one.name:12} {_kind(one.is_application)}" for one in sites.values()))
        return 0
    if shutil.which("chromium") is None:
        print(
            "realweb: chromium is missing: scripts/setup dev, as root on Debian, installs it", file=sys.stderr
        )
        return 2
    given.out.mkdir(parents=True, exist_ok=True)
    code = _code()

    def told(result: Result) -> None:
        print(table(result), file=sys.stderr if given.json else sys.stdout, flush=True)
        if not result.problem:
            _file(given.out, result.site).write_text(json.dumps({"code": code, "result": asdict(result)}))

    wanted = given.site or (SHORT if given.short else list(sites))
    results = _taken_over(given.out, wanted, code) if given.resume else []
    left = [sites[name] for name in wanted if name not in {one.site for one in results}]
    look = partial(look_at, left, given.cache, given.out, told, ours_alone=given.short)
    results += anyio.run(look)
    _tell(results, given.out, as_json=given.json)
    return _code_of(results)


def _given(sites: Mapping[str, Site]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("site", nargs="*", help="names of sites; all without")
    parser.add_argument(
        "--short", action="store_true", help=f"only {', '.join(SHORT)}, without wget and pywb"
    )
    parser.add_argument("--list", action="store_true", help="name the sites")
    parser.add_argument("--json", action="store_true", help="all figures, for machines")
    parser.add_argument(
        "--resume", action="store_true", help="take over what a run with the same code has found"
    )
    parser.add_argument("--out", type=Path, default=CACHE / "out", help="folder for pictures and results")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder for packages")
    given = parser.parse_args()
    unknown = set(given.site) - set(sites)
    if unknown:
        parser.error(f"no such site: {', '.join(sorted(unknown))}; --list names all")
    return given


def _file(out: Path, site: str) -> Path:
    return out / f"{site}.json"


def _taken_over(out: Path, wanted: Sequence[str], code: str) -> list[Result]:
    files = [_file(out, name) for name in wanted if _file(out, name).exists()]
    said = [json.loads(file.read_text()) for file in files]
    return [_result(one["result"]) for one in said if one["code"] == code]


def _tell(results: Sequence[Result], out: Path, *, as_json: bool) -> None:
    sums, index = summed(results), side_by_side(results, out)
    if as_json:
        print(json.dumps({"sums": sums, "sites": [asdict(one) for one in results]}, indent=1))
        return
    for kind, line in sums.items():
        print(f"{kind}: " + "; ".join(f"{name} {figure}" for name, figure in line.items()))
    print(f"pictures: {index}")


def _code_of(results: Sequence[Result]) -> int:
    pages = [page for one in results for page in one.pages]
    is_right = all(page.ways["names"].is_right for page in pages if page.live.is_right)
    if not is_right or any(page.ways[way].leaks for page in pages for way in ("names", "box")):
        return 1
    return 2 if any(one.problem for one in results) else 0


if __name__ == "__main__":
    sys.exit(main())
