"""What is lost when a share of the places of age holds, proves, and is gone at once? Drawn, and by the formula.

Real are the holders and the spares of each key (`dht.core.holders.Table`); units are keys drawn at random. All members
have what is theirs; nobody has anything else. A place falls with all of its members.
"""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass
from random import Random

from dht.core.holders import Table
from dht.core.ids import CIRCLE, NetworkId, key_from_number
from dht.core.placement import Rule
from dht.core.places import PlaceRules
from dht.core.records import contacts_of
from herodotus.core.planning import lost_with
from simnet.adversaries.members import POSITIONS_MAX, honest_host, record_at

COPIES = 6


@dataclass(slots=True)
class Losses:
    """Over all draws."""

    mean: float = 0.0
    expected: float = 0.0
    hit: int = 0
    """Draws in which anything was lost."""


@dataclass(slots=True)
class Fallen:
    six: Losses
    spared: Losses
    places: float


def gone_at_once(
    seed: int, *, peers: int, units: int, share: int, draws: int, rings: int, spares: int
) -> Fallen:
    """One place in `share` falls, so many times, over so many rings."""
    found = Fallen(Losses(), Losses(), 0.0)
    for number in range(rings):
        chance = Random(f"{seed}/{number}/fallen")
        places, groups = _ring(chance, peers, units, spares)
        found.places += places / rings
        mine = draws // rings + (number < draws % rings)
        for losses, extra in ((found.six, 0), (found.spared, spares)):
            losses.expected += lost_with(places, places // share, COPIES + extra) * units * mine / draws
        for _ in range(mine):
            gone = sum(1 << place for place in chance.sample(range(places), places // share))
            six = spared = 0
            for (first, all_), count in groups:
                if not first & ~gone:
                    six += count
                    spared += 0 if all_ & ~gone else count
            for losses, lost in ((found.six, six), (found.spared, spared)):
                losses.mean += lost / draws
                losses.hit += lost > 0
    return found


def _ring(
    chance: Random, peers: int, units: int, spares: int
) -> tuple[int, list[tuple[tuple[int, int], int]]]:
    """How many places it has; and the units by the places of their holders, and of holders and spares, as bits."""
    network = NetworkId(b"simulate")
    contacts = [
        contact
        for _ in range(peers)
        for contact in contacts_of(
            record_at(
                honest_host(chance),
                chance,
                network=network,
                since=0,
                positions=chance.randint(1, POSITIONS_MAX),
                now=0.0,
            ),
            "ip",
        )
    ]
    table = Table(contacts, Rule(COPIES, PlaceRules()))
    places = {place: bit for bit, place in enumerate(sorted({one.place for one in table.standings.values()}))}
    bit_of = {peer: 1 << places[one.place] for peer, one in table.standings.items()}
    positions = [contact.position for contact in table.contacts]
    counts = Counter(
        bisect_left(positions, key_from_number(chance.randrange(CIRCLE))) % len(positions)
        for _ in range(units)
    )
    groups: Counter[tuple[int, int]] = Counter()
    for stretch, count in counts.items():
        bits = [bit_of[contact.peer] for contact in table.holders(stretch, spares)]
        groups[sum(set(bits[:COPIES])), sum(set(bits))] += count
    return len(places), sorted(groups.items())
