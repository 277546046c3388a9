"""Who waits for a connection, and who gives one up? The bound of `core/connections.py`, for all parts of a peer.

Whoever wants to open a connection enters first, and leaves when it is closed. Where there is no room, one that is at
rest is closed: each use that keeps some says how. What is being used never has to go.
"""

from collections.abc import Callable
from typing import Final

import anyio

from herodotus.core.connections import Connections, Use

CLOSES_S: Final = 0.1
"""How long a connection may take to close before another one is asked to."""

Give = Callable[[], bool]
"""Closes a connection at rest; False where none is kept."""


class Slot:
    """Room for one connection."""

    __slots__ = ("_carried", "_rooms", "_use")

    def __init__(self, rooms: "Rooms", use: Use) -> None:
        self._rooms: Rooms | None = rooms
        self._use = use
        self._carried = 0, 0

    def carried(self, bytes_in: int, bytes_out: int) -> None:
        """So much its connection put on the line until now."""
        if self._rooms is not None:
            before_in, before_out = self._carried
            self._carried = max(before_in, bytes_in), max(before_out, bytes_out)
            self._rooms.bytes_in += self._carried[0] - before_in
            self._rooms.bytes_out += self._carried[1] - before_out

    def leave(self) -> None:
        """When it is closed, or never came about. A second time does nothing."""
        rooms, self._rooms = self._rooms, None
        if rooms is not None:
            rooms.left(self._use)


class Rooms:
    def __init__(self, most: int) -> None:
        self.connections = Connections(most)
        self.bytes_in = self.bytes_out = 0
        """What all of them carried, with headers, as far as the system tells."""
        self._gives: dict[Use, list[Give]] = {use: [] for use in Use}
        self._news = anyio.Event()

    def room(self, use: Use) -> "Room":
        return Room(self, use)

    def gives(self, use: Use, give: Give) -> None:
        self._gives[use].append(give)

    def gives_no_more(self, use: Use, give: Give) -> None:
        self._gives[use].remove(give)

    def take(self, use: Use) -> Slot | None:
        return Slot(self, use) if self.connections.take(use) else None

    def left(self, use: Use) -> None:
        self.connections.leave(use)
        news, self._news = self._news, anyio.Event()
        news.set()

    async def wait(self) -> None:
        """Until somebody leaves."""
        await self._news.wait()

    def make_room(self, use: Use) -> bool:
        """One connection at rest is about to close."""
        return any(give() for giving in self.connections.giving(use) for give in self._gives[giving])


class Room:
    """Of one use. Implements `crawler.ports.ConnectionRoom`, too."""

    def __init__(self, rooms: Rooms, use: Use) -> None:
        self._rooms, self._use = rooms, use

    def take(self) -> Slot | None:
        """At once, or not at all; then whatever is at rest begins to close."""
        slot = self._rooms.take(self._use)
        if slot is None and self._rooms.make_room(self._use):
            slot = self._rooms.take(self._use)
        return slot

    async def enter(self) -> Slot:
        while (slot := self.take()) is None:
            with anyio.move_on_after(CLOSES_S):
                await self._rooms.wait()
        return slot

    def gives(self, give: Give) -> None:
        """Asked when there is no room, until `gives_no_more`."""
        self._rooms.gives(self._use, give)

    def gives_no_more(self, give: Give) -> None:
        self._rooms.gives_no_more(self._use, give)
