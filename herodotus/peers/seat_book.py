"""Which seats does this peer remember from its last run? It reads `state/seats`, and writes it hourly and at the end.

`herodotus.core.seats` has the bytes, `dht.core.seats` what they mean. The file is replaced in one step. If it is
damaged the peer remembers nobody's seat and asks others; its own is then no longer its own (`SavedSeats.keeps_own`).
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from dht.core.seats import SeatMemory
from herodotus.core.ports import Clocks
from herodotus.core.seats import (
    FILE_BYTES_MAX,
    DamagedSeatsError,
    SavedSeats,
    decode,
    encode,
    is_of_newer_release,
)
from herodotus.home.checked_files import CheckedFile

SAVE_EVERY_S = 3_600.0
"""Seats are taken and lost in days."""


class SeatBook:
    """One for the whole peer."""

    def __init__(self, file: Path, clocks: Clocks) -> None:
        self._clocks = clocks
        self._file = CheckedFile(
            path=file,
            bytes_max=FILE_BYTES_MAX,
            decode=decode,
            damaged=DamagedSeatsError,
            encode=encode,
            is_of_newer_release=is_of_newer_release,
            content="the members' seats",
        )
        self.before = self._file.read() or SavedSeats()
        """Of the last run."""
        self.memory = SeatMemory(self.before.known)

    @asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Leaving says that the peer has said goodbye."""
        self.save()  # that it runs: if it is killed, it has not said goodbye
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._keep)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self.save(has_departed=True)

    async def _keep(self) -> None:
        while True:
            await anyio.sleep(SAVE_EVERY_S)
            self.save()

    def save(self, *, has_departed: bool = False) -> None:
        now = int(self._clocks.unix_s())
        self._file.write(SavedSeats(wall_s=now, has_departed=has_departed, known=self.memory.all()))
