"""A process is killed while it stores and indexes; its index becomes the one that is made anew from the archive."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from dht.core.arcs import WHOLE
from herodotus.search.keeper import SPARE_BYTES, Keeper
from herodotus.store.changes import ArchiveChanges
from herodotus.store.recovery import open_archive
from tests.herodotus.search.indexing import made_anew, rows_of
from tests.herodotus.store.making import archive_of

ROOT = Path(__file__).parents[3]


def _kill_after(home: Path, seed: int, lines: int) -> None:
    command = [sys.executable, "-m", "tests.herodotus.search.indexing_child", str(home), str(seed)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert [child.stdout.readline() for _ in range(lines)][-1]
        child.kill()


def _check(home: Path) -> int:
    archive = archive_of(home)
    open_archive(archive)
    now_s = 0.0
    keeper = Keeper(
        home / "words",
        ArchiveChanges(archive),
        now=lambda: now_s,
        free_bytes=lambda: SPARE_BYTES,
        unix_s=lambda: now_s,
    )
    keeper.wanted = WHOLE
    while keeper.step():
        pass
    now_s = 100.0
    while keeper.step():
        pass
    found = rows_of(keeper.words)
    assert found == made_anew(archive)
    keeper.close(may_go_on=lambda: True)
    archive.close()
    return len(found)


def _kill_again_and_again(home: Path, kills: int, chance: random.Random) -> None:
    for seed in range(kills):
        _kill_after(home, seed, chance.randint(1, 60))
        assert _check(home)


@pytest.mark.e2e
def test_two_kills_leave_the_documents_of_an_index_made_anew(tmp_path: Path) -> None:
    _kill_again_and_again(tmp_path, 2, random.Random(3))


@pytest.mark.e2e
@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_a_hundred_kills_leave_the_documents_of_an_index_made_anew(tmp_path: Path) -> None:
    for home in range(10):
        _kill_again_and_again(tmp_path / str(home), 10, random.Random(home))
