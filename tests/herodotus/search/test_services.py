"""Whom does a peer answer, how much, and what does it keep of a question?"""

import logging
from collections.abc import Iterator
from typing import Any

import anyio
import msgspec
import pytest
import trio.testing

from dht.core.ids import PeerKey
from herodotus.core.search.cover import CIRCLE, Arc
from herodotus.core.search.grammar import parse
from herodotus.peers.calls import RefusedError
from herodotus.search import services, wire
from herodotus.search.wire import Asked
from tests.herodotus.search.made_web import BEGIN_S, deposit_of
from tests.herodotus.search.small_ring import SmallPeer, SmallRing

pytestmark = pytest.mark.anyio
URL = "https://a.example/"
EVERYWHERE = (Arc(0, CIRCLE // 2), Arc(CIRCLE // 2, 0))
STRANGER = b"s" * 32


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallRing]:
    ring = SmallRing(tmp_path_factory.mktemp("ring"), 2, BEGIN_S)
    ring.put([deposit_of(URL, BEGIN_S, "a ferry with a bell")])
    yield ring
    ring.close()


@pytest.fixture
def peer(filled: SmallRing) -> SmallPeer:
    filled.begin()
    return next(iter(filled.peers.values()))


def other(peer: SmallPeer) -> PeerKey:
    return next(key for key in peer.ring.peers if key != peer.key)


def asked(text: str = "ferry", **changed: Any) -> bytes:
    whole = Asked(
        question=parse(text, BEGIN_S), hits=10, arcs=EVERYWHERE, weights={}, after=None, now_s=BEGIN_S
    )
    return wire.encode_ask(msgspec.structs.replace(whole, **changed))


async def call(peer: SmallPeer, body: bytes, service: str = wire.ASK, caller: bytes | None = None) -> bytes:
    return await peer.services.services.calls[service](caller or other(peer), body)


async def refusal(peer: SmallPeer, body: bytes, service: str = wire.ASK, caller: bytes | None = None) -> str:
    with pytest.raises(RefusedError) as told:
        await call(peer, body, service, caller)
    return told.value.reason


async def test_a_member_is_told_what_fits_and_what_is_seen_of_it(peer: SmallPeer) -> None:
    body = asked()
    answer = wire.decode_answer(await call(peer, body), wire.decode_ask(body))
    assert (answer.pages, answer.documents, answer.likelier) == (1, 1, {})
    (hit,) = answer.hits
    shown = await call(
        peer, wire.encode_ask_shown(["ferry"], [(hit.position, hit.first_s), (7, 7)]), wire.SHOW
    )
    told = wire.decode_shown(shown)
    assert {number: one.shown.url for number, one in told.items()} == {0: URL}
    assert [run.text for run in told[0].shown.snippet if run.is_marked] == ["ferry"]
    having = await call(peer, wire.encode_ask_words(["ferry", "boat"]), wire.WORDS)
    assert wire.decode_words(having, 2) == (1, ((1, 1), (0, 0)))


async def test_strangers_are_told_nothing(peer: SmallPeer) -> None:
    for service, body in (
        (wire.ASK, asked()),
        (wire.WORDS, wire.encode_ask_words(["a"])),
        (wire.SHOW, wire.encode_ask_shown([], [(1, 1)])),
    ):
        assert await refusal(peer, body, service, STRANGER) == "unknown"


async def test_what_cannot_be_answered_is_refused_by_a_word(peer: SmallPeer) -> None:
    assert await refusal(peer, b"\xc1") == "malformed"
    assert await refusal(peer, asked("ferry", question=parse('"ä' + "ö" * 40 + '"', 0))) == wire.NARROW


async def test_an_index_that_is_not_filled_yet_does_not_answer(
    peer: SmallPeer, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = peer.bench.words
    monkeypatch.setattr(words, "state", msgspec.structs.replace(words.state, walked="00"))
    assert await refusal(peer, asked()) == wire.RESTS


async def test_who_has_used_up_its_share_of_the_processor_is_told_when_to_come_again(peer: SmallPeer) -> None:
    costs_s = iter(range(100))
    peer.processor_s = lambda: float(next(costs_s))  # a second each
    await call(peer, asked())
    await call(peer, asked())
    with pytest.raises(RefusedError) as told:
        await call(peer, asked())
    assert told.value.reason == wire.BUSY
    assert told.value.retry_after_s is not None
    assert 0 < told.value.retry_after_s < 30
    await anyio.sleep(told.value.retry_after_s + 0.1)
    await call(peer, asked())


async def test_all_askers_together_have_a_share_too(peer: SmallPeer) -> None:
    costs_s = iter(range(100))
    peer.processor_s = lambda: float(next(costs_s))
    askers = [PeerKey(bytes([100 + number]) * 32) for number in range(6)]
    peer.friends.update(askers)
    for asker in askers[:5]:
        await call(peer, asked(), caller=asker)
    assert await refusal(peer, asked(), caller=askers[5]) == wire.BUSY


async def test_no_more_than_so_many_wait(peer: SmallPeer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "WAITING_MAX", 2)
    refused = []

    async def ask() -> None:
        try:
            await call(peer, asked())
        except RefusedError as error:
            refused.append(error.reason)

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(ask)
    assert refused == [wire.BUSY] * 3
    await call(peer, asked())


async def test_nothing_of_a_question_is_in_the_log(peer: SmallPeer, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    await call(peer, asked("ferry"))
    await peer.ask("bell -boat")
    await refusal(peer, b"\xc1ferry")
    assert not [word for word in ("ferry", "bell", "boat") if word in caplog.text]
