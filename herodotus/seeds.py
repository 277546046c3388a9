"""Where do crawls of this home begin, and what did the last one do? Two small files in `state/`.

`seeds.json` holds the URLs that `herodotus seed` keeps; `crawl.json` what the last `herodotus crawl` was asked
for, so that `--resume` can go on with it. Both are replaced in one step. Format 1 (golden bytes in a test):

    {"format": 1, "seeds": [{"url": "https://example.org/", "added": 1767225600}]}
    {"format": 1, "urls": ["https://example.org/"], "scope": "host", "depth": null, "content": "html+images",
     "widens": false, "delay": null}
"""

import contextlib
import fcntl
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import msgspec

from herodotus.core.errors import FileSyntaxError, Misuse, NotFound
from herodotus.files import storage_failure, write_durably

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
    """What a crawl was asked for, as far as going on needs it."""

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


File = TypeVar("File", _SeedsFile, LastCrawl)


def _read(path: Path, kind: type[File]) -> File | None:
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise storage_failure(error, path, "read") from error
    try:
        found = msgspec.json.decode(content, type=kind)
    except (msgspec.DecodeError, ValueError) as error:
        hint = "restore it from a backup, or remove it"
        raise FileSyntaxError(
            file=str(path), problem=f"is damaged ({str(error)[:100]})", hint=hint
        ) from error
    if found.format != FORMAT:
        problem = f"has format {found.format}, and this release reads {FORMAT}"
        raise FileSyntaxError(file=str(path), problem=problem, hint="upgrade herodotus")
    return found


def seeds_of(home: Path) -> list[Seed]:
    """In the order in which they were added."""
    found = _read(home / _FOLDER / _SEEDS, _SeedsFile)
    return [] if found is None else found.seeds


def add_seeds(home: Path, urls: Sequence[str], *, now: float) -> list[str]:
    """Keep canonical URLs; says which of them are new."""
    with _changing(home):
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
    with _changing(home):
        seeds = seeds_of(home)
        unknown = [url for url in urls if url not in {seed.url for seed in seeds}]
        _write(home, [seed for seed in seeds if seed.url not in set(urls)])
    return unknown


def last_crawl(home: Path) -> LastCrawl | None:
    return _read(home / _FOLDER / _LAST, LastCrawl)


def note_crawl(home: Path, crawl: LastCrawl) -> None:
    write_durably(home / _FOLDER / _LAST, msgspec.json.encode(crawl), mode=0o600)


def _write(home: Path, seeds: list[Seed]) -> None:
    content = msgspec.json.encode(_SeedsFile(format=FORMAT, seeds=seeds))
    write_durably(home / _FOLDER / _SEEDS, content, mode=0o600)


@contextlib.contextmanager
def _changing(home: Path) -> Iterator[None]:
    """One change at a time; also while a peer runs, which holds the home's own lock."""
    path = home / _FOLDER / _LOCK
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise storage_failure(error, path, "open") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
