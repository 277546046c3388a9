"""Are all addresses of a page led into the archive, and is nothing else touched?"""

from dataclasses import replace

import pytest

from herodotus.core.replay import Flag, ReplayContext, rewriter_for
from tests.herodotus.core.replay.judging import BARE, DATE, PAGE, PORTAL, found, leaks, rewritten, wanted

A = f"/web/{DATE}".encode()


def at(flag: str, url: str) -> bytes:
    return f"/web/{DATE}{flag}/{url}".encode()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'<a href="p">', b'<a href="%s">' % at("", "http://a.example/x/p")),
        (b"<A HREF=p>", b"<A HREF=%s>" % at("", "http://a.example/x/p")),
        (b"<a\nclass=b href = 'p' id=c>", b"<a\nclass=b href = '%s' id=c>" % at("", "http://a.example/x/p")),
        (b'<a href="/p?a=1&amp;b=2">', b'<a href="%s">' % at("", "http://a.example/p?a=1&amp;b=2")),
        (b'<img src="//b.example/p">', b'<img src="%s">' % at("im_", "http://b.example/p")),
        (b"<script src=p></script>", b"<script src=%s></script>" % at("js_", "http://a.example/x/p")),
        (b"<link rel=stylesheet href=p>", b"<link rel=stylesheet href=%s>" % at("cs_", "http://a.example/x/p")),
        (b"<link rel='shortcut icon' href=p>",
         b"<link rel='shortcut icon' href=%s>" % at("im_", "http://a.example/x/p")),
        (b"<link rel=preload as=script href=p>",
         b"<link rel=preload as=script href=%s>" % at("js_", "http://a.example/x/p")),
        (b"<link rel=canonical href=/p>", b"<link rel=canonical href=%s>" % at("", "http://a.example/p")),
        (b"<iframe src=p></iframe>", b"<iframe src=%s></iframe>" % at("if_", "http://a.example/x/p")),
        (b"<frame src=p>", b"<frame src=%s>" % at("if_", "http://a.example/x/p")),
        (b"<embed src=p>", b"<embed src=%s>" % at("oe_", "http://a.example/x/p")),
        (b"<object data=p></object>", b"<object data=%s></object>" % at("oe_", "http://a.example/x/p")),
        (b"<param name=movie value=p>", b"<param name=movie value=%s>" % at("oe_", "http://a.example/x/p")),
        (b"<param name=wmode value=p>", b"<param name=wmode value=p>"),
        (b"<video poster=p src=q>",
         b"<video poster=%s src=%s>" % (at("im_", "http://a.example/x/p"), at("oe_", "http://a.example/x/q"))),
        (b"<form action='?a'>", b"<form action='%s'>" % at("", "http://a.example/x/y.html?a")),
        (b"<button formaction=p>", b"<button formaction=%s>" % at("", "http://a.example/x/p")),
        (b"<a ping='p q'>",
         b'<a ping="%s %s">' % (at("oe_", "http://a.example/x/p"), at("oe_", "http://a.example/x/q"))),
        (b"<td background=p>", b"<td background=%s>" % at("im_", "http://a.example/x/p")),
        (b"<q cite=p>", b"<q cite=%s>" % at("", "http://a.example/x/p")),
        (b"<html manifest=p>", b"<html manifest=%s>" % at("oe_", "http://a.example/x/p")),
        (b"<svg><image xlink:href=p /></svg>",
         b"<svg><image xlink:href=%s /></svg>" % at("im_", "http://a.example/x/p")),
        (b"<svg><a xlink:href='p'>", b"<svg><a xlink:href='%s'>" % at("", "http://a.example/x/p")),
        (b"<svg><use href='s.svg#i'/>", b"<svg><use href='%s'/>" % at("im_", "http://a.example/x/s.svg#i")),
        (b"<svg><use href='#i'/>", b"<svg><use href='#i'/>"),
        (b"<img srcset='p 1x, q 2x,r'>",
         b'<img srcset="%s 1x, %s 2x,%s">' % tuple(at("im_", f"http://a.example/x/{n}") for n in "pqr")),
        (b"<img srcset='data:image/gif;base64,R0lG 1x, q'>",
         b'<img srcset="data:image/gif;base64,R0lG 1x, %s">' % at("im_", "http://a.example/x/q")),
        (b"<link rel=preload as=image imagesrcset=p>",
         b'<link rel=preload as=image imagesrcset="%s">' % at("im_", "http://a.example/x/p")),
        (b"<p style='color:red;background:url(p)'>",
         b'<p style="color:red;background:url(%s)">' % at("im_", "http://a.example/x/p")),
        (b'<p style="background:url(&quot;p&quot;)">',
         b'<p style="background:url(&quot;%s&quot;)">' % at("im_", "http://a.example/x/p")),
        (b"<style>@import 'p';</style>", b"<style>@import '%s';</style>" % at("cs_", "http://a.example/x/p")),
        (b"<meta http-equiv=Refresh content='5;url=p'>",
         b'<meta http-equiv=Refresh content="5;url=%s">' % at("", "http://a.example/x/p")),
        (b"<meta http-equiv=content-security-policy content=x>",
         b"<meta data-archived-http-equiv=content-security-policy content=x>"),
        (b"<meta name=referrer content=no-referrer>", b"<meta data-archived-name=referrer content=no-referrer>"),
        (b"<script integrity=x nonce=y>", b"<script data-archived-integrity=x data-archived-nonce=y>"),
        (b"<script type=speculationrules>{}</script>", b"<script type=archived-speculationrules>{}</script>"),
        (b"<script type=' Speculation&#114;ules' src=p>",
         b"<script type='archived- Speculation&#114;ules' src=%s>" % at("js_", "http://a.example/x/p")),
        (b"<img crossorigin=use-credentials>", b"<img data-archived-crossorigin=use-credentials>"),
        (b"<img crossorigin=anonymous>", b"<img crossorigin=anonymous>"),
        (b"<a target=_blank>", b'<a target="_top">'),
        (b"<base target='_blank'>", b'<base target="_top">'),
        (b"<a target=main>", b"<a target=main>"),
        (b"<img data-src='//b.example/p'>", b"<img data-src='%s'>" % at("im_", "http://b.example/p")),
        (b"<img data-src='p' data-x='a b http://c'>", b"<img data-src='p' data-x='a b http://c'>"),
        (b"<a href='&#x2f;p'>", b"<a href='%s'>" % at("", "http://a.example/p")),
        (b"<a href='htt&#112;&colon;//b.example/'>", b"<a href='%s'>" % at("", "http://b.example/")),
        (b"<a href='java&#115;cript:x()'>", b"<a href='java&#115;cript:x()'>"),
        (b"<script type=importmap>{\"imports\":{\"m\":\"./m.js\"}}</script>",
         b'<script type=importmap>{"imports": {"m": "%s%s"}}</script>' % (PORTAL.encode(), at("js_", "http://a.example/x/m.js"))),
        (b"<iframe srcdoc='<img src=p>'></iframe>",
         b'<iframe srcdoc="<img src=%s>"></iframe>' % at("im_", "http://a.example/x/p")),
        (b"<iframe srcdoc=\"&lt;img src=&quot;p&quot; alt='&amp;eacute;'&gt;\"></iframe>",
         b"<iframe srcdoc=\"<img src=&quot;%s&quot; alt='&amp;eacute;'>\"></iframe>" % at("im_", "http://a.example/x/p")),
    ],
)  # fmt: skip
def test_an_address_is_led_into_the_archive(before: bytes, after: bytes) -> None:
    assert rewritten(before) == after


