"""Which other peers may have what this peer lacks, and how does the reader get it? Lent, looked at, and shown here.

The ring names the holders of an address. No reader is sent to one of them: a peer that a reader was sent to is the
reader's whole archive from then on, with each link of each page, and an attacker with a key is a holder of something.
So this peer asks several holders what they have, believes what two places tell alike (`lent_histories`), fetches the
record of the capture that is to be shown, and answers as if both were its own. A peer that asks for a reader says so,
and then nobody is asked on: so there are no circles.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Protocol

import anyio
from cachetools import TTLCache

from crawler.core.urls import likeliest
from herodotus.core.captures import CaptureId
from herodotus.core.errors import ArchiveError, MalformedRecordError
from herodotus.core.ports import Lane, Workers
from herodotus.core.warc import format_digits
from herodotus.portal.answer import Answer, Request, html, problem, query_of, wants_json
from herodotus.portal.answer_cache import WeighedCache
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.lent_histories import (
    LentCatalogue,
    LentHistory,
    Told,
    agreed,
    is_settled,
    row_of,
    versions_told,
)
from herodotus.portal.memento import header_url
from herodotus.portal.rendering import trouble_page
from herodotus.portal.targets import Moment, spellings
from herodotus.store import Catalogue, StoredCapture, Version, capture_of_file

RELAYED = "x-herodotus-relayed"
ASKED_MAX = 5
"""Holders that are asked for one address: all the others of six copies."""
ASKED_FIRST = 3
"""At first; the others where these do not tell the same."""
PATIENCE_S = 0.5
"""Nobody is waited for longer where two places told all that there is."""
ONE_WORD_S = 3.0
"""So long a second word is waited for."""
KEEPERS_ASKED_S = 0.5
"""A page does not wait longer for other holders; a peer that did not answer in time is not named."""
KEEPERS_KEPT_S = 600.0
_KEEPERS_KEPT_MAX = 1_024
HISTORY_KEPT_S = 30.0
MISS_KEPT_S = 60.0
"""Pages name what nobody has again and again; a capture may come any time."""
_MISSES_MAX = 4_096
HISTORIES_BYTES_MAX = 16 * 1024 * 1024
RECORDS_BYTES_MAX = 32 * 1024 * 1024
"""Of captures that were lent: a window asks for the page around a page, and then for the page."""
RECORD_BYTES = 256 * 1024
"""Of a record besides the body: its heads, and the request beside it."""
BODY_BYTES_MAX = 32 * 1024 * 1024
"""What the crawler fetches at most."""
LARGE_BYTES, LARGE_AT_ONCE = 1024 * 1024, 2
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
    place: bytes = b""
    """The network that it counts in; each portal is its own where nothing is known."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Lent:
    """What is shown of an address that is elsewhere."""

    shelf: Shelf
    """This peer's, with the histories and captures that were lent."""
    is_confirmed: bool
    """Holders in two places tell it."""
    names: Sequence[str]
    """Short forms of the ids of peers that tell it."""

    def marked(self, answer: Answer) -> Answer:
        """As an answer of the archive, but not this peer's own word."""
        answer.headers["X-Herodotus-Peer"] = ", ".join(self.names)
        answer.headers["X-Herodotus-Confirmed"] = "true" if self.is_confirmed else "false"
        if not self.is_confirmed:
            answer.headers["Cache-Control"] = "no-cache"
        return replace(answer, is_of_archive_alone=False)


