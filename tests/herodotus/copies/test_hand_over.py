"""Does everything reach its heirs, of a peer that leaves, and of one whose share became smaller?"""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import cast

import anyio

from dht import Contact
from dht.core import ids
from dht.core.arcs import NONE, WHOLE
from dht.core.holders import Table
from dht.core.placement import Rule
from dht.core.places import Standing
from dht.core.records import Address
from herodotus.copies.hand_over import HandedOver, hand_over, heirs
from herodotus.copies.rounds import Lacked
from herodotus.copies.shared_state import Parts, View
from herodotus.copies.surplus import SURPLUS_DIRECTORIES_MAX
from herodotus.core.copies import PeerKey
from herodotus.core.copies.ledger import PROMISE_KEPT_S
from herodotus.core.index_rows import KEY_BYTES
from herodotus.core.reconciliation import RANGES_MAX, Range, Scope, arcs_of
from simnet.host import TrioCarrier, run_world
from tests.herodotus.copies.storm import watched_drops
from tests.herodotus.copies.world import Net, Peer, deposit, in_world


def ranges(count: int) -> Scope:
    """Apart from each other."""
    ends = [(2 * n).to_bytes(KEY_BYTES, "big") for n in range(1, count + 2)]
    return tuple(Range(low, low[:-1] + bytes((low[-1] | 1,))) for low in ends[:count])


@dataclass
class Heirs:
    """Peers by what they will hold; each part lacks something the first time it is asked for."""

    scopes: dict[PeerKey, Scope]
    away: set[PeerKey] = field(default_factory=set)
    full: set[PeerKey] = field(default_factory=set)
    """They let nothing in."""
    has: set[tuple[PeerKey, Scope]] = field(default_factory=set)
    told: list[HandedOver] = field(default_factory=list)
    asked: list[PeerKey] = field(default_factory=list)

    async def give(self, peer: PeerKey, scope: Scope) -> Lacked | None:
        await anyio.sleep(1)
        self.asked.append(peer)
        if peer in self.away:
            return None
        if peer in self.full:
            return Lacked(0, turned_away=5)
        lacked = Lacked(0 if (peer, scope) in self.has else 5)
        self.has.add((peer, scope))
        return lacked

    async def all_given(self) -> HandedOver:
        return await hand_over(lambda: self.scopes, self.give, self.told.append)


def test_each_part_is_asked_about_until_nothing_is_lacking() -> None:
    async def play(_: TrioCarrier) -> None:
        heirs = Heirs({b"a": ranges(RANGES_MAX + 1), b"b": ranges(2)})
        done = await heirs.all_given()
        assert done == HandedOver(peers=2, parts=3, parts_over=3)
        assert [one.parts_over for one in heirs.told] == sorted(one.parts_over for one in heirs.told)
        assert heirs.told[0] == HandedOver(peers=2, parts=3)

    run_world(play, seed=1)


