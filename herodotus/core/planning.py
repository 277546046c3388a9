"""How large must a network be to archive so much? The thesis's chapter 6 and table 3.2, for any assumptions.

All of it is arithmetic on a few inputs, with the thesis's defaults of 2002. `THESIS` has the results that it printed,
with its rounding; `SLIPS` lists results that do not follow from its own inputs.
"""

import math
from dataclasses import dataclass
from types import MappingProxyType

from herodotus.core.settings.fields import number, whole

DAY_S = 86_400
DAYS_A_MONTH = 30  # the thesis's 580 GB a day are its 17.5 TB a month


@dataclass(frozen=True, slots=True, kw_only=True)
class Assumptions:
    pages: float = number(1, 1e15).setting(2e9, "HTML pages")
    page_bytes: float = number(1, 1e9, "bytes").setting(12_000.0, "mean size of a page")
    images_per_page: float = number(0, 1_000).setting(0.77, "images for each page")
    image_bytes: float = number(1, 1e9, "bytes").setting(32_000.0, "mean size of an image")
    page_compressed: float = number(0.001, 1).setting(0.25, "what compression leaves of a page")
    image_compressed: float = number(0.001, 1).setting(1.0, "what compression leaves of an image")
    changed: float = number(0, 1).setting(0.05, "share of the pages that change in a day")
    added: float = number(0, 1).setting(0.005, "new pages and images in a day, as a share of those there are")
    months: float = number(0, 1_200).setting(9.0, "months of crawling that there must be room for")
    copies: int = whole(1, 16).setting(6, "copies of each capture")
    node_bytes: float = number(1, 1e18, "bytes").setting(100e9, "what a node stores")
    nodes: int = whole(0, 1_000_000_000).setting(20_000, "nodes; 0 takes the fewest that have room")
    fetches: int = whole(1, 16).setting(6, "peers that fetch each URL: all holders (the thesis) or one")
    request_up_bytes: float = number(0, 1e6, "bytes").setting(80.0, "sent for a conditional GET")
    request_down_bytes: float = number(0, 1e6, "bytes").setting(
        20.0, "received for one that found nothing new"
    )
    url_bytes: float = number(1, 1e5, "bytes").setting(59.0, "mean length of a URL")
    links_per_page: float = number(0, 1e5).setting(36.0, "links of a page")
    new_links: float = number(0, 1).setting(0.1, "share of the links of a changed page that are new")
    repair_days: float = number(0.01, 10_000, "days").setting(60.0, "in which a node's copies are made again")
    stay_days: float = number(0.01, 1e6, "days").setting(360.0, "how long a node takes part")
    uptime: float = number(0.001, 1).setting(0.8, "share of the time that a node is up")
    places: int = whole(1, 1_000_000_000).setting(300, "networks (IPv4 /24, IPv6 /48) that nodes are in")
    spare_copies: int = whole(0, 16).setting(4, "copies beyond those, while there is room")


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Bytes, bits a second, shares of one."""

    objects: float
    raw_bytes: float
    stored_bytes: float
    raw_bytes_a_day: float
    stored_bytes_a_day: float
    stored_bytes_a_month: float
    stored_bytes_in_all: float
    stored_bytes_with_copies: float
    nodes_at_least: int
    nodes: int
    gets_a_day: float
    crawl_up_bit_s: float
    crawl_down_bit_s: float
    links_bit_s: float
    copies_bit_s: float
    repair_up_bit_s: float
    repair_down_bit_s: float
    up_bit_s: float
    down_bit_s: float
    all_down_bit_s: float
    lost_in_a_repair: float
    lost_in_a_year: float
    reachable: float
    lost_sixth_of_places: float
    """Of the captures, if a sixth of the places held, proved, and are gone at once."""
    lost_sixth_with_spares: float
    lost_third_of_places: float
    lost_third_with_spares: float


THESIS: MappingProxyType[str, float] = MappingProxyType(
    {
        "objects": 3.54e9,
        "raw_bytes": 74e12,
        "stored_bytes": 56e12,
        "raw_bytes_a_day": 1.57e12,
        "stored_bytes_a_day": 580e9,
        "stored_bytes_a_month": 17.5e12,
        "stored_bytes_in_all": 213.5e12,
        "stored_bytes_with_copies": 1_281e12,
        "nodes_at_least": 12_810,
        "nodes": 20_000,
        "gets_a_day": 1_062_000,
        "crawl_up_bit_s": 8e3,
        "crawl_down_bit_s": 46e3,
        "links_bit_s": 7e3,
        "repair_up_bit_s": 75e3,
        "repair_down_bit_s": 150e3,
        "up_bit_s": 90e3,
        "down_bit_s": 203e3,
        "all_down_bit_s": 4e9,
        "lost_in_a_repair": 0.00013,
        "reachable": 0.9997,
    }
)
SLIPS = (
    (
        "reachable: 99.97 % is what five copies give (0.2^5 = 0.032 %); six copies up 80 % of the time give "
        "99.9936 %, and the thesis's “probability of all six failing is .3 %” is 0.0064 %"
    ),
    "nodes: chapter 3 says 16,000 for a year, chapter 6 finds 12,810 for nine months and plans 20,000",
    "repair: 100 GB in 60 days are 154 kbit/s, which the thesis rounds to 150, and half of it to 75",
)


def plan(given: Assumptions) -> Plan:
    html, images = given.pages * given.page_bytes, given.pages * given.images_per_page * given.image_bytes
    stored = html * given.page_compressed + images * given.image_compressed
    raw_day = html * given.changed + (html + images) * given.added
    stored_day = html * given.changed * given.page_compressed + stored * given.added
    month = stored_day * DAYS_A_MONTH
    in_all = stored + given.months * month
    with_copies = in_all * given.copies
    fewest = max(1, math.ceil(with_copies / given.node_bytes))
    nodes = given.nodes or fewest
    objects = given.pages * (1 + given.images_per_page)
    gets = objects * given.fetches / nodes
    crawl_up = _bit_s(gets * given.request_up_bytes)
    crawl_down = _bit_s(gets * given.request_down_bytes + raw_day * given.fetches / nodes)
    links = _bit_s(_links_a_day(given) * given.copies / nodes)
    copies = (
        _bit_s(stored_day * (given.copies - given.fetches) / nodes) if given.fetches < given.copies else 0.0
    )
    repair = given.node_bytes * 8 / (given.repair_days * DAY_S)
    up, down = crawl_up + links + copies + repair / 2, crawl_down + links + copies + repair
    lost = min(1.0, given.repair_days / given.stay_days) ** (given.copies - 1)
    sixth, third = gone_at_once(given)
    return Plan(
        objects=objects,
        raw_bytes=html + images,
        stored_bytes=stored,
        raw_bytes_a_day=raw_day,
        stored_bytes_a_day=stored_day,
        stored_bytes_a_month=month,
        stored_bytes_in_all=in_all,
        stored_bytes_with_copies=with_copies,
        nodes_at_least=fewest,
        nodes=nodes,
        gets_a_day=gets,
        crawl_up_bit_s=crawl_up,
        crawl_down_bit_s=crawl_down,
        links_bit_s=links,
        copies_bit_s=copies,
        repair_up_bit_s=repair / 2,
        repair_down_bit_s=repair,
        up_bit_s=up,
        down_bit_s=down,
        all_down_bit_s=down * nodes,
        lost_in_a_repair=lost,
        lost_in_a_year=-math.expm1(365 / given.stay_days * given.copies * math.log1p(-min(lost, 1 - 1e-15))),
        reachable=1 - (1 - given.uptime) ** given.copies,
        lost_sixth_of_places=sixth.lost,
        lost_sixth_with_spares=sixth.lost_with_spares,
        lost_third_of_places=third.lost,
        lost_third_with_spares=third.lost_with_spares,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class GoneAtOnce:
    """A share of the places goes in one hour, too soon for any repair. `lost` is a share of the captures."""

    name: str
    gone: int
    lost: float
    lost_with_spares: float


def gone_at_once(given: Assumptions) -> list[GoneAtOnce]:
    return [
        GoneAtOnce(
            name=name,
            gone=given.places // share,
            lost=lost_with(given.places, given.places // share, given.copies),
            lost_with_spares=lost_with(
                given.places, given.places // share, given.copies + given.spare_copies
            ),
        )
        for name, share in (("sixth", 6), ("third", 3))
    ]


def lost_with(places: int, gone: int, copies: int) -> float:
    """The chance that all copies of a capture, each in a place of its own, are in those that go: C(b, k) / C(P, k). No
    rule about who may delete what changes that, only the number of copies does. With fewer places than copies each
    place has one, and one that stays is enough."""
    spread = min(copies, places)
    return math.comb(gone, spread) / math.comb(places, spread)


def _links_a_day(given: Assumptions) -> float:
    """Bytes of links that one holder receives for the pages of a day, from all their fetchers: all links of a new
    page, the new links of a changed page."""
    pages = given.pages * (given.added + given.changed * given.new_links)
    return given.fetches * pages * given.links_per_page * given.url_bytes


def _bit_s(bytes_a_day: float) -> float:
    return bytes_a_day * 8 / DAY_S
