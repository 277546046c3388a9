"""Which claims to a seat count, and when does one end?"""

from ipaddress import ip_address

import pytest
from msgspec.structs import replace

from dht.core.ids import NetworkId, PeerKey, birth_host
from dht.core.places import BY_PEER, PlaceRules
from dht.core.records import LEAF, RECORD_VERSION, Birth, Line, PeerRecord, contacts_of, record_fault
from dht.core.seats import DEAD_S, DEPARTED_S, Claim, Remembered, SeatMemory, mark_of, seat_days, seat_on

DAY_S = 86_400
RULES = PlaceRules()
HOME, AWAY = "203.0.113.7", "198.51.100.9"


def host(text: str) -> bytes:
    return ip_address(text).packed


def record(at: str = HOME, *, number: int = 1, day: int = 107, since: int = 100, slot: int = 0) -> PeerRecord:
    return PeerRecord(
        version=RECORD_VERSION,
        network=NetworkId(bytes(8)),
        peer=PeerKey(bytes((number,)) * 32),
        lines=(Line(host=host(at), udp=4484, tcp=4484),),
        slot=slot,
        virtual_nodes=2,
        incarnation=1,
        issued_s=day * DAY_S,
        expires_s=day * DAY_S + 3_600,
        flags=0,
        previous=b"",
        since=since,
    )


def seated(
    at: str = HOME, birth: str = HOME, *, day: int = 107, begun: int = 107, number: int = 1
) -> PeerRecord:
    return replace(record(at, number=number, day=day), seat=Birth(host=host(birth), day=begun))


def remembering(*records: PeerRecord) -> SeatMemory:
    memory = SeatMemory()
    for one in records:
        memory.note(one)
    return memory


def test_positions_are_those_of_the_seat_whatever_the_address_is() -> None:
    at_home, away = contacts_of(seated(), "ip"), contacts_of(seated(AWAY), "ip")
    assert at_home == away == contacts_of(record(), "ip")
    assert [one.address.host for one in away] == 2 * [host(AWAY)]
    assert [one.birth for one in away] == 2 * [host(HOME)]
    assert [one.birth for one in at_home] == 2 * [b""], "it is named where it is needed"
    assert contacts_of(seated(AWAY), "off") == contacts_of(record(AWAY), "off")


@pytest.mark.parametrize(
    "wrong",
    [
        replace(seated(), slot=1),
        seated(begun=108),
        seated(begun=99),
        replace(seated(), seat=Birth(host=host("2001:db8::1"), day=107)),
    ],
)
def test_a_seat_has_the_first_slot_begins_in_its_members_life_and_has_one_form(wrong: PeerRecord) -> None:
    assert record_fault(seated(), NetworkId(bytes(8)), 107 * DAY_S) is None
    assert record_fault(wrong, NetworkId(bytes(8)), 107 * DAY_S) == "seat"


def test_a_seat_is_taken_at_the_end_of_probation_where_the_member_is_then() -> None:
    memory = SeatMemory()
    assert seat_on(record(), RULES, 106, memory) is None
    assert seat_on(record(), RULES, 107, memory) == Birth(host=host(HOME), day=107)
    six = record("2001:db8:1:2:3:4:5:6")
    assert seat_on(six, RULES, 107, memory) == Birth(host=host("2001:db8:1:2::"), day=107)


def test_without_places_in_another_slot_and_as_a_leaf_no_seat_is_taken() -> None:
    memory = SeatMemory()
    assert seat_on(record(), BY_PEER, 107, memory) is None
    assert seat_on(record(slot=1), RULES, 107, memory) is None
    assert seat_on(replace(record(), flags=LEAF), RULES, 107, memory) is None
    kept = replace(seated(), flags=LEAF)
    assert seat_on(kept, RULES, 300, memory) == kept.seat, "a leaf keeps what it has"


def test_one_address_gives_one_seat() -> None:
    memory = remembering(seated(AWAY, number=2))
    assert seat_on(record(), RULES, 107, memory) is None
    assert memory.claim(seated(), record(), RULES) is Claim.TAKEN
    moved_on = seated(HOME, AWAY)
    last = moved_on.seat
    assert last is not None
    later = last.day + seat_days(moved_on.peer)
    assert seat_on(moved_on, RULES, later, memory) == last, "the next address decides"


def test_a_seat_lasts_60_to_119_days_and_the_next_is_from_where_the_member_is_then() -> None:
    days = {seat_days(PeerKey(bytes((number,)) * 32)) for number in range(200)}
    assert (min(days), max(days)) == (60, 119) or 60 <= min(days) <= 62 <= 117 <= max(days) <= 119
    memory, one = remembering(seated(AWAY)), seated(AWAY)
    end = 107 + seat_days(one.peer)
    assert seat_on(one, RULES, end - 1, memory) == one.seat
    following = Birth(host=host(AWAY), day=end)
    assert seat_on(one, RULES, end, memory) == following
    at_end = replace(one, issued_s=end * DAY_S, seat=following)
    assert memory.claim(at_end, one, RULES) is Claim.SOUND
    early = replace(one, issued_s=(end - 1) * DAY_S, seat=Birth(host=host(AWAY), day=end - 1))
    assert memory.claim(early, one, RULES) is Claim.UNPROVEN
    elsewhere = replace(at_end, seat=Birth(host=host("192.0.2.1"), day=end))
    assert memory.claim(elsewhere, one, RULES) is Claim.UNPROVEN


