"""Where does a page lead? Links of HTML, CSS, scripts, JSON, sitemaps, feeds and Link headers, resolved and classified.

HTML is parsed as browsers parse it (turbohtml's WHATWG tree; faster ways miss links in odd markup), its
charset found as browsers find it. The other sources are read by linear-time expressions. What a page needs is found by
rules (`crawler.core.link.Rule`), each of which may be left out. Everything is bounded: bytes read, links taken (what is
left out is counted), text kept. `nofollow` takes away what one would click on, not what the page needs to be shown. It
fetches nothing and knows no scope: that is for the caller.
"""

import codecs
import html
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import cast

import turbohtml

from crawler.core.link import DOUBTFUL_RULES, Link, LinkKind, Rule
from crawler.core.patterns import (
    GUESSES_MAX,
    NAMES_MAX,
    WORDS_MAX,
    bounded_words,
    parts_named,
    words_of_markup,
    words_of_strings,
)
from crawler.core.references import css_references, srcset_references
from crawler.core.robots import NOTHING_ASKED, PageDirectives, page_directives
from crawler.core.scripts import (
    AMD,
    DOUBTFUL_MAX,
    NO_NAMES,
    Named,
    PageNames,
    ScriptReference,
    is_file_name,
    json_references,
    read_import_map,
    script_references,
)
from crawler.core.trees import fit_for_tree, tree_of
from crawler.core.urls import STANDARD, UrlRules

LINKS_MAX = 20_000
"""Per page. Sitemaps may hold 50,000 by their standard and have a bound of their own."""
SITEMAP_LINKS_MAX = 50_000
LINKS_CHARS_MAX = 16 * 2**20
"""Of all links of a page, if each were as long as the base that they are relative to."""
PARSED_BYTES_MAX = 2 * 2**20
"""Of a page or style: a tree of tags takes up to 13 times its size. Search engines read as much."""
TAGS_MAX = 80_000
"""Of a page: 20,000 links with an end each in an element with an end each. They take 28 MB of a tree."""
NULS_BYTES_MAX = 3 * 2**18
"""Of a page of which a fourth or more are zeros: in UTF-16 each that stands by itself takes 45 bytes of a tree. Where
every second byte is one, it is three sixteenths as many letters as of others."""
SITEMAP_BYTES_MAX = 16 * 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLinks:
    links: tuple[Link, ...] = ()
    """Each URL once, in the order of the page. What is linked and embedded counts as embedded: such a link may lead to
    the picture that it shows."""
    directives: PageDirectives = NOTHING_ASKED
    not_followed: int = 0
    over_limit: int = 0
    malformed: int = 0
    names: PageNames = NO_NAMES
    """What the scripts that it leads to are told."""


_References = Iterator[tuple[str, LinkKind]]
NO_RULES: frozenset[int] = frozenset()

