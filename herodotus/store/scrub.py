"""Does everything still read as it was written? A slow reading of all files, once in `archive.scrub_days`.

A little is read every few minutes, so that a round of all files takes its days and disturbs nobody. The place reached
is a small file, and a restart goes on there. Damage is noted as any reader notes it: then the file is written again
without it (`upkeep`), and other holders are asked for what was lost (`copies.audits`). Lists beside segments are
compared with what they are made from, and made again where they differ. At the end of a round the index is read; one
that is damaged is made again at the next opening, for which a running peer starts again.
"""

import logging
import re
from contextlib import suppress
from dataclasses import dataclass

import anyio

from herodotus.core.cdxj import extent_of_line
from herodotus.core.errors import ArchiveError, MalformedRecordError, UnusableArchiveError, UpkeepStoppedError
from herodotus.core.layout import CDXJ_BYTES_MAX, FileName
from herodotus.store.companions import make_list
from herodotus.store.disk import read_file, write_file
from herodotus.store.engine import Archive
from herodotus.store.members import dictionary_bytes_at_start
from herodotus.store.resync import Search
from herodotus.store.scan import ScanProgress, scan_file
from herodotus.store.sealing import Pace
from herodotus.store.segments import line_of
from herodotus.store.store import UPKEEP, DiskStore
from herodotus.store.stored_records import StoredCapture
from herodotus.store.verification import check_payload

logger = logging.getLogger(__name__)

NAME = "scrub.txt"
DAY_S = 86_400
PERIOD_S = 300.0
"""Between two steps. So long a disk may sleep, and so much is read again after a crash."""
STEP_BYTES_MIN = 4 * 1024 * 1024
"""A small archive is read in fewer days, rather than woken for a few kilobytes each time."""
STRETCH_BYTES_MAX = 64 * 1024 * 1024
"""Read before lists are compared: some 50,000 lines in memory."""
LATE_SHARE = 0.1
"""A peer that was off for most of a round reads the rest in this share of its days, or what is left of them."""
ROWS_AT_ONCE = 10_000
_POSITION = re.compile(r"1 (\d+) (\d+) (\d+) ([01])\n")


@dataclass(frozen=True, slots=True)
class Position:
    began_s: int
    file: int = 0
    offset: int = 0
    is_done: bool = False
    """All of this round was read."""


