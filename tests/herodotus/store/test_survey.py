"""Does a survey find every link and count every capture once, however the archive changes meanwhile?"""

import random
from functools import partial
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from crawler.core.capture import Capture
from crawler.outcomes import Reading, read_capture
from herodotus.core.captures import Deposit, position_of
from herodotus.core.index_rows import LINK, TALLY, after, arrival_of, encode_numbers
from herodotus.store import streams, survey
from herodotus.store.engine import Archive
from herodotus.store.index import IndexBatch
from herodotus.store.sealing import seal
from herodotus.store.store import DiskStore
from herodotus.store.survey import (
    ArchiveSurvey,
    Property,
    Span,
    Tally,
    decode_span,
    decode_tally,
    keep_surveyed,
    links_to,
    read_contents,
    tally_key,
)
from herodotus.store.threads import ThreadWorkers
from tests.herodotus.store.making import DAY_S, NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryDisk, MemoryIndex

A, B, C = "https://a.example/", "https://b.example/", "https://c.example/x"


def linking(url: str, time_s: int, *targets: str) -> Deposit:
    body = "".join(f'<a href="{target}">there</a>' for target in targets)
    return page(url, time_s, f"<html>{time_s}{body}".encode())


def surveyed(*deposits: Deposit) -> Archive:
    archive = open_on(MemoryDisk())
    store(archive, *deposits)
    ArchiveSurvey(archive).catch_up()
    return archive


def links(archive: Archive, target: str) -> dict[bytes, Span]:
    prefix = links_to(position_of(target))
    return {key[13:]: decode_span(value) for key, value in archive.index.scan(prefix, after(prefix))}


def tally(archive: Archive, property_: Property, value: str) -> Tally:
    data = archive.index.get(tally_key(property_, value))
    return Tally() if data is None else decode_tally(data)


def test_links_are_found_by_where_they_lead_with_the_time_in_which_they_stood() -> None:
    archive = surveyed(
        linking(A, NOW_S, B, C),
        linking(A, NOW_S + DAY_S, B),
        linking(A, NOW_S + 2 * DAY_S, C),
        linking(C, NOW_S, B),
    )
    assert links(archive, B) == {
        position_of(A)[:12]: Span(first_s=NOW_S, last_s=NOW_S + DAY_S),
        position_of(C)[:12]: Span(first_s=NOW_S, last_s=NOW_S),
    }
    assert links(archive, C) == {position_of(A)[:12]: Span(first_s=NOW_S, last_s=NOW_S + 2 * DAY_S)}
    assert links(archive, A) == {}


def test_a_step_ends_with_a_page_of_many_links_and_none_is_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(survey, "LINKS_A_STEP", 3)
    archive = open_on(MemoryDisk())
    pages = [linking(f"https://a.example/{number}", NOW_S, B, C, f"{C}{number}") for number in range(20)]
    store(archive, *pages)
    written: list[int] = []
    apply = archive.index.write

    def noting(batch: IndexBatch) -> None:
        written.append(sum(key.startswith(LINK) for key, _ in batch.changes))
        apply(batch)

    monkeypatch.setattr(archive.index, "write", noting)
    ArchiveSurvey(archive).catch_up()
    assert max(written) == 3
    assert len(links(archive, B)) == len(links(archive, C)) == 20
    assert tally(archive, Property.TOTAL, "").captures == 20


