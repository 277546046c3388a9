"""How does everything that an archive has of a page or a host go, and stay away?

The note comes first, and from then on nothing of it is stored again, whatever its source. Then the captures are
deleted, some at a time, as any others are. Their bytes stay in the files until these are rewritten, which upkeep
does when a quarter of one is dead, and `erase` at once.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from crawler.core.errors import MalformedUrlError
from crawler.core.politeness import OptOutList
from crawler.core.urls import canonical, host_of
from herodotus.core.captures import position_of
from herodotus.core.index_rows import after, url_prefix
from herodotus.store.engine import Archive
from herodotus.store.reader import addresses, odd_addresses, site_ranges
from herodotus.store.sealing import NOTHING
from herodotus.store.store import READING, DiskStore

VERSIONS_AT_ONCE = 500
ADDRESSES_AT_ONCE = 1_000
_ANY_DEAD = 1e-9


@dataclass(slots=True)
class RemovalReport:
    addresses: int = 0
    captures: int = 0
    rewritten: int = 0
    """Files that were replaced by smaller ones, as their bytes were to go at once."""


async def remove_pages(store: DiskStore, urls: tuple[str, ...], report: RemovalReport) -> None:
    """In both schemes, as the crawler spells them and as they were given."""
    for url in urls:
        for spelling in both_schemes(url):
            await _delete_all(store, spelling, report)


async def remove_host(store: DiskStore, host: str, report: RemovalReport) -> None:
    """With all below it."""
    while True:
        found = await store.workers.work(lambda: _some_addresses(store.archive, host), READING)
        before = report.captures
        for url in found:
            await _delete_all(store, url, report)
        if report.captures == before:  # addresses may outlive their last capture
            return


def _some_addresses(archive: Archive, host: str) -> list[str]:
    """The first that have captures."""
    with_captures = (url for url in _addresses_of(archive, host) if _has_captures(archive, url))
    return list(islice(with_captures, ADDRESSES_AT_ONCE))


def _has_captures(archive: Archive, url: str) -> bool:
    prefix = url_prefix(position_of(url))
    return next(archive.index.scan(prefix, after(prefix)), None) is not None


def _addresses_of(archive: Archive, host: str) -> Iterator[str]:
    for start, end in site_ranges(host):
        yield from addresses(archive, start, end)
    wanted = OptOutList(frozenset({host}))
    for url in odd_addresses(archive):  # imported files keep their spelling, which may be any
        try:
            is_below = wanted.covers(host_of(canonical(url)))
        except MalformedUrlError:
            continue
        if is_below:
            yield url


async def _delete_all(store: DiskStore, url: str, report: RemovalReport) -> None:
    before = report.captures
    while versions := await store.history(url, limit=VERSIONS_AT_ONCE):
        deleted = await store.delete([version.id for version in versions])
        report.captures += deleted
        if not deleted:
            break
    report.addresses += report.captures > before


async def erase(store: DiskStore, report: RemovalReport) -> None:
    """Rewrite every file that holds something dead, so that its bytes are gone from the disk."""
    if (await store.seal()) is not NOTHING:
        report.rewritten += 1
    for _ in range(len(store.archive.files.segments()) + 1):  # each turn ends some of them
        sealed = await store.compact(_ANY_DEAD)
        if sealed is NOTHING:
            return
        report.rewritten += sealed.files_before


def both_schemes(url: str) -> tuple[str, ...]:
    spelled = [url, canonical(url)]
    rests = dict.fromkeys(one.partition("://")[2] for one in spelled)
    return tuple(f"{scheme}://{rest}" for rest in rests for scheme in ("https", "http"))
