"""The bytes of docs/protocol/replication.md, and what any other bytes come to."""

import hashlib
import random
from collections.abc import Callable

import pytest

from herodotus.copies import wire
from herodotus.copies.wire import CopyFrame
from herodotus.core import reconciliation
from herodotus.core.copies.possession import FullProof
from herodotus.core.copies.symbols import CellReader, Symbols, encode_cells
from herodotus.core.errors import MalformedError
from herodotus.core.reconciliation import Range, leaf_digest
from herodotus.core.signatures import Proof
from herodotus.store import MEMBER_BYTES_MAX
from tests.herodotus.copies.sets import WHOLE_RING

NONCE = b"n" * 16
SCOPE = (Range(b"\x10" + bytes(11), b"\x80" + bytes(11)), Range(b"\xf0" + bytes(11), None))
SCOPE_BYTES = bytes.fromhex(
    "82 a6 72616e676573 92 92 c40c 100000000000000000000000 c40c 800000000000000000000000"
    "92 c40c f00000000000000000000000 c400   a5 6e6f6e6365 c410 6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e"
)
CAPTURED = bytes.fromhex("63bbf5caaf2e8efeeaf919e0004cdb63")
DELETED = bytes.fromhex("1122334455667788990011aa004cdb74")
CELLS = bytes.fromhex(
    "7299c68efa48f97673f9084a00000017d6ffdeed93a444bc04"
    "1122334455667788990011aa004cdb742d7cbfbffd97725502"
    "63bbf5caaf2e8efeeaf919e0004cdb63fb8361526e3336e902"
)


def test_a_scope() -> None:
    assert wire.encode_scope(SCOPE, NONCE) == SCOPE_BYTES
    assert wire.decode_scope(SCOPE_BYTES) == (SCOPE, NONCE, False)


@pytest.mark.parametrize(
    "ranges",
    [
        (Range(b"\x20" + bytes(11), b"\x10" + bytes(11)),),
        (Range(bytes(12), b"\x10" + bytes(11)), Range(b"\x10" + bytes(11), None)),
        (SCOPE[1], SCOPE[0]),
    ],
    ids=["backwards", "touching", "not in order"],
)
def test_a_scope_that_is_none_is_refused(ranges: reconciliation.Scope) -> None:
    with pytest.raises(MalformedError):
        wire.decode_scope(wire.encode_scope(ranges))


def test_digests_and_the_root() -> None:
    leaves = {0x63BB: leaf_digest([CAPTURED]), 0x1122: leaf_digest([DELETED])}
    tops = reconciliation.tops_of(WHOLE_RING, [leaves])
    assert len(tops) == 256
    assert tops[0x11].hex() == "1d67f9b4838b87d775f3470e58cb069fb9a5b4c3"
    assert tops[0x63].hex() == "9ecbd9135372950c2a05c38aadf91fb94ae5be8b"
    root = reconciliation.root_of(tops)
    assert root.hex() == "6aafbaabeff9d1b023be70dbeb2272915de1701a"
    answer = wire.RootAnswer(root=reconciliation.salted(root, NONCE), is_holder=True)
    data = bytes.fromhex("82a4726f6f74c414f8f12c2319c274c665f4be5047003897ad8a5240a969735f686f6c646572c3")
    assert wire.encode_root(answer) == data
    assert wire.decode_root(data) == answer
    assert wire.decode_tops(wire.encode_list(tops), WHOLE_RING) == tops


def test_cells_however_they_are_cut() -> None:
    cells = Symbols([CAPTURED, DELETED]).cells(0, 3)
    assert encode_cells(cells) == CELLS
    for cut in range(len(CELLS)):
        reader = CellReader()
        assert reader.feed(CELLS[:cut]) + reader.feed(CELLS[cut:]) == cells


