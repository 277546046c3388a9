import gzip
import hashlib
import random
import statistics
import subprocess
import sys
from html.parser import HTMLParser
from urllib.parse import quote, urldefrag, urljoin

import pytest

from simnet.web import Oracle, Response, Web, WebRequest, WebSettings
from simnet.web.hosts import Hosts, WebHost, is_allowed, robots_body

SMALL = WebSettings(seed=7, hosts=30, pages_min=8, pages_max=200)


@pytest.fixture(scope="module")
def web() -> Web:
    return Web(WebSettings(seed=1, hosts=200, port=8080))


@pytest.fixture(scope="module")
def small() -> Oracle:
    return Oracle(Web(SMALL))


def host_with(web: Web, **manners: object) -> WebHost:
    hosts = (web.hosts.host(number) for number in range(web.settings.hosts))
    return next(h for h in hosts if all(getattr(h, name) == value for name, value in manners.items()))


def get(web: Web, url: str, day: int = 0, **headers: str) -> Response:
    host, _, path = url.removeprefix("http://").partition("/")
    lowered = {name.replace("_", "-"): value for name, value in headers.items()}
    return web.respond(WebRequest(host=host, path=f"/{path}", headers=lowered), day)


def plain_pages(web: Web, host: WebHost) -> list[str]:
    return [
        host.origin + web.hosts.path(host.number, page, False)
        for page in range(host.pages)
        if web.pages.kind(host.number, page) == "page"
    ]


class Hrefs(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if name in ("href", "src") and value and tag != "meta"]


def parsed_links(url: str, html: str) -> list[str]:
    parser = Hrefs()
    parser.feed(html)
    joined = (urldefrag(urljoin(url, href)).url for href in parser.found)
    return [quote(link, safe=":/%?&=") for link in joined]


def test_pages_have_the_shape_of_table_3_1(web: Web) -> None:
    rng = random.Random(2)
    pages = [(h, p) for h in range(200) for p in range(web.hosts.host(h).pages)]
    sample = [(h, p) for h, p in rng.sample(pages, 2_000) if web.pages.kind(h, p) != "huge"]
    html = [web.content(web.hosts.host(h), p, False, 0) for h, p in sample]
    with_image = [(h, p) for h, p in sample if web.pages.has_image(h, p)]
    images = [len(web.content(web.hosts.host(h), p, True, 0).body) for h, p in with_image]
    urls = [web.hosts.origin(h) + web.hosts.path(h, p, False) for h, p in sample]
    links = [link for content in html for link in content.links]
    assert statistics.mean(len(content.body) for content in html) == pytest.approx(12_000, rel=0.05)
    assert statistics.mean(images) == pytest.approx(32_000, rel=0.06)
    assert len(images) / (len(images) + len(sample)) == pytest.approx(0.435, abs=0.01)
    assert len(links) / len(html) == pytest.approx(36, abs=1.0)
    assert sum(link.is_local for link in links) / len(links) == pytest.approx(0.76, abs=0.02)
    assert statistics.mean(len(url) for url in urls) == pytest.approx(59, abs=1.0)


def test_a_few_hosts_hold_most_pages(web: Web) -> None:
    sizes = sorted((web.hosts.host(h).pages for h in range(200)), reverse=True)
    assert sum(sizes[:20]) > sum(sizes[20:])
    assert sizes[-1] >= 20


def test_pages_change_and_grow_at_the_rates_asked_for(web: Web) -> None:
    host = max((web.hosts.host(h) for h in range(200)), key=lambda h: h.pages)
    days = range(10, 20)
    changes = sum(
        web.version(host, page, False, day) != web.version(host, page, False, day + 1)
        for page in range(1_000)
        for day in days
    )
    images = sum(
        web.version(host, page, True, 0) != web.version(host, page, True, 10) for page in range(host.pages)
    )
    assert 0.01 <= changes / 10_000 <= 0.05
    assert images / host.pages / 10 < 0.0001 * 3
    assert web.hosts.pages_on(host, 20) / host.pages == pytest.approx(1.1, abs=0.001)


def test_a_day_on_which_nothing_changed_gives_the_same_bytes_and_validators(web: Web) -> None:
    host = host_with(web, validators="both", compresses=False)
    compared = 0
    for url in plain_pages(web, host)[:60]:
        old, new = get(web, url, 3), get(web, url, 4)
        assert (old.body == new.body) == (old.header("ETag") == new.header("ETag"))
        assert (old.body == new.body) == (old.header("Last-Modified") == new.header("Last-Modified"))
        compared += old.body == new.body
    assert compared


def test_a_tenth_of_the_links_of_a_changed_page_is_new(web: Web) -> None:
    host = max((web.hosts.host(h) for h in range(200)), key=lambda h: h.pages)
    old_links = new_links = 0
    for page in range(1, 2_000, 4):
        old, new = (web.content(host, page, False, day) for day in (0, 40))
        if old.body != new.body and web.pages.kind(host.number, page) == "page":
            before = {link.url for link in old.links}
            old_links += len(new.links)
            new_links += sum(link.url not in before for link in new.links)
    assert 0.02 < new_links / old_links < 0.21  # 40 days are up to two versions, a tenth each


