"""A file that is gone or was cut is noticed, is no claim to others any more, and stays a loss until it is mended."""

import json
import os
import random
import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from herodotus.core.captures import Deposit
from herodotus.core.index_rows import capture_key
from herodotus.core.manifest import SLOT_BYTES
from herodotus.store.companions import make_missing_lists
from herodotus.store.deletion import delete
from herodotus.store.engine import Archive
from herodotus.store.holdings import digests_of
from herodotus.store.intake import Intake
from herodotus.store.log import TAIL_PATH
from herodotus.store.mending import accept, came, look
from herodotus.store.reader import Reader
from herodotus.store.recovery import notice, open_archive, rebuild
from herodotus.store.sealing import seal
from herodotus.store.slices import add_slice, archive_at
from herodotus.store.verification import verify
from tests.herodotus.operate.cli.test_archive import run
from tests.herodotus.store.making import NOW_S, archive_of, page, random_text, store

COUNT = 30


def _pages(count: int = COUNT, start: int = 0) -> list[Deposit]:
    rng = random.Random(9)
    return [
        page(f"http://example.org/{n}", NOW_S + n, random_text(rng, 800)) for n in range(start, start + count)
    ]


def _open(home: Path) -> Archive:
    archive = archive_of(home)
    open_archive(archive)
    return archive


def _stored(home: Path, deposits: Sequence[Deposit], *, is_sealed: bool = False) -> None:
    archive = _open(home)
    for at in range(0, len(deposits), 10):
        store(archive, *deposits[at : at + 10])
    if is_sealed:
        seal(archive)
    archive.close()


def _logs(home: Path) -> list[Path]:
    return sorted((home / "archive" / "log").iterdir())


def _segments(home: Path) -> list[Path]:
    return sorted((home / "archive" / "segments").rglob("*.warc.*"))


def _held(archive: Archive, deposits: Sequence[Deposit]) -> list[Deposit]:
    reader = Reader(archive)
    return [
        one for one in deposits if archive.index.get(capture_key(one.id)) and reader.read(one.id) is not None
    ]


def _halve(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("index_is_lost", [False, True])
def test_a_log_that_is_gone_is_a_loss_until_its_captures_are_back(
    tmp_path: Path, index_is_lost: bool
) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits)
    _logs(tmp_path)[-1].unlink()
    if index_is_lost:
        shutil.rmtree(tmp_path / "index")
    archive = _open(tmp_path)
    found = verify(archive)
    assert not found.is_sound
    assert [(loss.path, loss.captures, loss.what) for loss in found.losses] == [
        ("log/00000001.warc.gz", COUNT, "is gone")
    ]
    assert found.lost == COUNT
    assert digests_of(archive, b"", None) == {}
    assert archive.log.number > 1
    assert look(archive, lambda key: True) == COUNT
    store(archive, *deposits)
    if index_is_lost:  # they came from elsewhere, and all others were asked
        for deposit in deposits:
            came(archive, deposit.id)
        assert look(archive) == COUNT
        assert look(archive, lambda key: True) == 0
    assert verify(archive).is_sound
    archive.close()
    assert verify(_open(tmp_path)).is_sound


@pytest.mark.parametrize("index_is_lost", [False, True])
def test_a_log_that_was_cut_in_half_is_a_loss_of_what_was_behind(tmp_path: Path, index_is_lost: bool) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits)
    _halve(_logs(tmp_path)[-1])
    if index_is_lost:
        shutil.rmtree(tmp_path / "index")
    archive = _open(tmp_path)
    there = _held(archive, deposits)
    assert 0 < len(there) < COUNT
    found = verify(archive)
    assert not found.is_sound
    assert found.damaged == 0
    assert found.lost == COUNT - len(there)
    store(archive, *(one for one in deposits if one not in there))
    if not index_is_lost:
        assert verify(archive).is_sound
    assert len(_held(archive, deposits)) == COUNT
    archive.close()
    again = _open(tmp_path)
    assert len(_held(again, deposits)) == COUNT
    assert verify(again).is_sound is not index_is_lost


