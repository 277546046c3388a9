"""What does a document of the index of words hold, and what is a word?

A document is a *spell*: a longest run of captures of one URL with one text. It has the second of the first capture and
the second from which the next spell covers. Nothing is stored in the index: URL, title and snippet come from
the archive.
"""

import hashlib
import re
import unicodedata
from typing import Final

TITLE: Final = "title"
BODY: Final = "body"
"""Main text and description, in the order of the page."""
REST: Final = "rest"
"""The other visible text: menus, captions, footers."""
URL_WORDS: Final = "urlwords"
ANCHOR: Final = "anchor"
"""The texts of links to the page."""
SITE: Final = "site"
"""The host, and each domain above it."""
LINKS_TO: Final = "linksto"
"""The domains to which the page has links, in the form of `SITE`."""
HOST: Final = "host"
TYPE: Final = "type"
"""The media type in lower case, without parameters."""
LANGUAGE: Final = "lang"
"""Two letters, or `UNKNOWN`."""
POSITION: Final = "pos"
"""The first 64 bits of the URL's place on the ring. The index is sorted by it."""
FIRST: Final = "first"
UNTIL: Final = "until"
INLINKS: Final = "inlinks"
"""Hosts with a link to the page, as known when the spell was written."""
STATUS: Final = "status"
ID: Final = "id"
DIGEST: Final = "digest"
"""Of status, type and text (`core.search.text`): pages that are alike have it in common, too."""

OPEN: Final = 2**32 - 1
"""The `until` of a spell that nothing followed."""
UNKNOWN: Final = "unknown"
"""The language or type of a page that tells none."""

WEIGHTS: Final = {TITLE: 2.0, ANCHOR: 1.5, URL_WORDS: 1.0, BODY: 1.0, REST: 0.2}
"""By how much a word in this field counts. `REST` as in the design. On Cranfield a title of 1, 2, 3 gave 0.539, 0.539,
0.530 (nDCG@10); on the web titles say more than there."""

STEMMERS: Final = {
    "ar": "arabic",
    "da": "danish",
    "de": "german",
    "el": "greek",
    "en": "english",
    "es": "spanish",
    "fi": "finnish",
    "fr": "french",
    "hu": "hungarian",
    "it": "italian",
    "nl": "dutch",
    "no": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "sv": "swedish",
    "ta": "tamil",
    "tr": "turkish",
}
"""The languages whose forms of a word are known, and how the library calls them."""

WORD_BYTES_MAX: Final = 64
"""A longer word is left out: it is no word of a language, and everybody could fill the dictionary with such."""

BREAK: Final = "\u200b"
"""ZERO WIDTH SPACE: it is no letter, so a word ends there, and no reader sees it."""

# Scripts that put no space between words: a character counts as a word, and a longer word is a phrase.
_UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\ua9e0-\ua9ff\uaa60-\uaa7f"  # Burmese
    "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"  # Korean
    "\u1780-\u17ff"  # Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3100-\u312f\u31a0-\u31bf\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U000323af"  # Chinese
)
_IS_UNSPACED = re.compile(f"[{_UNSPACED}]")
_EDGE = re.compile(f"(?<=[{_UNSPACED}])|(?<=[^\\W{_UNSPACED}])(?=[{_UNSPACED}])")


def stem_field(language: str) -> str:
    return f"stem_{language}"


def prepared(text: str) -> str:
    """A text as the index's analyser must get it, in pages as in questions: composed characters, and a break at both
    sides of each character of a script without spaces. A break after the character alone would leave the last letter
    before it in one word with it ("iPhone手机")."""
    if text.isascii():
        return text
    composed = unicodedata.normalize("NFC", text)
    return _EDGE.sub(BREAK, composed) if _IS_UNSPACED.search(composed) else composed


def spell_id(position: int, first_s: int) -> int:
    """The same for the same spell, so that writing it twice changes nothing."""
    name = position.to_bytes(8, "big") + first_s.to_bytes(4, "big")
    return int.from_bytes(hashlib.sha256(name).digest()[:8], "big")


def sites_of(host: str) -> list[str]:
    """The host and each domain above it: `www.example.org`, `example.org`, `org`."""
    labels = host.rstrip(".").lower().split(".")
    if labels[-1].isdigit() or host.startswith("["):
        return [host]
    return [".".join(labels[start:]) for start in range(len(labels))]
