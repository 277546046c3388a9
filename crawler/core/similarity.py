"""Is this page much like others of its host? A sketch of 32 bits that nearly equal pages share nearly all of.

Simhash (Charikar 2002; Manku, Jain and Das Sarma 2007): every pair of neighbouring words votes on each bit.
Digits and attribute values do not count, so that the months of a calendar and the sessions of a shop are alike.
It only says so: a likeness is a reason to come later and never a reason to leave anything out. Two unrelated
pages are taken for alike once in 10 million comparisons (distance 2 of 32 bits).
"""

import re
import zlib
from collections import deque
from itertools import pairwise

from cachetools import LRUCache

from crawler.core.urls import Origin

SKETCH_BITS = 32
DISTANCE_MAX = 2
WORDS_MAX = 1_000
"""From the beginning: 0.3 ms a page, spent only on pages that may be a trap's."""
BYTES_MAX = 64 * 1024
SKETCHES_PER_ORIGIN = 64
ORIGINS_MAX = 1_000

_VALUE = re.compile(rb"=\s*(?:\"[^\"<>]*\"|'[^'<>]*'|[^\s<>\"']+)")
_WORD = re.compile(rb"[A-Za-z\x80-\xff]+")


def sketch_of(body: bytes) -> int:
    """Of a page's markup and text, undone of its content coding."""
    words = _WORD.findall(_VALUE.sub(b"", body[:BYTES_MAX]))[:WORDS_MAX]
    pairs = {first + b" " + second for first, second in pairwise(words)}
    votes = b"".join(zlib.crc32(pair).to_bytes(4, "big") for pair in sorted(pairs))
    ballot = int.from_bytes(votes, "big")
    count = len(pairs)
    every = int.from_bytes(b"\0\0\0\1" * count, "big")
    return sum(1 << bit for bit in range(SKETCH_BITS) if 2 * (ballot >> bit & every).bit_count() > count)


class SeenSketches:
    """The last sketches of the origins that were crawled last."""

    def __init__(self) -> None:
        self._seen: LRUCache[Origin, deque[int]] = LRUCache(ORIGINS_MAX)

    def has_alike(self, origin: Origin, sketch: int) -> bool:
        """Whether one of the origin's last pages was much like this one, which is remembered when none was."""
        seen = self._seen.get(origin)
        if seen is None:
            seen = self._seen[origin] = deque(maxlen=SKETCHES_PER_ORIGIN)
        if any((sketch ^ other).bit_count() <= DISTANCE_MAX for other in seen):
            return True
        seen.append(sketch)
        return False
