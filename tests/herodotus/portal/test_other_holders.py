"""Does a reader find what another peer has, and is nobody sent in circles?"""

from dataclasses import dataclass, field, replace
from functools import partial

import anyio
import pytest

from herodotus.machine import Machine
from herodotus.portal.answer import Answer
from herodotus.portal.archive_pages import ArchivePages
from herodotus.portal.handlers import Handlers
from herodotus.portal.other_holders import KEEPERS_KEPT_S, SENT_ON_MAX, SENT_ON_S, Elsewhere, PortalAddress
from herodotus.portal.request import Request
from tests.herodotus.portal.library import HOME, HOST, SITE, Library, response

A, B, C = (f"http://192.0.2.{n}:5484" for n in (1, 2, 3))


@dataclass
class Fixed:
    """Everybody is believed to hold everything; what is fetched comes from the libraries."""

    places: tuple[PortalAddress, ...]
    libraries: dict[str, Library] = field(default_factory=dict)
    fetched: list[tuple[str, str]] = field(default_factory=list)

    async def holders(self, url: str) -> tuple[PortalAddress, ...]:
        return self.places

    async def fetch(self, place: PortalAddress, request: Request) -> Answer | None:
        self.fetched.append((place.origin, request.target))
        library = self.libraries.get(place.origin)
        if library is None:
            return None
        there = replace(request, headers={**request.headers, "host": place.origin.removeprefix("http://")})
        return await library.handlers.answer(there)


class Asker:
    """A peer without the page, and what it believes of the others."""

    def __init__(self, *places: PortalAddress, is_gateway: bool = False, **libraries: Library) -> None:
        self.now = 0.0
        self.ring = Fixed(places, {{"a": A, "b": B, "c": C}[name]: one for name, one in libraries.items()})
        self.own = Library()
        self.elsewhere = Elsewhere(
            self.ring, self.ring, Machine(), now=lambda: self.now, is_gateway=is_gateway
        )
        self.handlers = Handlers(self.own.status, ArchivePages(self.own.shelf, elsewhere=self.elsewhere))

    def get(self, target: str, **headers: str) -> Answer:
        given = {"host": HOST} | {name.replace("_", "-"): value for name, value in headers.items()}
        return anyio.run(
            partial(self.handlers.answer, Request(target=target, headers=given, client="192.0.2.9"))
        )


@pytest.fixture
def holder() -> Library:
    return Library(
        response(HOME, "20260101", b"<p>there"), response(f"{SITE}/i.png", "20260101", b"png", "image/png")
    )


@pytest.mark.parametrize(
    "target",
    [f"/web/*/{HOME}", f"/web/2026/{HOME}", f"/web/{HOME}", f"/web/timemap/link/{HOME}",
     f"/web/20260101000000/{HOME}?a=%20"],
)  # fmt: skip
def test_what_is_not_here_is_a_redirect_to_the_first_holder(target: str) -> None:
    answer = Asker(PortalAddress(origin=A), PortalAddress(origin=B)).get(target)
    assert (answer.status, answer.headers["Location"]) == (301, A + target)
    assert (
        answer.headers["Cache-Control"] == "no-store"
    )  # else a browser goes in circles that only we can end


@pytest.mark.parametrize(
    "target", [f"/web/*/{HOME}", f"/web/20260101000000/{HOME}", f"/web/timemap/link/{HOME}"]
)
@pytest.mark.parametrize("first", [Library(), None], ids=["denies it", "is silent"])
def test_a_first_holder_cannot_hide_what_another_one_has(
    first: Library | None, target: str, holder: Library
) -> None:
    places = [PortalAddress(origin=one) for one in (A, B, C)]
    asker, gateway = Asker(*places, b=holder), Asker(*places, is_gateway=True, b=holder)
    if first is not None:
        asker.ring.libraries[A] = gateway.ring.libraries[A] = first
    assert asker.get(target).headers["Location"] == B + target
    assert gateway.get(target).status == 200


