"""Is what only the operator may know told to nobody else, and to him not through somebody else's page?"""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import msgspec
import pytest

from herodotus.core.errors import UnusableArchiveError
from herodotus.core.status import PeerStatus, StoreStatus
from herodotus.portal.answer import Answer, Request
from herodotus.portal.handlers import Handlers
from tests.herodotus.portal.library import HOME, HOST, ORIGIN
from tests.herodotus.portal.rooms import TOKEN, Room
from tests.herodotus.portal.statuses import STATUS

STATUS_PATH = "/api/v1/status"
OPERATOR = {"authorization": f"Bearer {TOKEN}"}


def keys(value: Any, before: str = "") -> set[str]:
    if not isinstance(value, dict):
        return {before}
    return {name for key, one in value.items() for name in keys(one, f"{before}.{key}" if before else key)}


def told(answer: Answer) -> set[str]:
    assert answer.status == 200
    return keys(json.loads(answer.body))


PUBLIC = {
    "peer_id", "nickname", "version", "network", "network_id", "http", "started", "uptime_s",
    "ring.members", "ring.ideal", "ring.arcs",
    "crawl.known", "crawl.due", "crawl.fetched", "crawl.unchanged", "crawl.failed",
    "store.captures", "store.bytes", "store.state", "copies.1",
}  # fmt: skip
EVERYTHING = keys(msgspec.to_builtins(STATUS))


def test_a_stranger_is_told_what_machines_may_rely_on_and_no_more() -> None:
    answer = Room(client="192.0.2.9").ask(STATUS_PATH)
    assert told(answer) == PUBLIC
    assert answer.headers["Access-Control-Allow-Origin"] == "*"
    assert {"pid", "ring.address", "ring.traffic.bytes_in", "budget.month_up_bytes"} <= EVERYTHING - PUBLIC


@pytest.mark.parametrize(("client", "headers"), [("127.0.0.1", {}), ("192.0.2.9", OPERATOR)])
def test_the_operator_is_told_everything_and_nothing_keeps_it(client: str, headers: dict[str, str]) -> None:
    answer = Room(client=client).ask(STATUS_PATH, headers)
    assert told(answer) == EVERYTHING
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in answer.headers


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "http://127.0.0.1:8000"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"x-forwarded-for": "192.0.2.9"},
        {"user-agent": "Herodotus/0.1 (+https://example.org/)"},
        {"authorization": "Bearer wrong", "x-forwarded-for": "192.0.2.9"},
    ],
)
def test_a_page_or_a_proxy_on_the_operator_s_machine_is_told_what_strangers_are(
    headers: dict[str, str],
) -> None:
    assert told(Room().ask(STATUS_PATH, headers)) == PUBLIC


def test_the_portal_s_own_page_is_the_operator_s() -> None:
    own = {"origin": ORIGIN, "sec-fetch-site": "same-origin"}
    assert told(Room().ask(STATUS_PATH, own)) == EVERYTHING


def test_a_portal_without_rooms_tells_what_strangers_may_know() -> None:
    async def status() -> PeerStatus:
        return STATUS

    request = Request(target=STATUS_PATH, headers={"host": HOST}, client="127.0.0.1")
    assert told(anyio.run(partial(Handlers(status).answer, request))) == PUBLIC


def test_the_description_has_both_and_what_strangers_get_fits_the_first() -> None:
    document = json.loads(Room().ask("/api/v1/openapi.json").body)
    answer = document["paths"][STATUS_PATH]["get"]["responses"]["200"]["content"]["application/json"][
        "schema"
    ]
    assert [one["$ref"].rpartition("/")[2] for one in answer["anyOf"]] == ["PublicStatus", "PeerStatus"]
    assert set(document["components"]["schemas"]["PublicStatus"]["properties"]) == {
        name.partition(".")[0] for name in PUBLIC
    }


@pytest.mark.parametrize(
    ("ask", "is_told"),
    [
        (lambda room: room.ask(f"/web/2026/{HOME}"), b"torn"),
        (lambda room: room.ask("/api/v1/statistics"), b"torn"),
    ],
)
def test_readers_are_not_told_where_the_archive_is(ask: Callable[[Room], Answer], is_told: bytes) -> None:
    room = Room(client="192.0.2.9")

    async def closed(*arguments: object, **named: object) -> Any:
        raise UnusableArchiveError("/home/of/somebody", "torn")

    room.shelf.ask = closed  # type: ignore[method-assign]
    room.shelf.choose = closed  # type: ignore[method-assign]
    answer = ask(room)
    assert (answer.status, is_told in answer.body, b"/home" in answer.body) == (503, True, False)


@pytest.mark.parametrize(
    ("state", "words"), [("failed", b"cannot read its archive"), ("open", b"cannot store anything")]
)
def test_the_start_page_tells_of_trouble_without_its_places(state: str, words: bytes) -> None:
    room = Room()
    trouble = StoreStatus(state=state, problem="the archive in /home/of/somebody cannot be used: torn")

    async def status() -> PeerStatus:
        return replace(STATUS, store=trouble)

    request = Request(target="/", headers={"host": HOST})
    page = anyio.run(partial(Handlers(status).answer, request)).body
    assert words in page
    assert b"/home/of" not in page
    assert words not in room.ask("/").body