@pytest.mark.parametrize("is_cut", [False, True])
def test_a_segment_that_is_gone_or_cut_is_a_loss_of_its_captures(tmp_path: Path, is_cut: bool) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits, is_sealed=True)
    victim = max(_segments(tmp_path), key=lambda path: path.stat().st_size)
    if is_cut:
        _halve(victim)
    else:
        victim.unlink()
    archive = _open(tmp_path)
    there = _held(archive, deposits)
    assert len(there) < COUNT
    found = verify(archive)
    assert [loss.path for loss in found.losses] == [str(victim.relative_to(tmp_path / "archive"))]
    assert found.lost == COUNT - len(there)
    store(archive, *(one for one in deposits if one not in there))
    assert verify(archive).is_sound
    assert len(_held(archive, deposits)) == COUNT


def test_the_log_before_the_last_is_missed_as_well(tmp_path: Path) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits[:20])
    archive = _open(tmp_path)
    archive.roll()
    store(archive, *deposits[20:])
    archive.close()
    _logs(tmp_path)[0].unlink()
    archive = _open(tmp_path)
    assert verify(archive).lost == 20
    assert len(_held(archive, deposits)) == 10


def test_a_rebuilt_index_keeps_the_loss_and_the_names(tmp_path: Path) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits)
    _halve(_logs(tmp_path)[-1])
    archive = _open(tmp_path)
    lost = verify(archive).lost
    rebuild(archive)
    assert verify(archive).lost == lost
    found = verify(archive, repair=True)
    assert found.is_repaired
    assert not found.is_sound
    store(archive, *deposits)
    assert verify(archive).is_sound


def test_a_file_that_comes_back_is_read_again_and_the_loss_is_closed(tmp_path: Path) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits)
    log = _logs(tmp_path)[-1]
    kept = log.read_bytes()
    log.unlink()
    archive = _open(tmp_path)
    assert verify(archive).lost == COUNT
    store(archive, *_pages(5, 100))
    archive.close()
    log.write_bytes(kept)
    archive = _open(tmp_path)
    assert verify(archive).is_sound
    assert len(_held(archive, deposits)) == COUNT
    assert len(_held(archive, _pages(5, 100))) == 5


def test_a_file_that_goes_while_the_archive_is_open_is_noticed(tmp_path: Path) -> None:
    deposits = _pages()
    archive = _open(tmp_path)
    store(archive, *deposits)
    assert not notice(archive)
    _logs(tmp_path)[-1].unlink()
    found = verify(archive)
    assert found.lost == COUNT
    store(archive, *deposits)
    assert verify(archive).is_sound
    archive.close()
    assert len(_held(_open(tmp_path), deposits)) == COUNT


def test_deleted_captures_are_not_waited_for(tmp_path: Path) -> None:
    deposits = _pages()
    archive = _open(tmp_path)
    store(archive, *deposits)
    delete(archive, Intake(archive), [one.id for one in deposits[:10]])
    archive.close()
    _logs(tmp_path)[-1].unlink()
    assert verify(_open(tmp_path)).lost == 20


def test_the_operator_may_give_up_what_nobody_has(tmp_path: Path) -> None:
    _stored(tmp_path, _pages())
    _logs(tmp_path)[-1].unlink()
    archive = _open(tmp_path)
    assert accept(archive) == COUNT
    assert verify(archive).is_sound
    archive.close()
    assert verify(_open(tmp_path)).is_sound


# -- the manifest itself is hurt --------------------------------------------------------------------------


def _tear(path: Path, slot: int) -> None:
    data = bytearray(path.read_bytes())
    data[slot * SLOT_BYTES + 3] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("slot", [0, 1])
def test_a_torn_slot_is_no_loss_and_the_other_one_serves(tmp_path: Path, slot: int) -> None:
    _stored(tmp_path, _pages())
    _tear(tmp_path / "archive" / TAIL_PATH, slot)
    shutil.copytree(tmp_path, tmp_path / "copy")
    assert verify(_open(tmp_path)).is_sound
    _logs(tmp_path / "copy")[-1].unlink()
    lost = verify(_open(tmp_path / "copy")).lost
    assert lost == COUNT


