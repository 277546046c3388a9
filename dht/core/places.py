"""Where does a member count, and since when?  The charter's rules about places, and one member's standing under them.

A *place* is a prefix of an address that one person may well have whole (IPv4 /24, IPv6 /48); an *area* is what a
provider has (/16), or all of IPv6, whose prefixes cost nothing.  Copies count by place, and at most a third of them
lie in one area: otherwise one machine with many keys would be all holders of a key (docs/protocol/holders.md).

`standing_of` is the one function that says so of a record.  All peers must agree on it, so it looks at nothing else.
"""

from collections.abc import Container, Iterable
from dataclasses import dataclass
from datetime import date
from functools import lru_cache
from typing import Final, Literal, NamedTuple

from dht.core.ids import IPV4_BYTES, PeerKey, birth_host
from dht.core.records import SECONDS_PER_DAY, TRAIL_MAX, Contact, PeerRecord, Stay

FORGOTTEN_DAYS: Final = 30
"""A member that was away for so long begins anew: its record says so itself."""
ADMITTED_FACTOR: Final = 8
"""A table admits so many times the positions that count in a place: those beyond step in when others leave."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRules:
    """Of the charter."""

    by: Literal["prefix", "peer"] = "prefix"
    """"peer": each key is a place of its own, for rings whose members trust each other."""
    place_v4: int = 24  # bits
    place_v6: int = 48
    area_v4: int = 16
    area_v6: int = 0
    """All of IPv6 is one area: a third of the copies at most lie where an address costs nothing."""
    positions_per_place: int = 32
    spare_copies: int = 4
    founded_day: int | None = None
    """As days since 1970; None: long ago."""
    probation_days: int = 7
    veteran_days: int = 60
    day_start_s: int = 0
    """After midnight UTC: ages change then, for all peers at once."""

    def day_of(self, now: float) -> int:
        """The network's day, from seconds since 1970."""
        return int((now - self.day_start_s) // SECONDS_PER_DAY)

    def probation_on(self, day: int) -> int:
        """Days after which a member is of age.  In a young network less, or nobody would ever be."""
        return (
            self.probation_days if self.founded_day is None else min(self.probation_days, self._age(day) // 4)
        )

    def veteran_on(self, day: int) -> int:
        """Days after which a member is a veteran."""
        return self.veteran_days if self.founded_day is None else min(self.veteran_days, self._age(day) // 2)

    def _age(self, day: int) -> int:
        assert self.founded_day is not None
        return max(day - self.founded_day, 0)

    @property
    def admitted_per_place(self) -> int:
        """Positions of one place that a table admits."""
        return ADMITTED_FACTOR * self.positions_per_place


BY_PEER: Final = PlaceRules(by="peer", spare_copies=0)
"""As if nobody had two keys."""


class Standing(NamedTuple):
    """How a member counts.  Two members of one place have one area.

    A member whose seat is from elsewhere counts in two places, where it is and where the seat was born: copies beside
    it in either are not apart from it (docs/adr/0045-seats.md).
    """

    place: bytes
    area: bytes
    is_of_age: bool = True
    born: bytes = b""
    """The other place; empty where there is none."""
    born_area: bytes = b""

    @property
    def places(self) -> tuple[bytes, ...]:
        return (self.place, self.born) if self.born else (self.place,)

    def is_apart(self, places: Container[bytes]) -> bool:
        """In none of these?"""
        return self.place not in places and not (self.born and self.born in places)


def apart(standings: Iterable[Standing]) -> int:
    """How many of these are in places of their own: in this order, those that share one are passed over."""
    taken: set[bytes] = set()
    found = 0
    for standing in standings:
        if standing.is_apart(taken):
            taken.update(standing.places)
            found += 1
    return found


def standing_of(record: PeerRecord, rules: PlaceRules, day: int) -> Standing:
    """On a day of the network (`PlaceRules.day_of`).  By peer all are of age: their members trust each other."""
    standing = standing_at(record.peer, record.lines[0].host, rules)
    if rules.by == "peer":
        return standing
    standing = standing._replace(is_of_age=is_of_age(record, standing.place, rules, day))
    if record.seat is None:
        return standing
    return _born_at(standing, record.seat.host, rules)


def born_elsewhere(standing: Standing, contact: Contact, rules: PlaceRules) -> Standing:
    """The same for a member of which there is no record, by its contact."""
    return _born_at(standing, contact.birth, rules) if contact.birth and rules.by == "prefix" else standing


def _born_at(standing: Standing, host: bytes, rules: PlaceRules) -> Standing:
    place, area = place_at(host, rules), area_at(host, rules)
    return standing if place == standing.place else standing._replace(born=place, born_area=area)


def is_of_age(record: PeerRecord, place: bytes, rules: PlaceRules, day: int) -> bool:
    """Has it been a member for long enough, and for as long in this place?

    A member without a seat that moved begins again with the probation: otherwise keys that came of age in one place
    would be counted in as many as their owner can rent for a day.  It does not count where it was either, as its trail
    says: that is its own word (ADR 24).  One with a seat counts in both places, so that a move gains nothing (ADR 45).
    """
    probation = rules.probation_on(day)
    if record.seat is not None:
        return day - record.since >= probation
    is_here = not record.trail or record.trail[-1].place == place
    return is_here and day - record.since >= probation and day - settled_on(record) >= probation


def trail_on(record: PeerRecord, rules: PlaceRules, day: int) -> tuple[Stay, ...]:
    """The trail that a record needs on a day, from the one that it had and its present address.

    The first stay is where the member was seven days ago, or where it began; nothing is told of earlier days.
    """
    if rules.by == "peer" or record.seat is not None:
        return ()
    here = place_at(record.lines[0].host, rules)
    stays = record.trail
    if stays and stays[-1].place != here:
        stays = tuple(stay for stay in stays if stay.since < day)  # a day has one place: the last
        if not stays or stays[-1].place != here:
            stays = (*stays, Stay(place=here, since=day))
    week = [stay for stay in stays if stay.since > day - TRAIL_MAX]
    before = [stay for stay in stays if stay.since <= day - TRAIL_MAX][-1:]
    stays = (*before, *week)[-TRAIL_MAX:]
    return stays if len(stays) > 1 else ()


def age_refusal(record: PeerRecord, held: PeerRecord, rules: PlaceRules) -> str | None:
    """Does a newer record claim more age, or a longer stay, than the one that we hold of this member allows?"""
    if record.since < held.since:
        return "age"
    if rules.by == "peer":
        return None
    if moves_at_will(record, held, rules) and record.since < rules.day_of(held.issued_s):
        return "moved"
    if record.seat is not None:
        return None
    here, before = (place_at(one.lines[0].host, rules) for one in (record, held))
    known = [*held.trail] or [Stay(place=before, since=held.since)]
    stays = [stay.since for stay in known if stay.place == here]
    if here != before:
        settled_at_least = stays[-1] if stays else rules.day_of(held.issued_s)  # it may go back where it was
    elif rules.day_of(record.issued_s) < known[-1].since + TRAIL_MAX:
        settled_at_least = known[-1].since
    else:
        return None  # the move is old enough not to be told of
    return "trail" if settled_on(record) < settled_at_least else None


def moves_at_will(record: PeerRecord, held: PeerRecord, rules: PlaceRules) -> bool:
    """A member of age that changes its positions, other than by the rule of seats (`dht.core.seats`).  It begins its
    age anew, or a key of age could hop beside any other.  During probation positions follow the address.
    """
    if record.seat is not None or (held.slot == record.slot and sits_by(held) == sits_by(record)):
        return False
    day = rules.day_of(held.issued_s)
    return held.seat is not None or day - held.since >= rules.probation_on(day)


def sits_by(record: PeerRecord) -> bytes:
    """The host from which its positions follow."""
    return record.seat.host if record.seat is not None else birth_host(record.lines[0].host)


def settled_on(record: PeerRecord) -> int:
    """The day from which on it has been where it is, as it says."""
    return record.trail[-1].since if record.trail else record.since


def moved(record: PeerRecord, host: bytes, rules: PlaceRules) -> tuple[Stay, ...]:
    """The trail with the place before a move in it, if it was not: `trail_on` then adds the new one."""
    old, new = place_at(record.lines[0].host, rules), place_at(host, rules)
    if rules.by == "peer" or old == new or record.trail or record.seat is not None:
        return record.trail
    return (Stay(place=old, since=record.since),)


def standing_at(peer: PeerKey, host: bytes, rules: PlaceRules) -> Standing:
    """Of a member of age at an address."""
    if rules.by == "peer":
        return Standing(peer, peer)
    return Standing(place_at(host, rules), area_at(host, rules))


@lru_cache(maxsize=1 << 12)
def place_at(host: bytes, rules: PlaceRules) -> bytes:
    """The family's length comes first: no IPv4 prefix is that of an IPv6 address."""
    return _prefix(host, rules.place_v4 if len(host) == IPV4_BYTES else rules.place_v6)


@lru_cache(maxsize=1 << 12)
def area_at(host: bytes, rules: PlaceRules) -> bytes:
    return _prefix(host, rules.area_v4 if len(host) == IPV4_BYTES else rules.area_v6)


def _prefix(host: bytes, bits: int) -> bytes:
    size = len(host)
    kept = int.from_bytes(host, "big") >> 8 * size - bits << 8 * size - bits
    return bytes((size,)) + kept.to_bytes(size, "big")[: -(-bits // 8)]


def day_from(text: str) -> int | None:
    """A charter's date as a day; None where it says nothing.  Raises ValueError."""
    return (date.fromisoformat(text) - date(1970, 1, 1)).days if text else None
