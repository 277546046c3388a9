"""Visits without an answer: a line each in the archive's files, one row of the index, and no capture."""

import pytest

from herodotus.core.bundles import NO_ANSWER, Visit, format_visits, parse_visits, plain_problem
from herodotus.core.captures import Mode
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import FAILED, Unreachable, after
from herodotus.core.orders import History
from herodotus.core.warc import split_record
from herodotus.store.engine import FAILURES_APART_S
from herodotus.store.intake import StoreOutcome
from herodotus.store.performer import perform
from herodotus.store.reader import Reader
from herodotus.store.recovery import rebuild
from herodotus.store.sealing import seal
from simnet.world.disk import SimulatedDisk
from tests.herodotus.store.making import DAY_S, NOW_S, note_visits, open_on, page, store
from tests.herodotus.store.memory_store import MemoryIndex, MemoryStore

pytestmark = pytest.mark.anyio
URL, OTHER = "http://example.org/page", "http://other.example/"
ROBOTS = "http://example.org/robots.txt"
REFUSED = "connection refused"


def failed(at: int, problem: str = REFUSED, url: str = URL) -> Visit:
    return Visit(url=url, time_s=NOW_S + at, status=NO_ANSWER, problem=problem)


def answered(at: int, url: str = URL) -> Visit:
    return Visit(url=url, time_s=NOW_S + at, status=NO_ANSWER)


def seen(at: int) -> Visit:
    return Visit(url=URL, time_s=NOW_S + at, status=304)


def test_a_line_of_the_visit_log_holds_a_reason_and_is_read_again() -> None:
    visits = [failed(0, "name not found"), answered(1), seen(2), failed(3, url="http://a.example/a b")]
    record, _ = split_record(format_visits(visits, "urn:herodotus:archive"))
    assert record.block.decode().splitlines() == [
        "20231114221320 0 name_not_found http://example.org/page",
        "20231114221321 0 - http://example.org/page",
        "20231114221322 304 http://example.org/page",
        "20231114221323 0 connection_refused http://a.example/a b",
    ]
    assert parse_visits(record) == visits


def test_a_problem_in_a_strangers_words_becomes_plain() -> None:
    assert plain_problem("no\x1b[2J\nname_of  höst\r") == "no [2J name of h?st"
    assert plain_problem("-") == plain_problem(" _\n") == ""
    assert len(plain_problem("word " * 99)) == 159  # a space would have been the last
    for status, problem in ((304, "refused"), (NO_ANSWER, "two\nlines"), (NO_ANSWER, "a_b")):
        with pytest.raises(MalformedRecordError):
            Visit(url=URL, time_s=NOW_S, status=status, problem=problem)


def test_failures_in_a_row_are_one_row_that_a_new_opening_a_new_index_and_sealing_keep() -> None:
    disk, index = SimulatedDisk(), MemoryIndex()
    archive = open_on(disk, index)
    store(archive, page(URL, NOW_S))
    note_visits(archive, seen(50))
    note_visits(archive, failed(100))
    note_visits(archive, failed(5_000, "answered with 503"), failed(4_000))
    expected = Unreachable(NOW_S + 100, NOW_S + 5_000, 3, "answered with 503")
    assert Reader(archive).unreachable(URL) == expected
    rows = list(index.scan(FAILED, after(FAILED)))
    assert [len(key) + len(value) for key, value in rows] == [13 + 12 + len("answered with 503")]
    assert [(one.visits, one.last_seen_s) for one in Reader(archive).history(URL)] == [(1, NOW_S + 50)]
    rebuild(archive)
    assert Reader(archive).unreachable(URL) == expected
    archive.roll()
    seal(archive)
    rebuild(archive)
    assert Reader(archive).unreachable(URL) == expected
    archive.close()
    for again in (index, MemoryIndex()):
        archive = open_on(disk, again)
        assert Reader(archive).unreachable(URL) == expected
        archive.close()


