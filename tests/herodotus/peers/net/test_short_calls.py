"""Which calls go by datagram, and what becomes of them where datagrams do not get through?"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from random import Random
from typing import Any

import anyio
import pytest
import trio.testing

from dht import Contact
from dht.core.ids import PeerKey
from dht.core.limits import Rate
from dht.core.messages import ANSWERED, BY_STREAM, REFUSED, SHORT_BYTES_MAX, ShortAnswer, ShortCall
from herodotus.core.admission import Admission, AdmissionLimits
from herodotus.peers.calls import CALL_DEADLINE_S, PeerUnreachableError, RefusedError, Services
from herodotus.peers.net.short_calls import SILENT_S, ShortAnswering, ShortFirst
from tests.herodotus.peers.net.peers import Known
from tests.herodotus.peers.table_ring import contact_of, link_peer

pytestmark = pytest.mark.anyio
ANNA, BERT = contact_of(link_peer(0)), contact_of(link_peer(1))


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


class Streams:
    """Calls by stream, noted."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, float]] = []

    async def call(
        self, to: Contact, service: str, body: bytes, *, deadline_s: float = CALL_DEADLINE_S
    ) -> bytes:
        self.asked.append((service, deadline_s))
        return b"by stream"

    def stream(
        self, to: Contact, service: str, body: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError


class Datagrams:
    """The other peer behind a ring; silent as long as it has no answering side."""

    def __init__(self, answering: ShortAnswering | None = None) -> None:
        self.answering = answering
        self.asked = 0

    async def ask(self, to: Contact, service: str, body: bytes) -> ShortAnswer | None:
        self.asked += 1
        if self.answering is None:
            await anyio.sleep(2.0)
            return None
        return await self.answering.answer(ANNA, ShortCall(id=1, service=service, body=body))

    def serve(self, answerer: Callable[[Contact, ShortCall], Awaitable[ShortAnswer | None]] | None) -> None:
        raise NotImplementedError


async def echo(peer: bytes, body: bytes) -> bytes:
    return peer[:1] + body


async def refuse(peer: bytes, body: bytes) -> bytes:
    raise RefusedError("too-many", retry_after_s=2.5)


async def talk(peer: bytes, body: bytes) -> bytes:
    return bytes(SHORT_BYTES_MAX + 1)


SERVICES = Services(
    calls={"echo": echo, "no": refuse, "long": talk, "hidden": echo},
    by_datagram=frozenset({"echo", "no", "long"}),
)


def answering(known: Known | None = None, rate: Rate | None = None) -> ShortAnswering:
    limits = AdmissionLimits(calls_per_peer=rate or Rate(per_second=100, burst=400))
    return ShortAnswering(SERVICES, known or Known(), Admission(limits))


def calls(datagrams: Datagrams, streams: Streams) -> ShortFirst:
    return ShortFirst(streams, datagrams, ("echo", "no", "long", "hidden"), PeerKey(ANNA.peer))


async def test_a_small_call_needs_no_stream() -> None:
    streams = Streams()
    asker = calls(Datagrams(answering()), streams)
    assert await asker.call(BERT, "echo", b"abc") == ANNA.peer[:1] + b"abc"
    assert streams.asked == []
    assert asker.answered == 1


async def test_a_refusal_says_why_and_when_again() -> None:
    with pytest.raises(RefusedError) as refused:
        await calls(Datagrams(answering()), Streams()).call(BERT, "no", b"")
    assert (refused.value.reason, refused.value.retry_after_s) == ("too-many", 2.5)


@pytest.mark.parametrize(
    ("to", "service", "size"),
    [(BERT, "other", 1), (BERT, "echo", SHORT_BYTES_MAX + 1), (ANNA, "echo", 1)],
)
async def test_other_services_large_questions_and_our_own_go_by_stream_at_once(
    to: Contact, service: str, size: int
) -> None:
    datagrams, streams = Datagrams(answering()), Streams()
    assert await calls(datagrams, streams).call(to, service, bytes(size)) == b"by stream"
    assert datagrams.asked == 0


@pytest.mark.parametrize("service", ["long", "hidden"])
async def test_an_answer_that_does_not_fit_or_a_service_that_has_none_is_asked_for_by_stream(
    service: str,
) -> None:
    datagrams, streams = Datagrams(answering()), Streams()
    asker = calls(datagrams, streams)
    assert await asker.call(BERT, service, b"") == b"by stream"
    assert datagrams.asked == 1
    assert await asker.call(BERT, "echo", b"") == ANNA.peer[:1]


async def test_a_stranger_is_sent_to_a_stream_where_it_is_judged() -> None:
    streams = Streams()
    datagrams = Datagrams(answering(Known(is_everybody=False)))
    assert await calls(datagrams, streams).call(BERT, "echo", b"") == b"by stream"


async def test_a_silent_peer_is_called_by_stream_within_the_deadline_and_for_a_while() -> None:
    datagrams, streams = Datagrams(), Streams()
    asker = calls(datagrams, streams)
    assert await asker.call(BERT, "echo", b"", deadline_s=10.0) == b"by stream"
    ((service, left_s),) = streams.asked
    assert service == "echo"
    assert left_s == pytest.approx(8.0)
    await asker.call(BERT, "echo", b"")
    assert datagrams.asked == 1
    await anyio.sleep(SILENT_S)
    await asker.call(BERT, "echo", b"")
    assert datagrams.asked == 2


async def test_a_deadline_may_pass_before_the_silence_is_over() -> None:
    with pytest.raises(PeerUnreachableError):
        await calls(Datagrams(), Streams()).call(BERT, "echo", b"", deadline_s=1.0)


async def test_short_calls_and_those_by_stream_have_one_ration() -> None:
    other = answering(rate=Rate(per_second=1, burst=2))
    question = ShortCall(id=1, service="echo", body=b"")
    found = [await other.answer(ANNA, question) for _ in range(3)]
    assert [one and one.outcome for one in found] == [ANSWERED, ANSWERED, None]
    await anyio.sleep(1.0)
    assert await other.answer(ANNA, question) is not None


async def test_what_another_peer_says_of_its_refusal_is_checked() -> None:
    class Odd(Datagrams):
        async def ask(self, to: Contact, service: str, body: bytes) -> ShortAnswer | None:
            chance = Random(len(body))
            return ShortAnswer(id=1, outcome=REFUSED, body=chance.randbytes(len(body)))

    for size in (0, 3, 4, 20, 200):
        with pytest.raises((PeerUnreachableError, RefusedError)) as raised:
            await calls(Odd(), Streams()).call(BERT, "echo", bytes(size))
        assert str(raised.value).isprintable()


async def test_a_peer_without_datagram_services_says_so() -> None:
    found = await answering().answer(ANNA, ShortCall(id=5, service="hidden", body=b""))
    assert found == ShortAnswer(id=5, outcome=BY_STREAM, body=b"")