@pytest.mark.parametrize(
    "page",
    [
        b"plain text < 3 <> </> & more", b"<!-- <a href=p> -->", b"<!--><!---->", b"<!-- a -- > --!>",
        b"<![CDATA[ x ]]>",
        b"<script>var a = '<a href=p>';</script>", b"<script><!-- <script> </script> <img src=p> --></script>",
        b"<textarea><a href=p></textarea>", b"<title><a href=p></title>", b"<xmp><a href=p></xmp>",
        b"<plaintext><a href=p></plaintext>", b"<noframes><a href=p></noframes>", b"<!doctype html><p class=\"a>b\">",
        b"<p title=\"<a href='p'>\">", b"<a href=\"#top\">", b"<a href='mailto:a@b'>", b"<a href>",
        b"<a href=>", b"<a href=''>",
        b"<svg><![CDATA[<a href=p>]]></svg>", b"</a href=p>", b"<?php <a href=p ?", b"<p data-a=b>",
        b"<option value=p>",
        b"<a href=\"never closed><img src=p>", b"<img src=p", b"<", b"</", b"<!", b"<!-", b"<a", b"\xfe\xfe",
        b"\0<p>\0",
        b"<a href=\"/web/20260102030405/http://b.example/\">", b"<noscript>x</noscript>",
        b"<script type=importmap>nonsense</script>", b"<script type=importmap>[1]</script>",
    ],
)  # fmt: skip
def test_what_is_no_address_stays_as_it_is(page: bytes) -> None:
    assert rewritten(page) == page


