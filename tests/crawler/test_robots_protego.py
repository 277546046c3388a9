"""Why robots.txt is read by our own parser: where Protego, the parser that Scrapy uses, answers otherwise.

Protego passes 152 of the 169 cases of our suites. Each case below is one that it fails, so this test
says when a newer Protego no longer does; then its place in ADR 7 is to be judged again.
"""

import tracemalloc
from collections.abc import Callable

import pytest
from protego import Protego

from crawler.core.robots import ROBOTS_BYTES_MAX, parse_robots


def ours(robots: str, target: str) -> bool:
    return parse_robots(robots.encode(), "Herodotus").allows(target)


def protego(robots: str, target: str) -> bool:
    answer: bool = Protego.parse(robots).can_fetch(f"https://host.example{target}", "Herodotus")
    return answer


@pytest.mark.parametrize(
    ("reason", "robots", "target", "expected"),
    [
        (
            "a version after our name makes the group not ours, so that we would fetch what was forbidden",
            "user-agent: Herodotus/2.0\ndisallow: /\n",
            "/x",
            False,
        ),
        (
            "so does a second word",
            "user-agent: Herodotus archive\ndisallow: /\n",
            "/x",
            False,
        ),
        (
            "a byte order mark hides the first group",
            "\ufeffuser-agent: *\ndisallow: /\n",
            "/x",
            False,
        ),
        (
            "a crawler whose whole name is the start of ours is taken for us (RFC 9309, 2.2.1)",
            "user-agent: Hero\ndisallow: /\n",
            "/x",
            True,
        ),
        (
            "an allowed index.html opens its folder, which the RFC does not say",
            "user-agent: *\nallow: /folder/index.html\ndisallow: /\n",
            "/folder/",
            False,
        ),
        (
            "the two groups of one crawler are one (2.2.1), also when one has a version",
            "user-agent: herodotus\ndisallow: /a\nuser-agent: herodotus/2.0\ndisallow: /b\n",
            "/b",
            False,
        ),
    ],
)
def test_protego_answers_otherwise(reason: str, robots: str, target: str, expected: bool) -> None:
    assert ours(robots, target) is expected, reason
    assert protego(robots, target) is not expected, "Protego has changed: judge it again"


def peak_bytes(parse: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        parse()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_a_small_file_of_many_names_and_many_rules_takes_protego_memory_without_bound() -> None:
    """It keeps each rule once for each name: 56 KB took 290 MB, and up to 500 KiB must be read (RFC 9309, 2.5)."""

    def file(count: int) -> str:
        return "".join([f"user-agent:a{n}\n" for n in range(count)] + [f"allow:/{n}\n" for n in range(count)])

    small, twice = file(100), file(200)
    assert len(twice) * 50 < ROBOTS_BYTES_MAX
    assert peak_bytes(lambda: Protego.parse(twice)) > 3 * peak_bytes(lambda: Protego.parse(small))
    assert peak_bytes(lambda: parse_robots(twice.encode(), "Herodotus")) < 5 * len(twice) + 100_000
