"""Messages about copies to bytes and back: the only place (docs/protocol/replication.md).

Questions are MessagePack maps; what there is much of (digests, cells, members, parcels) travels packed: pieces of one
size, one after the other. All that a stranger sent is checked here for type, length and range; what breaks a rule is a
MalformedError.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from enum import Enum
from itertools import pairwise
from typing import Annotated, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from herodotus.core.copies.possession import FULL_PROOF_BYTES
from herodotus.core.copies.sampling import COMMITMENT_BYTES, SAMPLED_PROOF_BYTES, SET_BYTES
from herodotus.core.doors import TurnedAway
from herodotus.core.errors import MalformedError
from herodotus.core.index_rows import KEY_BYTES
from herodotus.core.reconciliation import (
    DIGEST_BYTES,
    MEMBER_BYTES,
    POSITIONS,
    RANGES_MAX,
    Range,
    Scope,
    arcs_of,
    directories,
    ranges_of,
)
from herodotus.core.signatures import VERSIONS_MAX, Proof
from herodotus.peers.calls import encode, reader
from herodotus.store import MEMBER_BYTES_MAX, Lying, OnDisk, Spool

ROOT, TOPS, CELLS, MEMBERS = "copies/1/root", "copies/1/tops", "copies/1/cells", "copies/1/members"
LACKS, PUT, COME, TAKE, POLL = (
    "copies/1/lacks",
    "copies/1/put",
    "copies/1/come",
    "copies/1/take",
    "copies/2/poll",
)
HAS = "copies/1/has"
HAND_ON, COPIED = "copies/1/hand-on", "copies/1/copied"
PROVE, SAMPLE, REVEAL = "copies/1/prove", "copies/1/sample", "copies/1/reveal"
NONCE_BYTES = 16
PEER_BYTES = 32
PROVED_MAX = 1_024
"""Captures in one full proof: of 100 kB each, a processor reads and hashes them in a second or two."""
PROMISE_S_MAX = 86_400
ASKED_MAX = 4_096
"""Members in one question."""
POLLED_MAX = 64
HOLDERS_TOLD_MAX = 64
"""Peers of which one message says what they acknowledged; a peer of a large ring has some 45 co-holders."""
PUT_BYTES_MAX = 6 << 20
"""Below what one call carries; a parcel that is larger is fetched by the one that lacks it."""
PIECE_BYTES = 1 << 20
LARGE_BYTES = 8 << 20
"""A parcel that is longer: only one at a time is held."""
FRAME_BYTES_MAX = PIECE_BYTES
_FRAME_HEAD = 5
PART, PARCEL, TOMBSTONE, MISSING = b"p", b"c", b"t", b"n"
_KINDS = frozenset({PART, PARCEL, TOMBSTONE, MISSING})
CAPTURE_KEY_BYTES = 19
"""Position[12] time[4] variant[3], as in the index."""
STORED, KNOWN, DELETED, NOT_MINE, BROKEN, UNSIGNED, WANTED, COMING, DECLINED, AHEAD, KEPT_OUT, FULL = range(
    12
)
"""What became of a parcel, or would. The first two say that the peer holds it; the last four that no door lets it in
now, that its date is ahead of the peer's clock, that what was brought in does not spread in this network, and that the
peer has no room."""
HELD = frozenset({STORED, KNOWN})
UNWANTED = frozenset({DELETED, DECLINED, KEPT_OUT})
"""It is not sent there again, and does not count as a copy there."""
CANNOT_STORE = "cannot-store"
"""The word of refusal of a peer whose archive takes nothing now."""
ROOM_BYTES = 1 << 12
"""With less room, no capture is wanted: hardly a page would fit. A larger one may be refused before."""


def outcome_of(why: TurnedAway) -> int:
    """What the sender of a capture hears."""
    return {TurnedAway.AHEAD: AHEAD, TurnedAway.BROUGHT_IN: KEPT_OUT}.get(why, DECLINED)


SCOPE_RANGES_MAX = RANGES_MAX + 256
_Position = Annotated[bytes, Meta(min_length=KEY_BYTES, max_length=KEY_BYTES)]
_Nonce = Annotated[bytes, Meta(min_length=NONCE_BYTES, max_length=NONCE_BYTES)]
_End = Annotated[bytes, Meta(max_length=KEY_BYTES)]
"""Of a range: none is the end of the circle."""


_ScopeRanges = Annotated[list[tuple[_Position, _End]], Meta(min_length=1, max_length=SCOPE_RANGES_MAX)]
_SampledProof = Annotated[bytes, Meta(min_length=SAMPLED_PROOF_BYTES, max_length=SAMPLED_PROOF_BYTES)]


class _Ranges(msgspec.Struct, kw_only=True, omit_defaults=True):
    ranges: _ScopeRanges
    nonce: Annotated[bytes, Meta(max_length=NONCE_BYTES)] = b""
    promise: bool = False


class RootAnswer(msgspec.Struct, kw_only=True):
    """`is_holder`: by its own view of the ring the peer must hold all of it, and so it promises to."""

    root: Annotated[bytes, Meta(min_length=DIGEST_BYTES, max_length=DIGEST_BYTES)]
    is_holder: bool


class _Poll(msgspec.Struct, kw_only=True):
    nonce: _Nonce
    members: Annotated[bytes, Meta(max_length=POLLED_MAX * MEMBER_BYTES)]


class _Prove(msgspec.Struct, kw_only=True):
    keys: Annotated[bytes, Meta(min_length=CAPTURE_KEY_BYTES, max_length=PROVED_MAX * CAPTURE_KEY_BYTES)]
    nonce: _Nonce
    promise_s: Annotated[int, Meta(ge=1, le=PROMISE_S_MAX)]


class FullAnswer(msgspec.Struct, kw_only=True):
    """`missing`: keys of captures that the peer has not, or cannot read; then there is no proof."""

    is_holder: bool
    proof: Annotated[bytes, Meta(max_length=FULL_PROOF_BYTES)] = b""
    missing: Annotated[bytes, Meta(max_length=PROVED_MAX * CAPTURE_KEY_BYTES)] = b""


class _Sample(msgspec.Struct, kw_only=True):
    ranges: _ScopeRanges
    digest: Annotated[bytes, Meta(min_length=SET_BYTES, max_length=SET_BYTES)]
    commitment: Annotated[bytes, Meta(min_length=COMMITMENT_BYTES, max_length=COMMITMENT_BYTES)]


class _Reveal(msgspec.Struct, kw_only=True):
    nonce: _Nonce
    proof: _SampledProof


_Proofs = Annotated[list[Annotated[list[Proof], Meta(max_length=VERSIONS_MAX)]], Meta(max_length=POLLED_MAX)]

_Copied = Annotated[
    list[
        tuple[
            Annotated[bytes, Meta(min_length=PEER_BYTES, max_length=PEER_BYTES)],
            Annotated[bytes, Meta(max_length=ASKED_MAX * CAPTURE_KEY_BYTES)],
        ]
    ],
    Meta(max_length=HOLDERS_TOLD_MAX),
]
_decode_copied = reader(_Copied)
_decode_ranges, _decode_poll, _decode_proofs = reader(_Ranges), reader(_Poll), reader(_Proofs)
_decode_prove, _decode_sample, _decode_reveal = reader(_Prove), reader(_Sample), reader(_Reveal)
encode_full_answer, decode_full_answer = encode, reader(FullAnswer)
encode_root, decode_root = encode, reader(RootAnswer)
encode_proofs = encode
encode_list = b"".join
"""Of tops, members or keys."""
encode_outcomes = bytes


class ScopeQuestion(NamedTuple):
    scope: Scope
    nonce: bytes
    wants_promise: bool


def encode_scope(scope: Scope, nonce: bytes = b"", *, wants_promise: bool = False) -> bytes:
    ranges = [(one.low, one.high or b"") for one in scope]
    return encode(_Ranges(ranges=ranges, nonce=nonce, promise=wants_promise))


def decode_scope(data: bytes) -> ScopeQuestion:
    """Ascending ranges that do not touch, none of them empty."""
    asked = _decode_ranges(data)
    return ScopeQuestion(_scope_of(asked.ranges), asked.nonce, asked.promise)


def _scope_of(ranges: Sequence[tuple[bytes, bytes]]) -> Scope:
    scope = tuple(Range(low, high or None) for low, high in ranges)
    for one in scope:
        if one.high is not None and (len(one.high) != KEY_BYTES or one.high <= one.low):
            raise MalformedError("a malformed range")
    if ranges_of(arcs_of(scope)) != scope:
        raise MalformedError("the ranges are not in order, or touch")
    return scope


def _pieces(data: bytes, size: int, count_max: int) -> list[bytes]:
    if len(data) % size or len(data) > count_max * size:
        raise MalformedError(f"not a list of pieces of {size} bytes, or too long a one")
    return [data[at : at + size] for at in range(0, len(data), size)]


def decode_tops(data: bytes, scope: Scope) -> list[bytes]:
    count = len(directories(scope))
    if len(data) != count * DIGEST_BYTES:
        raise MalformedError("not one digest to each directory")
    return _pieces(data, DIGEST_BYTES, count)


def encode_count(count: int) -> bytes:
    return count.to_bytes(4, "big")


def decode_count(data: bytes) -> int:
    if len(data) != 4:
        raise MalformedError("no count")
    return int.from_bytes(data, "big")


def decode_members(data: bytes, count_max: int = ASKED_MAX) -> list[bytes]:
    members = _pieces(data, MEMBER_BYTES, count_max)
    if set(data[MEMBER_BYTES - 1 :: MEMBER_BYTES]) - {*b"ct"}:
        raise MalformedError("a member of a kind that there is not")
    return members


def decode_keys(data: bytes) -> list[bytes]:
    return _pieces(data, CAPTURE_KEY_BYTES, ASKED_MAX)


def encode_hand_on(to: bytes, keys: Sequence[bytes]) -> bytes:
    return to + encode_list(keys)


def decode_hand_on(data: bytes) -> tuple[bytes, list[bytes]]:
    """For whom, and which captures."""
    if len(data) < PEER_BYTES:
        raise MalformedError("no peer is named")
    return data[:PEER_BYTES], decode_keys(data[PEER_BYTES:])


def decode_outcomes(data: bytes, count: int) -> bytes:
    """One to each capture."""
    if len(data) != count or max(data, default=0) > FULL:
        raise MalformedError("not an outcome to each capture")
    return data


def encode_copied(held: Mapping[bytes, Sequence[bytes]]) -> bytes:
    return encode([(peer, encode_list(keys)) for peer, keys in held.items()])


def decode_copied(data: bytes) -> dict[bytes, list[bytes]]:
    """By peer, what it acknowledged."""
    return {peer: _pieces(keys, CAPTURE_KEY_BYTES, ASKED_MAX) for peer, keys in _decode_copied(data)}


CONTENT_BYTES = CAPTURE_KEY_BYTES + 32


def encode_contents(contents: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Captures by key and SHA-256."""
    return b"".join(key + sha256 for key, sha256 in contents)


