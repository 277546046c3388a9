"""Which ring does a peer that exchanges links see? A table of peers with made-up keys, without a node."""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from dht import Arc, Contact, EventsLost, Subscription
from dht.core.ids import NetworkId, PeerKey
from dht.core.membership import MemberTable
from dht.core.placement import own_arcs
from dht.core.places import Standing
from dht.core.records import RECORD_VERSION, Address, Line, PeerRecord, SignedRecord

NETWORK = NetworkId(bytes(8))


def link_peer(number: int) -> PeerRecord:
    key = PeerKey(hashlib.sha256(b"link peer %d" % number).digest())
    host = bytes((10, number >> 16 & 255, number >> 8 & 255, number & 255))
    return PeerRecord(
        version=RECORD_VERSION,
        network=NETWORK,
        peer=key,
        lines=(Line.at(Address(host=host, port=4484)),),
        slot=0,
        virtual_nodes=1,
        incarnation=1,
        issued_s=0,
        expires_s=1 << 31,
        flags=0,
        previous=b"",
        since=0,
    )


class TableRing:
    """The exchange's questions to the ring, answered from a table that a test fills."""

    def __init__(self, me: PeerRecord) -> None:
        self.me = contact_of(me)
        self._table = MemberTable("ip")
        self._clocks: dict[PeerKey, str] = {}
        self._subscriptions: list[Subscription] = []
        self.copies = 6
        self.placed: dict[PeerKey, Standing] = {}

    def see(self, peers: Iterable[PeerRecord], clocks: Mapping[PeerKey, str] | None = None) -> None:
        """Replaces the whole table and tells subscribers."""
        self._table = MemberTable("ip")
        for record in peers:
            self._table.put(SignedRecord(record=record, signature=b""))
        self._clocks = dict(clocks or {})
        for subscription in self._subscriptions:
            subscription.put(EventsLost())

    def contacts(self) -> tuple[Contact, ...]:
        return tuple(self._table.contacts)

    def clocks(self) -> Mapping[PeerKey, str]:
        return self._clocks

    def standings(self) -> Mapping[PeerKey, Standing]:
        return self.placed

    def my_arcs(self, copies: int | None = None) -> tuple[Arc, ...]:
        before = next(iter(self._table.counterclockwise(self.me.position)), None)
        return own_arcs([(self.me, before)], self._table.counterclockwise, copies or self.copies)

    @contextmanager
    def events(self) -> Iterator[Subscription]:
        subscription = Subscription()
        self._subscriptions.append(subscription)
        try:
            yield subscription
        finally:
            self._subscriptions.remove(subscription)


def contact_of(record: PeerRecord) -> Contact:
    return Contact.at(record.peer, record.address, record.slot, 0, "ip")
