"""What does each datagram look like below the messages? `docs/protocol/ring.md` §1, as pack and parse.

Parsing checks kind, length and network and gives a value or the reason of refusal (a word that is counted);
it never raises. Keys and signatures are bytes here: what they mean is `handshake.py`'s business.
"""

import ipaddress
import struct
from functools import lru_cache
from typing import Final, NamedTuple

Address = tuple[str, int]

MAGIC: Final = 0x48
VERSION: Final = 1
HELLO: Final = VERSION << 4 | 1
RETRY: Final = VERSION << 4 | 2
HELLO_OK: Final = VERSION << 4 | 3
FINISH: Final = VERSION << 4 | 4
DATA: Final = VERSION << 4 | 5
HINT: Final = VERSION << 4 | 6
NONCE: Final = VERSION << 4 | 7
ECHO: Final = VERSION << 4 | 8

DATAGRAM_BYTES_MAX: Final = 1_232  # IPv6 promises 1,280 less its own header and UDP's: never fragmented
DATAGRAM_BYTES_MIN: Final = 18
HELLO_BYTES_MIN: Final = 512
RECORD_BYTES_MAX: Final = 900
"""One with four lines, a trail, a seat, relays and two signatures has 560; the rest is room for fields to come."""
SEALED_HEADER_BYTES: Final = 18
TAG_BYTES: Final = 16
PAYLOAD_BYTES_MAX: Final = DATAGRAM_BYTES_MAX - SEALED_HEADER_BYTES - TAG_BYTES
SIGNATURE_BYTES: Final = 64
NO_COOKIE: Final = bytes(16)
NONCE_BYTES: Final = 32

_HELLO = struct.Struct(">BB8s8s32s32s16s")
_RETRY = struct.Struct(">BB8s8s16s")
_HELLO_OK = struct.Struct(">BB8s8s8s32s32s16sHH")
_HINT = struct.Struct(">BB8s8s")
_NONCE = struct.Struct(">BB8s32s")
_U16 = struct.Struct(">H")


@lru_cache(maxsize=4_096)
def packed_ip(host: str) -> bytes:
    """Sixteen bytes for either family; IPv4 as the mapped address. A scope (`%eth0`) is not part of it."""
    ip = ipaddress.ip_address(host.partition("%")[0])
    if isinstance(ip, ipaddress.IPv4Address):
        return bytes(10) + b"\xff\xff" + ip.packed
    return ip.packed


def unpacked_ip(packed: bytes) -> str:
    ip = ipaddress.IPv6Address(packed)
    return str(ip.ipv4_mapped or ip)


# The frames that are not sealed. Their fields are in the order of the wire: a frame is packed and parsed as it stands.


class DatagramHello(NamedTuple):
    network: bytes
    initiator_id: bytes
    public_key: bytes
    ephemeral: bytes
    cookie: bytes = NO_COOKIE

    def pack(self) -> bytes:
        return _HELLO.pack(MAGIC, HELLO, *self).ljust(HELLO_BYTES_MIN, b"\0")


class Retry(NamedTuple):
    network: bytes
    initiator_id: bytes
    cookie: bytes

    def pack(self) -> bytes:
        return _RETRY.pack(MAGIC, RETRY, *self)


class HelloOk(NamedTuple):
    network: bytes
    initiator_id: bytes
    responder_id: bytes
    public_key: bytes
    ephemeral: bytes
    seen: Address
    record: bytes
    signature: bytes = b""

    def pack_unsigned(self) -> bytes:
        assert len(self.record) <= RECORD_BYTES_MAX, "nobody would take it"
        seen_ip, seen_port = packed_ip(self.seen[0]), self.seen[1]
        return _HELLO_OK.pack(MAGIC, HELLO_OK, *self[:5], seen_ip, seen_port, len(self.record)) + self.record


class Hint(NamedTuple):
    network: bytes
    session_id: bytes

    def pack(self) -> bytes:
        return _HINT.pack(MAGIC, HINT, *self)


class Nonce(NamedTuple):
    """Send this back, if you can hear me: the first half of a dial-back."""

    network: bytes
    value: bytes  # 32

    def pack(self) -> bytes:
        return _NONCE.pack(MAGIC, NONCE, *self)


class Echo(NamedTuple):
    """Of another kind than what it answers: two peers cannot be set to echo at each other."""

    network: bytes
    value: bytes  # 32

    def pack(self) -> bytes:
        return _NONCE.pack(MAGIC, ECHO, *self)


Greeting = DatagramHello | Retry | HelloOk | Hint | Nonce | Echo


def refusal(data: bytes) -> str | None:
    """Why a datagram is no frame of ours at all, or None."""
    if len(data) < DATAGRAM_BYTES_MIN:
        return "truncated"
    if len(data) > DATAGRAM_BYTES_MAX:
        return "oversized"
    if data[0] != MAGIC:
        return "magic"
    if data[1] >> 4 != VERSION:
        return "version"
    return None if HELLO <= data[1] <= ECHO else "kind"


def parse_greeting(data: bytes, network: bytes) -> Greeting | str:
    """One of the frames that are not sealed, or the reason why it is dropped."""
    reason = refusal(data)
    if reason is not None:
        return reason
    if data[2:10] != network:
        return "foreign"
    match data[1]:
        case 0x11 if len(data) >= HELLO_BYTES_MIN:
            return DatagramHello(*_HELLO.unpack_from(data)[2:])
        case 0x12 if len(data) == _RETRY.size:
            return Retry(*_RETRY.unpack(data)[2:])
        case 0x13 if len(data) >= _HELLO_OK.size + SIGNATURE_BYTES:
            return _parse_hello_ok(data)
        case 0x16 if len(data) == _HINT.size:
            return Hint(*_HINT.unpack(data)[2:])
        case 0x17 if len(data) == _NONCE.size:
            return Nonce(*_NONCE.unpack(data)[2:])
        case 0x18 if len(data) == _NONCE.size:
            return Echo(*_NONCE.unpack(data)[2:])
    return "truncated"


def _parse_hello_ok(data: bytes) -> HelloOk | str:
    *fields, seen_ip, seen_port, record_bytes = _HELLO_OK.unpack_from(data)[2:]
    end = _HELLO_OK.size + record_bytes
    if record_bytes > RECORD_BYTES_MAX or len(data) != end + SIGNATURE_BYTES:
        return "truncated"
    seen = unpacked_ip(seen_ip), seen_port
    return HelloOk._make((*fields, seen, data[_HELLO_OK.size : end], data[end:]))


def pack_finish(signature: bytes, record: bytes) -> bytes:
    assert len(signature) == SIGNATURE_BYTES
    assert len(record) <= RECORD_BYTES_MAX
    return signature + _U16.pack(len(record)) + record


def parse_finish(plain: bytes) -> tuple[bytes, bytes] | None:
    """(signature, record) of a FINISH that was opened."""
    start = SIGNATURE_BYTES + 2
    if len(plain) < start:
        return None
    (record_bytes,) = _U16.unpack_from(plain, SIGNATURE_BYTES)
    if record_bytes > RECORD_BYTES_MAX or len(plain) != start + record_bytes:
        return None
    return plain[:SIGNATURE_BYTES], plain[start:]
