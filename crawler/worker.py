"""How does a crawl run? Frontier -> lease -> fetch -> sink, by as many connections as there may be.

Each connection asks the rota for an origin, gets the steward's permission, fetches one URL and tells, in this
order: the steward (so that the origin's rest begins), the sink (returns when durable), the frontier (outcome,
new links, one batch); the last two are `crawler.outcomes`. A crash between them makes the URL a suspect: the
sink is asked for today's capture. It opens no file and no socket itself; all of that is behind its ports.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import anyio

from crawler.clocks import loop_clock
from crawler.core.capture import PACKED_TYPES, Capture, PayloadDigest, is_packed_xml
from crawler.core.errors import AnotherTimeError, FetchError, OtherAddressError, TooLateError
from crawler.core.link import DueEntry, Link
from crawler.core.politeness import (
    RETRY_RESTS_S,
    TRIES_PER_DAY,
    Closed,
    ClosedOrigins,
    Lease,
    OriginReport,
    PolitenessPolicy,
    Retries,
    Wait,
)
from crawler.core.recrawl import TRIES_PER_DAY as TRIES_AT_ONCE
from crawler.core.recrawl import Bounds, Known, Recrawl, Result
from crawler.core.robots import RobotsRules
from crawler.core.scope import ContentChoice, CrawlScope, narrower
from crawler.core.urls import STANDARD, Origin, UrlKey, UrlRules, has_web_port, host_of, target_of
from crawler.frontier import Frontier
from crawler.outcomes import CrawlCounts, Outcomes, report_of
from crawler.ports import (
    BodyPlace,
    BodyRooms,
    CaptureSink,
    Fetcher,
    FetchRequest,
    OwnsEverything,
    Skipped,
    StewardPort,
    UrlOwner,
)
from crawler.rota import Rota

NO_BOUNDS: Mapping[str, Bounds] = {}
TURNS_IN_A_ROW_MAX = 16
"""An origin that needs no rest keeps its connection for so many fetches, then others have theirs."""
PASSED_IN_A_ROW_MAX = 64
"""URLs that need no fetch are dealt with, then others have their turn: a host may have a million that it closed."""
UNCONDITIONAL_EVERY = 30
"""Every so many visits no condition is sent: a validator that lies is noticed within a month."""
REST_SHOWN_S = 30.0
"""A shorter rest is the ordinary pace."""
AGAIN_PATIENCE_S, AGAIN_LEAST_S = 90.0, 0.05
"""A second look waits as long as three windows last; longer, it keeps a connection from others."""
REST_S_MAX = 86_400.0
"""As long as any Retry-After that is heeded; more is a clock that was set back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerSettings:
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
    patience_s: float = math.inf
    """The run ends when all that is left belongs to hosts that rest longer than this: what is due stays due."""
    waits_for_closed: PolitenessPolicy | None = None
    """Origins that cannot be reached are tried again in this run, as this says; None: they are left for the day."""
    retry_rests_s: tuple[float, ...] = RETRY_RESTS_S
    """Where it waits for closed origins, it also waits so long before a page that failed is tried again."""
    rules_off: frozenset[int] = frozenset()
    """Rules of `crawler.core.link.Rule` that look for nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rest:
    """A host that is left alone for a while."""

    origin: Origin
    until: float
    """Seconds since 1970."""
    due: int | None = None
    """URLs that wait for it, where that was counted."""


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
    resting: tuple[Rest, ...]
    """Hosts that rest for longer than a moment, the soonest first."""


class Crawler:
    """One peer's crawl. `run` works until nothing is due today; it may be called again on the next day."""

    def __init__(
        self,
        frontier: Frontier,
        fetcher: Fetcher,
        sink: CaptureSink,
        steward: StewardPort,
        scope: CrawlScope,
        settings: WorkerSettings,
        *,
        wall_clock: Callable[[], float],
        owner: UrlOwner | None = None,
        rules: UrlRules = STANDARD,
        closed: ClosedOrigins | None = None,
    ) -> None:
        """`closed`: of the runs before, where some wait for the same origins."""
        self.counts = CrawlCounts()
        self.given_up: tuple[Rest, ...] = ()
        """What the last run did not wait for."""
        self._frontier = frontier
        self._fetcher = fetcher
        self._steward = steward
        self._scope = scope
        self._settings = settings
        self._wall_clock = wall_clock
        self._owner: UrlOwner = owner or OwnsEverything()
        self._outcomes = Outcomes(
            frontier,
            sink,
            self._owner,
            scope,
            self.counts,
            recrawl=settings.recrawl,
            robot=settings.robot,
            reads_sitemaps=settings.reads_sitemaps,
            rules_off=settings.rules_off,
            rules=rules,
            day_start=lambda: frontier.day * settings.day_length_s + settings.day_offset_s,
            tries_max=TRIES_PER_DAY if settings.waits_for_closed else TRIES_AT_ONCE,
        )
        self._resumed = anyio.Event()
        self._resumed.set()
        self._under_way = 0
        self._landed = anyio.Event()
        self._rota: Rota | None = None
        self._now: Callable[[], float] = anyio.current_time
        self._started = 0
        self._bodies = BodyRooms()
        self._closed = closed or ClosedOrigins(settings.waits_for_closed or PolitenessPolicy())
        self._retries = Retries(settings.retry_rests_s)

    async def run(self) -> None:
        """Fetch what is due today; ends when nothing is left but hosts that rest for too long, the limit is reached or
        `stop` was called.
        """
        self._rota = rota = Rota(
            self._activate,
            looks_at=self._retries.next_at,
            active_max=self._settings.active_origins_max,
            rest_s=self._rest_s,
            patience_s=self._settings.patience_s,
        )
        self._started = 0
        self._now = loop_clock()
        async with anyio.create_task_group() as tasks:
            for _ in range(self._settings.connections):
                tasks.start_soon(self._work, rota)
        self.given_up = self._rests(rota, 0.0, counts_due=True) if rota.has_lost_patience else ()
        for origin in rota.left():
            self._frontier.retire(origin)  # or no later run would find them
        self._frontier.sync()

    def _activate(self, wanted: int) -> list[Origin]:
        for origin in self._retries.take_due(self._now()):
            self._frontier.look_again_at(origin)
        return self._frontier.activate(wanted, self._takes_origin)

    def retry_in_s(self) -> float | None:
        """Until a page that failed today is tried again."""
        at = self._retries.next_at()
        return None if at is None else max(0.0, at - self._now())

    def retry_at(self, key: UrlKey) -> float | None:
        """When a page that failed today is tried again; seconds since 1970."""
        at = self._retries.until(key)
        return None if at is None else at + self._wall_clock() - self._now()

    @property
    def retries(self) -> int:
        """Pages that wait for that."""
        return len(self._retries)

    def _rests(self, rota: Rota, longer_than_s: float, *, counts_due: bool = False) -> tuple[Rest, ...]:
        shift = self._wall_clock() - self._now()
        return tuple(
            Rest(
                origin=origin,
                until=at + shift,
                due=self._frontier.due_at(origin) if counts_due else None,
            )
            for at, origin in rota.resting(longer_than_s)
        )

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
            resting=self._rests(self._rota, REST_SHOWN_S) if self._rota is not None else (),
        )

    def closed(self) -> dict[Origin, Closed]:
        """Origins that cannot be reached and are waited for; their times are seconds since 1970."""
        shift = self._wall_clock() - self._now()
        return {
            origin: replace(one, since=one.since + shift, until=one.until + shift)
            for origin, one in self._closed.listed().items()
        }

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

    def seed(self, urls: Sequence[str], bounds: Mapping[str, Bounds] = NO_BOUNDS) -> int:
        """Canonical URLs to start from; whatever the scope is, a seed is taken."""
        return self._frontier.add([Link(url=url, is_seed=True, bounds=bounds.get(url)) for url in urls])

    def widen(self) -> int:
        """The scope takes in more than that of the crawls before: what is known is looked through again for
        the links that they left out, as far as possible in the archive. Says how many pages that are.
        """
        return self._frontier.reread(self._takes_origin)

    def _takes_origin(self, origin: Origin) -> bool:
        return self._scope.holds_host(host_of(f"{origin}/"))

    def _rest_s(self, origin: Origin) -> float:
        """What is left of the rest that a run before this one owed to the origin."""
        return min(self._frontier.rests_until(origin) - self._wall_clock(), REST_S_MAX)

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
                return self._waited_for(origin, rules)
            if not rules.is_reachable:
                return await self._found_closed(origin, rules)
            self._closed.opened(origin)
            address = await self._fetcher.address_of(host_of(f"{origin}/"))
            lease = address if isinstance(address, Wait) else await self._steward.lease(origin, address)
            if isinstance(lease, Wait):
                return self._waited_for(origin, lease)
            entry = await self._next_entry(origin, rules)
            is_over = entry is None or self.is_limit_reached or rota.is_closed
            if entry is None or is_over or not self._resumed.is_set():
                await self._give_back_unused(lease, entry)
                if not is_over:  # paused while permission was asked for
                    return self._now()
                if entry is not None:
                    rota.close()
                return None
            self._outcomes.add_sitemaps(origin, rules.sitemaps, self._scope.bounds_of(entry.known))
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

    async def _found_closed(self, origin: Origin, rules: RobotsRules) -> float | None:
        """When it is tried again; None: what is due there is told of, and left for the day."""
        if self._settings.waits_for_closed is not None:
            has_seed = self._frontier.has_seed_due(origin)
            again_at = self._closed.again_at(origin, rules.problem, self._now(), has_seed=has_seed)
            if again_at is not None:
                await self._outcomes.found_closed(origin, rules.problem, is_left=False)
                return again_at
        await self._outcomes.found_closed(origin, rules.problem, is_left=True)
        while (entry := await self._next_entry(origin, rules)) is not None:
            self._frontier.pass_over(entry)  # robots.txt itself, which somebody linked to
        return None

    def _waited_for(self, origin: Origin, wait: Wait) -> float:
        """A long rest is noted, also one that robots.txt asked for: a restart owes it, too."""
        seconds = wait.until - self._now()
        if seconds > REST_SHOWN_S:
            self._frontier.owe_rest(origin, self._wall_clock() + seconds)
        return wait.until

    async def _give_back_unused(self, lease: Lease, entry: DueEntry | None) -> None:
        await self._steward.give_back(lease, OriginReport(status=None, duration_s=0.0, fetches=0))
        if entry is not None:
            self._frontier.release(entry)

    async def _next_entry(self, origin: Origin, rules: RobotsRules) -> DueEntry | None:
        """The next URL to be fetched; those that may not be, or that a crash left half done, are
        dealt with.
        """
        passed = 0
        while not self.is_stopping and (entry := self._frontier.take(origin)) is not None:
            reason = self._refusal(entry.known, rules)
            is_wanted, bounds = self._scope.covers(entry.known), entry.known.bounds
            if bounds is not None and 0 < bounds.last_day < self._frontier.day:
                self._frontier.end(entry)
            elif (
                not is_wanted
                or not self._owner.is_our_turn(entry.known.url)
                or self._retries.is_waiting(entry.key)
            ):
                self._frontier.pass_over(entry)
            elif reason is not None:
                self._outcomes.refused(entry, reason, rules.problem or reason)
            elif self._frontier.is_vain(entry):
                self._outcomes.spared(entry)
            elif not entry.is_suspect or not await self._outcomes.recover(entry):
                return entry
            passed += 1
            if passed % PASSED_IN_A_ROW_MAX == 0:
                await anyio.lowlevel.checkpoint()
        return None

    def _refusal(self, known: Known, rules: RobotsRules) -> str | None:
        if self._scope.opted_out.covers(host_of(known.url)):
            return "opt-out"
        if self._scope.is_removed(known.url):
            return "removed"
        if not has_web_port(known.url):
            return "port"
        if not rules.allows(target_of(known.url)):
            return "robots" if rules.is_reachable else "robots unreachable"
        return None

    @property
    def is_limit_reached(self) -> bool:
        limit = self._settings.fetches_max
        return limit is not None and self._started >= limit

    # -- one fetch

    async def _fetch(self, entry: DueEntry, lease: Lease) -> float:
        place = BodyPlace(self._bodies)
        try:
            return await self._fetch_in(entry, lease, place)
        finally:
            place.leave()

    async def _fetch_in(self, entry: DueEntry, lease: Lease, place: BodyPlace) -> float:
        self._started += 1
        start = self._now()
        report = OriginReport(status=None, duration_s=0.0)
        found: Capture | Skipped | FetchError | None = None
        permits = _Permits(lease)
        try:
            found = await self._fetcher.fetch(self._request(entry.known, permits, place))
            report = report_of(found, self._wall_clock())
        except (OtherAddressError, AnotherTimeError) as error:
            late_s = error.late_s if isinstance(error, TooLateError) else 0.0
            report = OriginReport(status=None, duration_s=self._now() - start, fetches=0, late_s=late_s)
        except FetchError as error:
            found = error
            report = OriginReport(status=None, duration_s=self._now() - start)
        finally:
            if found is None:  # cancelled, or its host is asked at another address first
                self._frontier.release(entry)
            if permits.lease is not None:
                permits.next_at = await self._steward.give_back(permits.lease, report)
        again_at = permits.next_at
        if found is None:
            self._started -= 1
            return again_at
        entry.rests_until = self._wall_clock() + max(0.0, again_at - self._now())
        await self._outcomes.visited(entry, found)
        if isinstance(found, FetchError) or found.status >= 400:
            self._try_later(entry)
        return again_at

    def _try_later(self, entry: DueEntry) -> None:
        """What failed, where the crawl can wait for it."""
        known = self._frontier.known_of([entry.key])[0]
        is_failed = known is not None and known.last_result == Result.FAILED.value
        if self._settings.waits_for_closed is None or known is None or not is_failed:
            return
        is_due = known.due_day <= self._frontier.day
        if is_due and not self._retries.later(entry.origin, entry.key, known.failures, self._now()):
            self._frontier.put_off(entry.key)

    async def _once_more(
        self, known: Known, permits: "_Permits", found: Capture | Skipped
    ) -> FetchRequest | None:
        """For a fetcher that wants to see the same again: another lease, when the origin has rested. None: not soon."""
        before, permits.lease = permits.lease, None
        assert before is not None, "it came of a fetch under this lease"
        permits.next_at = await self._steward.give_back(before, report_of(found, self._wall_clock()))
        until = self._now() + AGAIN_PATIENCE_S
        origin, address = before.origin, before.address or ""
        while permits.next_at < until and self._resumed.is_set() and not self.is_stopping:
            await anyio.sleep(max(0.0, permits.next_at - self._now()))
            lease = await self._steward.lease(origin, address)
            if isinstance(lease, Lease):
                permits.lease = lease
                return self._request(known, permits, None)
            permits.next_at = max(lease.until, self._now() + AGAIN_LEAST_S)
        return None

    def _request(self, known: Known, permits: "_Permits", place: BodyPlace | None) -> FetchRequest:
        lease = permits.lease
        assert lease is not None
        is_conditional = bool(known.digest) and known.visits % UNCONDITIONAL_EVERY != UNCONDITIONAL_EVERY - 1
        return FetchRequest(
            place=place,
            address=lease.address,
            stay=lease.stay,
            starts_by=lease.starts_by,
            url=known.url,
            via=known.via or None,
            etag=known.etag if is_conditional else "",
            last_modified=known.last_modified if is_conditional else "",
            digest=PayloadDigest(known.digest) if known.digest else None,
            accepts=wanted_types(
                known.url,
                narrower(self._scope.content, self._scope.bounds_of(known)),
                is_embedded=known.is_embedded,
            ),
            again=partial(self._once_more, known, permits),
        )


@dataclass(slots=True)
class _Permits:
    """Of one visit."""

    lease: Lease | None
    """The one that is out."""
    next_at: float = 0.0
    """When the origin may be asked again."""


def wanted_types(url: str, content: ContentChoice, *, is_embedded: bool = False) -> Callable[[str], bool]:
    """Whether a body of a media type is wanted at this URL."""
    if is_packed_xml(url):
        return lambda mime: mime in PACKED_TYPES or content.accepts(mime)
    return partial(content.accepts_at, url, is_embedded=is_embedded)
