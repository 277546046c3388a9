"""Which items does the archive store, and what is their form in the log?"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from herodotus.core.captures import CaptureId
from herodotus.core.index_rows import RowKind, bucket_of
from herodotus.core.notes import Visit, format_tombstones, format_visits
from herodotus.store.members import gzip_member

NOTE_TARGET = "urn:herodotus:archive"
VISITS_PER_NOTE = 100_000  # some 10 MB of lines; a reader of a note holds all of it


class NewCapture(NamedTuple):
    """A capture ready to be written: compressed members, the capture's own first."""

    id: CaptureId
    kind: RowKind
    members: tuple[bytes, ...]
    url: str = ""
    """For the list of addresses; empty when it stands there already."""
    arrival: int | None = None
    """When it first came, if it is only written again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewVisits:
    visits: tuple[Visit, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTombstones:
    ids: tuple[CaptureId, ...]


Item = NewCapture | NewVisits | NewTombstones


def rewrites(item: Item) -> bool:
    """Whether the item changes stored captures."""
    return isinstance(item, NewTombstones) or (isinstance(item, NewCapture) and item.arrival is not None)


def waves(items: Sequence[Item]) -> list[Sequence[Item]]:
    """A power cut may leave the end of a flush without its beginning, and must not leave a revisit without its
    original: where both come together, the revisits are flushed after it, and the notes with them."""
    bodies = {_payload_of(item) for item in items if isinstance(item, NewCapture) and not item.kind}
    later = [
        item
        for item in items
        if not isinstance(item, NewCapture) or (item.kind and _payload_of(item) in bodies)
    ]
    if not any(isinstance(item, NewCapture) for item in later):
        return [items]
    kept = {id(item) for item in later}
    return [[item for item in items if id(item) not in kept], later]


def _payload_of(item: NewCapture) -> tuple[int, bytes]:
    return bucket_of(item.id.key), item.id.digest


def lay_out(items: Sequence[Item]) -> tuple[list[Item], list[bytes]]:
    """Captures in order, then the visits of all items together, then the tombstones."""
    buffers = [member for item in items if isinstance(item, NewCapture) for member in item.members]
    notes: list[Item] = []
    visits = sorted(visit for item in items if isinstance(item, NewVisits) for visit in item.visits)
    for at in range(0, len(visits), VISITS_PER_NOTE):
        some = tuple(visits[at : at + VISITS_PER_NOTE])
        notes.append(NewVisits(visits=some))
        buffers.append(gzip_member(format_visits(some, NOTE_TARGET)))
    for item in items:
        if isinstance(item, NewTombstones):
            notes.append(item)
            buffers.append(gzip_member(format_tombstones(item.ids, NOTE_TARGET)))
    return notes, buffers
