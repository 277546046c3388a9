"""How far did each file of the archive reach? The manifest's bytes, and what it expects to be there.

The files are the truth about what they hold, but a file that is gone says nothing. So beside them stands a little that
is no part of them: how far the log was durable (`TailRow`, two slots that are written in turn, of which a crash can
spoil one), and a list of all files (`FileList`, replaced whole). Neither ever leads the files. What they name and a
disk has not is lost, or is on a slice that is away.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from herodotus.core.layout import Compression, FileName

MANIFEST_FOLDER = "manifest"
SLOT_BYTES = 4_096
"""One slot is not in the other's sector or page, so a torn write spoils one of them."""
CHECK_BYTES = 8
LIST_BYTES_MAX = 64 * 1024 * 1024
"""1.7 million files."""
_TAIL = Struct(">QIQQ8s")
TAIL_BYTES = _TAIL.size + CHECK_BYTES
_HEAD = Struct(">4sQIQI")
_ROW = Struct(">IBBIQI16s")
_MAGIC = b"HML1"
_GOING, _SEALED, _ZSTD, _BUCKET_SHIFT = 1, 2, 4, 4
LISTED_BYTES = 16
"""Of the SHA-256 of a segment's `.cdxj`."""


def _check(data: bytes) -> bytes:
    return blake2b(data, digest_size=CHECK_BYTES).digest()


def chained(chain: bytes, tail: int, crc: int) -> bytes:
    """Over all stretches that the log grew by, so that the bytes of the last can be told from others of that length."""
    return _check(b"%b%b%b" % (chain, tail.to_bytes(8, "big"), crc.to_bytes(4, "big")))


class TailRow(NamedTuple):
    """All before `tail` in the log was durable when this was written."""

    sequence: int = 0
    """The row of the higher one counts; its parity says the slot."""
    log: int = 0
    tail: int = 0
    captures: int = 0
    """In the log, up to the tail."""
    chain: bytes = bytes(CHECK_BYTES)

    @property
    def slot(self) -> int:
        return self.sequence % 2 * SLOT_BYTES

    def encode(self) -> bytes:
        data = _TAIL.pack(*self)
        return data + _check(data)


def decode_tail(data: bytes) -> TailRow | None:
    """None where no row was ever written whole."""
    if len(data) != TAIL_BYTES or _check(data[: _TAIL.size]) != data[_TAIL.size :]:
        return None
    return TailRow(*_TAIL.unpack(data[: _TAIL.size]))


def decode_slots(data: bytes) -> list[TailRow]:
    """The rows of a file of two slots that are whole, the newest first."""
    rows = (decode_tail(data[at : at + TAIL_BYTES]) for at in (0, SLOT_BYTES))
    return sorted((row for row in rows if row is not None), reverse=True)


class FileRow(NamedTuple):
    name: FileName
    slice: int
    size: int
    """It was never shorter. The log that is written to is longer: its tail says how much."""
    captures: int
    """Records of captures in it, also of those that went since."""
    listed: bytes = bytes(LISTED_BYTES)
    """The start of the SHA-256 of a segment's `.cdxj`."""
    is_going: bool = False
    """New files have its captures: it may be gone already."""


@dataclass(frozen=True, slots=True)
class FileList:
    sequence: int = 0
    epoch: int = 0
    """The last sealing that it heard of."""
    tail: int = 0
    """The sequence of the tail's last row when it was written: it has all that rows up to this one say."""
    rows: Mapping[int, FileRow] = field(default_factory=dict)

    def encode(self) -> bytes:
        parts = [_HEAD.pack(_MAGIC, self.sequence, self.epoch, self.tail, len(self.rows))]
        parts += [_encode_row(row) for _, row in sorted(self.rows.items())]
        data = b"".join(parts)
        return data + _check(data)


def _encode_row(row: FileRow) -> bytes:
    name = row.name
    flags = _GOING if row.is_going else 0
    if name.bucket is not None:
        flags |= _SEALED | (_ZSTD if name.codec is Compression.ZSTD else 0) | name.bucket << _BUCKET_SHIFT
    return _ROW.pack(name.number, row.slice, flags, name.epoch, row.size, row.captures, row.listed)


def decode_list(data: bytes) -> FileList | None:
    """None for anything that is not whole."""
    if len(data) < _HEAD.size + CHECK_BYTES or _check(data[:-CHECK_BYTES]) != data[-CHECK_BYTES:]:
        return None
    magic, sequence, epoch, tail, count = _HEAD.unpack_from(data)
    if magic != _MAGIC or len(data) != _HEAD.size + count * _ROW.size + CHECK_BYTES:
        return None
    rows = (_decode_row(data, _HEAD.size + at * _ROW.size) for at in range(count))
    return FileList(sequence, epoch, tail, {row.name.number: row for row in rows})


def _decode_row(data: bytes, at: int) -> FileRow:
    number, slice_, flags, epoch, size, captures, listed = _ROW.unpack_from(data, at)
    is_sealed = bool(flags & _SEALED)
    name = FileName(
        number=number,
        bucket=flags >> _BUCKET_SHIFT if is_sealed else None,
        epoch=epoch,
        codec=Compression.ZSTD if flags & _ZSTD else Compression.GZIP,
    )
    return FileRow(name, slice_, size, captures, listed, bool(flags & _GOING))


def newest(lists: Iterable[FileList | None]) -> FileList | None:
    """Of the copies of one list: a copy that could not be written, or came back with its disk, is older."""
    return max((one for one in lists if one is not None), key=lambda one: one.sequence, default=None)


def expected(known: FileList | None, tails: Collection[tuple[int, TailRow]]) -> dict[int, FileRow]:
    """What must be there, by number. `tails` are the last row of each slice, with the slice's number.

    A list is written before a new log's first row. So a row that is newer than the list is of the log in use, and an
    older one may be of a log that was sealed since, or lost and noted.
    """
    rows = {} if known is None else {number: row for number, row in known.rows.items() if not row.is_going}
    told = 0 if known is None else known.tail
    # Without a list only the row that was written last is known to be of a log in use.
    current = max((row for _, row in tails), default=None)
    for slice_, row in tails:
        if row.sequence <= told or (known is None and row != current):
            continue
        listed = rows.get(row.log, FileRow(FileName(number=row.log), slice_, 0, 0))
        if listed.name.is_log and row.tail >= listed.size:
            rows[row.log] = listed._replace(size=row.tail, captures=row.captures)
    return rows
