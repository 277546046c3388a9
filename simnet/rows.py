"""Where do a simulated peer's rows live? In memory, through all its lives; a crash leaves a prefix of the batches.

`KeptRows` holds the rows of one folder of a machine's disk; each life opens it again and gets its own
`SimulatedRows`. A power cut may lose the batches since the last flush, from any one on. A process that is killed
loses nothing of rows that have a log, as the operating system lives on; rows without one lose as in a power cut.
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from random import Random

from crawler.core.rows import Batch

Changes = tuple[tuple[bytes, bytes | None], ...]


class KeptRows:
    def __init__(self) -> None:
        self._durable: dict[bytes, bytes] = {}
        self._since: list[Changes] = []
        self.on_written: Callable[[Changes], None] = lambda changes: None
        """Called with every batch, for checkers."""

    def opened(self, check_alive: Callable[[], None] = lambda: None) -> "SimulatedRows":
        """`check_alive` raises where the life that opened it has ended."""
        self._settle(len(self._since))  # the rows from the last life are read from the disk now
        return SimulatedRows(self, dict(self._durable), check_alive)

    def crash(self, chance: Random) -> None:
        self._settle(chance.randint(0, len(self._since)))

    def has(self, key: bytes) -> bool:
        """Whether it stands there, durable or not."""
        for changes in reversed(self._since):
            for changed, value in reversed(changes):
                if changed == key:
                    return value is not None
        return key in self._durable

    def note(self, batch: Batch) -> None:
        changes = tuple(batch.changes)
        self._since.append(changes)
        self.on_written(changes)

    def flush(self) -> None:
        self._settle(len(self._since))

    def clear(self) -> None:
        self._durable.clear()
        self._since.clear()

    def _settle(self, count: int) -> None:
        for changes in self._since[:count]:
            for key, value in changes:
                if value is None:
                    self._durable.pop(key, None)
                else:
                    self._durable[key] = value
        self._since.clear()


class SimulatedRows:
    """Implements `Rows`."""

    def __init__(self, kept: KeptRows, values: dict[bytes, bytes], check_alive: Callable[[], None]) -> None:
        self._kept = kept
        self._values = values
        self._keys = sorted(values)
        self.is_damaged = False
        self._check_alive = check_alive

    def get(self, key: bytes) -> bytes | None:
        return self._values.get(key)

    def get_many(self, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self._values.get(key) for key in keys]

    def scan(self, start: bytes, end: bytes) -> Iterator[tuple[bytes, bytes]]:
        values = self._values
        return iter([(key, values[key]) for key in self._between(start, end)])

    def keys(self, start: bytes, end: bytes) -> Iterator[bytes]:
        return iter(self._between(start, end))

    def first_keys(self, start: bytes, end: bytes, prefix_bytes: int) -> Iterator[bytes]:
        last = b""
        for key in self._between(start, end):
            if key[:prefix_bytes] != last:
                last = key[:prefix_bytes]
                yield key

    def last_before(self, start: bytes, end: bytes) -> tuple[bytes, bytes] | None:
        at = bisect_left(self._keys, end) - 1
        if at < 0 or self._keys[at] < start:
            return None
        return self._keys[at], self._values[self._keys[at]]

    def _between(self, start: bytes, end: bytes) -> list[bytes]:
        return self._keys[bisect_left(self._keys, start) : bisect_left(self._keys, end)]

    def write(self, batch: Batch) -> None:
        self._check_alive()
        self._kept.note(batch)
        for key, value in batch.changes:
            if value is not None:
                if key not in self._values:
                    insort(self._keys, key)
                self._values[key] = value
            elif self._values.pop(key, None) is not None:
                del self._keys[bisect_left(self._keys, key)]

    def flush(self) -> None:
        self._check_alive()
        self._kept.flush()

    def note_damage(self) -> None:
        self.is_damaged = True

    def clear(self) -> None:
        self.is_damaged = False
        self._check_alive()
        self._kept.clear()
        self._values.clear()
        self._keys.clear()

    def bytes_used(self) -> int:
        return sum(len(key) + len(value) for key, value in self._values.items())

    def close(self) -> None:
        """Nothing is open."""
