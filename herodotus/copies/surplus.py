"""Which captures lie outside this peer's share, and which of them may be deleted? A look over the archive now and
then."""

import logging
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from dht.core import ids
from dht.core.arcs import NONE, Arcs
from dht.core.holders import Table
from dht.core.ids import KEY_BYTES, Key
from herodotus.copies.full_proofs import ask_all
from herodotus.copies.shared_state import SLACK, Parts, View
from herodotus.copies.wire import PROVED_MAX
from herodotus.core.copies import PeerKey
from herodotus.core.copies.holder_states import Outcome
from herodotus.core.copies.ledger import Group, Steadiness, shared_with
from herodotus.core.copies.possession import PROOF_USED_WITHIN_S, Allowance, are_trusted
from herodotus.core.errors import ArchiveError
from herodotus.core.reconciliation import Range, arcs_of, in_directory, ranges_of
from herodotus.core.settings.sections import CopiesSettings
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
    pieces: list[Group] = field(default_factory=list)
    """The surplus again, directory by directory: their bounds do not move with what is in others."""
    steadiness: Steadiness = field(default_factory=Steadiness)
    spare: int = 0
    """Captures here that are kept while there is room."""
    standing: tuple[int, int, int, bool] = (-1, -1, -1, False)
    """What it was made from; while that is the same, so is it."""

    def surplus_of(self, peer: PeerKey) -> Arcs:
        return shared_with(self.surplus, peer)

    def in_places(self, table: Table) -> dict[str, int]:
        """Captures of ours by the places of their holders; nothing where each key is a place of its own."""
        total: Counter[int] = Counter()
        if table.standings:
            for holders, arcs in self.own:
                places = table.places_of(map(ids.PeerKey, holders))
                total[places] += sum(self.counts.get(one, 0) for one in ranges_of(arcs))
        return {str(places): count for places, count in sorted(total.items()) if count}


async def survey(parts: Parts, holdings: Holdings, last: ShareSurvey) -> ShareSurvey:
    view = parts.view
    standing = (*holdings.counted, view.version, view.keeps_spares)
    own = list(view.groups)
    if standing == last.standing:
        return last
    spare, outside = ranges_of(view.spare), list[Range]()
    if len(view.table):
        outside = await _outside(holdings, view.share | view.spare, SURPLUS_DIRECTORIES_MAX)
        if not view.keeps_spares:  # what is no spare comes first: it goes first
            within = await _outside(holdings, ~view.spare, SURPLUS_DIRECTORIES_MAX - len(outside))
            outside = sorted([*outside, *within])
    surplus = view.groups_in(arcs_of(outside))
    pieces = [piece for part in outside for piece in view.groups_in(arcs_of((part,)))]
    last.steadiness.see({piece.arcs: piece.holders for piece in pieces}, parts.now())
    ranges = [one for group in (*own, *surplus) for one in ranges_of(group.arcs)]
    counts = dict(zip(ranges, await holdings.counts(ranges), strict=True))
    return ShareSurvey(
        counts=counts,
        own=own,
        surplus=[one for one in surplus if any(counts[part] for part in ranges_of(one.arcs))],
        pieces=pieces,
        steadiness=last.steadiness,
        spare=sum(await holdings.counts(spare)) if spare else 0,
        standing=standing,
    )


async def foreign(holdings: Holdings, share: Arcs, most: int) -> Arcs:
    """Where there is something outside of a share."""
    return arcs_of(await _outside(holdings, share, most))


async def _outside(holdings: Holdings, share: Arcs, most: int) -> list[Range]:
    """Directory by directory."""
    found: list[Range] = []
    for rest in ranges_of(~share):
        for directory in sorted(await holdings.digests(rest.low, rest.high)):
            if len(found) < most:
                found.append(in_directory(directory, 2, rest))
    return found


