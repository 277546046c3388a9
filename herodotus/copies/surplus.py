"""Which captures lie outside this peer's share, and which of them may be deleted? A look over the archive now and
then."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from dht.core.arcs import Arcs
from herodotus.copies.shared_state import Parts
from herodotus.core.copies import PeerKey
from herodotus.core.copies.ledger import Group, shared_with
from herodotus.core.errors import ArchiveError
from herodotus.core.reconciliation import Range, arcs_of, in_directory, ranges_of
from herodotus.store import Holdings

logger = logging.getLogger(__name__)

SURPLUS_DIRECTORIES_MAX = 256
"""Of 16 bits, looked at in one survey: what else is not ours waits until these are gone."""
DIRECTORIES = 1 << 16
"""All there are."""
DEED_S = 300.0
"""From the look at promises to the end of what is done on their strength: they are kept for 20 minutes longer."""


@dataclass(slots=True)
class ShareSurvey:
    counts: dict[Range, int] = field(default_factory=dict)
    """Captures in each range of what is ours, and of what is not."""
    own: list[Group] = field(default_factory=list)
    surplus: list[Group] = field(default_factory=list)
    standing: tuple[int, int, int] = (-1, -1, -1)
    """What it was made from; while that is the same, so is it."""

    def surplus_of(self, peer: PeerKey) -> Arcs:
        return shared_with(self.surplus, peer)


async def survey(parts: Parts, holdings: Holdings, last: ShareSurvey) -> ShareSurvey:
    view = parts.view
    standing = (*holdings.counted, view.version)
    own = list(view.groups)
    if standing == last.standing:
        return last
    outside = await foreign(holdings, view.share, SURPLUS_DIRECTORIES_MAX) if len(view.table) else Arcs()
    surplus = view.groups_in(outside)
    ranges = [one for group in (*own, *surplus) for one in ranges_of(group.arcs)]
    counts = dict(zip(ranges, await holdings.counts(ranges), strict=True))
    return ShareSurvey(
        counts=counts,
        own=own,
        surplus=[one for one in surplus if any(counts[part] for part in ranges_of(one.arcs))],
        standing=standing,
    )


async def foreign(holdings: Holdings, share: Arcs, most: int) -> Arcs:
    """Where there is something outside of a share, directory by directory."""
    found: list[Range] = []
    for rest in ranges_of(~share):
        for directory in sorted(await holdings.digests(rest.low, rest.high)):
            if len(found) < most:
                found.append(in_directory(directory, 2, rest))
    return arcs_of(found)


async def let_go(
    parts: Parts, holdings: Holdings, found: ShareSurvey, *, keep_s: float, stored: Callable[[], int]
) -> int:
    """Drop what every holder promised to hold. `stored` counts what was ever stored here: when that, the ring or what
    others count on us for is another between the look at the promises and the deed, nothing goes."""
    view = parts.view
    if parts.now() - view.changed_at < keep_s or not view.share:
        return 0
    total = 0
    for group in found.surplus:
        standing = _Standing(parts, stored)
        if standing.version == found.standing[2] and _may_go(parts, group):
            for one in ranges_of(group.arcs):
                total += await holdings.drop(one.low, one.high, standing.is_so)
    if total:
        parts.counts.dropped += total
        logger.info("copies that others hold were dropped copies=%d", total)
        try:
            await holdings.compact()
        except ArchiveError as error:
            logger.warning("the archive could not be compacted error=%s", error)
    return total


def _may_go(parts: Parts, group: Group) -> bool:
    view, now = parts.view, parts.now()
    if len(group.holders) < view.copies or view.me in group.holders:
        return False
    return not view.is_promised(group.arcs, now) and parts.ledger.may_go(group, view.absent, now)


class _Standing:
    """What the decision that something may go rests upon, as it is now. `is_so` is asked in another thread."""

    def __init__(self, parts: Parts, stored: Callable[[], int]) -> None:
        self._parts, self._stored = parts, stored
        self._at = parts.now()
        self._before = stored()
        parts.hear()  # of all that is counted in it
        self.version, self._given = parts.view.version, parts.view.given

    def is_so(self) -> bool:
        view = self._parts.view
        is_as_it_was = (self.version, self._given) == (view.version, view.given)
        return is_as_it_was and self._stored() == self._before and self._parts.now() - self._at <= DEED_S
