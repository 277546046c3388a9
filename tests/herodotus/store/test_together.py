"""Storing, reading, deleting, sealing, compacting at once, on threads: nothing is lost or comes back."""

import random
from pathlib import Path

import anyio
import pytest

from herodotus.core.captures import CaptureId
from herodotus.machine import Machine
from herodotus.store.intake import StoreOutcome
from herodotus.store.settings import ArchiveSettings
from herodotus.store.store import DiskStore, open_store
from herodotus.store.streams import Query
from tests.herodotus.store.making import NOW_S, archive_of, page, random_text

pytestmark = pytest.mark.anyio
STORES = 400


class Everything:
    """What was promised, while several tasks work on one store."""

    def __init__(self, store: DiskStore) -> None:
        self.store = store
        self.bodies: dict[CaptureId, bytes] = {}
        self.deleted: set[CaptureId] = set()
        self.is_done = False

    async def write(self, writer: int) -> None:
        rng = random.Random(writer)
        for n in range(STORES // 4):
            # Few bodies, so that originals with many revisits are deleted under those that are being stored.
            body = random_text(random.Random(rng.randrange(12)), 1_000)
            deposit = page(f"http://example.org/{rng.randrange(40)}", NOW_S + 4 * n + writer, body)
            stored = await self.store.store(deposit)
            assert stored.outcome in (StoreOutcome.NEW, StoreOutcome.REVISIT)
            self.bodies[deposit.id] = deposit.capture.body

    async def delete(self) -> None:
        rng = random.Random(99)
        while not self.is_done:
            live = [id_ for id_ in self.bodies if id_ not in self.deleted]
            if live:
                victim = rng.choice(live)
                self.deleted.add(victim)
                assert await self.store.delete([victim]) == 1
            await anyio.lowlevel.checkpoint()

    async def tidy(self) -> None:
        while not self.is_done:
            await self.store.seal()
            await self.store.compact()

    async def read(self) -> None:
        rng = random.Random(7)
        while not self.is_done:
            if self.bodies:
                id_ = rng.choice(list(self.bodies))
                found = await self.store.read(id_)
                if id_ not in self.deleted:
                    assert found is not None
                    assert found.body == self.bodies[id_]
            await anyio.lowlevel.checkpoint()


async def test_everything_at_once(tmp_path: Path) -> None:
    settings = ArchiveSettings(log_bytes_max=60_000, index_flush_bytes=40_000)
    async with open_store(archive_of(tmp_path, settings), Machine()) as store:
        everything = Everything(store)
        async with anyio.create_task_group() as background:
            background.start_soon(everything.delete)
            background.start_soon(everything.tidy)
            background.start_soon(everything.read)
            async with anyio.create_task_group() as writers:
                for writer in range(4):
                    writers.start_soon(everything.write, writer)
            everything.is_done = True
        live = {id_: body for id_, body in everything.bodies.items() if id_ not in everything.deleted}
        for state in ("as it is", "rebuilt"):
            seen = {capture.id: capture.body async for capture in store.stream(Query())}
            assert seen == live, state
            assert (await store.statistics()).captures == len(live)
            assert (await store.verify()).is_sound
            await store.rebuild()
