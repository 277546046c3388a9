"""Does a reader find what other peers have, is nobody asked in circles, and can one holder invent or hide anything?"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import pytest
from trio.testing import MockClock

from herodotus.core.removals import Removals, subject_of
from herodotus.machine import Machine
from herodotus.portal.answer import Answer, Request
from herodotus.portal.archive_pages import TOLD_BY_ONE, ArchivePages
from herodotus.portal.client_limits import ClientLimits
from herodotus.portal.differences import DiffPages
from herodotus.portal.handlers import Handlers
from herodotus.portal.other_holders import (
    HISTORY_KEPT_S,
    KEEPERS_KEPT_S,
    MISS_KEPT_S,
    ONE_WORD_S,
    PATIENCE_S,
    RELAYED_S,
    Elsewhere,
    PortalAddress,
)
from tests.herodotus.portal.library import HOME, HOST, SITE, Library, response
from tests.herodotus.portal.rooms import Room

A, B, C, D, E = (f"http://192.0.2.{n}:5484" for n in (1, 2, 3, 4, 5))
DATE = "20260101000000"
Lie = Callable[[Request], Answer | None]


@dataclass
class Fixed:
    """Everybody is believed to hold everything; what is fetched comes from the libraries, or is a lie."""

    places: tuple[PortalAddress, ...]
    libraries: dict[str, Library] = field(default_factory=dict)
    lies: dict[str, Lie] = field(default_factory=dict)
    fetched: list[tuple[str, str]] = field(default_factory=list)
    elsewhere: dict[str, tuple[PortalAddress, ...]] = field(default_factory=dict)
    """Holders of some addresses."""

    async def holders(self, url: str) -> tuple[PortalAddress, ...]:
        return self.elsewhere.get(url, self.places)

    async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
        self.fetched.append((place.origin, request.target))
        if place.origin in self.lies:
            return self.lies[place.origin](request)
        library = self.libraries.get(place.origin)
        if library is None:
            return None
        there = replace(request, headers={**request.headers, "host": place.origin.removeprefix("http://")})
        return await library.handlers.answer(there)


class Asker:
    """A peer without the page, and what it believes of the others."""

    def __init__(self, *places: PortalAddress, **libraries: Library) -> None:
        self.now = 0.0
        self.ring = Fixed(places, {dict(zip("abcde", (A, B, C, D, E), strict=True))[name]: one
                                   for name, one in libraries.items()})  # fmt: skip
        self.own = Library()
        self.elsewhere = Elsewhere(
            self.ring, self.ring, Machine(), now=lambda: self.now, catalogue=lambda: self.own.catalogue
        )
        diffs = DiffPages(self.own.shelf, ClientLimits(lambda: 0.0), self.elsewhere)
        pages = ArchivePages(self.own.shelf, elsewhere=self.elsewhere, peer="us")
        self.handlers = Handlers(self.own.status, pages, rooms=[diffs])

    def get(self, target: str, **headers: str) -> Answer:
        given = {"host": HOST} | {name.replace("_", "-"): value for name, value in headers.items()}
        return anyio.run(
            partial(self.handlers.answer, Request(target=target, headers=given, client="192.0.2.9"))
        )


def places(*origins: str) -> list[PortalAddress]:
    return [PortalAddress(origin=one, name=f"name-{one[-6]}") for one in origins]


def holding(*bodies: tuple[str, bytes]) -> Library:
    """A peer's portal with its REST interface."""
    return Room(*(response(HOME, digits, body) for digits, body in bodies))


@pytest.fixture
def holder() -> Library:
    return Room(
        response(HOME, "20260101", b"<p>there"), response(f"{SITE}/i.png", "20260101", b"png", "image/png")
    )


QUESTIONS = [f"/web/*/{HOME}", f"/web/2026/{HOME}", f"/web/{HOME}", f"/web/timemap/link/{HOME}",
             f"/web/timemap/json/{HOME}", f"/web/timemap/cdxj/{HOME}", f"/web/{DATE}/{HOME}", f"/web/{DATE}id_/{HOME}",
             f"/cdx/search/cdx?url={HOME}", f"/wayback/available?url={HOME}",
             f"/web/diff/{DATE}/{DATE}/{HOME}"]  # fmt: skip


