"""Which addresses does a style sheet load? `url(...)`, `@import`, `image-set(...)`, led into the archive.

One pass over the bytes by the rules of CSS Syntax 3: comments and strings are stepped over, escapes understood
(also in the word `url` itself), namespaces left alone as they are names and no addresses. All bytes outside
those addresses stay as they are.
"""

import re
from typing import Final

from herodotus.core.replay.context import AddressRewriter, Flag

TOKEN_BYTES_MAX = 2 * 2**20
"""A string or address longer than this is left out. Pictures inside style sheets reach some hundred kB."""
BLOCK_BYTES = 256 * 1024
IMAGE_SET_MAX = 1_000
"""Pictures to choose one from, in one `image-set`; those beyond stay as they are, and the policy keeps them in."""
_LOOK_AHEAD = 64
"""More than any word that starts a token, with escapes in every letter."""

_WS = rb"[\t\n\f\r ]"
_DOUBLE = rb"\"((?:[^\"\\\n\f\r]++|\\(?:\r\n|[\s\S]|\Z))*+)(?:\"|(?=[\n\f\r])|\Z)"
_SINGLE = rb"'((?:[^'\\\n\f\r]++|\\(?:\r\n|[\s\S]|\Z))*+)(?:'|(?=[\n\f\r])|\Z)"
_BARE = rb"((?:[^\"'()\\\x00-\x20\x7f]++|\\(?:[^\n\f\r]|\Z))*+)" + _WS + rb"*+(?:\)|\Z)"
_URL = (
    rb"(?:[uU]|\\[uU]|\\0{0,4}[57]5(?:\r\n|[\t\n\f\r ])?)"
    rb"(?:[rR]|\\[rR]|\\0{0,4}[57]2(?:\r\n|[\t\n\f\r ])?)"
    rb"(?:[lL]|\\[lL]|\\0{0,4}[46][cC](?:\r\n|[\t\n\f\r ])?)\("
)
_NOT_IN_NAME = rb"(?<![a-z0-9_\\\x80-\xff-])"
# The next two are for a copy in lower case, as `markup.py` says why.
_START = re.compile(
    rb"(/\*)|([\"'])|" + _NOT_IN_NAME + rb"(" + _URL + rb")|(?<![a-z0-9_])(image-set\()"
    rb"|(@import|@namespace)(?![a-z0-9_-])|(\\)"
)
_DULL = (
    rb"(?:/(?=[^*])|/\*(?:[^*]++|\*(?!/))*+\*/|\"(?:[^\"\\\n\f\r]++|\\[\s\S])*+\"|'(?:[^'\\\n\f\r]++|\\[\s\S])*+'"
    rb"|@(?=[^in])|u(?=[^r\\]|r[^l\\]|rl[^(])|(?<=[a-z0-9_-])u"
)
_SKIP = re.compile(rb"[^/\"'u@\\]*+(?:" + _DULL + rb")[^/\"'u@\\]*+)*+")
_SKIP_TO_SET = re.compile(rb"[^/\"'u@\\i]*+(?:" + _DULL + rb"|i(?=[^m]))[^/\"'u@\\i]*+)*+")
"""Over all in which no token can start, comments and strings included; the second stops at `image-set`, too."""
_STRING = re.compile(rb"(?:" + _DOUBLE + rb"|" + _SINGLE + rb")")
_ADDRESS = re.compile(rb"(" + _WS + rb"*+)(?:" + _DOUBLE + rb"|" + _SINGLE + rb"|" + _BARE + rb")")
_GAP = rb"(?:[\t\n\f\r ]++|/\*(?:[^*]++|\*(?!/))*+(?:\*/|\Z))*+"
_IMPORT = re.compile(rb"@import" + _GAP + rb"(?:(?=[\"'])|(" + _URL + rb")|)", re.IGNORECASE)
_NAMESPACE = re.compile(rb"@namespace(?:[^;{\"']++|\"[^\"]*+(?:\"|\Z)|'[^']*+(?:'|\Z))*+", re.IGNORECASE)
_IMAGE_SET = re.compile(
    rb"(?:" + _DOUBLE + rb"|" + _SINGLE + rb"|[^()\"']++|\((?:[^()\"]++|\"[^\"]*+\"?)*+(?:\)|\Z))*+(?:\)|\Z)"
)
_SET_MEMBER = re.compile(rb"(?i:type\()[^)]*\)?|(" + _URL + rb")|" + _DOUBLE + rb"|" + _SINGLE, re.IGNORECASE)
_LASTS = {last: re.compile(rb"(?<!\\)" + re.escape(last)) for last in (b'"', b"'", b")")}
_ESCAPE = re.compile(rb"\\(?:([0-9A-Fa-f]{1,6})(?:\r\n|[\t\n\f\r ])?|(\r\n|[\n\f\r])|([\s\S]))")
_ESCAPED_IN_ADDRESS = re.compile(rb"[\"\\\n\f\r]")