_PAGE, _FRAME, _IMAGE, _REQUISITE = LinkKind
_ATTRIBUTES: dict[str, tuple[tuple[str, LinkKind], ...]] = {
    "a": (("href", _PAGE), ("xlink:href", _PAGE)),
    "area": (("href", _PAGE),),
    "iframe": (("src", _FRAME),),
    "frame": (("src", _FRAME),),
    "img": (("src", _IMAGE), ("longdesc", _PAGE)),
    "image": (("href", _IMAGE), ("xlink:href", _IMAGE)),
    "input": (("src", _IMAGE),),
    "use": (("href", _IMAGE), ("xlink:href", _IMAGE)),
    "feimage": (("href", _IMAGE), ("xlink:href", _IMAGE)),
    "script": (("src", _REQUISITE), ("href", _REQUISITE), ("xlink:href", _REQUISITE)),
    "video": (("src", _REQUISITE), ("poster", _IMAGE)),
    "audio": (("src", _REQUISITE),),
    "source": (("src", _REQUISITE),),
    "track": (("src", _REQUISITE),),
    "embed": (("src", _REQUISITE),),
    "object": (("data", _REQUISITE),),
    "html": (("manifest", _REQUISITE),),
    "applet": (("code", _REQUISITE), ("archive", _REQUISITE)),
    "bgsound": (("src", _REQUISITE),),
    "blockquote": (("cite", _PAGE),),
    "q": (("cite", _PAGE),),
    "del": (("cite", _PAGE),),
    "ins": (("cite", _PAGE),),
}
_SELECTOR = (
    "[href],[src],[srcset],[imagesrcset],[style],[background],[data],[poster],[cite],[longdesc],[code],"
    "[archive],[xlink\\:href],meta,style"
)
_MORE_SELECTORS = (
    (re.compile(rb"(?i)<script"), "script:not([src])"),
    (re.compile(rb"(?i)<param"), "param"),
    (re.compile(rb"(?i)srcdoc"), "iframe[srcdoc]"),
    (re.compile(rb"(?i)<html[^>]{0,500}\smanifest"), "html[manifest]"),
    (
        re.compile(rb"(?i)\s(?:spec-url|data-url|apidescriptionurl)"),
        "[spec-url],[data-url],[apidescriptionurl]",
    ),
)
"""What few pages have is looked for only in those."""
_LAZY_NAMES = (
    *(
        "src",
        "original",
        "original-src",
        "lazy",
        "lazy-src",
        "defer-src",
        "delay-src",
        "echo",
        "image",
        "image-src",
    ),
    *(
        "img",
        "img-src",
        "thumb",
        "poster",
        "bg",
        "bg-src",
        "background",
        "background-image",
        "hi-res-src",
        "full-src",
    ),
    *("fallback-src", "flickity-lazyload", "pagespeed-lazy-src", "cfsrc", "large-file", "main"),
)
_LAZY = frozenset(f"data-{name}" for name in _LAZY_NAMES)
"""By which scripts load late what the page shows: lazysizes, Lozad, jQuery.lazy, Echo, Flickity, WP Rocket, Cloudflare;
`data-main` names the first script of RequireJS."""
_LAZY_SETS = frozenset({"data-srcset", "data-lazy-srcset", "data-original-set", "data-bgset"})
_DATA = frozenset({"spec-url", "data-url", "apidescriptionurl"})
"""What an element's script reads: the description of an interface (Redoc, RapiDoc, Scalar, Stoplight). Others write
addresses of pages there, so only names of files count."""
_HAS_LAZY = re.compile(
    rb"(?i)\sdata-[a-z-]{0,20}(?:src|original|lazy|bg|background|image|img|poster|thumb|echo|main|file)"
)
_LAZY_SELECTOR = ",".join(f"[{name}]" for name in sorted(_LAZY | _LAZY_SETS))
_SCRIPT_TYPES = frozenset({"", "module", "text/babel"})
_SRCDOCS_MAX = 20
_COMMON = {"a": ("href", _PAGE), "img": ("src", _IMAGE)}
_RARE = frozenset({"rel", "style", "srcset", "imagesrcset", "background", "longdesc"}) | _LAZY | _LAZY_SETS
"""Attributes that make an anchor or an image say more than its one address."""
_EMBEDDED_RELATIONS = frozenset(
    {"stylesheet", "icon", "apple-touch-icon", "apple-touch-icon-precomposed", "mask-icon", "preload"}
    | {"modulepreload", "prefetch", "manifest", "fluid-icon", "apple-touch-startup-image", "image_src"}
)
_IMAGE_RELATIONS = frozenset(
    relation for relation in _EMBEDDED_RELATIONS if "icon" in relation or "image" in relation
)
_NO_PAGE_RELATIONS = frozenset(
    {"dns-prefetch", "preconnect", "pingback", "edituri", "profile", "wlwmanifest"}
)

_CHARSETS = frozenset(
    {
        "utf-8",
        "utf-16",
        "utf-16-le",
        "utf-16-be",
        "ascii",
        "cp866",
        "koi8-r",
        "koi8-u",
        "tis-620",
        "mac-roman",
    }
    | {
        "gbk",
        "gb2312",
        "gb18030",
        "big5",
        "big5hkscs",
        "euc_jp",
        "iso2022_jp",
        "shift_jis",
        "cp932",
        "euc_kr",
        "cp949",
    }
    | {f"iso8859-{part}" for part in (*range(1, 12), *range(13, 17))}
    | {f"cp{page}" for page in (874, *range(1250, 1259))}
)
"""The codecs of the Encoding Standard's charsets, by their names in Python."""