def decode_contents(data: bytes) -> list[tuple[bytes, bytes]]:
    found = _pieces(data, CONTENT_BYTES, ASKED_MAX)
    return [(one[:CAPTURE_KEY_BYTES], one[CAPTURE_KEY_BYTES:]) for one in found]


class Has(Enum):
    """What a holder says of a content."""

    NO = 0
    YES = 1
    NEVER = 2
    """It has held the key since before that date, and it never came."""


def encode_has(answers: Iterable[Has]) -> bytes:
    return bytes(one.value for one in answers)


def decode_has(data: bytes, count: int) -> list[Has]:
    """Of each content whether the peer has it."""
    if len(data) != count or max(data, default=0) > Has.NEVER.value:
        raise MalformedError("not an answer to each content")
    return [Has(one) for one in data]


def encode_poll(nonce: bytes, members: Sequence[bytes]) -> bytes:
    return encode(_Poll(nonce=nonce, members=encode_list(members)))


def decode_poll(data: bytes) -> tuple[bytes, list[bytes]]:
    asked = _decode_poll(data)
    return asked.nonce, decode_members(asked.members, POLLED_MAX)


def decode_proofs(data: bytes, count: int) -> list[list[Proof]]:
    proofs = _decode_proofs(data)
    if len(proofs) != count:
        raise MalformedError("not an answer to each member")
    return proofs