def css_escaped(base: bytes) -> bytes:
    """Part of an address that a style sheet did not write itself, so that it can stand in any of its forms."""
    return re.sub(rb"(['()\\])", rb"\\\1", base.replace(b'"', b"%22").replace(b"<", b"%3C"))


class CssRewriter:
    """`addresses` made with `css_escaped`."""

    def __init__(self, addresses: AddressRewriter, flag: Flag = Flag.IMAGE) -> None:
        self._rewrite: Final = addresses.rewrite
        self._flag = flag
        self._held = b""
        self._seen = 0
        """Bytes at the start of `held` that are already sent, and kept for the word they may be part of."""
        self._wanted = 0
        self._is_in_comment = False
        self._left_out_to: re.Pattern[bytes] | None = None

    def feed(self, data: bytes) -> bytes:
        if len(data) <= BLOCK_BYTES:
            return self._take(data)
        return b"".join(self._take(data[at : at + BLOCK_BYTES]) for at in range(0, len(data), BLOCK_BYTES))

    def close(self) -> bytes:
        out: list[bytes] = []
        self._scan(out, is_last=True)
        self._held, self._seen = b"", 0
        return b"".join(out)

    def _take(self, data: bytes) -> bytes:
        self._held += data
        if len(self._held) < self._wanted:
            return b""
        out: list[bytes] = []
        at = self._scan(out, is_last=False)
        # One byte stays as what comes before the next word.
        self._seen = min(at, 1)
        self._held = self._held[at - self._seen :]
        # A token that is not complete is looked at again when it has doubled, so that all is linear.
        self._wanted = 2 * len(self._held)
        return b"".join(out)

    def _scan(self, out: list[bytes], *, is_last: bool) -> int:
        """How far it got; what lies before is in `out`."""
        data = self._held
        low = data.lower()
        at = copied = self._seen
        end = len(data)
        limit = end if is_last else end - _LOOK_AHEAD
        skip = (_SKIP_TO_SET if b"image-set(" in low else _SKIP).match
        while at < limit:
            if self._left_out_to is not None:
                last = self._left_out_to.search(data, at)
                at = copied = last.end() if last else end
                self._left_out_to = self._left_out_to if last is None else None
                continue
            if self._is_in_comment:
                close = data.find(b"*/", at)
                if close < 0:
                    at = end if is_last else end - 1
                    break
                at, self._is_in_comment = close + 2, False
                continue
            dull = skip(low, at, limit)
            assert dull is not None  # it may be empty
            start = at = dull.end()
            match = _START.match(low, at) if at < limit else None
            if match is None:
                at = min(at + 1, limit)
                continue
            if match[1]:
                at, self._is_in_comment = match.end(), True
                continue
            pieces, after = self._token(data, match)
            if after >= end and not is_last and after - start <= TOKEN_BYTES_MAX:
                break
            if after - start > TOKEN_BYTES_MAX:
                out.append(data[copied:start])
                at = copied = start + TOKEN_BYTES_MAX
                self._left_out_to = _last_of(low, match)
                continue
            for piece_start, piece_end, new in pieces:
                out += (data[copied:piece_start], new)
                copied = piece_end
            at = after
        out.append(data[copied:at])
        return at

    def _token(self, data: bytes, match: re.Match[bytes]) -> tuple[list[tuple[int, int, bytes]], int]:
        """What to put where, and where the token ends. An end at the end of the data may not be the true one."""
        if match[3]:
            return self._address(data, match.end(), self._flag)
        if match[2]:
            string = _STRING.match(data, match.start())
            return [], string.end() if string else match.end()
        if match[6]:
            return [], match.end() + 1
        if match[4]:
            return self._image_set(data, match.end())
        if match[5] == b"@namespace":
            name = _NAMESPACE.match(data, match.start())
            return [], name.end() if name else match.end()
        rule = _IMPORT.match(data, match.start())
        if rule is None or rule.end() == len(data):
            return [], len(data)
        if rule[1]:
            return self._address(data, rule.end(), Flag.STYLE)
        string = _STRING.match(data, rule.end())
        if string is None:
            return [], rule.end()
        return self._replaced(string, (1, 2), Flag.STYLE), string.end()

    def _address(self, data: bytes, at: int, flag: Flag) -> tuple[list[tuple[int, int, bytes]], int]:
        found = _ADDRESS.match(data, at)
        if found is None:
            return [], at  # browsers do not accept such an address
        return self._replaced(found, (2, 3, 4), flag), found.end()

    def _replaced(
        self, match: re.Match[bytes], groups: tuple[int, ...], flag: Flag
    ) -> list[tuple[int, int, bytes]]:
        group = next(one for one in groups if match[one] is not None)
        value = match[group]
        if b"\\" in value:
            plain = _ESCAPE.sub(_unescaped, value)
            address = self._rewrite(plain, flag)
            if address == plain:
                return []
            new = _ESCAPED_IN_ADDRESS.sub(_escaped, address)
            if group == 4:
                new = b'"' + new + b'"'
            elif match.string[match.start(group) - 1 : match.start(group)] == b"'":
                new = new.replace(b"'", b"\\'")
            return [(match.start(group), match.end(group), new)]
        new = self._rewrite(value, flag)
        return [] if new == value else [(match.start(group), match.end(group), new)]

    def _image_set(self, data: bytes, at: int) -> tuple[list[tuple[int, int, bytes]], int]:
        whole = _IMAGE_SET.match(data, at)
        if whole is None:
            return [], at
        pieces: list[tuple[int, int, bytes]] = []
        end = whole.end()
        position = at
        for _ in range(IMAGE_SET_MAX):
            member = _SET_MEMBER.search(data, position, end)
            if member is None:
                break
            position = member.end()
            if member[1]:
                found, position = self._address(data, member.end(), self._flag)
                pieces += found
            elif member[2] is not None or member[3] is not None:
                pieces += self._replaced(member, (2, 3), self._flag)
        return pieces, max(end, position)


def _last_of(low: bytes, start: re.Match[bytes]) -> re.Pattern[bytes] | None:
    """What ends a string or address that is too long to be looked at whole."""
    if start[2]:
        return _LASTS[start[2]]
    if start[3]:
        opening = low[start.end() :].lstrip(b"\t\n\f\r ")[:1]
        return _LASTS.get(opening, _LASTS[b")"])
    return None


def _unescaped(match: re.Match[bytes]) -> bytes:
    if match[1]:
        number = int(match[1], 16)
        if not 0 < number < 0x11_0000 or 0xD800 <= number < 0xE000:
            number = 0xFFFD
        return chr(number).encode()
    return match[3] or b""


def _escaped(match: re.Match[bytes]) -> bytes:
    return b"\\%x " % match[0][0]
