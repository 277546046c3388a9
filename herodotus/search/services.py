"""What does this peer answer to other peers' questions in words? The handlers of `search.…` (docs/protocol/search.md).

A question is private: it is answered to members alone, and written nowhere. Nothing tells beforehand what an answer
costs, so it is counted afterwards, to the asker and to all of them together; an asker without anything left is told
when to come again.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

import anyio

from dht.core.arcs import Arcs
from dht.core.limits import Bucket, Buckets, Rate
from herodotus.core.errors import ArchiveError, MalformedError, QuestionError
from herodotus.core.ports import Lane, Workers
from herodotus.core.search.answers import Hit, Told
from herodotus.core.search.cover import keys_of
from herodotus.core.search.fields import OPEN, spell_id
from herodotus.home.clock import processor_seconds
from herodotus.peers.calls import PeerKey, RefusedError, Services
from herodotus.search import wire
from herodotus.store import Catalogue

if TYPE_CHECKING:
    from herodotus.search.index import WordIndex

ANSWERING: Final = Lane("words for other peers", 1)
"""One processor at most, and no thread of those who read here."""
WAITING_MAX: Final = 16
"""Questions at once. With some 10 ms each the last still has an answer in time."""
OF_ONE: Final = Rate(per_second=0.05, burst=2.0)
"""Seconds of a processor: of frequent words 5 questions a second, and 200 at once."""
OF_ALL: Final = Rate(per_second=0.25, burst=5.0)
LEAST_S: Final = 0.002
"""That a question costs, with its message; and that must be left for one."""
_ASKERS_MAX: Final = 4_096


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceParts:
    words: "Callable[[], WordIndex | None]"
    """The index that answers; None: there is none now."""
    indexed: Callable[[], Arcs]
    """The keys whose words are in it, by this peer's view of the ring."""
    is_member: Callable[[PeerKey], bool]
    catalogue: Callable[[], Catalogue]
    """ArchiveError where it is not open."""
    workers: Workers
    processor_s: Callable[[], float] = processor_seconds
    """Of a thread; asked there."""


class SearchServices:
    def __init__(self, parts: ServiceParts) -> None:
        self._parts = parts
        self._shares = Buckets(_ASKERS_MAX)
        self._all = Bucket(OF_ALL, 0.0)
        self._waiting = 0
        self.answered = self.refused = 0

    @property
    def services(self) -> Services:
        return Services(
            calls={
                wire.ASK: self._guarded(self._ask),
                wire.WORDS: self._guarded(self._words),
                wire.SHOW: self._guarded(self._show),
            }
        )

    def _guarded(
        self, job_of: Callable[[bytes], Callable[[], bytes]]
    ) -> Callable[[PeerKey, bytes], Awaitable[bytes]]:
        async def answer(asker: PeerKey, body: bytes) -> bytes:
            try:
                self._admit(asker)
                told = await self._worked(asker, job_of(body))
            except RefusedError:
                self.refused += 1
                raise
            except (MalformedError, QuestionError, ArchiveError) as error:
                self.refused += 1
                raise RefusedError(_word_of(error)) from error
            self.answered += 1
            return told

        return answer

    def _admit(self, asker: PeerKey) -> None:
        if not self._parts.is_member(asker):
            raise RefusedError("unknown", retry_after_s=60.0)
        now = anyio.current_time()
        own = self._shares.of(asker, OF_ONE, now)
        wait_s = max(own.wait_s(now, LEAST_S), self._all.wait_s(now, LEAST_S))
        if wait_s or self._waiting >= WAITING_MAX:
            raise RefusedError(wire.BUSY, retry_after_s=max(wait_s, 1.0))
        own.spend(now, LEAST_S)
        self._all.spend(now, LEAST_S)

    async def _worked(self, asker: PeerKey, job: Callable[[], bytes]) -> bytes:
        spent_s = 0.0

        def counted() -> bytes:
            nonlocal spent_s
            started_s = self._parts.processor_s()
            try:
                return job()
            finally:
                spent_s = self._parts.processor_s() - started_s

        self._waiting += 1
        try:
            return await self._parts.workers.work(counted, ANSWERING)
        finally:
            self._waiting -= 1
            now = anyio.current_time()
            self._shares.of(asker, OF_ONE, now).spend(now, spent_s)
            self._all.spend(now, spent_s)

    # -- jobs: what is said is checked in the loop, and answered in a thread --------------------------------

    def _index(self) -> "WordIndex":
        words = self._parts.words()
        if words is None or words.state.walked is not None:
            raise RefusedError(wire.RESTS, retry_after_s=60.0)
        return words

    def _ask(self, body: bytes) -> Callable[[], bytes]:
        asked = wire.decode_ask(body)
        index = self._index().index
        if not keys_of(asked.arcs) <= self._parts.indexed():
            raise RefusedError(wire.ELSEWHERE)

        def job() -> bytes:
            from herodotus.search.asking import answer_for_ring

            return wire.encode_answer(answer_for_ring(index, asked))

        return job

    def _words(self, body: bytes) -> Callable[[], bytes]:
        words = wire.decode_ask_words(body)
        index = self._index().index

        def job() -> bytes:
            from herodotus.search.asking import frequencies

            return wire.encode_words(frequencies(index, words))

        return job

    def _show(self, body: bytes) -> Callable[[], bytes]:
        words, hits = wire.decode_ask_shown(body)
        return partial(_shown, self._parts.catalogue(), words, hits)


def _shown(catalogue: Catalogue, words: tuple[str, ...], hits: list[tuple[int, int]]) -> bytes:
    from herodotus.search.showing import told_here

    told: dict[int, Told] = {}
    for number, (position, first_s) in enumerate(hits):
        one = told_here(catalogue, bare_hit(position, first_s), words, is_exact=True)
        if one is not None:
            told[number] = one
    return wire.encode_shown(told)


def bare_hit(position: int, first_s: int) -> Hit:
    """Enough of one to show its page."""
    return Hit(
        id=spell_id(position, first_s),
        position=position,
        first_s=first_s,
        until_s=OPEN,
        score=0.0,
        versions=1,
        place=(0.0, position),
    )


def _word_of(error: Exception) -> str:
    if isinstance(error, MalformedError):
        return "malformed"
    return wire.NARROW if isinstance(error, QuestionError) else wire.RESTS
