"""How does a reader archive a page now? By `/save/URL`, if the network's charter allows it.

The peer that owns the address does it; another peer passes the request on, once. The fetcher and its rules are the
port's business. This is the only path by which a reader changes an archive, so it has its own rations: for each
reader, for each peer that passes requests on, and for all.

A page of another site must not make its visitors' browsers save pages. Programs ask by GET, as they ask other
archives. So does a person who types the address, and on secure connections browsers say so. On plain HTTP a browser's
GET does not name the page that it comes from: there, and if another site leads here, a page asks first. Its form is a
POST, with which browsers always name the page (`may_change`, ADR 16).
"""

import re
from collections.abc import Callable
from http import HTTPStatus
from math import ceil
from typing import Protocol
from urllib.parse import parse_qs

import anyio
import msgspec

from dht.core.limits import Buckets, Rate
from herodotus.core.replay import may_change
from herodotus.core.saves import SaveOutcome, SaveResult
from herodotus.portal.answer import PARAMETERS_MAX, PUBLIC, Answer, Request, html, moved, problem, wants_json
from herodotus.portal.archive_pages import Asked
from herodotus.portal.client_limits import CLIENTS_MAX, client_of
from herodotus.portal.memento import header_url, memento_path
from herodotus.portal.other_holders import ASKED_MAX, RELAYED, RELAYED_S, Directions, Relay
from herodotus.portal.rendering import FORM_HEADERS, render
from herodotus.portal.targets import BadQuestionError, TargetKind, parse_web_target, spellings, variants

OF_ONE = Rate(per_second=1 / 12, burst=5.0)
"""Five a minute: a reader who wants more wants a crawl."""
OF_PEER = Rate(per_second=1 / 3, burst=20.0)
"""Twenty a minute passed on by one peer for its readers. Anybody may say that he is one: it is no more than that."""
OF_ALL = Rate(per_second=1.0, burst=20.0)
TOLD_BYTES_MAX = 64 * 1024
"""Of another peer's sentence about what it did."""
_PATH = "/save/"
_ARCHIVED = re.compile(r"/web/\d{14}(?:[a-z]{2}_)?/https?://[\x21-\x7e]{1,16384}", re.ASCII)
_UNKEPT = {"Cache-Control": "no-store"}
_TOLD_BY_OTHERS = frozenset(
    {HTTPStatus.ACCEPTED, HTTPStatus.FORBIDDEN, HTTPStatus.BAD_GATEWAY, HTTPStatus.TOO_MANY_REQUESTS}
)
_TITLES = {
    HTTPStatus.ACCEPTED: "It is being fetched",
    HTTPStatus.FORBIDDEN: "This is not archived",
    HTTPStatus.BAD_GATEWAY: "It could not be fetched",
    HTTPStatus.BAD_REQUEST: "This is not an address",
    HTTPStatus.TOO_MANY_REQUESTS: "Not now",
    HTTPStatus.NOT_FOUND: "Not here",
}


class _Told(msgspec.Struct, frozen=True):
    """What is read of another peer's problem."""

    detail: str


class SavePort(Protocol):
    """Fetches politely, within the network's scope, and nothing that is private."""

    async def save(self, url: str) -> SaveOutcome:
        """`url` is canonical. Returns within some seconds, whatever the host does."""
        ...


class SavePages:
    paths = re.compile(_PATH)

    def __init__(
        self,
        saves: SavePort,
        now: Callable[[], float],
        *,
        directions: Directions,
        relay: Relay,
    ) -> None:
        self._saves = saves
        self._now = now
        self._directions = directions
        self._relay = relay
        self._shares, self._shares_of_peers = Buckets(CLIENTS_MAX), Buckets(CLIENTS_MAX)
        self._share_of_all = Buckets(1)
        self.asked = 0

    async def answer(self, asked: Asked) -> Answer | None:
        request = asked.request
        if request.method == "OPTIONS":
            return None
        if request.method not in ("GET", "POST"):
            sentence = "a page is saved by GET or POST"
            return problem(HTTPStatus.METHOD_NOT_ALLOWED, sentence, {"Allow": "GET, POST"})
        try:
            url = _url_of(request)
        except ValueError as error:
            return _told(request, HTTPStatus.BAD_REQUEST, str(error))
        if not may_change(request.headers, asked.origin) or _tells_nothing(request):
            return _asks_first(request, url)
        refused = self._refusal(request)
        if refused is not None:
            return refused
        found = await self._by_owner(request, url)
        return found or _answer(request, await self._saves.save(url))

    def _refusal(self, request: Request) -> Answer | None:
        """All together are rationed once more."""
        now = self._now()
        who = client_of(request.client) or "this machine"
        is_relayed = bool(request.header(RELAYED))
        shares, rate = (self._shares_of_peers, OF_PEER) if is_relayed else (self._shares, OF_ONE)
        wait_s = shares.ration(who, rate, 1.0, now) or self._share_of_all.ration("all", OF_ALL, 1.0, now)
        if not wait_s:
            self.asked += 1
            return None
        sentence = f"too many pages were asked for: try again in {ceil(wait_s)} s"
        return _told(request, HTTPStatus.TOO_MANY_REQUESTS, sentence, retry_after_s=wait_s)

    async def _by_owner(self, request: Request, url: str) -> Answer | None:
        """None: that is this peer, or nobody who answers for it can be reached."""
        if request.header(RELAYED):
            return None
        target = f"{_PATH}{header_url(url)}"  # a form has it elsewhere
        marked = Request(target=target, headers={"accept": "application/json", RELAYED: "1"})
        places = (await self._directions.holders(url))[:ASKED_MAX]
        with anyio.move_on_after(RELAYED_S):
            for place in places:
                if place.is_self:
                    return None
                answer = await self._relay.fetch(place, marked)
                if answer is not None and (found := _adopted(request, url, answer, place.origin)) is not None:
                    return found
        return None