def test_frames_however_they_are_cut() -> None:
    missing = bytes.fromhex("6e0000001063bbf5caaf2e8efeeaf919e0004cdb63")
    assert list(wire.frames_of(wire.MISSING, CAPTURED)) == [missing]
    large = random.Random(1).randbytes(wire.FRAME_BYTES_MAX * 2 + 5)
    data = missing + b"".join(wire.frames_of(wire.PARCEL, large))
    wanted = [CopyFrame(kind=wire.MISSING, data=CAPTURED), CopyFrame(kind=wire.PARCEL, data=large)]
    assert wire.split_frames(data) == wanted
    for cut in (1, 20, 21, 22, 30, 1_048_600):
        frames = wire.Frames()
        assert [*frames.feed(data[:cut]), *frames.feed(data[cut:])] == wanted
    with pytest.raises(MalformedError):
        wire.split_frames(data[:-1])


def test_polls_and_proofs() -> None:
    assert wire.decode_poll(wire.encode_poll(NONCE, [CAPTURED])) == (NONCE, [CAPTURED])
    proof = Proof(time_s=1_700_000_000, digest=b"d" * 32, proof=b"p" * 20)
    data = bytes.fromhex("92" + "91" + "93ce6553f100" + "c420" + "64" * 32 + "c414" + "70" * 20 + "90")
    assert wire.encode_proofs([[proof], []]) == data
    assert wire.decode_proofs(data, 2) == [[proof], []]


def test_contents_that_somebody_may_have() -> None:
    key = CAPTURED[:12] + bytes.fromhex("6553f100") + b"ddd"
    data = wire.encode_contents([(key, b"d" * 32)])
    assert data.hex() == key.hex() + "64" * 32
    assert wire.decode_contents(data) == [(key, b"d" * 32)]
    said = [wire.Has.YES, wire.Has.NO, wire.Has.NEVER]
    assert wire.encode_has(said) == b"\1\0\2"
    assert wire.decode_has(b"\1\0\2", 3) == said
    for wrong in (b"\3\0", b"\1"):
        with pytest.raises(MalformedError):
            wire.decode_has(wrong, 2)


PROVED = [
    bytes.fromhex("0102030405060708090a0b0c6553f100aabbcc"),
    bytes.fromhex("0102030405060708090a0b0d6553f100aabbcc"),
]


def test_full_proofs() -> None:
    question = wire.FullQuestion(PROVED, NONCE, 86_400)
    data = bytes.fromhex(
        "83 a46b657973 c426 0102030405060708090a0b0c6553f100aabbcc 0102030405060708090a0b0d6553f100aabbcc"
        "a56e6f6e6365 c410 6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e6e a970726f6d6973655f73 ce00015180"
    )
    assert wire.encode_prove(question) == data
    assert wire.decode_prove(data) == question
    assert question.stretch == Range(PROVED[0][:12], PROVED[1][:11] + b"\x0e")
    answer = wire.FullAnswer(is_holder=True, proof=b"p" * 32)
    data = bytes.fromhex("83a969735f686f6c646572c3a570726f6f66c420" + "70" * 32 + "a76d697373696e67c400")
    assert wire.encode_full_answer(answer) == data
    assert wire.decode_full_answer(data) == answer
    proof = FullProof(NONCE)
    for payload in (b"one", b"two"):
        proof.add(hashlib.sha256(payload).digest(), payload)
    found = "506f56b28d34c324db4ba1e1f1ce82a0f5bd69adc7b13a9c35c5fcaccfeb6334"
    assert proof.by(prover=b"\x01" * 32, asker=b"\x02" * 32).hex() == found


