"""Do small questions get through, with whatever is lost, late or slow? Two ends in virtual time."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any

import anyio
import anyio.abc
import pytest

from dht import Contact
from dht.core.ids import PeerKey
from dht.core.messages import ANSWERED, UNDER_WAY, Message, ShortAnswer, ShortCall
from dht.core.records import Address
from dht.identity import peer_key
from dht.short_calls import REPEAT_AFTER_S, SHORT_CALL_S, ShortCalls
from tests.dht.link_world import key_from
from tests.dht.test_node import ring_of

pytestmark = pytest.mark.anyio
CROSSING_S = 0.02


@pytest.fixture
def anyio_backend(virtual_time: Any) -> Any:
    return virtual_time


def contact_of(name: str) -> Contact:
    address = Address(host=bytes((192, 0, 2, len(name))), port=4484)
    return Contact.at(PeerKey(peer_key(key_from(name))), address, 0, 0, "off")


@dataclass
class Line:
    """Between an asker and an asked peer; `loses` says which datagrams, counted from 0, never arrive."""

    tasks: anyio.abc.TaskGroup
    loses: Callable[[int], bool] = lambda number: False
    takes_s: float = 0.0
    sent: list[Message] = field(default_factory=list)
    worked: int = 0

    def __post_init__(self) -> None:
        self.ends = contact_of("anna"), contact_of("bert")
        self.asker = ShortCalls(self._to(1), Random(1))
        self.asked = ShortCalls(self._to(0), Random(2))
        self.asker.tasks = self.asked.tasks = self.tasks
        self.asked.serve(self._answer)

    def _to(self, end: int) -> Callable[[Message, Contact], None]:
        def send(message: Message, to: Contact) -> None:
            number = len(self.sent)
            self.sent.append(message)
            if not self.loses(number):
                self.tasks.start_soon(self._deliver, message, end)

        return send

    async def _deliver(self, message: Message, end: int) -> None:
        await anyio.sleep(CROSSING_S)
        if isinstance(message, ShortCall):
            self.asked.arrived(message, self.ends[0])
        elif isinstance(message, ShortAnswer):
            self.asker.answered(message, self.ends[1])

    async def _answer(self, sender: Contact, question: ShortCall) -> ShortAnswer:
        self.worked += 1
        await anyio.sleep(self.takes_s)
        return ShortAnswer(id=question.id, outcome=ANSWERED, body=question.body[::-1])

    async def ask(self) -> bytes | None:
        answer = await self.asker.ask(self.ends[1], "echo", b"abc")
        return None if answer is None else answer.body


@asynccontextmanager
async def opened(
    loses: Callable[[int], bool] = lambda number: False, takes_s: float = 0.0
) -> AsyncIterator[Line]:
    async with anyio.create_task_group() as tasks:
        yield Line(tasks, loses, takes_s)
        tasks.cancel_scope.cancel()


async def test_a_question_is_answered_in_one_round_trip() -> None:
    async with opened() as line:
        began = anyio.current_time()
        assert await line.ask() == b"cba"
        assert anyio.current_time() - began == pytest.approx(2 * CROSSING_S)
        assert len(line.sent) == 2


@pytest.mark.parametrize("lost", [0, 1])
async def test_a_lost_question_or_answer_is_asked_for_again_and_worked_on_once(lost: int) -> None:
    async with opened(lambda number: number == lost) as line:
        assert await line.ask() == b"cba"
        assert line.worked == 1


async def test_silence_ends_soon_so_that_a_stream_can_be_tried() -> None:
    async with opened(lambda number: True) as line:
        began = anyio.current_time()
        assert await line.ask() is None
        assert anyio.current_time() - began == pytest.approx(sum(REPEAT_AFTER_S))
        assert len(line.sent) == len(REPEAT_AFTER_S)


async def test_a_peer_that_is_at_work_is_waited_for() -> None:
    async with opened(takes_s=7.0) as line:
        assert await line.ask() == b"cba"
        assert line.worked == 1


async def test_the_answer_of_a_peer_that_was_at_work_may_be_lost_as_well() -> None:
    async with anyio.create_task_group() as tasks:

        def loses(number: int) -> bool:
            sent = line.sent[number]
            is_answer = isinstance(sent, ShortAnswer) and sent.outcome == ANSWERED
            return is_answer and sum(one == sent for one in line.sent) == 1

        line = Line(tasks, loses, takes_s=3.0)
        assert await line.ask() == b"cba"
        assert line.worked == 1
        tasks.cancel_scope.cancel()


async def test_a_peer_that_is_at_work_for_ever_is_given_up() -> None:
    async with opened(takes_s=1e6) as line:
        began = anyio.current_time()
        assert await line.ask() is None
        assert anyio.current_time() - began == pytest.approx(SHORT_CALL_S)


async def test_another_peers_answer_does_not_count() -> None:
    async with opened(lambda number: True) as line:
        async with anyio.create_task_group() as tasks:
            heard: list[bytes | None] = []

            async def ask() -> None:
                heard.append(await line.ask())

            tasks.start_soon(ask)
            await anyio.sleep(0.01)
            (question,) = line.sent
            forged = ShortAnswer(id=question.id, outcome=ANSWERED, body=b"forged")
            line.asker.answered(forged, contact_of("carl"))
        assert heard == [None]
        assert line.asker.counts["unasked"] == 1


async def test_a_peer_says_that_it_is_at_work_only_when_it_is_asked_again() -> None:
    async with opened(takes_s=1.0) as line:
        assert await line.ask() == b"cba"
        assert [one.outcome for one in line.sent if isinstance(one, ShortAnswer)] == [UNDER_WAY, ANSWERED]


async def test_nodes_of_a_ring_ask_each_other_over_their_sessions() -> None:
    async def answer(sender: Contact, question: ShortCall) -> ShortAnswer:
        return ShortAnswer(id=question.id, outcome=ANSWERED, body=sender.peer + question.body)

    async with ring_of("anna", "bert") as (anna, bert):
        bert.node.short_calls.serve(answer)
        found = await anna.node.short_calls.ask(bert.node.me, "echo", b"abc")
        assert found is not None
        assert found.body == anna.node.me.peer + b"abc"
