"""How whole is an archived page? What it shows, where the nearest capture of each part is, and one score.

The parts of a page were fetched at other times than the page. A part is *coherent* if the page surely showed it then:
one of its versions was seen before or at that moment and again at or after it. It is *changed* if its bytes differed
before and after; *older* or *newer* if there are captures on one side only; *missing* if there is none. The score is
the mean over the parts: 1 for a coherent one, a half for one of another time, 0 for a missing one. For parts that
this peer lacks it asks their holders, within bounds; a part that it did not ask for is *unasked* and counts as
missing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from http import HTTPStatus
from typing import Annotated
from urllib.parse import quote

import anyio
import msgspec
from msgspec import Meta

from crawler.core.link import DOUBTFUL_RULES, LinkKind
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import DAY_S
from herodotus.core.warc import format_date, parse_date
from herodotus.portal.answer import Answer, Request
from herodotus.portal.api.captures import at_moment
from herodotus.portal.api.endpoints import (
    AbsentError,
    ApiEndpoint,
    ApiQuestion,
    Date,
    NotHereError,
    Url,
    moment_of,
)
from herodotus.portal.api.links import ApiLinkKind, links_of
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf, time_chosen
from herodotus.portal.memento import memento_path
from herodotus.portal.other_holders import RELAYED, Directions, Relay
from herodotus.portal.targets import moment_at, spellings
from herodotus.store import Catalogue, StoredCapture

PARTS_MAX = 500
SHEETS_MAX, SHEET_BYTES_MAX = 20, 256 * 1024
"""Stylesheets of a page that are looked into."""
ASKED_ELSEWHERE_MAX = 100
ELSEWHERE_S = 8.0
HOLDERS_ASKED = 2
NEAREST_BYTES_MAX = 64 * 1024
"""Of an answer about one address, which may have 16 kB."""


class PartState(Enum):
    COHERENT = "coherent"
    CHANGED = "changed"
    OLDER = "older"
    NEWER = "newer"
    MISSING = "missing"
    UNASKED = "unasked"


_WORTH = {PartState.COHERENT: 1.0, PartState.CHANGED: 0.5, PartState.OLDER: 0.5, PartState.NEWER: 0.5}
"""Of a part, in a page's score; others are worth nothing."""


class MomentQuestion(ApiQuestion, frozen=True, kw_only=True):
    url: Url
    date: Date | None = None


class Nearest(msgspec.Struct, frozen=True, kw_only=True):
    """Of an address at a moment; `offset_s` is how much later than the moment the capture was made."""

    url: str
    state: PartState
    date: str | None
    offset_s: int | None
    memento: str | None


