"""How does the archive sum up its captures for other peers, without reading the whole index each time?

Digests of directories are kept in the index, those of each 256th of the ring until something in it changes; the next
question computes that part again. They change in the same batches as their captures, so after a crash they fit the
captures that the index still knows.
"""

from collections.abc import Iterator

from cachetools import LRUCache

from herodotus.core.index_rows import (
    CAPTURE,
    DIGEST,
    SEVERAL,
    TOMBSTONE,
    after,
    stretch,
)
from herodotus.core.reconciliation import (
    directory_of,
    keys_of_member,
    leaf_digest,
    member_of,
)
from herodotus.store.index import Index, IndexBatch

TOPS = 256
_FAMILIES = CAPTURE + TOMBSTONE
_OF_BEFORE = (b"s", b"e")
"""Families of earlier releases: sketches of the members, and the changes since each sketch was written."""
_DELETED_AT_ONCE = 10_000
COUNTS_MAX = 1 << 16
"""Directories, some 150 bytes each: all that there are."""


class DirectoryDigests:
    def __init__(self, index: Index) -> None:
        self._index = index
        self._is_clean = bytearray(TOPS)
        self._counts: LRUCache[bytes, int] = LRUCache(COUNTS_MAX)
        self.changes = 0
        """While this is the same, so is every digest."""

    def load(self) -> None:
        """Read the digests from the index, after it was opened or rebuilt."""
        self.changes += 1
        self._is_clean = bytearray(TOPS)
        for key, _ in self._index.scan(DIGEST, after(DIGEST)):
            self._is_clean[key[1]] = 1

    def drop_rows_of_before(self) -> None:
        """Does nothing from the second time on."""
        for family in _OF_BEFORE:
            batch = IndexBatch()
            for key, _ in self._index.scan(family, after(family)):
                batch.delete(key)
                if len(batch.changes) == _DELETED_AT_ONCE:
                    self._index.write(batch)
                    batch = IndexBatch()
            if batch.changes:
                self._index.write(batch)

    def prepare(self, batch: IndexBatch) -> bool:
        """Add a batch's effect on the digests to the batch. Returns whether it adds or removes members; `applied`
        comes next."""
        members = self._changed_by(batch)
        for member in members:
            if self._is_clean[member[0]]:
                self._is_clean[member[0]] = 0
                batch.delete(_digest_key(member[0]))
        return bool(members)

    def applied(self) -> None:
        """The batch was written."""
        self.changes += 1

    def _changed_by(self, batch: IndexBatch) -> list[bytes]:
        """Members that the batch brings or takes away; which of them have several captures goes into it, too."""
        keys: dict[bytes, dict[bytes, bool]] = {}
        for key, value in batch.changes:
            if key[0] in _FAMILIES:
                keys.setdefault(member_of(key), {})[key] = value is not None
        changed = []
        for member, wanted in keys.items():
            old = {key for key, _ in self._index.scan(*keys_of_member(member))}
            before, now = len(old), len(old - wanted.keys()) + sum(wanted.values())
            if bool(now) != bool(before):
                changed.append(member)
            if member[-1:] == CAPTURE and (now > 1) != (before > 1):
                (batch.put if now > 1 else batch.delete)(SEVERAL + member[:-1])
        return changed

    # -- asked by others ----------------------------------------------------------------------------------

    def digests(self, key_from: bytes, key_to: bytes | None) -> dict[int, bytes]:
        """Of the directories of 16 bits of an arc that are not empty. The caller holds the archive's lock, so
        that none changes meanwhile."""
        found: dict[int, bytes] = {}
        for top, low, high, is_whole in _cut(key_from, key_to):
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

    def count(self, key_from: bytes, key_to: bytes | None, digest: bytes) -> int:
        """URLs on a day that have captures in a directory, or in part of one, of this digest. As long as the digest is
        the same, so is the number, and nothing is read."""
        known = self._counts.get(digest)
        if known is None:
            members = list(self.members(key_from, key_to))
            known = sum(member[-1:] == CAPTURE for member in members)
            if leaf_digest(members) == digest:  # else something came in between
                self._counts[digest] = known
        return known

    def members(self, key_from: bytes, key_to: bytes | None) -> Iterator[bytes]:
        """The members of an arc, captures before tombstones."""
        for family in (CAPTURE, TOMBSTONE):
            last = b""
            for key, _ in self._index.scan(*stretch(family, key_from, key_to)):
                member = member_of(key)
                if member != last:
                    yield member
                last = member

    def several(self, key_from: bytes, key_to: bytes | None) -> Iterator[bytes]:
        """The members of an arc that have more than one capture. Members do not tell how many there are."""
        for key, _ in self._index.scan(*stretch(SEVERAL, key_from, key_to)):
            yield key[1:] + CAPTURE


def _cut(key_from: bytes, key_to: bytes | None) -> Iterator[tuple[int, bytes, bytes | None, bool]]:
    """The 256ths of the ring of which an arc has some: number, from where to where, and whether it is all. An arc
    does not wrap."""
    key_from = key_from.rstrip(b"\0")
    key_to = None if key_to is None else key_to.rstrip(b"\0")
    first = key_from[0] if key_from else 0
    last = TOPS - 1 if key_to is None else key_to[0] if key_to else 0
    for top in range(first, last + 1):
        start, end = bytes((top,)), bytes((top + 1,)) if top + 1 < TOPS else None
        low = max(key_from, start)
        high = end if key_to is None else key_to if end is None else min(end, key_to)
        if high is None or low < high:
            yield top, low, high, (low, high) == (start, end)


def _digest_key(top: int) -> bytes:
    return DIGEST + bytes((top,))


def _decode_digests(top: int, data: bytes) -> dict[int, bytes]:
    step = 21
    return {top << 8 | data[at]: data[at + 1 : at + step] for at in range(0, len(data), step)}
