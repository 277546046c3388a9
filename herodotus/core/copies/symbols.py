"""In which elements do two sets differ, if the number is unknown? Cells, made and read one after the other.

Rateless invertible Bloom lookup table (Yang and others, SIGCOMM 2024): an element is mixed into cell 0 and into ever
sparser further cells, so some 1.35 cells for each difference reveal all of them. The difference of two tables is the
table of the difference of the sets. The asker reads cells until all differences are known, so the traffic depends on
the difference alone. Both ends remember the next cell of each element, so further cells need no second pass over
earlier ones.
"""

import hashlib
from array import array
from collections.abc import Iterable
from math import ceil, sqrt

from herodotus.core.errors import MalformedError

Cell = tuple[int, int]
"""The exclusive or of the elements in it, each with its check, and how many they are."""

ELEMENT_BYTES = 16
CHECK_BYTES = 8
CELLS_MAX = 1 << 20
_PACKED_BYTES = ELEMENT_BYTES + CHECK_BYTES
_MULTIPLIER = 0xDA942042E4DD58B5
_MASK = (1 << 64) - 1
_SCALE = float(1 << 32)

_STEP = 4
"""Cells are made in ever larger steps, as each step looks at all elements once."""
_FIRST = 64
_COUNT_BYTES_MAX = 6


class Symbols:
    """The cells of a set, as many as are asked for. Raises MalformedError beyond `CELLS_MAX`."""

    def __init__(self, elements: Iterable[bytes]) -> None:
        self._packed: list[int] = []
        self._states = array("Q")
        self._next = array("Q")
        for element in elements:
            packed, state = _spread(element)
            self._packed.append(packed)
            self._states.append(state)
            self._next.append(0)
        self._cells: list[int] = []
        self._counts: list[int] = []

    def __len__(self) -> int:
        """Elements."""
        return len(self._packed)

    def cells(self, start: int, end: int) -> list[Cell]:
        assert 0 <= start <= end
        if end > CELLS_MAX:
            raise MalformedError("more cells than any honest difference needs")
        while len(self._cells) < end:
            self._make(min(CELLS_MAX, max(_FIRST, len(self._cells) * _STEP)))
        return list(zip(self._cells[start:end], self._counts[start:end], strict=True))

    def _make(self, end: int) -> None:
        more = end - len(self._cells)
        assert more > 0, "every look at the elements makes cells, or `cells` would never end"
        cells, counts = self._cells, self._counts
        cells += [0] * more
        counts += [0] * more
        upcoming, states = self._next, self._states
        for number, packed in enumerate(self._packed):
            at = upcoming[number]
            if at >= end:
                continue
            state = states[number]
            while at < end:
                cells[at] ^= packed
                counts[at] += 1
                state = state * _MULTIPLIER & _MASK
                at += ceil((at + 1.5) * (_SCALE / sqrt(state + 1) - 1))
            assert at >= end, "no cell of this element may be left out"
            upcoming[number], states[number] = at, state


class Decoder:
    """Takes the other side's cells in order and finds the differences."""

    def __init__(self, own: Symbols) -> None:
        self._own = own
        self._cells: list[int] = []
        self._counts: list[int] = []
        self._found: dict[bytes, list[int]] = {}  # packed, state, next cell, sign

    def __len__(self) -> int:
        """Cells taken."""
        return len(self._cells)

    @property
    def is_complete(self) -> bool:
        """Every element is in the first cell, so that one is empty only when all were found."""
        return bool(self._cells) and not self._cells[0] and not self._counts[0]

    @property
    def ours(self) -> set[bytes]:
        return {element for element, known in self._found.items() if known[3] > 0}

    @property
    def theirs(self) -> set[bytes]:
        return {element for element, known in self._found.items() if known[3] < 0}

    def take(self, theirs: list[Cell]) -> None:
        start = len(self._cells)
        end = start + len(theirs)
        own = self._own.cells(start, end)
        for (mine, count), (other, others) in zip(own, theirs, strict=True):
            self._cells.append(mine ^ other)
            self._counts.append(count - others)
        for known in self._found.values():
            self._remove(known, end)
        self._peel(range(end - 1, start - 1, -1))

    def _peel(self, candidates: Iterable[int]) -> None:
        waiting = list(candidates)
        end = len(self._cells)
        while waiting:
            at = waiting.pop()
            assert at < end
            element = _pure(self._cells[at], self._counts[at])
            if element is None or element in self._found:
                continue
            if len(self._found) > end:
                return  # no honest cells give away more than they are
            packed, state = _spread(element)
            known = [packed, state, 0, self._counts[at]]
            self._found[element] = known
            waiting += self._remove(known, end)

    def _remove(self, known: list[int], end: int) -> list[int]:
        """Take an element out of the cells up to `end`. Returns the cells that may now show another element."""
        packed, state, at, sign = known
        assert sign in (1, -1), "it was alone in a cell, on one of the two sides"
        touched = []
        while at < end:
            self._cells[at] ^= packed
            self._counts[at] -= sign
            touched.append(at)
            state = state * _MULTIPLIER & _MASK
            at += ceil((at + 1.5) * (_SCALE / sqrt(state + 1) - 1))
        known[1], known[2] = state, at
        return touched


def _spread(element: bytes) -> tuple[int, int]:
    """The value that is mixed into cells, and the state that chooses the cells."""
    digest = hashlib.sha1(element, usedforsecurity=False).digest()
    return int.from_bytes(element + digest[:CHECK_BYTES], "big"), int.from_bytes(digest[8:16], "big")


def _pure(packed: int, count: int) -> bytes | None:
    """The element that is alone in a cell."""
    if count not in (1, -1) or not packed:
        return None
    data = packed.to_bytes(_PACKED_BYTES, "big")
    element = data[:ELEMENT_BYTES]
    digest = hashlib.sha1(element, usedforsecurity=False).digest()
    return element if digest[:CHECK_BYTES] == data[ELEMENT_BYTES:] else None


def encode_cells(cells: Iterable[Cell]) -> bytes:
    """24 bytes and a count (zigzag LEB128) for each."""
    out = bytearray()
    for packed, count in cells:
        out += packed.to_bytes(_PACKED_BYTES, "big")
        rest = count << 1 if count >= 0 else (-count << 1) - 1
        while rest > 0x7F:
            out.append(rest & 0x7F | 0x80)
            rest >>= 7
        out.append(rest)
    return bytes(out)


class CellReader:
    """Takes bytes as they come and gives whole cells. Raises MalformedError."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Cell]:
        self._rest += data
        cells: list[Cell] = []
        at = 0
        while (cell := self._cell(at)) is not None:
            cells.append(cell[0])
            at = cell[1]
        del self._rest[:at]
        return cells

    def _cell(self, start: int) -> tuple[Cell, int] | None:
        at = start + _PACKED_BYTES
        number = shift = 0
        while at < len(self._rest):
            byte = self._rest[at]
            at += 1
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                packed = int.from_bytes(self._rest[start : start + _PACKED_BYTES], "big")
                return (packed, number >> 1 if number & 1 == 0 else -((number + 1) >> 1)), at
            if shift >= 7 * _COUNT_BYTES_MAX:
                raise MalformedError("a cell of more elements than there are")
        return None
