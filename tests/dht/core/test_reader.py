"""Do all questions about holders have one answer where copies count by place?"""

from random import Random

from msgspec.structs import replace

from dht.core.arcs import Arcs
from dht.core.holders import Table
from dht.core.ids import Key
from dht.core.machine import RingMachine
from dht.core.places import PlaceRules
from dht.core.reader import RingReader
from dht.core.records import Address, Line, PeerRecord, SignedRecord
from dht.core.rules import RingRules
from simnet.rings import NETWORK, START_S, SimulatedNotary, learn, peer_number

RULES = RingRules(network=NETWORK, copies=3, places=PlaceRules())


class Reader(RingReader):
    def __init__(self, machine: RingMachine) -> None:
        self._machine = machine

    @property
    def machine(self) -> RingMachine:
        return self._machine


def record(number: int, host: tuple[int, int, int, int]) -> PeerRecord:
    return replace(
        peer_number(number),
        lines=(Line.at(Address(host=bytes(host), port=4484)),),
        incarnation=1,
        issued_s=int(START_S),
        expires_s=int(START_S) + 80_000,
    )


def signed(one: PeerRecord) -> SignedRecord:
    return SimulatedNotary(one.peer).sign_record(one)


def ring(*, crowd: int, others: int) -> Reader:
    """We are one of the others, each of which is in a place of its own."""
    own = record(0, (20, 1, 1, 1))
    machine = RingMachine(record=own, rules=RULES, notary=SimulatedNotary(own.peer), random=Random(1))
    machine.create(START_S)
    known = [record(1 + number, (20 + number, 1, 1, 1)) for number in range(1, others)]
    known += [record(100 + number, (99, 9, 9, number)) for number in range(crowd)]
    assert learn(machine, map(signed, known), START_S) == len(known)
    machine.take_effects()
    return Reader(machine)


def test_arcs_holders_and_owners_are_those_of_the_table_by_place() -> None:
    reader = ring(crowd=20, others=12)
    table = Table(reader.contacts(), RULES.holders, standings=reader.standings())
    me, chance = reader.me.peer, Random(2)
    for _ in range(200):
        key = Key(chance.randbytes(20))
        holders = table.of(key, 2)
        assert reader.holders_by_place(key, 1) == holders[:1]
        assert reader.holders_by_place(key, 5) == holders
        in_crowd = [one for one in holders if one.address.host[0] == 99]
        assert len(in_crowd) <= 1
        for copies in (1, 2, 3, 5):
            is_ours = me in [one.peer for one in holders[:copies]]
            assert (key in Arcs(reader.my_arcs(copies))) is is_ours
    assert Arcs(reader.my_arcs()) == table.arcs(me)


def test_what_the_table_says_is_made_again_when_somebody_comes_moves_or_goes() -> None:
    reader = ring(crowd=2, others=4)
    before = reader.table()
    assert reader.table() is before
    newcomer = record(50, (77, 7, 7, 7))
    assert learn(reader.machine, [signed(newcomer)], START_S) == 1
    assert newcomer.peer in reader.table().peers
    moved = replace(newcomer, lines=(Line.at(Address(host=bytes((99, 9, 9, 77)), port=4484)),), incarnation=2)
    reader.machine.table.put(signed(moved))
    assert reader.table().standings[newcomer.peer].place == bytes((4, 99, 9, 9))
    reader.machine.table.remove(newcomer.peer)
    assert newcomer.peer not in reader.table().peers


def test_a_lookup_that_found_others_adds_them_by_place() -> None:
    reader = ring(crowd=0, others=2)
    far = ring(crowd=3, others=1).contacts()
    found = [one for one in far if one.address.host[0] == 99]
    holders = reader.holders_by_place(Key(bytes(20)), 3, found)
    assert len({one.address.host[0] for one in holders}) == 3
