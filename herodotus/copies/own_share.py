"""What does this peer believe about holders, just now? One object that all parts of the copying look at."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from dht import Contact
from dht.core import ids
from dht.core.arcs import NONE, Arcs
from dht.core.holders import Table
from herodotus.core.copies import PeerKey
from herodotus.core.copies.ledger import Group, shared_with
from herodotus.core.index_rows import KEY_BYTES as POSITION_BYTES

SLACK = 1
"""Copies beyond k that are taken when offered: two views of the ring may differ by a peer (ring.md 5)."""
PROMISES_MAX = 16
"""To one peer; more are made one, of all their ranges and the longest."""
PROMISED_MAX = 4_096
"""Peers at a time; far fewer hold something with us."""


@dataclass(slots=True)
class Promise:
    arcs: Arcs
    until: float


@dataclass(slots=True)
class View:
    me: PeerKey
    table: Table
    contacts: Mapping[ids.PeerKey, Contact] = field(default_factory=dict)
    absent: Mapping[ids.PeerKey, float] = field(default_factory=dict)
    groups: Sequence[Group] = ()
    """What is ours to hold, by the peers that hold it with us."""
    share: Arcs = NONE
    wide_share: Arcs = NONE
    """What is ours, or would be with `SLACK` copies more."""
    changed_at: float = 0.0
    """When this peer's own share last was another."""
    version: int = 0
    """Grows with every change of holders, anywhere."""
    promises: dict[PeerKey, list[Promise]] = field(default_factory=dict)
    given: int = 0
    """Promises ever."""

    @property
    def copies(self) -> int:
        return self.table.rule.copies

    def take(self, table: Table, contacts: Mapping[ids.PeerKey, Contact], now: float) -> None:
        """A new look at the ring."""
        me = ids.PeerKey(self.me)
        share = table.arcs(me).coarse()
        if share != self.share:
            self.changed_at = now
        self.version += not table.is_like(self.table)
        self.table, self.contacts = table, contacts
        self.groups = [Group(holders, arcs.coarse()) for holders, arcs in table.groups(me).items()]
        self.share, self.wide_share = share, table.arcs(me, SLACK).coarse()

    def holders(self, position: bytes) -> tuple[PeerKey, ...]:
        """Of a capture or a member, by its position, with which its key begins."""
        return tuple(contact.peer for contact in self.table.of(ids.Key(position[:POSITION_BYTES])))

    def groups_in(self, arcs: Arcs) -> list[Group]:
        """The holders of a set of keys, ours or not."""
        return [Group(holders, some.coarse()) for holders, some in self.table.groups(arcs).items()]

    def may_hold(self, position: bytes) -> bool:
        return position in self.wide_share

    def holds_all(self, arcs: Arcs) -> bool:
        return arcs <= self.share

    def may_hold_all(self, arcs: Arcs) -> bool:
        return arcs <= self.wide_share

    def promise(self, peer: PeerKey, arcs: Arcs, until: float) -> bool:
        """Nothing of it goes from here until then. False when too many others count on us already."""
        if peer not in self.promises and len(self.promises) >= PROMISED_MAX:
            return False
        known = self.promises.setdefault(peer, [])
        known[:] = [one for one in known if one.arcs != arcs or one.until > until]
        known.append(Promise(arcs, until))
        if len(known) > PROMISES_MAX:
            everything = Arcs(arc for one in known for arc in one.arcs)
            known[:] = [Promise(everything, max(one.until for one in known))]
        self.given += 1
        return True

    def is_promised(self, arcs: Arcs, now: float) -> bool:
        """Does somebody count on us for any of it?"""
        self.end_promises(now)
        return any(one.arcs & arcs for known in self.promises.values() for one in known)

    def end_promises(self, now: float) -> None:
        for peer in list(self.promises):
            kept = [one for one in self.promises[peer] if one.until > now]
            if kept:
                self.promises[peer] = kept
            else:
                del self.promises[peer]

    def shared_with(self, peer: PeerKey) -> Arcs:
        return shared_with(self.groups, peer)

    def others(self) -> list[PeerKey]:
        """Peers that we share something with."""
        return sorted({peer for group in self.groups for peer in group.holders} - {self.me})
