"""Which links and bytes has a page on a day, and when did it last change?

Pages stand in groups of four. The first of a group (its hub) links to the other three, to their images, and
to the hubs of eight further groups, so every page of a host is reached from its front page, also one born
today. The other links are drawn. When a page changes, a tenth of its links and paragraphs are drawn again
(thesis, section 6: no more than 10 % of the links of updated HTML are new). Measured by tests against the
thesis's table 3.1.
"""

import math
import random
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import unquote

from simnet.web.hosts import Hosts, WebHost, WebSettings
from simnet.web.words import FOREIGN_WORDS, PICTURE_POOL_BYTES, SECTIONS, Material, draw, mix, share

GROUP = 4
FAN = 8
IMAGES_PER_PAGE = 0.77  # thesis, section 3.1: 43.5 % of the URLs
HTML_BYTES = 12_000
IMAGE_BYTES = 32_000
LOCAL_SHARE = 0.76
LINKS_MIN, LINKS_MAX = 12, 60  # uniform: 36 on average
HREF_BYTES = 82  # a link with its markup, for sizing the text beside it
PARAGRAPH_BYTES = 286
SPREAD = 0.8  # sigma of the log-normal sizes: a long tail, as on the web
CLIP_ART = 64  # duplicated images are copies of these

Kind = Literal["page", "redirect", "gone", "flaky", "huge", "mislabelled", "broken"]


