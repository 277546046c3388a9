"""Does the banner say what the handler knows, and nothing that a stranger smuggled in?"""

import re
from collections.abc import Callable
from dataclasses import replace

import pytest

from herodotus.core.replay import (
    BannerFacts,
    Flag,
    HolderNote,
    ReplayContext,
    banner_html,
    frame_headers,
    frame_html,
)
from herodotus.core.replay.banner import readable_date

CONTEXT = ReplayContext(
    page_url="http://a.example/?a=<b>&c='\"",
    timestamp="20260102030405",
    portal_origin="http://127.0.0.1:5484",
)
FACTS = BannerFacts(
    first="20250101000000",
    previous="20260101000000",
    next="20260103000000",
    last="20260104000000",
    unchanged_until="20260102060000",
    holders=[
        HolderNote(name="ab12", url="http://peer.example:5484/"),
        HolderNote(name="<x>", url="javascript:alert(1)"),
        *(HolderNote(name=f"p{number}", url="http://p.example/") for number in range(10)),
    ],
)


def targets(markup: bytes) -> list[str]:
    return re.findall(r'<a [^>]*?href="([^"]*)"', markup.decode("ascii"))


@pytest.mark.parametrize("make", [banner_html, frame_html])
def test_it_shows_the_date_the_ways_and_the_holders(
    make: Callable[[ReplayContext, BannerFacts], bytes],
) -> None:
    markup = make(CONTEXT, FACTS)
    url = "http://a.example/?a=&lt;b&gt;&amp;c=&#x27;&quot;"
    assert targets(markup)[:5] == [
        f"/web/{date}/{url}"
        for date in ("20250101000000", "20260101000000", "20260103000000", "20260104000000", "*")
    ]
    assert targets(markup)[5:] == ["http://peer.example:5484/", *["http://p.example/"] * 6]
    text = re.sub(r"<(style|script)>.*?</\1>|<[^>]*>", "", markup.decode(), flags=re.DOTALL)
    for words in (
        "2 January 2026, 03:04:05", "unchanged until 2 January 2026, 06:00:00", "kept by 12:", "&lt;x&gt;",
        "and 4 more",
    ):  # fmt: skip
        assert words in text
    assert b"javascript:" not in markup


def test_a_long_address_is_cut_and_stays_ascii() -> None:
    context = replace(CONTEXT, page_url="http://a.example/" + "ä" * 500)
    banner = banner_html(context, BannerFacts())
    assert banner.isascii()
    assert "&#228;&#8230;</span>" in banner.decode()


def test_the_frame_holds_the_page_and_its_policy_knows_the_frames_own_script() -> None:
    page = frame_html(CONTEXT, BannerFacts()).decode()
    assert f'src="/web/20260102030405{Flag.MAIN}/http://a.example/' in page
    assert 'sandbox="allow-scripts allow-forms allow-modals"' in page
    policy = frame_headers(CONTEXT)["Content-Security-Policy"]
    assert "frame-src http://127.0.0.1:5484/web/;" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy


@pytest.mark.parametrize(
    ("digits", "text"),
    [
        ("2026", "2026"), ("202602", "February 2026"), ("20260203", "3 February 2026"), ("202699", "202699"),
        ("<b>", "&lt;b&gt;"), ("20260203040506", "3 February 2026, 04:05:06"),
    ],
)  # fmt: skip
def test_dates_are_readable(digits: str, text: str) -> None:
    assert readable_date(digits) == text
