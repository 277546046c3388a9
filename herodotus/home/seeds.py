"""Where do crawls of this home begin, and what did the last one do? Two small files in `state/`.

`seeds.json` holds the URLs that `herodotus seed` keeps; `crawl.json` what the last `herodotus crawl` was asked
for, so that `--resume` can continue it. Both are replaced in one step. Format 1 (golden bytes in a test):

    {"format": 1, "seeds": [{"url": "https://example.org/", "added": 1767225600}]}
    {"format": 1, "urls": ["https://example.org/"], "scope": "host", "depth": null, "content": "html+images",
     "widens": false, "delay": null}
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from herodotus.core.errors import Misuse, NotFound
from herodotus.home.state_files import one_change_at_a_time, read_state_file, write_state_file

FORMAT = 1
SEEDS_MAX = 100_000
FILE_BYTES_MAX = 64 * 2**20
_FOLDER, _SEEDS, _LAST, _LOCK = "state", "seeds.json", "crawl.json", "seeds.lock"


class Seed(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    """Canonical."""
    added: int
    """Seconds since 1970."""


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
    found = read_state_file(home / _FOLDER / _SEEDS, _SeedsFile, newest=FORMAT, bytes_max=FILE_BYTES_MAX)
    return [] if found is None else found.seeds


def add_seeds(home: Path, urls: Sequence[str], *, now: float) -> list[str]:
    """Keep canonical URLs; says which of them are new."""
    with one_change_at_a_time(home / _FOLDER / _LOCK):
        seeds = seeds_of(home)
        known = {seed.url for seed in seeds}
        new = [url for url in dict.fromkeys(urls) if url not in known]
        seeds += [Seed(url=url, added=int(now)) for url in new]
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
    write_state_file(home / _FOLDER / _SEEDS, _SeedsFile(format=FORMAT, seeds=seeds))
