"""What does the archive tell other peers about what it holds, without looking through all of it each time?

Digests of directories are kept in the index, those of each 256th of the ring until something in it changes;
then that part is computed again when asked for. Sketches of the buckets follow every change. Both change in
the same batches as the captures they speak of, so after a crash they fit whatever captures the index still
knows; a rebuilt index builds them anew.

Sketches are large, so the index gets them rarely, and in between the changes since, as they are made.
"""

from collections.abc import Iterator, Sequence

from herodotus.core.copies.cells import Sketch
from herodotus.core.digests import (
    directory_of,
    element_of,
    keys_of_member,
    leaf_digest,
    member_of,
)
from herodotus.core.index_rows import (
    CAPTURE,
    CHANGES,
    DIGEST,
    KEY_BYTES,
    SEVERAL,
    SKETCH,
    TOMBSTONE,
    after,
    bucket_of,
)
from herodotus.store.index import Index, IndexBatch

SKETCH_CELLS = 4_096  # gives away some 3,000 differences of a bucket; 16 of them take 5 MB
SAVED_EVERY = 16_384  # changes: applied again after a crash in a tenth of a second
BUCKETS = 16
TOPS = 256
_FAMILIES = CAPTURE + TOMBSTONE

Change = tuple[bytes, int]
"""A member that came (1) or went (-1)."""


class DirectoryDigests:
    def __init__(self, index: Index) -> None:
        self._index = index
        self._sketches: dict[int, Sketch] = {}
        self._is_clean = bytearray(TOPS)
        self._unsaved = 0
        self._next_change = 0
        self.changes = 0
        """While this is the same, so is every digest."""

    def load(self) -> None:
        """What the index says, when it was opened or made anew."""
        self.changes += 1
        self._sketches = {
            key[1]: Sketch.decode(value) for key, value in self._index.scan(SKETCH, after(SKETCH))
        }
        self._is_clean = bytearray(TOPS)
        for key, _ in self._index.scan(DIGEST, after(DIGEST)):
            self._is_clean[key[1]] = 1
        self._unsaved = self._next_change = 0
        for key, value in self._index.scan(CHANGES, after(CHANGES)):
            self._next_change = int.from_bytes(key[1:5], "big") + 1
            self._fold(_decode_changes(value))

    def prepare(self, batch: IndexBatch) -> list[Change]:
        """Add to a batch what it changes here; `apply` follows when it was written."""
        changes = self._changes_of(batch)
        if changes:
            batch.put(CHANGES + self._next_change.to_bytes(4, "big"), _encode_changes(changes))
            for member, _ in changes:
                if self._is_clean[member[0]]:
                    self._is_clean[member[0]] = 0
                    batch.delete(_digest_key(member[0]))
        return changes

    def apply(self, changes: Sequence[Change]) -> None:
        if not changes:
            return
        self._next_change += 1
        self.changes += 1
        self._fold(changes)
        if self._unsaved >= SAVED_EVERY:
            self._save()

    def _changes_of(self, batch: IndexBatch) -> list[Change]:
        """Members that the batch brings or takes away; which of them have several captures goes into it, too."""
        keys: dict[bytes, dict[bytes, bool]] = {}
        for key, value in batch.changes:
            if key[0] in _FAMILIES:
                keys.setdefault(member_of(key), {})[key] = value is not None
        changes = []
        for member, wanted in keys.items():
            old = {key for key, _ in self._index.scan(*keys_of_member(member))}
            before, now = len(old), len(old - wanted.keys()) + sum(wanted.values())
            if bool(now) != bool(before):
                changes.append((member, 1 if now else -1))
            if member[-1:] == CAPTURE and (now > 1) != (before > 1):
                (batch.put if now > 1 else batch.delete)(SEVERAL + member[:-1])
        return changes

    def _fold(self, changes: Sequence[Change]) -> None:
        self._unsaved += len(changes)
        for member, sign in changes:
            bucket = bucket_of(member)
            sketch = self._sketches.get(bucket)
            if sketch is None:
                sketch = self._sketches[bucket] = Sketch(SKETCH_CELLS)
            sketch.add(element_of(member), sign)

    def _save(self) -> None:
        batch = IndexBatch()
        for bucket, sketch in sorted(self._sketches.items()):
            batch.put(SKETCH + bytes((bucket,)), sketch.encode())
        for key, _ in self._index.scan(CHANGES, after(CHANGES)):
            batch.delete(key)
        self._index.write(batch)
        self._unsaved = 0

    # -- asked by others ----------------------------------------------------------------------------------

    def digests(self, key_from: bytes, key_to: bytes | None) -> dict[int, bytes]:
        """Of the directories of 16 bits of an arc that are not empty. The caller holds the archive's lock, so
        that none changes meanwhile."""
        found: dict[int, bytes] = {}
        for top, low, high, is_whole in _cut(key_from, key_to, TOPS):
            found |= self._kept(top) if is_whole else self._computed(low, high)
        return found

    def _kept(self, top: int) -> dict[int, bytes]:
        key = _digest_key(top)
        if self._is_clean[top]:
            return _decode_digests(top, self._index.get(key) or b"")
        digests = self._computed(bytes((top,)), bytes((top + 1,)) if top + 1 < TOPS else None)
        batch = IndexBatch()
        batch.put(key, b"".join(bytes((at & 0xFF,)) + digests[at] for at in sorted(digests)))
        self._index.write(batch)
        self._is_clean[top] = 1
        return digests

    def _computed(self, key_from: bytes, key_to: bytes | None) -> dict[int, bytes]:
        members: dict[int, list[bytes]] = {}
        for member in self.members(key_from, key_to):
            members.setdefault(directory_of(member), []).append(member)
        return {directory: leaf_digest(of_one) for directory, of_one in members.items()}

    def members(self, key_from: bytes, key_to: bytes | None) -> Iterator[bytes]:
        """Those of an arc, captures before tombstones."""
        for family in (CAPTURE, TOMBSTONE):
            start = family + key_from[:KEY_BYTES]
            end = after(family) if key_to is None else family + key_to[:KEY_BYTES]
            last = b""
            for key, _ in self._index.scan(start, end):
                member = member_of(key)
                if member != last:
                    yield member
                last = member

    def several(self, key_from: bytes, key_to: bytes | None) -> Iterator[bytes]:
        """The members of an arc that have more than one capture. Members do not tell how many there are."""
        end = after(SEVERAL) if key_to is None else SEVERAL + key_to[:KEY_BYTES]
        for key, _ in self._index.scan(SEVERAL + key_from[:KEY_BYTES], end):
            yield key[1:] + CAPTURE

    def sketch(self, key_from: bytes, key_to: bytes | None, cells: int) -> Sketch:
        """Of an arc: whole buckets are there, what is left over at its ends is looked through."""
        size = min(cells, SKETCH_CELLS)
        total = Sketch(size)
        for bucket, low, high, is_whole in _cut(key_from, key_to, BUCKETS):
            if is_whole:
                if bucket in self._sketches:
                    total.merge(self._sketches[bucket].prefix(size))
            else:
                for member in self.members(low, high):
                    total.add(element_of(member))
        return total


