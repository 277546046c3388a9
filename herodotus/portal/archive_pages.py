"""What is answered about the archive? History, replay, TimeGate, TimeMaps, CDX and availability.

Each handler makes one `Answer` of what `archive_questions` gives. Errors are sentences, as pages for people and as
problem+json for machines.
"""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from http import HTTPStatus
from typing import TypeVar

from crawler.core.urls import callbacks
from herodotus.core.errors import ArchiveError, told_to_readers
from herodotus.core.replay import (
    CLIENT_PATH,
    NEWER_MARK,
    Flag,
    HolderNote,
    NamedSite,
    Names,
    ReplayContext,
    isolation_headers,
    label_flag,
    label_headers,
    label_of,
    readable_date,
    wants_frame,
)
from herodotus.core.warc import TIME_MAX_S, format_digits
from herodotus.portal.answer import (
    PUBLIC,
    Answer,
    Headers,
    Request,
    accepts,
    data,
    document,
    finished,
    html,
    moved,
    problem,
    wants_json,
)
from herodotus.portal.archive_questions import QUICK_ROWS, Chosen, Exact, Shelf, TooBusyError, bent, is_short
from herodotus.portal.cdx import format_rows, moment_named, parse_question, ranges_around
from herodotus.portal.histories import history_json, history_page
from herodotus.portal.memento import (
    Places,
    availability,
    gathered,
    header_url,
    history_links,
    memento_path,
    moments_of,
    timemap_cdxj,
    timemap_json,
    timemap_link,
)
from herodotus.portal.other_holders import RELAYED, Elsewhere
from herodotus.portal.rendering import FORM_HEADERS, listing_page, not_archived_page, trouble_page
from herodotus.portal.replay import Replay, is_quick, links_of, our_script, replay_answer
from herodotus.portal.targets import (
    NEWEST,
    BadQuestionError,
    Moment,
    TargetKind,
    WebTarget,
    as_asked,
    moment_at,
    parse_http_date,
    parse_moment,
    parse_web_target,
    spellings,
    unescaped,
    variants,
)
from herodotus.store import StoredCapture, Version

T = TypeVar("T")

NEARBY_MAX = 20
LISTED_MAX = 200
_TIMEMAP_TYPES = {
    "link": "application/link-format",
    "json": "application/json",
    "cdxj": "application/cdxj+ors",
}
_LISTS = ("/web/timemap/", "/web/timemap/cdx", "/web/timemap/json")
_TO_MEMENTO = re.compile(r"/web/\d{14}/")
_BRIEF = {"Cache-Control": "max-age=60"}
"""What is said about a history is true for a while, and cheap to say again."""
_BY_WINDOW = {"Vary": "Sec-Fetch-Dest, Upgrade-Insecure-Requests"}
_NOW = {"Cache-Control": "no-cache"}
MATCH = "X-Herodotus-Match"
"""What was bent to find another spelling of the address, as `www, slash`."""
TOLD_BY_ONE = "told by one other peer only, and not confirmed by any"
"""Of what is not here."""


def failure(
    request: Request,
    status: HTTPStatus,
    sentence: str,
    url: str = "",
    headers: Headers | None = None,
) -> Answer:
    if wants_json(request) or not request.path.startswith(("/web/", "/search")):
        return problem(status, sentence, headers)
    title = {HTTPStatus.BAD_REQUEST: "This is not an address", HTTPStatus.SERVICE_UNAVAILABLE: "Not now"}
    return html(trouble_page(title.get(status, status.phrase), sentence, url), status, headers)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request, and what the reader's browser calls us ("" where it did not say)."""

    request: Request
    origin: str = ""
    names: Names | None = None
    """Which the reader's browser finds, for archived pages to have; None: they go into a sandbox."""
    site: NamedSite | None = None
    """Asked for at a label. Nothing of the portal is there."""


async def tried(work: Callable[[Asked], Awaitable[Answer]], asked: Asked) -> Answer:
    """What goes wrong is told in a sentence."""
    request = asked.request
    try:
        return await work(asked)
    except BadQuestionError as error:
        return failure(request, HTTPStatus.BAD_REQUEST, str(error))
    except ArchiveError as error:
        headers = {"Retry-After": "5"} if isinstance(error, TooBusyError) else None
        sentence = told_to_readers(error)
        return failure(request, HTTPStatus.SERVICE_UNAVAILABLE, sentence, headers=headers)


