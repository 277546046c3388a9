"""What does a reader see who searched in words? A page without scripts, JSON, or a feed.

What stands in the box is an address or a question (`grammar.is_in_words`); an address goes on to its history.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from typing import Any, NamedTuple

import msgspec

from herodotus.core.errors import ArchiveError, QuestionError, told_to_readers
from herodotus.core.search.answers import Shown
from herodotus.core.search.fields import HOST, LANGUAGE, TYPE, UNKNOWN
from herodotus.core.search.grammar import is_in_words
from herodotus.core.search.questions import Order, Question
from herodotus.core.warc import format_date
from herodotus.portal.answer import (
    PUBLIC,
    Answer,
    Request,
    data,
    document,
    html,
    moved,
    problem,
    query_of,
    wants_json,
)
from herodotus.portal.api.search import found_pages
from herodotus.portal.archive_pages import Asked
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.memento import Places, history_path, memento_path
from herodotus.portal.rendering import render
from herodotus.portal.targets import BadQuestionError
from herodotus.portal.word_search import SECTION_MAX, Found, Scope, WordSearch, moment_shown

HITS = 10
"""On a page; a feed has more."""
FED = 50
ALIKE_MAX = 5
_BRIEF = {"Cache-Control": "private, max-age=60"}
"""Of a question, which is its reader's own."""
_NARROWED = {
    HOST: ("Site", "site:"),
    TYPE: ("Type", "type:"),
    LANGUAGE: ("Language", "lang:"),
    "year": ("Year", "between:"),
}
_ORDERS = {
    Order.RELEVANCE: "best first",
    Order.NEWEST: "newest first",
    Order.OLDEST: "oldest first",
    Order.VERSIONS: "most versions first",
}
_FORMS = {"/search": "", "/search.json": "json", "/search.atom": "atom"}
_DESCRIPTION = "/opensearch.xml"


class Narrowing(NamedTuple):
    """A value that a reader can narrow the question to; `path` is "" where none says it."""

    value: str
    pages: int
    path: str


@dataclass(frozen=True, slots=True)
class SearchPages:
    """Before `ArchivePages`, which has the history of an address."""

    words: WordSearch
    limits: ClientLimits

    paths = re.compile(r"/search(?:\.json|\.atom)?(?:\?|\Z)|/opensearch\.xml")

    async def answer(self, asked: Asked) -> Answer | None:
        request = asked.request
        if request.method not in ("GET", "HEAD"):
            return None
        if request.path == _DESCRIPTION:
            return _description(asked.origin)
        if request.parameter("url") and not request.parameter("q"):
            return None
        text = request.parameter("q").strip()
        form = _FORMS[request.path] or ("json" if wants_json(request) else "")
        if not text:
            return moved("/", HTTPStatus.SEE_OTHER)
        if not form and not is_in_words(text):
            return moved(
                f"/search?{query_of([('url', text)])}", HTTPStatus.SEE_OTHER, {"Cache-Control": "no-store"}
            )
        scope = scope_of(request)
        refused = self.limits.refusal(request, self.words.cost(scope))
        return refused or await self._answered(asked, text, form, scope)

    async def _answered(self, asked: Asked, text: str, form: str, scope: Scope) -> Answer:
        request = asked.request
        line = line_of(text, request.parameter("on"), request.parameter("order"))
        try:
            token = request.parameter("after") or None
            limit = FED if form == "atom" else HITS
            found = await self.words.ask(line, limit=limit, token=token, scope=scope)
        except (QuestionError, BadQuestionError) as error:
            return _trouble(request, form, HTTPStatus.BAD_REQUEST, "This was not understood", str(error))
        except ArchiveError as error:
            headers = {"Retry-After": "5"}
            sentence = told_to_readers(error)
            return _trouble(request, form, HTTPStatus.SERVICE_UNAVAILABLE, "Not now", sentence, headers)
        if form == "json":
            headers = {**PUBLIC, **_BRIEF, "Vary": "Accept"}
            return document(msgspec.to_builtins(found_pages(found, asked.origin)), headers=headers)
        if form == "atom":
            return data("application/atom+xml; charset=utf-8", _feed(found, asked.origin), _BRIEF)
        return html(_page(found, request), headers={**_BRIEF, "Vary": "Accept"})


def scope_of(request: Request) -> Scope:
    """`here=1`: this peer alone. `section`: which peers of a large ring; what is no number is the first."""
    section = request.parameter("section")
    number = int(section) if section.isascii() and section.isdigit() and len(section) <= 3 else 0
    return Scope(here=request.parameter("here") == "1", section=min(number, SECTION_MAX))


def line_of(text: str, on: str, order: str) -> str:
    """The fields of the form beside the box, as parts of the question; none of them empty."""
    more = [f"on:{on.strip()}"] if on.strip() else []
    if order and order != Order.RELEVANCE:
        more.append(f"order:{order}")
    return " ".join([text, *more])


