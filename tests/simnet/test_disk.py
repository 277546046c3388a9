import errno
import itertools
import os
import random

import pytest

from simnet.world.crash import CrashRules
from simnet.world.disk import SYNCS, WRITES, Failure, PowerCut, SimulatedDisk

CREATE = os.O_CREAT | os.O_RDWR


def put(disk: SimulatedDisk, path: str, data: bytes, *, sync: bool = True) -> None:
    fd = disk.open(path, CREATE)
    disk.pwrite(fd, data, 0)
    if sync:
        disk.fsync(fd)
    disk.close(fd)


def sync_directory(disk: SimulatedDisk, path: str = "/") -> None:
    fd = disk.open(path, os.O_RDONLY | os.O_DIRECTORY)
    disk.fsync(fd)
    disk.close(fd)


def images(disk: SimulatedDisk, limit: int = 4_096) -> list[SimulatedDisk]:
    return list(disk.crash_images(random.Random(1), limit))


def contents(disk: SimulatedDisk, path: str) -> set[bytes | None]:
    return {image.read_bytes(path) if image.exists(path) else None for image in images(disk)}


def test_what_was_written_is_read_back_and_shows_in_stat() -> None:
    disk = SimulatedDisk()
    fd = disk.open("/log", CREATE)
    assert disk.pwrite(fd, b"one", 0) == 3
    assert disk.pwrite(fd, b"three", 5) == 5
    assert disk.pread(fd, 100, 2) == b"e\0\0three"
    assert disk.stat("/log").st_size == 10
    disk.ftruncate(fd, 3)
    disk.ftruncate(fd, 5)
    assert disk.read_bytes("/log") == b"one\0\0"


def test_errors_are_those_of_the_operating_system() -> None:
    disk = SimulatedDisk()
    put(disk, "/file", b"x")
    disk.mkdir("/dir")
    put(disk, "/dir/inner", b"x")
    with pytest.raises(FileNotFoundError):
        disk.open("/none", os.O_RDONLY)
    with pytest.raises(FileExistsError):
        disk.open("/file", CREATE | os.O_EXCL)
    with pytest.raises(IsADirectoryError):
        disk.open("/dir", os.O_RDWR)
    with pytest.raises(NotADirectoryError):
        disk.open("/file/below", CREATE)
    disk.mkdir("/full")
    put(disk, "/full/inner", b"x")
    with pytest.raises(OSError, match="not empty"):
        disk.rename("/dir", "/full")
    with pytest.raises(OSError, match="Bad file descriptor"):
        disk.pread(99, 1, 0)
    with pytest.raises(OSError, match="Invalid argument"):
        disk.rename("/dir", "/dir/dir")


def test_a_file_without_a_synced_name_may_be_gone_after_a_power_cut() -> None:
    disk = SimulatedDisk()
    put(disk, "/file", b"abc")
    assert contents(disk, "/file") == {b"abc", None}
    sync_directory(disk)
    assert contents(disk, "/file") == {b"abc"}


def test_unsynced_bytes_may_survive_be_lost_or_read_as_zeros() -> None:
    disk = SimulatedDisk()
    put(disk, "/file", b"abc")
    sync_directory(disk)
    fd = disk.open("/file", os.O_RDWR)
    disk.pwrite(fd, b"def", 3)
    assert contents(disk, "/file") == {b"abc", b"abcdef", b"abc\0\0\0"}
    disk.fdatasync(fd)
    assert contents(disk, "/file") == {b"abcdef"}


def test_a_later_page_may_survive_without_an_earlier_one_but_not_within_a_page() -> None:
    disk = SimulatedDisk(rules=CrashRules(page_bytes=4, sector_bytes=4))
    put(disk, "/file", bytes(8))
    sync_directory(disk)
    fd = disk.open("/file", os.O_RDWR)
    disk.pwrite(fd, b"A", 0)
    disk.pwrite(fd, b"B", 1)
    disk.pwrite(fd, b"C", 4)
    found = {(c or b"")[:2] + (c or b"")[4:5] for c in contents(disk, "/file")}
    assert found == {b"\0\0\0", b"A\0\0", b"AB\0", b"\0\0C", b"A\0C", b"ABC"}


