"""What would a browser make of rewritten pages? Judges that share no code with the rewriters.

Markup is read by turbohtml (the HTML standard's tree), addresses by Ada (the URL standard).
"""

import itertools
import re
from collections.abc import Iterator

import can_ada
import turbohtml

from herodotus.core.replay import Flag, ReplayContext, rewriter_for

PAGE = "http://a.example/x/y.html?q"
DATE = "20260102030405"
PORTAL = "http://127.0.0.1:5484"
ARCHIVE = re.compile(re.escape(f"{PORTAL}/web/{DATE}") + r"(?:[a-z]{2}_)?/(https?://.*)", re.DOTALL)
BARE = ReplayContext(page_url=PAGE, timestamp=DATE, portal_origin=PORTAL, is_guarded=False)

_ADDRESSES = (
    "href", "src", "action", "formaction", "background", "cite", "longdesc", "poster", "xlink:href", "lowsrc", "dynsrc",
    "manifest", "data",
)  # fmt: skip
_NEVER_ASKED = {
    ("base", "src"),
    ("meta", "src"),
    ("meta", "href"),
    ("link", "src"),
    ("param", "src"),
    ("param", "href"),
}
_CSS_ADDRESS = re.compile(
    r"url\(\s*(?:\"([^\"\\\n]*)\"|'([^'\\\n]*)'|([^\s\"'()\\]+))\s*\)|@import\s+\"([^\"\\\n]*)\"",
    re.IGNORECASE,
)


def rewritten(page: bytes, context: ReplayContext = BARE, mime: str = "text/html") -> bytes:
    rewriter = rewriter_for(mime, context.flag, context)
    assert rewriter is not None
    return rewriter.feed(page) + rewriter.close()


def rewritten_css(css: bytes) -> bytes:
    rewriter = rewriter_for("text/css", Flag.STYLE, BARE)
    assert rewriter is not None
    return rewriter.feed(css) + rewriter.close()


def in_pieces(page: bytes, cuts: list[int], context: ReplayContext = BARE, mime: str = "text/html") -> bytes:
    rewriter = rewriter_for(mime, context.flag, context)
    assert rewriter is not None
    edges = [0, *sorted(min(cut, len(page)) for cut in cuts), len(page)]
    pieces = [rewriter.feed(page[start:end]) for start, end in itertools.pairwise(edges)]
    return b"".join(pieces) + rewriter.close()


def asked_by_browser(reference: str, page: str = PAGE) -> str | None:
    """What a browser asks for, on the replayed page; None: nothing of the web."""
    try:
        url: str = (can_ada.parse(f"{PORTAL}/web/{DATE}/{page}") + reference).href
    except ValueError:
        return None
    return url if url.startswith(("http:", "https:")) else None


def meant(reference: str, page: str = PAGE) -> str | None:
    """What the reference asked for on the live page."""
    try:
        url: str = (can_ada.parse(page) + reference).href
    except ValueError:
        return None
    return url if url.startswith(("http:", "https:")) else None


def archived(address: str) -> str | None:
    """Which URL an address in the archive stands for, in canonical form; None: it is not in the archive."""
    match = ARCHIVE.fullmatch(address)
    if match is None:
        return None
    try:
        url: str = can_ada.parse(match[1]).href
    except ValueError:
        return match[1]
    return url


def references(page: bytes) -> Iterator[tuple[str, str, str]]:
    """Tag, attribute and value of every address that a browser finds."""
    for element in turbohtml.parse(page, encoding="windows-1252", positions=False).select("*"):
        for name in _ADDRESSES:
            value = element.attr(name)
            if (
                value
                and not (name == "data" and element.tag != "object")
                and (element.tag, name) not in _NEVER_ASKED
            ):
                yield element.tag, name, value
        for name in ("srcset", "imagesrcset"):
            for candidate in re.findall(r"[\s,]*(\S*[^\s,])[^,]*", element.attr(name) or ""):
                yield element.tag, name, candidate
        style = element.attr("style") or (element.text if element.tag == "style" else "")
        for found in _CSS_ADDRESS.finditer(re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)):
            yield element.tag, "style", next(one for one in found.groups() if one is not None)


def wanted(page: bytes) -> list[str]:
    """The URLs of the web that a live page leads to, in its order."""
    return [url for _, _, value in references(page) if value[:1] != "#" and (url := meant(value)) is not None]


def found(page: bytes) -> list[str | None]:
    """The URLs that a rewritten page leads to in the archive; None for each that it leads to elsewhere."""
    return [
        archived(url)
        for _, _, value in references(page)
        if value[:1] != "#" and (url := asked_by_browser(value)) is not None
    ]


def leaks(page: bytes) -> list[tuple[str, str, str]]:
    """Addresses of the web that are not in the archive."""
    return [
        (tag, name, value)
        for tag, name, value in references(page)
        if (url := asked_by_browser(value)) is not None and not ARCHIVE.fullmatch(url) and value[:1] != "#"
    ]
