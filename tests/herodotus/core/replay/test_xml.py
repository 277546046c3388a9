"""Are pages and pictures in XML rewritten by the rules of XML, and still well-formed?"""

import xml.etree.ElementTree as ET
from dataclasses import replace

from herodotus.core.replay import BannerFacts, banner_html
from tests.herodotus.core.replay.judging import BARE, DATE, rewritten

A = f"/web/{DATE}"
XLINK = "xmlns:x='http://www.w3.org/1999/xlink'"


def test_a_picture_loads_its_parts_from_the_archive_and_gets_nothing_put_in() -> None:
    picture = (
        "<?xml version='1.0'?><?xml-stylesheet type='text/css' href='s.css'?>"
        "<svg xmlns='http://www.w3.org/2000/svg'><style><![CDATA[a{fill:url(p)}]]></style><title><b/></title>"
        "<image href='i.png'/><script href='j.js'/><text><![CDATA[<image href='k.png'/>]]></text></svg>"
    )
    context = replace(BARE, is_guarded=True, banner=b"<i>no</i>")
    after = rewritten(picture.encode(), context, "image/svg+xml").decode()
    assert after == (
        f"<?xml version='1.0'?><?xml-stylesheet type='text/css' href='{A}cs_/http://a.example/x/s.css'?>"
        f"<svg xmlns='http://www.w3.org/2000/svg'><style><![CDATA[a{{fill:url({A}im_/http://a.example/x/p)}}]]></style>"
        f"<title><b/></title><image href='{A}im_/http://a.example/x/i.png'/>"
        f"<script href='{A}js_/http://a.example/x/j.js'/><text><![CDATA[<image href='k.png'/>]]></text></svg>"
    )


def test_a_page_stays_well_formed_with_banner_and_guard() -> None:
    page = (
        b"<?xml version='1.0'?><!DOCTYPE html><html xmlns='http://www.w3.org/1999/xhtml'><head><title/></head>"
        b"<body><script src='j.js'/><a href='/p?a=1&amp;b=2'>x</a><br/></body></html>"
    )
    context = replace(BARE, is_guarded=True, banner=banner_html(BARE, BannerFacts(previous="20250101000000")))
    after = rewritten(page, context, "application/xhtml+xml")
    tree = ET.fromstring(after)
    name = "{http://www.w3.org/1999/xhtml}"
    assert [one.get("src") for one in tree.iter(f"{name}script")] == [
        "/web/_/client.js", f"{A}js_/http://a.example/x/j.js",
    ]  # fmt: skip
    assert [one.get("href") for one in tree.iter(f"{name}a")][-1] == f"{A}/http://a.example/p?a=1&b=2"


def test_nothing_is_put_before_a_root_of_another_name() -> None:
    page = b"<h:html xmlns:h='http://www.w3.org/1999/xhtml'><h:body/></h:html>"
    context = replace(BARE, is_guarded=True, banner=b"<i/>")
    assert rewritten(page, context, "application/xhtml+xml") == page
