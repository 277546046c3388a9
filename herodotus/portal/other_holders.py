"""Which other peers may have what this peer lacks, and how does the reader get it? A redirect, or a relayed answer.

The ring names the holders of an address. A browser window is redirected to the first of them that says it has what is
asked for (301, as in the thesis): otherwise one peer could hide a page that five others hold. What a page embeds is
relayed, because its policy lets it ask this portal alone. Views of the ring may be stale. So a holder never
redirects: it asks the other holders itself. A relayed request is never relayed again. And the same question from the
same address is redirected a few times only and then relayed. So circles end soon, and each of many readers behind one
address, as behind a proxy, gets the page.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from typing import Protocol

import anyio
from cachetools import FIFOCache, TTLCache

from herodotus.core.ports import Lane, Workers
from herodotus.core.replay import Flag, wants_frame
from herodotus.portal.answer import PUBLIC, Answer, accepts, html, moved, problem
from herodotus.portal.memento import header_url
from herodotus.portal.relayed_answers import (
    Adopting,
    MementoAsked,
    adopted_data,
    adopted_history,
    adopted_memento,
    adopted_words,
    framed,
    is_page,
    named,
)
from herodotus.portal.rendering import trouble_page
from herodotus.portal.replay import ReplayPlace
from herodotus.portal.request import Request, wants_json
from herodotus.portal.targets import BadQuestionError, TargetKind, WebTarget, parse_web_target

RELAYED = "x-herodotus-relayed"
ASKED_MAX = 5
"""Holders that are tried for one request: all the others of six copies."""
SENT_ON_MAX = 3
"""Times within `SENT_ON_S`; browsers give up after some 20 redirects."""
SENT_ON_S = 10.0
_REMEMBERED_MAX = 4_096
KEEPERS_ASKED_S = 0.5
"""A page does not wait longer for other holders; a peer that did not answer in time is not named, and nobody is sent
there."""
KEEPERS_KEPT_S = 600.0
_KEEPERS_KEPT_MAX = 1_024
RELAYED_S = 20.0
"""For all the holders of one page together; nobody looks at an empty window for longer."""
READING = Lane("histories of other peers", 2)
_BUSY = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


@dataclass(frozen=True, slots=True, kw_only=True)
class PortalAddress:
    """A peer's portal."""

    origin: str
    is_self: bool = False
    name: str = ""
    """Short form of the peer's id."""


class Directions(Protocol):
    async def holders(self, url: str) -> tuple[PortalAddress, ...]:
        """Who should have the URL, in the ring's order, as far as it seems to live; empty where nobody knows."""
        ...


class Relay(Protocol):
    async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
        """Another peer's answer, whole and in its own words: nothing to be passed on. None where it gives none in
        time, or one that is too large."""
        ...


class OpenRelay(Relay, Protocol):
    """Asks inside `opened`; before and after it nobody is asked."""

    def opened(self) -> AbstractAsyncContextManager[None]: ...


RelayMaker = Callable[[int | None, int | None], OpenRelay]
"""By the most bytes of an answer, and of questions at once; None leaves it to the relay."""


