"""How many captures are of each kind, and which page links to which? A survey reads each capture once.

The index knows where captures are, but not their contents. A survey follows the archive, some captures at a time:
statistics by host, media type, status and day, and the links of each page by where they lead. All of it is in the
index and derived like the rest: `rebuild-index` throws it away, and the next survey starts again. A batch carries
its results and how far it came, so a crash counts nothing twice. Captures that are deleted later stay counted.
"""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from itertools import islice
from urllib.parse import urlsplit

import anyio

from crawler.core.urls import STANDARD
from crawler.outcomes import read_capture
from herodotus.core.captures import position_of
from herodotus.core.errors import ArchiveError
from herodotus.core.index_rows import (
    CAPTURE,
    KEY_BYTES,
    LINK,
    META,
    TALLY,
    arrival_of,
    decode_numbers,
    encode_numbers,
)
from herodotus.core.ports import Lane, Workers
from herodotus.core.warc import format_digits
from herodotus.store.engine import Archive
from herodotus.store.index import IndexBatch
from herodotus.store.store import DiskStore
from herodotus.store.stored_records import StoredCapture
from herodotus.store.streams import Cursor, Query, Stream

logger = logging.getLogger(__name__)

CAPTURES_A_STEP = 64
LINKS_A_STEP = 20_000
"""A step ends with the capture in which it has found so many: 10 MB. A page has up to 20,000."""
READ_BYTES_MAX = 4 << 20
"""Of a page that is read for its links: twice as much as is read of it."""
ROWS_A_STEP = 2_048
"""A step ends when it came past so many captures, new or not, so that a large index is not walked through at once: some
10 ms. Each step wakes a thread and writes: a small archive is one."""
VALUE_BYTES_MAX = 255
CONTENTS = Lane("contents of captures", 1)
"""Of the survey and the index of words, which take turns: each may hold three times 8 MiB of a capture, and a tree."""
PERIOD_S = 10.0
PAUSE_MAX_S = 600.0
"""The longest pause before a failed step is tried again. It starts at `PERIOD_S` and doubles."""
WORK_SHARE = 0.25
"""Of one processor at most, as crawling and reading come first."""
_STATE_KEY = META + b"survey"


