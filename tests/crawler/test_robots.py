"""Cases of RFC 9309 and the behaviours that other parsers' suites test, written out anew."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.robots import (
    ALLOW_ALL,
    CRAWL_DELAY_MAX_S,
    DISALLOW_ALL,
    ROBOTS_BYTES_MAX,
    PageDirectives,
    page_directives,
    parse_robots,
    rules_of_answer,
)

TOKEN = "Herodotus"


def allows(robots: str, target: str, token: str = TOKEN) -> bool:
    return parse_robots(robots.encode(), token).allows(target)


RFC_EXAMPLE = """User-Agent: *
Disallow: *.gif$
Disallow: /example/
Allow: /publications/

User-Agent: foobot
Disallow:/
Allow:/example/page.html
Allow:/example/allowed.gif

User-Agent: barbot
User-Agent: bazbot
Disallow: /example/page.html

User-Agent: quxbot
"""


@pytest.mark.parametrize(
    ("token", "target", "expected"),
    [
        ("Herodotus", "/a/x.gif", False),
        ("Herodotus", "/a/x.gif?y", True),
        ("Herodotus", "/example/x", False),
        ("Herodotus", "/publications/x", True),
        ("foobot", "/publications/x", False),
        ("foobot", "/example/page.html", True),
        ("foobot", "/example/allowed.gif", True),
        ("barbot", "/example/page.html", False),
        ("bazbot", "/example/page.html", False),
        ("bazbot", "/example/x.gif", True),
        ("quxbot", "/example/page.html", True),
    ],
)
def test_the_simple_example_of_the_rfc(token: str, target: str, expected: bool) -> None:
    assert allows(RFC_EXAMPLE, target, token) is expected


def test_the_longest_match_wins_as_in_the_rfc() -> None:
    robots = "User-Agent: foobot\nAllow: /example/page/\nDisallow: /example/page/disallowed.gif\n"
    assert not allows(robots, "/example/page/disallowed.gif", "foobot")
    assert allows(robots, "/example/page/", "foobot")


@pytest.mark.parametrize(
    ("pattern", "target", "expected"),
    [
        ("/fish", "/fish", True),
        ("/fish", "/fish.html", True),
        ("/fish", "/fishheads?x", True),
        ("/fish", "/Fish.asp", False),
        ("/fish", "/catfish", False),
        ("/fish*", "/fish.html", True),
        ("/fish/", "/fish", False),
        ("/fish/", "/fish/salmon", True),
        ("/*.php", "/folder/any.php.file.html", True),
        ("/*.php", "/", False),
        ("/*.php$", "/filename.php", True),
        ("/*.php$", "/filename.php?p", False),
        ("/*.php$", "/a.php/b.php", True),
        ("/fish*.php", "/fishheads/catfish.php?p", True),
        ("/fish*.php", "/Fish.PHP", False),
        ("/a*b*b$", "/ab", False),
        ("/a*b*b$", "/abb", True),
        ("/$", "/", True),
        ("/$", "/x", False),
        ("*", "/x", True),
        ("*/x", "/a/x/b", True),
        ("/a%3cd.html", "/a%3Cd.html", True),
        ("/a%3Cd.html", "/a<d.html", False),
        ("/%7ejoe/", "/~joe/index.html", True),
        ("/ツ", "/%E3%83%84", True),
        ("/%E3%83%84", "/%E3%83%84", True),
        ("/a%2fb", "/a/b", False),
        ("/foo/bar/%62%61%7A", "/foo/bar/baz", True),
        ("/a$b", "/a$b", True),
    ],
)
def test_patterns_match_as_the_rfc_and_google_document(pattern: str, target: str, expected: bool) -> None:
    assert allows(f"user-agent: *\ndisallow: {pattern}\n", target) is not expected


@pytest.mark.parametrize(
    ("rules", "target", "expected"),
    [
        ("allow: /p\ndisallow: /", "/page", True),
        ("allow: /folder\ndisallow: /folder", "/folder/page", True),
        ("disallow: /folder\nallow: /folder", "/folder/page", True),
        ("allow: /page\ndisallow: /*.htm", "/page.htm", False),
        ("allow: /page\ndisallow: /*.ph", "/page.php5", True),
        ("allow: /$\ndisallow: /", "/", True),
        ("allow: /$\ndisallow: /", "/page.htm", False),
        ("disallow:", "/x", True),
        ("disallow: nonsense", "/nonsense", True),
    ],
)
def test_precedence_is_by_length_and_allow_wins_ties(rules: str, target: str, expected: bool) -> None:
    assert allows(f"user-agent: *\n{rules}\n", target) is expected


def test_groups_for_the_same_agent_are_one_and_names_ignore_case_and_version() -> None:
    robots = "User-agent: HERODOTUS/2.0\nDisallow: /a\n\nUser-agent: *\nDisallow: /\n"
    robots += "\nuser-agent: herodotus\nDisallow: /b"
    assert (allows(robots, "/a"), allows(robots, "/b"), allows(robots, "/c")) == (False, False, True)


def test_a_longer_name_that_starts_like_ours_is_somebody_else() -> None:
    assert allows("User-agent: herodotus-news\nDisallow: /\n", "/x")


def test_line_ends_comments_byte_order_marks_and_spaces_do_not_matter() -> None:
    robots = "\ufeffUser-agent : * # all\r  Disallow : /a # here\r\n\r\ndisallow:/b"
    assert (allows(robots, "/a"), allows(robots, "/b"), allows(robots, "/c")) == (False, False, True)


def test_other_fields_do_not_end_a_list_of_agents() -> None:
    robots = "User-agent: x\nSitemap: https://a.example/s.xml\nUser-agent: herodotus\nDisallow: /\n"
    rules = parse_robots(robots.encode(), TOKEN)
    assert not rules.allows("/x")
    assert rules.sitemaps == ("https://a.example/s.xml",)


def test_rules_before_any_agent_are_ignored() -> None:
    assert allows("Disallow: /\nUser-agent: *\nDisallow: /a", "/b")


@pytest.mark.parametrize(
    ("text", "expected"),
    [("2.5", 2.5), ("1e9", CRAWL_DELAY_MAX_S), ("-1", None), ("nan", None), ("soon", None)],
)
def test_crawl_delay_is_a_bounded_number(text: str, expected: float | None) -> None:
    assert parse_robots(f"user-agent: *\ncrawl-delay: {text}".encode(), TOKEN).crawl_delay_s == expected


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (200, False),
        (204, False),
        (401, True),
        (404, True),
        (310, True),
        (429, False),
        (500, False),
        (503, False),
        (None, False),
    ],
)
def test_answers_mean_what_the_rfc_says(status: int | None, expected: bool) -> None:
    assert rules_of_answer(status, b"user-agent: *\ndisallow: /", TOKEN).allows("/x") is expected


def test_robots_txt_itself_may_always_be_fetched() -> None:
    assert DISALLOW_ALL.allows("/robots.txt")
    assert ALLOW_ALL.allows("/anything")


def test_what_lies_behind_500_kibibytes_is_ignored() -> None:
    filler = "#" * ROBOTS_BYTES_MAX
    assert allows(f"user-agent: *\n{filler}\ndisallow: /", "/x")


def test_many_wildcards_stay_quick() -> None:
    assert allows("user-agent: *\ndisallow: /" + "*a" * 2_000 + "b", "/" + "a" * 4_000)


@given(st.binary(max_size=200), st.text(max_size=30))
def test_any_bytes_give_rules(body: bytes, tail: str) -> None:
    rules = parse_robots(b"user-agent: *\n" + body, TOKEN)
    assert rules.allows("/" + tail) in (True, False)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["noindex, nofollow"], PageDirectives(noindex=True, nofollow=True)),
        (["NONE"], PageDirectives(noindex=True, nofollow=True)),
        (["otherbot: noarchive", "Herodotus: nofollow"], PageDirectives(nofollow=True)),
        (["otherbot: noarchive, nofollow"], PageDirectives()),
        (["unavailable_after: 25 Jun 2030 15:00:00 PST, noarchive"], PageDirectives(noarchive=True)),
        (["all", "follow"], PageDirectives()),
        (["x" * 1_000_000], PageDirectives()),
    ],
)
def test_page_directives_add_up_and_others_do_not_count(values: list[str], expected: PageDirectives) -> None:
    assert page_directives(values, TOKEN) == expected


ANY_FILE = st.lists(
    st.sampled_from(
        [b"user-agent: *", b"user-agent: herodotus", b"disallow: /a", b"allow: /a/b$", b"disallow: /%61%2f*x",
         b"allow: /caf\xc3\xa9", b"disallow: *", b"allow: /*/y*$", b"crawl-delay: 2.5", b"crawl-delay: 7",
         b"sitemap: https://a.example/s.xml", b"nonsense", b""]
    ),
    max_size=12,
)  # fmt: skip


@given(ANY_FILE, st.text(max_size=20))
def test_rules_as_text_say_the_same_and_are_no_longer(lines: list[bytes], path: str) -> None:
    body = b"\n".join(lines)
    rules = parse_robots(body, "Herodotus")
    again = parse_robots(rules.as_text(), "Herodotus")
    assert again == rules
    assert again.allows(f"/{path}") == rules.allows(f"/{path}")
    assert len(rules.as_text()) <= len(body) + 60
