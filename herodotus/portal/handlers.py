"""Which answer belongs to which request? No sockets here, so simulated peers answer the same.

Which parts of the portal have paths of their own, and what do they share? Put together here, in the order in which
they are asked.

May this request be answered at all? What is refused before anybody looks at its path.

A browser can be made to ask us for another site's sake: under that site's name (DNS rebinding), or from an archived
page, whose origin is `null`. Names are therefore known names, and `null` may read the archive and nothing else.
"""

import re
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

import anyio
import msgspec

from herodotus.core.errors import SettingError
from herodotus.core.orders import Order, OrderReport, Say
from herodotus.core.ports import Workers
from herodotus.core.replay import NamedSite, Names, checked_origin, is_worker_registration, read_label
from herodotus.core.status import PeerStatus
from herodotus.portal.answer import (
    PUBLIC,
    Answer,
    Request,
    document,
    finished,
    html,
    moved,
    parsed_address,
    problem,
    text,
)
from herodotus.portal.api.addresses import AddressAnswers
from herodotus.portal.api.captures import CaptureAnswers
from herodotus.portal.api.completeness import NEAREST_BYTES_MAX, CompletenessAnswers
from herodotus.portal.api.containers import ContainerAnswers
from herodotus.portal.api.evidence import EvidenceAnswers
from herodotus.portal.api.imports import ImportDesk
from herodotus.portal.api.links import LinkAnswers
from herodotus.portal.api.network import NetworkAnswers, PeerFacts, public_status
from herodotus.portal.api.paths import PathAnswers
from herodotus.portal.api.rest import RestApi
from herodotus.portal.api.search import SearchAnswers
from herodotus.portal.api.statistics import StatisticsAnswers
from herodotus.portal.api.streams import StreamAnswers
from herodotus.portal.archive_pages import ArchivePages, Asked, failure
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.differences import DiffPages
from herodotus.portal.memento import header_url
from herodotus.portal.metrics import PortalFigures
from herodotus.portal.notice_pages import NoticePages
from herodotus.portal.operator_pages import OperatingPages
from herodotus.portal.operator_rule import OperatorRule
from herodotus.portal.order_form import OrderPages
from herodotus.portal.other_holders import Directions, Elsewhere, Relay, RelayMaker
from herodotus.portal.rendering import not_found_page, start_page
from herodotus.portal.ring_lists import TogetherPages
from herodotus.portal.ring_questions import ANSWER_BYTES_MAX, AT_ONCE, Gatherer, Members
from herodotus.portal.save_pages import SavePages, SavePort
from herodotus.portal.search_pages import SearchPages
from herodotus.portal.word_search import WordSearch

TARGET_CHARS_MAX = 24_000  # an address of 16 kB, escaped a little; the server's own bound is lower
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(?::\d{1,5})?", re.ASCII)
_ARCHIVE = ("/web/", "/cdx/", "/wayback/")


def origin_of(host: str, known: Mapping[str, str]) -> str | None:
    """What the reader's browser calls us; `known` are the origins of names that the operator gave. None: no name
    of ours."""
    match = _HOST.fullmatch(host)
    if match is None:
        return None
    name = match[1].lower().rstrip(".")
    if name in known:
        return known[name]
    is_ours = name == "localhost" or parsed_address(name.strip("[]")) is not None
    return checked_origin("http", host) if is_ours else None


_LOCAL_NAMES = re.compile(r"http://(?:localhost|127\.0\.0\.1)(:\d{1,5})?", re.ASCII)
_LOCAL_LABEL = re.compile(r"([a-z0-9_-]+)\.localhost((?::\d{1,5})?)", re.ASCII)


def local_names(portal: str) -> Names | None:
    """Browsers find all names below `localhost` at this machine without asking anybody."""
    match = _LOCAL_NAMES.fullmatch(portal)
    if match is None:
        return None
    port = match[1] or ""
    both = (f"http://localhost{port}", f"http://127.0.0.1{port}")
    return Names(scheme="http", suffix=f"localhost{port}", portals=tuple(dict.fromkeys((portal, *both))))


