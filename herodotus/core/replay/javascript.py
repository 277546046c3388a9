"""What of a script must be led? Addresses of modules, whom messages are for, and in the sandbox where a page goes.

Nearly all that scripts ask for is led while they run, by our script in the page. Some things cannot be reached there,
so they are changed here:

- an address in an `import` is resolved by the browser alone: a literal is led, and `import(a)` becomes `import(f(a))`
- another origin's window takes no wrapped `postMessage`: `x.postMessage(a, b)` becomes `x.postMessage(...f(a, b))`
- in the sandbox `import.meta.url` becomes the original address of the script, and where a page goes is led:
  `location.assign(a)` becomes `location.assign(...f(a))`, and `location = a`, `location.href = a` set properties of
  ours, which do the same with the address that is led. Only where `location` is plainly the window's own.

- `top`, where it is compared with a window or its place, becomes the archived page's outermost window
- `location.href`, `.host`, `.hostname`, `.origin`, `.protocol` and `.port`, where they are read, become those of the
  original address

Each `f` is our script's, or what gives the arguments as they are. All other bytes stay. A script is taken apart only
where a quick look finds one of these. It is read as Latin-1, so that places are those of bytes.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from hashlib import blake2b

from crawler.core.javascript import SCRIPT_CHARS_MAX, Token, TokenKind, is_blank, text_of, tokens

_WORDS = frozenset({"import", "from", "postMessage"})
_WORDS_BOXED = _WORDS | {"location"}
_QUICK = re.compile(
    rb"postMessage\s*\(|\bimport\s*\(\s*[^\s\"'`]"
    rb"|(?:\bfrom|\bimport)[\s(]*(?:/\*[^*]*\*/\s*)?[\"'`](?:https?:)?(?:\\?/){2}",
    re.IGNORECASE,
)
"""At a label, where what is relative is left as it is."""
_QUICK_BOXED = re.compile(
    rb"postMessage\s*\(|\bimport\s*[(.]|(?:\bfrom|\bimport)\s*(?:/\*[^*]*\*/\s*)?[\"'`](?:\.|\\?/|http)"
    rb"|\blocation\s*(?:\.\s*(?:assign|replace)\s*\(|(?:\.\s*href\s*)?=(?![=>]))",
    re.IGNORECASE,
)
_OWN_URL = re.compile(r"\s*\.\s*meta\s*\.\s*url\b(?!\s*=[^=])")
_GOES_BY_HREF = re.compile(r"\s*\.\s*(href)\s*=(?![=>])")
_GOES_BY_METHOD = re.compile(r"\s*\.\s*(?:assign|replace)\s*\(")
_GOES = re.compile(r"\s*=(?![=>])")
_OF_WINDOW = re.compile(r"(?:^|[^.\w$])(?:window|self|document|globalThis)\s*\.\s*\Z")
_BEGINS = re.compile(r"(?:\A|[;}=&|?:!)]|=>|\belse|(?:\)|=>|\belse|\btry|\bdo|[{};])\s*\{|[\r\n])\s*\Z")
"""Before a `location` that is set: not in a list, where it may be a name that is being declared."""
_DECLARED = re.compile(
    r"\b(?:var|let|const)\s[^;={}()]{0,200}\blocation\b|\bfunction\b[^(){}]{0,100}\([^)]{0,300}\blocation\b"
    r"|[({,]\s*location\s*[,})]|\blocation\s*=>"
)
_LOOKED_BACK = 40
_MODULE = re.compile(
    rb"^[ \t]*(?:import\b(?!\s*[(.])|export\b)|[;}]\s*(?:import\s*[\"'{*]|export\s*[{*])", re.MULTILINE
)
_STRICT = re.compile(rb"\s*([\"'])use strict\1")

KEPT_FROM_BYTES = 8_192
"""Smaller ones are read again: some milliseconds."""
KEPT_MAX = 256
"""Scripts of which is known what must be led: more than a few sites have."""
KEPT_PLACES_MAX = 1_000
"""In one script, or it is read again: some 40 MB in all. Builds of applications have tens."""

Place = tuple[int, int, bytes, bool]
"""Start, end, and what takes its place: an address to be led (True), or bytes. In these `_OWN` is the script's."""
_OWN = b"\0own"


