"""Does an archived page find what it would find live? The acid page, by names and in the box."""

import pytest

from scripts.replays.attacks import GOING, QUIET, RAW_PAGE, whose
from scripts.replays.command import EARS, SURE, acid_in, attacked_in
from scripts.replays.pages import IMPOSSIBLE, IMPOSSIBLE_IN_BOX


@pytest.mark.e2e
@pytest.mark.needs("chromium")
def test_a_page_finds_what_it_would_find_live_by_names_and_but_for_a_few_things_in_the_box() -> None:
    results = acid_in("chromium", is_live_too=False)
    assert set(results["names"].failed) == IMPOSSIBLE
    assert set(results["box"].failed) == IMPOSSIBLE_IN_BOX
    assert len(results["box"].passed) > 100
    assert results["names"].leaks == results["box"].leaks == []


@pytest.mark.e2e
@pytest.mark.needs("chromium")
def test_no_attack_gains_anything_by_names_or_in_the_box() -> None:
    """Nothing arrives at the live web, at a port or by datagram; nothing of the portal or of another site is read.
    Where nothing keeps the same page in, it is noticed by all three ears, and gains something of each kind."""
    assert len(QUIET) + len(GOING) > 80
    pages = {"names": range(RAW_PAGE), "box": [RAW_PAGE], "bare": [0]}
    found = attacked_in("chromium", pages)
    assert (found["names"], found["box"]) == ([], [])
    heard = " ".join(found["bare"])
    assert [one for one in EARS if one not in heard] == []
    assert len(whose(found["bare"])) > 30
    assert whose(found["bare"]) >= SURE