_REFRESH = re.compile(r"(?is)^[\s\d.]*[;,\s]\s*(?:url\s*=\s*)?(?:'([^']*)|\"([^\"]*)|(.+))")
_LOCATION = re.compile(r"<(?:[a-z]+:)?loc(?:\s[^<>]{0,200})?>\s*(?:<!\[CDATA\[)?([^<\]]{1,4096})")
_FEED_LINK = re.compile(r"<(?:atom:)?link(?:\s[^<>]{0,1000}|)>\s*(?:<!\[CDATA\[)?([^<\]]{0,4096})")
_FEED_HREF = re.compile(
    r"<(?:atom:)?(link|enclosure|content|media:content|media:thumbnail)\s([^<>]{1,4096})>"
)
_QUOTED_URL = re.compile(r"(?:href|url|src)\s*=\s*[\"']([^\"']*)")
_HEADER_LINK = re.compile(r"<([^<>]{0,4096})>([^<,]{0,500})")
_RELATION = re.compile(r"(?i)\brel\s*=\s*\"?([^\";,]*)")


def html_links(
    body: bytes,
    url: str,
    *,
    charset: str | None = None,
    product_token: str = "",
    rules: UrlRules = STANDARD,
    without: Collection[int] = NO_RULES,
) -> PageLinks:
    """Links of an HTML page; `charset` is what the Content-Type header says, `without` are rules that rest."""
    read = readable_part(body)
    document = tree_of(read, charset)
    elements = document.select(_selector(read))
    robots = ["robots", product_token.lower()] if product_token else ["robots"]
    base = None
    asked: list[str] = []
    collected = _Collector(rules, encoding=document.encoding, without=without)
    collected.words += _words(read, without)
    references = collected.references
    element: turbohtml.Element | None = None
    for element in elements:
        tag = element.tag
        if (common := _COMMON.get(tag)) is not None:
            value = element.attr(common[0])
            if value is not None and len(references) < LINKS_MAX and _RARE.isdisjoint(element.attrs):
                # nearly all links are these
                if references.setdefault(value, common[1]) is not common[1]:
                    collected.add(value, common[1])
                continue
            if value is not None and tag == "a":
                _add_anchor(element, value, collected)
                continue
        elif tag == "base":
            base = element.attr("href") if base is None else base
        elif tag == "meta" and (element.attr("name") or "").strip().lower() in robots:
            asked.append(element.attr("content") or "")
        _add_references(element, collected, follows=True)
    directives = page_directives(asked, product_token)
    if directives.nofollow:  # rare, and known only now
        words = collected.words
        collected = _Collector(rules, encoding=document.encoding, without=without)
        collected.words = words
        for element in elements:
            _add_references(element, collected, follows=False)
    del document, elements
    element = None  # or it would hold the tree beside all links
    if base is not None:
        base = rules.links([base], url)[0]
    if len(read) < len(body):
        collected.over_limit += 1  # nobody knows how many more there are
    return collected.result(base or url, directives)


def _words(body: bytes, without: Collection[int]) -> Iterator[str]:
    """Of the markup, for the scripts of the page."""
    is_wanted = Rule.PATTERNS not in without and b"<script" in body
    return islice(words_of_markup(body), WORDS_MAX) if is_wanted else iter(())


def _selector(body: bytes) -> str:
    is_wide = b"\0" in body[:1024]  # every second byte of UTF-16
    parts = [_SELECTOR, *(more for has, more in _MORE_SELECTORS if is_wide or has.search(body))]
    if is_wide or _HAS_LAZY.search(body):
        parts.append(_LAZY_SELECTOR)
    return ",".join(parts)


def readable_part(body: bytes) -> bytes:
    """As much of the page as a tree is made of."""
    body = body[:PARSED_BYTES_MAX]
    if body.count(b"<") > TAGS_MAX:
        body = body[: _end_of_tags(body)]
    if len(body) > NULS_BYTES_MAX and body.count(0) > len(body) // 4:
        body = body[:NULS_BYTES_MAX]
    return fit_for_tree(body)


