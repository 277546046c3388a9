"""Which pages have these words, for programs? The same answers as the page of results, and lists of them as files."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import msgspec
from msgspec import Meta

from herodotus.core.cdxj import one_word, surt
from herodotus.core.errors import Misuse
from herodotus.core.orders import OrderReport, Search
from herodotus.core.search.answers import Shown
from herodotus.core.search.questions import TEXT_BYTES_MAX, Question
from herodotus.core.warc import format_date, format_digits
from herodotus.portal.answer import Answer, data
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, Token
from herodotus.portal.api.rest import following
from herodotus.portal.archive_pages import Asked
from herodotus.portal.memento import Places
from herodotus.portal.targets import BadQuestionError
from herodotus.portal.word_search import (
    COST,
    DEPTH_MAX,
    SECTION_MAX,
    Found,
    Scope,
    WordSearch,
    moment_shown,
)

LIMIT_MAX = 100
_FORMULA = ("=", "+", "-", "@", "\t", "\r")
"""A table would compute a cell that begins so."""

Words = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=TEXT_BYTES_MAX,
        description="words, phrases and fields, as docs/look-up/search.md has them",
        examples=['ferry "net loft" -bell site:example.org on:2026-05-01'],
    ),
]


Here = Annotated[bool, Meta(description="ask this peer alone; the question then goes to no other")]
Section = Annotated[
    int, Meta(ge=0, le=SECTION_MAX, description="of a ring of many peers: which of them are asked, from 0")
]


class SearchQuestion(ApiQuestion, frozen=True, kw_only=True):
    q: Words
    here: Here = False
    section: Section = 0
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="hits in one answer")] = 10
    after: Token | None = None


class ApiHit(msgspec.Struct, frozen=True, kw_only=True):
    """A page by one of its versions, which began at `first` and ended at `until`. `marked` are the words of the snippet
    that were asked for; `versions` counts those that fit. `alike` have nearly the same text."""

    url: str
    title: str
    snippet: str
    marked: tuple[str, ...]
    first: str
    until: str | None
    memento: str
    history: str
    status: int
    type: str
    language: str
    digest: str
    versions: int
    alike: tuple["ApiHit", ...]


class ApiRingPart(msgspec.Struct, frozen=True, kw_only=True):
    """`share` of the ring answered: so many `peers`, this one among them. `has_more`: the next `section` asks
    others."""

    share: float
    peers: int
    section: int
    has_more: bool


class FoundPages(msgspec.Struct, frozen=True, kw_only=True):
    """`is_whole`: all that fits was counted; otherwise there are at least so many pages, and facets count versions.
    `documents` were looked through; `is_filled`: all that the peer holds. `ring` is null where this peer alone was
    asked. Several peers tell their most frequent values, so counts of values may be too low. `likelier`: what may
    have been meant by a word that is on no page."""

    question: str
    pages: int
    versions: int
    is_whole: bool
    documents: int
    is_filled: bool
    ring: ApiRingPart | None
    hits: tuple[ApiHit, ...]
    facets: dict[str, dict[str, int]]
    likelier: dict[str, str]
    next: str | None


class ListForm(Enum):
    CSV = "csv"
    CDXJ = "cdxj"


class ListQuestion(ApiQuestion, frozen=True, kw_only=True):
    q: Words
    here: Here = False
    section: Section = 0
    form: Annotated[ListForm, Meta(description="a table, or lines of an index")] = ListForm.CSV
    limit: Annotated[int, Meta(ge=1, le=LIMIT_MAX, description="rows in one part")] = LIMIT_MAX
    after: Token | None = None


@dataclass(frozen=True, slots=True)
class SearchAnswers:
    words: WordSearch

    @ApiEndpoint(
        "/api/v1/search",
        f"Pages of all peers that fit words and dates; {DEPTH_MAX:,} at most.",
        cost=4 * COST,
    )
    async def search(self, question: SearchQuestion, asked: Asked) -> FoundPages:
        found = await self.words.ask(
            question.q,
            limit=question.limit,
            token=question.after,
            scope=Scope(question.here, question.section),
        )
        return found_pages(found, asked.origin)

    @ApiEndpoint(
        "/api/v1/search/list",
        "The same pages as a file, a row each.",
        media=("text/csv", "text/x-cdxj"),
        cost=4 * COST,
    )
    async def list(self, question: ListQuestion, asked: Asked) -> Answer:
        found = await self.words.ask(
            question.q,
            limit=question.limit,
            token=question.after,
            scope=Scope(question.here, question.section),
        )
        shown = [one for first in found.results.shown for one in (first, *first.alike)]
        headers = {
            "Cache-Control": "no-store",
            "Content-Disposition": f'attachment; filename="search.{question.form.value}"',
        }
        if found.next is not None:
            headers["Link"] = f'<{following(asked.request, found.next)}>; rel="next"'
        if question.form is ListForm.CDXJ:
            return data("text/x-cdxj; charset=utf-8", "".join(map(_line, shown)), headers)
        return data("text/csv; charset=utf-8", _table(shown, found.question, asked.origin), headers)


async def reported(words: WordSearch, order: Search) -> OrderReport:
    """To the operator's command."""
    try:
        found = await words.ask(
            order.text, limit=min(order.limit, LIMIT_MAX), token=order.after, scope=Scope(here=order.here)
        )
    except BadQuestionError as error:
        raise Misuse(str(error)) from error
    return OrderReport(facts=msgspec.to_builtins(found_pages(found, "")))