class _Kind(Enum):
    MESSAGE = b"...(globalThis.__hdpm||Array.of)("
    IMPORT = b"(globalThis.__hdi||String)("
    GOING = b"...(globalThis.__hdl||Array.of)("

    __hash__ = object.__hash__


@dataclass(slots=True)
class _Call:
    """Whose brackets are open."""

    kind: _Kind
    start: int
    depth: int
    is_bare: bool
    literal_end: int = 0
    """Of a string that is all there is so far."""
    has_more: bool = False
    """Than one argument, or a list of them that is spread."""


def led_script(source: bytes, led: Callable[[bytes], bytes], own_url: bytes = b"") -> bytes:
    """`led` gives the archived address for the one of a module, or what it is given. `own_url`: of the script, as it
    was, in the sandbox; empty at a label."""
    source = told_where(told_outermost(source))
    if not (_QUICK_BOXED if own_url else _QUICK).search(source):
        return source
    pieces: list[bytes] = []
    copied = 0
    own = _quoted(own_url)
    for start, end, new, is_address in _places(source, is_boxed=bool(own_url)):
        address = led(new) if is_address else b""
        if is_address and address == new:
            continue
        pieces += (source[copied:start], _quoted(address) if is_address else new.replace(_OWN, own))
        copied = end
    return b"".join((*pieces, source[copied:]))


_MAYBE_OUTERMOST = re.compile(
    rb"\btop\s*(?:\.\s*location\b[\s.\w]{0,20})?[!=]==?|[!=]==?\s*(?:\w{1,20}\s*\.\s*)?top\b"
)
_TOP = rb"(?:(?:window|self|globalThis|parent)\s*\.\s*)?top"
_WINDOW = rb"(?:window|self|globalThis|this|parent)(?:\s*\.\s*(?:window|self))?"
_PLACE = rb"(?:(?:window|self|globalThis|document|this)\s*\.\s*)?location(?:\s*\.\s*(?:href|host|hostname))?"
_PLACE_OF = rb"\s*\.\s*location(?:\s*\.\s*(?:href|host|hostname))?"
_IS, _ENDS = rb"\s*[!=]==?\s*", rb"(?![\w$])(?!\s*[.(\[])"
_OUTERMOST_LEFT = re.compile(
    rb"(?<![\w$.])%b(?=%b%b%b|%b%b%b%b)" % (_TOP, _IS, _WINDOW, _ENDS, _PLACE_OF, _IS, _PLACE, _ENDS)
)
_OUTERMOST_RIGHT = re.compile(
    rb"(?<![\w$.])(%b%b)%b%b|(?<![\w$.])(%b%b)%b(?=%b%b)"
    % (_WINDOW, _IS, _TOP, _ENDS, _PLACE, _IS, _TOP, _PLACE_OF, _ENDS)
)
_OUTERMOST = b"(globalThis.__hdtop||globalThis.top)"


def told_outermost(source: bytes) -> bytes:
    """Where a script asks whether its window is the outermost one, it is told of the archived page's outermost: `top`
    itself is our own page and cannot be given another value. Only where `top` is compared with a window or its place,
    as it is an offset elsewhere."""
    if not _MAYBE_OUTERMOST.search(source):
        return source
    source = _OUTERMOST_LEFT.sub(_OUTERMOST, source)
    return _OUTERMOST_RIGHT.sub(lambda match: (match[1] or match[2]) + _OUTERMOST, source)


_WHERE = re.compile(
    rb"location\s*\.\s*(?:href|host(?:name)?|origin|protocol|port)(?![\w$])"
    rb"(?!\s*(?:[-+*/%&|^]{0,2}=(?!=)|\+\+|--))"
)
_OWN_WINDOW = re.compile(rb"(?:(?<![\w$.])(?:window|self|document|globalThis)\s*\.\s*|(?<![\w$.]))\Z")
_OTHER_WINDOWS = re.compile(rb"\b(?:top|parent|opener|frames|contentWindow)\b|__hdtop")
_GOES_ON = (
    b"=",
    b"(",
    b"[",
    b"{",
    b"}",
    b";",
    b",",
    b":",
    b"?",
    b"&",
    b"|",
    b"!",
    b"<",
    b">",
    b"+",
    b"return",
)
"""Before a line that may begin with a bracket: after anything else that would call it."""
_BEFORE_WHERE, _BESIDE_WHERE = 24, 60
_ORIGINAL_PLACE = b"(globalThis.__hdwhere||location)"


