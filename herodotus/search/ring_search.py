"""Which pages of all peers answer a question in words? Few peers are asked, each for its own arcs of the ring.

Two rounds of calls: hits without texts, of which the best are chosen, and then what a reader sees of these. A word
weighs the same at all peers, or their hits could not be put into one order. What others tell is checked against the
question, an address against its place on the ring, and nothing is shown that was removed here. Who asks for what is
decided in `core/search/rounds.py`. No question is written into a log.
"""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import anyio
import msgspec
from cachetools import TTLCache

from dht import Contact
from dht.core.arcs import Arcs
from dht.core.holders import Table
from dht.core.ids import KEY_BYTES, Key, PeerKey
from herodotus.core.captures import position_of
from herodotus.core.errors import MalformedError, QuestionError, SearchRestsError
from herodotus.core.search.answers import After, Answer, Hit, Results, RingPart, Shown, Told
from herodotus.core.search.cover import PLACE_BYTES, Stretch, keys_of, stretches_of
from herodotus.core.search.fields import OPEN
from herodotus.core.search.merging import merged
from herodotus.core.search.questions import Question
from herodotus.core.search.rounds import Part, Round
from herodotus.core.search.weights import Frequencies, Weight, added, weights_of
from herodotus.core.settings.sections import SearchSettings
from herodotus.peers.calls import CallError, Questions, RefusedError
from herodotus.search import wire
from herodotus.search.wire import Asked
from herodotus.store import Catalogue

if TYPE_CHECKING:
    from herodotus.search.index import WordIndex

logger = logging.getLogger(__name__)

OWN_SAMPLE_MIN: Final = 10_000
"""Documents of this peer's index, above which it knows how rare words are: a word in 1 % of them to within a tenth."""
SAMPLES_MAX: Final = 16
"""Peers that are asked how rare words are."""
SAMPLE_SHARE: Final = 0.75
"""Of them that must have answered; the rest are not waited for."""
WEIGHTS_KEPT: Final = 4_096
WEIGHTS_KEPT_S: Final = 600.0
"""A word then weighs the same on each page of results."""
SLOW_S: Final = 60.0
"""So long a peer that did not answer is asked only where nobody else could be."""
SLOW_MAX: Final = 1_024
AT_ONCE: Final = 4
"""Answers of 256 liars that agree take 15 MB while they are put together."""
WAITING_MAX: Final = 64
FACET_VALUES_MAX: Final = 10
LATE_AFTER: Final = (0.5, 0.25)
"""Of the time: when others are asked instead of the silent, and once more instead of these."""
SHOWN_BY: Final = 2
"""Peers that are asked for a page, one after the other."""

T = TypeVar("T")


class Sight(Protocol):
    """Of the ring, by this peer."""

    @property
    def me(self) -> bytes: ...
    @property
    def table(self) -> Table: ...
    @property
    def contacts(self) -> Mapping[PeerKey, Contact]: ...
    @property
    def absent(self) -> Mapping[PeerKey, float]: ...


class Shelf(Protocol):
    """The archive as readers ask it."""

    async def ask(self, work: Callable[[Catalogue], T]) -> T:
        """In a thread."""
        ...

    def shows(self, url: str) -> bool:
        """It was not removed here."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RingParts:
    words: "Callable[[], WordIndex | None]"
    indexed: Callable[[], Arcs]
    """The keys whose words are in this peer's index, by its view of the ring."""
    sight: Callable[[], Sight]
    calls: Callable[[], Questions]
    shelf: Shelf
    settings: SearchSettings
    unix_s: Callable[[], float]


