"""May a fetch from this host start now? The steward of hosts: delays, backoff, robots, leases.

A steward knows, for each host it looks after, when the next request may start, and hands out leases: "you
may start n fetches from then on, so far apart". One lease per host is out at a time, and its successor
starts a delay after it is given back. So, however many ask, a host sees at most one
request per delay, over http, https and all ports together. Each origin has its own robots.txt. Several
hosts at one address share a cap. A peer alone is its own steward; in a ring, the
owner of the origin's key runs this same class. In doubt it is slower: a lease that nobody gave back is over
only at its end, and a new steward may begin with a silent period. It does not fetch and reads no clock.

What is a lease among peers, and how long may it last? What a host's steward and those who ask him mean.

Times are moments of one peer's own clock. What travels is the distance from now; who receives it knows the moment
only to within the call's duration, and takes the later beginning and the earlier end, so no clocks need to agree.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Self

from crawler.core.robots import RobotsRules
from crawler.core.urls import Origin, UrlKey, canonical, host_of, is_below, reached

ORIGINS_MAX = 200_000
"""About 100 MB of states; above it those are forgotten that are at rest, which costs them nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PolitenessPolicy:
    delay_floor_s: float = 1.0
    """Between requests to one origin, at least. 0 only where private addresses are allowed (tests)."""
    delay_factor: float = 3.0
    """An origin rests this many times its response time: slow means busy (IRLbot, BUbiNG)."""
    delay_max_s: float = 60.0
    """Bound on what the factor can make of a slow answer; a crawl-delay may be longer."""
    crawl_delay_max_s: float = 3600.0
    """A longer crawl-delay is taken as this one."""
    per_address_concurrency: int = 2
    backoff_base_s: float = 30.0
    """Rest after the first 429, 503 or failed connection; doubles with each further one."""
    backoff_max_s: float = 6 * 3600.0
    retry_after_max_s: float = 24 * 3600.0
    robots_max_age_s: float = 24 * 3600.0
    """RFC 9309, 2.4: a robots.txt should not be used for longer than a day."""
    closed_least_s: float = 60.0
    closed_most_s: float = 2 * 3600.0
    """Within these an unreachable robots.txt, which disallows everything, is tried again (`closed_rest_s`)."""
    closed_known_s: float = 210.0
    """A steward keeps the finding no longer, so that a peer with a seed there hears of its return in time."""
    closed_seed_s: float = 60.0
    """A peer that waits with a seed asks again so soon; the site itself is asked as often as the steward does."""
    robots_second_try_s: float = 5.0
    """A connection that failed is tried once more before its host counts as closed."""
    lease_s: float = 120.0
    """A lease that was not given back ends this long after its last start: longer than a fetch may take."""

    def closed_rest_s(self, closed_for_s: float) -> float:
        """An eighth of the time that a site has been closed. A peer and the steward that it asks may both wait so
        long, so a site that was away for twenty minutes is visited within five of its return. A seed is, however long
        its site was away: `closed_known_s`, `closed_seed_s` and two tries together take less than five minutes."""
        return max(self.closed_least_s, min(closed_for_s / 8, self.closed_most_s))

    def rest_s(self, report: "OriginReport", failures: int) -> float:
        """What an answer asks for beyond the usual delay. `failures` in a row, this one included; 0 after a success."""
        rest_s = min(self.backoff_base_s * 2.0 ** (failures - 1), self.backoff_max_s) if failures else 0.0
        return max(rest_s, min(report.retry_after_s or 0.0, self.retry_after_max_s))