def test_it_ends_with_a_version_an_unchanged_visit_or_an_answer_that_is_not_kept() -> None:
    archive = open_on(SimulatedDisk())
    store(archive, page(URL, NOW_S))
    reader = Reader(archive)
    note_visits(archive, failed(100))
    note_visits(archive, seen(200))
    assert reader.unreachable(URL) is None
    note_visits(archive, failed(300))
    assert reader.unreachable(URL) == Unreachable(NOW_S + 300, NOW_S + 300, 1, REFUSED)
    note_visits(archive, answered(400))
    assert reader.unreachable(URL) is None
    note_visits(archive, failed(500))
    assert reader.unreachable(URL) == Unreachable(NOW_S + 500, NOW_S + 500, 1, REFUSED)
    assert store(archive, page(URL, NOW_S + 600, b"new")) == [StoreOutcome.NEW]
    assert reader.unreachable(URL) is None
    note_visits(archive, failed(550), answered(540))  # came late: the archive knows better
    assert reader.unreachable(URL) is None
    archive.close()


def test_an_old_copy_that_comes_in_does_not_end_it_and_a_newer_one_does() -> None:
    archive = open_on(SimulatedDisk())
    store(archive, page(URL, NOW_S))
    note_visits(archive, failed(100), failed(900))
    store(archive, page(URL, NOW_S - DAY_S, b"old"), mode=Mode.COPY)
    assert Reader(archive).unreachable(URL) == Unreachable(NOW_S + 100, NOW_S + 900, 2, REFUSED)
    store(archive, page(URL, NOW_S + 500, b"by another peer"), mode=Mode.COPY)
    assert Reader(archive).unreachable(URL) == Unreachable(NOW_S + 500, NOW_S + 900, 2, REFUSED)
    store(archive, page(URL, NOW_S + 1_000, b"by another peer, too"), mode=Mode.COPY)
    assert Reader(archive).unreachable(URL) is None
    archive.close()


async def test_a_site_whose_robots_txt_cannot_be_had_is_out_of_reach_with_all_its_pages() -> None:
    memory = MemoryStore(now=lambda: float(NOW_S))
    await memory.store(page(URL, NOW_S))
    await memory.store(page(OTHER, NOW_S))
    await memory.note_failure(URL, NOW_S + 100, "answered with 500")
    await memory.note_failure(ROBOTS, NOW_S + 5_000, "name not found")
    assert await memory.unreachable(URL) == Unreachable(NOW_S + 100, NOW_S + 5_000, 2, "name not found")
    assert await memory.unreachable(OTHER) is None
    await memory.note_answer(ROBOTS, NOW_S + 6_000)
    assert await memory.unreachable(URL) == Unreachable(NOW_S + 100, NOW_S + 100, 1, "answered with 500")


async def test_failures_of_what_is_not_here_and_such_as_follow_at_once_are_not_written() -> None:
    memory = MemoryStore(now=lambda: float(NOW_S))
    await memory.store(page(URL, NOW_S))
    tail = memory.archive.log.tail
    for url in (OTHER, OTHER + "robots.txt", "http://example.org/never", "urn:uuid:1"):
        await memory.note_failure(url, NOW_S + 10, REFUSED)
        await memory.note_answer(url, NOW_S + 11)
    await memory.note_answer(URL, NOW_S + 12)
    assert memory.archive.log.tail == tail
    await memory.note_failure(URL, NOW_S + 100, "\x1b")
    tail = memory.archive.log.tail
    await memory.note_failure(URL, NOW_S + 99 + FAILURES_APART_S, REFUSED)
    assert memory.archive.log.tail == tail
    await memory.note_failure(URL, NOW_S + 100 + FAILURES_APART_S, REFUSED)
    assert await memory.unreachable(URL) == Unreachable(
        NOW_S + 100, NOW_S + 100 + FAILURES_APART_S, 2, REFUSED
    )
    await memory.note_visits([Visit(url=URL, time_s=NOW_S + 2_000, status=304)])
    await memory.note_failure(URL, NOW_S + 2_001, "soon after an answer")
    assert await memory.unreachable(URL) == Unreachable(
        NOW_S + 2_001, NOW_S + 2_001, 1, "soon after an answer"
    )


async def test_the_newest_version_of_a_history_tells_it_to_machines() -> None:
    memory = MemoryStore(now=lambda: float(NOW_S))
    for at in (0, 10):
        await memory.store(page(URL, NOW_S + at, b"%d" % at))
    await memory.note_failure(URL, NOW_S + 100, REFUSED)
    report = await perform(memory, History(url=URL), lambda words: None)
    assert [one.get("unreachable") for one in report.facts] == [
        None,
        {
            "since": "2023-11-14T22:15:00Z",
            "last": "2023-11-14T22:15:00Z",
            "reason": REFUSED,
            "tries": 1,
        },
    ]
