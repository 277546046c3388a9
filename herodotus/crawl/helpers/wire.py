"""How does work for helpers, and what came of it, become bytes and back? The only place (docs/protocol/work.md).

The types say what may stand in a message. What breaks them is a MalformedError.
"""

from collections.abc import Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from herodotus.core.signatures import SignedWindow
from herodotus.peers.calls import encode, reader_of_version

TAKE: Final = "work.take"
GIVE: Final = "work.give"
VERSION: Final = 1
WANT_MAX: Final = 64
WAIT_MS_MAX: Final = 50_000
"""A call lives 120 s at most, and a home router forgets a silent connection after minutes."""
BATCH_BYTES: Final = 8
BODY_BYTES_MAX: Final = 7 << 20
"""A call carries 8 MiB. Longer bodies the owner fetches."""
GIVE_BYTES_MAX: Final = BODY_BYTES_MAX + (512 << 10)
HEAD_BYTES_MAX: Final = 256 << 10
REQUEST_BYTES_MAX: Final = 64 << 10
URL_CHARACTERS_MAX: Final = 8_192
VALIDATOR_CHARACTERS_MAX: Final = 8_192
ADDRESS_CHARACTERS_MAX: Final = 45
WORD_CHARACTERS_MAX: Final = 100
TIME_MS_MAX: Final = 600_000
IPV4, IPV6 = 1, 2
UNTRUSTED: Final = "untrusted"
"""The refusal of an owner that found pages altered."""
UNWANTED: Final = "unwanted"
"""In the place of a truncation: the body's type is none that the network takes in."""

Milliseconds = Annotated[int, Meta(ge=0, le=TIME_MS_MAX)]
Batch = Annotated[bytes, Meta(min_length=BATCH_BYTES, max_length=BATCH_BYTES)]
Validator = Annotated[str, Meta(max_length=VALIDATOR_CHARACTERS_MAX)]
Address = Annotated[str, Meta(max_length=ADDRESS_CHARACTERS_MAX)]
Word = Annotated[str, Meta(max_length=WORD_CHARACTERS_MAX)]
BodyBytes = Annotated[int, Meta(ge=1, le=BODY_BYTES_MAX)]


class Take(msgspec.Struct, frozen=True, array_like=True):
    version: int
    want: Annotated[int, Meta(ge=1, le=WANT_MAX)]
    wait_ms: Annotated[int, Meta(ge=0, le=WAIT_MS_MAX)]
    body_bytes_max: BodyBytes
    families: Annotated[int, Meta(ge=1, le=3)]
    """Of addresses that it can connect to: `IPV4`, `IPV6`, or both."""


class Item(msgspec.Struct, frozen=True, array_like=True):
    """One GET, under the owner's window."""

    url: Annotated[str, Meta(min_length=1, max_length=URL_CHARACTERS_MAX)]
    etag: Validator
    modified: Validator
    lasts_ms: Milliseconds
    """It starts within so long after the owner's answer, or not at all."""
    address: Address
    body_bytes_max: BodyBytes
    window: SignedWindow


class Work(msgspec.Struct, frozen=True, array_like=True):
    version: int
    batch: Batch
    waited_ms: Milliseconds
    """How long the owner kept the question: its answer is at least so much younger than the question."""
    deadline_ms: Milliseconds
    """Results that come later after the answer are of no use."""
    items: Annotated[list[Item], Meta(max_length=WANT_MAX)]


class Tls(msgspec.Struct, frozen=True, array_like=True):
    protocol: Word
    cipher: Word
    certificate_sha256: Annotated[bytes, Meta(max_length=32)]
    error: Annotated[str, Meta(max_length=300)] = ""


class Result(msgspec.Struct, frozen=True, array_like=True):
    index: Annotated[int, Meta(ge=0, lt=WANT_MAX)]
    status: Annotated[int, Meta(ge=0, le=999)]
    """0: there is none, and `word` says why."""
    head: Annotated[bytes, Meta(max_length=HEAD_BYTES_MAX)] = b""
    body: Annotated[bytes, Meta(max_length=BODY_BYTES_MAX)] = b""
    address: Address = ""
    started_ms: Milliseconds = 0
    """After the helper had the owner's answer."""
    took_ms: Milliseconds = 0
    request: Annotated[bytes, Meta(max_length=REQUEST_BYTES_MAX)] = b""
    word: Word = ""
    """Why the body ends early, in the words of WARC-Truncated, or `unwanted`."""
    tls: Tls | None = None


class Give(msgspec.Struct, frozen=True, array_like=True):
    version: int
    batch: Batch
    results: Annotated[list[Result], Meta(max_length=WANT_MAX)]


class Taken(msgspec.Struct, frozen=True, array_like=True):
    version: int
    results: Annotated[int, Meta(ge=0, le=WANT_MAX)]
    """So many were waited for."""


decode_take = reader_of_version(Take, VERSION)
decode_work = reader_of_version(Work, VERSION)
decode_give = reader_of_version(Give, VERSION)
decode_taken = reader_of_version(Taken, VERSION)


def encode_take(
    *, want: int, wait_ms: int, body_bytes_max: int = BODY_BYTES_MAX, families: int = IPV4 | IPV6
) -> bytes:
    return encode(Take(VERSION, want, wait_ms, body_bytes_max, families))


def family_of(address: str) -> int:
    return IPV6 if ":" in address else IPV4


def encode_work(batch: bytes, items: Sequence[Item], *, waited_ms: int, deadline_ms: int) -> bytes:
    return encode(Work(VERSION, batch, waited_ms, deadline_ms, list(items)))


def encode_give(batch: bytes, results: Sequence[Result]) -> bytes:
    return encode(Give(VERSION, batch, list(results)))


def encode_taken(results: int) -> bytes:
    return encode(Taken(VERSION, results))
