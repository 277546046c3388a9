"""Which copies beyond the six are kept here, and which do others keep of ours? Standing spares, while there is room.

Six copies do not outlive a sixth of all places that go at once; ten do (`simnet run places-that-fall`). So the next
`spare_copies` members by the same rule fill what they would hold next, by comparing with its holders when nothing else
is to be fetched or sent. They fill while the archive takes less than `copies.spare_share` of the offer. From halfway
between that and `copies.full_share` on, a spare copy is a surplus copy like any other: it goes, on full proofs, when
its room is needed.

A holder asks its spares once a day for the digests of what both should have, and counts where these are alike. Nothing
rests on that number but what `status` tells: whoever may delete asks holders, and for proofs.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from dht import Contact
from dht.core import ids
from dht.core.arcs import NONE, Arcs
from herodotus.copies import wire
from herodotus.copies.sampled_proofs import alike
from herodotus.copies.shared_state import Parts, View
from herodotus.core import reconciliation
from herodotus.core.copies import PeerKey
from herodotus.core.copies.possession import Room
from herodotus.core.copies.schedule import Purpose, Task
from herodotus.core.reconciliation import Scope, ranges_of
from herodotus.core.settings.sections import CopiesSettings
from herodotus.core.status import SpareStatus


@dataclass(slots=True)
class Spares:
    settings: CopiesSettings
    fills: bool = False
    """There is room for more."""
    held: int = 0
    """Captures here as spare copies."""
    own: int = 0
    """Captures of our share."""
    _filled: int = 0
    """Of those, when the last part of them was asked for."""
    alike: dict[PeerKey, int] = field(default_factory=dict)
    """Captures of ours that a peer has as a spare, as of the last question."""

    def look(self, room: Room, view: View) -> bool:
        """Whether other comparisons follow from how full the archive is now."""
        settings, before = self.settings, (self.fills, view.keeps_spares)
        most = min(settings.spare_share, settings.full_share)
        self.fills = room.excess(most) < 0
        view.keeps_spares = room.excess((most + settings.full_share) / 2) < 0
        return before != (self.fills, view.keeps_spares)

    def is_next_due(self, wanted: int) -> bool:
        """More was asked for and came: there may be more. Where nothing came, the next day is soon enough."""
        if wanted or self.held <= self._filled:
            return False
        self._filled = self.held
        return True

    def tasks(self, view: View) -> dict[Task, Scope]:
        """Holders of what we keep as a spare, and the spares of what we hold."""
        found: dict[Task, Scope] = {}
        if view.keeps_spares:  # also where no more are taken: what is only here must reach its holders
            for peer, arcs in shared(view, view.spare).items():
                found[peer, Purpose.SPARE] = ranges_of(arcs)
        ours = spares_of_ours(view)
        for peer, arcs in ours.items():
            found[peer, Purpose.COUNT] = ranges_of(arcs)
        self.alike = {peer: count for peer, count in self.alike.items() if peer in ours}
        return found

    def status(self, view: View) -> SpareStatus:
        return SpareStatus(
            copies=view.spare_copies,
            held=self.held,
            known=sum(self.alike.values()),
            own=self.own,
            fills=self.fills and bool(view.spare),
        )


def shared(view: View, arcs: Arcs) -> dict[PeerKey, Arcs]:
    """Their holders, and what of it each holds."""
    found: dict[PeerKey, Arcs] = {}
    for holders, some in view.groups_in(arcs) if arcs else ():
        for peer in holders:
            if peer != view.me:
                found[peer] = found.get(peer, NONE) | some
    return found


def spares_of_ours(view: View) -> Mapping[PeerKey, Arcs]:
    """Who should keep a spare copy of what we hold, and of which part."""
    table, found = view.table, dict[PeerKey, list[Arcs]]()
    if not view.spare_copies:
        return {}
    for _, stretch in table.share(ids.PeerKey(view.me)):
        for contact in table.holders(stretch, view.spare_copies)[view.copies :]:
            found.setdefault(contact.peer, []).append(Arcs([table.arc(stretch)]))
    return {peer: Arcs(arc for arcs in some for arc in arcs).coarse() for peer, some in sorted(found.items())}


async def count_alike(parts: Parts, contact: Contact, scope: Scope) -> int:
    """Captures of ours in the directories of a scope that the peer has as we have them."""
    holdings, nonce = parts.opened(), parts.random.randbytes(wire.NONCE_BYTES)
    root = reconciliation.root_of(await parts.tops.of(holdings, scope))
    question = wire.encode_scope(scope, nonce)
    answer = wire.decode_root(await parts.calls().call(contact, wire.ROOT, question))
    same = scope if answer.root == reconciliation.salted(root, nonce) else await alike(parts, contact, scope)
    return sum(await holdings.counts(same)) if same else 0
