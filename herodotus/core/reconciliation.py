"""Which things does only one of two holders have, although both should? One descent for every kind of thing.

Both sides can cut a part of the ring into smaller ones and sum up the contents of each. The asker learns the sums of
the other side, skips the equal parts and settles the others: of a small part, each side learns the other's contents;
a large part is cut again. So the traffic depends on the difference alone. Nothing is remembered: an interrupted
descent begins again, and finds the settled parts equal.

A `Side` holds the differences between the kinds: its sums, the size of a small part, and the messages. It limits its
questions itself, as another peer may answer endlessly that everything differs.

*Captures.* A member is a URL on a day: 12 bytes of the position, three of the day, and whether it is there or was
deleted for good. As in the thesis (4.6), peers that fetched different content of one URL on one day are equal. A
directory is 16 bits of the ring: its digest is SHA-1 over its sorted members, that of a directory of 8 bits SHA-1 over
those of its directories, the root's over these. Members come from the index's keys alone, so computing them reads no
record. A scope is a set of keys as two peers write it to each other: a list of ranges of positions (the first 12 bytes
of a key), ascending and apart. Its directories of 8 bits have digests, one for each range that has some of the
directory, in order; its root is SHA-1 over all of them.

*Links.* The sum of a stretch is how many keys there are, and all of them XORed. A peer that hides a difference behind
equal sums could as well lie outright: sums detect forgotten keys only.
"""

import hashlib
from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, TypeVar

from dht.core.arcs import BEFORE_ZERO, LAST, Arc, Arcs
from dht.core.ids import KEY_BYTES as FULL_KEY_BYTES
from dht.core.ids import Key, key_from_number, number_of
from herodotus.core.index_rows import KEY_BYTES

Part = TypeVar("Part")


class Side(Protocol[Part]):
    """The asker's side towards one other peer. Whatever it raises ends the descent."""

    def differing(self, part: Part) -> AsyncGenerator[Part]:
        """The smaller parts of a part whose sums are not the same on both sides. Each is settled before the next is
        asked for.
        """
        ...

    async def settle(self, part: Part) -> bool:
        """Tell both sides their differences in a part. False: there are too many for one go."""
        ...


async def reconcile(side: Side[Part], part: Part) -> None:
    async with aclosing(side.differing(part)) as parts:
        async for one in parts:
            if not await side.settle(one):
                await reconcile(side, one)


PARTS: Final = 16


class Sum(NamedTuple):
    keys: int
    xor: int


def parts_of(start: Key, end: Key) -> list[Arc]:
    """(start, end] in sixteen, of which some may be empty; it does not cross zero."""
    low, high = number_of(start), number_of(end)
    cuts = [low + (high - low) * number // PARTS for number in range(PARTS + 1)]
    return [Arc(key_from_number(low), key_from_number(high)) for low, high in pairwise(cuts)]


def sums_of(keys: Iterable[bytes], start: Key, end: Key) -> list[Sum]:
    """Of ascending keys, for each of the parts; those outside are left out."""
    ends = [number_of(last) for _, last in parts_of(start, end)]
    low = number_of(start)
    counts, xors = [0] * PARTS, [0] * PARTS
    place = 0
    for key in keys:
        number = int.from_bytes(key, "big")
        if number <= low:
            continue
        while place < PARTS and number > ends[place]:
            place += 1
        if place == PARTS:
            break
        counts[place] += 1
        xors[place] ^= number
    return [Sum(*one) for one in zip(counts, xors, strict=True)]


MEMBER_BYTES = 16
DAY_S = 86_400
_KEY_BYTES = 12


def member_of(key: bytes) -> bytes:
    """The member of an index key of family c or t. The key's first byte names the family."""
    day = int.from_bytes(key[1 + _KEY_BYTES : 5 + _KEY_BYTES], "big") // DAY_S
    return b"".join((key[1 : 1 + _KEY_BYTES], day.to_bytes(3, "big"), key[:1]))


def keys_of_member(member: bytes) -> tuple[bytes, bytes]:
    """Between which index keys the captures (or tombstones) of a member are."""
    day = int.from_bytes(member[_KEY_BYTES : _KEY_BYTES + 3], "big")
    prefix = member[-1:] + member[:_KEY_BYTES]
    # The last day ends beyond 2106, where no four bytes reach.
    end = (day + 1) * DAY_S
    return prefix + (day * DAY_S).to_bytes(4, "big"), (
        prefix + end.to_bytes(4, "big") if end < 1 << 32 else prefix + b"\xff" * 8
    )


def directory_of(member: bytes) -> int:
    return int.from_bytes(member[:2], "big")


def leaf_digest(members: Iterable[bytes]) -> bytes:
    """Empty when there are none."""
    distinct = sorted(set(members))
    return hashlib.sha1(b"".join(distinct), usedforsecurity=False).digest() if distinct else b""


def top_digests(leaves: Mapping[int, bytes]) -> dict[int, bytes]:
    """Of the directories of 8 bits, from those of 16 bits that are not empty."""
    parts: dict[int, list[bytes]] = {}
    for directory in sorted(leaves):
        parts.setdefault(directory >> 8, []).append(directory.to_bytes(2, "big") + leaves[directory])
    return {
        top: hashlib.sha1(b"".join(of_top), usedforsecurity=False).digest() for top, of_top in parts.items()
    }


def root_digest(tops: Mapping[int, bytes]) -> bytes:
    joined = b"".join(bytes((top,)) + tops[top] for top in sorted(tops))
    return hashlib.sha1(joined, usedforsecurity=False).digest()


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
        found += [(top, in_directory(top, 1, one)) for top in range(one.low[0], last + 1)]
    return found


def in_directory(number: int, size: int, within: Range) -> Range:
    """What of a range is in a directory, which is named by the first `size` bytes of its positions."""
    rest = bytes(KEY_BYTES - size)
    ends = [] if number == (1 << 8 * size) - 1 else [(number + 1).to_bytes(size, "big") + rest]
    ends += [] if within.high is None else [within.high]
    return Range(max(number.to_bytes(size, "big") + rest, within.low), min(ends, default=None))


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
