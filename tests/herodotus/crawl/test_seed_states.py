"""What a person is told of a seed: one word, what stands in the way, and when it is visited next."""

from dataclasses import replace

import pytest

from crawler.core.politeness import Closed
from crawler.core.recrawl import Known, Result
from crawler.frontier import LEFT, NEVER
from herodotus.crawl.seed_states import SeedSight, SeedStanding, SeedState, state_of

URL = "https://vote.example/"
CLOSED = Closed(since=100.0, until=160.0, problem="connection refused")
SIGHT = SeedSight(
    known=Known(url=URL, due_day=9),
    today=9,
    is_over=False,
    is_ours=True,
    closed=None,
    host_problem="",
    crawl_problem="",
    retry_at=None,
    due_at=5_000.0,
)


def visited(result: Result, *, due_day: int = 10, failures: int = 0) -> Known:
    return Known(url=URL, due_day=due_day, last_day=9, last_result=result.value, failures=failures)


@pytest.mark.parametrize(
    ("changes", "standing", "problem", "next_visit"),
    [
        ({}, SeedStanding.WAITING, "", None),
        ({"crawl_problem": "the crawl: paused"}, SeedStanding.WAITING, "the crawl: paused", None),
        ({"known": None}, SeedStanding.NEW, "", None),
        ({"known": visited(Result.CHANGED)}, SeedStanding.ARCHIVED, "", 5_000.0),
        ({"known": visited(Result.GONE)}, SeedStanding.REFUSED, "there is no such page (404 or 410)", 5_000.0),
        ({"known": visited(Result.REFUSED)}, SeedStanding.REFUSED, "the site refuses it (4xx)", 5_000.0),
        (
            {"known": visited(Result.FORBIDDEN), "host_problem": "robots.txt could not be fetched"},
            SeedStanding.REFUSED,
            "robots.txt could not be fetched",
            5_000.0,
        ),
        (
            {"known": visited(Result.FAILED, due_day=9, failures=2), "retry_at": 777.0, "host_problem": "timeout"},
            SeedStanding.FAILED,
            "failed 2 times in a row: timeout",
            777.0,
        ),
        ({"known": visited(Result.FAILED, failures=5)}, SeedStanding.FAILED, "failed 5 times in a row", 5_000.0),
        ({"known": visited(Result.FAILED, due_day=9, failures=1)}, SeedStanding.FAILED, "failed once", None),
        ({"is_ours": False}, SeedStanding.ELSEWHERE, "", None),
        ({"known": Known(url=URL, due_day=LEFT)}, SeedStanding.ELSEWHERE, "", None),
        ({"is_over": True, "closed": CLOSED}, SeedStanding.OVER, "", None),
        ({"known": Known(url=URL, due_day=NEVER)}, SeedStanding.OVER, "", None),
    ],
)  # fmt: skip
def test_each_state_has_its_words(
    changes: dict[str, object], standing: SeedStanding, problem: str, next_visit: float | None
) -> None:
    found = state_of(replace(SIGHT, **changes))  # type: ignore[arg-type]  # names and types of the fields above
    assert found == SeedState(standing=standing, problem=problem, next_visit=next_visit)


def test_a_seed_whose_site_is_away_says_why_since_when_and_when_it_is_tried_again() -> None:
    told = SeedState(
        standing=SeedStanding.UNREACHABLE, problem="connection refused", since=100.0, next_visit=160.0
    )
    assert state_of(replace(SIGHT, closed=CLOSED)) == told
    assert state_of(replace(SIGHT, closed=CLOSED, is_ours=False)) == replace(told, next_visit=None)
