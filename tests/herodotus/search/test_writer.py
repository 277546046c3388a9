"""Is the index, however it came about, the one that is made anew from the archive?"""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dht.core.arcs import NONE, WHOLE
from herodotus.core.bundles import Visit
from herodotus.core.captures import position_of
from herodotus.core.errors import SearchFailedError
from herodotus.core.index_rows import CAPTURE
from herodotus.core.removals import subject_of
from herodotus.core.search.cover import SURPLUS_S, Arc, keys_of
from herodotus.core.search.fields import OPEN
from herodotus.search import writer as writing
from herodotus.store import StoredCapture
from herodotus.store.changes import Changes
from herodotus.store.index import IndexBatch
from tests.herodotus.search.indexing import URLS, Bench, found_with, place
from tests.herodotus.store.making import NOW_S, note_visits

SOME = [URLS[0], URLS[3], URLS[6], URLS[7]]
"""Few, so that much happens to each."""
RINGS = [
    WHOLE,
    keys_of([Arc(0, 1 << 63)]),
    keys_of([Arc(3 << 62, 1 << 61), Arc(1 << 62, 3 << 61)]),
    NONE,
]
"""For which keys others ask this peer."""
TEXTS = ["one first text", "another second text", "the third"]


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path / "words")
    yield made
    made.words.release()


def spells_of(bench: Bench, url: str) -> list[tuple[int, int]]:
    rows = [row for row in bench.documents() if row[0] == place(url)]
    return [(first - NOW_S, until if until == OPEN else until - NOW_S) for _, first, until, _ in rows]


def test_a_page_that_flips_has_three_documents(bench: Bench) -> None:
    for day, text in enumerate("ABA"):
        bench.put(URLS[0], day, f"text {text}")
        bench.catch_up()
    assert spells_of(bench, URLS[0]) == [(0, 1), (1, 2), (2, OPEN)]
    assert bench.documents() == bench.anew()


def test_unchanged_days_write_nothing(bench: Bench) -> None:
    bench.put(URLS[0], 0, "the text")
    bench.catch_up()
    before = {path.name: path.read_bytes() for path in bench.folder.iterdir() if path.suffix != ".json"}
    for day in range(1, 600):
        bench.put(URLS[0], day, f"the text</p><!-- {day} --><p>")
    bench.catch_up()
    assert bench.archive.captures == 600
    assert {
        path.name: path.read_bytes() for path in bench.folder.iterdir() if path.suffix != ".json"
    } == before


def test_a_visit_changes_nothing(bench: Bench) -> None:
    bench.put(URLS[0], 0, "the text")
    bench.catch_up()
    note_visits(bench.archive, Visit(url=URLS[0], time_s=NOW_S + 9, status=304))
    assert bench.changes.take().came == ()
    assert spells_of(bench, URLS[0]) == [(0, OPEN)]


def test_what_is_removed_is_gone_after_the_next_step_and_comes_back(bench: Bench) -> None:
    for url in URLS:
        bench.put(url, 0, "secret")
    bench.catch_up()
    bench.remove(subject_of("host", "a.example"))
    bench.catch_up(steps=1)
    assert found_with(bench.words, "secret") == 3
    bench.remove()
    bench.catch_up()
    assert found_with(bench.words, "secret") == len(URLS)


def test_a_batch_is_committed_when_it_is_large_or_old(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "COMMIT_CAPTURES", 3)
    bench.catch_up()
    for url in URLS[:2]:
        bench.put(url, 0, "early")
    bench.catch_up(steps=1)
    assert found_with(bench.words, "early") == 0
    bench.now_s += writing.COMMIT_S
    bench.catch_up(steps=1)
    assert found_with(bench.words, "early") == 2
    for url in URLS[2:5]:
        bench.put(url, 0, "late")
    bench.catch_up(steps=1)
    assert found_with(bench.words, "late") == 3


def test_more_changes_than_may_wait_are_found_by_a_comparison(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "WAITING_MAX", 2)
    monkeypatch.setattr(writing, "KEYS_A_STEP", 2)
    for day in range(3):
        for url in URLS:
            bench.put(url, day, f"day {day}")
    for url in URLS[:5]:
        bench.delete(url)
    bench.catch_up()
    assert bench.documents() == bench.anew()


def test_changes_that_the_archive_could_not_keep_are_found_by_a_comparison(bench: Bench) -> None:
    bench.put(URLS[0], 0, "early")
    bench.put(URLS[1], 0, "early")
    bench.catch_up()
    bench.put(URLS[0], 1, "late")
    bench.put(URLS[2], 1, "late")
    bench.delete(URLS[1])
    act(bench, ("overflow",))
    bench.catch_up()
    assert found_with(bench.words, "late") == 2
    assert bench.documents() == bench.anew()


