"""Which numbers does the design promise, which program measures each, and why is one missed?

A goal finds its figure in what its program prints; where that changes, the figure is missing and said to be so. The
causes are of the last look at a shortfall, and are shown only while there is one.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

Find = Callable[[str], float | None]


@dataclass(frozen=True, slots=True)
class Program:
    """What is run; `short` is the same with so little work that only coarse faults show."""

    name: str
    full: tuple[str, ...]
    short: tuple[str, ...]


def _bench(word: str, full: str = "", short: str = "") -> Program:
    command = ("-m", f"scripts.benches.{word}")
    return Program(f"scripts/bench {word}", (*command, *full.split()), (*command, *(short or full).split()))


def _simnet(full: str, short: str) -> Program:
    return Program(
        f"simnet run {full.split(maxsplit=1)[0]}",
        ("-m", "simnet", "run", *full.split(), "--json"),
        ("-m", "simnet", "run", *short.split(), "--json"),
    )


CRAWL = _bench("crawl", "", "--hosts 6 --pages-max 40 --scrapy-pages-max 100")
FRONTIER = _bench("crawl_frontier", "", "--urls 20000,60000 --hosts 500")
STORE = _bench(
    "store", "--only layouts streaming recovery index",
    "--only layouts streaming recovery index --pages 300 --captures 20000",
)  # fmt: skip
PORTAL = _bench("portal", "--seconds 2", "--seconds 0.3")
REPLICATION = _bench("replication", "", "--members 20000 --captures 500 --differences 0 10 1000")
SIMNET = _bench("simnet", "--json", "--json --only machines")
REWRITING = _bench("replay_rewriting", "--json", "--json --rounds 1")
QUIET = _simnet("quiet --peers 1000 --seed 1", "quiet --peers 50 --seed 1")
LINK_WALK = _simnet("link-walk --peers 2000", "link-walk --peers 50")
PAPER_LINKS = _simnet("paper-links --peers 20000", "paper-links --peers 300")
CHURN = _simnet("churn --peers 500 --seed 1", "churn --peers 30 --seed 1")
PROGRAMS = (
    CRAWL,
    FRONTIER,
    STORE,
    PORTAL,
    REWRITING,
    REPLICATION,
    SIMNET,
    QUIET,
    LINK_WALK,
    PAPER_LINKS,
    CHURN,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Goal:
    what: str
    program: Program
    find: Find
    limit: float
    is_least: bool = True
    """The figure must be at least the limit; else at most."""
    unit: str = ""
    cause: str = ""
    short_limit: float | None = None
    """A ratio that the short form passes on a busy machine, too, unless something became several times worse: a third
    of what it gives at leisure, or thrice. None: so little work says nothing of it."""

    def has_fallen(self, figure: float) -> bool:
        """In the short form."""
        if self.short_limit is None:
            return False
        return figure < self.short_limit if self.is_least else figure > self.short_limit

    def is_met(self, figure: float) -> bool:
        return figure >= self.limit if self.is_least else figure <= self.limit


# -- finding ----------------------------------------------------------------------------------------------


def _documents(text: str) -> list[object]:
    """Whole JSON if it is, else the lines that are."""
    try:
        return [json.loads(text)]
    except ValueError:
        pass
    found = []
    for line in text.splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def ratio(words: str) -> Find:
    """Of `scripts/bench crawl`."""

    def find(text: str) -> float | None:
        for one in _documents(text):
            if isinstance(one, dict) and str(one.get("ratio", "")).startswith(words):
                return float(one["is"])
        return None

    return find


def figure(name: str) -> Find:
    """Of a scenario."""

    def find(text: str) -> float | None:
        for one in _documents(text):
            if isinstance(one, dict) and isinstance(one.get("figures"), dict) and name in one["figures"]:
                return float(one["figures"][name])
        return None

    return find


def last_of(key: str, scale: float = 1.0) -> Find:
    """In lines of JSON, the last that has the key."""

    def find(text: str) -> float | None:
        found = [one[key] for one in _documents(text) if isinstance(one, dict) and key in one]
        return float(found[-1]) * scale if found else None

    return find


def line(pattern: str) -> Find:
    """The first group of a line of text."""
    compiled = re.compile(pattern, re.MULTILINE)

    def find(text: str) -> float | None:
        match = compiled.search(text)
        return float(match[1].replace(",", "")) if match else None

    return find


def quotient(over: str, under: str) -> Find:
    """Of the figures of two lines."""

    def find(text: str) -> float | None:
        above, below = line(over)(text), line(under)(text)
        return above / below if above is not None and below else None

    return find


def differing(count: int) -> Find:
    """Bytes of `scripts/bench replication` for so many differences."""
    return line(rf"^ *[\d,]+ +{count:,} +([\d,]+) ")


def carrier(name: str, peers: int) -> Find:
    """Of `scripts/bench simnet`."""

    def find(text: str) -> float | None:
        for told in _documents(text):
            results = told.get("results", []) if isinstance(told, dict) else []
            for one in results:
                if one["carrier"] == name and one.get("peers") == peers:
                    return float(one["virtual_s_per_cpu_s"])
        return None

    return find


def rewriting(what: str) -> Find:
    def find(text: str) -> float | None:
        for rows in _documents(text):
            for one in rows if isinstance(rows, list) else []:
                if one.get("what") == what and one.get("ratio") is not None:
                    return float(one["ratio"])
        return None

    return find


def portal_long_way(case: str) -> Find:
    """How many times pywb's CPU time ours goes into, of a page that nobody asked for before."""
    return line(rf"^{re.escape(case)} .* ([\d.]+)x$")


