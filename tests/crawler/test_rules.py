"""A rule that finds nothing at an origin rests there, and is told of."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from crawler.core.link import DOUBTFUL_RULES, MISSES_MAX, TRIES_MIN, Link, LinkKind, Rule, Yield, rests
from crawler.core.recrawl import Result, decode_known, encode_known
from crawler.frontier import DueEntry, Frontier
from crawler.frontier_rows import frontier_rows

DAY = 20_000


def test_a_firm_rule_rests_where_less_than_two_in_a_hundred_exist() -> None:
    assert not rests(Rule.IMPORTS, {})
    assert not rests(Rule.IMPORTS, {Rule.IMPORTS: Yield(TRIES_MIN - 1, 0, TRIES_MIN - 1)})
    assert rests(Rule.IMPORTS, {Rule.IMPORTS: Yield(TRIES_MIN, 3, 9)})
    assert not rests(Rule.IMPORTS, {Rule.IMPORTS: Yield(TRIES_MIN, 4, 9)})


def test_a_doubtful_rule_rests_after_a_few_misses_in_a_row() -> None:
    found = Yield()
    for _ in range(MISSES_MAX):
        assert not rests(Rule.STRINGS, {Rule.STRINGS: found})
        found = found.after(is_hit=False)
    assert rests(Rule.STRINGS, {Rule.STRINGS: found})
    assert not rests(Rule.STRINGS, {Rule.STRINGS: found.after(is_hit=True)})
    assert not rests(Rule.IMPORTS, {Rule.IMPORTS: found})


def test_of_guesses_where_chunks_lie_the_one_that_hit_is_kept() -> None:
    yields: dict[int, Yield] = {Rule.CHUNKS: Yield(3, 0, 3), Rule.CHUNKS_ROOT: Yield(1, 1, 0)}
    assert [rule for rule in Rule if rests(rule, yields)] == [
        Rule.CHUNKS,
        Rule.CHUNKS_BESIDE,
        Rule.CHUNKS_ABOVE,
    ]


def test_every_rule_has_a_name_of_its_own_and_fits_a_row() -> None:
    assert len({rule.label for rule in Rule}) == len(Rule)
    assert Rule.CHUNKS_ROOT.label == "chunks-root"
    for rule in Rule:
        link = Link("http://a.example/", LinkKind.IMAGE, is_doubtful=rule in DOUBTFUL_RULES, rule=rule)
        assert link.flags >> 2 == rule
        assert link.flags & 3 == 1 + 2 * (rule in DOUBTFUL_RULES)


@pytest.fixture
def frontier(tmp_path: Path) -> Iterator[Frontier]:
    made = Frontier(frontier_rows(tmp_path), day=DAY)
    yield made
    made.close()


def taken(frontier: Frontier, *links: Link) -> list[DueEntry]:
    frontier.add(links)
    entries = []
    for origin in frontier.activate(9):
        while (entry := frontier.take(origin)) is not None:
            entries.append(entry)
        frontier.retire(origin)
    return entries


def doubtful(name: str, rule: Rule = Rule.STRINGS) -> Link:
    return Link(f"http://a.example/{name}", LinkKind.REQUISITE, is_doubtful=True, rule=rule)


def test_what_a_resting_rule_finds_is_not_asked_for_and_what_others_find_is(frontier: Frontier) -> None:
    for entry in taken(frontier, *(doubtful(f"{n}.png") for n in range(MISSES_MAX))):
        assert not frontier.is_vain(entry)
        frontier.record(entry, Result.GONE)
    later = [doubtful("a.png"), doubtful("b.png", Rule.JSON), Link("http://a.example/c.png", LinkKind.IMAGE)]
    vain = {entry.known.url[17:]: frontier.is_vain(entry) for entry in taken(frontier, *later)}
    assert vain == {"a.png": True, "b.png": False, "c.png": False}


def test_a_second_visit_and_a_broken_answer_tell_nothing_of_a_rule(frontier: Frontier) -> None:
    for entry in taken(frontier, *(doubtful(f"{n}.png") for n in range(MISSES_MAX))):
        frontier.record(entry, Result.FAILED)
    for entry in taken(frontier):  # once more today
        frontier.record(entry, Result.GONE)
    (entry,) = taken(frontier, doubtful("a.png"))
    assert not frontier.is_vain(entry)
    known = decode_known(encode_known(entry.known))
    assert (known.rule, known.is_doubtful, known.is_embedded) == (Rule.STRINGS, True, True)
