"""A small archive in memory, and a portal over it without sockets."""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

import anyio

from herodotus.core.bundles import Visit
from herodotus.core.captures import Deposit
from herodotus.core.status import PeerStatus
from herodotus.core.warc import parse_digits
from herodotus.machine import Machine
from herodotus.portal.answer import Answer, Request
from herodotus.portal.answer_cache import Front
from herodotus.portal.archive_pages import ArchivePages
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.handlers import Handlers
from herodotus.store.catalogue import ArchiveCatalogue
from tests.herodotus.deposits import make_deposit
from tests.herodotus.portal.statuses import STATUS
from tests.herodotus.store.making import NOW_S
from tests.herodotus.store.memory_store import MemoryStore

SITE = "https://example.org"
HOME = f"{SITE}/"
HOST = "127.0.0.1:5484"
ORIGIN = f"http://{HOST}"


def at(digits: str) -> int:
    return parse_digits(digits + "00000101000000"[len(digits) :])


def response(
    url: str, digits: str, body: bytes, mime: str = "text/html", status: int = 200, *fields: str
) -> Deposit:
    lines = [f"HTTP/1.1 {status} Word", f"Content-Type: {mime}", *fields, "", ""]
    return make_deposit(url=url, time_s=at(digits), head="\r\n".join(lines).encode(), body=body)


def no_cache() -> Front:
    """Each answer is made anew."""
    return Front(lambda: 0, lambda: float(NOW_S))


class Library:
    def __init__(
        self, *deposits: Deposit, public_url: str = "", visits: tuple[tuple[str, str], ...] = ()
    ) -> None:
        self.store = MemoryStore(now=lambda: float(NOW_S))
        self.add(*deposits, visits=visits)
        self.catalogue = ArchiveCatalogue(self.store.archive)
        self.shelf = Shelf(lambda: self.catalogue, Machine())
        self.handlers = Handlers(
            self.status, ArchivePages(self.shelf, peer=STATUS.peer_id), public_url=public_url
        )

    def add(self, *deposits: Deposit, visits: tuple[tuple[str, str], ...] = ()) -> None:
        async def work() -> None:
            for deposit in deposits:
                await self.store.store(deposit)
            noted = [Visit(url=url, time_s=at(digits), status=304) for url, digits in visits]
            await self.store.note_visits(noted)

        anyio.run(work)

    async def status(self) -> PeerStatus:
        return STATUS

    def get(self, target: str, headers: Mapping[str, str] | None = None, method: str = "GET") -> Answer:
        given = {"host": HOST, **(headers or {})}
        return anyio.run(partial(self._read, Request(method=method, target=target, headers=given)))

    async def _read(self, request: Request) -> Answer:
        """As its reader has it in the end."""
        answer = await self.handlers.answer(request)
        if answer.passing is None:
            return answer
        return replace(answer, body=b"".join([piece async for piece in answer.passing.pieces()]))

    def location(self, target: str, headers: Mapping[str, str] | None = None) -> str:
        answer = self.get(target, headers)
        assert 300 <= answer.status < 400, (answer.status, answer.body[:300])
        return answer.headers["Location"]
