"""Does a small ring answer as the texts themselves would, through any peer, and whatever others do?"""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest
import trio.testing

from dht.core.ids import PeerKey
from herodotus.core.errors import QuestionError, SearchRestsError
from herodotus.core.search.cover import CIRCLE, SURPLUS_S, Arc, arcs_of, part_of_circle
from herodotus.core.search.grammar import parse
from herodotus.peers.calls import RefusedError
from herodotus.search import wire
from herodotus.search.wire import Asked
from tests.herodotus.search.indexing import rows_of
from tests.herodotus.search.made_web import MadeWeb, date_of, made_web
from tests.herodotus.search.small_ring import Answering, SmallPeer, SmallRing, dead

pytestmark = pytest.mark.anyio

WEB = made_web(seed=5, pages=50, days=5)
FEW = made_web(seed=6, pages=16, days=2)
PEERS = 8


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, Any]]:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallRing]:
    ring = SmallRing(tmp_path_factory.mktemp("ring"), PEERS, WEB.end_s)
    for day in range(WEB.days):
        ring.put(WEB.deposits(day))
    yield ring
    ring.close()


@pytest.fixture
def ring(filled: SmallRing) -> SmallRing:
    filled.begin()
    return filled


def some_peer(ring: SmallRing, number: int) -> SmallPeer:
    return list(ring.peers.values())[number]


async def silent(service: str, body: bytes) -> bytes:
    await anyio.sleep_forever()
    raise AssertionError("never")


async def expect_truth(
    ring: SmallRing, questions: list[tuple[str, int]], share: float = 1.0, web: MadeWeb = WEB
) -> None:
    living = [peer for key, peer in ring.peers.items() if key not in ring.odd]
    for number, (word, day) in enumerate(questions):
        results = await living[number % len(living)].ask(f'"{word}" on:{date_of(day)}')
        wanted = web.with_word(word, day)
        shown = [one.url for first in results.shown for one in (first, *first.alike)]
        assert (sorted(shown), results.answer.pages) == (sorted(wanted), len(wanted)), (word, day)
        assert results.ring is not None
        assert results.ring.share == share


def questions(seed: int, count: int) -> list[tuple[str, int]]:
    return random.Random(seed).sample(WEB.telling(), count)


async def test_as_of_a_day_exactly_its_pages_are_found_through_any_peer(ring: SmallRing) -> None:
    await expect_truth(ring, questions(1, 24))


async def test_two_dead_peers_change_no_answer(ring: SmallRing) -> None:
    ring.odd.update(dict.fromkeys(sorted(ring.peers)[2:4], dead))
    await expect_truth(ring, questions(2, 18))


async def test_two_silent_peers_change_no_answer(ring: SmallRing) -> None:
    ring.odd.update(dict.fromkeys(sorted(ring.peers)[5:7], silent))
    started_s = anyio.current_time()
    await expect_truth(ring, questions(3, 18))
    assert anyio.current_time() - started_s < 18 * 1.0, "the first question waits for half of its time"


