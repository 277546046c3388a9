"""The differences to the Web Platform Tests are listed here, each with its reason."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import can_ada
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.errors import MalformedUrlError
from crawler.core.urls import (
    STANDARD,
    URL_CHARS_MAX,
    UrlRules,
    canonical,
    host_of,
    origin_of,
    target_of,
    url_key,
)

DATA = Path(__file__).parent.parent / "data"

PUNYCODE_REFUSED = (
    "since 2026 the standard lets ASCII hosts with invalid Punycode pass; no registry sells them"
)


def cases(name: str) -> list[dict[str, Any]]:
    found = json.loads((DATA / name).read_text())
    return [case for case in found if isinstance(case, dict)]


def our_form_of(href: str) -> str:
    """What the standard's serialisation becomes by the rules that we add, done the slow and obvious way."""
    url = can_ada.parse(href)
    url.username = url.password = url.hash = ""
    without = str(url.href).removesuffix("#")
    pieces, at = [], 0
    while at < len(without):
        escape = without[at : at + 3]
        is_escape = (
            len(escape) == 3 and escape[0] == "%" and all(c in "0123456789abcdefABCDEF" for c in escape[1:])
        )
        behind = without[max(0, at - 2) : at]
        is_guarded = behind.endswith("%") or (
            behind[:1] == "%" and behind[1:] in set("0123456789abcdefABCDEF")
        )
        if is_escape and not is_guarded:
            letter = chr(int(escape[1:], 16))
            is_unreserved = letter.isascii() and (letter.isalnum() or letter in "-._~")
            pieces.append(letter if is_unreserved else escape.upper())
            at += 3
        else:
            pieces.append(without[at])
            at += 1
    return "".join(pieces).removesuffix("?") if without.count("?") == 1 else "".join(pieces)


def test_the_web_platform_tests_of_parsing_pass() -> None:
    tried = 0
    refused = set()
    for case in cases("urltestdata.json"):
        expected = case.get("href")
        base = case.get("base")
        is_crawlable = expected is not None and expected.startswith(("http:", "https:"))
        tried += 1
        try:
            found = canonical(case["input"], base)
        except MalformedUrlError:
            if is_crawlable:
                refused.add(case["input"])
            continue
        assert expected is not None
        assert is_crawlable, case
        assert found == our_form_of(expected), case
    assert tried == 891
    assert {text.lower() for text in refused} == {  # PUNYCODE_REFUSED
        "http://a.b.c.xn--pokxncvks",
        "http://10.0.0.xn--pokxncvks",
        "https://xn--/",
    }


def test_host_names_follow_the_web_platform_tests_or_are_refused() -> None:
    """can_ada's Unicode tables are older than the data: what it does not know it refuses, never misreads."""
    differences: Counter[str] = Counter()
    for case in cases("toascii.json") + cases("IdnaTestV2.json"):
        if not case["input"]:
            continue
        try:
            found: str | None = host_of(canonical(f"https://{case['input']}/x"))
        except MalformedUrlError:
            found = None
        if found == case["output"]:
            differences["none"] += 1
        elif found is None and "xn--" in case["input"].lower():
            differences["Punycode refused"] += 1  # PUNYCODE_REFUSED
        elif found is None:
            differences["refused"] += 1
        else:
            assert "ẞ" in case["input"], case  # capital sharp s: "ss" by the older table, "ß" by the newer
            differences["capital sharp s"] += 1
    assert differences == {"none": 1910, "Punycode refused": 766, "refused": 77, "capital sharp s": 4}


def test_queries_are_percent_encoded_as_utf_8() -> None:
    for case in cases("percent-encoding.json"):
        expected = our_form_of(f"https://a.example/?{case['output']['utf-8']}")
        assert canonical(f"https://a.example/?{case['input']}") == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("HTTP://User:secret@EXAMPLE.com:80/a/../b#part", "http://example.com/b"),
        ("https://example.com:443", "https://example.com/"),
        ("http://bücher.example/ü?ö", "http://xn--bcher-kva.example/%C3%BC?%C3%B6"),
        ("http://a.example/%7euser/%c3%bc", "http://a.example/~user/%C3%BC"),
        ("http://a.example/x?", "http://a.example/x"),
        ("http://a.example/?utm_source=x&id=7&fbclid=abc", "http://a.example/?id=7"),
        ("http://a.example/?utm_source=x", "http://a.example/"),
        ("http://a.example/?PHPSESSID=0a1b&b&a", "http://a.example/?b&a"),
        ("http://a.example/shop;jsessionid=12AB.node1?id=1", "http://a.example/shop?id=1"),
        ("http://a.example/(S(abcdefghijklmnopqrstuvwx))/x", "http://a.example/x"),
        ("http://a.example/?q=a?b", "http://a.example/?q=a?b"),
        ("http://a.example/?sid=0123456789abcdef&view=full", "http://a.example/?view=full"),
        ("http://a.example/?session=autumn", "http://a.example/?session=autumn"),
        ("http://a.example/?my_utm_source=x&sid=1", "http://a.example/?my_utm_source=x&sid=1"),
        ("http://0x7f.1/", "http://127.0.0.1/"),
        ("http://2130706433/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ("http://a.example/\ud800", "http://a.example/%EF%BF%BD"),
    ],
)
def test_spellings_of_one_page_become_one_url(text: str, expected: str) -> None:
    assert canonical(text) == expected


