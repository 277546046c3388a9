"""Which one text stands for all spellings of a URL, and what is its key?

Canonical form: the WHATWG URL Standard's serialisation (host by UTS 46, default ports and dot segments gone),
of http and https only, and on top of it, because an archive wants one history per page:

- the fragment, user name and password are dropped, and so is an empty query;
- percent-escapes of unreserved characters are decoded, all others get upper-case digits (RFC 3986, 6.2.2);
- query parameters that only say who clicked (`TRACKING_PARAMETERS`) or carry a session (`SESSION_PARAMETERS`)
  are dropped, and so are session ids in paths (`;jsessionid=…`, ASP.NET's `/(S(…))/`).

The lists are conservative: a name is there only when dropping it is known not to change the page; a charter
extends them. Parameters are never sorted, letters never folded: servers may tell such URLs apart.
Canonicalising twice changes nothing. Nothing here resolves a name.

Which spellings of an address mean the same page to people, and which of several is nearest to what was asked? Rules
are data. They apply one after the other, and the level at which two addresses become equal says how far one was bent
to find the other. An address with all rules applied is its *stem*: an index of stems finds the candidates. An exact
address always comes first, so a rule may be generous: it is asked only where nothing else answers.

Is this an address of the public internet, and a port of the web? The rules of the SSRF guard, for every form an
address can take.
"""

import hashlib
import ipaddress
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, NewType

import can_ada

from crawler.core.errors import MalformedUrlError

UrlKey = NewType("UrlKey", bytes)
"""SHA-1 of a canonical URL: what a crawler calls it, and its position on a ring."""
Origin = NewType("Origin", str)
"""Scheme, host and port in canonical spelling, as in `https://example.org` or `http://example.org:8080`."""

URL_CHARS_MAX = 4096
"""Browsers and servers differ above 2,000 to 8,000; nothing worth archiving has been seen above this."""

TRACKING_PARAMETERS = frozenset(
    {
        *("dclid", "gad_source", "gbraid", "gclid", "gclsrc", "srsltid", "wbraid", "_ga", "_gl"),  # Google
        *("fbclid", "igshid", "li_fat_id", "msclkid", "ttclid", "twclid", "yclid"),  # other advertisers
        *("mc_cid", "mc_eid", "mkt_tok", "oly_anon_id", "oly_enc_id", "vero_conv", "vero_id"),  # newsletters
        *("wickedid", "_hsenc", "_hsmi", "__hssc", "__hstc"),
    }
)
TRACKING_PREFIXES = ("utm_",)
SESSION_PARAMETERS = frozenset({"jsessionid", "phpsessid", "cfid", "cftoken"})
SESSION_PREFIXES = ("aspsessionid",)
SESSION_BY_VALUE = re.compile(r"(?i)(?:sid|sess|session|session_?id)=(?=[a-z]*\d)[0-9a-z]{16,64}")
"""Names that are used for other things, too: dropped only with a value that no person would choose."""

_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
# An escape that follows "%" or "%x" is left alone: decoding it could make up a new escape out of the pieces.
_ESCAPE = re.compile(r"(?<!%)(?<!%[0-9A-Fa-f])%([0-9A-Fa-f]{2})")
_SESSION_IN_PATH = re.compile(r"(?i);jsessionid=[^/?;]*|/\(S\([a-z0-9]{24}\)\)(?=/)")

REFERENCES_REMEMBERED = 16_384
"""What each spelling means at its origin: pages of a host repeat most of their links. Some 5 MB."""
REMEMBERED_CHARS_MAX = 256
_FROM_ORIGIN = ("/", "http://", "https://")
"""References that begin so mean the same on all pages of an origin."""

# Of a path: no dot segment, nothing to escape, no session, no query; short enough to pass any limit.
_PLAIN_PATH = re.compile(r"(?:/[A-Za-z0-9_~-][A-Za-z0-9_~.-]{0,200}){1,10}/?")


