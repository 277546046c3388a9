"""Does a descent find all differences, and look at nothing that is equal?"""

from collections.abc import AsyncGenerator
from itertools import pairwise
from random import Random

import anyio
import pytest

from herodotus.core.reconciliation import reconcile

pytestmark = pytest.mark.anyio
LITTLE = 4
Span = tuple[int, int]


class Sets:
    """Numbers below 1,000, summed up as they are."""

    def __init__(self, ours: set[int], theirs: set[int]) -> None:
        self.ours, self.theirs = ours, theirs
        self.asked: list[Span] = []
        self.settled: list[Span] = []
        self.found: set[int] = set()

    async def differing(self, part: Span) -> AsyncGenerator[Span]:
        await anyio.lowlevel.checkpoint()
        self.asked.append(part)
        start, end = part
        cuts = [start + (end - start) * number // 8 for number in range(9)]
        for low, high in pairwise(cuts):
            if _within(self.ours, low, high) != _within(self.theirs, low, high):
                yield low, high

    async def settle(self, part: Span) -> bool:
        await anyio.lowlevel.checkpoint()
        here, there = _within(self.ours, *part), _within(self.theirs, *part)
        if max(len(here), len(there)) > LITTLE:
            return False
        self.settled.append(part)
        self.found |= here ^ there
        return True


def _within(numbers: set[int], low: int, high: int) -> set[int]:
    return {number for number in numbers if low <= number < high}


@pytest.mark.parametrize("seed", range(20))
async def test_all_that_is_not_shared_is_found_and_only_little_is_told(seed: int) -> None:
    chance = Random(seed)
    common = set(chance.sample(range(1_000), chance.randint(0, 600)))
    ours = common | set(chance.sample(range(1_000), chance.randint(0, 30)))
    theirs = common | set(chance.sample(range(1_000), chance.randint(0, 30)))
    side = Sets(ours, theirs)
    await reconcile(side, (0, 1_000))
    assert side.found == ours ^ theirs
    assert all(_within(ours ^ theirs, *part) for part in side.settled)
    assert len(side.settled) <= len(ours ^ theirs)


async def test_what_is_equal_is_asked_about_once() -> None:
    side = Sets({1, 500, 999}, {1, 500, 999})
    await reconcile(side, (0, 1_000))
    assert (side.asked, side.settled) == ([(0, 1_000)], [])


async def test_an_error_ends_the_descent_where_it_is() -> None:
    class Broken(Sets):
        async def settle(self, part: Span) -> bool:
            if self.settled:
                raise ConnectionError
            return await super().settle(part)

    side = Broken({10, 300, 900}, set())
    with pytest.raises(ConnectionError):
        await reconcile(side, (0, 1_000))
    assert side.found == {10}