@pytest.mark.parametrize(
    "text", ["", "ftp://a.example/", "javascript:alert(1)", "mailto:a@b", "http://", "/path", "http://a b/"]
)
def test_what_cannot_be_crawled_is_refused(text: str) -> None:
    with pytest.raises(MalformedUrlError):
        canonical(text)


def test_ten_megabytes_of_url_are_refused_in_one_line() -> None:
    with pytest.raises(MalformedUrlError) as caught:
        canonical("http://a.example/" + "x" * 10_000_000)
    assert len(str(caught.value)) < 400


def test_a_url_that_grows_too_long_by_escaping_is_refused() -> None:
    with pytest.raises(MalformedUrlError, match="once escaped"):
        canonical("http://a.example/" + "ü" * (URL_CHARS_MAX - 100))


def test_links_resolve_against_the_page_and_keep_their_places() -> None:
    found = UrlRules().links(["b", "//c.example/x", "javascript:0", "#top", "\ud800"], "http://a.example/d/a")
    assert found == [
        "http://a.example/d/b",
        "http://c.example/x",
        None,
        "http://a.example/d/a",
        "http://a.example/d/%EF%BF%BD",
    ]


def test_a_charter_can_drop_more_parameters() -> None:
    rules = UrlRules(extra_parameters=["Ref"])
    assert rules.canonical("http://a.example/?ref=home&x=1") == "http://a.example/?x=1"
    assert canonical("http://a.example/?ref=home&x=1") == "http://a.example/?ref=home&x=1"


@given(
    st.text(max_size=60), st.sampled_from(["", "http://", "https://a.example/", "http://a.example/?", "//"])
)
def test_canonicalising_twice_changes_nothing(text: str, prefix: str) -> None:
    try:
        once = canonical(prefix + text, "http://base.example/d/")
    except MalformedUrlError:
        return
    assert canonical(once) == once
    assert once.isascii()


@given(st.text(alphabet="%0123456789abcdefABCDEF2e.;/?&=(S)utm_jsessionid", max_size=40))
def test_escapes_and_sessions_settle_in_one_pass(text: str) -> None:
    try:
        once = canonical(f"http://a.example/{text}")
    except MalformedUrlError:
        return
    assert canonical(once) == once


def test_the_parts_of_a_url() -> None:
    url = "https://[2001:db8::1]:8080/a?b"
    assert (origin_of(url), host_of(url), target_of(url)) == (
        "https://[2001:db8::1]:8080",
        "[2001:db8::1]",
        "/a?b",
    )
    assert host_of("http://a.example:81/") == "a.example"
    assert url_key(url) == hashlib.sha1(url.encode()).digest()


@given(
    st.lists(
        st.sampled_from(["a", "Z9", "a.b", ".", "..", "%2e", "", "~x-_", "a;b", "é", "a b", "a" * 250]),
        max_size=12,
    )
)
def test_the_short_way_for_plain_paths_gives_what_the_parser_gives(segments: list[str]) -> None:
    reference = "/" + "/".join(segments)
    base = "http://example.org:81/x/y"
    try:
        expected: str | None = canonical(reference, base)
    except MalformedUrlError:
        expected = None
    assert STANDARD.links([reference], base) == [expected]


@pytest.mark.parametrize(
    "base", ["http://example.or1", "htup://example.org/1", "http:/", "h|tp://a/b", "http://[::/a", ""]
)
def test_a_base_that_is_no_url_of_ours_leads_nowhere(base: str) -> None:
    """Imported files may name any; the first of these ended the survey of an archive."""
    assert UrlRules().links(["/a", "b", "../c", "http://example.org/"], base)[:3] == [None] * 3
