"""Which addresses does an attribute or a style sheet name? Image candidates and CSS, as the standards split them.

Read by linear-time expressions; what the addresses mean is for others.
"""

import re
from collections.abc import Iterator

SRCSET_CANDIDATES_MAX = 100

_SRCSET_URL = re.compile(r"[\s,]*([^\s,]\S*)")
_COMMENT = r"/\*(?:[^*]++|\*(?!/))*+(?:\*/)?"
_STRING = r"\"(?:[^\"\\\n]++|\\[\s\S])*+\"?|'(?:[^'\\\n]++|\\[\s\S])*+'?"
_IMAGES = r"(?:-webkit-|-moz-|-o-)?(?:image-set|cross-fade)|image|src"
# Groups: 1 a string, 2 the name of an at-rule, 3 a function whose strings are addresses, 4 url, 5 what nests or ends.
_CSS_TOKEN = re.compile(
    rf"(?i)(?:[^\"'@();\\/\w-]++|{_COMMENT}|/|\\[\s\S]|(?!(?:{_IMAGES}|url)\()[\w-]++)*+"
    rf"(?:({_STRING})|(@[\w-]*+)|({_IMAGES})\(|(url)\(|([();]))"
)
_CSS_URL = re.compile(
    rf"\s*+(?:({_STRING})|((?:[^)\"'(\\\s]++|\\(?:[0-9a-fA-F]{{1,6}}(?:\r\n|\s)?|[^\n]))*+)\s*+(\)|\Z)?)"
)
_CSS_ESCAPE = re.compile(r"\\(?:([0-9a-fA-F]{1,6})(?:\r\n|\s)?|(\r?\n)|([\s\S]))")
CSS_DEPTH_MAX = 200
"""Brackets in each other; what has more is no style."""


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
    """What a style sheet imports and loads, by the tokens of CSS: nothing that a string or a comment holds."""
    if "(" not in text and "@" not in text:
        return
    functions: list[bool] = []  # what is open: are its strings addresses?
    statement = ""
    at = 0
    while (match := _CSS_TOKEN.match(text, at)) is not None and len(functions) < CSS_DEPTH_MAX:
        string, rule, images, url, sign = match.groups()
        at = match.end()
        if rule is not None:
            statement = rule.lower()
            continue
        if images is not None or sign == "(":
            functions.append(images is not None)
        elif sign == ")":
            del functions[-1:]
        else:
            address = ""
            if url is not None:
                address, at = _css_url(text, at)
            elif string is not None and (statement == "@import" or (functions and functions[-1])):
                address = _css_value(string[1:-1]) if _is_closed(string) else ""
            if address and statement != "@namespace":
                yield address
            statement = ""


def _css_url(text: str, at: int) -> tuple[str, int]:
    """The address after `url(`, and where it ends with its bracket."""
    match = _CSS_URL.match(text, at)
    assert match is not None, "it may be empty"
    string, plain, end = match.groups()
    if string is None and end is not None:
        return _css_value(plain), match.end()
    bracket = text.find(")", match.end())
    address = _css_value(string[1:-1]) if string is not None and _is_closed(string) else ""
    return address, len(text) if bracket < 0 else bracket + 1


def _is_closed(string: str) -> bool:
    return len(string) > 1 and string[-1] == string[0]


def _css_value(text: str) -> str:
    return _CSS_ESCAPE.sub(_css_character, text) if "\\" in text else text


def _css_character(match: re.Match[str]) -> str:
    if match[1] is None:
        return match[3] or ""
    code = int(match[1], 16)
    return chr(code) if 0 < code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