class Stay:
    """At an address, for as long as a window covers it: connections kept for a next request end with it."""

    __slots__ = ("_at_end", "is_over")

    def __init__(self) -> None:
        self.is_over = False
        self._at_end: dict[Callable[[], None], None] = {}

    def keep(self, end: Callable[[], None]) -> None:
        """Called at the end, or now if that was."""
        if self.is_over:
            end()
        else:
            self._at_end[end] = None

    def end(self) -> None:
        self.is_over = True
        while self._at_end:
            self._at_end.popitem()[0]()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lease:
    """Permission for one fetch from `starts_at` on."""

    origin: Origin
    number: int
    starts_at: float
    expires_at: float
    address: str | None = None
    """The only one that the fetch may go to; "" when the name led nowhere. None: not said."""
    stay: Stay | None = None
    """There. None: connections are kept as the fetcher likes."""
    starts_by: float | None = None
    """The end of its window, less what a request takes to arrive: none leaves later. None: not said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """No permission yet; asking before `until` is useless."""

    until: float
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NoWay(Wait):
    """This machine has no address of the site's family. Nobody is asked; others may be able to fetch from there."""

    address: str
    """To which no way leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OriginReport:
    """How a lease's fetches went: what the steward needs to be polite on behalf of everybody."""

    status: int | None
    """Of the last answer; None when there was none."""
    duration_s: float
    retry_after_s: float | None = None
    fetches: int = 1
    """0: the permission was not used, so the origin needs no rest."""
    is_excused: bool = False
    """There was no answer, which may be an accident: the origin has its ordinary rest, and no more."""
    late_s: float = 0.0
    """So long after its permission a request was still not sent, and then it was too late."""


def retry_after_s(value: str | None, now: float) -> float | None:
    """Seconds that a Retry-After header asks for, given as a number or as a date; `now` since 1970."""
    if value is None:
        return None
    text = value.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])  # thirty years: longer numbers mean no more, and a million digits cost time
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - now)
    except (ValueError, OverflowError):
        return None


@dataclass(slots=True)
class _HostState:
    next_start_at: float
    lease: Lease | None = None
    address: str = ""
    failures: int = 0

    def is_at_rest(self, now: float) -> bool:
        """Past its delay and without a lease: as good as new, but for its origins' robots rules."""
        return self.lease is None and self.next_start_at <= now and not self.failures


@dataclass(slots=True)
class _OriginState:
    host: _HostState
    rules: RobotsRules | None = None
    rules_until: float = 0.0
    closed_since: float | None = None


