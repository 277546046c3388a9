"""Which index answers while another is made, when one is damaged, and when the disk is full?"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from herodotus.core.errors import SearchFailedError
from herodotus.core.removals import Removals, subject_of
from herodotus.core.search.fields import BODY
from herodotus.search import keeper as keeping
from herodotus.search.index import WordIndex
from herodotus.search.keeper import SPARE_BYTES, Keeper
from herodotus.store.changes import ArchiveChanges
from herodotus.store.engine import Archive
from tests.herodotus.search.indexing import URLS, found_with, made_anew, rows_of
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryDisk


@dataclass
class Kept:
    folder: Path
    archive: Archive = field(default_factory=lambda: open_on(MemoryDisk()))
    free: int = SPARE_BYTES
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.keeper = Keeper(
            self.folder,
            ArchiveChanges(self.archive),
            now=lambda: self.now_s,
            free_bytes=lambda: self.free,
            unix_s=lambda: self.now_s,
        )

    def close(self) -> None:
        self.keeper.close(may_go_on=lambda: True)

    def put(self, day: int, text: str) -> None:
        for url in URLS:
            store(self.archive, page(url, NOW_S + day, f"<p>{text}".encode()))

    def catch_up(self) -> None:
        while self.keeper.step():
            pass
        self.now_s += 30.0  # a batch is old
        while self.keeper.step():
            pass

    def has_all(self) -> bool:
        return rows_of(self.keeper.words) == made_anew(self.archive)

    def folders(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    made = Kept(tmp_path / "words")
    yield made
    made.free = SPARE_BYTES
    made.close()


def test_the_old_index_answers_until_the_new_one_has_everything(kept: Kept) -> None:
    kept.put(0, "first")
    kept.catch_up()
    kept.keeper.rebuild()
    kept.put(1, "second")
    assert kept.keeper.step()
    assert kept.keeper.is_building
    assert kept.folders() == ["1", "2"]
    assert found_with(kept.keeper.words, "first") == len(URLS)
    kept.catch_up()
    assert kept.folders() == ["2"]
    assert kept.has_all()


def test_a_peer_that_stops_within_a_rebuild_goes_on_with_it(
    kept: Kept, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herodotus.search.writer.CAPTURES_A_STEP", 2)
    kept.put(0, "first")
    kept.catch_up()
    kept.keeper.rebuild()
    assert kept.keeper.step()
    kept.close()
    kept.put(1, "second")
    kept.open()
    assert kept.keeper.is_building
    kept.catch_up()
    assert kept.folders() == ["2"]
    assert kept.has_all()


def test_a_damaged_index_is_made_again_at_the_next_opening(kept: Kept) -> None:
    kept.put(0, "first")
    kept.catch_up()
    kept.close()
    file = next((kept.folder / "1").glob("*.pos"))
    file.write_bytes(bytes((file.read_bytes()[0] ^ 1,)) + file.read_bytes()[1:])
    kept.open()
    assert kept.keeper.words.documents == 0
    kept.catch_up()
    assert kept.has_all()


def test_damage_in_a_running_peer_is_found_within_a_day(kept: Kept) -> None:
    kept.put(0, "first")
    kept.catch_up()
    file = next((kept.folder / "1").glob("*.idx"))
    file.write_bytes(file.read_bytes()[:-9] + b"\0" + file.read_bytes()[-8:])
    kept.now_s += keeping.CHECK_S
    kept.catch_up()
    assert kept.folders() == ["2"]
    assert kept.has_all()


def test_a_full_disk_stops_the_search_and_not_the_archive(kept: Kept) -> None:
    kept.put(0, "first")
    kept.catch_up()
    kept.free = SPARE_BYTES - 1
    with pytest.raises(SearchFailedError, match="the disk is full"):
        kept.keeper.step()
    kept.keeper.give_up()
    kept.put(1, "second")
    with pytest.raises(SearchFailedError, match="the disk is full"):
        kept.open()
    assert kept.folders() == ["1"]
    kept.free = SPARE_BYTES
    kept.open()
    kept.catch_up()
    assert kept.has_all()


def test_no_byte_of_an_erased_word_is_left(kept: Kept) -> None:
    kept.put(0, "common")
    store(kept.archive, page("https://c.example/", NOW_S, b"<p>zyzzogeton"))
    kept.catch_up()
    assert _has_term(kept.keeper.words, "zyzzogeton")
    subject = subject_of("host", "c.example")
    kept.archive.removed = Removals.of_subjects([subject])
    kept.catch_up()
    assert found_with(kept.keeper.words, "zyzzogeton") == 0
    assert _has_term(kept.keeper.words, "zyzzogeton")  # of a dead document
    kept.archive.removed = Removals.of_subjects([subject], erased=[subject])
    kept.catch_up()
    assert kept.folders() == ["2"]
    assert not _has_term(kept.keeper.words, "zyzzogeton")
    assert found_with(kept.keeper.words, "common") == len(URLS)
    kept.catch_up()
    assert kept.folders() == ["2"]  # once is enough


def test_words_are_erased_also_while_captures_come_in_all_the_time(kept: Kept) -> None:
    store(kept.archive, page("https://c.example/", NOW_S, b"<p>zyzzogeton"))
    store(kept.archive, page("https://d.example/", NOW_S, b"<p>stays, and its file with it"))
    kept.catch_up()
    subject = subject_of("host", "c.example")
    kept.archive.removed = Removals.of_subjects([subject], erased=[subject])
    for day in range(1, 20):
        kept.put(day, f"day {day}")
        while kept.keeper.step():
            pass
        kept.now_s += 15.0
    assert kept.folders() == ["2"]
    assert not _has_term(kept.keeper.words, "zyzzogeton")
    kept.catch_up()
    assert kept.has_all()


def _has_term(words: WordIndex, word: str) -> bool:
    """Whether it stands in the files' dictionaries, where words of dead documents are, too."""
    return bool(words.searcher.terms_with_prefix(BODY, word))


def test_an_index_of_which_much_is_dead_is_made_again(kept: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping, "DEAD_MIN", 1)
    for day in range(3):
        kept.put(day, f"day {day}")
        kept.catch_up()
    kept.now_s += keeping.COUNT_S
    kept.catch_up()
    kept.catch_up()
    assert kept.keeper.words.dead_share() <= keeping.DEAD_SHARE
    assert kept.has_all()


def test_a_writer_without_work_gives_its_memory_back(kept: Kept) -> None:
    kept.put(0, "first")
    kept.catch_up()
    released = [kept.keeper.words.is_released]
    kept.now_s += keeping.RELEASE_S
    kept.catch_up()
    released.append(kept.keeper.words.is_released)
    assert released == [False, True]
    kept.put(1, "second")
    kept.catch_up()
    assert kept.has_all()
