"""Is a peer that nobody can call reached through a relay, also where the relay is slow, full, or lies?

All is real but the routers: ports on loopback, TLS, the calls' own frames. Who is closed the callers' table says.
"""

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

import anyio
import pytest

from dht import Contact
from dht.core.handshake import raw_public_key
from dht.core.ids import NetworkId, PeerKey
from dht.core.places import Standing
from dht.core.reader import Member
from dht.core.records import Address, Line, SignedRecord
from dht.core.rules import RingRules
from dht.short_calls import ShortCalls
from herodotus.core.relays import Mapping as PortMapping
from herodotus.core.relays import Way
from herodotus.core.settings.sections import CallsSettings, RelaySettings
from herodotus.machine import Machine
from herodotus.peers.calls import PeerUnreachableError, RefusedError, Services
from herodotus.peers.net import calling as calling_module
from herodotus.peers.net import kept_lines as kept_lines_module
from herodotus.peers.net.arranged import OwnPort, TcpJoint
from herodotus.peers.net.kept_lines import KeptLines
from herodotus.peers.net.lines_wire import KNOCK, WAIT, Arranged, Knock, Waiting, pack
from herodotus.peers.net.port import CallPort, CallPortParts
from herodotus.peers.net.short_calls import ShortFirst
from herodotus.peers.net.tls_line import TcpPort, claim_tcp
from herodotus.peers.net.ways import TRIED_AGAIN_S, lines_at
from tests.dht.link_world import NETWORK, key_from
from tests.herodotus.peers.net.peers import LOOPBACK

BACKENDS = [pytest.param(("asyncio", {}), id="asyncio"), pytest.param(("trio", {}), id="trio")]
pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def key_of(name: str) -> PeerKey:
    return PeerKey(raw_public_key(key_from(name)))


@dataclass
class Town:
    """The table that all have."""

    ports: dict[PeerKey, int] = field(default_factory=dict)
    closed: set[PeerKey] = field(default_factory=set)
    relays: dict[PeerKey, tuple[PeerKey, ...]] = field(default_factory=dict)
    members: set[PeerKey] = field(default_factory=set)
    willing: set[PeerKey] = field(default_factory=set)
    """To be relays."""
    apart: set[PeerKey] = field(default_factory=set)
    """Two that have no family in common."""
    inside: dict[PeerKey, tuple[str, int]] = field(default_factory=dict)
    """Behind one router with all others: where they answered there."""
    changed: anyio.Event = field(default_factory=anyio.Event)

    def contact(self, peer: PeerKey) -> Contact:
        return Contact.at(peer, Address(host=LOOPBACK, port=self.ports[peer]), 0, 0, "off")


@dataclass
class Table:
    """Implements `AskingRing`, for one of them."""

    town: Town
    own: PeerKey
    record: SignedRecord | None = None
    short_calls: ShortCalls = field(default_factory=lambda: ShortCalls(lambda *_: None, Random(1)))

    def sent_bytes(self) -> int:
        return 0

    def near(self, peer: PeerKey) -> tuple[str, int] | None:
        return self.town.inside.get(peer)

    def knows(self, peer: PeerKey) -> bool:
        return peer in self.town.ports

    def lines_of(self, peer: PeerKey) -> tuple[Line, ...]:
        port = self.town.ports.get(peer)
        return () if port is None else (Line(host=LOOPBACK, udp=port, tcp=port),)

    def relays_of(self, peer: PeerKey) -> tuple[Contact, ...]:
        if peer not in self.town.closed and not self.is_apart(peer):
            return ()
        return tuple(self.town.contact(relay) for relay in self.town.relays.get(peer, ()))

    @property
    def is_closed(self) -> bool:
        return self.own in self.town.closed

    def is_apart(self, peer: PeerKey) -> bool:
        return {self.own, peer} == self.town.apart

    @property
    def is_apart_from_some(self) -> bool:
        return self.own in self.town.apart

    def relay_candidates(self) -> list[Contact]:
        return [self.town.contact(one) for one in sorted(self.town.willing)]

    def standings(self) -> Mapping[PeerKey, Standing]:
        return {peer: Standing(peer, peer) for peer in self.town.ports}

    def keep_relays(self, relays: Sequence[PeerKey], *, is_member: bool) -> None:
        town = self.town
        town.relays[self.own] = tuple(relays)
        (town.members.add if is_member else town.members.discard)(self.own)
        town.changed.set()
        town.changed = anyio.Event()

    async def answers(self, address: Address) -> bool:
        await anyio.lowlevel.checkpoint()
        return True


