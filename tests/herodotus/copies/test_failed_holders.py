"""Who holds more when a holder failed its proofs, and is it held, although nobody's table changes?"""

from dataclasses import replace

import anyio

from dht import Contact
from dht.core.arcs import Arcs
from dht.core.holders import Table
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.records import Address
from herodotus.copies.shared_state import View
from herodotus.copies.surplus import counted, spares_of
from herodotus.core.copies.holder_states import Outcome
from herodotus.core.copies.ledger import Group
from tests.herodotus.copies.world import SETTINGS, Net, deposit, in_world, ring_of


def contact_at(number: int) -> Contact:
    address = Address(host=bytes((127, 0, 0, 1)), port=4_000 + number)
    position = Key(bytes((number,)) * 20)
    return Contact(peer=PeerKey(bytes((number,)) * 32), address=address, slot=0, index=0, position=position)


FIVE = [contact_at(number) for number in (0x10, 0x30, 0x50, 0x70, 0x90)]
ME, SECOND, THIRD = FIVE[1].peer, FIVE[2].peer, FIVE[3].peer


def view() -> View:
    found = View(me=ME, table=Table((), Rule(2)))
    found.take(Table(FIVE, Rule(2)), {}, 0.0)
    return found


def test_the_next_peer_takes_the_place_of_one_that_failed_where_it_holds_with_us() -> None:
    mine = view()
    assert spares_of(mine, frozenset()) == {}
    own = mine.table.groups(ME)[ME, SECOND]
    assert spares_of(mine, {SECOND}) == {THIRD: own}
    assert spares_of(mine, {SECOND, THIRD}) == {}  # one more is accepted by anybody, not two


def test_a_failed_holder_is_not_counted() -> None:
    groups = [Group((ME, SECOND), Arcs()), Group((ME, THIRD), Arcs())]
    assert [one.holders for one in counted(groups, {SECOND})] == [(ME,), (ME, THIRD)]


def test_what_a_failed_holder_has_gets_a_copy_more_and_nobody_else_moves() -> None:
    async def play(net: Net) -> None:
        net.settings = replace(SETTINGS, full_share=1.0)  # nothing goes
        await ring_of(net, *[None] * 8)
        keys = [await deposit(net.peers[n % 8], f"http://example.org/{n}") for n in range(20)]
        await anyio.sleep(700)
        mine, failed = net.peers[0], net.peers[1]
        shared = [key for key in keys if {mine.me, failed.me} <= set(net.holders(key))]
        assert shared
        before = {key: net.copies_of(key) for key in shared}
        for _ in range(2):
            mine.copies.parts.states.note(failed.me, Outcome.WRONG, anyio.current_time())
            await anyio.sleep(1_000)
        mine.copies.parts.on_failed()
        await anyio.sleep(100)
        for key in shared:
            spare = next(one for one in net.table().of(Key(key[:12]), 1)[net.copies :])
            assert net.by_key[spare.peer].number in net.copies_of(key)
            assert net.copies_of(key) >= before[key]

    in_world(play)
