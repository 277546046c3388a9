"""What do readers take from the archive, and how much of the peer may they use for it?

Reading waits for disks, so it goes to threads; readers have some of their own, beside those of the crawler and of
the other peers, and a bounded queue before them. When it is full, a reader is told to come back.
"""

import weakref
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from heapq import heappop, heappush, merge
from itertools import islice
from typing import NamedTuple, TypeVar

import anyio
from cachetools import LRUCache

from crawler.core.capture import REDIRECTS
from crawler.core.urls import words_of
from herodotus.core.errors import ArchiveError
from herodotus.core.index_rows import address_key
from herodotus.core.ports import Lane, Workers
from herodotus.core.warc import TIME_MAX_S, parse_digits
from herodotus.portal.answer_cache import WeighedCache
from herodotus.portal.cdx import (
    NO_PAGE,
    PAGE_ADDRESSES,
    PAGES_MAX,
    ROWS_MAX,
    CdxQuestion,
    CdxRows,
    Row,
    end_of_part,
    row_of,
    thinned,
    thinned_places,
    visit_row,
)
from herodotus.portal.long_histories import LongHistory
from herodotus.portal.memento import sightings
from herodotus.portal.targets import BadQuestionError, Moment, choose
from herodotus.store import HISTORY_MAX, Around, Catalogue, StoredCapture, Version

READING = Lane("portal readers", 4)
WAITING_MAX = 256
"""Behind four threads that take a millisecond each, the last of so many waits less than a tenth of a second."""
ADDRESSES_MAX = 20_000
"""Walked through for one question; a thousand rows need about as many."""
LARGE_BYTES = 1024 * 1024
"""Of a capture. So much may wait in memory with each question that waits for its turn; 32 MiB may not."""
LARGE = Lane("portal readers of large captures", 1)
LARGE_WAITING_MAX = 64
QUICK_ROWS = 500
"""So many are made and written in a few milliseconds; with more, others would wait: that is for a thread."""
_HISTORIES_KEPT = 256
ROWS_KEPT_BYTES_MAX = 32 * 1024 * 1024
"""Rows of lists over many addresses: some 25,000."""
_ROW_BYTES = 1_200  # a dictionary of seven short words, and its key
_COMMITS_BITS = 48
_COUNTED = "dupecount"
_KEPT_VERSIONS_MAX = 2_000  # longer histories are read again, so the cache takes about 100 MB at most
SHORT_VERSIONS_MAX = 5_000
"""With an answer that is made of them some 15 MB, so 60 MB in four threads. A hundred thousand take 60 MB, packed."""
LONG_WAITING_MAX = 64
LONG_WAIT_S = 30.0
"""For a turn at a long history: some thirty answers of 100,000 versions. Then most clients have given up."""

T = TypeVar("T")


class TooBusyError(ArchiveError):
    def __init__(self) -> None:
        super().__init__("too many readers are waiting: try again in some seconds")


class Mementos(NamedTuple):
    """Times at which a page was found, changed or not: the first, the last, and those around the one that is shown."""

    first_s: int
    last_s: int
    previous_s: int | None
    next_s: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The capture that answers for a moment, and its neighbours. Times in seconds."""

    url: str
    time_s: int
    shown_s: int
    """When it was found so: `time_s`, or the visit that was asked for."""
    mementos: Mementos
    around: Around
    """The capture that is shown is `before_s`; `previous_s` is the one before it."""
    previous_s: int | None
    last_visit_s: int | None
    """Of what is shown only."""
    capture: StoredCapture | None
    """Read only where it was asked for; None, too, where it is damaged and nothing older can be read."""
    match: str = ""
    """What was bent to find it, where no spelling that was asked for has captures (`crawler/core/urls.py`)."""
    is_large: bool = False
    """It was asked for and can be read, by `Shelf.with_large`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exact:
    """A capture as it was named: by its second, and by an address that may stand for several spellings."""

    time_s: int | None
    """None: at any, as at a label."""
    urls: tuple[str, ...]
    takes_bent: bool = False
    """Another spelling, whatever its date, is taken for it: of a part of a page, which nobody names by itself."""
    variants: tuple[str, ...] = ()
    """Those that a CDX list does not tell apart: programs ask for the dates of all of them by one address."""

    def names(self, url: str, time_s: int, match: str) -> bool:
        if self.time_s is None:
            return True
        is_named = time_s == self.time_s and (url in self.urls or url in self.variants)
        return is_named or (bool(match) and self.takes_bent)


