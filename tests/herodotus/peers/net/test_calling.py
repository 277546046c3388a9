"""What happens on the port for calls when the other end is not what it should be?"""

import socket
import ssl
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import closing, suppress
from typing import Any

import anyio
import anyio.abc
import pytest
from anyio.streams.tls import TLSStream

from dht.core.handshake import raw_public_key
from dht.core.limits import Rate
from dht.core.records import Line
from herodotus.peers.calls import (
    CALL_BYTES_MAX,
    PeerUnreachableError,
    RefusedError,
    Services,
    WrongPeerError,
)
from herodotus.peers.net import answering as answering_module
from herodotus.peers.net.calling import PATIENT_MAX
from herodotus.peers.net.certificate import CERTIFICATE_BYTES_MAX, called_context, caller_context, key_of
from herodotus.peers.net.connection import FrameConnection
from herodotus.peers.net.line import LineBrokenError
from herodotus.peers.net.tls_line import TlsLine, claim_tcp, claimed_port
from herodotus.peers.net.wire import CallHello, CallQuestion, FrameKind, Greeting, frame, signed_by_caller
from tests.dht.link_world import NETWORK, key_from
from tests.herodotus.peers.net.peers import Called, Known, called, caller, contact, with_limits

BACKENDS = [pytest.param(("asyncio", {}), id="asyncio"), pytest.param(("trio", {}), id="trio")]
pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> Any:
    return request.param


async def echo(peer: bytes, body: bytes) -> bytes:
    return body


async def endless(peer: bytes, body: bytes) -> AsyncIterator[bytes]:
    while True:
        yield bytes(1 << 20)


ECHO = Services(calls={"echo": echo}, streams={"endless": endless})


async def until(is_so: Callable[[], bool]) -> None:
    """The other end is a task of its own, which tells nobody when it has counted."""
    with anyio.fail_after(10):
        while True:
            if is_so():
                return
            await anyio.sleep(0.01)


async def counted(there: Called, word: str) -> None:
    await until(lambda: there.answering.status().dropped.get(word, 0) > 0)


async def empty(there: Called) -> None:
    await until(lambda: there.answering.status().connections == 0)


async def dropped(there: Called, word: str) -> None:
    """Waits until a connection was counted under this word, and all are gone."""
    await counted(there, word)
    await empty(there)


async def ended(stream: anyio.abc.ByteReceiveStream) -> bytes:
    """All that comes until the other end closes."""
    got = b""
    with anyio.fail_after(10):
        while True:
            try:
                got += await stream.receive()
            except (anyio.EndOfStream, anyio.BrokenResourceError):
                return got


async def met(there: Called) -> tuple[FrameConnection, Greeting]:
    """A connection by hand, up to the greeting."""
    raw = await anyio.connect_tcp("127.0.0.1", there.port)
    connection = FrameConnection(await TlsLine.opened(raw, caller_context(), is_called=False))
    greeting = Greeting.read((await connection.read(frozenset({FrameKind.GREETING}))).content)
    return connection, greeting


def hello(greeting: Greeting, there: Called, name: str = "caller", network: bytes = NETWORK) -> CallHello:
    key = key_from(name)
    own = raw_public_key(key)
    signed = signed_by_caller(network=network, called=there.contact.peer, nonce=greeting.nonce, caller=own)
    return CallHello(network=network, caller=own, signature=key.sign(signed))


ASKED = CallQuestion(service="echo", deadline_s=5, is_stream=False, body=b"hi").pack()
STREAM = CallQuestion(service="endless", deadline_s=5, is_stream=True, body=b"").pack()


@pytest.mark.parametrize(
    "garbage", [b"GET / HTTP/1.1\r\n\r\n", bytes(1000), b"\x16\x03\x01\x00\x05hello", b"\xff" * 70_000]
)
async def test_what_is_not_tls_is_dropped_and_counted(garbage: bytes) -> None:
    async with called(ECHO) as there:
        async with await anyio.connect_tcp("127.0.0.1", there.port) as stream:
            with suppress(anyio.BrokenResourceError):
                await stream.send(garbage)
            await ended(stream)
        await dropped(there, "handshake")


async def test_streams_go_to_the_port_that_the_peers_line_has_for_them() -> None:
    async with called(ECHO) as there:
        line = Line(host=there.contact.address.host, udp=9, tcp=there.port)
        elsewhere = contact(key_from("called"), 9)
        async with caller(lines_of=lambda peer: (line,) if peer == elsewhere.peer else ()) as calls:
            assert await calls.call(elsewhere, "echo", b"hello") == b"hello"


