"""When did a page change, at a glance? A line from the first look at it to the last, with a mark at each change.

The line is whole where the page was seen unchanged, and broken where nobody looked. It says the same as the list of
versions below it, so for those who do not see it a sentence is enough.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from herodotus.store import Version

WIDTH = 1_000
"""Marks that would be nearer to each other are one, so there are no more than that."""


class Timeline(NamedTuple):
    first_s: int
    last_s: int
    changes: int
    marks: str
    """As the data of a path: where it changed."""
    seen: str
    """From where to where one content was seen."""
    width: int = WIDTH


def timeline(versions: Sequence[Version]) -> Timeline | None:
    """Oldest first; None where there is no change to be seen."""
    first_s, last_s = versions[0].first_seen_s, max(version.last_seen_s for version in versions)
    changes_s = [new.first_seen_s for old, new in pairwise(versions) if old.id.digest != new.id.digest]
    if not changes_s:
        return None
    span_s = max(1, last_s - first_s)

    def place(time_s: int) -> int:
        return (time_s - first_s) * WIDTH // span_s

    marks = "".join(f"M{x} 0v20" for x in sorted(set(map(place, changes_s))))
    seen = {(place(one.first_seen_s), place(one.last_seen_s)) for one in versions}
    lines = "".join(f"M{start} 10H{end}" for start, end in sorted(seen) if end > start)
    return Timeline(first_s, last_s, len(changes_s), marks, lines)
