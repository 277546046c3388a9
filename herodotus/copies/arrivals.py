"""What was stored here, and which parts hear of it? From the thread that made it durable to ledger and queues.

The number of what was stored changes last: a reader of it that then calls `hear` has heard of all
that is counted in it. So nothing is dropped that no other holder was asked about.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import anyio

from herodotus.copies.backlog import Added
from herodotus.copies.push_queue import Pusher
from herodotus.copies.shared_state import Parts
from herodotus.core.captures import CaptureId
from herodotus.core.index_rows import capture_key
from herodotus.core.ports import Workers
from herodotus.store import Bell, current_bell

ACKNOWLEDGE_S = 60.0
"""So long a store waits for other holders, where it waits for them."""


class Arrivals:
    """`write` makes the list of what is to be sent durable; without one it is not kept."""

    def __init__(
        self, parts: Parts, pusher: Pusher, write: Callable[[Added], Awaitable[None]] | None = None
    ) -> None:
        self._parts = parts
        self._pusher = pusher
        self._write = write
        self._fresh: deque[tuple[bytes, bool]] = deque()
        """Keys, and whether another holder sent it."""
        self._unwritten: deque[Added] = deque()
        self._arrived = anyio.Event()
        self._bell: Bell
        self.stored = 0

    def listen(self, workers: Workers) -> None:
        """In the loop that `run` is in, before anything is stored."""
        self._bell = current_bell(workers)

    def on_stored(self, ids: Sequence[CaptureId]) -> None:
        """In the thread that made it durable."""
        for id_ in ids:
            key = capture_key(id_)
            self._fresh.append((key[1:], key in self._parts.receiving))
        self.stored += len(ids)
        self._bell.ring(self._note_fresh)

    def _note_fresh(self) -> None:
        self._arrived.set()

    def hear(self) -> None:
        """Nobody is known to have what just came here; what no holder sent is on its way to them."""
        keys: list[bytes] = []
        while self._fresh:
            key, is_copy = self._fresh.popleft()
            self._parts.ledger.stored(key)
            if not is_copy:
                keys.append(key)
        if keys:
            self._unwritten.append(self._pusher.add_fresh(keys))
            self._arrived.set()

    async def run(self) -> None:
        while True:
            await self._arrived.wait()
            self._arrived = anyio.Event()
            self.hear()
            while self._unwritten:
                added = self._unwritten.popleft()
                if self._write is not None:
                    await self._write(added)

    async def wait_copied(self, id_: CaptureId) -> None:
        """Until every holder of a capture that can be reached has it, or has said why not; some time at most."""
        self.hear()
        with anyio.move_on_after(ACKNOWLEDGE_S):
            await self._pusher.wait_settled(capture_key(id_)[1:])