class Elsewhere:
    def __init__(
        self,
        directions: Directions,
        relay: Relay,
        workers: Workers,
        *,
        now: Callable[[], float],
        catalogue: Callable[[], Catalogue],
    ) -> None:
        """`catalogue` is this peer's own, asked for each time."""
        self._directions = directions
        self._relay = relay
        self._now = now
        self._workers = workers
        self._catalogue = catalogue
        self._keepers: TTLCache[str, tuple[PortalAddress, ...]] = TTLCache(
            _KEEPERS_KEPT_MAX, KEEPERS_KEPT_S, now
        )
        self._known: WeighedCache[str, tuple[float, LentHistory]] = WeighedCache(HISTORIES_BYTES_MAX)
        self._records: WeighedCache[CaptureId, StoredCapture] = WeighedCache(RECORDS_BYTES_MAX)
        self._missed: TTLCache[str, bool] = TTLCache(_MISSES_MAX, MISS_KEPT_S, now)
        self._large = anyio.Semaphore(LARGE_AT_ONCE)

    # -- what readers ask for -----------------------------------------------------------------------------

    async def lent(
        self, request: Request, url: str, *, text: str = "", moments: Sequence[Moment] = ()
    ) -> Lent | Answer | None:
        """None: what this peer says counts. An answer: it cannot be had now. `text` is the address as it was asked for;
        of `moments` the captures are needed, too."""
        if request.header(RELAYED):
            return None
        catalogue = self._catalogue()
        if not catalogue.shows_record(url, ""):  # what was removed here is not fetched from others either
            return None
        found = await self._found(catalogue, url, text or url)
        if found is None or isinstance(found, Busy):
            return None if found is None else _told_busy(request, url)
        lending = LentCatalogue(catalogue, found)
        shelf = Shelf(lending.as_catalogue, self._workers)
        for moment in moments:
            chosen = await shelf.choose((found.url,), moment)
            assert chosen is not None, "a history has versions"
            is_bent = found.url not in spellings(text or url)
            if moment.is_exact and chosen.shown_s != moment.target_s and not is_bent:
                continue  # the reader is led to its date first
            version = next(one for one in found.versions if one.id.time_s == chosen.time_s)
            capture = await self._capture(found, version)
            if capture is None:
                return _told_missing(request, found, version)
            lending.captures[chosen.time_s] = capture
        return Lent(shelf=shelf, is_confirmed=found.is_confirmed, names=found.names)

    async def _found(self, catalogue: Catalogue, url: str, text: str) -> "LentHistory | Busy | None":
        """From the holders of the address; where they know nothing of it, nor of another spelling, from those of its
        likeliest other spellings, one after the other. Who was asked is not asked again."""
        known = self._known.get(text)
        if known is not None and self._now() - known[0] < HISTORY_KEPT_S:
            return known[1]
        if text in self._missed:
            return None
        asked: set[str] = set()
        heard: set[str] = set()
        for spelling in (url, *likeliest(url)):
            holders = await self._directions.holders(spelling)
            places = [one for one in holders if not one.is_self and one.origin not in asked]
            asked.update(one.origin for one in places[:ASKED_MAX])
            found = (
                await self._history(catalogue, spelling, text, places[:ASKED_MAX], heard) if places else None
            )
            if found is not None:
                return found
        if heard:
            self._missed[text] = True
        return None

    async def _history(
        self, catalogue: Catalogue, url: str, text: str, places: Sequence[PortalAddress], heard: set[str]
    ) -> "LentHistory | Busy | None":
        names = spellings(text)
        asked = header_url(text if url in names else url)
        question = Request(target=f"/web/*/{asked}", headers={"accept": "application/json", RELAYED: "1"})
        told, is_busy = await self._told(question, names, places, heard)
        order = {place.origin: number for number, place in enumerate(places)}
        told.sort(key=lambda one: order[one.origin])
        removed = {
            row_of(version): False
            for one in told
            for version in one.versions
            if not catalogue.shows_record(version.url, version.id.digest.hex())
        }
        found = agreed(told, removed, names)
        if found is None:
            return Busy() if is_busy else None
        if found.is_confirmed:
            self._known.keep(text, (self._now(), found), found.bytes)
        return found

    async def _told(
        self, question: Request, names: Sequence[str], places: Sequence[PortalAddress], spoken: set[str]
    ) -> tuple[list[Told], bool]:
        """What they tell, and whether one of them had no time; `spoken` are those that answered. Some are asked first,
        the others where those do not tell the same, or not soon."""
        told: list[Told] = []
        busy: list[str] = []
        waiting, left = list(places), 0
        heard = anyio.Event()

        async def ask(place: PortalAddress) -> None:
            nonlocal left
            answer = await self._relay.fetch(place, question)
            if answer is not None:
                spoken.add(place.origin)
                versions = await self._workers.work(partial(versions_told, answer, names), READING)
                if versions:
                    told.append(Told(place.origin, place.place or place.origin, versions, place.name))
                elif answer.status in _BUSY:
                    busy.append(place.origin)
            left -= 1
            heard.set()

        began = anyio.current_time()
        with anyio.move_on_after(RELAYED_S):
            async with anyio.create_task_group() as tasks:
                while True:
                    waited_s, is_enough = anyio.current_time() - began, is_settled(told)
                    if waiting and not is_enough and (not left or waited_s >= PATIENCE_S):
                        some, waiting = waiting[:ASKED_FIRST], waiting[ASKED_FIRST:]
                        left += len(some)
                        for place in some:
                            tasks.start_soon(ask, place)
                    elif (
                        not left
                        or (is_enough and waited_s >= PATIENCE_S)
                        or (told and waited_s >= ONE_WORD_S)
                    ):
                        break
                    with anyio.move_on_after(PATIENCE_S):
                        await heard.wait()
                    heard = anyio.Event()
                tasks.cancel_scope.cancel()
        return told, bool(busy)

    async def _capture(self, found: LentHistory, version: Version) -> StoredCapture | None:
        """Its bytes are those that were believed."""
        known = self._records.get(version.id)
        if known is not None:
            return known
        if version.size > LARGE_BYTES:
            async with self._large:
                return await self._fetched(found, version)
        return await self._fetched(found, version)

    async def _fetched(self, found: LentHistory, version: Version) -> StoredCapture | None:
        if version.size > BODY_BYTES_MAX:
            return None
        query = query_of([("url", version.url), ("date", format_digits(version.id.time_s))])
        question = Request(target=f"/api/v1/records/warc?{query}", headers={RELAYED: "1"})
        with anyio.move_on_after(RELAYED_S):
            for teller in found.tellers[row_of(version)][:ASKED_MAX]:
                answer = await self._relay.fetch(PortalAddress(origin=teller.origin), question)
                if answer is None or answer.status is not HTTPStatus.OK:
                    continue
                read = partial(_capture_in, answer.body, version)
                capture = await self._workers.work(read, READING)
                if capture is not None:
                    self._records.keep(version.id, capture, len(capture.body) + RECORD_BYTES)
                    return capture
        return None

    # -- who else has what is here? -----------------------------------------------------------------------

    async def keepers(self, url: str, memento: str) -> tuple[PortalAddress, ...]:
        """The other peers that have this very capture: those that should, asked whether they do. `memento` is its
        raw address, a path."""
        known = self._keepers.get(memento)
        if known is not None:
            return known
        others = [place for place in await self._directions.holders(url) if not place.is_self][:ASKED_MAX]
        keepers = await self._which_have(Request(target=memento), others)
        self._keepers[memento] = keepers
        return keepers

    async def _which_have(
        self, request: Request, places: Sequence[PortalAddress]
    ) -> tuple[PortalAddress, ...]:
        """In their order, those that say so in time."""
        found: set[str] = set()

        async def ask(place: PortalAddress) -> None:
            answer = await self._relay.fetch(place, request)
            if answer is not None and (answer.status is HTTPStatus.OK or _is_memento(answer)):
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


