"""The bytes of version 1 stay as they are: every vector is made again and read again."""

from pathlib import Path

from dht.core import messages as m
from dht.core.frames import DatagramHello, Echo, HelloOk, Hint, Nonce, Retry, parse_greeting
from dht.core.records import SignedRecord
from dht.identity import Verifier
from dht.wire import MessageCodec, decode_record
from tests.dht.link_world import NETWORK
from tests.dht.vectors import all_messages, vectors

GOLDEN = Path(__file__).parent / "golden" / "ring-3.txt"


def golden() -> dict[str, bytes]:
    lines = GOLDEN.read_text().splitlines()
    return {name: bytes.fromhex(data) for name, data in (line.split(" ") for line in lines)}


def test_every_vector_is_made_again_byte_by_byte() -> None:
    assert dict(vectors()) == golden()


def test_there_is_a_vector_of_every_message() -> None:
    assert {type(message) for message in all_messages()} == {*m.REQUESTS, *m.REPLIES}


def test_every_message_vector_is_read_as_the_value_it_was_made_from() -> None:
    codec = MessageCodec("ip")
    known = golden()
    for message in all_messages():
        assert codec.decode(known[f"message-{type(message).__name__}-{message.id}"]) == message


def test_every_record_vector_verifies() -> None:
    for name, data in golden().items():
        if name.startswith("record"):
            signed = decode_record(data)
            assert isinstance(signed, SignedRecord)
            assert Verifier().is_record_signed(signed)


def test_every_greeting_vector_parses() -> None:
    known = golden()
    kinds = {
        "hello": DatagramHello,
        "retry": Retry,
        "hello-ok": HelloOk,
        "hint": Hint,
        "nonce": Nonce,
        "echo": Echo,
    }
    for name, kind in kinds.items():
        assert isinstance(parse_greeting(known[f"frame-{name}"], NETWORK), kind)


def test_some_messages_written_out_by_hand() -> None:
    codec = MessageCodec("ip")
    assert codec.decode(bytes.fromhex("92 01 00")) == m.Ping(id=0)
    assert codec.decode(bytes.fromhex("92 02 cf ffffffffffffffff")) == m.Pong(id=(1 << 64) - 1)
    assert codec.decode(bytes.fromhex("93 0f 0e c4 03 00 07 ff")) == m.DigestDiffers(
        id=14, buckets=(0, 7, 255)
    )
    assert golden()["message-ProbeReply-18"] == bytes.fromhex("93 13 12 c2")
    assert golden()["message-AliveVerdict-20"] == bytes.fromhex("93 15 14 c4 00")
