"""May we fetch this, and may we follow its links? robots.txt by RFC 9309, X-Robots-Tag and meta robots.

Rules are kept as octets in the order of precedence, so that the first match decides: longest first, Allow
before Disallow (RFC 9309, 2.2.2). A rule without wildcards is a prefix test; one with wildcards is matched
piece by piece, in time linear in the URL, so no rule can make us busy. It does not fetch robots.txt; it says
what an answer to such a fetch means (2.3.1). It is our own because peers tell each other the rules they read,
and because the best library needs memory by the square of a file and misreads names of crawlers
(`tests/crawler/test_robots_protego.py`).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

ROBOTS_BYTES_MAX = 500 * 1024
"""RFC 9309, 2.5: at least 500 kibibytes must be parsed; the rest is ignored."""
RULES_MAX = 20_000
SITEMAPS_MAX = 100
CRAWL_DELAY_MAX_S = 3_600.0
"""A larger number is a mistake or a way to say "never"; one request an hour comes near enough to it."""
REDIRECTS_MAX = 5

# The colon is missing in many a file, and what is meant is clear; so is a space instead of the hyphen.
_LINE = re.compile(rb"(?i)[ \t]*(user agent|[a-z-]+)[ \t]*[: \t][ \t]*([^\r\n#]*)")
_BYTE_ORDER_MARK = re.compile(rb"\A(?:\xef(?:\xbb\xbf?)?)?")
"""Or the part of it that is left."""
_MISSPELT = {
    **dict.fromkeys((b"useragent", b"user agent"), b"user-agent"),
    **dict.fromkeys((b"dissallow", b"dissalow", b"disalow", b"diasllow", b"disallaw"), b"disallow"),
    b"site-map": b"sitemap",
}
"""As Google's parser takes them: their authors wanted to be obeyed."""
_ESCAPE = re.compile(rb"%([0-9A-Fa-f]{2})")
_TOKEN = re.compile(rb"[A-Za-z_-]+")
_UNRESERVED = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")


@dataclass(frozen=True, slots=True)
class _Rule:
    pieces: tuple[bytes, ...]
    """The pattern cut at its wildcards: the first piece is a prefix."""
    is_anchored: bool
    allows: bool
    text: bytes
    """As it stood in the file: its length is its rank."""

    def matches(self, target: bytes) -> bool:
        first, *rest = self.pieces
        if not target.startswith(first):
            return False
        at = len(first)
        if not rest:
            return not self.is_anchored or at == len(target)
        middle, last = rest[:-1], rest[-1]
        for piece in middle:
            found = target.find(piece, at)
            if found < 0:
                return False
            at = found + len(piece)
        if self.is_anchored:
            return target.endswith(last) and len(target) - len(last) >= at
        return target.find(last, at) >= 0

    @classmethod
    def of(cls, pattern: bytes, *, allows: bool) -> Self:
        is_anchored = pattern.endswith(b"$")
        body = _normal(pattern.removesuffix(b"$"))
        return cls(pieces=tuple(body.split(b"*")), is_anchored=is_anchored, allows=allows, text=pattern)


@dataclass(frozen=True, slots=True, kw_only=True)
class RobotsRules:
    """What one origin's robots.txt says to us. Frozen: keep it for a day and share it."""

    rules: tuple[_Rule, ...] = ()
    crawl_delay_s: float | None = None
    sitemaps: tuple[str, ...] = ()
    is_reachable: bool = True
    """False: the file could not be had, so everything is disallowed for now; it is asked for again soon."""
    problem: str = ""
    """Why it could not be had."""

    def allows(self, target: str) -> bool:
        """Whether path and query (`urls.target_of`) may be fetched. /robots.txt itself always may."""
        if target == "/robots.txt":
            return True
        if not self.is_reachable:
            return False
        octets = _normal(target.encode())
        return next((rule.allows for rule in self.rules if rule.matches(octets)), True)

    def as_text(self) -> bytes:
        """A robots.txt that says the same to us and nothing else; `parse_robots` reads it back."""
        lines = [b"user-agent:*"]  # without spaces: not longer than what it was read from
        lines += [(b"allow:" if rule.allows else b"disallow:") + rule.text for rule in self.rules]
        if self.crawl_delay_s is not None:
            lines.append(b"crawl-delay:%r" % self.crawl_delay_s)
        lines += [b"sitemap:" + sitemap.encode() for sitemap in self.sitemaps]
        return b"\n".join(lines) + b"\n"


ALLOW_ALL = RobotsRules()
DISALLOW_ALL = RobotsRules(is_reachable=False, problem="robots.txt could not be fetched")