class PageLink(NamedTuple):
    """`href` is the page's text, `url` its meaning: absolute, without fragment, percent-encoded.

    A tuple, as a page makes 36 of them and a frozen dataclass takes four times as long.
    """

    markup: str

    href: str
    url: str
    is_image: bool
    is_local: bool
    is_nofollow: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PageContent:
    body: bytes
    content_type: str
    links: tuple[PageLink, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PageVersion:
    """Which content a URL has: equal versions are equal bytes. `changed_day` is when it got it."""

    number: int
    targets: int
    changed_day: int


class Pages:
    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self.hosts = Hosts(settings)
        self.material = Material(settings.seed)
        self._seed = settings.seed
        # Most links are of the plain style; these two take half the work out of making a page.
        self._plain = lru_cache(maxsize=131_072)(self._make_plain)
        self.has_image = lru_cache(maxsize=131_072)(self._draw_image)

    # -- the parts of URLs---------------------------------------------------------------------------------

    def _draw_image(self, host: int, page: int) -> bool:
        return share(draw(self._seed, 10, host, page)) < IMAGES_PER_PAGE

    def kind(self, host: int, page: int) -> Kind:
        """Hubs are always pages, so that trouble hides nothing but itself."""
        if not self.settings.troubles or page % GROUP == 0:
            return "page"
        at = draw(self._seed, 11, host, page) % 1_000
        if at < 30:
            return "redirect"
        if at < 40:
            return "gone"
        if at < 50:
            return "flaky"
        if at < 51:
            return "huge"
        if at < 75:
            return "mislabelled"
        return "broken" if at < 80 else "page"

    def original(self, host: int, page: int) -> int:
        """The page whose bytes this one repeats (itself, mostly): a printer's version of its hub."""
        if page % GROUP == 0:
            return page
        likelihood = self.settings.duplicate_share * GROUP / (GROUP - 1)
        is_duplicate = share(draw(self._seed, 12, host, page)) < likelihood
        return page - page % GROUP if is_duplicate else page

    # -- when it changes ----------------------------------------------------------------------------------

    def version(self, host: WebHost, page: int, day: int) -> PageVersion:
        number, changed = self._version(host, page, self._period_days(host, page), day, 14)
        if page % GROUP:
            return PageVersion(number=number, targets=0, changed_day=changed)
        targets = self._tree(host, page, day)
        newest = max(self.hosts.born(host, targets[-1]), changed) if targets else changed
        return PageVersion(number=number, targets=len(targets), changed_day=newest)

    def image_version(self, host: WebHost, image: int, day: int) -> PageVersion:
        share_of_day = self.settings.image_change_share
        period = round(1 / share_of_day) if share_of_day else 0
        number, changed = self._version(host, image, period, day, 15)
        return PageVersion(number=number, targets=0, changed_day=changed)

    def _period_days(self, host: WebHost, page: int) -> int:
        """A tenth of the pages changes eleven times as often as the rest; together they make the settings'
        share."""
        average = self.settings.html_change_share
        if not average:
            return 0
        factor = 5.5 if share(draw(self._seed, 13, host.number, page)) < 0.1 else 0.5
        return max(1, round(1 / (average * factor)))

    def _version(self, host: WebHost, page: int, period: int, day: int, purpose: int) -> tuple[int, int]:
        """One change in each period, on a day of its own: irregular, yet known without counting."""
        born = self.hosts.born(host, page)
        if not period:
            return 0, born
        block, inside = divmod(day - born, period)
        at = draw(self._seed, purpose, host.number, page, block) % period
        if inside >= at:
            return block + 1, born + block * period + at
        if not block:
            return 0, born
        before = draw(self._seed, purpose, host.number, page, block - 1) % period
        return block, born + (block - 1) * period + before

    # -- what is on it --------------------------------------------------------------------------------------

    def html(self, host: WebHost, page: int, version: PageVersion, day: int) -> PageContent:
        """For an original page: the caller has replaced a duplicate by its original."""
        links = self._links(host, page, version, day)
        head, charset = self._head(host, page)
        parts = [head]
        paragraphs = self._paragraphs(host, page, version.number, len(links))
        stride = max(1, len(paragraphs) // (len(links) + 1))
        at = 0
        for link in links:
            parts.extend(paragraphs[at : at + stride])
            at += stride
            parts.append(link.markup)
        parts.extend(paragraphs[at:])
        name = f"version {version.number}.{version.targets} of {host.number}/{page}"
        parts.append(f"<p>{name}</p>\n</body>\n</html>\n")
        body = "".join(parts).encode(charset, "xmlcharrefreplace")
        return PageContent(
            body=body, content_type=self._content_type(host, page, charset), links=tuple(links)
        )

    def image(self, host: WebHost, image: int, version: PageVersion, is_gif: bool) -> PageContent:
        bits = draw(self._seed, 16, host.number, image, version.number)
        if share(mix(bits)) < self.settings.duplicate_share:
            bits = draw(self._seed, 17, bits % CLIP_ART)
        size = _size(bits, IMAGE_BYTES, PICTURE_POOL_BYTES // 2)
        start = bits % (PICTURE_POOL_BYTES // 2)
        picture = gif(bits) if is_gif else jpeg(bits % 64)
        body = b"".join((picture, bits.to_bytes(8, "big"), self.material.pictures[start : start + size]))
        return PageContent(body=body, content_type="image/gif" if is_gif else "image/jpeg", links=())

    def huge(self, host: WebHost, page: int) -> PageContent:
        start = draw(self._seed, 18, host.number, page) % 1_000
        pool = self.material.pictures[start:]
        times = self.settings.huge_bytes // len(pool) + 1
        body = (pool * times)[: self.settings.huge_bytes]
        return PageContent(body=body, content_type="text/html", links=())

    def _head(self, host: WebHost, page: int) -> tuple[str, str]:
        bits = draw(self._seed, 19, host.number, page)
        charset = ("utf-8", "utf-8", "iso-8859-1", "windows-1251")[bits & 3] if host.is_foreign else "utf-8"
        robots = ""
        if self.settings.troubles and page % GROUP and bits >> 8 & 0xFF == 0:
            robots = '<meta name="robots" content="noarchive">\n'
        elif self.settings.troubles and page % GROUP and bits >> 8 & 0xFF == 1:
            robots = '<meta name="robots" content="nofollow">\n'
        word = FOREIGN_WORDS[bits >> 16 & 7] if host.is_foreign else SECTIONS[bits >> 16 & 15]
        meta = "" if bits >> 24 & 3 == 0 else f'<meta charset="{charset}">\n'
        title = f"<title>{word} {page}</title>\n"
        return f"<!DOCTYPE html>\n<html>\n<head>\n{meta}{robots}{title}</head>\n<body>\n", charset

    def is_nofollow_page(self, host: int, page: int) -> bool:
        bits = draw(self._seed, 19, host, page)
        return self.settings.troubles and page % GROUP != 0 and bits >> 8 & 0xFF == 1

    def _content_type(self, host: WebHost, page: int, charset: str) -> str:
        if self.kind(host.number, page) == "mislabelled":
            wrong = ("shift_jis", "utf-16", "no-such-charset")[page % 3]
            return f"text/html; charset={wrong}"
        return f"text/html; charset={charset}"

    def _paragraphs(self, host: WebHost, page: int, version: int, links: int) -> list[str]:
        bits = draw(self._seed, 20, host.number, page)
        pool = self.material.foreign_paragraphs if host.is_foreign else self.material.paragraphs
        room = _size(bits, HTML_BYTES, 40 * HTML_BYTES) - links * HREF_BYTES
        count = max(1, round(room / PARAGRAPH_BYTES))
        step, size = bits >> 20 | 1, len(pool)
        chosen = [pool[(bits + slot * step) % size] for slot in range(count)]
        if version:
            fresh = draw(bits, version)
            for slot in range(version % 10, count, 10):
                fresh = mix(fresh)
                chosen[slot] = pool[fresh % size]
        return chosen

    # -- its links ------------------------------------------------------------------------------------------

    def _tree(self, host: WebHost, hub: int, day: int) -> list[int]:
        """The pages that a hub links to today, in order of birth."""
        count = self.hosts.pages_on(host, day)
        group = hub // GROUP
        own = range(hub + 1, hub + GROUP)
        hubs = range((group * FAN + 1) * GROUP, (group * FAN + FAN + 1) * GROUP, GROUP)
        return [page for page in (*own, *hubs) if page < count]

    def _links(self, host: WebHost, page: int, version: PageVersion, day: int) -> list[PageLink]:
        bits = draw(self._seed, 21, host.number, page)
        wanted = LINKS_MIN + bits % (LINKS_MAX - LINKS_MIN + 1)
        links: list[PageLink] = []
        if page % GROUP == 0:
            tree = self._tree(host, page, day)[: version.targets]
            links.extend(self._local(host, target, False, mix(bits ^ target)) for target in tree)
            images = [number for number in (page, *tree) if number < page + GROUP]
            links.extend(
                self._local(host, number, True, 0) for number in images if self.has_image(host.number, number)
            )
        if page == 0 and host.trap != "none":
            links.append(_link(host, f"/{host.trap}/", False, True, 0))
        remote = int(wanted * (1 - LOCAL_SHARE) + share(bits))
        rng = random.Random(
            bits
        )  # quicker than mixing for each slot; seeded with a number, the same everywhere
        for slot in range(max(0, wanted - len(links))):
            chance = rng.getrandbits(64)
            if version.number > 0 and slot % 10 == version.number % 10:
                chance = draw(chance, version.number)
            links.append(self._remote(chance) if slot < remote else self._drawn(host, chance))
        return links

    def _drawn(self, host: WebHost, bits: int) -> PageLink:
        if self.settings.troubles and bits & 0x3F == 0:
            path = f"/{SECTIONS[bits >> 8 & 15]}/gone/{bits >> 20 & 0xFFFF}.html"
            return _link(host, path, False, True, bits)
        page = (bits >> 6) % host.pages
        return self._local(host, page, bits >> 2 & 3 == 0 and self.has_image(host.number, page), bits)

    def _local(self, host: WebHost, page: int, is_image: bool, bits: int) -> PageLink:
        if _is_plain(bits):
            return self._plain(host.number, page, is_image, True)
        return _link(host, self.hosts.path(host.number, page, is_image), is_image, True, bits)

    def _make_plain(self, number: int, page: int, is_image: bool, is_local: bool) -> PageLink:
        return _link(self.hosts.host(number), self.hosts.path(number, page, is_image), is_image, is_local, 0)

    def _remote(self, bits: int) -> PageLink:
        """Few hosts are linked to by most: the host's number is the cube of an even draw."""
        number = int(self.settings.hosts * share(bits) ** 3)
        host = self.hosts.host(number)
        page = (bits >> 5) % host.pages if bits & 15 < 6 else 0
        if _is_plain(bits):
            return self._plain(number, page, False, False)
        return _link(host, self.hosts.path(number, page, False), False, False, bits)


def _size(bits: int, mean: int, limit: int) -> int:
    """Log-normal, by the sum of four draws: near enough to a normal, and quick."""
    total = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48)
    normal = (total / 65_536 - 2.0) * math.sqrt(3.0)
    return min(limit, int(mean * math.exp(SPREAD * normal - SPREAD * SPREAD / 2)))


def _link(host: WebHost, path: str, is_image: bool, is_local: bool, bits: int) -> PageLink:
    url = host.origin + path
    href = path if is_local else url
    style = bits >> 40 & 0x3F
    if style == 1:
        href = url
    elif style == 2:
        href = f"{href}#part-{bits & 7}"
    elif style == 3 and is_local:
        href = f"/here/..{path}"
    elif "%" in path:
        href = unquote(href)
    is_nofollow = not is_image and bits >> 47 & 0x7F == 5
    return PageLink(_markup(href, is_image, is_nofollow), href, url, is_image, is_local, is_nofollow)


def _is_plain(bits: int) -> bool:
    return bits >> 40 & 0x3F not in (1, 2, 3) and bits >> 47 & 0x7F != 5


def _markup(href: str, is_image: bool, is_nofollow: bool) -> str:
    # Nothing to escape: paths are made of words, numbers and slashes.
    if is_image:
        return f'<img src="{href}" alt="a figure">\n'
    rel = ' rel="nofollow"' if is_nofollow else ""
    return f'<a href="{href}"{rel}>more of this</a>\n'


# Images are small stripes that any browser draws, in tones that differ. A whole GIF or JPEG comes first; every decoder
# skips the bytes that follow (the rest of the image's size). Only colours differ, so a picture costs next to nothing.
WIDTH, HEIGHT = 96, 64
BLOCK = 8  # of a JPEG, in pixels
_STRIPES = 4
_CLEAR, _END = 4, 5
_PIXELS_BETWEEN_CLEARS = 2  # so that codes never grow beyond three bits


def gif(bits: int) -> bytes:
    """Of four colours, from 64 bits."""
    drawn = bits.to_bytes(8, "big")
    return _gif_head() + drawn + drawn[:4] + _gif_pixels()


def _gif_head() -> bytes:
    size = WIDTH.to_bytes(2, "little") + HEIGHT.to_bytes(2, "little")
    return b"GIF89a" + size + b"\x81\0\0"  # a table of 4 colours


@lru_cache(maxsize=1)
def _gif_pixels() -> bytes:
    place = b"\x2c" + bytes(4) + WIDTH.to_bytes(2, "little") + HEIGHT.to_bytes(2, "little") + b"\0"
    codes = []
    for pixel in range(WIDTH * HEIGHT):
        if pixel % _PIXELS_BETWEEN_CLEARS == 0:
            codes.append(_CLEAR)
        codes.append(pixel % WIDTH * _STRIPES // WIDTH)
    packed = sum(code << 3 * at for at, code in enumerate([*codes, _END]))
    data = packed.to_bytes((3 * (len(codes) + 1) + 7) // 8, "little")
    blocks = b"".join(
        bytes((len(data[at : at + 255]),)) + data[at : at + 255] for at in range(0, len(data), 255)
    )
    return place + b"\x02" + blocks + b"\0\x3b"


@lru_cache(maxsize=64)
def jpeg(tone: int) -> bytes:
    """Gray, baseline, its mean values only; `tone` is 0 to 63."""
    size = HEIGHT.to_bytes(2, "big") + WIDTH.to_bytes(2, "big")
    head = b"".join(
        (
            b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0",
            b"\xff\xdb\0\x43\0" + b"\x10" * 64,  # a step of a mean value is 2 of 256
            b"\xff\xc0\0\x0b\x08" + size + b"\x01\x01\x11\0",
            b"\xff\xc4\0\x15\0\x01\x01"
            + bytes(14)
            + b"\0\x06",  # "0": as before; "10": six bits of difference
            b"\xff\xc4\0\x14\x10\x01" + bytes(15) + b"\0",  # "0": no more of this block
            b"\xff\xda\0\x08\x01\x01\0\0\x3f\0",
        )
    )
    columns = WIDTH // BLOCK
    scan = ""
    for block in range(columns * HEIGHT // BLOCK):
        column = block % columns
        if block == 0:
            scan += f"10{tone:06b}0"
        elif column in (columns // 3, 2 * columns // 3):
            brighter = (column == columns // 3) == (tone < 32)  # away from the end of the scale that is near
            scan += f"10{32 if brighter else 31:06b}0"
        else:
            scan += "00"
    scan += "1" * (-len(scan) % 8)
    data = int(scan, 2).to_bytes(len(scan) // 8, "big").replace(b"\xff", b"\xff\0")
    return head + data + b"\xff\xd9"