def wildcard_names(replay_name: str, public_url: str) -> Names | None:
    """The operator's, at the scheme and port of the public address; SettingError where they cannot be."""
    if not replay_name:
        return None
    parts = urlsplit(public_url)
    portal = checked_origin(parts.scheme, parts.netloc)
    if portal is None:
        raise SettingError(
            source="config.toml",
            key="http.replay_name",
            problem="needs http.public_url, the portal's own name",
        )
    host = replay_name.removeprefix("*.").lower()
    own = (parts.hostname or "").lower()
    if own == host or own.endswith(f".{host}"):
        raise SettingError(
            source="config.toml", key="http.replay_name", problem="must not cover the name in http.public_url"
        )
    port = f":{parts.port}" if parts.port else ""
    return Names(scheme=parts.scheme, suffix=f"{host}{port}", portals=(portal,))


def refusal(request: Request, *, is_known_host: bool, is_label: bool = False) -> Answer | None:
    if not is_known_host:
        return problem(
            HTTPStatus.MISDIRECTED_REQUEST,
            "this peer is not known by that name; its operator can set http.public_url",
        )
    if len(request.target) > TARGET_CHARS_MAX:
        return problem(HTTPStatus.REQUEST_URI_TOO_LONG, "the address is too long")
    if is_worker_registration(request.headers):
        return problem(HTTPStatus.FORBIDDEN, "archived pages may not register service workers here")
    is_sandboxed = request.header("origin") == "null" and not is_label
    if is_sandboxed and not request.path.startswith(_ARCHIVE):
        return problem(HTTPStatus.FORBIDDEN, "archived pages may only read the archive")
    return None


def label_refusal(request: Request, site: NamedSite) -> Answer | None:
    """A live page must not find out what a reader's peer has, so it must have come from a label or from our page
    around one. A window is for our page: nothing else keeps it from going to the live web."""
    if not request.target.startswith("/"):
        return problem(HTTPStatus.BAD_REQUEST, "at a label only its paths can be asked for")
    comes_from = request.header("sec-fetch-site")
    origin, referer = request.header("origin"), request.header("referer")
    known = origin if origin not in ("", "null") else referer
    is_foreign = comes_from not in ("same-origin", "none", "") or (not comes_from and bool(known))
    if is_foreign and site.names.label_in(known) is None and not _is_portals(known, site.names):
        return problem(HTTPStatus.FORBIDDEN, "archived pages are read by themselves and by their portal only")
    if request.header("sec-fetch-dest") == "document":
        url = header_url(f"{site.label.origin}{request.target}")
        return moved(
            f"{site.names.portal}/web/{site.label.date}/{url}", headers={"Cache-Control": "no-store"}
        )
    return None


def _is_portals(address: str, names: Names) -> bool:
    return "/".join(address.split("/", 3)[:3]) in names.portals


_PREFLIGHT = {
    **PUBLIC,
    "Access-Control-Allow-Methods": "GET, HEAD",
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Max-Age": "86400",
}
_OF_PAGES = "/web/"
"""What an archived page in the sandbox asks is answered there, and be it by a refusal: it learns the status."""


class Room(Protocol):
    """A part of the portal with paths of its own."""

    paths: re.Pattern[str]
    """How the targets begin that it is asked for."""

    async def answer(self, asked: Asked) -> Answer | None:
        """None: another part answers this path and method."""
        ...


