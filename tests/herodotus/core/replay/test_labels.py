"""Is a label one archived origin's and no other's, whatever is asked?"""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from herodotus.core.replay import (
    Flag,
    Label,
    NamedSite,
    Names,
    ReplayContext,
    label_of,
    read_label,
    rewriter_for,
)
from herodotus.core.replay.context import addresses_of
from herodotus.core.replay.headers import replay_headers

DATE = "20260509063412"
NAMES = Names(
    scheme="http", suffix="localhost:5484", portals=("http://localhost:5484", "http://127.0.0.1:5484")
)
HERE = f"http://{DATE}-s-a-example.localhost:5484"
CONTEXT = ReplayContext(
    page_url="https://a.example/x/y?q",
    timestamp=DATE,
    flag=Flag.MAIN,
    site=NamedSite(names=NAMES, label=Label(date=DATE, origin="https://a.example")),
)


@pytest.mark.parametrize(
    ("origin", "label"),
    [
        ("https://my-site.example.org", "s-my--site-example-org"),
        ("http://a.example", "h-a-example"),
        ("https://a.example:8443", "s8443-a-example"),
        ("http://a.example:443", "h443-a-example"),
        ("http://127.0.0.1:8080", "h8080-127-0-0-1"),
        ("http://localhost", "h-localhost"),
        ("http://xn--bcher-kva.example", "h-xn----bcher--kva-example"),
        ("http://a_b.example", "h-a_b-example"),
    ],
)
def test_a_label_says_day_scheme_port_and_host(origin: str, label: str) -> None:
    made = label_of(DATE, origin)
    assert str(made) == f"{DATE}-{label}"
    assert read_label(f"{DATE}-{label}") == Label(date=DATE, origin=origin)


@pytest.mark.parametrize(
    "origin",
    ["http://[::1]", "http://" + "a" * 47, "http://a.-b", "ftp://a.example", "http://A.example",
     "http://a.example.", "http://a.example/x", "https://a.example:443", "http://a.example:0", "http://"],
)  # fmt: skip
def test_what_has_no_label_of_its_own_has_none(origin: str) -> None:
    assert label_of(DATE, origin) is None


@pytest.mark.parametrize(
    "text",
    ["", "www", "s-a-example", f"{DATE}-s-", f"{DATE}-s80x-a", f"{DATE}-s443-a", f"{DATE}-h80-a", f"{DATE}-h080-a",
     f"{DATE}-h0-a", f"{DATE}-h65536-a", f"{DATE}-x-a", f"{DATE}-h-a---b", f"{DATE}-h-a-", f"{DATE}-h--a-",
     f"{DATE[:-1]}-h-a", f"{DATE}-H-a", f"{DATE}-h-A", f"{DATE}-h-a.b", f"{DATE}-h-" + "a" * 47],
)  # fmt: skip
def test_what_is_no_label_means_no_page(text: str) -> None:
    label = read_label(text)
    assert label is None or str(label) == text  # a pair may be read in one way only
    assert label is None or label_of(DATE, label.origin) == label


HOSTS = st.text("ab-._1", min_size=1, max_size=45)


@given(st.sampled_from(["http", "https"]), HOSTS, st.none() | st.integers(1, 65_535))
@example("http", "a-.b", None)
@example("http", "a.-b", None)
def test_no_two_origins_share_a_label(scheme: str, host: str, port: int | None) -> None:
    origin = f"{scheme}://{host}" + ("" if port is None else f":{port}")
    label = label_of(DATE, origin)
    if label is not None:
        assert read_label(str(label)) == Label(date=DATE, origin=origin)
        assert len(str(label)) <= 63


@given(st.from_regex(r"[0-9]{14}-[hs][0-9]{0,5}-[ab_.-]{1,40}", fullmatch=True))
@example(f"{DATE}-h-a---b")
def test_a_label_that_is_read_is_written_the_same(text: str) -> None:
    label = read_label(text)
    assert label is None or (str(label) == text and label_of(label.date, label.origin) == label)


