"""A process is killed while it stores, seals and compacts; what it had acknowledged is there."""

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest

from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from tests.herodotus.operate.cli.processes import HERODOTUS, called, new_home
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import warc_of
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


def _remove(home: Path, *options: str) -> list[str]:
    return [HERODOTUS, "remove", "--home", str(home), "--host", "gone.example", *options]


def _shown(home: Path, host: str) -> int:
    found = called(
        "export", "--home", home, "--warc", home / "out.warc.gz", "--url", f"http://{host}/*", "--json"
    )
    return int(found.json["captures"]) if found.code == 0 else 0


@pytest.mark.e2e
def test_removing_that_is_killed_again_and_again_hides_whole_or_not_and_erases_in_the_end(
    tmp_path: Path,
) -> None:
    rng = random.Random(1)
    home = new_home(tmp_path / "home")
    made = tmp_path / "made"
    pages = [
        response(f"http://{host}/{n}", "20260101", b"%s %d " % (host.encode(), n) * 40)
        for host in ("gone.example", "stays.example")
        for n in range(400)
    ]
    assert called("import", "--home", home, warc_of(made, *pages)).code == 0
    rules = home / "state" / "removed.json"
    for options in ((), ("--erase", "--yes")):
        for _ in range(2):
            with subprocess.Popen(_remove(home, *options), stderr=subprocess.DEVNULL) as child:
                delay = rng.uniform(0.3, 1.2)
                try:
                    child.wait(delay)
                except subprocess.TimeoutExpired:
                    child.kill()
            is_ruled = rules.exists() and bool(json.loads(rules.read_bytes())["rules"])
            left = _shown(home, "gone.example")
            assert left == (0 if is_ruled else 400), "hidden as a whole, or not at all"
            assert _shown(home, "stays.example") == 400
    assert called("remove", "--home", home, "--host", "gone.example", "--erase", "--yes").code == 0
    assert json.loads(rules.read_bytes())["rules"][0]["state"] == "erased"
    verified = called("verify", "--home", home, "--json").json
    assert verified["is_sound"]
    assert (_shown(home, "gone.example"), _shown(home, "stays.example")) == (0, 400)
    assert called("stats", "--home", home, "--json").json["captures"] == 400