class Handlers:
    """`archive` is None if there is none to read; `public_url` is the readers' name for this peer, if it has one.
    `rooms` are asked before anybody else."""

    def __init__(
        self,
        status: Callable[[], Awaitable[PeerStatus]],
        archive: ArchivePages | None = None,
        *,
        public_url: str = "",
        replay_name: str = "",
        rooms: Sequence[Room] = (),
        is_secret: Callable[[str], bool] = lambda _given: False,
    ) -> None:
        """`replay_name`: where archived sites have names of their own, as `*.replay.example`. `is_secret` knows whose
        secret is the operator's."""
        self.is_secret = is_secret
        self.answered: Counter[int] = Counter()
        """Requests by the status of their answers."""
        self._rooms = tuple(rooms)
        self._status = status
        self._archive = archive
        self._wildcard = wildcard_names(replay_name, public_url)
        self._known_hosts = _hosts_of(public_url)
        self._by_path: dict[str, Callable[[], Awaitable[Answer]]] = {
            "/": self._start,
            "/healthz": self._health,
            "/api/v1/status": self._status_document,
        }

    async def answer(self, request: Request) -> Answer:
        answer = await self._answer(request)
        self.answered[answer.status.value] += 1
        return answer

    async def _answer(self, request: Request) -> Answer:
        host = request.header("host").lower()
        label, names = self._named(host)
        origin = names.portal if names is not None else origin_of(host, self._known_hosts) if host else ""
        refused = refusal(request, is_known_host=origin is not None, is_label=names is not None)
        if refused is not None:
            return refused
        if names is not None:
            return await self._at_label(request, label, names)
        names = self._names_at(origin or "")
        if names is not None and names.label_in(request.header("origin")) is not None:
            return problem(HTTPStatus.FORBIDDEN, "archived pages ask at their labels only")
        try:
            request.parameters()
        except ValueError:
            return failure(request, HTTPStatus.BAD_REQUEST, "too many parameters")
        answer = await self._routed(Asked(request=request, origin=origin or "", names=names))
        return finished(request, answer)

    def _named(self, host: str) -> tuple[str, Names | None]:
        """The label in a host's name, and where it is one; any word below such a name stands in its place."""
        local = _LOCAL_LABEL.fullmatch(host)
        if local is not None:
            return local[1], local_names(f"http://localhost{local[2]}")
        wildcard = self._wildcard
        if wildcard is not None and host.endswith(f".{wildcard.suffix}"):
            return host.removesuffix(f".{wildcard.suffix}"), wildcard
        return "", None

    def _names_at(self, origin: str) -> Names | None:
        """For the pages that a reader of this portal is shown."""
        wildcard = self._wildcard
        return wildcard if wildcard is not None and origin == wildcard.portal else local_names(origin)

    async def _at_label(self, request: Request, text: str, names: Names) -> Answer:
        label = read_label(text)
        if label is None or self._archive is None:
            return problem(HTTPStatus.NOT_FOUND, "this name means no archived site")
        site = NamedSite(names=names, label=label)
        refused = label_refusal(request, site)
        if refused is not None:
            return refused
        answer = await self._archive.answer(Asked(request=request, origin=names.portal, site=site))
        assert answer is not None, "everything at a label is the archive's"
        return finished(request, answer)

    async def _routed(self, asked: Asked) -> Answer:
        request, path = asked.request, asked.request.path
        for room in self._rooms:
            if room.paths.match(request.target):
                answer = await room.answer(asked)
                if answer is not None:
                    return answer
        if request.method not in ("GET", "HEAD"):
            return self._not_read(request)
        handler = self._by_path.get(path)
        if handler is not None:
            return await handler()
        if self._archive is not None:
            answer = await self._archive.answer(asked)
            if answer is not None:
                return answer
        if path.startswith("/api/"):
            return problem(HTTPStatus.NOT_FOUND, f"this interface has no {path[:200]}")
        return html(not_found_page(path), HTTPStatus.NOT_FOUND)

    def _not_read(self, request: Request) -> Answer:
        method, is_page = request.header("access-control-request-method"), request.path.startswith(_OF_PAGES)
        if request.method == "OPTIONS" and (method in ("GET", "HEAD") or (method and is_page)):
            headers = dict(_PREFLIGHT)
            if is_page:
                headers["Access-Control-Allow-Methods"] = "GET, HEAD, POST, PUT, PATCH, DELETE"
            return Answer(status=HTTPStatus.NO_CONTENT, content_type="text/plain", body=b"", headers=headers)
        sentence = f"{request.path[:200]} allows reading only"
        headers = {"Allow": "GET, HEAD", **(PUBLIC if is_page else {})}
        return problem(HTTPStatus.METHOD_NOT_ALLOWED, sentence, headers)

    async def _start(self) -> Answer:
        return html(start_page(await self._status()))

    async def _health(self) -> Answer:
        return text("ok\n")

    async def _status_document(self) -> Answer:
        """For strangers; the REST interface, where there is one, knows the operator."""
        return document(msgspec.to_builtins(public_status(await self._status())))