async def test_who_takes_its_connection_back_at_once_harms_nobody() -> None:
    """Reset before it is looked at, a connection has no address: strangers must not end a peer by that."""
    async with called(ECHO) as there, caller() as calls:
        for _ in range(50):
            with socket.create_connection(("127.0.0.1", there.port)) as hasty:
                hasty.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        assert await calls.call(there.contact, "echo", b"hi") == b"hi"
        await counted(there, "left")


async def test_a_fault_of_ours_ends_one_connection_and_not_the_peer() -> None:
    async def too_much(peer: bytes, body: bytes) -> bytes:
        return bytes(CALL_BYTES_MAX + 1)

    services = Services(calls={"echo": echo, "too much": too_much})
    async with called(services) as there, caller() as calls:
        with pytest.raises(PeerUnreachableError):
            await calls.call(there.contact, "too much", b"")
        await counted(there, "fault")
        assert await calls.call(there.contact, "echo", b"hi") == b"hi"


async def test_tls_of_another_protocol_is_dropped() -> None:
    async with called(ECHO) as there:
        context = caller_context()
        context.set_alpn_protocols(["h2"])
        raw = await anyio.connect_tcp("127.0.0.1", there.port)
        async with await TLSStream.wrap(
            raw, server_side=False, ssl_context=context, standard_compatible=False
        ) as stream:
            assert await ended(stream) == b""
        await dropped(there, "handshake")


async def test_older_tls_is_not_spoken() -> None:
    async with called(ECHO) as there:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        async with await anyio.connect_tcp("127.0.0.1", there.port) as raw:
            with pytest.raises((ssl.SSLError, anyio.BrokenResourceError, anyio.EndOfStream)):
                await TLSStream.wrap(raw, server_side=False, ssl_context=context, standard_compatible=False)
        await dropped(there, "handshake")


async def test_who_opens_a_connection_and_says_nothing_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering_module, "HANDSHAKE_S", 0.2)
    async with called(ECHO) as there:
        async with await anyio.connect_tcp("127.0.0.1", there.port) as stream:
            assert await ended(stream) == b""
        await dropped(there, "slow handshake")


async def test_who_stops_after_tls_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering_module, "HANDSHAKE_S", 0.2)
    async with called(ECHO) as there:
        connection, _ = await met(there)
        await dropped(there, "slow handshake")
        await connection.close()


async def test_who_proved_a_key_and_asks_nothing_is_let_go() -> None:
    async with called(ECHO, idle_s=0.2) as there:
        connection, greeting = await met(there)
        await connection.send(hello(greeting, there).pack())
        with anyio.fail_after(10):
            await connection.read_end()
        await connection.close()


async def test_a_question_that_drips_in_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering_module, "STEP_S", 0.2)
    async with called(ECHO) as there:
        connection, greeting = await met(there)
        await connection.send(hello(greeting, there).pack() + ASKED[:9])
        await dropped(there, "slow")
        assert there.answering._admission._bytes == 0
        await connection.close()


async def test_who_announces_much_and_sends_nothing_loses_the_room_for_it_soon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answering_module, "STEP_S", 0.2)
    monkeypatch.setattr(answering_module, "PART_BYTES", 1_000)
    async with called(ECHO) as there:
        connection, greeting = await met(there)
        head = bytes((FrameKind.CALL,)) + CALL_BYTES_MAX.to_bytes(4, "big")
        await connection.send(hello(greeting, there).pack() + head + bytes(2_500))
        await dropped(there, "slow")  # within 10 s, where 8 MiB may take nine minutes
        assert there.answering._admission._bytes == 0
        await connection.close()


async def test_those_who_hold_all_room_for_large_questions_leave_some_for_small_ones() -> None:
    async with called(ECHO) as there, caller(name="small") as calls:
        held = []
        for name in ("a", "b", "c", "d"):
            for _ in range(2):
                connection, greeting = await met(there)
                head = bytes((FrameKind.CALL,)) + CALL_BYTES_MAX.to_bytes(4, "big")
                await connection.send(hello(greeting, there, name).pack() + head + ASKED[5:9])
                held.append(connection)
        await until(lambda: there.answering._admission._bytes == 8 * CALL_BYTES_MAX)
        with anyio.fail_after(5):
            assert await calls.call(there.contact, "echo", b"hi") == b"hi"
        for connection in held:
            await connection.close()