class FullQuestion(NamedTuple):
    keys: list[bytes]
    nonce: bytes
    promise_s: int

    @property
    def stretch(self) -> Range:
        """From the first of the captures to the last."""
        first, last = (self.keys[at][:KEY_BYTES] for at in (0, -1))
        after = int.from_bytes(last, "big") + 1
        return Range(first, None if after == POSITIONS else after.to_bytes(KEY_BYTES, "big"))


def encode_prove(question: FullQuestion) -> bytes:
    keys = encode_list(question.keys)
    return encode(_Prove(keys=keys, nonce=question.nonce, promise_s=question.promise_s))


def decode_prove(data: bytes) -> FullQuestion:
    asked = _decode_prove(data)
    keys = _pieces(asked.keys, CAPTURE_KEY_BYTES, PROVED_MAX)
    if any(one >= other for one, other in pairwise(keys)):
        raise MalformedError("the captures are not in order")
    return FullQuestion(keys, asked.nonce, asked.promise_s)


class SampleQuestion(NamedTuple):
    scope: Scope
    digest: bytes
    """Of all that the asker has of the scope."""
    commitment: bytes


def encode_sample(question: SampleQuestion) -> bytes:
    ranges = [(one.low, one.high or b"") for one in question.scope]
    return encode(_Sample(ranges=ranges, digest=question.digest, commitment=question.commitment))


