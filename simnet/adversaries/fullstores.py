"""What is left when members that held, and proved that they hold, are gone at once, while all disks were always full?

The rules that decide are the peers' own: who holds a key (`dht.core.holders.Table`, from records, by place and age),
whom a table admits (`MemberTable`), how long the absent keep their seats (`Absence`), whose word a deletion may
rest on (`are_trusted`, `MemberStandings`), since when the holders were the same (`Steadiness`), a twentieth of a store
a day (`Allowance`), the farthest copy first.

Modelled is the rest. A *cell* is a stretch between two positions that any member ever has, so all its captures have one
fate; it goes, and comes, as a whole. All peers have one table. A copy that is due comes `repair_s` after a peer
with it and the one without are both up. A full proof is made of the cell's few bytes by the real `FullProof`: attackers
keep everything, or nothing, or each cell once for all of them, which then answers for the others. No disk ever has
room, so everything goes that may; and there are no spare copies. A real peer lets less go: nothing below
`copies.full_share`, nothing within a day of any change of its view. Learners' copies are left out, as they only add.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from random import Random

from dht.core.arcs import Arc, Arcs
from dht.core.holders import Holders, Table
from dht.core.ids import CIRCLE, KEY_BYTES, Key, NetworkId, PeerKey, key_from_number
from dht.core.placement import Rule
from dht.core.places import PlaceRules, Standing, standing_of
from dht.core.records import SECONDS_PER_DAY, Contact, PeerRecord, contacts_of
from herodotus.core.copies.absence import Absence
from herodotus.core.copies.holder_states import HolderStates, Outcome
from herodotus.core.copies.ledger import Steadiness
from herodotus.core.copies.possession import Allowance, FullProof, Room, are_trusted
from herodotus.peers.standings import MemberStandings
from simnet.adversaries.members import (
    LONG_AGO_DAYS,
    POSITIONS_MAX,
    admitted,
    honest_host,
    record_at,
)

NETWORK = NetworkId(b"simulate")
BEGIN_DAY = 20_000
HOUR_S = 3_600.0
ALWAYS_FULL = Room(used=1, offered=1)
CELLS = 3_000
"""A ring of few positions is cut finer, so that a twentieth of a store is many cells."""


class Keeping(Enum):
    """What attackers store of all that they promise to hold."""

    ALL = "all"
    NOTHING = "nothing"
    ONCE = "once"
    """One of them has it, and answers for the others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FullRules:
    copies: int = 6
    places: PlaceRules = field(default_factory=PlaceRules)
    asks_veterans: bool = True
    """False plants the fault: anybody's word is enough."""
    asks_proofs: bool = True
    """False plants the fault: a promise is enough."""
    keeping: Keeping = Keeping.ALL
    keep_s: float = 24 * HOUR_S
    let_go_share: float = 0.05
    departed_s: float = 24 * HOUR_S
    low_s: float = 900.0
    repair_s: float = 6 * HOUR_S
    step_s: float = 2 * HOUR_S
    """The world looks so often; what is shorter is not seen."""
    up_s: float = 96 * HOUR_S
    down_s: float = 24 * HOUR_S
    """Honest members are down for a fifth of the time."""
    stay_s: float = 360 * 24 * HOUR_S


@dataclass(slots=True, eq=False)
class Keeper:
    """A member, and what is on its disk."""

    record: PeerRecord
    contacts: tuple[Contact, ...]
    place: bytes
    is_honest: bool
    seen_day: int
    """Since when the honest have seen it themselves."""
    turns_at: float = 0.0
    leaves_at: float = float("inf")
    is_up: bool = True
    is_gone: bool = False
    cells: set[int] = field(default_factory=set)
    due: dict[int, float] = field(default_factory=dict)
    """Copies on their way: when they may be here."""
    allowance: Allowance = field(default_factory=lambda: Allowance(0.05))

    @property
    def key(self) -> PeerKey:
        return self.record.peer


