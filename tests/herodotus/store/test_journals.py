"""Is a swap of files carried out wholly or not at all, also where a part of it is away or was never copied?"""

import errno
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from herodotus.core.captures import Deposit
from herodotus.core.errors import StoreRefusedError, UnusableArchiveError
from herodotus.store.disk import Disk, OsDisk
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.intake import StoreOutcome
from herodotus.store.journal import write_journal
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from herodotus.store.sealing import seal
from herodotus.store.verification import verify
from simnet.world.disk import Failure, PowerCut, SimulatedDisk
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryIndex

DEPOSITS = [page(f"http://example.org/{n}", NOW_S + n, b"body %d" % n) for n in range(40)]
"""In all buckets, so that every slice gets some of them."""


def _open(disks: Sequence[Disk | None]) -> Archive:
    archive = Archive(Files(disks), MemoryIndex(), now=lambda: float(NOW_S))
    open_archive(archive)
    return archive


def _lacking(archive: Archive) -> list[Deposit]:
    reader = Reader(archive)
    return [deposit for deposit in DEPOSITS if reader.read(deposit.id) is None]


class _Dying(OsDisk):
    """The process ends as soon as the journal is written."""

    def rename(self, source: str, target: str) -> None:
        if not target.startswith("journal/") and any((self.root / "journal").iterdir()):
            raise PowerCut
        super().rename(source, target)


@pytest.mark.parametrize("away", [1, 2])
def test_a_decided_swap_waits_for_a_slice_that_is_away(away: int, tmp_path: Path) -> None:
    disks = [_Dying(tmp_path / str(n)) for n in range(3)]
    for disk in disks:
        disk.root.mkdir()
    archive = _open(disks)
    store(archive, *DEPOSITS)
    with suppress(PowerCut):
        seal(archive)
    assert any((tmp_path / "0" / "journal").iterdir())
    whole: list[Disk | None] = [OsDisk(disk.root) for disk in disks]
    _open([disk if n != away else None for n, disk in enumerate(whole)]).close()
    again = _open(whole)
    assert _lacking(again) == []
    assert verify(again).is_sound
    assert not any((tmp_path / "0" / "journal").iterdir())


def test_a_journal_that_was_copied_without_the_new_files_takes_no_old_ones_away(tmp_path: Path) -> None:
    """Folder by folder, while the log was being sealed."""
    home, copy = tmp_path / "home", tmp_path / "copy"
    home.mkdir()
    index = MemoryIndex()
    archive = open_on(home, index)
    store(archive, *DEPOSITS[:20])
    seal(archive)
    store(archive, *DEPOSITS[20:])
    shutil.copytree(home / "segments", copy / "segments")
    segments = archive.files.segments()
    log = archive.log.number
    shutil.copytree(home / "log", copy / "log")
    seal(archive)
    new = [number for number in archive.files.segments() if number not in segments]
    (copy / "journal").mkdir()
    places = [(0, archive.files.path(number)) for number in new]
    write_journal(Files([OsDisk(copy)]), 2, places, [(0, f"log/{log:08}.warc.gz")])
    again = open_on(copy, MemoryIndex(index.content()))
    assert _lacking(again) == []
    assert verify(again).is_sound
    assert list((copy / "journal").iterdir()) == []


@pytest.mark.parametrize("name", ["notes.txt", "._000002.txt", "1.txt"])
def test_a_file_of_others_beside_the_journals_is_left_alone(name: str, tmp_path: Path) -> None:
    store(open_on(tmp_path), *DEPOSITS)
    (tmp_path / "journal" / name).write_bytes(b"\x00\x05\x16\x07\xff")
    again = open_on(tmp_path)
    seal(again)
    assert _lacking(again) == []
    assert (tmp_path / "journal" / name).read_bytes() == b"\x00\x05\x16\x07\xff"


@pytest.mark.parametrize(
    "content",
    [b"", b"install 0 segments/a/x", b"rubbish\nend\n", b"remove x log/1\nend\n", b"\xff\xfe\nend\n"],
)
def test_a_broken_journal_is_named_and_nothing_is_done(content: bytes) -> None:
    disk = SimulatedDisk()
    store(open_on(disk), *DEPOSITS)
    paths = disk.paths()
    fd = disk.open("journal/000001.txt", 0o101)
    disk.pwrite(fd, content, 0)
    with pytest.raises(UnusableArchiveError, match=r"journal/000001\.txt"):
        open_on(disk)
    assert set(paths) <= set(disk.paths())


def test_segments_whose_journal_finds_no_room_do_not_pile_up() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    store(archive, *DEPOSITS)
    disk.fail(Failure(calls=frozenset({"pwrite"}), error=errno.ENOSPC, path="journal/*"))
    for _ in range(3):
        with pytest.raises(StoreRefusedError, match="no segment can be written"):
            seal(archive)
        assert not [path for path in disk.paths() if path.startswith("segments") and path.endswith(".part")]
    disk.mend()
    assert seal(archive).captures == 40
    assert _lacking(archive) == []


@pytest.mark.parametrize(
    ("call", "path"), [("fsync", "journal"), ("rename", "segments/*"), ("unlink", "log/*")]
)
def test_a_swap_that_a_disk_ends_is_finished_at_the_next_opening(call: str, path: str) -> None:
    disk, index = SimulatedDisk(), MemoryIndex()
    archive = open_on(disk, index)
    store(archive, *DEPOSITS)
    disk.fail(Failure(calls=frozenset({call}), error=errno.EIO, path=path))
    for _ in range(2):
        with pytest.raises(StoreRefusedError, match="could not be put in place"):
            seal(archive)
    with pytest.raises(StoreRefusedError, match="could not be put in place"):
        store(archive, page("http://example.org/later", NOW_S))
    assert _lacking(archive) == []
    disk.mend()
    again = open_on(disk, index)
    assert _lacking(again) == []
    assert verify(again).is_sound
    assert not [name for name in disk.paths() if name.startswith("journal/") or name.endswith(".part")]
    assert store(again, page("http://example.org/later", NOW_S)) == [StoreOutcome.NEW]
