"""Where are a script's strings, templates and brackets, and the words that we look for? A tokenizer, not a parser.

One compiled expression takes what lies between two tokens (white space, comments, operators, other words) and the token
after it. What no expression can know is kept beside it: a stack of brackets tells where a template continues, and what
stood before a slash tells whether it divides or begins a regular expression. A slash after a value divides.

All scripts come from strangers. The work is linear in the length, and what is no JavaScript gives other tokens, never
an error. Nothing is evaluated.
"""

import re
from collections.abc import Iterator
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

SCRIPT_CHARS_MAX = 2 * 2**20
"""Of one script: as much as is parsed of a page. About a second of work."""
DEPTH_MAX = 10_000
"""Brackets in each other: browsers give up near here, too. The tokens end there."""


class TokenKind(Enum):
    STRING = "string"
    TEMPLATE = "template"
    """A whole one, without substitutions: a string in all but name."""
    PIECE = "piece"
    """Of a template with substitutions: what is between them. Each substitution stands in brackets of its own."""
    REGEXP = "regexp"
    OPEN = "open"
    CLOSE = "close"
    WORD = "word"
    """One of those that were asked for, also where it is the name of a property."""

    __hash__ = object.__hash__


class Token(NamedTuple):
    kind: TokenKind
    start: int
    end: int
    """After its last character: `source[start:end]` is the token, with its quotes."""


_STRING, _TEMPLATE, _PIECE, _REGEXP, _OPEN, _CLOSE, _WORD = TokenKind

_COMMENT = r"//[^\n\r\u2028\u2029]*+|/\*(?:[^*]++|\*(?!/))*+(?:\*/)?|<!--[^\n\r\u2028\u2029]*+"
_COMMENTS = re.compile(_COMMENT)
_STRINGS, _QUOTES, _SLASHES, _OPENS, _CLOSES, _WORDS = range(1, 7)
"""Groups of the expression below. Its repetitions are possessive: they give nothing back, so nothing is read twice."""
_TOKEN = (
    rf"(?:[^\"'`/(){{}}\[\]\w$<]++|(?!WORDS)[\w$]++|{_COMMENT}|<(?!!--))*+"
    r"(?:(\"(?:[^\"\\\n\r]++|\\\r\n|\\[\s\S])*+\"?|'(?:[^'\\\n\r]++|\\\r\n|\\[\s\S])*+'?)"
    r"|(`)|(/)|([(\[{])|([)\]}])|([\w$]++))"
)
_TEMPLATE_PART = re.compile(r"((?:[^`\\$]++|\\[\s\S]|\$(?!\{))*+)(`|\$\{)?")
_SLASHED = re.compile(
    r"/(?:[^/\\\[\n\r\u2028\u2029]++|\\[^\n\r\u2028\u2029]"
    r"|\[(?:[^\]\\\n\r\u2028\u2029]++|\\[^\n\r\u2028\u2029])*+\])++/[\w$]*+"
)
_PATIENCE_CHARS = 2**16
"""So much more than the script's length is looked through for the ends of regular expressions that have none."""
_ASKS_FOR_VALUE = re.compile(
    r"(?:^|[^\w$.])(?:(do|else)|return|typeof|case|in|of|instanceof|new|void|delete|throw|yield|await|default|extends)\Z"
)
"""After these words no value has come that a slash could divide. After two of them a curly bracket begins a block."""
_HEAD = re.compile(r"(?:^|[^\w$.])(?:if|while|for|with|await)\Z")
"""What stands in brackets after these is no value for the slash behind it."""
_ENDS_OF_HEADS = "fehrt/ \t\n\r"
_BEFORE_OBJECTS = tuple("(,=[!&|?+-*%^~<>")
"""After these a curly bracket begins an object, not a block."""
_LOOKED_BACK = 12
"""The longest of these words, and what stands before it."""
_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|u\{0*([0-9a-fA-F]{1,6})\}|([0-3][0-7]{0,2}|[4-7][0-7]?)"
    r"|(\r\n|[\s\S]))"
)
_CONTROLS = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"} | dict.fromkeys(
    ("\n", "\r", "\r\n", "\u2028", "\u2029"), ""
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def tokens(source: str, words: frozenset[str] = frozenset()) -> Iterator[Token]:
    """In their order, of the first `SCRIPT_CHARS_MAX` characters. Brackets come in pairs where the script is sound."""
    source = source[:SCRIPT_CHARS_MAX]
    match_at = _expression(words).match
    # What is open: does a value end where it closes (True), or does a template continue there (None)?
    opened: list[bool | None] = []
    is_value = False  # whether the last token ended one
    patience = len(source) + _PATIENCE_CHARS
    at = max(0, source.find("\n")) if source.startswith("#!") else 0
    while (match := match_at(source, at)) is not None:
        group = match.lastindex or 0
        start, end = match.span(group)
        if group == _OPENS:
            if len(opened) >= DEPTH_MAX:
                return
            opened.append(_closes_value(source, at, start))
            yield Token(_OPEN, start, end)
            is_value = False
        elif group == _CLOSES:
            closed = opened.pop() if opened else True
            yield Token(_CLOSE, start, end)
            is_value = closed is not False
            if closed is None:
                group = _QUOTES
        elif group == _SLASHES:
            end, is_value, looked = _slash(source, at, start, is_value=is_value, is_patient=patience > 0)
            patience -= looked
            if is_value:
                yield Token(_REGEXP, start, end)
        elif group in (_STRINGS, _WORDS):
            yield Token(_STRING if group == _STRINGS else _WORD, start, end)
            is_value = group == _STRINGS or _ASKS_FOR_VALUE.search(source[start:end]) is None
        if group == _QUOTES:
            token, end = _template_part(source, start, end)
            yield token
            is_value = token.end != end - 2  # else a substitution begins
            if not is_value:
                if len(opened) >= DEPTH_MAX:
                    return
                opened.append(None)
                yield Token(_OPEN, end - 1, end)
        at = end


