"""Which rewriter does a body need, if any?"""

import re
from dataclasses import replace

from herodotus.core.replay.charsets import Charsets
from herodotus.core.replay.context import Flag, ReplayContext, addresses_of
from herodotus.core.replay.css import CssRewriter, css_escaped
from herodotus.core.replay.headers import MediaType, media_type
from herodotus.core.replay.html import HtmlRewriter
from herodotus.core.replay.javascript import ScriptRewriter
from herodotus.core.replay.labels import CLIENT_PATH
from herodotus.core.replay.rewriter import Rewriter

_HTML_START = re.compile(
    rb"(?:\xef\xbb\xbf)?[\t\n\f\r ]*"
    rb"<(?:!doctype html|html|head|script|iframe|h1|div|font|table|a|style|title|b|body|br|p|!--)[\t\n\f\r >]",
    re.IGNORECASE,
)
_XML_SHOWN = (Flag.PAGE, Flag.FRAME, Flag.MAIN, Flag.STYLE)
"""Style sheets of XML are pages in the making."""
_PARTS = (Flag.SCRIPT, Flag.STYLE, Flag.IMAGE)


def rewriter_for(content_type: str | MediaType | None, flag: Flag, context: ReplayContext) -> Rewriter | None:
    """None: the bytes go out as they were stored. `content_type` as archived, with its parameters; what it
    says of the charset counts if the context says nothing."""
    media = content_type if isinstance(content_type, MediaType) else media_type([content_type or ""])
    inner = _inner(media, flag, context)
    if inner is None:
        return None
    return Charsets(inner, context.declared_charset or media.charset)


def _inner(media: MediaType, flag: Flag, context: ReplayContext) -> Rewriter | None:
    if flag.is_raw or (context.site is not None and flag is Flag.EMBEDDED):
        return None  # at a label what a script asks for is as it came: our script leads what is made of it
    if media.essence == "text/css" or (flag is Flag.STYLE and not media.is_known):
        return CssRewriter(addresses_of(context, css_escaped))
    if flag is Flag.SCRIPT and (media.is_script or not media.is_known):
        return _script(context)
    if media.is_svg:
        return HtmlRewriter(replace(context, banner=b"", is_guarded=False), is_xml=True)
    if (media.is_html or media.is_xhtml) and flag not in _PARTS:
        return HtmlRewriter(context, is_xml=media.is_xhtml)
    # What scripts ask for is data to them. Neither guard nor banner, which would be no part of most of these.
    if media.is_xml and not media.is_xhtml and flag in _XML_SHOWN:
        return HtmlRewriter(replace(context, banner=b"", is_guarded=False), is_xml=True)
    return None


def _script(context: ReplayContext) -> ScriptRewriter:
    """In the sandbox the page makes its workers, with our script in them."""
    site = context.site
    client = f"{site.origin}{CLIENT_PATH}" if site is not None and context.is_worker else ""
    return ScriptRewriter(addresses_of(context).module, context.script_url, client)


def shown_flag(flag: Flag, media: MediaType, start: bytes) -> Flag:
    """As what it is shown. A page that was asked for as a part of one is a frame, by whatever a script put there; of
    a page that does not even look like one, the part is meant."""
    if flag not in _PARTS or not media.is_document or media.is_svg:
        return flag
    is_script = flag is Flag.SCRIPT and start.lstrip().startswith(
        b"<!--"
    )  # which begins a comment of scripts, too
    return Flag.FRAME if looks_like_html(start) and not is_script else flag


def shown_type(flag: Flag, media: MediaType) -> MediaType:
    """What is asked for as a part of a page is no page, whatever its head says: a window, too, shows its text."""
    is_no_part = media.is_html or media.is_xhtml or (media.is_xml and flag is not Flag.STYLE)
    if flag in _PARTS and is_no_part and not media.is_svg:
        return MediaType("text/plain", media.charset)
    return media


def looks_like_html(start: bytes) -> bool:
    """Of a body without a type, by its first bytes (MIME Sniffing standard, 7.1)."""
    return _HTML_START.match(start) is not None
