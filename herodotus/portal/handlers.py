"""Which answer belongs to which request? No sockets here, so simulated peers answer the same."""

import dataclasses
from collections.abc import Awaitable, Callable
from http import HTTPStatus

from herodotus.core.status import PeerStatus
from herodotus.portal.answer import Answer, document, html, problem, text
from herodotus.portal.pages import not_found_page, start_page
from herodotus.portal.request import Request


class Handlers:
    def __init__(self, status: Callable[[], Awaitable[PeerStatus]]) -> None:
        self._status = status
        self._by_path: dict[str, Callable[[], Awaitable[Answer]]] = {
            "/": self._start,
            "/healthz": self._health,
            "/api/v1/status": self._status_document,
        }

    async def answer(self, request: Request) -> Answer:
        path = request.path
        if request.method not in ("GET", "HEAD"):
            refused = problem(HTTPStatus.METHOD_NOT_ALLOWED, f"{path[:200]} can only be read")
            return dataclasses.replace(refused, headers={**refused.headers, "Allow": "GET, HEAD"})
        handler = self._by_path.get(path)
        if handler is not None:
            return await handler()
        if path.startswith("/api/"):
            return problem(HTTPStatus.NOT_FOUND, f"there is no {path[:200]} in this interface")
        return html(not_found_page(path), HTTPStatus.NOT_FOUND)

    async def _start(self) -> Answer:
        return html(start_page(await self._status()))

    async def _health(self) -> Answer:
        return text("ok\n")

    async def _status_document(self) -> Answer:
        return document(dataclasses.asdict(await self._status()))
