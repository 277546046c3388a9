"""From where are the others' seats?  Each member remembers, because no record can prove it.

A *seat* is the position of the address that a member had when its probation ended (`PeerRecord.seat`: that host, and
the day).  From then on the position stays where it is, whatever its address becomes, so that nothing moves in a home
whose provider gives it a new address each day.  A record is its owner's word, and a seat of one's choice would be a
seat beside any key, so a claim counts only if it is one of these:

    what we remember of this key
    its first one: it begins on the day of the record, at the record's own address, where we know the member, of age
    the next one: the same, after the days of the one that we remember
    what others remember, whom we ask (`dht.core.seat_checks`)

A seat lasts 60 to 119 days, by the key, so that nobody keeps a good one for ever and not all change in one day.  It
ends when its member departed for a day or was dead for half a week.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from hashlib import blake2b, sha256
from typing import Final

from dht.core.ids import PeerKey, birth_host
from dht.core.places import PlaceRules
from dht.core.records import LEAF, Birth, PeerRecord

SEAT_DAYS_MIN: Final = 60
SEAT_DAYS_SPREAD: Final = 60
DEPARTED_S: Final = 24 * 3600.0
DEAD_S: Final = 84 * 3600.0
"""Half of a week at a stretch.  A peer that runs at night only keeps its seat."""
OWN_MARGIN: Final = 0.9
"""Of both, for our own seat: we give it up before the first of the others does."""
SEATS_MAX: Final = 65_536
"""Of some 80 bytes each; a ring of more members is sampled."""
MARK_BYTES: Final = 12
PREFIX_BYTES: Final = 8


NO_SEAT: Final = Birth(host=b"", day=0)
"""What others are asked about where a member of age says that it has none: do they remember one?"""


class Claim(Enum):
    """What a record says of its seat, held against what we remember."""

    SOUND = "sound"
    HARMLESS = "harmless"
    """It sits where its address says, so only the day of its seat, or its age, is its own word: enters, and others
    are asked."""
    UNPROVEN = "unproven"
    """Others are asked before it enters."""
    TAKEN = "taken"
    """Another member has that seat."""
    LEFT = "left"
    """It gave a seat up to sit elsewhere, and claims the age that it had."""


@dataclass(slots=True)
class Remembered:
    birth: Birth
    gone_s: int = 0
    """Since when it has been dead or departed, in seconds since 1970; 0 while it is there."""
    has_departed: bool = False

    def has_ended(self, now: float) -> bool:
        most = DEPARTED_S if self.has_departed else DEAD_S
        return bool(self.gone_s) and now - self.gone_s >= most


@lru_cache(maxsize=1 << 14)
def seat_days(peer: PeerKey) -> int:
    """How long its seats last."""
    return SEAT_DAYS_MIN + int.from_bytes(sha256(peer).digest(), "big") % SEAT_DAYS_SPREAD


def mark_of(peer: PeerKey, birth: Birth) -> bytes:
    """Stands for a seat where others are asked about it: how the key begins, and a digest of host and day."""
    digest = blake2b(birth.host + birth.day.to_bytes(2, "big"), digest_size=MARK_BYTES - PREFIX_BYTES)
    return peer[:PREFIX_BYTES] + digest.digest()


class SeatMemory:
    """Outlives the machines of a peer, one after the other, and its runs (`state/seats`)."""

    __slots__ = ("_by_host", "_by_prefix", "_known")

    def __init__(self, known: Mapping[PeerKey, Remembered] | None = None) -> None:
        self._known: dict[PeerKey, Remembered] = {}
        self._by_host: dict[bytes, PeerKey] = {}
        self._by_prefix: dict[bytes, PeerKey] = {}
        for peer, one in (known or {}).items():
            self._put(peer, one)

    def __len__(self) -> int:
        return len(self._known)

    def all(self) -> dict[PeerKey, Remembered]:
        """A copy."""
        return dict(self._known)

    def of(self, peer: bytes) -> Birth | None:
        known = self._known.get(PeerKey(peer))
        return known.birth if known is not None else None

    def whose(self, host: bytes) -> PeerKey | None:
        """Who has the seat that is from this host?"""
        return self._by_host.get(birth_host(host))

    def knows(self, mark: bytes) -> bool | None:
        """Is this what we remember?  None where we remember nothing of that member."""
        peer = self._by_prefix.get(mark[:PREFIX_BYTES])
        return None if peer is None else mark_of(peer, self._known[peer].birth) == mark

    def claim(self, record: PeerRecord, held: PeerRecord | None, rules: PlaceRules) -> Claim:
        """`held` is what the table has of this member."""
        seat, known = record.seat, self.of(record.peer) or self.of(record.previous)
        if seat is None:
            return self._without(record, known, held, rules)
        if known == seat:
            return Claim.SOUND
        if self.whose(seat.host) not in (None, record.peer, record.previous):
            return Claim.TAKEN
        is_here = self._is_at(record, seat)
        begins_now = is_here and seat.day == rules.day_of(record.issued_s)
        if known is not None:
            is_next = begins_now and seat.day >= known.day + seat_days(record.peer)
            return Claim.SOUND if is_next else Claim.UNPROVEN
        if not is_here:
            return Claim.UNPROVEN
        is_first = begins_now and held is not None and held.seat is None and self._is_at(held, seat)
        return Claim.SOUND if is_first else Claim.HARMLESS

    def _without(
        self, record: PeerRecord, known: Birth | None, held: PeerRecord | None, rules: PlaceRules
    ) -> Claim:
        """Its position follows from its address; but had it a seat, it sits elsewhere at will."""
        if known is not None:
            is_left = not self._is_at(record, known) and record.since <= known.day
            return Claim.LEFT if is_left else Claim.SOUND
        day = rules.day_of(record.issued_s)
        is_of_age = day - record.since >= rules.probation_on(day)
        return Claim.HARMLESS if held is None and is_of_age else Claim.SOUND

    def _is_at(self, record: PeerRecord, birth: Birth) -> bool:
        return birth_host(record.lines[0].host) == birth.host and record.slot == 0

    def note(self, record: PeerRecord) -> None:
        """Its record is in the table."""
        if record.previous:
            self.forget(PeerKey(record.previous))
        known = self._known.get(record.peer)
        if record.seat is None:
            self.forget(record.peer)
        elif known is not None and known.birth == record.seat:
            known.gone_s, known.has_departed = 0, False
        else:
            self._put(record.peer, Remembered(record.seat))

    def learn(self, peer: PeerKey, birth: Birth) -> None:
        """Others remember it."""
        self._put(peer, Remembered(birth))

    def forget(self, peer: PeerKey) -> None:
        known = self._known.pop(peer, None)
        if known is None:
            return
        if self._by_host.get(known.birth.host) == peer:
            del self._by_host[known.birth.host]
        if self._by_prefix.get(peer[:PREFIX_BYTES]) == peer:
            del self._by_prefix[peer[:PREFIX_BYTES]]

    def _put(self, peer: PeerKey, one: Remembered) -> None:
        self.forget(peer)
        if len(self._known) >= SEATS_MAX:
            self.forget(max(self._known, key=lambda other: (self._known[other].gone_s > 0, other)))
        self._known[peer] = one
        self._by_host[one.birth.host] = peer
        self._by_prefix[peer[:PREFIX_BYTES]] = peer
        assert len(self._known) <= SEATS_MAX

    def look(self, present: Iterable[PeerKey], departed: Iterable[PeerKey], now: float) -> None:
        """Who is in the table, and who said goodbye?  Seats of those that were away for too long end."""
        present, departed = set(present), set(departed)
        ended = []
        for peer, one in self._known.items():
            if peer in present:
                one.gone_s, one.has_departed = 0, False
                continue
            one.gone_s = one.gone_s or int(now)
            one.has_departed = one.has_departed or peer in departed
            if one.has_ended(now):
                ended.append(peer)
        for peer in ended:
            self.forget(peer)


def seat_on(record: PeerRecord, rules: PlaceRules, day: int, seats: SeatMemory) -> Birth | None:
    """The seat that our own record should have on a day, if it is renewed now."""
    seat = record.seat
    if rules.by == "peer" or record.slot != 0:
        return None
    if record.flags & LEAF:
        return seat  # it may become a member again; nobody asks a leaf where it sits
    if day - record.since < rules.probation_on(day) or (
        seat is not None and day < seat.day + seat_days(record.peer)
    ):
        return seat
    host = birth_host(record.lines[0].host)
    is_free = seats.whose(host) in (None, record.peer, record.previous)
    return Birth(host=host, day=day) if is_free else seat  # else the next address decides
