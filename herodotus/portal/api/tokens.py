"""How does a client say where to continue? By tokens of an earlier answer, checked like anything from a stranger."""

import base64
import binascii
import re

from herodotus.core.index_rows import KEY_BYTES
from herodotus.portal.targets import BadQuestionError

_DIGITS_MAX = 15
_SHORT_PARTS_TOLD_MAX = 9_999


class _ForeignTokenError(BadQuestionError):
    def __init__(self) -> None:
        super().__init__("after: this archive did not give this token")


def number_of(token: str | None) -> int:
    if token is None:
        return 0
    if not (token.isascii() and token.isdigit() and len(token) <= _DIGITS_MAX):
        raise _ForeignTokenError
    return int(token)


def token_of_key(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


def key_of_token(token: str, prefix: bytes = b"") -> bytes:
    """A key of the index that starts with `prefix`."""
    try:
        key = base64.b64decode(token.encode("utf-8", "replace"), altchars=b"-_", validate=True)
    except (ValueError, binascii.Error) as error:
        raise _ForeignTokenError from error
    if not key.startswith(prefix):
        raise _ForeignTokenError
    return key


def position_of_token(token: str) -> bytes:
    """A place on the ring, as far as the index knows it."""
    try:
        position = bytes.fromhex(token)
    except ValueError as error:
        raise _ForeignTokenError from error
    if len(position) != KEY_BYTES:
        raise _ForeignTokenError
    return position


def token_of_place(position: bytes, short_parts: int) -> str:
    """`short_parts`: how many parts of an answer of all peers were cut short before (`portal/peer_rows.py`)."""
    return f"{position.hex()}.{min(short_parts, _SHORT_PARTS_TOLD_MAX)}" if short_parts else position.hex()


def place_of_token(token: str) -> tuple[bytes, int]:
    position, _, count = token.partition(".")
    if count and not re.fullmatch(r"[0-9]{1,4}", count):
        raise _ForeignTokenError
    return position_of_token(position), int(count or 0)
