"""How do two strangers prove address, key and freshness to each other before anything is believed?

The steps of `docs/protocol/ring.md` §2 as pure functions: what a side signs, derives and checks. Which step
comes when, and what is repeated, is `link.py`'s. Random bytes come in as arguments, so that equal inputs
give equal frames: the test vectors depend on it. All primitives are those of the `cryptography` package.
"""

import hashlib
import hmac
from dataclasses import dataclass, field
from typing import Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from dht.core.frames import Address, DatagramHello, HelloOk, packed_ip

COOKIE_EPOCH_S: Final = 60.0
SIGN_RESPONDER: Final = b"herodotus/hs/1/responder"
SIGN_INITIATOR: Final = b"herodotus/hs/1/initiator"
INFO_SESSION: Final = b"herodotus/session/1"


def raw_public_key(key: Ed25519PrivateKey) -> bytes:
    return key.public_key().public_bytes_raw()


def is_signed(public_key: bytes, signature: bytes, signed: bytes) -> bool:
    """Also False for 32 bytes that are no key at all: strangers choose them."""
    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, signed)
    except (InvalidSignature, ValueError):
        return False
    return True


class CookieJar:
    """Stateless proof of address: the maker of a cookie can check it, and nobody stores it."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def _secret_of(self, epoch: int) -> bytes:
        minute = epoch.to_bytes(8, "big", signed=True)
        return hashlib.blake2b(minute, key=self._secret, digest_size=32).digest()

    def _bake(self, epoch: int, hello: DatagramHello, address: Address) -> bytes:
        bound = hello.network + packed_ip(address[0]) + address[1].to_bytes(2, "big") + hello.public_key
        return hashlib.blake2b(bound, key=self._secret_of(epoch), digest_size=16).digest()

    def bake(self, hello: DatagramHello, address: Address, now: float) -> bytes:
        return self._bake(int(now // COOKIE_EPOCH_S), hello, address)

    def is_ours(self, hello: DatagramHello, address: Address, now: float) -> bool:
        epoch = int(now // COOKIE_EPOCH_S)
        return any(
            hmac.compare_digest(hello.cookie, self._bake(known, hello, address))
            for known in (epoch, epoch - 1)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Agreement:
    """What a side holds once it has seen both HELLO and HELLO_OK."""

    transcript: bytes = field(repr=False)
    keys: tuple[bytes, bytes] = field(repr=False)  # initiator's, responder's


def ephemeral_public(secret: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def _agree(secret: bytes, their_public: bytes, transcript: bytes) -> Agreement | None:
    try:
        shared = X25519PrivateKey.from_private_bytes(secret).exchange(
            X25519PublicKey.from_public_bytes(their_public)
        )
    except ValueError:  # a point of low order: the shared secret would be known to everybody
        return None
    material = HKDF(algorithm=SHA256(), length=64, salt=transcript, info=INFO_SESSION).derive(shared)
    return Agreement(transcript=transcript, keys=(material[:32], material[32:]))


def _transcript(hello: bytes, ok_unsigned: bytes) -> bytes:
    return hashlib.sha256(hello + ok_unsigned).digest()


def answer_hello(
    hello: bytes, *, ok: HelloOk, secret: bytes, their_ephemeral: bytes, key: Ed25519PrivateKey
) -> tuple[bytes, Agreement] | None:
    """The HELLO_OK to the bytes of a HELLO with a good cookie, and the keys that follow from it."""
    unsigned = ok.pack_unsigned()
    agreement = _agree(secret, their_ephemeral, _transcript(hello, unsigned))
    if agreement is None:
        return None
    return unsigned + key.sign(SIGN_RESPONDER + agreement.transcript), agreement


def check_hello_ok(hello: bytes, *, ok: HelloOk, secret: bytes) -> Agreement | None:
    """The initiator's view: the keys, if the responder signed just this conversation."""
    transcript = _transcript(hello, ok.pack_unsigned())
    if not is_signed(ok.public_key, ok.signature, SIGN_RESPONDER + transcript):
        return None
    return _agree(secret, ok.ephemeral, transcript)


def sign_finish(key: Ed25519PrivateKey, transcript: bytes) -> bytes:
    return key.sign(SIGN_INITIATOR + transcript)


def is_finish_signed(public_key: bytes, signature: bytes, transcript: bytes) -> bool:
    return is_signed(public_key, signature, SIGN_INITIATOR + transcript)
