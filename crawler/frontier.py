"""Which URL next, which are known? Every URL we ever heard of, on disk, and today's queue of each origin.

RocksDB holds three kinds of rows (docs/protocol/frontier.md): `k` + key -> what is known of the URL, `d` +
origin + day + priority + key -> the URL is due from that day on, `o` + origin -> the origin's counts. A URL
has one due row, moved to a later day by the same atomic batch that records its visit. So the daily reset is
one number: the day up to which due rows count; nothing is rewritten. The queues of the origins that are being
crawled, and the numbers, are `crawler.frontier_turns`, the disk is `crawler.frontier_rows`.

Crash safety: every change is one atomic batch in the write-ahead log, which outlives the process; `sync()`
makes it outlive the machine. Keys handed out are marked first; after a crash the marked ones come again as
suspects, and the worker asks the archive whether it has today's capture already, so none is captured twice.
It knows neither HTTP nor politeness. Used from one task at a time; every call is short.
"""

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass
from itertools import islice

from crawler.core.link import (
    DUE,
    FINGERPRINT_BYTES,
    KNOWN,
    LINKS,
    META,
    DueEntry,
    Link,
    OriginCounts,
    Yield,
    bounded_row,
    day_of,
    due_row,
    fingerprint,
    host_row_of,
    key_of,
    number_in,
    origin_id_of,
    rests,
)
from crawler.core.recrawl import (
    TRIES_PER_DAY,
    Bounds,
    Known,
    Recrawl,
    Result,
    after_visit,
    decode_known,
    encode_known,
    is_first_visit,
    priority_of,
    reaches_further,
)
from crawler.core.rows import Batch, Rows, after
from crawler.core.urls import Origin, UrlKey, origin_of, url_key
from crawler.frontier_turns import REFILL, FrontierCounts, FrontierTurns

__all__ = [
    "REFILL",
    "DueEntry",
    "Frontier",
    "FrontierLimits",
    "FrontierStatistics",
    "fingerprint",
]

_DAY_ROW = META + b"day"
_TO_BE_READ = frozenset({Result.CHANGED.value, Result.UNCHANGED.value})
_TO_BE_SEEN = _TO_BE_READ | {Result.UNWANTED.value}

_HITS = frozenset({Result.CHANGED, Result.UNCHANGED})
_TELLS_OF_RULES = _HITS | {Result.GONE, Result.REFUSED}

URLS_REMEMBERED = 32_768
"""Known URLs that are not looked up on the disk again: what pages link to repeats. Some 6 MB."""
LEFT = (1 << 32) - 1
"""The day on which a URL is due that somebody else fetches: never."""
NEVER = LEFT - 1
"""The day on which a URL is due whose bounds ended: it is known, and nobody fetches it."""
LIMITS_CACHED_MAX = 4_096
SEEDS_LOOKED_FOR = 64
DOUBTED_MAX = 200_000
"""Their keys are in memory: some 20 MB."""
REREAD_BATCH = 1_000
ETAG_CHARACTERS_MAX = 1_000
DATE_CHARACTERS_MAX = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class FrontierLimits:
    urls_per_origin_max: int = 1_000_000
    """Bounds what a trap can make us remember."""
    visits_per_origin_max: int = 50_000
    """A day's; the others wait for the next one. At the public delay of 2 s a day has 43,200."""
    tracks_depth: bool = False
    """Whether a shorter way to a known page matters (a crawl with a depth limit): its links are read again.
    """


@dataclass(frozen=True, slots=True)
class FrontierStatistics:
    known: int
    active_origins: int
    over_budget: int
    day: int
    due: int
    """Today, those handed out included."""
    held_back: int
    """Origins that had their share of today's visits."""


def _counts_depth(bounds: Bounds | None) -> bool:
    return bounds is not None and bounds.depth_max is not None


