"""What is asked about links: where a page leads, and who leads to it?

Links of a page are read from its capture; links to a page from the survey's rows, which are those of the pages that
this peer holds. `scope=ring` asks all peers for links to a page and puts the answers together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from http import HTTPStatus
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from crawler.core.link import Link, LinkKind
from crawler.core.urls import STANDARD
from crawler.outcomes import read_capture
from herodotus.core.captures import position_of
from herodotus.core.errors import ArchiveError
from herodotus.core.index_rows import KEY_BYTES
from herodotus.core.warc import format_date, parse_date
from herodotus.portal.answer import Answer, query_of
from herodotus.portal.api.captures import at_moment
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, Date, Token, Url, moment_of
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.memento import memento_path
from herodotus.portal.peer_rows import earliest
from herodotus.portal.ring_questions import Gatherer, cost_of_asking
from herodotus.portal.targets import spellings
from herodotus.portal.tokens import counted, number_of, place_of_token, position_of_token
from herodotus.store import Catalogue, Span, StoredCapture

LINKS_LOOKED_AT_MAX = 2_000
"""Rows for one answer, of which a date may leave out most."""


class ApiLinkKind(Enum):
    PAGE = "page"
    FRAME = "frame"
    IMAGE = "image"
    REQUISITE = "requisite"


class Scope(Enum):
    PEER = "peer"
    RING = "ring"


class OutLinksQuestion(ApiQuestion, frozen=True, kw_only=True):
    url: Url
    date: Date | None = None
    kind: Annotated[ApiLinkKind | None, Meta(description="links of this kind only")] = None
    limit: Annotated[int, Meta(ge=1, le=5000, description="links in one answer")] = 1000
    after: Token | None = None


class ApiLink(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    kind: ApiLinkKind


class OutLinks(msgspec.Struct, frozen=True, kw_only=True):
    """In the order of the page, each address once. What its author does not want followed is left out."""

    url: str
    date: str
    memento: str
    links: tuple[ApiLink, ...]
    next: str | None


class InLinksQuestion(ApiQuestion, frozen=True, kw_only=True):
    url: Url
    date: Annotated[Date | None, Meta(description="links of this day, as far as captures show")] = None
    scope: Annotated[Scope, Meta(description="pages of this peer, or of all peers")] = Scope.PEER
    limit: Annotated[int, Meta(ge=1, le=200, description="pages in one answer")] = 50
    after: Token | None = None


class InLink(msgspec.Struct, frozen=True, kw_only=True):
    """`first_seen` and `last_seen` are the first and the last capture of the page that have the link."""

    url: str
    first_seen: str
    last_seen: str


class InLinks(msgspec.Struct, frozen=True, kw_only=True):
    """In an order that means nothing. `is_current`: all that is stored was looked through for links."""

    url: str
    links: tuple[InLink, ...]
    is_current: bool
    is_partial: bool
    next: str | None


@dataclass(frozen=True, slots=True)
class LinkAnswers:
    shelf: Shelf
    gatherer: Gatherer
    limits: ClientLimits

    @ApiEndpoint(
        "/api/v1/outlinks", "The links of a page, and what it embeds.", cost=3.0, may_be_elsewhere=True
    )
    async def out(self, question: OutLinksQuestion, asked: Asked) -> OutLinks:
        start = number_of(question.after)

        def work(_: Catalogue, capture: StoredCapture) -> OutLinks:
            links = [
                ApiLink(url=link.url, kind=ApiLinkKind(link.kind.value))
                for link in links_of(capture)
                if question.kind is None or link.kind is LinkKind(question.kind.value)
            ]
            end = start + question.limit
            return OutLinks(
                url=capture.url,
                date=format_date(capture.time_s),
                memento=memento_path(capture.url, capture.time_s),
                links=tuple(links[start:end]),
                next=str(end) if end < len(links) else None,
            )

        return await at_moment(self.shelf, question.url, moment_of(question.date), work)

    @ApiEndpoint("/api/v1/inlinks", "Pages that link to an address, or embed it.", cost=10.0)
    async def into(self, question: InLinksQuestion, asked: Asked) -> InLinks | Answer:
        url = spellings(question.url)[0]
        begun, short_parts = (b"", 0) if question.after is None else place_of_token(question.after)
        day_s = None if question.date is None else moment_of(question.date).target_s
        own, is_current = await self.shelf.ask(
            lambda catalogue: (
                _into(catalogue, url, begun, day_s, question.limit),
                catalogue.is_surveyed(),
            )
        )
        shares, is_partial = [own], False
        if question.scope is Scope.RING:
            others = await self.gatherer.others(asked.request)
            refused = self.limits.refusal(asked.request, cost_of_asking(others))
            if refused is not None:
                return refused
            gathered = await self.gatherer.ask_all(
                _peers_target(question, url, begun),
                others,
                partial(read_share, begun=begun, limit=question.limit),
            )
            shares += gathered.given
            is_partial = gathered.is_partial
        stop = earliest(
            [(share.stopped, share.is_short) for share in shares if share.stopped is not None], short_parts
        )
        links, stopped = together(shares, stop.at, question.limit)
        following = None if stopped is None else counted(stopped.hex(), stop.short_parts)
        is_partial = is_partial or stop.was_left
        return InLinks(url=url, links=links, is_current=is_current, is_partial=is_partial, next=following)


def links_of(capture: StoredCapture) -> Sequence[Link]:
    return read_capture(capture.as_capture(), product_token="", rules=STANDARD).links


# -- links to a page --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class LinkRows:
    """What one peer knows: in the order of the pages' keys; `stopped` is the last that it looked at, if there are
    more, and `is_short` whether it has given less than was asked for."""

    links: tuple[InLink, ...]
    stopped: bytes | None
    is_short: bool = False


def _into(catalogue: Catalogue, url: str, begun: bytes, day_s: int | None, limit: int) -> LinkRows:
    position = position_of(url)[:KEY_BYTES]
    found: list[InLink] = []
    source = b""
    for source, span in islice(catalogue.links_to(position, begun), LINKS_LOOKED_AT_MAX):
        if not stood(span, day_s):
            continue
        page = url_at(catalogue, source)
        if page is not None:
            found.append(
                InLink(url=page, first_seen=format_date(span.first_s), last_seen=format_date(span.last_s))
            )
            if len(found) == limit:
                break
    has_more = source and next(catalogue.links_to(position, source), None) is not None
    return LinkRows(links=tuple(found), stopped=source if has_more else None)


def stood(span: Span, day_s: int | None) -> bool:
    return day_s is None or span.first_s <= day_s <= span.last_s


def url_at(catalogue: Catalogue, position: bytes) -> str | None:
    """Of a position on the ring; None where nothing is left of it."""
    newest = catalogue.newest_at(position)
    return None if newest is None else newest.url


def together(
    shares: Sequence[LinkRows], stopped: bytes | None, limit: int
) -> tuple[tuple[InLink, ...], bytes | None]:
    """Replicas know the same pages. What is behind `stopped`, the first place at which somebody stopped, waits."""
    known: dict[bytes, InLink] = {}
    for share in shares:
        for link in share.links:
            position = position_of(link.url)[:KEY_BYTES]
            other = known.get(position, link)
            known[position] = InLink(
                url=link.url,
                first_seen=min(link.first_seen, other.first_seen),
                last_seen=max(link.last_seen, other.last_seen),
            )
    ordered = [
        pair
        for pair in sorted(known.items(), key=lambda one: one[0])
        if stopped is None or pair[0] <= stopped
    ]
    if len(ordered) > limit:
        ordered, stopped = ordered[:limit], ordered[limit - 1][0]
    return tuple(link for _, link in ordered), stopped


def _peers_target(question: InLinksQuestion, url: str, begun: bytes) -> str:
    pairs = [("url", url), ("limit", str(question.limit))]
    pairs += [("date", question.date)] if question.date is not None else []
    pairs += [("after", begun.hex())] if begun else []
    return f"/api/v1/inlinks?{query_of(pairs)}"


def read_share(answer: Answer, begun: bytes, limit: int) -> LinkRows | None:
    """Of another peer: None if it does not answer the question (see `peer_rows.py`)."""
    if answer.status != HTTPStatus.OK:
        return None
    try:
        facts = msgspec.json.decode(answer.body, type=InLinks)
        for link in facts.links:
            parse_date(link.first_seen), parse_date(link.last_seen)
        stopped = None if facts.next is None else position_of_token(facts.next)
        keys = [position_of(link.url)[:KEY_BYTES] for link in facts.links]
    except (ValueError, ArchiveError, RecursionError):
        return None
    is_asked = len(keys) <= limit and all(begun < key <= (stopped or key) for key in keys)
    if not is_asked or (stopped is not None and stopped <= begun):
        return None
    return LinkRows(links=facts.links, stopped=stopped, is_short=stopped is not None and len(keys) < limit)
