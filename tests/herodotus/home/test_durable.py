"""Is a small file replaced whole or not at all?"""

import os
import stat
from pathlib import Path

import pytest

from herodotus.core.errors import StorageFailure
from herodotus.home.durable import storage_failure, write_durably


def test_the_content_is_replaced_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    file = tmp_path / "f"
    write_durably(file, b"old", mode=0o600)
    write_durably(file, b"new", mode=0o600)
    assert file.read_bytes() == b"new"
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(tmp_path.iterdir()) == [file]


def test_a_failed_write_leaves_the_old_content_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    write_durably(file, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageFailure) as caught:
        write_durably(file, b"new")
    assert str(caught.value) == (
        f"cannot write {file}: no space left on device; free some space, or choose another place"
    )
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_what_a_crash_left_half_written_is_not_in_the_way(tmp_path: Path) -> None:
    (tmp_path / ".f.new").write_bytes(b"half")
    write_durably(tmp_path / "f", b"whole")
    assert [(one.name, one.read_bytes()) for one in tmp_path.iterdir()] == [("f", b"whole")]


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (30, "the file system is mounted read-only: choose another place"),
        (13, "it belongs to another user: change its owner or mode, or choose another place"),
        (122, "the disk quota is used up: choose another place"),
        (5, "check the path, or choose another place"),
    ],
)
def test_each_failure_has_its_way_out(number: int, hint: str) -> None:
    assert storage_failure(OSError(number, "Reason"), Path("p"), "read").hint == hint


def test_the_bytes_are_on_the_disk_before_the_name_is_and_then_the_name_is_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "f"
    write_durably(file, b"old")
    synced: list[tuple[bool, bytes]] = []

    def watched(descriptor: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        synced.append((is_folder, file.read_bytes()))

    monkeypatch.setattr(os, "fsync", watched)
    write_durably(file, b"new")
    assert synced == [(False, b"old"), (True, b"new")]