def _bounds(part: int, parts: int) -> tuple[bytes, bytes | None]:
    """Of one of so many equal parts of the ring."""
    step = 256 // parts
    return bytes((part * step,)), bytes(((part + 1) * step,)) if part + 1 < parts else None


def _cut(
    key_from: bytes, key_to: bytes | None, parts: int
) -> Iterator[tuple[int, bytes, bytes | None, bool]]:
    """The parts of the ring of which an arc has some: number, from where to where, and whether it is all. An arc
    does not wrap."""
    key_from = key_from.rstrip(b"\0")
    key_to = None if key_to is None else key_to.rstrip(b"\0")
    first = key_from[0] * parts // TOPS if key_from else 0
    last = parts - 1 if key_to is None else key_to[0] * parts // TOPS if key_to else 0
    for part in range(first, last + 1):
        start, end = _bounds(part, parts)
        low = max(key_from, start)
        high = end if key_to is None else key_to if end is None else min(end, key_to)
        if high is None or low < high:
            yield part, low, high, (low, high) == (start, end)


def _digest_key(top: int) -> bytes:
    return DIGEST + bytes((top,))


def _decode_digests(top: int, data: bytes) -> dict[int, bytes]:
    step = 21
    return {top << 8 | data[at]: data[at + 1 : at + step] for at in range(0, len(data), step)}


def _encode_changes(changes: Sequence[Change]) -> bytes:
    return b"".join(member + (b"+" if sign > 0 else b"-") for member, sign in changes)


def _decode_changes(data: bytes) -> list[Change]:
    step = 17
    return [
        (data[at : at + step - 1], 1 if data[at + step - 1 : at + step] == b"+" else -1)
        for at in range(0, len(data), step)
    ]
