"""Which rewriter does a body need, if any?"""

import re
from dataclasses import replace

from herodotus.core.replay.addresses import Addresses
from herodotus.core.replay.context import Flag, ReplayContext
from herodotus.core.replay.css import CssRewriter, css_escaped
from herodotus.core.replay.html import HtmlRewriter
from herodotus.core.replay.rewriter import Rewriter

_HTML = frozenset({"text/html", "application/xhtml+xml", "application/vnd.wap.xhtml+xml"})
_CHARSET = re.compile(r";\s*charset\s*=\s*[\"']?\s*([^\s;\"']{1,40})", re.IGNORECASE)


def rewriter_for(content_type: str | None, flag: Flag, context: ReplayContext) -> Rewriter | None:
    """None: the bytes go out as they were stored. `content_type` as archived, with its parameters; what it
    says of the charset counts if the context says nothing."""
    if flag.is_raw:
        return None
    mime = (content_type or "").partition(";")[0].strip().lower()
    if flag is Flag.STYLE and mime in ("text/css", ""):
        return CssRewriter(Addresses(context, css_escaped))
    if mime == "image/svg+xml":
        return HtmlRewriter(replace(context, banner=b"", is_guarded=False), is_xml=True)
    if mime in _HTML and flag not in (Flag.SCRIPT, Flag.STYLE, Flag.IMAGE):
        return HtmlRewriter(context, is_xml=mime != "text/html")
    if mime == "text/css":
        return CssRewriter(Addresses(context, css_escaped))
    return None


def charset_of(content_type: str | None) -> str | None:
    match = _CHARSET.search(content_type or "")
    return match[1] if match else None
