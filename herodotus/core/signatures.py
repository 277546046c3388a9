"""Which peer vouches for a capture's origin? The peer that brought it in signs it once.

The signature goes with the record, in a field of its own, wherever it is copied. A copy with changed bytes no longer
matches it. It says which peer is responsible, not that the page really looked so.

How does a holder show that it has the bytes of a content, and not only its digest?

The asker draws a nonce; the proof is a hash over it, the digest and the body. A peer without the body cannot make it,
and a proof for one nonce says nothing about the next.
"""

import hashlib
from dataclasses import replace
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from herodotus.core.captures import Deposit

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


PROOF_BYTES = 20
VERSIONS_MAX = 64
"""Contents of one URL on one day that a poll speaks of."""


class Proof(msgspec.Struct, kw_only=True, frozen=True, array_like=True):
    """One content of a member: when it was fetched, its SHA-256, and that the bytes were at hand for the nonce."""

    time_s: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    proof: Annotated[bytes, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]


def prove(question: bytes, digest: bytes, body: bytes) -> bytes:
    """`question` is the asker's nonce, and whose answer to whom it is."""
    return hashlib.sha256(b"herodotus/poll/2" + question + digest + body).digest()[:PROOF_BYTES]
