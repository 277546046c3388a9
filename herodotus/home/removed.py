"""Where does a peer keep what was removed for good? `state/removed.json`, replaced in one step.

It outlives the captures, which are deleted, and the settings, which people edit. Format 1 (golden bytes in a test):

    {"format":1,"hosts":[{"name":"example.org","removed":1795000000}],"urls":[{"name":"https://a.example/x","removed":…}]}

Which hosts and pages were removed for good, so that they are not crawled or stored again? A host includes its
subdomains.

A page means both schemes and every spelling that the crawler takes for the same address. This is the operator's own
list of pages that must not be archived; site owners who ask not to be visited stand in `crawl.opt_out`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import msgspec

from crawler.core.errors import MalformedUrlError
from crawler.core.politeness import OptOutList
from crawler.core.scope import NOBODY_OPTED_OUT
from crawler.core.urls import canonical, host_of
from herodotus.core.errors import FileSyntaxError, Misuse
from herodotus.home.state_files import one_change_at_a_time, read_state_file, write_state_file


@dataclass(frozen=True, slots=True, kw_only=True)
class Removals:
    hosts: OptOutList = NOBODY_OPTED_OUT
    pages: frozenset[str] = frozenset()
    """Canonical, without their schemes."""

    @classmethod
    def of(cls, *, hosts: Iterable[str], urls: Iterable[str]) -> Self:
        """Raises MalformedUrlError for a text that is neither."""
        return cls(hosts=OptOutList.of(hosts), pages=frozenset(page_of(url) for url in urls))

    def covers(self, url: str) -> bool:
        if not self.pages and not self.hosts.hosts:
            return False
        try:
            plain = canonical(url)
        except MalformedUrlError:
            return False  # urn:, dns: and other schemes in foreign archives
        return self.hosts.covers(host_of(plain)) or plain.partition("://")[2] in self.pages


NOTHING_REMOVED = Removals()


def page_of(url: str) -> str:
    """Without a scheme https is meant, which is as good as http here."""
    return canonical(url if "://" in url else f"https://{url}").partition("://")[2]


FORMAT = 1
REMOVED_MAX = 100_000
FILE_BYTES_MAX = 64 * 2**20
NAME, LOCK = "removed.json", "removed.lock"
_HINT = "restore it from a backup; without it, removed pages would come back"


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    removed: int
    """Seconds since 1970."""


class RemovedFile(msgspec.Struct, frozen=True, kw_only=True):
    format: int = FORMAT
    hosts: list[Removed] = []
    urls: list[Removed] = []


@dataclass(kw_only=True)
class TooManyRemoved(Misuse):
    count: int

    def __str__(self) -> str:
        return (
            f"{self.count:,} entries are more than the {REMOVED_MAX:,} that a home keeps: remove whole hosts"
        )


def read_removed(state: Path) -> RemovedFile:
    found = read_state_file(state / NAME, RemovedFile, newest=FORMAT, bytes_max=FILE_BYTES_MAX, hint=_HINT)
    return found or RemovedFile()


def removals_of(state: Path) -> Removals:
    found = read_removed(state)
    if not found.hosts and not found.urls:
        return NOTHING_REMOVED
    try:
        return Removals.of(hosts=(one.name for one in found.hosts), urls=(one.name for one in found.urls))
    except MalformedUrlError as error:
        raise FileSyntaxError(file=str(state / NAME), problem=f"is damaged ({error})", hint=_HINT) from error


def note_removed(state: Path, *, hosts: Sequence[str], urls: Sequence[str], now: float) -> Removals:
    """Keep these names, which are checked. Names that were there keep their date."""
    with one_change_at_a_time(state / LOCK):
        before = read_removed(state)
        return _write(state, _with(before.hosts, hosts, now), _with(before.urls, urls, now))


def forget_removed(state: Path, *, hosts: Sequence[str], urls: Sequence[str]) -> tuple[Removals, list[str]]:
    """Allow these again; also returns those that had not been removed."""
    with one_change_at_a_time(state / LOCK):
        before = read_removed(state)
        gone_hosts, pages = set(hosts), {page_of(url) for url in urls}
        known = {one.name for one in before.hosts} | {page_of(one.name) for one in before.urls}
        unknown = [host for host in hosts if host not in known]
        unknown += [url for url in urls if page_of(url) not in known]
        after = _write(
            state,
            [one for one in before.hosts if one.name not in gone_hosts],
            [one for one in before.urls if page_of(one.name) not in pages],
        )
    return after, unknown


def _with(before: Iterable[Removed], names: Iterable[str], now: float) -> list[Removed]:
    dated = {one.name: one for one in before}
    for name in names:
        dated.setdefault(name, Removed(name=name, removed=int(now)))
    return list(dated.values())


def _write(state: Path, hosts: list[Removed], urls: list[Removed]) -> Removals:
    if len(hosts) + len(urls) > REMOVED_MAX:
        raise TooManyRemoved(count=len(hosts) + len(urls))
    removals = Removals.of(hosts=(one.name for one in hosts), urls=(one.name for one in urls))
    write_state_file(state / NAME, RemovedFile(hosts=hosts, urls=urls))
    return removals
