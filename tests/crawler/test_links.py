import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.link import LinkKind
from crawler.core.links import (
    LINKS_MAX,
    NULS_BYTES_MAX,
    PARSED_BYTES_MAX,
    TAGS_MAX,
    PageLinks,
    css_links,
    header_links,
    html_links,
    xml_links,
)
from crawler.core.references import srcset_references

PAGE = "http://a.example/dir/page"


def found(links: PageLinks) -> list[tuple[str, str]]:
    return [(link.url.removeprefix("http://a.example"), link.kind.value) for link in links.links]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("<a href=x>", [("/dir/x", "page")]),
        ("<a href=' /x\n'>", [("/x", "page")]),
        ("<A HREF='//b.example/x#part'>", [("http://b.example/x", "page")]),
        ("<area href=x>", [("/dir/x", "page")]),
        ("<iframe src=f></iframe>", [("/dir/f", "frame")]),
        ("<frameset><frame src=f>", [("/dir/f", "frame")]),
        ("<img src=i longdesc=d>", [("/dir/i", "image"), ("/dir/d", "page")]),
        ("<img srcset='a 1x, b 2x'>", [("/dir/a", "image"), ("/dir/b", "image")]),
        ("<picture><source srcset=s></picture>", [("/dir/s", "image")]),
        ("<input type=image src=i>", [("/dir/i", "image")]),
        ("<body background=b>", [("/dir/b", "image")]),
        ("<script src=s></script>", [("/dir/s", "requisite")]),
        ("<video src=v poster=p></video>", [("/dir/v", "requisite"), ("/dir/p", "image")]),
        ("<audio><source src=s></audio>", [("/dir/s", "requisite")]),
        ("<object data=o></object><embed src=e>", [("/dir/o", "requisite"), ("/dir/e", "requisite")]),
        ("<link rel=stylesheet href=c>", [("/dir/c", "requisite")]),
        ("<link rel='shortcut icon' href=i>", [("/dir/i", "image")]),
        ("<link rel=canonical href=/c><link rel=alternate href=/f>", [("/c", "page"), ("/f", "page")]),
        ("<link rel=preconnect href=//cdn.example>", []),
        ("<meta http-equiv=Refresh content='5; URL=\"/r\"'>", [("/r", "page")]),
        ("<meta http-equiv=refresh content='0;/r'>", [("/r", "page")]),
        ("<meta http-equiv=refresh content=30>", []),
        ("<meta property=og:image content=o>", [("/dir/o", "image")]),
        ("<style>@import 'i'; a{b:url( u )}</style>", [("/dir/i", "requisite"), ("/dir/u", "requisite")]),
        ("<p style='background:url(\"u\")'>", [("/dir/u", "image")]),
        ("<a href=x style='background:url(u)'>", [("/dir/x", "page"), ("/dir/u", "image")]),
        ("<svg><image href=i /><a xlink:href=/l></a></svg>", [("/dir/i", "image"), ("/l", "page")]),
        ("<blockquote cite=/c>", [("/c", "page")]),
        ("<noscript><img src=n></noscript>", [("/dir/n", "image")]),
        ("<!-- <a href=x> --><script>'<a href=y>'</script>", []),
        ("<a href='javascript:go()'><a href=mailto:x@y><a href='http://['>", []),
        ("<base href=/other/><a href=x>", [("/other/x", "page")]),
        ("<base href='javascript:0'><base href=/second/><a href=x>", [("/dir/x", "page")]),
        ("<a href=x><img src=x>", [("/dir/x", "image")]),
        ("<a href=x style='a:b'><img src=./x>", [("/dir/x", "image")]),
        ("<img src=x><a href=x>", [("/dir/x", "image")]),
        ("<img src=s.gif data-src=big.png>", [("/dir/big.png", "image"), ("/dir/s.gif", "image")]),
        ("<div data-bg='url(b.png)'><p data-image=12><p data-src=#a>", [("/dir/b.png", "image")]),
        ("<img data-srcset='a.png 1x, b.png 2x'>", [("/dir/a.png", "image"), ("/dir/b.png", "image")]),
        ("<iframe data-src=/f.html></iframe>", [("/f.html", "frame")]),
        (
            "<script data-main=js/m src=r.js></script>",
            [("/dir/js/m.js", "requisite"), ("/dir/r.js", "requisite")],
        ),
        ("<redoc spec-url=api.json></redoc>", [("/dir/api.json", "requisite")]),
        ("<elements-api apiDescriptionUrl=/api.yaml></elements-api>", [("/api.yaml", "requisite")]),
        ("<p data-url=/a/page data-json=x.json><p spec-url='{{x}}'>", []),
        ("<object><param name=Movie value=m.swf></object>", [("/dir/m.swf", "requisite")]),
        ("<html manifest=m.appcache>", [("/dir/m.appcache", "requisite")]),
        ("<video><track src=t.vtt></video>", [("/dir/t.vtt", "requisite")]),
        ("<meta name=twitter:image content=t.png>", [("/dir/t.png", "image")]),
        ("<iframe srcdoc='<img src=i.png>'></iframe>", [("/dir/i.png", "image")]),
        ("<script type=module>import './m.js'</script>", [("/dir/m.js", "requisite")]),
        ("<script type=text/template>import './m.js'</script>", []),
        ('<script type=application/json>["j.png"]</script>', [("/dir/j.png", "requisite")]),
        (
            (
                '<script type=importmap>{"imports": {"v": "/v.js", "w/": "./w/"}}</script>'
                "<script type=module>import 'v'; import 'w/a.js'; import 'x'</script>"
            ),
            [("/v.js", "requisite"), ("/dir/w/a.js", "requisite")],
        ),
    ],
)
def test_every_way_to_link_is_found_and_classified(markup: str, expected: list[tuple[str, str]]) -> None:
    assert found(html_links(markup.encode(), PAGE)) == expected


