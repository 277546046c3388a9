"""Signed records for these tests: what the ring's own will state, in a form of our own."""

import hashlib
import ipaddress
from dataclasses import dataclass, field

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from dht.discovery.rendezvous import PublishedRecord

NETWORK = b"ring-one"
NOW = 1_800_000_000.0


def wall_clock() -> float:
    return NOW


@dataclass(kw_only=True)
class Author:
    """A peer that signs records."""

    address: tuple[str, int]
    network: bytes = NETWORK
    key: Ed25519PrivateKey = field(default_factory=Ed25519PrivateKey.generate)

    @property
    def peer_id(self) -> bytes:
        return hashlib.sha256(self.key.public_key().public_bytes_raw()).digest()

    @property
    def position(self) -> bytes:
        return hashlib.sha1(ipaddress.ip_address(self.address[0]).packed + b"\0\0").digest()

    def record(self, *, incarnation: int = 1, life_s: float = 3600.0, filler: bytes = b"") -> bytes:
        public = self.key.public_key().public_bytes_raw()
        body = msgspec.msgpack.encode(
            [self.network, public, *self.address, incarnation, NOW + life_s, filler]
        )
        return msgspec.msgpack.encode([body, self.key.sign(body)])


def validate(data: bytes) -> PublishedRecord | None:
    try:
        body, signature = msgspec.msgpack.decode(data, type=tuple[bytes, bytes])
        network, public, host, port, incarnation, expires_at, _ = msgspec.msgpack.decode(
            body, type=tuple[bytes, bytes, str, int, int, float, bytes]
        )
        Ed25519PublicKey.from_public_bytes(public).verify(signature, body)
        packed = ipaddress.ip_address(host).packed
    except (msgspec.MsgspecError, InvalidSignature, ValueError):
        return None
    if network != NETWORK:
        return None
    return PublishedRecord(
        network=network,
        peer_id=hashlib.sha256(public).digest(),
        incarnation=incarnation,
        expires_at=expires_at,
        addresses=((host, port),),
        first_position=hashlib.sha1(packed + b"\0\0").digest(),
    )
