"""How do captures of other archives get in, with nothing lost and nothing believed?

Records are grouped: a response (or resource, or revisit) with the requests and metadata that name it. A revisit is
stored when the archive has its original. Importing a file again stores nothing twice, and an import may be resumed at
an offset it reported. Records that cannot be imported are reported and skipped.
"""

import dataclasses
import hashlib
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO

import anyio.to_thread

from herodotus.core.bundles import VISITS_TYPE, Visit, format_foreign_companion, is_note, parse_visits
from herodotus.core.captures import (
    Deposit,
    deposit_of_record,
    parse_http_head,
    split_payload,
)
from herodotus.core.chunked import told_again, without_chunks
from herodotus.core.doors import Door, Passage, through
from herodotus.core.errors import DamagedRecordError, MalformedRecordError, StoreRefusedError
from herodotus.core.replay import Reference, Shown, resolution
from herodotus.core.warc import (
    COMPANIONS_BYTES_MAX,
    NOT_MODIFIED_PROFILE,
    PAYLOAD_SHA256,
    TIME_MAX_S,
    WarcRecord,
    check_block,
    clean,
    decode_digest,
    field,
    format_date,
    sha1_label,
)
from herodotus.store.foreign_records import Broken, ForeignRecord, RecordReader
from herodotus.store.intake import StoreOutcome
from herodotus.store.store import DiskStore
from herodotus.store.stored_records import StoredCapture

COMPANIONS_MAX = 64  # beside one capture, and together no larger than COMPANIONS_BYTES_MAX
PROBLEMS_MAX = 1_000
VERSIONS_LOOKED_AT = 200
NAMES_LOOKED_AT = 16
FOREIGN_DIGEST = "Herodotus-Foreign-Payload-Digest"
"""The payload digest by another tool, if it included the chunk sizes or used another function."""
NOT_MODIFIED_PROFILES = (
    NOT_MODIFIED_PROFILE,
    NOT_MODIFIED_PROFILE.replace("/1.1/", "/1.0/"),
)
_DIGESTS_OF_NOTHING = ("sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ",)
CONCURRENT_STORES = 64
READ_AHEAD_MAX = 64
READ_AHEAD_BYTES = 4 * 1024 * 1024
CONCURRENT_BYTES = 32 * 1024 * 1024
_BROUGHT_IN = Passage(Door.BROUGHT_IN)
"""Whatever the file says of it: for this network it came with the file."""
_CAPTURES = ("response", "resource", "revisit")


class OrphanError(MalformedRecordError):
    def __init__(self) -> None:
        super().__init__("a revisit whose original the archive does not have")


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    offset: int
    reason: str


@dataclass(slots=True, kw_only=True)
class ImportReport:
    records: int = 0
    stored: int = 0
    revisits: int = 0
    known: int = 0
    deleted: int = 0
    visits: int = 0
    skipped: int = 0
    problems: list[Problem] = dataclasses.field(default_factory=list)
    """The first thousand skipped records, with their offsets in the file."""
    offset: int = 0
    """Everything before it is stored: where to resume."""
    orphans: int = 0
    """Skipped revisits whose original may still come."""

    def skip(self, offset: int, reason: str) -> None:
        self.skipped += 1
        if len(self.problems) < PROBLEMS_MAX:
            self.problems.append(Problem(offset=offset, reason=reason))

    def add(self, other: "ImportReport", name: str) -> None:
        """Of a file within the file."""
        for counter in ("records", "stored", "revisits", "known", "deleted", "visits", "skipped", "orphans"):
            setattr(self, counter, getattr(self, counter) + getattr(other, counter))
        room = PROBLEMS_MAX - len(self.problems)
        self.problems += [
            Problem(offset=problem.offset, reason=f"{problem.reason}, in {name}")
            for problem in other.problems[:room]
        ]


@dataclass(slots=True)
class _Group:
    found: ForeignRecord
    companions: list[WarcRecord]


