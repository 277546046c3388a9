"""Are all peers asked within bounds of memory and time, whatever one of them does?"""

from collections.abc import Awaitable, Callable, Sequence

import anyio
import pytest
from trio.testing import MockClock

from herodotus.machine import Machine
from herodotus.portal import ring_questions
from herodotus.portal.answer import Answer, Request
from herodotus.portal.other_holders import PortalAddress
from herodotus.portal.ring_questions import Gatherer
from tests.herodotus.portal.test_ring_lists import ORIGINS

LATE = "http://192.0.2.66:5484"


class Slow:
    """Some peers answer at once, and one as late as it can."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def others(self) -> tuple[PortalAddress, ...]:
        return tuple(PortalAddress(origin=origin) for origin in (LATE, *ORIGINS))

    async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
        self.asked.append(place.origin)
        if place.origin == LATE:
            await anyio.sleep_forever()
        return Answer(content_type="text/plain", body=b"x")


def in_virtual_time(work: Callable[[], Awaitable[None]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Its clock leaps while a thread works, so answers are read in place."""

    async def here(read: Callable[[], object], **options: object) -> object:
        return read()

    monkeypatch.setattr("herodotus.portal.ring_questions.anyio.to_thread.run_sync", here)
    anyio.run(work, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)})


def test_who_keeps_everybody_waiting_is_not_asked_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        ring = Slow()
        gatherer = Gatherer(ring, ring, Machine())
        others = await ring.others()
        begun = anyio.current_time()
        first_time = await gatherer.ask_all("/", others, lambda answer: answer.body)
        assert anyio.current_time() - begun == ring_questions.PATIENCE_S
        again = await gatherer.ask_all("/", others, lambda answer: answer.body)
        assert anyio.current_time() - begun == ring_questions.PATIENCE_S, "nobody waited any more"
        for gathered in (first_time, again):
            assert (len(gathered.given), gathered.is_partial) == (4, True)
        assert ring.asked.count(LATE) == 1
        await anyio.sleep(ring_questions.SLOW_S)
        await gatherer.ask_all("/", others, lambda answer: answer.body)
        assert ring.asked.count(LATE) == 2

    in_virtual_time(run, monkeypatch)


def test_who_was_not_asked_yet_is_not_blamed_for_those_who_were(monkeypatch: pytest.MonkeyPatch) -> None:
    late = [PortalAddress(origin=f"{LATE}{number}") for number in range(ring_questions.AT_ONCE)]
    honest = [PortalAddress(origin=origin) for origin in ORIGINS]

    class Crowded:
        async def others(self) -> tuple[PortalAddress, ...]:
            return (*late, *honest)

        async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
            if place in late:
                await anyio.sleep_forever()
            return Answer(content_type="text/plain", body=b"x")

    async def run() -> None:
        ring = Crowded()
        gatherer = Gatherer(ring, ring, Machine())
        given: list[int] = []

        async def ask(others: Sequence[PortalAddress]) -> None:
            gathered = await gatherer.ask_all("/", others, lambda answer: answer.body)
            given.append(len(gathered.given))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(ask, late)
            await anyio.sleep(1)
            monkeypatch.setattr(
                ring_questions, "PATIENCE_S", 1.0
            )  # it ends before there is room for anybody else
            tasks.start_soon(ask, honest)
        await ask(await ring.others())
        assert given == [0, 0, len(honest)], "who stalls is left out, and nobody else"

    in_virtual_time(run, monkeypatch)


def test_who_finds_all_turns_taken_waits_for_one_and_not_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        ring = Slow()
        gatherer = Gatherer(ring, ring, Machine())
        others = await ring.others()
        whole: list[bool] = []

        async def ask(wait_s: float) -> None:
            await anyio.sleep(wait_s)
            gathered = await gatherer.ask_all("/", others, lambda answer: answer.body)
            whole.append(len(gathered.given) == 4)

        async with anyio.create_task_group() as tasks:
            for number in range(ring_questions.GATHERINGS_AT_ONCE):
                tasks.start_soon(ask, number / 1_000)
            tasks.start_soon(ask, 0.5)  # waits in vain
            tasks.start_soon(ask, ring_questions.PATIENCE_S - 1)  # has its turn when the first are done
        assert whole.count(False) == 1

    in_virtual_time(run, monkeypatch)


def test_so_many_bytes_of_others_lie_in_memory_and_who_comes_beyond_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ring_questions, "HELD_BYTES_MAX", 250)

    class Everybody:
        async def others(self) -> tuple[PortalAddress, ...]:
            return tuple(PortalAddress(origin=origin) for origin in ORIGINS)

        async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
            return Answer(content_type="text/plain", body=b"x" * 100)

    async def run() -> None:
        everybody = Everybody()
        gatherer = Gatherer(everybody, everybody, Machine())
        for _ in range(3):  # what was held is given back each time
            gathered = await gatherer.ask_all("/", await everybody.others(), lambda answer: answer.body)
            assert (len(gathered.given), gathered.is_partial) == (2, True)

    anyio.run(run)
