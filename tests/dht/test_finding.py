"""Finders beside a node: whom they show it, and that none of them can end it."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import anyio
import pytest
from msgspec import structs

from dht.core.ids import NetworkId
from dht.core.records import LEAF, Contact
from dht.discovery.addresses import Endpoint
from dht.discovery.lan import LanDiscovery
from dht.discovery.remembered import RememberedPeers
from dht.discovery.rendezvous import Rendezvous, RendezvousTimes
from dht.endpoint import packed_address, socket_address
from dht.finding import CONTACTS_WANTED, Finders, first_contacts, keep_finding, record_facts, remember
from dht.identity import Verifier
from dht.wire import encode_record
from tests.dht.link_world import NETWORK
from tests.dht.test_node import EPOCH_S, LOCALHOST, RULES, Peer, Ways, free_port, opened, until, until_ideal

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend(virtual_time: Any) -> Any:
    return virtual_time


class Board(Rendezvous):
    """A rendezvous in memory, whose port is taken the first `failures` times."""

    def __init__(self, failures: int = 0, deaf: int = 0) -> None:
        self.records: list[bytes] = []
        self.failures = failures
        self.deaf = deaf
        self.looks = 0

    async def start(self) -> None:
        if self.failures:
            self.failures -= 1
            raise OSError(98, "Address already in use")

    async def publish(self, record: bytes) -> int:
        if self.deaf:
            self.deaf -= 1
            return 0
        self.records.append(record)
        return 1

    async def find(self) -> list[bytes]:
        self.looks += 1
        return [b"no record", *self.records]


class Lan(LanDiscovery):
    def __init__(self, endpoints: list[Endpoint]) -> None:
        self.endpoints = endpoints

    async def contacts(self) -> list[Endpoint]:
        return self.endpoints


def finders_in(folder: Path, given: Sequence[Endpoint] = ()) -> Finders:
    async def named() -> Sequence[Endpoint]:
        return given

    return Finders(
        given=named,
        remembered=RememberedPeers(folder / "met", NETWORK),
        lan=LanDiscovery(),
        rendezvous=Rendezvous(),
        times=RendezvousTimes(),
        wall_clock=lambda: EPOCH_S,
        random=Random(1),
    )


@asynccontextmanager
async def finding(peer: Peer, finders: Finders) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_finding, finders, peer.node)
        yield
        tasks.cancel_scope.cancel()


def endpoint_of(peer: Peer) -> Endpoint:
    return socket_address(peer.address.host, peer.address.port)


async def test_a_given_contact_that_comes_up_later_is_joined(tmp_path: Path) -> None:
    port = free_port()
    async with opened("bert") as bert:
        assert not await bert.node.join([])
        async with finding(bert, finders_in(tmp_path, [("127.0.0.1", port)])):
            await anyio.sleep(100)
            async with opened("anna", Ways(port=port)) as anna:
                await anna.node.join([])
                await until_ideal([anna, bert])


async def test_whoever_appears_on_the_local_network_is_met(tmp_path: Path) -> None:
    lan = Lan([])
    async with opened("anna") as anna, opened("bert") as bert:
        for peer in (anna, bert):
            await peer.node.join([])
        async with finding(bert, replace(finders_in(tmp_path), lan=lan)):
            await anyio.sleep(100)
            lan.endpoints = [("127.0.0.1", 9), endpoint_of(anna)]
            await until_ideal([anna, bert])


async def test_strangers_meet_at_the_rendezvous_though_its_port_was_taken_and_nobody_listened(
    tmp_path: Path,
) -> None:
    board = Board(failures=1, deaf=3)
    async with opened("anna") as anna, opened("bert") as bert:
        for peer in (anna, bert):
            await peer.node.join([])
        times = RendezvousTimes(find_every_s=10, publish_every_s=60)
        finders = replace(finders_in(tmp_path), rendezvous=board, times=times)
        async with finding(anna, finders), finding(bert, finders):
            await until_ideal_within(anna, bert, 600)
    assert board.failures == board.deaf == 0


async def test_a_leaf_only_looks_at_the_rendezvous(tmp_path: Path) -> None:
    board = Board()
    times = RendezvousTimes(find_every_s=1, publish_every_s=60)
    async with opened("bert") as bert, opened("anna", Ways(dial_backs=3)) as anna:
        await bert.node.join([])
        await anna.node.join([bert.address])
        async with finding(anna, replace(finders_in(tmp_path), rendezvous=board, times=times)):
            await anyio.sleep(3)
            assert anna.node.record is not None
            assert anna.node.record.record.flags & LEAF, "nobody has tested it yet"
            assert board.looks > 1
            assert board.records == []
            await until(lambda: bool(board.records), 120.0)
            assert not anna.node.record.record.flags & LEAF


async def until_ideal_within(anna: Peer, bert: Peer, within_s: float) -> None:
    await until(lambda: all(peer.node.statistics().ring.members == 2 for peer in (anna, bert)), within_s)
    await until_ideal([anna, bert])


async def test_first_contacts_are_those_given_then_those_remembered_then_the_local_network(
    tmp_path: Path,
) -> None:
    finders = replace(finders_in(tmp_path, [("192.0.2.1", 1), ("192.0.2.2", 2)]), lan=Lan([("192.0.2.9", 9)]))
    async with opened("anna") as anna:
        remember(finders, anna.node.me)
        own = Contact.at(anna.node.me.peer, structs.replace(anna.address, port=1), 0, 0, "off").address
        found = [socket_address(a.host, a.port) for a in await first_contacts(finders, own)]
        assert found == [("192.0.2.1", 1), ("192.0.2.2", 2), endpoint_of(anna), ("192.0.2.9", 9)]
        found = [socket_address(a.host, a.port) for a in await first_contacts(finders, anna.address)]
        assert endpoint_of(anna) not in found, "we do not call ourselves"


async def test_the_local_network_is_not_asked_where_nearer_sources_suffice_and_each_contact_comes_once(
    tmp_path: Path,
) -> None:
    class Unasked(LanDiscovery):
        async def contacts(self) -> list[Endpoint]:
            raise AssertionError("those given suffice")

    given = [("192.0.2.1", number) for number in range(1, CONTACTS_WANTED + 1)]
    own = packed_address(("192.0.2.2", 1))
    finders = replace(finders_in(tmp_path, given), lan=Unasked())
    assert [socket_address(a.host, a.port) for a in await first_contacts(finders, own)] == given
    finders = replace(finders_in(tmp_path, given[:2]), lan=Lan([given[1], ("192.0.2.9", 9)]))
    found = [socket_address(a.host, a.port) for a in await first_contacts(finders, own)]
    assert found == [*given[:2], ("192.0.2.9", 9)]


async def test_a_record_is_valid_only_signed_and_of_our_network() -> None:
    validate = record_facts(RULES, Verifier())
    async with opened("anna") as anna:
        await anna.node.join([])
        signed = anna.node.record
        assert signed is not None
        facts = validate(encode_record(signed))
        assert facts is not None
        assert (facts.network, facts.peer_id) == (NETWORK, anna.node.me.peer)
        assert facts.addresses == (endpoint_of(anna),)
        assert facts.first_position == anna.node.me.position
        forged = structs.replace(signed, signature=bytes(64))
        assert validate(encode_record(forged)) is None
        assert validate(encode_record(signed)[:-1]) is None
        assert anna.address.host == LOCALHOST
        foreign = record_facts(replace(RULES, network=NetworkId(b"another!")), Verifier())
        assert foreign(encode_record(signed)) is None
