"""A portal with all its rooms over an archive in memory, in a ring of one's own making, without sockets."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

import anyio
from tantivy import Index

from herodotus.core.captures import Deposit
from herodotus.core.orders import Order, OrderReport, Say, Why
from herodotus.core.search.answers import After, Results
from herodotus.core.search.questions import Question
from herodotus.machine import Machine
from herodotus.portal.answer import Answer, Request
from herodotus.portal.api.network import PeerFacts
from herodotus.portal.archive_pages import ArchivePages
from herodotus.portal.handlers import Handlers, OwnSaves, PortalRooms
from herodotus.portal.metrics import PortalFigures
from herodotus.portal.operator_rule import OperatorRule
from herodotus.portal.other_holders import RELAYED, Elsewhere, PortalAddress
from herodotus.portal.word_search import WordSearch
from herodotus.search.results import results
from herodotus.store import Catalogue
from herodotus.store.survey import ArchiveSurvey
from tests.herodotus.portal.library import HOST, Library
from tests.herodotus.portal.statuses import STATUS
from tests.herodotus.search.archives import words_in
from tests.herodotus.store.making import NOW_S

TOKEN = "a-token-of-forty-three-characters-or-so-....."


class Ring:
    """Peers by origin; each knows all of them, and `stale` ones that are none."""

    def __init__(self) -> None:
        self.rooms: dict[str, Room] = {}
        self.stale: list[str] = []
        self.questions: list[tuple[str, Request]] = []
        self.holders_of: Callable[[str], Sequence[str]] = lambda url: ()

    def places(self, own: str) -> tuple[PortalAddress, ...]:
        return tuple(PortalAddress(origin=origin) for origin in (*self.rooms, *self.stale) if origin != own)

    async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
        assert request.header(RELAYED), "a peer asked without saying for whom"
        self.questions.append((place.origin, request))
        room = self.rooms.get(place.origin)
        if room is None:
            return None
        headers = {**request.headers, "host": place.origin.removeprefix("http://")}
        return await room.handlers.answer(replace(request, headers=headers, client="192.0.2.77"))


@dataclass(frozen=True)
class View:
    """Of the ring, by one of its peers."""

    ring: Ring
    own: str

    async def others(self) -> tuple[PortalAddress, ...]:
        return self.ring.places(self.own)

    async def holders(self, url: str) -> tuple[PortalAddress, ...]:
        return tuple(
            PortalAddress(origin="" if origin == self.own else origin, is_self=origin == self.own)
            for origin in self.ring.holders_of(url)
        )

    def peers(self) -> tuple[PeerFacts, ...]:
        return tuple(
            PeerFacts(key=f"{number:064x}", address=f"192.0.2.{number}:4484", http=origin, positions=4, clock="well",
                 is_self=origin == self.own)
            for number, origin in enumerate(self.ring.rooms)
        )  # fmt: skip


async def nothing_ordered(order: Order, say: Say) -> OrderReport:
    if isinstance(order, Why):
        return OrderReport(facts=None)
    raise AssertionError(f"somebody ordered {order}")


class Room(Library):
    """One peer's portal, asked from its own machine unless another `client` is given."""

    def __init__(
        self,
        *deposits: Deposit,
        ring: Ring | None = None,
        origin: str = f"http://{HOST}",
        visits: tuple[tuple[str, str], ...] = (),
        saves: OwnSaves | None = None,
        client: str = "127.0.0.1",
        public_url: str = "",
        perform: Callable[[Order, Say], Awaitable[OrderReport]] = nothing_ordered,
    ) -> None:
        super().__init__(*deposits, visits=visits, public_url=public_url)
        self._words: Index | None = None
        self.ring = ring or Ring()
        self.ring.rooms[origin] = self
        self.client = client
        view = View(self.ring, origin)
        elsewhere = Elsewhere(
            view,
            self.ring,
            Machine(),
            now=anyio.current_time,
            catalogue=lambda: self.catalogue,
        )
        self.rooms = PortalRooms(
            shelf=self.shelf,
            status=self.status,
            figures=lambda: PortalFigures(answered={200: 7}),
            log=self.log_tail,
            directions=view,
            relay=self.ring,
            relay_of=Machine().relay,
            elsewhere=elsewhere,
            workers=Machine(),
            operator=OperatorRule(TOKEN, has_public_name=bool(public_url)),
            perform=perform,
            saves=saves,
            peer=STATUS.peer_id,
            drift_days=30,
            words=WordSearch(shelf=self.shelf, look=self.look, now_s=lambda: NOW_S, secret=b"a secret"),
            asking=self.ring,
        )
        self.handlers = Handlers(
            self.status,
            ArchivePages(self.shelf, elsewhere=elsewhere, peer=STATUS.peer_id, takes_saves=saves is not None),
            public_url=public_url,
            rooms=self.rooms.all,
        )
        self.survey()

    def look(self, catalogue: Catalogue, question: Question, limit: int, after: After | None) -> Results:
        """The index is as old as the newest capture, and forgets nothing."""
        if self._words is None:
            self._words = words_in(catalogue)
        return results(self._words, catalogue, question, now_s=NOW_S, limit=limit, after=after)

    async def log_tail(self) -> list[str]:
        return ["INFO herodotus.peer ready", "WARNING herodotus.peers.net <script>"]

    def survey(self) -> None:
        ArchiveSurvey(self.store.archive).catch_up()

    def ask(
        self, target: str, headers: Mapping[str, str] | None = None, method: str = "GET", body: bytes = b""
    ) -> Answer:
        given = {"host": HOST, **(headers or {})}
        request = Request(method=method, target=target, headers=given, client=self.client, body=body)
        return anyio.run(partial(self.handlers.answer, request))

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        async with self.rooms.opened():
            yield