CLOSED_MAX = 256
"""Origins that are waited for at once: they hold places that others want, and the web has many dead hosts."""
CLOSED_SEEDS_MAX = 64
"""Of origins with seeds, beside those: what others send as near a seed may be anything."""
CLOSED_GIVEN_UP_S = 6 * 3600.0
"""After so long an origin is left for the day, unless it has a seed."""
CLOSED_FORGOTTEN_S = 3_600.0
"""Beyond its next try: nothing there is due any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Closed:
    """An origin whose robots.txt cannot be had: no name, no connection, no good certificate, 5xx."""

    since: float
    until: float
    """When it is tried again."""
    problem: str
    has_seed: bool = False


class ClosedOrigins:
    """Which origins does a crawl wait for, as they may be back today?"""

    def __init__(self, policy: PolitenessPolicy) -> None:
        self._policy = policy
        self._closed: dict[Origin, Closed] = {}

    def again_at(self, origin: Origin, problem: str, now: float, *, has_seed: bool = False) -> float | None:
        """It is closed: when to ask again; None: not today. `has_seed`: something is due there that somebody named."""
        before = self._closed.pop(origin, None)
        self._forget(now)
        since = now if before is None else before.since
        rest_s = self._policy.closed_rest_s(now - since)
        has_seed = has_seed and self._count(with_seed=True) < CLOSED_SEEDS_MAX
        if has_seed:
            rest_s = min(rest_s, self._policy.closed_seed_s)
        elif self._count(with_seed=False) >= CLOSED_MAX or now - since >= CLOSED_GIVEN_UP_S:
            return None
        until = now + rest_s
        self._closed[origin] = Closed(since=since, until=until, problem=problem, has_seed=has_seed)
        return until

    def _count(self, *, with_seed: bool) -> int:
        return sum(one.has_seed is with_seed for one in self._closed.values())

    def _forget(self, now: float) -> None:
        over = [origin for origin, one in self._closed.items() if now > one.until + CLOSED_FORGOTTEN_S]
        for origin in over:
            del self._closed[origin]

    def opened(self, origin: Origin) -> None:
        self._closed.pop(origin, None)

    def listed(self) -> dict[Origin, Closed]:
        """The longest closed first."""
        return dict(sorted(self._closed.items(), key=lambda item: (item[1].since, item[0])))


RETRY_RESTS_S = (300.0, 1_800.0, 7_200.0, 14_400.0)
"""After the first failure of a page on a day, the second, and so on: from minutes to hours, five tries in 6.6 hours."""
TRIES_PER_DAY = len(RETRY_RESTS_S) + 1
RETRIES_MAX = 10_000
"""Pages that wait for another try on the day: some 2 MB."""
RETRIES_OF_ORIGIN_MAX = 100
"""A site whose every page fails has trouble enough; the others wait for the next day."""


class Retries:
    """Which pages failed today, and when is each tried again? Nothing waits for them: an origin that has nothing else
    left is at rest until then."""

    def __init__(self, rests_s: tuple[float, ...] = RETRY_RESTS_S) -> None:
        self._rests_s = rests_s
        self._until: dict[UrlKey, float] = {}
        self._order: list[tuple[float, UrlKey, Origin]] = []
        self._of: Counter[Origin] = Counter()

    def later(self, origin: Origin, key: UrlKey, failures: int, now: float) -> bool:
        """After so many failures in a row. False: not today, too many wait."""
        assert key not in self._until, "it was handed out, so its time had come"
        if len(self._until) >= RETRIES_MAX or self._of[origin] >= RETRIES_OF_ORIGIN_MAX:
            return False
        until = now + self._rests_s[(failures - 1) % TRIES_PER_DAY % len(self._rests_s)]
        self._until[key] = until
        self._of[origin] += 1
        heapq.heappush(self._order, (until, key, origin))
        return True

    def is_waiting(self, key: UrlKey) -> bool:
        return key in self._until

    def until(self, key: UrlKey) -> float | None:
        return self._until.get(key)

    def take_due(self, now: float) -> list[Origin]:
        """Origins with pages whose time has come; each page is told once."""
        found: dict[Origin, None] = {}
        while self._order and self._order[0][0] <= now:
            _, key, origin = heapq.heappop(self._order)
            found[origin] = None
            del self._until[key]
            self._of[origin] -= 1
            if not self._of[origin]:
                del self._of[origin]
        return list(found)

    def next_at(self) -> float | None:
        return self._order[0][0] if self._order else None

    def __len__(self) -> int:
        return len(self._until)


class HostSteward:
    """Pure; every method takes the time, which must not run backwards."""

    def __init__(self, policy: PolitenessPolicy) -> None:
        self._policy = policy
        self.robots_second_try_s = policy.robots_second_try_s
        self._origins: dict[Origin, _OriginState] = {}
        self._hosts: dict[str, _HostState] = {}
        self._busy_at: Counter[str] = Counter()
        self._leases_given = 0

    def rules(self, origin: Origin, now: float) -> RobotsRules | None:
        """The origin's robots rules, None when robots.txt has to be fetched (again)."""
        state = self._origins.get(origin)
        return state.rules if state and now < state.rules_until else None

    def set_rules(
        self, origin: Origin, rules: RobotsRules, now: float, *, for_s: float | None = None
    ) -> None:
        """`for_s`: how long the source had them already."""
        state = self._state(origin, now)
        age_max = self._policy.robots_max_age_s
        if rules.is_reachable:
            state.closed_since = None
        else:
            state.closed_since = now if state.closed_since is None else state.closed_since
            rest_s = self._policy.closed_rest_s(now - state.closed_since)
            age_max = min(rest_s, self._policy.closed_known_s)
        state.rules, state.rules_until = rules, now + (age_max if for_s is None else min(for_s, age_max))

    def rules_for_s(self, origin: Origin, now: float) -> float:
        """How long the rules that we have may still be used."""
        state = self._origins.get(origin)
        return max(0.0, state.rules_until - now) if state else 0.0

    def doubt_rules(self, origin: Origin) -> RobotsRules | None:
        """There may be newer ones: ask again. Gives those that we had."""
        state = self._origins.get(origin)
        if state is None:
            return None
        state.rules_until = 0.0
        return state.rules

    def lease(self, origin: Origin, now: float, *, address: str = "") -> Lease | Wait:
        """Ask for permission. `address` is where the name leads, for the cap per address ("": no cap)."""
        asked = self._state(origin, now)
        state = asked.host
        self._expire(state, now)
        soon = now + max(self._policy.delay_floor_s, 0.01)
        if state.lease is not None:
            until = state.lease.expires_at if state.lease.origin == origin else soon
            return Wait(until=until, reason="another lease is out")
        if now < state.next_start_at:
            return Wait(until=state.next_start_at, reason="backing off" if state.failures else "resting")
        if address and self._busy_at[reached(address)] >= self._policy.per_address_concurrency:
            return Wait(until=soon, reason="its address is busy")
        # The number tells a lease from the one before it: a peer that gives one back late must not end another's.
        self._leases_given += 1
        state.lease = Lease(
            origin=origin,
            number=self._leases_given,
            starts_at=now,
            expires_at=now + self._policy.lease_s,
            address=address,
        )
        state.address = reached(address)
        self._busy_at[state.address] += 1
        return state.lease

    def give_back(self, lease: Lease, report: OriginReport, now: float) -> float:
        """A lease ended; says when the next fetch from the origin may start. A stale lease is ignored."""
        asked = self._state(lease.origin, now)
        state = asked.host
        if state.lease is None or state.lease.number != lease.number:
            return state.next_start_at
        self._release(state)
        if not report.fetches:
            return state.next_start_at
        is_failure = report.status in (None, 429, 503) and not report.is_excused
        # 30 doublings pass every longest rest; more of them would only overflow.
        state.failures = min(state.failures + 1, 30) if is_failure else 0
        rest_s = self._policy.rest_s(report, state.failures)
        state.next_start_at = now + max(self._delay_s(asked, report.duration_s), rest_s)
        return state.next_start_at

    def _delay_s(self, state: _OriginState, duration_s: float) -> float:
        policy = self._policy
        asked_s = min((state.rules.crawl_delay_s or 0.0) if state.rules else 0.0, policy.crawl_delay_max_s)
        measured_s = (
            min(policy.delay_factor * duration_s, policy.delay_max_s) if policy.delay_floor_s else 0.0
        )
        return max(policy.delay_floor_s, asked_s, measured_s)

    def _state(self, origin: Origin, now: float) -> _OriginState:
        state = self._origins.get(origin)
        if state is None:
            if len(self._origins) >= ORIGINS_MAX:
                self._forget_resting(now)
            name = host_of(f"{origin}/")
            host = self._hosts.get(name)
            if host is None:
                host = self._hosts[name] = _HostState(next_start_at=now)
            state = self._origins[origin] = _OriginState(host)
        return state

    def _forget_resting(self, now: float) -> None:
        # A host goes with all its origins or not at all: two states of one host would grant two leases at once, and
        # `_expire` looks up the origin of a lease that is out. Robots rules go too; they are fetched again.
        for host in self._hosts.values():
            self._expire(host, now)
        self._hosts = {name: host for name, host in self._hosts.items() if not host.is_at_rest(now)}
        self._origins = {
            origin: state for origin, state in self._origins.items() if not state.host.is_at_rest(now)
        }

    def _expire(self, state: _HostState, now: float) -> None:
        lease = state.lease
        if lease is not None and now >= lease.expires_at:
            self._release(state)
            state.next_start_at = max(
                state.next_start_at, now + self._delay_s(self._origins[lease.origin], 0.0)
            )

    def _release(self, state: _HostState) -> None:
        assert state.lease is not None, "a lease is counted at its address once, and leaves it once"
        state.lease = None
        self._busy_at[state.address] -= 1
        assert self._busy_at[state.address] >= 0
        if not self._busy_at[state.address]:
            del self._busy_at[state.address]


