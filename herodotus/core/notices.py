"""What does a peer tell the others when it removed something, and when does a peer act on another's telling?

A notice is a signed statement with a reason. It hides and deletes nothing by itself: the operator follows it or
dismisses it, or has said whom to follow. Following never asks how many keys say so. "holders" asks in how many *places*
holders of a capture followed, those alone that this peer has watched for longer than the probation; and whatever
follows by itself ends at a thousandth of what is held a day, so a mistake or a stolen key costs little before somebody
looks.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta

from herodotus.core.errors import MalformedError
from herodotus.core.removals import DAY_S, SUBJECT_CHARS_MAX, MalformedSubjectError, Subject, subject_of

VERSION = 1
ID_BYTES = 16
NOTICE_BYTES_MAX = 16_384
TEXT_CHARS_MAX = 500
CONTACT_CHARS_MAX = 200
REASON_CHARS_MAX = 32
KEPT_MAX = 10_000
OF_PLACE_A_DAY = 100
LIFE_S = 365 * DAY_S
AHEAD_MAX_S = 600
"""That the clock of an issuer may be ahead of ours."""
MUCH = 1_000
"""A notice that names more than one in so many captures raises an alarm, and nobody follows more a day by itself."""
_STATEMENT = b"herodotus/notice/1"

PeerKey = bytes


class Notice(msgspec.Struct, frozen=True, array_like=True):
    """As it travels (docs/protocol/notices.md)."""

    version: Annotated[int, Meta(ge=1, le=255)]
    id: Annotated[bytes, Meta(min_length=ID_BYTES, max_length=ID_BYTES)]
    issuer: Annotated[bytes, Meta(min_length=32, max_length=32)]
    kind: Annotated[str, Meta(max_length=8)]
    name: Annotated[str, Meta(min_length=1, max_length=SUBJECT_CHARS_MAX)]
    reason: Annotated[str, Meta(max_length=REASON_CHARS_MAX)]
    text: Annotated[str, Meta(max_length=TEXT_CHARS_MAX)]
    contact: Annotated[str, Meta(max_length=CONTACT_CHARS_MAX)]
    issued: Annotated[int, Meta(ge=0, lt=1 << 40)]
    """Seconds since 1970, by the issuer."""
    count: Annotated[int, Meta(ge=0, lt=1 << 53)]
    """Captures that the issuer removed."""
    signature: Annotated[bytes, Meta(min_length=64, max_length=64)]

    @property
    def subject(self) -> Subject:
        return Subject(self.kind, self.name)


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(Notice).decode
encode_notice = _encode


def decode_notice(data: bytes) -> Notice:
    """Raises MalformedError where a type, a length or the subject is wrong. `check` has the rest."""
    if len(data) > NOTICE_BYTES_MAX:
        raise MalformedError("a notice that is too long")
    try:
        notice = _decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedError("no notice") from error
    try:
        is_canonical = subject_of(notice.kind, notice.name) == notice.subject
    except MalformedSubjectError as error:
        raise MalformedError("a notice about nothing") from error
    if notice.version != VERSION or not is_canonical:
        raise MalformedError("a notice of another kind")
    if not all(text.isprintable() for text in (notice.reason, notice.text, notice.contact)):
        raise MalformedError("a notice with signs that do not print")
    return notice


def statement(network: bytes, notice: Notice) -> bytes:
    """The bytes to sign. The id follows from them, so that no two notices have one id."""
    said = _encode(
        [
            notice.version,
            notice.issuer,
            notice.kind,
            notice.name,
            notice.reason,
            notice.text,
            notice.contact,
            notice.issued,
            notice.count,
        ]
    )
    return _STATEMENT + network[:8] + said


def issue(key: Ed25519PrivateKey, network: bytes, draft: Notice) -> Notice:
    """The draft with its id and signature."""
    named = msgspec.structs.replace(draft, issuer=key.public_key().public_bytes_raw())
    said = statement(network, named)
    return msgspec.structs.replace(named, id=_id_of(said), signature=key.sign(said))


def draft(subject: Subject, *, reason: str, text: str, contact: str, issued: int, count: int) -> Notice:
    return Notice(
        version=VERSION,
        id=bytes(ID_BYTES),
        issuer=bytes(32),
        kind=subject.kind,
        name=subject.name,
        reason=reason[:REASON_CHARS_MAX],
        text=text[:TEXT_CHARS_MAX],
        contact=contact[:CONTACT_CHARS_MAX],
        issued=issued,
        count=count,
        signature=bytes(64),
    )


def _id_of(said: bytes) -> bytes:
    return hashlib.sha256(said).digest()[:ID_BYTES]


def is_genuine(network: bytes, notice: Notice) -> bool:
    """Whether its id and signature are of what it says."""
    said = statement(network, notice)
    if _id_of(said) != notice.id:
        return False
    try:
        Ed25519PublicKey.from_public_bytes(notice.issuer).verify(notice.signature, said)
    except (InvalidSignature, ValueError):
        return False
    return True


def is_timely(notice: Notice, now: float) -> bool:
    return now - LIFE_S <= notice.issued <= now + AHEAD_MAX_S


# -- which are kept ---------------------------------------------------------------------------------------


class Kept(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A notice, and what became of it here. Times are of the peer's own clock of lived time."""

    notice: Notice
    heard_s: float
    place: bytes = b""
    """Of its issuer, when it was heard; nothing for our own."""
    is_dismissed: bool = False
    was_followed: bool = False
    """Once, by whomever: what the operator undid is not followed again by itself."""
    followed_s: float = 0.0
    followed_captures: int = 0
    """Of what was followed without being asked."""

    @property
    def is_own(self) -> bool:
        return not self.place