class _Queue:
    """A lane of workers, and a bounded number of those who wait for it."""

    def __init__(self, workers: Workers, lane: Lane, waiting_max: int) -> None:
        self._workers, self._lane = workers, lane
        self._asked_max = lane.width + waiting_max
        self._asked = 0

    async def work(self, job: Callable[[], T]) -> T:
        if self._asked >= self._asked_max:
            raise TooBusyError
        self._asked += 1
        try:
            return await self._workers.work(job, self._lane)
        finally:
            self._asked -= 1


class _LongTurns:
    """One long history at a time, from reading it until an answer is made of it. Whoever comes next may want the
    same, so it is kept as long as somebody waits."""

    def __init__(self) -> None:
        self._turn = anyio.Lock()
        self._asked = 0
        self._kept: tuple[object, Sequence[Version]] | None = None

    @asynccontextmanager
    async def history(
        self, key: object, read: Callable[[], Awaitable[Sequence[Version]]]
    ) -> AsyncIterator[Sequence[Version]]:
        if self._asked > LONG_WAITING_MAX:
            raise TooBusyError
        self._asked += 1
        try:
            await self._wait()
            try:
                kept = self._kept
                if kept is None or kept[0] != key:
                    self._kept = kept = None  # before there is another
                    self._kept = kept = key, await read()
                yield kept[1]
            finally:
                self._turn.release()
        finally:
            self._asked -= 1
            if not self._asked:
                self._kept = None

    async def _wait(self) -> None:
        with anyio.move_on_after(LONG_WAIT_S):
            await self._turn.acquire()
            return
        raise TooBusyError