async def test_an_answer_that_nobody_takes_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answering_module, "STEP_S", 0.2)
    monkeypatch.setattr(answering_module, "SLOWEST_BYTES_PER_S", 1e9)
    async with called(ECHO) as there:
        connection, greeting = await met(there)
        asked = CallQuestion(service="endless", deadline_s=5, is_stream=True, body=b"")
        await connection.send(hello(greeting, there).pack() + asked.pack())
        await dropped(there, "slow")
        assert there.answering._admission._bytes == 0
        await connection.close()


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (frame(FrameKind.ANSWER, b"hi"), "kind"),
        (b"\x16\x03\x01\x02\x00", "kind"),
        (b"\x03\x7f\xff\xff\xff", "length"),
        (b"\x03\x00\x00\x00\x01", "length"),
        (b"\x03\x00\x00\x00\x06" + bytes((0, 0, 0, 9, 40, 65)), "question"),
        (b"\x03\x00\x00\x00\x06" + bytes((0, 0, 0, 9, 1, 0xC3)), "question"),
        (ASKED + ASKED, "out of turn"),
        (STREAM + ASKED, "out of turn"),
    ],
)
async def test_frames_that_break_the_rules_are_dropped(data: bytes, word: str) -> None:
    async with called(ECHO) as there:
        connection, greeting = await met(there)
        await connection.send(hello(greeting, there).pack() + data)
        await dropped(there, word)
        await connection.close()


async def test_who_talks_while_its_question_is_carried_out_is_dropped() -> None:
    started = anyio.Event()

    async def slow(peer: bytes, body: bytes) -> bytes:
        started.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with called(Services(calls={"echo": slow})) as there:
        connection, greeting = await met(there)
        await connection.send(hello(greeting, there).pack() + ASKED)
        await started.wait()
        await connection.send(ASKED)
        await dropped(there, "out of turn")
        await connection.close()


async def test_a_question_that_its_asker_has_given_up_is_not_worked_on_any_longer() -> None:
    ended = anyio.Event()

    async def slow(peer: bytes, body: bytes) -> bytes:
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()
        raise AssertionError

    async with called(Services(calls={"echo": slow})) as there:
        connection, greeting = await met(there)
        asked = CallQuestion(service="echo", deadline_s=0.2, is_stream=False, body=b"hi")
        await connection.send(hello(greeting, there).pack() + asked.pack())
        with anyio.fail_after(10):
            await ended.wait()
            await connection.read_end()
        await empty(there)
        await connection.close()


async def test_a_hello_of_another_network_is_dropped() -> None:
    async with called(ECHO) as there:
        connection, greeting = await met(there)
        await connection.send(hello(greeting, there, network=b"another!").pack())
        await dropped(there, "foreign")
        await connection.close()


async def test_a_hello_for_another_nonce_is_dropped() -> None:
    async with called(ECHO) as there:
        connection, greeting = await met(there)
        other, _ = await met(there)  # it has a nonce of its own
        await other.send(hello(greeting, there).pack())  # heard on the first connection
        await counted(there, "forged")
        await connection.close()
        await other.close()


async def test_a_hello_cannot_be_passed_on_to_somebody_else() -> None:
    """A caller greets a liar, which shows it the nonce of an honest peer and hands its HELLO on."""
    async with called(ECHO) as honest:
        through, greeting = await met(honest)
        liar = contact(key_from("liar"), 1)
        key = key_from("caller")
        signed = signed_by_caller(
            network=NETWORK, called=liar.peer, nonce=greeting.nonce, caller=raw_public_key(key)
        )
        passed_on = CallHello(network=NETWORK, caller=raw_public_key(key), signature=key.sign(signed))
        await through.send(passed_on.pack() + ASKED)
        await dropped(honest, "forged")
        await through.close()


async def test_whoever_sits_at_the_address_with_another_key_hears_nothing() -> None:
    async with called(ECHO, name="usurper") as there, caller() as calls:
        wanted = contact(key_from("called"), there.port)
        with pytest.raises(WrongPeerError, match="another key"):
            await calls.call(wanted, "echo", b"secret")
        await empty(there)
        assert there.answering.status().bytes_in == 0


async def test_a_peer_of_another_network_hears_nothing() -> None:
    async with called(ECHO, network=b"another!") as there, caller() as calls:
        with pytest.raises(WrongPeerError, match="another network"):
            await calls.call(there.contact, "echo", b"secret")


