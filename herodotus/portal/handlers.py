"""Which answer belongs to which request? No sockets here, so simulated peers answer the same."""

import dataclasses
from collections.abc import Callable
from http import HTTPStatus

from herodotus.core.status import PeerStatus
from herodotus.portal.answer import Answer, document, html, problem, text
from herodotus.portal.pages import not_found_page, start_page


class Handlers:
    def __init__(self, status: Callable[[], PeerStatus]) -> None:
        self._status = status
        self._by_path: dict[str, Callable[[], Answer]] = {
            "/": lambda: html(start_page(self._status())),
            "/healthz": lambda: text("ok\n"),
            "/api/v1/status": lambda: document(dataclasses.asdict(self._status())),
        }

    def answer(self, method: str, path: str) -> Answer:
        if method not in ("GET", "HEAD"):
            refused = problem(HTTPStatus.METHOD_NOT_ALLOWED, f"{path[:200]} can only be read")
            return dataclasses.replace(refused, headers={**refused.headers, "Allow": "GET, HEAD"})
        handler = self._by_path.get(path)
        if handler is not None:
            return handler()
        if path.startswith("/api/"):
            return problem(HTTPStatus.NOT_FOUND, f"there is no {path[:200]} in this interface")
        return html(not_found_page(path), HTTPStatus.NOT_FOUND)