def _end_of_tags(body: bytes) -> int:
    """Where so many have begun: what follows is left out."""
    at = -1
    for _ in range(TAGS_MAX + 1):
        at = body.index(b"<", at + 1)
    return at


def _add_anchor(element: turbohtml.Element, href: str, collected: "_Collector") -> None:
    if _is_nofollow(element):
        collected.not_followed += 1
    else:
        collected.add(href, _PAGE)
    if (style := element.attr("style")) is not None:
        for reference in css_references(style):
            collected.add(reference, _IMAGE)


def _add_references(element: turbohtml.Element, collected: "_Collector", *, follows: bool) -> None:
    if element.tag == "script" and element.attr("src") is None:
        _add_script(element, collected)
    elif element.tag == "iframe" and (inner := element.attr("srcdoc")) and collected.may_look_inside():
        for part in tree_of(readable_part(inner.encode()), None).select(_SELECTOR):
            _add_references(part, collected, follows=follows)
    for name, value in element.attrs.items():
        if name in _LAZY:
            _add_lazy(element, name, str(value or ""), collected)
        elif name in _LAZY_SETS:
            for reference in srcset_references(str(value or "")):
                collected.add(reference, _IMAGE, Rule.LAZY)
        elif name in _DATA and is_file_name(str(value or "")):
            collected.add(str(value), _REQUISITE, Rule.LAZY)
    for reference, kind in _references(element):
        if kind is _PAGE and (not follows or _is_nofollow(element)):
            collected.not_followed += 1
        else:
            collected.add(reference, kind)


def _add_lazy(element: turbohtml.Element, name: str, value: str, collected: "_Collector") -> None:
    if "url(" in value:
        for reference in css_references(value):
            collected.add(reference, _IMAGE, Rule.LAZY)
    elif name == "data-main":
        if element.tag == "script" and value.strip():
            collected.add(value if value.endswith(".js") else f"{value}.js", _REQUISITE, Rule.LAZY)
            collected.import_map[AMD] = value[: value.rfind("/") + 1]
    elif _LOOKS_LIKE_ADDRESS.fullmatch(value.strip()):
        kind = {"iframe": _FRAME, "script": _REQUISITE, "source": _REQUISITE, "video": _REQUISITE}
        collected.add(value, kind.get(element.tag, _IMAGE), Rule.LAZY)


def _add_script(element: turbohtml.Element, collected: "_Collector") -> None:
    """What stands in the page itself. Its data may name files as well."""
    type_ = (element.attr("type") or "").strip().lower()
    if type_ == "importmap":
        collected.import_map |= read_import_map(element.text)
        for address in collected.import_map.values():
            if not address.endswith("/"):
                collected.add(address, _REQUISITE, Rule.IMPORT_MAPS)
    elif type_ in _SCRIPT_TYPES or type_.endswith(("javascript", "ecmascript")):
        named: dict[str, Named] = {}
        names = PageNames(collected.import_map, bounded_words(iter(collected.words)))
        for reference in script_references(element.text, names=names, named=named):
            collected.add_found(reference)
        if len(collected.words) < WORDS_MAX:
            collected.words += islice(words_of_strings(element.text), WORDS_MAX)
        collected.import_map |= {name: one.address for name, one in named.items()}
    elif type_ == "application/json":
        for reference in json_references(element.text):
            collected.add_found(reference)


def _is_nofollow(element: turbohtml.Element) -> bool:
    relation = element.attr("rel")
    return relation is not None and "nofollow" in relation.lower().split()


def _references(element: turbohtml.Element) -> _References:
    tag = element.tag
    if tag in _HEAD_ELEMENTS:
        yield from _HEAD_ELEMENTS[tag](element)
    else:
        for attribute, kind in _ATTRIBUTES.get(tag.lower(), ()):
            if (value := element.attr(attribute)) is not None:
                yield value, kind
    for attribute in ("srcset", "imagesrcset"):
        if (candidates := element.attr(attribute)) is not None:
            yield from ((reference, _IMAGE) for reference in srcset_references(candidates))
    if (style := element.attr("style")) is not None:
        yield from ((reference, _IMAGE) for reference in css_references(style))
    if (background := element.attr("background")) is not None:
        yield background, _IMAGE


