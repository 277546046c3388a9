"""What does a line that a reader typed ask for?

    question = part { part }                        all parts must hold
    part     = one { "OR" one }                     OR binds closer: `ferry bell OR harbour` is ferry, and one of two
    one      = ["-"] ( word | "phrase" | name:value | "(" question ")" )

`AND` may stand between parts and says nothing; `NOT` is a minus. A date (`on:`, `between:`, `appeared:`, `vanished:`)
and `order:` are said once, and of the whole question. Signs without a letter or digit are no words, and passed over.

What is not understood is told, with what to write instead: never is a part of a question left out in silence.
"""

import calendar
import re
from dataclasses import dataclass

from crawler.core.errors import MalformedUrlError
from crawler.core.urls import canonical, host_of
from herodotus.core.errors import QuestionError
from herodotus.core.host_names import is_host_name
from herodotus.core.search.questions import (
    DEPTH_MAX,
    TEXT_BYTES_MAX,
    Dated,
    Dating,
    Field,
    Name,
    Node,
    Order,
    Phrase,
    Question,
    Word,
    either,
    together,
    without,
)
from herodotus.core.warc import TIME_MAX_S

_DAY_S = 86_400
WORD_BYTES_MAX = 64
"""The index leaves out longer words, so nothing would be found."""

_TOKEN = re.compile(
    r'(?P<space>\s+)|(?P<open>\()|(?P<close>\))|(?P<minus>-(?=[\w"(]))'
    r'|(?P<name>[A-Za-z]+):(?=[^\s()])(?:"(?P<quoted>[^"]*)"|(?P<value>[^\s()"]+))'
    r'|"(?P<phrase>[^"]*)"|(?P<lone>(?:[A-Za-z]+:)?"[^"]*\Z)|(?P<word>[^\s()"]+"?)'
)
"""Each alternative takes what it can once, so a line is cut in linear time."""
_CURLY = str.maketrans("“”„‟«»＂：（）", '""""""":()')
"""As telephones and other keyboards write them."""
_EXPRESSION = re.compile(r"/.*[\\^$.*+?\[\]{}|].*/[a-z]*")
_FUZZY = re.compile(r"\w[~^](?:\d+(?:\.\d+)?)?")
_HOST_AND_PORT = re.compile(r"[\w.-]+:\d{1,5}(?:/|\Z)", re.ASCII)
_DATE = re.compile(r"(\d{4})(?:-?(\d\d)(?:-?(\d\d))?)?", re.ASCII)
_TYPES = {
    "html": "text/html",
    "pdf": "application/pdf",
    "text": "text/plain",
    "txt": "text/plain",
    "xhtml": "application/xhtml+xml",
    "xml": "application/xml",
    "json": "application/json",
}
_TYPE = re.compile(r"[a-z0-9][a-z0-9.+-]{0,63}/[a-z0-9][a-z0-9.+-]{0,63}")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_DATINGS = frozenset(Dating)
_NAMES = frozenset(Name)
ORDER = "order"
FIELDS = (*(str(one) for one in Name), *(str(one) for one in Dating), ORDER)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    name: str = ""


def parse(text: str, now_s: int) -> Question:
    """QuestionError says what was not understood, and what to write instead. `now_s` is for `today` and `yesterday`."""
    encoded = text.encode("utf-8", "replace")  # half characters, as bad bytes of a request become
    text, size = encoded.decode(), len(encoded)
    if size > TEXT_BYTES_MAX:
        raise QuestionError(
            problem=f"the question has {size:,} bytes", hint=f"use {TEXT_BYTES_MAX:,} at most"
        )
    return _Parser(_tokens(text), now_s).question()


