"""Two real drivers on loopback, on every loop we run on, over both families."""

import errno
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from dht.core import messages as m
from dht.core.frames import DATA, DATAGRAM_BYTES_MAX
from dht.core.ids import NetworkId
from dht.core.limits import Rate
from dht.core.records import Address, Contact
from dht.core.strangers import LinkLimits
from dht.endpoint import SessionEndpoint, packed_address
from dht.errors import RequestFailedError, TransportClosedError
from dht.identity import peer_key, sign_record
from dht.transport import PeerMet, Received, TransportEvent, TransportLimits
from dht.udp import SEND_QUEUE_MAX, UdpTransport, open_udp, system_entropy
from tests.dht.link_world import NETWORK, key_from
from tests.dht.values import record_of

BACKENDS = [
    pytest.param(("asyncio", {}), id="asyncio"),
    pytest.param(("asyncio", {"use_uvloop": True}), id="uvloop"),
    pytest.param(("trio", {}), id="trio"),
]
pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


def endpoint_of(
    name: str, limits: TransportLimits | None = None, network: bytes = NETWORK
) -> SessionEndpoint:
    signed = sign_record(key_from(name), record_of(name))
    return SessionEndpoint(
        key=key_from(name),
        network=NetworkId(network),
        id_check="off",
        record=lambda: signed,
        entropy=system_entropy,
        limits=limits,
    )


def ignore(_batch: list[Received], _now: float) -> None:
    """For a peer that nobody tells anything of interest."""


class Asker:
    """A peer that asks, and asks again until the answer comes."""

    transport: UdpTransport

    def __init__(self) -> None:
        self.received: list[Received] = []
        self._arrived = anyio.Event()

    def on_messages(self, batch: list[Received], _now: float) -> None:
        self.received += batch
        self._arrived.set()
        self._arrived = anyio.Event()

    async def has_received(self, count: int) -> None:
        while len(self.received) < count:
            await self._arrived.wait()

    async def ask(self, message: m.Request, to: Contact, tries: int = 5) -> m.Message | None:
        for _ in range(tries):
            self.transport.send(message, to)
            with anyio.move_on_after(1):
                while True:
                    for reply, sender in self.received:
                        if (reply.id, sender.peer) == (message.id, to.peer):
                            return reply
                    await self._arrived.wait()
        return None


@asynccontextmanager
async def asking(
    name: str = "anna", host: str = "127.0.0.1", limits: TransportLimits | None = None
) -> AsyncIterator[Asker]:
    asker = Asker()
    endpoint = endpoint_of(name, limits)
    async with open_udp(endpoint, [(host, 0)], on_messages=asker.on_messages) as asker.transport:
        yield asker


@asynccontextmanager
async def answering(
    name: str, host: str = "127.0.0.1", limits: TransportLimits | None = None
) -> AsyncIterator[UdpTransport]:
    """Answers PING and FIND, and keeps everything else."""

    def on_messages(batch: list[Received], _now: float) -> None:
        for message, sender in batch:
            if isinstance(message, m.Ping):
                transport.send(m.Pong(id=message.id), sender)

    async with open_udp(endpoint_of(name, limits), [(host, 0)], on_messages=on_messages) as transport:
        yield transport


def contact_of(name: str, transport: UdpTransport) -> Contact:
    address = packed_address(transport.addresses[0])
    return Contact.at(peer_key(key_from(name)), address, 0, 0, "off")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
async def test_a_request_is_answered_through_a_fresh_session(host: str) -> None:
    async with answering("bert", host) as bert, asking("anna", host) as anna:
        with anyio.fail_after(60):
            assert await anna.ask(m.Ping(id=7), contact_of("bert", bert)) == m.Pong(id=7)
            assert await anna.ask(m.Ping(id=8), contact_of("bert", bert)) == m.Pong(id=8)
        figures = anna.transport.statistics()
        assert figures.sessions == 1
        assert figures.done["opened"] == 1
        assert figures.messages_in == 2
        assert not figures.dropped
        assert bert.statistics().messages_out == 2
        assert figures.kinds == {"Ping": (0, 74), "Pong": (74, 0)}, "3 bytes each, sealed 37"
        assert bert.statistics().kinds == {"Ping": (74, 0), "Pong": (0, 74)}


