"""How much of a page may become a tree? A few bytes may stand for very many elements.

Formatting elements (`<b>`, `<font>`) that a page leaves open are opened once more in each later block, all of them
with their attributes, and each further `<body>` hands its attributes to the first. So says the HTML standard (13.2.4.3,
13.2.6.4.7), and 140 kB of it make a tree of 650 MB. What a tree takes at most is estimated before it is made.

A long stretch of text takes 22 bytes for each of its own, and each zero 45. So stretches are interrupted by marks that
nobody sees, and zeros, which a parser passes over, are left out: then both take what other text does.
"""

import re
from collections import Counter

import turbohtml

TREE_BYTES_MAX = 40 * 2**20
"""Of copies; what the page itself holds comes on top."""
PLAIN_PAGE_BYTES = 128 * 1024
WALKED_BYTES_MAX = 512 * 1024
ELEMENT_BYTES, _ATTRIBUTE_BYTES = 128, 24
COUNTED_BYTES = 10
"""An attribute takes three bytes of the page, at least."""
_COMPARED = 4_096
"""Attributes of two tags are compared with each other: this makes a tenth of a second of it weigh as much as it may."""
_SAME_MAX = 3
"""Of elements that are alike so many are opened again."""
STRETCH_BYTES = 64 * 1024
"""Of text without a tag: one of 2 MiB takes 44 MB of a tree, and 3 MB in such pieces. Shorter ones are not touched."""
_MARK = b"<!>"
"""An empty comment where text is read."""
_GAP_BYTES = 1_024
"""So far back a space is looked for: few words are parted, and no letter of several bytes is."""
_NEIGHBOURS = re.compile(rb"[\x01-\x7f](?=[\x01-\x7f])")
_RAW = re.compile(rb"(?i)<(?:script|style|title|textarea|xmp|iframe|noembed|noframes|plaintext)(?=[\s/>])")
"""In these a mark would be text itself, perhaps in the midst of an address. They take little."""
_FOREIGN = re.compile(rb"(?i)<(/?)(?:svg|math)(?=[\s/>])")
"""In these they are elements as others are."""
_UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_HEAD_BYTES = 1_024
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


def tree_of(body: bytes, charset: str | None) -> turbohtml.Document:
    """Of a page that is bounded. `charset` is what its answer's head says."""
    is_wide = (charset or "").lower().startswith("utf-16") and b"\0" in body[:_HEAD_BYTES]
    if len(body) > STRETCH_BYTES and not is_wide and not body.startswith(_UTF_16_MARKS):
        body = _interrupted(body.replace(b"\0", b""))
    return parsed(body, charset)


def parsed(body: bytes, charset: str | None) -> turbohtml.Document:
    """As it is. A label of UTF-16 counts only where there are such bytes."""
    if charset and not (charset.lower().startswith("utf-16") and b"\0" not in body[:_HEAD_BYTES]):
        try:
            return turbohtml.parse(body, encoding=charset, positions=False)
        except LookupError:
            pass  # a label that the Encoding Standard does not know counts as none
    return turbohtml.parse(body, positions=False)


def _interrupted(body: bytes) -> bytes:
    """The same page with no stretch of text that is much longer than `STRETCH_BYTES`."""
    pieces, begun = [], 0
    at, tag = 0, -1
    while (end := at + STRETCH_BYTES) < len(body):
        found = body.rfind(b"<", at, end)
        if found >= 0:
            at, tag = found + 1, found
            continue
        at = end
        if _is_text(body, tag, end) and (gap := _gap_before(body, end)) is not None:
            pieces.append(body[begun:gap])
            begun = at = gap
    return _MARK.join((*pieces, body[begun:]))


def _is_text(body: bytes, tag: int, end: int) -> bool:
    """Whether what stands before `end` may be text, when no tag begins between `tag` and there."""
    if tag < 0:
        return True
    if body.find(b">", tag, end) < 0:
        return False  # a value of an attribute
    if _RAW.match(body, tag) is None:
        return True
    begun = [not match[1] for match in _FOREIGN.finditer(body, 0, tag)]
    return begun[-1:] == [True]


def _gap_before(body: bytes, end: int) -> int | None:
    """Behind the last space, or else between two letters of one byte each."""
    space = max(body.rfind(mark, end - _GAP_BYTES, end) for mark in (b" ", b"\n"))
    if space >= 0:
        return space + 1
    found = _NEIGHBOURS.search(body, end - _GAP_BYTES, end)
    return None if found is None else found.end()


def fit_for_tree(body: bytes) -> bytes:
    """As much of the page as makes no larger tree than `TREE_BYTES_MAX` and what it holds itself."""
    tags = body.count(b"<")
    worst = tags * (COUNTED_BYTES * len(body) + ELEMENT_BYTES * tags)
    if worst <= TREE_BYTES_MAX and len(body) <= PLAIN_PAGE_BYTES:
        return body  # most pages: this costs a few microseconds
    plain = body.replace(b"\0", b"")  # in UTF-16 every second byte is none
    if _copies_little(plain, tags):
        return body
    end = _end_of_fit(plain)
    if end is None or (len(body) <= WALKED_BYTES_MAX and _closes_what_it_opens(body)):
        return body
    return body[:end]


def _copies_little(body: bytes, tags: int) -> bool:
    """Whether all that may be copied, once at each tag, is not too much. Of an honest page's formatting elements most
    are alike."""
    counts, merged = Counter[bytes](), 0
    for match in _COPIED.finditer(body):
        if match[1] is None:
            merged += _weight_of(match[0])
        counts[match[0]] += 1
    copied = sum(min(count, _SAME_MAX) * _weight_of(tag) for tag, count in counts.items())
    return merged**2 // _COMPARED + (merged + copied) * tags <= TREE_BYTES_MAX


def _weight_of(tag: bytes) -> int:
    return ELEMENT_BYTES + COUNTED_BYTES * len(tag)


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
        weight = _weight_of(match[0])
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
