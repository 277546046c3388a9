"""Which links does this crawl take, and why not the others? Scope, depth, kinds of content, traps.

Every refusal has a reason with a stable name, which is counted, so that a URL can say why it was not fetched.
Traps are recognised by their URLs alone: too deep, the same segments over and over, calendars that never end.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache

from crawler.core.link import LinkKind
from crawler.core.politeness import OptOutList
from crawler.core.recrawl import Bounds, Known
from crawler.core.urls import STANDARD, UrlRules, has_web_port, host_of, is_below, target_of

NOBODY_OPTED_OUT = OptOutList()
SEGMENTS_MAX = 20
REPEATS_MAX = 3
"""Times that a path may contain the same segment; real paths repeat one twice, rarely three times."""
PARAMETERS_MAX = 16
CALENDAR_YEARS_AHEAD = 2
REDIRECT_HOPS_MAX = 20
"""From a page's link on, as in Firefox and Chrome; who redirects on from there does so for ever."""
CALENDAR_YEAR_MIN = 1990
SLASHES_OF_A_HOST = 3
"""In `https://example.org/` and `https://example.org/index.html`: neither names a path below the host."""

# A year counts only where a date is meant: before a month, or as the value of a parameter for dates.
_CALENDAR_DATE = re.compile(r"(?i)/(\d{4})[/-]\d{1,2}(?=[/?&-]|$)|[?&](?:year|date|month|day)=(\d{4})(?!\d)")

_CALENDAR_HINT = re.compile(r"[/=]\d{4}")
"""Quick to look for, and in every URL that the other could find something in."""


class ScopeKind(Enum):
    PAGE = "page"
    """The seeds alone."""
    SITE = "site"
    """The seed's host, without a leading `www.`, and all below it; where a path was given, what is below the path."""
    HOST = "host"
    DOMAIN = "domain"
    """The seeds' hosts, without a leading `www.`, and all below them."""
    PREFIX = "prefix"
    """URLs that begin like a seed up to its last slash."""
    ANY = "any"


class ContentChoice(Enum):
    HTML = "html"
    """Text alone: the thesis's light mode."""
    HTML_AND_IMAGES = "html+images"
    """The thesis's choice."""
    PAGES = "pages"
    """Pages, and what they need to be shown: styles, scripts, images, fonts, media, data."""
    ALL = "all"
    """Also whatever else is linked."""

    def takes(self, kind: LinkKind) -> bool:
        if kind is LinkKind.PAGE or kind is LinkKind.FRAME or self is ContentChoice.ALL:
            return True
        return self is ContentChoice.PAGES or (
            self is ContentChoice.HTML_AND_IMAGES and kind is LinkKind.IMAGE
        )

    def accepts(self, mime: str) -> bool:
        """Whether a body of this type is wanted. What says no type may be anything; XML may be a
        link source.
        """
        if self is ContentChoice.ALL or mime in _PAGE_TYPES:
            return True
        if self is ContentChoice.PAGES:
            return mime.startswith(_PARTS_BEGIN) or mime.endswith(_PARTS_END) or mime in _PART_TYPES
        return self is ContentChoice.HTML_AND_IMAGES and mime.startswith("image/")

    def accepts_at(self, url: str, mime: str, *, is_embedded: bool = False) -> bool:
        """Many servers know no type of fonts, models and modules: there the name tells. What a page embeds it needs,
        whatever it is: an index for its search (.zip), a document that it shows.
        """
        if self is ContentChoice.PAGES and is_embedded:
            return True
        if self is ContentChoice.PAGES and mime in _TYPES_OF_ANYTHING:
            return url.partition("?")[0].lower().endswith(_NAMES_OF_PARTS)
        return self.accepts(mime)


