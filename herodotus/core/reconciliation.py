"""What do two holders not share of what both should have? One descent for every kind of thing that holders keep.

Both sides can cut a part of the ring into smaller ones and sum up what lies in each. The asker learns the sums of the
other side, leaves alone what is equal, and settles what is not: where that is little, each side learns what the other
has; where it is much, it is cut again. So what travels follows the difference. Nothing is remembered: a descent that
was cut off begins again, and finds equal what was settled.

What differs from kind to kind is the `Side`: which sums there are, how much is little, and what is told. It bounds its
questions itself, as another peer may answer without an end that everything differs.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Protocol, TypeVar

Part = TypeVar("Part")


class Side(Protocol[Part]):
    """The asker's side towards one other peer. Whatever it raises ends the descent."""

    def differing(self, part: Part) -> AsyncGenerator[Part]:
        """The smaller parts of a part whose sums are not the same on both sides. Each is settled before the next is
        asked for.
        """
        ...

    async def settle(self, part: Part) -> bool:
        """Let both sides know what they do not share of a part. False: that is too much at once."""
        ...


async def reconcile(side: Side[Part], part: Part) -> None:
    async with aclosing(side.differing(part)) as parts:
        async for one in parts:
            if not await side.settle(one):
                await reconcile(side, one)
