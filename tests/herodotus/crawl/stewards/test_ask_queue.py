"""Do asks reach their stewards together, and do peers that ask each other not wait in a circle?"""

from typing import Any

import anyio
import pytest
import trio.testing

from dht import Contact
from herodotus.crawl.stewards.ask_queue import CALLS_AT_ONCE, Desk, Told
from herodotus.crawl.stewards.wire import Ask, NotYet, decode_asks, encode_answers
from herodotus.peers.calls import CALL_DEADLINE_S, Questions
from tests.herodotus.peers.table_ring import contact_of, link_peer

pytestmark = pytest.mark.anyio
STEWARD = contact_of(link_peer(0))


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Slow:
    """A steward that answers for hosts when it is let, and for addresses at once."""

    def __init__(self) -> None:
        self.may_answer = anyio.Event()
        self.asked: list[list[str]] = []

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        assert (to, service) == (STEWARD, "leases.ask")
        subjects = [ask.subject for ask in decode_asks(body).asks]
        self.asked.append(subjects)
        if any(subject.startswith("host:") for subject in subjects):
            with anyio.fail_after(deadline_s):
                await self.may_answer.wait()
        return encode_answers([NotYet(10, "resting") for _ in subjects])


async def asked_for(desk: Desk, subject: str, told: list[tuple[str, Told]]) -> None:
    told.append((subject, await desk.ask(STEWARD, Ask(subject=subject, wanted=1))))


async def test_asks_for_addresses_do_not_wait_for_those_for_hosts() -> None:
    """Found by a ring of eight with sixty hosts: half of all asks came to nothing, each after ten seconds."""
    steward, told = Slow(), list[tuple[str, Told]]()
    questions: Questions = steward
    desk = Desk(lambda: questions)
    async with desk.opened(), anyio.create_task_group() as tasks:
        for number in range(CALLS_AT_ONCE):
            tasks.start_soon(asked_for, desk, f"host:{number}.example", told)
            await anyio.sleep(0.1)
        for subject in ("host:b.example", "address:192.0.2.1", "host:c.example"):
            tasks.start_soon(asked_for, desk, subject, told)
        await anyio.sleep(1)
        assert [subject for subject, _ in told] == ["address:192.0.2.1"]
        steward.may_answer.set()
    at_once = [[f"host:{number}.example"] for number in range(CALLS_AT_ONCE)]
    assert steward.asked[:-1] == [*at_once, ["address:192.0.2.1"]]
    assert sorted(steward.asked[-1]) == ["host:b.example", "host:c.example"]  # in one call
    assert desk.calls_failed == 0
    assert all(isinstance(one.answer, NotYet) for _, one in told)


async def test_nobody_waits_for_ever_when_the_desk_closes() -> None:
    steward, told = Slow(), list[tuple[str, Told]]()
    questions: Questions = steward
    desk = Desk(lambda: questions)
    async with anyio.create_task_group() as tasks, desk.opened():
        for number in range(CALLS_AT_ONCE + 2):
            tasks.start_soon(asked_for, desk, f"host:{number}.example", told)
        await anyio.sleep(1)
    assert sorted(subject for subject, _ in told) == [f"host:{number}.example" for number in range(5)]
    assert all(one.answer is None for _, one in told)