class Elsewhere:
    def __init__(
        self,
        directions: Directions,
        relay: Relay,
        workers: Workers,
        *,
        now: Callable[[], float],
        is_gateway: bool = False,
        has_banner: bool = True,
        replay: ReplayPlace | None = None,
        is_removed: Callable[[str], bool] = lambda url: False,
    ) -> None:
        self._is_removed = is_removed
        self._has_banner = has_banner
        self._inner_origin = "" if replay is None else replay.origin
        self._directions = directions
        self._relay = relay
        self._now = now
        self._is_gateway = is_gateway
        self._workers = workers
        self._keepers: TTLCache[str, tuple[PortalAddress, ...]] = TTLCache(
            _KEEPERS_KEPT_MAX, KEEPERS_KEPT_S, now
        )
        self._sent_on: FIFOCache[tuple[str, str], tuple[float, int]] = FIFOCache(_REMEMBERED_MAX)

    async def answer(
        self, request: Request, url: str, origin: str, flag: Flag | None = None, *, is_replay: bool = False
    ) -> Answer | None:
        """None: what this peer says counts. `is_replay`: asked for where archived pages have their own origin."""
        if request.header(RELAYED):
            return None
        if self._is_removed(url):  # what was removed here is not fetched from others either
            return None
        holders = await self._directions.holders(url)
        others = tuple(place for place in holders if not place.is_self)
        if not others:
            return None
        if len(others) < len(holders):  # we should have it ourselves: the other holders may have it already
            return await self._relayed(request, others, url, origin, is_replay=is_replay)
        is_relayed = self._is_gateway or self._must_relay(request, flag)
        if is_relayed or not self._may_send_on(request):
            return await self._relayed(request, holders, url, origin, is_replay=is_replay)
        if not (request.target.isascii() and request.target.isprintable()):
            return None
        target = f"{(await self._to_send_on_to(request, holders)).origin}{request.target}"
        # A browser that kept it would go round in a circle of stale views by itself, and ask nobody who could end it.
        return moved(target, HTTPStatus.MOVED_PERMANENTLY, {"Cache-Control": "no-store", **PUBLIC})

    async def _to_send_on_to(self, request: Request, holders: tuple[PortalAddress, ...]) -> PortalAddress:
        """The first holder that says it has what is asked for: one of them may deny what the others have. Where nobody
        says so, the first of all."""
        first, *others = holders[:ASKED_MAX]
        if not others:
            return first
        has = await self._which_have(request, (first,)) or await self._which_have(request, others)
        return has[0] if has else first

    async def _which_have(
        self, request: Request, places: Sequence[PortalAddress], *, is_very_one: bool = False
    ) -> tuple[PortalAddress, ...]:
        """In their order, those that say so in time; a redirect is to something like it."""
        found: set[str] = set()

        async def ask(place: PortalAddress) -> None:
            answer = await self._relay.fetch(place, request)
            if answer is None:
                return
            if answer.status is HTTPStatus.OK or (not is_very_one and 300 <= answer.status < 400):
                found.add(place.origin)

        request = Request(
            method="HEAD",
            target=request.target,
            headers={RELAYED: "1"} | {"accept": request.header("accept") or "*/*"},
        )
        with anyio.move_on_after(KEEPERS_ASKED_S):
            async with anyio.create_task_group() as tasks:
                for place in places:
                    tasks.start_soon(ask, place)
        return tuple(place for place in places if place.origin in found)

    async def keepers(self, url: str, memento: str) -> tuple[PortalAddress, ...]:
        """The other peers that have this very capture: those that should, asked whether they do. `memento` is its
        raw address, a path."""
        known = self._keepers.get(memento)
        if known is not None:
            return known
        others = [place for place in await self._directions.holders(url) if not place.is_self][:ASKED_MAX]
        keepers = await self._which_have(Request(target=memento), others, is_very_one=True)
        self._keepers[memento] = keepers
        return keepers

    def _must_relay(self, request: Request, flag: Flag | None) -> bool:
        """What is shown within a page of ours; a program that asks for raw bytes may go there itself."""
        if flag is None or flag is Flag.PAGE:
            return False
        return not wants_frame(request.headers) and not flag.is_raw

    def _may_send_on(self, request: Request) -> bool:
        now, key = self._now(), (request.client, request.target)
        since, count = self._sent_on.get(key, (now, 0))
        if now - since > SENT_ON_S:
            since, count = now, 0
        self._sent_on[key] = since, count + 1
        return count < SENT_ON_MAX

    async def _relayed(
        self, request: Request, holders: tuple[PortalAddress, ...], url: str, origin: str, *, is_replay: bool
    ) -> Answer | None:
        is_busy = False
        with anyio.move_on_after(RELAYED_S):
            for place in holders[:ASKED_MAX]:
                adopting = Adopting(
                    there=place.origin, here=origin, name=place.name, has_own_origin=is_replay
                )
                one = _Question(self._relay, request, place, adopting)
                found = await self._adopted(one, url)
                if found is not None:
                    return named(found, one.told, adopting)
                is_busy = is_busy or one.is_busy
        return _told_busy(request, url) if is_busy else None

    async def _adopted(self, one: "_Question", url: str) -> Answer | None:
        """What an answer to this question may be; anything else is not an answer."""
        if one.request.path.startswith("/web/diff/"):
            answer = await one.ask("text/html")
            return None if answer is None else adopted_words(answer, one.adopting)
        target = _web_target(one.request.target)
        match None if target is None else target.kind:
            case TargetKind.REPLAY | TargetKind.GATE if target is not None:
                return await self._memento(one, target)
            case TargetKind.HISTORY if target is not None and not wants_json(one.request):
                answer = await one.ask("application/json")
                period = target.moment.digits if target.moment else ""
                if answer is None:
                    return None
                read = partial(adopted_history, answer, url, period, one.adopting)
                return await self._workers.work(read, READING)
        answer = await one.ask(one.request.header("accept"))
        return None if answer is None else adopted_data(answer, one.adopting)

    async def _memento(self, one: "_Question", target: WebTarget) -> Answer | None:
        moment = target.moment
        takes_gzip = accepts(one.request, "gzip")
        is_window = target.flag is Flag.PAGE and self._has_banner and wants_frame(one.request.headers)
        part = "" if one.request.header("if-range") else one.request.header("range")
        asked = MementoAsked(
            url=target.url,
            flag=target.flag,
            time_s=moment.target_s if moment is not None and moment.is_exact else None,
            takes_gzip=takes_gzip and not part,
            asks_part=part != "" and one.request.method == "GET",
        )
        if is_window:
            answer = await one.ask("", method="HEAD")
            made = None if answer is None else adopted_memento(answer, asked, one.adopting)
            if answer is None or made is None:
                return None
            if "Memento-Datetime" in made.headers and is_page(made):
                return framed(answer, asked, one.adopting, self._inner_origin)
            if made.status is HTTPStatus.FOUND or one.request.method == "HEAD":
                return made
        extra = {"range": part} if asked.asks_part else {}
        extra |= {"accept-datetime": one.request.header("accept-datetime")}
        answer = await one.ask("", coding="gzip" if asked.takes_gzip else "identity", **extra)
        return None if answer is None else adopted_memento(answer, asked, one.adopting)


