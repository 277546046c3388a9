"""Who must have deleted something before a peer deletes its own copy of it?"""

import random
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager

import anyio
import pytest

from dht import Contact
from dht.core.holders import Table
from dht.core.ids import PeerKey
from dht.core.placement import Rule
from dht.core.records import Address
from herodotus.copies import deletions, wire
from herodotus.copies.deletions import Deletions
from herodotus.copies.shared_state import Parts, View
from herodotus.core.index_rows import CAPTURE, TOMBSTONE
from herodotus.core.reconciliation import member_of
from herodotus.store.holdings import ArchiveHoldings
from tests.herodotus.copies.world import key_of, new_store
from tests.herodotus.store.making import NOW_S, page
from tests.herodotus.store.memory_store import AtOnce

pytestmark = pytest.mark.anyio


def peer(number: int) -> Contact:
    address = Address(host=bytes((10, 0, 0, number)), port=4484)
    return Contact.at(PeerKey(bytes((number,)) * 32), address, 0, 0, "ip")


class Scene:
    """A peer with one capture, in a ring of so many, six of which hold each; some others deleted it."""

    def __init__(self, peers: int) -> None:
        self.contacts = [peer(number) for number in range(1, peers + 1)]
        table = Table(self.contacts, Rule(6))
        one = page("http://example.org/", NOW_S)
        self.deposit, self.key = one, key_of(one.id)
        by_key = {contact.peer: contact for contact in self.contacts}
        held_by = View(me=bytes(32), table=table).holders(self.key)
        self.holders = [by_key[PeerKey(one)] for one in held_by]
        self.strangers = [contact for contact in self.contacts if contact not in self.holders]
        self.store = new_store()
        self.holdings = ArchiveHoldings(self.store)
        self.deleted: set[bytes] = set()
        view = View(me=self.holders[0].peer, table=table, contacts=by_key)
        self.parts = Parts(
            view=view,
            holdings=lambda: self.holdings,
            calls=lambda: self,
            workers=AtOnce(),
            sign=lambda deposit: deposit,
            random=random.Random(1),
        )
        self.deletions = Deletions(self.parts)

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        raise NotImplementedError

    @asynccontextmanager
    async def stream(self, to: Contact, service: str, body: bytes) -> AsyncIterator[AsyncIterator[bytes]]:
        del service, body

        async def said() -> AsyncGenerator[bytes]:
            await anyio.lowlevel.checkpoint()
            if to.peer in self.deleted:
                for frame in wire.frames_of(wire.TOMBSTONE, self.key):
                    yield frame

        yield said()

    async def after(self, claiming: list[Contact]) -> bool:
        """Is it still here, when these have deleted it?"""
        await self.store.store(self.deposit)
        member = member_of(CAPTURE + self.key)[:-1] + TOMBSTONE
        for contact in claiming:
            self.deleted.add(contact.peer)
            self.deletions.claim(contact.peer, {member})
        await self.deletions.follow(self.holdings)
        return await self.store.read(self.deposit.id) is not None


@pytest.mark.parametrize(("count", "stays"), [(1, True), (2, True), (3, False), (5, False)])
async def test_more_than_half_of_the_other_holders_must_have_deleted_it(count: int, stays: bool) -> None:
    scene = Scene(6)
    assert await scene.after(scene.holders[1 : 1 + count]) is stays


async def test_in_a_ring_of_two_nobody_deletes_for_the_other() -> None:
    scene = Scene(2)
    assert await scene.after(scene.holders[1:])


async def test_those_who_do_not_hold_it_have_no_say() -> None:
    scene = Scene(12)
    assert len(scene.strangers) == 6
    assert await scene.after([*scene.strangers, *scene.holders[1:3]])


async def test_who_claims_and_cannot_say_what_it_deleted_does_not_count() -> None:
    scene = Scene(6)
    member = member_of(CAPTURE + scene.key)[:-1] + TOMBSTONE
    for liar in scene.holders[3:]:
        scene.deletions.claim(liar.peer, {member})
    assert await scene.after(scene.holders[1:3])


async def test_one_peers_claims_leave_room_for_those_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deletions, "CLAIMS_OF_ONE_MAX", 3)
    scene = Scene(6)
    first, second = scene.holders[1:3]
    members = {bytes((number,)) * 15 + TOMBSTONE for number in range(10)}
    scene.deletions.claim(first.peer, members)
    assert len(scene.deletions) == 3
    scene.deletions.claim(second.peer, {b"\xff" * 15 + TOMBSTONE})
    assert len(scene.deletions) == 4
