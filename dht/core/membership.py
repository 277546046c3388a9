"""Whom do we know?  The table of members by position and by key, its bucket digests, and the tombs of the
dead.

The table is a hint, never an authority: the ring decides.  Sorted arrays give neighbours by bisection.
Every change updates the sum of one bucket, so a digest costs nothing: comparing whole tables is what made
the first prototype slow.
"""

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Container, Iterator
from functools import lru_cache
from hashlib import blake2b

from dht.core import rules as bounds
from dht.core.ids import IdCheck, Key, PeerKey, anchor_of
from dht.core.messages import BUCKETS
from dht.core.places import PlaceRules, Standing, age_refusal, place_at, sits_by, standing_of
from dht.core.records import (
    LEAF,
    U32,
    VIRTUAL_NODES_MAX,
    Contact,
    Death,
    Departure,
    News,
    PeerRecord,
    SignedRecord,
    contacts_of,
)

NOBODY: frozenset[PeerKey] = frozenset()


@lru_cache(maxsize=1 << 12)
def fingerprint(peer: PeerKey, incarnation: int, is_alive: bool) -> int:
    """32 bits that stand for what we know of a peer.  Part of the protocol: BLAKE2b of key, incarnation
    (u32), state.
    """
    state = b"\x01" if is_alive else b"\x00"
    digest = blake2b(peer + incarnation.to_bytes(4, "big") + state, digest_size=4).digest()
    return int.from_bytes(digest, "big")


