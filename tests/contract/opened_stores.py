"""The implementations of the store's faces: on files and RocksDB with threads, and on bytes in memory without any."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from herodotus.machine import Machine
from herodotus.store.disk import OsDisk
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.index import RocksIndex
from herodotus.store.store import DiskStore, open_store
from tests.herodotus.store.making import NOW_S
from tests.herodotus.store.memory_store import MemoryStore

KINDS = ("disk", "memory")


@asynccontextmanager
async def opened_store(kind: str, folder: Path) -> AsyncIterator[DiskStore]:
    if kind == "memory":
        yield MemoryStore(lambda: float(NOW_S))
        return
    (folder / "archive").mkdir()
    archive = Archive(
        Files([OsDisk(folder / "archive")]), RocksIndex(folder / "index"), now=lambda: float(NOW_S)
    )
    async with open_store(archive, Machine()) as store:
        yield store
