"""Is a way over pages that lie on several peers found, within bounds, and is it said where somebody was not asked?"""

import json
from typing import Any

import pytest

from herodotus.portal.answer import Answer, Request
from herodotus.portal.other_holders import RELAYED, PortalAddress
from tests.herodotus.portal.library import SITE, response
from tests.herodotus.portal.rooms import Ring, Room
from tests.herodotus.portal.test_ring_lists import ORIGINS, first


def page(name: str) -> str:
    return f"{SITE}/{name}"


def linked(*links: tuple[str, str]) -> Ring:
    """Each page on a peer of its own, in turn."""
    ring = Ring()
    for number, origin in enumerate(ORIGINS):
        deposits = [
            response(page(name), "20260105", f'<a href="/{target}">x</a>'.encode())
            for name, target in links[number :: len(ORIGINS)]
        ]
        Room(*deposits, ring=ring, origin=origin)
    return ring


def way(ring: Ring, start: str, goal: str, more: str = "&scope=ring") -> dict[str, Any]:
    answer = first(ring).ask(f"/api/v1/paths?from={page(start)}&to={page(goal)}{more}")
    assert answer.status == 200, answer.body
    found: dict[str, Any] = json.loads(answer.body)
    return found


CHAIN = (("a", "b"), ("b", "c"), ("c", "d"), ("d", "e"))


def test_a_way_over_pages_of_several_peers_is_found_where_all_are_asked() -> None:
    ring = linked(*CHAIN)
    found = way(ring, "a", "e")
    assert found["urls"] == [page(name) for name in "abcde"]
    assert (found["is_exhaustive"], found["is_partial"], found["is_current"]) == (True, False, True)
    alone = way(ring, "a", "e", "")
    assert (alone["urls"], alone["is_exhaustive"]) == ([], True), "as far as its own pages tell"


def test_a_page_leads_to_itself_without_asking() -> None:
    ring = linked(*CHAIN)
    assert way(ring, "c", "c")["urls"] == [page("c")]
    assert ring.questions == []


def test_that_there_is_no_way_is_said_only_where_all_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    ring = linked(*CHAIN)
    nowhere = way(ring, "e", "a")
    assert (nowhere["urls"], nowhere["is_exhaustive"]) == ([], True)
    short = way(ring, "a", "e", "&scope=ring&steps=2")
    assert (short["urls"], short["is_exhaustive"]) == ([], False)
    monkeypatch.setattr("herodotus.portal.api.paths.PAGES_ASKED_MAX", 2)
    given_up = way(ring, "a", "e")
    assert (given_up["urls"], given_up["is_exhaustive"], given_up["pages"]) == ([], False, 3)


def test_a_peer_that_does_not_answer_is_told_of() -> None:
    ring = linked(*CHAIN)
    ring.stale.append("http://192.0.2.99:5484")
    found = way(ring, "a", "e")
    assert (found["urls"][0], found["is_partial"]) == (page("a"), True)


def test_a_search_that_takes_too_long_tells_what_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.portal.api.paths.PATIENCE_S", 0.0)
    found = way(linked(*CHAIN), "a", "e")
    assert (found["urls"], found["is_exhaustive"]) == ([], False)


def test_who_asks_for_another_peer_s_sake_gets_this_peer_s_pages_alone() -> None:
    ring = linked(*CHAIN)
    target = f"/api/v1/paths?from={page('a')}&to={page('e')}&scope=ring"
    found = json.loads(first(ring).ask(target, {RELAYED: "1"}).body)
    assert (found["urls"], ring.questions) == ([], [])


def test_a_share_that_is_used_up_ends_the_search() -> None:
    ring = linked(*CHAIN)
    room = first(ring)
    room.client = "192.0.2.200"
    target = f"/api/v1/paths?from={page('a')}&to={page('e')}&scope=ring"
    statuses = [room.ask(target).status for _ in range(12)]
    assert statuses[0] == 200
    assert 429 in statuses


def test_a_link_from_what_is_no_web_page_ends_no_search() -> None:
    ring = linked(*CHAIN)
    honest, liar = ring.fetch, "http://192.0.2.66:5484"

    async def fetch(place: PortalAddress, request: Request) -> Answer | None:
        if place.origin != liar:
            return await honest(place, request)
        day = "2026-01-01T00:00:00Z"
        link = {"url": "ftp://x", "first_seen": day, "last_seen": day}
        facts = {"url": "", "links": [link], "is_current": True, "is_partial": False, "next": None}
        return Answer(content_type="application/json", body=json.dumps(facts).encode())

    ring.stale.append(liar)
    ring.fetch = fetch  # type: ignore[method-assign]  # one peer is not what it seems
    found = way(ring, "a", "e")
    assert found["urls"] == [page(name) for name in "abcde"]
    assert first(ring).rooms.disbelieved == 0, "it was believed, and followed"