@pytest.mark.parametrize(
    "gone",
    [
        ("archive/manifest/tail",),
        ("archive/manifest/files",),
        ("state/manifest",),
        ("archive/manifest/files", "state/manifest"),
        ("archive/manifest/tail", "archive/manifest/files", "state/manifest"),
        ("archive/manifest/tail", "archive/manifest/files", "state/manifest", "index"),
    ],
)
@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_manifest_that_is_gone_is_no_loss_and_is_made_again(
    tmp_path: Path, gone: tuple[str, ...], is_sealed: bool
) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits, is_sealed=is_sealed)
    for name in gone:
        path = tmp_path / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    archive = _open(tmp_path)
    assert verify(archive).is_sound
    archive.close()
    (_segments(tmp_path) if is_sealed else _logs(tmp_path))[-1].unlink()
    archive = _open(tmp_path)
    assert verify(archive).lost == COUNT - len(_held(archive, deposits)) > 0


@pytest.mark.parametrize("gone", ["archive/manifest/tail", "archive/manifest/files", "state/manifest"])
def test_a_lost_log_is_noticed_by_what_is_left_of_the_manifest(tmp_path: Path, gone: str) -> None:
    _stored(tmp_path, _pages())
    (tmp_path / gone).unlink()
    _logs(tmp_path)[-1].unlink()
    assert verify(_open(tmp_path)).lost == COUNT


def test_the_index_alone_still_tells_what_went(tmp_path: Path) -> None:
    _stored(tmp_path, _pages())
    shutil.rmtree(tmp_path / "archive" / "manifest")
    (tmp_path / "state" / "manifest").unlink()
    _logs(tmp_path)[-1].unlink()
    assert verify(_open(tmp_path)).lost == COUNT


@pytest.mark.parametrize("index_is_lost", [False, True])
def test_an_old_manifest_beside_newer_files_is_no_loss(tmp_path: Path, index_is_lost: bool) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits[:10])
    shutil.copytree(tmp_path / "archive" / "manifest", tmp_path / "old")
    shutil.copy(tmp_path / "state" / "manifest", tmp_path / "old" / "copy")
    _stored(tmp_path, deposits[10:20], is_sealed=True)
    _stored(tmp_path, deposits[20:])
    for name in ("tail", "files"):
        shutil.copy(tmp_path / "old" / name, tmp_path / "archive" / "manifest" / name)
    shutil.copy(tmp_path / "old" / "copy", tmp_path / "state" / "manifest")
    if index_is_lost:
        shutil.rmtree(tmp_path / "index")
    archive = _open(tmp_path)
    assert verify(archive).is_sound
    assert archive.lost_files.open == ()
    assert len(_held(archive, deposits)) == COUNT


def test_old_logs_beside_a_newer_manifest_are_a_loss(tmp_path: Path) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits[:10])
    shutil.copytree(tmp_path / "archive" / "log", tmp_path / "old")
    _stored(tmp_path, deposits[10:])
    shutil.rmtree(tmp_path / "archive" / "log")
    shutil.copytree(tmp_path / "old", tmp_path / "archive" / "log")
    assert verify(_open(tmp_path)).lost == 20


def test_a_log_with_other_bytes_of_that_length_is_noticed(tmp_path: Path) -> None:
    _stored(tmp_path, _pages(10))
    log = _logs(tmp_path)[-1]
    archive = _open(tmp_path)
    store(archive, *_pages(10, 10))
    archive.close()
    data = bytearray(log.read_bytes())
    data[-200:] = bytes(200)
    log.write_bytes(data)
    archive = _open(tmp_path)
    assert archive.counters.damaged > 0
    assert log.stat().st_size == len(data), "what was durable once is not cut away"


def test_the_whole_archive_folder_may_go(tmp_path: Path) -> None:
    deposits = _pages()
    _stored(tmp_path, deposits, is_sealed=True)
    numbers = {path.name for path in _logs(tmp_path)}
    shutil.rmtree(tmp_path / "archive")
    archive = _open(tmp_path)
    assert verify(archive).lost == COUNT
    assert numbers.isdisjoint(path.name for path in _logs(tmp_path)), "its numbers are not given again"
    store(archive, *deposits)
    assert verify(archive).is_sound


