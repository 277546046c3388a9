"""What does the rule of places cost honest members, and what does it leave to one person with many keys?

    scripts/bench places                rings of 50, 300 and 2,000 members
    scripts/bench places --rings 40     means over more rings (5)

55 % of the members are at home, 25 % in six clouds, 10 % in institutions, 10 % have IPv6 only; each has one to eight
positions.  "Clumped": half of them in twelve /24.  Attackers have eight positions a key.  Everything follows from
the seed.
"""

import argparse
import ipaddress
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from dht.core.holders import Table
from dht.core.ids import CIRCLE, Key, PeerKey, distance, position_of
from dht.core.placement import Rule
from dht.core.places import PlaceRules, place_at
from dht.core.records import SLOTS, Address, Contact

COPIES = 6
BY_PEER, BY_PLACE = Rule(COPIES), Rule(COPIES, PlaceRules())
POSITIONS_MAX = 8
ADMITTED = PlaceRules().admitted_per_place


def home(chance: Random) -> bytes:
    return bytes((chance.randint(20, 180), *chance.randbytes(3)))


def honest_host(chance: Random, clouds: Sequence[bytes]) -> bytes:
    kind = chance.random()
    if kind < 0.55:
        return home(chance)
    if kind < 0.80:
        return chance.choice(clouds) + chance.randbytes(2)
    if kind < 0.90:
        return bytes((141, chance.randrange(40), *chance.randbytes(2)))
    return ipaddress.ip_address("2a00::").packed[:2] + chance.randbytes(14)


def member(host: bytes, count: int, chance: Random, slot: int = 0) -> list[Contact]:
    peer, address = PeerKey(chance.randbytes(32)), Address(host=host, port=4484)
    return [Contact.at(peer, address, slot, index, "ip") for index in range(count)]


