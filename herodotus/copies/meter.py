"""How many bytes of copies travelled one way, and may the next ones? The peer's budget says when."""

from collections.abc import Awaitable, Callable

Spend = Callable[[int], Awaitable[None]]
"""Returns when so many bytes may flow."""


async def freely(size: int) -> None:
    del size


class Meter:
    def __init__(self, spend: Spend = freely) -> None:
        self._spend = spend
        self.spent = 0

    async def spend(self, size: int) -> None:
        await self._spend(size)
        self.spent += size