def rules_of_answer(status: int | None, body: bytes, product_token: str) -> RobotsRules:
    """What the final answer for /robots.txt means; `status` None: no answer at all (RFC 9309, 2.3.1).

    429 is a 4xx by number and "too much load" by meaning, so it counts as unreachable (as Google does).
    A redirect that was followed five times without end counts as 4xx.
    """
    if status is None:
        return DISALLOW_ALL
    if status >= 500 or status == 429:
        return RobotsRules(is_reachable=False, problem=f"robots.txt was answered with {status}")
    if 200 <= status < 300:
        return parse_robots(body, product_token)
    return ALLOW_ALL


def parse_robots(body: bytes, product_token: str) -> RobotsRules:
    """The rules for us: all groups that name the token, else all groups for `*`. Any bytes are accepted."""
    token = product_token.lower().encode()
    ours = _Group()
    everyone = _Group()
    current: set[bytes] = set()
    is_naming = False
    sitemaps: list[str] = []
    text = _BYTE_ORDER_MARK.sub(b"", body[:ROBOTS_BYTES_MAX], count=1)
    for line in re.split(rb"\r\n|\r|\n", text):
        match = _LINE.match(line)
        if match is None:
            continue
        name, value = match[1].lower(), match[2].strip()
        field = _MISSPELT.get(name, name)
        if field == b"user-agent":
            current = (current if is_naming else set()) | {_agent(value)}
            is_naming = True
            ours.is_named = ours.is_named or token in current
            continue
        if field == b"sitemap":
            if len(sitemaps) < SITEMAPS_MAX:
                # A fragment sign cannot be part of a sitemap's URL, so the comment rule does no harm.
                sitemaps.append(value.decode("utf-8", "replace"))
            continue
        if field not in (b"allow", b"disallow", b"crawl-delay"):
            continue
        is_naming = False
        for group in [ours] * (token in current) + [everyone] * (b"*" in current):
            group.add(field, value)
    group = ours if ours.is_named else everyone
    rules = tuple(sorted(group.rules, key=lambda rule: (-len(rule.text), not rule.allows)))
    return RobotsRules(rules=rules, crawl_delay_s=group.crawl_delay_s, sitemaps=tuple(sitemaps))


class _Group:
    def __init__(self) -> None:
        self.is_named = False
        self.rules: list[_Rule] = []
        self.crawl_delay_s: float | None = None

    def add(self, field: bytes, value: bytes) -> None:
        if field == b"crawl-delay":
            try:
                seconds = float(value)
            except ValueError:
                return
            if seconds >= 0:  # also false for "nan"
                self.crawl_delay_s = max(self.crawl_delay_s or 0.0, min(seconds, CRAWL_DELAY_MAX_S))
        elif value.startswith((b"/", b"*")) and len(self.rules) < RULES_MAX:
            self.rules.append(_Rule.of(value, allows=field == b"allow"))


def _agent(value: bytes) -> bytes:
    """The product token that a User-agent line means: `*`, or its leading token without a version."""
    if value.startswith(b"*"):
        return b"*"
    match = _TOKEN.match(value)
    return match[0].lower() if match else b""


def _normal(octets: bytes) -> bytes:
    """The one spelling to compare (RFC 9309, 2.2.2): unreserved octets decoded, all others escaped."""
    if not octets.isascii():
        octets = b"".join(bytes([o]) if o < 128 else b"%%%02X" % o for o in octets)
    if b"%" not in octets:
        return octets
    return _ESCAPE.sub(_normal_escape, octets)


def _normal_escape(match: re.Match[bytes]) -> bytes:
    value = int(match[1], 16)
    return bytes([value]) if value in _UNRESERVED else match[0].upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class PageDirectives:
    """What a page itself asks for, by header or meta element. Several sources add up."""

    nofollow: bool = False
    noarchive: bool = False
    noindex: bool = False

    def __or__(self, other: Self) -> "PageDirectives":
        return PageDirectives(
            nofollow=self.nofollow or other.nofollow,
            noarchive=self.noarchive or other.noarchive,
            noindex=self.noindex or other.noindex,
        )


NOTHING_ASKED = PageDirectives()

_KNOWN_DIRECTIVES = frozenset(
    {"all", "index", "follow", "none", "noindex", "nofollow", "noarchive", "nosnippet", "noimageindex"}
)
_VALUED_DIRECTIVES = frozenset({"unavailable_after", "max-snippet", "max-image-preview", "max-video-preview"})


def page_directives(values: Iterable[str], product_token: str) -> PageDirectives:
    """From X-Robots-Tag headers or meta contents; `otherbot: nofollow` in a header is not for us."""
    found: set[str] = set()
    token = product_token.lower()
    for value in values:
        is_ours = True
        for part in value[:1_000].lower().split(","):
            name, colon, rest = part.strip().partition(":")
            if colon and name not in _VALUED_DIRECTIVES:
                is_ours = name.strip() == token
                name = rest
            if is_ours:
                found.update(word for word in name.split() if word in _KNOWN_DIRECTIVES)
    return PageDirectives(
        nofollow=bool(found & {"nofollow", "none"}),
        noarchive="noarchive" in found,
        noindex=bool(found & {"noindex", "none"}),
    )