def test_who_is_away_holds_nobody_up_and_gets_his_part_when_he_is_back() -> None:
    async def play(_: TrioCarrier) -> None:
        heirs = Heirs({b"a": ranges(1), b"b": ranges(1)}, away={b"b"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heirs.all_given)
            await anyio.sleep(30)
            assert heirs.told[-1] == HandedOver(peers=2, parts=2, parts_over=1, silent=1)
            heirs.away.clear()
        assert heirs.told[-1] == HandedOver(peers=2, parts=2, parts_over=2)

    run_world(play, seed=1)


def test_what_an_heir_turns_away_is_not_handed_over() -> None:
    async def play(_: TrioCarrier) -> None:
        heirs = Heirs({b"a": ranges(1), b"b": ranges(RANGES_MAX + 1)}, full={b"b"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heirs.all_given)
            await anyio.sleep(4_000)
            assert heirs.told[-1] == HandedOver(peers=2, parts=3, parts_over=1, turned_away=10)
            assert "10 copies are not let in there yet" in str(heirs.told[-1])
            heirs.full.clear()
        assert heirs.told[-1] == HandedOver(peers=2, parts=3, parts_over=3)

    run_world(play, seed=1)


def test_heirs_of_a_ring_that_changed_get_it_instead() -> None:
    async def play(_: TrioCarrier) -> None:
        heirs = Heirs({b"a": ranges(1), b"b": ranges(1)}, away={b"b"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heirs.all_given)
            await anyio.sleep(30)
            heirs.scopes = {b"a": ranges(1), b"c": ranges(2)}
        assert heirs.told[-1] == HandedOver(peers=2, parts=2, parts_over=2)
        assert (b"c", ranges(2)) in heirs.has

    run_world(play, seed=1)


def test_without_heirs_it_is_over_at_once() -> None:
    async def play(_: TrioCarrier) -> None:
        assert await Heirs({}).all_given() == HandedOver()

    run_world(play, seed=1)


class Positions:
    def __init__(self, *contacts: Contact) -> None:
        self.contacts = contacts

    def positions(self) -> tuple[Contact, ...]:
        return self.contacts

    def standings(self) -> dict[ids.PeerKey, Standing]:
        return {}


def test_the_heirs_of_a_share_are_its_holders_once_the_leaver_is_gone() -> None:
    hosts = [Address(host=bytes((10, 0, 0, number)), port=1) for number in range(8)]
    contacts = [
        Contact.at(ids.PeerKey(bytes((number,)) * 32), host, 0, slot, "ip")
        for number, host in enumerate(hosts)
        for slot in range(2)
    ]
    me, copies = contacts[0].peer, Rule(3)
    view = View(me=me, table=Table((), copies))
    view.take(Table(contacts, copies), {}, 0.0)
    found = heirs(cast("Parts", SimpleNamespace(view=view)), Positions(*contacts), NONE)
    others = Table([contact for contact in contacts if contact.peer != me], copies)
    ends = [contact.position for contact in contacts if contact.position in view.share]
    assert ends
    for end in ends:
        given = {peer for peer, scope in found.items() if end in arcs_of(scope)}
        assert given == {contact.peer for contact in others.of(end)}
    everything = heirs(cast("Parts", SimpleNamespace(view=view)), Positions(*contacts), WHOLE)
    assert set(everything) == set(others.peers)


class Wide(Net):
    """Peers may have several positions."""

    positions = 1
    """Of peer 0."""

    def of(self, peer: Peer) -> tuple[Contact, ...]:
        count = self.positions if peer.number == 0 else 1
        return tuple(Contact.at(peer.contact.peer, peer.contact.address, 0, n, "off") for n in range(count))

    def seen_by(self, peer: Peer) -> tuple[Contact, ...]:
        there = (one for one in self.peers if one.is_in_ring and one.side == peer.side)
        return tuple(sorted((c for one in there for c in self.of(one)), key=lambda c: c.position))

    def table(self) -> Table:
        there = (one for one in self.peers if one.is_in_ring)
        return Table([contact for one in there for contact in self.of(one)], Rule(self.copies))


def test_who_offers_less_than_before_hands_over_before_it_drops() -> None:
    async def play(_: TrioCarrier) -> None:
        async with anyio.create_task_group() as tasks:
            net = Wide(tasks, seed=1)
            net.positions = 8
            with watched_drops(net):  # which raises where anything goes that six others do not have
                for _number in range(10):
                    await net.start(net.add())
                await anyio.sleep(60)
                keys = {await deposit(net.peers[n % 10], f"http://example.org/{n}") for n in range(80)}
                await net.settle(keys, within_s=900 + PROMISE_KEPT_S)
                large = net.peers[0]
                before = len(large.ids())
                net.crash(large)
                net.positions = 1
                await net.start(large)
                await net.settle(keys, within_s=1_500 + PROMISE_KEPT_S)
            after = len(large.ids())
            assert after < 0.75 * before
            assert large.copies.parts.counts.dropped >= before - after
            tasks.cancel_scope.cancel()

    run_world(play, seed=1)


def test_a_leaf_hands_over_more_than_one_survey_looks_at() -> None:
    async def play(net: Net) -> None:
        leaf = net.add()
        keys = {await deposit(leaf, f"http://example.org/{n}") for n in range(SURPLUS_DIRECTORIES_MAX + 44)}
        assert len({key[:2] for key in keys}) > SURPLUS_DIRECTORIES_MAX + 20
        for _number in range(2):
            await net.start(net.add())
        await net.start(leaf)
        leaf.is_in_ring = False
        net.tell()
        await anyio.sleep(60)
        assert leaf.copies.parts.view.share == NONE
        done = await leaf.copies.hand_over()
        assert (done.peers, done.parts_over) == (2, done.parts)
        net.crash(leaf)
        assert not net.wrong(keys)

    in_world(play, copies=2)


def test_a_part_is_over_only_when_its_heir_lacked_nothing_of_it() -> None:
    """What the first round sends, the second one finds there."""

    async def play(_: TrioCarrier) -> None:
        heirs = Heirs({b"a": ranges(1), b"b": ranges(2)})
        await heirs.all_given()
        assert sorted(heirs.asked) == [b"a", b"a", b"b", b"b"]

    run_world(play, seed=1)


def test_an_heir_that_was_none_for_a_while_is_asked_again() -> None:
    async def play(_: TrioCarrier) -> None:
        heirs = Heirs({b"a": ranges(1), b"b": ranges(1)}, away={b"b"})
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(heirs.all_given)
            await anyio.sleep(30)
            heirs.scopes = {b"b": ranges(1)}
            await anyio.sleep(1_800)
            asked = heirs.asked.count(b"a")
            heirs.has.clear()  # it lost its disk meanwhile
            heirs.scopes = {b"a": ranges(1), b"b": ranges(1)}
            await anyio.sleep(1_800)
            heirs.away.clear()
        assert heirs.asked.count(b"a") == asked + 2
        assert heirs.told[-1] == HandedOver(peers=2, parts=2, parts_over=2)

    run_world(play, seed=1)