class Shelf:
    """What the portal asks of an archive. Raises ArchiveError where nothing can be read now.

    `catalogue` is asked for each time: it may not be open yet, and then raises.
    """

    def __init__(self, catalogue: Callable[[], Catalogue], workers: Workers) -> None:
        self._catalogue = catalogue
        self._steady_s = workers.steady_s
        self._workers = workers
        self._reading = _Queue(workers, READING, WAITING_MAX)
        self._reading_large = _Queue(workers, LARGE, LARGE_WAITING_MAX)
        self._known_rows: WeighedCache[bytes, Row] = WeighedCache(ROWS_KEPT_BYTES_MAX)
        self._histories: LRUCache[tuple[object, ...], tuple[int, list[Version]]] = LRUCache(_HISTORIES_KEPT)
        self._long = _LongTurns()
        self._opened: weakref.ref[Catalogue] | None = None
        self._openings = 0

    @property
    def stamp(self) -> int:
        """Another number whenever something was stored or deleted."""
        return self._stamp_of(self._catalogue())

    def _stamp_of(self, catalogue: Catalogue) -> int:
        """An archive counts from its opening on, so openings are counted as well."""
        if self._opened is None or self._opened() is not catalogue:
            self._opened = weakref.ref(catalogue)
            self._openings += 1
        return self._openings << _COMMITS_BITS | catalogue.stamp

    async def in_thread(self, work: Callable[[], T]) -> T:
        """For what takes long without the archive, such as rewriting a large page."""
        return await self._reading.work(work)

    async def ask(self, work: Callable[[Catalogue], T]) -> T:
        """For questions that have no method of their own; asked in a thread."""
        catalogue = self._catalogue()
        return await self.in_thread(lambda: work(catalogue))

    async def ask_for_much(self, work: Callable[[Catalogue], T]) -> T:
        """For what holds many megabytes while it is made: one at a time."""
        catalogue = self._catalogue()
        return await self._reading_large.work(lambda: work(catalogue))

    async def choose(
        self, urls: tuple[str, ...], moment: Moment, *, exact: Exact | None = None
    ) -> Chosen | None:
        """Of the first spelling that has captures, else of the nearest of those that are asked for by none; the capture
        itself only where it is the exact one."""
        return await self.ask(lambda catalogue: _choose(catalogue, urls, moment, exact))

    async def with_large(self, chosen: Chosen, work: Callable[[StoredCapture], T]) -> T | None:
        """`work` on a capture that was too large to be given, in one of few threads; None where it is gone."""
        catalogue = self._catalogue()

        def read() -> T | None:
            capture = catalogue.newest(chosen.url, chosen.time_s)
            return None if capture is None or capture.time_s != chosen.time_s else work(capture)

        return await self._reading_large.work(read)

    async def passing(self, pieces: Iterator[bytes]) -> AsyncGenerator[bytes]:
        """Of a body that is not held."""
        while piece := await self._workers.work(lambda: next(pieces, b""), LARGE):
            yield piece

    @asynccontextmanager
    async def history(
        self,
        urls: tuple[str, ...],
        from_s: int = 0,
        to_s: int = TIME_MAX_S,
        *,
        reaches_back: bool = False,
    ) -> AsyncIterator[Sequence[Version]]:
        """To make an answer of. While a long one is open, others who want a long one wait. `reaches_back`: with the
        versions that were there when the span began, which may have been seen in it."""
        catalogue, key = self._catalogue(), (urls, from_s, to_s, reaches_back)
        stamp = self._stamp_of(catalogue)
        kept = self._histories.get(key)
        if kept is not None and kept[0] == stamp:
            yield kept[1]
            return
        begins = dict.fromkeys(urls, from_s)
        if reaches_back and from_s:
            begins = await self.in_thread(lambda: {url: begin_of(catalogue, url, from_s) for url in urls})
        found = await self.in_thread(lambda: _short_history(catalogue, begins, to_s))
        if found is not None:
            if len(found) <= _KEPT_VERSIONS_MAX:
                self._histories[key] = stamp, found
            yield found
            return

        async def read() -> Sequence[Version]:
            return await self.in_thread(lambda: _long_history(catalogue, begins, to_s))

        async with self._long.history((key, stamp), read) as long:
            yield long

    async def addresses(self, ranges: tuple[tuple[bytes, bytes], ...], limit: int) -> list[str]:
        return await self.ask(
            lambda catalogue: list(
                islice((url for pair in ranges for url in catalogue.addresses(*pair)), limit)
            )
        )

    def shows(self, url: str) -> bool:
        """Whether the operator did not remove it; from memory. Nothing is known of that while the archive is closed."""
        try:
            return self._catalogue().shows_record(url, "")
        except ArchiveError:
            return True

    async def held(self, urls: tuple[str, ...]) -> list[str]:
        """Those of the URLs that have captures."""
        return await self.ask(lambda catalogue: [url for url in urls if catalogue.around(url, 0) is not None])

    async def spellings(self, urls: tuple[str, ...]) -> list[str]:
        """The nearest ones that are held, where none of the URLs is."""
        return await self.ask(lambda catalogue: _others(catalogue, urls))

    async def rows(self, question: CdxQuestion) -> CdxRows:
        found = await self._rows(question)
        if found.rows or not question.urls or question.shows_pages:
            return found
        others = await self.spellings(question.urls)
        return await self._rows(replace(question, urls=tuple(others))) if others else found

    async def _rows(self, question: CdxQuestion) -> CdxRows:
        if question.urls:
            async with self.history(
                question.urls, question.from_s, question.to_s, reaches_back=True
            ) as versions:
                if not is_short(versions):
                    return await self.in_thread(lambda: exact_rows(versions, question, self._steady_s))
                return exact_rows(versions, question, self._steady_s)
        return await self.ask(lambda catalogue: _rows(catalogue, question, self._known_rows, self._steady_s))


def _choose(
    catalogue: Catalogue, urls: tuple[str, ...], moment: Moment, exact: Exact | None
) -> Chosen | None:
    """Of several that are spelled otherwise, and equally near, the one with the nearest time."""
    for url in urls:
        if (near := catalogue.around(url, moment.target_s)) is not None:
            chosen = _chosen(catalogue, url, near, moment, exact)
            if exact is None or not exact.variants or chosen.shown_s == moment.target_s:
                return chosen
            return _of_variant(catalogue, urls, moment, exact) or chosen
    if exact is not None and (of_variant := _of_variant(catalogue, urls, moment, exact)) is not None:
        return of_variant
    found = []
    for url in catalogue.spellings(urls):
        if (near := catalogue.around(url, moment.target_s)) is not None:
            time_s = time_chosen(catalogue, url, near, moment)
            if not _leads_back(catalogue, url, time_s, urls):
                found.append((abs(time_s - moment.target_s), url, near))
    if not found:
        return None
    _, url, near = min(found, key=lambda one: one[:2])
    return _chosen(catalogue, url, near, moment, exact, bent(urls, url))


