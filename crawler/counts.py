"""What has a crawl done so far? Counters by outcome, status, type, error and host, copied for display."""

from collections import Counter
from dataclasses import dataclass, field, replace

from crawler.core.recrawl import Result
from crawler.core.urls import Origin

HOSTS_COUNTED_MAX = 10_000
"""Beyond, hosts share one row: some 200 bytes each."""
MIMES_COUNTED_MAX = 200
OTHER_HOSTS = Origin("(others)")

COUNT_OF = {
    Result.UNCHANGED: "unchanged",
    Result.GONE: "gone",
    Result.REFUSED: "refused",
    Result.FAILED: "failed",
}


@dataclass(slots=True)
class HostCounts:
    fetched: int = 0
    stored: int = 0
    stored_bytes: int = 0
    unchanged: int = 0
    failed: int = 0
    forbidden: int = 0
    problem: str = ""
    """The last one, in words."""


@dataclass(slots=True)
class CrawlCounts:
    """Counted as things happen."""

    fetched: int = 0
    stored: int = 0
    stored_bytes: int = 0
    unchanged: int = 0
    gone: int = 0
    refused: int = 0
    failed: int = 0
    forbidden: int = 0
    skipped: int = 0
    noarchive: int = 0
    recovered: int = 0
    """Captures that a crash had kept from being recorded."""
    reread: int = 0
    """Read again from the archive, as the crawl takes in more than the last one did."""
    links_found: int = 0
    links_new: int = 0
    lying_validators: int = 0
    near_duplicates: int = 0
    """Pages much like others of their host: their links wait until the others are done."""
    by_status: Counter[int] = field(default_factory=Counter)
    by_mime: Counter[str] = field(default_factory=Counter)
    by_error: Counter[str] = field(default_factory=Counter)
    by_host: dict[Origin, HostCounts] = field(default_factory=dict)
    links_left: Counter[str] = field(default_factory=Counter)
    """Links that were not taken, by reason."""

    def count_mime(self, mime: str) -> None:
        """Servers may say what they like, a new type with each page; so the table is bounded."""
        name = mime or "(none)"
        if name not in self.by_mime and len(self.by_mime) >= MIMES_COUNTED_MAX:
            name = "(others)"
        self.by_mime[name] += 1

    def host(self, origin: Origin) -> HostCounts:
        found = self.by_host.get(origin)
        if found is None:
            name = origin if len(self.by_host) < HOSTS_COUNTED_MAX else OTHER_HOSTS
            found = self.by_host.setdefault(name, HostCounts())
        return found

    def snapshot(self) -> "CrawlCounts":
        return replace(
            self,
            by_status=self.by_status.copy(),
            by_mime=self.by_mime.copy(),
            by_error=self.by_error.copy(),
            by_host={host: replace(counts) for host, counts in self.by_host.items()},
            links_left=self.links_left.copy(),
        )
