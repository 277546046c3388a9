"""How much of a page may become a tree? A few bytes may stand for very many elements.

Formatting elements (`<b>`, `<font>`) that a page leaves open are opened once more in each later block, all of them
with their attributes, and each further `<body>` hands its attributes to the first. So says the HTML standard (13.2.4.3,
13.2.6.4.7), and 140 kB of it make a tree of 650 MB. What a tree takes at most is estimated before it is made.
"""

import re
from collections import Counter

import turbohtml

TREE_BYTES_MAX = 64 * 2**20
"""Of copies; what the page itself holds comes on top."""
PLAIN_BYTES_MAX = 16 * TREE_BYTES_MAX
"""The same by a bound that is four times too high: a byte of the page is either left open or opens it again. A page
that uses all of it takes 256 MB for some milliseconds; nearly all pages are let through by it, for nothing."""
PLAIN_PAGE_BYTES = 128 * 1024
WALKED_BYTES_MAX = 512 * 1024
ELEMENT_BYTES, _ATTRIBUTE_BYTES = 128, 24
COUNTED_BYTES = 10
"""An attribute takes three bytes of the page, at least."""
_COMPARED = 4_096
"""Attributes of two tags are compared with each other: this makes a tenth of a second of it weigh as much as it may."""
_SAME_MAX = 3
"""Of elements that are alike so many are opened again."""
_COPIED = re.compile(
    rb"<(?=[biusteBIUSTEcfhCFH])"
    rb"(?:([bB](?:[iI][gG])?|[iI]|[uU]|[sS](?:[mM][aA][lL][lL]|[tT][rR][iI][kK][eE]|[tT][rR][oO][nN][gG])?"
    rb"|[tT][tT]|[eE][mM]|[cC][oO][dD][eE]|[fF][oO][nN][tT])|[bB][oO][dD][yY]|[hH][tT][mM][lL])"
    rb"(?=[\s/>])(?:[^>\"']|\"[^\"]*\"|'[^']*')*"
)
_FORMATTING = frozenset(["b", "big", "code", "em", "font", "i", "s", "small", "strike", "strong", "tt", "u"])
_MERGED = frozenset({"body", "html"})
_FENCES = frozenset(
    {"applet", "object", "marquee", "template", "td", "th", "caption"}
    | {"table", "select", "svg", "math", "frameset", "head", "colgroup"}
)
"""Within them an end tag may end nothing outside."""


def fit_for_tree(body: bytes) -> bytes:
    """As much of the page as makes no larger tree than `TREE_BYTES_MAX` and what it holds itself."""
    tags = body.count(b"<")
    worst = tags * (COUNTED_BYTES * len(body) + ELEMENT_BYTES * tags)
    if worst <= PLAIN_BYTES_MAX and len(body) <= PLAIN_PAGE_BYTES:
        return body  # nearly all pages: this costs a few microseconds
    end = _end_of_fit(body.replace(b"\0", b""))  # in UTF-16 every second byte is none
    if end is None or (len(body) <= WALKED_BYTES_MAX and _closes_what_it_opens(body)):
        return body
    return body[:end]


def _end_of_fit(body: bytes) -> int | None:
    """Where the copies become too many if nothing that opens is ever ended; None: nowhere."""
    seen = Counter[bytes]()
    copied = merged = taken = last = 0
    for match in _COPIED.finditer(body):
        start = match.start()
        taken += copied * body.count(b"<", last, start)
        if taken > TREE_BYTES_MAX:
            return last
        last = start
        weight = ELEMENT_BYTES + COUNTED_BYTES * (match.end() - start)
        if match[1] is None:
            taken += merged * weight // _COMPARED  # each with each
            merged += weight
            taken += merged
        elif seen[match[0]] < _SAME_MAX:
            seen[match[0]] += 1
            copied += weight
    return last if taken + copied * body.count(b"<", last) > TREE_BYTES_MAX else None


def _closes_what_it_opens(body: bytes) -> bool:
    """The same with end tags, as far as they certainly end something."""
    opened: dict[str, list[int]] = {name: [] for name in _FORMATTING}
    copied = merged = taken = 0
    for token in turbohtml.tokenize(body.replace(b"\0", b"").decode("latin-1")):
        tag = token.tag
        if tag is None:
            continue
        is_end = token.type is turbohtml.TokenType.END_TAG
        taken += copied
        if tag in _FENCES:
            opened = {name: [] for name in _FORMATTING}
        elif is_end:
            if opened.get(tag):
                copied -= opened[tag].pop()
        elif tag in _MERGED:
            taken += merged * _weight(token) // _COMPARED
            merged += _weight(token)
            taken += merged
        elif tag in _FORMATTING:
            opened[tag].append(_weight(token))
            copied += opened[tag][-1]
        if taken > TREE_BYTES_MAX:
            return False
    return True


def _weight(token: turbohtml.Token) -> int:
    return ELEMENT_BYTES + _ATTRIBUTE_BYTES * len(token.attrs or ())