def test_the_last_page_may_be_torn_at_a_sector() -> None:
    disk = SimulatedDisk(rules=CrashRules(page_bytes=8, sector_bytes=4))
    put(disk, "/file", b"........")
    sync_directory(disk)
    fd = disk.open("/file", os.O_RDWR)
    disk.pwrite(fd, b"ABCDEFGH", 0)
    assert contents(disk, "/file") == {b"........", b"ABCD....", b"ABCDEFGH"}


def test_a_rename_survives_as_a_whole_or_not_at_all() -> None:
    disk = SimulatedDisk()
    put(disk, "/current", b"old")
    sync_directory(disk)
    put(disk, "/new", b"new")
    disk.rename("/new", "/current")
    assert contents(disk, "/current") == {b"old", b"new"}
    sync_directory(disk)
    assert contents(disk, "/current") == {b"new"}
    assert all(image.listdir("/") == ["current"] for image in images(disk))


def test_renaming_before_syncing_the_data_can_leave_an_empty_file() -> None:
    disk = SimulatedDisk()
    put(disk, "/current", b"old")
    sync_directory(disk)
    put(disk, "/new", b"new", sync=False)
    disk.rename("/new", "/current")
    assert b"" in contents(disk, "/current")


def test_a_removed_file_comes_back_unless_its_directory_was_synced() -> None:
    disk = SimulatedDisk()
    put(disk, "/file", b"abc")
    sync_directory(disk)
    disk.unlink("/file")
    assert contents(disk, "/file") == {b"abc", None}
    sync_directory(disk)
    assert contents(disk, "/file") == {None}


def test_a_directory_half_made_loses_what_it_holds() -> None:
    disk = SimulatedDisk()
    disk.makedirs("/deep/below")
    put(disk, "/deep/below/file", b"abc")
    seen = {tuple(image.paths()) for image in images(disk)}
    assert seen == {(), ("/deep/below/file",)}


def test_a_cut_image_is_independent_of_its_origin() -> None:
    disk = SimulatedDisk()
    put(disk, "/file", b"abc")
    disk.sync()
    (image,) = images(disk)
    put(image, "/file", b"xyz")
    assert disk.read_bytes("/file") == b"abc"
    assert image.read_bytes("/file") == b"xyz"


def test_a_power_cut_closes_descriptors_and_repeats_for_its_seed() -> None:
    def run(seed: int) -> dict[str, bytes]:
        disk = SimulatedDisk()
        fd = disk.open("/log", CREATE)
        disk.sync()
        for number in range(50):
            disk.pwrite(fd, bytes([number]) * 1_000, number * 1_000)
        disk.power_cut(random.Random(seed))
        with pytest.raises(OSError, match="Bad file descriptor"):
            disk.pread(fd, 1, 0)
        return {path: disk.read_bytes(path) for path in disk.paths()}

    assert run(1) == run(1)
    assert len({run(seed)["/log"] for seed in range(20)}) > 10


def replace_file(disk: SimulatedDisk, *, sync_data: bool) -> None:
    fd = disk.open("/new", CREATE)
    disk.pwrite(fd, b"second version", 0)
    if sync_data:
        disk.fsync(fd)
    disk.close(fd)
    disk.rename("/new", "/current")
    sync_directory(disk)


def outcomes_of_cutting_everywhere(*, sync_data: bool) -> set[bytes]:
    seen = set()
    for changes in itertools.count():
        disk = SimulatedDisk()
        put(disk, "/current", b"first version")
        disk.sync()
        disk.cut_after(changes)
        try:
            replace_file(disk, sync_data=sync_data)
        except PowerCut:
            seen |= {image.read_bytes("/current") for image in images(disk)}
        else:
            seen |= {image.read_bytes("/current") for image in images(disk)}
            return seen
    raise AssertionError