def test_a_deleted_version_is_out_and_the_one_before_goes_on(bench: Bench) -> None:
    bench.put(URLS[0], 0, "early")
    bench.put(URLS[0], 1, "late")
    bench.catch_up()
    bench.delete(URLS[0])
    bench.catch_up()
    assert found_with(bench.words, "early") == 0
    assert spells_of(bench, URLS[0]) == [(1, OPEN)]


def test_a_fill_that_was_killed_after_a_commit_writes_nothing_twice(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "CAPTURES_A_STEP", 2)
    monkeypatch.setattr(writing, "COMMIT_CAPTURES", 2)
    for url in URLS:
        bench.put(url, 0, "words")
    bench.catch_up(steps=1)

    def killed(*_: object) -> None:
        raise OSError

    with monkeypatch.context() as kill:
        kill.setattr("herodotus.search.index.write_durably", killed)
        with pytest.raises(SearchFailedError):
            bench.catch_up()
    bench.kill()
    bench.open()
    bench.catch_up()
    assert bench.words.documents == len(URLS)
    assert bench.documents() == bench.anew()


def test_a_capture_that_went_without_a_trace_in_the_log_before_a_kill_is_missed(bench: Bench) -> None:
    """As one does that this peer hands over to another holder."""
    bench.put(URLS[0], 0, "early")
    bench.close()
    bench.open()
    batch = IndexBatch(added=-1)
    for key, _ in bench.changes.keys(b"", 1):
        batch.delete(CAPTURE + key)
    bench.archive.write(batch)
    bench.kill()
    bench.open()
    bench.catch_up()
    assert bench.documents() == []


def test_what_others_begin_to_ask_for_is_answered_when_all_of_it_is_in(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "CAPTURES_A_STEP", 2)
    bench.writer.follow_ring(NONE, 0)
    for url in URLS:
        bench.put(url, 0, "words")
        bench.put(url, 1, "other words")
    bench.catch_up()
    assert bench.documents() == []
    bench.writer.follow_ring(WHOLE, 1)
    assert not bench.words.answered
    assert bench.writer.share == 0
    bench.catch_up(steps=3)
    bench.writer.commit()
    answered = bench.words.answered
    assert 0 < bench.writer.share < 1
    assert not bench.words.is_filled
    inside = [url for url in URLS if position_of(url) in answered]
    assert 0 < len(inside) < len(URLS)
    assert {row[0] for row in bench.documents()} == {place(url) for url in inside}
    bench.catch_up()
    assert bench.words.answered == WHOLE
    assert bench.documents() == bench.anew()


def test_what_was_brought_in_is_found_wherever_it_lies(bench: Bench) -> None:
    bench.writer.follow_ring(NONE, 0)
    bench.put(URLS[0], 0, "crawled")
    bench.put(URLS[1], 0, "crawled")
    bench.catch_up()
    bench.bring_in(URLS[1], 1, "imported")
    bench.catch_up()
    assert found_with(bench.words, "imported") == 1
    assert spells_of(bench, URLS[1]) == [(0, 1), (1, OPEN)], "with all its captures"
    bench.put(URLS[1], 2, "crawled again")
    bench.catch_up()
    assert spells_of(bench, URLS[1]) == [(0, 1), (1, 2), (2, OPEN)]
    assert spells_of(bench, URLS[0]) == []


