"""How do the rows and addresses of all peers become one list? The CDX server and listings, merged over the ring.

Every peer gives its rows in the order of addresses and says where it stopped. Rows behind the first such place may
have others between them that nobody has given yet: they are left for the next part, so that parts put together are
the whole list, each row once. Several peers keep the same capture; it is one row.
"""

import json
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus
from urllib.parse import quote

from herodotus.core.archive_errors import ArchiveError
from herodotus.core.entries import address_key
from herodotus.core.warc import parse_digits
from herodotus.portal.answer import PUBLIC, Answer, document, html
from herodotus.portal.cdx import (
    FIELDS,
    ROWS_MAX,
    BadQuestionError,
    CdxQuestion,
    Found,
    Row,
    decode_resume_key,
    format_rows,
    parse_question,
    ranges_of,
    thinned,
    variants,
)
from herodotus.portal.elsewhere import Place
from herodotus.portal.gathering import Gathered, Gatherer
from herodotus.portal.limits import ClientLimits
from herodotus.portal.memento import header_url
from herodotus.portal.pages import listing_page
from herodotus.portal.request import Request
from herodotus.portal.shelf import Shelf
from herodotus.portal.targets import BadTargetError, Kind, parse_web_target, spellings
from herodotus.portal.web import LISTED_MAX, Asked, failure, wants_json