@pytest.mark.parametrize(
    ("reference", "led"),
    [
        (b"https://b.example:8443/p?q#f", f"http://{DATE}-s8443-b-example.localhost:5484/p?q#f"),
        (b"//b.example/p", f"http://{DATE}-s-b-example.localhost:5484/p"),
        (b" HTTP://B\xc3\xbccher.example", f"http://{DATE}-h-xn----bcher--kva-example.localhost:5484"),
        (b"https:\\\\b.example\\p", f"http://{DATE}-s-b-example.localhost:5484/p"),
        (b"https:z", f"{HERE}/x/z"),
        (b"http://user:word@b.example/", f"http://{DATE}-h-b-example.localhost:5484/"),
    ],
)
def test_what_names_a_host_is_led_to_its_label(reference: bytes, led: str) -> None:
    assert addresses_of(CONTEXT).rewrite(reference, Flag.IMAGE).decode() == led


@pytest.mark.parametrize(
    "reference",
    [b"z", b"/z", b"../z", b"?q", b"#f", b"", b"data:,x", b"javascript:x", b"mailto:a@b.example", b"blob:http://b/",
     b"/web/20260101000000/http://b.example/", b"http://[::1]/", b"http://", b"http:// b"],
)  # fmt: skip
def test_what_is_relative_means_there_what_it_meant(reference: bytes) -> None:
    assert addresses_of(CONTEXT).rewrite(reference, Flag.IMAGE) == reference


def rewritten(page: bytes, kind: str = "text/html") -> bytes:
    rewriter = rewriter_for(kind, Flag.MAIN, CONTEXT)
    assert rewriter is not None
    return rewriter.feed(page) + rewriter.close()


def test_a_page_at_its_label_has_our_script_and_its_own_relative_addresses() -> None:
    page = (
        b"<html><head><a href='https://b.example/x'><img src=/i.png><a href=\"https://b.example/y\" target=_blank>"
        b'<a href="//b.example/z">t</a><img src="HTTPS://b.example/i"><a href="/web/1">'
        b'<div data-src="https://b.example/k" style="background:url(https://b.example/l)">'
    )
    there = f"http://{DATE}-s-b-example.localhost:5484"
    assert rewritten(page).decode() == (
        f'<html><head><script src="{HERE}/_hd/client.js"></script>'
        f"<a href='{there}/x'><img src=/i.png><a href=\"{there}/y\" target=_blank>"
        f'<a href="{there}/z">t</a><img src="{there}/i"><a href="/web/1">'
        f'<div data-src="https://b.example/k" style="background:url({there}/l)">'
    )


def test_an_import_map_leads_what_scripts_name_and_where_it_is() -> None:
    page = b'<script type=importmap>{"imports": {"https://b.example/m": "https://b.example/n", "m": "./m.js"}}</script>'
    there = f"http://{DATE}-s-b-example.localhost:5484"
    assert f'{{"imports": {{"{there}/m": "{there}/n", "m": "./m.js"}}}}' in rewritten(page).decode()


@pytest.mark.parametrize(
    ("location", "status", "led"),
    [
        ("https://b.example/p", 302, f"http://{DATE}-s-b-example.localhost:5484/p"),
        ("/p", 302, f"{HERE}/p"),
        ("z", 302, f"{HERE}/x/z"),
        ("https://a.example/x/y?q", 200, None),
        ("/x/y?q#f", 200, None),
    ],
)
def test_a_redirect_leads_to_its_targets_label_and_never_to_itself(
    location: str, status: int, led: str | None
) -> None:
    found, fields = replay_headers(302, [("Location", location)], CONTEXT)
    assert (found, dict(fields).get("Location")) == (status, led)


@pytest.mark.parametrize(
    ("written", "led"),
    [
        ("0; url=/p", "1;url=/p"),
        ("3;url=https://b.example/", f"3;url=http://{DATE}-s-b-example.localhost:5484/"),
        ("0;url=javascript:x", ""),
    ],
)
def test_a_refresh_stays_where_it_was_meant(written: str, led: str) -> None:
    fields = dict(replay_headers(200, [("Refresh", written)], CONTEXT)[1])
    assert fields.get("Refresh", "") == led