def test_a_lost_book_of_losses_is_made_again_from_the_names(tmp_path: Path) -> None:
    _stored(tmp_path, _pages())
    _logs(tmp_path)[-1].unlink()
    _open(tmp_path).close()
    (tmp_path / "state" / "losses").unlink()
    assert verify(_open(tmp_path)).lost == COUNT


def test_a_lost_index_leaves_the_number(tmp_path: Path) -> None:
    _stored(tmp_path, _pages())
    _logs(tmp_path)[-1].unlink()
    _open(tmp_path).close()
    shutil.rmtree(tmp_path / "index")
    assert verify(_open(tmp_path)).lost == COUNT


def test_the_list_of_a_segment_that_is_gone_or_changed_is_made_again_to_the_byte(tmp_path: Path) -> None:
    _stored(tmp_path, _pages(), is_sealed=True)
    lists = sorted((tmp_path / "archive").rglob("*.cdxj"))
    kept = [path.read_bytes() for path in lists]
    lists[0].unlink()
    archive = _open(tmp_path)
    assert make_missing_lists(archive) == [str(lists[0].relative_to(tmp_path / "archive"))]
    lists[1].write_bytes(kept[1][:-9])
    found = verify(archive)
    assert found.lists == [str(lists[1].relative_to(tmp_path / "archive"))]
    assert found.is_sound
    assert [path.read_bytes() for path in lists] == kept


def test_a_slice_that_is_away_is_no_loss_and_a_file_of_it_that_is_gone_is_one(tmp_path: Path) -> None:
    home, disk = tmp_path / "home", tmp_path / "disk"
    (home / "archive").mkdir(parents=True)
    disk.mkdir()
    add_slice(home / "archive", disk)
    deposits = _pages()
    _stored(home, deposits, is_sealed=True)
    away = disk.rename(tmp_path / "elsewhere")
    archive = _open(home)
    assert verify(archive).losses == []
    archive.close()
    away.rename(disk)
    archive = _open(home)
    assert verify(archive).is_sound
    archive.close()
    victim = max(disk.rglob("*.warc.zst"))
    victim.unlink()
    archive = _open(home)
    found = verify(archive)
    assert [(loss.path, loss.slice) for loss in found.losses] == [(str(victim.relative_to(disk)), 1)]
    assert found.lost == COUNT - len(_held(archive, deposits))


def test_a_clock_that_leaps_neither_raises_nor_ends_an_alarm(tmp_path: Path) -> None:
    _stored(tmp_path, _pages())
    archive = archive_at(tmp_path, lambda: 1.0)
    open_archive(archive)
    assert verify(archive).is_sound
    store(archive, *_pages(3, 50))
    archive.close()
    _logs(tmp_path)[-1].unlink()
    shutil.rmtree(tmp_path / "index")
    archive = archive_at(tmp_path, lambda: 4_000_000_000.0)
    open_archive(archive)
    assert verify(archive).lost == COUNT + 3
    store(archive, *_pages(40, 100))  # crawled here: nobody sent them
    assert look(archive, lambda key: True) == COUNT + 3


def test_the_command_names_the_file_and_fails_until_the_loss_is_given_up(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert run(home, "verify").exit_code == 0
    _stored(home, _pages())
    _logs(home)[-1].unlink()
    found = run(home, "verify")
    assert found.exit_code == 1
    assert f"log/00000001.warc.gz is gone: {COUNT} of its {COUNT} lost captures are not back" in found.output
    facts = json.loads(run(home, "verify", "--json").stdout)
    assert (facts["is_sound"], facts["lost"]) == (False, COUNT)
    assert run(home, "rebuild-index").exit_code == 0
    assert run(home, "verify", "--repair").exit_code == 1
    assert run(home, "verify", "--give-up").exit_code == 0
    assert run(home, "verify").exit_code == 0