class Frontier:
    """On rows of its own (`frontier_rows`), which `close` closes."""

    def __init__(self, rows: Rows, *, day: int, limits: FrontierLimits | None = None) -> None:
        self._limits = limits or FrontierLimits()
        self._rows = rows
        self._counts = FrontierCounts(self._rows)
        self._turns = FrontierTurns(
            self._rows, self._counts, visits_per_origin_max=self._limits.visits_per_origin_max
        )
        self._remembered: set[str] = set()
        self._bounded: dict[bytes, int] = {}
        """Pages taken in under bounds with a limit, as far as they were asked for lately."""
        self._day = number_in(rows.get(_DAY_ROW))
        if day > self._day:
            self.start_day(day)
        else:
            self._turns.start_day(self._day)

    # -- days

    @property
    def day(self) -> int:
        return self._day

    def start_day(self, day: int) -> None:
        """The daily reset: all that is due until `day` counts from now on. It writes one number."""
        if day < self._day:
            raise ValueError(f"day {day} is before {self._day}")
        self._rows.write(Batch([(_DAY_ROW, day.to_bytes(4, "big"))]))
        self._day = day
        self._turns.start_day(day)

    # -- adding

    def add(self, links: Sequence[Link]) -> int:
        """Make URLs known and due today; those already known change nothing. Says how many were new."""
        batch = Batch()
        new = self._add(batch, links)
        self._rows.write(batch)
        return new

    def _add(self, batch: Batch, links: Sequence[Link], page: UrlKey | None = None) -> int:
        self._counts.forget_some()
        if len(self._remembered) > URLS_REMEMBERED:
            self._remembered.clear()
        unique: dict[bytes, Link] = {}
        known: Container[str] = () if self._limits.tracks_depth else self._remembered
        for link in links:
            if link.is_seed or link.url not in known:
                unique.setdefault(KNOWN + url_key(link.url), link)
        if page is not None:  # its record is in the batch, not yet on the disk; and it leads nowhere new
            unique.pop(KNOWN + page, None)
        rows = list(unique)
        new = 0
        counted: dict[bytes, OriginCounts] = {}
        for row, link, found in zip(rows, unique.values(), self._rows.get_many(rows), strict=True):
            if found is None:
                new += self._add_new(batch, row, link, counted)
                continue
            record = decode_known(found)
            if not record.hops and record.bounds is None:
                self._remembered.add(link.url)
            is_wider = reaches_further(link.bounds, record.bounds)
            counts_depth = self._limits.tracks_depth or _counts_depth(record.bounds)
            if counts_depth or link.is_seed or link.hops < record.hops or is_wider:
                self._shorten(batch, row[1:], record, link, is_wider=is_wider)
        for origin_id, counts in counted.items():
            self._counts.put_origin(batch, origin_id, counts)
        if new:
            self._counts.add_known(batch, self._day, new)
        return new

    def _add_new(self, batch: Batch, row: bytes, link: Link, counted: dict[bytes, OriginCounts]) -> bool:
        origin = origin_of(link.url)
        origin_id = origin_id_of(origin)
        counts = counted[origin_id] = self._counts.origin(origin_id)
        counts.origin = origin
        if counts.known >= self._limits.urls_per_origin_max and not link.is_seed:
            counts.over_budget += 1
            self._counts.over_budget += 1
            return False
        if link.bounds is not None and not self._is_within_limit(batch, link, link.bounds):
            return False
        counts.known += 1
        if not link.hops and link.bounds is None:  # or a shorter or wider way would go unnoticed
            self._remembered.add(link.url)
        known = Known(
            url=link.url,
            depth=link.depth,
            priority=link.priority,
            via=link.via,
            due_day=self._day,
            hops=link.hops,
            flags=link.flags,
            bounds=link.bounds,
        )
        batch.put(row, encode_known(known))
        self._turns.put_due(batch, origin_id, known, row[1:])
        return True

    def _is_within_limit(self, batch: Batch, link: Link, bounds: Bounds) -> bool:
        """Counts pages alone: what they embed comes with them."""
        if not bounds.limit or link.is_embedded:
            return True
        row = bounded_row(bounds)
        count = self._bounded.get(row)
        if count is None:
            count = number_in(self._rows.get(row))
        if count >= bounds.limit:
            return False
        if len(self._bounded) >= LIMITS_CACHED_MAX:
            self._bounded.clear()
        self._bounded[row] = count + 1
        batch.put(row, (count + 1).to_bytes(4, "big"))
        return True

    def _shorten(self, batch: Batch, key: bytes, known: Known, link: Link, *, is_wider: bool) -> None:
        """A shorter way to a known URL, or one under wider bounds: it moves up, and if today's visit is over its links
        are read again.
        """
        is_nearer = link.depth < known.depth or link.hops < known.hops
        if not is_nearer and not is_wider and link.priority >= known.priority:
            return
        origin_id = origin_id_of(origin_of(known.url))
        old_due = due_row(origin_id, known, key)
        if link.priority < known.priority:
            known.priority, known.flags = link.priority, link.flags
        known.depth = min(link.depth, known.depth)
        known.hops = min(link.hops, known.hops)
        if is_wider:
            known.bounds = link.bounds
            batch.delete(LINKS + key)  # those that were left out are to be found again
        entry = self._turns.taken.get(key)
        if entry is not None:  # being fetched: its links will be given the new depth
            entry.known.depth, entry.known.priority = known.depth, known.priority
            entry.known.hops, entry.known.flags = known.hops, known.flags
            entry.known.bounds = known.bounds
            batch.put(KNOWN + key, encode_known(known))
            self._turns.move_taken(batch, entry)
            return
        is_read = known.last_result in _TO_BE_READ  # nothing else has links
        is_to_be_read = is_read and (known.last_day == self._day or is_wider) and known.due_day != LEFT
        if is_to_be_read and known.due_day > self._day:
            self._counts.move_due(batch, known.due_day, self._day)
            known.due_day = self._day
            self._turns.suspect(batch, key)
        elif is_to_be_read and is_wider:
            self._turns.suspect(batch, key)  # or its links are not looked at where it did not change
        elif is_wider and known.due_day == NEVER:
            self._counts.move_due(batch, known.due_day, self._day)
            known.due_day = self._day
        self._turns.delete_due(batch, origin_id, old_due)
        batch.put(KNOWN + key, encode_known(known))
        self._turns.put_due(batch, origin_id, known, key)

    # -- handing out

    def activate(self, wanted: int, takes: Callable[[Origin], bool] | None = None) -> list[Origin]:
        """Up to `wanted` further origins with something due that `takes` takes, in turn; each stays active
        until `retire`.
        """
        return self._turns.activate(wanted, takes)

    @property
    def may_activate(self) -> bool:
        """Whether `activate` might find anything: something new came, or not all was looked through."""
        return self._turns.may_activate

    def retire(self, origin: Origin) -> None:
        """The origin is not being crawled any more; `activate` finds it again when something is due."""
        self._turns.retire(origin)

    def take(self, origin: Origin) -> DueEntry | None:
        """The active origin's next URL that is due, or None when there is nothing left for today."""
        return self._turns.take(origin)

    # -- giving back

    def record(
        self,
        entry: DueEntry,
        result: Result,
        *,
        recrawl: Recrawl = Recrawl.DAILY,
        tries_max: int = TRIES_PER_DAY,
        links: Sequence[Link] = (),
        fingerprints: bytes | None = None,
        etag: str = "",
        last_modified: str = "",
        digest: bytes | None = None,
    ) -> int:
        """The visit is over and its capture durable: its outcome and the page's links, in one atomic
        batch. Without a digest the known one stays; an empty one forgets it.
        """
        self._counts.forget_some()
        del self._turns.taken[entry.key]
        known = after_visit(entry.known, result, self._day, recrawl, tries_max)
        if result in (Result.CHANGED, Result.UNCHANGED):
            # Half a validator is worthless: some servers would refuse the request.
            known.etag = etag if len(etag) <= ETAG_CHARACTERS_MAX else ""
            known.last_modified = last_modified if len(last_modified) <= DATE_CHARACTERS_MAX else ""
        if digest is not None:
            known.digest = digest
        if known.due_day == self._day:
            known.priority = 255  # a retry comes after all that is due today
        elif known.priority == 255:
            known.priority = priority_of(known.depth, is_embedded=False)
        batch = Batch()
        origin_id = origin_id_of(entry.origin)
        batch.delete(entry.due_row)
        self._turns.clear(batch, entry.key)
        batch.put(KNOWN + entry.key, encode_known(known))
        self._turns.put_due(batch, origin_id, known, entry.key)
        if fingerprints is not None:
            batch.put(LINKS + entry.key, fingerprints)
        new = self._add(batch, links, entry.key) if links else 0
        self._counts.move_due(batch, entry.known.due_day, known.due_day)
        self._count_visit(batch, origin_id, entry, result)
        self._rows.write(batch)
        return new

    def _count_visit(self, batch: Batch, origin_id: bytes, entry: DueEntry, result: Result) -> None:
        counts = self._counts.origin(origin_id)
        rule = entry.known.rule
        if rule and is_first_visit(entry.known) and result in _TELLS_OF_RULES:
            before = counts.yields.get(rule, Yield())
            counts.yields = {**counts.yields, rule: before.after(is_hit=result in _HITS)}
        counts.stored += result in _HITS and not entry.known.visits
        was_failing = entry.known.last_result == Result.FAILED.value
        counts.failing = max(0, counts.failing + (result is Result.FAILED) - was_failing)
        if entry.rests_until:
            counts.rests_until = entry.rests_until
            self._note_rest_of_host(batch, entry.origin, entry.rests_until)
        counts.visits = counts.visits + 1 if counts.last_day == self._day else 1
        counts.last_day = self._day
        self._counts.put_origin(batch, origin_id, counts)

    def is_vain(self, entry: DueEntry) -> bool:
        """A rule found it that finds next to nothing at its origin. What was there once is asked for all the same."""
        known = entry.known
        if not known.rule or not is_first_visit(known):
            return False
        return rests(known.rule, self._counts.origin(origin_id_of(entry.origin)).yields)

    def owe_rest(self, origin: Origin, until: float) -> None:
        """The origin and its host are to be left alone until then, whatever happens to this process."""
        origin_id = origin_id_of(origin)
        counts = self._counts.origin(origin_id)
        if counts.origin and until > counts.rests_until:
            counts.rests_until = until
            batch = Batch()
            self._counts.put_origin(batch, origin_id, counts)
            self._note_rest_of_host(batch, origin, max(until, self.rests_until(origin)))
            self._rows.write(batch)

    def _note_rest_of_host(self, batch: Batch, origin: Origin, until: float) -> None:
        host = host_row_of(origin)
        counts = self._counts.origin(origin_id_of(host))
        counts.origin, counts.rests_until = host, until
        self._counts.put_origin(batch, origin_id_of(host), counts)

    def rests_until(self, origin: Origin) -> float:
        """Until when its host is to be left alone, by whatever scheme and port it was visited; seconds since 1970."""
        of_host = self._counts.origin(origin_id_of(host_row_of(origin))).rests_until
        return max(of_host, self.origin_counts(origin).rests_until)

    def release(self, entry: DueEntry) -> None:
        """Not visited after all; it stays due, and is the next to come."""
        self._turns.release(entry)

    def look_again(self) -> None:
        """What was passed over may be wanted by now."""
        self._turns.look_again()

    def look_again_at(self, origin: Origin) -> None:
        """What was passed over there may be wanted by now."""
        self._turns.look_again_at(origin_id_of(origin))

    def put_off(self, key: UrlKey) -> None:
        """What is due today is due tomorrow."""
        self._make_due([key], lambda known: max(known.due_day, self._day + 1))

    def has_seed_due(self, origin: Origin) -> bool:
        """Among what comes first there, which seeds do: a page at no click from one, or one that failed."""
        prefix = DUE + origin_id_of(origin)
        rows = islice(self._rows.keys(prefix, after(prefix)), SEEDS_LOOKED_FOR)
        keys = [UrlKey(key_of(row)) for row in rows if day_of(row) <= self._day]
        return any(
            known is not None and not known.depth and not known.is_embedded for known in self.known_of(keys)
        )

    def pass_over(self, entry: DueEntry) -> None:
        """Not for this crawl: it stays due, and is not handed out again before the next day or process."""
        self._turns.pass_over(entry)

    def end(self, entry: DueEntry) -> None:
        """The last day of its bounds is over: it stays known, and is due again only under other bounds."""
        del self._turns.taken[entry.key]
        batch = Batch()
        batch.delete(entry.due_row)
        self._turns.clear(batch, entry.key)
        self._counts.move_due(batch, entry.known.due_day, NEVER)
        entry.known.due_day = NEVER
        batch.put(KNOWN + entry.key, encode_known(entry.known))
        self._turns.put_due(batch, origin_id_of(entry.origin), entry.known, entry.key)
        self._rows.write(batch)

    def leave(self, keys: Sequence[UrlKey]) -> int:
        """Somebody else fetches these from now on: they stay known and are never due. Those that are being fetched stay
        ours for now. Says how many were left.
        """
        return self._make_due(keys, lambda known: LEFT)

    def take_back(self, keys: Sequence[UrlKey]) -> int:
        """What was left is ours again, and due today unless it was visited today. Says how many were left."""
        return self._make_due(
            keys,
            lambda known: (
                self._day + (known.last_day >= self._day) if known.due_day == LEFT else known.due_day
            ),
        )

    def is_out(self, key: UrlKey) -> bool:
        """It is being fetched."""
        return key in self._turns.taken

    def doubt(self, keys: Sequence[UrlKey]) -> None:
        """Somebody else may have visited these today: the archive is asked before they are fetched. Beyond a bound they
        are fetched once more.
        """
        batch = Batch()
        ours = [key for key, known in zip(keys, self.known_of(keys), strict=True) if known is not None]
        for key in ours[: max(0, DOUBTED_MAX - self._turns.suspects)]:
            self._turns.suspect(batch, key)
        self._rows.write(batch)

    def look_for(self, key: UrlKey, digest: bytes) -> bool:
        """Visit it today, once more where it was visited, and see whether it is this content: the visit ends as
        unchanged where it is. False where it is not known, or being fetched.
        """
        known = self.known_of([key])[0]
        if known is None or key in self._turns.taken:
            return False
        batch, origin_id = Batch(), origin_id_of(origin_of(known.url))
        self._turns.delete_due(batch, origin_id, due_row(origin_id, known, key))
        self._turns.clear(batch, key)  # the archive is not asked: it has somebody else's capture
        self._counts.move_due(batch, known.due_day, self._day)
        known.due_day, known.digest = self._day, digest
        known.etag = known.last_modified = ""  # they may be of another content
        batch.put(KNOWN + key, encode_known(known))
        self._turns.put_due(batch, origin_id, known, key)
        self._rows.write(batch)
        return True

    def _make_due(self, keys: Sequence[UrlKey], day_of_known: Callable[[Known], int]) -> int:
        batch, moved = Batch(), 0
        for key, known in zip(keys, self.known_of(keys), strict=True):
            if known is None or key in self._turns.taken or (day := day_of_known(known)) == known.due_day:
                continue
            origin_id = origin_id_of(origin_of(known.url))
            self._turns.delete_due(batch, origin_id, due_row(origin_id, known, key))
            self._counts.move_due(batch, known.due_day, day)
            known.due_day = day
            batch.put(KNOWN + key, encode_known(known))
            self._turns.put_due(batch, origin_id, known, key)
            if day == LEFT:  # no visit of ours will clear it
                self._turns.clear(batch, key)
            moved += 1
        self._rows.write(batch)
        return moved

    def reread(self, takes: Callable[[Origin], bool]) -> int:
        """The crawl takes in more than before: pages that may hold links left out then come again as
        suspects, to be read from the archive; what was of no wanted type is due again. Says how many.
        """
        count = 0
        batch = Batch()
        for row in self._rows.keys(KNOWN, after(KNOWN)):
            record = self._rows.get(row)
            known = None if record is None else decode_known(record)
            if known is None or known.last_result not in _TO_BE_SEEN or not takes(origin_of(known.url)):
                continue
            self._bring_back(batch, row[1:], known, is_archived=known.last_result in _TO_BE_READ)
            count += 1
            if count % REREAD_BATCH == 0:
                self._rows.write(batch)
                batch = Batch()
        self._rows.write(batch)
        return count

    def _bring_back(self, batch: Batch, key: bytes, known: Known, *, is_archived: bool) -> None:
        if key in self._turns.taken:
            return
        origin_id = origin_id_of(origin_of(known.url))
        if known.due_day > self._day:
            batch.delete(due_row(origin_id, known, key))
            self._counts.move_due(batch, known.due_day, self._day)
            known.due_day = self._day
            batch.put(KNOWN + key, encode_known(known))
            self._turns.put_due(batch, origin_id, known, key)
        if is_archived:
            self._turns.suspect(batch, key)

    # -- asking

    def known(self, url: str) -> Known | None:
        record = self._rows.get(KNOWN + url_key(url))
        return None if record is None else decode_known(record)

    def known_of(self, keys: Sequence[UrlKey]) -> list[Known | None]:
        found = self._rows.get_many([KNOWN + key for key in keys]) if keys else []
        return [None if record is None else decode_known(record) for record in found]

    def known_after(self, key: bytes, count: int) -> list[tuple[UrlKey, Known]]:
        """So many known URLs whose keys come after this one, in the order of their keys; `key` may be empty."""
        keys = self.keys_after(key, count)
        return [
            (key, known) for key, known in zip(keys, self.known_of(keys), strict=True) if known is not None
        ]

    def keys_after(self, key: bytes, count: int) -> list[UrlKey]:
        """As `known_after`, the keys alone."""
        start = KNOWN + key + b"\0" if key else KNOWN
        return [UrlKey(row[1:]) for row in islice(self._rows.keys(start, after(KNOWN)), count)]

    def last_links(self, key: UrlKey) -> frozenset[bytes]:
        """Fingerprints of the links that the last version had."""
        row = self._rows.get(LINKS + key)
        if row is None:
            return frozenset()
        size = FINGERPRINT_BYTES
        return frozenset(row[at : at + size] for at in range(0, len(row), size))

    def due_at(self, origin: Origin, most: int | None = None) -> int:
        """URLs of this origin that are due today; counted one by one, up to the most that are wanted."""
        prefix = DUE + origin_id_of(origin)
        rows = islice(self._rows.keys(prefix, after(prefix)), most)
        return sum(day_of(row) <= self._day for row in rows)

    def origin_counts(self, origin: Origin) -> OriginCounts:
        return self._counts.origin(origin_id_of(origin))

    def statistics(self) -> FrontierStatistics:
        return FrontierStatistics(
            known=self._counts.known,
            active_origins=self._turns.active,
            over_budget=self._counts.over_budget,
            day=self._day,
            due=self._counts.due_until(self._day),
            held_back=self._turns.held_back,
        )

    def sync(self) -> None:
        """All that was said so far outlives a power cut."""
        self._rows.flush()

    def close(self) -> None:
        self._rows.close()