ROWS_OF_PEER_MIN = 1_000
_CDX_PATHS = ("/cdx/search/cdx", "/cdx")
_CDX_COST, _PEER_COST = 2.0, 1.0
_FIELD_CHARS_MAX = 50_000
_BRIEF = {"Cache-Control": "max-age=60"}
_Position = tuple[bytes, int]
"""Address and time of a row: its place in the whole list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """What one peer gave; `stopped` is where it has more."""

    rows: tuple[Row, ...]
    stopped: _Position | None = None


class TogetherPages:
    """Before `ArchivePages`: takes questions over many addresses, where there are other peers to ask."""

    def __init__(self, shelf: Shelf, gatherer: Gatherer, limits: ClientLimits) -> None:
        self._shelf = shelf
        self._gatherer = gatherer
        self._limits = limits

    async def answer(self, asked: Asked) -> Answer | None:
        request = asked.request
        if request.method not in ("GET", "HEAD"):
            return None
        work = self._work(request)
        if work is None:
            return None
        others = await self._gatherer.others(request)
        refused = self._limits.refusal(request, _CDX_COST + _PEER_COST * len(others))
        if refused is not None:
            return refused
        return await work(asked, others) if others else None

    def _work(self, request: Request) -> Callable[[Asked, Sequence[Place]], Awaitable[Answer]] | None:
        """None also for what is malformed: whoever answers the others says so."""
        try:
            if request.path in _CDX_PATHS and parse_question(request.parameters()).ranges:
                return self._cdx
            is_list = request.path.startswith("/web/") and request.target.endswith("*")
            if is_list and parse_web_target(request.target).kind is Kind.LISTING:
                return self._listing
        except (BadQuestionError, BadTargetError):
            return None
        return None

    # -- captures -----------------------------------------------------------------------------------------

    async def _cdx(self, asked: Asked, others: Sequence[Place]) -> Answer:
        request = asked.request
        question = parse_question(request.parameters())
        if question.shows_pages:
            return await self._pages(request, others)
        try:
            wanted = peers_question(question, len(others))
        except BadQuestionError as error:
            return failure(request, HTTPStatus.BAD_REQUEST, str(error))
        own, gathered = await self._shares(request, wanted, others)
        shares = [
            own,
            *(share for _, answer in gathered.answers if (share := read_share(answer)) is not None),
        ]
        found = merged(shares, question, wanted)
        content_type, text = format_rows(found, question)
        headers = {**PUBLIC, **_BRIEF, **gathered.headers(), "X-Content-Type-Options": "nosniff"}
        if found.resume_at is not None:
            headers["X-Herodotus-Cut"] = "true"
        return Answer(content_type=content_type, body=text.encode("utf-8", "replace"), headers=headers)

    async def _shares(
        self, request: Request, wanted: CdxQuestion, others: Sequence[Place]
    ) -> tuple[Share, Gathered]:
        gathered = await self._gatherer.ask_all(_cdx_target(request, wanted), others)
        try:
            found = await self._shelf.rows(wanted)
        except BadQuestionError:  # it has fewer pages than others
            return Share(rows=()), gathered
        except ArchiveError:
            return Share(rows=()), replace(gathered, known=gathered.known + 1)
        return Share(rows=tuple(found.rows), stopped=found.resume_at), gathered

    async def _pages(self, request: Request, others: Sequence[Place]) -> Answer:
        """As many as the peer with most: page n is the n-th of each."""
        gathered = await self._gatherer.ask_all(request.target, others)
        own = await self._shelf.rows(parse_question(request.parameters()))
        counts = [own.pages]
        for _, answer in gathered.answers:
            text = answer.body[:20].strip()
            if answer.status == HTTPStatus.OK and text.isdigit():
                counts.append(min(int(text), 10_000_000))
        headers = {**PUBLIC, **_BRIEF, **gathered.headers(), "X-Content-Type-Options": "nosniff"}
        return Answer(content_type="text/plain; charset=utf-8", body=b"%d\n" % max(counts), headers=headers)

    # -- addresses ----------------------------------------------------------------------------------------

    async def _listing(self, asked: Asked, others: Sequence[Place]) -> Answer:
        target = parse_web_target(asked.request.target)
        prefix = spellings(target.url.removeprefix("*."))[0]
        match = "domain" if target.url.startswith("*.") else "prefix"
        ranges = tuple(sorted({pair for one in variants(prefix) for pair in ranges_of(one, match)}))
        gathered = await self._gatherer.ask_all(asked.request.target, others)
        try:
            known = list(await self._shelf.addresses(ranges, LISTED_MAX + 1))
        except ArchiveError:
            known, gathered = [], replace(gathered, known=gathered.known + 1)
        is_whole = len(known) <= LISTED_MAX
        for _, answer in gathered.answers:
            urls, has_all = read_listing(answer, ranges)
            known += urls
            is_whole = is_whole and has_all
        urls = sorted(set(known), key=address_key)
        is_whole = is_whole and len(urls) <= LISTED_MAX
        if wants_json(asked.request):
            answer = document(
                {
                    "prefix": prefix,
                    "urls": urls[:LISTED_MAX],
                    "is_whole": is_whole,
                    "is_partial": gathered.is_partial,
                }
            )
        else:
            query = f"{header_url(prefix).replace('&', '%26')}*&collapse=urlkey&fl=original"
            following = None if is_whole else f"/cdx/search/cdx?url={query}"
            status = HTTPStatus.OK if urls else HTTPStatus.NOT_FOUND
            answer = html(listing_page(prefix, urls[:LISTED_MAX], following), status)
        answer.headers.update(gathered.headers())
        return answer


def peers_question(question: CdxQuestion, others: int) -> CdxQuestion:
    """What each peer, this one included, is asked: all fields, nothing thinned that only the whole list can be."""
    if question.offset + abs(question.limit) > ROWS_MAX and question.offset:
        raise BadQuestionError(
            f"offset and limit together pass {ROWS_MAX}: go on with showResumeKey and resumeKey"
        )
    collapses_addresses = question.collapse == (("urlkey", 0),)
    each = max(ROWS_OF_PEER_MIN, ROWS_MAX // (others + 1))
    if question.limit > 0:
        each = min(each, question.offset + question.limit + 1)
    return replace(
        question,
        fields=FIELDS,
        offset=0,
        limit=max(question.limit, -each) if question.limit < 0 else each,
        collapse=question.collapse if collapses_addresses else (),
        is_json=True,
        shows_resume_key=True,
    )


_PASSED = ("url", "matchType", "from", "to", "filter", "resumeKey", "page")


def _cdx_target(request: Request, wanted: CdxQuestion) -> str:
    pairs = [pair for pair in request.parameters() if pair[0] in _PASSED]
    pairs += [("limit", str(wanted.limit)), ("output", "json"), ("showResumeKey", "true")]
    pairs += [("collapse", "urlkey")] if wanted.collapse else []
    pairs.append(("fl", ",".join(FIELDS)))
    query = "&".join(
        f"{quote(name, safe='')}={quote(value, safe='', errors='replace')}" for name, value in pairs
    )
    return f"/cdx/search/cdx?{query}"


def read_share(answer: Answer, begun: _Position | None = None) -> Share | None:
    """Of another peer: None for what is no list of rows, or one that stopped where it began, as that would never
    end; rows that make no sense are left out."""
    if answer.status == HTTPStatus.BAD_REQUEST:
        return Share(rows=())  # it has fewer pages than others
    try:
        table = json.loads(answer.body)
        stopped = None
        if len(table) >= 2 and table[-2] == []:
            stopped = decode_resume_key(table[-1][0])
            table = table[:-2]
            if begun is not None and stopped <= begun:
                return None
        return Share(
            rows=tuple(row for line in table[1:] if (row := _row(line)) is not None), stopped=stopped
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return None


def _row(line: object) -> Row | None:
    if not isinstance(line, list) or len(line) != len(FIELDS):
        return None
    if not all(isinstance(value, str) and len(value) <= _FIELD_CHARS_MAX for value in line):
        return None
    if not all(value.isascii() and value.isprintable() and value and " " not in value for value in line):
        return None
    row = dict(zip(FIELDS, line, strict=True))
    try:
        parse_digits(row["timestamp"])
    except ArchiveError:
        return None
    return row


def read_listing(answer: Answer, ranges: Iterable[tuple[bytes, bytes]]) -> tuple[list[str], bool]:
    """Addresses that were asked for, and whether these are all; a peer that has none says 404."""
    wanted = tuple(ranges)
    try:
        facts = json.loads(answer.body)
        urls = [
            url
            for url in facts["urls"][: LISTED_MAX + 1]
            if isinstance(url, str) and any(start <= address_key(url) < end for start, end in wanted)
        ]
        return urls, bool(facts["is_whole"])
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        return [], answer.status == HTTPStatus.NOT_FOUND


def _position(row: Row) -> _Position:
    return address_key(row["original"]), parse_digits(row["timestamp"])


def merged(shares: Sequence[Share], question: CdxQuestion, wanted: CdxQuestion) -> Found:
    known = {(*_position(row), row["digest"]): row for share in shares for row in share.rows}
    ordered = [row for _, row in sorted(known.items(), key=lambda pair: pair[0])]
    stops = [share.stopped for share in shares if share.stopped is not None]
    if question.limit < 0:
        rows = list(thinned(ordered, question))
        return Found(rows=rows[question.limit :])
    stopped = min(stops, default=None)
    if stopped is not None:
        ordered = [row for row in ordered if _position(row) < stopped]
    rows = list(thinned(ordered, question))[question.offset :]
    if len(rows) > question.limit:
        return Found(rows=rows[: _end(rows, question.limit)], resume_at=_position(rows[question.limit]))
    return Found(rows=rows, resume_at=stopped)


def _end(rows: Sequence[Row], limit: int) -> int:
    """Contents of one second have one place: all of them now, or all in the next part."""
    end = limit
    while end and _position(rows[end - 1]) == _position(rows[limit]):
        end -= 1
    return end or limit
