"""What a fuzzer feeds with any bytes: one function per way in. None may raise, whatever it gets."""

from random import Random

from dht.core.frames import DATA, ECHO, FINISH, HELLO, HELLO_OK, HINT, NONCE, PAYLOAD_BYTES_MAX, RETRY
from dht.core.ids import NetworkId
from dht.endpoint import SessionEndpoint
from dht.identity import sign_record
from dht.wire import MessageCodec, MessageRefused, decode_record, encode_message, encode_record
from tests.dht.link_world import NETWORK, key_from
from tests.dht.values import BYTES_MAX, record_of

HERE, THERE = ("192.0.2.1", 4484), ("198.51.100.2", 4484)
CODEC = MessageCodec("ip")


def fresh_endpoint(name: str) -> SessionEndpoint:
    signed = sign_record(key_from(name), record_of(name))
    return SessionEndpoint(
        key=key_from(name),
        network=NetworkId(NETWORK),
        id_check="ip",
        record=lambda: signed,
        entropy=Random(name).randbytes,
    )


def connected() -> tuple[SessionEndpoint, SessionEndpoint]:
    """Two endpoints with an open session."""
    left, right = fresh_endpoint("left"), fresh_endpoint("right")
    left.link.dial(THERE, None, 0.0)
    right.link.strangers.nonces_awaited_until = float("inf")
    while left.link.outgoing or right.link.outgoing:
        sent, left.link.outgoing[:] = left.link.outgoing[:], []
        right.receive([(data, HERE) for data, _ in sent], 0.0)
        sent, right.link.outgoing[:] = right.link.outgoing[:], []
        left.receive([(data, THERE) for data, _ in sent], 0.0)
    return left, right


_LEFT, _RIGHT = connected()


def decoders(data: bytes) -> None:
    """What is decoded is encoded to bytes that mean the same."""
    message = CODEC.decode(data, bytes_max=BYTES_MAX)
    if not isinstance(message, MessageRefused):
        assert CODEC.decode(encode_message(message), bytes_max=BYTES_MAX) == message
    record = decode_record(data)
    if not isinstance(record, MessageRefused):
        assert decode_record(encode_record(record)) == record


def datagrams(data: bytes) -> None:
    """As it is, and behind good headers of every kind: at most three times as much comes back."""
    for prefix in (
        b"",
        *(bytes((0x48, kind)) + NETWORK for kind in (HELLO, RETRY, HELLO_OK, HINT, NONCE, ECHO)),
    ):
        _RIGHT.receive([(prefix + data, HERE)], 0.0)
    for kind in (DATA, FINISH):
        for session in _RIGHT.link.sessions:
            _RIGHT.receive([(bytes((0x48, kind)) + session.local_id + data, HERE)], 0.0)
    # A HELLO is no answer: it goes to the validated address of a session that a HINT has named (atheris
    # guessed its id), twice in a minute at most.
    answered = sum(len(frame) for frame, _ in _RIGHT.link.outgoing if frame[1] != HELLO)
    assert answered <= 3 * 7 * (len(data) + 10)
    _RIGHT.link.outgoing.clear()
    _RIGHT.take_events(0.0)


def sealed_payloads(data: bytes) -> None:
    """A peer that has a session says anything at all."""
    _LEFT.link.send(data[:PAYLOAD_BYTES_MAX], THERE, None, 0.0)
    sent, _LEFT.link.outgoing[:] = _LEFT.link.outgoing[:], []
    _RIGHT.receive([(frame, HERE) for frame, _ in sent], 0.0)


ALL = (decoders, datagrams, sealed_payloads)
