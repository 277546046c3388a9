"""Which answer belongs to which request? No sockets here, so simulated peers answer the same."""

import dataclasses
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Protocol
from urllib.parse import urlsplit

import msgspec

from herodotus.core.replay import GUARD_PATH, WORKER_PATH, checked_origin, stray_target
from herodotus.core.status import PeerStatus
from herodotus.portal.answer import PUBLIC, Answer, document, html, moved, problem, text
from herodotus.portal.api.network import public_status
from herodotus.portal.archive_pages import ArchivePages, Asked, failure
from herodotus.portal.http_finish import finished
from herodotus.portal.pages import not_found_page, start_page
from herodotus.portal.request import Request
from herodotus.portal.request_guards import origin_of, refusal

_PREFLIGHT = {
    **PUBLIC,
    "Access-Control-Allow-Methods": "GET, HEAD",
    "Access-Control-Allow-Headers": "*",
    "Access-Control-Max-Age": "86400",
}


_IS_REPLAYED = re.compile(
    rf"/web/(?:\d{{4,14}}(?:[a-z]{{2}}_)?/|{re.escape(GUARD_PATH)}$|{re.escape(WORKER_PATH)}$)"
)


class Room(Protocol):
    """A part of the portal with paths of its own."""

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
        replay_url: str = "",
        rooms: Sequence[Room] = (),
    ) -> None:
        """`replay_url`: a name under which there are archived pages and nothing else."""
        self.answered: Counter[int] = Counter()
        """Requests by the status of their answers."""
        self._rooms = tuple(rooms)
        self._status = status
        self._archive = archive
        self._replay_origin = next(iter(_hosts_of(replay_url).values()), None)
        self._known_hosts = {**_hosts_of(public_url), **_hosts_of(replay_url)}
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
        host = request.header("host")
        origin = origin_of(host, self._known_hosts) if host else ""
        is_replay = origin is not None and origin == self._replay_origin
        refused = refusal(request, is_known_host=origin is not None, is_replay_host=is_replay)
        if refused is not None:
            return refused
        try:
            request.parameters()
        except ValueError:
            return failure(request, HTTPStatus.BAD_REQUEST, "too many parameters")
        answer = await self._routed(Asked(request=request, origin=origin or "", is_replay=is_replay))
        return finished(request, answer)

    async def _routed(self, asked: Asked) -> Answer:
        request, path = asked.request, asked.request.path
        for room in () if asked.is_replay else self._rooms:
            answer = await room.answer(asked)
            if answer is not None:
                return answer
        if request.method not in ("GET", "HEAD"):
            return self._not_read(request)
        if asked.is_replay and not _IS_REPLAYED.match(path):
            return self._led_back(asked) or problem(HTTPStatus.NOT_FOUND, "this name has archived pages only")
        handler = self._by_path.get(path)
        if handler is not None:
            return await handler()
        if self._archive is not None:
            answer = await self._archive.answer(asked)
            if answer is not None:
                return answer
        stray = self._led_back(asked)
        if stray is not None:
            return stray
        if path.startswith("/api/"):
            return problem(HTTPStatus.NOT_FOUND, f"this interface has no {path[:200]}")
        return html(not_found_page(path), HTTPStatus.NOT_FOUND)

    def _led_back(self, asked: Asked) -> Answer | None:
        """Of what an archived page asked for at its site's root."""
        request = asked.request
        stray = stray_target(
            request.target,
            request.header("referer") or None,
            asked.origin,
            destination=request.header("sec-fetch-dest"),
        )
        if stray is None or not (stray.isascii() and stray.isprintable()):
            return None
        return moved(stray, headers={"Vary": "Referer", **PUBLIC})

    def _not_read(self, request: Request) -> Answer:
        if request.method == "OPTIONS" and request.header("access-control-request-method") in ("GET", "HEAD"):
            return Answer(
                status=HTTPStatus.NO_CONTENT, content_type="text/plain", body=b"", headers=dict(_PREFLIGHT)
            )
        refused = problem(HTTPStatus.METHOD_NOT_ALLOWED, f"{request.path[:200]} allows reading only")
        return dataclasses.replace(refused, headers={**refused.headers, "Allow": "GET, HEAD"})

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
