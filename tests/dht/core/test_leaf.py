"""A leaf owns nothing and stands at no position, yet it is known and finds its way."""

from random import Random

from msgspec.structs import replace

from dht.core.effects import LookupDone, Send
from dht.core.ids import NetworkId, key_of
from dht.core.machine import RingMachine
from dht.core.records import LEAF, Address, Contact, Line, first_contact_of
from dht.core.rules import RingRules
from dht.identity import KeyNotary, peer_key
from tests.dht.link_world import NETWORK, key_from
from tests.dht.values import record_of

RULES = RingRules(network=NetworkId(NETWORK), id_check="ip", proves_newcomers=False)
START_S = 1_790_000_000.0


def machine_of(name: str, host: int, flags: int = 0) -> RingMachine:
    record = replace(
        record_of(name),
        lines=(Line.at(Address(host=bytes((127, host, 0, 1)), port=4484)),),
        virtual_nodes=1,
        flags=flags,
    )
    notary = KeyNotary(key_from(name), RULES.network)
    assert record.peer == peer_key(key_from(name))
    return RingMachine(record=record, rules=RULES, notary=notary, random=Random(name))


def run(machines: list[RingMachine], now: float, until: float) -> list[LookupDone]:
    """Messages arrive at once; time goes on by quarters of a second."""
    by_peer = {machine.me.peer: machine for machine in machines}
    done: list[LookupDone] = []
    while now < until:
        for machine in machines:
            machine.advance(now)
            for effect in machine.take_effects():
                if isinstance(effect, Send):
                    by_peer[effect.to.peer].receive(effect.message, machine.me, now)
                elif isinstance(effect, LookupDone):
                    done.append(effect)
        now += 0.25
    return done


def contact_of(machine: RingMachine) -> Contact:
    return first_contact_of(machine.own_record, RULES.id_check)


def test_a_leaf_is_in_every_table_owns_nothing_and_looks_up_what_the_members_say() -> None:
    members, leaf = [machine_of("anna", 1), machine_of("bert", 2)], machine_of("carl", 3, LEAF)
    members[0].create(START_S)
    members[1].join([contact_of(members[0])], START_S)
    run(members, START_S, START_S + 60)
    leaf.join([contact_of(members[0])], START_S + 60)
    run([*members, leaf], START_S + 60, START_S + 120)
    for machine in (*members, leaf):
        assert len(machine.table) == 3
        assert len(machine.table.positions) == 2
    assert leaf.arcs() == ()
    keys = [key_of(b"page %d" % number) for number in range(20)]
    for key in keys:
        leaf.lookup(key, START_S + 120)
    found = {done.key: done.holders for done in run([*members, leaf], START_S + 120, START_S + 140)}
    for key in keys:
        expected = next(members[0].table.clockwise(key))
        assert found[key][0] == expected


def test_a_leaf_that_knows_nobody_finds_nothing_and_does_not_stumble() -> None:
    leaf = machine_of("carl", 3, LEAF)
    leaf.create(START_S)
    leaf.lookup(key_of(b"x"), START_S)
    (done,) = run([leaf], START_S, START_S + 300)
    assert done.holders == ()