def _normal_escape(match: re.Match[str]) -> str:
    value = int(match[1], 16)
    return chr(value) if value in _UNRESERVED else match[0].upper()


class UrlRules:
    """One network's canonical form: the standard one and the parameters its charter drops in addition."""

    def __init__(self, extra_parameters: Iterable[str] = ()) -> None:
        self._dropped = TRACKING_PARAMETERS | SESSION_PARAMETERS | {name.lower() for name in extra_parameters}
        prefixes = TRACKING_PREFIXES + SESSION_PREFIXES
        names = sorted(map(re.escape, self._dropped)) + [f"{re.escape(prefix)}[^=&]*" for prefix in prefixes]
        names += ["sid", "sess(?:ion)?(?:_?id)?"]
        # One search decides for nearly all URLs that there is nothing to drop.
        self._of_origin = lru_cache(maxsize=REFERENCES_REMEMBERED)(self._resolve_from_origin)
        self._has_dropped = re.compile(rf"(?i)[?&](?:{'|'.join(names)})(?:[=&]|$)")

    def canonical(self, text: str, base: str | None = None) -> str:
        """The canonical URL that `text` means, read relative to `base` (canonical) when there is one."""
        if len(text) > URL_CHARS_MAX:
            raise MalformedUrlError(text, f"longer than {URL_CHARS_MAX} characters")
        try:
            scalar = text if text.isascii() else _scalar(text)
            parsed = can_ada.parse(scalar) if base is None else can_ada.parse(base) + scalar
        except ValueError as error:
            raise MalformedUrlError(text, "the URL standard cannot parse it") from error
        return self._finish(parsed, text)

    def links(self, references: Collection[str], base: str) -> list[str | None]:
        """The canonical URL of each reference on a page, None for references that are not crawlable URLs. All are None
        if `base` itself is not one; a file of another tool may name such a base."""
        if base.startswith(("http://", "https://")):
            with suppress(ValueError):
                return self._links(references, base)
        return [None] * len(references)

    def _links(self, references: Collection[str], base: str) -> list[str | None]:
        base_url = None
        origin = base[: _path_at(base)]
        of_origin = self._of_origin
        resolved: list[str | None] = []
        for reference in references:
            if reference.startswith(_FROM_ORIGIN) and len(reference) <= REMEMBERED_CHARS_MAX:
                resolved.append(of_origin(origin, reference))
                continue
            if base_url is None:
                base_url = can_ada.parse(base)  # once for the whole page
            resolved.append(self._resolved(base_url, reference))
        return resolved

    def _resolve_from_origin(self, origin: str, reference: str) -> str | None:
        if _PLAIN_PATH.fullmatch(reference):  # the parser would change nothing
            return origin + reference
        return self._resolved(can_ada.parse(f"{origin}/"), reference)

    def _resolved(self, base: can_ada.URL, reference: str) -> str | None:
        if len(reference) > URL_CHARS_MAX:
            return None
        try:
            return self._finish(base + (reference if reference.isascii() else _scalar(reference)), reference)
        except (ValueError, MalformedUrlError):
            return None

    def _finish(self, parsed: can_ada.URL, text: str) -> str:
        url: str = parsed.href
        if not url.startswith(("http://", "https://")):
            raise MalformedUrlError(text, "only http and https are crawled")
        if "@" in url and parsed.has_credentials():
            parsed.username = parsed.password = ""
            url = parsed.href
        hash_at = url.find("#")
        if hash_at >= 0:
            url = url[:hash_at]
        if "%" in url:
            url = _ESCAPE.sub(_normal_escape, url)
        if ";" in url or "(" in url:
            url = self._without_path_sessions(url)
        if "?" in url:
            url = self._without_dropped_parameters(url)
        if len(url) > URL_CHARS_MAX:
            raise MalformedUrlError(text, f"longer than {URL_CHARS_MAX} characters once escaped")
        return url

    def _without_path_sessions(self, url: str) -> str:
        path, mark, query = url.partition("?")
        while (shorter := _SESSION_IN_PATH.sub("", path)) != path:
            path = shorter
        return path + mark + query

    def _without_dropped_parameters(self, url: str) -> str:
        if self._has_dropped.search(url):
            path, _, query = url.partition("?")
            kept = [part for part in query.split("&") if not self._is_dropped(part)]
            url = f"{path}?{'&'.join(kept)}"
        return url.removesuffix("?") if url.index("?") == len(url) - 1 else url

    def _is_dropped(self, parameter: str) -> bool:
        name = parameter.partition("=")[0].lower()
        if name in self._dropped or name.startswith(TRACKING_PREFIXES + SESSION_PREFIXES):
            return True
        return SESSION_BY_VALUE.fullmatch(parameter) is not None


