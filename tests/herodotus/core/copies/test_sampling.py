"""Is every capture drawn as often as any other, and does a proof show that its bytes were at hand?"""

import hashlib
import random
from collections import Counter

import pytest

from herodotus.core.copies.sampling import (
    PIECE_BYTES,
    PIECES,
    WHOLE_BYTES_MAX,
    SampledProof,
    commitment,
    draws,
    pieces,
    seed_of,
)

SEED = hashlib.sha256(b"seed").digest()
A, B, C = (bytes((number,)) * 32 for number in range(3))


def seeds(count: int) -> list[bytes]:
    return [hashlib.sha256(b"%d" % number).digest() for number in range(count)]


def test_each_capture_is_as_likely_as_any_other_however_they_lie() -> None:
    """Directories of 1, 9 and 90: who drops the one alone is found as soon as who drops one of ninety."""
    found = Counter(draw for seed in seeds(500) for draw in draws(seed, [1, 0, 9, 90]))
    assert len(found) == 100
    assert {part for part, _ in found} == {0, 2, 3}
    assert min(found.values()) > 260  # 1 - 0.99 ** 100 of 500: 317
    assert max(found.values()) < 375
    assert all(len(set(one := draws(seed, [10]))) == len(one) == 10 for seed in seeds(5))


def test_a_holder_without_one_in_a_hundred_is_found_within_a_week() -> None:
    """0.99 ** 700 = 0.0009 escape: of 2,000 weeks two."""
    counts = [100] * 100
    lost = {(part, 0) for part in range(100)}
    escaped = sum(
        all(not lost.intersection(draws(seed_of(seed, b"%d" % day), counts)) for day in range(7))
        for seed in seeds(150)
    )
    assert escaped <= 2


def test_nothing_is_drawn_from_nothing() -> None:
    assert draws(SEED, []) == draws(SEED, [0, 0]) == []


def test_the_seed_is_of_both() -> None:
    assert (
        len({seed_of(b"a" * 16, b"b" * 16), seed_of(b"b" * 16, b"a" * 16), seed_of(b"a" * 16, b"c" * 16)})
        == 3
    )
    assert commitment(b"a" * 16) == hashlib.sha256(b"a" * 16).digest()[:16]


@pytest.mark.parametrize("size", [0, 1, WHOLE_BYTES_MAX])
def test_a_small_payload_is_hashed_whole(size: int) -> None:
    payload = random.Random(1).randbytes(size)
    assert list(pieces(SEED, 3, payload)) == [payload]


def test_of_a_large_payload_four_pieces_anywhere_in_it() -> None:
    size = WHOLE_BYTES_MAX + 1
    payload = random.Random(1).randbytes(size)
    starts: set[int] = set()
    for seed in seeds(300):
        found = list(pieces(seed, 0, payload))
        assert [len(one) for one in found] == [PIECE_BYTES] * PIECES
        starts.update(payload.index(one) for one in found)
    assert min(starts) < 500
    assert max(starts) > size - PIECE_BYTES - 500


def proof(
    seed: bytes = SEED, prover: bytes = A, asker: bytes = B, payload: bytes = b"page", number: int = 0
) -> bytes:
    made = SampledProof(seed, prover=prover, asker=asker)
    made.add(number, hashlib.sha256(b"page").digest(), payload)
    return made.bytes


def test_a_proof_is_of_one_prover_to_one_asker_for_one_seed_and_of_the_bytes() -> None:
    others = [
        proof(),
        proof(seed=hashlib.sha256(b"another").digest()),
        proof(prover=C),
        proof(asker=C),
        proof(prover=B, asker=A),
        proof(payload=b"pagf"),
    ]
    assert len(set(others)) == len(others)


def test_a_proof_to_the_byte() -> None:
    assert proof().hex() == "e5d383fb30e5783a783113a9a45f84bfdba4870df197863289863697867e8dfd"
