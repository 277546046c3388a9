"""What of a script must be led, at a label? Addresses of modules, and to whom messages are for.

Nearly all that scripts ask for is led while they run, by our script in the page. Two things cannot be reached there: a
literal address in an `import` is resolved by the browser alone, and another origin's window takes no wrapped
`postMessage`. So the address is changed, and arguments are: `x.postMessage(a, b)` becomes `x.postMessage(...f(a, b))`,
where `f` is our script's, or what gives the arguments as they are. All other bytes stay.

A script is taken apart only where a quick look finds one of the two. It is read as Latin-1, so that places are those of
bytes.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from crawler.core.javascript import SCRIPT_CHARS_MAX, Token, TokenKind, is_blank, text_of, tokens

_WORDS = frozenset({"import", "from", "postMessage"})
_QUICK = re.compile(
    rb"postMessage\s*\(|(?:\bfrom|\bimport)[\s(]*(?:/\*[^*]*\*/\s*)?[\"'`](?:https?:)?(?:\\?/){2}",
    re.IGNORECASE,
)
_MODULE = re.compile(
    rb"^[ \t]*(?:import\b(?!\s*[(.])|export\b)|[;}]\s*(?:import\s*[\"'{*]|export\s*[{*])", re.MULTILINE
)
_STRICT = re.compile(rb"\s*([\"'])use strict\1")
_ARGUMENTS = b"...(globalThis.__hdpm||Array.of)("

Edit = tuple[int, int, bytes]


@dataclass(slots=True)
class _Call:
    """Of `postMessage`, whose brackets are open."""

    start: int
    depth: int
    is_bare: bool
    has_more: bool = False
    """Than one argument, or a list of them that is spread."""


def led_script(source: bytes, led: Callable[[bytes], bytes]) -> bytes:
    """`led` gives the address at a label for a whole one, or what it is given."""
    if not _QUICK.search(source):
        return source
    text = source.decode("latin-1")
    pieces: list[bytes] = []
    copied = 0
    for start, end, new in sorted(_edits(text, led)):
        pieces += (source[copied:start], new)
        copied = end
    return b"".join((*pieces, source[copied:]))


def for_worker(source: bytes, client: str) -> bytes:
    """With our script first, in the way of a module or of a classic worker."""
    if _MODULE.search(source):
        return f'import "{client}";'.encode() + source
    strict = b'"use strict";' if _STRICT.match(source) else b""
    return strict + f'importScripts("{client}");'.encode() + source


def _edits(text: str, led: Callable[[bytes], bytes]) -> Iterator[Edit]:
    calls: list[_Call] = []
    depth = at = 0
    word: Token | None = None
    is_called = False  # the word has an open bracket behind it, and nothing else
    for token in tokens(text, _WORDS):
        if calls and calls[-1].depth == depth and not calls[-1].has_more:
            between = text[at : token.start]
            calls[-1].has_more = "," in between or "..." in between
        is_next = word is not None and is_blank(text, at, token.start)
        if token.kind in (TokenKind.STRING, TokenKind.TEMPLATE) and is_next and word is not None:
            name = text[word.start : word.end]
            if name == "import" or (name == "from" and not is_called):
                yield from _address(text, token, led)
        follows = word if is_next and not is_called else None
        word, is_called = (token, False) if token.kind is TokenKind.WORD else (None, False)
        if token.kind is TokenKind.OPEN:
            depth += 1
            if follows is not None and text[token.start] == "(":
                if text[follows.start : follows.end] == "postMessage":
                    calls.append(_Call(token.end, depth, is_bare=not _is_member(text, follows.start)))
                else:
                    word, is_called = follows, True
        elif token.kind is TokenKind.CLOSE:
            if calls and calls[-1].depth == depth:
                call = calls.pop()
                # Without a point before it, it may also be a method that is being defined.
                is_defined = call.is_bare and text[token.end : token.end + 20].lstrip()[:1] == "{"
                if call.has_more and not is_defined:
                    yield call.start, call.start, _ARGUMENTS
                    yield token.start, token.start, b")"
            depth -= 1
        at = token.end


def _address(text: str, token: Token, led: Callable[[bytes], bytes]) -> Iterator[Edit]:
    address = text_of(text, token).encode("latin-1", "replace")
    new = led(address)
    if new != address:
        yield token.start, token.end, b'"%s"' % new.replace(b"\\", b"%5C").replace(b'"', b"%22")


def _is_member(text: str, at: int) -> bool:
    return text[max(0, at - 20) : at].rstrip()[-1:] == "."


class ScriptRewriter:
    """Of a whole script; what is too long to be read goes out as it came."""

    def __init__(self, led: Callable[[bytes], bytes], worker_client: str = "") -> None:
        """`worker_client`: the address of our script, if this one is a worker's."""
        self._led = led
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
        return self._for_worker(led_script(self._taken(), self._led))

    def _taken(self) -> bytes:
        held = b"".join(self._held)
        self._held.clear()
        return self._for_worker(held) if self._passes else held

    def _for_worker(self, source: bytes) -> bytes:
        return for_worker(source, self._worker_client) if self._worker_client else source