class _Question:
    """To one peer, for one reader: of what the reader's browser said, only what is named here is told."""

    def __init__(self, relay: Relay, request: Request, place: PortalAddress, adopting: Adopting) -> None:
        self.request = request
        self.adopting = adopting
        self.is_busy = False
        self.told = ""
        """How the peer calls itself."""
        self._relay = relay
        self._place = place

    async def ask(
        self, accept: str, *, method: str = "", coding: str = "identity", **fields: str
    ) -> Answer | None:
        given = {"accept": accept, "accept-encoding": coding, RELAYED: "1"}
        given |= {name.replace("_", "-"): value for name, value in fields.items()}
        headers = {name: value for name, value in given.items() if value}
        method = method or ("HEAD" if self.request.method == "HEAD" else "GET")
        answer = await self._relay.fetch(
            self._place, Request(method=method, target=self.request.target, headers=headers)
        )
        if answer is not None:
            self.told = answer.headers.get("X-Herodotus-Peer", "")
            self.is_busy = answer.status in _BUSY
        return answer


def _web_target(target: str) -> WebTarget | None:
    if not target.startswith("/web/"):
        return None
    try:
        return parse_web_target(target)
    except BadQuestionError:
        return None


def _told_busy(request: Request, url: str) -> Answer:
    sentence = "the peers that should have it are busy: try again in some seconds"
    status, headers = HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "5"}
    if request.path.startswith("/web/") and not wants_json(request):
        return html(trouble_page("Not now", sentence, header_url(url)), status, headers)
    return problem(status, sentence, headers)
