"""As what is a body shown? Its type and charset, read as browsers read them, and what is sent in their place.

An archived head may name several types, or none that is one. Browsers have a rule for that (Fetch standard, "extract a
MIME type"), and so have we: what is rewritten and what is sent follow from one reading, so that no browser takes for
a page what we took for a picture.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

VALUE_CHARACTERS_MAX = 500
"""Of one field; what is behind is not read."""
UNKNOWN = "application/octet-stream"
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_BLANKS = "\t\n\r "
_PARAMETER = re.compile(
    r"[\t\n\r ]*([^;=]*)(?:=(\"(?:[^\"\\]|\\.|\\$)*(?:\"|$)[^;]*|[^;]*))?(?:;|$)", re.DOTALL
)
_QUOTED = re.compile(r"\"((?:[^\"\\]|\\.|\\$)*)", re.DOTALL)
_LABEL = re.compile(r"[A-Za-z0-9_:.-]{1,40}")
_XML = frozenset({"text/xml", "application/xml", "text/xsl", "text/rdf"})
_XHTML = frozenset({"application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_NOT_SHOWN = frozenset({"application/signed-exchange", "application/webbundle", "application/x-xpinstall"})
_NOT_SHOWN_FAMILIES = ("multipart/", "message/")


class MediaType(NamedTuple):
    essence: str
    """Type and subtype in lower case; "" where none is given."""
    charset: str | None

    @property
    def is_html(self) -> bool:
        return self.essence == "text/html"

    @property
    def is_xhtml(self) -> bool:
        return self.essence in _XHTML

    @property
    def is_svg(self) -> bool:
        return self.essence == "image/svg+xml"

    @property
    def is_xml(self) -> bool:
        """XHTML and SVG, too."""
        return self.essence in _XML or self.essence.endswith("+xml")

    @property
    def is_document(self) -> bool:
        """Whether browsers run it as a page, with scripts and links."""
        return self.is_html or self.is_xml

    @property
    def is_known(self) -> bool:
        return self.essence != ""

    def sent(self) -> str:
        """For Content-Type. What brings heads of its own, leads to another address or installs something is bytes."""
        if not self.essence or self.essence in _NOT_SHOWN or self.essence.startswith(_NOT_SHOWN_FAMILIES):
            return UNKNOWN
        return f"{self.essence}; charset={self.charset}" if self.charset else self.essence


NO_TYPE = MediaType("", None)


def media_type(values: Iterable[str]) -> MediaType:
    """Of all Content-Type fields of a head, in their order (Fetch standard, "extract a MIME type")."""
    found, charset = NO_TYPE, None
    for value in values:
        for part in _between_commas(value[:VALUE_CHARACTERS_MAX]):
            one = _parsed(part)
            if one is None or one.essence == "*/*":
                continue
            if one.essence != found.essence:
                charset = one.charset
                found = one
            else:
                found = MediaType(one.essence, one.charset or charset)
    return found


def _between_commas(value: str) -> Iterable[str]:
    if "," not in value:
        yield value
        return
    start, is_quoted, at = 0, False, 0
    while at < len(value):
        letter = value[at]
        if is_quoted and letter == "\\":
            at += 1
        elif letter == '"':
            is_quoted = not is_quoted
        elif letter == "," and not is_quoted:
            yield value[start:at]
            start = at + 1
        at += 1
    yield value[start:]


@lru_cache(maxsize=1_024)
def _parsed(value: str) -> MediaType | None:
    """There are few different ones. MIME Sniffing standard, 4.4; of the parameters the charset alone."""
    names, _, parameters = value.strip(_BLANKS).partition(";")
    type_, slash, subtype = names.partition("/")
    subtype = subtype.rstrip(_BLANKS)
    if not (slash and _TOKEN.fullmatch(type_) and _TOKEN.fullmatch(subtype)):
        return None
    return MediaType(f"{type_}/{subtype}".lower(), _charset(parameters))


def _charset(parameters: str) -> str | None:
    at = 0
    while at < len(parameters):
        match = _PARAMETER.match(parameters, at)
        if match is None or match.end() == at:
            return None
        at = match.end()
        if match[1].lower() != "charset" or match[2] is None:
            continue
        quoted = _QUOTED.match(match[2])
        label = re.sub(r"\\(.)", r"\1", quoted[1]) if quoted else match[2].rstrip(_BLANKS)
        if label or quoted:  # the first one counts, even if it is malformed
            return label.strip(_BLANKS) if _LABEL.fullmatch(label.strip(_BLANKS)) else None
    return None
