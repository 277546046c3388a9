"""What is written for a deposit: its record, and those that belong to it?

Every capture passes here, so heads are written as text in one go. A stranger's text (the URL, fields of a foreign
record) is cleaned of everything that could break a line. Cleaning may change the meaning, so a record with more of a
stranger's text is read again before it is accepted: a changed field name could end a record early, or turn it into a
list of deletions.

How are unchanged visits and deletions written down, as WARC records that anybody can read?

Both are `metadata` records whose block is lines of text. A visit log says on which days a URL was found
unchanged: it costs a few bytes where a revisit record costs hundreds. Visits that got no answer stand in it as well,
with a reason. A tombstone says which capture was deleted for good.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from crawler.core.capture import Capture
from herodotus.core.captures import CaptureId, Deposit, Original, RecordType, id_of_record, split_payload
from herodotus.core.chunked import told_aside
from herodotus.core.doors import DOOR
from herodotus.core.errors import MalformedRecordError
from herodotus.core.signatures import HELPER, SIGNATURE, WINDOW
from herodotus.core.warc import (
    PAYLOAD_SHA256,
    REVISIT_PROFILE,
    TIME_MAX_S,
    WarcRecord,
    check_block,
    clean,
    derive_record_id,
    field,
    format_date,
    format_digits,
    format_record,
    parse_digits,
    sha1_label,
    sha1_of,
    split_head,
    split_record,
)

VISITS_TYPE = "application/vnd.herodotus.visits"
TOMBSTONES_TYPE = "application/vnd.herodotus.tombstones"
LINES_MAX = 1_000_000
NO_ANSWER = 0
"""The status of a visit that got none, or one that says that the site is out of order."""
PROBLEM_CHARS_MAX = 160
"""Of the reason: "robots.txt could not be fetched", with an error of the system that names an IPv6 address, has 110."""
_NO_PROBLEM = "-"


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Visit:
    url: str
    time_s: int
    status: int
    """304, or the status that came with the known content, or `NO_ANSWER`."""
    problem: str = ""
    """Why there was no answer. With `NO_ANSWER` and without a problem the line says that there are answers again, of
    which nothing is kept."""

    def __post_init__(self) -> None:
        # A line that cannot be read again would take its neighbours along.
        if not self.url or "\n" in self.url or not 0 <= self.status <= 999:
            raise MalformedRecordError("a visit without a URL, or with an impossible status")
        if self.problem and (self.status != NO_ANSWER or self.problem != plain_problem(self.problem)):
            raise MalformedRecordError(
                "a visit with a problem and an answer, or with a problem that is no plain text"
            )


def format_visits(visits: Iterable[Visit], target: str) -> bytes:
    lines = [f"{format_digits(visit.time_s)} {visit.status} {_told_of(visit)}" for visit in visits]
    return _format_note(VISITS_TYPE, lines, target, min((visit.time_s for visit in visits), default=0))


def _told_of(visit: Visit) -> str:
    if visit.status != NO_ANSWER:
        return visit.url
    return f"{visit.problem.replace(' ', '_') or _NO_PROBLEM} {visit.url}"


def plain_problem(text: str) -> str:
    """What a line can hold of an error's words, which may be a stranger's: ASCII without an underscore, in one line."""
    plain = text.encode("ascii", "replace").decode()
    words = "".join(one if one.isprintable() and one != "_" else " " for one in plain).split()
    found = " ".join(words)[:PROBLEM_CHARS_MAX].strip()
    return "" if found == _NO_PROBLEM else found


def parse_visits(record: WarcRecord) -> list[Visit]:
    visits = []
    for line in _lines(record):
        date, _, rest = line.partition(" ")
        status, _, url = rest.partition(" ")
        if not (status.isascii() and status.isdigit() and len(status) <= 3 and url):
            raise MalformedRecordError("a malformed line in a visit log")
        problem = ""
        if int(status) == NO_ANSWER:
            word, _, url = url.partition(" ")
            problem = "" if word == _NO_PROBLEM else word.replace("_", " ")
        visits.append(Visit(url=url, time_s=parse_digits(date), status=int(status), problem=problem))
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


_REQUEST = "application/http;msgtype=request"
_RESPONSE = "application/http;msgtype=response"
_END = b"\r\n\r\n"
_PRIMARY = frozenset(kind.value for kind in RecordType)
_OURS = frozenset({SIGNATURE, DOOR, WINDOW, HELPER})
"""Fields whose values are ours; with any other the record is read again."""


def format_bundle(deposit: Deposit, original: Original | None, record_id: str | None = None) -> list[bytes]:
    """The capture itself first, then its companions. With an original, the capture has no body."""
    primary_id = record_id or deposit.record_id
    capture = deposit.capture
    date = format_date(capture.time_s)
    url = clean(capture.url)
    primary = _format_primary(deposit, primary_id, date, url, original)
    records = [primary]
    if any(name not in _OURS for name, _ in deposit.extra):
        _check_primary(records[0], deposit, is_revisit=original is not None)
    return records + _companions_of(deposit, primary_id, date, url)


def format_around(
    deposit: Deposit, record_id: str, body_bytes: int, block_sha1: bytes
) -> tuple[bytes, bytes, list[bytes]]:
    """As `format_bundle` of a capture with its body, which may be elsewhere: what stands before the body and behind it,
    and the other records."""
    date, url = format_date(deposit.capture.time_s), clean(deposit.capture.url)
    before = _primary_head(deposit, record_id, date, url, None, body_bytes, sha1_label(block_sha1))
    fields, start, length = split_head(before)
    again = WarcRecord(fields=fields, block=b"")
    if start != len(before) or again.kind not in _PRIMARY or id_of_record(again) != deposit.id:
        raise MalformedRecordError("its fields would make another capture of it")
    assert length == len(deposit.capture.head) + body_bytes
    return before + deposit.capture.head, _END, _companions_of(deposit, record_id, date, url)


def as_written(deposit: Deposit) -> bytes:
    """What stands before the block of its record, which has the body, where no field is a stranger's."""
    assert all(name in _OURS for name, _ in deposit.extra), (
        "what others name may be read otherwise than it was meant"
    )
    capture = deposit.capture
    block_sha1 = hashlib.sha1(capture.head, usedforsecurity=False)
    block_sha1.update(capture.body)
    date, url, label = format_date(capture.time_s), clean(capture.url), sha1_label(block_sha1.digest())
    return _primary_head(deposit, deposit.record_id, date, url, None, len(capture.body), label)