@pytest.mark.parametrize(
    "page",
    [
        b"<!--><img src=p>-->", b"<!-- --!><img src=p>", b"<! ><img src=p>", b"</ ><img src=p>", b"<a/href=p>",
        b"<a b='c'href=p>", b"<a =\"><img src=p>\">", b"<a href=p\"q>", b"<a b = c href\n=\np>",
        b"<script/></script><img src=p>",
        b"<script><!--</script><img src=p>", b"<script><!-- <script></script></script><img src=p>",
        b"<script><!--><script></script><img src=p>", b"<svg><script/><image href=p></svg>",
        b"<svg><title><a href=p></title>",
        b"<svg><style/><image href=p></svg>", b"</a b=\"<script>\"><img src=p>",
        b"<style></styles><x></style><img src=p>",
        b"<textarea></textarea\n><img src=p>", b"<IMG SRC=P>", b"<img src=p src=q>", b"<a\x0bhref=p href=q>",
        b"<svg><![CDATA[>]]><image href=p>", b"<![CDATA[><img src=p>]]>", b"<p a=<img src=p>", b"<img src=\xe3p>",
        b"<img src=`p`>", b"<div style=background:url(p)>", b"<div style='background:url(&#39;p&#39;)'>",
        b"<a href=\"..\\..\\p\">", b"<a href=\" \t/p\">", b"<a href=\"&Tab;/p\">", b"<a href='/&period;./../p'>",
        b"<a href='\\\\b.example'>", b"<a href=//b.example><a href='///b.example'><a href='http:b.example'>",
        b"<noscript><img src=/p></noscript>", b"<template><img src=/p></template>", b"<math><mi xlink:href='/p'>",
        b"<a href=\"/web/2026\\/../../../etc\">", b"<a href='/web/20260102030405/../../etc'>",
        b"<a href='/web/20260102030405/http:/../../../../api'>",
    ],
)  # fmt: skip
def test_no_oddity_of_markup_hides_an_address(page: bytes) -> None:
    assert wanted(page) != []
    assert found(rewritten(page)) == wanted(page)


def test_a_base_counts_once_and_for_all_that_follows() -> None:
    page = b"<base href='//b.example/c/'><base href=/d/><img src=\"p\"><p style='background:url(p)'><a href=\"q\">"
    assert rewritten(page) == (
        b"<base href='%s'><base href=%s>" % (at("", "http://b.example/c/"), at("", "http://b.example/d/"))
        + b'<img src="%s"><p style="background:url(%s)">'
        % (at("im_", "http://b.example/c/p"), at("im_", "http://b.example/c/p"))
        + b'<a href="%s">' % at("", "http://b.example/c/q")
    )


def test_an_address_of_the_page_cannot_break_out_of_an_attribute() -> None:
    context = replace(BARE, page_url="http://a.example/it's(1)<\">&copy/y")
    page = rewritten(
        b"<img src=p><img src='p'><p style='background:url(p)'><style>i{b:url(p)}</style>", context
    )
    assert leaks(page) == []
    assert page.count(b"<img") == 2
    assert b"it's" not in page.split(b"<p ")[0]


def test_guard_and_banner_come_first_and_once() -> None:
    context = ReplayContext(page_url=PAGE, timestamp=DATE, banner=b"<i>B</i>")
    guard = b'<script src="/web/_/client.js"></script>'
    page = b"<!doctype html>\n<!-- <head> --><html><head id=h><title>t</title></head><body class=c><p>x<body>"
    assert rewritten(page, context) == (
        b"<!doctype html>\n<!-- <head> --><html><head id=h>"
        + guard
        + b"<title>t</title></head><body class=c><i>B</i><p>x<body>"
    )
    assert rewritten(b"x<p>y", context) == b"x" + guard + b"<p>y<i>B</i>"
    assert (
        rewritten(b"<frameset><frame src=''></frameset>", context)
        == guard + b"<frameset><frame src=''></frameset>"
    )
    assert rewritten(b"<body>x", replace(context, flag=Flag.FRAME)) == guard + b"<body>x"


