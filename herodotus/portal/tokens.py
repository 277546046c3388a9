"""How does a client say where to continue? By tokens of an earlier answer, checked like anything from a stranger."""

import base64
import re

from herodotus.core.index_rows import KEY_BYTES
from herodotus.portal.targets import BadQuestionError

_DIGITS_MAX = 15
_SHORT_PARTS_TOLD_MAX = 9_999


class ForeignTokenError(BadQuestionError):
    def __init__(self) -> None:
        super().__init__("after: this archive did not give this token")


def number_of(token: str | None) -> int:
    if token is None:
        return 0
    if not (token.isascii() and token.isdigit() and len(token) <= _DIGITS_MAX):
        raise ForeignTokenError
    return int(token)


def token_of_key(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode()


def bytes_of_token(token: str) -> bytes:
    """The bytes that a token spells; empty if it spells none."""
    try:
        return base64.b64decode(token.encode("utf-8", "replace"), altchars=b"-_", validate=True)
    except ValueError:
        return b""


def key_of_token(token: str, prefix: bytes = b"") -> bytes:
    """A key of the index that starts with `prefix`."""
    key = bytes_of_token(token)
    if not key or not key.startswith(prefix):
        raise ForeignTokenError
    return key


def position_of_token(token: str) -> bytes:
    """A place on the ring, as far as the index knows it."""
    try:
        position = bytes.fromhex(token)
    except ValueError as error:
        raise ForeignTokenError from error
    if len(position) != KEY_BYTES:
        raise ForeignTokenError
    return position


def counted(token: str, short_parts: int) -> str:
    """`short_parts`: how many parts of an answer of all peers were cut short before (`portal/peer_rows.py`)."""
    return f"{token}.{min(short_parts, _SHORT_PARTS_TOLD_MAX)}" if short_parts else token


def uncounted(token: str) -> tuple[str, int]:
    """Takes apart what `counted` made. Anything but a number behind the dot makes the token ""."""
    inner, _, count = token.partition(".")
    return (inner, int(count or 0)) if re.fullmatch(r"[0-9]{0,4}", count) else ("", 0)


def place_of_token(token: str) -> tuple[bytes, int]:
    position, short_parts = uncounted(token)
    return position_of_token(position), short_parts