@dataclass(frozen=True, slots=True)
class OptOutList:
    """Hosts whose owners asked to be left alone; a name covers its subdomains."""

    hosts: frozenset[str] = frozenset()

    @classmethod
    def of(cls, names: Iterable[str]) -> "OptOutList":
        """In whatever spelling; `*.` before a name says the same. Raises MalformedUrlError for what is no host."""
        plain = (name.strip().removeprefix("*").strip(".") for name in names)
        return cls(frozenset(host_of(canonical(f"http://{name}/")).strip(".") for name in plain if name))

    def covers(self, host: str) -> bool:
        return bool(self.hosts) and is_below(host.rstrip("."), self.hosts)


LIFE_MIN_S, LIFE_MAX_S = 2.0, 60.0
FLOORS_IN_A_LIFE = 30.0
"""A lease of a minute at the public floor of 2 s: some 25 fetches for one round trip."""
STARTS_MAX = 1_024
SPREAD_S = 0.25
"""Ways round the world differ by some 150 ms each way, and a busy machine adds to that (design of the lines, 6)."""

Holder = bytes
"""The holder of a window: a peer's key, and for addresses also the host on whose behalf."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseTerms:
    """What all members derive from the charter, so that nobody has to tell."""

    policy: PolitenessPolicy
    life_s: float
    """Every lease ends so long after it was granted, at most."""
    window_s: float
    silent_s: float
    """How long a new steward grants nothing: all leases of another are over, and a delay has passed."""
    slack_s: float
    """How late a start may be: what a call may take, and a busy loop."""
    spread_s: float
    """Between windows of different holders, besides the delay: the difference of their ways to the server."""

    @classmethod
    def of(cls, policy: PolitenessPolicy) -> Self:
        life_s = min(max(FLOORS_IN_A_LIFE * policy.delay_floor_s, LIFE_MIN_S), LIFE_MAX_S)
        terms = cls(
            policy=policy,
            life_s=life_s,
            # Half a life to be used in, so that a window may begin up to half a life after it was promised.
            window_s=life_s / 2,
            # The last lease of the steward before ends within a life; the host then rests as after any fetch.
            silent_s=life_s + measured_delay_max_s(policy),
            slack_s=life_s / 8 if life_s < 8.0 else 1.0,
            spread_s=min(SPREAD_S, policy.delay_floor_s),
        )
        assert 0 < terms.slack_s < terms.window_s < terms.life_s <= terms.silent_s
        return terms


def measured_delay_max_s(policy: PolitenessPolicy) -> float:
    """A slow answer makes no longer rest than a new steward's silence covers."""
    return min(policy.delay_max_s, FLOORS_IN_A_LIFE * policy.delay_floor_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """`count` starts from `starts_at` to `ends_at`, `spacing_s` apart at least."""

    holder: Holder
    number: int
    starts_at: float
    ends_at: float
    count: int
    spacing_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LeaseRefusal:
    """No, and asking again is useless; the word is one of the protocol's."""

    reason: str


@dataclass(slots=True)
class HeldWindow:
    """A window as its holder sees it, and what has been done with it."""

    number: int
    starts_at: float
    ends_at: float
    left: int
    spacing_s: float
    fetches: int = 0
    status: int | None = None
    duration_s: float = 0.0
    retry_after_s: float | None = None
    next_start_at: float = 0.0
    late_s: float = 0.0
    """How long after its departure a request arrives, as far as this peer's line has to do with it. The window counts
    arrivals, so nothing departs that would arrive after its end."""
    way_s: float = 0.0
    """How long after its start a request departs: until there is a place for it, and a connection."""

    @classmethod
    def received(
        cls,
        number: int,
        starts_in_s: float,
        lasts_s: float,
        count: int,
        spacing_s: float,
        *,
        asked: float,
        got: float,
    ) -> Self:
        """Asked and got by our clock: the true beginning is not later, the true end not earlier than ours."""
        # The steward answered at some moment between the two, so its beginning is at most `got + starts_in_s` and its
        # end at least `asked + starts_in_s + lasts_s`. Our window lies within its window, for any delay on the way.
        assert asked <= got, "this clock is never set back"
        return cls(
            number=number,
            starts_at=got + starts_in_s,
            ends_at=asked + starts_in_s + lasts_s,
            left=count,
            spacing_s=spacing_s,
        )

    def opens_at(self) -> float:
        """When the next start is allowed by this window."""
        return max(self.starts_at, self.next_start_at)

    @property
    def departs_by(self) -> float:
        return self.ends_at - self.late_s

    def is_over(self, now: float) -> bool:
        # In the first half a start is tried whatever the way took: else a window that is no longer would never be used.
        half_s = max(0.0, self.departs_by - self.starts_at) / 2
        last_start_at = self.departs_by - min(self.way_s, half_s)
        return not self.left or now > last_start_at or self.opens_at() > last_start_at

    def is_idle(self, now: float, patience_s: float) -> bool:
        """It could have been used for so long, or it ended unused: nobody is to be connected under it."""
        return now > self.ends_at or self.opens_at() + patience_s < now

    def start(self, now: float) -> None:
        assert self.left > 0, "asked `is_over` before"
        self.left -= 1
        self.next_start_at = now + self.spacing_s

    def note(self, report: OriginReport) -> None:
        """A fetch that it allowed ended."""
        self.fetches += report.fetches
        self.status = report.status
        self.duration_s = max(self.duration_s, report.duration_s)
        self.retry_after_s = report.retry_after_s

    def is_used_up(self) -> bool:
        """All that it allowed was done: more would have been wanted."""
        return not self.left