@dataclass
class Inhabitant:
    key: PeerKey
    calls: ShortFirst
    call_port: CallPort
    claimed: TcpPort
    heard: list[bytes]
    stop: anyio.CancelScope


@asynccontextmanager
async def living(
    town: Town, name: str, *, wanted: int = 1, is_closed: bool = False, relay: RelaySettings | None = None
) -> AsyncIterator[Inhabitant]:
    key, claimed = key_of(name), claim_tcp("127.0.0.1", 0, key_from(name))
    town.ports[key] = claimed.number
    if is_closed:
        town.closed.add(key)
    elif name.startswith("relay"):
        town.willing.add(key)
    heard: list[bytes] = []

    async def echo(peer: bytes, body: bytes) -> bytes:
        heard.append(peer)
        return name.encode() + b" heard " + body

    port = CallPort(
        CallPortParts(
            key=key_from(name),
            rules=RingRules(network=NetworkId(NETWORK)),
            settings=CallsSettings(),
            relay=relay or RelaySettings(member_after_s=1.0),
            relays_wanted=wanted,
            is_one_machine=True,
            wall_clock=lambda: 0.0,
            chance=Random(name),
            dial=Machine().dial,
            knock=Machine().knock,
        )
    )
    table = Table(town, key)
    services = Services(calls={"echo": echo})
    async with anyio.create_task_group() as tasks:
        opened = anyio.Event()
        found: list[Inhabitant] = []

        async def live() -> None:
            with anyio.CancelScope() as stop:
                async with port.calling(table, claimed), port.answering(table, claimed, services):
                    found.append(Inhabitant(key, port.calls, port, claimed, heard, stop))
                    opened.set()
                    await anyio.sleep_forever()

        tasks.start_soon(live)
        await opened.wait()
        yield found[0]
        found[0].stop.cancel()


@asynccontextmanager
async def town_of(
    *relays: str, closed: Sequence[str] = (), wanted: int = 1
) -> AsyncIterator[tuple[Town, dict[str, Inhabitant]]]:
    """Everybody named lives; the closed ones have the relays that they want."""
    town = Town()
    with anyio.fail_after(40):
        async with AsyncExitStack() as stack:
            found = {name: await stack.enter_async_context(living(town, name)) for name in relays}
            for name in closed:
                one = living(town, name, wanted=wanted, is_closed=True)
                found[name] = await stack.enter_async_context(one)
            for name in closed:
                await until(town, partial(has_relays, town, name, wanted))
            yield town, found


def has_relays(town: Town, name: str, wanted: int) -> bool:
    return len(town.relays.get(key_of(name), ())) == wanted


async def until(town: Town, is_so: Callable[[], bool]) -> None:
    while not is_so():
        await town.changed.wait()


def kept_at(peers: dict[str, Inhabitant], relay: str) -> Any:
    return peers[relay].call_port.status().relaying


async def test_a_closed_peer_calls_back_a_caller_that_can_be_called() -> None:
    async with town_of("relay", "caller", closed=["closed"]) as (town, peers):
        closed, caller = peers["closed"], peers["caller"]
        assert await caller.calls.call(town.contact(closed.key), "echo", b"hi") == b"closed heard hi"
        assert closed.heard == [caller.key]
        assert kept_at(peers, "relay").counts == {"way 1": 1}
        assert await caller.calls.call(town.contact(closed.key), "echo", b"again") == b"closed heard again"
        assert kept_at(peers, "relay").counts == {"way 1": 1}, "the line is kept"