def test_a_member_that_leaves_and_comes_back_costs_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    for url in URLS:
        bench.put(url, 0, "words")
    bench.writer.follow_ring(RINGS[1], 0)
    bench.writer.follow_ring(RINGS[2], 10)
    bench.catch_up()
    read: list[bytes] = []
    shown = bench.changes.shown

    def noted(start: bytes, end: bytes | None = None) -> Iterator[StoredCapture]:
        read.append(start)
        return shown(start, end)

    monkeypatch.setattr(bench.changes, "shown", noted)
    for time_s in range(20, 2_000, 20):
        bench.writer.follow_ring(RINGS[1 + time_s // 20 % 2], time_s)
        bench.catch_up()
    assert read == []
    assert bench.words.answered == RINGS[1] | RINGS[2]


def test_it_is_told_that_an_arc_is_no_longer_answered_for_before_its_documents_go(bench: Bench) -> None:
    for url in URLS:
        bench.put(url, 0, "words")
    bench.writer.follow_ring(WHOLE, 0)
    bench.catch_up()
    for day in range(1, 3):
        bench.writer.follow_ring(NONE, day * SURPLUS_S)
    assert bench.words.documents == len(URLS)
    assert bench.words.answered == NONE
    bench.kill()
    bench.open()
    assert bench.words.answered == NONE
    bench.catch_up()
    assert bench.documents() == []


def test_a_capture_of_an_arc_that_is_not_read_yet_waits_for_the_earlier_ones(bench: Bench) -> None:
    bench.writer.follow_ring(NONE, 0)
    bench.put(URLS[0], 0, "early")
    bench.catch_up()
    bench.writer.follow_ring(WHOLE, 1)
    bench.put(URLS[0], 5, "late")
    bench.catch_up(steps=1)
    bench.writer.commit()
    assert spells_of(bench, URLS[0]) == []
    bench.catch_up()
    assert spells_of(bench, URLS[0]) == [(0, 5), (5, OPEN)]


ACTIONS = st.one_of(
    st.tuples(st.just("put"), st.sampled_from(SOME), st.integers(0, 9), st.sampled_from(TEXTS)),
    st.tuples(st.just("bring in"), st.sampled_from(SOME), st.integers(0, 9), st.sampled_from(TEXTS)),
    st.tuples(st.just("ring"), st.integers(0, 3), st.sampled_from([0, SURPLUS_S // 2, SURPLUS_S])),
    st.tuples(st.just("delete"), st.sampled_from(SOME)),
    st.tuples(
        st.just("remove"),
        st.lists(
            st.sampled_from(
                [
                    subject_of("host", "a.example"),
                    subject_of("url", URLS[6]),
                    subject_of("prefix", "https://b.example/y"),
                    subject_of("digest", "00" * 32),
                ]
            ),
            max_size=2,
        ),
    ),
    st.tuples(st.just("step"), st.integers(0, 3)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("kill")),
    st.tuples(st.just("close")),
    st.tuples(st.just("overflow")),
)


def act(bench: Bench, action: tuple[object, ...]) -> None:
    match action:
        case ("put", str(url), int(day), str(text)):
            bench.put(url, day, text)
        case ("bring in", str(url), int(day), str(text)):
            bench.bring_in(url, day, text)
        case ("ring", int(which), int(passed_s)):
            bench.now_s += passed_s
            bench.writer.follow_ring(RINGS[which], int(bench.now_s))
        case ("delete", str(url)):
            bench.delete(url)
        case ("remove", list(subjects)):
            bench.remove(*subjects)
        case ("step", int(steps)):
            bench.catch_up(steps)
        case ("commit",):
            bench.writer.commit()
        case ("kill",):
            bench.kill()
            bench.open()
        case ("close",):
            bench.close()
            bench.open()
        case ("overflow",):
            taken = bench.changes.take()
            bench.writer.take(Changes(came=(), gone=(), tail=taken.tail, is_whole=False))


@settings(max_examples=25, deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_whatever_happens_the_documents_are_those_of_an_index_made_anew(
    actions: list[tuple[object, ...]],
) -> None:
    with (
        TemporaryDirectory() as folder,
        patch.multiple(writing, CAPTURES_A_STEP=2, KEYS_A_STEP=3, COMMIT_CAPTURES=5),
    ):
        bench = Bench(Path(folder) / "words")
        for action in actions:
            act(bench, action)
        bench.catch_up()
        extent = bench.words.state.extent
        assert not extent.todo
        assert bench.documents() == bench.anew(extent.arcs)
        assert bench.writer.is_level
        for _ in range(3):
            act(bench, ("ring", 1, SURPLUS_S))
        bench.catch_up()
        assert bench.words.answered == RINGS[1]
        assert bench.documents() == bench.anew(RINGS[1])
        bench.words.release()


@settings(max_examples=25, deadline=None)
@given(st.lists(ACTIONS, max_size=25))
def test_for_the_keys_that_it_answers_for_an_index_has_what_was_told(
    actions: list[tuple[object, ...]],
) -> None:
    """At each moment, also after a kill: half an answer would seem whole."""
    with (
        TemporaryDirectory() as folder,
        patch.multiple(writing, CAPTURES_A_STEP=2, KEYS_A_STEP=3, COMMIT_CAPTURES=5),
    ):
        bench = Bench(Path(folder) / "words")
        for url in SOME:
            bench.put(url, 0, TEXTS[0])
        bench.catch_up()
        for action in actions:
            if action[0] in ("ring", "step", "commit", "kill", "close"):
                act(bench, action)
                found = {row[0] for row in bench.documents()}
                wanted = {place(url) for url in SOME if position_of(url) in bench.words.answered}
                assert wanted <= found
        bench.words.release()
