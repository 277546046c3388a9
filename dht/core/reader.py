"""What does one peer know of the ring without asking anybody? Readings of its machine's table and lists.

No authority: the table may be seconds behind the ring. Free of traffic, so those who have many questions ask here.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from dht.core.arcs import Arc
from dht.core.holders import Table
from dht.core.ids import Key, PeerKey
from dht.core.machine import RingMachine, RingStatistics
from dht.core.placement import first, own_arcs
from dht.core.places import Standing
from dht.core.records import (
    CLOSED,
    LEAF,
    RELAY_BYTES,
    RELAYS_MAX,
    Address,
    Contact,
    Line,
    PeerRecord,
    SignedRecord,
    first_contact_of,
    is_passed_over,
)

LOST: Final = frozenset({"dead", "departed"})
"""The ring's words for peers that two witnesses found dead; "unreachable" is one peer's impression."""
STAND_INS: Final = 3
"""Of the holders, with the owner: what an owner does on a slow line one of the next two does in its place. No more, as
the copies' doors believe the past to the first three (ADR 54)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    peer: PeerKey
    address: Address
    virtual_nodes: int
    clock: str  # well, unreachable, suspect, dead, ...
    lines: tuple[Line, ...] = ()


class RingReader(ABC):
    """For the owner of a machine; the machine may change from one reading to the next."""

    _table: tuple[object, Table] | None = None

    @property
    @abstractmethod
    def machine(self) -> RingMachine: ...

    @property
    def me(self) -> Contact:
        return self.machine.me

    @property
    def record(self) -> SignedRecord | None:
        return self.machine.record

    def members(self) -> tuple[Member, ...]:
        """Everybody in our table, ourselves included, by key."""
        clocks = self.clocks()
        return tuple(
            Member(
                peer=peer,
                address=signed.record.address,
                virtual_nodes=signed.record.virtual_nodes,
                clock=clocks.get(peer, "well"),
                lines=signed.record.lines,
            )
            for peer, signed in sorted(self.machine.table.records.items())
        )

    def positions(self) -> tuple[Contact, ...]:
        """Every position of a member in our table, ours included once we are one, in the order of the ring."""
        machine = self.machine
        own = {node.contact.position for node in machine.nodes if node.is_member}
        return tuple(
            contact
            for contact in machine.table.contacts
            if contact.peer in machine.table.records
            and (contact.peer != machine.me.peer or contact.position in own)
        )

    def life_of(self, peer: PeerKey) -> int | None:
        """Its incarnation, which is another after a restart; None: it is no member, as far as we know."""
        record = self.record_of(peer)
        return None if record is None else record.incarnation

    def contacts(self) -> tuple[Contact, ...]:
        """All virtual nodes in our table by position, ours included."""
        return tuple(self.machine.table.contacts)

    def standings(self) -> Mapping[PeerKey, Standing]:
        """How each member in our table counts today, for the holders of keys."""
        return self.machine.table.standings(self.machine.day)

    def clocks(self) -> Mapping[PeerKey, str]:
        """Those who are not well, as our clocks see them."""
        return MappingProxyType(dict(self.machine.statistics().unwell))

    def my_arcs(self, copies: int | None = None) -> tuple[Arc, ...]:
        """What this peer must hold so that every key has that many copies (the network's number by default)."""
        machine, rule = self.machine, self.machine.rules.holders
        if not rule.is_plain:
            most = rule.copies if copies is None else copies
            slack = max(most - rule.copies, 0)
            ranks = None if most >= rule.copies else range(most)
            return tuple(self.table().arcs(machine.me.peer, slack, ranks))
        if copies is None or copies == rule.copies:
            return machine.arcs()
        nodes = [(node.contact, node.predecessor) for node in machine.nodes if node.is_member]
        return own_arcs(nodes, machine.table.counterclockwise, copies)

    def prompt_of(self, holders: Sequence[Contact]) -> Contact:
        """Who of a key's holders, the owner first, answers in its owner's place where that one is passed over."""
        quick = (one for one in holders[:STAND_INS] if not self._is_passed_over(one.peer))
        return next(quick, holders[0])

    def prompt_arcs(self) -> tuple[Arc, ...]:
        """The keys for which `prompt_of` names this peer."""
        stand_ins = min(STAND_INS, self.machine.rules.holders.copies)
        if stand_ins < 2 or not any(map(self._is_passed_over, self.machine.table.records)):
            return self.my_arcs(1)
        table, me = self.table(), self.machine.me.peer
        lines = ((stretch, table.holders(stretch)[:stand_ins]) for _, stretch in table.share(me))
        return tuple(table.arc(stretch) for stretch, line in lines if self.prompt_of(line).peer == me)

    def _is_passed_over(self, peer: PeerKey) -> bool:
        record = self.record_of(peer)
        return record is not None and is_passed_over(record)

    def table(self) -> Table:
        """Who holds what by our table of members, without those who are silent to us; made again when it changed.

        The ring goes round a silent member in seconds, too. To wait for two witnesses would leave its keys without an
        owner for as long as there are none: in a ring of two, or in half of a torn one.
        """
        machine = self.machine
        lost = frozenset(self.clocks())
        own = tuple(node.is_member for node in machine.nodes)
        made_of = (machine.me.peer, machine.table.changes, machine.day, lost, own)
        if self._table is None or self._table[0] != made_of:
            made = Table(self.positions(), machine.rules.holders, standings=self.standings(), lost=lost)
            self._table = (made_of, made)
        return self._table[1]

    def holders_by_place(self, key: Key, copies: int, found: Sequence[Contact] = ()) -> tuple[Contact, ...]:
        """The first of the holders by our table of members; with others that a lookup found, if we know few."""
        table = self.table()
        if found:
            known = {contact.position: contact for contact in (*table.contacts, *found)}
            table = Table(known.values(), table.rule, standings=table.standings)
        return table.of(key, max(copies - table.rule.copies, 0))[:copies]

    def filled_up(self, holders: Sequence[Contact], key: Key, copies: int) -> tuple[Contact, ...]:
        """An answer names six holders at most; those whom the table knows come after them."""
        found = {contact.peer: contact for contact in holders}
        if len(found) < copies:
            for contact in self.machine.holders_known(key, copies):
                found.setdefault(contact.peer, contact)
        return tuple(found.values())[:copies]

    def owners_that_are_well(self) -> list[Contact]:
        """The others who own keys and answer: the first contact of each."""
        machine, unwell = self.machine, self.clocks()
        return [
            first_contact_of(signed.record, machine.rules.id_check)
            for peer, signed in machine.table.records.items()
            if peer not in unwell and peer != machine.me.peer and not signed.record.flags & LEAF
        ]

    def callable_members(self) -> list[Contact]:
        """The others who own keys, answer, and can be called without a relay."""
        records = self.machine.table.records
        return [one for one in self.owners_that_are_well() if not records[one.peer].record.flags & CLOSED]

    def relays_of(self, peer: PeerKey) -> tuple[Contact, ...]:
        """Through whom we reach a peer that is closed or apart from us, as far as we know them; else nothing."""
        record = self.record_of(peer) or self.machine.record_heard(peer)
        if record is None or not (record.flags & CLOSED or self._is_apart(record)):
            return ()
        return self._relays_in(record)

    def own_relays(self) -> tuple[Contact, ...]:
        """Those that keep a line of ours, as our record says."""
        return self._relays_in(self.machine.own_record)

    def _relays_in(self, record: PeerRecord) -> tuple[Contact, ...]:
        known = self.machine.table.records
        found = (
            self.in_our_family(known[key].record)
            for key in sorted(known)
            if key[:RELAY_BYTES] in record.relays and not known[key].record.flags & (LEAF | CLOSED)
        )
        return tuple(contact for contact in found if contact is not None)

    # --- families

    def is_apart(self, peer: PeerKey) -> bool:
        """Has it no address in a family of ours? Then only a relay that has both can pass anything on."""
        record = self.record_of(peer) or self.machine.record_heard(peer)
        return record is not None and self._is_apart(record)

    @property
    def is_apart_from_some(self) -> bool:
        """Are there members without an address in the one family that we have?"""
        if len(self._families()) > 1:
            return False
        records = self.machine.table.records.values()
        return any(self._is_apart(one.record) for one in records if not one.record.flags & LEAF)

    def relay_candidates(self) -> list[Contact]:
        """Members that can be called by us, at an address of our family; where some are apart from us, those that have
        both families, if there are enough of them.
        """
        records = self.machine.table.records
        able = [
            (contact, {len(line.host) for line in records[one.peer].record.lines})
            for one in self.callable_members()
            if (contact := self.in_our_family(records[one.peer].record)) is not None
        ]
        of_both = [contact for contact, families in able if len(families) > 1]
        if self.is_apart_from_some and (of_both if self._is_open else len(of_both) >= RELAYS_MAX):
            return of_both
        return [contact for contact, _ in able]

    @property
    def _is_open(self) -> bool:
        return not self.machine.own_record.flags & (LEAF | CLOSED)

    def in_our_family(self, record: PeerRecord) -> Contact | None:
        """How to reach its host as a whole at an address that we can send to; None if it has none such."""
        contact, families = first_contact_of(record, self.machine.rules.id_check), self._families()
        if len(contact.address.host) in families:
            return contact
        for line in record.lines:
            if len(line.host) in families and line.udp and line.tcp:
                return contact.moved_to(line.address)
        return None

    def _families(self) -> frozenset[int]:
        """By the length of their addresses."""
        return frozenset(len(line.host) for line in self.machine.own_record.lines)

    def _is_apart(self, record: PeerRecord) -> bool:
        families = self._families()
        return not any(len(line.host) in families for line in record.lines)

    def is_known(self, address: Address) -> bool:
        known = self.machine.table.records.values()
        return any(address == line.address for signed in known for line in signed.record.lines)

    def knows(self, peer: PeerKey) -> bool:
        """Is it in our table, a leaf perhaps, ourselves included?"""
        return peer in self.machine.table.records

    def record_of(self, peer: PeerKey) -> PeerRecord | None:
        """What our table has of a peer."""
        signed = self.machine.table.records.get(peer)
        return None if signed is None else signed.record

    def lines_of(self, peer: PeerKey) -> tuple[Line, ...]:
        """Where it says that it can be called; nothing of a peer that is not in our table."""
        record = self.record_of(peer)
        return () if record is None else record.lines


def is_joined(ring: RingStatistics) -> bool:
    """At all our positions; a leaf has none, and is in as soon as it knows somebody."""
    return all(node.is_member for node in ring.nodes) and (bool(ring.nodes) or ring.members > 1)


def is_ideal(machine: RingMachine, ring: RingStatistics) -> bool:
    """Do my lists say what the table says? The view of one peer; a ring is ideal when all see it so."""
    wanted, me = machine.rules.successors, machine.me.peer
    for node in ring.nodes:
        around = [c for c in machine.table.clockwise(node.contact.position) if c != node.contact]
        before = around[-1] if around else None
        expected = tuple(first(around, wanted, (me,)))
        listed = tuple(contact for contact in node.successors if contact.peer != me)
        if not node.is_member or listed != expected or node.predecessor != before:
            return False
    # The dead are asked now and then whether they are back, and stay silent: that is no flaw of the ring.
    return not any(peer in machine.table.records for peer, _ in ring.unwell)