def _scalar(text: str) -> str:
    """Lone surrogates become U+FFFD, as in the URL standard; can_ada refuses them with a TypeError."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


STANDARD = UrlRules()


def canonical(text: str, base: str | None = None) -> str:
    """The canonical form by the standard rules; raises MalformedUrlError."""
    return STANDARD.canonical(text, base)


@lru_cache(maxsize=16_384)
def url_key(url: str) -> UrlKey:
    """The only maker of keys. Those of the links that pages share are remembered.

    Files of others name URLs in bytes that are no UTF-8. They are read as lone surrogates, which stand for the same
    bytes here: the key is that of the bytes in the file.
    """
    try:
        data = url.encode()  # quicker without the name of a rule for errors
    except UnicodeEncodeError:
        data = url.encode("utf-8", "surrogateescape")
    return UrlKey(hashlib.sha1(data, usedforsecurity=False).digest())


def origin_of(url: str) -> Origin:
    """Scheme, host and port of a canonical URL."""
    return Origin(url[: _path_at(url)])


def host_of(url: str) -> str:
    """The host name (or address, IPv6 in brackets) of a canonical URL."""
    authority = url.split("/", 3)[2]
    if authority[:1] == "[":
        return authority[: authority.index("]") + 1]
    return authority.partition(":")[0]


# -- other spellings of an address ------------------------------------------------------------------------

CASE_LEVEL = 7
"""A server may tell case apart, so at this level a candidate answers only if it is the only one."""
STEM_KEY_BYTES = 8
_URL = re.compile(r"(https?)(://)([^/?#]*)([^?#]*)\??([^#]*)", re.DOTALL)


# Of most addresses the rules change the scheme, `www.` and the last slash alone; every capture passes here.
_PLAIN_URL = re.compile(
    r"https?://(?:www[0-9]{0,2}\.(?=[^./]+\.[^./]))?([a-z0-9][a-z0-9-]*(?:\.[a-z0-9][a-z0-9-]*)*\.[a-z]{2,})"
    r"((?:/(?!(?:index|default)\.)[a-z0-9_~-][a-z0-9_~.-]*)*)/?"
)


_CALLBACK = re.compile(r"[?&](?:callback|jsonp)=([A-Za-z_$][\w$.]{0,127})(?:&|$)", re.ASCII | re.IGNORECASE)


class _Parts(NamedTuple):
    scheme: str
    host: str
    """With the port."""
    path: str
    query: str

    def __str__(self) -> str:
        return f"{self.scheme}://{self.host}{self.path}{'?' if self.query else ''}{self.query}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """`pattern` is replaced by `by` in one part; in a query it is matched against each whole argument, which goes.
    Without a pattern the part is put in order, or its letters are made small."""

    name: str
    level: int
    part: str
    pattern: re.Pattern[str] | None
    by: str = ""
    examples: Sequence[tuple[str, str]] = ()
    """Asked and held."""


def _of(expression: str) -> re.Pattern[str]:
    return re.compile(expression, re.IGNORECASE | re.DOTALL)


RULES = (
    Rule(name="scheme", level=1, part="scheme", pattern=_of("http$"), by="https",
         examples=(("https://a.example/", "http://a.example/"),)),
    Rule(name="scheme", level=1, part="host", pattern=_of(r":(?:80|443)$"),
         examples=(("https://a.example:80/", "http://a.example/"),)),
    Rule(name="www", level=2, part="host", pattern=_of(r"^www[0-9]{0,2}\.(?=[^.]+\.[^.])"),
         examples=(("http://a.example/", "http://www.a.example/"), ("http://www.a.example/", "http://www2.a.example/"))),
    Rule(name="slash", level=3, part="path", pattern=_of(r"/{2,}"), by="/",
         examples=(("http://a.example/b//c", "http://a.example/b/c"),)),
    Rule(name="slash", level=3, part="path", pattern=_of(r"/(?:index|default)\.(?:html?|php|aspx?|jsp)$"), by="/",
         examples=(("http://a.example/dir", "http://a.example/dir/index.html"),)),
    Rule(name="slash", level=3, part="path", pattern=_of(r"(?<=.)/$"),
         examples=(("http://a.example/dir/", "http://a.example/dir"),)),
    Rule(name="session", level=4, part="path", pattern=_of(r";jsessionid=[^/;]*|/\(S\([^()/]*\)\)(?=/|$)"),
         examples=(("http://a.example/(S(x1))/b", "http://a.example/b"),)),
    Rule(name="session", level=4, part="query",
         pattern=_of(r"(?:sid|phpsessid)=[0-9a-z]{8,}|(?:jsessionid|cfid|cftoken)=.*"),
         examples=(("http://a.example/b?sid=8fA10c22", "http://a.example/b"),)),
    Rule(name="order", level=5, part="query", pattern=None,
         examples=(("http://a.example/?b=2&a=1", "http://a.example/?a=1&b=2"),)),
    Rule(name="order", level=5, part="query", pattern=_of(r"(?:[^=]*=)?"),
         examples=(("http://a.example/?a=1&b=", "http://a.example/?a=1"),)),
    Rule(name="cache", level=6, part="query",
         pattern=_of(r"(?:_|cb|rand|nocache|ts)=(?:0?\.)?[0-9]{6,}|(?:callback|jsonp)=.*"),
         examples=(("http://a.example/?_=1778300000000", "http://a.example/?_=1700000000000"),
                   ("http://a.example/?callback=a", "http://a.example/?callback=b"))),
    Rule(name="case", level=CASE_LEVEL, part="path", pattern=None,
         examples=(("http://a.example/PAGE", "http://a.example/page"),)),
    Rule(name="case", level=CASE_LEVEL, part="query", pattern=None,
         examples=(("http://a.example/?A=B", "http://a.example/?a=b"),)),
)  # fmt: skip


def stem(url: str) -> str:
    """The address with all rules applied. An address that is not of the web stays as it is."""
    if (plain := _PLAIN_URL.fullmatch(url)) is not None and "xn--" not in url:
        return f"https://{plain[1]}{plain[2] or '/'}"
    parts = _parts(url)
    return url if parts is None else str(_bent(parts, RULES))


def level_of(asked: str, held: str) -> int | None:
    """At which level they become equal, 0 if their canonical forms are; None if at none."""
    one, other = _parts(asked), _parts(held)
    if one is None or other is None:
        return None
    for level in range(CASE_LEVEL + 1):
        rules = [rule for rule in RULES if rule.level == level]
        one, other = _bent(one, rules), _bent(other, rules)
        if one == other:
            return level
    return None


@lru_cache(maxsize=256)
def words_of(asked: str, held: str) -> str:
    """What was bent to come from one to the other, as `www, slash`; "" if they are the same address."""
    level = level_of(asked, held)
    one, other = _parts(asked), _parts(held)
    if one is None or other is None or not level:
        return ""
    rules = [rule for rule in RULES if rule.level <= level]
    names = dict.fromkeys(rule.name for rule in rules)
    needed = [
        name
        for name in names
        if _bent(one, [rule for rule in rules if rule.name != name])
        != _bent(other, [rule for rule in rules if rule.name != name])
    ]
    return ", ".join(needed or [rules[-1].name])


def stem_key(text: str) -> bytes:
    """Of a stem, or of an address, in the index of stems."""
    data = text.encode("utf-8", "surrogateescape")
    return hashlib.sha1(data, usedforsecurity=False).digest()[:STEM_KEY_BYTES]


def nearest(asked: Iterable[str], held: Iterable[str], *, is_sure: bool = True) -> list[str]:
    """Of the held addresses those that are least bent from one of the asked. `is_sure`: none where it is not plain
    which one was meant."""
    levels: dict[int, dict[str, None]] = {}
    for candidate in held:
        found = [level for one in asked if (level := level_of(one, candidate)) is not None]
        if found:
            levels.setdefault(min(found), {})[candidate] = None
    if not levels:
        return []
    best = min(levels)
    return [] if is_sure and best == CASE_LEVEL and len(levels[best]) > 1 else list(levels[best])


def likeliest(url: str) -> list[str]:
    """Spellings of an address that may be archived in its place, the likeliest first, for those who can only guess."""
    parts = _parts(url)
    if parts is None or ":" in parts.host:
        return []
    schemes = [parts.scheme, "http" if parts.scheme == "https" else "https"]
    bare = re.sub(r"^www\.(?=[^.]+\.[^.])", "", parts.host)
    hosts = [parts.host, f"www.{bare}" if bare == parts.host else bare]
    guesses = [str(parts._replace(scheme=scheme, host=host)) for host in hosts for scheme in schemes]
    return guesses[1:]


def callbacks(asked: str, held: str) -> tuple[bytes, bytes] | None:
    """The names of the functions that the scripts of two addresses call, where both name one."""
    names = [_CALLBACK.search(url) for url in (asked, held)]
    if names[0] is None or names[1] is None:
        return None
    return names[0][1].encode(), names[1][1].encode()


def _parts(url: str) -> _Parts | None:
    try:
        match = _URL.fullmatch(canonical(url))
    except MalformedUrlError:
        return None
    return None if match is None else _Parts(match[1], match[3], match[4], match[5])


def _bent(parts: _Parts, rules: Iterable[Rule]) -> _Parts:
    scheme, host, path, query = parts
    for rule in rules:
        if rule.part == "query":
            query = _query(query, rule) if query else ""
        elif rule.part == "path":
            path = path.lower() if rule.pattern is None else rule.pattern.sub(rule.by, path)
        elif rule.part == "host":
            assert rule.pattern is not None
            host = rule.pattern.sub(rule.by, host)
        else:
            assert rule.pattern is not None
            scheme = rule.pattern.sub(rule.by, scheme)
    return _Parts(scheme, host, path or "/", query)


def _query(query: str, rule: Rule) -> str:
    if rule.pattern is not None:
        arguments = query.split("&")
        return "&".join([one for one in arguments if rule.pattern.fullmatch(one) is None])
    return query.lower() if rule.level == CASE_LEVEL else "&".join(sorted(query.split("&"), key=str.lower))


# -- ports and addresses of the web -----------------------------------------------------------------------

SYSTEM_PORTS_END = 1024
"""Below it only the web's own two: what listens there is another service of the system (RFC 6335)."""
_WEB_PORTS = frozenset({80, 443})
_BROWSERS_BAD_PORTS = frozenset(
    {1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, *range(6665, 6670), 6679, 6697, 10080}
)
"""Those from 1024 on of the Fetch Standard's list (2.9, "bad port")."""
_LINE_READERS = frozenset(
    {1433, 1521, 2121, 2181, 2222, 2323, 2525, 3306, 3389, 4730, 5222, 5269, 5432, 5900, 6379, 6380}
    | {*range(6660, 6665), 9100, 11211, 11300}
)
"""Services that take the lines of a request for orders, print them, or ban who sends them: databases, caches, queues,
mail, shells, chat, printers. Browsers, which show the page to a person, still ask them (ADR 23)."""


