"""How does a peer crawl into its archive? The crawler's ports met by the store, and a crawl as a call.

Captures become deposits, unchanged visits lines of the visit log; both are durable before the frontier
hears of them. An interrupted crawl continues where it was: the frontier is in `queue/`, the archive
beside it.
"""

import math
import re
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from crawler.core.capture import Capture, FetchOutcome
from crawler.core.errors import MalformedUrlError
from crawler.core.link import Rule
from crawler.core.politeness import ClosedOrigins, HostSteward, OptOutList, PolitenessPolicy
from crawler.core.recrawl import (
    DAY_BOUND_MAX,
    DEPTH_BOUND_MAX,
    EVERY_DAYS_MAX,
    LIMIT_MAX,
    SEED_CHARS_MAX,
    Bounds,
    Recrawl,
)
from crawler.core.rows import RowLimits, Rows
from crawler.core.scope import (
    NOBODY_OPTED_OUT,
    THE_WHOLE_WEB,
    ContentChoice,
    CrawlScope,
    ScopeKind,
    Territory,
)
from crawler.core.urls import STANDARD, UrlRules, has_web_port, host_of, is_literal, is_public
from crawler.frontier import Frontier, FrontierLimits
from crawler.frontier_rows import frontier_rows
from crawler.http import FetchSettings
from crawler.ports import ConnectionRoom, Fetcher, FreeRoom, OpenFetcher, StewardPort, UrlOwner
from crawler.steward import LocalSteward
from crawler.worker import Crawler, WorkerSettings
from herodotus import __version__
from herodotus.core.bundles import Visit
from herodotus.core.captures import Deposit
from herodotus.core.charter import Charter
from herodotus.core.connections import Use
from herodotus.core.doors import Door, Passage, field_of
from herodotus.core.errors import SettingError
from herodotus.core.settings.sections import Settings
from herodotus.core.signatures import SignedWindow, helper_field, window_field
from herodotus.home.seeds import Seed
from herodotus.peers.net.rooms import Rooms
from herodotus.store import Store

ROBOT = "Herodotus"
LOOKOUT_CONNECTIONS = 16
PUBLIC_POLITENESS = PolitenessPolicy()


WindowOf = Callable[[str, float], SignedWindow | None]
"""Of a URL that was fetched at a time."""


def no_window(_url: str, _time_s: float) -> None:
    """Nobody else permits anything."""


