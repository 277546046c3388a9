"""Do peers of one ring call each other at the contacts that the ring gives, and whom does the ring vouch for?"""

import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from random import Random
from typing import Any

import anyio
import pytest
from msgspec.structs import replace

from dht.core.ids import key_of
from dht.core.places import BY_PEER, PlaceRules
from dht.core.records import Address, Contact, Line, PeerRecord, SignedRecord
from dht.errors import NoAnswerError
from dht.identity import Verifier, peer_key, rotation_record, sign_record
from dht.wire import encode_record
from herodotus.core.admission import CallerStanding
from herodotus.core.settings.sections import CallsSettings, RelaySettings
from herodotus.machine import Machine
from herodotus.peers.calls import Calls, PeerUnreachableError, RefusedError, Services
from herodotus.peers.net.acquaintance import RingAcquaintance
from herodotus.peers.net.port import CallPort, CallPortParts
from herodotus.peers.net.tls_line import claim_tcp
from tests.dht.link_world import key_from
from tests.dht.test_node import EPOCH_S, RULES, Peer, Ways, opened
from tests.dht.values import record_of

pytestmark = pytest.mark.anyio
NOW_S = 1_790_000_100.0


@pytest.fixture(params=[("asyncio", {}), ("trio", {})], ids=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


@dataclass
class Caller:
    peer: Peer
    calls: Calls
    port: CallPort


@asynccontextmanager
async def calling_peer(name: str, places: PlaceRules = BY_PEER) -> AsyncIterator[Caller]:
    async def say_name(_peer: bytes, body: bytes) -> bytes:
        return name.encode() + body

    claimed = claim_tcp("127.0.0.1", 0, key_from(name))
    parts = CallPortParts(
        key=key_from(name),
        rules=RULES,
        settings=CallsSettings(),
        relay=RelaySettings(),
        relays_wanted=3,
        is_one_machine=True,
        wall_clock=lambda: EPOCH_S + anyio.current_time(),  # as the node's
        chance=Random(name),
        dial=Machine().dial,
        knock=Machine().knock,
    )
    port = CallPort(parts)
    services = Services(calls={"name": say_name})
    async with (
        opened(name, Ways(port=claimed.number, places=places)) as peer,
        port.calling(peer.node, claimed) as calls,
        port.answering(peer.node, claimed, services),
    ):
        yield Caller(peer, calls, port)


async def both_holders(caller: Caller) -> tuple[Contact, ...]:
    """Once the ring has settled."""
    with anyio.fail_after(20):
        while True:
            with suppress(NoAnswerError):
                holders = await caller.peer.node.holders(key_of(b"any"), 2)
                if len(holders) == 2:
                    return holders
            await anyio.sleep(0.05)


async def test_members_call_each_other_at_the_contacts_of_the_ring() -> None:
    async with calling_peer("anna") as anna, calling_peer("bert") as bert:
        await anna.peer.node.join([])
        await bert.peer.node.join([anna.peer.address])
        for caller in (anna, bert):
            holders = await both_holders(caller)
            names = {await caller.calls.call(to, "name", b"!") for to in holders}
            assert names == {b"anna!", b"bert!"}
        assert anna.port.status().answered == 1  # its call to itself went over no wire
        assert bert.port.status().answered == 1


async def test_somebody_outside_the_ring_is_a_newcomer_by_its_record() -> None:
    async with calling_peer("anna") as anna, calling_peer("bert") as bert:
        await anna.peer.node.join([])
        await bert.peer.node.join([])  # a ring of its own
        assert await bert.calls.call(anna.peer.node.me, "name", b"") == b"anna"


async def test_no_stream_is_opened_to_an_address_that_never_answered_a_datagram() -> None:
    """Any member can say that another one is there: the ring must not connect to whom somebody names."""
    with socket.create_server(("127.0.0.1", 0)) as victim:
        victim.setblocking(False)
        port = victim.getsockname()[1]
        async with calling_peer("anna", PlaceRules()) as anna:
            await anna.peer.node.join([])
            me = anna.peer.node.me
            there = Address(host=me.address.host, port=port)
            named = Contact.at(peer_key(key_from("nobody")), there, 0, 0, "off")
            with pytest.raises(PeerUnreachableError):
                await anna.calls.call(named, "name", b"")
            with pytest.raises(BlockingIOError):
                victim.accept()


class Table:
    """A ring that knows whom a test says."""

    def __init__(self, *known: str) -> None:
        self._known = {peer_key(key_from(name)) for name in known}
        self.record: SignedRecord | None = None

    def knows(self, peer: bytes) -> bool:
        return peer in self._known


def acquaintance(*known: str) -> RingAcquaintance:
    return RingAcquaintance(ring=Table(*known), rules=RULES, wall_clock=lambda: NOW_S, verifier=Verifier())


def signed(name: str, **changes: Any) -> bytes:
    record: PeerRecord = replace(record_of(name), **changes)
    return encode_record(sign_record(key_from(name), record))


def standing(record: bytes, host: str = "192.0.2.7", name: str = "new") -> CallerStanding:
    return acquaintance("known").standing(peer_key(key_from(name)), record, host)


def test_a_member_is_known_without_a_record() -> None:
    assert standing(b"", name="known") is CallerStanding.MEMBER


def test_a_newcomer_shows_its_own_sound_record_at_its_own_address() -> None:
    assert standing(signed("new")) is CallerStanding.NEWCOMER
    assert standing(signed("new"), host="::ffff:192.0.2.7") is CallerStanding.NEWCOMER
    six = (Line(host=bytes(15) + b"\x01", udp=1, tcp=1),)
    assert standing(signed("new", lines=six), host="::1") is CallerStanding.NEWCOMER


@pytest.mark.parametrize(
    ("record", "host"),
    [
        (b"", "192.0.2.7"),
        (b"\xff" * 100, "192.0.2.7"),
        (signed("other"), "192.0.2.7"),  # somebody else's
        (signed("new"), "192.0.2.8"),
        (signed("new", network=b"another!"), "192.0.2.7"),
        (signed("new", expires_s=int(NOW_S) - 1), "192.0.2.7"),
        (signed("new")[:-9] + bytes(9), "192.0.2.7"),
    ],
)
def test_a_record_that_proves_nothing_makes_nobody_a_newcomer(record: bytes, host: str) -> None:
    assert standing(record, host) is CallerStanding.UNKNOWN


def test_a_rotation_counts_when_both_keys_signed_it() -> None:
    old, new = key_from("old"), key_from("new")
    rotated = encode_record(rotation_record(old, new, record_of("old")))
    known = acquaintance()
    assert known.is_rotation(rotated, old=peer_key(old), new=peer_key(new))
    assert not known.is_rotation(rotated, old=peer_key(new), new=peer_key(old))
    assert not known.is_rotation(signed("new"), old=peer_key(old), new=peer_key(new))
    assert not known.is_rotation(b"", old=peer_key(old), new=peer_key(new))
    assert not known.is_rotation(rotated[:-9] + bytes(9), old=peer_key(old), new=peer_key(new))


def test_two_services_of_one_name_are_a_mistake() -> None:
    async def nothing(_peer: bytes, body: bytes) -> bytes:
        raise RefusedError("never")

    one = Services(calls={"a": nothing})
    assert set(Services.of(one, Services(calls={"b": nothing})).calls) == {"a", "b"}
    with pytest.raises(AssertionError, match="one name"):
        Services.of(one, one)
