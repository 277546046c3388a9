import pytest

from crawler.core.errors import MalformedUrlError
from crawler.core.link import LinkKind
from crawler.core.politeness import OptOutList
from crawler.core.scope import ContentChoice, CrawlScope, ScopeKind, Territory, trap_reason

SEEDS = ["https://www.example.org/a/index.html"]


@pytest.mark.parametrize(
    ("kind", "url", "expected"),
    [
        (ScopeKind.HOST, "https://www.example.org/b", None),
        (ScopeKind.HOST, "http://www.example.org:8080/", None),
        (ScopeKind.HOST, "https://example.org/", "scope"),
        (ScopeKind.DOMAIN, "https://example.org/", None),
        (ScopeKind.DOMAIN, "https://deep.below.example.org/", None),
        (ScopeKind.DOMAIN, "https://notexample.org/", "scope"),
        (ScopeKind.PREFIX, "https://www.example.org/a/b/c", None),
        (ScopeKind.PREFIX, "https://www.example.org/ab", "scope"),
        (ScopeKind.ANY, "https://elsewhere.example/", None),
    ],
)
def test_a_scope_takes_what_lies_around_its_seeds(kind: ScopeKind, url: str, expected: str | None) -> None:
    scope = CrawlScope.of_seeds(SEEDS, kind)
    assert scope.refuses(url, depth=9, kind=LinkKind.PAGE) == expected
    assert scope.holds(url, depth=9) == (expected is None)
    assert scope.holds(url, depth=9) <= scope.holds_host(url.split("/")[2].partition(":")[0])


def test_depth_opt_out_and_content_each_have_their_reason() -> None:
    scope = CrawlScope.of_seeds(
        SEEDS, ScopeKind.DOMAIN, depth_max=2, opted_out=OptOutList.of(["no.example.org"])
    )
    assert scope.refuses("https://example.org/", depth=3, kind=LinkKind.PAGE) == "depth"
    assert not scope.holds("https://example.org/", depth=3)
    assert scope.refuses("https://x.no.example.org/", depth=0, kind=LinkKind.PAGE) == "opt-out"
    assert scope.refuses("https://example.org/s.css", depth=0, kind=LinkKind.REQUISITE) == "content"
    assert scope.refuses("https://example.org/i.png", depth=0, kind=LinkKind.IMAGE) is None


@pytest.mark.parametrize(
    ("content", "takes", "accepts"),
    [
        (ContentChoice.HTML, {LinkKind.PAGE, LinkKind.FRAME}, {"text/html"}),
        (
            ContentChoice.HTML_AND_IMAGES,
            {LinkKind.PAGE, LinkKind.FRAME, LinkKind.IMAGE},
            {"text/html", "image/png"},
        ),
        (
            ContentChoice.PAGES,
            set(LinkKind),
            {"text/html", "image/png", "text/css", "font/woff2", "video/mp4", "text/javascript"},
        ),
        (
            ContentChoice.ALL,
            set(LinkKind),
            {
                "text/html",
                "image/png",
                "text/css",
                "font/woff2",
                "video/mp4",
                "text/javascript",
                "application/zip",
            },
        ),
    ],
)
def test_the_content_filter_takes_links_by_kind_and_answers_by_type(
    content: ContentChoice, takes: set[LinkKind], accepts: set[str]
) -> None:
    assert {kind for kind in LinkKind if content.takes(kind)} == takes
    types = {
        "text/html",
        "image/png",
        "text/css",
        "font/woff2",
        "video/mp4",
        "text/javascript",
        "application/zip",
    }
    assert {mime for mime in types if content.accepts(mime)} == accepts


def test_of_bytes_without_a_type_the_parts_of_pages_are_taken_by_their_names() -> None:
    untyped = "application/octet-stream"
    assert ContentChoice.PAGES.accepts_at("http://a.example/model.GLB?v=1", untyped)
    assert not ContentChoice.PAGES.accepts_at("http://a.example/setup.exe", untyped)
    assert not ContentChoice.PAGES.accepts_at("http://a.example/?of=x.woff2", untyped)
    assert ContentChoice.ALL.accepts_at("http://a.example/setup.exe", untyped)
    assert not ContentChoice.HTML.accepts_at("http://a.example/model.glb", untyped)


def test_a_network_may_archive_a_part_of_the_web_alone() -> None:
    territory = Territory.of(["Example.org", "https://elsewhere.example/kept/"])
    scope = CrawlScope(territory=territory)
    refused = {
        url: scope.refuses(url, depth=0, kind=LinkKind.PAGE)
        for url in (
            "http://example.org/",
            "https://a.example.org/x",
            "https://elsewhere.example/kept/x",
            "https://elsewhere.example/other",
        )
    }
    assert list(refused.values()) == [None, None, None, "charter"]
    with pytest.raises(MalformedUrlError):
        Territory.of(["not a domain"])


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ("/a/b/c", None),
        ("/" + "a/b/c/d/e/f/g/" * 3, "trap: deep path"),
        ("/x/y/x/y/x/y/x/y/", "trap: repeated segments"),
        ("/x/y/x/y/x", None),
        ("/?" + "&".join(f"p{n}=1" for n in range(20)), "trap: many parameters"),
        ("/?a=1&b=2&c=3", None),
        ("/calendar/2031/1", "trap: calendar"),
        ("/calendar/1822/12/", "trap: calendar"),
        ("/calendar/2027/1", None),
        ("/events?year=2999", "trap: calendar"),
        ("/events?date=2025-01-01", None),
        ("/models/3000/specification", None),
        ("/papers/1856/a-very-old-one", None),
    ],
)
def test_traps_are_told_by_their_urls(target: str, reason: str | None) -> None:
    assert trap_reason(f"https://example.org{target}", year=2026) == reason