def test_between_15_and_25_percent_of_the_bodies_are_duplicates(web: Web) -> None:
    seen: set[bytes] = set()
    bodies = repeated = 0
    for number in range(60):
        host = web.hosts.host(number)
        for page in range(min(host.pages, 200)):
            for is_image in (False, True):
                if not web.exists(host, page, is_image, 0) or web.pages.kind(number, page) == "huge":
                    continue
                digest = hashlib.sha1(web.content(host, page, is_image, 0).body).digest()
                bodies += 1
                repeated += digest in seen
                seen.add(digest)
    assert 0.15 <= repeated / bodies <= 0.25


def test_the_oracle_knows_the_links_that_a_parser_finds(small: Oracle) -> None:
    compared = 0
    for url in sorted(small.reachable(small.front_pages(), 5, trap_pages_max=3)):
        response = small.get(url, 5)
        kind = response.header("Content-Type") or ""
        if (
            response.status == 200
            and kind.startswith("text/html")
            and not response.header("Content-Encoding")
        ):
            if url.endswith("robots.txt") or len(response.body) == SMALL.huge_bytes:
                continue
            charset = (
                "utf-8" if "no-such" in kind or "utf-16" in kind or "shift" in kind else kind.split("=")[1]
            )
            html = response.body.decode(charset, "replace")
            assert parsed_links(url, html) == small.links(url, 5)
            compared += 1
    assert compared > 300


def test_every_page_alive_is_reached_from_the_front_page_unless_forbidden(small: Oracle) -> None:
    web = small.web
    for day in (0, 100):
        reached = small.reachable(small.front_pages(), day, follow_nofollow=True)
        for number in range(SMALL.hosts):
            host = web.hosts.host(number)
            if host.robots not in ("none", "open", "soft", "delay"):
                continue
            for page in range(web.hosts.pages_on(host, day)):
                assert host.origin + web.hosts.path(number, page, False) in reached
                if web.pages.has_image(number, page):
                    assert host.origin + web.hosts.path(number, page, True) in reached


def test_nothing_forbidden_is_reachable(small: Oracle) -> None:
    reached = small.reachable(small.front_pages(), 0)
    closed = [web_host for web_host in map(small.web.hosts.host, range(30)) if web_host.robots == "closed"]
    assert all(small.is_allowed(url) for url in reached)
    assert not any(url.startswith(f"{host.origin}/") for host in closed for url in reached)


def test_a_page_born_later_is_404_before_and_there_after(small: Oracle) -> None:
    web = small.web
    host = max((web.hosts.host(h) for h in range(30)), key=lambda h: h.pages)
    page = next(p for p in range(host.pages, host.pages + 50) if web.pages.kind(host.number, p) == "page")
    url = host.origin + web.hosts.path(host.number, page, False)
    born = web.hosts.born(host, page)
    assert born > 0
    assert [small.get(url, day).status for day in (born - 1, born, born + 50)] == [404, 200, 200]


def test_the_oracle_says_which_bodies_changed(small: Oracle) -> None:
    urls = sorted(small.reachable(small.front_pages(), 0))[:300]
    changed = small.changed(urls, 0, 30)
    assert 0 < len(changed) < len(urls)
    for url in urls:
        if small.get(url, 0).status == small.get(url, 30).status == 200:
            assert (small.get(url, 0).body != small.get(url, 30).body) == (url in changed)


def test_conditional_requests_are_answered_with_304_until_the_page_changes(web: Web) -> None:
    for validators, condition in (("both", "ETag"), ("etag", "ETag"), ("modified", "Last-Modified")):
        host = host_with(web, validators=validators)
        url = plain_pages(web, host)[0]
        known = get(web, url, 0).header(condition) or ""
        name = "if_none_match" if condition == "ETag" else "if_modified_since"
        answers = [get(web, url, day, **{name: known}) for day in range(0, 100, 5)]
        digests = [hashlib.sha1(get(web, url, day).body).digest() for day in range(0, 100, 5)]
        assert answers[0].status == 304
        assert answers[0].body == b""
        assert [answer.status == 304 for answer in answers] == [digest == digests[0] for digest in digests]


def test_some_servers_answer_conditions_wrongly(web: Web) -> None:
    deaf = plain_pages(web, host_with(web, validators="deaf"))[0]
    stuck = plain_pages(web, host_with(web, validators="stuck"))[0]
    restless_host = host_with(web, validators="restless")
    tag = get(web, deaf).header("ETag") or ""
    assert get(web, deaf, if_none_match=tag).status == 200
    assert get(web, stuck, 300, if_none_match='"long ago"').status == 304
    pages = plain_pages(web, restless_host)
    steady = next(url for url in pages if get(web, url, 0).body == get(web, url, 1).body)
    assert get(web, steady, 0).header("ETag") != get(web, steady, 1).header("ETag")


