"""Does what makes a peer work cost its asker as much, and no single answer more than others can wait for?"""

import gzip
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import anyio
import anyio.lowlevel
import msgspec
import pytest

from herodotus.portal import archive_questions
from herodotus.portal.answer import Answer, Request, document, html
from herodotus.portal.answer import _gzipped as gzipped
from herodotus.portal.archive_questions import LARGE, Exact, TooBusyError, _history, _long_history
from herodotus.portal.long_histories import LongHistory
from herodotus.portal.replay import Replay, replay_answer
from herodotus.portal.targets import NEWEST
from herodotus.store import Version
from tests.herodotus.portal.library import HOME, HOST, SITE, Library, at, response
from tests.herodotus.portal.rooms import Ring, Room
from tests.herodotus.portal.test_api import asked, whole


def test_an_answer_about_versions_is_bounded_and_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.portal.api.captures.CAPTURES_SHOWN_MAX", 4)
    days = [f"202601{day:02}" for day in range(1, 10)]
    room = Room(*(response(HOME, day, b"%d" % (number // 3)) for number, day in enumerate(days)))
    contents = whole(room, f"/api/v1/captures?url={HOME}", "contents", parts_min=2)
    assert [one["count"] for one in contents] == [3, 3, 3]
    assert [len(one["captures"]) for one in contents] == [3, 1, 3]


class Histories:
    """A page with eight versions, and what is read of it and held while answers are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, short_max: int) -> None:
        monkeypatch.setattr(archive_questions, "_KEPT_VERSIONS_MAX", 2)
        monkeypatch.setattr(archive_questions, "SHORT_VERSIONS_MAX", short_max)
        monkeypatch.setattr(archive_questions, "_history", self._reading(_history))
        monkeypatch.setattr(archive_questions, "_long_history", self._reading(_long_history))
        self.shelf = Library(*(response(HOME, f"202601{day:02}", b"%d" % day) for day in range(1, 9))).shelf
        self.reads = 0
        self.open = self.most = self.refused = 0

    def _reading(self, read: Callable[..., Sequence[Version]]) -> Callable[..., Sequence[Version]]:
        def counted(*asked: Any) -> Sequence[Version]:
            self.reads += 1
            return read(*asked)

        return counted

    async def ask(self, from_s: int) -> None:
        try:
            async with self.shelf.history((HOME,), from_s) as versions:
                assert len(versions) == 8
                self.open += 1
                self.most = max(self.most, self.open)
                await anyio.wait_all_tasks_blocked()
                self.open -= 1
        except TooBusyError:
            self.refused += 1

    async def waits_for(self, condition: Callable[[], bool]) -> None:
        with anyio.fail_after(30.0):
            while not condition():
                await anyio.lowlevel.checkpoint()

    async def ask_at_once(self, *from_s: int) -> None:
        async with anyio.create_task_group() as tasks:
            for one in from_s:
                tasks.start_soon(self.ask, one)


def test_long_histories_are_answered_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = Histories(monkeypatch, short_max=7)
    anyio.run(histories.ask_at_once, *[0, 1] * 10)
    assert histories.most == 1


def test_a_long_history_is_held_in_rows_and_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = Histories(monkeypatch, short_max=8)

    async def ask() -> Sequence[Version]:
        async with histories.shelf.history((HOME, "https://other.example/")) as versions:
            return versions

    short = anyio.run(ask)
    monkeypatch.setattr(archive_questions, "SHORT_VERSIONS_MAX", 7)
    long = anyio.run(ask)
    assert isinstance(long, LongHistory)
    assert not isinstance(short, LongHistory)
    assert list(long) == short


def test_a_long_history_is_read_once_for_all_who_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = Histories(monkeypatch, short_max=7)

    async def ask_while_one_is_open() -> None:
        async with anyio.create_task_group() as tasks, histories.shelf.history((HOME,)):
            for _ in range(20):
                tasks.start_soon(histories.ask, 0)
            await histories.waits_for(lambda: histories.shelf._long._asked == 21)

    anyio.run(ask_while_one_is_open)
    assert (histories.reads, histories.most, histories.refused) == (1, 1, 0)
    assert histories.shelf._long._kept is None


def test_short_histories_are_answered_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    histories = Histories(monkeypatch, short_max=8)

    async def ask_while_one_is_open() -> None:
        async with histories.shelf.history((HOME,)):
            await histories.ask_at_once(0, 1)

    anyio.run(ask_while_one_is_open)
    assert (histories.reads, histories.refused) == (3, 0)


@pytest.mark.parametrize(
    ("bound", "value", "refused"), [("LONG_WAITING_MAX", 3, 17), ("LONG_WAIT_S", 0.01, 20)]
)
def test_who_would_wait_too_long_for_a_long_history_is_told_so(
    bound: str, value: float, refused: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    histories = Histories(monkeypatch, short_max=7)

    async def ask_while_one_is_open() -> None:
        async with anyio.create_task_group() as tasks, histories.shelf.history((HOME,)):
            monkeypatch.setattr(archive_questions, bound, value)
            for _ in range(20):
                tasks.start_soon(histories.ask, 0)
            await histories.waits_for(lambda: histories.refused == refused)

    anyio.run(ask_while_one_is_open)
    assert histories.refused == refused


def test_long_answers_are_written_in_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    wrote: list[str] = []

    def noting(value: object) -> object:
        wrote.append(threading.current_thread().name)
        return to_builtins(value)

    to_builtins = msgspec.to_builtins
    monkeypatch.setattr("herodotus.portal.api.rest.msgspec.to_builtins", noting)
    asked(Room(response(HOME, "20260101", b"1")), f"/api/v1/captures?url={HOME}")
    assert wrote
    assert threading.main_thread().name not in wrote


@pytest.mark.parametrize("accept", ["application/json", "text/html"])
def test_listings_of_all_peers_are_written_in_threads(accept: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrote: list[threading.Thread] = []

    def noting(work: Callable[..., Answer]) -> Callable[..., Answer]:
        def noted(*given: object) -> Answer:
            wrote.append(threading.current_thread())
            return work(*given)

        return noted

    monkeypatch.setattr("herodotus.portal.archive_pages.document", noting(document))
    monkeypatch.setattr("herodotus.portal.archive_pages.html", noting(html))
    ring = Ring()
    room = Room(response(HOME, "20260101", b"1"), ring=ring)
    ring.stale.append("http://192.0.2.50:5484")
    assert HOME.encode() in room.ask(f"/web/*/{SITE}/*", {"accept": accept}).body
    assert len(wrote) == 1
    assert wrote[0] is not threading.main_thread()


@pytest.mark.parametrize(
    ("target", "others", "cost"),
    [
        (f"/cdx/search/cdx?url={SITE}/*", 0, 2),
        (f"/cdx/search/cdx?url={SITE}/*", 3, 5),
        (f"/cdx/search/cdx?url={SITE}/*", 70, 66),
        (f"/cdx/search/cdx?url={SITE}/*&showNumPages=true", 0, 22),
        (f"/cdx/search/cdx?url={SITE}/*&page=1500", 0, 17),
        ("/api/v1/statistics/host?sort=captures", 0, 10),
        (f"/api/v1/inlinks?url={HOME}", 3, 10),
        (f"/api/v1/inlinks?url={HOME}&scope=ring", 3, 13),
    ],
)  # fmt: skip
def test_who_makes_a_peer_work_pays_for_it(
    target: str, others: int, cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    ring = Ring()
    room = Room(response(HOME, "20260101", b"1"), ring=ring, client="192.0.2.1")
    ring.stale += [f"http://192.0.2.{number + 50}:5484" for number in range(others)]
    taken: list[float] = []
    limits = room.rooms._limits

    def counting(request: Request, cost: float) -> None:
        taken.append(cost)

    monkeypatch.setattr(limits, "refusal", counting)
    room.ask(target)
    assert sum(taken) == cost


def test_a_large_capture_waits_for_no_turn_in_memory_and_holds_up_no_small_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("herodotus.portal.archive_questions.LARGE_BYTES", 10_000)
    large = bytes(range(256)) * 400
    library = Library(
        response(f"{SITE}/large", "20260101", large, "image/png"), response(HOME, "20260101", b"<p>small")
    )
    lock, counts = threading.Lock(), Counter[str]()

    def counted(replay: Replay) -> Answer:
        with lock:
            counts["now"] += len(replay.capture.body) > 10_000
            counts["most"] = max(counts["most"], counts["now"])
        answer = replay_answer(replay)
        with lock:
            counts["now"] -= len(replay.capture.body) > 10_000
        return answer

    monkeypatch.setattr("herodotus.portal.archive_pages.replay_answer", counted)

    async def work() -> list[Answer]:
        exact = Exact(time_s=at("20260101"), urls=(f"{SITE}/large",))
        chosen = await library.shelf.choose(exact.urls, NEWEST, exact=exact)
        assert chosen is not None
        assert (chosen.capture, chosen.is_large) == (None, True)
        answers: list[Answer] = []

        async def ask(target: str) -> None:
            answers.append(await library.handlers.answer(Request(target=target, headers={"host": HOST})))

        async with anyio.create_task_group() as tasks:
            for target in [f"{SITE}/large", HOME] * 20:
                tasks.start_soon(ask, f"/web/20260101000000id_/{target}")
        return answers

    answers = anyio.run(work)
    assert {(answer.status, len(answer.body)) for answer in answers} == {(200, len(large)), (200, 8)}
    assert 1 <= counts["most"] <= LARGE.width
    assert counts["now"] == 0
    monkeypatch.setattr(library.shelf._reading_large, "_asked_max", 0)
    busy = library.get(f"/web/20260101000000id_/{SITE}/large")
    assert (busy.status, busy.headers["Retry-After"]) == (503, "5")
    assert library.get(f"/web/20260101000000id_/{HOME}").status == 200


def test_a_large_answer_is_hashed_and_packed_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    wrote: list[threading.Thread] = []

    def noting(body: bytes) -> bytes:
        wrote.append(threading.current_thread())
        return gzipped(body)

    monkeypatch.setattr("herodotus.portal.answer._gzipped", noting)
    library = Library(response(HOME, "20260101", b"<p>word" * 20_000))
    answer = library.get(f"/web/20260101000000/{HOME}", {"accept-encoding": "gzip"})
    assert gzip.decompress(answer.body).startswith(b"<script")
    assert len(wrote) == 1
    assert wrote[0] is not threading.main_thread()