def is_web_port(port: int) -> bool:
    """Whether a crawler may send a request there, whatever a link says."""
    if port < SYSTEM_PORTS_END:
        return port in _WEB_PORTS
    return port not in _BROWSERS_BAD_PORTS and port not in _LINE_READERS


def has_web_port(url: str) -> bool:
    """Of a canonical URL, which names a port only if it is not its scheme's own."""
    authority = url.split("/", 3)[2]
    _, colon, port = authority.rpartition(":")
    return not colon or authority.endswith("]") or is_web_port(int(port))


def is_below(host: str, domains: frozenset[str]) -> bool:
    """Is it one of them, or a subdomain of one?"""
    labels = host.split(".")
    return any(".".join(labels[at:]) in domains for at in range(len(labels)))


def target_of(url: str) -> str:
    """What the request line asks for: path and query of a canonical URL."""
    return url[_path_at(url) :]


def _path_at(url: str) -> int:
    return url.index("/", 8)  # "http://" and at least a letter, or "https://"


_PROTOCOL_ASSIGNMENTS = ipaddress.IPv4Network("192.0.0.0/24")
"""Never an origin's address; older Pythons call parts of it global."""
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
_NAT64_LOCAL = ipaddress.IPv6Network("64:ff9b:1::/48")
"""RFC 8215: where in these the IPv4 address stands is a network's own affair, so none is an origin's."""
_IPV4_COMPATIBLE = ipaddress.IPv6Network("::/96")
_IPV4_TRANSLATED = ipaddress.IPv6Network("::ffff:0:0:0/96")
"""RFC 7915, 2.1; a translator on the way takes it for the address in it."""
_NOBODYS = (ipaddress.IPv6Network("3fff::/20"), ipaddress.IPv6Network("5f00::/16"))
"""For documentation (RFC 9637) and segment routing (RFC 9602); older Pythons call both global."""


