"""Does the line of a page's changes show them where they were, and no more of them than can be seen?"""

import re

from herodotus.portal.timelines import WIDTH
from tests.herodotus.portal.library import HOME, Library, response


def shown(library: Library) -> str:
    return library.get(f"/web/*/{HOME}", {"accept": "text/html"}).body.decode()


def marks(page: str) -> list[int]:
    found = re.search(r'class="change" d="([^"]*)"', page)
    return [] if found is None else [int(x) for x in re.findall(r"M(\d+) 0v20", found[1])]


def test_changes_stand_where_they_were_between_the_first_look_and_the_last() -> None:
    page = shown(
        Library(
            response(HOME, "20260101", b"a"),
            response(HOME, "20260102", b"a"),
            response(HOME, "20260103", b"b"),
            response(HOME, "20260106", b"a"),
            visits=((HOME, "20260111"),),
        )
    )
    assert marks(page) == [200, 500]
    assert 'aria-label="2 changes between 2026-01-01 and 2026-01-11"' in page
    assert "M500 10H1000" in page, "seen unchanged to its end"


def test_without_a_change_there_is_no_line() -> None:
    page = shown(Library(response(HOME, "20260101", b"a"), response(HOME, "20260102", b"a")))
    assert "<svg" not in page


def test_two_versions_of_one_second_are_a_line_of_no_length() -> None:
    page = shown(Library(response(HOME, "20260101", b"a"), response(HOME, "20260101", b"b")))
    assert marks(page) == [0]


def test_there_are_no_more_marks_than_places() -> None:
    deposits = [
        response(HOME, f"20260101{hour:02}{minute:02}{second:02}", b"%d" % (hour + minute + second))
        for hour in range(2) for minute in range(30) for second in range(0, 60, 2)
    ]  # fmt: skip
    found = marks(shown(Library(*deposits)))
    assert found == sorted(set(found))
    assert len(found) <= WIDTH + 1
