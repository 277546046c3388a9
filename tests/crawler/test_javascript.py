"""The tokenizer finds the strings of scripts as a JavaScript engine does, and hostile scripts cost it no time."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.javascript import DEPTH_MAX, Token, TokenKind, text_of, tokens

HOSTILE_CHARS = 1_000_000
CPU_S_MAX = 10.0
"""Of a linear reader a tenth, also on a slow machine; of a quadratic one hours."""


def found(source: str, *words: str) -> list[tuple[str, str]]:
    """Kind and text of each token."""
    return [(token.kind.value, source[token.start : token.end]) for token in tokens(source, frozenset(words))]


def strings(source: str) -> list[str]:
    kinds = (TokenKind.STRING, TokenKind.TEMPLATE)
    return [text_of(source, token) for token in tokens(source) if token.kind in kinds]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a('x', \"y\")", ["x", "y"]),
        ("a = 'it\\'s' + \"\\\\\"", ["it's", "\\"]),
        ("// 'no'\n'yes' /* 'no' */ <!-- 'no'\n", ["yes"]),
        ("x = `whole` + 'y'", ["whole", "y"]),
        ("'line \\\n goes on'", ["line  goes on"]),
        (r"'\x41\u0042\u{43}\103\0\n\q'", ["ABCC\0\nq"]),
        (r"'\ud83d\ude00 \ud83d'", ["\U0001f600 \ufffd"]),
        ("'unended\n'next'", ["unended", "next"]),
        ("#!/usr/bin/node's\n'a'", ["a"]),
        ("", []),
    ],
)
def test_strings_have_the_values_that_a_script_would_see(source: str, expected: list[str]) -> None:
    assert strings(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a / 'x' / b", ["x"]),
        ("a = /'x/ + 'y'", ["y"]),
        ("f(/'/, 'y')", ["y"]),
        ("return /'/.test('y')", ["y"]),
        ("a.return / 'x' / 1", ["x"]),
        ("(a) / 'x' / 1", ["x"]),
        ("if (a) /'/.test('y')", ["y"]),
        ("while /* so */ (a) /'/.test('y')", ["y"]),
        ("a[0] / 'x' / 1", ["x"]),
        ("if (a) {} /'/.test('y')", ["y"]),
        ("a = {} / 'x' / 1", ["x"]),
        ("return {} / 'x' / 1", ["x"]),
        ("else {} /'/.test('y')", ["y"]),
        ("a++ / 'x' / 1", ["x"]),
        ("1. / 'x' / 1", ["x"]),
        ("'a' / 'x' / 1", ["a", "x"]),
        ("`a` / 'x' / 1", ["a", "x"]),
        ("/[/']/.test('y')", ["y"]),
        ("/a/g / 'x' / 1", ["x"]),
        ("a /* c */ / 'x' / 1", ["x"]),
        ("a = /* c */ /'/.exec('y')", ["y"]),
        ("b => {} /'/.exec('y')", ["y"]),
        ("a = / 'x'\n + 'y'", ["x", "y"]),
    ],
)
def test_a_slash_after_a_value_divides_and_begins_an_expression_elsewhere(
    source: str, expected: list[str]
) -> None:
    assert strings(source) == expected


def test_templates_continue_behind_their_substitutions_however_deep() -> None:
    source = "`a${ {b: `c${'d'}e`} }f` / 'x'"
    assert found(source) == [
        ("piece", "a"),
        ("open", "{"),
        ("open", "{"),
        ("piece", "c"),
        ("open", "{"),
        ("string", "'d'"),
        ("close", "}"),
        ("piece", "e"),
        ("close", "}"),
        ("close", "}"),
        ("piece", "f"),
        ("string", "'x'"),
    ]


def test_words_are_told_where_they_stand_whole_and_outside_of_strings() -> None:
    source = "import a from './a'; important('import'); x.import; $import; /import/; `import`"
    assert [
        token for token in tokens(source, frozenset(["import", "from"])) if token.kind is TokenKind.WORD
    ] == [
        Token(TokenKind.WORD, 0, 6),
        Token(TokenKind.WORD, 9, 13),
        Token(TokenKind.WORD, 44, 50),
    ]


HOSTILE = {
    "brackets": "(",
    "pairs": "{}",
    "slashes": "=/[",
    "lines of slashes": "= / " * 100 + "\n",
    "unended classes": "= /[ ",
    "templates": "`${",
    "quotes": "'",
    "back quotes": "`",
    "comments": "/*",
    "short comments": "/**/",
    "stars": "/" + "*" * 1_000,
    "comments and slashes": "/**/ / ",
    "arrows": "<!-",
    "escapes": "'\\",
    "heads": "if /**/()",
    "words": "import",
    "spaces": " ",
    "points": "1./",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_scripts_take_no_more_time_than_others(name: str) -> None:
    source = (HOSTILE[name] * HOSTILE_CHARS)[:HOSTILE_CHARS]
    began = time.process_time()
    for _ in tokens(source, frozenset(["import", "if"])):
        pass
    assert time.process_time() - began < CPU_S_MAX


def test_brackets_deeper_than_browsers_take_end_the_tokens() -> None:
    assert len(list(tokens("[" * (DEPTH_MAX + 5)))) == DEPTH_MAX
    assert len(list(tokens("`${" * (DEPTH_MAX + 5)))) == 2 * DEPTH_MAX + 1


@given(st.text(alphabet="ab1 .,;()[]{}'\"`$\\/*<!-=+>\n\r\u2028if", max_size=60))
def test_tokens_of_any_text_lie_behind_each_other(source: str) -> None:
    at = 0
    for token in tokens(source, frozenset(["if"])):
        assert at <= token.start <= token.end <= len(source)
        assert text_of(source, token) is not None
        at = token.end
