"""How long does it take to say who holds which keys? A ring of 1,000 members with some 4,000 positions.

    scripts/bench holders                     1,000 members, a million keys
    scripts/bench holders --members 200 --keys 100000

Each row is the best of three.
"""

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from random import Random

from dht.core.arcs import Arcs
from dht.core.holders import Table, moves
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.places import PlaceRules, standing_at
from dht.core.records import Address, Contact
from herodotus.core.links.walk_plan import Keys

COPIES = 6
TRIES = 3
Work = Callable[[], object]


def members_of(count: int, chance: Random) -> list[Contact]:
    """One to seven positions each, as offered disk space makes them."""
    found = []
    for _ in range(count):
        peer = PeerKey(chance.randbytes(32))
        address = Address(host=chance.randbytes(4), port=4000)
        found += [
            Contact(peer=peer, address=address, slot=0, index=index, position=Key(chance.randbytes(20)))
            for index in range(chance.randint(1, 7))
        ]
    return sorted(found, key=lambda contact: contact.position)


def best_s(work: Work) -> float:
    found = []
    for _ in range(TRIES):
        gc.collect()
        begin = time.perf_counter()
        work()
        found.append(time.perf_counter() - begin)
    return min(found)


def rows_of(members: Sequence[Contact], keys: list[Key], rule: Rule) -> dict[str, Work]:
    standings = {one.peer: standing_at(one.peer, one.address.host, rule.places) for one in members}

    def made(some: Sequence[Contact]) -> Table:
        return Table(some, rule, standings=standings)

    table, fewer = made(members), made(members[: len(members) * 99 // 100])
    peers = sorted(table.peers)
    in_order = Keys(b"".join(sorted(keys)))
    some = Arcs([table.arc(place) for place in range(0, len(table), 3)])
    others = Arcs([table.arc(place) for place in range(0, len(table), 5)])
    groups = [arcs for peer in peers for arcs in table.groups(peer).values()]
    return {
        "table made": lambda: made(members),
        "arcs of all members": lambda: [table.arcs(peer) for peer in peers],
        "stretches with rank of all members": lambda: [table.share(peer) for peer in peers],
        "groups of all members": lambda: [table.groups(peer) for peer in peers],
        "holders of keys": lambda: [table.of(key) for key in keys],
        "sorted keys divided": lambda: list(table.runs(in_order, keys[0])),
        "difference of two sets of arcs": lambda: some - others,
        f"{len(groups):,} groups rounded": lambda: [arcs.coarse() for arcs in groups],
        "moves when a hundredth left": lambda: moves(table, fewer),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench holders", description=__doc__)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    asked = parser.parse_args(arguments)
    chance = Random(15)
    members = members_of(asked.members, chance)
    keys = [Key(chance.randbytes(20)) for _ in range(asked.keys)]
    print(f"{asked.members:,} members, {len(members):,} positions, {asked.keys:,} keys: by peers, by places")
    by_peers, by_places = (
        rows_of(members, keys, rule) for rule in (Rule(COPIES), Rule(COPIES, PlaceRules()))
    )
    for name, work in by_peers.items():
        print(f"{name:36}{best_s(work) * 1000:10.1f} ms{best_s(by_places[name]) * 1000:10.1f} ms")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