_PAGE_TYPES = frozenset(
    {"", "text/html", "application/xhtml+xml", "text/xml", "application/xml", "application/rss+xml"}
    | {"application/atom+xml", "application/rdf+xml"}
)
_PARTS_BEGIN = (
    "text/",
    "image/",
    "font/",
    "audio/",
    "video/",
    "model/",
    "application/font",
    "application/x-font",
)
_PARTS_END = ("javascript", "ecmascript", "json", "+xml")
_PART_TYPES = frozenset(
    {"application/wasm", "application/vnd.ms-fontobject", "application/ogg", "application/vnd.apple.mpegurl"}
    | {"application/x-mpegurl", "application/x-shockwave-flash", "application/yaml", "application/x-yaml"}
)
_TYPES_OF_ANYTHING = frozenset({"application/octet-stream", "binary/octet-stream"})
_NAMES_OF_PARTS = (
    *(
        ".js",
        ".mjs",
        ".css",
        ".wasm",
        ".woff",
        ".woff2",
        ".ttf",
        ".otf",
        ".eot",
        ".glb",
        ".gltf",
        ".bin",
        ".data",
    ),
    *(
        ".ktx2",
        ".basis",
        ".hdr",
        ".exr",
        ".mp3",
        ".mp4",
        ".webm",
        ".ogg",
        ".m4a",
        ".webp",
        ".avif",
        ".svg",
        ".vtt",
    ),
    *(".jsx", ".tsx", ".vue", ".hbs", ".mustache", ".ejs", ".tpl", ".glsl", ".md"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Territory:
    """What a network archives at all: domains with all below them, and URL prefixes. Empty: the whole web."""

    domains: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()

    @classmethod
    def of(cls, entries: Iterable[str], rules: UrlRules = STANDARD) -> "Territory":
        """From a charter's `scope`; raises MalformedUrlError for what is neither a domain nor a URL."""
        domains, prefixes = set(), []
        for entry in entries:
            if "://" in entry:
                prefixes.append(rules.canonical(entry))
            else:
                domains.add(host_of(rules.canonical(f"http://{entry}/")))
        return cls(domains=frozenset(domains), prefixes=tuple(sorted(prefixes)))

    def holds(self, url: str, host: str) -> bool:
        if not self.domains and not self.prefixes:
            return True
        return is_below(host, self.domains) or url.startswith(self.prefixes)


THE_WHOLE_WEB = Territory()


@dataclass(frozen=True, slots=True, kw_only=True)
class CrawlScope:
    """What a crawl takes in; `refuses` gives the reason for a no."""

    kind: ScopeKind = ScopeKind.ANY
    hosts: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()
    pages: frozenset[str] = frozenset()
    bounds: tuple[Bounds, ...] = ()
    """Of seeds: what they led to is of this crawl, too."""
    depth_max: int | None = None
    content: ContentChoice = ContentChoice.HTML_AND_IMAGES
    opted_out: OptOutList = NOBODY_OPTED_OUT
    territory: Territory = THE_WHOLE_WEB
    year: int = 2026
    """This year, for calendars without end."""
    is_removed: Callable[[str], bool] = lambda url: False
    """Whether the operator removed it for good; asked before each fetch, as he may do so any time."""

    @classmethod
    def of_seeds(
        cls,
        seeds: Iterable[str],
        kind: ScopeKind,
        *,
        depth_max: int | None = None,
        content: ContentChoice = ContentChoice.HTML_AND_IMAGES,
        opted_out: OptOutList | None = None,
        territory: Territory = THE_WHOLE_WEB,
        year: int = 2026,
    ) -> "CrawlScope":
        """Around canonical seeds."""
        urls = sorted(set(seeds))
        strips = kind is ScopeKind.DOMAIN
        return cls(
            kind=kind,
            hosts=frozenset(host_of(url).removeprefix("www.") if strips else host_of(url) for url in urls),
            prefixes=tuple(url[: url.partition("?")[0].rindex("/") + 1] for url in urls),
            pages=frozenset(urls) if kind is ScopeKind.PAGE else frozenset(),
            depth_max=depth_max,
            content=content,
            opted_out=opted_out or NOBODY_OPTED_OUT,
            territory=territory,
            year=year,
        )

    def refuses(self, url: str, *, depth: int, kind: LinkKind) -> str | None:
        return self.refuses_at(depth, kind) or self.refuses_url(url)

    def refuses_at(self, depth: int, kind: LinkKind) -> str | None:
        """Whatever the URL is."""
        if self.depth_max is not None and depth > self.depth_max:
            return "depth"
        return None if self.content.takes(kind) else "content"

    def refuses_url(self, url: str) -> str | None:
        """Wherever it was found, and as what."""
        return self.refuses_anywhere(url) if self._holds(url, host_of(url)) else "scope"

    def refuses_anywhere(self, url: str) -> str | None:
        """Whatever the scope is."""
        host = host_of(url)
        if not self.territory.holds(url, host):
            return "charter"
        if not has_web_port(url):
            return "port"
        if self.opted_out.hosts and self.opted_out.covers(host):
            return "opt-out"
        if self.is_removed(url):
            return "removed"
        return trap_reason(url, year=self.year)

    def bounds_of(self, known: Known) -> Bounds | None:
        """By which its links are to be judged. None: by this scope."""
        if not self.bounds or known.bounds in self.bounds:
            return known.bounds
        if self.holds(known.url, depth=known.depth):
            return None
        held = (one for one in self.bounds if bounded(one).holds(known.url, depth=known.depth))
        return next(held, None)

    def covers(self, known: Known) -> bool:
        """Whether a known URL is of this crawl."""
        return self.holds(known.url, depth=known.depth) or (
            bool(self.bounds) and self.bounds_of(known) is not None
        )

    def holds(self, url: str, *, depth: int) -> bool:
        """Whether a URL is within the scope itself."""
        return (self.depth_max is None or depth <= self.depth_max) and self._holds(url, host_of(url))

    def holds_host(self, host: str) -> bool:
        """False: none of its URLs are of this crawl."""
        return bool(self.bounds) or self._has_host(host)

    def _has_host(self, host: str) -> bool:
        if self.kind is ScopeKind.ANY:
            return True
        if self.kind is ScopeKind.DOMAIN:
            return is_below(host, self.hosts)
        return host in self.hosts

    def _holds(self, url: str, host: str) -> bool:
        if not self._has_host(host):
            return False
        if self.kind is ScopeKind.PAGE:
            return url in self.pages
        return self.kind is not ScopeKind.PREFIX or url.startswith(self.prefixes)


@lru_cache(maxsize=4_096)
def bounded(bounds: Bounds) -> CrawlScope:
    """What bounds of a seed mean. They hold for pages: what these embed is taken from anywhere."""
    kind = ScopeKind(bounds.scope)
    if kind is ScopeKind.SITE:
        is_whole = bounds.seed.partition("?")[0].count("/") == SLASHES_OF_A_HOST
        kind = ScopeKind.DOMAIN if is_whole else ScopeKind.PREFIX
    return CrawlScope.of_seeds(
        [bounds.seed],
        kind,
        depth_max=bounds.depth_max,
        content=ContentChoice(bounds.content) if bounds.content else ContentChoice.ALL,
    )


def leaves_bounds(bounds: Bounds, url: str, page: str, *, is_redirect: bool) -> bool:
    """Whether a page to go to is out of bounds. One redirect may lead out: it is where a page of the site is now."""
    inside = bounded(bounds)
    return not inside.holds(url, depth=0) and not (is_redirect and inside.holds(page, depth=0))


def narrower(content: ContentChoice, bounds: Bounds | None) -> ContentChoice:
    if bounds is None or not bounds.content:
        return content
    order = list(ContentChoice)
    return min(content, ContentChoice(bounds.content), key=order.index)


def trap_reason(url: str, *, year: int) -> str | None:
    """Why this URL looks like one of endlessly many, or None."""
    if url.count("/") > REPEATS_MAX + 2 or "?" in url:  # two slashes stand before the host
        reason = _trap_of_shape(*target_of(url).partition("?")[::2])
        if reason is not None:
            return reason
    if _CALENDAR_HINT.search(url) is None:
        return None
    for before_month, parameter in _CALENDAR_DATE.findall(target_of(url)):
        if not CALENDAR_YEAR_MIN <= int(before_month or parameter) <= year + CALENDAR_YEARS_AHEAD:
            return "trap: calendar"
    return None


def _trap_of_shape(path: str, query: str) -> str | None:
    slashes = path.count("/")
    if slashes > SEGMENTS_MAX:
        return "trap: deep path"
    if slashes > REPEATS_MAX:
        segments = Counter(segment for segment in path.split("/") if segment)
        if max(segments.values(), default=0) > REPEATS_MAX:
            return "trap: repeated segments"
    return "trap: many parameters" if query.count("&") >= PARAMETERS_MAX else None