async def test_messages_come_in_order_from_the_peer_that_its_key_proves() -> None:
    async with (
        asking("bert") as bert,
        open_udp(endpoint_of("anna"), [("127.0.0.1", 0)], on_messages=ignore) as anna,
    ):
        anna.send(m.Ping(id=1), contact_of("bert", bert.transport))
        anna.send(m.Ping(id=2), contact_of("bert", bert.transport))
        with anyio.fail_after(60):
            await bert.has_received(2)
        assert [message.id for message, _ in bert.received] == [1, 2]
        assert {sender.peer for _, sender in bert.received} == {peer_key(key_from("anna"))}
        assert bert.received[0][1].address == packed_address(anna.addresses[0])


async def test_connect_meets_whoever_is_there_and_learns_its_record() -> None:
    events: list[TransportEvent] = []
    async with (
        open_udp(
            endpoint_of("bert"),
            [("127.0.0.1", 0)],
            on_messages=ignore,
            on_event=lambda event, _now: events.append(event),
        ) as bert,
        open_udp(endpoint_of("anna"), [("127.0.0.1", 0)], on_messages=ignore) as anna,
    ):
        with anyio.fail_after(60):
            met = await anna.connect(packed_address(bert.addresses[0]))
            again = await anna.connect(packed_address(bert.addresses[0]), met.contact.peer)
        while "confirmed" not in anna.statistics().done:
            await anyio.lowlevel.checkpoint()
        assert met.contact.peer == again.contact.peer == peer_key(key_from("bert"))
        assert met.record == sign_record(key_from("bert"), record_of("bert"))
        assert met.seen == packed_address(anna.addresses[0])
        with pytest.raises(RequestFailedError, match="wrong_peer"), anyio.fail_after(60):
            await anna.connect(packed_address(bert.addresses[0]), b"k" * 32)
        while not events:
            await anyio.lowlevel.checkpoint()
        assert isinstance(events[0], PeerMet)
        assert events[0].seen is None


async def test_nobody_there_is_an_error_of_ours_and_icmp_is_harmless() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as unused:
        unused.bind(("127.0.0.1", 0))
        address = packed_address(unused.getsockname())
    async with open_udp(endpoint_of("anna"), [("127.0.0.1", 0)], on_messages=ignore) as anna:
        nobody = Contact.at(peer_key(key_from("carl")), address, 0, 0, "off")
        with pytest.raises(RequestFailedError, match="silence"), anyio.fail_after(60):
            await anna.connect(address, nobody.peer)
        absent_family = Contact.at(nobody.peer, Address(host=bytes(15) + b"\1", port=9), 0, 0, "off")
        assert anna.send(m.Ping(id=2), absent_family)
        assert anna.statistics().dropped == {"dial_silence": 1, "no_family": 1}


async def test_rubbish_and_foreign_datagrams_are_counted_and_leave_the_driver_well() -> None:
    async with (
        answering("bert") as bert,
        asking() as anna,
        open_udp(endpoint_of("carl", network=bytes(8)), [("127.0.0.1", 0)], on_messages=ignore) as foreigner,
    ):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            for data in (
                b"",
                b"H",
                bytes(100),
                bytes(DATAGRAM_BYTES_MAX + 500),
                bytes((0x48, DATA)) + bytes(40),
            ):
                stranger.sendto(data, bert.addresses[0])
        foreigner.send(m.Ping(id=1), contact_of("bert", bert))
        with anyio.fail_after(60):
            assert await anna.ask(m.Ping(id=9), contact_of("bert", bert)) == m.Pong(id=9)
        assert bert.statistics().dropped == {
            "truncated": 2, "magic": 1, "oversized": 1, "unknown": 1, "foreign": 1,
        }  # fmt: skip


