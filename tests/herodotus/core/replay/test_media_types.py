"""Is a body sent as what we took it for, whatever its head says?"""

import pytest

from herodotus.core.replay import (
    Flag,
    MediaType,
    ReplayContext,
    media_type,
    rewriter_for,
    shown_flag,
    shown_type,
)
from herodotus.core.replay.headers import VALUE_CHARACTERS_MAX


@pytest.mark.parametrize(
    ("values", "essence", "charset"),
    [
        (["text/html"], "text/html", None),
        ([' TEXT/HTML ; CHARSET="UTF-8"'], "text/html", "UTF-8"),
        (["text/plain", "text/html"], "text/html", None),
        (["text/html", "text/plain"], "text/plain", None),
        (["text/plain, text/html"], "text/html", None),
        (["text/html", "rubbish"], "text/html", None),
        (["text/html", "*/*"], "text/html", None),
        (["text/html;charset=gbk", "text/html"], "text/html", "gbk"),
        (["text/html;charset=gbk", "text/html;charset=big5"], "text/html", "big5"),
        (["text/html;charset=gbk", "text/plain"], "text/plain", None),
        (["text/html;charset=gbk;charset=big5"], "text/html", "gbk"),
        (['text/html;x=";charset=utf-16";charset=gbk'], "text/html", "gbk"),
        (['text/x;a="b,text/html"'], "text/x", None),
        (["text/html;charset=a\x00b"], "text/html", None),
        ([f"text/html;{'x' * VALUE_CHARACTERS_MAX};charset=gbk"], "text/html", None),
        (["html"], "", None),
        (["/html"], "", None),
        ([], "", None),
    ],
)
def test_of_several_types_the_one_counts_that_browsers_take(
    values: list[str], essence: str, charset: str | None
) -> None:
    assert media_type(values) == MediaType(essence, charset)


@pytest.mark.parametrize(
    "value",
    ["", "multipart/x-mixed-replace; boundary=a", "multipart/related", "message/rfc822",
     "application/signed-exchange;v=b3", "application/webbundle", "application/x-xpinstall"],
)  # fmt: skip
def test_what_brings_its_own_heads_or_leads_elsewhere_is_bytes(value: str) -> None:
    assert media_type([value]).sent() == "application/octet-stream"


@pytest.mark.parametrize(
    ("kind", "flag", "start", "shown", "sent"),
    [
        ("text/html", Flag.PAGE, b"", Flag.PAGE, "text/html"),
        ("text/html", Flag.IMAGE, b"<!DOCTYPE html><p>", Flag.FRAME, "text/html"),
        ("text/html", Flag.IMAGE, b"\x89PNG", Flag.IMAGE, "text/plain"),
        ("text/html;charset=gbk", Flag.SCRIPT, b"var a = '<a href=/>'", Flag.SCRIPT, "text/plain; charset=gbk"),
        ("text/html", Flag.SCRIPT, b" <!-- hide\nvar a", Flag.SCRIPT, "text/plain"),
        ("text/html", Flag.STYLE, b"a { color: red }", Flag.STYLE, "text/plain"),
        ("application/xml", Flag.IMAGE, b"<?xml version='1.0'?>", Flag.IMAGE, "text/plain"),
        ("text/xsl", Flag.STYLE, b"<?xml version='1.0'?>", Flag.STYLE, "text/xsl"),
        ("image/svg+xml", Flag.IMAGE, b"<svg>", Flag.IMAGE, "image/svg+xml"),
        ("text/css", Flag.IMAGE, b"", Flag.IMAGE, "text/css"),
    ],
)  # fmt: skip
def test_a_part_of_a_page_is_no_page_unless_it_looks_like_one(
    kind: str, flag: Flag, start: bytes, shown: Flag, sent: str
) -> None:
    media = media_type([kind])
    found = shown_flag(flag, media, start)
    assert (found, shown_type(found, media).sent()) == (shown, sent)


@pytest.mark.parametrize(
    "kind", ["text/xml", "application/xml", "application/rdf+xml", "text/xsl", "application/rss+xml"]
)
def test_xml_that_fills_a_window_is_led_into_the_archive_whatever_its_prefixes(kind: str) -> None:
    page = (
        b"<?xml version='1.0'?><h:html xmlns:h='http://www.w3.org/1999/xhtml' xmlns:q='http://www.w3.org/1999/xlink'>"
        b"<h:meta http-equiv='refresh' content='0; url=http://live.example/'/><h:img src='http://live.example/i'/>"
        b"<s:a xmlns:s='http://www.w3.org/2000/svg' q:href='http://live.example/l'>x</s:a></h:html>"
    )
    context = ReplayContext(page_url="http://a.example/x", timestamp="20260102030405")
    rewriter = rewriter_for(kind, Flag.PAGE, context)
    assert rewriter is not None
    after = rewriter.feed(page) + rewriter.close()
    assert after.count(b"live.example") == after.count(b"/http://live.example") == 3
    assert b'content="1;url=/web/20260102030405/http://live.example/"' in after
    assert rewriter_for(kind, Flag.EMBEDDED, context) is None  # data to the script that asks for it