async def import_file(
    store: DiskStore,
    file: BinaryIO,
    *,
    start: int = 0,
    canonical: Callable[[str], str] = lambda url: url,
    progress: Callable[[ImportReport], None] = lambda report: None,
) -> ImportReport:
    """Store every capture of a WARC or ARC file. `canonical` may refuse a URL with MalformedRecordError or
    ValueError."""
    report = ImportReport(offset=start)
    pending: list[_Group] = []
    held = 0
    async for group in _groups(file, start, report):
        pending.append(group)
        held += sum(len(record.block) for record in (group.found.record, *group.companions))
        if len(pending) >= CONCURRENT_STORES or held >= CONCURRENT_BYTES:
            await _store_all(store, pending, canonical, report)
            progress(report)
            pending, held = [], 0
    await _store_all(store, pending, canonical, report)
    progress(report)
    return report


async def _store_all(
    store: DiskStore, groups: list[_Group], canonical: Callable[[str], str], report: ImportReport
) -> None:
    """Together, so that they share flushes; but revisits after the captures that they may refer to."""
    try:
        async with anyio.create_task_group() as tasks:
            for group in groups:
                if group.found.record.kind != "revisit":
                    tasks.start_soon(_store_one, store, group, canonical, report)
    except BaseExceptionGroup as failed:
        refused, others = failed.split(StoreRefusedError)
        if refused is None or others is not None:
            raise
        raise StoreRefusedError(_first(refused).reason) from failed
    for group in groups:
        if group.found.record.kind == "revisit":
            await _store_one(store, group, canonical, report)
    if groups:
        report.offset = groups[-1].found.offset


def _first(group: BaseExceptionGroup[StoreRefusedError]) -> StoreRefusedError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, BaseExceptionGroup) else found


async def _groups(file: BinaryIO, start: int, report: ImportReport) -> AsyncIterator[_Group]:
    """Group captures with their companions, which stand before or after. One that names no capture belongs to the
    capture before."""
    reader = RecordReader(file, start)
    records = iter(reader)
    current: _Group | None = None
    waiting: list[WarcRecord] = []
    async for found in _read_ahead(records):
        if isinstance(found, Broken):
            report.skip(found.offset, found.reason)
            continue
        report.records += 1
        kind = found.record.kind
        if kind in _CAPTURES:
            if current is not None:
                yield current
            current = _Group(found, waiting)
            waiting = []
        elif current is not None and _belongs(found.record, current.found.record):
            _keep(current.companions, found, report)
        else:
            _keep(waiting, found, report)
    if current is not None:
        current.companions += waiting
        yield current
    elif waiting:
        report.skip(start, f"{len(waiting)} records that belong to no capture")


async def _read_ahead(records: Iterator[ForeignRecord | Broken]) -> AsyncIterator[ForeignRecord | Broken]:
    """Some at a time, as a trip to another thread costs as much as reading a small record."""
    while batch := await anyio.to_thread.run_sync(_some, records):
        for found in batch:
            yield found


def _some(records: Iterator[ForeignRecord | Broken]) -> list[ForeignRecord | Broken]:
    batch: list[ForeignRecord | Broken] = []
    size = 0
    for found in records:
        batch.append(found)
        size += len(found.record.block) if isinstance(found, ForeignRecord) else 0
        if len(batch) >= READ_AHEAD_MAX or size >= READ_AHEAD_BYTES:
            break
    return batch


def _keep(companions: list[WarcRecord], found: ForeignRecord, report: ImportReport) -> None:
    size = sum(len(companion.block) for companion in companions) + len(found.record.block)
    if len(companions) >= COMPANIONS_MAX or size > COMPANIONS_BYTES_MAX:
        report.skip(
            found.offset,
            f"more than {COMPANIONS_MAX} records or {COMPANIONS_BYTES_MAX} bytes beside one capture",
        )
        return
    try:
        check_block(found.record)
        if not is_note(found.record):
            format_foreign_companion(found.record)
    except MalformedRecordError as error:
        report.skip(found.offset, error.reason)
        return
    companions.append(found.record)