@lru_cache(maxsize=16)
def _expression(words: frozenset[str]) -> re.Pattern[str]:
    looked_for = "|".join(map(re.escape, sorted(words)))
    return re.compile(_TOKEN.replace("WORDS", rf"(?:{looked_for})(?![\w$])" if words else "(?!)"))


def _slash(source: str, at: int, start: int, *, is_value: bool, is_patient: bool) -> tuple[int, bool, int]:
    """Where the slash's token ends, whether it is a regular expression, and how many characters proved that it is none.

    Each slash of a line may look through the whole of it, so it is done in vain only so often.
    """
    if at < start:
        is_value = _ends_value(source, at, start, is_value=is_value)
    if is_value or not is_patient:
        return start + 1, False, 0
    found = _SLASHED.match(source, start)
    if found is not None:
        return found.end(), True, 0
    line_end = source.find("\n", start)
    return start + 1, False, (len(source) if line_end < 0 else line_end) - start


def _template_part(source: str, start: int, at: int) -> tuple[Token, int]:
    """What of a template begins at `at`, and the end of that with its sign; `start` is that of the sign before."""
    part = _TEMPLATE_PART.match(source, at)
    assert part is not None, "it may be empty"
    if source[start] == "`" and part[2] != "${":
        return Token(_TEMPLATE, start, part.end()), part.end()
    return Token(_PIECE, at, part.end(1)), part.end()


def _ends_value(source: str, at: int, end: int, *, is_value: bool) -> bool:
    """Whether what stands between the last token and a slash ends a value; `is_value` if that is nothing."""
    before = between(source, at, end)
    if not before:
        return is_value
    last = before[-1]
    if last.isalnum() or last in "_$":
        return _ASKS_FOR_VALUE.search(before) is None
    return before.endswith(("++", "--")) or (last == "." and before[-2:-1].isdigit())


def _closes_value(source: str, at: int, start: int) -> bool:
    """Whether a value ends where this bracket closes."""
    last = source[start - 1 : start]
    if source[start] == "[":
        return True
    if source[start] == "(":
        return last not in _ENDS_OF_HEADS or _HEAD.search(between(source, at, start)) is None
    before = last if last == ")" else between(source, at, start) or source[at - 1 : at]
    if before.endswith(_BEFORE_OBJECTS):
        return not before.endswith("=>")
    asks = _ASKS_FOR_VALUE.search(before)
    return asks is not None and asks[1] is None


def is_blank(source: str, at: int, end: int) -> bool:
    """Whether only white space and comments stand there."""
    return not between(source, at, end)


def between(source: str, at: int, end: int) -> str:
    """The last characters of what stands there, without comments and the white space at its ends."""
    text = source[at:end]
    if "/" in text or "<!--" in text:
        text = _COMMENTS.sub(" ", text)
    return text.strip()[-_LOOKED_BACK:]


def text_of(source: str, token: Token) -> str:
    """The value of a string, or of a template as if nothing were substituted in it; of others what stands there."""
    kind, start, end = token
    if kind is _STRING or kind is _TEMPLATE:
        quote = source[start]
        start += 1
        end -= end > start and source[end - 1] == quote
    elif kind is not _PIECE:
        return source[start:end]
    text = source[start:end]
    return _whole(_ESCAPE.sub(_escaped, text)) if "\\" in text else text


def _escaped(match: re.Match[str]) -> str:
    digits = match[1] or match[2] or match[3]
    if digits:
        code = int(digits, 16)
        return chr(code) if code < 0x110000 else "\ufffd"
    if match[4]:
        return chr(int(match[4], 8))
    return _CONTROLS.get(match[5], match[5])


def _whole(text: str) -> str:
    """Halves of characters that stand beside each other become one; others nothing that could be asked for."""
    if not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