class LettingGo:
    """Deletes surplus copies, under all the conditions of replication.md 5."""

    def __init__(
        self,
        parts: Parts,
        settings: CopiesSettings,
        *,
        stored: Callable[[], int],
        on_doubt: Callable[[PeerKey], None],
    ) -> None:
        """`stored` counts what was ever stored here: when that, the ring or what others count on us for is another
        between the look at promises and the deed, nothing goes. `on_doubt` as in `full_proofs`."""
        self._parts, self._settings = parts, settings
        self._stored, self._on_doubt = stored, on_doubt
        self._allowance = Allowance(settings.let_go_share)

    async def may_wait_for(self, holdings: Holdings, found: ShareSurvey) -> list[Group]:
        """What could go now if its holders promised and proved it; nothing where there is room."""
        view = self._parts.view
        if self._parts.now() - view.changed_at < self._settings.keep_s or not view.share or not found.pieces:
            return []
        if not await self._most(holdings):
            return []
        return [piece for piece in farthest_first(view, found.pieces) if self._is_eligible(found, piece)]

    async def _most(self, holdings: Holdings) -> int:
        room, now = await holdings.room(), self._parts.now()
        return self._allowance.left(holdings.captures, room, self._settings.full_share, now)

    async def run_once(self, holdings: Holdings, found: ShareSurvey) -> int:
        """Drop what there is no room for, and every holder proved and promised to hold. Returns how many."""
        parts, total = self._parts, 0
        for piece in await self.may_wait_for(holdings, found):
            if parts.view.version != found.standing[2]:
                break
            for one in ranges_of(piece.arcs) if self._may_go(found, piece) else ():
                total += await self._let_go_of(holdings, found, piece, one)
        if total:
            logger.info("copies that others hold were dropped copies=%d", total)
            try:
                await holdings.compact()
            except ArchiveError as error:
                logger.warning("the archive could not be compacted error=%s", error)
        return total

    async def _let_go_of(self, holdings: Holdings, found: ShareSurvey, piece: Group, one: Range) -> int:
        """Of one stretch, in parts as large as a proof: each goes as soon as it was proven."""
        parts, settings, total = self._parts, self._settings, 0
        keys = await holdings.keys((one,))
        for at in range(0, len(keys), PROVED_MAX):
            some = keys[at : at + min(await self._most(holdings), PROVED_MAX)]
            if not some:
                break
            proven = await ask_all(
                parts, holdings, piece.holders, some, promise_s=settings.promise_s, on_doubt=self._on_doubt
            )
            for peer, outcome in proven.unproven.items():
                if outcome is Outcome.WRONG:
                    parts.states.note(peer, outcome, parts.now())
            standing = _Standing(parts, self._stored, proven.at)
            if (
                not proven.is_by_all
                or standing.version != found.standing[2]
                or not self._may_go(found, piece)
            ):
                break
            gone = await holdings.drop(one.low, one.high, frozenset(proven.keys), standing.is_so)
            self._allowance.spend(gone, parts.now())
            parts.counts.dropped += gone
            total += gone
            if gone < len(proven.keys):
                break
        return total

    def _may_go(self, found: ShareSurvey, piece: Group) -> bool:
        parts = self._parts
        is_promised = parts.ledger.may_go(piece, parts.view.absent, parts.now())
        return is_promised and self._is_eligible(found, piece)

    def _is_eligible(self, found: ShareSurvey, piece: Group) -> bool:
        parts, view, now = self._parts, self._parts.view, self._parts.now()
        if view.me in piece.holders or view.is_promised(piece.arcs, now):
            return False
        if any(not parts.states.counts(peer, now) for peer in piece.holders):
            return False
        if now - found.steadiness.since(piece.arcs) < self._settings.keep_s:
            return False
        return are_trusted(piece.holders, view.table.peers, parts.standings(), view.copies)


def spares_of(view: View, failed: Collection[PeerKey]) -> dict[PeerKey, Arcs]:
    """Who gets a copy more, and of what: the next peer takes the place of a holder that failed its proofs. The failed
    one stays a holder for everybody else, so this only adds copies."""
    found: dict[PeerKey, Arcs] = {}
    # Cut to the key and not to whole positions, so that the end of each arc has just these holders.
    groups = view.table.groups(ids.PeerKey(view.me)) if failed else {}
    for holders, arcs in groups.items():
        if not any(peer in failed for peer in holders):
            continue
        for one in arcs:
            for contact in view.table.of(one.end, SLACK)[view.copies :]:
                if contact.peer != view.me and contact.peer not in failed:
                    found[contact.peer] = found.get(contact.peer, NONE) | Arcs([one])
    return found


def counted(groups: Sequence[Group], failed: Collection[PeerKey]) -> list[Group]:
    """The same with the holders that we count."""
    return [one._replace(holders=tuple(peer for peer in one.holders if peer not in failed)) for one in groups]


def farthest_first(view: View, pieces: Sequence[Group]) -> list[Group]:
    """What we are the least likely to hold again goes first: the copies next behind the holders are the spare ones."""

    def rank(piece: Group) -> int:
        position = ranges_of(piece.arcs)[0].low.ljust(KEY_BYTES, b"\0")
        ours = view.table.rank(Key(position), ids.PeerKey(view.me), slack=view.copies)
        return 2 * view.copies if ours is None else ours

    return sorted(pieces, key=rank, reverse=True)


class _Standing:
    """What the decision that something may go rests upon, as it is now. `is_so` is asked in another thread."""

    def __init__(self, parts: Parts, stored: Callable[[], int], proven_at: float) -> None:
        self._parts, self._stored = parts, stored
        self._at, self._proven_at = parts.now(), proven_at
        self._before = stored()
        parts.hear()  # of all that is counted in it
        self.version, self._given = parts.view.version, parts.view.given

    def is_so(self) -> bool:
        view, now = self._parts.view, self._parts.now()
        if now - self._proven_at > PROOF_USED_WITHIN_S:
            return False
        is_as_it_was = (self.version, self._given) == (view.version, view.given)
        return is_as_it_was and self._stored() == self._before and now - self._at <= DEED_S
