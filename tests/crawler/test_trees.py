"""Pages that make a tree of many times their size are cut before there is one; others are not."""

import pytest
import turbohtml

from crawler.core.links import html_links
from crawler.core.trees import PLAIN_PAGE_BYTES, STRETCH_BYTES, fit_for_tree, tree_of

ELEMENTS_MAX = 375_000
"""In a tree of `TREE_BYTES_MAX`."""


def opened(count: int, attributes: str = "") -> bytes:
    return b"".join(b"<b id=%d %s>" % (n, attributes.encode()) for n in range(count))


ATTRIBUTES = " ".join(f"a{n}" for n in range(200))
BOMBS = {
    "left open": b"<div>" + opened(500) + b"</div>" + b"<div>x</div>" * 10_000,
    "in paragraphs": b"<p>" + opened(500) + b"<p>x" * 20_000,
    "with attributes": b"<p>" + opened(100, ATTRIBUTES) + b"<p>x" * 5_000,
    "closed in a comment": b"<p>" + opened(500) + b"<!--" + b"</b>" * 500 + b"--><p>" + b"<p>x" * 20_000,
    "closed in an object": b"<p>"
    + opened(500)
    + b"<object>"
    + b"</b>" * 500
    + b"</object>"
    + b"<p>x" * 20_000,
    "few with much": b"<p><b %s>" % b" ".join(b"x%d" % n for n in range(12_000)) + b"<p>x" * 700,
    "small": b"<p>" + opened(300, " ".join(f"a{n}" for n in range(50))) + b"<p>x" * 400,
    "closed before": b"</b>" * 500 + b"<p>" + opened(500) + b"<p>x" * 20_000,
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_page_that_opens_its_formatting_again_and_again_makes_no_large_tree(name: str) -> None:
    fit = fit_for_tree(BOMBS[name])
    assert len(fit) < len(BOMBS[name])
    assert len(turbohtml.parse(fit, positions=False).select("*")) < ELEMENTS_MAX
    assert html_links(BOMBS[name], "http://a.example/").over_limit == 1


@pytest.mark.parametrize("charset", ["utf-16-le", "utf-16-be"])
def test_the_same_in_two_bytes_a_letter(charset: str) -> None:
    body = b"\xff\xfe" if charset == "utf-16-le" else b"\xfe\xff"
    body += BOMBS["left open"].decode().encode(charset)
    assert len(turbohtml.parse(fit_for_tree(body), positions=False).select("*")) < ELEMENTS_MAX


@pytest.mark.parametrize("tag", ["body", "HTML"])
def test_attributes_that_many_tags_hand_to_the_first_are_bounded(tag: str) -> None:
    many = b"".join(b"<%s a%d=1>" % (tag.encode(), n) for n in range(100_000))
    assert len(fit_for_tree(many)) < len(many) / 4
    large = b"<%s %s>" % (tag.encode(), b" ".join(b"a%d" % n for n in range(100_000)))
    assert len(fit_for_tree(large * 2 + b"x")) < 2 * len(large)  # each would be compared with each


PAGES = {
    "closed": b"".join(b"<p><font size=%d>words</font> and <b>more</b></p>" % n for n in range(4_000)),
    "icons": b"".join(
        b"<td><i class='icon-%d x'></i><a href=/%d>x</a></td>" % (n % 300, n) for n in range(4_000)
    ),
    "alike": b"<p><b><i><font color=red>words" * 5_000,
    "small": b"<p>" + opened(40) + b"<p>x" * 400,
    "text": b"a" * (2 * PLAIN_PAGE_BYTES),
}


@pytest.mark.parametrize("name", PAGES)
def test_other_pages_are_read_whole(name: str) -> None:
    assert fit_for_tree(PAGES[name]) == PAGES[name]


STRETCHES = {
    "words": (b"<title>t</title><p>", b"some words of a text, "),
    "lines": (b"<pre>", b"one&amp;line\n"),
    "no tag": (b"", b"w\xc3\xb6rter "),
    "no space": (b"<p>", b"\xe6\x96\x87x"),
    "letters of four bytes": (b"<p>", b"\xf0\x9f\x98\x80"),
    "closed drawing": (b"<svg><path d=x></path></svg><p>", b"text "),
}


@pytest.mark.parametrize("name", STRETCHES)
def test_a_long_stretch_of_text_reads_as_it_was_written(name: str) -> None:
    before, text = STRETCHES[name]
    body = before + text * (5 * STRETCH_BYTES // len(text)) + b"<b>end</b>"
    as_it_is = turbohtml.parse(body, encoding="utf-8", positions=False)
    assert tree_of(body, "utf-8").to_text() == as_it_is.to_text()


def longest_text(body: bytes) -> int:
    found = tree_of(body, None).select_one("body")
    assert found is not None
    return max(map(len, found.strings))


def test_a_long_stretch_of_text_lies_in_the_tree_in_short_ones() -> None:
    body = b"x" * (5 * STRETCH_BYTES)
    assert longest_text(body) <= STRETCH_BYTES
    assert longest_text(b"<p>" + b"word " * STRETCH_BYTES) <= STRETCH_BYTES
    assert longest_text(b"<svg><SCRIPT>" + body) <= STRETCH_BYTES  # no script there


@pytest.mark.parametrize("before", [b"<script>", b"<svg></svg><Style >", b"<title\n>", b"<textarea>"])
def test_scripts_and_titles_are_not_touched(before: bytes) -> None:
    raw = b'{"address": "/one"} ' * STRETCH_BYTES
    found = tree_of(b"<p>x</p>" + before + raw + b"</", None).select_one("script,style,title,textarea")
    assert found is not None
    assert found.text.startswith(raw.decode())


def test_a_long_attribute_is_not_touched() -> None:
    value = b"data:image/png;base64," + b"QUJD " * STRETCH_BYTES
    found = tree_of(b"<p>x</p><img src='" + value + b"'>", None).select_one("img")
    assert found is not None
    assert found.attr("src") == value.decode()


def test_zeros_are_left_out_of_large_pages_and_read_in_two_bytes_a_letter() -> None:
    zeros = tree_of(b"a" + bytes(STRETCH_BYTES) + b"<script>x\0y</script>", None)
    script = zeros.select_one("script")
    assert script is not None
    assert script.text == "xy"
    wide = ("héllo " * STRETCH_BYTES).encode("utf-16-le")
    for body, charset in ((b"\xff\xfe" + wide, None), (wide, "utf-16le")):
        assert tree_of(body, charset).to_text().startswith("héllo héllo ")
