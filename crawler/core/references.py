"""Which addresses does an attribute or a style sheet name? Image candidates and CSS, as the standards split them.

Read by linear-time expressions; what the addresses mean is for others.
"""

import re
from collections.abc import Iterator

SRCSET_CANDIDATES_MAX = 100

_SRCSET_URL = re.compile(r"[\s,]*([^\s,]\S*)")
_CSS_URL = re.compile(
    r"(?i)url\(\s*(?:\"([^\"\n]*)\"|'([^'\n]*)'|([^)\"'\s]*))|@import\s+(?:\"([^\"\n]*)\"|'([^'\n]*)')"
)
_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})\s?|(.))")


def srcset_references(text: str) -> Iterator[str]:
    """The URLs of an image candidate list (HTML, 4.8.4.3.9): a comma inside a URL belongs to it."""
    at = 0
    for _ in range(SRCSET_CANDIDATES_MAX):
        match = _SRCSET_URL.match(text, at)
        if match is None:
            return
        at = match.end()
        reference = match[1]
        if reference.endswith(","):
            reference = reference.rstrip(",")
        else:
            comma = text.find(",", at)
            at = len(text) if comma < 0 else comma
        yield reference


def css_references(text: str) -> Iterator[str]:
    """What a style sheet imports and loads."""
    if "url(" not in text and "@" not in text and "URL(" not in text.upper():
        return
    for match in _CSS_URL.finditer(_without_comments(text)):
        reference = next((group for group in match.groups() if group), None)
        if reference is not None:
            yield _CSS_ESCAPE.sub(_css_character, reference) if "\\" in reference else reference


def _without_comments(text: str) -> str:
    """In one pass: an expression would look for its end from the start of each comment that has none."""
    pieces: list[str] = []
    at = 0
    while (start := text.find("/*", at)) >= 0 and (end := text.find("*/", start + 2)) >= 0:
        pieces.append(text[at:start])
        at = end + 2
    pieces.append(text[at:])
    return " ".join(pieces)


def _css_character(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[2]
    code = int(match[1], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
