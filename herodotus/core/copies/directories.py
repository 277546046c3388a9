"""Which stretches of the ring are two peers talking about, and in which parts of them do they differ?

A scope is a list of ranges of positions (the first 12 bytes of a key), ascending and apart. Its directories of 8
bits have digests as in `herodotus.core.digests`, one for each range that has some of the directory, in order; the
root is SHA-1 over all of them. Where the digests of one differ, its part of the range is looked at more closely.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from herodotus.core.digests import root_digest, top_digests
from herodotus.core.index_rows import KEY_BYTES

POSITIONS = 1 << (8 * KEY_BYTES)
DIGEST_BYTES = 20
RANGES_MAX = 64
"""Of one comparison: a peer has at most 64 positions, and neighbours share a stretch around each."""
_NOTHING = bytes(DIGEST_BYTES)


class Range(NamedTuple):
    """Positions from `low` up to, but without, `high`; None is the end of the circle."""

    low: bytes
    high: bytes | None

    def has(self, position: bytes) -> bool:
        position = position[:KEY_BYTES]
        return self.low <= position and (self.high is None or position < self.high)


Scope = tuple[Range, ...]
Digests = Mapping[int, bytes]
"""Of the directories of 16 bits in a range that are not empty."""

WHOLE_RING: Scope = (Range(bytes(KEY_BYTES), None),)


def ranges_of_arc(start: bytes, end: bytes) -> list[Range]:
    """The positions of keys in (start, end], which may go over the end of the circle; equal ends are all of it."""
    low, high = _after(start), _after(end)
    if start[:KEY_BYTES] == end[:KEY_BYTES]:
        return list(WHOLE_RING)
    if low < high:
        return [_range(low, high)]
    return [one for one in (_range(0, high), _range(low, POSITIONS)) if one.high != bytes(KEY_BYTES)]


def _after(key: bytes) -> int:
    return int.from_bytes(key[:KEY_BYTES], "big") + 1


def _range(low: int, high: int) -> Range:
    return Range(
        low.to_bytes(KEY_BYTES, "big") if low < POSITIONS else b"\xff" * (KEY_BYTES + 1),
        None if high >= POSITIONS else high.to_bytes(KEY_BYTES, "big"),
    )


def joined(ranges: Iterable[Range]) -> Scope:
    """The same positions in as few ranges as can be."""
    found: list[Range] = []
    for one in sorted(ranges, key=lambda known: known.low):
        if found and (found[-1].high is None or one.low <= found[-1].high):
            last = found[-1]
            high = None if last.high is None or one.high is None else max(last.high, one.high)
            found[-1] = Range(last.low, high)
        else:
            found.append(one)
    return tuple(found)


def rest_of_ring(scope: Scope) -> Scope:
    """What a scope leaves out."""
    found: list[Range] = []
    low: bytes | None = bytes(KEY_BYTES)
    for one in scope:
        if low is not None and low < one.low:
            found.append(Range(low, one.low))
        low = one.high
    if low is not None:
        found.append(Range(low, None))
    return tuple(found)


def has(scope: Scope, position: bytes) -> bool:
    """`scope` must be joined, as for `covers`."""
    at = bisect_right(scope, position[:KEY_BYTES], key=_low) - 1
    return at >= 0 and scope[at].has(position)


def _low(one: Range) -> bytes:
    return one.low


def covers(scope: Scope, part: Range) -> bool:
    """Is all of a range in it? `scope` must be joined."""
    at = bisect_right(scope, part.low, key=_low) - 1
    if at < 0:
        return False
    high = scope[at].high
    return high is None or (part.high is not None and part.high <= high)


def split(scope: Scope) -> list[Scope]:
    """Scopes of no more ranges than one comparison takes."""
    return [scope[at : at + RANGES_MAX] for at in range(0, len(scope), RANGES_MAX)]


@lru_cache(maxsize=64)  # each step of a comparison asks for those of its scope
def directories(scope: Scope) -> Sequence[tuple[int, Range]]:
    """The directories of 8 bits of which a scope has some, and what it has of each, range by range."""
    found = []
    for one in scope:
        last = 255 if one.high is None else _before(one.high)[0]
        for top in range(one.low[0], last + 1):
            low = max(one.low, bytes((top,)) + bytes(KEY_BYTES - 1))
            end = None if top == 255 else bytes((top + 1,)) + bytes(KEY_BYTES - 1)
            high = one.high if end is None else end if one.high is None else min(one.high, end)
            found.append((top, Range(low, high)))
    return found


def _before(position: bytes) -> bytes:
    return (int.from_bytes(position, "big") - 1).to_bytes(KEY_BYTES, "big")


def tops_of(scope: Scope, digests: Sequence[Digests]) -> list[bytes]:
    """The digest of each of `directories`, zeros where nothing is; `digests` are those of each range."""
    found: list[bytes] = []
    for one, of_range in zip(scope, digests, strict=True):
        tops = top_digests(of_range)
        found += [tops.get(top, _NOTHING) for top, _ in directories((one,))]
    return found


def root_of(tops: Sequence[bytes]) -> bytes:
    return root_digest({}) if not any(map(any, tops)) else _sha1(b"".join(tops))


def _sha1(data: bytes) -> bytes:
    return hashlib.sha1(data, usedforsecurity=False).digest()


def salted(root: bytes, nonce: bytes) -> bytes:
    """Whoever does not have the root cannot say it back."""
    return hashlib.sha256(b"herodotus/root/1" + nonce + root).digest()[:DIGEST_BYTES]


def differing(scope: Scope, ours: Sequence[bytes], theirs: Sequence[bytes]) -> Scope:
    """The parts of a scope whose digests are not the same, neighbours of one range joined."""
    parts = directories(scope)
    return joined(part for (_, part), mine, other in zip(parts, ours, theirs, strict=True) if mine != other)


def positions_in(scope: Scope, members: Iterable[bytes]) -> Iterator[bytes]:
    return (member for member in members if has(scope, member))