class ArchiveSink:
    """The crawler's `CaptureSink` on an archive store."""

    def __init__(
        self,
        store: Store,
        *,
        wall_clock: Callable[[], float],
        rules: UrlRules = STANDARD,
        door: Door = Door.UNKNOWN,
        window_of: WindowOf = no_window,
    ) -> None:
        """`door`: by which its captures come into the network; a crawl without one does not say. `window_of`: under
        which a URL was fetched."""
        self._window_of = window_of
        self._store = store
        self._extra = () if door is Door.UNKNOWN else (field_of(Passage(door)),)
        self._wall_clock = wall_clock
        self._rules = rules

    async def store(self, capture: Capture) -> None:
        if capture.outcome is FetchOutcome.STORED:
            window = self._window_of(capture.url, capture.requested_at)
            extra = self._extra if window is None else (*self._extra, window_field(window))
            if capture.fetched_by:
                extra = (*extra, helper_field(capture.fetched_by))
            await self._store.store(Deposit(capture=capture, extra=extra))
        else:
            visit = Visit(url=capture.url, time_s=int(capture.requested_at), status=capture.status)
            await self._store.note_visits([visit])

    async def note_failure(self, url: str, problem: str) -> None:
        await self._store.note_failure(url, int(self._wall_clock()), problem)

    async def note_answer(self, url: str) -> None:
        await self._store.note_answer(url, int(self._wall_clock()))

    def is_removed(self, url: str) -> bool:
        return self._store.is_removed(url)

    async def find(self, url: str, since: float) -> Capture | None:
        stored = await self._store.newest(url, int(self._wall_clock()) + 1)
        if stored is None or stored.time_s < since:
            return None
        return stored.as_capture(self._rules)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlOrder:
    """What a crawl is asked to do. URLs are canonical (`crawler.core.urls.canonical`)."""

    urls: tuple[str, ...]
    scope: ScopeKind = ScopeKind.HOST
    depth_max: int | None = None
    fetches_max: int | None = None
    content: ContentChoice = ContentChoice.HTML_AND_IMAGES
    recrawl: Recrawl = Recrawl.DAILY
    connections: int = 56
    room: ConnectionRoom = field(default_factory=FreeRoom)
    """A bound on connections that the crawl shares with others."""
    contact: str | None = None
    """The page that tells site owners who we are; goes into the User-Agent."""
    allow_private_addresses: bool = False
    politeness: PolitenessPolicy = PUBLIC_POLITENESS
    opted_out: OptOutList = NOBODY_OPTED_OUT
    territory: Territory = THE_WHOLE_WEB
    rules: UrlRules = STANDARD
    visits_per_host_max: int = FrontierLimits().visits_per_origin_max
    urls_per_host_max: int = FrontierLimits().urls_per_origin_max
    day_length_s: float = 86_400.0
    day_offset_s: float = 0.0
    """When the day begins, after midnight UTC."""
    patience_s: float = math.inf
    """The crawl ends when all that is left belongs to hosts that rest longer."""
    waits_for_closed: bool = False
    """Whether sites that cannot be reached are tried again on the same day."""
    rules_off: frozenset[Rule] = frozenset()
    """Rules by which nothing is looked for."""
    bounds: Mapping[str, Bounds] = field(default_factory=dict)
    """Of those URLs that have some of their own; the scope is that of the others."""
    widens: bool = False
    """It may take in more than the crawls before: what they left out is looked for."""

    def day(self, now: float) -> int:
        return int((now - self.day_offset_s) // self.day_length_s)

    def day_starts(self, day: int) -> float:
        """Seconds since 1970."""
        return day * self.day_length_s + self.day_offset_s

    @property
    def user_agent(self) -> str:
        contact = f" (+{self.contact})" if self.contact else ""
        return f"{ROBOT}/{__version__}{contact}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlGear:
    """What crawls of one home have in common, whatever they are asked for: open for as long as they last."""

    frontier: Frontier
    fetcher: Fetcher
    sink: ArchiveSink
    steward: StewardPort
    wall_clock: Callable[[], float]

    def crawler(
        self, order: CrawlOrder, owner: UrlOwner | None = None, closed: ClosedOrigins | None = None
    ) -> Crawler:
        """One crawl, or one day of it: its counts begin at nothing."""
        settings = WorkerSettings(
            connections=order.connections,
            recrawl=order.recrawl,
            fetches_max=order.fetches_max,
            robot=ROBOT,
            day_length_s=order.day_length_s,
            day_offset_s=order.day_offset_s,
            patience_s=order.patience_s,
            waits_for_closed=order.politeness if order.waits_for_closed else None,
            rules_off=order.rules_off,
        )
        scope = replace(_scope_of(order, self.wall_clock()), is_removed=self.sink.is_removed)
        return Crawler(
            self.frontier,
            self.fetcher,
            self.sink,
            self.steward,
            scope,
            settings,
            wall_clock=self.wall_clock,
            owner=owner,
            rules=order.rules,
            closed=closed,
        )


class WebWorld(Protocol):
    """What a crawl asks of the world: the web, and rows for the frontier."""

    def rows(self, folder: Path, limits: RowLimits) -> Rows:
        """Raises RowsUnusableError."""
        ...

    def fetcher(
        self, settings: FetchSettings, rules: UrlRules, wall_clock: Callable[[], float]
    ) -> OpenFetcher: ...


StewardMaker = Callable[[Fetcher, ArchiveSink], StewardPort]
FetcherWrapper = Callable[[Fetcher], Fetcher]


def local_steward(order: CrawlOrder, core: HostSteward, *, wall_clock: Callable[[], float]) -> StewardMaker:
    """For a peer alone."""

    def make(fetcher: Fetcher, sink: ArchiveSink) -> StewardPort:
        return LocalSteward(
            core,
            fetcher,
            product_token=ROBOT,
            wall_clock=wall_clock,
            sink=sink,
            opted_out=order.opted_out,
        )

    return make


@asynccontextmanager
async def open_gear(
    home: Path,
    store: Store,
    order: CrawlOrder,
    make_steward: StewardMaker,
    world: WebWorld,
    *,
    wall_clock: Callable[[], float],
    within: FetcherWrapper = lambda fetcher: fetcher,
    door: Door = Door.UNKNOWN,
    window_of: WindowOf = no_window,
) -> AsyncIterator[CrawlGear]:
    """`within` puts a budget around what is fetched; what stewards ask for, robots.txt, is little and must come."""
    frontier = Frontier(
        frontier_rows(home / "queue", world.rows),
        day=order.day(wall_clock()),
        limits=FrontierLimits(
            tracks_depth=order.depth_max is not None,
            urls_per_origin_max=order.urls_per_host_max,
            visits_per_origin_max=order.visits_per_host_max,
        ),
    )
    try:
        fetch = FetchSettings(
            user_agent=order.user_agent,
            connections=order.connections,
            connections_per_address=order.politeness.per_address_concurrency,
            allow_private_addresses=order.allow_private_addresses,
            room=order.room,
        )
        async with world.fetcher(fetch, order.rules, wall_clock) as fetcher:
            sink = ArchiveSink(
                store, wall_clock=wall_clock, rules=order.rules, door=door, window_of=window_of
            )
            yield CrawlGear(
                frontier=frontier,
                fetcher=within(fetcher),
                sink=sink,
                steward=make_steward(fetcher, sink),
                wall_clock=wall_clock,
            )
    finally:
        frontier.close()


@asynccontextmanager
async def open_crawler(
    home: Path,
    store: Store,
    order: CrawlOrder,
    world: WebWorld,
    *,
    wall_clock: Callable[[], float],
    within: FetcherWrapper = lambda fetcher: fetcher,
) -> AsyncIterator[Crawler]:
    """A seeded crawler on the home's frontier and the given store; `run()` it, `stop()` it, read `counts`."""
    core = HostSteward(order.politeness)
    make_steward = local_steward(order, core, wall_clock=wall_clock)
    async with open_gear(
        home, store, order, make_steward, world, wall_clock=wall_clock, within=within
    ) as gear:
        crawler = gear.crawler(order)
        if order.widens:
            crawler.widen()
        crawler.seed(order.urls, order.bounds)
        yield crawler


def lookout_of(order: CrawlOrder, world: WebWorld, *, wall_clock: Callable[[], float]) -> OpenFetcher:
    """By which a steward has robots.txt, and sees where names lead, whether a crawl is open or not."""
    settings = FetchSettings(
        user_agent=order.user_agent,
        connections=beside(order, LOOKOUT_CONNECTIONS),
        connections_per_address=order.politeness.per_address_concurrency,
        allow_private_addresses=order.allow_private_addresses,
        room=order.room,
    )
    return world.fetcher(settings, order.rules, wall_clock)


def beside(order: CrawlOrder, wanted: int) -> int:
    """Connections for those who fetch beside the crawl: a quarter of its own for each."""
    return max(1, min(wanted, order.connections // 4))


def url_rules(charter: Charter) -> UrlRules:
    return UrlRules(charter.dropped_parameters) if charter.dropped_parameters else STANDARD


def territory_of(charter: Charter) -> Territory:
    try:
        return Territory.of(charter.scope, url_rules(charter))
    except MalformedUrlError as error:
        raise SettingError(
            source="network.toml",
            key="scope",
            problem=f"has an entry that is neither a domain nor a URL: {error}",
        ) from error


def opt_outs(hosts: Sequence[str]) -> OptOutList:
    try:
        return OptOutList.of(hosts)
    except MalformedUrlError as error:
        raise SettingError(
            source="config.toml", key="crawl.opt_out", problem=f"has an entry that is no host name: {error}"
        ) from error


def rules_of(labels: Sequence[str]) -> frozenset[Rule]:
    known = {rule.label: rule for rule in Rule}
    for label in labels:
        if label not in known:
            raise SettingError(
                source="config.toml",
                key="crawl.rules_off",
                problem=f"has {label!r}, which is no rule",
                hint=f"rules are {', '.join(known)}",
            )
    return frozenset(known[label] for label in labels)


def standing_order(charter: Charter, settings: Settings, rooms: Rooms) -> CrawlOrder:
    """What a running peer crawls by itself: all that falls to it of what its network archives.

    With those who fetch beside it (`beside`) it stays within what is always free for sites: a fetch that waited for
    room would begin after its window.
    """
    crawl = settings.crawl
    return CrawlOrder(
        urls=(),
        scope=ScopeKind.ANY,
        content=ContentChoice(charter.content),
        recrawl=Recrawl(charter.recrawl),
        connections=max(1, min(crawl.connections, rooms.connections.floors[Use.WEB] * 2 // 3)),
        room=rooms.room(Use.WEB),
        contact=settings.operator.contact or None,
        allow_private_addresses=charter.allow_private_addresses,
        politeness=PolitenessPolicy(
            delay_floor_s=charter.delay_floor_s, per_address_concurrency=charter.per_address_concurrency
        ),
        opted_out=opt_outs(crawl.opt_out),
        territory=territory_of(charter),
        rules=url_rules(charter),
        visits_per_host_max=crawl.visits_per_host_max,
        urls_per_host_max=crawl.urls_per_host_max,
        waits_for_closed=True,
        rules_off=rules_of(crawl.rules_off),
        day_length_s=charter.day_length_s,
        day_offset_s=day_offset_s(charter),
    )


def day_offset_s(charter: Charter) -> float:
    hours, _, minutes = charter.day_start.partition(":")
    return int(hours) * 3600.0 + int(minutes) * 60.0


class SeedRefusedError(ValueError):
    """A URL at which no crawl of this network may begin; the message says why."""


def check_seeds(urls: Sequence[str], charter: Charter, opted_out: Sequence[str] = ()) -> Sequence[str]:
    """The same canonical URLs; raises SeedRefusedError for the first that would never be fetched."""
    territory, closed = territory_of(charter), opt_outs(opted_out)
    for url in urls:
        host = host_of(url)
        if not territory.holds(url, host):
            raise SeedRefusedError(f"{url} is outside of what network {charter.name!r} archives (its scope)")
        if closed.covers(host):
            raise SeedRefusedError(f"{url}: its owner asked not to be visited (crawl.opt_out)")
        if not has_web_port(url):
            raise SeedRefusedError(
                f"{url} is at a port of another service than the web; peers ask ports 80, 443 and most from 1024 on"
            )
        if is_literal(host) and not is_public(host) and not charter.allow_private_addresses:
            raise SeedRefusedError(
                f"{url} is at a private address, which network {charter.name!r} does not visit; "
                "a network of your own may: allow_private_addresses in its charter"
            )
    return urls


def _scope_of(order: CrawlOrder, now: float) -> CrawlScope:
    around = CrawlScope.of_seeds(
        [url for url in order.urls if url not in order.bounds],
        order.scope,
        depth_max=order.depth_max,
        content=order.content,
        opted_out=order.opted_out,
        territory=order.territory,
        year=datetime.fromtimestamp(now, UTC).year,
    )
    return replace(around, bounds=tuple(order.bounds.values()))


def bounds_of_seed(seed: Seed, order: CrawlOrder) -> Bounds | None:
    """What its options mean in days of this network. None: it has none, or is too long for any."""
    if len(seed.url) > SEED_CHARS_MAX:
        return None
    bounds = Bounds(
        seed=seed.url,
        scope=seed.scope or ScopeKind.ANY.value,
        depth_max=None if seed.depth is None else _within(seed.depth, DEPTH_BOUND_MAX),
        content=seed.content or "",
        every_days=min(max(1, round((seed.every_s or 0) / order.day_length_s)), EVERY_DAYS_MAX),
        last_day=0 if seed.until_s is None else _within(order.day(seed.until_s), DAY_BOUND_MAX),
        limit=_within(seed.limit or 0, LIMIT_MAX),
    )
    return None if bounds == Bounds(seed.url) else bounds


def _within(number: int, most: int) -> int:
    """What rows can hold, whatever somebody wrote into the list of seeds: a row that cannot be read ends the crawl."""
    return max(0, min(number, most))


def summary(crawler: Crawler) -> dict[str, object]:
    """What `crawl --json` ends with: counts by outcome, and where time and links went."""
    counts, progress = crawler.counts.snapshot(), crawler.progress()
    hosts = sorted(counts.by_host.items(), key=lambda item: (-item[1].fetched, item[0]))
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
        "reread": counts.reread,
        "near_duplicates": counts.near_duplicates,
        "lying_validators": counts.lying_validators,
        "noarchive": counts.noarchive,
        "known": progress.known,
        "due": progress.due,
        "over_budget": progress.over_budget,
        "held_back": progress.held_back,
        "waiting": {
            "urls": sum(rest.due or 0 for rest in crawler.given_up),
            "hosts": {
                rest.origin: datetime.fromtimestamp(rest.until, UTC).isoformat(timespec="seconds")
                for rest in crawler.given_up
            },
        },
        "links": {"found": counts.links_found, "new": counts.links_new, "left": dict(counts.links_left)},
        "rules": {
            rule: {"tried": tried, "found": counts.rules_right[rule]}
            for rule, tried in counts.rules_tried.most_common()
        },
        "by_status": {str(status): count for status, count in sorted(counts.by_status.items())},
        "by_mime": dict(counts.by_mime.most_common()),
        "by_error": dict(counts.by_error.most_common()),
        "by_host": {host: asdict(row) for host, row in hosts},
    }


_SCHEME = re.compile(
    r"[A-Za-z][A-Za-z0-9+.-]*:(?!\d)"
)  # example.org:8080 has a port, mailto:somebody a scheme


def canonical_seeds(texts: Sequence[str], rules: UrlRules = STANDARD) -> tuple[str, ...]:
    """What a person typed, as canonical URLs; without a scheme https is meant. Raises MalformedUrlError."""
    return tuple(rules.canonical(text if _SCHEME.match(text) else f"https://{text}") for text in texts)