def _adopted(request: Request, url: str, answer: Answer, there: str) -> Answer | None:
    """What another peer did, in our words; None if it did not answer the question."""
    location = _location_in(answer, there)
    if location is not None:
        if not _is_of(location, url):
            return None
        is_same = answer.headers.get("X-Herodotus-Save") == SaveResult.UNCHANGED.value
        return _there(location, SaveResult.UNCHANGED if is_same else SaveResult.SAVED)
    if answer.status not in _TOLD_BY_OTHERS or len(answer.body) > TOLD_BYTES_MAX:
        return None
    try:
        sentence = msgspec.json.decode(answer.body, type=_Told).detail
    except (ValueError, RecursionError):
        return None
    wait = answer.headers.get("Retry-After", "")
    retry_after_s = float(wait) if wait.isascii() and wait.isdigit() and len(wait) < 6 else 0.0
    return _told(request, answer.status, sentence[:600], url, retry_after_s=retry_after_s)


def _location_in(answer: Answer, there: str) -> str | None:
    """Into our archive, to an exact date; None for everything else."""
    fields = {name.lower(): value for name, value in answer.headers.items()}
    local = fields.get("location", "").removeprefix(there)
    return local if 300 <= answer.status < 400 and _ARCHIVED.fullmatch(local) else None


def _is_of(location: str, url: str) -> bool:
    """Whether the address at `location`, a path of the archive, is what was asked for as `url`, in any spelling."""
    try:
        known = {header_url(one) for spelling in spellings(url) for one in variants(spelling)}
    except BadQuestionError:
        return False
    return location[location.find("/http") + 1 :] in known


def _tells_nothing(request: Request) -> bool:
    """A browser on plain HTTP, whose GET may be any page's picture."""
    is_browser = request.header("user-agent").startswith("Mozilla/")
    return is_browser and request.method == "GET" and not request.header("sec-fetch-site")


def _asks_first(request: Request, url: str) -> Answer:
    """A window gets the page with the form; whatever else a page of somebody's asks for gets nothing."""
    mode = request.header("sec-fetch-mode") or "navigate"
    if request.method != "GET" or mode != "navigate" or "text/html" not in request.header("accept"):
        return problem(
            HTTPStatus.FORBIDDEN, "another site may have asked for this: open the address yourself"
        )
    return html(render("save_question.html", url=url), headers={**_UNKEPT, **FORM_HEADERS})


def _url_of(request: Request) -> str:
    if request.path == _PATH and (given := request.parameter("url") or _in_form(request)):
        return spellings(given)[0]
    target = parse_web_target("/web/2026/" + request.target[len(_PATH) :])
    if target.kind is not TargetKind.REPLAY:
        raise BadQuestionError("there is no address in this path")
    return spellings(target.url)[0]


def _in_form(request: Request) -> str:
    """The field of our form; "" if it is missing."""
    if request.method != "POST":
        return ""
    text = request.body.decode("utf-8", "replace")
    return parse_qs(text, errors="replace", max_num_fields=PARAMETERS_MAX).get("url", [""])[0]


def _answer(request: Request, outcome: SaveOutcome) -> Answer:
    match outcome.result:
        case SaveResult.SAVED | SaveResult.UNCHANGED:
            return _there(memento_path(outcome.url, outcome.time_s), outcome.result)
        case SaveResult.REFUSED:
            return _told(request, HTTPStatus.FORBIDDEN, outcome.reason, outcome.url)
        case SaveResult.FAILED:
            return _told(request, HTTPStatus.BAD_GATEWAY, outcome.reason, outcome.url)
        case SaveResult.LATER:
            wait_s = outcome.retry_after_s
            return _told(request, HTTPStatus.ACCEPTED, outcome.reason, outcome.url, retry_after_s=wait_s)


def _there(memento: str, result: SaveResult) -> Answer:
    headers = {"Content-Location": memento, "X-Herodotus-Save": result.value, **_UNKEPT, **PUBLIC}
    return moved(memento, headers=headers)


def _told(
    request: Request, status: HTTPStatus, sentence: str, url: str = "", *, retry_after_s: float = 0.0
) -> Answer:
    headers = {**_UNKEPT, "Retry-After": str(ceil(retry_after_s))} if retry_after_s else _UNKEPT
    if wants_json(request) or not request.header("accept"):
        return problem(status, sentence, headers)
    page = render(
        "save.html",
        title=_TITLES.get(status, status.phrase),
        sentence=sentence[:1].upper() + sentence[1:],
        url=url,
        may_ask_again=status in (HTTPStatus.ACCEPTED, HTTPStatus.BAD_GATEWAY),
    )
    return html(page, status, {**headers, **FORM_HEADERS})