def test_cutting_at_every_change_finds_the_skipped_sync_and_clears_the_right_one() -> None:
    assert outcomes_of_cutting_everywhere(sync_data=True) == {b"first version", b"second version"}
    assert b"" in outcomes_of_cutting_everywhere(sync_data=False)


def test_a_full_disk_takes_what_fits_and_then_nothing_until_space_is_freed() -> None:
    disk = SimulatedDisk(capacity_bytes=10)
    fd = disk.open("/a", CREATE)
    assert disk.pwrite(fd, b"12345678", 0) == 8
    assert disk.pwrite(fd, b"abcd", 8) == 2
    with pytest.raises(OSError, match="No space") as caught:
        disk.pwrite(fd, b"x", 10)
    assert caught.value.errno == errno.ENOSPC
    assert disk.pwrite(fd, b"overwrites", 0) == 10
    disk.unlink("/a")
    with pytest.raises(OSError, match="No space"):
        put(disk, "/b", b"x")  # still open
    disk.close(fd)
    put(disk, "/b", b"x")
    assert disk.bytes_used == 1


def test_a_failure_strikes_the_calls_it_names_as_often_as_it_says() -> None:
    disk = SimulatedDisk()
    put(disk, "/log/../data", b"x")
    fd = disk.open("/data", os.O_RDWR)
    disk.fail(Failure(calls=WRITES, path="/data", skip=1, times=2))
    disk.pwrite(fd, b"fine", 0)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output"):
            disk.pwrite(fd, b"fails", 0)
    disk.pwrite(fd, b"fine", 0)


def test_after_a_failed_sync_the_bytes_are_read_but_not_kept() -> None:
    disk = SimulatedDisk()
    put(disk, "/file", b"old")
    disk.sync()
    fd = disk.open("/file", os.O_RDWR)
    disk.pwrite(fd, b"new", 0)
    disk.fail(Failure(calls=SYNCS, times=1))
    with pytest.raises(OSError, match="Input/output"):
        disk.fsync(fd)
    disk.fsync(fd)
    assert disk.pread(fd, 3, 0) == b"new"
    assert contents(disk, "/file") == {b"old"}


def test_a_read_only_disk_refuses_changes_and_still_reads() -> None:
    disk = SimulatedDisk()
    put(disk, "/file", b"abc")
    disk.is_read_only = True
    with pytest.raises(OSError, match="Read-only"):
        put(disk, "/file", b"x")
    with pytest.raises(OSError, match="Read-only"):
        disk.unlink("/file")
    assert disk.read_bytes("/file") == b"abc"
    disk.mend()
    disk.unlink("/file")


def test_rot_flips_one_bit_where_it_says() -> None:
    disk = SimulatedDisk()
    put(disk, "/a", bytes(3))
    put(disk, "/b", bytes(5))
    disk.sync()
    place = disk.rot_somewhere(random.Random(3))
    assert place is not None
    path, bit = place
    assert disk.read_bytes(path)[bit // 8] == 1 << bit % 8
    (image,) = images(disk)
    assert image.read_bytes(path) == disk.read_bytes(path)
    assert SimulatedDisk().rot_somewhere(random.Random(3)) is None


def test_many_possible_images_are_drawn_with_the_extremes_first() -> None:
    disk = SimulatedDisk()
    for number in range(40):
        put(disk, f"/{number:02}", b"x", sync=False)
    drawn = images(disk, limit=10)
    assert len(drawn) == 10
    assert drawn[0].paths() == []
    assert len(drawn[1].paths()) == 40
    assert all(image.read_bytes(path) == b"x" for image in drawn[1:2] for path in image.paths())
