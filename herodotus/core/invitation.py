"""How does one line lead a newcomer into a network? An invitation: whose charter, and at which doors to knock.

`herodotus:` and base32, in any case, of (all integers big-endian):

    version 1 | charter's hash 16 | day 2 | count 1 | contacts | check 4
    contact: hash of its key 8 | kind 1 | host: 4 or 16 bytes, or a length of one byte and a name | port 2

The day counts from 1970. The check is the beginning of the SHA-256 of all before it, so a mistyped character shows.
The line is no secret, and proves nothing: the charter that arrives must have the hash, and a contact must have the key.
"""

import base64
import binascii
import hashlib
import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from herodotus.core.errors import Misuse
from herodotus.core.host_names import NAME, host_kind, is_host_name

SCHEME: Final = "herodotus:"
VERSION: Final = 1
CHARTER_BYTES: Final = 16
KEY_BYTES: Final = 8
CONTACTS_MAX: Final = 8
NAME_BYTES_MAX: Final = 253
TEXT_MAX: Final = 4_096
_CHECK_BYTES: Final = 4
_SIZES: Final = {4: 4, 6: 16}


class BadInvitation(Misuse):
    """The line cannot be what somebody was given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InvitedContact:
    key_hash: bytes
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Invitation:
    charter_hash: bytes
    day: int
    contacts: tuple[InvitedContact, ...]

    def __str__(self) -> str:
        assert 0 < len(self.contacts) <= CONTACTS_MAX, "an invitation leads somewhere"
        head = (
            bytes((VERSION,)) + self.charter_hash + self.day.to_bytes(2, "big") + bytes((len(self.contacts),))
        )
        content = head + b"".join(map(_packed, self.contacts))
        return SCHEME + _letters(content + _check(content))

    @classmethod
    def parse(cls, text: str) -> "Invitation":
        """Spaces and line breaks, as mail programs add them, do not count. Raises BadInvitation."""
        line = "".join(text.split())
        if not line.lower().startswith(SCHEME):
            raise BadInvitation(f"an invitation begins with {SCHEME}: paste the whole line")
        if len(line) > TEXT_MAX:
            raise BadInvitation("this is too long for an invitation: paste the line alone")
        letters = line[len(SCHEME) :].upper()
        try:
            content = base64.b32decode(letters + "=" * (-len(letters) % 8))
        except (binascii.Error, ValueError):
            raise BadInvitation(_CHANGED) from None
        body, check = content[:-_CHECK_BYTES], content[-_CHECK_BYTES:]
        is_whole = _letters(content) == letters  # the last letter has bits that stand for nothing
        if not body or not is_whole or check != _check(body):
            raise BadInvitation(_CHANGED)
        if body[0] != VERSION:
            raise BadInvitation(
                f"this invitation has version {body[0]}, and this release reads {VERSION}: upgrade herodotus"
            )
        return _read(body)


_CHANGED: Final = "at least one character of the invitation is wrong or missing: paste the whole line again"


def key_hash(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()[:KEY_BYTES]


def _packed(contact: InvitedContact) -> bytes:
    assert len(contact.key_hash) == KEY_BYTES
    kind = host_kind(contact.host)
    if kind != NAME:
        host = ipaddress.ip_address(contact.host).packed
    else:
        name = contact.host.encode("ascii")
        assert 0 < len(name) <= NAME_BYTES_MAX
        host = bytes((len(name),)) + name
    return contact.key_hash + bytes((kind,)) + host + contact.port.to_bytes(2, "big")


def _read(body: bytes) -> Invitation:
    rest = _Rest(body[1:])
    try:
        charter_hash, day, count = (
            rest.take(CHARTER_BYTES),
            int.from_bytes(rest.take(2), "big"),
            rest.take(1)[0],
        )
        if not 0 < count <= CONTACTS_MAX:
            raise BadInvitation("this invitation names no peer to join through: ask for another")
        contacts = tuple(_contacts(rest, count))
        rest.end()
    except ValueError:
        raise BadInvitation("this invitation cannot be read: ask for another") from None
    return Invitation(charter_hash=charter_hash, day=day, contacts=contacts)


def _contacts(rest: "_Rest", count: int) -> Iterator[InvitedContact]:
    for _ in range(count):
        hashed, kind = rest.take(KEY_BYTES), rest.take(1)[0]
        if kind in _SIZES:
            host = str(ipaddress.ip_address(rest.take(_SIZES[kind])))
        else:
            host = rest.take(rest.take(1)[0]).decode("ascii")
            if kind != NAME or not is_host_name(host):
                raise ValueError
        yield InvitedContact(key_hash=hashed, host=host, port=int.from_bytes(rest.take(2), "big"))


class _Rest:
    def __init__(self, data: bytes) -> None:
        self.left = data

    def take(self, size: int) -> bytes:
        if len(self.left) < size:
            raise ValueError
        taken, self.left = self.left[:size], self.left[size:]
        return taken

    def end(self) -> None:
        if self.left:
            raise ValueError


def _letters(content: bytes) -> str:
    return base64.b32encode(content).decode().rstrip("=")


def _check(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:_CHECK_BYTES]
