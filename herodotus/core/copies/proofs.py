"""How does a holder show that it has the bytes of a content, and not only its digest?

The asker draws a nonce; the proof is a hash over it, the digest and the body. A peer without the body cannot make it,
and a proof for one nonce says nothing about the next.
"""

import hashlib
from typing import Annotated

import msgspec

PROOF_BYTES = 20
VERSIONS_MAX = 64
"""Contents of one URL on one day that a poll speaks of."""


class Proof(msgspec.Struct, kw_only=True, frozen=True, array_like=True):
    """One content of a member: when it was fetched, its SHA-256, and that the bytes were at hand for the nonce."""

    time_s: Annotated[int, msgspec.Meta(ge=0, lt=1 << 32)]
    digest: Annotated[bytes, msgspec.Meta(min_length=32, max_length=32)]
    proof: Annotated[bytes, msgspec.Meta(min_length=PROOF_BYTES, max_length=PROOF_BYTES)]


def prove(nonce: bytes, digest: bytes, body: bytes) -> bytes:
    return hashlib.sha256(b"herodotus/poll/1" + nonce + digest + body).digest()[:PROOF_BYTES]
