"""Which things does only one of two holders have, although both should? One descent for every kind of thing.

Both sides can cut a part of the ring into smaller ones and sum up the contents of each. The asker learns the sums of
the other side, skips the equal parts and settles the others: of a small part, each side learns the other's contents;
a large part is cut again. So the traffic depends on the difference alone. Nothing is remembered: an interrupted
descent begins again, and finds the settled parts equal.

A `Side` holds the differences between the kinds: its sums, the size of a small part, and the messages. It limits its
questions itself, as another peer may answer endlessly that everything differs.
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
        """Tell both sides their differences in a part. False: there are too many for one go."""
        ...


async def reconcile(side: Side[Part], part: Part) -> None:
    async with aclosing(side.differing(part)) as parts:
        async for one in parts:
            if not await side.settle(one):
                await reconcile(side, one)
