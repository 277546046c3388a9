"""Which index of words answers, and when is another one made in its place?

Each lies in a numbered folder. The lowest number answers. Where words must go from the disk byte for byte (an erased
page), or much of it is dead, or the operator says so, a second one is filled from the archive while the first goes on;
when it has everything, the first is deleted. A damaged one is deleted at once: reading the archive does not need it.
"""

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from dht.core.arcs import Arcs
from herodotus.core.errors import NoRoomForWordsError, SearchFailedError
from herodotus.search.index import WordIndex
from herodotus.search.writer import Writer, rules_of
from herodotus.store import ArchiveChanges, StoredCapture

logger = logging.getLogger(__name__)

DEAD_SHARE: Final = 0.3
DEAD_MIN: Final = 10_000
"""Documents of an index that is made again for its dead ones; below, they take less than 10 MB."""
SPARE_BYTES: Final = 200_000_000
"""Of the disk, beside the archive's own reserve: a merge writes a second time what it merges."""
RELEASE_S: Final = 60.0
"""A writer without work for so long gives its memory back."""
CHECK_S: Final = 86_400.0
COUNT_S: Final = 3_600.0
"""Between two looks at the dead ones. Merges take many of them along, so their share moves slowly."""


class Keeper:
    """Synchronous; one thread at a time, but for `words`."""

    def __init__(
        self,
        folder: Path,
        changes: ArchiveChanges,
        *,
        now: Callable[[], float],
        free_bytes: Callable[[], int],
        unix_s: Callable[[], float],
        on_removals: Callable[[], None] = lambda: None,
        stays: Callable[[StoredCapture], bool] | None = None,
    ) -> None:
        self._folder = folder
        self._changes = changes
        self._now = now
        self._free_bytes = free_bytes
        self._unix_s = unix_s
        self._stays = stays
        self.wanted: Arcs | None = None
        """The keys for whose words others ask this peer; None: it knows no ring."""
        self._tail = changes.begin(on_removals)
        self._is_ordered = False
        self._worked_s = self._checked_s = self._counted_s = now()
        self._need_room()  # else a good index would look like a bad one
        folder.mkdir(parents=True, exist_ok=True)
        found = [words for number in self._numbers() if (words := self._opened(number)) is not None]
        for words in found[1:-1]:
            shutil.rmtree(words.folder)
        first = found[0] if found else self._made()
        self._serving = self._writer(first)
        self._building = self._writer(found[-1]) if len(found) > 1 else None

    @property
    def words(self) -> WordIndex:
        """The index that answers."""
        return self._serving.words

    @property
    def waiting(self) -> int:
        return self._serving.waiting

    @property
    def share(self) -> float:
        """How much of the archive was read, for the second index while one is made."""
        return (self._building or self._serving).share

    @property
    def is_building(self) -> bool:
        return self._building is not None

    def bytes_used(self) -> int:
        try:
            return sum(writer.words.bytes_used() for writer in self._writers)
        except FileNotFoundError:  # merged, or swapped, meanwhile
            return self.words.bytes_used()

    @property
    def _writers(self) -> list[Writer]:
        return [self._serving] if self._building is None else [self._serving, self._building]

    # -- opening ------------------------------------------------------------------------------------------

    def _numbers(self) -> list[int]:
        return sorted(int(path.name) for path in self._folder.iterdir() if path.name.isdecimal())

    def _opened(self, number: int) -> WordIndex | None:
        """None where it cannot be used, which deletes it."""
        path = self._folder / str(number)
        try:
            words = WordIndex(path)
            damaged = words.damaged_file()
            if damaged is None:
                return words
            reason = f"{damaged} is damaged"
        except SearchFailedError as error:
            reason = str(error)
        logger.warning("words are made again path=%s reason=%s", path, reason)
        shutil.rmtree(path)
        return None

    def _made(self) -> WordIndex:
        return WordIndex(self._folder / str(max(self._numbers(), default=0) + 1))

    def _writer(self, words: WordIndex) -> Writer:
        return Writer(words, self._changes, self._tail, self._now, stays=self._stays)

    def _need_room(self) -> None:
        if self._free_bytes() < SPARE_BYTES:
            raise NoRoomForWordsError("the disk is full: the words of new pages wait for room")

    # -- working ------------------------------------------------------------------------------------------

    def rebuild(self) -> None:
        """Another index is made, and answers when it has everything."""
        self._is_ordered = True

    def step(self) -> bool:
        """A little further. False: there is nothing to do now."""
        self._need_room()
        self._take()
        self._look_after()
        if self._serving.step() or (self._building is not None and self._building.step()):
            self._worked_s = self._now()
            return True
        if self._building is not None and self._building.is_level:
            self._swap()
        if self._now() - self._worked_s >= RELEASE_S:
            for writer in self._writers:
                if not writer.words.is_released and writer.is_level:
                    writer.words.release()
        return False

    def _take(self) -> None:
        changes = self._changes.take()
        for writer in self._writers:
            writer.take(changes)
            writer.follow_rules()
            if self.wanted is not None:
                writer.follow_ring(self.wanted, int(self._unix_s()))

    def _look_after(self) -> None:
        if self._now() - self._checked_s >= CHECK_S:
            self._checked_s = self._now()
            self._check()
        if self._building is None and (self._is_ordered or self._must_go() or self._is_mostly_dead()):
            self._is_ordered = False
            self._building = self._writer(self._made())

    def _check(self) -> None:
        damaged = self.words.damaged_file()
        if damaged is not None:
            logger.warning("words are made again path=%s reason=%s is damaged", self.words.folder, damaged)
            gone = self.words
            self._serving, self._building = self._building or self._writer(self._made()), None
            gone.give_up()
            shutil.rmtree(gone.folder)

    def _must_go(self) -> bool:
        """Whether words of erased pages may still be in the files."""
        removed, writer = self._changes.removed.erased, self._serving
        erased = () if removed is None else rules_of(removed)
        if set(erased) <= set(self.words.state.erased) or not writer.has_followed_rules:
            return False
        if self.words.dead_share() > 0:
            return True
        writer.erased(erased)
        return False

    def _is_mostly_dead(self) -> bool:
        if self._now() - self._counted_s < COUNT_S:
            return False
        self._counted_s = self._now()
        return self.words.documents >= DEAD_MIN and self.words.dead_share() > DEAD_SHARE

    def _swap(self) -> None:
        assert self._building is not None
        gone, self._serving, self._building = self.words, self._building, None
        gone.give_up()
        shutil.rmtree(gone.folder)

    def give_up(self) -> None:
        """After a failure: what was not committed is read again by another keeper."""
        for writer in self._writers:
            writer.words.give_up()
        self._changes.end()

    def close(self, may_go_on: Callable[[], bool]) -> None:
        """What is left to do is done first, as long as it may."""
        self._take()
        while may_go_on() and self._serving.step():
            pass
        for writer in self._writers:
            writer.commit(is_last=True)
            writer.words.give_up()  # all is committed; a merge of much would outlast the patience of service managers
        self._changes.end()