async def test_how_rare_words_are_waits_for_most_of_a_sample_and_not_for_all(
    ring: SmallRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("herodotus.search.ring_search.SAMPLE_SHARE", 0.5)
    peer = some_peer(ring, 0)
    await peer.ask(WEB.words[0])
    asked = sorted({key for service, key, _ in ring.carried if service == wire.WORDS} - {peer.key})
    assert len(asked) > 1
    ring.odd[asked[0]] = silent
    started_s = anyio.current_time()
    await peer.ask(WEB.words[1])
    took_s = anyio.current_time() - started_s
    assert 0.5 <= took_s < 0.6, "half of a second for the hits of the silent one, and none for its words"


async def test_peers_that_are_away_are_not_asked(ring: SmallRing) -> None:
    gone = sorted(ring.peers)[:2]
    ring.absent.update(dict.fromkeys(gone, 0.0))
    ring.odd.update(dict.fromkeys(gone, dead))
    await expect_truth(ring, questions(4, 12))
    assert not {key for _, key, _ in ring.carried} & {*gone}


# -- members come and go


@pytest.fixture
def small(tmp_path: Path) -> Iterator[SmallRing]:
    made = SmallRing(tmp_path / "small", PEERS, FEW.end_s)
    for day in range(FEW.days):
        made.put(FEW.deposits(day))
    yield made
    made.close()


async def expect_no_half_answers(ring: SmallRing) -> int:
    """What is told for the whole ring is whole. How often it was."""
    living = [peer for key, peer in ring.peers.items() if key not in ring.odd]
    whole = 0
    for number, (word, day) in enumerate(FEW.telling()[:12]):
        results = await living[number % len(living)].ask(f'"{word}" on:{date_of(day)}')
        shown = [one.url for first in results.shown for one in (first, *first.alike)]
        wanted = FEW.with_word(word, day)
        assert len(shown) == len({*shown}), "no page twice"
        assert {*shown} <= wanted
        assert results.ring is not None
        if results.ring.share == 1.0:
            whole += 1
            assert {*shown} == wanted
    return whole


async def test_while_members_leave_and_come_back_no_answer_is_half(small: SmallRing) -> None:
    first, second = sorted(small.peers)[1], sorted(small.peers)[5]
    for gone in ((first,), (first, second), (second,), ()):
        small.without(*gone)
        living = [peer for key, peer in small.peers.items() if key not in gone]
        assert await expect_no_half_answers(small) == 12, "two others have the words of each page"
        for peer in living:
            peer.follow(steps=1)
        await expect_no_half_answers(small)
        for peer in living:
            peer.follow()
        await expect_truth(small, FEW.telling()[:12], web=FEW)


async def test_where_all_that_had_the_words_left_the_share_says_so_until_others_have_them(
    small: SmallRing,
) -> None:
    url = min(FEW.pages)
    gone = [peer.key for peer in small.holders(url)[:3]]
    small.without(*gone)
    assert await expect_no_half_answers(small) == 0
    for key, peer in small.peers.items():
        if key not in gone:
            peer.follow()
    await expect_truth(small, FEW.telling()[:12], web=FEW)


async def test_three_peers_have_the_words_of_a_page_and_a_member_that_came_back_costs_a_day(
    small: SmallRing,
) -> None:
    def held() -> set[int]:
        """By how many peers the versions are held."""
        rows = Counter(row for peer in small.peers.values() for row in rows_of(peer.bench.words))
        return {*rows.values()}

    def follow() -> None:
        for peer in small.peers.values():
            peer.follow()

    assert held() == {3}
    small.without(sorted(small.peers)[1])
    follow()
    small.without()
    follow()
    assert held() == {3, 4}
    for _ in range(3):
        small.now_s += SURPLUS_S
        follow()
    assert held() == {3}
    await expect_truth(small, FEW.telling()[:12], web=FEW)


# -- what others do


def lying(ring: SmallRing, key: PeerKey, change: Callable[[str, Any], Any]) -> Answering:
    """Answers as the peer would, changed."""

    async def answer(service: str, body: bytes) -> bytes:
        caller = next(one for one in ring.peers if one != key)
        told = await ring.peers[key].services.services.calls[service](caller, body)
        changed = change(service, msgspec.msgpack.decode(told))
        return changed if isinstance(changed, bytes) else msgspec.msgpack.encode(changed)

    return answer


def with_hits(change: Callable[[list[Any]], Any]) -> Callable[[str, Any], Any]:
    def changed(service: str, told: Any) -> Any:
        if service == wire.ASK:
            told[6] = change(told[6])
        return told

    return changed


def elsewhere(hits: list[Any]) -> list[Any]:
    return [[bytes(7) + bytes([number + 1]), *hit[1:]] for number, hit in enumerate(hits)]


LIES: dict[str, Callable[[str, Any], Any]] = {
    "rubbish": lambda service, told: b"\xc1" * 100,
    "endless": lambda service, told: b"\x00" * (wire.SHOW_BYTES_MAX + 1),
    "scores of infinity": with_hits(lambda hits: [[*hit[:3], float("inf"), hit[4]] for hit in hits] or [[]]),
    "a million hits": with_hits(lambda hits: [[b"\0" * 8, 1, 2, 1.0, 1]] * 1_000),
    "hits beyond its arcs": with_hits(lambda hits: elsewhere(hits) or [[bytes(8), 1, 2, 1.0, 1]]),
    "no array": lambda service, told: {"v": 1},
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_liar_changes_no_answer(ring: SmallRing, lie: str) -> None:
    """It is left out, and another holder is asked in its place."""
    key = sorted(ring.peers)[4]
    ring.odd[key] = lying(ring, key, LIES[lie])
    await expect_truth(ring, questions(9, 5))
    asker = next(peer for peer in ring.peers.values() if peer.search.disbelieved)
    assert key in asker.search.slow


def with_address(url: str) -> Callable[[str, Any], Any]:
    def changed(service: str, told: Any) -> Any:
        if service == wire.SHOW:
            told[1] = [[one[0], url, *one[2:]] for one in told[1]]
        return told

    return changed


@pytest.mark.parametrize("url", ["https://evil.example/", "javascript:alert(1)"])
async def test_an_address_that_is_not_the_pages_is_not_shown(ring: SmallRing, url: str) -> None:
    word, day = questions(10, 1)[0]
    wanted = WEB.with_word(word, day)
    asker = next(peer for peer in ring.peers.values() if any(peer not in ring.holders(one) for one in wanted))
    for key in ring.peers:
        if key != asker.key:
            ring.odd[key] = lying(ring, key, with_address(url))
    results = await asker.ask(f'"{word}" on:{date_of(day)}')
    shown = {one.url for first in results.shown for one in (first, *first.alike)}
    assert shown == {one for one in wanted if asker in ring.holders(one)}, "those of its own copies"
    assert results.answer.pages == len(wanted)
    assert asker.search.disbelieved


async def test_what_was_removed_here_is_not_shown_whoever_tells_it(ring: SmallRing) -> None:
    word, day = questions(11, 1)[0]
    wanted = WEB.with_word(word, day)
    for peer in ring.peers.values():
        elsewhere = sorted(url for url in wanted if peer not in ring.holders(url))
        if elsewhere:
            peer.removed.add(elsewhere[0])
            results = await peer.ask(f'"{word}" on:{date_of(day)}')
            shown = {one.url for first in results.shown for one in (first, *first.alike)}
            assert shown == wanted - {elsewhere[0]}
            return
    raise AssertionError("every peer holds every page")


async def test_pages_of_results_follow_one_another_over_the_ring(ring: SmallRing) -> None:
    word = max(WEB.words, key=lambda word: len(WEB.with_word(word, 4)))
    peer = some_peer(ring, 1)
    found: list[int] = []
    after = None
    while True:
        results = await peer.ask(word, limit=3, after=after)
        found += [hit.position for hit in results.answer.hits]
        if not results.answer.has_more:
            break
        after = results.answer.hits[-1].place
    whole = await peer.ask(word)
    assert found == [hit.position for hit in whole.answer.hits]
    assert len(found) == whole.answer.pages > 6


async def test_all_peers_give_the_same_order(ring: SmallRing) -> None:
    word = max(WEB.words, key=lambda word: len(WEB.with_word(word, 4)))
    orders = [
        [hit.position for hit in (await peer.ask(f"{word} order:newest")).answer.hits]
        for peer in ring.peers.values()
    ]
    assert all(order == orders[0] for order in orders)


async def test_a_word_on_no_page_of_the_ring_has_a_suggestion(ring: SmallRing) -> None:
    word = WEB.telling()[0][0]
    results = await some_peer(ring, 2).ask(word + "q")
    assert results.answer.pages == 0
    assert set(results.answer.likelier) == {word + "q"}


async def test_a_question_that_cannot_be_answered_is_told_to_the_reader(ring: SmallRing) -> None:
    with pytest.raises(QuestionError, match="no word that an index holds"):
        await some_peer(ring, 0).ask('"' + "ä" * 40 + '"')


async def test_without_an_index_of_its_own_a_peer_asks_others(
    ring: SmallRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = some_peer(ring, 3)
    words = peer.bench.words
    monkeypatch.setattr(words, "state", msgspec.structs.replace(words.state, walked="00"))
    ring.odd[peer.key] = dead  # it would refuse
    word, day = questions(12, 1)[0]
    results = await peer.ask(f'"{word}" on:{date_of(day)}')
    assert results.answer.pages == len(WEB.with_word(word, day))
    assert results.ring is not None
    assert results.ring.share == 1.0


async def test_the_answer_says_what_part_of_the_ring_is_in_it(ring: SmallRing) -> None:
    ring.odd.update(dict.fromkeys(sorted(ring.peers)[1:], dead))
    results = await some_peer(ring, 0).ask(WEB.words[0])
    assert results.ring is not None
    words = some_peer(ring, 0).bench.words
    assert results.ring.share == pytest.approx(part_of_circle(arcs_of(words.answered)))
    assert 0.3 < results.ring.share < 0.6, "three of eight peers have the words of each page"
    assert results.ring.peers == 1
    assert results.ring.percent < 100


async def test_where_nobody_answers_the_reader_is_told(
    ring: SmallRing, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = some_peer(ring, 0).bench.words
    monkeypatch.setattr(words, "state", msgspec.structs.replace(words.state, walked="00"))
    ring.odd.update(dict.fromkeys(sorted(ring.peers), dead))
    with pytest.raises(SearchRestsError):
        await some_peer(ring, 0).ask(WEB.words[0])


async def test_a_peer_answers_only_for_what_it_holds(ring: SmallRing) -> None:
    """Else pages would be missing from an answer that seems whole."""
    peer, other = some_peer(ring, 0), some_peer(ring, 1)
    asked = Asked(
        question=parse("ferry", 0), hits=1, arcs=(Arc(0, CIRCLE // 2), Arc(CIRCLE // 2, 0)), weights={},
        after=None, now_s=0,
    )  # fmt: skip
    with pytest.raises(RefusedError, match=wire.ELSEWHERE):
        await peer.services.services.calls[wire.ASK](other.key, wire.encode_ask(asked))


async def test_a_peer_asks_others_only_for_what_it_does_not_hold(ring: SmallRing) -> None:
    for peer in ring.peers.values():
        ring.carried.clear()
        results = await peer.ask(WEB.words[0])
        asked = {key for service, key, _ in ring.carried if service == wire.ASK} - {peer.key}
        assert results.ring is not None
        assert (results.ring.share, results.ring.peers) == (1.0, 1 + len(asked))
        assert len(asked) <= 4, "of eight peers five answer (design): it has the words of three parts itself"


async def test_a_question_costs_few_bytes(ring: SmallRing) -> None:
    """Three words on eight peers: some 4 kB, of which the shown texts are most (design)."""
    await some_peer(ring, 0).ask(" OR ".join(WEB.words[:3]), limit=10)
    asked = sum(size for service, _, size in ring.carried if service == wire.ASK)
    assert asked < 4_000
    assert sum(size for _, _, size in ring.carried) < 12_000