async def test_a_peer_of_another_family_is_called_through_its_relay_and_by_its_own_family_directly() -> None:
    town = Town(apart={key_of("four"), key_of("six")})
    names = ("relay", "four", "six", "like six")
    with anyio.fail_after(40):
        async with AsyncExitStack() as stack:
            peers = {name: await stack.enter_async_context(living(town, name)) for name in names}
            for name in ("four", "six"):
                await until(town, partial(has_relays, town, name, 1))
            four, six, like_six = peers["four"], peers["six"], peers["like six"]
            await like_six.calls.call(town.contact(six.key), "echo", b"hi")
            assert not kept_at(peers, "relay").counts
            assert await four.calls.call(town.contact(six.key), "echo", b"hi") == b"six heard hi"
            assert sum(kept_at(peers, "relay").counts.values()) == 1
            assert four.call_port.streams.ways.is_relayed(six.key), "copies are handed on"
            assert not like_six.call_port.streams.ways.is_relayed(six.key)


async def test_a_member_of_two_families_is_knocked_at_wherever_it_can_be_called() -> None:
    async with town_of("caller", "dual") as (town, peers):
        dual, caller = peers["dual"].key, peers["caller"]
        ours = Line(host=LOOPBACK, udp=town.ports[dual], tcp=town.ports[dual])
        theirs = Line(host=bytes((0x20, 1, 0x0D, 0xB8, *bytes(12))), udp=9, tcp=9)
        member = Member(
            peer=dual, address=theirs.address, virtual_nodes=1, clock="well", lines=(theirs, ours)
        )
        await caller.call_port.knock(member)


async def test_two_closed_peers_open_at_once() -> None:
    async with town_of("relay", closed=["one", "other"]) as (town, peers):
        one, other = peers["one"], peers["other"]
        assert await one.calls.call(town.contact(other.key), "echo", b"hi") == b"other heard hi"
        assert kept_at(peers, "relay").counts == {"way 2": 1}
        assert not one.call_port.streams.ways._only_joined.of(other.key)


async def test_two_closed_peers_behind_one_router_call_each_other_inside(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KeptLines, "_mapping", lambda self: PortMapping.CHANGES)
    async with town_of("relay", closed=["one", "other"]) as (town, peers):
        one, other = peers["one"], peers["other"]
        town.inside[other.key] = ("127.0.0.1", other.claimed.number)
        assert await one.calls.call(town.contact(other.key), "echo", b"hi") == b"other heard hi"
        assert kept_at(peers, "relay").counts == {}
        ways = one.call_port.streams.ways
        ways._only_joined.learn(other.key, True)  # before they met inside
        assert not ways.is_relayed(other.key)
        assert not ways.is_one_line(other.key)


async def test_where_another_one_has_the_inside_address_the_relays_are_asked() -> None:
    async with town_of("relay", closed=["one", "other"]) as (town, peers):
        one, other, relay = peers["one"], peers["other"], peers["relay"]
        town.inside[other.key] = ("127.0.0.1", relay.claimed.number)
        assert await one.calls.call(town.contact(other.key), "echo", b"hi") == b"other heard hi"
        assert other.heard == [one.key]
        assert not one.call_port.streams.ways.is_near(other.key), "not tried again for a while"


async def test_where_both_ports_change_the_relay_joins_the_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptLines, "_mapping", lambda self: PortMapping.CHANGES)
    async with town_of("relay", closed=["one", "other"]) as (town, peers):
        one, other = peers["one"], peers["other"]
        assert await one.calls.call(town.contact(other.key), "echo", b"hi") == b"other heard hi"
        relaying = kept_at(peers, "relay")
        assert (relaying.counts, relaying.joined) == ({"way 3": 1}, 1)
        assert relaying.bytes > 500, "a handshake of TLS, and the question"


