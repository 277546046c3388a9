"""What is asked about the archive as a whole? Its survey's counts, in all and by a property."""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from heapq import nlargest
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from herodotus.core.index_rows import after
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, Token
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.targets import BadQuestionError
from herodotus.portal.tokens import key_of_token, token_of_key
from herodotus.store import Catalogue, Property, Tally, tally_key

RANKED_MAX = 200_000
"""Values that are looked at to find the largest; with more (of hosts) only the first so many are ranked."""


class By(Enum):
    HOST = "host"
    MIME = "type"
    STATUS = "status"
    DAY = "day"


class Sorting(Enum):
    VALUE = "value"
    CAPTURES = "captures"


class CountsQuestion(ApiQuestion, frozen=True, kw_only=True):
    by: Annotated[By, Meta(description="the property by which captures are counted")]
    sort: Annotated[Sorting, Meta(description="captures: the largest, without a next")] = Sorting.VALUE
    limit: Annotated[int, Meta(ge=1, le=1000, description="values in one answer")] = 100
    after: Token | None = None


class Total(msgspec.Struct, frozen=True, kw_only=True):
    """As counted when they were stored: what was deleted since is still in it. `bytes` are those of payloads."""

    captures: int
    bytes: int
    is_current: bool


class Count(msgspec.Struct, frozen=True, kw_only=True):
    value: str
    captures: int
    bytes: int


class PropertyCounts(msgspec.Struct, frozen=True, kw_only=True):
    """`is_current`: whether all that is stored was counted; `is_whole`: whether all values were ranked."""

    by: By
    counts: tuple[Count, ...]
    is_current: bool
    is_whole: bool
    next: str | None


@dataclass(frozen=True, slots=True)
class StatisticsAnswers:
    shelf: Shelf

    @ApiEndpoint("/api/v1/statistics", "How much this peer has stored.")
    async def total(self, question: ApiQuestion, asked: Asked) -> Total:
        def work(catalogue: Catalogue) -> Total:
            tally = catalogue.tally(Property.TOTAL)
            return Total(captures=tally.captures, bytes=tally.bytes, is_current=catalogue.is_surveyed())

        return await self.shelf.ask(work)

    @ApiEndpoint(
        "/api/v1/statistics/{by}",
        "How much this peer has stored by host, media type, HTTP status or day.",
        cost=10.0,
    )
    async def counts(self, question: CountsQuestion, asked: Asked) -> PropertyCounts:
        if question.after is not None and question.sort is Sorting.CAPTURES:
            raise BadQuestionError("after: a list of the largest has no next part; sort=value lists all")
        counted = _largest if question.sort is Sorting.CAPTURES else _in_order
        return await self.shelf.ask(lambda catalogue: counted(catalogue, question))


def _in_order(catalogue: Catalogue, question: CountsQuestion) -> PropertyCounts:
    prefix = tally_key(Property[question.by.name], "")
    start = prefix if question.after is None else key_of_token(question.after, prefix)
    rows = list(islice(catalogue.tallies(start, after(prefix)), question.limit + 1))
    following = None
    if len(rows) > question.limit:
        following = token_of_key(rows.pop()[0])
    return PropertyCounts(
        by=question.by,
        counts=tuple(_count(key, tally) for key, tally in rows),
        is_current=catalogue.is_surveyed(),
        is_whole=True,
        next=following,
    )


def _largest(catalogue: Catalogue, question: CountsQuestion) -> PropertyCounts:
    prefix = tally_key(Property[question.by.name], "")
    looked_at = 0

    def rows() -> Iterator[tuple[int, bytes, Tally]]:
        nonlocal looked_at
        for key, tally in islice(catalogue.tallies(prefix, after(prefix)), RANKED_MAX + 1):
            looked_at += 1
            yield tally.captures, key, tally

    largest = nlargest(question.limit, rows(), key=lambda row: row[:2])
    return PropertyCounts(
        by=question.by,
        counts=tuple(_count(key, tally) for _, key, tally in largest),
        is_current=catalogue.is_surveyed(),
        is_whole=looked_at <= RANKED_MAX,
        next=None,
    )


def _count(key: bytes, tally: Tally) -> Count:
    return Count(value=key[2:].decode("utf-8", "replace"), captures=tally.captures, bytes=tally.bytes)