def test_a_step_walks_through_a_small_archive_and_not_through_a_large_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each step wakes a thread and writes to the disk."""
    archive = open_on(MemoryDisk())
    store(archive, *(linking(f"https://a.example/{number}", NOW_S, B) for number in range(40)))
    surveying, steps = ArchiveSurvey(archive), 0
    assert surveying.step()
    assert not surveying.step()
    monkeypatch.setattr(survey, "ROWS_A_STEP", 8)
    monkeypatch.setattr(streams, "RING_BATCH", 4)
    store(archive, linking(B, NOW_S, A))
    while surveying.step():
        steps += 1
    assert steps == 6  # 41 rows
    assert tally(archive, Property.TOTAL, "").captures == 41


def test_a_round_that_an_earlier_release_began_goes_on_before_the_slice_it_stood_at() -> None:
    archive = open_on(MemoryDisk())
    store(archive, *(linking(f"https://a.example/{number}", NOW_S, B) for number in range(40)))
    until = arrival_of(archive.log.number, archive.log.tail)
    state = encode_numbers((0, until, 128)).ljust(32, b"\xff")
    archive.index.write(IndexBatch([(b"msurvey", state)]))
    ArchiveSurvey(archive).catch_up()
    second_half = [n for n in range(40) if position_of(f"https://a.example/{n}")[0] >= 128]
    assert tally(archive, Property.TOTAL, "").captures == len(second_half) > 0


def test_a_page_does_not_link_to_itself() -> None:
    assert links(surveyed(linking(A, NOW_S, A)), A) == {}


def test_captures_are_counted_by_host_type_status_and_day() -> None:
    archive = surveyed(
        page(A, NOW_S, b"x" * 10), page(f"{A}i", NOW_S, b"y" * 20, "image/png"), page(B, NOW_S + DAY_S, b"z")
    )
    assert tally(archive, Property.TOTAL, "") == Tally(captures=3, bytes=31)
    assert tally(archive, Property.HOST, "a.example") == Tally(captures=2, bytes=30)
    assert tally(archive, Property.MIME, "image/png") == Tally(captures=1, bytes=20)
    assert tally(archive, Property.STATUS, "200") == Tally(captures=3, bytes=31)
    assert tally(archive, Property.DAY, "20231114") == Tally(captures=2, bytes=30)
    assert tally(archive, Property.DAY, "20231115") == Tally(captures=1, bytes=1)


def test_what_comes_later_is_counted_once_and_sealing_changes_nothing() -> None:
    archive = surveyed(page(A, NOW_S))
    survey = ArchiveSurvey(archive)
    assert survey.is_current()
    store(archive, page(B, NOW_S))
    assert not survey.is_current()
    survey.catch_up()
    seal(archive)
    store(archive, page(C, NOW_S))
    survey.catch_up()
    assert tally(archive, Property.TOTAL, "").captures == 3


@given(st.lists(st.integers(0, 3), min_size=1, max_size=30), st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_a_survey_broken_off_anywhere_goes_on_without_counting_twice(
    counts: list[int], chance: random.Random
) -> None:
    """A crash keeps a prefix of the batches: each step is tried again on a copy that lost the last one."""
    archive, number = open_on(MemoryDisk()), 0
    surveying = ArchiveSurvey(archive)
    with pytest.MonkeyPatch.context() as small:
        small.setattr(survey, "ROWS_A_STEP", 4)
        small.setattr(streams, "RING_BATCH", 4)
        small.setattr(survey, "CAPTURES_A_STEP", 2)
        for count in counts:
            store(archive, *(linking(f"{A}{number + i}", NOW_S + i, B) for i in range(count)))
            number += count
            for _ in range(chance.randrange(10)):
                before = _index(archive).content()
                surveying.step()
                if chance.random() < 0.2:
                    _forget(archive, before)
    surveying.catch_up()
    assert tally(archive, Property.TOTAL, "").captures == number
    assert len(links(archive, B)) == number


def _forget(archive: Archive, content: list[tuple[bytes, bytes]]) -> None:
    """Only what the survey wrote since: the archive's own part is another test's."""
    kept = dict(content)
    for key in [key for key, _ in _index(archive).content() if key[:1] in (LINK, TALLY) or key == b"msurvey"]:
        archive.index.write(IndexBatch([(key, kept.get(key))]))


def _index(archive: Archive) -> MemoryIndex:
    assert isinstance(archive.index, MemoryIndex)
    return archive.index


# -- captures that no reader can take ---------------------------------------------------------------------


def faulty(monkeypatch: pytest.MonkeyPatch, *urls: str) -> None:
    def reading(capture: Capture, **options: Any) -> Reading:
        if capture.url in urls:
            raise ZeroDivisionError
        return read_capture(capture, **options)

    monkeypatch.setattr("herodotus.store.survey.read_capture", reading)


def test_a_capture_that_cannot_be_read_is_counted_and_costs_the_others_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    faulty(monkeypatch, A)
    archive = open_on(MemoryDisk())
    store(archive, linking(A, NOW_S, B), linking(C, NOW_S, B), linking(B, NOW_S, A))
    survey = ArchiveSurvey(archive)
    with pytest.raises(ZeroDivisionError):
        survey.catch_up()
    while not survey.is_current():
        survey.step_one_by_one()
    assert set(links(archive, B)) == {position_of(C)[:12]}
    assert set(links(archive, A)) == {position_of(B)[:12]}
    assert tally(archive, Property.TOTAL, "").captures == 3


@pytest.mark.anyio
async def test_a_survey_is_not_held_for_ever_by_one_page(monkeypatch: pytest.MonkeyPatch) -> None:
    faulty(monkeypatch, A)
    archive = open_on(MemoryDisk())
    store(archive, linking(A, NOW_S, B), linking(C, NOW_S, B))
    surveying = cast("DiskStore", SimpleNamespace(archive=archive, workers=ThreadWorkers()))
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(partial(keep_surveyed, surveying, period_s=0.001, work_share=1.0))
            while not ArchiveSurvey(archive).is_current():  # noqa: ASYNC110  # a survey tells nobody when it is done
                await anyio.sleep(0.001)
            tasks.cancel_scope.cancel()
    assert set(links(archive, B)) == {position_of(C)[:12]}


@pytest.mark.anyio
async def test_the_survey_and_the_index_of_words_read_contents_in_turns() -> None:
    workers, has_begun, may_end, done = ThreadWorkers(), Event(), Event(), list[str]()

    def first() -> bool:
        has_begun.set()
        assert may_end.wait(30)
        done.append("first")
        return False

    def second() -> bool:
        done.append("second")
        return True

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read_contents, workers, first, 1.0)
        await anyio.to_thread.run_sync(has_begun.wait, 30)
        tasks.start_soon(read_contents, workers, second, 1.0)
        for _ in range(100):
            await anyio.lowlevel.checkpoint()
        assert not done
        may_end.set()
    assert done == ["first", "second"]


class _Timed(ThreadWorkers):
    """By a clock that only work moves."""

    now_s = 0.0

    def steady_s(self) -> float:
        return self.now_s


@pytest.mark.anyio
async def test_the_pause_after_a_step_is_by_its_own_work(monkeypatch: pytest.MonkeyPatch) -> None:
    workers, pauses = _Timed(), list[float]()

    def step() -> bool:
        workers.now_s += 2.0
        return workers.now_s < 4.0

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("herodotus.store.survey.anyio.sleep", pause)
    while await read_contents(workers, step, 0.25):
        pass
    assert pauses == [6.0]