def test_samples() -> None:
    question = wire.SampleQuestion(SCOPE, b"d" * 16, b"c" * 16)
    data = bytes.fromhex(
        "83 a672616e676573 92 92 c40c 100000000000000000000000 c40c 800000000000000000000000"
        "92 c40c f00000000000000000000000 c400"
        "a6646967657374 c410" + "64" * 16 + "aa636f6d6d69746d656e74 c410" + "63" * 16
    )
    assert wire.encode_sample(question) == data
    assert wire.decode_sample(data) == question
    data = bytes.fromhex("82 a56e6f6e6365 c410" + "6e" * 16 + "a570726f6f66 c420" + "70" * 32)
    assert wire.encode_reveal(NONCE, b"p" * 32) == data
    assert wire.decode_reveal(data) == (NONCE, b"p" * 32)
    for answer in (b"", NONCE):
        assert wire.decode_sample_answer(answer) == answer
    with pytest.raises(MalformedError):
        wire.decode_sample_answer(b"n" * 15)
    with pytest.raises(MalformedError):
        wire.decode_sampled_proof(b"p" * 31)


@pytest.mark.parametrize("keys", [[], PROVED[::-1], PROVED[:1] * 2])
def test_captures_to_prove_that_are_none_or_in_no_order_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(MalformedError):
        wire.decode_prove(wire.encode_prove(wire.FullQuestion(keys, NONCE, 60)))


@pytest.mark.parametrize("body", ["a180", "81a18001", "92a18090", "9281a1800190"])
def test_a_text_that_is_no_utf_8_is_malformed(body: str) -> None:
    with pytest.raises(MalformedError):
        wire.decode_proofs(bytes.fromhex(body), 1)
    with pytest.raises(MalformedError):
        wire.decode_poll(bytes.fromhex(body))


@pytest.mark.parametrize(
    "decode",
    [
        wire.decode_scope,
        wire.decode_root,
        lambda data: wire.decode_tops(data, WHOLE_RING),
        wire.decode_count,
        wire.decode_members,
        wire.decode_keys,
        lambda data: wire.decode_outcomes(data, 3),
        wire.decode_poll,
        wire.decode_contents,
        lambda data: wire.decode_has(data, 3),
        lambda data: wire.decode_proofs(data, 1),
        wire.decode_prove,
        wire.decode_full_answer,
        wire.decode_sample,
        wire.decode_sample_answer,
        wire.decode_reveal,
        wire.decode_sampled_proof,
        wire.split_frames,
    ],
)
def test_any_bytes_are_a_message_or_an_error(decode: Callable[[bytes], object]) -> None:
    rng = random.Random(7)
    refused = 0
    for _ in range(2_000):
        data = rng.randbytes(rng.randrange(80))
        if rng.random() < 0.5:
            start = rng.choice([SCOPE_BYTES, wire.encode_poll(NONCE, [CAPTURED]), CELLS])
            data = bytes(byte ^ (rng.random() < 0.03) for byte in start)
        try:
            decode(data)
        except MalformedError:
            refused += 1
    assert refused > 500


def test_a_parcel_that_is_given_away_in_parts_is_no_larger_than_another() -> None:
    frames = wire.Frames()
    part = wire.PART + wire.FRAME_BYTES_MAX.to_bytes(4, "big") + bytes(wire.FRAME_BYTES_MAX)
    for _ in range(MEMBER_BYTES_MAX // wire.FRAME_BYTES_MAX):
        assert list(frames.feed(part)) == []
        assert len(frames.give()) == wire.FRAME_BYTES_MAX
    with pytest.raises(MalformedError, match="larger than any"):
        list(frames.feed(part))


def test_who_acknowledged_what() -> None:
    told = {b"p" * 32: [b"k" * 19, b"l" * 19]}
    data = bytes.fromhex("9192c420" + "70" * 32 + "c426" + "6b" * 19 + "6c" * 19)
    assert wire.encode_copied(told) == data
    assert wire.decode_copied(data) == told
    for malformed in (
        {b"p" * 31: [b"k" * 19]},
        {b"p" * 32: [b"k" * 18]},
        {b"p" * 32: [b"k" * 19] * (wire.ASKED_MAX + 1)},
        {bytes((number,)) * 32: [b"k" * 19] for number in range(wire.HOLDERS_TOLD_MAX + 1)},
    ):
        with pytest.raises(MalformedError):
            wire.decode_copied(wire.encode_copied(malformed))
