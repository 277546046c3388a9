"""How does a crawl run? Frontier -> lease -> fetch -> sink, by as many connections as there may be.

Each connection asks the rota for an origin, gets the steward's permission, fetches one URL and tells, in this
order: the steward (so that the origin's rest begins), the sink (returns when durable), the frontier (outcome,
new links, one batch). A crash between the last two makes the URL a suspect: the sink is asked for today's
capture, which is then read as if it had just come. Only links that the page's last version did not have go
out. It opens no file and no socket itself; all of that is behind its ports.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import anyio

from crawler.clocks import loop_clock
from crawler.core.capture import Capture, Outcome, PayloadDigest, Truncation
from crawler.core.content import PACKED_TYPES, is_packed_xml
from crawler.core.errors import FetchError, ForbiddenAddressError
from crawler.core.links import Link, LinkKind
from crawler.core.politeness import Lease, OriginReport, Wait, retry_after_s
from crawler.core.recrawl import Known, Recrawl, Result
from crawler.core.robots import RobotsRules
from crawler.core.scope import CrawlScope
from crawler.core.similarity import SeenSketches
from crawler.core.urls import STANDARD, Origin, UrlRules, host_of, target_of
from crawler.counts import COUNT_OF, CrawlCounts
from crawler.frontier import FINGERPRINT_BYTES, LINKS_KEPT_MAX, Entry, FoundLink, Frontier, fingerprint
from crawler.ports import CaptureSink, Fetcher, FetchRequest, OwnsEverything, Skipped, StewardPort, UrlOwner
from crawler.reading import Reading, read_capture
from crawler.rota import Rota

_log = logging.getLogger(__name__)

TURNS_IN_A_ROW_MAX = 16
"""An origin that needs no rest keeps its connection for so many fetches, then others have theirs."""
UNCONDITIONAL_EVERY = 30
"""Every so many visits no condition is sent: a validator that lies is noticed within a month."""
DECISIONS_REMEMBERED = 16_384
"""Whether the scope takes a URL: pages of a host have most of their links in common. Some 4 MB."""
SITEMAPS_SEEN_MAX = 50_000
REST_S_MAX = 86_400.0
"""As long as any Retry-After that is heeded; more is a clock that was set back."""
SKETCHED_FROM_DEPTH = 4
"""Pages this far from the seeds, and those with queries, are compared with others: there the traps are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlSettings:
    connections: int = 56
    active_origins_max: int = 1024
    recrawl: Recrawl = Recrawl.DAILY
    fetches_max: int | None = None
    """`--limit`: the crawl stops after so many fetches."""
    robot: str = "Herodotus"
    """The name that robots.txt and meta elements call us by."""
    day_length_s: float = 86_400.0
    day_offset_s: float = 0.0
    """When a day begins, after the midnights of a calendar that began in 1970."""
    reads_sitemaps: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlProgress:
    known: int
    day: int
    origins: int
    """Being crawled, or resting until their next turn."""
    busy: int
    due: int
    """URLs that wait to be visited today."""
    over_budget: int
    """Links not taken because their host has as many known URLs as it may have."""
    held_back: int
    """Hosts that had their share of today's visits."""