def is_companion_as_written(content: bytes, record: WarcRecord) -> bool:
    """Whether all of that content is the record, to the byte as `format_foreign_companion` would write it, and its
    block fits its digest: then it is read as the same record again."""
    is_other = record.kind in _PRIMARY or is_note(record)
    if is_other or format_record(record.fields, record.block) != content:
        return False
    check_block(record)
    return True


def for_other_tools(deposit: Deposit) -> Deposit:
    """As it leaves the archive: its head claims no chunks, which other tools would look for in the body."""
    head = told_aside(deposit.capture.head)
    if head == deposit.capture.head:
        return deposit
    return replace(deposit, capture=replace(deposit.capture, head=head))


def _companions_of(deposit: Deposit, primary_id: str, date: str, url: str) -> list[bytes]:
    capture = deposit.capture
    records: list[bytes] = []
    learned = _learned(capture)
    if capture.request or learned:
        shared = f"WARC-Target-URI: {url}\r\nWARC-Date: {date}\r\nWARC-Concurrent-To: {primary_id}\r\n"
        if capture.request:
            records.append(_format_companion("request", _REQUEST, capture.request, primary_id, shared))
        if learned:
            block = "".join(learned).encode("utf-8", "replace")
            records.append(
                _format_companion("metadata", "application/warc-fields", block, primary_id, shared)
            )
    records += map(format_foreign_companion, deposit.companions)
    return records


def _learned(capture: Capture) -> list[str]:
    """The lines of a metadata record (WARC 1.1, 6.6): what the crawler learned besides. None for a capture that came
    with its records: the metadata is among them."""
    lines = [] if capture.via is None else [f"via: {' '.join(capture.via.split())}\r\n"]
    if capture.duration_s is not None:
        lines.append(f"fetchTimeMs: {round(capture.duration_s * 1000)}\r\n")
    tls = capture.tls
    if tls is not None:
        lines += [
            f"tls-protocol: {' '.join(tls.protocol.split())}\r\n",
            f"tls-cipher: {' '.join(tls.cipher.split())}\r\n",
            f"tls-certificate: sha256:{tls.certificate_sha256.hex()}\r\n",
        ]
        if tls.error is not None:
            lines.append(f"tls-error: {' '.join(tls.error.split())}\r\n")
    return lines


