"""The codec: what it makes, what it takes, and that nothing a stranger sends can break it."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dht.core import messages as m
from dht.core.frames import PAYLOAD_BYTES_MAX
from dht.core.records import Address, Contact, SignedRecord
from dht.wire import MessageCodec, MessageRefused, decode_record, encode_fitted, encode_message, encode_record
from tests.dht.values import BYTES_MAX, messages, signed_records

CODEC = MessageCodec("ip")
MALFORMED = MessageRefused(reason="malformed")
CONTACT = [bytes(32), bytes(4), 4484, 0, 0]


def packed(*fields: object) -> bytes:
    return msgspec.msgpack.encode(fields)


@given(messages)
def test_every_message_survives_the_way_there_and_back(message: m.Message) -> None:
    data = encode_message(message)
    decoded = CODEC.decode(data, bytes_max=BYTES_MAX)
    assert decoded == message
    assert isinstance(decoded, m.Message)
    assert encode_message(decoded) == data  # contacts compare by position and peer: their bytes say the rest


@given(messages, st.integers(0, 2_000))
def test_no_part_of_a_message_is_taken_for_the_whole(message: m.Message, length: int) -> None:
    data = encode_message(message)
    if length < len(data):
        assert isinstance(CODEC.decode(data[:length], bytes_max=BYTES_MAX), MessageRefused)


@given(st.binary(max_size=PAYLOAD_BYTES_MAX + 50))
def test_any_bytes_give_a_message_or_a_reason(data: bytes) -> None:
    assert isinstance(CODEC.decode(data), m.Message | MessageRefused)
    assert isinstance(decode_record(data), SignedRecord | MessageRefused)


@given(messages, st.data())
def test_a_bent_message_gives_a_message_or_a_reason(message: m.Message, data: st.DataObject) -> None:
    encoded = bytearray(encode_message(message))
    for _ in range(data.draw(st.integers(1, 4))):
        encoded[data.draw(st.integers(0, len(encoded) - 1))] = data.draw(st.integers(0, 255))
    assert isinstance(CODEC.decode(bytes(encoded), bytes_max=BYTES_MAX), m.Message | MessageRefused)


@given(signed_records())
def test_a_record_survives_alone(signed: SignedRecord) -> None:
    assert decode_record(encode_record(signed)) == signed


@given(signed_records())
def test_a_record_has_all_its_fields(signed: SignedRecord) -> None:
    kind, record, *signatures = msgspec.msgpack.decode(encode_record(signed))
    assert decode_record(packed(kind, record[:-3], *signatures)) == MALFORMED
    assert decode_record(packed(kind, record[:-3], signatures[0])) == MALFORMED


def test_fields_that_a_newer_peer_adds_are_ignored() -> None:
    assert CODEC.decode(packed(1, 7, "new", {"deep": [1]})) == m.Ping(id=7)
    newer_contact = [*CONTACT, b"", "more"]
    assert isinstance(CODEC.decode(packed(12, 7, [newer_contact], 1)), m.Closer)


def test_unknown_kinds_are_told_apart_from_nonsense() -> None:
    assert CODEC.decode(packed(99, 7)) == MessageRefused(reason="kind")
    for reserved in (22, 23):
        assert CODEC.decode(packed(reserved, 7, 0, [])) == MessageRefused(reason="kind")
    assert CODEC.decode(packed(0, 7)) == MessageRefused(reason="kind")
    assert CODEC.decode(packed(-1, 7)) == MALFORMED
    assert CODEC.decode(packed("1", 7)) == MALFORMED


def test_unknown_kinds_of_news_are_left_out() -> None:
    death = [2, bytes(32), 1, bytes(32), bytes(64), b"c" * 32, bytes(64)]
    decoded = CODEC.decode(packed(13, 7, [[9, "new"], death]))
    assert isinstance(decoded, m.Rumour)
    assert len(decoded.news) == 1


@pytest.mark.parametrize(
    "fields",
    [
        (1,),
        (1, -1),
        (1, 1.5),
        (1, "7"),
        (1, None),
        (10, 7, bytes(19)),
        (10, 7, bytes(21)),
        (10, 7, "k" * 20),
        (10, 7),
        (4, 7, CONTACT, 64, 0),
        (4, 7, CONTACT, -1, 0),
        (4, 7, CONTACT, 0, 1 << 32),
        (4, 7, [bytes(31), *CONTACT[1:]], 0, 0),
        (4, 7, [bytes(32), bytes(5), 1, 0, 0], 0, 0),
        (4, 7, [bytes(32), bytes(4), -1, 0, 0], 0, 0),
        (4, 7, [bytes(32), bytes(10) + b"\xff\xff" + bytes(4), 1, 0, 0], 0, 0),
        (24, 7, 0),
        (4, 7, [bytes(32), bytes(4), 65_536, 0, 0], 0, 0),
        (4, 7, [bytes(32), bytes(4), 1, 8, 0], 0, 0),
        (4, 7, [bytes(32), bytes(4), 1, 0, 64], 0, 0),
        (4, 7, CONTACT[:4], 0, 0),
        (5, 7, 0, None, []),
        (5, 7, 1, None, [CONTACT] * 17),
        (11, 7, [], []),
        (11, 7, [CONTACT] * 7, []),
        (12, 7, [CONTACT] * 4),
        (13, 7, [[9, 1]] * 8),
        (13, 7, [1]),
        (13, 7, [["x"]]),
        (13, 7, [[]]),
        (14, 7, bytes(1_023)),
        (14, 7, bytes(1_025)),
        (15, 7, b"\x02\x01"),
        (15, 7, b"\x02\x02"),
        (16, 7, 256, b"", b""),
        (16, 7, 0, b"x", b""),
        (16, 7, 0, b"", b"abc"),
        (16, 7, 0, b"", bytes(804)),
        (19, 7, 1),
        (21, 7, bytes(63)),
    ],
)
def test_a_field_out_of_its_limits_is_refused(fields: tuple[object, ...]) -> None:
    assert CODEC.decode(packed(*fields)) == MALFORMED


def test_depth_size_and_trailing_bytes_are_limited() -> None:
    deep = b"\x93\x01\x07" + b"\x91" * 1_100 + b"\x00"
    assert CODEC.decode(deep) in (MALFORMED, m.Ping(id=7))  # an ignored field, however deep, harms nobody
    deeper = b"\x93\x01\x07" + b"\x91" * 500_000 + b"\x00"
    assert CODEC.decode(deeper, bytes_max=1 << 20) == MALFORMED
    assert CODEC.decode(packed(1, 7) + b"\x00") == MALFORMED
    assert CODEC.decode(packed(1, 7, bytes(PAYLOAD_BYTES_MAX))) == MALFORMED
    huge = b"\x93\x0d\x07\xdd\xff\xff\xff\xff"  # four thousand million news in nine bytes
    assert CODEC.decode(huge) == MALFORMED


def test_positions_are_computed_and_not_believed() -> None:
    decoded = CODEC.decode(packed(18, 7, [bytes(32), b"\x7f\0\0\1", 4484, 2, 3]))
    assert isinstance(decoded, m.ProbeRequest)
    contact = decoded.target
    assert contact.position == Contact.at(contact.peer, contact.address, 2, 3, "ip").position
    other_port = CODEC.decode(packed(18, 7, [bytes(32), b"\x7f\0\0\1", 4485, 2, 3]))
    assert isinstance(other_port, m.ProbeRequest)
    assert other_port.target.position == contact.position
    free = MessageCodec("off").decode(packed(18, 7, [bytes(32), b"\x7f\0\0\1", 4485, 2, 3]))
    assert isinstance(free, m.ProbeRequest)
    assert free.target.position != contact.position


@given(messages)
def test_what_is_fitted_fits_or_cannot_be_cut(message: m.Message) -> None:
    data = encode_fitted(message)
    cut = CODEC.decode(data)
    if len(encode_message(message)) <= PAYLOAD_BYTES_MAX:
        assert data == encode_message(message)
    elif isinstance(message, m.Rumour | m.MemberRecords) and len(message.news) > 1:
        assert len(data) <= PAYLOAD_BYTES_MAX
        assert isinstance(cut, m.Rumour) or (isinstance(cut, m.MemberRecords) and cut.more)
    elif isinstance(message, m.Owner):
        assert len(data) <= PAYLOAD_BYTES_MAX


def test_the_longest_state_and_digest_fit_a_datagram() -> None:
    address = Address(host=b"\xff" * 16, port=65_535)
    far = Contact.at(CODEC.decode(packed(18, 7, CONTACT)).target.peer, address, 7, 63, "ip")  # type: ignore[union-attr]
    state = m.NeighbourState(id=(1 << 64) - 1, version=(1 << 32) - 1, predecessor=far, successors=(far,) * 16)
    digest = m.Digest(id=(1 << 64) - 1, sums=((1 << 32) - 1,) * 256)
    pull = m.Pull(id=(1 << 64) - 1, bucket=255, after=bytes(32), have=((1 << 32) - 1,) * 200)
    sizes = [len(encode_message(message)) for message in (state, digest, pull)]
    assert sizes == [1_005, 1_038, 850]
    assert max(sizes) <= PAYLOAD_BYTES_MAX
