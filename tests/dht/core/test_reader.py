"""Do all questions about holders have one answer where copies count by place?"""

from random import Random

from msgspec.structs import replace

from dht.core.arcs import Arcs
from dht.core.effects import PaceChanged
from dht.core.holders import Table
from dht.core.ids import Key, PeerKey
from dht.core.machine import RingMachine
from dht.core.places import PlaceRules
from dht.core.reader import STAND_INS, RingReader
from dht.core.records import CLOSED, SLOW, Address, Line, PeerRecord, SignedRecord
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
    own = replace(record(0, (20, 1, 1, 1)), since=1)  # of age, or it would have no share
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


def of_families(number: int, *hosts: bytes, **stated: object) -> PeerRecord:
    lines = tuple(Line.at(Address(host=host, port=4484)) for host in hosts)
    return replace(record(number, (20, 1, 1, 1)), lines=lines, **stated)


def four(number: int) -> bytes:
    return bytes((30 + number, 1, 1, 1))


def six(number: int) -> bytes:
    return bytes((0x2A, number, *bytes(13), 1))


def town(own: PeerRecord, *others: PeerRecord) -> Reader:
    machine = RingMachine(record=own, rules=RULES, notary=SimulatedNotary(own.peer), random=Random(1))
    machine.create(START_S)
    assert learn(machine, map(signed, others), START_S) == len(others)
    machine.take_effects()
    return Reader(machine)


def test_an_open_peer_of_another_family_is_reached_through_its_relays_at_our_family() -> None:
    dual, other = of_families(1, six(1), four(1)), of_families(2, four(2))
    apart = of_families(3, six(3), relays=(dual.peer[:8], other.peer[:8]))
    reader = town(of_families(0, four(0)), dual, other, apart)
    assert reader.is_apart_from_some
    assert (reader.is_apart(apart.peer), reader.is_apart(dual.peer)) == (True, False)
    assert [(one.peer, one.address.host) for one in reader.relays_of(apart.peer)] == sorted(
        [(dual.peer, four(1)), (other.peer, four(2))]
    )
    assert reader.relays_of(dual.peer) == ()
    of_both = town(of_families(0, four(0), six(0)), dual, other, apart)
    assert not of_both.is_apart_from_some
    assert of_both.relays_of(apart.peer) == (), "we call it ourselves"


def test_relays_for_those_of_another_family_have_both() -> None:
    duals = [of_families(number, six(number), four(number)) for number in (1, 2, 3)]
    ours, apart = of_families(4, four(4)), of_families(5, six(5))

    def candidates(*others: PeerRecord, flags: int = 0) -> dict[bytes, bytes]:
        own = of_families(0, four(0), flags=flags, relays=(bytes(8),) if flags else ())
        return {one.peer: one.address.host for one in town(own, *others).relay_candidates()}

    of_both = {dual.peer: four(number) for number, dual in enumerate(duals, 1)}
    assert candidates(*duals, ours) == of_both | {ours.peer: four(4)}, "nobody is apart"
    assert candidates(*duals, ours, apart) == of_both
    few = {duals[0].peer: four(1)}
    assert candidates(duals[0], ours, apart) == few, "the others cannot help it"
    assert candidates(duals[0], ours, apart, flags=CLOSED) == few | {ours.peer: four(4)}, "no relay is worse"
    assert candidates(*duals, ours, apart, flags=CLOSED) == of_both


def test_a_lookup_that_found_others_adds_them_by_place() -> None:
    reader = ring(crowd=0, others=2)
    far = ring(crowd=3, others=1).contacts()
    found = [one for one in far if one.address.host[0] == 99]
    holders = reader.holders_by_place(Key(bytes(20)), 3, found)
    assert len({one.address.host[0] for one in holders}) == 3


def say_slow(reader: Reader, *peers: PeerKey) -> None:
    """Each by a newer record."""
    for peer in peers:
        known = reader.record_of(peer)
        assert known is not None
        slow = replace(known, flags=known.flags | SLOW, incarnation=known.incarnation + 1)
        assert learn(reader.machine, [signed(slow)], START_S) == 1


def test_the_first_of_three_holders_on_a_prompt_line_stands_in_for_a_slow_owner() -> None:
    reader, key = ring(crowd=0, others=12), Key(bytes(20))
    line = reader.holders_by_place(key, STAND_INS + 1)
    assert len(line) > STAND_INS
    assert reader.prompt_of(line) == line[0]
    for slow, expected in ((0, 1), (1, 2), (2, 0)):  # where all are slow, the owner does it
        say_slow(reader, line[slow].peer)
        assert reader.prompt_of(line) == line[expected]


def test_a_member_without_ipv4_is_passed_over_as_one_on_a_slow_line() -> None:
    dual, ours = of_families(1, six(1), four(1)), of_families(0, four(0))
    apart = of_families(3, six(3))
    reader = town(ours, dual, apart)
    line = [
        next(one for one in reader.contacts() if one.peer == record.peer) for record in (apart, dual, ours)
    ]
    assert reader.prompt_of(line) == line[1]
    assert reader.prompt_of([line[0]]) == line[0], "where none has IPv4, the owner does it"
    own, chance = Arcs(reader.prompt_arcs()), Random(4)
    for key in (Key(chance.randbytes(20)) for _ in range(100)):
        prompt = reader.prompt_of(reader.holders_by_place(key, STAND_INS))
        assert prompt.peer != apart.peer
        assert (key in own) == (prompt == reader.me)


def test_each_key_has_one_prompt_owner_whoever_is_slow() -> None:
    """As every reader of one table sees it: what is ours is what `prompt_of` says of each key."""
    chance = Random(3)
    keys = [Key(chance.randbytes(20)) for _ in range(100)]
    gained = lost = 0
    for slow in range(9):
        reader = ring(crowd=5, others=9)
        before = Arcs(reader.my_arcs(1))
        peer = peer_number(slow and 1 + slow).peer
        if slow:
            say_slow(reader, peer)
        else:
            reader.machine.say_slow(is_slow=True, now=START_S)
        own = Arcs(reader.prompt_arcs())
        for key in keys:
            is_ours = reader.prompt_of(reader.holders_by_place(key, STAND_INS)) == reader.me
            assert (key in own) == is_ours
            gained += is_ours and key not in before
            lost += key in before and not is_ours
    assert gained, "of a slow owner before us"
    assert lost, "when we are slow ourselves"


def test_what_a_peer_says_of_its_line_is_news_once() -> None:
    reader = ring(crowd=0, others=5)
    other = next(peer for peer in reader.machine.table.records if peer != reader.me.peer)
    say_slow(reader, other)
    assert PaceChanged(peer=other) in reader.machine.take_effects()
    say_slow(reader, other)
    assert not [one for one in reader.machine.take_effects() if isinstance(one, PaceChanged)]
    for is_slow, news in ((True, 1), (True, 0), (False, 1)):
        reader.machine.say_slow(is_slow=is_slow, now=START_S)
        record = reader.record
        assert record is not None
        assert bool(record.record.flags & SLOW) == is_slow
        assert reader.machine.take_effects().count(PaceChanged(peer=reader.me.peer)) == news
