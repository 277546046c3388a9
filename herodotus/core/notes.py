"""How are unchanged visits and deletions written down, as WARC records that anybody can read?

Both are `metadata` records whose block is lines of text. A visit log says on which days a URL was found
unchanged: it costs a few bytes where a revisit record costs hundreds. A tombstone says which capture was
deleted for good.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from herodotus.core.captures import CaptureId
from herodotus.core.errors import MalformedRecordError
from herodotus.core.warc import (
    TIME_MAX_S,
    WarcRecord,
    derive_record_id,
    format_date,
    format_digits,
    format_record,
    parse_digits,
    sha1_of,
)

VISITS_TYPE = "application/vnd.herodotus.visits"
TOMBSTONES_TYPE = "application/vnd.herodotus.tombstones"
LINES_MAX = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Visit:
    url: str
    time_s: int
    status: int
    """304, or the status that came with the known content."""

    def __post_init__(self) -> None:
        # A line that cannot be read again would take its neighbours along.
        if not self.url or "\n" in self.url or not 0 <= self.status <= 999:
            raise MalformedRecordError("a visit without a URL, or with an impossible status")


def format_visits(visits: Iterable[Visit], target: str) -> bytes:
    lines = [f"{format_digits(visit.time_s)} {visit.status} {visit.url}" for visit in visits]
    return _format_note(VISITS_TYPE, lines, target, min((visit.time_s for visit in visits), default=0))


def parse_visits(record: WarcRecord) -> list[Visit]:
    visits = []
    for line in _lines(record):
        date, _, rest = line.partition(" ")
        status, _, url = rest.partition(" ")
        if not (status.isascii() and status.isdigit() and len(status) <= 3 and url):
            raise MalformedRecordError("a malformed line in a visit log")
        visits.append(Visit(url=url, time_s=parse_digits(date), status=int(status)))
    return visits


def format_tombstones(ids: Sequence[CaptureId], target: str) -> bytes:
    lines = [f"{id_.key.hex()} {format_digits(id_.time_s)} {id_.digest.hex()}" for id_ in ids]
    return _format_note(TOMBSTONES_TYPE, lines, target, min((id_.time_s for id_ in ids), default=0))


def parse_tombstones(record: WarcRecord) -> list[CaptureId]:
    ids = []
    for line in _lines(record):
        try:
            key, date, digest = line.split(" ")
            id_ = CaptureId(key=bytes.fromhex(key), time_s=parse_digits(date), digest=bytes.fromhex(digest))
        except ValueError as error:
            raise MalformedRecordError("a malformed line in a tombstone") from error
        if len(id_.key) != 20 or len(id_.digest) != 32:
            raise MalformedRecordError("a malformed line in a tombstone")
        ids.append(id_)
    return ids


def is_note(record: WarcRecord) -> bool:
    return record.kind == "metadata" and record.get("Content-Type") in (VISITS_TYPE, TOMBSTONES_TYPE)


def _format_note(content_type: str, lines: list[str], target: str, time_s: int) -> bytes:
    block = "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")
    assert 0 <= time_s <= TIME_MAX_S
    return format_record(
        (
            ("WARC-Type", "metadata"),
            ("WARC-Record-ID", derive_record_id(content_type.encode(), target.encode(), block)),
            ("WARC-Date", format_date(time_s)),
            ("WARC-Target-URI", target),
            ("WARC-Block-Digest", sha1_of(block)),
            ("Content-Type", content_type),
        ),
        block,
    )


def _lines(record: WarcRecord) -> list[str]:
    lines = record.block.decode("utf-8", "surrogateescape").split("\n")
    if len(lines) > LINES_MAX:
        raise MalformedRecordError("a note of too many lines")
    return [line for line in lines if line]