@pytest.mark.parametrize("target", QUESTIONS)
def test_what_is_not_here_is_shown_here_from_what_others_have(target: str, holder: Library) -> None:
    asker = Asker(*places(A, B), a=holder, b=holder)
    answer, there = asker.get(target), anyio.run(
        holder.handlers.answer, Request(target=target, headers={"host": HOST})
    )  # fmt: skip
    assert (answer.status, answer.body) == (there.status, there.body)
    assert answer.headers.get("Location") == there.headers.get("Location")
    assert A not in json.dumps([answer.body.decode("latin-1"), answer.headers])
    assert answer.headers["X-Herodotus-Confirmed"] == "true"
    assert answer.headers["X-Herodotus-Peer"] == "name-1, name-2"
    assert not answer.is_of_archive_alone  # it is no answer to keep until something is stored here


@pytest.mark.parametrize("target", QUESTIONS)
def test_what_one_holder_alone_invents_of_a_page_is_shown_to_nobody(target: str, holder: Library) -> None:
    """Also where it is the first one, and tells all that the others tell."""
    liar = holding(("20250601", b"<p>invented"), ("20260101", b"<p>there"), ("20260201", b"<p>invented"))
    told = Asker(*places(A, B, C), a=liar, b=holder, c=holder).get(target)
    honest = Asker(*places(B, C), b=holder, c=holder).get(target)
    assert (told.status, told.body) == (honest.status, honest.body)
    assert b"2025" not in told.body
    assert told.headers.get("Location") == honest.headers.get("Location")


def test_other_bytes_than_those_that_were_told_are_not_shown(holder: Library) -> None:
    """A liar that tells the truth until it is asked for the capture."""
    liar = holding(("20260101", b"<p>invented"))

    asker = Asker(*places(A, B), b=holder)
    asked: list[str] = []

    async def fetch(place: PortalAddress, request: Request) -> Answer | None:
        source = holder if place.origin == B or request.path.startswith("/web/*/") else liar
        asked.append(place.origin)
        return await source.handlers.answer(replace(request, headers={**request.headers, "host": HOST}))

    asker.ring.fetch = fetch  # type: ignore[method-assign]  # it answers by what it is asked for
    assert b"<p>there" in asker.get(f"/web/{DATE}/{HOME}").body
    assert asked[-2:] == [A, B]  # the liar's record was not believed


@pytest.mark.parametrize("first", [Library(), None], ids=["denies it", "is silent"])
@pytest.mark.parametrize(
    "target", [f"/web/*/{HOME}", f"/web/20260101000000/{HOME}", f"/web/timemap/link/{HOME}"]
)
def test_a_first_holder_cannot_hide_what_another_one_has(
    first: Library | None, target: str, holder: Library
) -> None:
    asker = Asker(*places(A, B, C), b=holder)
    if first is not None:
        asker.ring.libraries[A] = first
    answer = asker.get(target)
    assert (answer.status, answer.headers["X-Herodotus-Confirmed"]) == (200, "false")


def test_what_one_holder_alone_tells_is_called_so(holder: Library) -> None:
    asker = Asker(*places(A, B), b=holder)
    assert f"This history is {TOLD_BY_ONE}.".encode() in asker.get(f"/web/*/{HOME}").body
    shown = asker.get(f"/web/{DATE}/{HOME}")
    assert TOLD_BY_ONE.encode() in shown.body
    assert shown.headers["Cache-Control"] == "no-cache"
    both = Asker(*places(A, B), a=holder, b=holder)
    assert TOLD_BY_ONE.encode() not in both.get(f"/web/*/{HOME}").body + both.get(f"/web/{DATE}/{HOME}").body


def test_two_keys_of_one_place_confirm_nothing(holder: Library) -> None:
    liar = holding(("20250601", b"<p>invented"))
    of_one = [replace(one, place=b"\4\300\0\2") for one in places(A, B)]
    asker = Asker(*of_one, *places(C, D), a=liar, b=liar, c=holder, d=holder)
    assert b"2025" not in asker.get(f"/web/timemap/json/{HOME}").body
    alone = Asker(*of_one, a=liar, b=liar)
    assert alone.get(f"/web/timemap/json/{HOME}").headers["X-Herodotus-Confirmed"] == "false"


def test_rows_that_not_all_have_are_found_by_asking_the_others() -> None:
    old, new = ("20250101", b"<p>old"), ("20260101", b"<p>new")
    asker = Asker(
        *places(A, B, C, D), a=holding(old, new), b=holding(new), c=holding(new), d=holding(old, new)
    )
    rows = json.loads(asker.get(f"/web/*/{HOME}", accept="application/json").body)
    assert [row["date"][:4] for row in rows] == ["2025", "2026"]
    assert len(asker.ring.fetched) == 4