def _is_memento(answer: Answer) -> bool:
    """An archived redirect or error, too."""
    return any(name.lower() == "memento-datetime" for name in answer.headers)


@dataclass(frozen=True, slots=True)
class Busy:
    """A holder said so, and nobody said anything else."""


def _capture_in(data: bytes, version: Version) -> StoredCapture | None:
    """Work for a thread."""
    try:
        capture = capture_of_file(data, BODY_BYTES_MAX + RECORD_BYTES)
    except (MalformedRecordError, ArchiveError):
        return None
    return capture if capture.id == version.id and capture.url == version.url else None


def _told_busy(request: Request, url: str) -> Answer:
    sentence = "the peers that should have it are busy: try again in some seconds"
    return _not_now(request, sentence, url)


def _told_missing(request: Request, found: LentHistory, version: Version) -> Answer:
    if version.size > BODY_BYTES_MAX:
        sentence = f"it has {version.size:,} bytes, more than this peer fetches; ask its holders: "
        return _not_now(request, sentence + ", ".join(one.origin for one in found.tellers[row_of(version)]))
    return _not_now(
        request, "the peers that have it do not give it now: try again in some seconds", found.url
    )


def _not_now(request: Request, sentence: str, url: str = "") -> Answer:
    status, headers = HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "5"}
    if request.path.startswith("/web/") and not wants_json(request):
        return html(trouble_page("Not now", sentence, header_url(url)), status, headers)
    return problem(status, sentence, headers)