def decode_sample(data: bytes) -> SampleQuestion:
    asked = _decode_sample(data)
    return SampleQuestion(_scope_of(asked.ranges), asked.digest, asked.commitment)


def decode_sample_answer(data: bytes) -> bytes:
    """The other's nonce; nothing where it has another set of captures."""
    if len(data) not in (0, NONCE_BYTES):
        raise MalformedError("neither a nonce nor nothing")
    return data


def encode_reveal(nonce: bytes, proof: bytes) -> bytes:
    return encode(_Reveal(nonce=nonce, proof=proof))


def decode_reveal(data: bytes) -> tuple[bytes, bytes]:
    found = _decode_reveal(data)
    return found.nonce, found.proof


def decode_sampled_proof(data: bytes) -> bytes:
    if len(data) != SAMPLED_PROOF_BYTES:
        raise MalformedError("no proof")
    return data


# -- frames: one member's parcels, and what stands for it where there are none ----------------------------


class CopyFrame(NamedTuple):
    kind: bytes
    data: Lying


def frames_of(kind: bytes, data: bytes | OnDisk) -> Iterator[bytes]:
    """A large parcel in parts, the last of which says what it is."""
    at = 0
    while len(data) - at > FRAME_BYTES_MAX:
        yield _frame(PART, data[at : at + FRAME_BYTES_MAX])
        at += FRAME_BYTES_MAX
    yield _frame(kind, data[at:])


def framed_length(length: int) -> int:
    """Of a parcel of that length in its frames."""
    return length + _FRAME_HEAD * max(1, -(-length // FRAME_BYTES_MAX))


def _frame(kind: bytes, data: bytes) -> bytes:
    return kind + len(data).to_bytes(4, "big") + data


class Frames:
    """Takes bytes as they come and gives whole frames, their parts put together."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._parts = bytearray()
        """It grows where it is: a list of parts would be held beside what they are put together to."""
        self._given = 0
        """Bytes of the present parcel that were given away before it was whole."""

    @property
    def held_bytes(self) -> int:
        return len(self._parts)

    def feed(self, data: bytes) -> Iterator[CopyFrame]:
        self._rest += data
        while len(self._rest) >= _FRAME_HEAD:
            kind, length = bytes(self._rest[:1]), int.from_bytes(self._rest[1:_FRAME_HEAD], "big")
            if kind not in _KINDS or length > FRAME_BYTES_MAX or not length:
                raise MalformedError("no such frame")
            end = _FRAME_HEAD + length
            if len(self._rest) < end:
                return
            content = bytes(self._rest[_FRAME_HEAD:end])
            del self._rest[:end]
            if self._given + len(self._parts) + length > MEMBER_BYTES_MAX:
                raise MalformedError("a parcel larger than any capture")
            if kind == PART:
                self._parts += content
                continue
            whole: bytes | bytearray = content
            if self._parts:
                self._parts += content
                whole, self._parts = self._parts, bytearray()
            self._given = 0
            yield CopyFrame(kind=kind, data=whole)

    def give(self) -> bytearray:
        """What is held of the present parcel, which the caller keeps."""
        parts, self._parts = self._parts, bytearray()
        self._given += len(parts)
        return parts

    def end(self) -> None:
        if self._rest or self._parts or self._given:
            raise MalformedError("a frame is cut off")


def split_frames(data: bytes) -> list[CopyFrame]:
    frames = Frames()
    found = list(frames.feed(data))
    frames.end()
    return found


class Spooling(Protocol):
    """Where large parcels wait."""

    def spool(self) -> Spool: ...

    async def append(self, spool: Spool, data: bytes | bytearray) -> None: ...


async def read_frames(
    pieces: AsyncIterator[bytes],
    large: AbstractAsyncContextManager[object] | None = None,
    spooling: Spooling | None = None,
) -> AsyncGenerator[CopyFrame]:
    """To be closed by the caller. Parcels above `LARGE_BYTES` are put together within `large`, which is left when the
    next frame is asked for; on the disk, if there is one."""
    frames = Frames()
    async with AsyncExitStack() as held:
        is_held = False
        spool: Spool | None = None
        async for piece in pieces:
            for frame in frames.feed(piece):
                if spool is not None and spooling is not None:
                    await spooling.append(spool, bytes(frame.data[:]))
                    yield CopyFrame(frame.kind, spool)
                    spool = None
                else:
                    yield frame
                await held.aclose()
                is_held = False
            if large is not None and not is_held and frames.held_bytes > LARGE_BYTES:
                await held.enter_async_context(large)
                is_held = True
            if spooling is not None and frames.held_bytes > (LARGE_BYTES if spool is None else PIECE_BYTES):
                spool = spool or spooling.spool()
                await spooling.append(spool, frames.give())
    frames.end()