_CRAWL_CAUSE = "storing is half of the path: records, three members, dedup and index rows for each page"
_READ_CAUSE = "each read is verified by SHA-256, which a bare pread is not"
GOALS = (
    Goal(what="crawl, whole path, beside Scrapy storing WARC", program=CRAWL, limit=10, unit="x", cause=_CRAWL_CAUSE,
         find=ratio("whole path beside Scrapy")),
    Goal(what="crawl, whole path, beside wget storing WARC", program=CRAWL, limit=2.5, unit="x", cause=_CRAWL_CAUSE,
         find=ratio("whole path beside wget")),
    Goal(what="crawl, an unchanged day beside bare aiohttp's 304s", program=CRAWL, limit=0.5, unit="x",
         cause="frontier rows and leases for each visit", find=ratio("unchanged day")),
    Goal(what="store, new pages beside plain files and fsync", program=STORE, limit=3, unit="x",
         cause="one core: half of it digests and compression", find=line(r"^  new stores / plain files +([\d.]+)")),
    Goal(what="store, new pages beside the thesis's layout", program=STORE, limit=2, unit="x",
         cause="that layout flushes nothing", find=line(r"^  new stores / thesis's layout +([\d.]+)")),
    Goal(what="store, duplicates beside plain files", program=STORE, limit=7, unit="x",
         cause="a duplicate still writes its own revisit record and index rows",
         find=line(r"^  duplicates / plain files +([\d.]+)")),
    Goal(what="cold reads beside a bare pread", program=STORE, limit=0.5, unit="x", cause=_READ_CAUSE,
         find=line(r"^  cold reads / bare pread +([\d.]+)")),
    Goal(what="warm reads beside pread and decode", program=STORE, limit=0.5, unit="x", cause=_READ_CAUSE,
         find=line(r"^  warm reads / pread and decode +([\d.]+)")),
    Goal(what="streaming, parsed and checked, beside FastWARC", program=STORE, limit=0.6, unit="x",
         find=line(r"^speed of ours / FastWARC's \(goal 0.6\) +([\d.]+)")),
    Goal(what="index, merged, for a capture", program=STORE, limit=60, is_least=False, unit="B",
         cause="the list of addresses, where no URL comes twice",
         find=line(r"^[\d,]+ captures: bytes a capture merged +([\d.]+)")),
    Goal(what="serving again after a crash with a full log", program=STORE, limit=1, is_least=False, unit="s",
         find=line(r"^so with the bound of 32 MiB \(extrapolated\) +([\d.]+)")),
    Goal(what="memory for a known URL", program=FRONTIER, limit=100, is_least=False, unit="B",
         find=last_of("memory_bytes_per_1000_more", 0.001)),
    Goal(what="replay of HTML of 29 kB, CPU time beside pywb", program=PORTAL, limit=5, unit="x",
         find=portal_long_way("html 29 kB")),
    Goal(what="rewriting HTML of 29 kB beside pywb's rewriter", program=REWRITING, limit=5, unit="x",
         find=rewriting("html 29 kB"), short_limit=4),
    Goal(what="redirects to the exact date, asked again", program=PORTAL, limit=40_000, unit="1/s",
         cause="one never asked before takes a trip to a thread", find=line(r"^redirect to a date +\d+ +([\d,]+) ")),
    Goal(what="CDX, exact, CPU time beside pywb", program=PORTAL, limit=5, unit="x", find=portal_long_way("CDX exact")),
    Goal(what="CDX, 100 rows by prefix, CPU time beside pywb", program=PORTAL, limit=5, unit="x",
         find=portal_long_way("CDX prefix, 100 rows")),
    Goal(what="4 kB raw, asked again, beside nginx", program=PORTAL, limit=0.6, unit="x",
         find=quotient(r"^4 kB raw +\d+ +([\d,]+) ", r"^nginx, 4 kB +\d+ +([\d,]+) ")),
    *(Goal(what=f"bytes to reconcile 1,000,000 captures, {count:,} differences", program=REPLICATION, limit=limit,
           is_least=False, unit="B", find=differing(count))
      for count, limit in ((0, 6_000), (10, 8_000), (1_000, 48_000), (100_000, 4_500_000))),
    Goal(what="bytes on the wire for a link and receiver, 40 links a peer", program=LINK_WALK, limit=20, is_least=False,
         unit="B", find=figure("varied, scaled to 59")),
    Goal(what="bytes for a link by lookups beside a walk", program=PAPER_LINKS, limit=13, unit="x",
         find=figure("direct over walk")),
    Goal(what="idle traffic of a peer, 1,000 peers", program=QUIET, limit=1_000, is_least=False, unit="bit/s",
         find=figure("bits per s and peer")),
    Goal(what="simulator, 1,000 bare machines with gossip", program=SIMNET, limit=300, unit="virtual s a CPU-s",
         find=carrier("machines", 1_000)),
)  # fmt: skip
