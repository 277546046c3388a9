"""By which links does one page lead to another? In breadth, backwards from the goal, as surveys say who leads there.

Over this peer's pages it is a walk along the index. `scope=ring` asks all peers at each page of the way, so it is
more narrowly bounded in pages and time. Another peer's word about a link is believed, because no other peer has that
row.
"""

from collections import deque
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import anyio
import msgspec
from msgspec import Meta

from herodotus.core.captures import position_of
from herodotus.core.index_rows import KEY_BYTES
from herodotus.portal.answer import Answer
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, Date, Url, moment_of
from herodotus.portal.api.links import InLinks, InLinksQuestion, LinkAnswers, Scope, stood, url_at
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.targets import BadQuestionError, spellings
from herodotus.store import Catalogue

STEPS_MAX = 6
PAGES_WALKED_MAX = 20_000
ROWS_OF_PAGE_MAX = 1_000
"""Links to one page that a search for a path follows; a front page may have a million."""
PAGES_ASKED_MAX = 24
"""At which all peers are asked: some seconds, and what a peer answers of in-links at once."""
LINKS_ASKED_MAX = 200
PATIENCE_S = 12.0


class PathQuestion(ApiQuestion, frozen=True, kw_only=True, rename={"from_": "from"}):
    from_: Url
    to: Url
    date: Annotated[Date | None, Meta(description="over links of this day")] = None
    scope: Annotated[Scope, Meta(description="over pages of this peer, or of all peers")] = Scope.PEER
    steps: Annotated[int, Meta(ge=1, le=STEPS_MAX, description="links in a row, at most")] = 4


class Path(msgspec.Struct, frozen=True, kw_only=True):
    """`urls` is a shortest way, both ends included, and empty where none was found; `is_exhaustive` says whether
    then the requested pages show no path, or the search was given up at its bound;
    `is_partial`: that a peer did not answer."""

    urls: tuple[str, ...]
    pages: int
    is_exhaustive: bool
    is_current: bool
    is_partial: bool


@dataclass(frozen=True, slots=True)
class PathAnswers:
    shelf: Shelf
    links: LinkAnswers

    @ApiEndpoint("/api/v1/paths", "The links by which one page leads to another.", cost=20.0)
    async def path(self, question: PathQuestion, asked: Asked) -> Path:
        start, goal = spellings(question.from_)[0], spellings(question.to)[0]
        day_s = None if question.date is None else moment_of(question.date).target_s
        if question.scope is Scope.RING:
            walk = _RingWalk(self.links, question, start, goal)
            with anyio.move_on_after(PATIENCE_S):
                await walk.run(asked)
            return walk.path()
        return await self.shelf.ask(lambda catalogue: _path(catalogue, start, goal, day_s, question.steps))


# -- over the pages of all peers --------------------------------------------------------------------------


class _RingWalk:
    def __init__(self, links: LinkAnswers, question: PathQuestion, start: str, goal: str) -> None:
        self._links = links
        self._question = question
        self._start = start
        self._leads_to = {goal: ""}
        self._is_exhaustive = False
        self._is_current = True
        self._is_partial = False

    async def run(self, asked: Asked) -> None:
        waiting = deque((url, 0) for url in self._leads_to)
        pages, was_all_asked = 0, True
        while waiting and self._start not in self._leads_to:
            page, steps = waiting.popleft()
            if steps == self._question.steps or pages == PAGES_ASKED_MAX:
                was_all_asked = False
                continue
            pages += 1
            try:
                found = await self._into(page, asked)
            except BadQuestionError:  # one peer's word: no web page leads there
                continue
            if found is None:
                return
            was_all_asked = was_all_asked and found.next is None
            for link in found.links:
                if link.url not in self._leads_to:
                    self._leads_to[link.url] = page
                    waiting.append((link.url, steps + 1))
        self._is_exhaustive = was_all_asked

    async def _into(self, page: str, asked: Asked) -> InLinks | None:
        """None where the asker's share is used up: what was found so far is the answer."""
        question = InLinksQuestion(
            url=page, date=self._question.date, scope=Scope.RING, limit=LINKS_ASKED_MAX
        )
        found = await self._links.into(question, asked)
        if isinstance(found, Answer):
            return None
        self._is_current = self._is_current and found.is_current
        self._is_partial = self._is_partial or found.is_partial
        return found

    def path(self) -> Path:
        urls, page = [], self._start if self._start in self._leads_to else ""
        while page:
            urls.append(page)
            page = self._leads_to[page]
        return Path(
            urls=tuple(urls),
            pages=len(self._leads_to),
            is_exhaustive=bool(urls) or self._is_exhaustive,
            is_current=self._is_current,
            is_partial=self._is_partial,
        )


# -- over the pages of this peer --------------------------------------------------------------------------


def _path(catalogue: Catalogue, start: str, goal: str, day_s: int | None, steps_max: int) -> Path:
    """Backwards from the goal, in breadth: the rows say who leads to a page."""
    begin, end = position_of(start)[:KEY_BYTES], position_of(goal)[:KEY_BYTES]
    leads_to: dict[bytes, bytes] = {end: b""}
    waiting, is_exhaustive = deque([(end, 0)]), True
    while waiting and begin not in leads_to:
        page, steps = waiting.popleft()
        if steps == steps_max:
            is_exhaustive = False
            continue
        rows = list(islice(catalogue.links_to(page), ROWS_OF_PAGE_MAX + 1))
        is_exhaustive = is_exhaustive and len(rows) <= ROWS_OF_PAGE_MAX
        for source, span in rows[:ROWS_OF_PAGE_MAX]:
            if source not in leads_to and stood(span, day_s):
                leads_to[source] = page
                waiting.append((source, steps + 1))
        if len(leads_to) > PAGES_WALKED_MAX:
            is_exhaustive = False
            break
    urls = _walked(catalogue, leads_to, begin, start, goal) if begin in leads_to else ()
    return Path(
        urls=urls,
        pages=len(leads_to),
        is_exhaustive=bool(urls) or (is_exhaustive and begin not in leads_to),
        is_current=catalogue.is_surveyed(),
        is_partial=False,
    )


def _walked(
    catalogue: Catalogue, leads_to: dict[bytes, bytes], begin: bytes, start: str, goal: str
) -> tuple[str, ...]:
    """None of it where a page on the way was deleted since."""
    urls, page = [start], leads_to[begin]
    if not page:
        return (start,)
    while leads_to[page]:
        url = url_at(catalogue, page)
        if url is None:
            return ()
        urls.append(url)
        page = leads_to[page]
    return (*urls, goal)
