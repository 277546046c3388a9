"""What does a capture look like in the index of words?"""

import re
from typing import Final
from urllib.parse import unquote, urlsplit

from tantivy import Document, Schema

from crawler.core.capture import MediaType
from herodotus.core.captures import HTTP_HEAD_BYTES_MAX
from herodotus.core.readable import READ_BYTES_MAX
from herodotus.core.search.fields import (
    BODY,
    DIGEST,
    FIRST,
    HOST,
    ID,
    LANGUAGE,
    LINKS_TO,
    OPEN,
    POSITION,
    REST,
    SITE,
    STATUS,
    STEMMERS,
    TITLE,
    TYPE,
    UNKNOWN,
    UNTIL,
    URL_WORDS,
    prepared,
    sites_of,
    spell_id,
    stem_field,
)
from herodotus.core.search.text import NO_TEXT, PageText, extract
from herodotus.core.warc import TIME_MAX_S
from herodotus.store import StoredCapture

URL_CHARS_MAX: Final = 1_000
_CONTENT_TYPE = re.compile(rb"^content-type[ \t]*:([^\r\n]{0,500})", re.IGNORECASE | re.MULTILINE)
_CONTENT_ENCODING = re.compile(rb"^content-encoding[ \t]*:([^\r\n]{0,100})", re.IGNORECASE | re.MULTILINE)
OK = 200


class Page:
    """The facts about a capture that stand in its spell's document."""

    __slots__ = ("digest", "media_type", "position", "status", "text", "time_s", "url")

    def __init__(self, capture: StoredCapture) -> None:
        head = capture.head
        content_type = _value(_CONTENT_TYPE, head) if head else capture.media_type
        self.url, self.time_s = capture.url, min(capture.time_s, TIME_MAX_S)
        self.position = int.from_bytes(capture.id.key[:8], "big")
        # A record without a head of HTTP is the thing itself.
        self.status = capture.status if head else OK
        self.media_type = MediaType.of(content_type).mime or UNKNOWN
        self.text = text_of(capture)
        self.digest = self.text.digest(self.status, self.media_type)


def text_of(capture: StoredCapture) -> PageText:
    """None of an answer other than 200, and none of a body that is larger than what is read of any."""
    head = capture.head
    if (head and capture.status != OK) or capture.body_bytes > READ_BYTES_MAX:
        return NO_TEXT
    content_type = _value(_CONTENT_TYPE, head) if head else capture.media_type
    return extract(capture.body, content_type, _value(_CONTENT_ENCODING, head))


def document_of(schema: Schema, page: Page, until_s: int = OPEN) -> Document:
    text = page.text
    host, words = _parts_of(page.url)
    fields: dict[str, object] = {
        ID: spell_id(page.position, page.time_s),
        POSITION: page.position,
        FIRST: page.time_s,
        UNTIL: until_s,
        DIGEST: page.digest,
        STATUS: page.status,
        HOST: host,
        SITE: sites_of(host),
        TYPE: page.media_type,
    }
    if page.status == OK:
        body = prepared("\n".join(filter(None, (text.description, text.body))))
        fields |= {TITLE: prepared(text.title), BODY: body, REST: prepared(text.rest)}
        fields |= {URL_WORDS: prepared(words), LANGUAGE: text.language}
        if text.language in STEMMERS:
            fields[stem_field(text.language)] = f"{fields[TITLE]}\n{body}"
        fields[LINKS_TO] = list(dict.fromkeys(site for linked in text.linked for site in sites_of(linked)))
    return Document.from_dict({name: value for name, value in fields.items() if value != ""}, schema)


def _parts_of(url: str) -> tuple[str, str]:
    """Host, and the address as words."""
    try:
        # Of bytes that are no UTF-8 an imported address has halves of characters, which the library refuses.
        parts = urlsplit(url[:URL_CHARS_MAX].encode("utf-8", "replace").decode())
        host = parts.hostname or UNKNOWN
    except ValueError:
        return UNKNOWN, ""
    return host, unquote(f"{host} {parts.path} {parts.query}")


def _value(field: re.Pattern[bytes], head: bytes) -> str:
    match = field.search(head, 0, HTTP_HEAD_BYTES_MAX)
    return "" if match is None else match[1].decode("latin-1").strip()