class RingSearch:
    def __init__(self, parts: RingParts) -> None:
        self._parts = parts
        self._slow: TTLCache[PeerKey, None] = TTLCache(SLOW_MAX, SLOW_S, anyio.current_time)
        self._weights: TTLCache[str, tuple[Weight, bool]] = TTLCache(
            WEIGHTS_KEPT, WEIGHTS_KEPT_S, anyio.current_time
        )
        """And whether some page has the word."""
        self._turns = anyio.Semaphore(AT_ONCE)
        self._seen: tuple[object, list[Stretch]] = (None, [])
        self.disbelieved = 0

    @property
    def others(self) -> int:
        """Peers that could be asked."""
        sight = self._parts.sight()
        return sum(peer != sight.me and peer not in sight.absent for peer in sight.contacts)

    async def ask(self, question: Question, *, limit: int, after: After | None, section: int = 0) -> Results:
        """QuestionError: it cannot be answered as it stands. SearchRestsError: nobody answers now."""
        if self._turns.statistics().tasks_waiting >= WAITING_MAX:
            raise SearchRestsError("too many questions are being asked; ask again in some seconds")
        async with self._turns:
            return await _Asking(self._parts, self).results(question, limit, after, section)

    def stretches(self) -> list[Stretch]:
        """This peer can answer for all that it holds and has read, as it costs nothing to ask it; else for nothing."""
        parts, sight = self._parts, self._parts.sight()
        words, me = parts.words(), PeerKey(sight.me)
        own = Arcs()
        if words is not None and words.state.walked is None:
            own = parts.indexed() & sight.table.arcs(me).coarse(PLACE_BYTES)
        made_of = (sight.table, tuple(sorted(sight.absent)), own)
        if self._seen[0] != made_of:
            stretches = stretches_of(sight.table, parts.settings.copies, sight.absent)
            self._seen = made_of, [_with_own(stretch, me, own) for stretch in stretches]
        return self._seen[1]

    @property
    def slow(self) -> TTLCache[PeerKey, None]:
        return self._slow

    @property
    def weights(self) -> TTLCache[str, tuple[Weight, bool]]:
        return self._weights

    def disbelieve(self, peer: PeerKey, why: object) -> None:
        self.disbelieved += 1
        self._slow[peer] = None
        logger.info("another peer's answer was left out peer=%s reason=%s", peer.hex()[:16], why)


def _with_own(stretch: Stretch, me: PeerKey, own: Arcs) -> Stretch:
    others = tuple(peer for peer in stretch.indexers if peer != me)
    return stretch._replace(indexers=(me, *others) if keys_of([stretch.arc]) <= own else others)


