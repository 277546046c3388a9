"""How do the rows and addresses of all peers become one list? The CDX server and listings, merged over the ring.

Every peer gives its rows in the order of addresses and says where it stopped. Rows behind the first such place may
have others between them that nobody has given yet: they are left for the next part, so that parts put together are
the whole list, each row once. Several peers keep the same capture; it is one row. `peer_rows.py` checks
what another peer may say. Reading and merging is work for threads.
"""

import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import itemgetter

from herodotus.core.errors import ArchiveError
from herodotus.core.index_rows import address_key
from herodotus.portal.answer import Answer, Request, data, query_of, wants_json
from herodotus.portal.archive_pages import LISTED_MAX, Asked, listed_by, listing, tried
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.cdx import (
    FIELDS,
    NO_PAGE,
    PAGES_MAX,
    ROWS_MAX,
    CdxQuestion,
    CdxRows,
    Row,
    encode_resume_key,
    end_of_part,
    format_rows,
    parse_question,
    thinned_places,
)
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.other_holders import PortalAddress
from herodotus.portal.peer_rows import (
    Identity,
    Listed,
    PeerRows,
    Position,
    earliest,
    own_share,
    read_count,
    read_listing,
    read_share,
)
from herodotus.portal.ring_questions import PEERS_ASKED_MAX, Gathered, Gatherer, cost_of_asking
from herodotus.portal.targets import BadQuestionError, TargetKind, parse_web_target

ROWS_OF_PEER_MIN = 1_000
ROWS_ASKED_MIN = 50
"""So many contents of one address and second may a peer have, and still come further."""
ROWS_TOGETHER_MAX = 30_000
"""Of all peers: 36 MB at most, of which six copies of a capture become one row."""
_CDX_PATHS = ("/cdx/search/cdx", "/cdx")
_CDX_COST, _COUNT_COST = 2.0, 20.0
_PAGES_OF_COST = 100
"""Pages before the one that is asked for, which are gone through to find it, cost as much as one of these."""
_BRIEF = {"Cache-Control": "max-age=60"}


