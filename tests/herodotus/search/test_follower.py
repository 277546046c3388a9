"""Does a running peer keep its index level, and go on without it when it fails?"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from threading import get_ident

import anyio
import pytest

from dht.core.arcs import NONE, WHOLE, Arcs
from herodotus.core.captures import position_of
from herodotus.core.errors import SearchFailedError
from herodotus.core.search.cover import Arc, keys_of
from herodotus.core.settings.sections import SearchSettings
from herodotus.core.status import SearchStatus
from herodotus.search import follower as following
from herodotus.search import writer as writing
from herodotus.search.follower import Follower, FollowerParts
from herodotus.search.keeper import SPARE_BYTES, Keeper
from herodotus.store.changes import ArchiveChanges
from herodotus.store.engine import Archive
from herodotus.store.threads import ThreadWorkers
from tests.herodotus.search.indexing import URLS, made_anew, rows_of
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryDisk

pytestmark = pytest.mark.anyio


@dataclass
class Running:
    folder: Path
    archive: Archive = field(default_factory=lambda: open_on(MemoryDisk()))
    free: int = SPARE_BYTES
    is_enabled: bool = True
    wanted: Arcs | None = None

    def __post_init__(self) -> None:
        self.follower = Follower(
            FollowerParts(
                folder=self.folder,
                settings=SearchSettings(enabled=self.is_enabled, cpu_share=1.0),
                changes=self.changes,
                workers=ThreadWorkers(),
                free_bytes=lambda: self.free,
                unix_s=lambda: 0.0,
                wanted=lambda: self.wanted,
            )
        )

    async def changes(self) -> ArchiveChanges:
        return ArchiveChanges(self.archive)

    def put(self, day: int) -> None:
        for url in URLS:
            store(self.archive, page(url, NOW_S + day, f"<p>day {day}".encode()))

    async def until(self, is_so: Callable[[SearchStatus], bool]) -> SearchStatus:
        while not is_so(status := await self.follower.status()):
            await anyio.lowlevel.checkpoint()
        return status


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(following, "PERIOD_S", 0.001)
    monkeypatch.setattr(following, "PAUSE_MAX_S", 0.002)
    monkeypatch.setattr(writing, "COMMIT_S", 0.0)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def has(documents: int) -> Callable[[SearchStatus], bool]:
    return lambda status: status.documents == documents and status.state == "level" and not status.waiting


async def test_what_comes_in_is_found_and_after_a_restart_too(tmp_path: Path) -> None:
    running = Running(tmp_path / "words")
    running.put(0)
    with anyio.fail_after(30):
        async with running.follower.running():
            await running.until(has(len(URLS)))
            running.put(1)
            await running.until(has(2 * len(URLS)))
        running.put(2)
        async with running.follower.running():
            await running.until(has(3 * len(URLS)))
            assert running.follower.words is not None
            assert rows_of(running.follower.words) == made_anew(running.archive)
    assert running.follower.words is None


async def test_an_order_makes_the_index_again(tmp_path: Path) -> None:
    running = Running(tmp_path / "words")
    running.put(0)
    with pytest.raises(SearchFailedError):
        running.follower.rebuild()
    with anyio.fail_after(30):
        async with running.follower.running():
            await running.until(has(len(URLS)))
            running.follower.rebuild()
            while [path.name for path in running.folder.iterdir()] != ["2"]:
                await anyio.lowlevel.checkpoint()
            await running.until(has(len(URLS)))


async def test_a_full_disk_is_told_and_the_search_goes_on_when_there_is_room(tmp_path: Path) -> None:
    running = Running(tmp_path / "words", free=0)
    running.put(0)
    with anyio.fail_after(30):
        async with running.follower.running():
            told = await running.until(lambda status: status.state == "resting")
            assert told.problem == "the disk is full: the words of new pages wait for room"
            running.free = SPARE_BYTES
            assert (await running.until(has(len(URLS)))).problem is None


async def test_while_the_disk_is_full_the_words_of_before_answer(tmp_path: Path) -> None:
    running = Running(tmp_path / "words")
    running.put(0)
    with anyio.fail_after(30):
        async with running.follower.running():
            await running.until(has(len(URLS)))
            running.free = 0
            running.put(1)
            told = await running.until(lambda status: status.state == "resting")
            assert told.documents == len(URLS)
            assert running.follower.words is not None
            running.free = SPARE_BYTES
            assert (await running.until(has(2 * len(URLS)))).problem is None


async def test_a_fault_of_the_search_stops_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = Running(tmp_path / "words")
    running.put(0)
    with monkeypatch.context() as faulty, anyio.fail_after(30):

        def fails(*_: object) -> None:
            raise ZeroDivisionError

        faulty.setattr("herodotus.search.writer.document_of", fails)
        async with running.follower.running():
            await running.until(lambda status: status.problem == "ZeroDivisionError: ")
            faulty.undo()
            await running.until(has(len(URLS)))


async def test_a_peer_without_the_search_has_no_index(tmp_path: Path) -> None:
    running = Running(tmp_path / "words", is_enabled=False)
    async with running.follower.running():
        assert await running.follower.status() == SearchStatus()
    assert not running.folder.exists()


async def test_what_failed_is_given_up_away_from_the_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, gave_up, threads = Running(tmp_path / "words"), Keeper.give_up, list[int]()

    def noted(keeper: Keeper) -> None:
        threads.append(get_ident())
        gave_up(keeper)

    def faulty(_: Keeper) -> bool:
        raise OSError("the disk says no")

    monkeypatch.setattr(Keeper, "give_up", noted)
    with monkeypatch.context() as fault, anyio.fail_after(30):
        fault.setattr(Keeper, "step", faulty)
        async with running.follower.running():
            await running.until(lambda _: bool(threads))
    assert get_ident() not in threads


async def test_a_running_peer_takes_in_what_others_ask_it_for(tmp_path: Path) -> None:
    half = keys_of([Arc(0, 1 << 63)])
    running = Running(tmp_path / "words", wanted=half)
    running.put(0)
    inside = sum(position_of(url) in half for url in URLS)
    assert 0 < inside < len(URLS)
    with anyio.fail_after(30):
        async with running.follower.running():
            assert (await running.until(has(inside))).ring_share == 0.5
            running.wanted = None  # as without a line
            running.put(1)
            await running.until(has(2 * inside))
            running.wanted = WHOLE
            assert (await running.until(has(2 * len(URLS)))).ring_share == 1.0
            assert running.follower.answered == WHOLE
    assert running.follower.answered == NONE