def _of_variant(catalogue: Catalogue, urls: tuple[str, ...], moment: Moment, exact: Exact) -> Chosen | None:
    """The one that was found at this very second; what was removed is found by no other name."""
    is_shown = all(catalogue.shows_record(url, "") for url in urls)
    for url in exact.variants if is_shown else ():
        near = catalogue.around(url, moment.target_s)
        if near is not None and near.before_s is not None:
            chosen = _chosen(catalogue, url, near, moment, exact, bent(urls, url))
            if chosen.shown_s == moment.target_s and not _leads_back(catalogue, url, chosen.time_s, urls):
                return chosen
    return None


def _leads_back(catalogue: Catalogue, url: str, time_s: int, urls: tuple[str, ...]) -> bool:
    """Whether a spelling is no more than a redirect to the one that was asked for, as from http to https: then that is
    not archived. A reader who was led to it would go round and round."""
    if url in urls:
        return False
    capture = catalogue.newest(url, time_s)
    return capture is not None and capture.status in REDIRECTS and capture.as_capture().redirect_to in urls


def bent(asked: tuple[str, ...], held: str) -> str:
    """What had to be bent; "" of one that was asked for."""
    return "" if held in asked else min((words_of(one, held) for one in asked), key=len) or "spelling"


def time_chosen(catalogue: Catalogue, url: str, near: Around, moment: Moment) -> int:
    seen_s = None
    if near.before_s is not None and near.after_s is not None and near.after_s <= moment.to_s:
        seen_s = catalogue.last_visit_s(url, near.before_s)
    time_s = choose(moment, near.before_s, near.after_s, seen_s)
    assert time_s is not None
    return time_s


def _chosen(
    catalogue: Catalogue, url: str, near: Around, moment: Moment, exact: Exact | None, match: str = ""
) -> Chosen:
    time_s = time_chosen(catalogue, url, near, moment)
    is_seen = time_s < moment.target_s and moment.target_s in catalogue.seen_s(url, time_s)
    shown_s = moment.target_s if is_seen and moment.is_exact else time_s
    capture = None
    if exact is not None and exact.names(url, shown_s, match):
        capture = catalogue.newest(url, time_s)
        if capture is not None and capture.time_s != time_s:
            time_s = shown_s = capture.time_s
    near = near if time_s == near.before_s else catalogue.around(url, time_s) or near
    is_large = capture is not None and capture.body_bytes > LARGE_BYTES
    return Chosen(
        url=url,
        time_s=time_s,
        shown_s=shown_s,
        mementos=_mementos(catalogue, url, near, time_s, shown_s),
        around=near,
        previous_s=catalogue.before_s(url, time_s),
        last_visit_s=None if capture is None else catalogue.last_visit_s(url, time_s),
        capture=None if is_large else capture,
        match=match,
        is_large=is_large,
    )


def _mementos(catalogue: Catalogue, url: str, near: Around, time_s: int, shown_s: int) -> Mementos:
    """`near` the capture of `time_s`, which was found again at `shown_s`. Another one may have been imported since,
    with a date between these two."""
    previous_s = catalogue.before_s(url, shown_s)
    around = near if shown_s == time_s else catalogue.around(url, shown_s) or near
    times = {*catalogue.seen_s(url, time_s), time_s}
    if previous_s is not None:
        times.update((previous_s, *(() if previous_s == time_s else catalogue.seen_s(url, previous_s))))
    if around.after_s is not None:
        times.add(around.after_s)
    return Mementos(
        first_s=near.first_s,
        last_s=max(near.last_s, catalogue.last_visit_s(url, near.last_s) or 0),
        previous_s=max((one for one in times if one < shown_s), default=None),
        next_s=min((one for one in times if one > shown_s), default=None),
    )


