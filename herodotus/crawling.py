"""How does a peer crawl into its archive? The crawler's ports met by the store, and a crawl as a call.

Captures become deposits, unchanged visits lines of the visit log; both are durable before the frontier
hears of them. A crawl that was interrupted goes on where it was: the frontier is in `queue/`, the archive
beside it.
"""

import re
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import anyio

from crawler.core.capture import Capture, Outcome, PayloadDigest, Truncation, payload_digests
from crawler.core.content import MediaType
from crawler.core.errors import MalformedUrlError
from crawler.core.politeness import HostSteward, OptOutList, PolitenessPolicy
from crawler.core.recrawl import Recrawl
from crawler.core.scope import NOBODY_OPTED_OUT, Content, CrawlScope, ScopeKind
from crawler.core.urls import STANDARD, UrlRules
from crawler.fetch import REDIRECTS, AiohttpFetcher, FetchSettings
from crawler.frontier import Frontier, FrontierLimits
from crawler.steward import LocalSteward
from crawler.worker import Crawler, CrawlSettings
from herodotus import __version__
from herodotus.archive.slices import archive_at
from herodotus.archive.store import ArchiveStore, open_store
from herodotus.core.deposits import StoredCapture, deposit_of
from herodotus.core.notes import Visit

ROBOT = "Herodotus"
PUBLIC_POLITENESS = PolitenessPolicy()
_TRUNCATIONS = {truncation.value: truncation for truncation in Truncation}


class ArchiveSink:
    """The crawler's `CaptureSink` on an archive store."""

    def __init__(
        self, store: ArchiveStore, *, wall_clock: Callable[[], float], rules: UrlRules = STANDARD
    ) -> None:
        self._store = store
        self._wall_clock = wall_clock
        self._rules = rules

    async def store(self, capture: Capture) -> None:
        if capture.outcome is Outcome.STORED:
            await self._store.store(deposit_of(capture))
        else:
            visit = Visit(url=capture.url, time_s=int(capture.requested_at), status=capture.status)
            await self._store.note_visits([visit])

    async def find(self, url: str, since: float) -> Capture | None:
        stored = await self._store.newest(url, int(self._wall_clock()) + 1)
        if stored is None or stored.time_s < since:
            return None
        return capture_of(stored, self._rules)


def capture_of(stored: StoredCapture, rules: UrlRules = STANDARD) -> Capture:
    """A capture as the crawler would have made it, as far as its record tells."""
    truncated = stored.record.get("WARC-Truncated")
    capture = Capture(
        url=stored.url,
        requested_at=float(stored.time_s),
        duration_s=0.0,
        request=b"",
        status=stored.status,
        head=stored.head,
        body=stored.body,
        sha256=PayloadDigest(stored.id.digest),
        sha1=payload_digests(stored.body)[1],
        remote_ip=stored.record.get("WARC-IP-Address") or "",
        truncated=_TRUNCATIONS.get(truncated or ""),
    )
    return _with_derived(capture, rules)


def _with_derived(capture: Capture, rules: UrlRules) -> Capture:
    """Media type and redirect target follow from the head."""
    location = capture.header("Location") if capture.status in REDIRECTS else None
    target = None
    if location:
        try:
            target = rules.canonical(location, capture.url)
        except MalformedUrlError:
            target = None
    return replace(capture, mime=MediaType.of(capture.header("Content-Type")).mime, redirect_to=target)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlOrder:
    """What a crawl is asked to do. URLs are canonical (`crawler.core.urls.canonical`)."""

    urls: tuple[str, ...]
    scope: ScopeKind = ScopeKind.HOST
    depth_max: int | None = None
    fetches_max: int | None = None
    content: Content = Content.HTML_AND_IMAGES
    recrawl: Recrawl = Recrawl.DAILY
    connections: int = 56
    contact: str | None = None
    """The page that tells site owners who we are; goes into the User-Agent."""
    allow_private_addresses: bool = False
    politeness: PolitenessPolicy = PUBLIC_POLITENESS
    opted_out: OptOutList = NOBODY_OPTED_OUT
    day_length_s: float = 86_400.0

    @property
    def user_agent(self) -> str:
        contact = f" (+{self.contact})" if self.contact else ""
        return f"{ROBOT}/{__version__}{contact}"


@asynccontextmanager
async def open_archive_at(home: Path, *, wall_clock: Callable[[], float]) -> AsyncIterator[ArchiveStore]:
    """The home's archive store, opened for a command that runs without the daemon."""
    archive = archive_at(home, wall_clock)
    async with open_store(archive) as store:
        yield store


@asynccontextmanager
async def open_crawler(
    home: Path, store: ArchiveStore, order: CrawlOrder, *, wall_clock: Callable[[], float]
) -> AsyncIterator[Crawler]:
    """A seeded crawler on the home's frontier and the given store; `run()` it, `stop()` it, read `counts`."""
    now = wall_clock()
    frontier = Frontier(
        home / "queue",
        day=int(now // order.day_length_s),
        limits=FrontierLimits(tracks_depth=order.depth_max is not None),
    )
    try:
        fetch = FetchSettings(
            user_agent=order.user_agent,
            connections=order.connections,
            allow_private_addresses=order.allow_private_addresses,
        )
        async with AiohttpFetcher(fetch, wall_clock=wall_clock) as fetcher:
            core = HostSteward(order.politeness, now=anyio.current_time())
            crawler = Crawler(
                frontier,
                fetcher,
                ArchiveSink(store, wall_clock=wall_clock),
                LocalSteward(core, fetcher, product_token=ROBOT, wall_clock=wall_clock),
                _scope_of(order, now),
                CrawlSettings(
                    connections=order.connections,
                    recrawl=order.recrawl,
                    fetches_max=order.fetches_max,
                    robot=ROBOT,
                    day_length_s=order.day_length_s,
                ),
                wall_clock=wall_clock,
            )
            crawler.seed(list(order.urls))
            yield crawler
    finally:
        frontier.close()


def _scope_of(order: CrawlOrder, now: float) -> CrawlScope:
    return CrawlScope.of_seeds(
        order.urls,
        order.scope,
        depth_max=order.depth_max,
        content=order.content,
        opted_out=order.opted_out,
        year=datetime.fromtimestamp(now, UTC).year,
    )


def summary(crawler: Crawler) -> dict[str, object]:
    """What `crawl --json` ends with: counts by outcome, and where time and links went."""
    counts = crawler.counts.snapshot()
    return {
        "fetched": counts.fetched,
        "stored": counts.stored,
        "stored_bytes": counts.stored_bytes,
        "unchanged": counts.unchanged,
        "gone": counts.gone,
        "refused": counts.refused,
        "failed": counts.failed,
        "forbidden": counts.forbidden,
        "skipped": counts.skipped,
        "recovered": counts.recovered,
        "links": {"found": counts.links_found, "new": counts.links_new, "left": dict(counts.links_left)},
        "by_status": {str(status): count for status, count in sorted(counts.by_status.items())},
        "by_mime": dict(counts.by_mime.most_common()),
        "by_error": dict(counts.by_error.most_common()),
    }


_SCHEME = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)"
)  # example.org:8080 has a port, mailto:somebody a scheme


def canonical_seeds(texts: Sequence[str], rules: UrlRules = STANDARD) -> tuple[str, ...]:
    """What a person typed, as canonical URLs; without a scheme https is meant. Raises MalformedUrlError."""
    return tuple(rules.canonical(text if _SCHEME.match(text) else f"https://{text}") for text in texts)