async def test_a_relay_whose_joints_are_taken_says_so_at_once_and_another_joins(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KeptLines, "_mapping", lambda self: PortMapping.CHANGES)
    names = ["relay 1", "relay 2", "relay 3"]
    async with town_of(*names, closed=["one", "other"], wanted=3) as (town, peers):
        one, other = peers["one"], peers["other"]
        full = [peer for peer in peers.values() if peer.key in town.relays[other.key][:2]]
        for peer in full:
            assert peer.call_port._relay is not None
            monkeypatch.setattr(peer.call_port._relay._desk, "may_join", lambda *_: False)
        with anyio.fail_after(2):
            assert await one.calls.call(town.contact(other.key), "echo", b"hi") == b"other heard hi"
        counts = [peer.call_port.status().relaying.counts for peer in full]
        assert counts == [{"joints full": 1}, {"joints full": 1}]


async def test_a_joined_line_at_rest_is_given_back_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(KeptLines, "_mapping", lambda self: PortMapping.CHANGES)
    monkeypatch.setattr(calling_module, "JOINED_KEPT_S", 0.1)
    async with town_of("relay", closed=["one", "other"]) as (town, peers):
        one, other = peers["one"], peers["other"]
        await one.calls.call(town.contact(other.key), "echo", b"hi")
        assert kept_at(peers, "relay").counts == {"way 3": 1}, "it was joined"
        with anyio.fail_after(5):
            while kept_at(peers, "relay").joined:  # noqa: ASYNC110  # a relay tells nobody
                await anyio.sleep(0.05)