@dataclass(frozen=True)
class TogetherPages:
    """Before `ArchivePages`: takes questions over many addresses, where there are other peers to ask."""

    paths = re.compile(r"/cdx|/web/.*\*\Z", re.DOTALL)
    shelf: Shelf
    gatherer: Gatherer
    limits: ClientLimits
    steady_s: Callable[[], float]
    """Asked in threads, too."""

    async def answer(self, asked: Asked) -> Answer | None:
        request = asked.request
        if request.method not in ("GET", "HEAD"):
            return None
        work = self._work(request)
        if work is None:
            return None
        others = await self.gatherer.others(request)
        refused = self.limits.refusal(request, _cost_of(request) + cost_of_asking(others))
        if refused is not None:
            return refused
        return await tried(lambda one: work(one, others), asked) if others else None

    def _work(self, request: Request) -> Callable[[Asked, Sequence[PortalAddress]], Awaitable[Answer]] | None:
        """None also for a malformed question: the part that answers the others refuses it."""
        try:
            if request.path in _CDX_PATHS and parse_question(request.parameters()).ranges:
                return self._cdx
            is_list = request.path.startswith("/web/") and request.target.endswith("*")
            if is_list and parse_web_target(request.target).kind is TargetKind.LISTING:
                return self._listing
        except BadQuestionError:
            return None
        return None

    # -- captures -----------------------------------------------------------------------------------------

    async def _cdx(self, asked: Asked, others: Sequence[PortalAddress]) -> Answer:
        request = asked.request
        question = parse_question(request.parameters())
        if question.shows_pages:
            return await self._pages(request, others)
        wanted = peers_question(question, len(others))
        gathered = await self.gatherer.ask_all(
            _cdx_target(request, wanted), others, partial(read_share, wanted=wanted)
        )
        own, gathered = await self._own(wanted, gathered)
        if own is None and question.page and not any(share.rows for share in gathered.given):
            raise BadQuestionError(NO_PAGE)

        def merge() -> Merged:
            theirs = [_shown(share, self.shelf.shows) for share in gathered.given]
            return merged([own or PeerRows(rows={}), *theirs], question, self.steady_s)

        list_ = await self.shelf.in_thread(merge)
        content_type, body = await self.shelf.in_thread(partial(format_rows, list_.found, question))
        headers = {**_BRIEF, **gathered.headers()}
        if list_.has_gaps:
            headers["X-Herodotus-Partial"] = "true"
        if list_.found.resume_at is not None:
            headers["X-Herodotus-Cut"] = "true"
        return data(content_type, body, headers)

    async def _own(
        self, wanted: CdxQuestion, gathered: Gathered[PeerRows]
    ) -> tuple[PeerRows | None, Gathered[PeerRows]]:
        """None where this peer has no such page; where its archive cannot be read it is one that did not answer."""
        try:
            found = await self.shelf.rows(wanted)
            return await self.shelf.in_thread(partial(own_share, found, wanted)), gathered
        except BadQuestionError:  # it has fewer pages than others
            return None, gathered
        except ArchiveError:
            return PeerRows(rows={}), replace(gathered, known=gathered.known + 1)

    async def _pages(self, request: Request, others: Sequence[PortalAddress]) -> Answer:
        """As many as the peer with most: page n is the n-th of each."""
        gathered = await self.gatherer.ask_all(
            request.target, others, partial(read_count, pages_max=PAGES_MAX)
        )
        own = await self.shelf.rows(parse_question(request.parameters()))
        count = max(own.pages, *gathered.given, 0)
        return data("text/plain; charset=utf-8", f"{count}\n", {**_BRIEF, **gathered.headers()})

    # -- addresses ----------------------------------------------------------------------------------------

    async def _listing(self, asked: Asked, others: Sequence[PortalAddress]) -> Answer:
        target = parse_web_target(asked.request.target)
        prefix, ranges = listed_by(target)
        gathered = await self.gatherer.ask_all(
            asked.request.target, others, partial(read_listing, ranges=ranges, most=LISTED_MAX)
        )
        try:
            known = list(await self.shelf.addresses(ranges, LISTED_MAX + 1))
        except ArchiveError:
            known, gathered = [], replace(gathered, known=gathered.known + 1)
        is_json = wants_json(asked.request)
        answer = await self.shelf.in_thread(
            partial(_listed, prefix, known, gathered, self.shelf.shows, is_json=is_json)
        )
        answer.headers.update(gathered.headers())
        return answer


def _shown(share: PeerRows, shows: Callable[[str], bool]) -> PeerRows:
    """Without what was removed here, which others may still have."""
    rows = {identity: placed for identity, placed in share.rows.items() if shows(placed[1]["original"])}
    return replace(share, rows=rows)


def _listed(
    prefix: str,
    known: Sequence[str],
    gathered: Gathered[Listed],
    shows: Callable[[str], bool],
    *,
    is_json: bool,
) -> Answer:
    is_whole = len(known) <= LISTED_MAX and all(listed.is_whole for listed in gathered.given)
    found = {*known, *(url for listed in gathered.given for url in listed.urls if shows(url))}
    urls = sorted(found, key=address_key)
    is_whole = is_whole and len(urls) <= LISTED_MAX
    return listing(prefix, urls, is_whole=is_whole, is_json=is_json, is_partial=gathered.is_partial)


def _cost_of(request: Request) -> float:
    if request.path not in _CDX_PATHS:
        return _CDX_COST
    question = parse_question(request.parameters())
    walked = min(question.page or 0, PAGES_MAX) / _PAGES_OF_COST
    return _CDX_COST + walked + (_COUNT_COST if question.shows_pages else 0.0)


