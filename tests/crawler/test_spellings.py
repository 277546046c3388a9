"""Which addresses are taken for each other, and how far apart they are."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core import urls
from crawler.core.urls import RULES, callbacks, level_of, nearest, stem, words_of

EXAMPLES = [(rule, asked, held) for rule in RULES for asked, held in rule.examples]
HOST = "http://a.example"


@pytest.mark.parametrize(("rule", "asked", "held"), EXAMPLES)
def test_each_rule_does_what_its_example_says_and_no_other_would(
    rule: urls.Rule, asked: str, held: str
) -> None:
    assert (level_of(asked, held), words_of(asked, held)) == (rule.level, rule.name)
    assert stem(asked) == stem(held)
    assert words_of(held, asked) == rule.name


def test_each_rule_has_an_example_and_levels_grow() -> None:
    assert all(rule.examples for rule in RULES)
    assert [rule.level for rule in RULES] == sorted(rule.level for rule in RULES)


@pytest.mark.parametrize(
    ("asked", "held"),
    [
        ("HTTP://A.EXAMPLE:80/%7eb#part", f"{HOST}/~b"),
        ("http://bücher.example/", "http://xn--bcher-kva.example/"),
        (f"{HOST}/a/../b", f"{HOST}/b"),
        (f"{HOST}/b?utm_source=x", f"{HOST}/b"),
    ],
)
def test_what_has_one_canonical_form_is_not_bent(asked: str, held: str) -> None:
    assert (level_of(asked, held), words_of(asked, held)) == (0, "")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"{HOST}/b", f"{HOST}/c"),
        (f"{HOST}/?sid=1", f"{HOST}/?sid=2"),  # a story, perhaps
        (f"{HOST}/?ts=12345", f"{HOST}/?ts=12346"),
        (f"{HOST}/?a=1", f"{HOST}/?a=2"),
        (f"{HOST}:8080/", f"{HOST}/"),
        ("http://www.example/", "http://example/"),  # a name of one label may be another machine
        (f"{HOST}/index.html.bak", f"{HOST}/"),
        ("http://www123.example.org/", "http://example.org/"),
        ("urn:x:a", "urn:x:A"),
        ("http://", f"{HOST}/"),
    ],
)
def test_what_means_another_page_is_another_page(one: str, other: str) -> None:
    assert level_of(one, other) is None
    assert words_of(one, other) == ""


def test_all_that_was_bent_is_told() -> None:
    asked, held = (
        "https://a.example/Dir/?b=1&a=2&_=1778300000000",
        "http://www.a.example/dir/index.html?a=2&b=1",
    )
    assert words_of(asked, held) == "scheme, www, slash, order, cache, case"
    assert stem(asked) == stem(held) == "https://a.example/dir?a=2&b=1"


def test_the_least_bent_answer_and_case_only_where_it_is_plain() -> None:
    asked = [f"{HOST}/Page"]
    assert nearest(asked, [f"{HOST}/page", "https://www.a.example/Page"]) == ["https://www.a.example/Page"]
    assert nearest(asked, [f"{HOST}/page"]) == [f"{HOST}/page"]
    both = [f"{HOST}/page", f"{HOST}/PAGE"]
    assert nearest(asked, both) == []
    assert nearest(asked, both, is_sure=False) == both
    assert nearest(asked, [f"{HOST}/other"]) == []


def test_arguments_are_in_one_order_whatever_their_case() -> None:
    assert stem(f"{HOST}/?B=1&a=2") == stem(f"{HOST}/?b=1&A=2")


def test_callbacks_are_names() -> None:
    assert callbacks(f"{HOST}/?callback=jQuery1&x", f"{HOST}/?x&jsonp=old.name") == (b"jQuery1", b"old.name")
    assert callbacks(f"{HOST}/?callback=alert(1)//", f"{HOST}/?callback=b") is None
    assert callbacks(f"{HOST}/?x=1", f"{HOST}/?callback=b") is None


_TEXT = st.text("aAbZ09-._~/%?&=;#:(S)x1", max_size=30)


@given(st.sampled_from(["http", "https"]), st.sampled_from(["", "www.", "www2.", "WWW."]), _TEXT)
def test_the_quick_way_to_a_stem_and_the_rules_agree(scheme: str, www: str, rest: str) -> None:
    url = f"{scheme}://{www}example.org/{rest}"
    quick = stem(url)
    plain, urls._PLAIN_URL = urls._PLAIN_URL, re.compile("(?!)")
    try:
        assert stem(url) == quick
    finally:
        urls._PLAIN_URL = plain
    assert stem(quick) == quick
    assert level_of(url, quick) is not None
