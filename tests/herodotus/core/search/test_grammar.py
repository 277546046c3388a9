"""What a reader's line means, and what is said of one that means nothing."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.errors import QuestionError
from herodotus.core.search.grammar import FIELDS, is_in_words, parse
from herodotus.core.search.questions import (
    DEPTH_MAX,
    LEAVES_MAX,
    And,
    Dated,
    Dating,
    Field,
    Name,
    Node,
    Not,
    Or,
    Order,
    Phrase,
    Question,
    Word,
    depth_of,
    is_answerable,
    leaves_of,
)
from herodotus.core.warc import TIME_MAX_S

NOW_S = 1_779_270_000  # 2026-05-20 09:40 UTC
PAGE = Path(__file__).parents[4] / "docs" / "look-up" / "search.md"

FERRY, BELL, BOAT = Word("ferry"), Word("bell"), Word("boat")
TREES: dict[str, Node] = {
    "ferry": FERRY,
    "  ferry\tbell\n": And((FERRY, BELL)),
    '"ferry bell"': Phrase("ferry bell"),
    "„ferry bell“": Phrase("ferry bell"),
    "“ferry” «bell»": And((Phrase("ferry"), Phrase("bell"))),
    '"ferry"bell': And((Phrase("ferry"), BELL)),
    "ferry AND bell": And((FERRY, BELL)),
    "ferry and bell": And((FERRY, Word("and"), BELL)),
    "ferry -bell": And((FERRY, Not(BELL))),
    "ferry NOT bell": And((FERRY, Not(BELL))),
    "NOT NOT ferry": FERRY,
    "-bell ferry": And((Not(BELL), FERRY)),
    'ferry -"net loft"': And((FERRY, Not(Phrase("net loft")))),
    "ferry -(bell OR boat)": And((FERRY, Not(Or((BELL, BOAT))))),
    "ferry-bell": Word("ferry-bell"),
    "ferry - bell & boat": And((FERRY, BELL, BOAT)),
    "ferry OR boat": Or((FERRY, BOAT)),
    "ferry or boat": And((FERRY, Word("or"), BOAT)),
    "bell ferry OR boat": And((BELL, Or((FERRY, BOAT)))),
    "ferry OR boat bell": And((Or((FERRY, BOAT)), BELL)),
    "(ferry bell) OR boat": Or((And((FERRY, BELL)), BOAT)),
    "ferry (bell boat)": And((FERRY, BELL, BOAT)),
    "ferry OR (boat OR bell)": Or((FERRY, BOAT, BELL)),
    "((ferry))": FERRY,
    "ferry ()": FERRY,
    "site:Example.ORG": Field(Name.SITE, "example.org"),
    "site:https://example.org/": Field(Name.SITE, "example.org"),
    "site:*.example.org": Field(Name.SITE, "example.org"),
    "site:Bücher.example": Field(Name.SITE, "xn--bcher-kva.example"),
    "linksto:org": Field(Name.LINKSTO, "org"),
    "-site:example.org ferry": And((Not(Field(Name.SITE, "example.org")), FERRY)),
    "type:pdf": Field(Name.TYPE, "application/pdf"),
    "TYPE:text/CSV": Field(Name.TYPE, "text/csv"),
    "lang:DE": Field(Name.LANG, "de"),
    'title:"Ferry bell"': Field(Name.TITLE, "Ferry bell"),
    "inurl:news/2026": Field(Name.INURL, "news/2026"),
    "status:404": Field(Name.STATUS, "404"),
    "10:30": Word("10:30"),
    "note:": Word("note:"),
    '5" disk': And((Word('5"'), Word("disk"))),
    "都首": Word("都首"),
    "/news/": Word("/news/"),
    "home/~ferry": Word("home/~ferry"),
    '"a * b"': Phrase("a * b"),
}


@pytest.mark.parametrize("text", TREES)
def test_a_line_means_one_tree(text: str) -> None:
    assert parse(text, NOW_S) == Question(tree=TREES[text])


DAY_S = 86_400
MAY_1_S = 1_777_593_600
DATES = {
    "on:2026-05-01": Dated(Dating.ON, MAY_1_S + DAY_S - 1, MAY_1_S + DAY_S - 1),
    "on:20260501": Dated(Dating.ON, MAY_1_S + DAY_S - 1, MAY_1_S + DAY_S - 1),
    "on:2026-05": Dated(Dating.ON, MAY_1_S + 31 * DAY_S - 1, MAY_1_S + 31 * DAY_S - 1),
    "on:today": Dated(Dating.ON, MAY_1_S + 20 * DAY_S - 1, MAY_1_S + 20 * DAY_S - 1),
    "on:Yesterday": Dated(Dating.ON, MAY_1_S + 19 * DAY_S - 1, MAY_1_S + 19 * DAY_S - 1),
    "between:2026-05": Dated(Dating.BETWEEN, MAY_1_S, MAY_1_S + 31 * DAY_S - 1),
    "between:2026-05-01..2026-05-01": Dated(Dating.BETWEEN, MAY_1_S, MAY_1_S + DAY_S - 1),
    "appeared:2026-05..": Dated(Dating.APPEARED, MAY_1_S, TIME_MAX_S),
    "vanished:..2026-05-01": Dated(Dating.VANISHED, 0, MAY_1_S + DAY_S - 1),
    "on:1970": Dated(Dating.ON, 365 * DAY_S - 1, 365 * DAY_S - 1),
    "between:2024-02": Dated(Dating.BETWEEN, 1_706_745_600, 1_706_745_600 + 29 * DAY_S - 1),
}


@pytest.mark.parametrize("text", DATES)
def test_a_date_is_of_the_whole_question(text: str) -> None:
    assert parse(f"ferry {text} bell", NOW_S) == Question(tree=And((FERRY, BELL)), dated=DATES[text])


def test_an_order_is_said_beside_a_date() -> None:
    asked = parse("order:Newest ferry on:2026", NOW_S)
    assert (asked.order, asked.dated is not None) == (Order.NEWEST, True)


REFUSED = {
    "": "the question has no word; write a word to look for",
    "&": "the question has no word; write a word to look for",
    "order:newest": "the question has no word; write a word to look for",
    "(ferry": "( is never closed; write `)` where its part ends",
    "ferry)": ") closes nothing; write `(` before it, or leave it out",
    "OR ferry": "OR needs a word on each side; write `ferry OR boat`, or `or` for the word",
    "ferry OR &": "OR needs a word on each side; write `ferry OR boat`, or `or` for the word",
    "ferry NOT": "- stands before nothing; write the word directly after it",
    'title:"ferry': 'title:"ferry has a quotation mark at its begin only; write one at its end, too',
    "*": "* has a `*`, and parts of words cannot be looked for; write the whole word: its other forms are found, too",
    "title:fer*": "title:fer* has a `*`, and parts of words cannot be looked for; "
    "write the whole word: its other forms are found, too",
    "ferry^3": "ferry^3 asks for likeness or weight, which cannot be set; write the word alone",
    "ferry OR -bell": "a part of the question says only what must not be there; "
    "add a word that must be there, as in `ferry -bell`",
    "ferry -(-bell -boat)": "a part of the question says only what must not be there; "
    "add a word that must be there, as in `ferry -bell`",
    "ferry -on:2026": "on:2026 is about the whole question; write it outside of parentheses, OR and minus",
    "ferry OR on:2026": "on:2026 is about the whole question; write it outside of parentheses, OR and minus",
    "on:2026 OR ferry": "on:2026 is about the whole question; write it outside of parentheses, OR and minus",
    "(ferry order:newest)": "order:newest is about the whole question; write it outside of parentheses, OR and minus",
    "ferry order:best": "order:best is no order; there are relevance, oldest, newest, versions",
    "ferry on:2026..2027": "on:2026..2027 is one date; write `between:2026..2027` for several days",
    "ferry between:..": "between:.. has no date; write `between:2026-05..2026-06`",
    "ferry on:May": "on:May has no date that could be read; write `2026`, `2026-05` or `2026-05-01`",
    "ferry on:2026-13": "on:2026-13 has no month 13; write `2026`, `2026-05` or `2026-05-01`",
    "ferry on:2106": "on:2106 is outside of the years 1970 to 2105; write `2026`, `2026-05` or `2026-05-01`",
    "ferry on:٢٠٢٦": "on:٢٠٢٦ has no date that could be read; write `2026`, `2026-05` or `2026-05-01`",
    "see http://example.org/": "http://example.org/ is an address; "
    "ask for it alone, or for words with `inurl:` or `site:`",
    "site:exa_mple..org": "site:exa_mple..org names no host; "
    "write a name, as in `site:example.org`; for a part of the address write `inurl:`",
    "lang:german": "lang:german names no language; write its two letters, as in `lang:de`",
    "status:4xx": "status:4xx is no status of HTTP; write its three digits, as in `status:404`",
    "type:picture": "type:picture names no type of content; write `type:html`, `type:pdf` or `type:text/csv`",
    "inurl:--": "inurl:-- has no word; write one, as in `inurl:ferry`",
    "b" * 65: "b" * 65 + " has 65 letters, and no index holds so long a word; use 64 at most",
    "b " * 65: "the question has 65 words and conditions; use 64 at most",
    "(" * 8 + "b" + ")" * 8: "there are too many parentheses inside one another; use 7 at most",
    "b" * 2_049: "the question has 2,049 bytes; use 2,048 at most",
    "é " * 50_000: "the question has 150,000 bytes; use 2,048 at most",
    "ferry" + " OR ferry" * 1_000_000: "the question has 9,000,005 bytes; use 2,048 at most",
}


@pytest.mark.parametrize("text", REFUSED, ids=lambda text: text[:20])
def test_what_is_not_understood_is_told(text: str) -> None:
    with pytest.raises(QuestionError) as caught:
        parse(text, NOW_S)
    assert str(caught.value) == REFUSED[text]


def test_a_line_of_the_greatest_size_is_understood() -> None:
    words = " ".join(["b" * 31] * LEAVES_MAX)
    assert len(words) == 2_047
    assert len(list(leaves_of(parse(words, NOW_S).tree))) == LEAVES_MAX
    assert parse("(" * 7 + "ferry" + ")" * 7, NOW_S).tree == FERRY
    deep = "a -(b -(c -(d -(e -(f -(g -(h)))))))"
    with pytest.raises(QuestionError, match="parentheses inside one another"):
        parse(deep, NOW_S)


_PIECES = st.sampled_from(
    [
        "ferry",
        "bell",
        '"',
        '"a b"',
        "(",
        ")",
        "-",
        "OR",
        "AND",
        "NOT",
        " ",
        "*",
        "/",
        "..",
        "都",
        "\0",
        "\ud800",
    ]
    + [f"{name}:" for name in (*FIELDS, "http", "x")]
    + ["2026", "2026-05", "example.org", "404", "newest", "de", "٣", "İ", "̈"]
)


def _understood(text: str) -> Question | QuestionError:
    try:
        return parse(text, NOW_S)
    except QuestionError as error:
        return error


@given(st.one_of(st.text(max_size=300), st.lists(_PIECES, max_size=60).map("".join)))
def test_any_line_is_a_bounded_question_or_a_sentence(text: str) -> None:
    asked = _understood(text)
    if isinstance(asked, QuestionError):
        assert asked.problem
        assert asked.hint
        assert len(str(asked)) < 700
        return
    assert is_answerable(asked.tree)
    assert depth_of(asked.tree) <= DEPTH_MAX
    assert 1 <= len(list(leaves_of(asked.tree))) <= LEAVES_MAX
    is_in_words(text)


def _rows(heading: str) -> list[tuple[str, str]]:
    section = PAGE.read_text().partition(f"## {heading}\n")[2].partition("\n## ")[0]
    cells = [row.strip("|").split(" | ") for row in section.splitlines() if row.startswith("| `")]
    return [(cell, rest[0].strip()) for first, *rest in cells for cell in re.findall(r"`([^`]+)`", first)]


def test_each_example_of_the_page_is_understood() -> None:
    examples = [
        text for heading in ("What you can write", "When", "In which order") for text, _ in _rows(heading)
    ]
    assert len(examples) == 29
    for text in examples:
        parse(text, NOW_S)


def test_the_page_tells_what_is_answered_to_what_is_not_understood() -> None:
    rows = _rows("What is not understood")
    assert len(rows) == 13
    for text, told in rows:
        with pytest.raises(QuestionError) as caught:
            parse(text, NOW_S)
        assert str(caught.value) == told


ADDRESSES = (
    "example.org", "https://example.org/a", "HTTP://localhost/", "localhost", "localhost:8080", "machine:80/x",
    "*.example.org", "example.org/?q=a:b", "[::1]/", "ftp://example", "10.0.0.1", "https://example.org/a page",
)  # fmt: skip
WORDS = (
    "ferry",
    "ferry bell",
    '"ferry"',
    "site:example.org",
    "and/or",
    "ferry.",
    "on:2026",
    "foo:bar",
    "c++",
    "",
)


def test_the_box_tells_words_from_addresses() -> None:
    assert [text for text in ADDRESSES if is_in_words(text)] == []
    assert [text for text in WORDS if not is_in_words(text)] == []
