"""Whatever the power cut leaves, nothing acknowledged is lost; and the same test finds a store that lies."""

from collections.abc import Sequence

import pytest

from herodotus.store import deletion
from herodotus.store.engine import Archive
from herodotus.store.log import Item
from herodotus.store.spools import Lying
from tests.herodotus.store.power import Workload, compacting, cuts, sealing


class Unflushed(Archive):
    """The mutant that forgets the flush."""

    def _perform(self, items: Sequence[Item], notes: list[Item], buffers: list[Lying]) -> None:
        self._apply_committed(items, notes, buffers, self.log.write(buffers))


class Hasty(Archive):
    """The mutant that lets readers see what is not durable yet."""

    def _perform(self, items: Sequence[Item], notes: list[Item], buffers: list[Lying]) -> None:
        self._apply_committed(items, notes, buffers, self.log.write(buffers))
        self.log.flush()


def test_no_cut_of_a_short_workload_loses_what_was_acknowledged() -> None:
    problems = [found for found in cuts(Workload(commits=5), seed=1, images=4) if found[1]]
    assert problems == []


def test_a_store_that_does_not_flush_is_found_out() -> None:
    assert any("lost" in problem for _, found in cuts(Workload(Unflushed), 1, 6) for problem in found)


def test_a_store_that_shows_captures_before_they_are_durable_is_found_out() -> None:
    found = {problem for _, found in cuts(Workload(Hasty), 1, 6) for problem in found}
    assert "a capture that was seen is lost" in found


def test_no_cut_while_sealing_or_compacting_loses_what_was_acknowledged() -> None:
    workload = Workload(upkeep=(sealing, compacting), commits=5)
    problems = [found for found in cuts(workload, seed=2, images=2, step=3) if found[1]]
    assert problems == []


SLICED = Workload(upkeep=(sealing, compacting), slices=2, deletes_originals=True)


def test_no_cut_of_an_archive_on_two_slices_loses_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletion, "MOVED_CAPTURES_MAX", 1)
    problems = [found for seed in range(3) for found in cuts(SLICED, seed, images=2, step=11) if found[1]]
    assert problems == []


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_ten_thousand_power_cuts_of_an_archive_on_two_slices_lose_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One of them is missing now and then, and originals are deleted, in the smallest steps."""
    monkeypatch.setattr(deletion, "MOVED_CAPTURES_MAX", 1)
    points = 0
    for seed in range(1_000):
        for changes, problems in cuts(SLICED, seed, images=4):
            assert problems == [], f"seed={seed} changes={changes}"
            points += 1
        if points >= 10_000:
            break
    assert points >= 10_000


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_ten_thousand_power_cuts_during_upkeep_lose_nothing() -> None:
    points = 0
    for seed in range(1_000):
        for changes, problems in cuts(Workload(upkeep=(sealing, compacting)), seed, images=4):
            assert problems == [], f"seed={seed} changes={changes}"
            points += 1
        if points >= 10_000:
            break
    assert points >= 10_000


@pytest.mark.sweep
@pytest.mark.timeout(1800)
def test_ten_thousand_power_cuts_lose_nothing() -> None:
    points = 0
    for seed in range(1_000):
        for changes, problems in cuts(Workload(), seed, images=8):
            assert problems == [], f"seed={seed} changes={changes}"
            points += 1
        if points >= 10_000:
            break
    assert points >= 10_000