def _others(catalogue: Catalogue, urls: tuple[str, ...]) -> list[str]:
    is_held = any(catalogue.around(url, 0) is not None for url in urls)
    return [] if is_held else catalogue.spellings(urls)


def begin_of(catalogue: Catalogue, url: str, from_s: int) -> int:
    """When the version came that was there at a moment; the moment itself where there was none."""
    before_s = catalogue.before_s(url, from_s + 1)
    return from_s if before_s is None else before_s


def is_short(versions: Sequence[Version]) -> bool:
    """Whether a row for each time at which it was seen is made in a few milliseconds."""
    return len(versions) <= QUICK_ROWS and sum(1 + len(one.seen) // 4 for one in versions) <= QUICK_ROWS


Begins = Mapping[str, int]
"""From when on each URL's history is asked for."""


def _short_history(catalogue: Catalogue, begins: Begins, to_s: int) -> list[Version] | None:
    """None where it is long; the index tells that without a record being read."""
    most = SHORT_VERSIONS_MAX + 1
    entries = (
        entry for url, from_s in begins.items() for entry in catalogue.entries(url, from_s, to_s, most)
    )
    is_long = next(islice(entries, SHORT_VERSIONS_MAX, None), None) is not None
    return None if is_long else _history(catalogue, begins, to_s)


def _history(catalogue: Catalogue, begins: Begins, to_s: int) -> list[Version]:
    found = (version for url, from_s in begins.items() for version in catalogue.history(url, from_s, to_s))
    return sorted(found, key=lambda version: (version.first_seen_s, version.url))


def _long_history(catalogue: Catalogue, begins: Begins, to_s: int) -> LongHistory:
    """As `_history`, of which all that is held at once is packed."""

    def versions(url: str, from_s: int) -> Iterator[Version]:
        for entry in catalogue.entries(url, from_s, to_s, HISTORY_MAX):
            version = entry.version()
            if version is not None:
                yield version

    found = [versions(url, from_s) for url, from_s in begins.items()]
    return LongHistory(merge(*found, key=lambda version: (version.first_seen_s, version.url)))


_Found = tuple[int, int, str | None]
"""When, the version's number, and how many had its content before."""


def exact_rows(versions: Sequence[Version], question: CdxQuestion, now: Callable[[], float]) -> CdxRows:
    """All spellings of one address; they are few enough to be sorted as a whole. Only rows that are shown are kept: a
    row takes more than its version, and that more than its place."""

    def row_at(time_s: int, place: int) -> Row:
        version = versions[place]
        row = row_of(version)
        return row if time_s == version.first_seen_s else visit_row(row, time_s)

    pairs = (
        (sighting, row_at(*sighting))
        for sighting in sightings(versions)
        if question.from_s <= sighting[0] <= question.to_s
    )
    found = [(*sighting, row.get(_COUNTED)) for sighting, row in thinned_places(pairs, question, now)]

    def second(one: _Found) -> int:
        return one[0]

    def shown(part: Sequence[_Found]) -> list[Row]:
        rows = ((row_at(time_s, place), count) for time_s, place, count in part)
        return [row if count is None else {**row, _COUNTED: count} for row, count in rows]

    if question.shows_pages:
        return CdxRows(pages=1)
    if question.page:
        raise BadQuestionError(NO_PAGE)
    if question.closest is not None:
        moment = question.closest
        target = moment.target_s if moment.is_exact else moment.from_s
        found.sort(key=lambda one: abs(second(one) - target))
    elif question.is_reversed:
        found.reverse()
    if question.limit < 0:
        return CdxRows(rows=shown(found[question.limit :]))
    start = question.offset
    if question.resume_at is not None:
        at_s = question.resume_at[1]
        start += sum(1 for one in found if second(one) < at_s)
    in_order = question.closest is None and not question.is_reversed
    end = start + question.limit
    if in_order and question.shows_resume_key:
        end = start + end_of_part(found[start:], question.limit, second)
    resume = (address_key(question.urls[0]), second(found[end])) if end < len(found) and in_order else None
    return CdxRows(rows=shown(found[start:end]), resume_at=resume, pages=1)


def _seconds(row: Row) -> int:
    return parse_digits(row["timestamp"])


class _Walk:
    """Rows of many addresses in their order; `at` is the address that the last row is of, or where it stopped."""

    def __init__(self, catalogue: Catalogue, question: CdxQuestion, known: WeighedCache[bytes, Row]) -> None:
        self._catalogue = catalogue
        self._known = known
        self._question = question
        self.at = ""
        self.is_cut = False

    def addresses(self) -> Iterator[str]:
        resume = b"" if self._question.resume_at is None else self._question.resume_at[0]
        for start, end in self._question.ranges:
            if end > resume:
                yield from self._catalogue.addresses(max(start, resume), end)

    def has_page(self) -> bool:
        at = (self._question.page or 0) * PAGE_ADDRESSES
        return next(islice(self.addresses(), at, None), None) is not None

    def rows(self) -> Iterator[Row]:
        question = self._question
        urls, walked_max = self.addresses(), ADDRESSES_MAX
        if question.page is not None:
            urls, walked_max = islice(urls, question.page * PAGE_ADDRESSES, None), PAGE_ADDRESSES
        for number, self.at in enumerate(urls):
            if number == walked_max:
                self.is_cut = question.page is None
                return
            yield from self._rows_of(self.at, self._from_s())

    def _from_s(self) -> int:
        """The time of a resume key is that of its address, which may be another peer's alone."""
        question = self._question
        if question.resume_at is None or question.resume_at[0] != address_key(self.at):
            return question.from_s
        return max(question.from_s, question.resume_at[1])

    def _rows_of(self, url: str, from_s: int) -> Iterator[Row]:
        """Reading a record costs ten times what the index does, so what its row says is kept."""
        begin_s = begin_of(self._catalogue, url, from_s) if from_s else 0
        to_s = self._question.to_s
        waiting: list[tuple[int, int, Row]] = []
        for number, entry in enumerate(self._catalogue.entries(url, begin_s, to_s, ROWS_MAX + 1)):
            row = self._known.get(entry.name)
            if row is None:
                version = entry.version()
                if version is None:
                    continue
                row = row_of(version)
                self._known.keep(entry.name, row, _ROW_BYTES + 2 * len(url))
            time_s = _seconds(row)
            while waiting and waiting[0][0] < time_s:
                seen_s, _, seen = heappop(waiting)
                yield visit_row(seen, seen_s)
            if time_s >= from_s:
                yield row
            for seen_s in islice((one for one in entry.seen_s() if from_s <= one <= to_s), ROWS_MAX + 1):
                heappush(waiting, (seen_s, number, row))
        for seen_s, _, seen in sorted(waiting, key=lambda one: one[:2]):
            yield visit_row(seen, seen_s)


def _rows(
    catalogue: Catalogue, question: CdxQuestion, known: WeighedCache[bytes, Row], now: Callable[[], float]
) -> CdxRows:
    """Stops after so many rows or addresses and says where."""
    walk = _Walk(catalogue, question, known)
    if question.shows_pages:
        keys = (key for start, end in question.ranges for key in catalogue.address_keys(start, end))
        count = sum(1 for _ in islice(keys, PAGES_MAX * PAGE_ADDRESSES))
        return CdxRows(pages=-(-count // PAGE_ADDRESSES))
    if question.limit < 0:
        last = deque(islice(thinned(walk.rows(), question, now), question.offset, None), -question.limit)
        return CdxRows(rows=list(last), resume_at=(address_key(walk.at), 0) if walk.is_cut else None)
    wanted = question.limit
    rows: list[Row] = []
    places: list[tuple[bytes, int]] = []
    if question.page and not walk.has_page():
        raise BadQuestionError(NO_PAGE)
    # Most rows are of the URL of the row before, and a URL's key takes as long as all the rest of a row.
    url, key = "", b""
    for row in islice(thinned(walk.rows(), question, now), question.offset, None):
        if walk.at != url:
            url, key = walk.at, address_key(walk.at)
        at = key, _seconds(row)
        if len(rows) >= wanted and not (question.shows_resume_key and places[0] == at):
            end = len(rows)
            while question.shows_resume_key and places[end - 1] == at:  # they come whole in the next part
                end -= 1
            return CdxRows(rows=rows[:end], resume_at=at)
        rows.append(row)
        places.append(at)
    resume = (address_key(walk.at), 0) if walk.is_cut else None
    return CdxRows(rows=rows, resume_at=resume)
