"""Which words does a reader of this capture see, and which of them are the page itself?

A page's main text is found by the library that parses it: it weighs paragraphs against links. What is left of the
visible text (menus, captions, footers) is a second text that counts little. Everything is bounded, as pages are written
by strangers; what is beyond a bound is not found by its words. Pure; the same bytes give the same text.
"""

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import turbohtml
from turbohtml.detect import detect_language

from crawler.core.capture import MediaType, decoded
from crawler.core.links import PARSED_BYTES_MAX, readable_part
from crawler.core.trees import tree_of
from herodotus.core.readable import HTML_TYPES, is_text, plain_text
from herodotus.core.search.fields import UNKNOWN

TITLE_CHARS_MAX: Final = 200
DESCRIPTION_CHARS_MAX: Final = 500
BODY_CHARS_MAX: Final = 500_000
"""Some 80,000 words, a novel."""
REST_CHARS_MAX: Final = 50_000
PUBLISHED_CHARS_MAX: Final = 40
LINKED_MAX: Final = 64
"""Hosts that a page has links to. Directories have more, and their first are as good as any."""
_ANCHORS_MAX = 2_000
"""Links that are looked at for them."""
_PLAIN_TYPES = ("text/plain", "text/markdown", "text/csv", "text/x-")

LANGUAGE_CHARS: Final = 100
"""Shorter texts look like any language to a count of trigrams: "Hello world page" was Danish."""
_SAMPLE_CHARS = 500
"""They take 35 µs, and 2,000 would take 170, as much as all else of a page of 12 kB, and say no more."""
_SURE = 0.5
"""The detector's confidence: 1 for a clear winner, 0.2 between Danish and Norwegian."""
_CODES = """
afr=af aka=ak amh=am ara=ar aze=az bel=be ben=bn bul=bg cat=ca ces=cs cmn=zh dan=da deu=de ell=el
eng=en epo=eo est=et fin=fi fra=fr guj=gu heb=he hin=hi hrv=hr hun=hu hye=hy ind=id ita=it jav=jv
jpn=ja kan=kn kat=ka khm=km kor=ko lat=la lav=lv lit=lt mal=ml mar=mr mkd=mk mya=my nep=ne nld=nl
nob=no nno=no ori=or pan=pa pes=fa pol=pl por=pt ron=ro rus=ru sin=si slk=sk slv=sl sna=sn spa=es
srp=sr swe=sv tam=ta tel=te tgl=tl tha=th tuk=tk tur=tr ukr=uk urd=ur uzb=uz vie=vi yid=yi zul=zu
nb=no nn=no fas=fa zho=zh
"""
_LETTERS = {three: two for three, _, two in (pair.partition("=") for pair in _CODES.split())}
"""From ISO 639-3, as the detector has it and some pages, and from names of the same language, to two letters."""
_DECLARED = re.compile(r"([A-Za-z]{2,3})(?:[-_].{0,30})?")
_HOST = re.compile(r"\s*(?:[hH][tT][tT][pP][sS]?:)?//(?:[^/?#@]*@)?([A-Za-z0-9.-]{1,253})(?:[:/?#]|\s*\Z)")
_SPACE = re.compile(r"\s+")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageText:
    title: str = ""
    description: str = ""
    """The author's words about the page, in its head."""
    language: str = UNKNOWN
    published: str = ""
    """As the page writes it: mostly a date of ISO 8601."""
    body: str = ""
    rest: str = ""
    linked: tuple[str, ...] = ()
    """Hosts that the page has links to; not those of relative addresses."""

    def digest(self, status: int, media_type: str) -> int:
        """Two captures of a URL with the same digest have the same document."""
        parts = (str(status), media_type, self.title, self.description, self.language, self.body, self.rest)
        digest = hashlib.blake2b(digest_size=8)
        for part in parts:
            data = part.encode("utf-8", "replace")
            digest.update(len(data).to_bytes(4, "big") + data)
        return int.from_bytes(digest.digest(), "big")


NO_TEXT: Final = PageText()


def extract(body: bytes, content_type: str, content_encoding: str = "") -> PageText:
    """Of a body as it was sent, from as much of it as is read for links. What is no text has none."""
    if content_encoding:
        body = decoded(body, content_encoding, PARSED_BYTES_MAX).content
    body = body[:PARSED_BYTES_MAX]
    media = MediaType.of(content_type)
    if media.mime in HTML_TYPES and is_text(body, media.charset):
        return _of_page(tree_of(readable_part(body), media.charset))
    if media.mime.startswith(_PLAIN_TYPES) and is_text(body, media.charset):
        text = plain_text(body, media.charset)[:BODY_CHARS_MAX]
        return PageText(body=text, language=language_of(text, None))
    return NO_TEXT


def _of_page(document: turbohtml.Document) -> PageText:
    named = document.select_one("title")
    linked = tuple(
        _linked(element.attr("href") or "" for element in document.select("a[href]")[:_ANCHORS_MAX])
    )
    article = document.article()
    body, rest = article.text, ""
    if article.element is None:
        body = document.to_text()
    else:
        article.element.decompose()
        rest = document.to_text()
    body = body[:BODY_CHARS_MAX]
    return PageText(
        title=_line(named.text if named is not None else "", TITLE_CHARS_MAX)
        or _line(article.title or "", TITLE_CHARS_MAX),
        description=_line(article.description or "", DESCRIPTION_CHARS_MAX),
        language=language_of(body, article.lang),
        published=_line(article.date or "", PUBLISHED_CHARS_MAX),
        body=body,
        rest=rest[:REST_CHARS_MAX],
        linked=linked,
    )


def _line(text: str, chars_max: int) -> str:
    # Cut first, as a title may be megabytes of spaces.
    return _SPACE.sub(" ", text[: 8 * chars_max]).strip()[:chars_max]


def _linked(addresses: Iterable[str]) -> list[str]:
    found: dict[str, None] = {}
    for address in addresses:
        match = _HOST.match(address)
        if match is not None and len(found) < LINKED_MAX:
            found[match[1].rstrip(".").lower()] = None
    return [host for host in found if host]


def language_of(text: str, declared: str | None) -> str:
    """In two letters. What a long text looks like counts before what its page says: that is often a template's."""
    sample = text[:_SAMPLE_CHARS]
    if len(sample) >= LANGUAGE_CHARS:
        found = detect_language(sample)
        if found.language is not None and found.confidence >= _SURE:
            return _LETTERS.get(found.language, UNKNOWN)
    match = _DECLARED.fullmatch((declared or "").strip())
    if match is None:
        return UNKNOWN
    name = match[1].lower()
    return _LETTERS.get(name, name if len(name) == 2 else UNKNOWN)
