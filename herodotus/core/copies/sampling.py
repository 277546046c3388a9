"""Which captures does a daily proof speak of, and what is it? Neither side chooses, and neither can pass on another's.

The asker commits itself to a nonce, the other answers with its own, and only then the first is told: the seed is made
of both. So nobody can look for a seed that spares what it lost. All that both have of the scope is drawn from: a
directory of 16 bits in proportion to its captures, then one of them. Drawing a random position would draw by the gaps
between captures: a holder that drops the tenth behind the smallest gaps would lose one draw in two hundred.

A draw is a URL on a day, with all its contents there, as that is what two holders agree on. A prover hashes their
payloads; of large ones four pieces, whose places follow from the seed. Prover and asker are in the hash.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final, NamedTuple

from herodotus.core.captures import LargeBody, pieces_of
from herodotus.core.copies import PeerKey

DRAWS: Final = 100
"""A day. A holder that lost 1 % of a scope is found within a week with p = 0.9991."""
COMMITMENT_BYTES: Final = 16
SET_BYTES: Final = 16
SAMPLED_PROOF_BYTES: Final = 32
WHOLE_BYTES_MAX: Final = 64 << 10
PIECE_BYTES: Final = 16 << 10
PIECES: Final = 4


class Draw(NamedTuple):
    """The capture number `rank` of those in part `part` of the scope."""

    part: int
    rank: int


def commitment(nonce: bytes) -> bytes:
    return hashlib.sha256(nonce).digest()[:COMMITMENT_BYTES]


def set_digest(root: bytes) -> bytes:
    """Of all that is compared of a scope. Two holders with one digest draw the same."""
    return hashlib.sha256(b"herodotus/set/1" + root).digest()[:SET_BYTES]


def seed_of(asker_nonce: bytes, prover_nonce: bytes) -> bytes:
    return hashlib.sha256(asker_nonce + prover_nonce).digest()


def draws(seed: bytes, counts: Sequence[int]) -> list[Draw]:
    """From parts that have so many each, each once; none where there is nothing."""
    ends = list(accumulate(counts))
    if not ends or not ends[-1]:
        return []
    found = []
    for number in range(DRAWS):
        at = int.from_bytes(_hash(seed, b"draw", number)[:16], "big") % ends[-1]
        part = bisect_right(ends, at)
        found.append(Draw(part, at - (ends[part] - counts[part])))
    return list(dict.fromkeys(found))


def pieces(seed: bytes, number: int, payload: bytes | LargeBody) -> Iterator[bytes]:
    """What is hashed of a payload of a draw."""
    if len(payload) <= WHOLE_BYTES_MAX:
        yield from pieces_of(payload)
        return
    for piece in range(PIECES):
        places = len(payload) - PIECE_BYTES + 1
        start = int.from_bytes(_hash(seed, b"piece", number * PIECES + piece)[:16], "big") % places
        end = start + PIECE_BYTES
        yield payload.stretch(start, end) if isinstance(payload, LargeBody) else payload[start:end]


def _hash(seed: bytes, kind: bytes, number: int) -> bytes:
    return hashlib.sha256(seed + kind + number.to_bytes(4, "big")).digest()


class SampledProof:
    """What one prover says to one asker about the draws of a seed."""

    def __init__(self, seed: bytes, *, prover: PeerKey, asker: PeerKey) -> None:
        self._seed = seed
        self._hash = hashlib.sha256(b"herodotus/sampled-proof/1" + seed + prover + asker)

    def add(self, number: int, digest: bytes, payload: bytes | LargeBody) -> None:
        """A content of a draw, the earliest first."""
        self._hash.update(digest)
        for piece in pieces(self._seed, number, payload):
            self._hash.update(piece)

    @property
    def bytes(self) -> bytes:
        return self._hash.digest()