class Scrub:
    def __init__(self, archive: Archive, pace: Pace = lambda moved: None) -> None:
        """Synchronous; `pace` is told what was read, and may wait or raise."""
        self._archive = archive
        self._pace = pace
        self._listed: tuple[int, dict[int, list[str]], bool] = (-1, {}, True)
        self.position = self._load()

    # -- where it is --------------------------------------------------------------------------------------

    def _load(self) -> Position:
        files = self._archive.files
        if files.present:
            with suppress(OSError, UnicodeDecodeError):
                text = read_file(files.disk(files.present[0]), NAME, 100).decode()
                if (found := _POSITION.fullmatch(text)) is not None:
                    return Position(int(found[1]), int(found[2]), int(found[3]), found[4] == "1")
        return Position(int(self._archive.now()))

    def _keep(self) -> None:
        files, at = self._archive.files, self.position
        text = f"1 {at.began_s} {at.file} {at.offset} {int(at.is_done)}\n"
        with suppress(OSError):  # a round that begins again is better than none
            write_file(files.disk(files.present[0]), NAME, [text.encode()])

    def _left(self) -> tuple[int, int]:
        """Bytes of this round that were not read yet, and all bytes."""
        at, left, total = self.position, 0, 0
        for number in list(self._archive.files.catalogue):
            with suppress(FileNotFoundError, KeyError):
                size = self._archive.files.size(number)
                total += size
                if number >= at.file and not at.is_done:
                    left += size - (min(at.offset, size) if number == at.file else 0)
        return left, total

    # -- reading ------------------------------------------------------------------------------------------

    def step(self, days: int, period_s: float) -> int:
        """What is due in such a time; how many bytes were read."""
        now = int(self._archive.now())
        if self.position.is_done:
            if now - self.position.began_s < days * DAY_S:
                return 0
            self.position = Position(now)
        left, _ = self._left()
        time_s = max(self.position.began_s + days * DAY_S - now, days * DAY_S * LATE_SHARE)
        return self.read(max(STEP_BYTES_MIN, int(left * period_s / time_s)))

    def read(self, most: int) -> int:
        """About so many of the bytes that are next, and the index where the last of them is read."""
        done = 0
        try:
            while done < most and not self.position.is_done:
                number = self._next_file()
                if number is None:
                    self._check_index()
                    self.position = Position(self.position.began_s, is_done=True)
                    break
                start = self.position.offset if number == self.position.file else 0
                end = self._read_some(number, start, min(most - done, STRETCH_BYTES_MAX))
                done += (self._end_of(number) if end is None else end) - start
                at = (number + 1, 0) if end is None else (number, end)
                self.position = Position(self.position.began_s, *at)
        finally:
            self._listed = (-1, {}, True)
            self._keep()
            left, total = self._left()
            self._archive.scrubbed_share = 1 - left / total if total else 1.0
        return done

    def _next_file(self) -> int | None:
        numbers = [number for number in list(self._archive.files.catalogue) if number >= self.position.file]
        return min(numbers, default=None)

    def _end_of(self, number: int) -> int:
        archive = self._archive
        with archive.lock:
            if archive.log.is_open and number == archive.log.number:
                return archive.log.tail
            try:
                return archive.files.size(number)
            except (KeyError, FileNotFoundError):
                return 0  # sealed meanwhile

    def _read_some(self, number: int, start: int, most: int) -> int | None:
        """From a member on; where the next one to read begins, or None at the end of the file."""
        archive, end = self._archive, self._end_of(number)
        if number not in archive.files.catalogue:
            return None
        stretch = _Stretch(start)
        search = Search(archive.files, number)
        progress = ScanProgress()
        at = start
        try:
            while at < end and stretch.end is None:
                try:
                    for one in scan_file(archive.files, number, at, end, progress, is_thorough=True):
                        if one.place.offset >= start + most and one.place.offset > at:
                            stretch.end = one.place.offset
                            break
                        self._pace(one.place.length)
                        if isinstance(one, StoredCapture):
                            self._check_capture(one, stretch)
                    at = end
                except MalformedRecordError as error:
                    archive.note_damage(number, progress.whole_to, error.reason)
                    following = search.next_whole(progress.whole_to + 1, end)
                    at = end if following is None else following
                    stretch.damaged.append((progress.whole_to, at))
            self._check_beside(number, stretch, end)
        except (FileNotFoundError, KeyError):
            return None  # sealed meanwhile: its captures are in a file with a higher number
        return stretch.end

    def _check_capture(self, capture: StoredCapture, stretch: "_Stretch") -> None:
        place = capture.place
        located = self._archive.files.catalogue[place.file]
        if not located.name.is_log:
            stretch.lines.append(line_of(capture, place, located.name.path.rpartition("/")[2]))
        try:
            check_payload(capture, self._archive.digest_of)
        except MalformedRecordError as error:
            self._archive.note_damage(place.file, place.offset, error.reason, is_rotten=False)

    # -- what lies beside a segment -----------------------------------------------------------------------

    def _check_beside(self, number: int, stretch: "_Stretch", end: int) -> None:
        located = self._archive.files.catalogue[number]
        if located.name.is_log:
            return
        if stretch.start == 0:
            self._check_dictionary(number)
        if stretch.damaged:
            return  # the segment is written again, with its list
        if self._listed[0] != number:
            self._listed = (number, *self._read_list(located.slice, located.name))
        _, listed, is_whole = self._listed
        until = stretch.end or end
        own = sorted(stretch.lines)
        there = sorted(line for at, lines in listed.items() if stretch.start <= at < until for line in lines)
        if own != there or not is_whole:
            self._mend_list(number)

    def _read_list(self, slice_: int, name: FileName) -> tuple[dict[int, list[str]], bool]:
        """Lines by the offset of their member, and whether all of it is such lines."""
        listed: dict[int, list[str]] = {}
        try:
            data = read_file(self._archive.files.disk(slice_), name.cdxj, CDXJ_BYTES_MAX)
            lines = data.decode("utf-8", "strict").split("\n")
        except (OSError, UnicodeDecodeError):
            return listed, False
        for line in lines[:-1]:
            extent = extent_of_line(line)
            if extent is None:
                return listed, False
            listed.setdefault(extent[0], []).append(line)
        return listed, lines[-1] == "" and lines == [*sorted(lines[:-1]), ""]

    def _mend_list(self, number: int) -> None:
        """Of a damaged segment not: it is noted when it is read, and then both are written again."""
        self._listed = (-1, {}, True)
        make_list(self._archive, number)

    def _check_dictionary(self, number: int) -> None:
        """It is there twice; `Files.dictionary` gives the one that is whole."""
        archive, located = self._archive, self._archive.files.catalogue[number]
        whole = archive.files.dictionary(number)
        if whole is None:
            return
        if (
            dictionary_bytes_at_start(lambda at, length: archive.files.read_at(number, at, length))
            != whole.content
        ):
            archive.note_damage(number, 0, "its dictionary is damaged")
        disk = archive.files.disk(located.slice)
        with suppress(OSError):
            beside = b""
            with suppress(FileNotFoundError):
                beside = read_file(disk, located.name.zdict, len(whole.content) + 1)
            if beside != whole.content:
                write_file(disk, located.name.zdict, [whole.content])

    # -- the index ----------------------------------------------------------------------------------------

    def _check_index(self) -> None:
        """Its blocks have checksums, which reading compares."""
        archive = self._archive
        try:
            size = 0
            for number, (key, value) in enumerate(archive.index.scan(b"\0", b"\xff" * 64), start=1):
                size += len(key) + len(value)
                if not number % ROWS_AT_ONCE:
                    self._pace(size)
                    size = 0
        except UnusableArchiveError as error:
            # Not now: readers may be in the middle of its rows, and RocksDB gives them no new ones under its lock.
            said = str(error)  # the error itself would keep the rows' iterator, and with it the lock
            archive.index.note_damage()
            logger.warning("index is damaged, the next opening makes it again error=%s", said)


class _Stretch:
    """What was found between two members of a file."""

    def __init__(self, start: int) -> None:
        self.start = start
        self.end: int | None = None
        """Where the next one begins; None at the end of the file."""
        self.lines: list[str] = []
        self.damaged: list[tuple[int, int]] = []


async def keep_scrubbed(store: DiskStore, period_s: float = PERIOD_S) -> None:
    """Until it is cancelled or the store ends its upkeep."""
    days = store.archive.settings.scrub_days
    if not days:
        return
    scrub = await store.workers.work(lambda: Scrub(store.archive, store.pace()), UPKEEP)
    while True:
        await anyio.sleep(period_s)
        try:
            await store.workers.work(lambda: scrub.step(days, period_s), UPKEEP)
        except UpkeepStoppedError:
            return
        except (ArchiveError, OSError) as error:
            logger.warning("the archive could not be scrubbed error=%s", error)
        except Exception:  # a fault of upkeep must not stop readers and writers
            logger.exception("the archive could not be scrubbed")