async def test_a_restarted_peer_is_found_again_by_the_repeated_request() -> None:
    async with asking() as anna:
        async with answering("bert") as bert:
            contact = contact_of("bert", bert)
            with anyio.fail_after(60):
                assert await anna.ask(m.Ping(id=1), contact)
        port = contact.address.port

        def on_messages(batch: list[Received], _now: float) -> None:
            for message, sender in batch:
                reborn.send(m.Pong(id=message.id), sender)

        async with open_udp(endpoint_of("bert"), [("127.0.0.1", port)], on_messages=on_messages) as reborn:
            with anyio.fail_after(60):
                assert await anna.ask(m.Ping(id=2), contact) == m.Pong(id=2)
            assert reborn.statistics().dropped == {"unknown": 1}


async def test_a_peer_that_asks_too_much_is_dropped_and_counted() -> None:
    few = TransportLimits(other=Rate(per_second=0.001, burst=2))
    async with (
        answering("bert", limits=few) as bert,
        asking() as anna,
    ):
        contact = contact_of("bert", bert)
        with anyio.fail_after(60):
            assert await anna.ask(m.Ping(id=1), contact)
            assert await anna.ask(m.Ping(id=2), contact)
            assert await anna.ask(m.Ping(id=3), contact, tries=1) is None
        assert bert.statistics().dropped == {"flood": 1}


async def test_what_a_handler_raises_ends_the_driver_and_reaches_its_owner() -> None:
    def broken(_batch: list[Received], _now: float) -> None:
        raise ZeroDivisionError

    async def send_one() -> None:
        async with (
            open_udp(endpoint_of("anna"), [("127.0.0.1", 0)], on_messages=ignore) as anna,
            open_udp(endpoint_of("bert"), [("127.0.0.1", 0)], on_messages=broken) as bert,
        ):
            anna.send(m.Ping(id=1), contact_of("bert", bert))
            await anyio.sleep(5)  # ended by the failure long before

    with pytest.raises(ExceptionGroup) as caught:
        await send_one()
    assert caught.group_contains(ZeroDivisionError)


async def test_a_closed_transport_says_so() -> None:
    async with open_udp(endpoint_of("anna"), [("127.0.0.1", 0)], on_messages=ignore) as anna:
        contact = contact_of("anna", anna)
    with pytest.raises(TransportClosedError):
        anna.send(m.Ping(id=1), contact)


class FullSocket(socket.socket):
    """A socket whose buffer is full until it is told otherwise."""

    failure: Callable[[], OSError] | None = None

    def sendto(self, *args: Any) -> int:
        if self.failure is not None:
            raise self.failure()
        return super().sendto(*args)


async def test_a_full_buffer_queues_in_order_and_within_bounds() -> None:
    generous = TransportLimits(other=Rate(per_second=1e6, burst=1e6), prefix_factor=10, link=LinkLimits())
    sock = FullSocket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setblocking(False)
    sock.bind(("127.0.0.1", 0))
    async with asking("bert", limits=generous) as bert:
        anna = UdpTransport(endpoint_of("anna"), [sock], ignore, lambda _event, _now: None)
        contact = contact_of("bert", bert.transport)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(anna.run)
            with anyio.fail_after(60):
                await anna.connect(contact.address)
                sock.failure = BlockingIOError
                for number in range(SEND_QUEUE_MAX + 10):
                    anna.send(m.Ping(id=number), contact)
                assert anna.statistics().waiting_datagrams == SEND_QUEUE_MAX
                assert anna.statistics().dropped["send_queue"] == 10
                sock.failure = None
                await bert.has_received(SEND_QUEUE_MAX)
                assert [message.id for message, _ in bert.received] == list(range(SEND_QUEUE_MAX))
            sock.failure = lambda: OSError(errno.ENETUNREACH, "no route")
            anna.send(m.Ping(id=1), contact)
            assert anna.statistics().dropped["unsendable"] == 1
            tasks.cancel_scope.cancel()
        sock.close()


async def test_two_sockets_of_one_family_are_refused() -> None:
    with pytest.raises(ValueError, match="one address per family"):
        async with open_udp(endpoint_of("anna"), [("127.0.0.1", 0), ("127.0.0.2", 0)], on_messages=ignore):
            pass
