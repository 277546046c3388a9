"""Over which time did a URL say the same? Spells, from captures in any order.

A spell is a longest run of captures of one URL with one text. It covers from its first capture until the first of the
next spell. A moment belongs to the newest capture that is not later; of several in one second to the last by key. So
the spells of a URL depend on its captures alone, and not on the order in which they came.
"""

from collections.abc import Iterable, Iterator
from enum import Enum
from typing import NamedTuple, TypeVar

from herodotus.core.search.fields import OPEN


class Newest(NamedTuple):
    """The last spell of a URL."""

    first_s: int
    digest: int


class Step(Enum):
    """What a capture does to the spells of its URL."""

    NOTHING = "it is in the last spell"
    BEGINS = "it begins the first spell"
    FOLLOWS = "it ends the last spell and begins another"
    DERIVES = "it came late: all spells are derived again"


def step(newest: Newest | None, time_s: int, digest: int, *, is_latest: bool) -> Step:
    """`is_latest`: the archive has no capture of the URL whose key is greater."""
    if newest is not None and time_s >= newest.first_s and digest == newest.digest:
        return Step.NOTHING
    # A later capture may be in the last spell without a trace, and be cut off from it by this one.
    if not is_latest or (newest is not None and time_s <= newest.first_s):
        return Step.DERIVES
    return Step.BEGINS if newest is None else Step.FOLLOWS


T = TypeVar("T")


def spells(captures: Iterable[tuple[int, int, T]]) -> Iterator[tuple[int, int, T]]:
    """Of one URL: time, digest and anything else of each capture, oldest first, those of one second by key. Gives
    first and until of each spell with what its first capture had; no more than two of these are held."""
    held: tuple[int, int, T] | None = None
    for capture in _last_of_each_second(captures):
        if held is None:
            held = capture
        elif held[1] != capture[1]:
            yield held[0], capture[0], held[2]
            held = capture
    if held is not None:
        yield held[0], OPEN, held[2]


def _last_of_each_second(captures: Iterable[tuple[int, int, T]]) -> Iterator[tuple[int, int, T]]:
    before: tuple[int, int, T] | None = None
    for capture in captures:
        if before is not None and before[0] != capture[0]:
            yield before
        before = capture
    if before is not None:
        yield before
