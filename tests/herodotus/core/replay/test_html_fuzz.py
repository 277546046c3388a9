"""Do rewriters survive anything, the same however it is cut, and never let an address of the web through?"""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from herodotus.core.replay.html import TOKEN_BYTES_MAX
from tests.herodotus.core.replay.judging import in_pieces, leaks, rewritten, rewritten_css

_MARKUP = st.sampled_from(
    [
        b"<", b">", b"</", b"/>", b"=", b'"', b"'", b" ", b"\n", b"/", b"<a href=", b'<a href="',
        b"<img src=", b"<IMG SRC='",
        b"<!--", b"-->", b"--!>", b"-", b"!", b"<!", b"<?", b"<![CDATA[", b"]]>", b"<script", b"<script>",
        b"</script>",
        b"</script", b"<style>", b"</style>", b"<style", b"<textarea>", b"</textarea>", b"<title>",
        b"</title>", b"<xmp>",
        b"</xmp>", b"<iframe src=", b"</iframe>", b"<iframe srcdoc='", b"<base href=", b"<link rel=stylesheet href=",
        b"<meta http-equiv=refresh content='0;url=", b"<p style='background:url(", b"<p style=\"", b"url(",
        b")", b"@import '",
        b"<img srcset='", b", ", b" 2x", b"//l.example/p", b"/p", b"p", b"../../../p", b"http://l.example/",
        b"\\\\l.example",
        b"&amp;", b"&#x2f;", b"&sol;", b"&quot;", b"&", b";", b"%2e%2e/", b"/web/20260102030405/http://l.example/p",
        b"<form action=", b"<noscript>", b"</noscript>", b"<div>", b"</div>", b"<p ", b"class=", b"x", b"\0",
        b"\xff", b"#",
        b"data:", b"javascript:", b"\t", b"?", b":", b"<body>", b"<head>", b"<object data=", b"<plaintext>",
        b"integrity=",
        b"<template>", b"</template>", b"target=_blank ", b"data-src=",
    ]
)  # fmt: skip
_SOUP = st.lists(_MARKUP, max_size=40).map(b"".join) | st.binary(max_size=200)
_CUTS = st.lists(st.integers(0, 400), max_size=12)
_STYLE = st.lists(
    st.sampled_from(
        [
            b"url(", b"URL(", b"\\75rl(", b"u\\72 l(", b")", b'"', b"'", b"\\", b"/*", b"*/", b"@import ",
            b"@IMPORT'", b"@namespace ",
            b";", b"{", b"}", b"\n", b" ", b"x", b"image-set(", b"1x", b",", b"p", b"//l.example/p", b"\\2f",
            b"type(", b"(", b"\xff", b"\0",
            b"a-url(", b"*", b"/", b"@", b"-webkit-image-set(",
        ]
    ),
    max_size=30,
).map(b"".join)  # fmt: skip


@given(_SOUP)
@settings(max_examples=150, deadline=None)
@example(b'<p "=<a href=//l.example/p>')
def test_no_page_leads_out_of_the_archive(page: bytes) -> None:
    assert leaks(rewritten(page)) == []


@given(_SOUP, _CUTS)
@settings(max_examples=100, deadline=None)
def test_cuts_make_no_difference(page: bytes, cuts: list[int]) -> None:
    assert in_pieces(page, cuts) == rewritten(page)


@given(_SOUP)
@settings(max_examples=50, deadline=None)
def test_single_bytes_make_no_difference(page: bytes) -> None:
    assert in_pieces(page, list(range(len(page)))) == rewritten(page)


@given(_SOUP)
@settings(max_examples=50, deadline=None)
def test_xml_is_cut_as_freely(page: bytes) -> None:
    assert in_pieces(page, list(range(len(page))), mime="image/svg+xml") == rewritten(
        page, mime="image/svg+xml"
    )


@given(_STYLE, _CUTS)
@settings(max_examples=100, deadline=None)
def test_cuts_of_a_style_make_no_difference(css: bytes, cuts: list[int]) -> None:
    assert in_pieces(css, cuts, mime="text/css") == rewritten_css(css)


@pytest.mark.parametrize(("difference", "cut"), [(-1, 1_000_000), (0, 2_097_150), (1, 2_097_160), (40, 7)])
def test_long_tokens_are_cut_the_same(difference: int, cut: int) -> None:
    page = b"<p><a b='%s' href=/p><a href=/q>" % (b"x" * (TOKEN_BYTES_MAX - 20 + difference))
    assert in_pieces(page, [cut]) == rewritten(page)
    css = b"i{b:url('%s')}i{b:url(/p)}" % (b"x" * (TOKEN_BYTES_MAX + difference))
    assert in_pieces(css, [cut], mime="text/css") == rewritten_css(css)
