"""Which seats does this peer remember from its last run? It reads `state/seats`, and writes it hourly and at the end.

`herodotus.core.seats` has the bytes, `dht.core.seats` what they mean. The file is replaced in one step. If it is
damaged the peer remembers nobody's seat and asks others; its own is then no longer its own (`SavedSeats.keeps_own`).
"""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio

from dht.core.seats import SeatMemory
from herodotus.core.errors import FileSyntaxError, StorageFailure
from herodotus.core.ports import Clocks
from herodotus.core.seats import (
    FILE_BYTES_MAX,
    DamagedSeatsError,
    SavedSeats,
    decode,
    encode,
    is_of_newer_release,
)
from herodotus.home.durable import set_aside, storage_failure
from herodotus.home.second_copies import read_twice_kept, write_twice

logger = logging.getLogger(__name__)

SAVE_EVERY_S = 3_600.0
"""Seats are taken and lost in days."""


class SeatBook:
    """One for the whole peer."""

    def __init__(self, file: Path, clocks: Clocks) -> None:
        self._file, self._clocks = file, clocks
        self.before = _read(file)
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
        """If the disk does not accept it, the peer continues: the next time may succeed."""
        now = int(self._clocks.unix_s())
        saved = SavedSeats(wall_s=now, has_departed=has_departed, known=self.memory.all())
        try:
            write_twice(self._file, encode(saved))
        except StorageFailure as error:
            logger.warning("the members' seats are not saved error=%s", error)


def _is_sound(data: bytes) -> bool:
    """Or of another release, which is for others to say."""
    try:
        decode(data)
    except DamagedSeatsError:
        return is_of_newer_release(data)
    return True


def _read(file: Path) -> SavedSeats:
    try:
        data = read_twice_kept(file, FILE_BYTES_MAX + 1, _is_sound)
    except OSError as error:
        raise storage_failure(error, file, "read") from error
    if data is None:
        return SavedSeats()
    if is_of_newer_release(data):
        raise FileSyntaxError(
            file=str(file), problem="was written by a newer release", hint="upgrade herodotus"
        )
    try:
        return decode(data)
    except DamagedSeatsError as error:
        logger.warning("the members' seats are asked for again damaged=%s error=%s", file, error)
        try:
            set_aside(file)
        except OSError as failure:
            raise storage_failure(failure, file, "move") from failure
        return SavedSeats()
