"""Where do crawls of this home begin, and what did the last one do? Two small files in `state/`.

`seeds.json` holds the URLs that `herodotus seed` keeps; `crawl.json` what the last `herodotus crawl` was asked
for, so that `--resume` can continue it. Both are replaced in one step. What a person did not say of a seed is left
out. Format 1 of the first knew `url` and `added` alone. Golden bytes are in a test:

    {"format": 2, "seeds": [{"url": "https://example.org/", "added": 1767225600, "scope": "site", "depth": 3,
     "content": "pages", "every_s": 86400, "until_s": 1798761599, "limit": 5000, "name": "Elections"}]}
    {"format": 1, "urls": ["https://example.org/"], "scope": "host", "depth": null, "content": "html+images",
     "widens": false, "delay": null}
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from crawler.core.recrawl import ContentName, ScopeName
from herodotus.core.errors import Misuse, NotFound
from herodotus.home.state_files import one_change_at_a_time, read_state_file, write_state_file

FORMAT = 1
"""Of the last crawl."""
SEEDS_FORMAT = 2
NAME_CHARS_MAX = 100
SEEDS_MAX = 100_000
FILE_BYTES_MAX = 64 * 2**20
_FOLDER, _SEEDS, _LAST, _LOCK = "state", "seeds.json", "crawl.json", "seeds.lock"


class Seed(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    url: str
    """Canonical."""
    added: int
    """Seconds since 1970."""
    scope: ScopeName | None = None
    depth: int | None = None
    content: ContentName | None = None
    every_s: int | None = None
    until_s: int | None = None
    """Seconds since 1970."""
    limit: int | None = None
    name: str = ""

    @property
    def is_bounded(self) -> bool:
        """Whether the crawl goes less far from it than the network's charter allows."""
        told = (self.scope, self.depth, self.content, self.every_s, self.until_s, self.limit)
        return any(one is not None for one in told)

    @property
    def options(self) -> dict[str, Any]:
        """As an order to begin there takes them."""
        names = ("scope", "depth", "content", "limit", "every_s", "until_s")
        return {name: getattr(self, name) for name in names}

    def with_options_of(self, other: "Seed") -> "Seed":
        return msgspec.structs.replace(other, url=self.url, added=self.added)


NO_OPTIONS = Seed(url="", added=0)


class _SeedsFile(msgspec.Struct, kw_only=True):
    format: int
    seeds: list[Seed]


class LastCrawl(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a crawl's order that resuming it needs."""

    format: int = FORMAT
    urls: list[str]
    scope: str
    depth: int | None
    content: str
    widens: bool = False
    """What is known was not yet looked through for links that the crawl before left out."""
    delay: float | None = None
    """Seconds; None: the charter's."""

    def asks_the_same_as(self, other: "LastCrawl") -> bool:
        """For the same pages, at whatever pace."""
        return msgspec.structs.replace(self, widens=other.widens, delay=other.delay) == other


@dataclass(kw_only=True)
class TooManySeeds(Misuse):
    count: int

    def __str__(self) -> str:
        return f"{self.count:,} seeds are more than the {SEEDS_MAX:,} that a home may have"


@dataclass(kw_only=True)
class NoSeeds(NotFound):
    def __str__(self) -> str:
        return "there is nothing to crawl: name URLs, or keep some with `herodotus seed add URL`"


@dataclass(kw_only=True)
class NothingToResume(NotFound):
    home: str

    def __str__(self) -> str:
        return f"no crawl was begun in {self.home} yet; begin one with `herodotus crawl URL`"


def seeds_of(home: Path) -> list[Seed]:
    """In the order in which they were added."""
    found = read_state_file(
        home / _FOLDER / _SEEDS, _SeedsFile, newest=SEEDS_FORMAT, oldest=1, bytes_max=FILE_BYTES_MAX
    )
    return [] if found is None else found.seeds


def add_seeds(home: Path, urls: Sequence[str], *, now: float, options: Seed = NO_OPTIONS) -> list[str]:
    """Keep canonical URLs, with the options of that seed; says which of them are new. Those that are kept already get
    the options, if there are any."""
    with one_change_at_a_time(home / _FOLDER / _LOCK):
        seeds = seeds_of(home)
        known = {seed.url for seed in seeds}
        new = [url for url in dict.fromkeys(urls) if url not in known]
        if options != NO_OPTIONS:
            named = set(urls)
            seeds = [seed.with_options_of(options) if seed.url in named else seed for seed in seeds]
        seeds += [Seed(url=url, added=int(now)).with_options_of(options) for url in new]
        if len(seeds) > SEEDS_MAX:
            raise TooManySeeds(count=len(seeds))
        _write(home, seeds)
    return new


def remove_seeds(home: Path, urls: Sequence[str]) -> list[str]:
    """Drop seeds; says which of the URLs were none. What they led to stays known and archived."""
    with one_change_at_a_time(home / _FOLDER / _LOCK):
        seeds = seeds_of(home)
        unknown = [url for url in urls if url not in {seed.url for seed in seeds}]
        _write(home, [seed for seed in seeds if seed.url not in set(urls)])
    return unknown


def last_crawl(home: Path) -> LastCrawl | None:
    return read_state_file(home / _FOLDER / _LAST, LastCrawl, newest=FORMAT, bytes_max=FILE_BYTES_MAX)


def note_crawl(home: Path, crawl: LastCrawl) -> None:
    write_state_file(home / _FOLDER / _LAST, crawl)


def _write(home: Path, seeds: list[Seed]) -> None:
    write_state_file(home / _FOLDER / _SEEDS, _SeedsFile(format=SEEDS_FORMAT, seeds=seeds))
