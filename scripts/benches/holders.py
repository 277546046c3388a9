"""How long does it take to say who holds which keys? A ring of 1,000 members with some 4,000 positions.

    scripts/bench holders                     1,000 members, a million keys
    scripts/bench holders --members 200 --keys 100000

Each row is the best of three. With them stands what the code of before took in the same run, while it exists.
"""

import argparse
import gc
import time
from collections.abc import Callable, Sequence
from random import Random

from dht.core.arcs import Arc, Arcs
from dht.core.holders import Table, moves
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.records import Address, Contact
from herodotus.core.copies.places import Places
from herodotus.core.links.arcs import minus
from herodotus.core.links.ringmap import RingMap
from herodotus.core.links.walk_plan import Keys, _stretches

COPIES = 6
TRIES = 3
Work = Callable[[], object]


def members_of(count: int, chance: Random) -> list[Contact]:
    """One to seven positions each, as offered disk space makes them."""
    found = []
    for number in range(count):
        peer = PeerKey(chance.randbytes(32))
        address = Address(host=b"\x0a" + number.to_bytes(3, "big"), port=4000)
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


def rows_of(members: Sequence[Contact], keys: list[Key]) -> list[tuple[str, Work, Work | None]]:
    """What is measured: the work of now, and the work of before."""
    rule = Rule(COPIES)
    positions = [(contact.position, contact.peer) for contact in members]
    table, ring, places = Table(members, rule), RingMap(members), Places(positions, COPIES)
    peers = sorted(table.peers)
    fewer = Table(members[: len(members) * 99 // 100], rule)
    in_order = Keys(b"".join(sorted(keys)))
    begin = keys[0]
    ours = [Arc(*ring.arc(place)) for place in range(0, len(ring), 3)]
    theirs = [Arc(*ring.arc(place)) for place in range(0, len(ring), 5)]
    some, others = Arcs(ours), Arcs(theirs)

    def asked(of: Callable[[Key], object]) -> Work:
        return lambda: [of(key) for key in keys]

    return [
        ("table made", lambda: Table(members, rule), lambda: RingMap(members)),
        (
            "arcs of all members",
            lambda: [table.arcs(peer) for peer in peers],
            lambda: [places.scope_of(peer) for peer in peers],
        ),
        (
            "stretches with rank of all members",
            lambda: [table.share(peer) for peer in peers],
            lambda: [ring.stands_in(peer, COPIES) for peer in peers],
        ),
        (
            "groups of all members",
            lambda: [table.groups(peer) for peer in peers],
            lambda: [places.segments_of(peer) for peer in peers],
        ),
        ("holders of keys", asked(table.of), asked(lambda key: ring.holders_of(key, COPIES))),
        (
            "sorted keys divided",
            lambda: list(table.runs(in_order, begin)),
            lambda: list(_stretches(in_order, ring, begin)),
        ),
        ("difference of two sets of arcs", lambda: some - others, lambda: minus(ours, theirs)),
        ("moves when a hundredth went", lambda: moves(table, fewer), None),
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="scripts/bench holders", description=__doc__)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    asked = parser.parse_args(arguments)
    chance = Random(15)
    members = members_of(asked.members, chance)
    keys = [Key(chance.randbytes(20)) for _ in range(asked.keys)]
    print(f"{asked.members:,} members, {len(members):,} positions, {asked.keys:,} keys")
    for name, now, before in rows_of(members, keys):
        now_s = best_s(now)
        beside = f"  {now_s / best_s(before):5.2f} of before" if before else ""
        print(f"{name:36}{now_s * 1000:10.1f} ms{beside}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