def is_in_words(text: str) -> bool:
    """Whether what stands in the box is a question. An address has a scheme, or no space and a port or a dot in
    its host's name; whatever else there is, is searched for."""
    text = text.strip()
    name, mark, rest = text.partition(":")
    if rest.startswith("//") and name.isalnum():
        return False
    if any(one.isspace() or one in '"“”„()' for one in text) or (mark and name.lower() in FIELDS):
        return True
    if _HOST_AND_PORT.match(text) or text.startswith(("*.", "[")):
        return False
    host = re.split(r"[/:?#]", text, maxsplit=1)[0]
    return "." not in host.strip(".") and host.lower() != "localhost"


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    for match in _TOKEN.finditer(text.translate(_CURLY)):
        kind = match.lastgroup or ""
        if kind in ("value", "quoted"):
            found.append(_Token(kind, match[kind], match["name"].lower()))
        elif kind == "lone":
            raise QuestionError(
                part=match[0],
                problem="has a quotation mark at its begin only",
                hint="write one at its end, too",
            )
        elif kind != "space":
            found.append(_Token(kind, match[0] if kind != "phrase" else match["phrase"]))
    return found


class _Parser:
    """Recursive descent. The depth is checked on the way, as the call stack is no bound to meet."""

    def __init__(self, tokens: list[_Token], now_s: int) -> None:
        self._tokens = tokens
        self._at = 0
        self._now_s = now_s
        self._dated: Dated | None = None
        self._order: Order | None = None

    def question(self) -> Question:
        tree = self._all(0)
        if self._at < len(self._tokens):
            raise QuestionError(
                part=")", problem="closes nothing", hint="write `(` before it, or leave it out"
            )
        if tree is None:
            raise QuestionError(
                problem="the question has no word" if not self._dated else "the question is only a date",
                hint="write a word to look for",
            )
        return Question(tree=tree, dated=self._dated, order=self._order or Order.RELEVANCE)

    def _peek(self) -> _Token | None:
        return self._tokens[self._at] if self._at < len(self._tokens) else None

    def _take(self) -> _Token:
        self._at += 1
        return self._tokens[self._at - 1]

    def _says(self, word: str) -> bool:
        token = self._peek()
        if token != _Token("word", word):
            return False
        self._at += 1
        return True

    def _all(self, depth: int) -> Node | None:
        """Up to a closing parenthesis or the end. None: nothing there was a word."""
        if depth >= DEPTH_MAX:
            raise QuestionError(
                problem="there are too many parentheses inside one another",
                hint=f"use {DEPTH_MAX - 1} at most",
            )
        parts: list[Node] = []
        while (token := self._peek()) is not None and token.kind != "close":
            if self._says("AND"):
                continue
            if (part := self._alternatives(depth)) is not None:
                parts.append(part)
        return together(parts) if parts else None

    def _alternatives(self, depth: int) -> Node | None:
        parts = [self._one(depth)]
        while self._says("OR"):
            parts.append(self._one(depth))
            if parts[-1] is None or parts[-2] is None:
                raise QuestionError(
                    part="OR",
                    problem="needs a word on each side",
                    hint="write `ferry OR boat`, or `or` for the word",
                )
        return either([part for part in parts if part is not None]) if parts[0] is not None else None

    def _one(self, depth: int) -> Node | None:
        is_taken_out = False
        while (token := self._peek()) is not None and (
            token.kind == "minus" or token == _Token("word", "NOT")
        ):
            self._at += 1
            is_taken_out = not is_taken_out
        if token is None or token.kind == "close" or token == _Token("word", "OR"):
            if is_taken_out:
                raise QuestionError(
                    part="-", problem="stands before nothing", hint="write the word directly after it"
                )
            if token is not None and token.kind == "word":
                self._at += 1
                raise QuestionError(
                    part="OR",
                    problem="needs a word on each side",
                    hint="write `ferry OR boat`, or `or` for the word",
                )
            return None
        self._at += 1
        found = self._of(token, depth, is_alone=depth == 0 and not is_taken_out)
        return without(found) if found is not None and is_taken_out else found

    def _of(self, token: _Token, depth: int, *, is_alone: bool) -> Node | None:
        match token.kind:
            case "open":
                found = self._all(depth + 1)
                if self._peek() is None:
                    raise QuestionError(
                        part="(", problem="is never closed", hint="write `)` where its part ends"
                    )
                self._at += 1
                return found
            case "phrase":
                return _phrase(token.text)
            case "word":
                return _word(token.text)
            case _:
                return self._named(token, is_alone=is_alone)

    def _named(self, token: _Token, *, is_alone: bool) -> Node | None:
        if token.name in _NAMES:
            return _field(Name(token.name), token.text)
        shown = f"{token.name}:{token.text}"
        if token.name not in (*_DATINGS, ORDER):
            if token.name in ("http", "https"):
                raise QuestionError(
                    part=shown,
                    problem="is an address",
                    hint="ask for it alone, or for words with `inurl:` or `site:`",
                )
            raise QuestionError(
                part=shown,
                problem=f"names no field: there are {', '.join(FIELDS)}",
                hint=f'write "{token.name} {token.text}" in quotation marks if these are words of a page',
            )
        is_beside_or = self._peek() == _Token("word", "OR") or self._is_after_or()
        if not is_alone or is_beside_or:
            raise QuestionError(
                part=shown,
                problem="is about the whole question",
                hint="write it outside of parentheses, OR and minus",
            )
        if (self._order if token.name == ORDER else self._dated) is not None:
            raise QuestionError(
                part=shown,
                problem="is said for the second time",
                hint="one date and one order are what a question has",
            )
        if token.name == ORDER:
            self._order = _order(token.text)
        else:
            self._dated = _dated(Dating(token.name), token.text, self._now_s)
        return None

    def _is_after_or(self) -> bool:
        return self._at > 1 and self._tokens[self._at - 2] == _Token("word", "OR")


