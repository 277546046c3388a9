"""When is a URL due again, and what do we remember of it? Daily or adaptive visits, errors, gone pages.

A day is a number (`now // day length`); every rule here moves a URL from the day of its visit to a later one,
or to the same day again for a retry. What is gone is asked for ever more rarely and never forgotten. The
estimator is Cho and Garcia-Molina's for irregularly observed changes ("Estimating frequency of change", 2003,
5.1): of n visits X found no change, so the rate per visit interval is -log((X + 0.5) / (n + 0.5)).
"""

import math
from enum import Enum
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

INTERVAL_DAYS_MAX = 32
"""Adaptive visits come at least this often (crawl.md, 5)."""
VISITS_BEFORE_ADAPTING = 3
GONE_DAYS_MAX = 64
"""Also between two looks at what is of no wanted type."""
TRIES_PER_DAY = 3
"""In a crawl that tries again at once; one that can wait has more (`crawler.core.politeness`)."""
PRIORITY_MAX = 255
DOUBTFUL_FROM = 128
EMBEDDED, DOUBTFUL = 1, 2
"""Flags of a known URL: a page shows it in itself; it was found on a page much like others, or by a doubtful rule."""
RULE_SHIFT = 2
"""Above the flags is the number of the rule that found it."""
DEPTH_BOUND_MAX = 62
"""Clicks from a seed: a batch of links counts up to 63, so a bound above that would bound nothing."""
EVERY_DAYS_MAX = 366
DAY_BOUND_MAX = 2**32 - 3
"""Later numbers mean "never" in the frontier's rows."""
LIMIT_MAX = 10**9


class Recrawl(Enum):
    DAILY = "daily"
    ADAPTIVE = "adaptive"


class Result(Enum):
    """How a visit ended, as far as the schedule cares. The values are stable names for statistics."""

    CHANGED = "changed"
    UNCHANGED = "unchanged"
    GONE = "gone"
    """404 or 410."""
    REFUSED = "refused"
    """Any other 4xx: the origin is fine and does not want to."""
    FAILED = "failed"
    """No answer, a broken one, 5xx or 429: trying again may help."""
    FORBIDDEN = "forbidden"
    """robots.txt, the opt-out list, or an address that we never open."""
    UNWANTED = "unwanted"
    """Of a media type that the crawl does not archive."""


RETRIED_TODAY = frozenset({Result.FAILED})
# Named once: a frontier asks this a hundred thousand times a second, and to look up a member of an Enum takes 50 ns.
_STORED = (Result.CHANGED, Result.UNCHANGED)
_LOST = (Result.GONE, Result.UNWANTED)
_BARRED = (Result.FORBIDDEN, Result.REFUSED)


ScopeName = Literal["page", "site", "host", "domain", "prefix", "any"]
ContentName = Literal["", "html", "html+images", "pages", "all"]
SEED_CHARS_MAX = 500
"""Of a seed with bounds: each link that it led to is kept with them, and 10,000 links of a batch may share one."""
_WIDTHS = {"page": 0, "prefix": 1, "host": 2, "site": 3, "domain": 3, "any": 4}
_CONTENTS = {"html": 0, "html+images": 1, "pages": 2, "all": 3, "": 4}