def listed_by(target: WebTarget) -> tuple[str, tuple[tuple[bytes, bytes], ...]]:
    """The address that the listed ones begin with, or whose host they are of, and where those lie."""
    prefix = spellings(target.url.removeprefix("*."))[0]
    return prefix, ranges_around((prefix,), "domain" if target.url.startswith("*.") else "prefix")


def listing(prefix: str, urls: Sequence[str], *, is_whole: bool, is_json: bool, **facts: bool) -> Answer:
    """The first of them, and the way to the rest; `facts` are more to be told to programs."""
    if is_json:
        return document({"prefix": prefix, "urls": urls[:LISTED_MAX], "is_whole": is_whole, **facts})
    query = f"{header_url(prefix).replace('&', '%26')}*&collapse=urlkey&fl=original"
    following = None if is_whole else f"/cdx/search/cdx?url={query}"
    status = HTTPStatus.OK if urls else HTTPStatus.NOT_FOUND
    return html(listing_page(prefix, urls[:LISTED_MAX], following), status)


_FIELD_NAMES = re.compile(r"[A-Za-z0-9_, -]{1,2000}")
_PAGES = ("", "document", "iframe", "frame")


def _site_around(asked: Asked, chosen: Chosen) -> NamedSite | None:
    """The name that a page has in the frame of ours; None: it goes into the sandbox."""
    if asked.names is None or asked.request.header(RELAYED):
        return None
    label = label_of(format_digits(chosen.shown_s), "/".join(chosen.url.split("/", 3)[:3]))
    return None if label is None else NamedSite(names=asked.names, label=label)


def _asker(request: Request, site: NamedSite | None) -> str:
    """Who may read an answer at a label: pages at labels, and frames of theirs that have no origin."""
    origin = request.header("origin")
    if site is None or not origin:
        return ""
    known = origin if origin != "null" else request.header("referer")
    return origin if site.names.label_in(known) is not None else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Near:
    """What comes nearest to something that is missing, and where the page that asks for it finds it."""

    url: str
    time_s: int
    address: str


def _nothing(asked: Asked, url: str, flag: Flag, time_s: int, near: _Near | None = None) -> Answer:
    """As live a thing is missing: a script learns it by its status, a reader by a sentence in the frame."""
    request, site = asked.request, asked.site
    is_page = request.header("sec-fetch-dest") in _PAGES if site is not None else flag in _FRAMES
    words = f"<!DOCTYPE html><title>Not archived</title><p>Not archived: {escape(url[:500])}</p>"
    if near is not None:
        date = readable_date(format_digits(near.time_s))
        shown = escape(near.url[:500])
        words += f'<p>Nearest: <a href="{escape(near.address)}">{shown}</a>, {date}</p>'
    if site is not None:
        headers = label_headers(site.names, _asker(request, site))
    else:
        context = ReplayContext(
            page_url=header_url(url),
            timestamp=format_digits(time_s),
            flag=flag,
            portal_origin=asked.origin or None,
        )
        headers = isolation_headers(context, is_rewritten=False)
    return Answer(
        status=HTTPStatus.NOT_FOUND,
        content_type="text/html; charset=utf-8" if is_page else "text/plain; charset=utf-8",
        body=words.encode("utf-8", "replace") if is_page else b"",
        headers={**headers, "Cache-Control": "no-cache"},
    )


_FRAMES = (Flag.FRAME, Flag.MAIN)
_NAMED = (Flag.PAGE, Flag.FRAME, Flag.MAIN, Flag.RAW, Flag.RAW_MOVED)
"""Who asks so shall see the address of what is shown; a part of a page has no address bar."""


_CODE = ("script", "worker", "sharedworker")


def _as_script(request: Request, target: WebTarget) -> WebTarget:
    """What a page in the sandbox asks for by a relative address has the page's flag."""
    is_code = target.flag in (Flag.MAIN, Flag.FRAME) and request.header("sec-fetch-dest") in _CODE
    return replace(target, flag=Flag.SCRIPT) if is_code else target


