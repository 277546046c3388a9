"""What is asked about the archive as a whole? Its survey's counts, in all and by a property."""

from enum import Enum
from heapq import nlargest
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from herodotus.core.index_rows import TALLY, after
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, ApiReply, Token
from herodotus.portal.api.tokens import key_of_token, token_of_key
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.cdx import BadQuestionError
from herodotus.store.engine import Archive
from herodotus.store.survey import ArchiveSurvey, Property, Tally, decode_tally, tally_key

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


_PROPERTIES = {
    By.HOST: Property.HOST,
    By.MIME: Property.MIME,
    By.STATUS: Property.STATUS,
    By.DAY: Property.DAY,
}


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


def statistics_endpoints(shelf: Shelf) -> list[ApiEndpoint]:
    found = StatisticsAnswers(shelf)
    return [
        ApiEndpoint(
            path="/api/v1/statistics",
            summary="How much this peer has stored.",
            shape=Total,
            work=found.total,
        ),
        ApiEndpoint(
            path="/api/v1/statistics/{by}",
            summary="How much this peer has stored by host, media type, HTTP status or day.",
            question=CountsQuestion,
            shape=PropertyCounts,
            work=found.counts,
            cost=10.0,
        ),
    ]


class StatisticsAnswers:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def total(self, question: ApiQuestion, asked: Asked) -> ApiReply:
        def work(archive: Archive) -> Total:
            data = archive.index.get(tally_key(Property.TOTAL, ""))
            tally = Tally() if data is None else decode_tally(data)
            is_current = ArchiveSurvey(archive).is_current()
            return Total(captures=tally.captures, bytes=tally.bytes, is_current=is_current)

        return ApiReply(value=await self._shelf.ask(work))

    async def counts(self, question: CountsQuestion, asked: Asked) -> ApiReply:
        if question.after is not None and question.sort is Sorting.CAPTURES:
            raise BadQuestionError("after: a list of the largest has no next part; sort=value lists all")
        found = await self._shelf.ask(
            lambda archive: (_largest if question.sort is Sorting.CAPTURES else _in_order)(archive, question)
        )
        return ApiReply(value=found, next=found.next)


def _in_order(archive: Archive, question: CountsQuestion) -> PropertyCounts:
    prefix = TALLY + _PROPERTIES[question.by].value
    start = prefix if question.after is None else key_of_token(question.after, prefix)
    rows = list(islice(archive.index.scan(start, after(prefix)), question.limit + 1))
    following = None
    if len(rows) > question.limit:
        following = token_of_key(rows.pop()[0])
    return PropertyCounts(
        by=question.by,
        counts=tuple(_count(key, value) for key, value in rows),
        is_current=ArchiveSurvey(archive).is_current(),
        is_whole=True,
        next=following,
    )


def _largest(archive: Archive, question: CountsQuestion) -> PropertyCounts:
    prefix = TALLY + _PROPERTIES[question.by].value
    looked_at = 0

    def rows() -> "map[tuple[int, bytes, bytes]]":
        def row(pair: tuple[bytes, bytes]) -> tuple[int, bytes, bytes]:
            nonlocal looked_at
            looked_at += 1
            return decode_tally(pair[1]).captures, *pair

        return map(row, islice(archive.index.scan(prefix, after(prefix)), RANKED_MAX + 1))

    largest = nlargest(question.limit, rows())
    return PropertyCounts(
        by=question.by,
        counts=tuple(_count(key, value) for _, key, value in largest),
        is_current=ArchiveSurvey(archive).is_current(),
        is_whole=looked_at <= RANKED_MAX,
        next=None,
    )


def _count(key: bytes, value: bytes) -> Count:
    tally = decode_tally(value)
    return Count(value=key[2:].decode("utf-8", "replace"), captures=tally.captures, bytes=tally.bytes)