def test_where_three_holders_tell_the_same_nobody_else_is_asked(holder: Library) -> None:
    asker = Asker(*places(A, B, C, D, E), a=holder, b=holder, c=holder, d=holder, e=holder)
    assert asker.get(f"/web/*/{HOME}").status == 200
    assert [origin for origin, _ in asker.ring.fetched] == [A, B, C]
    asker.get(f"/web/2026/{HOME}")
    assert len(asker.ring.fetched) == 3  # known for a while
    asker.now = HISTORY_KEPT_S + 1
    asker.get(f"/web/2026/{HOME}")
    assert len(asker.ring.fetched) == 6


def test_a_record_is_fetched_once_for_the_page_and_what_is_around_it(holder: Library) -> None:
    asker = Asker(*places(A, B), a=holder, b=holder)
    around = asker.get(f"/web/{DATE}/{HOME}", sec_fetch_dest="document")
    assert f'data-box="/web/{DATE}mp_/{HOME}"'.encode() in around.body
    assert b"<p>there" in asker.get(f"/web/{DATE}mp_/{HOME}").body
    assert sum("records/warc" in target for _, target in asker.ring.fetched) == 1


def test_later_visits_count_as_two_places_tell_them() -> None:
    visited = Room(response(HOME, "20260101", b"1"), visits=((HOME, "20260301"),))
    boasting = Room(response(HOME, "20260101", b"1"), visits=((HOME, "20261101"),))
    plain = Room(response(HOME, "20260101", b"1"))
    for rooms, last in (((boasting, visited, plain), "2026-03-01"), ((boasting, plain, plain), "2026-01-01")):
        asker = Asker(*places(A, B, C), **dict(zip("abc", rooms, strict=True)))
        (row,) = json.loads(asker.get(f"/web/*/{HOME}", accept="application/json").body)
        assert row["last_seen"][:10] == last


def test_who_is_a_holder_himself_and_lacks_it_asks_the_others(holder: Library) -> None:
    own = PortalAddress(origin="", is_self=True)
    assert Asker(own, *places(A)).get(f"/web/*/{HOME}").status == 404
    asker = Asker(own, *places(A, B, C), b=holder, c=holder)
    assert b"<p>there" in asker.get(f"/web/{DATE}/{HOME}").body


def test_where_nobody_lives_the_page_says_what_is_known_here() -> None:
    assert Asker().get(f"/web/*/{HOME}").status == 404


def test_what_a_page_embeds_is_shown_as_if_it_were_here(holder: Library) -> None:
    asker = Asker(*places(A, B, C), b=holder, c=holder)
    answer = asker.get(f"/web/{DATE}im_/{SITE}/i.png", sec_fetch_dest="image")
    assert (answer.status, answer.body) == (200, b"png")
    assert f"<http://{HOST}/web/{SITE}/i.png>" in answer.headers["Link"]
    part = asker.get(f"/web/{DATE}im_/{SITE}/i.png", sec_fetch_dest="image", range="bytes=1-2")
    assert (part.status, part.body, part.headers["Content-Range"]) == (206, b"ng", "bytes 1-2/3")


def test_a_question_for_another_peer_s_reader_goes_no_further() -> None:
    asker = Asker(*places(A))
    assert asker.get(f"/web/*/{HOME}", x_herodotus_relayed="1").status == 404
    assert asker.ring.fetched == []


def test_what_was_removed_here_is_not_shown_from_others() -> None:
    one, two = ("20250101", b"<p>one"), ("20260101", b"<p>two")
    asker = Asker(*places(A, B), a=holding(one, two), b=holding(one, two))
    rows = json.loads(asker.get(f"/web/*/{HOME}", accept="application/json").body)
    digest = rows[0]["digest"].removeprefix("sha256:")
    asker.now = HISTORY_KEPT_S + 1
    asker.own.store.archive.removed = Removals.of_subjects([subject_of("digest", digest)])
    assert b"2025" not in asker.get(f"/web/timemap/json/{HOME}").body
    asker.own.store.archive.removed = Removals.of_subjects([subject_of("host", "example.org")])
    asker.now += HISTORY_KEPT_S + 1
    asker.ring.fetched.clear()
    assert asker.get(f"/web/timemap/json/{HOME}").status == 404
    assert asker.ring.fetched == []  # and nobody is told what readers here look for