def _hosts_of(public_url: str) -> Mapping[str, str]:
    """The name in the operator's public address, and the origin that stands for it."""
    parts = urlsplit(public_url)
    origin = checked_origin(parts.scheme, parts.netloc)
    return {parts.hostname.lower(): origin} if parts.hostname and origin else {}


class RingView(Directions, Members, Protocol):
    def peers(self) -> tuple[PeerFacts, ...]: ...


def _unheard(words: str) -> None:
    """A reader waits for the answer alone."""


class OwnSaves(SavePort, Protocol):
    def opened(self) -> AbstractAsyncContextManager[None]: ...


class PortalRooms:
    """What takes orders or asks many peers works inside `opened`."""

    def __init__(
        self,
        *,
        shelf: Shelf,
        status: Callable[[], Awaitable[PeerStatus]],
        figures: Callable[[], PortalFigures],
        log: Callable[[], Awaitable[Sequence[str]]],
        directions: RingView,
        relay: Relay,
        relay_of: RelayMaker,
        elsewhere: Elsewhere,
        workers: Workers,
        operator: OperatorRule,
        perform: Callable[[Order, Say], Awaitable[OrderReport]],
        saves: OwnSaves | None,
        peer: str,
        drift_days: int,
        words: WordSearch,
        asking: Relay | None = None,
    ) -> None:
        """`saves` is None where readers may not ask for pages; `log` gives the last lines of it, for the operator.
        `asking` fetches the parts of answers that all peers have; its own by default."""
        self._saves = saves
        self._limits = limits = ClientLimits(anyio.current_time)
        # Beside that of single questions, as many at once must not hold those up.
        self._asking = relay_of(ANSWER_BYTES_MAX, AT_ONCE)
        self._completing = relay_of(NEAREST_BYTES_MAX, None)
        self._gatherer = gatherer = Gatherer(directions, asking or self._asking, workers)
        self._desk = ImportDesk(perform)
        links = LinkAnswers(shelf, gatherer, limits)
        answers = (
            NetworkAnswers(status, directions.peers, operator),
            CaptureAnswers(shelf),
            AddressAnswers(shelf),
            SearchAnswers(words),
            ContainerAnswers(shelf),
            StatisticsAnswers(shelf),
            StreamAnswers(shelf),
            links,
            PathAnswers(shelf, links),
            CompletenessAnswers(shelf, directions, asking or self._completing, drift_days),
            EvidenceAnswers(shelf, lambda why: perform(why, _unheard)),
            self._desk,
        )
        self._saving = None
        if saves is not None:
            self._saving = SavePages(saves, anyio.current_time, directions=directions, relay=relay)
        rooms: list[Room | None] = [
            OperatingPages(status, figures, log, operator),
            OrderPages(perform, operator),
            NoticePages(perform, operator),
            RestApi(answers, limits, operator, workers, elsewhere=elsewhere, peer=peer),
            self._saving,
            DiffPages(shelf, limits, elsewhere),
            SearchPages(words, limits),
            TogetherPages(shelf, gatherer, limits, workers.steady_s),
        ]
        self.all = tuple(room for room in rooms if room is not None)

    @property
    def rationed(self) -> int:
        return self._limits.refused

    @property
    def disbelieved(self) -> int:
        return self._gatherer.disbelieved

    @property
    def saves_asked(self) -> int:
        return 0 if self._saving is None else self._saving.asked

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._asking.opened())
            await stack.enter_async_context(self._completing.opened())
            await stack.enter_async_context(self._desk.opened())
            if self._saves is not None:
                await stack.enter_async_context(self._saves.opened())
            yield
