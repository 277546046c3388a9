"""Do two peers hold the same captures, and which are the ones that one of them lacks?

A member is a URL on a day: 12 bytes of the position, three of the day, and whether it is there or was deleted
for good. As in the thesis (4.6), peers that fetched different content of one URL on one day are equal. A
directory is 16 bits of the ring: its digest is SHA-1 over its sorted members, that of a directory of 8 bits
SHA-1 over those of its directories, the root's over these. Members come from the index's keys alone, so
computing them reads no record.
"""

import hashlib
from collections.abc import Iterable, Mapping

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
