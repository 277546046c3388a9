"""Which hosts are there, how big is each, how does it behave, and what are its pages called?

A host is a number. Its size follows a Pareto law, its manners (validators, robots.txt, slowness, traps) are
drawn. Pages are numbered too; a path ends in the page's number and is checked by making it again, so
nothing is stored.
"""

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, TypeVar
from urllib.parse import parse_qsl, quote

from simnet.web.words import FOREIGN_WORDS, SECTIONS, WORDS, draw, share

Validators = Literal["both", "etag", "modified", "none", "deaf", "stuck", "restless"]
Robots = Literal["none", "open", "sections", "delay", "closed", "broken", "soft"]
Trap = Literal["none", "calendar", "session", "directories"]

LOOPBACK_HOSTS_MAX = 200 * 254 * 254
_NUMBERED = re.compile(r"-(\d{1,12})\.(html|jpg|gif)$")
_HOST_NAME = re.compile(r"h(\d{1,9})\.(.+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """`pages_min` and `pages_alpha` shape the host sizes: P(size > s) = (pages_min / s) ^ alpha.

    With `names = "loopback"` host h is a literal address in 127.0.0.0/8, which every program can reach
    without DNS; with `"test"` it is `h<number>.<suffix>`, for a resolver that maps all of these to
    127.0.0.1.
    """

    seed: int = 0
    hosts: int = 100
    pages_min: int = 20
    pages_max: int = 20_000
    pages_alpha: float = 1.1
    port: int = 80
    names: Literal["loopback", "test"] = "loopback"
    suffix: str = "demo.test"
    html_change_share: float = 0.03  # of the HTML pages, a day: between the thesis's 1 % and Brewington's 5 %
    image_change_share: float = 0.00005  # thesis, table 3.1: below 0.01 %
    growth_share: float = 0.005  # thesis, table 3.1: new objects a day
    duplicate_share: float = 0.2  # of all bodies; the literature has 15 to 25 %
    huge_bytes: int = 16_000_000
    troubles: bool = True  # False: every host well-mannered, for measurements

    def __post_init__(self) -> None:
        if not 1 <= self.hosts <= LOOPBACK_HOSTS_MAX:
            raise ValueError(f"hosts must be 1 to {LOOPBACK_HOSTS_MAX:,}, not {self.hosts:,}")
        if not 1 <= self.pages_min <= self.pages_max:
            raise ValueError(f"pages_min {self.pages_min:,} must be 1 to pages_max {self.pages_max:,}")
        if not 0 < self.port < 65_536:
            raise ValueError(f"port must be 1 to 65535, not {self.port}")
        for name in ("html_change_share", "image_change_share", "growth_share", "duplicate_share"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"{name} is a share, 0 to 1, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class WebHost:
    number: int
    name: str
    origin: str
    pages: int  # on day 0
    validators: Validators
    robots: Robots
    trap: Trap
    delay_s: float
    compresses: bool
    is_foreign: bool
    closed_section: str


T = TypeVar("T")


def _pick(bits: int, shares: tuple[tuple[T, float], ...]) -> T:
    at = share(bits)
    for name, width in shares:
        if at < width:
            return name
        at -= width
    return shares[0][0]


_VALIDATORS: tuple[tuple[Validators, float], ...] = (
    ("both", 0.6), ("modified", 0.15), ("etag", 0.1), ("none", 0.08),
    ("deaf", 0.03), ("restless", 0.02), ("stuck", 0.02),
)  # fmt: skip
_ROBOTS: tuple[tuple[Robots, float], ...] = (
    ("none", 0.4), ("open", 0.25), ("sections", 0.22), ("delay", 0.05),
    ("closed", 0.02), ("broken", 0.03), ("soft", 0.03),
)  # fmt: skip
_TRAPS: tuple[tuple[Trap, float], ...] = (
    ("none", 0.9),
    ("calendar", 0.04),
    ("session", 0.03),
    ("directories", 0.03),
)


class Hosts:
    """All hosts of a web, made when asked for."""

    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self._suffix = f".{settings.suffix}"
        self._port = "" if settings.port == 80 else f":{settings.port}"
        # Bounded: a web of a billion pages asks for the same hosts again and again, and may make them again.
        self.host = lru_cache(maxsize=65_536)(self._make)
        self.number = lru_cache(maxsize=4_096)(self._find_number)
        self.path = lru_cache(maxsize=262_144)(self._make_path)

    def name(self, number: int) -> str:
        if self.settings.names == "test":
            return f"h{number}{self._suffix}"
        high, low = divmod(number, 254 * 254)
        return f"127.{high + 16}.{low // 254 + 1}.{low % 254 + 1}"

    def _find_number(self, name: str) -> int | None:
        """Of a host name without port, or None where no such host exists."""
        if self.settings.names == "test":
            match = _HOST_NAME.fullmatch(name.lower())
            number = int(match[1]) if match and match[2] == self.settings.suffix else -1
        else:
            parts = name.split(".")
            if len(parts) != 4 or not all(part.isascii() and part.isdigit() for part in parts):
                return None
            _, high, middle, low = (int(part) for part in parts)
            number = (high - 16) * 254 * 254 + (middle - 1) * 254 + low - 1
        if 0 <= number < self.settings.hosts and self.name(number) == name.lower():
            return number
        return None

    def origin(self, number: int) -> str:
        return f"http://{self.name(number)}{self._port}"

    def pages_on(self, host: WebHost, day: int) -> int:
        return host.pages + int(host.pages * self.settings.growth_share * day)

    def born(self, host: WebHost, page: int) -> int:
        """The first day on which the page exists."""
        if page < host.pages:
            return 0
        growth = host.pages * self.settings.growth_share
        day = int((page + 1 - host.pages) / growth)
        while self.pages_on(host, day) <= page:
            day += 1
        return day

    def page_number(self, host: WebHost, path: str) -> tuple[int, bool] | None:
        """(number, is an image) of a path, or None where the host never has such a page."""
        if path == "/":
            return 0, False
        match = _NUMBERED.search(path)
        if match is None:
            return None
        number, is_image = int(match[1]), match[2] != "html"
        if number and self.path(host.number, number, is_image) == path:
            return number, is_image
        if is_image and self.path(host.number, number, True) == path:
            return number, True
        return None

    def _make(self, number: int) -> WebHost:
        settings = self.settings
        bits = [draw(settings.seed, 1, number, purpose) for purpose in range(8)]
        spread = max(1.0 - share(bits[0]), 1e-12) ** (-1.0 / settings.pages_alpha)
        pages = min(int(settings.pages_min * spread), settings.pages_max)
        is_odd = settings.troubles
        return WebHost(
            number=number,
            name=self.name(number),
            origin=self.origin(number),
            pages=pages,
            validators=_pick(bits[1], _VALIDATORS) if is_odd else "both",
            robots=_pick(bits[2], _ROBOTS) if is_odd else "open",
            trap=_pick(bits[3], _TRAPS) if is_odd else "none",
            delay_s=0.5 + 4.5 * share(bits[4] >> 8) if is_odd and share(bits[5]) < 0.03 else 0.0,
            compresses=is_odd and share(bits[6]) < 0.3,
            is_foreign=is_odd and share(bits[7]) < 0.15,
            closed_section=SECTIONS[bits[4] % len(SECTIONS)],
        )

    def _make_path(self, host: int, page: int, is_image: bool) -> str:
        if page == 0 and not is_image:
            return "/"
        bits = draw(self.settings.seed, 2 + is_image, host, page)
        section = SECTIONS[bits % 20]
        first, second = WORDS[bits >> 8 & 0x1F], WORDS[bits >> 16 & 0x1F]
        if self.settings.troubles and bits >> 24 & 0x3F == 0:
            first = quote(FOREIGN_WORDS[bits >> 32 & 7])
        extra = f"-{WORDS[bits >> 40 & 0x1F]}" if bits >> 48 & 3 else ""
        ending = ("jpg", "gif")[bits >> 52 & 1] if is_image else "html"
        return f"/{section}/{first}/{second}{extra}-{page}.{ending}"


# What robots.txt forbids is computed from the host, not by reading the file back, so the oracle and a crawler's
# parser are independent of one another.
def robots_body(host: WebHost) -> str:
    if host.robots == "closed":
        return "User-agent: *\nDisallow: /\n"
    if host.robots == "soft":
        # A site that answers every unknown path with its "not found" page and 200: no rule in it can be read.
        return "<!DOCTYPE html><html><body><h1>Page not found</h1></body></html>\n"
    rules = ["User-agent: *"]
    if host.robots == "sections":
        rules += [f"Disallow: /{host.closed_section}/", f"Allow: /{host.closed_section}/silver/"]
    if host.robots == "delay":
        rules += ["Crawl-delay: 2", "Disallow:"]
    if host.trap != "none" and host.number % 2:
        rules.append(f"Disallow: /{host.trap}/")
    if len(rules) == 1:
        rules.append("Disallow:")
    return "\n".join([*rules, "", "User-agent: bad-robot", "Disallow: /", ""])


def is_allowed(host: WebHost, path: str) -> bool:
    """By RFC 9309: the longest match wins, an unreachable robots.txt (5xx) forbids everything, none
    nothing."""
    if path == "/robots.txt":
        return True
    if host.robots in ("closed", "broken"):
        return False
    if host.robots in ("none", "soft"):
        return True
    if host.trap != "none" and host.number % 2 and path.startswith(f"/{host.trap}/"):
        return False
    if host.robots == "sections" and path.startswith(f"/{host.closed_section}/"):
        return path.startswith(f"/{host.closed_section}/silver/")
    return True


# Three classic places without an end, where a crawler that does not look loses itself. `calendar`: every month links to
# the next, for ever. `session`: every page gives each link a new session id, so the same few pages have endless
# addresses. `directories`: a relative link that grows the path by itself.
_MONTH = re.compile(r"/calendar/(\d{1,6})/(\d{1,2})")
DEPTH_MAX = 400  # beyond, a server would refuse the long path anyway


def trap_page(host: WebHost, path: str, query: str) -> str | None:
    if host.trap == "calendar":
        return _calendar(path)
    if host.trap == "session":
        return _session(host, path, query)
    return _directories(path)


def trap_links(host: WebHost, path: str, query: str) -> list[str]:
    """The absolute URLs on such a page, for the oracle."""
    body = trap_page(host, path, query) or ""
    base = host.origin + path.rpartition("/")[0]
    hrefs = [href.replace("&amp;", "&") for href in re.findall(r'href="([^"]+)"', body)]
    return [host.origin + href if href.startswith("/") else f"{base}/{href}" for href in hrefs]


def _document(title: str, links: list[tuple[str, str]]) -> str:
    items = "".join(f'<li><a href="{href}">{text}</a></li>\n' for href, text in links)
    return (
        f"<!DOCTYPE html>\n<html><head><title>{title}</title></head><body><ul>\n{items}</ul></body></html>\n"
    )


def _calendar(path: str) -> str | None:
    match = _MONTH.fullmatch(path)
    if path == "/calendar/":
        year, month = 2026, 1
    elif match and 1 <= int(match[2]) <= 12:
        year, month = int(match[1]), int(match[2])
    else:
        return None
    after = (year, month + 1) if month < 12 else (year + 1, 1)
    before = (year, month - 1) if month > 1 else (max(year - 1, 0), 12)
    links = [(f"/calendar/{y}/{m}", f"{m}/{y}") for y, m in (before, after)]
    return _document(f"{month}/{year}", links)


def _session(host: WebHost, path: str, query: str) -> str | None:
    match = re.fullmatch(r"/session/(?:item-(\d))?", path)
    if match is None:
        return None
    old = dict(parse_qsl(query)).get("sid", "")
    links = []
    for item in range(10):
        sid = draw(host.number, item, hash_text(old))
        links.append((f"/session/item-{item}?sid={sid:016x}&amp;view=full", f"item {item}"))
    return _document(f"item {match[1] or 'list'}", links)


def _directories(path: str) -> str | None:
    if path.count("/") > DEPTH_MAX or not path.endswith("/"):
        return None
    return _document("index", [("up/", "up"), ("down/", "down")])


def hash_text(text: str) -> int:
    """`hash()` differs from process to process."""
    return int.from_bytes(text.encode()[:64].ljust(8, b"\0"), "big") % (1 << 64)