class FullStores:
    """Honest members whose stores are as the rules want them, and then time passes."""

    def __init__(
        self,
        rules: FullRules,
        seed: int,
        *,
        peers: int,
        units: int,
        foes: Sequence[bytes],
        days: float,
        cells: int = CELLS,
    ) -> None:
        """`foes` are the hosts of keys that will join by `attack`. `days`: how long all will last at most."""
        self.rules = rules
        self.chance = Random(f"{seed}/full stores")
        self.now = float(BEGIN_DAY * SECONDS_PER_DAY)
        self.copies_gone = 0
        self.fewest = rules.copies
        """Places of honest copies of any cell, where none of its holders has just left for good."""
        self.fewest_at_all = rules.copies
        self.keepers: dict[PeerKey, Keeper] = {}
        crowd = int(peers * days * 24 * HOUR_S / rules.stay_s * 2) + 4
        honest = [self._record(honest_host(self.chance), BEGIN_DAY - LONG_AGO_DAYS) for _ in range(peers)]
        self._reserve = [self._record(honest_host(self.chance), BEGIN_DAY) for _ in range(crowd)]
        theirs = [
            self._record(host, BEGIN_DAY, positions=POSITIONS_MAX, slot=number // 254)
            for number, host in enumerate(foes)
        ]
        self._foes = admitted([*honest, *self._reserve], theirs, rules.places)
        self.states = HolderStates()
        """Of the holders, as honest peers see them: all alike, since all of them ask each day."""
        self.refuted = 0
        """Proofs that were wrong."""
        self._absence = Absence(
            departed_s=rules.departed_s,
            low_s=rules.low_s,
            rule=Rule(rules.copies, rules.places),
        )
        self._steadiness = Steadiness()
        self._cut([*honest, *self._reserve, *self._foes], units, cells)
        for record in honest:
            self._add(record, is_honest=True, seen_day=record.since)
        self._look()
        for cell, holders in enumerate(self.holders):
            for key in holders:
                self._have(self.keepers[key], cell)

    # -- members

    def _record(self, host: bytes, since: int, positions: int = 0, slot: int = 0) -> PeerRecord:
        count = positions or self.chance.randint(1, POSITIONS_MAX)
        return record_at(
            host,
            self.chance,
            network=NETWORK,
            since=since,
            positions=count,
            now=self.now,
            slot=slot,
        )

    def _add(self, record: PeerRecord, *, is_honest: bool, seen_day: int) -> Keeper:
        standing = standing_of(record, self.rules.places, self._day)
        keeper = Keeper(
            record=record,
            contacts=contacts_of(record, "ip"),
            place=standing.place,
            is_honest=is_honest,
            seen_day=seen_day,
            allowance=Allowance(self.rules.let_go_share),
        )
        if is_honest:
            keeper.turns_at = self.now + self.chance.expovariate(1 / self.rules.up_s)
            keeper.leaves_at = self.now + self.chance.expovariate(1 / self.rules.stay_s)
        self.keepers[keeper.key] = keeper
        return keeper

    @property
    def _day(self) -> int:
        return self.rules.places.day_of(self.now)

    def attack(self) -> int:
        """The foes join, all at once. How many of their keys a table admits."""
        for record in self._foes:
            self._add(record, is_honest=False, seen_day=self._day)
        return len(self._foes)

    def vanish(self) -> int:
        """With their disks. How many units are with no honest peer."""
        for keeper in self.keepers.values():
            if not keeper.is_honest:
                self._leave(keeper)
        return self.lost

    @property
    def lost(self) -> int:
        return sum(count for cell, count in enumerate(self.units) if not self.honest_copies(cell))

    def honest_copies(self, cell: int) -> int:
        """In how many places."""
        return len({one.place for one in map(self.keepers.__getitem__, self.owners[cell]) if one.is_honest})

    def _leave(self, keeper: Keeper) -> None:
        keeper.is_up, keeper.is_gone = False, True
        keeper.turns_at = keeper.leaves_at = float("inf")
        for cell in keeper.cells:
            self.owners[cell].discard(keeper.key)
            if keeper.is_honest:
                self._repaired_at[cell] = self.now + self.rules.departed_s + 4 * self.rules.repair_s
        keeper.cells.clear()
        keeper.due.clear()

    # -- cells

    def _cut(self, records: Sequence[PeerRecord], units: int, least: int) -> None:
        positions = {contact.position for record in records for contact in contacts_of(record, "ip")}
        while len(positions) < least:
            positions.add(Key(self.chance.randbytes(KEY_BYTES)))
        ordered = sorted(positions)
        counts = Counter(
            bisect_left(ordered, key_from_number(self.chance.randrange(CIRCLE))) % len(ordered)
            for _ in range(units)
        )
        cells = sorted(counts)
        self.ends = [ordered[cell] for cell in cells]
        self.units = [counts[cell] for cell in cells]
        self.arcs = [Arcs([Arc(ordered[cell - 1], ordered[cell])]) for cell in cells]
        self.owners: list[set[PeerKey]] = [set() for _ in cells]
        self.promised: list[set[PeerKey]] = [set() for _ in cells]
        """Attackers that say they have it, and have not."""
        self.holders: list[Holders] = [() for _ in cells]
        self._repaired_at = [0.0] * len(cells)

    def _have(self, keeper: Keeper, cell: int) -> None:
        keeper.cells.add(cell)
        keeper.due.pop(cell, None)
        self.owners[cell].add(keeper.key)

    # -- time

    def run(self, days: float) -> None:
        end = self.now + days * 24 * HOUR_S
        while self.now < end:
            self.now += self.rules.step_s
            for keeper in list(self.keepers.values()):
                self._live(keeper)
            self._look()
            self._fetch()
            self._sample()
            self._let_go()
            self._judge()

    def _live(self, keeper: Keeper) -> None:
        if keeper.leaves_at <= self.now:
            self._leave(keeper)
            if self._reserve:
                self._add(self._reserve.pop(), is_honest=True, seen_day=self._day)
        while keeper.turns_at <= self.now:
            keeper.is_up = not keeper.is_up
            mean_s = self.rules.up_s if keeper.is_up else self.rules.down_s
            keeper.turns_at += self.chance.expovariate(1 / mean_s)

    def _look(self) -> None:
        """What the ring shows everybody, and who holds what."""
        day, places = self._day, self.rules.places
        there = [one for one in self.keepers.values() if one.is_up]
        self.standings: dict[PeerKey, Standing] = {
            one.key: standing_of(one.record, places, day) for one in there
        }
        self._absence.see(
            [contact for one in there for contact in one.contacts],
            self.now,
            self.standings,
        )
        self._absence.advance(self.now)
        self.table: Table = self._absence.table(self.now)
        self.holders = [tuple(contact.peer for contact in self.table.of(end)) for end in self.ends]
        self._steadiness.see(dict(zip(self.arcs, self.holders, strict=True)), self.now)

    def _fetch(self) -> None:
        for cell, holders in enumerate(self.holders):
            owners = self.owners[cell]
            if owners.issuperset(holders):
                continue
            for key in holders:
                if not self._keeps(self.keepers[key], cell):
                    self.promised[cell].add(key)
            lacking = [key for key in holders if key not in owners and key not in self.promised[cell]]
            has_source = any(self.keepers[key].is_up for key in owners)
            for key in lacking:
                keeper = self.keepers[key]
                if not keeper.is_up or not has_source:
                    continue
                if keeper.due.setdefault(cell, self.now + self.rules.repair_s) <= self.now:
                    self._have(keeper, cell)

    def _keeps(self, keeper: Keeper, cell: int) -> bool:
        if keeper.is_honest or self.rules.keeping is Keeping.ALL:
            return True
        if self.rules.keeping is Keeping.NOTHING:
            return False
        theirs = [key for key in self.owners[cell] if not self.keepers[key].is_honest]
        return not theirs or keeper.key in theirs

    def _sample(self) -> None:
        """Each day every holder that is up proves something of what it should have."""
        for cell, promised in enumerate(self.promised):
            for key in sorted(promised.intersection(self.holders[cell])):
                if self.states.due_at(key, self.now) <= self.now and self.keepers[key].is_up:
                    is_right = self._proves(cell, key, b"sample")
                    self.refuted += not is_right
                    self.states.note(key, Outcome.PROVEN if is_right else Outcome.WRONG, self.now)

    def _proves(self, cell: int, prover: PeerKey, asker: bytes) -> bool:
        """Over the bytes, if it has them or somebody gives the answer for it; else over what it may have kept."""
        if not self.rules.asks_proofs:
            return True
        nonce, digest = self.chance.randbytes(16), self.ends[cell]
        expected, made = FullProof(nonce), FullProof(nonce)
        expected.add(digest, _bytes_of(cell))
        has_them = prover in self.owners[cell] or (
            self.rules.keeping is Keeping.ONCE
            and any(not self.keepers[key].is_honest and self.keepers[key].is_up for key in self.owners[cell])
        )
        made.add(digest, _bytes_of(cell) if has_them else b"")
        return made.by(prover, asker) == expected.by(prover, asker)

    def _let_go(self) -> None:
        standings = MemberStandings(self.standings, self.rules.places, self._day, self._age_days)
        trusted: dict[Holders, bool] = {}
        for keeper in self.keepers.values():
            if not keeper.is_honest or not keeper.is_up:
                continue
            surplus = [cell for cell in keeper.cells if keeper.key not in self.holders[cell]]
            if not surplus:
                continue
            held = sum(self.units[cell] for cell in keeper.cells)
            surplus.sort(key=lambda cell: (-self._rank(keeper, cell), cell))
            for cell in surplus:
                if not keeper.allowance.left(held, ALWAYS_FULL, 0.0, self.now):
                    break
                holders = self.holders[cell]
                if holders not in trusted:
                    trusted[holders] = are_trusted(
                        holders, self.table.peers, standings, self.rules.copies
                    ) and all(
                        self.keepers[key].is_up and self.states.counts(key, self.now) for key in holders
                    )
                if trusted[holders] and self._may_go(cell, holders, keeper.key):
                    keeper.cells.discard(cell)
                    self.owners[cell].discard(keeper.key)
                    keeper.allowance.spend(self.units[cell], self.now)
                    held -= self.units[cell]
                    self.copies_gone += self.units[cell]

    def _may_go(self, cell: int, holders: Holders, asker: PeerKey) -> bool:
        if self.now - self._steadiness.since(self.arcs[cell]) < self.rules.keep_s:
            return False
        owners, promised = self.owners[cell], self.promised[cell]
        return all(key in owners or (key in promised and self._proves(cell, key, asker)) for key in holders)

    def _rank(self, keeper: Keeper, cell: int) -> int:
        """As `surplus.farthest_first` has it."""
        ours = self.table.rank(self.ends[cell], keeper.key, slack=self.rules.copies)
        return 2 * self.rules.copies if ours is None else ours

    def _age_days(self, peer: bytes) -> int:
        if not self.rules.asks_veterans:
            return LONG_AGO_DAYS
        return self._day - self.keepers[PeerKey(peer)].seen_day

    def _judge(self) -> None:
        for cell in range(len(self.ends)):
            found = self.honest_copies(cell)
            self.fewest_at_all = min(self.fewest_at_all, found)
            if self._repaired_at[cell] <= self.now:
                self.fewest = min(self.fewest, found)


def _bytes_of(cell: int) -> bytes:
    return b"what is archived in cell %d" % cell
