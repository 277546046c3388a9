"""The organisations that are compared all keep every page, so that what is compared is the same work."""

import hashlib
import random
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from scripts.benches.organisations import ORGANISATIONS, Organisation, Page, Way

Make = Callable[[Path, int, int], Organisation]


def pages(rng: random.Random, count: int) -> list[Page]:
    made = []
    for number in range(count):
        identifier = hashlib.sha1(b"%d" % number, usedforsecurity=False).digest()
        made.append((identifier, rng.randbytes(rng.randrange(1, 6_000))))
    return made


@pytest.mark.parametrize("way", list(Way))
@pytest.mark.parametrize("make", ORGANISATIONS)
def test_every_page_is_read_and_streamed_once(make: Make, way: Way, tmp_path: Path) -> None:
    rng = random.Random(4)
    first = pages(rng, 80)
    # So little room that buckets overflow, and a buffer that is emptied several times.
    with closing(make(tmp_path, 60_000, 20_000)) as organisation:
        organisation.add(sorted(first) if way is Way.SORTED else first, way)
        organisation.finish()
        assert {identifier: organisation.read(identifier) for identifier, _ in first} == dict(first)
        assert sorted(organisation.stream()) == sorted(first)


@pytest.mark.parametrize("make", ORGANISATIONS)
def test_a_stream_gives_what_was_there_when_it_began(make: Make, tmp_path: Path) -> None:
    rng = random.Random(5)
    everything = pages(rng, 60)
    with closing(make(tmp_path, 90_000, 20_000)) as organisation:
        organisation.add(everything[:30], Way.BUFFERED)
        organisation.finish()
        seen, later = [], iter(everything[30:])
        for page in organisation.stream():
            seen.append(page)
            organisation.add([next(later)], Way.RANDOM)
        if organisation.name != "hashed-log (paper)":  # its nodes are not read from while pages are added
            assert sorted(seen) == sorted(everything[:30])


@pytest.mark.parametrize("make", ORGANISATIONS)
def test_a_page_that_comes_again_is_replaced_or_newer(make: Make, tmp_path: Path) -> None:
    rng = random.Random(6)
    old = pages(rng, 50)
    new = [(identifier, rng.randbytes(100)) for identifier, _ in old[:20]]
    with closing(make(tmp_path, 60_000, 20_000)) as organisation:
        organisation.add(old, Way.BUFFERED)
        organisation.add(new, Way.BUFFERED)
        organisation.finish()
        if organisation.name != "log":  # it has both until it is compacted
            assert {identifier: organisation.read(identifier) for identifier, _ in new} == dict(new)