def _link_element(element: turbohtml.Element) -> _References:
    href = element.attr("href")
    kind = kind_of_relation(element.attr("rel") or "")
    if href is not None and kind is not None:
        yield href, kind


def _meta_element(element: turbohtml.Element) -> _References:
    content = element.attr("content") or ""
    if (element.attr("http-equiv") or "").strip().lower() == "refresh":
        match = _REFRESH.match(content.strip())
        if match is not None:
            yield (match[1] or match[2] or match[3] or ""), _PAGE
    elif (element.attr("property") or element.attr("name") or "").strip().lower() in _NAMES_OF_IMAGES:
        yield content, _IMAGE


def _param_element(element: turbohtml.Element) -> _References:
    """What a plug-in is given to show: Flash wrote it so."""
    if (element.attr("name") or "").strip().lower() in ("movie", "src", "filename", "url"):
        yield element.attr("value") or "", _REQUISITE


def _style_element(element: turbohtml.Element) -> _References:
    return ((reference, _REQUISITE) for reference in css_references(element.text))


_HEAD_ELEMENTS: dict[str, Callable[[turbohtml.Element], _References]] = {
    "link": _link_element,
    "meta": _meta_element,
    "style": _style_element,
    "param": _param_element,
}
_NAMES_OF_IMAGES = frozenset(
    {"og:image", "og:image:url", "og:image:secure_url", "twitter:image", "twitter:image:src"}
    | {"msapplication-tileimage", "thumbnail"}
)
_LOOKS_LIKE_ADDRESS = re.compile(r"(?![#{\[])\S*[./]\S*")
"""Such attributes hold other things, too."""


def kind_of_relation(relations: str) -> LinkKind | None:
    """What a link with these relations is for; None: for nothing that is fetched."""
    words = set(relations.lower().split())
    if words & _IMAGE_RELATIONS:
        return _IMAGE
    if words & _EMBEDDED_RELATIONS:
        return _REQUISITE
    return None if words & _NO_PAGE_RELATIONS else _PAGE


def css_links(
    body: bytes,
    url: str,
    *,
    charset: str | None = None,
    rules: UrlRules = STANDARD,
    without: Collection[int] = NO_RULES,
) -> PageLinks:
    collected = _Collector(rules, without=without)
    for reference in css_references(_text(body, charset)):
        collected.add(reference, _REQUISITE, Rule.STYLES)
    return collected.result(url)


def json_links(
    body: bytes,
    url: str,
    *,
    charset: str | None = None,
    rules: UrlRules = STANDARD,
    without: Collection[int] = NO_RULES,
) -> PageLinks:
    """Of a manifest, or of data that a script reads."""
    collected = _Collector(rules, without=without)
    for reference in json_references(_text(body, charset)):
        collected.add_found(reference)
    return collected.result(url)


def script_links(
    body: bytes,
    url: str,
    *,
    page: str | None = None,
    charset: str | None = None,
    rules: UrlRules = STANDARD,
    without: Collection[int] = NO_RULES,
    names: PageNames = NO_NAMES,
) -> PageLinks:
    """`page`: where the script was found; some of what it asks for is relative to that, and named by `names`."""
    beside, in_page = _Collector(rules, without=without), _Collector(rules, without=without)
    named: dict[str, Named] = {}
    folder, _, own_name = url.partition("?")[0].rpartition("/")
    names = names._replace(home=names.home or f"{folder}/")
    source = _text(body, charset)
    for reference in script_references(source, names=names, named=named, own_name=own_name):
        (in_page if reference.is_of_page else beside).add_found(reference)
    for name, (address, is_of_page) in named.items():
        (in_page if is_of_page else beside).import_map[name] = address
    if parts := tuple(islice(parts_named(source), max(0, NAMES_MAX - len(names.words)))):
        names = names._replace(words=(*names.words, *parts))
    found, found_in_page = beside.result(url), in_page.result(page or url)
    seen = {link.url for link in found.links}
    return PageLinks(
        links=found.links + tuple(link for link in found_in_page.links if link.url not in seen),
        over_limit=found.over_limit + found_in_page.over_limit,
        malformed=found.malformed + found_in_page.malformed,
        names=names._replace(modules={**names.modules, **found.names.modules, **found_in_page.names.modules})
        if named
        else names,
    )


