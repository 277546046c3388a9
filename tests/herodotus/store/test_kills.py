"""A process is killed while it stores, seals and compacts; what it had acknowledged is there."""

import random
import subprocess
import sys
from pathlib import Path

import pytest

from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from tests.herodotus.store.making import NOW_S, archive_of, page, random_text

ROOT = Path(__file__).parents[3]


def _kill_after(home: Path, first: int, lines: int) -> set[int]:
    """What was acknowledged before the kill; a number is said only after its capture was durable."""
    command = [sys.executable, "-m", "tests.herodotus.store.storing_child", str(home), str(first)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(lines)]
        child.kill()
        # What was in the pipe had been said, too; the last line may be cut.
        said += child.stdout.read().splitlines(keepends=True)
    return {int(line) for line in said if line.endswith("\n")}


def _kill_again_and_again(home: Path, kills: int, rng: random.Random) -> int:
    promised: set[int] = set()
    for _ in range(kills):
        promised |= _kill_after(home, max(promised, default=0) + 1_000, rng.randint(1, 400))
        archive = archive_of(home)
        open_archive(archive)
        reader = Reader(archive)
        for number in promised:
            deposit = page(
                f"http://example.org/{number % 500}",
                NOW_S + number,
                random_text(random.Random(number // 3), 2_000),
            )
            found = reader.read(deposit.id)
            assert found is not None, number
            assert found.body == deposit.capture.body
        archive.close()
    return len(promised)


@pytest.mark.e2e
def test_three_kills_lose_nothing(tmp_path: Path) -> None:
    assert _kill_again_and_again(tmp_path, 3, random.Random(1)) >= 3


@pytest.mark.e2e
@pytest.mark.sweep
@pytest.mark.timeout(3600)
def test_two_hundred_kills_lose_nothing(tmp_path: Path) -> None:
    for home in range(20):  # ten kills to an archive, so that checking all of it stays quick
        assert _kill_again_and_again(tmp_path / str(home), 10, random.Random(home)) >= 10