def honest_ring(size: int, chance: Random, *, is_clumped: bool = False) -> list[Contact]:
    clouds = [bytes((200 + number, 7)) for number in range(6)]
    clumps = [bytes((190, number * 3, number)) for number in range(12)]
    found = []
    for number in range(size):
        is_in_clump = is_clumped and number % 2 == 0
        host = (
            chance.choice(clumps) + bytes((number // 2 % 256,))
            if is_in_clump
            else honest_host(chance, clouds)
        )
        found += member(host, chance.randint(1, POSITIONS_MAX), chance, number // 512)
    return found


def admitted(contacts: Iterable[Contact]) -> list[Contact]:
    """What a table takes of each place, the attackers' first."""
    count: Counter[bytes] = Counter()
    found = []
    for contact in contacts:
        place = place_at(contact.address.host, BY_PLACE.places)
        count[place] += 1
        if count[place] <= ADMITTED:
            found.append(contact)
    return found


def one_address(keys: int, chance: Random) -> list[Contact]:
    return [one for slot in range(keys) for one in member(bytes((77, 7, 7, 7)), 8, chance, slot % 8)]


def in_places(keys: int, places: int, areas: int, chance: Random) -> list[Contact]:
    found = []
    for number in range(keys):
        place = number % places
        host = bytes((77, place % areas, place // areas, 1 + number // places))
        found += member(host, 8, chance)
    return found


ATTACKS: dict[str, Callable[[Random], list[Contact]]] = {
    "8 keys, one address": lambda chance: one_address(8, chance),
    "30 keys, one /24": lambda chance: in_places(30, 1, 1, chance),
    "100 keys, one /24": lambda chance: in_places(100, 1, 1, chance),
    "100 keys, five /24 of a /16": lambda chance: in_places(100, 5, 1, chance),
    "160 keys, 20 /24 in 20 /16": lambda chance: in_places(160, 20, 20, chance),
}


def part_of(table: Table, stretch: int) -> float:
    arc = table.arc(stretch)
    return distance(arc.start, arc.end) / CIRCLE


def shares(table: Table) -> dict[PeerKey, float]:
    """What part of the circle each member holds."""
    found: dict[PeerKey, float] = dict.fromkeys(table.peers, 0.0)
    for stretch in range(len(table)):
        for one in table.holders(stretch):
            found[one.peer] += part_of(table, stretch)
    return found


def attacked(table: Table, attackers: set[PeerKey]) -> list[float]:
    """Of all keys: the attackers own, hold three or more of, hold all of, hold at least one of."""
    found = [0.0] * 4
    for stretch in range(len(table)):
        holders, part = table.holders(stretch), part_of(table, stretch)
        bad = sum(one.peer in attackers for one in holders)
        for place, is_so in enumerate((holders[0].peer in attackers, bad >= 3, bad == COPIES, bad >= 1)):
            found[place] += part * is_so
    return found


@dataclass(frozen=True, slots=True)
class Loads:
    """Of one ring: the fullest store against the mean, without and with places, and what places change for members."""

    plain: float
    by_place: float
    low: float
    high: float
    worst: float


def loads(contacts: Sequence[Contact]) -> Loads:
    before, after = shares(Table(contacts, BY_PEER)), shares(Table(contacts, BY_PLACE))
    positions = Counter(one.peer for one in contacts)
    ratios = sorted(after[peer] / before[peer] for peer in before)
    offered = len(contacts)
    fair = {peer: COPIES * count / offered for peer, count in positions.items()}

    def fullest(held: dict[PeerKey, float]) -> float:
        """A store offers room by its positions."""
        return max(held[peer] / fair[peer] for peer in held)

    cut = max(len(ratios) // 100, 0)
    return Loads(
        fullest(before), fullest(after), ratios[cut], ratios[-1 - cut], max(after[p] / fair[p] for p in fair)
    )


def clumps(members: int, places: int, chance: Random) -> list[Contact]:
    """So many members in so few places, one of which has a single member."""
    found = member(bytes((60, 0, 0, 1)), 1, chance)
    for number in range(members - 1):
        place, here = 1 + number % (places - 1), number // (places - 1)
        found += member(bytes((60 + place, 0, 0, here % 250)), 1, chance, here // 250)
    return found


def print_loads(size: int, rings: int, *, is_clumped: bool) -> None:
    found = [
        loads(honest_ring(size, Random(f"{size} {ring} {is_clumped}"), is_clumped=is_clumped))
        for ring in range(rings)
    ]
    mean = [sum(getattr(one, name) for one in found) / rings for name in ("plain", "by_place", "low", "high")]
    name = f"{size:,} members{', clumped' if is_clumped else ''}"
    print(f"{name:28}{mean[1]:8.2f} ({mean[0]:.2f}){mean[2]:10.2f}–{mean[3]:.2f}")


def print_attacks(size: int, rings: int) -> None:
    for name, attack in ATTACKS.items():
        means = {True: [0.0] * 4, False: [0.0] * 4}
        for ring in range(rings):
            chance = Random(f"{size} {ring} {name}")
            theirs = attack(chance)
            contacts = admitted([*theirs, *honest_ring(size, chance)])
            keys = {one.peer for one in theirs}
            for is_by_place, rule in ((False, BY_PEER), (True, BY_PLACE)):
                for place, part in enumerate(attacked(Table(contacts, rule), keys)):
                    means[is_by_place][place] += part / rings
        shown = [
            "{:.1f} / {:.2f} / {:.3f} ({:.0f})".format(*(100 * one for one in means[which]))
            for which in (False, True)
        ]
        print(f"{size:6,}  {name:30}{shown[0]:>32}{shown[1]:>32}")


def print_bound(chance: Random) -> None:
    for places in (3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 20, 40):
        contacts = clumps(1_000, places, chance)
        alone, table = contacts[0].peer, Table(contacts, BY_PLACE)
        held, by_peer = shares(table), shares(Table(contacts, BY_PEER))
        others = max(part for peer, part in held.items() if peer != alone) / (COPIES / len(contacts))
        distinct = [
            table.places_of(one.peer for one in table.holders(stretch)) for stretch in range(len(table))
        ]
        print(
            f"{places:3} places: the single member holds {held[alone]:7.2%} ({by_peer[alone]:.2%} by peers,"
            f" {held[alone] / (COPIES / len(contacts)):.2f}x); most of any other {others:.2f}x;"
            f" {sum(distinct) / len(distinct):.2f} places a key"
        )


def print_differences(size: int, rings: int) -> None:
    """One peer's table lacks three members that joined: where do its holders differ, and what would be refused?"""
    differing = refused = keys = 0
    for ring in range(rings):
        chance = Random(f"differ {size} {ring}")
        known = honest_ring(size, chance)
        behind, ahead = Table(known, BY_PLACE), Table([*known, *honest_ring(3, chance)], BY_PLACE)
        for _ in range(2_000):
            key = Key(chance.randbytes(20))
            told = {one.peer for one in behind.of(key)}
            holders = {one.peer for one in ahead.of(key)}
            differing, keys = differing + (told != holders), keys + 1
            refused += len(told - {one.peer for one in ahead.of(key, 2)})
    print(
        f"{size:6,}  other holders for {differing / keys:.1%} of keys; refused {refused / keys / COPIES:.3%} of copies"
    )


V4_CHOSEN = [bytes((11, area, place)) for area in range(3) for place in range(2)]
V6_CHOSEN = [bytes((0x2A, area << 4, 0, 0, 0, place)) for area in range(3) for place in range(2)]
CHOSEN_KEYS = 20
SUBSCRIBERS = range(0, 65_536, 16)
"""Of the /64 of a /48: one in sixteen is enough to see it."""


def nearest(key: Key, place: bytes, chance: Random) -> Contact:
    """The member whose position comes first behind the key, of all that its owner can have in this place."""
    is_v4 = len(place) == 3
    hosts = (
        (place + bytes((number,)) for number in range(256))
        if is_v4
        else (place + number.to_bytes(2, "big") + bytes(8) for number in SUBSCRIBERS)
    )
    slots = [(host, slot) for host in hosts for slot in range(SLOTS)]
    host, slot = min(slots, key=lambda one: distance(key, position_of(one[0], 4484, one[1], 0, "ip")))
    return member(host, 1, chance, slot)[0]


def print_chosen(size: int) -> None:
    """Who wants one page has all networks' positions to choose from."""
    for name, places in (("/24 of three /16", V4_CHOSEN), ("/48 of three /28", V6_CHOSEN)):
        chance, held = Random(f"chosen {size}"), Counter[int]()
        ring = honest_ring(size, chance)
        for _ in range(CHOSEN_KEYS):
            key = Key(chance.randbytes(20))
            theirs = {nearest(key, place, chance) for place in places}
            line = sorted({*ring, *theirs}, key=lambda one: one.position)
            held[len(theirs.intersection(Table(line, BY_PLACE).of(key)))] += 1
        said = ", ".join(f"{count} of six {held[count]}" for count in sorted(held))
        print(f"{size:6,}  six {name}, {CHOSEN_KEYS} keys: {said}")


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench places", description=__doc__)
    parser.add_argument("--rings", type=int, default=5)
    parser.add_argument("--sizes", default="50,300,2000")
    asked = parser.parse_args(arguments)
    sizes = [int(size) for size in asked.sizes.split(",")]
    print("fullest store / fair share, by places (by peers); a member's load against no places, 1–99 %")
    for size in sizes:
        for is_clumped in (False, True):
            print_loads(size, asked.rings, is_clumped=is_clumped)
    print(
        "attackers' share of keys, %: owner / three or more / all six (at least one), by peers and by places"
    )
    for size in sizes:
        print_attacks(size, asked.rings)
    print("a peer whose table lacks three members that joined")
    for size in sizes:
        print_differences(size, asked.rings)
    print("one chosen key: how many of its holders are in six networks of one person")
    for size in sizes:
        print_chosen(size)
    print("1,000 members of one position in few places, one of them with a single member")
    print_bound(Random(1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
