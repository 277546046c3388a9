"""Which elements do two sets not share? A sketch whose prefix is as long as the difference, not as the sets.

Rateless invertible Bloom lookup table (Yang and others, SIGCOMM 2024): an element is mixed into cell 0 and
into ever sparser further cells, so a prefix of n cells gives away some n / 1.35 differences, and whoever needs
more asks for the cells that follow. Sketches are linear: the difference of two is the sketch of the difference
of the sets, and the sum of the sketches of disjoint sets is that of their union.

A cell is the exclusive or of its elements with their checks, and how many there are. All sets here hold each
element once.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from math import ceil, sqrt

from herodotus.core.archive_errors import MalformedRecordError

ELEMENT_BYTES = 16
CHECK_BYTES = 8
CELLS_MAX = 1 << 20
PACKED_BYTES = ELEMENT_BYTES + CHECK_BYTES
_COUNT_BYTES_MAX = 6
MULTIPLIER = 0xDA942042E4DD58B5
MASK = (1 << 64) - 1
SCALE = float(1 << 32)


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    ours: frozenset[bytes]
    """What only the set that was subtracted from has."""
    theirs: frozenset[bytes]
    is_complete: bool
    """False: the prefix is too short, or the other side made it up. Then nothing here may be believed."""


class Sketch:
    __slots__ = ("_cells", "_counts")

    def __init__(self, cells: int) -> None:
        self._cells = [0] * cells
        self._counts = [0] * cells

    def __len__(self) -> int:
        return len(self._cells)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sketch) and (self._cells, self._counts) == (other._cells, other._counts)

    __hash__ = None  # type: ignore[assignment]  # it changes

    @classmethod
    def of(cls, elements: Iterable[bytes], cells: int) -> "Sketch":
        sketch = cls(cells)
        for element in elements:
            sketch.add(element)
        return sketch

    def add(self, element: bytes, sign: int = 1) -> None:
        """With a sign of -1 it is taken out again."""
        packed, state = spread(element)
        cells, counts = self._cells, self._counts
        end = len(cells)
        at = 0
        while at < end:
            cells[at] ^= packed
            counts[at] += sign
            state = state * MULTIPLIER & MASK
            at += ceil((at + 1.5) * (SCALE / sqrt(state + 1) - 1))

    def merge(self, other: "Sketch", sign: int = 1) -> None:
        """Add the sketch of a disjoint set (sign 1), or subtract that of another. The shorter decides."""
        size = min(len(self), len(other))
        self._cells = [ours ^ theirs for ours, theirs in zip(self._cells, other._cells, strict=False)]
        self._counts = [self._counts[at] + sign * other._counts[at] for at in range(size)]

    def prefix(self, cells: int) -> "Sketch":
        sketch = Sketch(0)
        sketch._cells = self._cells[:cells]
        sketch._counts = self._counts[:cells]
        return sketch

    def encode(self) -> bytes:
        """24 bytes and a count (zigzag LEB128) for each cell."""
        out = bytearray()
        for packed, count in zip(self._cells, self._counts, strict=True):
            out += packed.to_bytes(PACKED_BYTES, "big")
            rest = count << 1 if count >= 0 else (-count << 1) - 1
            while rest > 0x7F:
                out.append(rest & 0x7F | 0x80)
                rest >>= 7
            out.append(rest)
        return bytes(out)

    @classmethod
    def decode(cls, data: bytes) -> "Sketch":
        sketch = cls(0)
        at = 0
        while at < len(data):
            if len(sketch._cells) >= CELLS_MAX:
                raise MalformedRecordError("a sketch of too many cells")
            packed = data[at : at + PACKED_BYTES]
            at += PACKED_BYTES
            number = shift = 0
            while True:
                if at >= len(data) or shift > 7 * (_COUNT_BYTES_MAX - 1):
                    raise MalformedRecordError("a sketch is cut off")
                byte = data[at]
                at += 1
                number |= (byte & 0x7F) << shift
                shift += 7
                if byte < 0x80:
                    break
            sketch._cells.append(int.from_bytes(packed, "big"))
            sketch._counts.append(number >> 1 if number & 1 == 0 else -((number + 1) >> 1))
        return sketch

    def difference(self) -> Difference:
        """Of a sketch that another was subtracted from. Costs no more than its length, whatever is in it."""
        rest = self.prefix(len(self))
        found: dict[bytes, int] = {}
        waiting = list(range(len(rest) - 1, -1, -1))
        while waiting:
            at = waiting.pop()
            element = pure(rest._cells[at], rest._counts[at])
            if element is None or element in found:
                continue
            sign = rest._counts[at]
            found[element] = sign
            waiting += rest._take(element, sign)
            if len(found) > len(rest):
                break  # no honest sketch gives away more than it has cells
        return Difference(
            ours=frozenset(element for element, sign in found.items() if sign > 0),
            theirs=frozenset(element for element, sign in found.items() if sign < 0),
            is_complete=len(rest) > 0 and not any(rest._cells) and not any(rest._counts),
        )

    def _take(self, element: bytes, sign: int) -> list[int]:
        """Take an element out; the cells that may show another now."""
        packed, state = spread(element)
        touched = []
        at = 0
        while at < len(self._cells):
            self._cells[at] ^= packed
            self._counts[at] -= sign
            touched.append(at)
            state = state * MULTIPLIER & MASK
            at += ceil((at + 1.5) * (SCALE / sqrt(state + 1) - 1))
        return touched


def spread(element: bytes) -> tuple[int, int]:
    """What is mixed into cells, and the state that says which ones."""
    digest = hashlib.sha1(element, usedforsecurity=False).digest()
    return int.from_bytes(element + digest[:CHECK_BYTES], "big"), int.from_bytes(digest[8:16], "big")


def pure(packed: int, count: int) -> bytes | None:
    """The element that is alone in a cell."""
    if count not in (1, -1) or not packed:
        return None
    data = packed.to_bytes(PACKED_BYTES, "big")
    element = data[:ELEMENT_BYTES]
    digest = hashlib.sha1(element, usedforsecurity=False).digest()
    return element if digest[:CHECK_BYTES] == data[ELEMENT_BYTES:] else None
