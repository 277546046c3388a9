"""A member tells of hundreds that do not exist: is the operator of an honest peer told, and where they should be?"""

from dataclasses import replace as with_values

from msgspec.structs import replace

from dht.core.machine import RingMachine
from dht.core.reader import RingReader
from dht.core.records import Address, Line
from herodotus.core.alarms import alarms
from herodotus.peers.membership import silent_status
from simnet.rings import RingWorld, SimulatedNotary, peer_number
from tests.herodotus.portal.statuses import STATUS

PEERS, INVENTED = 8, 240
NEVER_THERE = "10.200.0.0/24"


class Reader(RingReader):
    def __init__(self, machine: RingMachine) -> None:
        self._machine = machine

    @property
    def machine(self) -> RingMachine:
        return self._machine


def alarms_of(machine: RingMachine) -> tuple[str, ...]:
    members = Reader(machine).members()
    ring = with_values(
        STATUS.ring, members=len(members), silent=silent_status(members, machine.silent_strangers())
    )
    return alarms(with_values(STATUS, ring=ring))


def test_members_that_do_not_exist_raise_an_alarm_that_names_where_they_should_be() -> None:
    world = RingWorld(3)
    world.ideal([peer_number(number) for number in range(PEERS)])
    world.run(60)
    *honest, liar = (world.machines[peer_number(number).peer] for number in range(PEERS))
    assert [alarms_of(machine) for machine in honest] == [()] * len(honest)
    for number in range(INVENTED):
        there = Address(host=bytes((10, 200, 0, number + 1)), port=9_999)
        invented = replace(
            peer_number(1_000 + number),
            lines=(Line.at(there),),
            incarnation=5,
            issued_s=int(world.now),
            expires_s=int(world.now) + 80_000,
        )
        liar.table.put(SimulatedNotary(invented.peer).sign_record(invented))
    heard_at: dict[int, int] = {}
    told_at: dict[int, int] = {}
    for seconds in range(10, 400, 10):
        world.run(10)
        for number, machine in enumerate(honest):
            assert len(machine.table) == PEERS
            if machine._gossip.newcomers.waiting or machine.silent_strangers():
                heard_at.setdefault(number, seconds)
            if any(f"of them at {NEVER_THERE}" in alarm for alarm in alarms_of(machine)):
                told_at.setdefault(number, seconds)
    assert len(heard_at) >= 4, "as honest peers do not pass on what they hear, some may not hear of it"
    assert all(told_at[number] - heard_at[number] <= 120 for number in heard_at), (heard_at, told_at)
