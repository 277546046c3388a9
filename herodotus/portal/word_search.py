"""How does a reader's line become pages of results, each after the other?

The peer keeps nothing between two pages: a token says behind which hit the next begins, and of which question. A mark
under a key of this peer shows that it gave the token.
"""

import base64
import hashlib
import hmac
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from herodotus.core.search.answers import After, Results, Shown
from herodotus.core.search.grammar import parse
from herodotus.core.search.questions import Dating, Question
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.tokens import ForeignTokenError, bytes_of_token
from herodotus.store import Catalogue

DEPTH_MAX = 1_000
"""Hits of a question that can be leafed through."""
COST = 5.0
"""Of a reader's share, with its snippets."""
PEER_COST = 0.5
"""For each other peer that may be asked, up to `PEERS_COUNTED`: a call, and what it costs there."""
PEERS_COUNTED = 64
Look = Callable[[Catalogue, Question, int, After | None], Results]
"""Asks the index, in a thread. SearchRestsError: this peer has no index now."""
SECTION_MAX = 255
_TOKEN = struct.Struct(">B8sHdQBB")
_VERSION = 2
_MARK_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`number` is that of the first hit."""

    text: str
    question: Question
    results: Results
    number: int
    next: str | None


class RingLook(Protocol):
    """Asks the other peers, too."""

    @property
    def others(self) -> int:
        """Peers that could be asked."""
        ...

    async def ask(self, question: Question, *, limit: int, after: After | None, section: int = 0) -> Results:
        """SearchRestsError: nobody answers now."""
        ...


class Scope(NamedTuple):
    """Who is asked: this peer alone, or so many peers of the ring, counted from 0."""

    here: bool = False
    section: int = 0


EVERYWHERE = Scope()


@dataclass(frozen=True, slots=True, kw_only=True)
class WordSearch:
    shelf: Shelf
    look: Look
    now_s: Callable[[], int]
    secret: bytes = field(repr=False)
    ring: RingLook | None = None

    def cost(self, scope: Scope) -> float:
        """Of a reader's share."""
        if scope.here or self.ring is None:
            return COST
        return COST + PEER_COST * min(self.ring.others, PEERS_COUNTED)

    async def ask(
        self, text: str, *, limit: int, token: str | None = None, scope: Scope = EVERYWHERE
    ) -> Found:
        """QuestionError says what was not understood. A token continues where its answer was asked."""
        question = parse(text, self.now_s())
        number, after = 0, None
        if token is not None:
            number, after, scope = self._place(text, token)
        limit = min(limit, DEPTH_MAX - number)
        results = await self._results(question, limit, after, scope)
        hits = results.answer.hits
        behind = number + len(hits)
        following = None
        if results.answer.has_more and hits and behind < DEPTH_MAX:
            scope = scope._replace(here=results.ring is None)
            following = self._token(text, behind, hits[-1].place, scope)
        return Found(text=text, question=question, results=results, number=number + 1, next=following)

    async def _results(self, question: Question, limit: int, after: After | None, scope: Scope) -> Results:
        if scope.here or self.ring is None or not self.ring.others:
            return await self.shelf.ask(lambda catalogue: self.look(catalogue, question, limit, after))
        return await self.ring.ask(question, limit=limit, after=after, section=scope.section)

    def _token(self, text: str, number: int, place: After, scope: Scope) -> str:
        plain = _TOKEN.pack(_VERSION, _name_of(text), number, *place, *scope)
        return base64.urlsafe_b64encode(plain + self._mark(plain)).decode().rstrip("=")

    def _place(self, text: str, token: str) -> tuple[int, After, Scope]:
        data = bytes_of_token(token + "=" * (-len(token) % 4))
        plain = data[: _TOKEN.size]
        if len(data) != _TOKEN.size + _MARK_BYTES or not hmac.compare_digest(
            self._mark(plain), data[_TOKEN.size :]
        ):
            raise ForeignTokenError
        version, name, number, key, position, here, section = _TOKEN.unpack(plain)
        if version != _VERSION or name != _name_of(text) or number >= DEPTH_MAX:
            raise ForeignTokenError
        return number, (key, position), Scope(bool(here), section)

    def _mark(self, plain: bytes) -> bytes:
        return hashlib.blake2b(
            plain, digest_size=_MARK_BYTES, key=self.secret, person=b"word-search"
        ).digest()


def moment_shown(one: Shown, question: Question) -> int:
    """Where a day was asked for, the page as it was then, which may be found on later visits, too."""
    dated = question.dated
    if dated is not None and dated.dating is Dating.ON:
        return dated.to_s
    return one.first_s


def _name_of(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
