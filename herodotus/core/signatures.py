"""Which peer vouches for a capture's origin? The peer that brought it in signs it once.

The signature goes with the record, in a field of its own, wherever it is copied. A copy with changed bytes no longer
matches it. It says which peer is responsible, not that the page really looked so.

Who permitted the fetch? The steward of the host signs the window that it grants. A capture names it, in a field of its
own, so any peer can see later who permitted whom to ask that host, and when.

How does a holder show that it has the bytes of a content, and not only its digest?

The asker draws a nonce; the proof is a hash over it, the digest and the body. A peer without the body cannot make it,
and a proof for one nonce says nothing about the next.
"""

import base64
import hashlib
from dataclasses import replace
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from herodotus.core.captures import Deposit, LargeBody, pieces_of

SIGNATURE = "Herodotus-Signature"
_VERSION = "1"
_PREFIX = b"herodotus/capture/1"
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64


def statement(deposit: Deposit) -> bytes:
    """The bytes to sign: URL, time, SHA-256 of the body, SHA-256 of the head, the server's address."""
    capture = deposit.capture
    parts = (
        capture.url.encode("utf-8", "surrogateescape"),
        capture.time_s.to_bytes(4, "big"),
        capture.sha256,
        hashlib.sha256(capture.head).digest(),
        capture.remote_ip.encode("ascii", "replace"),
    )
    return _PREFIX + b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def signed(key: Ed25519PrivateKey, deposit: Deposit) -> Deposit:
    """The deposit with a signature: the one that it has already, otherwise ours."""
    if signer_of(deposit) is not None:
        return deposit
    kept = tuple(pair for pair in deposit.extra if pair[0] != SIGNATURE)
    return replace(deposit, extra=(*kept, field_of(key, deposit)))


def field_of(key: Ed25519PrivateKey, deposit: Deposit) -> tuple[str, str]:
    signer = key.public_key().public_bytes_raw()
    return SIGNATURE, f"{_VERSION} {signer.hex()} {key.sign(statement(deposit)).hex()}"


def stated_in(deposit: Deposit) -> str | None:
    return next((value for name, value in deposit.extra if name == SIGNATURE), None)


def voucher_in(field: str | None) -> str:
    """The key that a record's field names, in hex. Signatures from other peers were checked on storing."""
    version, _, rest = (field or "").partition(" ")
    return rest.partition(" ")[0] if version == _VERSION else ""


def signer_of(deposit: Deposit) -> bytes | None:
    """The signer's public key; None if it is not signed, or the signature is of something else."""
    version, _, rest = (stated_in(deposit) or "").partition(" ")
    signer_hex, _, signature_hex = rest.partition(" ")
    try:
        signer, signature = bytes.fromhex(signer_hex), bytes.fromhex(signature_hex)
    except ValueError:
        return None
    if version != _VERSION or len(signer) != _KEY_BYTES or len(signature) != _SIGNATURE_BYTES:
        return None
    try:
        Ed25519PublicKey.from_public_bytes(signer).verify(signature, statement(deposit))
    except (InvalidSignature, ValueError):
        return None
    return signer


WINDOW = "Herodotus-Window"
_WINDOW_FORMAT = 1
WINDOW_SLACK_S = 600.0
"""Clocks of the steward, the fetcher and the reader of a window differ by less."""
_Key32 = Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
_Signature = Annotated[bytes, msgspec.Meta(min_length=64, max_length=64)]
_Count = Annotated[int, msgspec.Meta(ge=0, lt=1 << 53)]
ADDRESSES_MAX = 16


class SignedWindow(msgspec.Struct, frozen=True, array_like=True):
    """Times are those of the steward's clock: granted at a second since 1970, from so many milliseconds later on, for
    so long. The fetcher, the host and the network are known from where it is found."""

    steward: _Key32
    number: _Count
    granted_s: _Count
    starts_ms: _Count
    lasts_ms: _Count
    count: _Count
    addresses: Annotated[
        list[Annotated[str, msgspec.Meta(max_length=64)]], msgspec.Meta(max_length=ADDRESSES_MAX)
    ]
    """Those that the fetches may go to; none: not said."""
    signature: _Signature = bytes(_SIGNATURE_BYTES)

    def covers(self, time_s: float) -> bool:
        starts_s = self.granted_s + self.starts_ms / 1000
        return starts_s - WINDOW_SLACK_S <= time_s <= starts_s + self.lasts_ms / 1000 + WINDOW_SLACK_S


_encode_window = msgspec.msgpack.Encoder().encode
_decode_window = msgspec.msgpack.Decoder(SignedWindow).decode


def window_statement(window: SignedWindow, network: bytes, asker: bytes, subject: str) -> bytes:
    """The bytes that a steward signs (docs/protocol/leases.md)."""
    told = (
        window.number,
        window.granted_s,
        window.starts_ms,
        window.lasts_ms,
        window.count,
        window.addresses,
    )
    return _encode_window((_WINDOW_FORMAT, network, window.steward, asker, subject, *told))


def is_signed_window(window: SignedWindow, network: bytes, asker: bytes, subject: str) -> bool:
    try:
        steward = Ed25519PublicKey.from_public_bytes(window.steward)
        steward.verify(window.signature, window_statement(window, network, asker, subject))
    except (InvalidSignature, ValueError):
        return False
    return True


def window_field(window: SignedWindow) -> tuple[str, str]:
    packed = base64.b64encode(_encode_window(window)).decode("ascii")
    return WINDOW, f"{_VERSION} {packed}"


def window_of_field(value: str | None) -> SignedWindow | None:
    """None when there is none, or it cannot be read."""
    version, _, packed = (value or "").partition(" ")
    if version != _VERSION:
        return None
    try:
        return _decode_window(base64.b64decode(packed, validate=True))
    except (ValueError, msgspec.DecodeError):
        return None


HELPER = "Herodotus-Helper"


def helper_field(helper_hex: str) -> tuple[str, str]:
    """Who asked the origin for the signer, by the signer's word."""
    return HELPER, f"{_VERSION} {helper_hex}"


def helper_of_field(value: str | None) -> str:
    """A key in hex; empty where the signer asked the origin itself, or the field cannot be read."""
    version, _, helper = (value or "").partition(" ")
    is_key = version == _VERSION and len(helper) == 2 * _KEY_BYTES and set(helper) <= set("0123456789abcdef")
    return helper if is_key else ""


PROOF_BYTES = 20
VERSIONS_MAX = 64
"""Contents of one URL on one day that a poll speaks of."""


class Proof(msgspec.Struct, kw_only=True, frozen=True, array_like=True):
    """One content of a member: when it was fetched, its SHA-256, and that the bytes were at hand for the nonce."""

    time_s: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    proof: Annotated[bytes, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]


def prove(question: bytes, digest: bytes, body: bytes | LargeBody) -> bytes:
    """`question` is the asker's nonce, and whose answer to whom it is."""
    proof = hashlib.sha256(b"herodotus/poll/2" + question + digest)
    for piece in pieces_of(body):  # not put together: it may be large
        proof.update(piece)
    return proof.digest()[:PROOF_BYTES]
