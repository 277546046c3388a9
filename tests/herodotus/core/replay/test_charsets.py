"""Are pages of all charsets rewritten so that a browser still reads them right?"""

import codecs

import pytest
import turbohtml
from hypothesis import given, settings
from hypothesis import strategies as st

from herodotus.core.replay import Flag, ReplayContext, looks_like_html, rewriter_for
from tests.herodotus.core.replay.judging import DATE, PAGE, PORTAL

CONTEXT = ReplayContext(page_url=PAGE, timestamp=DATE, portal_origin=PORTAL, is_guarded=False)


def replayed(page: bytes, content_type: str = "text/html", cuts: int = 1_000_000) -> bytes:
    rewriter = rewriter_for(content_type, Flag.PAGE, CONTEXT)
    assert rewriter is not None
    out = [rewriter.feed(page[at : at + cuts]) for at in range(0, len(page), cuts)]
    return b"".join(out) + rewriter.close()


def links(page: bytes, encoding: str) -> list[tuple[str | None, str]]:
    return [(one.attr("href"), one.text) for one in turbohtml.parse(page, encoding=encoding).select("a")]


TEXT = '<p title=\'><"\'>é<a href="/表/ソ.html">能 十 <b></a>'
READ = [(f"/web/{DATE}/http://a.example/表/ソ.html", "能 十 ")]


@pytest.mark.parametrize("cuts", [1, 2, 3, 1_000_000])
@pytest.mark.parametrize(
    ("codec", "label"),
    [("shift_jis", "Shift_JIS"), ("shift_jis", "x-sjis"), ("gb18030", "gb18030"), ("big5", "Big5")],
)
def test_a_second_byte_that_looks_like_a_backslash_is_none(codec: str, label: str, cuts: int) -> None:
    text = TEXT.replace("é", "").replace("ソ", "功" if codec == "big5" else "ソ")
    page = text.encode(codec)
    for content_type, start in (
        (f"text/html; charset={label}", b""),
        ("text/html", f"<meta charset={label}>".encode()),
    ):
        after = replayed(start + page, content_type, cuts)
        assert links(after, codec) == [
            (one.replace("ソ", text[text.index("表/") + 2]), said) for one, said in READ
        ]
        assert after.endswith(page[page.index(b'.html"') :])


@pytest.mark.parametrize("cuts", [1, 7, 1_000_000])
@pytest.mark.parametrize(
    ("page", "content_type"),
    [
        (codecs.BOM_UTF16_LE + TEXT.encode("utf-16-le"), "text/html; charset=iso-8859-1"),
        (codecs.BOM_UTF16_BE + TEXT.encode("utf-16-be"), "text/html"),
        (TEXT.encode("utf-16-le"), "text/html; charset=UTF-16LE"),
        (TEXT.replace("é", "").encode("iso2022_jp"), "text/html; charset=iso-2022-jp"),
        (b"<meta charset='ISO-2022-JP'>" + TEXT.replace("é", "").encode("iso2022_jp"), "text/html"),
    ],
)
def test_what_is_not_like_ascii_goes_out_as_utf_8_and_says_so(
    page: bytes, content_type: str, cuts: int
) -> None:
    after = replayed(page, content_type, cuts)
    assert after.startswith(codecs.BOM_UTF8)
    assert links(after, "utf-8") == READ


def test_a_label_of_utf_16_on_other_bytes_counts_for_nothing() -> None:
    for start, content_type in ((b"<meta charset=utf-16>", "text/html"), (b"", "text/html;charset=utf-16")):
        page = start + TEXT.encode()
        after = replayed(page, content_type)
        assert links(after, "utf-8") == READ
        assert not after.startswith(codecs.BOM_UTF8)


@given(
    st.binary(max_size=60), st.sampled_from(["shift_jis", "gbk", "big5", "utf-16", "iso-2022-jp", "nonsense"])
)
@settings(max_examples=60, deadline=None)
def test_no_bytes_disturb_and_cuts_make_no_difference(data: bytes, charset: str) -> None:
    content_type = f"text/html; charset={charset}"
    assert replayed(data, content_type, 1) == replayed(data, content_type)
    if (
        charset in ("shift_jis", "gbk", "big5")
        and b"<" not in data
        and b"\xff" not in data
        and data[:2] != b"\xfe\xff"
    ):
        assert replayed(data, content_type) == data


def test_a_style_sheet_in_shift_jis_keeps_its_letters() -> None:
    css = "i{background:url('/表.png');content:'能'}".encode("shift_jis")
    rewriter = rewriter_for("text/css; charset=shift_jis", Flag.STYLE, CONTEXT)
    assert rewriter is not None
    assert rewriter.feed(css) + rewriter.close() == css.replace(
        b"/", f"/web/{DATE}im_/http://a.example/".encode(), 1
    )


@pytest.mark.parametrize(
    ("start", "is_html"),
    [(b" \n<!DOCTYPE HTML>", True), (b"<p>", True), (b"<pre>", False), (b"GIF89a", False), (b"", False)],
)
def test_a_page_without_a_type_is_known_by_its_start(start: bytes, is_html: bool) -> None:
    assert looks_like_html(start) is is_html