def told_where(source: bytes) -> bytes:
    """A script that asks where its page is gets the original address from our script, as `location` itself cannot be
    given other values. Not beside another window, whose `location` says where it is archived: the two are compared."""
    if b"location" not in source:
        return source
    pieces: list[bytes] = []
    copied = 0
    is_own: bool | None = None
    for match in _WHERE.finditer(source):
        start = _own_start(source, match.start())
        if start is None or _OTHER_WINDOWS.search(
            source, max(0, start - _BESIDE_WHERE), match.end() + _BESIDE_WHERE
        ):
            continue
        if start == match.start():  # is it a name of the script's own?
            if is_own is None:
                is_own = _DECLARED.search(source.decode("latin-1")) is not None
            if is_own:
                continue
        pieces += (source[copied:start], _ORIGINAL_PLACE)
        copied = match.start() + len(b"location")
    return b"".join((*pieces, source[copied:]))


def _own_start(source: bytes, at: int) -> int | None:
    """Where the window's own `location` begins that stands there; None if it is another's, or the brackets that we
    put there would be taken for a call."""
    begins = max(0, at - _BEFORE_WHERE)
    own = _OWN_WINDOW.search(source, begins, at)
    if own is None:
        return None
    before = source[begins : own.start()]
    told = before.rstrip()
    is_new_line = b"\n" in before[len(told) :] or b"\r" in before[len(told) :]
    return own.start() if not told or not is_new_line or told.endswith(_GOES_ON) else None


_kept: dict[tuple[bytes, bool], tuple[Place, ...]] = {}


def _places(source: bytes, *, is_boxed: bool) -> tuple[Place, ...]:
    """Taking a script apart is what takes long, and many pages of a site have the same ones."""
    if len(source) < KEPT_FROM_BYTES:
        return _Reading(source.decode("latin-1"), is_boxed=is_boxed).places()
    key = blake2b(source, digest_size=16).digest(), is_boxed
    found = _kept.get(key)
    if found is None:
        found = _Reading(source.decode("latin-1"), is_boxed=is_boxed).places()
        if len(_kept) >= KEPT_MAX:
            _kept.clear()
        if len(found) <= KEPT_PLACES_MAX:
            _kept[key] = found
    return found


def for_worker(source: bytes, client: str) -> bytes:
    """With our script first, in the way of a module or of a classic worker."""
    if _MODULE.search(source):
        return f'import "{client}";'.encode() + source
    strict = b'"use strict";' if _STRICT.match(source) else b""
    return strict + f'importScripts("{client}");'.encode() + source


