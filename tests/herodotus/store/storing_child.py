"""A process that stores until it is killed, and says what was acknowledged: one line of JSON each."""

import itertools
import random
import sys
from pathlib import Path

import anyio

from herodotus.core.bundles import Visit
from herodotus.machine import Machine
from herodotus.store.settings import ArchiveSettings
from herodotus.store.store import DiskStore, open_store
from tests.herodotus.store.making import NOW_S, archive_of, page, random_text

WRITERS = 16


async def write(store: DiskStore, rng: random.Random, numbers: "itertools.count[int]") -> None:
    for number in numbers:
        # One in three repeats a body, so that revisits refer to what was stored a moment ago.
        body = random_text(random.Random(number // 3), 2_000)
        deposit = page(f"http://example.org/{number % 500}", NOW_S + number, body)
        await store.store(deposit)
        print(number, flush=True)  # noqa: T201 - this is how the parent hears of it
        if rng.random() < 0.05:
            await store.note_visits([Visit(url=deposit.capture.url, time_s=NOW_S + number + 1, status=304)])


async def seal_now_and_then(store: DiskStore) -> None:
    while True:
        await anyio.sleep(0.2)
        await store.seal()
        await store.compact()


async def main(home: Path, first: int) -> None:
    settings = ArchiveSettings(log_bytes_max=300_000, index_flush_bytes=200_000)
    numbers = itertools.count(first)
    async with open_store(archive_of(home, settings), Machine()) as store, anyio.create_task_group() as tasks:
        tasks.start_soon(seal_now_and_then, store)
        for writer in range(WRITERS):
            tasks.start_soon(write, store, random.Random(writer), numbers)


if __name__ == "__main__":
    anyio.run(main, Path(sys.argv[1]), int(sys.argv[2]))
