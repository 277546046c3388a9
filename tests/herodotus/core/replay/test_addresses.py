"""Does every reference lead to the address that a browser would have asked for?"""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import can_ada
import pytest

from herodotus.core.replay.context import AddressRewriter, Flag, ReplayContext, checked_origin
from tests.herodotus.core.replay.judging import archived, asked_by_browser

CONTEXT = ReplayContext(
    page_url="http://a.example/x/y.html?q=/z",
    timestamp="20260102030405",
    portal_origin="http://127.0.0.1:5484",
)
HEAD = b"/web/20260102030405im_/"


@pytest.mark.parametrize(
    ("reference", "absolute"),
    [
        (b"p.png", b"http://a.example/x/p.png"),
        (b"/p.png", b"http://a.example/p.png"),
        (b"//b.example/p.png", b"http://b.example/p.png"),
        (b"https://b.example/p.png?a=b#c", b"https://b.example/p.png?a=b#c"),
        (b"HTTPS://b.example/", b"https://b.example/"),
        (b"?other", b"http://a.example/x/y.html?other"),
        (b"../p.png", b"http://a.example/p.png"),
        (b"../../../../p.png", b"http://a.example/p.png"),
        (b"/a/%2e%2E/../../p.png?../..", b"http://a.example/p.png?../.."),
        (b"./p.png", b"http://a.example/x/p.png"),
        (b"a/b/..", b"http://a.example/x/a/"),
        (b"  p.png\n", b"http://a.example/x/p.png"),
        (b"ht\ntp://b.example/p", b"http://b.example/p"),
        (b"\\\\b.example\\p.png?\\", b"http://b.example/p.png?\\"),
        (b"http:p.png", b"http://a.example/x/p.png"),
        (b"http:/p.png", b"http://a.example/p.png"),
        (b"https:/b.example/p.png", b"https://b.example/p.png"),
        (b"https:b.example/p.png", b"https://b.example/p.png"),
        (b"http:////b.example/p.png", b"http://b.example/p.png"),
        (b"/web/2026/p.png", b"http://a.example/web/2026/p.png"),
        ("ä.png?ö".encode(), "http://a.example/x/ä.png?ö".encode()),
    ],
)  # fmt: skip
def test_a_reference_leads_into_the_archive(reference: bytes, absolute: bytes) -> None:
    assert AddressRewriter(CONTEXT).rewrite(reference, Flag.IMAGE) == HEAD + absolute


@pytest.mark.parametrize(
    "reference",
    [
        b"", b"#top", b"data:image/gif;base64,R0", b"javascript:void(0)", b"mailto:a@b.example", b"blob:http://a/1",
        b"about:blank", b"tel:1", b" JavaScript:x", b"/web/20260102030405im_/http://b.example/p.png",
        b"/web/*/http://b.example/", b"http://127.0.0.1:5484/web/20260102030405/http://b.example/",
    ],
)  # fmt: skip
def test_what_is_not_of_the_web_or_already_archived_stays(reference: bytes) -> None:
    assert AddressRewriter(CONTEXT).rewrite(reference, Flag.IMAGE) == reference


def test_a_base_moves_what_follows() -> None:
    addresses = AddressRewriter(CONTEXT)
    assert addresses.move_base(b"//b.example/c/d") == b"/web/20260102030405/http://b.example/c/d"
    assert addresses.rewrite(b"p.png", Flag.IMAGE) == HEAD + b"http://b.example/c/p.png"
    assert addresses.move_base(b"data:text/plain,x") == b"data:text/plain,x"
    assert addresses.rewrite(b"p.png", Flag.IMAGE) == HEAD + b"http://b.example/c/p.png"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: replace(CONTEXT, timestamp="2026"),
        lambda: replace(CONTEXT, timestamp="2026010203040\r"),
        lambda: replace(CONTEXT, page_url="/x"),
        lambda: replace(CONTEXT, archive_prefix="web"),
        lambda: replace(CONTEXT, archive_prefix="/web/ x/"),
        lambda: replace(CONTEXT, portal_origin="http://a;b"),
        lambda: replace(CONTEXT, portal_origin="http://a/"),
    ],
)
def test_a_context_that_would_break_a_header_is_refused(wrong: Callable[[], ReplayContext]) -> None:
    with pytest.raises(ValueError, match="not"):
        wrong()


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("peer.example:5484", "http://peer.example:5484"),
        ("[::1]:5484", "http://[::1]:5484"),
        ("evil.example/path", None),
        ("a b", None),
        ("a;script-src *", None),
        ("", None),
    ],
)
def test_a_forged_host_makes_no_origin(host: str, origin: str | None) -> None:
    assert checked_origin("http", host) == origin


def replayable() -> list[tuple[str, str, str]]:
    """Reference, page and URL of every case of the URL standard's own tests that a web page can hold."""
    cases = json.loads((Path(__file__).parents[3] / "data" / "urltestdata.json").read_text())
    return [
        (case["input"], case["base"], case["href"])
        for case in cases
        if isinstance(case, dict)
        and not case.get("failure")
        and (case["base"] or "").startswith(("http://", "https://"))
        and case["href"].startswith(("http://", "https://"))
        and "@" not in case["href"]
    ]


def test_the_standard_resolves_the_rewritten_address_to_the_same_url() -> None:
    wrong = []
    for reference, base, url in replayable():
        page = can_ada.parse(base).href
        context = replace(CONTEXT, page_url=page, portal_origin=None)
        new = AddressRewriter(context).rewrite(reference.encode("utf-8", "surrogatepass"), Flag.PAGE)
        asked = asked_by_browser(new.decode("utf-8", "replace"), page)
        stands_for = archived(asked.partition("#")[0]) if asked is not None else None
        if stands_for != url.partition("#")[0] and not reference.strip().startswith("#"):
            wrong.append((reference, base, url, new, stands_for))
    assert wrong == []
    assert len(replayable()) > 90


@pytest.mark.parametrize(
    "climbing", [b"/../../../status", b"/%2e%2e/%2E./../../status", b"/./../../../../api/v1/saves"]
)
def test_what_looks_archived_and_climbs_out_again_stays_in_the_archive(climbing: bytes) -> None:
    """A browser would take the dots away and ask the portal itself."""
    for start in (b"", b"http://127.0.0.1:5484"):
        reference = start + b"/web/20260102030405/http://b.example" + climbing
        rewritten = AddressRewriter(CONTEXT).rewrite(reference, Flag.PAGE)
        assert rewritten.startswith(b"/web/20260102030405/http://")
        assert b".." not in rewritten
        assert b"%2e" not in rewritten.lower()
