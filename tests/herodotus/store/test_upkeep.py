"""The log of a running peer becomes segments, and a peer that stops does not wait for it."""

import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from herodotus.core.captures import Deposit
from herodotus.core.errors import StoreRefusedError, UpkeepStoppedError
from herodotus.machine import Machine
from herodotus.store.sealing import NOTHING
from herodotus.store.settings import ArchiveSettings
from herodotus.store.store import DiskStore, open_store
from herodotus.store.upkeep import keep_tidy, tidy, tidy_before_leaving
from tests.herodotus.store.making import NOW_S, archive_of, page, random_text

pytestmark = pytest.mark.anyio


def _pages(count: int) -> list[Deposit]:
    rng = random.Random(1)
    return [page(f"http://example.org/{n}", NOW_S + n, random_text(rng, 900)) for n in range(count)]


@asynccontextmanager
async def _holding(folder: Path, deposits: list[Deposit]) -> AsyncIterator[DiskStore]:
    async with open_store(archive_of(folder), Machine()) as store:
        async with anyio.create_task_group() as tasks:
            for deposit in deposits:
                tasks.start_soon(store.store, deposit)
        yield store
        for deposit in deposits:
            assert await store.read(deposit.id) is not None


async def test_a_log_is_sealed_when_it_is_long_enough_and_not_before(tmp_path: Path) -> None:
    async with _holding(tmp_path, _pages(40)) as store:
        assert await tidy(store, from_bytes=1_000_000) is NOTHING
        assert store.archive.files.segments() == []
        assert (await tidy(store, from_bytes=1_000)).captures == 40
        assert store.archive.files.segments() != []
        assert await tidy(store, from_bytes=1_000) is NOTHING


async def test_what_was_deleted_makes_the_room_that_sealing_lacks(tmp_path: Path) -> None:
    first, second = _pages(40)[:20], _pages(40)[20:]
    async with _holding(tmp_path, []) as store:
        for deposit in first:
            await store.store(deposit)
        assert (await tidy(store, from_bytes=1)).captures == 20
        for deposit in second:
            await store.store(deposit)
        store.archive.free_on = lambda slice_: 0  # type: ignore[method-assign]
        await store.delete([deposit.id for deposit in first])
        with pytest.raises(StoreRefusedError, match="no room for"):
            await tidy(store, from_bytes=1)
        assert store.archive.files.segments() == []
        del store.archive.free_on
        assert (await tidy(store, from_bytes=1)).captures == 20
        for deposit in second:
            assert await store.read(deposit.id) is not None
        await store.rebuild()
        assert await store.read(first[0].id) is None


async def test_a_peer_looks_by_itself(tmp_path: Path) -> None:
    async with _holding(tmp_path, _pages(40)) as store:
        with anyio.fail_after(30):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(keep_tidy, store, 0.01, 1_000)
                while not store.archive.files.segments():
                    await anyio.lowlevel.checkpoint()
                store.end_upkeep()
                tasks.cancel_scope.cancel()


async def test_sealing_is_given_up_when_the_peer_stops_and_done_by_the_next(tmp_path: Path) -> None:
    deposits = _pages(40)
    async with _holding(tmp_path, deposits) as store:
        store.end_upkeep()
        with pytest.raises(UpkeepStoppedError):
            await tidy(store, from_bytes=1_000)
        assert store.archive.files.segments() == []
    async with _holding(tmp_path, []) as again:
        assert (await tidy(again, from_bytes=1_000)).captures == 40
        assert all([await again.read(deposit.id) is not None for deposit in deposits])


async def test_a_command_that_stored_seals_before_it_ends(tmp_path: Path) -> None:
    async with _holding(tmp_path, _pages(40)) as store:
        assert await tidy_before_leaving(store, from_bytes=1_000_000) is NOTHING
    async with _holding(tmp_path, _pages(80)) as store:
        assert (await tidy_before_leaving(store, from_bytes=10_000)).captures == 80


async def test_tidying_before_leaving_ends_at_once_when_it_is_cancelled(tmp_path: Path) -> None:
    settings = ArchiveSettings(upkeep_bytes_per_s=1_000)  # some minutes for what is sealed here
    async with open_store(archive_of(tmp_path, settings), Machine()) as store:
        for deposit in (deposits := _pages(200)):
            await store.store(deposit)
        with anyio.fail_after(20), anyio.move_on_after(0.5) as waited:
            assert await tidy_before_leaving(store, from_bytes=10_000) is NOTHING
        assert waited.cancel_called
        assert not store.archive.files.segments()
        for deposit in deposits:
            assert await store.read(deposit.id) is not None


async def test_a_command_whose_archive_cannot_be_sealed_ends_well(tmp_path: Path) -> None:
    async with _holding(tmp_path, _pages(40)) as store:
        store.archive.refusal = "the disk cannot be written"
        assert await tidy_before_leaving(store, from_bytes=1_000) is NOTHING