async def test_a_rotated_key_is_met_when_both_keys_say_so() -> None:
    old, new = raw_public_key(key_from("old")), raw_public_key(key_from("new"))
    rotated = Known(record=b"both signed")
    trusting = Known(rotations={(old, new): b"both signed"})
    async with (
        called(ECHO, name="new", known=rotated) as there,
        caller(known=trusting) as calls,
        caller(name="other") as wary,
    ):
        to_old = contact(key_from("old"), there.port)
        assert await calls.call(to_old, "echo", b"hi") == b"hi"
        with pytest.raises(WrongPeerError):
            await wary.call(to_old, "echo", b"hi")


async def test_strangers_are_told_no_and_newcomers_served() -> None:
    known = Known(is_everybody=False)
    async with (
        called(ECHO, known=known) as there,
        caller() as stranger,
        caller(name="new", known=Known(record=b"newcomer at 127.0.0.1")) as newcomer,
        caller(name="liar", known=Known(record=b"newcomer at 192.0.2.1")) as liar,
    ):
        for unknown in (stranger, liar):
            with pytest.raises(RefusedError, match="unknown"):
                await unknown.call(there.contact, "echo", b"x" * 100_000)
        assert await newcomer.call(there.contact, "echo", b"hi") == b"hi"


async def test_a_connection_of_a_newcomer_is_a_members_once_the_ring_knows_it() -> None:
    known = Known(is_everybody=False)
    limits = with_limits(calls_per_newcomer=Rate(per_second=0.001, burst=2))
    async with (
        called(ECHO, known=known, limits=limits) as there,
        caller(name="new", known=Known(record=b"newcomer at 127.0.0.1")) as newcomer,
    ):
        assert await newcomer.call(there.contact, "echo", b"1") == b"1"
        known.is_everybody = True
        for number in range(5):
            assert await newcomer.call(there.contact, "echo", b"%d" % number) == b"%d" % number


async def test_one_peer_has_a_few_connections_and_others_go_on() -> None:
    limits = with_limits(connections_per_peer=2)
    async with called(ECHO, limits=limits) as there, caller(name="other") as other:
        held = []
        for _ in range(3):
            connection, greeting = await met(there)
            await connection.send(hello(greeting, there).pack())
            held.append(connection)
        found = await held[2].read(frozenset({FrameKind.REFUSED}))
        assert found.content[4:] == b"connections"
        assert await other.call(there.contact, "echo", b"hi") == b"hi"
        for connection in held:
            await connection.close()


async def test_what_is_urgent_waits_for_nothing_that_takes_its_time() -> None:
    asked, may_end = 0, anyio.Event()

    async def slow(peer: bytes, body: bytes) -> bytes:
        nonlocal asked
        asked += 1
        await may_end.wait()
        return body

    services = Services(calls={"slow": slow, "echo": echo})
    async with called(services) as there, caller(urgent=["echo"]) as calls:
        async with anyio.create_task_group() as tasks:
            for _ in range(8):
                tasks.start_soon(calls.call, there.contact, "slow", b"")
            await until(lambda: asked == PATIENT_MAX)
            assert await calls.call(there.contact, "echo", b"hi", deadline_s=5) == b"hi"
            assert asked == PATIENT_MAX
            may_end.set()
        assert asked == 8


async def test_more_connections_than_there_are_places_are_closed_unread() -> None:
    async with called(ECHO, limits=with_limits(unproven_max=2)) as there:
        held = [await anyio.connect_tcp("127.0.0.1", there.port) for _ in range(3)]
        assert await ended(held[2]) == b""
        assert there.answering.status().dropped["full"] == 1
        for stream in held:
            await stream.aclose()


async def test_who_asks_too_often_is_slowed_down_and_loses_nothing() -> None:
    slow = with_limits(calls_per_peer=Rate(per_second=50, burst=5))
    async with called(ECHO, limits=slow) as there, caller() as calls:
        start = anyio.current_time()
        for _ in range(15):
            assert await calls.call(there.contact, "echo", b"hi") == b"hi"
        assert anyio.current_time() - start >= 9 / 50


async def test_a_question_waits_for_room_and_is_dropped_when_there_is_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answering_module, "BOOKING_S", 0.2)
    async with called(ECHO, limits=with_limits(bytes_per_peer=1000)) as there, caller() as calls:
        assert await calls.call(there.contact, "echo", bytes(100)) == bytes(100)
        with pytest.raises(PeerUnreachableError):
            await calls.call(there.contact, "echo", bytes(5000))
        await counted(there, "no room")


