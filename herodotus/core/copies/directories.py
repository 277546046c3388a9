"""Which stretches of the ring are two peers talking about, and in which parts of them do they differ?

A scope is a set of keys as two peers write it to each other: a list of ranges of positions (the first 12 bytes of a
key), ascending and apart. Its directories of 8
bits have digests as in `herodotus.core.digests`, one for each range that has some of the directory, in order; the
root is SHA-1 over all of them. Where the digests of one differ, its part of the range is looked at more closely.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from dht.core.arcs import BEFORE_ZERO, LAST, Arc, Arcs
from dht.core.ids import KEY_BYTES as FULL_KEY_BYTES
from dht.core.ids import Key
from herodotus.core.digests import root_digest, top_digests
from herodotus.core.index_rows import KEY_BYTES

POSITIONS = 1 << (8 * KEY_BYTES)
DIGEST_BYTES = 20
RANGES_MAX = 64
"""Of one comparison: a peer has at most 64 positions, and neighbours share a stretch around each."""
_NOTHING = bytes(DIGEST_BYTES)
_REST = b"\xff" * (FULL_KEY_BYTES - KEY_BYTES)


class Range(NamedTuple):
    """Positions from `low` up to, but without, `high`; None is the end of the circle."""

    low: bytes
    high: bytes | None


Scope = tuple[Range, ...]
Digests = Mapping[int, bytes]
"""Of the directories of 16 bits in a range that are not empty."""


def ranges_of(arcs: Arcs) -> Scope:
    """A set of keys as it is compared and sent: by whole positions."""
    return tuple(
        Range(_after(start), None if end == LAST else _after(end)) for start, end in arcs.coarse().pieces()
    )


def arcs_of(ranges: Iterable[Range]) -> Arcs:
    """The keys whose positions are in any of them."""
    return Arcs(Arc(_until(low), LAST if high is None else _until(high)) for low, high in ranges)


def _after(end: Key) -> bytes:
    """The position after those of an arc's end."""
    return bytes(KEY_BYTES) if end == BEFORE_ZERO else (_number(end) + 1).to_bytes(KEY_BYTES, "big")


def _until(position: bytes) -> Key:
    """The last key before a position."""
    return Key(_before(position) + _REST) if any(position) else BEFORE_ZERO


def _number(key: bytes) -> int:
    return int.from_bytes(key[:KEY_BYTES], "big")


def split(scope: Scope) -> list[Scope]:
    """Scopes of no more ranges than one comparison takes."""
    return [scope[at : at + RANGES_MAX] for at in range(0, len(scope), RANGES_MAX)]


@lru_cache(maxsize=64)  # each step of a comparison asks for those of its scope
def directories(scope: Scope) -> Sequence[tuple[int, Range]]:
    """The directories of 8 bits that a scope touches, with the touched part of each, range by range."""
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
    """A peer that does not have the root cannot compute it."""
    return hashlib.sha256(b"herodotus/root/1" + nonce + root).digest()[:DIGEST_BYTES]


def differing(scope: Scope, ours: Sequence[bytes], theirs: Sequence[bytes]) -> Scope:
    """The parts of a scope whose digests are not the same, neighbours of one range joined."""
    parts = directories(scope)
    return ranges_of(
        arcs_of(part for (_, part), mine, other in zip(parts, ours, theirs, strict=True) if mine != other)
    )
