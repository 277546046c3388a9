"""What the suites of other robots.txt parsers test, case by case in our own words, and where we differ.

Google's parser (robotstxt), Protego, CPython's robotparser and reppy. A difference has its reason beside it, and the
test holds us to what we say we do.
"""

import pytest

from crawler.core.robots import parse_robots

FOO = "user-agent: FooBot\n"


def allows(robots: str | bytes, target: str, token: str = "FooBot") -> bool:
    octets = robots if isinstance(robots, bytes) else robots.encode()
    return parse_robots(octets, token).allows(target)


GROUPS = (
    "allow: /outside/\n\nuser-agent: FooBot\ndisallow: /\nallow: /x/\nuser-agent: BarBot\ndisallow: /\nallow: /y/\n"
    "\n\nallow: /w/\nuser-agent: BazBot\n\nuser-agent: FooBot\nallow: /z/\ndisallow: /\n"
)
SPECIFIC = "user-agent: *\ndisallow: /x/\nuser-agent: FooBot\ndisallow: /y/\n"
QUERY = "/foo/bar?a=b&c=http://foo.example?tar&par"


@pytest.mark.parametrize(
    ("robots", "token", "target", "expected"),
    [
        # robotstxt: lines, groups, names
        ("", "FooBot", "/x", True),
        (f"{FOO}disallow: /\n", "FooBot", "/x/y", False),
        ("foo: FooBot\nbar: /\n", "FooBot", "/x/y", True),
        ("user-agent FooBot\ndisallow /\n", "FooBot", "/x/y", False),
        ("user agent: FooBot\ndisallow: /\n", "FooBot", "/x/y", False),
        ("useragent: FooBot\ndisallow: /\n", "FooBot", "/x/y", False),
        *(
            (f"{FOO}{word}: /\n", "FooBot", "/x", False)
            for word in ("dissallow", "dissalow", "disalow", "diasllow", "disallaw")
        ),
        *(
            (GROUPS, "FooBot", target, expected)
            for target, expected in [("/x/b", True), ("/z/d", True), ("/y/c", False)]
        ),
        *(
            (GROUPS, "BarBot", target, expected)
            for target, expected in [("/y/c", True), ("/w/a", True), ("/z/d", False)]
        ),
        (GROUPS, "BazBot", "/z/d", True),
        *((GROUPS, token, "/outside/", False) for token in ("FooBot", "BarBot", "BazBot")),
        *(
            (text, "FooBot", target, expected)
            for text in (f"{FOO}Allow: /x/\nDisallow: /\n", f"{FOO.upper()}ALLOW: /x/\nDISALLOW: /\n")
            for target, expected in [("/x/y", True), ("/a/b", False)]
        ),
        *(
            (f"User-Agent: {name}\nAllow: /x/\nDisallow: /\n", token, target, expected)
            for name in ("FOO BAR", "foo bar", "FoO bAr")
            for token in ("Foo", "foo")
            for target, expected in [("/x/y", True), ("/a/b", False)]
        ),
        ("User-Agent: *\nDisallow: /\nUser-Agent: Foo Bar\nAllow: /x/\nDisallow: /\n", "Foo", "/x/y", True),
        ("user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n", "FooBot", "/x/y", False),
        ("user-agent: *\nallow: /\nuser-agent: FooBot\ndisallow: /\n", "BarBot", "/x/y", True),
        (f"{FOO}allow: /\nuser-agent: BarBot\ndisallow: /\n", "QuxBot", "/x/y", True),
        (f"{FOO}disallow: /X/\n", "FooBot", "/x/y", True),
        # robotstxt: which rule counts
        (f"{FOO}disallow: /x/page.html\nallow: /x/\n", "FooBot", "/x/page.html", False),
        (f"{FOO}allow: /x/page.html\ndisallow: /x/\n", "FooBot", "/x/page.html", True),
        (f"{FOO}allow: /x/page.html\ndisallow: /x/\n", "FooBot", "/x/", False),
        (f"{FOO}disallow: \nallow: \n", "FooBot", "/x/page.html", True),
        (f"{FOO}disallow: /\nallow: /\n", "FooBot", "/x/page.html", True),
        (f"{FOO}disallow: /x\nallow: /x/\n", "FooBot", "/x", False),
        (f"{FOO}disallow: /x\nallow: /x/\n", "FooBot", "/x/", True),
        (f"{FOO}allow: /page\ndisallow: /*.html\n", "FooBot", "/page.html", False),
        (f"{FOO}allow: /x/page.\ndisallow: /*.html\n", "FooBot", "/x/page.html", True),
        (f"{FOO}allow: /x/page.\ndisallow: /*.html\n", "FooBot", "/x/y.html", False),
        (SPECIFIC, "FooBot", "/x/page", True),
        (SPECIFIC, "FooBot", "/y/page", False),
        # robotstxt: octets and special characters
        (f"{FOO}disallow: /\nallow: {QUERY}\n", "FooBot", QUERY, True),
        (f"{FOO}disallow: /\nallow: /foo/bar/ツ\n", "FooBot", "/foo/bar/%E3%83%84", True),
        (f"{FOO}disallow: /\nallow: /foo/bar/%E3%83%84\n", "FooBot", "/foo/bar/%E3%83%84", True),
        (f"{FOO}disallow: /foo/bar/quz\nallow: /foo/*/qux\n", "FooBot", "/foo/bar/quz", False),
        (f"{FOO}disallow: /foo/bar/quz\nallow: /foo/*/qux\n", "FooBot", "/foo//quz", True),
        (f"{FOO}disallow: /foo/bar$\nallow: /foo/bar/qux\n", "FooBot", "/foo/bar", False),
        (f"{FOO}disallow: /foo/bar$\nallow: /foo/bar/qux\n", "FooBot", "/foo/bar/baz", True),
        (f"{FOO}# disallow: /\ndisallow: /foo/quz#qux\nallow: /\n", "FooBot", "/foo/bar", True),
        (f"{FOO}# disallow: /\ndisallow: /foo/quz#qux\nallow: /\n", "FooBot", "/foo/quz", False),
        # robotstxt: line ends, also none at the end
        ("user-agent: foo\rallow: /a\ruser-agent: bar\r\r\rdisallow: /", "bar", "/x", False),
        ("user-agent: foo\nallow: /a\r\nuser-agent: bar\n\r\n\ndisallow: /", "bar", "/x", False),
        # Protego, robotparser: what does not belong to the standard changes nothing
        (
            f"{FOO}request-rate: 1/10m\nvisit-time: 0600-0845\ncrawl-delay: 7\ndisallow: /a",
            "FooBot",
            "/a",
            False,
        ),
        (f"{FOO}host: example.org\nclean-param: ref /\nnoindex: /b\ndisallow: /a", "FooBot", "/b", True),
        (f"{FOO}disallow: /a\n\ndisallow: /b", "FooBot", "/b", False),
        (f"{FOO}disallow: *\n", "FooBot", "/x", False),
        (f"{FOO}disallow: /*?sid=\n", "FooBot", "/x?sid=1", False),
        (f"{FOO}disallow: /*a*b*c*d$\n", "FooBot", "/xaxbxcxd", False),
        (f"{FOO}disallow: /some?query\n", "FooBot", "/some", True),
        ("user-agent: figtree\ndisallow: /a%3cd.html\ndisallow: /%7ejoe/\n", "figtree", "/a%3Cd.html", False),
        (
            "user-agent: figtree\ndisallow: /a%3cd.html\ndisallow: /%7ejoe/\n",
            "figtree",
            "/~joe/index.html",
            False,
        ),
        ("user-agent: A\nuser-agent: FooBot\n\ndisallow: /", "FooBot", "/", False),
        # reppy: everything else is open, robots.txt itself always
        (f"{FOO}disallow: /\n", "FooBot", "/robots.txt", True),
        (f"{FOO}disallow: /\nuser-agent: *\ndisallow:\n", "Another", "/x", True),
    ],
)
def test_other_suites_cases_pass(robots: str, token: str, target: str, expected: bool) -> None:
    assert allows(robots, target, token) is expected


