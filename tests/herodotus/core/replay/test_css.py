"""Are all addresses of a style sheet led into the archive, and is nothing else touched?"""

from dataclasses import replace

import pytest

from herodotus.core.replay import Flag, rewriter_for
from herodotus.core.replay.css import TOKEN_BYTES_MAX
from tests.herodotus.core.replay.judging import BARE, DATE, in_pieces, rewritten_css


def at(flag: str, url: str) -> bytes:
    return f"/web/{DATE}{flag}/{url}".encode()


P = at("im_", "http://a.example/x/p")
S = at("cs_", "http://a.example/x/p")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"i{b:url(p)}", b"i{b:url(%s)}" % P),
        (b"i{b:URL( 'p' )}", b"i{b:URL( '%s' )}" % P),
        (b'i{b:url("p" )}', b'i{b:url("%s" )}' % P),
        (b"i{b:url( p )}", b"i{b:url( %s )}" % P),
        (b"@import 'p';", b"@import '%s';" % S),
        (b'@IMPORT"p"screen;', b'@IMPORT"%s"screen;' % S),
        (b"@import/**/url(p) layer(x);", b"@import/**/url(%s) layer(x);" % S),
        (b"@import url('p')", b"@import url('%s')" % S),
        (b"@font-face{src:url(p)format('woff2')}", b"@font-face{src:url(%s)format('woff2')}" % P),
        (b"i{b:\\75rl(p)}", b"i{b:\\75rl(%s)}" % P),
        (b"i{b:u\\72 l(p)}", b"i{b:u\\72 l(%s)}" % P),
        (b"i{b:ur\\6C('p')}", b"i{b:ur\\6C('%s')}" % P),
        (b"i{b:url(\\70)}", b'i{b:url("%s")}' % P),
        (b"i{b:url('\\2fp')}", b"i{b:url('%s')}" % at("im_", "http://a.example/p")),
        (b"i{b:url('a\\\nb')}", b"i{b:url('%s')}" % at("im_", "http://a.example/x/ab")),
        (b"i{b:image-set('p' 1x,url(p)2x type('image/png'))}",
         b"i{b:image-set('%s' 1x,url(%s)2x type('image/png'))}" % (P, P)),
        (b'i{b:-webkit-image-set("p" 1x)}', b'i{b:-webkit-image-set("%s" 1x)}' % P),
        (b"i{b:url(p", b"i{b:url(%s" % P),
        (b"i{b:url('p", b"i{b:url('%s" % P),
        (b"/* ' */i{b:url(p)}/* ' */", b"/* ' */i{b:url(%s)}/* ' */" % P),
        (b"i{c:'\n}i{b:url(p)}", b"i{c:'\n}i{b:url(%s)}" % P),
        (b"i{c:\"\\\"\";b:url(p)}", b"i{c:\"\\\"\";b:url(%s)}" % P),
        (b"i{c:u url(p) ur ru:u}", b"i{c:u url(%s) ur ru:u}" % P),
    ],
)  # fmt: skip
def test_an_address_is_led_into_the_archive(before: bytes, after: bytes) -> None:
    assert rewritten_css(before) == after


@pytest.mark.parametrize(
    "css",
    [
        b"i{c:'url(p)'}", b"/* url(p) @import 'p'; */", b"@namespace url(http://www.w3.org/1999/xhtml);",
        b"@namespace svg 'http://www.w3.org/2000/svg';", b"i{b:url(data:image/gif;base64,R0)}", b"i{b:url(#f)}",
        b"i{b:url()}", b"i{b:url('')}", b"i{b:my-url(p)}", b"i{b:curl(p)}", b"i{b:url(p q)}", b"@charset 'utf-8';",
        b"@importer 'p';", b"i{c:image-set(type('p') 1x)}", b"/* never closed url(p)", b"'", b"\\",
        b"i{b:format('p')local('q')}", b"@import", b"url", b"@", b"i{b:image-set(",
    ],
)  # fmt: skip
def test_what_is_no_address_stays_as_it_is(css: bytes) -> None:
    assert rewritten_css(css) == css


def test_a_page_with_brackets_in_its_address_cannot_break_a_style() -> None:
    context = replace(BARE, page_url="http://a.example/it's_(b)/y")
    rewriter = rewriter_for("text/css", Flag.STYLE, context)
    assert rewriter is not None
    css = rewriter.feed(b"i{b:url(p)}i{b:url('p')}") + rewriter.close()
    address = rb"/web/%s" % DATE.encode() + rb"im_/http://a.example/it\'s_\(b\)/p"
    assert css == b"i{b:url(" + address + b")}i{b:url('" + address + b"')}"


def test_an_address_without_end_is_left_out_and_the_rest_is_read() -> None:
    css = b"i{b:url('" + b"x" * (TOKEN_BYTES_MAX + 10) + b"')}i{b:url(p)}"
    after = rewritten_css(css)
    assert after.endswith(b"i{b:url(%s)}" % P)
    assert len(after) < 200
    assert in_pieces(css, [5, 1_000_000], mime="text/css") == after