class PagePart(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    kind: ApiLinkKind
    state: PartState
    date: str | None
    offset_s: int | None
    memento: str | None
    is_here: bool


class Completeness(msgspec.Struct, frozen=True, kw_only=True):
    """`parts_left_out`: how many more the page embeds, which are not in the score."""

    url: str
    date: str
    memento: str
    score: Annotated[float, Meta(ge=0, le=1)]
    states: dict[str, int]
    parts: tuple[PagePart, ...]
    parts_left_out: int


class DatedPart(msgspec.Struct, frozen=True, kw_only=True):
    """`date` is that of the capture which is shown; `is_far`: it may have been another one on the page's day, and is
    from many days before or after."""

    url: str
    kind: ApiLinkKind
    state: PartState
    date: str | None
    offset_s: int | None
    memento: str | None
    is_far: bool


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """`first` and `last`: from when to when the page and its parts are; a part that surely was the same on the page's
    day counts as of that day. `far` and `missing` count parts, `parts_left_out` those beyond the bounds."""

    url: str
    date: str
    memento: str
    first: str
    last: str
    drift_days: int
    far: int
    missing: int
    parts: tuple[DatedPart, ...]
    parts_left_out: int


@dataclass(frozen=True, slots=True)
class CompletenessAnswers:
    shelf: Shelf
    directions: Directions
    relay: Relay
    drift_days: int

    @ApiEndpoint(
        "/api/v1/parts",
        "When what a page of a date embeds was captured, as this archive shows it.",
        cost=4.0,
        may_be_elsewhere=True,
    )
    async def parts(self, question: MomentQuestion, asked: Asked) -> Parts:
        urls = spellings(question.url)
        chosen = await self.shelf.choose(urls, moment_of(question.date))
        if chosen is None:
            raise AbsentError(urls[0])

        def work(catalogue: Catalogue) -> Parts:
            page = catalogue.newest(chosen.url, chosen.time_s)
            if page is None:
                raise NotHereError("this peer's copy of that day is damaged, and it has no older one")
            return parts_of(catalogue, page, chosen.shown_s, self.drift_days)

        return await self.shelf.ask(work)

    @ApiEndpoint(
        "/api/v1/nearest",
        "The capture of an address nearest to a date, and whether it shows the content of that date.",
        may_be_elsewhere=True,
    )
    async def nearest(self, question: MomentQuestion, asked: Asked) -> Nearest:
        target_s = moment_of(question.date).target_s
        urls = spellings(question.url)
        for url in [*urls, *await self.shelf.spellings(urls)]:
            found = await self.shelf.ask(partial(nearest_to, url=url, moment_s=target_s))
            if found.state is not PartState.MISSING:
                return found
        raise AbsentError(urls[0])

    @ApiEndpoint(
        "/api/v1/completeness",
        "How complete a page of a date is: each part with its nearest capture, and one score.",
        cost=20.0,
        may_be_elsewhere=True,
    )
    async def completeness(self, question: MomentQuestion, asked: Asked) -> Completeness:
        def work(catalogue: Catalogue, capture: StoredCapture) -> tuple[StoredCapture, list[PagePart], int]:
            links = [link for link in links_of(capture) if link.kind.is_embedded]
            parts = [
                _part(nearest_to(catalogue, link.url, capture.time_s), ApiLinkKind(link.kind.value))
                for link in links[:PARTS_MAX]
            ]
            return capture, parts, max(0, len(links) - PARTS_MAX)

        capture, parts, left_out = await at_moment(self.shelf, question.url, moment_of(question.date), work)
        if not asked.request.header(RELAYED):
            parts = await self._with_elsewhere(parts, capture.time_s)
        return Completeness(
            url=capture.url,
            date=format_date(capture.time_s),
            memento=memento_path(capture.url, capture.time_s),
            score=score_of(parts),
            states={state.value: sum(part.state is state for part in parts) for state in PartState},
            parts=tuple(parts),
            parts_left_out=left_out,
        )

    async def _with_elsewhere(self, parts: list[PagePart], time_s: int) -> list[PagePart]:
        """Those that are missing here, as their holders know them."""
        missing = [number for number, part in enumerate(parts) if part.state is PartState.MISSING]
        asked, unasked = missing[:ASKED_ELSEWHERE_MAX], missing[ASKED_ELSEWHERE_MAX:]
        found = {number: _unasked(parts[number]) for number in unasked}
        with anyio.move_on_after(ELSEWHERE_S) as scope:
            async with anyio.create_task_group() as tasks:
                for number in asked:
                    tasks.start_soon(self._ask, parts, number, time_s, found)
        if scope.cancelled_caught:
            found |= {number: _unasked(parts[number]) for number in asked if number not in found}
        return [found.get(number, part) for number, part in enumerate(parts)]

    async def _ask(
        self, parts: Sequence[PagePart], number: int, time_s: int, found: dict[int, PagePart]
    ) -> None:
        part = parts[number]
        digits = "".join(one for one in format_date(time_s) if one.isdigit())
        target = f"/api/v1/nearest?url={quote(part.url, safe='', errors='replace')}&date={digits}"
        request = Request(target=target, headers={"accept": "application/json", RELAYED: "1"})
        holders = [place for place in await self.directions.holders(part.url) if not place.is_self]
        for place in holders[:HOLDERS_ASKED]:
            answer = await self.relay.fetch(place, request)
            told = None if answer is None else read_nearest(answer, part.url, time_s)
            if told is None:
                continue
            found[number] = _part(told, part.kind, is_here=False)
            return
        found[number] = part


def read_nearest(answer: Answer, url: str, moment_s: int) -> Nearest | None:
    """Of another peer: its state and its date, if they go together; the rest follows from them."""
    if answer.status != HTTPStatus.OK or len(answer.body) > NEAREST_BYTES_MAX:
        return None
    try:
        told = msgspec.json.decode(answer.body, type=Nearest)
        time_s = parse_date(told.date or "")
    except (ValueError, MalformedRecordError, RecursionError):
        return None
    if told.url != url or not _may_be(told.state, time_s - moment_s):
        return None
    return _nearest(url, told.state, time_s, moment_s)


def _nearest(url: str, state: PartState, time_s: int, moment_s: int) -> Nearest:
    return Nearest(
        url=url,
        state=state,
        date=format_date(time_s),
        offset_s=time_s - moment_s,
        memento=memento_path(url, time_s),
    )


def _may_be(state: PartState, offset_s: int) -> bool:
    if offset_s > 0:
        return state in (PartState.NEWER, PartState.CHANGED)
    return state in (PartState.COHERENT, PartState.OLDER, PartState.CHANGED)


def score_of(parts: Sequence[PagePart]) -> float:
    """A page that shows nothing else is whole."""
    return round(sum(_WORTH.get(part.state, 0.0) for part in parts) / len(parts), 4) if parts else 1.0


def _unasked(part: PagePart) -> PagePart:
    return msgspec.structs.replace(part, state=PartState.UNASKED)


def _part(nearest: Nearest, kind: ApiLinkKind, *, is_here: bool = True) -> PagePart:
    facts = msgspec.structs.asdict(nearest)
    return PagePart(**facts, kind=kind, is_here=is_here and nearest.date is not None)


def parts_of(catalogue: Catalogue, page: StoredCapture, shown_s: int, drift_days: int) -> Parts:
    """What the page embeds, and what its stylesheets do. What its scripts load nobody knows before they run."""
    found: dict[str, DatedPart] = {}
    left_out = sheets = 0
    waiting = [page]
    while waiting:
        for link in links_of(waiting.pop()):
            if not link.kind.is_embedded or link.url in found:
                continue
            if len(found) == PARTS_MAX:
                left_out += 1
                continue
            held, time_s, state = _shown_at(catalogue, link.url, shown_s)
            if time_s is None and link.rule in DOUBTFUL_RULES:  # it may be no address at all
                continue
            found[link.url] = _dated(
                link.url, ApiLinkKind(link.kind.value), held, time_s, state, shown_s, drift_days
            )
            if time_s is None or sheets == SHEETS_MAX or link.kind is not LinkKind.REQUISITE:
                continue
            sheet = catalogue.newest(held, time_s)
            if sheet is not None and sheet.media_type == "text/css" and sheet.body_bytes <= SHEET_BYTES_MAX:
                sheets += 1
                waiting.append(sheet)
    parts = tuple(found.values())
    drifted = [shown_s + (one.offset_s or 0) for one in parts if one.state is not PartState.COHERENT]
    return Parts(
        url=page.url,
        date=format_date(shown_s),
        memento=memento_path(page.url, shown_s),
        first=format_date(min([shown_s, *drifted])),
        last=format_date(max([shown_s, *drifted])),
        drift_days=drift_days,
        far=sum(one.is_far for one in parts),
        missing=sum(one.state is PartState.MISSING for one in parts),
        parts=parts,
        parts_left_out=left_out,
    )


def _shown_at(catalogue: Catalogue, url: str, moment_s: int) -> tuple[str, int | None, PartState]:
    """The address under which it is held, and which of its captures a page of that moment is given."""
    for held in (url, *catalogue.spellings((url,))):
        near = catalogue.around(held, moment_s)
        if near is not None:
            time_s = time_chosen(catalogue, held, near, moment_at(moment_s))
            return held, time_s, nearest_to(catalogue, held, moment_s).state
    return url, None, PartState.MISSING


def _dated(
    url: str,
    kind: ApiLinkKind,
    held: str,
    time_s: int | None,
    state: PartState,
    shown_s: int,
    drift_days: int,
) -> DatedPart:
    offset_s = None if time_s is None else time_s - shown_s
    is_sure = state is PartState.COHERENT
    return DatedPart(
        url=url,
        kind=kind,
        state=state,
        date=None if time_s is None else format_date(time_s),
        offset_s=offset_s,
        memento=None if time_s is None else memento_path(held, time_s),
        is_far=offset_s is not None and not is_sure and abs(offset_s) > drift_days * DAY_S,
    )


def nearest_to(catalogue: Catalogue, url: str, moment_s: int) -> Nearest:
    """From the index alone."""
    near = catalogue.around(url, moment_s)
    if near is None:
        return Nearest(url=url, state=PartState.MISSING, date=None, offset_s=None, memento=None)
    before_s, after_s = near.before_s, near.after_s
    if before_s is None:
        assert after_s is not None
        shown_s, state = after_s, PartState.NEWER
    elif _is_coherent(catalogue, url, before_s, after_s, moment_s):
        shown_s, state = before_s, PartState.COHERENT
    elif after_s is None:
        shown_s, state = before_s, PartState.OLDER
    else:
        shown_s = before_s if moment_s - before_s <= after_s - moment_s else after_s
        state = PartState.CHANGED
    return _nearest(url, state, shown_s, moment_s)


def _is_coherent(catalogue: Catalogue, url: str, before_s: int, after_s: int | None, moment_s: int) -> bool:
    """The version before was still there: seen again unchanged, or the next capture has the same digest."""
    seen_s = catalogue.last_visit_s(url, before_s) or before_s
    if seen_s >= moment_s:
        return True
    return after_s is not None and not catalogue.digests_at(url, before_s).isdisjoint(
        catalogue.digests_at(url, after_s)
    )
