"""Which captures came and went since somebody looked? For an index that is derived from captures and lies elsewhere.

The archive tells of each batch of its own index that adds captures or takes some away. What was told is kept until it
is taken, up to a bound. A taker that came too late, or did not run, compares: `keys` walks through all captures with
the number of their arrival. Contents come as readers see them, so without what was removed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice

from herodotus.core.index_rows import CAPTURE, KEY_BYTES, after, arrival_of, decode_entry
from herodotus.core.removals import Removals, Subject
from herodotus.store.engine import Archive
from herodotus.store.index import IndexBatch
from herodotus.store.reader import ShownReader
from herodotus.store.removal import covered_positions
from herodotus.store.stored_records import StoredCapture
from herodotus.store.streams import Query, Stream

KEPT_MAX = 65_536
"""Keys of captures, some 60 bytes each. A fast crawl brings 2,000 a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """Keys as in the index, without their family: `position[12] time[4] variant[3]`."""

    came: tuple[bytes, ...]
    gone: tuple[bytes, ...]
    tail: int
    """All that arrived before is in the index: told now, or earlier."""
    is_whole: bool
    """Nothing was left out for want of room."""


class ArchiveChanges:
    """One for each opening of an archive. Synchronous; `take` and the walks wait for disks."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._reader = ShownReader(archive)
        self._came: dict[bytes, None] = {}
        self._gone: dict[bytes, None] = {}
        self._is_whole = True

    @property
    def incarnation(self) -> bytes:
        """Another one when the archive's index was made again: then earlier arrival numbers mean nothing."""
        return self._archive.incarnation

    @property
    def removed(self) -> Removals:
        return self._archive.removed

    def begin(self, on_removals: Callable[[], None]) -> int:
        """From now on all is told; what arrived before the number that is given is in the index. `on_removals` is
        called in any thread when rules about removed pages changed."""
        archive = self._archive
        with archive.lock:
            archive.on_written, archive.on_removals = self._note, on_removals
            return self._tail()

    def end(self) -> None:
        with self._archive.lock:
            self._archive.on_written, self._archive.on_removals = None, lambda: None
            self._came, self._gone = {}, {}

    def _note(self, batch: IndexBatch) -> None:
        for key, value in batch.changes:
            if key[:1] == CAPTURE:
                (self._gone if value is None else self._came)[key[1:]] = None
        if len(self._came) + len(self._gone) > KEPT_MAX:
            self._came, self._gone, self._is_whole = {}, {}, False

    def _tail(self) -> int:
        return arrival_of(self._archive.log.number, self._archive.log.tail)

    def take(self) -> Changes:
        with self._archive.lock:
            taken = Changes(
                came=tuple(self._came), gone=tuple(self._gone), tail=self._tail(), is_whole=self._is_whole
            )
            self._came, self._gone, self._is_whole = {}, {}, True
        return taken

    # -- walks --------------------------------------------------------------------------------------------

    def keys(self, behind: bytes, most: int) -> list[tuple[bytes, int]]:
        """The next keys in the order of the ring, with the numbers of their arrival."""
        rows = self._archive.index.scan(CAPTURE + behind + b"\0" if behind else CAPTURE, after(CAPTURE))
        return [(key[1:], decode_entry(value).arrival) for key, value in islice(rows, most)]

    def shown(self, start: bytes, end: bytes | None = None) -> Iterator[StoredCapture]:
        """The captures that readers see between two positions, in the order of the ring; of one URL oldest first. What
        is damaged is passed over."""
        return iter(Stream(self._archive, Query(key_from=start, key_to=end)))

    def capture(self, key: bytes) -> StoredCapture | None:
        """None where it is gone, damaged, or removed."""
        value = self._archive.index.get(CAPTURE + key)
        capture = None if value is None else self._reader.try_read(CAPTURE + key, value)
        return capture if capture is None or self._reader.shows(capture) else None

    def is_latest(self, key: bytes) -> bool:
        """Whether no capture of its URL has a greater key."""
        row = self._archive.index.last_before(CAPTURE + key, after(CAPTURE + key[:KEY_BYTES]))
        return row is None or row[0][1:] == key

    def newest_at(self, position: bytes, time_s: int) -> StoredCapture | None:
        """Of the captures of a URL in that second the last that readers see."""
        prefix = CAPTURE + position[:KEY_BYTES] + time_s.to_bytes(4, "big")
        keys = [key[1:] for key, _ in self._archive.index.scan(prefix, after(prefix))]
        return next((found for key in reversed(keys) if (found := self.capture(key)) is not None), None)

    def positions_under(self, subject: Subject) -> Iterator[bytes]:
        """Of the URLs that have captures which a rule about the subject covers, whether there is such a rule or not."""
        return covered_positions(self._archive, subject)