def has_room_today(kept: Iterable[Kept], place: bytes, lived_s: float) -> bool:
    """Whether issuers of this place may be heard once more today."""
    heard = sum(1 for one in kept if one.place == place and lived_s - one.heard_s < DAY_S)
    return heard < OF_PLACE_A_DAY


def admitted(kept: Sequence[Kept], new: Kept) -> list[Kept] | None:
    """The notices with a new one. When there is no more room, the place with the most notices loses its oldest that
    nobody acted on, or the new one is not taken: nobody can push the others' notices out."""
    if len(kept) < KEPT_MAX:
        return [*kept, new]
    open_ones = [one for one in kept if not (one.is_own or one.was_followed)]
    counts: dict[bytes, int] = {}
    for one in open_ones:
        counts[one.place] = counts.get(one.place, 0) + 1
    if not counts:
        return None
    fullest = max(counts, key=lambda place: (counts[place], place))
    if new.place and counts[fullest] <= counts.get(new.place, 0) + 1:
        return None
    victim = min((one for one in open_ones if one.place == fullest), key=lambda one: one.heard_s)
    return [*(one for one in kept if one is not victim), new]


def unexpired(kept: Iterable[Kept], lived_s: float) -> list[Kept]:
    return [one for one in kept if lived_s - one.heard_s < LIFE_S]


# -- which are followed -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    """Another holder of a capture."""

    place: bytes
    has_followed: bool
    is_of_age: bool
    """Past probation, as this peer has seen itself."""


def have_followed(holders: Collection[Holder], copies: int) -> bool:
    """Whether two thirds of the places of a capture's other holders followed. In a ring with fewer places it still
    takes two thirds of as many as there should be: where there are two peers, none removes for the other."""
    places = {one.place for one in holders}
    followed = {one.place for one in holders if one.has_followed and one.is_of_age}
    return 3 * len(followed) >= 2 * max(len(places), copies - 1)


def budget_left(kept: Iterable[Kept], held: int, lived_s: float) -> int:
    """Captures that may be hidden today without asking the operator."""
    spent = sum(
        one.followed_captures for one in kept if one.followed_captures and lived_s - one.followed_s < DAY_S
    )
    return max(0, held // MUCH - spent)