class _Reading:
    """Of one script, from its first token to the last."""

    def __init__(self, text: str, *, is_boxed: bool) -> None:
        self._text = text
        self._is_boxed = is_boxed
        self._found: list[Place] = []
        self._calls: list[_Call] = []
        self._depth = 0
        self._at = 0
        self._word: Token | None = None
        self._is_called = False
        """The word has an open bracket behind it, and nothing else."""
        self._going_at = -1
        """Where the bracket of a `location.assign` is."""
        self._declares_location: bool | None = None

    def places(self) -> tuple[Place, ...]:
        for token in tokens(self._text, _WORDS_BOXED if self._is_boxed else _WORDS):
            self._take(token)
            self._at = token.end
        return tuple(sorted(self._found))

    def _put(self, start: int, end: int, new: bytes) -> None:
        self._found.append((start, end, new, False))

    def _take(self, token: Token) -> None:
        call = self._calls[-1] if self._calls and self._calls[-1].depth == self._depth else None
        if call is not None and not call.has_more:
            between = self._text[self._at : token.start]
            call.has_more = "," in between or "..." in between
        word = self._word
        is_next = word is not None and is_blank(self._text, self._at, token.start)
        if token.kind in (TokenKind.STRING, TokenKind.TEMPLATE) and is_next and word is not None:
            self._literal(word, token, call)
        follows = word if is_next and not self._is_called else None
        self._word, self._is_called = (token, False) if token.kind is TokenKind.WORD else (None, False)
        if token.kind is TokenKind.WORD and self._is_boxed:
            self._boxed(token)
        elif token.kind is TokenKind.OPEN:
            self._depth += 1
            if self._text[token.start] == "(":
                self._opened(token, follows)
        elif token.kind is TokenKind.CLOSE:
            if call is not None:
                self._closed(self._calls.pop(), token)
            self._depth -= 1

    def _literal(self, word: Token, token: Token, call: _Call | None) -> None:
        name = self._text[word.start : word.end]
        if name == "import" or (name == "from" and not self._is_called):
            address = text_of(self._text, token).encode("latin-1", "replace")
            self._found.append((token.start, token.end, address, True))
        if call is not None and self._is_called:
            call.literal_end = token.end

    def _opened(self, token: Token, follows: Token | None) -> None:
        if token.start == self._going_at:
            self._calls.append(_Call(_Kind.GOING, token.end, self._depth, is_bare=False))
        elif follows is not None:
            name, is_bare = self._text[follows.start : follows.end], not self._is_member(follows.start)
            if name == "postMessage":
                self._calls.append(_Call(_Kind.MESSAGE, token.end, self._depth, is_bare=is_bare))
                return
            self._word, self._is_called = follows, True
            if name == "import" and is_bare:
                self._calls.append(_Call(_Kind.IMPORT, token.end, self._depth, is_bare=True))

    def _closed(self, call: _Call, token: Token) -> None:
        # Without a point before it, it may also be a method that is being defined.
        if call.is_bare and self._text[token.end : token.end + 20].lstrip()[:1] == "{":
            return
        is_literal = is_blank(self._text, call.literal_end or call.start, token.start)
        if call.kind is _Kind.IMPORT:
            is_led = not call.has_more and not is_literal
        else:
            is_led = call.has_more or call.kind is _Kind.GOING
        if is_led:
            self._put(call.start, call.start, call.kind.value)
            end = b",%s)" % _OWN if self._is_boxed and call.kind is _Kind.IMPORT else b")"
            self._put(token.start, token.start, end)

    def _boxed(self, word: Token) -> None:
        text = self._text
        name, is_member = text[word.start : word.end], self._is_member(word.start)
        if name == "import" and not is_member and (asked := _OWN_URL.match(text, word.end)):
            self._put(word.start, asked.end(), _OWN)
        if name != "location" or (is_member and not _OF_WINDOW.search(self._before(word.start))):
            return
        if href := _GOES_BY_HREF.match(text, word.end):
            self._put(*href.span(1), b"__hdhref")
        elif method := _GOES_BY_METHOD.match(text, word.end):
            self._going_at = method.end() - 1
        elif _GOES.match(text, word.end):
            if is_member:
                self._put(word.start, word.end, b"__hdlocation")
            elif _BEGINS.search(self._before(word.start)) and not self._is_location_declared():
                self._put(word.start, word.end, b"globalThis.__hdlocation")

    def _is_location_declared(self) -> bool:
        if self._declares_location is None:
            self._declares_location = _DECLARED.search(self._text) is not None
        return self._declares_location

    def _before(self, at: int) -> str:
        return self._text[max(0, at - _LOOKED_BACK) : at]

    def _is_member(self, at: int) -> bool:
        return self._before(at).rstrip()[-1:] == "."


def _quoted(address: bytes) -> bytes:
    return b'"%s"' % address.replace(b"\\", b"%5C").replace(b'"', b"%22")


class ScriptRewriter:
    """Of a whole script; what is too long to be read goes out as it came."""

    def __init__(self, led: Callable[[bytes], bytes], own_url: bytes = b"", worker_client: str = "") -> None:
        """As `led_script`. `worker_client`: the address of our script, if this one is a worker's."""
        self._led = led
        self._own_url = own_url
        self._worker_client = worker_client
        self._held: list[bytes] = []
        self._size = 0
        self._passes = False

    def feed(self, data: bytes) -> bytes:
        if self._passes:
            return data
        self._held.append(data)
        self._size += len(data)
        if self._size <= SCRIPT_CHARS_MAX:
            return b""
        self._passes = True
        return self._taken()

    def close(self) -> bytes:
        if self._passes:
            return b""
        return self._for_worker(led_script(self._taken(), self._led, self._own_url))

    def _taken(self) -> bytes:
        held = b"".join(self._held)
        self._held.clear()
        return self._for_worker(held) if self._passes else held

    def _for_worker(self, source: bytes) -> bytes:
        return for_worker(source, self._worker_client) if self._worker_client else source
