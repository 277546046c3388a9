"""Messages about notices to bytes and back: the only place (docs/protocol/notices.md)."""

import hashlib
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from herodotus.core.errors import MalformedError
from herodotus.core.notices import (
    ID_BYTES,
    KEPT_MAX,
    NOTICE_BYTES_MAX,
    Notice,
    decode_notice,
    encode_notice,
)
from herodotus.peers.calls import encode, reader

LIST, GET, FOLLOWED = "notices/1/list", "notices/1/get", "notices/1/followed"
GIVEN_MAX = 64
"""Notices in one answer: a megabyte at most."""
ANSWERED_MAX = 256


class _Given(msgspec.Struct, array_like=True):
    notices: Annotated[list[Annotated[bytes, Meta(max_length=NOTICE_BYTES_MAX)]], Meta(max_length=GIVEN_MAX)]


_decode_given = reader(_Given)


def digest_of_ids(ids: Iterable[bytes]) -> bytes:
    return hashlib.sha256(b"".join(sorted(ids))).digest()[:ID_BYTES]


def encode_question(ids: Iterable[bytes], *, has_news: bool) -> bytes:
    return digest_of_ids(ids) + bytes((has_news,))


def decode_question(data: bytes) -> tuple[bytes, bool]:
    """The digest, and whether the asker has something new to be asked for."""
    if len(data) != ID_BYTES + 1 or data[-1] > 1:
        raise MalformedError("not a digest of notices")
    return data[:ID_BYTES], bool(data[-1])


def encode_ids(ids: Iterable[bytes]) -> bytes:
    return b"".join(ids)


def decode_ids(data: bytes, count_max: int = KEPT_MAX) -> list[bytes]:
    """Each once."""
    if len(data) % ID_BYTES or len(data) > count_max * ID_BYTES:
        raise MalformedError("not a list of notices, or too long a one")
    return list(dict.fromkeys(data[at : at + ID_BYTES] for at in range(0, len(data), ID_BYTES)))


def encode_notices(notices: Sequence[Notice]) -> bytes:
    return encode([[encode_notice(notice) for notice in notices]])


def decode_notices(data: bytes) -> list[Notice]:
    return [decode_notice(one) for one in _decode_given(data).notices]


def decode_flags(data: bytes, count: int) -> bytes:
    if len(data) != count or max(data, default=0) > 1:
        raise MalformedError("not an answer to each notice")
    return data