def test_links_of_a_frame_stay_in_it() -> None:
    context = replace(BARE, flag=Flag.FRAME)
    assert rewritten(
        b'<a href="p"><a href=p><form action=p>', context
    ) == b'<a href="%s"><a href=%s><form action=%s>' % ((at("if_", "http://a.example/x/p"),) * 3)


def test_pages_within_pages_end_somewhere() -> None:
    page = b"<img src=p>"
    for _ in range(8):
        page = b'<iframe srcdoc="' + page.replace(b"&", b"&amp;").replace(b'"', b"&quot;") + b'"></iframe>'
    after = rewritten(page)
    assert len(after) < 1_000
    assert leaks(after) == []


def test_a_tag_without_end_takes_bounded_memory_and_is_left_out() -> None:
    page = b"<p>" + b"<a b='" * 400_000 + b'x\'><img src="/p">'
    after = rewritten(page)
    assert after.endswith(b'<img src="%s">' % at("im_", "http://a.example/p"))
    assert leaks(after) == []


@pytest.mark.parametrize(
    ("start", "one", "end"),
    [(b"<a ping='", b"a ", b"'>"), (b"<object archive='", b"a ", b"'>"), (b"<applet archive='", b"//a,", b"'>"),
     (b"<p style='", b"a:url(a);", b"'>"), (b"<p style='a:image-set(", b"url(a) ", b")'>")],
    ids=["ping", "archives", "archives of an applet", "styles", "pictures to choose from"],
)  # fmt: skip
def test_one_tag_cannot_become_a_hundred_times_as_long(start: bytes, one: bytes, end: bytes) -> None:
    """Addresses of one letter below a long folder: each would be led into the archive with all of it."""
    context = replace(BARE, page_url=f"http://a.example/{'x' * 450}/")
    page = start + one * (1_000_000 // len(one)) + end
    after = rewritten(page, context)
    assert start.split()[0] in after
    assert len(after) < 5 * len(page)


def test_as_much_as_pages_need_is_led_into_the_archive_in_one_tag() -> None:
    links, styles = (
        rewritten(b"<a ping='%s'>" % (b"p " * 1_000)),
        rewritten(b"<p style='%s'>" % (b"a:url(p);" * 3_000)),
    )
    assert links.count(b"http://a.example/x/p") == 1_000
    assert styles.count(b"http://a.example/x/p") == 3_000


def test_text_without_end_streams() -> None:
    for start in (b"<script>", b"<!--", b"<style>/*", b"<textarea>", b"<plaintext>", b"<![CDATA["):
        piece = b"x" * 100_000
        rewriter = rewriter_for("text/html", Flag.PAGE, BARE)
        assert rewriter is not None
        sent = len(rewriter.feed(start))
        for _ in range(40):  # of a script 2 MiB are held
            sent += len(rewriter.feed(piece))
        assert sent > 3_700_000
        assert sent + len(rewriter.close()) == len(start) + 4_000_000


@pytest.mark.parametrize(
    ("tag", "after"),
    [
        ("<script src=p>", '<script crossorigin="" src={}js_{}p>'),
        ("<script>", "<script>"),
        ("<video>", '<video crossorigin="">'),
        ("<audio controls>", '<audio crossorigin="" controls>'),
        ("<link rel=stylesheet href=p>", '<link crossorigin="" rel=stylesheet href={}cs_{}p>'),
        ("<link rel=preload as=script href=p>", '<link crossorigin="" rel=preload as=script href={}js_{}p>'),
        ("<link rel=icon href=p>", "<link rel=icon href={}im_{}p>"),
        ("<script src=p crossorigin>", "<script src={}js_{}p crossorigin>"),
        ("<script src=p crossorigin=anonymous>", "<script src={}js_{}p crossorigin=anonymous>"),
        (
            "<script crossorigin=use-credentials src=p>",
            '<script crossorigin="" data-archived-crossorigin=use-credentials src={}js_{}p>',
        ),
        ("<img src=p>", "<img src={}im_{}p>"),
    ],
)
def test_a_page_without_an_origin_asks_for_leave_to_look_into_its_parts(tag: str, after: str) -> None:
    context = replace(BARE, is_guarded=True, flag=Flag.MAIN)
    made = rewritten(b"<head></head>" + tag.encode(), context).decode().partition("</head>")[2]
    assert made == after.format(A.decode(), "/http://a.example/x/")