def _belongs(record: WarcRecord, capture: WarcRecord) -> bool:
    names = {record.get("WARC-Concurrent-To"), record.get("WARC-Refers-To")}
    return capture.record_id in names or capture.get("WARC-Concurrent-To") == record.record_id


async def _store_one(
    store: DiskStore, group: _Group, canonical: Callable[[str], str], report: ImportReport
) -> None:
    record = group.found.record
    try:
        _check(record)
        url = canonical(clean(record.url or "").strip())
        for companion in [companion for companion in group.companions if is_note(companion)]:
            group.companions.remove(companion)
            if companion.get("Content-Type") != VISITS_TYPE:
                continue  # the deletions of another archive are its own affair
            visits = parse_visits(companion)
            await store.note_visits(visits)
            report.visits += len(visits)
        if record.kind == "revisit":
            deposit = await _deposit_of_revisit(store, record, url, group, report)
        else:
            deposit = _deposit(record, url, group)
        if deposit is None:
            return
        outcome = (await store.store(through(_BROUGHT_IN, deposit))).outcome
    except (MalformedRecordError, DamagedRecordError, ValueError) as error:
        report.skip(group.found.offset, str(error))
        report.orphans += isinstance(error, OrphanError)
        return
    report.stored += outcome is StoreOutcome.NEW
    report.revisits += outcome is StoreOutcome.REVISIT
    report.known += outcome is StoreOutcome.KNOWN
    report.deleted += outcome is StoreOutcome.DELETED


def _check(record: WarcRecord) -> None:
    # wget gives its revisits, which have a block, the digest of an empty one.
    if record.kind != "revisit" or record.get("WARC-Block-Digest") not in _DIGESTS_OF_NOTHING:
        check_block(record)


def _deposit(record: WarcRecord, url: str, group: _Group) -> Deposit:
    """The body without transfer coding, as we keep it; how its tool called it is kept, as revisits say so."""
    head, body = split_payload(record)
    is_ours = record.get(PAYLOAD_SHA256) is not None  # so what it says of chunks is only told
    head, whole = (told_again(head), body) if is_ours else (head, without_chunks(head, body))
    stated = record.get("WARC-Payload-Digest")
    if stated is not None and record.get("WARC-Block-Digest") is None:
        _check_payload(stated, (body, whole, record.block))
    deposit = deposit_of_record(record, url, tuple(group.companions), content=(head, whole))
    if stated is None or stated == sha1_label(deposit.capture.sha1) or field(deposit.extra, FOREIGN_DIGEST):
        return deposit
    return replace(deposit, extra=(*deposit.extra, (FOREIGN_DIGEST, stated)))


def _check_payload(stated: str, payloads: Sequence[bytes]) -> None:
    """Check a payload that has no other proof. Tools differ in their notion of the payload."""
    name, _, value = stated.partition(":")
    if name.lower() not in ("sha1", "sha256", "md5", "sha512"):
        return
    for payload in payloads:
        digest = hashlib.new(name.lower(), payload, usedforsecurity=False).digest()
        if decode_digest(value, len(digest)) == digest:
            return
    raise MalformedRecordError("the payload does not match its digest")


async def _deposit_of_revisit(
    store: DiskStore, record: WarcRecord, url: str, group: _Group, report: ImportReport
) -> Deposit | None:
    """A deposit with the original's body, to be deduplicated here again. A visit that found the previous version
    unchanged is only noted."""
    shown = await _resolved(store, record, url)
    if record.get("WARC-Profile") in NOT_MODIFIED_PROFILES:
        before = await store.newest(url, record.time_s)
        if before is not None and before.body == shown.body:
            status = parse_http_head(split_payload(record)[0])[0] or 304
            await store.note_visits([Visit(url=url, time_s=record.time_s, status=status)])
            report.visits += 1
            return None
    # wget says so of the body that it left out.
    fields = tuple(pair for pair in record.fields if pair[0].lower() != "warc-truncated")
    head = shown.head if record.get(PAYLOAD_SHA256) is None else told_again(shown.head)
    if head and not head.endswith((b"\n\r\n", b"\n\n")):
        head = head.rstrip(b"\r\n") + b"\r\n\r\n"  # alone in its record it needed no end
    whole = replace(record, fields=fields)
    return deposit_of_record(whole, url, tuple(group.companions), content=(head, shown.body))