@pytest.mark.parametrize("robots", ["none", "open", "sections", "delay", "closed", "broken", "soft"])
def test_robots_files_of_each_kind_are_served(web: Web, robots: str) -> None:
    host = host_with(web, robots=robots)
    response = get(web, f"{host.origin}/robots.txt")
    assert response.status == {"none": 404, "broken": 503}.get(robots, 200)
    if response.status == 200:
        assert response.body.decode() == robots_body(host)
    assert is_allowed(host, "/") == (robots not in ("closed", "broken"))


def test_a_closed_section_has_an_exception_that_is_longer(web: Web) -> None:
    host = host_with(web, robots="sections")
    section = f"/{host.closed_section}"
    assert not is_allowed(host, f"{section}/stone/x-1.html")
    assert is_allowed(host, f"{section}/silver/x-1.html")


def test_traps_have_no_end(web: Web) -> None:
    oracle = Oracle(web)
    for trap in ("calendar", "session", "directories"):
        host = host_with(web, trap=trap)
        url, seen = f"{host.origin}/{trap}/", set()
        assert url in oracle.links(f"{host.origin}/", 0)
        for _ in range(150):
            assert oracle.get(url, 0).status == 200
            seen.add(url)
            url = oracle.links(url, 0)[-1]
        assert len(seen) == 150


def test_the_kinds_of_trouble_all_occur(small: Oracle) -> None:
    answers = [small.get(url, 0) for url in sorted(small.reachable(small.front_pages(), 0))]
    statuses = {answer.status for answer in answers}
    assert statuses >= {200, 301, 302, 404, 410}
    assert statuses & {500, 503}
    assert any("charset=no-such" in (answer.header("Content-Type") or "") for answer in answers)


def test_a_slow_host_says_how_long_its_answers_take(web: Web) -> None:
    slow = next(host for host in map(web.hosts.host, range(200)) if host.delay_s)
    assert 0.5 <= get(web, f"{slow.origin}/").delay_s == slow.delay_s <= 5.0


def test_compressed_bodies_unpack_to_the_plain_ones_and_broken_ones_do_not(web: Web) -> None:
    host = host_with(web, compresses=True)
    url = plain_pages(web, host)[0]
    packed = get(web, url, accept_encoding="gzip, br")
    assert packed.header("Content-Encoding") == "gzip"
    assert gzip.decompress(packed.body) == get(web, url).body
    broken_host, page = next(
        (h, p)
        for h in range(200)
        for p in range(50)
        if web.pages.kind(h, p) == "broken" and p < web.hosts.host(h).pages
    )
    broken = get(web, web.hosts.origin(broken_host) + web.hosts.path(broken_host, page, False))
    with pytest.raises(EOFError):
        gzip.decompress(broken.body)


def test_a_huge_body_is_as_long_as_asked_for() -> None:
    web = Web(WebSettings(seed=1, hosts=200, huge_bytes=5_000_000))
    places = ((h, p) for h in range(200) for p in range(web.hosts.host(h).pages))
    host, page = next(place for place in places if web.pages.kind(*place) == "huge")
    assert len(get(web, web.hosts.origin(host) + web.hosts.path(host, page, False)).body) == 5_000_000


@pytest.mark.parametrize(
    ("host", "path", "status"),
    [
        ("127.16.1.1", "/no/such/page-0.html", 404),
        ("127.16.1.1", "/about/amber/anchor-99999999999.html", 404),
        ("127.16.1.1", "/?query=1", 404),
        ("127.0.0.1", "/", 421),
        ("127.16.1.999", "/", 421),
        ("example.org", "/", 421),
        ("", "/", 421),
        ("127.16.1.1", "/" + "x" * 9_000, 414),
    ],
)
def test_what_does_not_exist_is_said_so(web: Web, host: str, path: str, status: int) -> None:
    assert web.respond(WebRequest(host=host, path=path), 0).status == status


def test_names_and_numbers_of_hosts_go_both_ways() -> None:
    for settings in (WebSettings(hosts=100_000), WebSettings(hosts=100_000, names="test", suffix="web.test")):
        hosts = Hosts(settings)
        for number in (0, 1, 253, 254, 64_515, 64_516, 99_999):
            assert hosts.number(hosts.name(number)) == number
        assert hosts.number(hosts.name(100_000)) is None


def test_a_billion_pages_need_no_memory() -> None:
    web = Web(WebSettings(hosts=2_000_000, pages_min=500, pages_max=10_000_000))
    number = 1_999_999
    assert get(web, f"{web.hosts.origin(number)}/", 5_000).status in (200, 304)


def test_impossible_settings_are_refused() -> None:
    for wrong in ({"hosts": 0}, {"port": 0}, {"pages_min": 10, "pages_max": 5}, {"growth_share": -0.1}):
        with pytest.raises(ValueError, match=r"must be|is a share"):
            WebSettings(**wrong)


def test_processes_agree_whatever_their_hash_seed() -> None:
    program = (
        "import hashlib; from simnet.web import *\n"
        "o = Oracle(Web(WebSettings(seed=3, hosts=8, pages_max=40)))\n"
        "urls = sorted(o.reachable(o.front_pages(), 4, trap_pages_max=5))\n"
        "print(hashlib.sha256(repr([(u, o.digest(u, 4)) for u in urls]).encode()).hexdigest())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("0", "1", "77")
    }
    assert len(outputs) == 1
