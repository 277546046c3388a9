"""In which bytes is a text that has to be rewritten, and can it be read as if it were ASCII?

Mostly yes: in UTF-8 and all one-byte charsets every byte below 128 is that letter. Two families differ.

- UTF-16 and ISO-2022-JP have quotes and brackets inside other letters: such a text goes out as UTF-8, with a
  byte order mark, which browsers believe above all headers and tags.
- Shift_JIS, GBK and Big5 have letters whose second byte is a backslash: it is hidden while the text is
  rewritten. (Going out as UTF-8 would change the addresses that browsers make of their forms and queries.)

The charset is found as browsers do: byte order mark, Content-Type, then the first kilobyte.
"""

import codecs
import re

from herodotus.core.replay.rewriter import Rewriter

PRESCAN_BYTES = 1_024
_DECLARED = re.compile(
    rb"charset[\t\n\f\r ]*=?[\t\n\f\r ]*[\"']?[\t\n\f\r ]*([A-Za-z0-9_:.-]{2,40})", re.IGNORECASE
)
_UTF_8_MARK = codecs.BOM_UTF8
_DECODED = {
    "utf-16": "utf-16-le", "utf-16le": "utf-16-le", "utf-16be": "utf-16-be", "unicode": "utf-16-le",
    "ucs-2": "utf-16-le", "iso-10646-ucs-2": "utf-16-le", "csunicode": "utf-16-le", "unicodefffe": "utf-16-be",
    "iso-2022-jp": "iso2022_jp_ext", "csiso2022jp": "iso2022_jp_ext",
}  # fmt: skip
_DOUBLE_BYTE = frozenset(
    {
        "shift_jis", "shift-jis", "sjis", "x-sjis", "ms_kanji", "ms932", "windows-31j", "csshiftjis", "gbk", "gb2312",
        "gb_2312", "gb_2312-80", "x-gbk", "chinese", "csgb2312", "iso-ir-58", "gb18030", "big5", "big5-hkscs",
        "cn-big5", "csbig5", "x-x-big5",
    }
)  # fmt: skip
_PAIR = re.compile(rb"([\x81-\xfe])\\|[\x81-\xfe][\x40-\xfe]")
_HIDDEN = b"\xff"
"""A byte that none of these charsets has."""


class Charsets:
    """Around a rewriter, as its bytes must be."""

    def __init__(self, inner: Rewriter, declared: str | None) -> None:
        self._inner = inner
        self._declared = declared
        self._held = b""
        self._is_known = False
        self._decoder: codecs.IncrementalDecoder | None = None
        self._is_double_byte = False

    def feed(self, data: bytes) -> bytes:
        if not self._is_known:
            self._held += data
            if len(self._held) < PRESCAN_BYTES:
                return b""
            return self._begin()
        return self._pass(data, is_last=False)

    def close(self) -> bytes:
        start = b"" if self._is_known else self._begin()
        rest = start + self._pass(b"", is_last=True)
        return rest + self._shown(self._inner.close())

    def _begin(self) -> bytes:
        data, self._held, self._is_known = self._held, b"", True
        codec, skipped = _codec_of(data, self._declared)
        if codec in _DOUBLE_BYTE:
            self._is_double_byte = True
        elif codec in _DECODED:
            self._decoder = codecs.getincrementaldecoder(_DECODED[codec])("replace")
            return self._inner.feed(_UTF_8_MARK) + self._pass(data[skipped:], is_last=False)
        return self._pass(data, is_last=False)

    def _pass(self, data: bytes, *, is_last: bool) -> bytes:
        if self._decoder is not None:
            text = self._decoder.decode(data, is_last)
            return self._inner.feed(text.encode("utf-8", "replace"))
        if self._is_double_byte:
            return self._shown(self._inner.feed(self._hide(data, is_last=is_last)))
        return self._inner.feed(data) if data else b""

    def _hide(self, data: bytes, *, is_last: bool) -> bytes:
        data = self._held + data.replace(_HIDDEN, b"?")
        hidden = _PAIR.sub(_hide_backslash, data)
        self._held = b""
        # A first byte at the end waits for its second; it is one if the pairs before leave it alone.
        if not is_last and _ends_within_pair(data):
            self._held, hidden = data[-1:], hidden[:-1]
        return hidden

    def _shown(self, data: bytes) -> bytes:
        return data.replace(_HIDDEN, b"\\") if self._is_double_byte else data


def written_charset(declared: str | None) -> str | None:
    """In which a rewritten body is, if a charset was declared. Of the families that go out as UTF-8 the old label is
    not sent: it would count behind a start that only looked like UTF-8."""
    return "utf-8" if declared is not None and declared.strip().lower() in _DECODED else declared


def _hide_backslash(match: re.Match[bytes]) -> bytes:
    return match[1] + _HIDDEN if match[1] else match[0]


def _ends_within_pair(data: bytes) -> bool:
    run = len(data) - len(data.rstrip(bytes(range(0x81, 0xFF))))
    return run % 2 == 1


def _codec_of(start: bytes, declared: str | None) -> tuple[str, int]:
    """The label that counts, in lower case, and how long the mark is that gave it."""
    for mark, label in (
        (codecs.BOM_UTF8, "utf-8"),
        (codecs.BOM_UTF16_LE, "utf-16le"),
        (codecs.BOM_UTF16_BE, "utf-16be"),
    ):
        if start.startswith(mark):
            return label, len(mark)
    if declared:
        label = declared.strip().lower()
        # A label that says UTF-16 of bytes that are plainly not is a mistake.
        return ("utf-8" if label.startswith("utf-16") and b"\0" not in start else label), 0
    match = _DECLARED.search(start[:PRESCAN_BYTES])
    label = match[1].decode("ascii").lower() if match else "utf-8"
    # What could be read so far is not UTF-16, whatever it says (HTML standard, 13.2.3.2).
    return ("utf-8" if label.startswith("utf-16") else label), 0