def is_sitemap_or_feed(head: bytes) -> bool:
    """Whether XML that begins so is one: by its root element, as media types are often wrong."""
    return re.search(rb"<(?:urlset|sitemapindex|rss|feed|rdf:RDF)[\s>]", head[:4096]) is not None


def xml_links(body: bytes, url: str, *, rules: UrlRules = STANDARD) -> PageLinks:
    """Links of a sitemap, a sitemap index, RSS or Atom; none of any other XML. No entity is expanded."""
    collected = _Collector(rules, links_max=SITEMAP_LINKS_MAX)
    if not is_sitemap_or_feed(body):
        return collected.result(url)
    text = _text(body, None, SITEMAP_BYTES_MAX)
    for match in _LOCATION.finditer(text):
        is_image = text.startswith("<image:", match.start())
        collected.add(html.unescape(match[1].strip()), _IMAGE if is_image else _PAGE)
    for match in _FEED_LINK.finditer(text):
        if match[1].strip():
            collected.add(html.unescape(match[1].strip()), _PAGE)
    for match in _FEED_HREF.finditer(text):
        reference = _QUOTED_URL.search(match[2])
        if reference is not None and 'rel="self"' not in match[2]:
            kind = _PAGE if match[1] == "link" else _REQUISITE
            collected.add(html.unescape(reference[1].strip()), kind)
    return collected.result(url)


def header_links(values: Iterable[str], url: str, *, rules: UrlRules = STANDARD) -> PageLinks:
    """Links of `Link` headers (RFC 8288)."""
    collected = _Collector(rules)
    for value in values:
        for match in _HEADER_LINK.finditer(value):
            relation = _RELATION.search(match[2])
            kind = kind_of_relation(relation[1] if relation else "")
            if relation is not None and kind is not None:
                collected.add(match[1].strip(), kind)
    return collected.result(url)


def _text(body: bytes, charset: str | None, bytes_max: int = PARSED_BYTES_MAX) -> str:
    """What no browser knows counts as UTF-8: Python has codecs besides that take hours for some bytes (Punycode)."""
    try:
        codec = codecs.lookup(charset or "utf-8").name
    except (LookupError, ValueError):
        codec = "utf-8"
    return body[:bytes_max].decode(codec if codec in _CHARSETS else "utf-8", "replace")


_PATTERN_RULES = frozenset({Rule.PATTERNS, Rule.PATTERNS_IN_PAGE})
_STRING_RULES = frozenset({Rule.MODULES, Rule.STRINGS, Rule.STRINGS_BESIDE, Rule.STRINGS_ROOT, Rule.JSON})