def test_a_first_holder_that_has_it_is_the_only_one_asked(holder: Library) -> None:
    asker = Asker(*(PortalAddress(origin=one) for one in (A, B, C)), a=holder, b=holder)
    assert asker.get(f"/web/*/{HOME}").headers["Location"].startswith(A)
    assert [origin for origin, _ in asker.ring.fetched] == [A]


def test_who_is_a_holder_himself_sends_nobody_on() -> None:
    answer = Asker(PortalAddress(origin=A), PortalAddress(origin="", is_self=True)).get(f"/web/*/{HOME}")
    assert answer.status == 404
    assert b"Not archived" in answer.body


def test_a_holder_that_lacks_it_asks_the_other_holders(holder: Library) -> None:
    asker = Asker(
        PortalAddress(origin="", is_self=True), PortalAddress(origin=A), PortalAddress(origin=B), b=holder
    )
    assert b"<p>there" in asker.get(f"/web/20260101000000/{HOME}").body
    assert [origin for origin, _ in asker.ring.fetched] == [A, B]


def test_where_nobody_lives_the_page_says_what_is_known_here() -> None:
    assert Asker().get(f"/web/*/{HOME}").status == 404


def test_a_circle_of_stale_views_is_left_soon_and_forgotten_later() -> None:
    asker = Asker(PortalAddress(origin=A))
    statuses = [asker.get(f"/web/*/{HOME}").status for _ in range(SENT_ON_MAX + 2)]
    assert statuses == [301] * SENT_ON_MAX + [404, 404]
    asker.now = SENT_ON_S + 1
    assert asker.get(f"/web/*/{HOME}").status == 301


def test_readers_behind_one_address_all_get_a_page_that_is_elsewhere(holder: Library) -> None:
    """To be sent on often is a circle of one reader, or many readers of one proxy: it is fetched for them."""
    asker = Asker(PortalAddress(origin=B), b=holder)
    target = f"/web/20260101000000/{HOME}"
    answers = [asker.get(target) for _ in range(SENT_ON_MAX + 3)]
    assert [answer.status for answer in answers] == [301] * SENT_ON_MAX + [200] * 3
    assert b"<p>there" in answers[-1].body
    assert len(asker.ring.fetched) == 3


def test_what_a_page_embeds_is_relayed_as_if_it_were_here(holder: Library) -> None:
    asker = Asker(PortalAddress(origin=A), PortalAddress(origin=B), b=holder)
    answer = asker.get(f"/web/20260101000000im_/{SITE}/i.png", sec_fetch_dest="image")
    assert (answer.status, answer.body) == (200, b"png")
    assert [origin for origin, _ in asker.ring.fetched] == [A, B]  # the first one did not answer
    assert f"<http://{HOST}/web/{SITE}/i.png>" in answer.headers["Link"]
    assert B not in "".join(answer.headers.values())


def test_a_gateway_relays_pages_and_lists_too(holder: Library) -> None:
    asker = Asker(PortalAddress(origin=B), b=holder, is_gateway=True)
    assert b"<p>there" in asker.get(f"/web/20260101000000/{HOME}").body
    timemap = asker.get(f"/web/timemap/link/{HOME}").body.decode()
    assert f"http://{HOST}/web/20260101000000/{HOME}" in timemap
    assert B not in timemap
    assert asker.get(f"/web/2026/{HOME}").headers["Location"] == f"/web/20260101000000/{HOME}"


def test_a_relayed_request_goes_no_further() -> None:
    asker = Asker(PortalAddress(origin=A), is_gateway=True)
    assert asker.get(f"/web/*/{HOME}", x_herodotus_relayed="1").status == 404
    assert asker.ring.fetched == []


def test_gateways_that_believe_in_each_other_end_at_once(holder: Library) -> None:
    asker = Asker(PortalAddress(origin=A), PortalAddress(origin=B), PortalAddress(origin=C), is_gateway=True)
    assert asker.get(f"/web/*/{HOME}").status == 404
    assert len(asker.ring.fetched) == 3


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