class Crawler:
    """One peer's crawl. `run` works until nothing is due today; it may be called again on the next day."""

    def __init__(
        self,
        frontier: Frontier,
        fetcher: Fetcher,
        sink: CaptureSink,
        steward: StewardPort,
        scope: CrawlScope,
        settings: CrawlSettings,
        *,
        wall_clock: Callable[[], float],
        owner: UrlOwner | None = None,
        rules: UrlRules = STANDARD,
    ) -> None:
        self.counts = CrawlCounts()
        self._frontier = frontier
        self._fetcher = fetcher
        self._sink = sink
        self._steward = steward
        self._scope = scope
        self._refuses_url = lru_cache(maxsize=DECISIONS_REMEMBERED)(scope.refuses_url)
        self._settings = settings
        self._wall_clock = wall_clock
        self._owner = owner or OwnsEverything()
        self._rules = rules
        self._resumed = anyio.Event()
        self._resumed.set()
        self._sketches = SeenSketches()
        self._under_way = 0
        self._landed = anyio.Event()
        self._rota: Rota | None = None
        self._now: Callable[[], float] = anyio.current_time
        self._started = 0
        self._sitemaps_seen: set[Origin] = set()

    async def run(self) -> None:
        """Fetch what is due today; ends when nothing is left, the limit is reached or `stop` was called."""
        self._rota = Rota(
            lambda wanted: self._frontier.activate(wanted, self._takes_origin),
            active_max=self._settings.active_origins_max,
            rest_s=self._rest_s,
        )
        self._started = 0
        self._now = loop_clock()
        async with anyio.create_task_group() as tasks:
            for _ in range(self._settings.connections):
                tasks.start_soon(self._work, self._rota)
        for origin in self._rota.left():  # another run finds them again
            self._frontier.retire(origin)
        self._frontier.sync()

    def stop(self) -> None:
        """Let the fetches that are under way end and begin no other."""
        if self._rota is not None:
            self._rota.close()
        self.resume()

    @property
    def is_stopping(self) -> bool:
        return self._rota is not None and self._rota.is_closed

    def progress(self) -> CrawlProgress:
        """Where the crawl is now; `counts` says what it did."""
        frontier = self._frontier.statistics()
        return CrawlProgress(
            known=frontier.known,
            day=frontier.day,
            origins=frontier.active_origins,
            busy=self._rota.busy if self._rota is not None else 0,
            due=frontier.due,
            over_budget=frontier.over_budget,
            held_back=frontier.held_back,
        )

    async def pause(self) -> None:
        """Begin no fetch until `resume`; returns when those under way have ended."""
        if self._resumed.is_set():
            self._resumed = anyio.Event()
        while self._under_way:
            self._landed = anyio.Event()
            await self._landed.wait()

    def resume(self) -> None:
        self._resumed.set()

    def look_again(self) -> None:
        """The frontier was given something from outside, which may be due now."""
        if self._rota is not None:
            self._rota.wake()

    def seed(self, urls: list[str]) -> int:
        """Canonical URLs to start from; whatever the scope is, a seed is taken."""
        return self._frontier.add([FoundLink(url=url, is_seed=True) for url in urls])

    def widen(self) -> int:
        """The scope takes in more than that of the crawls before: what is known is looked through again for
        the links that they left out, as far as possible in the archive. Says how many pages that are.
        """
        return self._frontier.reread(self._takes_origin)

    def _takes_origin(self, origin: Origin) -> bool:
        return self._scope.holds_host(host_of(f"{origin}/"))

    def _rest_s(self, origin: Origin) -> float:
        """What is left of the rest that a run before this one owed to the origin."""
        return min(self._frontier.origin_counts(origin).rests_until - self._wall_clock(), REST_S_MAX)

    # -- one connection

    async def _work(self, rota: Rota) -> None:
        while (origin := await rota.next()) is not None:
            await self._resumed.wait()
            again_at = None
            try:
                again_at = await self._visit(origin, rota)
            finally:
                if again_at is None:
                    self._frontier.retire(origin)
                    rota.done()
                else:
                    rota.again(origin, again_at)

    async def _visit(self, origin: Origin, rota: Rota) -> float | None:
        """Up to a few fetches; says when the origin may be visited again, None when it has nothing left."""
        for _ in range(TURNS_IN_A_ROW_MAX):
            if rota.is_closed:
                return None
            rules = await self._steward.rules(origin)
            if isinstance(rules, Wait):
                return rules.until
            if not rules.is_reachable:
                while (entry := await self._next_entry(origin, rules)) is not None:
                    self._frontier.pass_over(entry)  # robots.txt itself, which somebody linked to
                return None
            self._add_sitemaps(origin, rules.sitemaps)
            lease = await self._steward.lease(origin, await self._fetcher.address_of(host_of(f"{origin}/")))
            if isinstance(lease, Wait):
                return lease.until
            entry = await self._next_entry(origin, rules)
            is_over = entry is None or self.is_limit_reached or rota.is_closed
            if entry is None or is_over or not self._resumed.is_set():
                await self._give_back_unused(lease, entry)
                if not is_over:  # paused while permission was asked for
                    return self._now()
                if entry is not None:
                    rota.close()
                return None
            self._under_way += 1
            try:
                again_at = await self._fetch(entry, lease)
            finally:
                self._under_way -= 1
                self._landed.set()
            if self._frontier.may_activate:
                rota.wake()
            if again_at > self._now() or not self._resumed.is_set():
                return again_at
        return self._now()

    async def _give_back_unused(self, lease: Lease, entry: Entry | None) -> None:
        await self._steward.give_back(lease, OriginReport(status=None, duration_s=0.0, fetches=0))
        if entry is not None:
            self._frontier.release(entry)

    async def _next_entry(self, origin: Origin, rules: RobotsRules) -> Entry | None:
        """The next URL to be fetched; those that may not be, or that a crash left half done, are
        dealt with.
        """
        while (entry := self._frontier.take(origin)) is not None:
            if not self._scope.holds(entry.known.url, depth=entry.known.depth):
                self._frontier.pass_over(entry)
                continue
            reason = self._refusal(entry.known, rules)
            if reason is not None:
                host = self.counts.host(origin)
                self.counts.forbidden += 1
                host.forbidden += 1
                host.problem = rules.problem or reason
                self.counts.by_error[reason] += 1
                self._frontier.record(entry, Result.FORBIDDEN, recrawl=self._settings.recrawl)
            elif not entry.is_suspect or not await self._recover(entry):
                return entry
        return None

    def _refusal(self, known: Known, rules: RobotsRules) -> str | None:
        if self._scope.opted_out.covers(host_of(known.url)):
            return "opt-out"
        if not rules.allows(target_of(known.url)):
            return "robots" if rules.is_reachable else "robots unreachable"
        return None

    async def _recover(self, entry: Entry) -> bool:
        day_start = self._frontier.day * self._settings.day_length_s + self._settings.day_offset_s
        # A try that failed today left nothing in the archive: an older version is not what is wanted.
        has_failed = entry.known.last_result == Result.FAILED.value
        is_done = entry.known.last_day == self._frontier.day and not has_failed
        capture = await self._sink.find(entry.known.url, 0.0 if is_done else day_start)
        if capture is None:
            return False
        self.counts.reread += is_done
        self.counts.recovered += not is_done
        reading = self._read(capture, entry.known)
        if not is_done:
            self._count(entry, capture, reading)
        self._conclude(entry, capture, reading, again=reading)
        return True

    @property
    def is_limit_reached(self) -> bool:
        limit = self._settings.fetches_max
        return limit is not None and self._started >= limit

    # -- one fetch

    async def _fetch(self, entry: Entry, lease: Lease) -> float:
        self._started += 1
        start = self._now()
        report = OriginReport(status=None, duration_s=0.0)
        found: Capture | Skipped | FetchError | None = None
        try:
            found = await self._fetcher.fetch(self._request(entry.known))
            report = self._report_of(found)
        except FetchError as error:
            found = error
            report = OriginReport(status=None, duration_s=self._now() - start)
        finally:
            if found is None:  # cancelled
                self._frontier.release(entry)
            again_at = await self._steward.give_back(lease, report)
        entry.rests_until = self._wall_clock() + max(0.0, again_at - self._now())
        self.counts.fetched += 1
        self.counts.host(entry.origin).fetched += 1
        if isinstance(found, Capture):
            await self._keep(entry, found)
        elif isinstance(found, Skipped):
            self.counts.skipped += 1
            self.counts.by_status[found.status] += 1
            self._frontier.record(entry, Result.REFUSED, recrawl=self._settings.recrawl)
        else:
            assert found is not None
            self._note_error(entry, found)
        return again_at

    def _request(self, known: Known) -> FetchRequest:
        is_conditional = bool(known.digest) and known.visits % UNCONDITIONAL_EVERY != UNCONDITIONAL_EVERY - 1
        return FetchRequest(
            url=known.url,
            via=known.via or None,
            etag=known.etag if is_conditional else "",
            last_modified=known.last_modified if is_conditional else "",
            digest=PayloadDigest(known.digest) if known.digest else None,
            accepts=self._accepts_packed if is_packed_xml(known.url) else self._scope.content.accepts,
        )

    def _accepts_packed(self, mime: str) -> bool:
        return mime in PACKED_TYPES or self._scope.content.accepts(mime)

    def _report_of(self, found: Capture | Skipped) -> OriginReport:
        retry_s = None
        if isinstance(found, Capture) and found.status in (429, 503):
            retry_s = retry_after_s(found.header("Retry-After"), self._wall_clock())
        return OriginReport(status=found.status, duration_s=found.duration_s, retry_after_s=retry_s)

    def _note_error(self, entry: Entry, error: FetchError) -> None:
        name = type(error).__name__.removesuffix("Error")
        self.counts.host(entry.origin).problem = error.reason
        self.counts.by_error[name] += 1
        _log.debug("fetch failed url=%s error=%s", error.url, name)
        if isinstance(error, ForbiddenAddressError):
            self.counts.forbidden += 1
            self.counts.host(entry.origin).forbidden += 1
            self._frontier.record(entry, Result.FORBIDDEN, recrawl=self._settings.recrawl)
        else:
            self.counts.failed += 1
            self.counts.host(entry.origin).failed += 1
            self._frontier.record(entry, Result.FAILED, recrawl=self._settings.recrawl)

    # -- one capture

    async def _keep(self, entry: Entry, capture: Capture) -> None:
        reading = self._read(capture, entry.known)
        if self._is_archived(entry.known, capture, reading):
            await self._sink.store(capture)
        again = None
        if entry.is_suspect and reading.result is Result.UNCHANGED:  # its links are wanted all the same
            archived = await self._sink.find(entry.known.url, 0.0)
            again = None if archived is None else self._read(archived, entry.known)
        self._count(entry, capture, reading)
        self._conclude(entry, capture, reading, again=again)

    def _read(self, capture: Capture, known: Known) -> Reading:
        wants_sketch = known.depth >= SKETCHED_FROM_DEPTH or "?" in known.url
        return read_capture(
            capture, product_token=self._settings.robot, rules=self._rules, wants_sketch=wants_sketch
        )

    def _is_archived(self, known: Known, capture: Capture, reading: Reading) -> bool:
        if reading.noarchive:
            return False
        if reading.result in (Result.GONE, Result.REFUSED):
            return bool(known.last_result != reading.result.value)  # the first is kept, not each day's
        return reading.result is not Result.FAILED

    def _conclude(
        self, entry: Entry, capture: Capture, reading: Reading, *, again: Reading | None = None
    ) -> None:
        """Record the visit with the links that the last version did not have; with all of them of a page
        that is read again.
        """
        fingerprints = None
        links: list[FoundLink] = []
        source = again or reading
        if source.result is Result.CHANGED:
            has_last = again is None and entry.known.visits > 0
            last = self._frontier.last_links(entry.key) if has_last else frozenset()
            marks = [fingerprint(link.url) for link in source.links[:LINKS_KEPT_MAX]]
            new = list(source.links[: len(marks)])
            if last:
                new = [link for link, mark in zip(new, marks, strict=True) if mark not in last]
            fingerprints = b"".join(marks) if marks or last else None
            self.counts.links_found += len(source.links)
            is_doubtful = source.sketch is not None and self._sketches.has_alike(entry.origin, source.sketch)
            self.counts.near_duplicates += is_doubtful
            wanted = self._wanted(new, entry.known, is_redirect=source.is_redirect, is_doubtful=is_doubtful)
            links = self._owner.divide(wanted)
        is_changed = reading.result is Result.CHANGED
        etag, last_modified = entry.known.etag, entry.known.last_modified
        digest = None
        if is_changed:  # by what will it be known again?
            is_version = capture.truncated in (None, Truncation.LENGTH)
            etag = (capture.header("ETag") or "") if is_version else ""
            last_modified = (capture.header("Last-Modified") or "") if is_version else ""
            digest = capture.sha256 if is_version else b""
        self.counts.links_new += self._frontier.record(
            entry,
            reading.result,
            recrawl=self._settings.recrawl,
            links=links,
            fingerprints=fingerprints,
            etag=etag,
            last_modified=last_modified,
            digest=digest,
        )

    def _wanted(
        self, links: list[Link], page: Known, *, is_redirect: bool, is_doubtful: bool
    ) -> list[FoundLink]:
        """Links that the scope takes; whether they are known is for their owners to tell."""
        wanted = []
        deeper = page.depth if is_redirect else page.depth + 1
        depths = {kind: deeper if kind is LinkKind.PAGE else page.depth for kind in LinkKind}
        refused_at = {kind: self._scope.refuses_at(depth, kind) for kind, depth in depths.items()}
        refuses_url, via = self._refuses_url, page.url
        for url, kind in links:
            reason = refused_at[kind] or refuses_url(url)
            if reason is None:
                is_embedded = kind is not LinkKind.PAGE
                wanted.append(FoundLink(url, depths[kind], is_embedded, False, is_doubtful, via))
            else:
                self.counts.links_left[reason] += 1
        return wanted

    def _count(self, entry: Entry, capture: Capture, reading: Reading) -> None:
        counts, host, known = self.counts, self.counts.host(entry.origin), entry.known
        counts.by_status[capture.status] += 1
        if reading.result is Result.CHANGED and not reading.noarchive:
            counts.stored += 1
            counts.stored_bytes += len(capture.body)
            host.stored += 1
            host.stored_bytes += len(capture.body)
            counts.count_mime(capture.mime)
        elif reading.result is not Result.CHANGED:
            name = COUNT_OF[reading.result]
            setattr(counts, name, getattr(counts, name) + 1)
            host.unchanged += reading.result is Result.UNCHANGED
            host.failed += reading.result is Result.FAILED
        counts.noarchive += reading.noarchive
        for reason, count in (
            ("nofollow", reading.not_followed),
            ("too many on a page", reading.over_limit),
            ("malformed", reading.malformed),
        ):
            if count:
                counts.links_left[reason] += count
        if capture.status == 200 and capture.outcome is Outcome.STORED and known.digest and known.etag:
            counts.lying_validators += capture.header("ETag") == known.etag

    def _add_sitemaps(self, origin: Origin, sitemaps: tuple[str, ...]) -> None:
        if not sitemaps or not self._settings.reads_sitemaps or origin in self._sitemaps_seen:
            return
        if len(self._sitemaps_seen) >= SITEMAPS_SEEN_MAX:
            self._sitemaps_seen.clear()
        self._sitemaps_seen.add(origin)
        urls = [url for url in self._rules.links(sitemaps, f"{origin}/") if url is not None]
        self._frontier.add(
            self._owner.divide(
                [
                    FoundLink(url=url, depth=1, via=f"{origin}/robots.txt")
                    for url in urls
                    if self._scope.refuses(url, depth=1, kind=LinkKind.PAGE) is None
                ]
            )
        )


assert FINGERPRINT_BYTES * LINKS_KEPT_MAX < 2**20  # a page's link set stays a modest row
