"""How many URLs are known, how many are due, and what is counted of an origin? Numbers kept beside the rows.

Every change goes into the batch of the change that it counts, so that the numbers are as durable and as exact as the
rows. Memory holds the days that have something due and a bounded number of origins.
"""

from collections import Counter

import msgspec

from crawler.core.entries import DUE, META, ORIGIN, OriginCounts, day_of, number_in
from crawler.core.rows import Batch, Rows, after

_KNOWN_COUNT, _DUE_COUNT = META + b"known", META + b"due"
ORIGINS_CACHED_MAX = 20_000

_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(OriginCounts)


class FrontierCounts:
    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._origins: dict[bytes, OriginCounts] = {}
        self.known = number_in(rows.get(_KNOWN_COUNT))
        self.over_budget = 0
        self._due = self._read_due()

    def _read_due(self) -> dict[int, int]:
        """How many URLs are due on each day; counted again if an older release left no counts."""
        rows = self._rows.keys(_DUE_COUNT, after(_DUE_COUNT))
        found = {
            int.from_bytes(row[len(_DUE_COUNT) :], "big"): number_in(self._rows.get(row)) for row in rows
        }
        if found or not self.known:
            return found
        batch = Batch()
        counted = Counter(day_of(row) for row in self._rows.keys(DUE, after(DUE)))
        for day, count in counted.items():
            batch.put(_DUE_COUNT + day.to_bytes(4, "big"), count.to_bytes(8, "big"))
        self._rows.write(batch)
        return dict(counted)

    def due_until(self, day: int) -> int:
        return sum(count for due_day, count in self._due.items() if due_day <= day)

    def change_due(self, batch: Batch, day: int, change: int) -> None:
        count = self._due.get(day, 0) + change
        row = _DUE_COUNT + day.to_bytes(4, "big")
        if count > 0:
            self._due[day] = count
            batch.put(row, count.to_bytes(8, "big"))
        else:
            self._due.pop(day, None)
            batch.delete(row)

    def move_due(self, batch: Batch, day: int, to: int) -> None:
        if day != to:
            self.change_due(batch, day, -1)
            self.change_due(batch, to, 1)

    def add_known(self, batch: Batch, day: int, new: int) -> None:
        """So many URLs more, all due on that day."""
        self.change_due(batch, day, new)
        self.known += new
        batch.put(_KNOWN_COUNT, self.known.to_bytes(8, "big"))

    def origin(self, origin_id: bytes) -> OriginCounts:
        """What is counted of it; to be changed in place and given to `put_origin` in the same batch."""
        counts = self._origins.get(origin_id)
        if counts is None:
            found = self._rows.get(ORIGIN + origin_id)
            counts = _DECODER.decode(found) if found is not None else OriginCounts(origin="")
            self._origins[origin_id] = counts
        return counts

    def put_origin(self, batch: Batch, origin_id: bytes, counts: OriginCounts) -> None:
        batch.put(ORIGIN + origin_id, _ENCODER.encode(counts))

    def forget_some(self) -> None:
        """Keeps the memory within its bound; only while no batch is open, when all is on disk."""
        if len(self._origins) > ORIGINS_CACHED_MAX:
            self._origins.clear()