def test_a_capture_that_nobody_gives_now_is_told_of_in_our_words(holder: Library) -> None:
    rows = Asker(*places(A, B), a=holder, b=holder).get(f"/web/*/{HOME}", accept="application/json")

    def lie(request: Request) -> Answer | None:
        return replace(rows, headers={}) if request.path.startswith("/web/*/") else None

    asker = Asker(*places(A, B))
    asker.ring.lies = {A: lie, B: lie}
    answer = asker.get(f"/web/{DATE}/{HOME}")
    assert (answer.status, answer.headers["Retry-After"]) == (503, "5")


@pytest.mark.usefixtures("in_place")
@pytest.mark.parametrize(
    ("silent", "least_s", "most_s"),
    [((A,), PATIENCE_S, 2 * PATIENCE_S), ((A, B), ONE_WORD_S, ONE_WORD_S + 1), ((A, B, C), RELAYED_S, 21)],
    ids=["one of three", "two of three", "all"],
)
def test_nobody_waits_long_for_silent_holders(
    silent: tuple[str, ...], least_s: float, most_s: float, holder: Library
) -> None:
    class Slow(Fixed):
        async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
            if place.origin in silent:
                await anyio.sleep_forever()
            return await super().fetch(place, request)

    own = Library()
    ring = Slow(tuple(places(A, B, C)), {A: holder, B: holder, C: holder})
    elsewhere = Elsewhere(ring, ring, Machine(), now=anyio.current_time, catalogue=lambda: own.catalogue)
    handlers = Handlers(own.status, ArchivePages(own.shelf, elsewhere=elsewhere))

    async def work() -> float:
        started = anyio.current_time()
        answer = await handlers.answer(Request(target=f"/web/*/{HOME}", headers={"host": HOST}))
        assert answer.status == (404 if len(silent) == 3 else 200)
        return anyio.current_time() - started

    waited = anyio.run(work, backend="trio", backend_options={"clock": MockClock(autojump_threshold=0)})
    assert least_s <= waited <= most_s


# -- who else has it? -------------------------------------------------------------------------------------


def test_the_banner_names_the_others_that_have_this_very_capture(holder: Library) -> None:
    """Not those that should have it and have another day, or do not answer."""
    other_day = Library(response(HOME, "20260102", b"<p>another day"))
    asker = Asker(
        PortalAddress(origin="", is_self=True), PortalAddress(origin=A, name="aaaa-aaaa"),
        PortalAddress(origin=B, name="bbbb-bbbb"),
        PortalAddress(origin=C, name="cccc-cccc"), a=other_day, b=holder,
    )  # fmt: skip
    asker.own.add(response(HOME, "20260101", b"<p>there"))
    page = asker.get(f"/web/20260101000000/{HOME}", sec_fetch_dest="document").body.decode()
    assert "kept by 2:" in page
    assert f'<a href="{B}/">bbbb-bbbb</a>' in page
    assert "aaaa-aaaa" not in page
    assert "cccc-cccc" not in page
    asked = len(asker.ring.fetched)
    within = asker.get(f"/web/20260101000000/{HOME}").body.decode()
    assert "bbbb-bbbb" in within
    assert len(asker.ring.fetched) == asked  # known for a while
    asker.now = KEEPERS_KEPT_S + 1
    del asker.ring.libraries[B]
    assert "bbbb-bbbb" not in asker.get(f"/web/20260101000000/{HOME}").body.decode()


def test_the_banner_waits_for_no_peer_that_is_slow(holder: Library) -> None:
    class Silent(Fixed):
        async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
            await anyio.sleep_forever()
            raise AssertionError

    asker = Asker(PortalAddress(origin="", is_self=True), PortalAddress(origin=B, name="bbbb-bbbb"), b=holder)
    asker.own.add(response(HOME, "20260101", b"<p>there"))
    asker.elsewhere._relay = Silent(())
    page = asker.get(f"/web/20260101000000/{HOME}", sec_fetch_dest="document").body
    assert b"20260101000000mp_" in page
    assert b"kept by" not in page


def test_without_a_banner_nobody_is_asked(holder: Library) -> None:
    asker = Asker(PortalAddress(origin="", is_self=True), PortalAddress(origin=B), b=holder)
    asker.own.add(response(HOME, "20260101", b"<p>there"))
    pages = ArchivePages(asker.own.shelf, has_banner=False, elsewhere=asker.elsewhere)
    asker.handlers = Handlers(asker.own.status, pages)
    page = asker.get(f"/web/20260101000000/{HOME}", sec_fetch_dest="document").body
    assert b"herodotus-banner" not in page
    assert b"<iframe" not in page
    assert asker.ring.fetched == []


