"""Is a peer that went away waited for, but not for ever?"""

from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.records import Address, Contact
from herodotus.core.copies.absence import Absence


def key(number: int) -> Key:
    return Key(bytes((number,)) + bytes(19))


def peer(number: int) -> PeerKey:
    return PeerKey(bytes((number,)) * 32)


def at(position: int, number: int) -> Contact:
    address = Address(host=bytes(4), port=1)
    return Contact(peer=peer(number), address=address, slot=0, index=0, position=key(position))


def holders(absence: Absence, now: float, position: int) -> tuple[PeerKey, ...]:
    return tuple(contact.peer for contact in absence.table(now).of(key(position)))


def test_the_absent_keep_their_place_for_a_day() -> None:
    absence = Absence(departed_s=86_400, low_s=900, rule=Rule(2))
    everybody = [at(10, 1), at(20, 2), at(30, 3)]
    absence.see(everybody, 0)
    assert absence.see(everybody[1:], 100) == []
    assert holders(absence, 100, 5) == (peer(1), peer(2))
    assert not absence.advance(86_499)
    assert absence.see([at(77, 1), *everybody[1:]], 86_499) == [peer(1)]  # at another place: it is back
    assert holders(absence, 86_499, 5) == (peer(2), peer(3))
    absence.see(everybody[1:], 90_000)
    assert absence.next_deadline() == 90_000 + 86_400
    assert absence.advance(176_400)
    assert holders(absence, 176_400, 60) == (peer(2), peer(3))


def test_who_departed_for_good_is_not_waited_for() -> None:
    absence = Absence(departed_s=86_400, low_s=900, rule=Rule(2))
    absence.see([at(10, 1), at(20, 2)], 0)
    absence.see([at(20, 2)], 1)
    absence.depart(peer(1))
    assert holders(absence, 2, 5) == (peer(2),)


def test_a_newcomer_at_the_place_of_an_absent_peer_holds_what_that_one_held_and_no_more() -> None:
    """Its host got another key: both sit at one position, and the newcomer was taken for a holder of everything."""
    absence = Absence(departed_s=86_400, low_s=900, rule=Rule(1))
    absence.see([at(10, 1), at(20, 2), at(30, 3)], 0)
    absence.see([at(10, 9), at(20, 2), at(30, 3)], 1)
    held = absence.table(2).arcs(peer(9), slack=1)
    assert [key(number) in held for number in (5, 10, 15, 20, 25)] == [True, True, False, False, False]