async def test_a_way_that_fails_ends_at_the_relay_and_that_is_remembered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both open at once, but to a port that answers nobody: within some two seconds the relay joins them."""
    monkeypatch.setattr(OwnPort, "open_at_once", _nothing)
    async with town_of("relay", closed=["one", "other"]) as (town, peers):
        one, other = peers["one"], peers["other"]
        with anyio.fail_after(3):
            assert await one.calls.call(town.contact(other.key), "echo", b"hi") == b"other heard hi"
        assert one.call_port.streams.ways._only_joined.of(other.key)
        await one.call_port.streams.close()
        await one.calls.call(town.contact(other.key), "echo", b"again")
        assert kept_at(peers, "relay").counts == {"way 2": 1, "way 3": 1}
        until_s, _ = one.call_port.streams.ways._only_joined._of[other.key]
        assert 0 < until_s - anyio.current_time() <= TRIED_AGAIN_S, "the direct way may work then"


async def _nothing(*_: object) -> None:
    await anyio.sleep_forever()


async def test_a_silent_relay_is_passed_over_within_three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    async with town_of("relay 1", "relay 2", "relay 3", "caller", closed=["closed"], wanted=3) as (
        town,
        peers,
    ):
        closed, caller = peers["closed"], peers["caller"]
        first = town.relays[closed.key][0]
        deaf = next(one for one in peers.values() if one.key == first)

        async def never(_peer: bytes, _body: bytes) -> bytes:
            await anyio.sleep_forever()
            raise AssertionError

        services = deaf.call_port._answering._parts.services  # type: ignore[union-attr]  # it runs
        monkeypatch.setitem(services.calls, KNOCK, never)
        with anyio.fail_after(3):
            await caller.calls.call(town.contact(closed.key), "echo", b"hi")


async def test_a_relay_that_tells_of_a_line_and_knocks_nowhere_is_passed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with town_of("relay 1", "relay 2", "relay 3", "caller", closed=["closed"], wanted=3) as (
        town,
        peers,
    ):
        closed, caller = peers["closed"], peers["caller"]
        first = town.relays[closed.key][0]
        liar = next(one for one in peers.values() if one.key == first)

        async def lies(_peer: bytes, _body: bytes) -> bytes:
            await anyio.lowlevel.checkpoint()
            return pack(Arranged(bytes(16), (), Way.CALL_BACK))

        services = liar.call_port._answering._parts.services  # type: ignore[union-attr]  # it runs
        monkeypatch.setitem(services.calls, KNOCK, lies)
        with anyio.fail_after(3):
            await caller.calls.call(town.contact(closed.key), "echo", b"hi")


async def test_a_relay_that_flips_a_bit_breaks_the_line_and_is_not_believed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(KeptLines, "_mapping", lambda self: PortMapping.CHANGES)
    async with town_of("relay", closed=["one", "other"]) as (town, peers):
        one, other = peers["one"], peers["other"]
        carry = TcpJoint.carry

        async def flipping(self: TcpJoint, admits: Any, idle_s: float) -> None:
            ends = self._ends
            for end in ends:
                monkeypatch.setattr(end, "receive", _flipped(end.receive))
            await carry(self, admits, idle_s)

        monkeypatch.setattr(TcpJoint, "carry", flipping)
        with pytest.raises(PeerUnreachableError):
            await one.calls.call(town.contact(other.key), "echo", b"hi", deadline_s=5)
        assert not other.heard


def _flipped(receive: Any) -> Any:
    async def flipped(size: int = 65_536) -> bytes:
        data = bytearray(await receive(size))
        data[-1] ^= 1
        return bytes(data)

    return flipped


async def test_a_lost_relay_is_replaced_and_the_peer_stays_a_member(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_lines_module, "LOOK_S", 0.1)
    names = ["relay 1", "relay 2", "relay 3", "relay 4", "relay 5"]
    async with town_of(*names, closed=["closed"], wanted=3) as (town, peers):
        closed = peers["closed"].key
        await until(town, lambda: closed in town.members)
        before = town.relays[closed]
        lost = [one for one in peers.values() if one.key in before[:2]]
        for one in lost:
            town.willing.discard(one.key)
            one.stop.cancel()
        await until(town, lambda: len(set(town.relays[closed]) - {one.key for one in lost}) == 3)
        assert closed in town.members


async def test_a_peer_that_can_be_called_again_keeps_no_relay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_lines_module, "LOOK_S", 0.1)
    async with town_of("relay", closed=["closed"]) as (town, peers):
        town.closed.clear()
        await until(town, lambda: not town.relays[peers["closed"].key])
        assert peers["closed"].call_port._own_port() == (0, PortMapping.OPEN)


async def test_a_relay_that_passes_nothing_on_takes_nobody() -> None:
    async with (
        town_of("stranger") as (town, peers),
        living(town, "relay", relay=RelaySettings(mbit_per_s=0.0)) as relay,
    ):
        asked = pack(Waiting(PortMapping.SAME))
        with pytest.raises(RefusedError, match="busy"):
            async with peers["stranger"].calls.stream(town.contact(relay.key), WAIT, asked) as pieces:
                await anext(pieces)


async def test_who_does_not_wait_here_is_not_knocked_at() -> None:
    async with town_of("relay", "caller") as (town, peers):
        knock = pack(Knock(bytes(32), 0, PortMapping.OPEN, None))
        with pytest.raises(RefusedError, match="not-here"):
            await peers["caller"].calls.call(town.contact(peers["relay"].key), KNOCK, knock)


@pytest.mark.parametrize("body", [b"", b"junk", pack((bytes(31), 0, 3, None)), pack((bytes(32), 0, 9, None))])
async def test_a_knock_that_is_none_is_refused(body: bytes) -> None:
    async with town_of("relay", "caller") as (town, peers):
        with pytest.raises(RefusedError, match="malformed"):
            await peers["caller"].calls.call(town.contact(peers["relay"].key), KNOCK, body)


def test_a_relay_aims_nobody_at_a_third() -> None:
    """Of what a relay names, only hosts that the other end's own record has are tried."""
    known = (Line(host=LOOPBACK, udp=1, tcp=2), Line(host=bytes(15) + b"\x01", udp=1, tcp=2))
    named = (("127.0.0.1", 9), ("198.51.100.1", 25), ("::1", 7))
    assert lines_at(named, known) == (("127.0.0.1", 9), ("::1", 7))
    assert lines_at(named, ()) == ()