@pytest.mark.parametrize(
    ("start", "expected"),
    [(b"\xef\xbb\xbf", False), (b"\xef\xbb", False), (b"\xef", False), (b"\xef\x11\xbf", True)],
)
def test_what_is_left_of_a_byte_order_mark_is_passed_by_and_a_broken_one_spoils_its_line(
    start: bytes, expected: bool
) -> None:
    assert allows(start + b"user-agent: FooBot\ndisallow: /\n", "/x") is expected


LONG = "/x/" + "a" * 20_000


@pytest.mark.parametrize(
    ("reason", "robots", "target", "ours"),
    [
        (
            "Google takes an allowed index.html for its folder; the RFC does not, and forbidding is the safer reading",
            f"{FOO}allow: /folder/index.html\ndisallow: /\n",
            "/folder/",
            False,
        ),
        (
            "Google cuts lines at 16,664 bytes; 500 KiB of the file are our bound, so the rule stays as it was written",
            f"{FOO}disallow: {LONG}/end\n",
            f"{LONG}/other",
            True,
        ),
        (
            "RFC 9309 (2.2.2) compares unreserved octets decoded; Google leaves an escaped letter as it is",
            f"{FOO}disallow: /foo/%62%61%7A\n",
            "/foo/baz",
            False,
        ),
        (
            "robotparser and reppy take a name that is part of ours for ours; the RFC matches the whole product token",
            "user-agent: Foo\ndisallow: /\n",
            "/x",
            True,
        ),
        (
            "robotparser takes the first rule that matches; the RFC the longest",
            f"{FOO}disallow: /folder\nallow: /folder/page\n",
            "/folder/page",
            True,
        ),
        (
            "robotparser ends a group at an empty line; the RFC at the next user-agent line",
            f"{FOO}\ndisallow: /a\n",
            "/a",
            False,
        ),
        (
            "robotparser adds the slash that a rule lacks; by the RFC such a line is no rule",
            f"{FOO}disallow: page\n",
            "/page",
            True,
        ),
    ],
)
def test_where_we_differ_from_another_parser_it_is_for_a_reason(
    reason: str, robots: str, target: str, ours: bool
) -> None:
    assert allows(robots, target) is ours, reason