def found_pages(found: Found, origin: str) -> FoundPages:
    answer, part = found.results.answer, found.results.ring
    return FoundPages(
        question=found.text,
        pages=answer.pages,
        versions=answer.versions,
        is_whole=answer.is_whole,
        documents=answer.documents,
        is_filled=found.results.is_filled,
        ring=None
        if part is None
        else ApiRingPart(**{name: getattr(part, name) for name in ApiRingPart.__struct_fields__}),
        hits=tuple(_hit(one, found.question, origin) for one in found.results.shown),
        facets={name: dict(values) for name, values in answer.facets.items()},
        likelier=dict(answer.likelier),
        next=found.next,
    )


def _hit(one: Shown, question: Question, origin: str) -> ApiHit:
    places = Places(origin=origin, url=one.url)
    return ApiHit(
        url=one.url,
        title=one.title,
        snippet="".join(run.text for run in one.snippet),
        marked=tuple(run.text for run in one.snippet if run.is_marked),
        first=format_date(one.first_s),
        until=None if one.until_s is None else format_date(one.until_s),
        memento=places.memento(moment_shown(one, question)),
        history=places.history,
        status=one.status,
        type=one.media_type,
        language=one.language,
        digest=one.digest,
        versions=one.versions,
        alike=tuple(_hit(other, question, origin) for other in one.alike),
    )


def _table(shown: Sequence[Shown], question: Question, origin: str) -> str:
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\r\n")
    writer.writerow(_COLUMNS)
    for one in shown:
        hit = _hit(one, question, origin)
        writer.writerow([_cell(getattr(hit, name)) for name in _COLUMNS])
    return written.getvalue()


_COLUMNS = ("url", "title", "first", "until", "status", "type", "language", "digest", "memento")


def _cell(value: str | int | None) -> str:
    text = "" if value is None else str(value).replace("\0", "")
    return f"'{text}" if text.startswith(_FORMULA) else text


def _line(one: Shown) -> str:
    fields = {
        "url": one.url,
        "mime": one.media_type or "unk",
        "status": str(one.status),
        "digest": one.digest.removeprefix("sha1:"),
    }
    return f"{one_word(surt(one.url))} {format_digits(one.first_s)} {json.dumps(fields)}\n"
