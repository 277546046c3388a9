"""Do seats hold against new addresses, forgers and grinders, and do the checkers fail where a rule is switched off?"""

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from dht.core.ids import PeerKey
from dht.core.places import PlaceRules
from dht.core.records import PeerRecord
from dht.core.rules import RingRules
from dht.core.seats import Claim, SeatMemory
from simnet.movers import Movers
from simnet.rings import NETWORK, peer_number
from simnet.runs import Options, RunReport, run_scenario
from simnet.scenarios import find_scenario

RULES = RingRules(network=NETWORK, places=PlaceRules())


def report(name: str, peers: int, seed: int = 1, **settings: float) -> RunReport:
    told = {key: f"{value:g}" for key, value in settings.items()}
    found, _ = run_scenario(find_scenario(name), replace(Options(seed=seed, peers=peers), settings=told))
    return found


def test_hourly_addresses_move_nothing_and_are_known_within_a_minute() -> None:
    found = report("new-addresses", 30, for_h=1)
    assert found.violation is None
    assert found.figures["moved, of all shares"] == 0.0
    assert found.figures["tables with the same positions, at least"] == 1.0
    assert found.figures["who knows a new address after a minute, mean"] > 0.95


def test_nobody_takes_a_false_seat_and_a_newcomer_learns_the_true_ones() -> None:
    found = report("false-seats", 30)
    assert found.violation is None
    assert found.figures["seats that the newcomer remembers"] >= 27


def test_forty_ground_seats_are_two_of_the_holders_and_by_one_place_alone_all() -> None:
    found = report("moved-seats", 40)
    assert found.violation is None
    assert found.figures["holders of the key, at most"] <= 2
    assert found.figures["by the present place alone"] >= 5


def test_a_ring_that_believes_each_record_takes_false_seats(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(
        _memory: SeatMemory, _record: PeerRecord, _held: PeerRecord | None, _rules: PlaceRules
    ) -> Claim:
        return Claim.SOUND

    monkeypatch.setattr(SeatMemory, "claim", believe)
    assert report("false-seats", 30).violation is not None


def test_a_member_without_a_seat_begins_anew_at_a_new_address() -> None:
    ring = Movers(1, peers=12, rules=RULES, since_days=30)
    ring.pass_time(120.0)
    record = changed(peer_number(77), since=RULES.places.day_of(ring.now) - 2)
    young = ring.join(record)
    ring.pass_time(120.0)
    before = {node.contact.position for node in young.machine.nodes}
    ring.move(young)
    ring.pass_time(300.0)
    after = {node.contact.position for node in young.machine.nodes}
    assert before.isdisjoint(after), "during probation positions follow the address"
    assert young.machine.own_record.since == record.since, "and its age goes on"
    assert ring.agreement() == 1.0


def test_a_seat_that_has_lasted_its_days_is_followed_by_one_at_the_present_address(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("dht.core.seats.seat_days", lambda _peer: 1)
    ring = Movers(1, peers=12, rules=RULES, since_days=30)
    ring.pass_time(120.0)
    one, began = ring.known[min(ring.known)], RULES.places.day_of(ring.now)
    ring.move(one)
    ring.pass_time(600.0)
    birth, positions = one.machine.own_record.seat, _positions(ring, one.peer)
    ring.pass_time(1.6 * 86_400.0)
    following = one.machine.own_record.seat
    assert birth is not None
    assert following is not None
    assert (following.host == one.host, birth.host == one.host) == (True, False)
    assert _positions(ring, one.peer) != positions
    assert one.machine.own_record.since == began - 30, "its age is kept"
    assert ring.agreement() == 1.0
    assert all(other.memory.of(one.peer) == following for other in ring.known.values())


def test_a_member_whose_seat_is_forgotten_by_all_sits_by_its_address_and_begins_its_age_anew() -> None:
    ring = Movers(1, peers=12, rules=RULES, since_days=30)
    ring.pass_time(120.0)
    one, began = ring.known[min(ring.known)], RULES.places.day_of(ring.now)
    ring.move(one)
    ring.pass_time(600.0)
    for other in ring.known.values():
        if other is not one:
            other.memory.forget(one.peer)
    ring.pass_time(8 * 3_600.0)
    record = one.machine.own_record
    assert (record.seat, one.machine.nodes[0].contact.birth) == (None, b"")
    assert began <= record.since <= began + 1
    assert ring.agreement() == 1.0
    assert _positions(ring, one.peer) == {node.contact.position for node in one.machine.nodes}


def _positions(ring: Movers, peer: PeerKey) -> set[bytes]:
    return {
        contact.position
        for other in ring.known.values()
        for contact in other.machine.table.contacts
        if contact.peer == peer
    }
