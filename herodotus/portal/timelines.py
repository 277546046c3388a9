"""When did a page change, at a glance? A line from the first look at it to the last, with a mark at each change.

The line is whole where the page was seen unchanged, and broken where nobody looked. It says the same as the list of
versions below it, so for those who do not see it a sentence is enough.
"""

from collections.abc import Sequence
from itertools import pairwise

from herodotus.core.warc import format_date
from herodotus.store.reader import Version

WIDTH = 1_000
"""Marks that would be nearer to each other are one, so there are no more than that."""


def timeline(versions: Sequence[Version]) -> str:
    """Oldest first; nothing where there is no change to be seen."""
    first_s, last_s = versions[0].first_seen_s, max(version.last_seen_s for version in versions)
    changes_s = [new.first_seen_s for old, new in pairwise(versions) if old.id.digest != new.id.digest]
    if not changes_s:
        return ""
    span_s = max(1, last_s - first_s)

    def place(time_s: int) -> int:
        return (time_s - first_s) * WIDTH // span_s

    marks = "".join(f"M{x} 0v20" for x in sorted(set(map(place, changes_s))))
    seen = {(place(one.first_seen_s), place(one.last_seen_s)) for one in versions}
    lines = "".join(f"M{start} 10H{end}" for start, end in sorted(seen) if end > start)
    first, last = format_date(first_s)[:10], format_date(last_s)[:10]
    count = f"{len(changes_s):,} change{'s' * (len(changes_s) != 1)}"
    paths = f'<path class="seen" d="{lines}"/><path class="change" d="{marks}"/>'
    return (
        f'<h2>Changes</h2>\n<figure class="timeline"><svg viewBox="0 0 {WIDTH} 20" preserveAspectRatio="none" '
        f'role="img" aria-label="{count} between {first} and {last}">{paths}</svg>'
        f"<figcaption><time>{first}</time><span>{count}</span><time>{last}</time></figcaption></figure>"
    )
