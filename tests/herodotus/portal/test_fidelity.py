"""Does an archived page find what it would find live? The acid page, by names and in the box."""

import pytest

from scripts.replays.attacks import GOING, QUIET
from scripts.replays.command import acid_in, attacked_in
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
def test_no_attack_gains_anything_by_names() -> None:
    """Nothing arrives at the live web, at a port or by datagram; nothing of the portal or of another site is read. The
    same pages, live, are noticed by all three ears."""
    assert len(QUIET) + len(GOING) > 80
    assert attacked_in("chromium", ("names",)) == {"live": [], "names": []}
