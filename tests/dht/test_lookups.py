"""Lookups where much is dead or busy: whom to believe, and when to ask again."""

from random import Random

import pytest

from dht.core.effects import Effect, LookupDone, Send
from dht.core.ids import Key, key_from_number, number_of
from dht.core.machine import RingMachine
from dht.core.messages import Busy, Closer, Find, GetState, Message, NeighbourState, NotMember, Owner, Reply
from dht.core.records import Contact, contacts_of
from dht.core.rules import RingRules
from simnet.rings import NETWORK, START_S, SimulatedNotary, peer_number
from simnet.ringtrials import lookups_without_repair

RECORDS = sorted((peer_number(n) for n in range(8)), key=lambda r: contacts_of(r, "ip")[0].position)
PEERS = [contacts_of(record, "ip")[0] for record in RECORDS]  # in ring order


class Asker:
    """Peer 0 with a list of its own; everybody else answers from a script, or stays silent."""

    def __init__(self, line: tuple[int, ...]) -> None:
        self.before: dict[int, int] = {}
        record = RECORDS[0]
        rules = RingRules(network=NETWORK, gossips=False)
        self.machine = RingMachine(
            record=record, rules=rules, notary=SimulatedNotary(record.peer), random=Random(1)
        )
        self.machine.restore([(PEERS[7], tuple(PEERS[n] for n in line))], START_S)
        self.asked: list[tuple[int, str]] = []
        self.states: dict[int, list[Reply]] = {}
        self.finds: dict[int, Reply] = {}

    def look_up(self, key: Key) -> LookupDone:
        now = START_S
        lookup = self.machine.lookup(key, now)
        for _ in range(1_000):
            effects = self.machine.take_effects()
            for effect in effects:
                if isinstance(effect, LookupDone) and effect.id == lookup:
                    return effect
                self._answer(effect, now)
            now = self.machine.next_deadline() or now
            self.machine.advance(now)
        raise AssertionError("the lookup never ended")

    def _answer(self, effect: Effect, now: float) -> None:
        if not isinstance(effect, Send):
            return
        place, reply = PEERS.index(effect.to), self._reply(PEERS.index(effect.to), effect.message)
        if reply is not None:
            self.machine.receive(reply, PEERS[place], now)

    def _reply(self, place: int, message: Message) -> Reply | None:
        if isinstance(message, Find):
            self.asked.append((place, "Find"))
            found = self.finds.get(place)
            if isinstance(found, Owner):
                return Owner(id=message.id, holders=found.holders, records=())
            return Closer(id=message.id, contacts=found.contacts) if isinstance(found, Closer) else None
        if isinstance(message, GetState) and place in self.states:
            self.asked.append((place, "GetState"))
            replies = self.states[place]
            found = replies.pop(0) if len(replies) > 1 else replies[0]
            if isinstance(found, NeighbourState):
                before = PEERS[self.before[place]] if place in self.before else None
                return NeighbourState(
                    id=message.id, version=1, predecessor=before, successors=found.successors
                )
            return Busy(id=message.id) if isinstance(found, Busy) else NotMember(id=message.id)
        return None


def owner(*places: int) -> Owner:
    return Owner(id=0, holders=tuple(PEERS[n] for n in places), records=())


def closer(*places: int) -> Closer:
    return Closer(id=0, contacts=tuple(PEERS[n] for n in places))


def state(*places: int) -> NeighbourState:
    return NeighbourState(id=0, version=1, predecessor=None, successors=tuple(PEERS[n] for n in places))


def just_after(contact: Contact) -> Key:
    return key_from_number(number_of(contact.position) + 1)


def test_when_everybody_before_the_key_is_dead_our_own_list_names_the_owner() -> None:
    """The nearest before the key are silent, and nobody else was named: we are the station."""
    asker = Asker(line=(1, 2, 3, 4, 5))
    asker.finds = {5: owner(5, 6, 7)}
    found = asker.look_up(just_after(PEERS[4]))
    assert found.holders == (PEERS[5], PEERS[6], PEERS[7])
    assert found.timeouts == 4  # three at first, the fourth after consulting our list again


def test_a_farther_list_has_no_say_while_a_nearer_station_lives() -> None:
    """Station 1 leaves out the owner 4 (its host stands in the list already); station 3 knows it but is BUSY
    at first.
    """
    asker = Asker(line=(1,))
    asker.finds = {1: closer(3), 3: closer(), 4: owner(4, 5), 5: owner(5, 6)}
    asker.states = {1: [state(3, 5, 6)], 3: [Busy(id=0), Busy(id=0), state(4, 5)]}
    found = asker.look_up(just_after(PEERS[3]))
    assert found.holders[0] == PEERS[4]
    assert (1, "GetState") not in asker.asked


def test_a_station_that_stays_busy_gives_no_owner_rather_than_a_wrong_one() -> None:
    asker = Asker(line=(1,))
    asker.finds = {1: closer(3), 3: closer(), 5: owner(5, 6)}
    asker.states = {1: [state(3, 5, 6)], 3: [Busy(id=0)]}
    assert asker.look_up(just_after(PEERS[3])).holders == ()


def test_a_station_that_is_no_member_does_not_hold_up_the_lists_before_it() -> None:
    asker = Asker(line=(1,))
    asker.finds = {1: closer(3), 3: closer(), 5: owner(5, 6)}
    asker.states = {1: [state(3, 5, 6)], 3: [NotMember(id=0)]}
    assert asker.look_up(just_after(PEERS[3])).holders[0] == PEERS[5]


def test_a_list_whose_first_six_owners_are_dead_is_read_to_its_end() -> None:
    asker = Asker(line=(1,))
    asker.finds = {1: owner(2, 3, 4), 7: owner(7, 0)}
    asker.states = {1: [state(2, 3, 4, 5, 6, 7)]}
    found = asker.look_up(just_after(PEERS[1]))
    assert found.holders[0] == PEERS[7]
    assert found.timeouts == 5


def test_an_owner_that_does_not_say_so_itself_is_asked_who_sits_before_it() -> None:
    """The station's list is old: it passes over 4, which 5 knows to be its predecessor."""
    asker = Asker(line=(1,))
    asker.finds = {1: closer(3), 3: owner(5, 6), 5: closer(), 4: owner(4, 5)}
    asker.states = {5: [Busy(id=0), state(6, 7)]}
    asker.before = {5: 4}
    found = asker.look_up(just_after(PEERS[3]))
    assert found.holders == (PEERS[4], PEERS[5], PEERS[6])


def test_a_dead_predecessor_does_not_hide_the_owner_behind_it() -> None:
    asker = Asker(line=(1,))
    asker.finds = {1: closer(3), 3: owner(5, 6), 5: closer()}
    asker.states = {5: [state(6, 7)]}
    asker.before = {5: 4}
    found = asker.look_up(just_after(PEERS[3]))
    assert found.holders[0] == PEERS[5]
    assert found.timeouts == 1


@pytest.mark.parametrize("failed", [0.3, 0.5])
def test_every_lookup_finds_the_owner_however_many_died_unnoticed(failed: float) -> None:
    paths = lookups_without_repair(1, 200, 20, failed, lookups=150)
    assert paths.wrong == 0
    assert paths.mean < 4
