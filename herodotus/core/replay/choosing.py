"""Which rewriter does a body need, if any?"""

import re
from dataclasses import replace

from herodotus.core.replay.addresses import Addresses
from herodotus.core.replay.charsets import Charsets
from herodotus.core.replay.context import Flag, ReplayContext
from herodotus.core.replay.css import CssRewriter, css_escaped
from herodotus.core.replay.html import HtmlRewriter
from herodotus.core.replay.rewriter import Rewriter

_HTML = frozenset({"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_HTML_START = re.compile(
    rb"[\t\n\f\r ]*<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|!--)"
    rb"[\t\n\f\r >]",
    re.IGNORECASE,
)
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?\s*([^\s;\"']{1,40})", re.IGNORECASE)


def rewriter_for(content_type: str | None, flag: Flag, context: ReplayContext) -> Rewriter | None:
    """None: the bytes go out as they were stored. `content_type` as archived, with its parameters; what it
    says of the charset counts if the context says nothing."""
    inner = _inner(content_type, flag, context)
    if inner is None:
        return None
    return Charsets(inner, context.declared_charset or charset_of(content_type))


def _inner(content_type: str | None, flag: Flag, context: ReplayContext) -> Rewriter | None:
    if flag.is_raw:
        return None
    mime = (content_type or "").partition(";")[0].strip().lower()
    if mime == "text/css" or (flag is Flag.STYLE and mime == ""):
        return CssRewriter(Addresses(context, css_escaped))
    if mime == "image/svg+xml":
        return HtmlRewriter(replace(context, banner=b"", is_guarded=False), is_xml=True)
    # A page that is asked for as a picture or script is shown by no browser.
    if mime in _HTML and flag not in (Flag.SCRIPT, Flag.STYLE, Flag.IMAGE):
        return HtmlRewriter(context, is_xml=mime != "text/html")
    return None


def looks_like_html(start: bytes) -> bool:
    """Of a body without a type, by its first bytes (MIME Sniffing standard, 7.1)."""
    return _HTML_START.match(start) is not None


def charset_of(content_type: str | None) -> str | None:
    match = _CHARSET.search(content_type or "")
    return match[1] if match else None
