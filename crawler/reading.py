"""What does a capture tell us? Its links, its directives, and how the visit ended: bytes to values,
no effects.
"""

from dataclasses import dataclass

from crawler.core.capture import Capture, FetchOutcome
from crawler.core.content import GZIP_MARK, PACKED_TYPES, MediaType, decoded, is_packed_xml
from crawler.core.link import Link, LinkKind
from crawler.core.links import PageLinks, css_links, header_links, html_links, xml_links
from crawler.core.recrawl import Result
from crawler.core.robots import NOTHING_ASKED, page_directives
from crawler.core.similarity import BYTES_MAX, sketch_of
from crawler.core.urls import UrlRules

_XML_TYPES = ("xml", "rss", "atom")
_HTML_TYPES = ("text/html", "application/xhtml+xml", "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    result: Result
    links: tuple[Link, ...] = ()
    is_redirect: bool = False
    noarchive: bool = False
    not_followed: int = 0
    over_limit: int = 0
    malformed: int = 0
    sketch: int | None = None
    """Of an HTML page, when it was asked for."""


_PLAIN_RESULTS = {
    result: Reading(result=result)
    for result in (Result.UNCHANGED, Result.GONE, Result.REFUSED, Result.FAILED)
}


def read_capture(
    capture: Capture, *, product_token: str, rules: UrlRules, wants_sketch: bool = False
) -> Reading:
    """How the visit ended and, for new content, where it leads."""
    result = result_of(capture)
    if result is not Result.CHANGED:
        return _PLAIN_RESULTS[result]
    if capture.redirect_to is not None:
        # Not subject to nofollow: the server sends us there itself.
        return Reading(result=result, links=(Link(capture.redirect_to, LinkKind.PAGE),), is_redirect=True)
    page = _page_links(capture, product_token, rules)
    directives = page.directives
    if b"x-robots-tag" in capture.head.lower():
        directives |= page_directives(capture.header_values("X-Robots-Tag"), product_token)
    links = page.links
    not_followed = page.not_followed
    if b"\nlink:" in capture.head.lower():
        links += header_links(capture.header_values("Link"), capture.url, rules=rules).links
    if directives.nofollow:
        followed = tuple(link for link in links if link.kind.is_embedded)
        not_followed += len(links) - len(followed)
        links = followed
    return Reading(
        result=result,
        links=links,
        noarchive=directives.noarchive,
        not_followed=not_followed,
        over_limit=page.over_limit,
        malformed=page.malformed,
        sketch=_sketch(capture) if wants_sketch and capture.mime in _HTML_TYPES else None,
    )


def _sketch(capture: Capture) -> int | None:
    coding = capture.header("Content-Encoding")
    return sketch_of(decoded(capture.body, coding, BYTES_MAX).content if coding else capture.body)


def result_of(capture: Capture) -> Result:
    status = capture.status
    if capture.outcome is not FetchOutcome.STORED:
        return Result.UNCHANGED
    if 200 <= status < 300 or (300 <= status < 400 and status != 304):
        return Result.CHANGED
    if status in (404, 410):
        return Result.GONE
    return Result.REFUSED if 400 <= status < 500 and status not in (408, 429) else Result.FAILED


_NO_LINKS = PageLinks(directives=NOTHING_ASKED)


def _page_links(capture: Capture, product_token: str, rules: UrlRules) -> PageLinks:
    mime = capture.mime
    is_html = mime in _HTML_TYPES
    is_packed = mime in PACKED_TYPES and is_packed_xml(capture.url)
    is_xml = is_packed or (not is_html and mime.endswith(_XML_TYPES))
    if not (is_html or is_xml or mime == "text/css"):
        return _NO_LINKS
    coding = capture.header("Content-Encoding") if b"ontent-" in capture.head else None
    body = capture.body
    if coding:
        body, is_whole = decoded(body, coding)
        if not is_whole and capture.truncated is None:
            return _NO_LINKS  # browsers show nothing of a page whose coding is broken
    if is_packed and body.startswith(GZIP_MARK):
        body = decoded(body, "gzip").content
    charset = MediaType.of(capture.header("Content-Type")).charset
    if is_html:
        return html_links(body, capture.url, charset=charset, product_token=product_token, rules=rules)
    if is_xml:
        return xml_links(body, capture.url, rules=rules)
    return css_links(body, capture.url, charset=charset, rules=rules)
