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
Look = Callable[[Catalogue, Question, int, After | None], Results]
"""Asks the index, in a thread. SearchRestsError: this peer has no index now."""
_TOKEN = struct.Struct(">B8sHdQ")
_VERSION = 1
_MARK_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """`number` is that of the first hit."""

    text: str
    question: Question
    results: Results
    number: int
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WordSearch:
    shelf: Shelf
    look: Look
    now_s: Callable[[], int]
    secret: bytes = field(repr=False)

    async def ask(self, text: str, *, limit: int, token: str | None = None) -> Found:
        """QuestionError says what was not understood."""
        question = parse(text, self.now_s())
        number, after = (0, None) if token is None else self._place(text, token)
        limit = min(limit, DEPTH_MAX - number)
        results = await self.shelf.ask(lambda catalogue: self.look(catalogue, question, limit, after))
        hits = results.answer.hits
        behind = number + len(hits)
        following = None
        if results.answer.has_more and hits and behind < DEPTH_MAX:
            following = self._token(text, behind, hits[-1].place)
        return Found(text=text, question=question, results=results, number=number + 1, next=following)

    def _token(self, text: str, number: int, place: After) -> str:
        plain = _TOKEN.pack(_VERSION, _name_of(text), number, *place)
        return base64.urlsafe_b64encode(plain + self._mark(plain)).decode().rstrip("=")

    def _place(self, text: str, token: str) -> tuple[int, After]:
        data = bytes_of_token(token + "=" * (-len(token) % 4))
        plain = data[: _TOKEN.size]
        if len(data) != _TOKEN.size + _MARK_BYTES or not hmac.compare_digest(
            self._mark(plain), data[_TOKEN.size :]
        ):
            raise ForeignTokenError
        version, name, number, key, position = _TOKEN.unpack(plain)
        if version != _VERSION or name != _name_of(text) or number >= DEPTH_MAX:
            raise ForeignTokenError
        return number, (key, position)

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