class MemberTable:
    __slots__ = (
        "_claims",
        "_hints",
        "_id_check",
        "_order",
        "_places",
        "_standings",
        "_standings_day",
        "_weights",
        "changes",
        "contacts",
        "expires_at_least_s",
        "key_tombs",
        "positions",
        "records",
        "sums",
        "tombs",
    )

    def __init__(self, id_check: IdCheck, places: PlaceRules | None = None) -> None:
        self._id_check: IdCheck = id_check
        self._places = places or PlaceRules()
        self._standings: dict[PeerKey, Standing] = {}  # of one day
        self._standings_day = -1
        self.records: dict[PeerKey, SignedRecord] = {}
        self.tombs: OrderedDict[PeerKey, tuple[Death | Departure, float]] = OrderedDict()
        self.key_tombs: OrderedDict[PeerKey, tuple[PeerKey, float]] = OrderedDict()  # old -> (new, until)
        self.positions: list[Key] = []
        self.contacts: list[Contact] = []  # parallel to positions
        # A bucket's sum, modulo 2**32, of the fingerprints of its records. Sums rather than hashes, so that a record
        # that goes is subtracted; the dead do not count, or tables would differ for as long as tombs are kept.
        self.sums = [0] * BUCKETS
        self._order: list[PeerKey] = []  # everybody in records or tombs, sorted: buckets are ranges of it
        # Since when a peer has its place: only where it renewed its record.
        self._claims: dict[PeerKey, int] = {}
        self._weights: dict[bytes, int] = {}  # positions per place
        self._hints: OrderedDict[Key, None] = OrderedDict()
        self.changes = 0  # of contacts, so that what is made of them is made again
        self.expires_at_least_s = float("inf")  # no record expires before: sweeping sooner finds nothing

    def __len__(self) -> int:
        return len(self.records)

    # --- asking

    def standings(self, day: int) -> dict[PeerKey, Standing]:
        """How each member counts on a day.  A copy."""
        if day != self._standings_day:
            self._standings_day = day
            self._standings.clear()
        if len(self._standings) < len(self.records):
            for peer, signed in self.records.items():
                if peer not in self._standings:
                    self._standings[peer] = standing_of(signed.record, self._places, day)
        return dict(self._standings)

    # --- changes

    def incarnation(self, peer: PeerKey) -> int:
        """The newest incarnation heard of, alive or dead; -1 for a stranger."""
        signed, tomb = self.records.get(peer), self.tombs.get(peer)
        return max(signed.record.incarnation if signed else -1, tomb[0].incarnation if tomb else -1)

    def refusal(self, signed: SignedRecord) -> str | None:
        """Why a sound record does not enter the table; None when it is news."""
        record = signed.record
        if record.peer in self.key_tombs:
            return "key rotated"
        if record.incarnation <= self.incarnation(record.peer):
            return "old"
        if record.previous:
            fault = self._rotation_refusal(signed)
            if fault is not None:
                return fault
        held = self._held_by(record)
        if held is not None:
            fault = age_refusal(record, held.record, self._places)
            if fault is not None:
                return fault
            if _is_same_seat(held.record, record):
                is_crowded = self._id_check == "ip" and not self._is_same_place(held.record, record)
                return "crowded" if is_crowded and self._is_crowded(signed, held) else None
        if held is None and len(self.records) >= bounds.MEMBERS_MAX:
            return "full"
        if self._id_check == "ip" and self._is_crowded(signed, held):
            return "crowded"
        return "position taken" if self.rival_of(signed) else None

    def rival_of(self, signed: SignedRecord) -> SignedRecord | None:
        """Who else has one of its positions?"""
        for contact in contacts_of(signed.record, self._id_check):
            holder = self.at(contact.position)
            if holder is not None and holder.peer not in (signed.record.peer, signed.record.previous):
                rival = self.records.get(holder.peer)
                if rival is not None:
                    return rival
        return None

    def claimed_s(self, signed: SignedRecord) -> int:
        """Since when this member has its place, as far as we saw."""
        return self._claims.get(signed.record.peer, signed.record.issued_s)

    def _rotation_refusal(self, signed: SignedRecord) -> str | None:
        """A key is rotated once, to one successor, which may renew the record that both signed."""
        previous = PeerKey(signed.record.previous)
        heir = self.key_tombs.get(previous)
        if heir is not None:
            return None if heir[0] == signed.record.peer else "key rotated"
        return "old" if signed.record.incarnation <= self.incarnation(previous) else None

    def _held_by(self, record: PeerRecord) -> SignedRecord | None:
        """What we know of the same peer, under this key or the one before."""
        return self.records.get(record.peer) or self.records.get(PeerKey(record.previous))

    def put(self, signed: SignedRecord) -> None:
        """Enter a record that `refusal` has nothing against."""
        peer, before = signed.record.peer, self._held_by(signed.record)
        since_s = self.claimed_s(before) if before and _is_same_seat(before.record, signed.record) else None
        self.remove(peer)
        if since_s is not None and since_s < signed.record.issued_s:
            self._claims[peer] = since_s
        self.tombs.pop(peer, None)
        self.records[peer] = signed
        self._standings.pop(peer, None)
        self.expires_at_least_s = min(self.expires_at_least_s, signed.record.expires_s)
        self._enlist(peer)
        self._weigh(signed, 1)
        for contact in contacts_of(signed.record, self._id_check):
            self._insert(contact)
        # A peer is known alive or dead, never both.
        assert peer in self.records
        assert peer not in self.tombs

    def remove(self, peer: PeerKey) -> SignedRecord | None:
        signed = self.records.pop(peer, None)
        if signed is None:
            return None
        self._claims.pop(peer, None)
        self._standings.pop(peer, None)
        if peer not in self.tombs:
            self._delist(peer)
        self._weigh(signed, -1)
        for contact in contacts_of(signed.record, self._id_check):
            self._erase(contact)
        return signed

    def rotate(self, signed: SignedRecord, now: float) -> SignedRecord | None:
        """Bury the key that this record replaces; gives what it had said, if it was known."""
        previous = PeerKey(signed.record.previous)
        if previous in self.key_tombs:
            return None
        old = self.records.get(previous)
        if old is not None:
            if _is_same_seat(old.record, signed.record):
                self._claims[signed.record.peer] = self.claimed_s(old)
            self.remove(previous)
        if self.tombs.pop(previous, None) is not None:
            self._delist(previous)
        self.key_tombs[previous] = (signed.record.peer, now + bounds.KEY_TOMB_LIFE_S)
        if len(self.key_tombs) > bounds.KEY_TOMBS_MAX:
            self.key_tombs.popitem(last=False)
        assert previous not in self.records, "a rotated key has no place"
        assert previous not in self.tombs, "nor is it dead: its peer lives on"
        return old

    def bury(self, news: Death | Departure, now: float) -> None:
        """Note a death: it voids the record, if there was one."""
        self.remove(news.peer)
        self.tombs.pop(news.peer, None)
        self.tombs[news.peer] = (news, now + bounds.TOMB_LIFE_S)
        self._enlist(news.peer)
        if len(self.tombs) > bounds.TOMBS_MAX:
            self._open_oldest_tomb()
        assert news.peer not in self.records

    def open_old_tombs(self, now: float) -> None:
        while self.tombs and next(iter(self.tombs.values()))[1] <= now:
            self._open_oldest_tomb()
        while self.key_tombs and next(iter(self.key_tombs.values()))[1] <= now:
            self.key_tombs.popitem(last=False)

    def hint(self, contact: Contact) -> None:
        """Remember a contact without a record (a finger).  Bounded; the oldest hints go first."""
        if self.at(contact.position) is not None:
            return
        self._insert(contact)
        self._hints[contact.position] = None
        if len(self._hints) > bounds.SAMPLE_MAX:
            self._erase_position(self._hints.popitem(last=False)[0])
        assert len(self._hints) <= bounds.SAMPLE_MAX

    def drop_hint(self, contact: Contact) -> None:
        if contact.position in self._hints:
            del self._hints[contact.position]
            self._erase(contact)

    # --- neighbours

    def contacts_of(self, signed: SignedRecord) -> tuple[Contact, ...]:
        return contacts_of(signed.record, self._id_check)

    def at(self, position: Key) -> Contact | None:
        place = bisect_left(self.positions, position)
        if place < len(self.positions) and self.positions[place] == position:
            return self.contacts[place]
        return None

    def next_after(self, key: Key) -> Contact | None:
        """The contact strictly after a key; the only one, if it sits there itself."""
        if not self.positions:
            return None
        place = bisect_right(self.positions, key)
        return self.contacts[place if place < len(self.positions) else 0]

    def clockwise(self, key: Key, skip: Container[PeerKey] = NOBODY) -> Iterator[Contact]:
        """Contacts at or after a key, once around."""
        count = len(self.positions)
        place = bisect_left(self.positions, key)
        for step in range(count):
            contact = self.contacts[(place + step) % count]
            if contact.peer not in skip:
                yield contact

    def counterclockwise(self, key: Key, skip: Container[PeerKey] = NOBODY) -> Iterator[Contact]:
        """Contacts strictly before a key, once around."""
        count = len(self.positions)
        place = bisect_left(self.positions, key) - 1
        for step in range(count):
            contact = self.contacts[(place - step) % count]
            if contact.peer not in skip and contact.position != key:
                yield contact

    # --- anti-entropy

    def fingerprints(self, bucket: int) -> list[int]:
        return [self._fingerprint_of(peer) for peer in self._bucket(bucket, b"")]

    def mark_of(self, peer: PeerKey) -> int:
        """A known peer and what we know of it, in 64 bits."""
        return int.from_bytes(peer[:4], "big") << 32 | self._fingerprint_of(peer)

    def marked(self, mark: int) -> tuple[PeerKey | None, bool]:
        """The peer that a mark means, if we know it; and whether we know the same of it."""
        start, found = PeerKey((mark >> 32).to_bytes(4, "big")), None
        place = bisect_left(self._order, start)
        while place < len(self._order) and self._order[place].startswith(start):
            found = self._order[place]
            if self._fingerprint_of(found) == mark & 0xFFFF_FFFF:
                return found, True
            place += 1
        return found, False

    def _fingerprint_of(self, peer: PeerKey) -> int:
        signed = self.records.get(peer)
        if signed is not None:
            return fingerprint(peer, signed.record.incarnation, True)
        return fingerprint(peer, self.tombs[peer][0].incarnation, False)

    def news_in(self, bucket: int, after: bytes, have: Container[int], count: int) -> tuple[list[News], bool]:
        """What somebody lacks of a bucket, in order of keys, and whether there is more."""
        found: list[News] = []
        for peer in self._bucket(bucket, after):
            news = self.news_of(peer)
            if self._fingerprint_of(peer) in have:
                continue
            if len(found) == count:
                return found, True
            found.append(news)
        return found, False

    def news_of(self, peer: PeerKey) -> News:
        signed = self.records.get(peer)
        return signed or self.tombs[peer][0]

    def peers(self) -> list[PeerKey]:
        """Everybody known, alive or dead, sorted.  Not to be changed by the caller."""
        return self._order

    # --- inside

    def _bucket(self, bucket: int, after: bytes) -> list[PeerKey]:
        order, first = self._order, PeerKey(bytes((bucket,)))
        start = bisect_right(order, PeerKey(after)) if after > first else bisect_left(order, first)
        is_last = bucket == BUCKETS - 1
        return order[start : None if is_last else bisect_left(order, PeerKey(bytes((bucket + 1,))))]

    def _enlist(self, peer: PeerKey) -> None:
        place = bisect_left(self._order, peer)
        if place == len(self._order) or self._order[place] != peer:
            self._order.insert(place, peer)

    def _delist(self, peer: PeerKey) -> None:
        place = bisect_left(self._order, peer)
        if place < len(self._order) and self._order[place] == peer:
            del self._order[place]

    def _open_oldest_tomb(self) -> None:
        peer, _ = self.tombs.popitem(last=False)
        if peer not in self.records:
            self._delist(peer)

    def _insert(self, contact: Contact) -> None:
        self.changes += 1
        place = bisect_left(self.positions, contact.position)
        if place < len(self.positions) and self.positions[place] == contact.position:
            self.contacts[place] = contact
            self._hints.pop(contact.position, None)
        else:
            assert place == 0 or self.positions[place - 1] < contact.position, "sorted, each position once"
            self.positions.insert(place, contact.position)
            self.contacts.insert(place, contact)
        assert len(self.positions) == len(self.contacts)

    def _erase(self, contact: Contact) -> None:
        held = self.at(contact.position)
        if held is not None and held.peer == contact.peer:
            self._erase_position(contact.position)

    def _erase_position(self, position: Key) -> None:
        self.changes += 1
        place = bisect_left(self.positions, position)
        if place < len(self.positions) and self.positions[place] == position:
            del self.positions[place]
            del self.contacts[place]
        assert len(self.positions) == len(self.contacts)

    def _weigh(self, signed: SignedRecord, sign: int) -> None:
        """It comes (1), or goes (-1): in the sum of its bucket, and in what its prefix holds."""
        bucket, mark = signed.peer[0], fingerprint(signed.peer, signed.record.incarnation, True)
        self.sums[bucket] = (self.sums[bucket] + sign * mark) % U32
        if self._id_check == "off":
            return
        place = place_at(signed.record.lines[0].host, self._places)
        weight = self._weights.get(place, 0) + sign * signed.record.virtual_nodes
        assert weight >= 0, "what leaves was weighed when it came"
        if weight:
            self._weights[place] = weight
        else:
            self._weights.pop(place, None)

    def _is_same_place(self, old: PeerRecord, new: PeerRecord) -> bool:
        return place_at(old.lines[0].host, self._places) == place_at(new.lines[0].host, self._places)

    def _is_crowded(self, signed: SignedRecord, held: SignedRecord | None) -> bool:
        """Too many positions on one address or in one place?  An address is only counted where its place is
        heavy.
        """
        host, more = signed.record.lines[0].host, signed.record.virtual_nodes
        place = place_at(host, self._places)
        weight = self._weights.get(place, 0) + more
        if held is not None and place_at(held.record.lines[0].host, self._places) == place:
            weight -= held.record.virtual_nodes
        # A place may hold a hundredth of the ring, so that the caps do not bind large honest networks in a large ring,
        # and some hundred positions in any case, so that a young ring can grow in one place.
        if weight > max(self._places.admitted_per_place, len(self.positions) // 100):
            return True
        if weight <= VIRTUAL_NODES_MAX:
            return False
        anchor = anchor_of(host)
        same = (s.record for s in self.records.values() if anchor_of(s.record.lines[0].host) == anchor)
        others = sum(record.virtual_nodes for record in same if held is None or record != held.record)
        return others + more > VIRTUAL_NODES_MAX


def _is_same_seat(old: PeerRecord, new: PeerRecord) -> bool:
    """The same positions, or fewer of them?"""
    is_seated = old.seat is not None or new.seat is not None
    is_there = sits_by(old) == sits_by(new) if is_seated else old.address == new.address
    return (
        is_there
        and old.slot == new.slot
        and old.virtual_nodes >= new.virtual_nodes
        and (old.flags & LEAF) <= (new.flags & LEAF)
    )
