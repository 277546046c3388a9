"""Which words and facts of a capture stand in its document?"""

import gzip

from herodotus.core.captures import Deposit
from herodotus.core.search.fields import (
    BODY,
    HOST,
    LANGUAGE,
    LINKS_TO,
    REST,
    SITE,
    STATUS,
    TITLE,
    TYPE,
    URL_WORDS,
)
from herodotus.search.documents import Page, document_of
from herodotus.search.schema import make_schema
from herodotus.store.changes import ArchiveChanges
from tests.herodotus.deposits import make_deposit
from tests.herodotus.store.making import NOW_S, open_on, store
from tests.herodotus.store.memory_store import MemoryDisk

SCHEMA = make_schema()
URL = "https://www.salt.example/Fish/new%20net.html?page=2"


def deposit(head: str, body: bytes, url: str = URL) -> Deposit:
    return make_deposit(url=url, time_s=NOW_S, head=f"{head}\r\n\r\n".encode(), body=body)


def fields_of(made: Deposit) -> dict[str, list[object]]:
    archive = open_on(MemoryDisk())
    store(archive, made)
    (capture,) = ArchiveChanges(archive).shown(b"")
    return dict(document_of(SCHEMA, Page(capture)).to_dict())


def test_a_page_has_its_words_its_site_and_the_sites_it_has_links_to() -> None:
    body = b"<html lang=en><title>Nets</title><p>A net for herring, <a href=//shop.herring.example/>here</a>"
    found = fields_of(deposit("HTTP/1.1 200 OK\r\nContent-Type: Text/HTML; charset=utf-8", body))
    assert found[TITLE] == ["Nets"]
    assert found[BODY] == ["A net for herring, here"]
    assert found[SITE] == ["www.salt.example", "salt.example", "example"]
    assert found[HOST] == ["www.salt.example"]
    assert found[LINKS_TO] == ["shop.herring.example", "herring.example", "example"]
    assert found[URL_WORDS] == ["www.salt.example /Fish/new net.html page=2"]
    assert (found[TYPE], found[LANGUAGE], found[STATUS]) == (["text/html"], ["en"], [200])
    assert REST not in found


def test_an_error_page_has_no_words() -> None:
    found = fields_of(
        deposit("HTTP/1.1 404 Not Found\r\nContent-Type: text/html", b"<title>Gone</title>gone")
    )
    assert found[STATUS] == [404]
    assert not {TITLE, BODY, REST, URL_WORDS} & found.keys()


def test_an_error_page_is_the_same_whatever_it_says() -> None:
    digests = set()
    for body in (b"<p>no such page", b"<p>no such page, visitor 1234"):
        archive = open_on(MemoryDisk())
        store(archive, deposit("HTTP/1.1 404 Not Found\r\nContent-Type: text/html", body))
        (capture,) = ArchiveChanges(archive).shown(b"")
        digests.add(Page(capture).digest)
    assert len(digests) == 1


def test_a_body_that_was_sent_in_a_coding_is_read() -> None:
    head = "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\nCONTENT-ENCODING: gzip"
    assert fields_of(deposit(head, gzip.compress(b"herring")))[BODY] == ["herring"]


def test_the_encoding_that_a_page_declares_counts() -> None:
    head = "HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=windows-1252"
    assert fields_of(deposit(head, "<p>Möwe".encode("cp1252")))[BODY] == ["Möwe"]


def test_an_image_is_found_by_its_address() -> None:
    head = "HTTP/1.1 200 OK\r\nContent-Type: image/png"
    found = fields_of(deposit(head, b"\x89PNG\0", url="https://salt.example/harbour-crane.png"))
    assert found[URL_WORDS] == ["salt.example /harbour-crane.png "]
    assert BODY not in found