def peers_question(question: CdxQuestion, others: int) -> CdxQuestion:
    """What each peer, this one included, is asked: all fields, nothing thinned that only the whole list can be."""
    if question.offset + abs(question.limit) > ROWS_MAX and question.offset:
        raise BadQuestionError(
            f"offset and limit together pass {ROWS_MAX}: continue with showResumeKey and resumeKey"
        )
    collapses_addresses = question.collapse == (("urlkey", 0),)
    asked = min(others, PEERS_ASKED_MAX) + 1
    each = min(max(ROWS_OF_PEER_MIN, ROWS_MAX // asked), ROWS_TOGETHER_MAX // asked)
    if question.limit > 0:
        each = min(each, max(question.offset + question.limit + 1, ROWS_ASKED_MIN))
    return replace(
        question,
        fields=FIELDS,
        offset=0,
        limit=max(question.limit, -each) if question.limit < 0 else each,
        collapse=question.collapse if collapses_addresses else (),
        is_json=True,
        shows_resume_key=True,
    )


_PASSED = ("url", "matchType", "from", "to", "filter", "page")


def _cdx_target(request: Request, wanted: CdxQuestion) -> str:
    pairs = [pair for pair in request.parameters() if pair[0] in _PASSED]
    if wanted.resume_at is not None:
        pairs.append(("resumeKey", encode_resume_key(wanted.resume_at)))
    pairs += [("limit", str(wanted.limit)), ("output", "json"), ("showResumeKey", "true")]
    pairs += [("collapse", "urlkey")] if wanted.collapse else []
    pairs.append(("fl", ",".join(FIELDS)))
    return f"/cdx/search/cdx?{query_of(pairs)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Merged:
    """`has_gaps`: somebody was not waited for, so rows of his may be missing."""

    found: CdxRows
    has_gaps: bool = False


def merged(shares: Sequence[PeerRows], question: CdxQuestion, now: Callable[[], float]) -> Merged:
    """The first share is our own: what others say about the same capture changes nothing of it."""
    ordered = _ordered(shares)
    if question.limit < 0:
        rows = list(thinned_places(ordered, question, now))[question.limit :]
        return Merged(found=CdxRows(rows=_without_places(rows)))
    stop = earliest(
        [(share.stopped, share.is_short) for share in shares if share.stopped is not None],
        question.short_parts,
    )
    if (
        question.page is not None
    ):  # the pages of peers are of different addresses: nothing lies between their rows
        limit = question.limit if question.limit < ROWS_MAX else len(ordered)
        rows = list(thinned_places(ordered, question, now))[question.offset :]
        resume_at = rows[limit][0] if len(rows) > limit else stop.at
        return Merged(found=CdxRows(rows=_without_places(rows[:limit]), resume_at=resume_at))
    if stop.at is not None:
        ordered = [placed for placed in ordered if placed[0] < stop.at]
    rows = list(thinned_places(ordered, question, now))[question.offset :]
    end = end_of_part(rows, question.limit, itemgetter(0)) if question.shows_resume_key else question.limit
    resume_at = rows[end][0] if end < len(rows) else stop.at
    found = CdxRows(rows=_without_places(rows[:end]), resume_at=resume_at, short_parts=stop.short_parts)
    return Merged(found=found, has_gaps=stop.was_left)


def _ordered(shares: Sequence[PeerRows]) -> list[tuple[Position, Row]]:
    """Where peers differ on the place of a row it is the first of them: so nobody can put off what others have."""
    known: dict[Identity, tuple[Position, Row]] = {}
    for share in shares:
        for identity, (at, row) in share.rows.items():
            before = known.get(identity)
            known[identity] = (at, row) if before is None else (min(at, before[0]), before[1])
    return [placed for _, placed in sorted(known.items(), key=lambda one: (one[1][0], one[0]))]


def _without_places(placed: Sequence[tuple[Position, Row]]) -> list[Row]:
    return [row for _, row in placed]
