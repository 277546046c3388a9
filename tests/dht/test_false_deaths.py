"""Two liars beside a peer announce its death each minute: for how long is it out of the table?"""

from dht.core.machine import RingMachine
from dht.core.messages import Rumour
from dht.core.records import Death
from dht.core.witnesses import DISCREDITED_S, REFUTED_MAX, REFUTED_WITHIN_S, REMEMBERED_MAX, Refutations
from tests.dht.machines import NOW, contact, counts, death, member, signed

VICTIM, LIAR, ACCOMPLICE, HONEST = 1, 2, 3, 4
NEAR = range(1, 9)


def told(one: RingMachine, news: object, now: float) -> None:
    one.receive(Rumour(id=1, news=(news,)), contact(HONEST), now)  # type: ignore[arg-type]  # any of the three
    one.take_effects()


def deaths_believed(one: RingMachine, accuser: int, confirmer: int, begin: float, minutes: int) -> int:
    """A false death each minute, refuted half a minute later."""
    believed = 0
    for minute in range(minutes):
        now = begin + 60 * minute
        known = one.table.records.get(contact(VICTIM).peer)
        incarnation = known.record.incarnation if known else 0
        told(one, death(VICTIM, accuser, confirmer, incarnation), now)
        believed += contact(VICTIM).peer not in one.table.records
        told(one, signed(VICTIM, incarnation + 1), now + 30)
        assert contact(VICTIM).peer in one.table.records
    return believed


def test_a_false_death_each_minute_is_believed_three_times_a_day() -> None:
    one = member(NEAR)
    assert deaths_believed(one, LIAR, ACCOMPLICE, NOW + 60, 120) == REFUTED_MAX
    assert counts(one)["deaths discredited"] == 120 - REFUTED_MAX
    assert deaths_believed(one, ACCOMPLICE, LIAR, NOW + 9_000, 10) == 0, "nor the other way round"
    assert deaths_believed(one, HONEST, LIAR, NOW + 10_000, 10) == 0, "nor with another's signature"


def test_other_witnesses_are_still_believed_and_so_are_these_about_others() -> None:
    one = member(NEAR)
    deaths_believed(one, LIAR, ACCOMPLICE, NOW + 60, 10)
    last = one.table.records[contact(VICTIM).peer].record.incarnation
    told(one, death(5, LIAR, ACCOMPLICE), NOW + 700)
    assert contact(5).peer not in one.table.records
    told(one, death(VICTIM, 6, 7, last), NOW + 700)
    assert contact(VICTIM).peer not in one.table.records


def test_witnesses_of_a_peer_that_restarts_all_day_are_believed() -> None:
    one, believed = member(NEAR), 0
    for hour in range(1, 25):
        now = NOW + 3_600 * hour
        told(one, death(VICTIM, HONEST, 5, hour), now)
        believed += contact(VICTIM).peer not in one.table.records
        told(one, signed(VICTIM, hour + 1), now + REFUTED_WITHIN_S + 1)
    assert believed == 24


def test_after_a_day_they_are_believed_again() -> None:
    one = member(NEAR)
    deaths_believed(one, LIAR, ACCOMPLICE, NOW + 60, 10)
    later = NOW + 60 + DISCREDITED_S + 200
    newest = one.table.records[contact(VICTIM).peer].record.incarnation
    told(one, death(VICTIM, LIAR, ACCOMPLICE, newest), later)
    assert contact(VICTIM).peer not in one.table.records


def test_who_is_declared_dead_each_minute_does_not_have_the_ring_hear_of_it_each_minute() -> None:
    one, said = member(NEAR), 0
    for minute in range(1, 121):
        own = one.record
        assert own is not None
        before = own.record.incarnation
        told(one, own_death(one, before), NOW + 60 * minute)
        after = one.record
        assert after is not None
        said += after.record.incarnation != before
    assert said <= REFUTED_MAX + 120 / 10
    assert said > REFUTED_MAX, "some peers may never have heard the first refutations"


def own_death(one: RingMachine, incarnation: int) -> Death:
    assert one.me.peer == contact(0).peer
    return death(0, LIAR, ACCOMPLICE, incarnation)


def test_the_memory_of_refutations_is_bounded_and_forgets_after_a_day() -> None:
    memory = Refutations()
    for number in range(REMEMBERED_MAX):
        memory.refuted(death(number, number + 1, number + 2), 0.0)
    assert len(memory) == REMEMBERED_MAX
    memory.refuted(death(1, 2, 3), DISCREDITED_S)
    assert len(memory) == 2