async def _resolved(store: DiskStore, record: WarcRecord, url: str) -> Shown:
    steps = resolution(replace(record, fields=(("WARC-Target-URI", url), *_without_url(record))))
    stated = record.get("WARC-Payload-Digest")
    try:
        reference = next(steps)
        while True:
            found = await _find(store, reference, url)
            reference = steps.send(None if found is None else _as_written_elsewhere(found, stated))
    except StopIteration as end:
        if isinstance(end.value, Shown):
            return end.value
    raise OrphanError


def _without_url(record: WarcRecord) -> Iterator[tuple[str, str]]:
    return (pair for pair in record.fields if pair[0].lower() != "warc-target-uri")


def _as_written_elsewhere(capture: StoredCapture, stated: str | None) -> WarcRecord:
    """Whole, also where another record of ours has the body; under the digest that the revisit has for it."""
    written = capture.record
    digest = stated if stated in _names_of_payload(capture) else capture.sha1
    fields = [
        ("WARC-Type", "resource" if written.kind == "resource" else "response"),
        ("WARC-Record-ID", written.record_id),
        ("WARC-Target-URI", capture.url),
        ("WARC-Date", format_date(capture.time_s)),
        *((("WARC-Payload-Digest", digest),) if digest is not None else ()),
        ("Content-Type", "application/http;msgtype=response" if capture.head else "application/octet-stream"),
    ]
    return WarcRecord(fields=tuple(fields), block=capture.head + capture.body)


async def _find(store: DiskStore, reference: Reference, url: str) -> StoredCapture | None:
    """A digest is looked for among the versions of the URL, and everywhere if it is our own; a record's name only
    among the newest, as there is no index of names. Other archives have one history for http and https, with `www.` and
    without: after the URL its nearest other spellings are looked at."""
    named = reference.url or url
    for one in (named, *await store.spellings((named,))):
        found = await _found_at(store, reference, one)
        if found is not None:
            return found
    return None if reference.digest is None else await _of_sha256(store, reference.digest)


async def _found_at(store: DiskStore, reference: Reference, url: str) -> StoredCapture | None:
    if reference.record_id is not None:
        return await _version(
            store, url, lambda one: one.record.record_id == reference.record_id, NAMES_LOOKED_AT
        )
    if reference.digest is not None:
        digest = reference.digest
        return await _version(store, url, lambda one: digest in _names_of_payload(one), VERSIONS_LOOKED_AT)
    if reference.time_s is not None:
        found = await store.newest(url, reference.time_s)
        return found if found is not None and found.time_s == reference.time_s else None
    assert reference.before_s is not None
    return await store.newest(url, reference.before_s - 1) if reference.before_s else None


async def _of_sha256(store: DiskStore, digest: str) -> StoredCapture | None:
    name, _, value = digest.partition(":")
    sha256 = decode_digest(value, 32) if name.lower() == "sha256" else None
    if sha256 is None:
        return None
    for id_ in (await store.of_payload(sha256))[:1]:
        return await store.read(id_)
    return None


async def _version(
    store: DiskStore, url: str, is_that: Callable[[StoredCapture], bool], versions_max: int
) -> StoredCapture | None:
    """The newest that is; a record that refers to it need not be newer, as clocks differ."""
    not_after_s = TIME_MAX_S
    for _ in range(versions_max):
        found = await store.newest(url, not_after_s)
        if found is None or is_that(found):
            return found
        if found.time_s == 0:
            return None
        not_after_s = found.time_s - 1
    return None


def _names_of_payload(capture: StoredCapture) -> tuple[str | None, ...]:
    return (
        capture.sha1,
        capture.record.get(FOREIGN_DIGEST),
        sha1_label(hashlib.sha1(capture.body, usedforsecurity=False).digest()),
        f"sha256:{capture.id.digest.hex()}",
    )
