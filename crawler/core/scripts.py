"""What does a script ask for? Addresses in JavaScript, each with the rule that found it.

A script that imports another says so in plain words, as one that names its workers does. The rules read tokens
(`crawler.core.javascript`) and evaluate nothing.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from crawler.core.javascript import Token, TokenKind, is_blank, text_of, tokens

REFERENCE_CHARS_MAX = 2_000
_STRINGS = (TokenKind.STRING, TokenKind.TEMPLATE)
_WORDS = frozenset(["import", "from", "URL", "Worker", "SharedWorker", "importScripts"])
_CALLED = frozenset(["import", "URL", "Worker", "SharedWorker", "importScripts"])
_BESIDE_THIS = re.compile(r"\s*,\s*import\s*\.\s*meta\s*\.\s*url\b")
_ENDS_ARGUMENT = re.compile(r"\s*[,)]")


class ScriptReference(NamedTuple):
    address: str
    is_of_page: bool = False
    """Relative to the page that the script runs in, not to the script."""


def script_references(source: str) -> Iterator[ScriptReference]:
    """In the order of the script; the same one may come twice."""
    word = call = ""
    last_end = 0
    for token in tokens(source, _WORDS):
        is_beside = is_blank(source, last_end, token.start)
        if token.kind in _STRINGS:
            address = text_of(source, token) if token.end - token.start <= REFERENCE_CHARS_MAX else ""
            if address and is_beside and (word or call):
                yield from _named(source, token, word, call, address)
        call = word if is_beside and source[token.start] == "(" and word in _CALLED else ""
        word = source[token.start : token.end] if _is_plain_word(source, token) else ""
        last_end = token.end


def _named(source: str, token: Token, word: str, call: str, address: str) -> Iterator[ScriptReference]:
    """What a string says that stands behind a word, or first in its brackets."""
    is_specifier = address.startswith(("./", "../", "/", "http://", "https://"))  # else a map says what it is
    if word in ("import", "from"):
        if is_specifier:
            yield ScriptReference(address)
    elif call == "URL":
        if _BESIDE_THIS.match(source, token.end):
            yield ScriptReference(address)
    elif call and _ENDS_ARGUMENT.match(source, token.end):
        if call == "import" and is_specifier:
            yield ScriptReference(address)
        elif call != "import":
            yield ScriptReference(address, is_of_page=call != "importScripts")


def _is_plain_word(source: str, token: Token) -> bool:
    return token.kind is TokenKind.WORD and source[token.start - 1 : token.start] not in (".", "#")