class _Asking:
    """One question, while it is under way."""

    def __init__(self, parts: RingParts, search: RingSearch) -> None:
        self._parts, self._search = parts, search
        self._sight = parts.sight()
        self._me = PeerKey(self._sight.me)
        self._patience_s = parts.settings.patience_s
        self._problem: Exception | None = None

    async def results(self, question: Question, limit: int, after: After | None, section: int) -> Results:
        from herodotus.search.queries import words_asked

        search = self._search
        words = words_asked(question.tree)[: wire.WEIGHTS_MAX]
        round_: Round[Answer] = Round(
            search.stretches(), first=self._me, avoid=set(search.slow), section=section
        )
        weights = await self._weights(words, [part.share.peer for part in round_.parts])
        asked = Asked(
            question=question,
            hits=limit,
            arcs=(),
            weights=weights,
            after=after,
            now_s=int(self._parts.unix_s()),
        )
        await self._answers(round_, asked)
        told = round_.told()
        if not told:
            raise SearchRestsError("no peer answers questions in words now; ask again in a minute")
        answers = [part.answer for part in told if part.answer is not None]
        found = merged(answers, limit, values=FACET_VALUES_MAX, likelier=await self._likelier(words, answers))
        return Results(
            answer=found,
            shown=await self._shown(found.hits, told, words),
            ring=RingPart(
                share=round_.covered(),
                peers=len({part.share.peer for part in told}),
                section=section,
                has_more=round_.has_more,
            ),
        )

    # -- hits ---------------------------------------------------------------------------------------------

    async def _answers(self, round_: Round[Answer], asked: Asked) -> None:
        """Until all have answered, or time is up."""
        if round_.is_settled:
            return
        with anyio.move_on_after(self._patience_s):
            async with anyio.create_task_group() as tasks:

                async def ask(part: Part[Answer]) -> None:
                    answer = await self._answer(part, msgspec.structs.replace(asked, arcs=part.share.arcs))
                    if answer is None:
                        for other in round_.failed(part):
                            tasks.start_soon(ask, other)
                    else:
                        round_.answered(part, answer)
                    if round_.is_settled or self._problem is not None:
                        tasks.cancel_scope.cancel()

                for part in round_.parts:
                    tasks.start_soon(ask, part)
                for share in LATE_AFTER:
                    await anyio.sleep(self._patience_s * share)
                    for part in round_.late():
                        tasks.start_soon(ask, part)
        self._search.slow.update(dict.fromkeys(round_.silent()))
        if self._problem is not None:
            raise self._problem

    async def _answer(self, part: Part[Answer], asked: Asked) -> Answer | None:
        peer = part.share.peer
        if peer == self._me:
            return await self._own_answer(asked)
        body = await self._call(peer, wire.ASK, wire.encode_ask(asked), part)
        if body is None:
            return None
        try:
            return wire.decode_answer(body, asked)
        except MalformedError as error:
            self._search.disbelieve(peer, error)
            return None

    async def _own_answer(self, asked: Asked) -> Answer | None:
        words = self._parts.words()
        if words is None:
            return None
        from herodotus.search.asking import answer_for_ring

        def look(_catalogue: Catalogue) -> Answer:
            return answer_for_ring(words.index, asked)

        try:
            return await self._parts.shelf.ask(look)
        except QuestionError as error:
            self._problem = error
            return None

    async def _call(
        self, peer: PeerKey, service: str, body: bytes, part: Part[Answer] | None = None
    ) -> bytes | None:
        contact = self._sight.contacts.get(peer)
        if contact is None:
            return None
        try:
            return await self._parts.calls().call(contact, service, body, deadline_s=self._patience_s)
        except RefusedError as error:
            logger.debug("a peer did not answer peer=%s reason=%s", peer.hex()[:16], error.reason)
            if part is not None:
                part.is_elsewhere = error.reason == wire.ELSEWHERE
            return None
        except CallError:
            self._search.slow[peer] = None
            return None

    # -- how rare words are ---------------------------------------------------------------------------------

    async def _weights(self, words: Sequence[str], peers: Sequence[PeerKey]) -> dict[str, Weight]:
        known = self._search.weights
        lacking = [word for word in words if word not in known]
        if lacking:
            told = added(await self._frequencies(lacking, peers), len(lacking))
            for (word, weight), having in zip(weights_of(lacking, told).items(), told.having, strict=True):
                known[word] = weight, bool(having.title or having.body)
        return {word: known[word][0] for word in words if word in known}

    async def _frequencies(self, words: list[str], peers: Sequence[PeerKey]) -> list[Frequencies]:
        """Of this peer alone, where it has enough; else of some others, too."""
        found: list[Frequencies] = []
        index = self._parts.words()
        if index is not None:
            from herodotus.search.asking import frequencies

            found.append(await self._parts.shelf.ask(lambda _catalogue: frequencies(index.index, words)))
            if found[0].documents >= OWN_SAMPLE_MIN:
                return found

        others = [peer for peer in peers if peer != self._me][:SAMPLES_MAX]
        enough = len(found) + SAMPLE_SHARE * len(others)
        with anyio.move_on_after(self._patience_s / 2):
            async with anyio.create_task_group() as tasks:

                async def ask(peer: PeerKey) -> None:
                    body = await self._call(peer, wire.WORDS, wire.encode_ask_words(words))
                    if body is not None:
                        try:
                            found.append(wire.decode_words(body, len(words)))
                        except MalformedError as error:
                            self._search.disbelieve(peer, error)
                    if len(found) >= enough:
                        tasks.cancel_scope.cancel()

                for peer in others:
                    tasks.start_soon(ask, peer)
        return found

    async def _likelier(self, words: Sequence[str], answers: Sequence[Answer]) -> Mapping[str, str]:
        """Asked of the own index, where no page answers and no peer knows the word."""
        index = self._parts.words()
        known = self._search.weights
        lacking = [word for word in words if word in known and not known[word][1]]
        if index is None or not lacking or any(answer.pages for answer in answers):
            return {}
        from herodotus.search.spelling import likelier

        return await self._parts.shelf.ask(lambda _catalogue: likelier(index.index.searcher(), lacking))

    # -- what a reader sees -----------------------------------------------------------------------------------

    async def _shown(
        self, hits: Sequence[Hit], told: Sequence[Part[Answer]], words: Sequence[str]
    ) -> tuple[Shown, ...]:
        """From this peer's own copies; else from the peer that found the page, or another holder."""
        from herodotus.search.showing import grouped, told_here

        found: dict[int, Told] = {}

        def own(catalogue: Catalogue) -> None:
            for number, hit in enumerate(hits):
                one = told_here(catalogue, hit, words, is_exact=True)
                if one is not None:
                    found[number] = one

        await self._parts.shelf.ask(own)
        asked: dict[int, set[PeerKey]] = {number: {self._me} for number in range(len(hits))}
        for _ in range(SHOWN_BY):
            of_peer: dict[PeerKey, list[int]] = {}
            for number, hit in enumerate(hits):
                peer = next(self._who_shows(hit, told, asked[number]), None)
                if number not in found and peer is not None:
                    of_peer.setdefault(peer, []).append(number)
                    asked[number].add(peer)
            with anyio.move_on_after(self._patience_s / SHOWN_BY):
                async with anyio.create_task_group() as tasks:
                    for peer, numbers in of_peer.items():
                        tasks.start_soon(self._ask_shown, peer, numbers, hits, words, found)
        return tuple(grouped(found[number] for number in sorted(found)))

    def _who_shows(self, hit: Hit, told: Sequence[Part[Answer]], but: set[PeerKey]) -> Iterator[PeerKey]:
        for part in told:
            if part.share.peer not in but and any(arc.has(hit.position) for arc in part.share.arcs):
                yield part.share.peer
        key = Key(hit.position.to_bytes(PLACE_BYTES, "big").ljust(KEY_BYTES, b"\xff"))
        for contact in self._sight.table.of(key):
            if contact.peer not in but and contact.peer not in self._sight.absent:
                yield contact.peer

    async def _ask_shown(
        self,
        peer: PeerKey,
        numbers: Sequence[int],
        hits: Sequence[Hit],
        words: Sequence[str],
        found: dict[int, Told],
    ) -> None:
        wanted = [(hits[number].position, hits[number].first_s) for number in numbers]
        body = await self._call(peer, wire.SHOW, wire.encode_ask_shown(words, wanted))
        if body is None:
            return
        try:
            told = wire.decode_shown(body)
            believed = {numbers[at]: self._believed(one, hits[numbers[at]]) for at, one in told.items()}
        except (MalformedError, IndexError) as error:
            self._search.disbelieve(peer, error)
            return
        found.update({number: one for number, one in believed.items() if one is not None})

    def _believed(self, told: Told, hit: Hit) -> Told | None:
        """None: it was removed here. MalformedError: the address is not the hit's."""
        url = told.shown.url
        is_there = int.from_bytes(position_of(url)[:PLACE_BYTES], "big") == hit.position
        if not is_there or not url.startswith(("http://", "https://")):
            raise MalformedError("an address of another place")
        if not self._parts.shelf.shows(url):
            return None
        until_s = None if hit.until_s == OPEN else hit.until_s
        shown = replace(told.shown, first_s=hit.first_s, until_s=until_s, versions=hit.versions)
        return told._replace(shown=shown)