def is_public(text: str) -> bool:
    """False for anything else, and for what is no address. Embedded IPv4 addresses are judged as
    what they reach.
    """
    try:
        address = ipaddress.ip_address(text.partition("%")[0].strip("[]"))
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv4Address):
        return _is_public_ipv4(address)
    embedded = _embedded(address)
    if embedded is not None:
        return _is_public_ipv4(embedded)
    if address in _NAT64_LOCAL or any(address in network for network in _NOBODYS):
        return False
    return address.is_global and not address.is_multicast and not address.is_site_local


@lru_cache(maxsize=4_096)
def reached(address: str) -> str:
    """Where a connection to an address ends, in the usual spelling: an IPv4 address that is embedded in an IPv6 one
    counts as itself, however it is written. What is no address stays as it is.
    """
    try:
        found = ipaddress.ip_address(address.partition("%")[0].strip("[]"))
    except ValueError:
        return address
    embedded = _embedded(found) if isinstance(found, ipaddress.IPv6Address) else None
    return str(embedded or found)


def is_literal(host: str) -> bool:
    """Whether a canonical URL's host is an address and no name."""
    try:
        ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


def _is_public_ipv4(address: ipaddress.IPv4Address) -> bool:
    return address.is_global and not address.is_multicast and address not in _PROTOCOL_ASSIGNMENTS


def _embedded(address: ipaddress.IPv6Address) -> ipaddress.IPv4Address | None:
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    if address.sixtofour is not None:
        return address.sixtofour
    if address.teredo is not None:
        return address.teredo[1]
    if address in _NAT64 or address in _IPV4_COMPATIBLE or address in _IPV4_TRANSLATED:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return None