def has_letter(text: str) -> bool:
    return any(one.isalnum() for one in text)


def _word(text: str) -> Node | None:
    if text.endswith(":") and text[:-1].lower() in FIELDS:
        raise QuestionError(
            part=text,
            problem="is followed by nothing",
            hint="write the value directly after the colon, without a space",
        )
    if not has_letter(text):
        if "*" in text:
            raise _wildcard(text)
        return None
    if "*" in text:
        raise _wildcard(text)
    if _EXPRESSION.fullmatch(text):
        raise QuestionError(
            part=text,
            problem="looks like a regular expression, which no index of words answers",
            hint="write words",
        )
    if _FUZZY.search(text) and "/" not in text:
        raise QuestionError(
            part=text, problem="asks for likeness or weight, which cannot be set", hint="write the word alone"
        )
    return Word(_checked(text))


def _wildcard(text: str) -> QuestionError:
    return QuestionError(
        part=text,
        problem="has a `*`, and parts of words cannot be looked for",
        hint="write the whole word: its other forms are found, too",
    )


def _phrase(text: str) -> Node | None:
    """What only signs are in is passed over; a star in quotation marks is a sign, too, that no index holds."""
    return Phrase(_checked(text.strip())) if has_letter(text) else None


def _checked(text: str) -> str:
    for run in re.findall(r"[^\W_]+", text):
        if len(run.encode("utf-8", "replace")) > WORD_BYTES_MAX and run.isascii():
            raise QuestionError(
                part=run,
                problem=f"has {len(run)} letters, and no index holds so long a word",
                hint=f"use {WORD_BYTES_MAX} at most",
            )
    return text