def test_nofollow_takes_away_pages_and_leaves_what_the_page_shows() -> None:
    markup = b"<a href=1 rel='noopener NOFOLLOW'></a><a href=2></a><img src=i>"
    links = html_links(markup, PAGE)
    assert found(links) == [("/dir/2", "page"), ("/dir/i", "image")]
    assert links.not_followed == 1
    everywhere = html_links(b"<meta name=ROBOTS content='NoFollow, noarchive'>" + markup, PAGE)
    assert found(everywhere) == [("/dir/i", "image")]
    assert everywhere.directives.noarchive


def test_a_meta_element_for_another_robot_is_not_for_us() -> None:
    markup = b"<meta name=googlebot content=nofollow><meta name=herodotus content=noarchive><a href=x>"
    links = html_links(markup, PAGE, product_token="Herodotus")
    assert found(links) == [("/dir/x", "page")]
    assert links.directives.noarchive


@pytest.mark.parametrize(
    ("body", "charset", "expected"),
    [
        ("<a href=/ü>".encode(), "utf-8", "/%C3%BC"),
        ("<a href=/ü>".encode("latin-1"), "iso-8859-1", "/%C3%BC"),
        ("<meta charset=windows-1251><a href=/я>".encode("cp1251"), None, "/%D1%8F"),
        ("<meta charset=windows-1251><a href=/?я>".encode("cp1251"), None, "/?%FF"),
        ("<meta charset=utf-8><a href=/ü>".encode("latin-1"), "iso-8859-1", "/%C3%BC"),
        ("\ufeff<a href=/ü>".encode(), "iso-8859-1", "/%C3%BC"),
        ("<a href=/ü>".encode("utf-16"), None, "/%C3%BC"),
        ("<a href=/ü>".encode(), "utf-16", "/%C3%BC"),
        ("<a href=/ü>".encode("utf-16-le"), "utf-16le", "/%C3%BC"),
        ("<a href=/ü>".encode(), "no-such-charset", "/%C3%BC"),
    ],
)
def test_charsets_are_found_as_browsers_do(body: bytes, charset: str | None, expected: str) -> None:
    assert [url for url, _ in found(html_links(body, PAGE, charset=charset))] == [expected]


