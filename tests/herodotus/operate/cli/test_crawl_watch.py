"""When does a person who watches a running peer's crawl see its end?"""

from typing import Any

import pytest

from herodotus.core.orders import Begin
from herodotus.home.seeds import Seed
from herodotus.operate.cli.commands.crawl import _begins, _is_at_work, _sums


def told(
    state: str, *, url: str = "https://a.example/", problem: str = "", waiting: int = 0, failed: int = 0
) -> Any:
    return {
        "url": url, "state": state, "problem": problem, "waiting": waiting, "failed": failed, "found": 9, "stored": 4,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "is_at_work"),
    [
        ([], False),
        ([told("new")], True),
        ([told("waiting", waiting=1)], True),
        ([told("archived", waiting=3)], True),
        ([told("archived")], False),
        ([told("archived", waiting=2, failed=2)], False),
        ([told("waiting", problem="the crawl: paused", waiting=5)], False),
        ([told("unreachable", problem="no name", waiting=5)], False),
        ([told("elsewhere")], False),
        ([told("archived"), told("waiting", waiting=1)], True),
    ],
)
def test_it_is_watched_while_something_waits_that_nothing_stands_in_the_way_of(
    rows: list[dict[str, Any]], is_at_work: bool
) -> None:
    assert _is_at_work(rows) is is_at_work


def test_two_urls_of_a_host_are_counted_once() -> None:
    rows = [
        told("archived"),
        told("archived", url="https://a.example/b"),
        told("new", url="https://b.example/"),
    ]
    assert _sums(rows) == "found 18, stored 8, waiting 0, failed 0"


def test_what_was_typed_counts_and_else_a_kept_seed_keeps_its_options() -> None:
    plain, bounded = "https://a.example/", "https://b.example/"
    nothing = dict.fromkeys(("scope", "depth", "content", "limit"))
    seeds = [Seed(url=plain, added=0), Seed(url=bounded, added=0, scope="page", every_s=86_400)]
    assert list(_begins([plain, bounded], nothing, seeds)) == [
        Begin(urls=(plain,)),
        Begin(urls=(bounded,), scope="page", every_s=86_400),
    ]
    assert list(_begins([bounded], {**nothing, "depth": 1}, seeds)) == [Begin(urls=(bounded,), depth=1)]
    assert list(_begins([], nothing, seeds)) == []