def _field(name: Name, value: str) -> Node:
    shown = f"{name}:{value}"
    plain = value.strip()
    match name:
        case Name.SITE | Name.LINKSTO:
            return Field(name, _host(shown, plain))
        case Name.TYPE:
            kind = _TYPES.get(plain.lower(), plain.lower())
            if not _TYPE.fullmatch(kind):
                raise QuestionError(
                    part=shown,
                    problem="names no type of content",
                    hint="write `type:html`, `type:pdf` or `type:text/csv`",
                )
            return Field(name, kind)
        case Name.LANG:
            if not _LANGUAGE.fullmatch(plain.lower()):
                raise QuestionError(
                    part=shown, problem="names no language", hint="write its two letters, as in `lang:de`"
                )
            return Field(name, plain.lower())
        case Name.STATUS:
            if not (plain.isascii() and plain.isdigit() and 100 <= int(plain[:9]) <= 999):
                raise QuestionError(
                    part=shown,
                    problem="is no status of HTTP",
                    hint="write its three digits, as in `status:404`",
                )
            return Field(name, plain)
        case Name.TITLE | Name.INURL:
            if "*" in plain:
                raise _wildcard(shown)
            if not has_letter(plain):
                raise QuestionError(
                    part=shown, problem="has no word", hint=f"write one, as in `{name}:ferry`"
                )
            return Field(name, _checked(plain))


def _host(shown: str, value: str) -> str:
    """As the index has it: without a scheme, in lower case, other scripts in punycode."""
    hint = "write a name, as in `site:example.org`; for a part of the address write `inurl:`"
    text = re.sub(r"^[a-z]+://", "", value, flags=re.IGNORECASE).removeprefix("*.").strip("/.")
    try:
        host = host_of(canonical(f"http://{text}/"))
    except MalformedUrlError:
        host = ""
    if re.search(r"[/?#@:\s*]", text) or not is_host_name(host):
        raise QuestionError(part=shown, problem="names no host", hint=hint)
    return host


def _order(value: str) -> Order:
    try:
        return Order(value.lower())
    except ValueError:
        raise QuestionError(
            part=f"{ORDER}:{value}", problem="is no order", hint=f"there are {', '.join(Order)}"
        ) from None


def _dated(dating: Dating, value: str, now_s: int) -> Dated:
    shown = f"{dating}:{value}"
    begin, mark, end = value.partition("..")
    if dating is Dating.ON:
        if mark:
            raise QuestionError(
                part=shown, problem="is one date", hint=f"write `between:{value}` for several days"
            )
        moment_s = _period(shown, value, now_s)[1]
        return Dated(dating, moment_s, moment_s)
    if not mark:
        return Dated(dating, *_period(shown, value, now_s))
    if not begin and not end:
        raise QuestionError(part=shown, problem="has no date", hint=f"write `{dating}:2026-05..2026-06`")
    from_s = _period(shown, begin, now_s)[0] if begin else 0
    to_s = _period(shown, end, now_s)[1] if end else TIME_MAX_S
    if from_s > to_s:
        raise QuestionError(
            part=shown, problem="ends before it begins", hint=f"write `{dating}:{end}..{begin}`"
        )
    return Dated(dating, from_s, to_s)


def _period(shown: str, text: str, now_s: int) -> tuple[int, int]:
    """The first and the last second of a day, a month or a year (UTC)."""
    if text.lower() in ("today", "yesterday"):
        start_s = now_s - now_s % _DAY_S - (_DAY_S if text.lower() == "yesterday" else 0)
        return max(start_s, 0), max(start_s, 0) + _DAY_S - 1
    hint = "write `2026`, `2026-05` or `2026-05-01`"
    match = _DATE.fullmatch(text)
    if match is None:
        raise QuestionError(part=shown, problem="has no date that could be read", hint=hint)
    year, month, day = int(match[1]), int(match[2] or 0), int(match[3] or 0)
    if not 1970 <= year <= 2105:
        raise QuestionError(part=shown, problem="is outside of the years 1970 to 2105", hint=hint)
    if match[2] and not 1 <= month <= 12:
        raise QuestionError(part=shown, problem=f"has no month {month}", hint=hint)
    last_month = month or 12
    days = calendar.monthrange(year, last_month)[1]
    if match[3] and not 1 <= day <= days:
        raise QuestionError(part=shown, problem=f"has no day {day}", hint=hint)
    from_s = calendar.timegm((year, month or 1, day or 1, 0, 0, 0))
    return from_s, calendar.timegm((year, last_month, day or days, 23, 59, 59))
