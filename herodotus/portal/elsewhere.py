"""Who else may have what this peer has not, and how does the reader get it? A redirect, or a relayed answer.

The ring says who holds an address. A window goes there by itself (301, as in the thesis); what a page embeds is
relayed, because its policy lets it ask this portal alone. Views of the ring may be stale: a holder sends nobody on,
it asks the other holders itself; a relayed request is never relayed again; and the same question by the same reader
is sent on a few times only, so no circle is gone through for long.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Protocol

import anyio

from herodotus.core.replay import Flag, wants_frame
from herodotus.portal.answer import PUBLIC, Answer, moved
from herodotus.portal.request import Request

RELAYED = "x-herodotus-relayed"
ASKED_MAX = 5
"""Holders that are tried for one request: all the others of six copies."""
SENT_ON_MAX = 3
"""Times within `SENT_ON_S`; browsers give up after some 20 redirects."""
SENT_ON_S = 10.0
_REMEMBERED_MAX = 4_096
KEEPERS_ASKED_S = 0.5
"""A page does not wait longer to tell who else has it; whoever did not answer is not named."""
KEEPERS_KEPT_S = 600.0
_KEEPERS_KEPT_MAX = 1_024
_LINKING_TYPES = ("application/link-format", "application/json", "application/cdxj")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """A peer's portal."""

    origin: str
    is_self: bool = False
    name: str = ""
    """Short form of the peer's id."""


class Directions(Protocol):
    async def holders(self, url: str) -> tuple[Place, ...]:
        """Who should have the URL, in the ring's order, as far as it seems to live; empty where nobody knows."""
        ...


class Relay(Protocol):
    async def fetch(self, place: Place, request: Request) -> Answer | None:
        """Another peer's answer, whole; None where it gives none in time, or one that is too large."""
        ...


class Elsewhere:
    def __init__(
        self, directions: Directions, relay: Relay, *, now: Callable[[], float], is_gateway: bool = False
    ) -> None:
        self._directions = directions
        self._relay = relay
        self._now = now
        self._is_gateway = is_gateway
        self._keepers: OrderedDict[str, tuple[float, tuple[Place, ...]]] = OrderedDict()
        self._sent_on: OrderedDict[tuple[str, str], tuple[float, int]] = OrderedDict()

    async def answer(
        self, request: Request, url: str, origin: str, flag: Flag | None = None
    ) -> Answer | None:
        """None: what this peer says counts."""
        if request.header(RELAYED):
            return None
        holders = await self._directions.holders(url)
        others = tuple(place for place in holders if not place.is_self)
        if not others:
            return None
        if len(others) < len(holders):  # we should have it ourselves: the other holders may have it already
            return await self._relayed(request, others, origin)
        if self._is_gateway or self._must_relay(request, flag):
            return await self._relayed(request, holders, origin)
        if not self._may_send_on(request):
            return None
        target = f"{holders[0].origin}{request.target}"
        if not (target.isascii() and target.isprintable()):
            return None
        return moved(target, HTTPStatus.MOVED_PERMANENTLY, {"Cache-Control": "max-age=60", **PUBLIC})

    async def keepers(self, url: str, memento: str) -> tuple[Place, ...]:
        """The other peers that have this very capture: those that should, asked whether they do. `memento` is its
        raw address, a path."""
        now = self._now()
        known = self._keepers.get(memento)
        if known is not None and now - known[0] < KEEPERS_KEPT_S:
            return known[1]
        others = [place for place in await self._directions.holders(url) if not place.is_self][:ASKED_MAX]
        found: set[str] = set()

        async def ask(place: Place) -> None:
            answer = await self._relay.fetch(
                place, Request(method="HEAD", target=memento, headers={RELAYED: "1"})
            )
            if answer is not None and answer.status is HTTPStatus.OK:
                found.add(place.origin)

        with anyio.move_on_after(KEEPERS_ASKED_S):
            async with anyio.create_task_group() as tasks:
                for place in others:
                    tasks.start_soon(ask, place)
        keepers = tuple(place for place in others if place.origin in found)
        self._keepers.pop(memento, None)
        self._keepers[memento] = now, keepers
        while len(self._keepers) > _KEEPERS_KEPT_MAX:
            self._keepers.popitem(last=False)
        return keepers

    def _must_relay(self, request: Request, flag: Flag | None) -> bool:
        """What is shown within a page of ours; a program that asks for raw bytes may go there itself."""
        if flag is None or flag is Flag.PAGE:
            return False
        return not wants_frame(request.headers) and not flag.is_raw

    def _may_send_on(self, request: Request) -> bool:
        now, key = self._now(), (request.client, request.target)
        since, count = self._sent_on.pop(key, (now, 0))
        if now - since > SENT_ON_S:
            since, count = now, 0
        self._sent_on[key] = since, count + 1
        while len(self._sent_on) > _REMEMBERED_MAX:
            self._sent_on.popitem(last=False)
        return count < SENT_ON_MAX

    async def _relayed(self, request: Request, holders: tuple[Place, ...], origin: str) -> Answer | None:
        marked = replace(request, headers={**request.headers, RELAYED: "1"})
        for place in holders[:ASKED_MAX]:
            answer = await self._relay.fetch(place, marked)
            if answer is not None and answer.status != HTTPStatus.NOT_FOUND:
                return translated(answer, place.origin, origin)
        return None


def translated(answer: Answer, there: str, here: str) -> Answer:
    """As if we had said it: the other peer's own address becomes ours, in headers and lists of mementos."""
    headers = {name: value.replace(there, here) for name, value in answer.headers.items()}
    body = answer.body
    if answer.content_type.startswith(_LINKING_TYPES) and "Content-Encoding" not in headers:
        body = body.replace(f"{there}/web/".encode(), f"{here}/web/".encode())
    return replace(answer, headers=headers, body=body)