class ArchivePages:
    def __init__(
        self,
        shelf: Shelf,
        *,
        has_banner: bool = True,
        elsewhere: Elsewhere | None = None,
        peer: str = "",
        takes_saves: bool = False,
        note: str = "",
    ) -> None:
        """`takes_saves`: readers may ask to archive a missing page (`save_pages.py`). `note`: to be said of what is
        shown."""
        self._note = note
        self._shelf = shelf
        self._elsewhere = elsewhere
        self._has_banner = has_banner
        self._peer = peer
        self._takes_saves = takes_saves

    async def answer(self, asked: Asked) -> Answer | None:
        """None: another part answers this path."""
        work = self._work(asked.request.path) if asked.site is None else self._at_label
        if work is None:
            return None
        answer = await tried(work, asked)
        if self._peer:  # a relayed answer names who really gave it
            answer.headers.setdefault("X-Herodotus-Peer", self._peer)
        return answer

    def _work(self, path: str) -> Callable[[Asked], Awaitable[Answer]] | None:
        if path in _LISTS:
            return self._list
        if path.startswith("/web/"):
            return self._web
        return {
            "/cdx/search/cdx": self._cdx,
            "/cdx": self._cdx,
            "/wayback/available": self._available,
            "/search": self._search,
        }.get(path)

    async def _web(self, asked: Asked) -> Answer:
        script = our_script(asked.request.path)
        if script is not None:
            return script
        target = parse_web_target(asked.request.target)
        match target.kind:
            case TargetKind.HISTORY:
                return await self._history(asked, target)
            case TargetKind.LISTING:
                return await self._listing(asked, target)
            case TargetKind.TIMEMAP:
                return await self._timemap(asked, target)
            case TargetKind.GATE:
                return await self._gate(asked, target)
            case TargetKind.REPLAY:
                return self._told_if_newer(asked, target, await self._replay(asked, target))

    async def _quickly(self, rows: int, write: Callable[[], T]) -> T:
        """What takes longer than some milliseconds to write is for a thread, as everybody else would wait."""
        return write() if rows <= QUICK_ROWS else await self._shelf.in_thread(write)

    # -- history ------------------------------------------------------------------------------------------

    async def _search(self, asked: Asked) -> Answer:
        given = asked.request.parameter("url").strip()
        if not given:
            return moved("/", HTTPStatus.SEE_OTHER)
        if given.endswith("*"):
            return moved(f"/web/*/{header_url(given)}", headers={"Cache-Control": "no-store"})
        urls = spellings(given)
        url = (await self._shelf.held(urls) or await self._shelf.spellings(urls) or urls)[0]
        return moved(f"/web/*/{header_url(url)}", HTTPStatus.MOVED_PERMANENTLY, _BRIEF)

    @asynccontextmanager
    async def _versions(
        self, url: str, moment: Moment | None = None
    ) -> AsyncIterator[tuple[str, Sequence[Version]]]:
        """Of the first spelling that has captures, else of the nearest other."""
        urls = as_asked(url)
        from_s, to_s = (0, TIME_MAX_S) if moment is None else (moment.from_s, moment.to_s)
        for one in urls:
            async with self._shelf.history((one,), from_s, to_s) as versions:
                if versions:
                    yield one, versions
                    return
        for one in (await self._shelf.spellings(urls))[:1]:
            async with self._shelf.history((one,), from_s, to_s) as versions:
                yield one, versions
                return
        yield urls[0], []

    async def _history(self, asked: Asked, target: WebTarget) -> Answer:
        async with self._versions(target.url, target.moment) as (url, versions):
            if not versions:
                return await self._not_archived(asked, spellings(target.url)[0], text=target.url)
            match = _told_match(target.url, url)
            unreachable = None
            if target.moment is None:  # of a part of the history the last version need not be the newest
                unreachable = await self._shelf.ask(lambda catalogue: catalogue.unreachable(url))
            if wants_json(asked.request):
                body = await self._quickly(len(versions), partial(history_json, versions, unreachable))
                headers = {**PUBLIC, **_BRIEF, "Vary": "Accept", **match}
                return Answer(content_type="application/json", body=body, headers=headers)
            period = target.moment.digits if target.moment else ""
            if match:
                return moved(
                    f"/web/{period}*/{header_url(url)}", headers={**_BRIEF, "Vary": "Accept", **match}
                )
            write = partial(history_page, url, versions, period, note=self._note, unreachable=unreachable)
            page = await self._quickly(len(versions), write)
            links = history_links(asked.origin, url, versions)
            return html(page, headers={"Link": links, **_BRIEF, "Vary": "Accept"})

    async def _listing(self, asked: Asked, target: WebTarget) -> Answer:
        prefix, ranges = listed_by(target)
        urls = await self._shelf.addresses(ranges, LISTED_MAX + 1)
        return listing(prefix, urls, is_whole=len(urls) <= LISTED_MAX, is_json=wants_json(asked.request))

    async def _not_here(
        self, asked: Asked, url: str, *, text: str = "", moments: Sequence[Moment] = ()
    ) -> Answer | None:
        """The same question, answered from what the responsible peers have. `text`: the address as it was asked for."""
        if self._elsewhere is None:
            return None
        lent = await self._elsewhere.lent(asked.request, url, text=text, moments=moments)
        if lent is None or isinstance(lent, Answer):
            return lent
        pages = ArchivePages(
            lent.shelf,
            has_banner=self._has_banner,
            note="" if lent.is_confirmed else TOLD_BY_ONE,
        )
        answer = await pages.answer(asked)
        return None if answer is None else lent.marked(answer)

    async def _not_archived(
        self, asked: Asked, url: str, *, text: str = "", moments: Sequence[Moment] = ()
    ) -> Answer:
        found = await self._not_here(asked, url, text=text, moments=moments)
        if found is not None:
            return found
        if wants_json(asked.request):
            return problem(HTTPStatus.NOT_FOUND, f"{url[:500]} is not in this peer's archive")
        meant = await self._shelf.ask(lambda catalogue: catalogue.spellings((url,), is_sure=False))
        folder = url.partition("?")[0].rpartition("/")[0] + "/"
        site = "/".join(url.split("/", 3)[:3]) + "/"
        neighbours: list[str] = []
        for place in dict.fromkeys((folder, site)):
            near = await self._shelf.addresses(ranges_around((place,), "prefix"), NEARBY_MAX)
            neighbours = [one for one in near if one not in meant]
            if neighbours:
                break
        listing = f"/web/*/{header_url(site)}*"
        page = not_archived_page(url, meant, neighbours, listing, takes_saves=self._takes_saves)
        return html(page, HTTPStatus.NOT_FOUND, FORM_HEADERS if self._takes_saves else None)

    async def _timemap(self, asked: Asked, target: WebTarget) -> Answer:
        if target.form == "html":
            return moved(f"/web/*/{header_url(target.url)}")
        async with self._versions(target.url) as (url, versions):
            if not versions:
                found = await self._not_here(asked, url, text=target.url)
                return found or problem(HTTPStatus.NOT_FOUND, f"{url[:500]} is not in this peer's archive")
            write = partial(_written_timemap, Places(origin=asked.origin, url=url), target.form, versions)
            headers = {**_BRIEF, **_told_match(target.url, url)}
            body = write() if is_short(versions) else await self._shelf.in_thread(write)
            answer = data(_TIMEMAP_TYPES[target.form], body, headers)
            return replace(answer, is_of_archive_alone=True)

    # -- replay -------------------------------------------------------------------------------------------

    async def _gate(self, asked: Asked, target: WebTarget) -> Answer:
        wanted = asked.request.header("accept-datetime")
        moment = NEWEST
        if wanted:
            time_s = parse_http_date(wanted)
            if time_s is None:
                raise BadQuestionError(f"Accept-Datetime {wanted[:60]!r} is not a date")
            moment = moment_at(time_s)
        chosen = await self._shelf.choose(as_asked(target.url), moment)
        if chosen is None:
            return await self._not_archived(asked, spellings(target.url)[0], text=target.url)
        answer = moved(
            Places(origin=asked.origin, url=chosen.url).memento(chosen.shown_s),
            headers={
                "Vary": "Accept-Datetime",
                "Link": links_of(chosen, asked.origin, is_gate=True),
                **PUBLIC,
                **_match(chosen.match),
            },
        )
        return replace(answer, is_of_archive_alone=True)

    async def _replay(self, asked: Asked, target: WebTarget) -> Answer:
        moment = target.moment
        assert moment is not None
        # The address stands for itself only in its canonical spelling, or as an imported file has it.
        urls, exact = as_asked(target.url), None
        # Programs, which ask for it as it came, have no address bar, and some escape the whole of it.
        is_named = target.url in urls and (target.flag.is_raw or asked.request.target.endswith(target.url))
        if is_named and moment.is_exact:
            exact = Exact(
                time_s=moment.target_s,
                urls=(target.url, *unescaped(target.url)),
                takes_bent=target.flag not in _NAMED,
            )
        is_program = target.flag.is_raw or (
            target.flag is Flag.PAGE and not wants_frame(asked.request.headers)
        )
        if moment.is_exact and is_program:
            # A list has the dates of all variants of an address; many programs put them before the one they know.
            known = tuple(dict.fromkeys(one for url in urls for one in variants(url)))
            exact = replace(exact or Exact(time_s=moment.target_s, urls=()), variants=known)
        is_bare = not target.flag.is_raw and target.flag is not Flag.PAGE
        if is_bare and self._has_banner and wants_frame(asked.request.headers):
            # The inside of our frame, or a part of a page, opened as a window: there it could lead anywhere.
            return moved(f"/web/{moment.digits}/{header_url(target.url)}")
        chosen = await self._shelf.choose(urls, moment, exact=exact)
        if chosen is None:
            return await self._missing(asked, target, spellings(target.url)[0])
        if exact is None or not exact.names(chosen.url, chosen.shown_s, chosen.match):
            places = Places(origin="", url=chosen.url)
            headers = {
                "Link": links_of(chosen, asked.origin, is_gate=True),
                **PUBLIC,
                **_match(chosen.match),
                **(_BY_WINDOW if target.flag is Flag.PAGE else {}),
            }
            answer = moved(places.memento(chosen.shown_s, str(target.flag)), headers=headers)
        else:
            found = await self._shown(asked, _as_script(asked.request, target), chosen)
            if found is None:
                return failure(
                    asked.request,
                    HTTPStatus.BAD_GATEWAY,
                    "this peer's copy of that day is damaged, and there is no older one; look for another day",
                    target.url,
                )
            answer = found
            if chosen.match:  # the address itself may be archived any moment
                answer.headers.update({**_BRIEF, **_match(chosen.match)})
        return replace(answer, is_of_archive_alone=True)

    async def _at_label(self, asked: Asked) -> Answer:
        """What was nearest to the label's day, without a redirect to another: the page keeps its name."""
        request, site = asked.request, asked.site
        assert site is not None
        script = our_script(request.path) if request.path == CLIENT_PATH else None
        if script is not None:
            return script
        url = f"{site.label.origin}{request.target}"
        flag = label_flag(request.header("sec-fetch-dest"))
        named = parse_moment(site.label.date)
        if request.method not in ("GET", "HEAD"):
            return self._preflight(request, site) or _nothing(asked, site.label.origin, flag, 0)
        if named is None:
            return _nothing(asked, url, flag, 0)
        moment = replace(named, digits="")  # so that its capture is what other holders are asked for
        urls = spellings(url)
        target = WebTarget(kind=TargetKind.REPLAY, url=url, moment=moment, flag=flag)
        chosen = await self._shelf.choose(urls, moment, exact=Exact(time_s=None, urls=urls))
        if chosen is None:
            found = await self._not_here(asked, urls[0], text=url, moments=(moment,))
        else:
            found = await self._shown(asked, target, chosen)
            if found is not None:
                return replace(found, is_of_archive_alone=True)
        return found or await self._gone(asked, url, flag, moment)

    async def _gone(self, asked: Asked, url: str, flag: Flag, moment: Moment) -> Answer:
        """What no peer has that was asked. A frame names what comes nearest: a spelling that may be meant, or the
        page itself on a day whose copy can be read."""
        is_frame = flag in _FRAMES
        near = await self._nearest(asked, url, flag, moment) if is_frame else None
        return _nothing(asked, url, flag, moment.target_s, near)

    async def _nearest(self, asked: Asked, url: str, flag: Flag, moment: Moment) -> _Near | None:
        meant = await self._shelf.ask(lambda catalogue: catalogue.spellings((url,), is_sure=False))
        for one in meant[:1]:
            chosen = await self._shelf.choose((one,), moment)
            if chosen is None:
                continue
            if asked.site is None:
                address = memento_path(one, chosen.time_s, str(flag))
            else:
                start = "/".join(one.split("/", 3)[:3])
                led = asked.site.led(start.encode())
                if led is None:
                    continue
                address = f"{led.decode()}{one.removeprefix(start)}"
            return _Near(url=one, time_s=chosen.time_s, address=address)
        return None

    def _preflight(self, request: Request, site: NamedSite) -> Answer | None:
        """Whatever a page asks leave for; the answer to other methods is that nothing is archived."""
        if request.method != "OPTIONS" or not request.header("access-control-request-method"):
            return None
        words = request.header("access-control-request-headers")
        headers = {
            **label_headers(site.names, _asker(request, site)),
            "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
            "Access-Control-Max-Age": "3600",
        }
        if _FIELD_NAMES.fullmatch(words):
            headers["Access-Control-Allow-Headers"] = words
        return Answer(status=HTTPStatus.NO_CONTENT, content_type="text/plain", body=b"", headers=headers)

    def _told_if_newer(self, asked: Asked, target: WebTarget, answer: Answer) -> Answer:
        """A reader who asked for a day before all captures is told so by the page that he is led to."""
        if target.flag is not Flag.PAGE or target.moment is None or answer.status is not HTTPStatus.FOUND:
            return answer
        location = answer.headers["Location"]
        is_newer = location[len("/web/") :][:14] > format_digits(target.moment.to_s)
        if not (
            is_newer
            and _TO_MEMENTO.match(location)
            and self._has_banner
            and wants_frame(asked.request.headers)
        ):
            return answer
        return replace(answer, headers={**answer.headers, "Location": f"{location}#{NEWER_MARK}"})

    async def _missing(self, asked: Asked, target: WebTarget, url: str) -> Answer:
        assert target.moment is not None
        moments = (target.moment,) if target.moment.is_exact else ()
        if target.flag is Flag.PAGE:
            return await self._not_archived(asked, url, text=target.url, moments=moments)
        found = await self._not_here(asked, url, text=target.url, moments=moments)
        if found is not None:
            return found
        if wants_json(asked.request) and target.flag in _FRAMES:
            return problem(HTTPStatus.NOT_FOUND, f"{url[:500]} is not in this peer's archive")
        return await self._gone(asked, url, target.flag, target.moment)

    async def _shown(self, asked: Asked, target: WebTarget, chosen: Chosen) -> Answer | None:
        """None: it cannot be read."""
        if chosen.capture is None and not chosen.is_large:
            return None
        holders = await self._holders(asked, target, chosen)
        asker = _asker(asked.request, asked.site)
        fills_window = asked.site is None and wants_frame(asked.request.headers)

        def shown(capture: StoredCapture) -> Answer:
            replay = Replay(
                chosen=chosen,
                capture=capture,
                flag=target.flag,
                portal_origin=asked.origin or None,
                has_banner=self._has_banner,
                site=asked.site,
                framed=_site_around(asked, chosen) if fills_window else None,
                named_url=f"{asked.site.label.origin}{asked.request.target}" if asked.site else "",
                is_worker=asked.request.header("sec-fetch-dest") in ("worker", "sharedworker"),
                asker=asker,
                holders=holders,
                note=self._note,
                callbacks=callbacks(target.url, chosen.url) if chosen.match else None,
                fills_window=fills_window,
                takes_gzip=accepts(asked.request, "gzip") and not asked.request.header("range"),
            )
            return replay_answer(replay)

        def finished_too(capture: StoredCapture) -> Answer:
            return finished(asked.request, shown(capture))  # which takes long enough, too, to be for a thread

        if chosen.capture is None:
            answer = await self._shelf.with_large(chosen, finished_too)
            if answer is not None and answer.passing is not None:
                return replace(answer, passing=replace(answer.passing, read=self._shelf.passing))
            return answer
        if is_quick(chosen.capture):
            return shown(chosen.capture)
        return await self._shelf.in_thread(partial(finished_too, chosen.capture))

    async def _holders(self, asked: Asked, target: WebTarget, chosen: Chosen) -> tuple[HolderNote, ...]:
        if target.flag is not Flag.PAGE or not self._has_banner or self._elsewhere is None:
            return ()
        memento = memento_path(chosen.url, chosen.time_s, str(Flag.RAW))
        others = await self._elsewhere.keepers(chosen.url, memento)
        if not others:
            return ()
        this = HolderNote(name="this peer", url=f"{asked.origin}/" if asked.origin else "")
        return (this, *(HolderNote(name=place.name, url=f"{place.origin}/") for place in others))

    # -- for tools ----------------------------------------------------------------------------------------

    async def _list(self, asked: Asked) -> Answer:
        """Rows of CDX where the Wayback Machine's own pages ask for them; without a question it is an address."""
        if not asked.request.parameter("url"):
            return await self._web(asked)
        return await self._cdx(asked, is_json=asked.request.path.endswith("json"))

    async def _cdx(self, asked: Asked, *, is_json: bool = False) -> Answer:
        question = parse_question(asked.request.parameters())
        question = replace(question, is_json=question.is_json or is_json)
        found = await self._shelf.rows(question)
        if question.urls and not found.rows and not question.shows_pages:
            text = asked.request.parameter("url")
            there = await self._not_here(asked, spellings(text)[0], text=text)
            if there is not None:
                return there
        if question.shows_pages:
            content_type, text = "text/plain; charset=utf-8", f"{found.pages}\n"
        else:
            write = partial(format_rows, found, question)
            content_type, text = await self._quickly(len(found.rows), write)
        # Nothing is no answer to keep: it may be archived any moment, also by another peer.
        is_something = bool(found.rows) or question.shows_pages
        cut = {} if found.resume_at is None else {"X-Herodotus-Cut": "true"}
        match = {}
        if question.urls and found.rows:
            urls = spellings(asked.request.parameter("url"))
            is_exact = any(row["original"] in urls for row in found.rows)
            match = {} if is_exact else _match(bent(urls, found.rows[0]["original"]))
        answer = data(content_type, text, {**(_BRIEF if is_something else _NOW), **cut, **match})
        return replace(answer, is_of_archive_alone=is_something)

    async def _available(self, asked: Asked) -> Answer:
        request = asked.request
        url, digits = request.parameter("url"), request.parameter("timestamp")
        if not url:
            raise BadQuestionError("say which: url=…")
        moment = moment_named(digits, "timestamp") if digits else NEWEST
        chosen = await self._shelf.choose(as_asked(url), moment)
        if chosen is None and (there := await self._not_here(asked, spellings(url)[0], text=url)) is not None:
            return there
        facts = availability(url, digits)
        if chosen is not None:
            async with self._shelf.history((chosen.url,), chosen.time_s, chosen.time_s) as versions:
                status = versions[0].status if versions else 200
            places = Places(origin=asked.origin, url=chosen.url)
            facts = availability(url, digits, places.memento(chosen.time_s), chosen.time_s, status)
        match = _match(chosen.match if chosen is not None else "")
        return replace(document(facts, headers={**PUBLIC, **match}), is_of_archive_alone=chosen is not None)


def _written_timemap(places: Places, form: str, versions: Sequence[Version]) -> bytes:
    if form == "cdxj":
        return gathered(timemap_cdxj(places, versions))
    return gathered((timemap_link if form == "link" else timemap_json)(places, moments_of(versions)))


def _match(words: str) -> dict[str, str]:
    return {MATCH: words} if words else {}


def _told_match(asked: str, held: str) -> dict[str, str]:
    return _match(bent(spellings(asked), held))