def format_foreign_companion(record: WarcRecord) -> bytes:
    """Raises MalformedRecordError for a record that would be read as something else: another capture, a note of ours,
    or a record of another length."""
    written = format_record(record.fields, record.block)
    again = _read_again(written)
    if again.kind in _PRIMARY or is_note(again):
        raise MalformedRecordError("what comes beside a capture is a capture or a note itself")
    return written


def _check_primary(written: bytes, deposit: Deposit, *, is_revisit: bool) -> None:
    again = _read_again(written)
    payload = (deposit.capture.head, b"" if is_revisit else deposit.capture.body)
    if id_of_record(again) != deposit.id or split_payload(again) != payload:
        raise MalformedRecordError("its fields would make another capture of it")


def _read_again(written: bytes) -> WarcRecord:
    record, end = split_record(written)  # which also finds more fields than anybody reads
    if end != len(written):
        raise MalformedRecordError("its fields would make a shorter record of it")
    check_block(record)
    return record


def _format_primary(
    deposit: Deposit, record_id: str, date: str, url: str, original: Original | None
) -> bytes:
    capture = deposit.capture
    block = capture.head if original is not None else capture.head + capture.body
    body_bytes = len(block) - len(capture.head)
    head = _primary_head(deposit, record_id, date, url, original, body_bytes, sha1_of(block))
    return b"".join((head, block, _END))


def _primary_head(
    deposit: Deposit,
    record_id: str,
    date: str,
    url: str,
    original: Original | None,
    body_bytes: int,
    block_sha1: str,
) -> bytes:
    capture = deposit.capture
    if original is None:
        kind, refers = deposit.type.value, ""
    else:
        kind = "revisit"
        refers = (
            f"WARC-Profile: {REVISIT_PROFILE}\r\n"
            f"WARC-Refers-To: {original.record_id}\r\n"
            f"WARC-Refers-To-Target-URI: {clean(original.url)}\r\n"
            f"WARC-Refers-To-Date: {format_date(original.time_s)}\r\n"
        )
    address = f"WARC-IP-Address: {clean(capture.remote_ip)}\r\n" if capture.remote_ip else ""
    truncated = f"WARC-Truncated: {clean(capture.truncated)}\r\n" if capture.truncated else ""
    head = (
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: {date}\r\n"
        f"WARC-Target-URI: {url}\r\n{address}{refers}"
        f"WARC-Payload-Digest: {sha1_label(capture.sha1)}\r\n"
        f"{PAYLOAD_SHA256}: sha256:{capture.sha256.hex()}\r\n"
        f"WARC-Block-Digest: {block_sha1}\r\n{truncated}{_last_fields(deposit)}"
        f"Content-Length: {len(capture.head) + body_bytes}\r\n\r\n"
    )
    return head.encode("utf-8", "surrogateescape")


def _last_fields(deposit: Deposit) -> str:
    extra = "".join(f"{clean(name)}: {clean(value)}\r\n" for name, value in deposit.extra)
    if deposit.capture.head:
        return f"Content-Type: {_RESPONSE}\r\n{extra}"
    if field(deposit.extra, "Content-Type") is None:
        return f"Content-Type: application/octet-stream\r\n{extra}"
    return extra


def _format_companion(kind: str, content_type: str, block: bytes, primary_id: str, shared: str) -> bytes:
    record_id = derive_record_id(kind.encode(), primary_id.encode())
    return _whole(
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {record_id}\r\n{shared}"
        f"WARC-Block-Digest: {sha1_of(block)}\r\nContent-Type: {content_type}\r\n",
        block,
    )


def _whole(head: str, block: bytes) -> bytes:
    announced = f"{head}Content-Length: {len(block)}\r\n\r\n"
    return b"".join((announced.encode("utf-8", "surrogateescape"), block, b"\r\n\r\n"))