class _Collector:
    """References in the order of the page, and what became of those that are no links."""

    def __init__(
        self,
        rules: UrlRules,
        *,
        encoding: str | None = None,
        links_max: int = LINKS_MAX,
        without: Collection[int] = NO_RULES,
    ) -> None:
        self._rules = rules
        self._without = without
        self._rule_of: dict[str, Rule] = {}
        self._doubtful = self._patterned = 0
        self._looked_inside = 0
        self.import_map: dict[str, str] = {}
        self.words: list[str] = []
        """Of which scripts may make names; those of markup come first."""
        self._codec = _legacy_codec(encoding)
        self._links_max = links_max
        self.references: dict[str, LinkKind] = {}
        self.not_followed = 0
        self.over_limit = 0

    def add(self, reference: str, kind: LinkKind, rule: Rule = Rule.MARKUP) -> None:
        references = self.references
        if rule in self._without:
            return
        known = references.get(reference)
        if known is not None:
            if rule not in DOUBTFUL_RULES:
                if known is _PAGE:
                    references[reference] = kind
                if self._rule_of.get(reference) in DOUBTFUL_RULES:
                    self._rule_of[reference] = rule
        elif len(references) < self._links_max:
            references[reference] = kind
            if rule:
                self._rule_of[reference] = rule
        else:
            self.over_limit += 1

    def may_look_inside(self) -> bool:
        """A page may hold pages, and these others."""
        self._looked_inside += 1
        return self._looked_inside <= _SRCDOCS_MAX

    def add_found(self, reference: ScriptReference) -> None:
        """What a script says; of its doubtful strings a page has few tries."""
        if reference.rule in _STRING_RULES:
            self._doubtful += 1
            if self._doubtful > DOUBTFUL_MAX:
                return
        elif reference.rule in _PATTERN_RULES:
            self._patterned += 1
            if self._patterned > 2 * GUESSES_MAX:
                return
        self.add(reference.address, _REQUISITE, reference.rule)

    def result(self, base: str, directives: PageDirectives = NOTHING_ASKED) -> PageLinks:
        # A long base makes long links of short references: 100 kB of a page would be 80 MB of links.
        links_max = max(1, LINKS_CHARS_MAX // max(1, len(base)))
        if len(self.references) > links_max:
            self.over_limit += len(self.references) - links_max
            self.references = dict(islice(self.references.items(), links_max))
        references: Collection[str] = self.references
        if self._codec is not None:
            references = [_with_legacy_query(reference, self._codec) for reference in references]
        resolved = self._rules.links(references, base)
        kinds = self.references.values()
        links: dict[str | None, LinkKind] = dict(zip(resolved, kinds, strict=True))
        if len(links) < len(resolved):  # the same page in two spellings: the first one's kind counts
            links = {}
            for url, kind in zip(resolved, kinds, strict=True):
                if links.setdefault(url, kind) is _PAGE:
                    links[url] = kind
        links.pop(None, None)
        made = _made(cast("Iterable[tuple[str, LinkKind]]", links.items()))
        if self._rule_of:
            made = self._with_rules(made, resolved)
        return PageLinks(
            links=tuple(made),
            directives=directives,
            not_followed=self.not_followed,
            over_limit=self.over_limit,
            malformed=resolved.count(None),
            names=PageNames(self._resolved_map(base), bounded_words(iter(self.words)) if self.words else ()),
        )

    def _resolved_map(self, base: str) -> Mapping[str, str]:
        if not self.import_map:
            return NO_NAMES.modules
        resolved = self._rules.links(self.import_map.values(), base)
        return {name: url for name, url in zip(self.import_map, resolved, strict=True) if url is not None}

    def _with_rules(self, links: Iterator[Link], resolved: Sequence[str | None]) -> Iterator[Link]:
        """A link that two rules found belongs to the first, and to none that is in doubt if another found it, too."""
        rules: dict[str | None, Rule] = {}
        for reference, url in zip(self.references, resolved, strict=True):
            rule = self._rule_of.get(reference, Rule.MARKUP)
            if rules.setdefault(url, rule) in DOUBTFUL_RULES:
                rules[url] = rule
        for link in links:
            rule = rules[link.url]
            yield link._replace(rule=rule, is_doubtful=rule in DOUBTFUL_RULES) if rule else link


def _made(items: Iterable[tuple[str, LinkKind]]) -> Iterator[Link]:
    """Links of pairs, by the tuple's own constructor: a page makes dozens."""
    new = tuple.__new__
    return (new(Link, (url, kind, 0, False, False, "", 0, 0, None)) for url, kind in items)


def _legacy_codec(encoding: str | None) -> str | None:
    """The codec in which a page's query strings are escaped, None for UTF-8 (URL standard, query state)."""
    if encoding is None or encoding.lower() in ("utf-8", "utf-16le", "utf-16be", "replacement"):
        return None
    try:
        return codecs.lookup(encoding).name
    except LookupError:
        return None


def _with_legacy_query(reference: str, codec: str) -> str:
    if reference.isascii() or "?" not in reference:
        return reference
    before, _, query = reference.partition("?")
    return f"{before}?{''.join(_escaped(letter, codec) for letter in query)}"


def _escaped(letter: str, codec: str) -> str:
    if letter.isascii():
        return letter
    try:
        return "".join(f"%{octet:02X}" for octet in letter.encode(codec))
    except UnicodeError:
        return f"%26%23{ord(letter)}%3B"
