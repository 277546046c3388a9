"""Which text does a page have, and does a hostile one have an end?"""

import gzip
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.search.fields import UNKNOWN
from herodotus.core.search.text import (
    BODY_CHARS_MAX,
    LINKED_MAX,
    NO_TEXT,
    REST_CHARS_MAX,
    TITLE_CHARS_MAX,
    PageText,
    extract,
)

SENTENCE = (
    "Der schnelle braune Fuchs springt über den faulen Hund, und läuft in den Wald, bevor die Nacht kommt. "
)
PAGE = f"""<!doctype html><html lang="en"><head><meta charset=utf-8><title> The
 title </title><meta name=description content="About foxes"><script>var hidden = 1</script>
<meta property="article:published_time" content="2024-05-01T10:00:00Z"></head><body>
<nav><a href=/a>Home</a> <a href="https://User@Other.Example:8443/x">News</a></nav>
<main><h1>Heading</h1><p>{SENTENCE * 4}</p><p>Ein <b>fett</b>gedrucktes Wort.</p></main>
<footer>Imprint</footer></body></html>""".encode()


def test_a_page_is_taken_apart() -> None:
    text = extract(PAGE, "text/html")
    assert text.title == "The title"
    assert text.description == "About foxes"
    assert text.published == "2024-05-01T10:00:00Z"
    assert text.body.startswith("Heading\n\nDer schnelle")
    assert "fettgedrucktes" in text.body
    assert text.rest.split() == ["Home", "News", "Imprint"]
    assert text.linked == ("other.example",)


def test_what_a_long_text_looks_like_counts_before_the_declared_language() -> None:
    assert extract(PAGE, "text/html").language == "de"


@pytest.mark.parametrize(
    ("declared", "language"),
    [("de-AT", "de"), ("NB", "no"), ("deu", "de"), ("", UNKNOWN), ("x-klingon", UNKNOWN), ("en\n", "en")],
)
def test_a_short_text_has_the_declared_language(declared: str, language: str) -> None:
    page = f'<html lang="{declared}"><p>Hello world page'.encode()
    assert extract(page, "text/html").language == language


def test_a_page_without_an_article_is_all_body() -> None:
    text = extract(b"<title>T</title><p>Only a few words", "text/html")
    assert (text.title, text.body, text.rest) == ("T", "Only a few words", "")


def test_plain_text_is_body() -> None:
    text = extract("Öde <b>Zeilen</b>".encode("latin-1"), "text/plain; charset=iso-8859-1")
    assert text == PageText(body="Öde <b>Zeilen</b>")


@pytest.mark.parametrize("media_type", ["image/png", "application/pdf", "text/css", "application/json"])
def test_what_is_no_text_has_none(media_type: str) -> None:
    assert extract(b"body { color: red }", media_type) == NO_TEXT


def test_a_page_that_is_no_text_has_none() -> None:
    assert extract(b"\x89PNG\r\n\0\0\0\x0d", "text/html") == NO_TEXT


def test_a_body_is_decoded_first() -> None:
    assert extract(gzip.compress(b"<p>words"), "text/html", "gzip").body == "words"


HOSTILE = {
    "nested without end": b"<div>" * 500_000 + b"x",
    "nested paragraphs": b"<div><p>word, word, word, word, word" * 80_000,
    "one word of ten million letters": b"<p>" + b"x" * 10_000_000,
    "tables in tables": b"<table><tr><td>" * 100_000 + b"x",
    "a list of links": b"<a href=//h.example>link</a>" * 150_000,
    "a title that does not end": b"<title>" + b" " * 2_000_000 + b"x" * 2_000_000,
    "a million attributes": b"<div " + b"a=1 b " * 300_000 + b">x",
    "bold that is opened again": b"<b><i><font color=red><p>word" * 40_000,
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE.keys())
def test_a_hostile_page_is_read_within_its_bounds(body: bytes) -> None:
    begun = time.process_time()
    text = extract(body, "text/html")
    assert time.process_time() - begun < 5  # each took less than half a second, 2026-11-20
    assert len(text.title) <= TITLE_CHARS_MAX
    assert len(text.body) <= BODY_CHARS_MAX
    assert len(text.rest) <= REST_CHARS_MAX


def test_a_page_names_no_more_hosts_than_the_bound() -> None:
    body = b"".join(b"<a href=http://h%d.example/>x</a>" % number for number in range(1_000))
    assert len(extract(body, "text/html").linked) == LINKED_MAX


@given(
    st.binary(max_size=2_000), st.sampled_from(["text/html", "text/plain", "", "text/html; charset=utf-16le"])
)
def test_any_bytes_give_a_text_and_the_same_again(body: bytes, content_type: str) -> None:
    text = extract(body, content_type)
    assert text == extract(body, content_type)
    assert text.digest(200, content_type) == extract(body, content_type).digest(200, content_type)


def test_a_document_is_another_when_text_status_or_type_differ() -> None:
    texts = [PageText(title="ab"), PageText(title="a", description="b"), PageText(body="ab")]
    digests = {
        text.digest(status, kind) for text in texts for status in (200, 404) for kind in ("a/b", "a/c")
    }
    assert len(digests) == 12


def test_where_a_page_has_links_to_makes_no_other_document() -> None:
    assert PageText(linked=("a.example",)).digest(200, "") == NO_TEXT.digest(200, "")
