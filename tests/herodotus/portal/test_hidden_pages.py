"""Does a reader find anything of a page that was removed here, whatever is asked? And all of it afterwards?"""

import json

import anyio
import pytest

from herodotus.core.removals import NOTHING_REMOVED, Removals, subject_of
from herodotus.portal.answer import Request
from herodotus.store.sealing import seal
from tests.herodotus.deposits import payload_digest
from tests.herodotus.portal.library import HOME, HOST, SITE, response
from tests.herodotus.portal.rooms import Ring, Room

SECRET = f"{SITE}/private/secret"
BODY = b"<p>a word that nobody may read: abracadabra"
RULES = {
    "url": ("url", SECRET),
    "prefix": ("prefix", f"{SITE}/private/"),
    "host": ("host", "example.org"),
    "digest": ("digest", payload_digest(BODY)),
}
QUESTIONS = (
    f"/web/20260102id_/{SECRET}",
    f"/web/20260102/{SECRET}",
    f"/web/*/{SECRET}",
    f"/web/*/{SITE}/*",
    f"/web/timemap/link/{SECRET}",
    f"/web/timemap/json/{SECRET}",
    f"/web/{SECRET}",
    f"/web/diff/20260102/20260103/{SECRET}",
    f"/cdx?url={SECRET}&output=json",
    f"/cdx?url={SITE}/*&output=json",
    "/cdx?url=example.org&matchType=domain&output=json",
    f"/wayback/available?url={SECRET}",
    "/api/v1/addresses?q=secret",
    f"/api/v1/captures?url={SECRET}",
    f"/api/v1/records?url={SECRET}&date=20260102",
    f"/api/v1/records/warc?url={SECRET}&date=20260102",
    f"/api/v1/nearest?url={SECRET}&date=20260102000000",
    f"/api/v1/completeness?url={SECRET}",
    f"/api/v1/outlinks?url={SECRET}",
    f"/api/v1/inlinks?url={SITE}/of-it",
    "/api/v1/sample?seed=a&limit=100",
    "/api/v1/stream?limit=100",
    "/api/v1/stream?host=example.org&limit=100",
    "/api/v1/stream?form=warc&limit=100",
    "/api/v1/containers/{number}/records?limit=1000",
)


def told(room: Room) -> dict[str, bytes]:
    """All that a reader gets to know, with what was asked taken out."""
    number = json.loads(room.ask("/api/v1/containers").body)["containers"][-1]["number"]
    found = {}
    for question in QUESTIONS:
        answer = room.ask(question.format(number=number))
        found[question] = answer.body + repr(sorted(answer.headers.items())).encode()
    return found


def says(told: bytes) -> bool:
    return b"abracadabra" in told or b"2026-01-02T" in told or b"20260102101112" in told


@pytest.fixture(params=[False, True], ids=["log", "sealed"])
def room(request: pytest.FixtureRequest) -> Room:
    made = Room(
        response(HOME, "20260105", b"<p>start"),
        response(SECRET, "20260102101112", BODY),
        response(f"{SITE}/private/other", "20260105", b"<p>a second page"),
        response("https://another.example/", "20260105", b"<p>of somebody else"),
    )
    made.survey()
    if request.param:
        seal(made.store.archive)
    return made


@pytest.mark.parametrize("kind", RULES)
def test_nothing_that_readers_ask_tells_of_a_removed_page(room: Room, kind: str) -> None:
    before = told(room)
    telling = {question for question, said in before.items() if says(said)}
    assert len(telling) >= 14, "the questions ask for it"
    room.store.archive.removed = Removals.of_subjects([subject_of(*RULES[kind])])
    hidden = told(room)
    assert {question for question, said in hidden.items() if says(said)} == set()
    others = room.ask("/cdx?url=another.example/&output=json").body
    assert b"another.example" in others
    room.store.archive.removed = NOTHING_REMOVED
    assert {question for question, said in told(room).items() if says(said)} == telling


def test_a_removed_host_is_not_named_among_the_hosts(room: Room) -> None:
    def hosts() -> set[str]:
        counts = json.loads(room.ask("/api/v1/statistics/host").body)["counts"]
        return {one["value"] for one in counts}

    assert hosts() == {"example.org", "another.example"}
    room.store.archive.removed = Removals.of_subjects([subject_of("host", "example.org")])
    assert hosts() == {"another.example"}


def test_what_was_removed_here_is_not_fetched_from_other_holders_nor_listed_for_them() -> None:
    ring = Ring()
    pages = (response(SECRET, "20260102101112", BODY), response(f"{SITE}/open", "20260105", b"<p>open"))
    own, other = Room(*pages, ring=ring), Room(*pages, ring=ring, origin="http://192.0.2.9:5484")
    ring.holders_of = lambda _: (f"http://{HOST}", "http://192.0.2.9:5484")
    questions = (
        f"/web/20260102id_/{SECRET}",
        f"/web/20260102/{SECRET}",
        f"/web/*/{SITE}/*",
        f"/cdx?url={SITE}/*&output=json",
        f"/api/v1/captures?url={SECRET}",
    )
    own.store.archive.removed = Removals.of_subjects([subject_of("url", SECRET)])

    async def asked(room: Room, question: str) -> bytes:
        async with room.rooms.opened():
            request = Request(method="GET", target=question, headers={"host": HOST}, client=room.client)
            return (await room.handlers.answer(request)).body

    said = {question: anyio.run(asked, own, question) for question in questions}
    told_of = {
        question
        for question, body in said.items()
        if says(body) or (SECRET not in question and b"/private/secret" in body)
    }
    assert told_of == set()
    assert b"/open" in said[questions[3]]
    assert other.store.archive.captures == 2
    own.store.archive.removed = NOTHING_REMOVED
    assert b"/private/secret" in anyio.run(asked, own, questions[3])