def _trouble(
    request: Request,
    form: str,
    status: HTTPStatus,
    title: str,
    sentence: str,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    if form:
        return problem(status, sentence, {**PUBLIC, **(headers or {})})
    page = render("results_trouble.html", title=title, sentence=sentence, **_asked(request))
    return html(page, status, headers)


def _asked(request: Request) -> dict[str, Any]:
    """What the form keeps."""
    order = request.parameter("order")
    return {
        "text": request.parameter("q").strip(),
        "on": request.parameter("on").strip(),
        "order": order if order in _ORDERS else str(Order.RELEVANCE),
        "orders": [(str(one), words) for one, words in _ORDERS.items()],
    }


def _path(request: Request, **changed: str) -> str:
    pairs = {name: request.parameter(name) for name in ("q", "on", "order", "here", "section")} | changed
    return "/search?" + query_of([(name, value) for name, value in pairs.items() if value])


def _page(found: Found, request: Request) -> str:
    answer = found.results.answer
    return render(
        "results.html",
        found=found,
        answer=answer,
        hits=[_told(one, found.question) for one in found.results.shown],
        lost=len(answer.hits) - sum(1 + len(one.alike) for one in found.results.shown),
        facets=list(_facets(found, request)),
        meant=_meant(answer.likelier, request),
        following=_path(request, after=found.next) if found.next else "",
        first=_path(request) if found.number > 1 else "",
        feed="/search.atom?" + _path(request).partition("?")[2],
        is_dated=found.question.dated is not None,
        here=_path(request, here="1", section="") if found.results.ring is not None else "",
        ring=_path(request, here="", section="") if scope_of(request).here else "",
        others=_others(found, request),
        **_asked(request),
    )


def _others(found: Found, request: Request) -> str:
    """The way to the answers of further peers."""
    part = found.results.ring
    if part is None or not part.has_more or part.section >= SECTION_MAX:
        return ""
    return _path(request, section=str(part.section + 1), after="")


def _told(one: Shown, question: Question) -> dict[str, Any]:
    return {
        "page": one,
        "path": memento_path(one.url, moment_shown(one, question)),
        "history": history_path(one.url),
        "alike": one.alike[:ALIKE_MAX],
    }


def _facets(found: Found, request: Request) -> Iterator[tuple[str, list[Narrowing]]]:
    text = request.parameter("q").strip()
    for name, values in found.results.answer.facets.items():
        title, field = _NARROWED[name]
        told = [
            Narrowing(value, count, "" if value == UNKNOWN else _path(request, q=f"{text} {field}{value}"))
            for value, count in values
        ]
        if told:
            yield title, told


def _meant(likelier: Mapping[str, str], request: Request) -> tuple[str, str] | None:
    """The question with other words, and the way to it."""
    text = other = request.parameter("q").strip()
    for word, near in likelier.items():
        other = re.sub(rf"(?<!\w){re.escape(word)}(?!\w)", near, other, flags=re.IGNORECASE)
    return (other, _path(request, q=other)) if other != text else None


def _feed(found: Found, origin: str) -> str:
    """RFC 4287. A page has one name in all questions; a version that is newer is an update of it."""
    self_url = f"{origin}/search.atom?{query_of([('q', found.text)])}"
    shown = [one for first in found.results.shown for one in (first, *first.alike)]
    newest_s = max((one.first_s for one in shown), default=0)
    lines = [
        '<?xml version="1.0" encoding="utf-8"?>',
        '<feed xmlns="http://www.w3.org/2005/Atom">',
        f"<title>{_xml(found.text)}</title>",
        f"<id>{_xml(self_url)}</id>",
        f'<link rel="self" href="{_xml(self_url)}"/>',
        f"<updated>{format_date(newest_s)}</updated>",
        "<author><name>Herodotus</name></author>",
    ]
    for one in shown:
        places = Places(origin=origin, url=one.url)
        lines += [
            "<entry>",
            f"<title>{_xml(one.title or one.url)}</title>",
            f"<id>{_xml(places.history)}</id>",
            f'<link href="{_xml(places.memento(moment_shown(one, found.question)))}"/>',
            f"<updated>{format_date(one.first_s)}</updated>",
            f"<summary>{_xml(''.join(run.text for run in one.snippet))}</summary>",
            "</entry>",
        ]
    return "\n".join([*lines, "</feed>", ""])


_NOT_XML = re.compile("[^\t\n\r -\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub("\N{REPLACEMENT CHARACTER}", text))


def _description(origin: str) -> Answer:
    """OpenSearch 1.1: browsers offer to search here."""
    words = f"""<?xml version="1.0" encoding="utf-8"?>
<OpenSearchDescription xmlns="http://a9.com/-/spec/opensearch/1.1/">
<ShortName>Herodotus</ShortName>
<Description>Search the web archive Herodotus by words, or look up an address</Description>
<InputEncoding>UTF-8</InputEncoding>
<Url type="text/html" template="{escape(origin)}/search?q={{searchTerms}}"/>
<Url type="application/json" template="{escape(origin)}/search.json?q={{searchTerms}}"/>
<Url type="application/atom+xml" template="{escape(origin)}/search.atom?q={{searchTerms}}"/>
</OpenSearchDescription>
"""
    return data(
        "application/opensearchdescription+xml; charset=utf-8", words, {"Cache-Control": "max-age=86400"}
    )
