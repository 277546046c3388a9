"""Does the list of what is to be sent outlive the peer, within bounds?"""

import os
from pathlib import Path

import pytest

from herodotus.copies.push_queue import BACKLOG_MAX, SEGMENT_KEYS, Backlog


def keys(*numbers: int) -> list[bytes]:
    return [number.to_bytes(19, "big") for number in numbers]


def test_what_nobody_answered_for_is_on_it_after_a_crash(tmp_path: Path) -> None:
    backlog = Backlog(tmp_path / "copies")
    assert backlog.load() == []
    backlog.write(backlog.add(keys(1, 2, 3)))
    backlog.write(backlog.add(keys(2, 4)))
    backlog.settle(keys(1)[0])
    assert Backlog(tmp_path / "copies").load() == keys(1, 2, 3, 4)  # asking twice costs little


def test_a_torn_end_is_left_out_and_strange_files_alone(tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    backlog = Backlog(folder)
    backlog.load()
    backlog.write(backlog.add(keys(1, 2)))
    (name,) = folder.iterdir()
    assert name.read_bytes() == b"herodotus copies 1\n" + b"".join(keys(1, 2))
    with name.open("ab") as file:
        file.write(b"\0" * 7)
    (folder / "notes.txt").write_text("mine")
    (folder / "00000009.keys").write_text("something else")
    assert Backlog(folder).load() == keys(1, 2)
    assert (folder / "notes.txt").exists()


def test_segments_go_when_all_in_them_is_answered(tmp_path: Path) -> None:
    folder = tmp_path / "copies"
    backlog = Backlog(folder)
    backlog.load()
    first, second = keys(*range(SEGMENT_KEYS)), keys(SEGMENT_KEYS + 1)
    backlog.write(backlog.add(first))
    backlog.write(backlog.add(second))
    assert len(list(folder.iterdir())) == 2
    for key in first:
        backlog.settle(key)
    assert len(list(folder.iterdir())) == 1
    backlog.settle(second[0])
    backlog.end()
    assert list(folder.iterdir()) == []


def test_what_has_no_room_is_said(tmp_path: Path) -> None:
    del tmp_path
    backlog = Backlog(None)
    added = backlog.add(keys(*range(BACKLOG_MAX + 3)))
    assert (len(added.taken), len(added.refused), len(backlog)) == (BACKLOG_MAX, 3, BACKLOG_MAX)


def test_the_list_is_on_the_disk_when_it_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[bytes] = []

    def watched(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve().read_bytes())

    monkeypatch.setattr(os, "fdatasync", watched)
    backlog = Backlog(tmp_path / "copies")
    backlog.load()
    backlog.write(backlog.add(keys(1)))
    backlog.write(backlog.add(keys(2)))
    head = b"herodotus copies 1\n"
    assert synced == [head + keys(1)[0], head + b"".join(keys(1, 2))]