class Bounds(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How far the crawl goes from a seed, where the person who named it said so; what they mean is `bounded` of
    `crawler.core.scope`. Each link that the seed led to carries them, so its owner obeys them without asking.

    The order of the fields is the format of files and batches, in which strangers write, too.
    """

    seed: Annotated[str, Meta(min_length=1, max_length=SEED_CHARS_MAX)]
    """Canonical."""
    scope: ScopeName = "any"
    depth_max: Annotated[int, Meta(ge=0, le=DEPTH_BOUND_MAX)] | None = None
    content: ContentName = ""
    """Empty: what the crawl takes anyway."""
    every_days: Annotated[int, Meta(ge=1, le=EVERY_DAYS_MAX)] = 1
    last_day: Annotated[int, Meta(ge=0, le=DAY_BOUND_MAX)] = 0
    """No visit comes later; 0: there is no end."""
    limit: Annotated[int, Meta(ge=0, le=LIMIT_MAX)] = 0
    """Pages that one peer takes in under these bounds; 0: as many as there are."""


def _width(bounds: Bounds | None) -> tuple[float, ...]:
    if bounds is None:
        return (math.inf,)
    return (
        _WIDTHS[bounds.scope],
        math.inf if bounds.depth_max is None else bounds.depth_max,
        _CONTENTS[bounds.content],
        bounds.limit or math.inf,
        bounds.last_day or math.inf,
        -bounds.every_days,
    )


def reaches_further(new: Bounds | None, old: Bounds | None) -> bool:
    """Of two bounds of one URL the wider ones count. They are in one order, so peers that hear of both, in whatever
    order, end with the same. No bounds at all are the widest."""
    return new != old and _width(new) > _width(old)


class Known(msgspec.Struct, array_like=True, kw_only=True, gc=False):
    """What the frontier remembers of a URL. The order of the fields is the file format (frontier.md).

    Nothing in it can lead back to it, so the garbage collector need not know it.
    """

    url: str
    depth: int = 0
    priority: int = 1
    via: str = ""
    due_day: int = 0
    last_day: int = -1
    """Of the last finished visit; -1: never visited."""
    visits: int = 0
    unchanged: int = 0
    failures: int = 0
    """In a row, of the same kind: failed, gone, or unwanted."""
    last_result: str = ""
    etag: str = ""
    last_modified: str = ""
    digest: bytes = b""
    """SHA-256 of the last archived payload."""
    hops: int = 0
    """Redirects between the page that links and this URL, by the shortest way known."""
    flags: int = 0
    """`EMBEDDED`, `DOUBTFUL` and the rule, as the link by which its priority was found."""
    bounds: Bounds | None = None
    """None: the crawl goes as far from here as its own scope says."""

    @property
    def is_embedded(self) -> bool:
        return bool(self.flags & EMBEDDED)

    @property
    def is_doubtful(self) -> bool:
        return bool(self.flags & DOUBTFUL)

    @property
    def rule(self) -> int:
        return self.flags >> RULE_SHIFT


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Known)
_WITH_FLAGS = 0x9F
"""The first byte of a row of fifteen fields, the first that has flags; longer rows, with bounds, begin with 0xdc."""


def encode_known(known: Known) -> bytes:
    return _ENCODER.encode(known)


def decode_known(record: bytes) -> Known:
    """Raises msgspec.MsgspecError for bytes that are no record."""
    known = _DECODER.decode(record)
    if record[0] < _WITH_FLAGS:
        known.flags = _flags_by_parity(known.priority)
    return known


def is_first_visit(known: Known) -> bool:
    """Nothing of it was ever archived, and it was never asked for in vain."""
    return not known.visits and known.last_result in ("", Result.UNWANTED.value)


def flags_of(*, is_embedded: bool, is_doubtful: bool, rule: int = 0) -> int:
    return is_embedded * EMBEDDED | is_doubtful * DOUBTFUL | rule << RULE_SHIFT


def _flags_by_parity(priority: int) -> int:
    """Of a row that an earlier release wrote: only what a page embeds has an even priority, only what is doubtful a
    high one. A seed has the lowest and a retry the highest; what they were is not known any more."""
    if priority in (0, PRIORITY_MAX):
        return 0
    is_doubtful = priority > DOUBTFUL_FROM
    place = priority - DOUBTFUL_FROM if is_doubtful else priority
    return flags_of(is_embedded=place % 2 == 0, is_doubtful=is_doubtful)


def priority_of(depth: int, *, is_embedded: bool, is_seed: bool = False, is_doubtful: bool = False) -> int:
    """Smaller goes first: seeds, then by depth, and what a page embeds before the pages one click deeper;
    what is likely to be a trap's comes behind.
    """
    if is_seed:
        return 0
    # 2 d + 1 is a page at depth d, 2 d + 2 what it embeds, 2 d + 3 a page one click deeper. Doubtful ones repeat this
    # above 128; both ranges are cut at their end, so neither runs into the other or into a retry's 255.
    assert depth >= 0
    priority = 2 * depth + (2 if is_embedded else 1)
    if is_doubtful:
        return min(DOUBTFUL_FROM + priority, PRIORITY_MAX - 1)
    return priority if priority < DOUBTFUL_FROM else DOUBTFUL_FROM - 1


def after_visit(
    known: Known, result: Result, day: int, recrawl: Recrawl, tries_max: int = TRIES_PER_DAY
) -> Known:
    """The record after a visit on `day`; `due_day == day` means: once more today, after all others. `tries_max`: of
    what fails, on one day."""
    is_stored, name = result in _STORED, result.value
    failures = 0
    if not is_stored:
        failures = known.failures + 1 if known.last_result == name else 1
    # Failures are counted over days: each third (or so) is the last of its day, so the remainder says whether one more
    # try is left today. All other results count as a last try.
    tries_today = tries_max if is_stored or result not in RETRIED_TODAY else failures
    changed = msgspec.structs.replace(
        known,
        last_day=day,
        visits=known.visits + is_stored,
        unchanged=known.unchanged + (result is Result.UNCHANGED),
        failures=failures,
        last_result=name,
    )
    if tries_today % tries_max:
        changed.due_day = day
    else:
        days = _interval_days(changed, result, recrawl, tries_max)
        if known.bounds is not None and result is not Result.FAILED:
            days = max(days, known.bounds.every_days)
        changed.due_day = day + days
        assert changed.due_day > day, "only a failure is tried again on its day"
    return changed


def _interval_days(known: Known, result: Result, recrawl: Recrawl, tries_max: int) -> int:
    if result in _LOST:
        assert known.failures > 0, "this visit is one of them"
        return int(min(2 ** min(known.failures - 1, 30), GONE_DAYS_MAX))
    if result is Result.FAILED:
        days_failing = known.failures // tries_max
        return int(min(2 ** max(0, min(days_failing - 1, 30)), INTERVAL_DAYS_MAX))
    if recrawl is Recrawl.DAILY or result in _BARRED:
        return 1
    if known.visits < VISITS_BEFORE_ADAPTING:
        return 1
    return adaptive_interval_days(visits=known.visits - 1, unchanged=known.unchanged)


def adaptive_interval_days(*, visits: int, unchanged: int) -> int:
    """Days until a change is expected, from how many of the visits (the first not counted) found none.

    The estimator's rate is per interval between visits. Intervals follow from this very function, so taking
    them as one day makes the estimate err towards visiting more often, which costs a conditional GET. Where
    nothing ever changed the estimate is endless; it is not trusted beyond as many days as there were visits.
    """
    days_max = min(INTERVAL_DAYS_MAX, max(1, visits))
    rate = -math.log((min(unchanged, visits) + 0.5) / (visits + 0.5))
    days = days_max if rate * days_max <= 1 else max(1, round(1 / rate))
    assert 1 <= days <= INTERVAL_DAYS_MAX
    return days