def test_queries_are_escaped_in_the_charset_of_the_page_as_the_web_platform_tests_say() -> None:
    cases = json.loads((Path(__file__).parent.parent / "data" / "percent-encoding.json").read_text())
    for case in cases:
        if isinstance(case, str) or not case["input"].isprintable():
            continue
        for encoding in ("windows-1252", "big5", "euc-kr"):
            if encoding in case["output"]:
                body = b"<a href='/?" + case["input"].encode(encoding, "xmlcharrefreplace") + b"'>"
                expected = f"/?{case['output'][encoding]}"
                assert found(html_links(body, PAGE, charset=encoding))[0][0] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", ["a"]),
        ("a, b 2x,c 100w 50h", ["a", "b", "c"]),
        ("data:,x 1x, b", ["data:,x", "b"]),
        (" , ,a,, b ", ["a", "b"]),
        ("a,b", ["a,b"]),
        ("", []),
    ],
)
def test_srcset_candidates_are_split_as_the_standard_says(text: str, expected: list[str]) -> None:
    assert list(srcset_references(text)) == expected


@pytest.mark.parametrize(
    ("sheet", "expected"),
    [
        ("a{content:'url(no.png)'}", ""),
        (
            "a{background:image-set('a.png' 1x, url(b.png) 2x, 'c.avif' type('image/avif'))}",
            "a.png b.png c.avif",
        ),
        ("a{background:-webkit-image-set(url(a.png) 1x)}", "a.png"),
        ("a{background:cross-fade('a.png', 'b.png')}", "a.png b.png"),
        ("a{background:url(esc\\61 ped.png)}", "escaped.png"),
        ("@namespace url(http://www.w3.org/svg); @namespace 'no'; a{b:url(a.png)}", "a.png"),
        ("@import 'a.css' layer(x) supports(y: 'no'); @charset 'no';", "a.css"),
        ("a{b:curl(no) url(no no) url('broken\n.png') url(a.png)}", "a.png"),
        ("a\\'b{c:url(a.png)}", "a.png"),
        ("a{b:url(a.png", "a.png"),
    ],
)
def test_a_style_sheet_is_read_by_its_tokens(sheet: str, expected: str) -> None:
    links = found(css_links(sheet.encode(), PAGE))
    assert [url.removeprefix("/dir/") for url, _ in links] == expected.split()


def test_css_imports_and_loads_are_found_outside_comments() -> None:
    sheet = b"@import url(a.css); @IMPORT 'b.css'; /* url(no) */ x{src:URL('f\\6f nt.woff')} y{z:url()}"
    assert [url for url, _ in found(css_links(sheet, PAGE))] == ["/dir/a.css", "/dir/b.css", "/dir/font.woff"]


@pytest.mark.timeout(10)
def test_a_style_sheet_is_read_in_no_charset_that_takes_hours() -> None:
    sheet = b"url(a.css) " + b"a" * 2**20 + b"-" + b"a" * 2**20
    assert [url for url, _ in found(css_links(sheet, PAGE, charset="punycode"))] == ["/dir/a.css"]
    assert found(css_links("url(ж)".encode("koi8-r"), PAGE, charset="KOI8-R"))[0][0] == "/dir/%D0%B6"


def test_sitemaps_and_their_indexes_are_read() -> None:
    sitemap = b"<?xml version='1.0'?><urlset><url><loc> http://a.example/1?a&amp;b </loc><image:image>"
    sitemap += (
        b"<image:loc>http://a.example/i.png</image:loc></image:image></url><url><loc><![CDATA[/2]]></loc>"
    )
    assert found(xml_links(sitemap, PAGE)) == [("/1?a&b", "page"), ("/i.png", "image"), ("/2", "page")]
    index = b"<sitemapindex><sitemap><loc>http://a.example/s1.xml</loc></sitemap></sitemapindex>"
    assert found(xml_links(index, PAGE)) == [("/s1.xml", "page")]


def test_feeds_are_read_and_other_xml_is_not() -> None:
    rss = b"<rss><channel><link>/home</link><item><link>/i</link>"
    rss += b"<enclosure url='/e.mp3'/></item></channel></rss>"
    assert found(xml_links(rss, PAGE)) == [("/home", "page"), ("/i", "page"), ("/e.mp3", "requisite")]
    atom = b'<feed><link rel="self" href="/feed"/><entry><link href="/1"/></entry></feed>'
    assert found(xml_links(atom, PAGE)) == [("/1", "page")]
    assert found(xml_links(b"<svg><link>/x</link></svg>", PAGE)) == []