async def test_a_kept_connection_that_died_is_replaced_without_a_word() -> None:
    async with called(ECHO, idle_s=0.1) as there, caller() as calls:
        assert await calls.call(there.contact, "echo", b"one") == b"one"
        await empty(there)
        assert await calls.call(there.contact, "echo", b"two") == b"two"


async def test_a_connection_is_kept_for_the_next_call() -> None:
    async with called(ECHO) as there, caller() as calls:
        for _ in range(20):
            await calls.call(there.contact, "echo", b"hi")
        assert there.answering.status().connections == 1
        assert calls.status().connections == 1


async def test_a_fault_of_a_service_is_ours_and_the_next_call_is_served() -> None:
    async def faulty(peer: bytes, body: bytes) -> bytes:
        raise ZeroDivisionError

    services = Services(calls={"echo": echo, "faulty": faulty})
    async with called(services) as there, caller() as calls:
        with pytest.raises(RefusedError, match="failed"):
            await calls.call(there.contact, "faulty", b"")
        assert await calls.call(there.contact, "echo", b"hi") == b"hi"


async def test_a_server_that_sends_nonsense_is_an_unreachable_one() -> None:
    """It has the right key and the wrong words."""
    key = key_from("called")
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    context = called_context(key)

    async def serve(raw: anyio.abc.SocketStream) -> None:
        with suppress(LineBrokenError):
            connection = FrameConnection(await TlsLine.opened(raw, context, is_called=True))
            try:
                await connection.send(Greeting(network=NETWORK, nonce=bytes(32)).pack())
                await connection.read(frozenset({FrameKind.HELLO}))
                await connection.send(b"\x05\xff\xff\xff\xff")
                await connection.drain()
            finally:
                await connection.close()

    async with listener, caller() as calls, anyio.create_task_group() as tasks:
        tasks.start_soon(listener.serve, serve)
        with pytest.raises(PeerUnreachableError, match="length"):
            await calls.call(contact(key, port), "echo", b"hi")
        tasks.cancel_scope.cancel()


async def test_a_call_to_ourselves_needs_no_wire() -> None:
    async with caller(name="called") as calls:
        own = contact(key_from("called"), 1)
        calls.serve_own(ECHO)
        assert await calls.call(own, "echo", b"hi") == b"hi"
        with pytest.raises(RefusedError, match="service"):
            await calls.call(own, "other", b"hi")


async def test_each_call_tells_whether_the_peer_can_be_called_and_a_refusal_says_yes() -> None:
    told: list[str | None] = []
    async with called(ECHO) as there, caller(on_called=lambda _peer, why: told.append(why)) as calls:
        await calls.call(there.contact, "echo", b"hi")
        with pytest.raises(RefusedError):
            await calls.call(there.contact, "other", b"hi")
        with pytest.raises(PeerUnreachableError):
            await calls.call(contact(key_from("nobody"), 9), "echo", b"hi")
        with pytest.raises(PeerUnreachableError):
            async with calls.stream(contact(key_from("nobody"), 9), "echo", b"hi"):
                pass
    assert told[:2] == [None, None]
    assert len(told) == 4
    assert all(told[2:])


def test_only_an_ed25519_certificate_has_a_key() -> None:
    assert key_of(b"") is None
    assert key_of(b"\x30\x82") is None
    assert key_of(bytes(CERTIFICATE_BYTES_MAX + 1)) is None


def test_all_addresses_are_claimed_in_both_families() -> None:
    port, listener = claimed_port("::", 0)
    with listener:
        for host in ("127.0.0.1", "::1"):
            with pytest.raises(OSError, match="in use"):
                claimed_port(host, port)
            with socket.create_connection((host, port), timeout=5):
                pass


async def test_a_caller_by_ipv4_keeps_its_four_bytes_at_a_listener_of_both_families() -> None:
    port = claim_tcp("::", 0, key_from("called"))
    with closing(port):
        for host in ("127.0.0.1", "::1"):
            async with await anyio.connect_tcp(host, port.number):
                arrival = await port.accept()
                assert arrival.host == host
                await arrival.turn_away()


def test_the_port_is_claimed_by_udp_and_tcp() -> None:
    port, listener = claimed_port("127.0.0.1", 0)
    with listener, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as ring:
        ring.bind(("127.0.0.1", port))
        with pytest.raises(OSError, match="in use"):
            claimed_port("127.0.0.1", port)