def test_what_is_remembered_is_sound_and_nothing_else_but_a_first_seat_that_we_saw() -> None:
    memory = SeatMemory()
    assert memory.claim(record(since=101), None, RULES) is Claim.SOUND
    assert memory.claim(record(), record(), RULES) is Claim.SOUND
    assert memory.claim(record(), None, RULES) is Claim.HARMLESS, "of age, and a stranger: had it a seat?"
    assert memory.claim(seated(), record(day=106), RULES) is Claim.SOUND
    assert memory.claim(seated(), None, RULES) is Claim.HARMLESS, "we did not know it before"
    assert memory.claim(seated(), record(AWAY, day=106), RULES) is Claim.HARMLESS, "it has just moved there"
    assert memory.claim(seated(day=110), record(day=106), RULES) is Claim.HARMLESS, (
        "it began days ago, it says"
    )
    assert memory.claim(seated(AWAY), record(AWAY), RULES) is Claim.UNPROVEN
    memory.note(seated())
    assert memory.claim(seated(AWAY, day=120), seated(), RULES) is Claim.SOUND
    assert memory.claim(seated(AWAY, AWAY, day=120, begun=120), seated(), RULES) is Claim.UNPROVEN
    assert memory.claim(seated(begun=106), seated(), RULES) is Claim.UNPROVEN, "its day is made up"


def test_who_gives_a_seat_up_for_another_position_keeps_no_age() -> None:
    memory = remembering(seated())
    assert memory.claim(record(AWAY, day=120), None, RULES) is Claim.LEFT
    assert memory.claim(record(AWAY, day=120, since=120), None, RULES) is Claim.SOUND
    assert memory.claim(record(HOME, day=120), None, RULES) is Claim.SOUND, "it sits where it sat"
    assert memory.claim(record(HOME, day=120, slot=2), None, RULES) is Claim.LEFT


def test_a_seat_passes_on_to_the_next_key() -> None:
    memory = remembering(seated())
    heir = replace(seated(AWAY, number=2), previous=seated().peer)
    assert memory.claim(heir, None, RULES) is Claim.SOUND
    memory.note(heir)
    assert (memory.of(seated().peer), memory.of(heir.peer), len(memory)) == (None, heir.seat, 1)


def test_a_seat_ends_a_day_after_its_member_departed_and_half_a_week_after_it_died() -> None:
    one, other = seated(), seated(AWAY, AWAY, number=2)
    memory = remembering(one, other)
    memory.look([], [one.peer], 1_000.0)
    memory.look([], [one.peer], 1_000.0 + DEPARTED_S - 1)
    assert len(memory) == 2
    memory.look([], [], 1_000.0 + DEPARTED_S)
    assert memory.of(one.peer) is None
    memory.look([other.peer], [], 2_000.0 + DEAD_S - 1)
    memory.look([], [], 3_000.0 + DEAD_S)
    memory.look([], [], 3_000.0 + 2 * DEAD_S - 1)
    assert memory.of(other.peer) == other.seat, "it was there between"
    memory.look([], [], 3_000.0 + 2 * DEAD_S)
    assert len(memory) == 0
    assert memory.whose(host(AWAY)) is None


def test_a_mark_stands_for_one_seat_of_one_member() -> None:
    memory, one = remembering(seated()), seated()
    assert one.seat is not None
    assert memory.knows(mark_of(one.peer, one.seat)) is True
    assert memory.knows(mark_of(one.peer, Birth(host=one.seat.host, day=106))) is False
    assert memory.knows(mark_of(one.peer, Birth(host=host(AWAY), day=107))) is False
    assert memory.knows(mark_of(PeerKey(bytes(32)), one.seat)) is None


def test_memory_is_bounded_and_those_that_are_gone_go_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dht.core.seats.SEATS_MAX", 3)
    known = {
        PeerKey(bytes((number,)) * 32): Remembered(Birth(host=bytes((9, 9, 9, number)), day=1))
        for number in range(3)
    }
    memory = SeatMemory(known)
    gone = PeerKey(bytes((1,)) * 32)
    memory.look([peer for peer in known if peer != gone], [], 5_000.0)
    memory.note(seated(number=9))
    assert sorted(memory.all()) == sorted({*known, seated(number=9).peer} - {gone})


def test_a_birth_host_is_a_whole_ipv4_address_or_a_64_of_ipv6() -> None:
    assert birth_host(host(HOME)) == host(HOME)
    assert birth_host(host("2001:db8:1:2:3:4:5:6")) == host("2001:db8:1:2::")
