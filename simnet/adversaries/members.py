"""Where do the members of a ring sit? Records as their owners would sign them, honest ones and those of attackers.

Honest members are a mix as one finds it: 55 % at home, 25 % in six clouds, 10 % in institutions, 10 % with IPv6 only;
each with one to eight positions.
"""

import ipaddress
from collections.abc import Iterable, Sequence
from random import Random

from dht.core.ids import NetworkId, PeerKey
from dht.core.membership import MemberTable
from dht.core.places import PlaceRules
from dht.core.records import RECORD_LIFE_S, RECORD_VERSION, SLOTS, Address, Line, PeerRecord, SignedRecord

POSITIONS_MAX = 8
LONG_AGO_DAYS = 400
"""Honest members were there, and seen by each other, before an attack begins."""
PORT = 4_484
AREAS_MAX = 10 * 256
"""Of attackers: /16 in which no honest member is."""
_CLOUDS = tuple(bytes((200 + number, 7)) for number in range(6))
_IPV6 = ipaddress.ip_address("2a00::").packed[:2]


def honest_host(chance: Random) -> bytes:
    kind = chance.random()
    if kind < 0.55:
        return bytes((chance.randint(20, 180), *chance.randbytes(3)))
    if kind < 0.80:
        return chance.choice(_CLOUDS) + chance.randbytes(2)
    if kind < 0.90:
        return bytes((181, chance.randrange(40), *chance.randbytes(2)))
    return _IPV6 + chance.randbytes(14)


def bought_hosts(keys: int, places: int, areas: int, chance: Random) -> list[bytes]:
    """Addresses for so many keys, spread over places in so many areas. A key in a place has an address of its own, as
    long as there are any."""
    nets = chance.sample(range(AREAS_MAX), areas)
    found = []
    for number in range(keys):
        place, here = number % places, number // places
        net = nets[place % areas]
        found.append(bytes((190 + net // 256, net % 256, place // areas % 256, 1 + here % 254)))
    return found


def record_at(
    host: bytes, chance: Random, *, network: NetworkId, since: int, positions: int, now: float, slot: int = 0
) -> PeerRecord:
    """As a key drawn by chance would sign it now."""
    return PeerRecord(
        version=RECORD_VERSION,
        network=network,
        peer=PeerKey(chance.randbytes(32)),
        lines=(Line.at(Address(host=host, port=PORT)),),
        slot=slot % SLOTS,
        virtual_nodes=positions,
        incarnation=int(now),
        issued_s=int(now),
        expires_s=int(now) + RECORD_LIFE_S,
        flags=0,
        previous=b"",
        since=since,
    )


def admitted(known: Sequence[PeerRecord], more: Iterable[PeerRecord], rules: PlaceRules) -> list[PeerRecord]:
    """Which of them does a table of the ring take in, one after the other?"""
    table = MemberTable("ip", rules)
    for record in known:
        table.put(SignedRecord(record=record, signature=b""))
    found = []
    for record in more:
        signed = SignedRecord(record=record, signature=b"")
        if table.refusal(signed) is None:
            table.put(signed)
            found.append(record)
    return found
