"""What does an attribute's value say where it is written with character references?

Only those are read that can change which address is meant, or where a style or an inner page has its quotes:
references to ASCII. All others stay as they are written, so that no charset has to be known.
"""

import re

_NAMED = {
    b"Tab": b"\t", b"NewLine": b"\n", b"quot": b'"', b"QUOT": b'"', b"apos": b"'", b"lpar": b"(", b"rpar": b")",
    b"num": b"#", b"sol": b"/", b"bsol": b"\\", b"colon": b":", b"period": b".", b"quest": b"?", b"semi": b";",
    b"comma": b",", b"equals": b"=", b"lt": b"<", b"LT": b"<", b"gt": b">", b"GT": b">", b"nbsp": b"&nbsp;",
    b"commat": b"@", b"excl": b"!", b"lowbar": b"_", b"percnt": b"%", b"ast": b"*", b"plus": b"+", b"dollar": b"$",
    b"lbrace": b"{", b"lcub": b"{", b"rbrace": b"}", b"rcub": b"}", b"lbrack": b"[", b"lsqb": b"[", b"rbrack": b"]",
    b"rsqb": b"]", b"grave": b"`", b"vert": b"|", b"verbar": b"|", b"Hat": b"^", b"amp": b"&", b"AMP": b"&",
}  # fmt: skip
_REFERENCE = re.compile(rb"&(?:#[xX]([0-9A-Fa-f]{1,8});?|#([0-9]{1,9});?|([A-Za-z]{2,7});)")
SUSPICIOUS = re.compile(
    rb"&(?:#|(?:Tab|NewLine|num|sol|bsol|colon|period|quest|equals|lowbar|percnt|commat|excl|plus|dollar);)"
)
"""Whether an address must be read before it can be resolved; `&amp;` and the like need not."""
_KEPT_IN_ADDRESSES = frozenset(b"\"'<>&`")


def read_address(value: bytes, *, is_quoted: bool) -> bytes:
    """Quotes, brackets and ampersands stay references, so that the value fits where it stood."""

    def read(match: re.Match[bytes]) -> bytes:
        plain = _plain(match)
        if plain is None or plain[0] in _KEPT_IN_ADDRESSES:
            return match[0]
        return plain

    plain = _REFERENCE.sub(read, value)
    return plain if is_quoted else re.sub(rb"[\t\n\f\r ]", b"", plain.strip())


def read_text(value: bytes) -> bytes:
    """A style or a page inside an attribute."""
    return _REFERENCE.sub(lambda match: _plain(match) or match[0], value) if b"&" in value else value


def write_text(text: bytes) -> bytes:
    """As the value of an attribute in double quotes. What `read_text` left as a reference becomes its spelling,
    which an inner page reads again and no style contains."""
    return text.replace(b"&", b"&amp;").replace(b'"', b"&quot;")


def quote_base(base: bytes) -> bytes:
    """Part of the page's own address, so that it can stand in any attribute, quoted or not."""
    for character, reference in ((b'"', b"&quot;"), (b"'", b"&apos;"), (b"<", b"&lt;"), (b">", b"&gt;")):
        base = base.replace(character, reference)
    return re.sub(rb"[\x00-\x20]", b"%20", base)


def _plain(match: re.Match[bytes]) -> bytes | None:
    if match[3]:
        return _NAMED.get(match[3])
    number = int(match[1], 16) if match[1] else int(match[2])
    return bytes((number,)) if 0 < number < 128 else None