class Property(Enum):
    """The properties by which captures are counted."""

    TOTAL = b"t"
    HOST = b"h"
    MIME = b"m"
    STATUS = b"s"
    DAY = b"d"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    captures: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Of the captures of a page that have a certain link."""

    first_s: int
    last_s: int

    def with_time(self, time_s: int) -> "Span":
        return Span(first_s=min(self.first_s, time_s), last_s=max(self.last_s, time_s))


def tally_key(property_: Property, value: str) -> bytes:
    return TALLY + property_.value + value.encode("utf-8", "replace")[:VALUE_BYTES_MAX]


def link_key(target: str, source: str) -> bytes:
    return LINK + position_of(target)[:KEY_BYTES] + position_of(source)[:KEY_BYTES]


def links_to(target_key: bytes) -> bytes:
    """The prefix of all rows of links to a URL."""
    return LINK + target_key[:KEY_BYTES]


def encode_tally(tally: Tally) -> bytes:
    return encode_numbers((tally.captures, tally.bytes))


def decode_tally(data: bytes) -> Tally:
    captures, size = decode_numbers(data)
    return Tally(captures=captures, bytes=size)


def encode_span(span: Span) -> bytes:
    return encode_numbers((span.first_s, span.last_s - span.first_s))


def decode_span(data: bytes) -> Span:
    first_s, length = decode_numbers(data)
    return Span(first_s=first_s, last_s=first_s + length)


@dataclass(slots=True, kw_only=True)
class _State:
    """Captures that arrived before `done` are surveyed. Of those up to `until`, so are the keys up to `key`."""

    done: int = 0
    until: int = 0
    key: bytes = b""

    @classmethod
    def load(cls, archive: Archive) -> "_State":
        data = archive.index.get(_STATE_KEY)
        if data is None:
            return cls()
        numbers, key = data[:32], data[32:]
        done, until, *slice_ = decode_numbers(numbers.rstrip(b"\xff"))
        # Earlier releases went from one 256th of the ring to the next, and might have stood before one.
        return cls(done=done, until=until, key=key or CAPTURE + bytes(slice_))

    def encode(self) -> bytes:
        # No number ends in a byte of ones, so padding by them is told from it.
        return encode_numbers((self.done, self.until)).ljust(32, b"\xff") + self.key


@dataclass(slots=True)
class _Found:
    tallies: Counter[tuple[Property, str]] = field(default_factory=Counter)
    sizes: Counter[tuple[Property, str]] = field(default_factory=Counter)
    links: dict[bytes, Span] = field(default_factory=dict)

    def count(self, stored: StoredCapture) -> None:
        values = {
            Property.TOTAL: "",
            Property.HOST: _host_of(stored.url),
            Property.MIME: stored.mime or "unknown",
            Property.STATUS: str(stored.status) if stored.status else "none",
            Property.DAY: format_digits(stored.time_s)[:8],
        }
        for pair in values.items():
            self.tallies[pair] += 1
            self.sizes[pair] += stored.body_bytes

    def read(self, stored: StoredCapture) -> None:
        if stored.body_bytes > READ_BYTES_MAX:
            return
        for target in read_capture(stored.as_capture(), product_token="", rules=STANDARD).links:
            if target.url == stored.url:
                continue
            key = link_key(target.url, stored.url)
            known = self.links.get(key)
            self.links[key] = (
                Span(first_s=stored.time_s, last_s=stored.time_s)
                if known is None
                else known.with_time(stored.time_s)
            )


class ArchiveSurvey:
    """Synchronous; one at a time over an archive."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def is_current(self) -> bool:
        """Whether the survey includes everything stored so far."""
        return _State.load(self._archive).done >= self._tail()

    def _tail(self) -> int:
        with self._archive.lock:
            return arrival_of(self._archive.log.number, self._archive.log.tail)

    def step(self) -> bool:
        """Some captures further; False: there is nothing left to do."""
        return self._step(CAPTURES_A_STEP)

    def step_one_by_one(self) -> None:
        """A step after a fault: a capture whose links cannot be read is counted, and not tried for ever."""
        for _ in range(CAPTURES_A_STEP):
            try:
                has_more = self._step(1)
            except (ArchiveError, OSError):
                raise
            except Exception:  # here a fault of ours, on some stranger's page, meets its supervisor
                logger.exception("the links of a capture could not be read: skipped")
                has_more = self._step(1, reads_links=False)
            if not has_more:
                return

    def _step(self, limit: int, *, reads_links: bool = True) -> bool:
        state = _State.load(self._archive)
        if not state.until:
            state.until = self._tail()
            if state.until == state.done:
                return False
        found, stream = _Found(), self._stream(state)
        count, is_cut = 0, False
        captures = islice(stream, limit)
        # One at a time: a step of large ones would fill the memory.
        while not is_cut and (capture := next(captures, None)) is not None:
            count += 1
            found.count(capture)
            if reads_links:
                found.read(capture)
            is_cut = len(found.links) >= LINKS_A_STEP
            del capture
        if is_cut or count == limit or stream.is_cut:
            state.key = stream.cursor.key
        else:
            state = _State(done=state.until)
        self._write(found, state)
        return True

    def catch_up(self) -> None:
        while self.step():
            pass

    def _stream(self, state: _State) -> Stream:
        cursor = Cursor(incarnation=self._archive.incarnation, boundary=state.until, key=state.key)
        # What is hidden is counted too, as it may be shown again; readers are not told of it.
        return Stream(
            self._archive, Query(), cursor, arrived_from=state.done, hides=False, rows_max=ROWS_A_STEP
        )

    def _write(self, found: _Found, state: _State) -> None:
        index, batch = self._archive.index, IndexBatch()
        for (property_, value), count in found.tallies.items():
            key = tally_key(property_, value)
            data = index.get(key)
            known = decode_tally(data) if data is not None else Tally()
            size = known.bytes + found.sizes[property_, value]
            batch.put(key, encode_tally(Tally(captures=known.captures + count, bytes=size)))
        for key, span in found.links.items():
            data = index.get(key)
            batch.put(key, encode_span(span if data is None else _united(span, decode_span(data))))
        batch.put(_STATE_KEY, state.encode())
        index.write(batch)


def _united(one: Span, other: Span) -> Span:
    return one.with_time(other.first_s).with_time(other.last_s)


def _host_of(url: str) -> str:
    try:
        return urlsplit(url).hostname or "none"
    except ValueError:
        return "none"


async def read_contents(workers: Workers, step: Callable[[], bool], work_share: float) -> bool:
    """One step in its turn, and a pause by how long it worked. False, at once: there is nothing left to do."""

    def timed() -> tuple[bool, float]:
        begun_s = workers.steady_s()
        return step(), workers.steady_s() - begun_s

    has_more, worked_s = await workers.work(timed, CONTENTS)
    if has_more:
        await anyio.sleep(worked_s * (1 / work_share - 1))
    return has_more


async def keep_surveyed(
    store: DiskStore, *, period_s: float = PERIOD_S, work_share: float = WORK_SHARE
) -> None:
    """Survey new captures soon after they are stored, slowly enough not to disturb, until cancelled."""
    survey, pause_s = ArchiveSurvey(store.archive), period_s
    while True:
        try:
            while await read_contents(store.workers, survey.step, work_share):
                pass
            pause_s = period_s
        except (ArchiveError, OSError) as error:
            logger.warning("the archive could not be surveyed error=%s", error)
            pause_s = min(2 * pause_s, PAUSE_MAX_S)
        except Exception:  # a fault of the survey must not stop readers and writers
            logger.exception("the archive could not be surveyed")
            pause_s = min(2 * pause_s, PAUSE_MAX_S)
            with suppress(Exception):  # a repeated failure is tried again later, ever more rarely
                await store.workers.work(survey.step_one_by_one, CONTENTS)
                pause_s = period_s
        await anyio.sleep(pause_s)