def test_link_headers_are_read_by_relation() -> None:
    values = [
        '</next>; rel=next, </s.css>; rel="preload stylesheet"',
        "</x>; rel=preconnect",
        "garbage",
        "</y>",
    ]
    assert found(header_links(values, PAGE)) == [("/next", "page"), ("/s.css", "requisite")]


def test_a_page_of_100000_links_gives_as_many_as_the_limit_and_counts_the_rest() -> None:
    body = "".join(f"<a href=/{n}></a>" for n in range(100_000)).encode()
    links = html_links(body, PAGE)
    read = TAGS_MAX // 2  # each has an end
    assert (len(links.links), links.over_limit) == (LINKS_MAX, read - LINKS_MAX + 1)


@pytest.mark.parametrize(
    "body",
    [
        b"<div>" * 200_000,
        b"<a href='" * 50_000,
        b"<style>" + b"url(" * 100_000,
        b"<style>@" + b"/* " * 100_000,
        b"<meta http-equiv=refresh content='" + b" ;" * 100_000 + b"'>",
        b"<meta http-equiv=refresh content='" + b"\n" * 100_000 + b"'>",
        b"<img srcset='" + b"a," * 200_000 + b"'>",
        b"<urlset>" + b"<loc>" * 100_000,
        b"<urlset>" + b"<link " * 100_000,
    ],
)
def test_hostile_markup_is_read_in_linear_time(body: bytes) -> None:
    html_links(body, PAGE)
    css_links(body, PAGE)
    xml_links(body, PAGE)  # the suite's timeout would tell


def test_links_that_a_long_base_makes_long_are_bounded_together() -> None:
    page = f"http://a.example/{'x' * 4_000}/"
    body = b"".join(b"<a href=%d>" % number for number in range(20_000))
    found = html_links(body, page)
    assert 4_000 < len(found.links) < 5_000
    assert len(found.links) + found.over_limit == 20_000
    assert len(html_links(body, "http://a.example/").links) == 20_000


@given(st.binary(max_size=300), st.sampled_from([None, "utf-8", "big5", "utf-16", "x"]))
def test_any_bytes_are_survived(body: bytes, charset: str | None) -> None:
    for links in (
        html_links(b"<a href=x " + body, PAGE, charset=charset),
        css_links(body, PAGE, charset=charset),
    ):
        assert all(link.url.startswith("http") and isinstance(link.kind, LinkKind) for link in links.links)
    xml_links(b"<rss>" + body, PAGE)


@pytest.mark.parametrize("filling", [b"<a>" + b" " * 61, b"a1 ", b"x"])
def test_what_lies_behind_the_bound_of_a_page_is_left_and_said_to_be(filling: bytes) -> None:
    for size, expected in ((PARSED_BYTES_MAX - 1_000, ["near", "far"]), (PARSED_BYTES_MAX, ["near"])):
        body = b"<a href='/near'>x</a>" + filling * (size // len(filling)) + b"<a href='/far'>x</a>"
        found = html_links(body, "http://a.example/")
        assert [link.url.rpartition("/")[2] for link in found.links] == expected
        assert found.over_limit == 2 - len(expected)


@pytest.mark.parametrize(
    ("bytes_of_four", "is_read"), [(b"\0\0xx", False), (b"\0\0\0\0", False), (b"xxxx", True)]
)
def test_of_a_page_of_zeros_less_is_read_as_its_tree_is_larger(bytes_of_four: bytes, is_read: bool) -> None:
    filling = b"<p>" + bytes_of_four * (NULS_BYTES_MAX // 4)
    found = html_links(b"<a href='/near'>x</a>" + filling + b"\0\0<a href='/far'>x</a>", "http://a.example/")
    assert [link.url.rpartition("/")[2] for link in found.links] == ["near", "far"][: 1 + is_read]
    assert found.over_limit == (not is_read)
