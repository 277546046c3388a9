"""Which keys?  An arc of the circle, and sets of keys made of arcs.

Union, intersection, difference and comparison of such sets are one merge of two sorted lists each, so a set of
thousands of arcs costs no more than its length.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator
from operator import and_, gt, or_
from typing import NamedTuple

from dht.core.ids import KEY_BYTES, Key

LAST = Key(b"\xff" * KEY_BYTES)
"""The highest key: whatever follows it is the key zero."""
BEFORE_ZERO = Key(b"")
"""Sorts before every key: the start of a piece that begins with the key zero."""


class Arc(NamedTuple):
    """Keys in (start, end], which may go across zero; equal ends are the whole circle."""

    start: Key
    end: Key


class Arcs:
    """A set of keys: an immutable value, equal to any other that has the same keys.

    *Normal form*: the keys after which membership flips, ascending, and whether the key zero is inside.  Going
    up from zero, a key is inside when the flips below it turned the first answer an even number of times.
    Once around we are back at zero, so the number of flips is even.  No two lists describe one set, because a
    flip is a fact of the set; so equality and hash are those of the form, and an operation on two sets is one
    walk along the flips of both, whatever the operation.

    Keys may be shorter than 20 bytes where the flips are coarse (`coarse`): a prefix compares with them as every
    key does that begins with it.
    """

    __slots__ = ("_flips", "_has_zero")
    _flips: tuple[Key, ...]
    _has_zero: bool

    def __init__(self, arcs: Iterable[Arc] = ()) -> None:
        """All that is in any of them; they may overlap, and may be pieces, too."""
        ends: list[tuple[Key, int]] = []
        depth = 0  # of the arcs around the key zero: those that go across it
        for begin, end in arcs:
            start = begin or LAST  # what begins with zero, seen from before
            if start == end:
                self._flips, self._has_zero = (), True
                return
            ends += ((start, 1), (end, -1))
            depth += start > end
        ends.sort()
        self._has_zero, is_inside = depth > 0, depth > 0
        flips: list[Key] = []
        for place, (key, step) in enumerate(ends):
            depth += step
            if place + 1 < len(ends) and ends[place + 1][0] == key:
                continue  # what ends here and what begins here have no gap between them
            if (depth > 0) != is_inside:
                is_inside = not is_inside
                flips.append(key)
        self._flips = tuple(flips)
        assert is_inside == self._has_zero, "once around, and back where we began"
        assert len(flips) % 2 == 0, "membership is the same again once around"

    @classmethod
    def _of(cls, flips: tuple[Key, ...], has_zero: bool) -> "Arcs":
        assert len(flips) % 2 == 0, "membership is the same again once around"
        made = cls.__new__(cls)
        made._flips, made._has_zero = flips, has_zero
        return made

    # --- asking

    def __contains__(self, key: bytes) -> bool:
        return self._has_zero != bool(bisect_left(self._flips, key) & 1)

    def __bool__(self) -> bool:
        return self._has_zero or bool(self._flips)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Arcs):
            return NotImplemented
        return (self._has_zero, self._flips) == (other._has_zero, other._flips)

    def __hash__(self) -> int:
        return hash((self._has_zero, self._flips))

    def __repr__(self) -> str:
        arcs = ", ".join(f"{arc.start.hex()}..{arc.end.hex()}" for arc in self)
        return f"Arcs({arcs})"

    def __len__(self) -> int:
        """How many arcs, none of which touches another."""
        return len(self._flips) // 2 or int(self._has_zero)

    def __iter__(self) -> Iterator[Arc]:
        """In order of their starts: an arc across zero is the last, and in one."""
        flips = self._flips
        if not flips:
            if self._has_zero:
                yield Arc(LAST, LAST)
            return
        first = int(self._has_zero)
        for place in range(first, len(flips) - first, 2):
            yield Arc(flips[place], flips[place + 1])
        if self._has_zero:
            yield Arc(flips[-1], flips[0])

    def pieces(self) -> list[tuple[Key, Key]]:
        """(start, end] without zero inside and in order, for scans of sorted rows: `start < key <= end`.

        A piece that begins with the key zero starts at `BEFORE_ZERO`.
        """
        ends = [BEFORE_ZERO] if self._has_zero else []
        ends += self._flips
        if self._has_zero and ends[-1] != LAST:
            ends.append(LAST)
        # With zero inside and the last key outside there is one flip more: at the last key, where no piece begins.
        return list(zip(ends[::2], ends[1::2], strict=False))

    # --- sets of two

    def __or__(self, other: "Arcs") -> "Arcs":
        return self._merged(other, or_)

    def __and__(self, other: "Arcs") -> "Arcs":
        return self._merged(other, and_)

    def __sub__(self, other: "Arcs") -> "Arcs":
        return self._merged(other, gt)  # of two truths: the first and not the second

    def __invert__(self) -> "Arcs":
        return self._of(self._flips, not self._has_zero)

    def __le__(self, other: "Arcs") -> bool:
        """Has `other` all of it? Looked up piece by piece, as what is asked about is often one arc."""
        flips, has_zero = other._flips, other._has_zero
        for start, end in self.pieces():
            # The first key of the piece is inside, and membership flips next at its end or later.
            place = bisect_right(flips, start)
            if has_zero == bool(place & 1) or (place < len(flips) and flips[place] < end):
                return False
        return True

    def _merged(self, other: "Arcs", keep: Callable[[bool, bool], bool]) -> "Arcs":
        ours, theirs = self._flips, other._flips
        here, there = self._has_zero, other._has_zero
        has_zero = is_inside = keep(here, there)
        flips: list[Key] = []
        mine = yours = 0
        while mine < len(ours) or yours < len(theirs):
            # Behind the loop's invariant: `here` and `there` say who has the keys just after all flips passed.
            if yours == len(theirs) or (mine < len(ours) and ours[mine] <= theirs[yours]):
                key = ours[mine]
            else:
                key = theirs[yours]
            if mine < len(ours) and ours[mine] == key:
                here, mine = not here, mine + 1
            if yours < len(theirs) and theirs[yours] == key:
                there, yours = not there, yours + 1
            if keep(here, there) != is_inside:
                is_inside = not is_inside
                flips.append(key)
        assert is_inside == has_zero, "once around, and back where we began"
        return self._of(tuple(flips), has_zero)

    # --- rounded

    def coarse(self, size: int = 12) -> "Arcs":
        """The same with ends rounded up to whole prefixes of so many bytes, as copies compare and send them: all keys
        of a prefix are inside where the first of them was.
        """
        assert 0 < size <= KEY_BYTES
        rest = b"\xff" * (KEY_BYTES - size)
        flips: list[Key] = []
        for flip in self._flips:
            rounded = Key(flip[:size] + rest)
            if flips and flips[-1] == rounded:
                flips.pop()  # two flips at one place are none
            else:
                flips.append(rounded)
        return self._of(tuple(flips), self._has_zero)


NONE = Arcs()
WHOLE = ~NONE