# -- other spellings of an address --------------------------------------------------------------------------

OTHERS = [
    ("https://a.example/page", "http://a.example/page"), ("http://a.example/page", "http://www.a.example/page"),
    ("http://A.example:80/page", "http://a.example/page"), ("http://bücher.example/", "http://xn--bcher-kva.example/"),
    ("http://a.example/dir/", "http://a.example/dir"), ("http://a.example/dir", "http://a.example/dir/index.html"),
    ("http://a.example/?b=2&a=1", "http://a.example/?a=1&b=2"), ("http://a.example/p?sid=8fa1c0ff", "http://a.example/p"),
    ("http://a.example/?_=1778300000000", "http://a.example/?_=1700000000000"),
    ("http://a.example/?callback=b", "http://a.example/?callback=c"), ("http://a.example/PAGE", "http://a.example/page"),
    ("http://a.example/%7ea#part", "http://a.example/~a"),
]  # fmt: skip


@pytest.mark.parametrize(("asked", "held"), OTHERS)
def test_another_spelling_is_found_through_a_peer_that_has_none(asked: str, held: str) -> None:
    there = Room(response(held, "20260101", b"<p>there"))
    asker = Asker(*places(A, B), a=there, b=there)
    page = asker.get(f"/web/{DATE}/{asked}")
    if page.status == 302:
        assert page.headers["Location"] == f"/web/{DATE}/{held}"
        page = asker.get(page.headers["Location"])
    assert (page.status, b"<p>there" in page.body) == (200, True)
    assert page.headers["X-Herodotus-Confirmed"] == "true"
    part = asker.get(f"/web/20250505000000im_/{asked}")
    assert (part.status, part.body[-8:]) in ((200, b"<p>there"), (302, b""))
    rows = json.loads(asker.get(f"/web/*/{asked}", accept="application/json").body)
    assert [row["url"] for row in rows] == [held]


def test_a_spelling_with_another_place_on_the_ring_is_asked_for_there_and_nobody_twice() -> None:
    held = "http://www.a.example/page"
    there, empty = Room(response(held, "20260101", b"<p>there")), Room()
    asker = Asker(*places(A, B), a=empty, b=empty, c=there, d=there)
    asker.ring.elsewhere[held] = (*places(C, D),)
    assert asker.get("/web/2026/http://a.example/page").headers["Location"] == f"/web/{DATE}/{held}"
    asked = [origin for origin, _ in asker.ring.fetched]
    assert sorted(asked) == [A, B, C, D]


def test_nobody_is_asked_again_soon_for_what_nobody_has() -> None:
    asker = Asker(*places(A, B), a=Room(), b=Room())
    assert asker.get(f"/web/2026/{HOME}").status == 404
    before = len(asker.ring.fetched)
    assert (asker.get(f"/web/2026/{HOME}").status, len(asker.ring.fetched)) == (404, before)
    asker.now = MISS_KEPT_S + 1
    asker.get(f"/web/2026/{HOME}")
    assert len(asker.ring.fetched) > before


def test_a_silent_ring_is_no_answer_to_keep(holder: Library) -> None:
    asker = Asker(*places(A, B))
    assert asker.get(f"/web/2026/{HOME}").status == 404
    asker.ring.libraries |= {A: holder, B: holder}
    assert asker.get(f"/web/2026/{HOME}").status == 302


def test_rows_of_another_page_are_no_spelling(holder: Library) -> None:
    other = Room(response(f"{SITE}/other", "20260101", b"<p>another page"))

    asker = Asker(*places(A, B))
    told = other.get(f"/web/*/{SITE}/other", {"accept": "application/json"})
    asker.ring.lies |= {A: lambda _: told, B: lambda _: told}
    assert asker.get(f"/web/2026/{HOME}").status == 404


def test_the_exact_address_comes_before_a_spelling_that_as_many_tell(holder: Library) -> None:
    bent = Room(response(HOME.replace("://", "://www."), "20250101", b"<p>bent"))
    asker = Asker(*places(A, B, C, D), a=bent, b=bent, c=holder, d=holder)
    assert asker.get(f"/web/2026/{HOME}").headers["Location"] == f"/web/{DATE}/{HOME}"
