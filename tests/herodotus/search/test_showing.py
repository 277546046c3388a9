"""Which lines does a reader see of a page, and which pages are told as one?"""

import pytest

from herodotus.core.removals import Removals, subject_of
from herodotus.core.search.answers import Run, Shown, Snippet
from herodotus.core.search.grammar import parse
from herodotus.core.search.text import PageText
from herodotus.core.warc import parse_digits
from herodotus.search.results import results
from herodotus.search.snippets import SNIPPET_CHARS, snippet_of
from tests.herodotus.portal.library import SITE, Library, response
from tests.herodotus.search.archives import words_in

NOW_S = parse_digits("20260601000000")


def written(snippet: Snippet) -> str:
    return "".join(f"[{run.text}]" if run.is_marked else run.text for run in snippet)


def english(body: str, *, description: str = "", rest: str = "") -> PageText:
    return PageText(body=body, language="en", description=description, rest=rest)


def test_words_are_marked_in_their_forms_and_nothing_else_is() -> None:
    text = english("The ferries left.\n\n  A Ferry's bell, ferryman!  Bells rang; doorbells did not.")
    shown = written(snippet_of(text, ["ferry", "bell"]))
    assert shown == "The [ferries] left. A [Ferry]'s [bell], ferryman! [Bells] rang; doorbells did not."


def test_accents_and_scripts_without_spaces_are_marked_as_they_are_found() -> None:
    german = PageText(body="Die Glocken läuten in Łódź", language="de")
    assert written(snippet_of(german, ["glocke", "lodz"])) == "Die [Glocken] läuten in [Łódź]"
    japanese = PageText(body="日本の首都は東京です", language="ja")
    assert written(snippet_of(japanese, ["首", "都"])) == "日本の[首都]は東京です"


def test_the_lines_with_most_different_words_are_shown() -> None:
    far = "ferry " + "filler words and more of them " * 40
    text = english(f"{far} here the ferry has a bell {far}")
    snippet = snippet_of(text, ["ferry", "bell"])
    shown = written(snippet)
    assert "here the [ferry] has a [bell]" in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len("".join(run.text for run in snippet)) <= SNIPPET_CHARS + 4


def test_words_beside_each_other_are_shown_before_words_apart() -> None:
    gap = "and so on " * 60
    text = english(f"a bell is not a ferry {gap} but the ferry bell rings")
    assert "[ferry] [bell]" in written(snippet_of(text, ["ferry", "bell"]))


def test_a_page_without_the_words_in_its_texts_shows_how_it_begins() -> None:
    assert snippet_of(english("Nothing of it."), ["ferry"]) == (Run("Nothing of it."),)
    described = english("body", description="What it is about.")
    assert snippet_of(described, ["ferry"]) == (Run("What it is about."),)
    menu = english("body", rest="Home Ferry Contact")
    assert written(snippet_of(menu, ["ferry"])) == "Home [Ferry] Contact"
    assert snippet_of(PageText(), ["ferry"]) == ()


@pytest.mark.parametrize(
    "body", ["ferry" * 200_000, "ferry " * 100_000, "(" * 300_000, "\u200b" * 1_000, "a\u0301" * 100_000]
)
def test_a_hostile_text_is_cut_soon(body: str) -> None:
    assert sum(len(run.text) for run in snippet_of(english(body), ["ferry", "(", "a"])) <= 2 * SNIPPET_CHARS


STORY = " ".join(f"The ferry left the harbour for the {n}th time, and nobody looked." for n in range(1, 30))


def found(library: Library, text: str) -> list[Shown]:
    index = words_in(library.catalogue)
    asked = parse(text, NOW_S)
    return list(results(index, library.catalogue, asked, now_s=NOW_S, limit=10, after=None).shown)


def page(title: str, body: str) -> bytes:
    return f"<html lang=en><title>{title}</title><article><p>{body}</p></article>".encode()


def test_pages_with_nearly_the_same_text_are_told_as_one() -> None:
    library = Library(
        response(f"{SITE}/a", "2026", page("Story", STORY)),
        response(f"{SITE}/print", "2026", page("Story", f"Printed today. {STORY}")),
        response(f"{SITE}/other", "2026", page("Other", f"A ferry {'is not what this is about, but ' * 20}")),
    )
    shown = found(library, "ferry")
    told = {one.url: [other.url for other in one.alike] for one in shown}
    assert sorted([*told, *(url for alike in told.values() for url in alike)]) == [
        f"{SITE}/a", f"{SITE}/other", f"{SITE}/print",
    ]  # fmt: skip
    assert told[f"{SITE}/other"] == []
    assert len(told) == 2


def test_a_hit_is_told_by_the_bytes_of_its_own_day() -> None:
    library = Library(
        response(f"{SITE}/a", "20260101", page("Winter", "The bell of January rang")),
        response(f"{SITE}/a", "20260201", page("Spring", "The bell of February rang")),
        response(f"{SITE}/a", "20260301", b"gone", status=404),
    )
    (one,) = found(library, "bell on:2026-01-15")
    assert (one.title, one.status, one.versions) == ("Winter", 200, 1)
    assert "January" in written(one.snippet)
    assert (one.first_s, one.until_s) == (parse_digits("20260101000000"), parse_digits("20260201000000"))
    (one,) = found(library, "bell")
    assert (one.title, one.versions, one.until_s) == ("Spring", 2, parse_digits("20260301000000"))
    (one,) = found(library, "status:404")
    assert (one.title, one.status, one.snippet, one.until_s) == ("", 404, (), None)


def test_what_was_removed_is_in_no_answer() -> None:
    """The index may say it for a while."""
    library = Library(
        response(f"{SITE}/a", "2026", page("A", "The bell")),
        response(f"{SITE}/b", "2026", page("B", "The bell")),
    )
    index = words_in(library.catalogue)
    library.store.archive.removed = Removals.of_subjects([subject_of("url", f"{SITE}/a")])
    asked = parse("bell", NOW_S)
    found = results(index, library.catalogue, asked, now_s=NOW_S, limit=10, after=None)
    assert found.answer.pages == 2
    assert [one.title for one in found.shown] == ["B"]
