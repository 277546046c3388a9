"""How does the archive answer other holders of the same share? The face `Holdings`, over log, files and index.

Reading the index or a file is a job for the store's workers. It sees the archive as it is when the job runs.

What do other peers ask of this archive, and what does it take from them? Members, parcels, and dropped copies.

A parcel is one capture as it travels: a gzip member to the record, the capture's own first, with its whole body. From
the log it is copied byte by byte. A capture that shares a frame with others, or refers to another record for its
body, is assembled. No parcel is trusted: `unpacked` checks every digest.
"""

import re
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import NamedTuple, TypeVar

from crawler.core.capture import Capture, payload_digests
from herodotus.core.bundles import as_written, format_foreign_companion, is_companion_as_written
from herodotus.core.captures import (
    CaptureId,
    Deposit,
    deposit_of_record,
    end_of_http_head,
    parse_http_head,
    payload_sha256,
)
from herodotus.core.copies.possession import Room
from herodotus.core.disputes import disputed
from herodotus.core.errors import ArchiveError, DamagedRecordError, MalformedRecordError
from herodotus.core.index_rows import (
    CAPTURE,
    TOMBSTONE,
    VISITS,
    FilePlace,
    RowKind,
    after,
    capture_key,
    decode_entry,
    family_key,
    payload_key,
    stretch,
)
from herodotus.core.reconciliation import Range, in_directory, keys_of_member, member_of
from herodotus.core.removals import Removals, Subject
from herodotus.core.signatures import VERSIONS_MAX, Proof, prove, signer_of
from herodotus.core.warc import (
    HEAD_BYTES_MAX,
    WarcRecord,
    check_block,
    parse_date,
    split_record,
    split_records,
)
from herodotus.store.deletion import move_bodies
from herodotus.store.engine import Archive
from herodotus.store.faces import (
    Broken,
    Checked,
    Held,
    OnStored,
    Parcel,
    Sign,
    Stretch,
    TakeDraw,
    Taken,
    TakePayload,
)
from herodotus.store.index import IndexBatch
from herodotus.store.intake import Copy, Intake, StoreOutcome, compress_bundle, compress_to_disk
from herodotus.store.large_captures import LargeCapture
from herodotus.store.large_parcels import bare_of, check_large
from herodotus.store.losses import Losses, release
from herodotus.store.members import (
    LARGE_BYTES,
    MEMBER_BYTES_MAX,
    MemberTooLargeError,
    checksum,
    is_within,
    plain_members,
    scan_members,
)
from herodotus.store.mending import came, look
from herodotus.store.reader import Reader
from herodotus.store.removal import covered_keys
from herodotus.store.spools import Lying, OnDisk, Spool, put_together
from herodotus.store.store import NEW, READING, UPKEEP, Acknowledge, DiskStore, Stored
from herodotus.store.stored_records import PRIMARY

DROPPED_AT_ONCE = 1_000
"""Captures that go under one lock: others wait a tenth of a second at most."""
COMPANIONS_MAX = 256
DRAWN_AT_ONCE = 8
"""Each may wait for a disk to turn, and readers wait for all of them."""
WHOLE_BYTES_MAX = 1 << 20
"""A parcel that holds more is checked piece by piece."""


def members_in(archive: Archive, low: bytes, high: bytes | None) -> list[bytes]:
    """Captures before tombstones, either in order of position and day."""
    return list(archive.directories.members(low, high))


def count_captures(archive: Archive, low: bytes, high: bytes | None) -> int:
    return sum(1 for _ in archive.index.scan(*stretch(CAPTURE, low, high)))


def keys_in(archive: Archive, low: bytes, high: bytes | None) -> list[bytes]:
    """Of all captures, without their family."""
    return [key[1:] for key, _ in archive.index.scan(*stretch(CAPTURE, low, high))]


def keys_beside_others(archive: Archive, low: bytes, high: bytes | None) -> list[bytes]:
    """Of the captures that are not their URL's only one of a day, without their family."""
    return [key for member in archive.directories.several(low, high) for key in keys_of(archive, member)]


def has_member(archive: Archive, member: bytes) -> bool:
    """Also when it was here and was deleted for good: then it is not wanted."""
    if _first(archive, member) is not None:
        return True
    return archive.has_tombstones and _first(archive, member[:-1] + TOMBSTONE) is not None


def _first(archive: Archive, member: bytes) -> tuple[bytes, bytes] | None:
    return next(archive.index.scan(*keys_of_member(member)), None)


def parcel_at(archive: Archive, key: bytes, sign: Sign) -> Parcel | None:
    """`key` is of an index entry, without its family. None when it is not here, or broken."""
    value = archive.index.get(CAPTURE + key)
    if value is None:
        return None
    return _vouched(archive, CAPTURE + key, value) or _parcel(archive, CAPTURE + key, value, sign)


def parcels_at(archive: Archive, keys: Iterable[bytes], sign: Sign, bytes_max: int) -> list[Parcel | None]:
    """Of the first of these; the last one given brings it to `bytes_max` or above."""
    found: list[Parcel | None] = []
    size = 0
    for key in keys:
        parcel = parcel_at(archive, key, sign)
        found.append(parcel)
        size += 0 if parcel is None else len(parcel.data)
        if size >= bytes_max:
            break
    return found


def _vouched(archive: Archive, key: bytes, value: bytes) -> Parcel | None:
    """As it lies, if this peer wrote it a while ago and it is the same to the byte. What is not is read in the long
    way, which finds out what became of it."""
    written = archive.vouched.get(key)
    if written is None:
        return None
    place = decode_entry(value).place
    located = archive.files.catalogue.get(place.file)
    if located is None or not located.name.is_log:
        return None
    try:
        data = archive.files.read(place)
    except (OSError, DamagedRecordError):
        return None
    return Parcel(data) if checksum(data) == written else None


def _parcel(archive: Archive, key: bytes, value: bytes, sign: Sign) -> Parcel | None:
    """The sender of an unsigned capture vouches for it, as if it had brought it in. A large one is sent as it lies in
    the log, if it can be: then it is not unpacked as a whole."""
    lies = _as_it_lies(archive, key)
    if lies is not None and not is_within(lies, WHOLE_BYTES_MAX):
        with suppress(MalformedRecordError):
            deposit, _ = check_large(lies, MEMBER_BYTES_MAX)
            if sign(deposit) is deposit and capture_key(deposit.id) == key:
                return Parcel(lies)
    capture = Reader(archive).try_read(key, value)
    if capture is None:
        return None
    if isinstance(capture, LargeCapture):
        bare, packed = bare_of(capture)
        members = compress_to_disk(sign(bare), None, bare.record_id, packed, archive.spool)
        return Parcel(put_together(members, archive.spool))
    deposit = capture.as_deposit()
    vouched = sign(deposit)
    data = lies if vouched is deposit and not capture.is_revisit else None
    if data is None:
        data = b"".join(compress_bundle(vouched, None))
    return Parcel(data)


def keys_of(archive: Archive, member: bytes) -> list[bytes]:
    """Of the captures of a member, without their family."""
    return [key[1:] for key, _ in archive.index.scan(*keys_of_member(member))]


def _as_it_lies(archive: Archive, key: bytes) -> bytes | OnDisk | None:
    """None when it shares its place with others, or has moved since."""
    value = archive.index.get(key)
    entry = None if value is None else decode_entry(value)
    located = None if entry is None else archive.files.catalogue.get(entry.place.file)
    if entry is None or located is None or not located.name.is_log:
        return None
    try:
        if entry.place.length > LARGE_BYTES:
            return archive.files.lying(entry.place)
        return archive.files.read(entry.place)
    except FileNotFoundError:
        return None


def unpacked(data: Lying, bytes_max: int = MEMBER_BYTES_MAX) -> Deposit:
    """Raises MalformedRecordError at anything that does not fit, and where all of it is more than `bytes_max`."""
    records: list[WarcRecord] = []
    left = bytes_max
    for _, _, content in scan_members(
        lambda at, length: bytes(data[at : at + length]), 0, len(data), bytes_max=bytes_max
    ):
        left -= len(content)
        if left < 0:
            raise MemberTooLargeError(f"the parcel holds more than {bytes_max} bytes")
        records += split_records(content)
        if len(records) > COMPANIONS_MAX:
            raise MalformedRecordError("too many records belong to one capture")
    if not records or records[0].kind not in PRIMARY or records[0].kind == "revisit":
        raise MalformedRecordError("a parcel is one capture with its body")
    record, *companions = records
    if any(one.kind in PRIMARY for one in companions):
        raise MalformedRecordError("more than one capture in a parcel")
    check_block(record)
    for one in companions:
        check_block(one)
        format_foreign_companion(one)  # the sender of an unreadable record is to blame for it
    deposit = deposit_of_record(record, record.url or "", tuple(companions))
    if payload_sha256(record) != deposit.capture.sha256:
        raise MalformedRecordError("the payload does not match its SHA-256")
    return deposit


Arrived = Checked | MalformedRecordError


def check_all(parcels: Iterable[bytes], bytes_max: int) -> list[Arrived]:
    """Of the first of these, as many as hold `bytes_max` together; none at all where the first holds more alone."""
    found: list[Arrived] = []
    left = bytes_max
    for data in parcels:
        try:
            one, size = checked(data, left)
        except MemberTooLargeError:
            break
        except MalformedRecordError as error:
            found.append(error)
            continue
        found.append(one)
        left -= size
    return found


def checked(data: bytes, bytes_max: int) -> tuple[Checked, int]:
    """And how many bytes it holds. MalformedRecordError as of `unpacked`."""
    plain = _as_it_came(data, bytes_max)
    if plain is not None:
        return plain
    deposit = unpacked(data, bytes_max)
    blocks = sum(len(one.block) for one in deposit.companions)
    size = len(deposit.capture.head) + len(deposit.capture.body) + blocks
    return Checked(deposit, signer_of(deposit)), max(len(data), size)


# A head as `format_bundle` writes it for what was crawled. Whether it is one, in each letter, is found out by writing
# it again: here it is only taken apart.
_PLAIN_HEAD = re.compile(
    rb"WARC/1\.1\r\nWARC-Type: response\r\nWARC-Record-ID: (<[!-;=?-~]{3,200}>)\r\n"
    rb"WARC-Date: ([-0-9]{10}T[:0-9]{8}Z)\r\nWARC-Target-URI: ([^\r\n]+)\r\n"
    rb"(?:WARC-IP-Address: ([^\r\n]+)\r\n)?WARC-Payload-Digest: [^\r\n]+\r\n"
    rb"Herodotus-Payload-Digest: [^\r\n]+\r\nWARC-Block-Digest: [^\r\n]+\r\n"
    rb"(?:WARC-Truncated: ([^\r\n]+)\r\n)?Content-Type: application/http;msgtype=response\r\n"
    rb"((?:Herodotus-(?:Signature|Door|Window|Helper): [^\r\n]+\r\n)*)Content-Length: \d{1,12}\r\n\r\n"
)


_PLAIN_FIELDS_MAX = 8
"""Of our own; there are four kinds."""


def _as_it_came(data: bytes, bytes_max: int) -> tuple[Checked, int] | None:
    """A parcel of members, each of one record, that hold to the byte what this archive would write for its capture.

    None where it is another: then `unpacked` says what it is. It is accepted only if writing the capture again would
    give the very same heads, digests among them: so keeping it and writing it again differ in the compression alone.
    """
    parts = plain_members(data, bytes_max, COMPANIONS_MAX)
    if parts is None:
        return None
    (member, content), *others = parts
    try:
        deposit = _plain_deposit(content, tuple(split_record(one)[0] for _, one in others))
        is_kept = deposit is not None and all(
            is_companion_as_written(one, record)
            for (_, one), record in zip(others, deposit.companions, strict=True)
        )
    except MalformedRecordError:
        return None
    if deposit is None or not is_kept:
        return None
    members = (member, *(one for one, _ in others))
    return Checked(deposit, signer_of(deposit), members), sum(len(one) for _, one in parts)


def _plain_deposit(content: bytes, companions: tuple[WarcRecord, ...]) -> Deposit | None:
    parsed = _PLAIN_HEAD.match(content, 0, HEAD_BYTES_MAX)
    if parsed is None or not content.endswith(b"\r\n\r\n"):
        return None
    record_id, date, url, address, truncated, more = (
        "" if part is None else part.decode("utf-8", "surrogateescape") for part in parsed.groups()
    )
    start, end = parsed.end(), len(content) - 4
    split = end_of_http_head(content, start, end)
    head, body = content[start:split], content[split:end]
    extra = [line.partition(": ")[::2] for line in more.split("\r\n")[:-1]]
    if len(extra) > _PLAIN_FIELDS_MAX:
        return None
    if any(value != value.strip() for value in (url, address, truncated, *(value for _, value in extra))):
        return None  # a reader of the record leaves out such spaces
    status, mime = parse_http_head(head)
    sha256, sha1 = payload_digests(body)
    capture = Capture(
        url=url,
        requested_at=float(parse_date(date)),
        duration_s=None,
        request=b"",
        status=status,
        head=head,
        body=body,
        sha256=sha256,
        sha1=sha1,
        remote_ip=address,
        truncated=truncated or None,
        mime=mime,
    )
    deposit = Deposit(capture=capture, extra=tuple(extra), companions=companions, foreign_id=record_id)
    return deposit if head and as_written(deposit) == content[:start] else None


def drop(
    archive: Archive,
    intake: Intake,
    low: bytes,
    high: bytes | None,
    may_go: Callable[[], bool] = lambda: True,
    only: Container[bytes] | None = None,
) -> int:
    """Drop captures that other peers hold now, without tombstones: those of a stretch, or `only` some of them, by
    their keys without family. Returns how many.

    Only the index forgets them. Their bytes go with the next compaction. An index that is rebuilt before that finds
    them again, and they are handed over again. `may_go` is asked while nothing can be stored. Nothing goes while a
    slice is missing: it may hold tombstones for the captures that would get the bodies.
    """
    total = 0
    while True:
        with archive.upkeep_lock:
            victims = _ids_in(archive, low, high, only)
            if not victims or archive.files.missing or not may_go():
                return total
            ids = [id_ for _, id_ in victims if id_ is not None]
            with intake.without(ids):
                move_bodies(archive, ids)  # remaining captures may refer to these
                with archive.lock:
                    if not may_go():
                        return total
                    _quarantine_unread(archive, victims)
                    archive.write(_forgetting(archive, victims))
                    archive.rewrites += 1
                    intake.forget()
        total += len(victims)


def _ids_in(
    archive: Archive, low: bytes, high: bytes | None, only: Container[bytes] | None
) -> list[tuple[bytes, CaptureId | None]]:
    """The first in a stretch; None for the ids of those that cannot be read."""
    reader = Reader(archive)
    meant = (
        row for row in archive.index.scan(*stretch(CAPTURE, low, high)) if only is None or row[0][1:] in only
    )
    rows = islice(meant, DROPPED_AT_ONCE)
    found = ((key, reader.record_at(key, value)) for key, value in rows)
    return [(key, None if one is None else one.id) for key, one in found]


def _quarantine_unread(archive: Archive, victims: Iterable[tuple[bytes, CaptureId | None]]) -> None:
    """The other holders promised theirs, and perhaps ours has something that theirs have not."""
    losses = Losses(archive)
    for key, id_ in victims:
        value = archive.index.get(key) if id_ is None else None
        if value is not None and decode_entry(value).place.file in archive.files.catalogue:
            losses.note(key, value, decode_entry(value), "damaged when other holders took it over")
    losses.put(is_elsewhere=True)


def _forgetting(archive: Archive, victims: Collection[tuple[bytes, CaptureId | None]]) -> IndexBatch:
    batch = IndexBatch()
    for key, id_ in victims:
        if archive.index.get(key) is None:
            continue
        batch.added -= 1
        batch.delete(key)
        batch.delete(family_key(VISITS, key))
        archive.forget_seen(batch, key)
        if id_ is not None:
            for kind in RowKind:
                batch.delete(payload_key(key, id_.digest, kind))
    return batch


def buried(archive: Archive, member: bytes) -> list[bytes]:
    """The index keys, without their family, of a member's captures that were deleted for good."""
    return [key[1:] for key, _ in archive.index.scan(*keys_of_member(member[:-1] + TOMBSTONE))]


T = TypeVar("T")


class ArchiveHoldings:
    """Implements `herodotus.store.Holdings`; it keeps nothing of its own, so any number may stand on one store."""

    def __init__(self, store: DiskStore) -> None:
        self._store = store
        self._archive = store.archive

    async def _read(self, job: Callable[[Archive], T]) -> T:
        return await self._store.workers.work(lambda: job(self._archive), READING)

    # -- changes ------------------------------------------------------------------------------------------

    @property
    def captures(self) -> int:
        return self._archive.captures

    @property
    def stamp(self) -> object:
        return self._archive.directories, self._archive.directories.changes

    @property
    def counted(self) -> tuple[int, int]:
        return self._archive.captures, self._archive.rewrites

    def listen(self, on_stored: OnStored, *, sign: Sign, acknowledge: Acknowledge | None = None) -> None:
        self._archive.sign, self._archive.on_stored, self._archive.has_signer = sign, on_stored, True
        if acknowledge is not None:
            self._store.acknowledge = acknowledge

    # -- what there is ------------------------------------------------------------------------------------

    async def digests(self, low: bytes, high: bytes | None) -> dict[int, bytes]:
        return await self._store.workers.work(lambda: digests_of(self._archive, low, high), UPKEEP)

    async def members(self, stretches: Sequence[Stretch]) -> list[bytes]:
        return await self._read(
            lambda archive: [one for pair in stretches for one in members_in(archive, *pair)]
        )

    async def keys(self, stretches: Sequence[Stretch], *, beside_others: bool = False) -> list[bytes]:
        asked = keys_beside_others if beside_others else keys_in
        return await self._read(lambda archive: [key for pair in stretches for key in asked(archive, *pair)])

    async def counts(self, stretches: Sequence[Stretch]) -> list[int]:
        return await self._read(lambda archive: [count_captures(archive, *pair) for pair in stretches])

    async def keys_of(self, members: Sequence[bytes]) -> set[bytes]:
        return await self._read(lambda archive: {key for one in members for key in keys_of(archive, one)})

    async def lacking(self, members: Sequence[bytes]) -> list[bytes]:
        return await self._read(lambda archive: [one for one in members if not has_member(archive, one)])

    async def held(self, keys: Sequence[bytes]) -> list[Held]:
        return await self._read(lambda archive: [_held(archive, key) for key in keys])

    async def has(self, contents: Sequence[tuple[bytes, bytes]]) -> list[bool]:
        return await self._read(lambda archive: _has(archive, contents))

    async def covered(self, subject: Subject, most: int) -> list[bytes]:
        return await self._read(lambda archive: covered_keys(archive, subject, most))

    def hide(self, removals: Removals) -> None:
        self._archive.removed = removals

    async def broken(self, noted: int, known: Iterable[bytes], *, may_scan: bool, most: int) -> Broken:
        return await self._read(lambda archive: _broken(archive, noted, known, may_scan=may_scan, most=most))

    # -- what travels -------------------------------------------------------------------------------------

    async def parcel(self, key: bytes, sign: Sign) -> Parcel | None:
        return await self._read(lambda archive: parcel_at(archive, key, sign))

    async def parcels(self, keys: Sequence[bytes], sign: Sign, bytes_max: int) -> list[Parcel | None]:
        return await self._read(lambda archive: parcels_at(archive, keys, sign, bytes_max))

    async def buried(self, member: bytes) -> list[bytes]:
        return await self._read(lambda archive: buried(archive, member))

    async def proofs(self, members: Sequence[bytes], question: bytes) -> list[list[Proof]]:
        return await self._read(lambda archive: [_proofs(archive, one, question) for one in members])

    async def tallies(self, low: bytes, high: bytes | None) -> list[tuple[bytes, bytes | None, int]]:
        digests = await self.digests(low, high)
        return await self._store.workers.work(
            lambda: _tallies(self._archive, Range(low, high), digests), UPKEEP
        )

    async def draw(self, places: Sequence[tuple[bytes, bytes | None, int]], take: TakeDraw) -> list[bytes]:
        found: list[bytes] = []
        for at in range(0, len(places), DRAWN_AT_ONCE):
            found += await self._read(partial(_draw, at, places[at : at + DRAWN_AT_ONCE], take))
        return found

    async def payloads(self, keys: Sequence[bytes], take: TakePayload) -> list[bytes]:
        return await self._read(lambda archive: _payloads(archive, keys, take))

    def spool(self) -> Spool:
        return self._archive.spool()

    async def append(self, spool: Spool, data: bytes | bytearray) -> None:
        await self._read(lambda _archive: spool.append(data))

    async def unpack(self, parcel: Lying, bytes_max: int) -> Deposit:
        return await self._read(lambda _archive: unpacked(parcel, bytes_max))

    async def check_all(self, parcels: Sequence[bytes], bytes_max: int) -> list[Arrived]:
        return await self._read(lambda _archive: check_all(parcels, bytes_max))

    async def check(self, parcel: Lying) -> Checked:
        return await self._read(lambda _archive: _check_large(parcel))

    async def take_all(self, arrivals: Sequence[Checked]) -> list[Taken | ArchiveError]:
        copies = [Copy(one.deposit, one.members, one.packed) for one in arrivals]
        stored = await self._store.store_all(copies)
        new: list[Deposit] = []
        unwanted: list[CaptureId] = []
        for one, copy in zip(stored, copies, strict=True):
            if not isinstance(one, Stored):
                continue
            if one.outcome is StoreOutcome.DELETED and not self._archive.is_deleted(capture_key(one.id)):
                unwanted.append(one.id)
            if one.outcome in NEW:
                new.append(copy.deposit)
        if unwanted:
            await self._store.decline(unwanted)
        if new and self._archive.lost_files.unnamed:
            for deposit in new:
                came(self._archive, deposit.id)
        disputed_ids = await self._read(lambda archive: _disputed_of(archive, new)) if new else set()
        return [
            Taken(one.outcome, one.outcome in NEW and one.id in disputed_ids)
            if isinstance(one, Stored)
            else one
            for one in stored
        ]

    # -- what goes ----------------------------------------------------------------------------------------

    async def room(self) -> Room:
        return await self._read(lambda archive: archive.room())

    async def has_room(self, size: int) -> bool:
        return await self._read(lambda archive: archive.has_room(size))

    async def drop(
        self, low: bytes, high: bytes | None, keys: Container[bytes], may_go: Callable[[], bool]
    ) -> int:
        return await self._read(lambda archive: drop(archive, self._store.intake, low, high, may_go, keys))

    async def release(self, keys: Collection[bytes]) -> None:
        await self._store.workers.work(lambda: release(self._archive, frozenset(keys)), UPKEEP)

    @property
    def lost(self) -> int:
        return self._archive.lost_files.waiting

    async def compared_with_all(self, is_ours: Callable[[bytes], bool]) -> None:
        await self._read(lambda archive: look(archive, is_ours))

    async def compact(self) -> None:
        await self._store.compact()


def digests_of(archive: Archive, low: bytes, high: bytes | None) -> dict[int, bytes]:
    with archive.lock:
        return archive.directories.digests(low, high)


def _held(archive: Archive, key: bytes) -> Held:
    if archive.is_deleted(CAPTURE + key):
        return Held.DELETED
    return Held.LACKING if archive.index.get(CAPTURE + key) is None else Held.HERE


def _has(archive: Archive, contents: Sequence[tuple[bytes, bytes]]) -> list[bool]:
    reader = Reader(archive)
    found: list[bool] = []
    for key, sha256 in contents:
        value = archive.index.get(CAPTURE + key)
        capture = None if value is None else reader.record_at(CAPTURE + key, value)
        found.append(capture is not None and capture.id.digest == sha256)
    return found


def _proofs(archive: Archive, member: bytes, nonce: bytes) -> list[Proof]:
    reader = Reader(archive)
    found: list[Proof] = []
    for key, value in archive.index.scan(*keys_of_member(member[:-1] + CAPTURE)):
        capture = reader.try_read(key, value)
        if capture is not None and len(found) < VERSIONS_MAX:
            proof = prove(nonce, capture.id.digest, capture.payload)
            found.append(Proof(time_s=capture.time_s, digest=capture.id.digest, proof=proof))
        del capture  # not held beside the next: each may be large
    return found


def _tallies(
    archive: Archive, within: Range, digests: Mapping[int, bytes]
) -> list[tuple[bytes, bytes | None, int]]:
    parts = [(in_directory(directory, 2, within), digests[directory]) for directory in sorted(digests)]
    return [(*part, archive.directories.count(*part, digest)) for part, digest in parts]


def _draw(
    first: int, places: Sequence[tuple[bytes, bytes | None, int]], take: TakeDraw, archive: Archive
) -> list[bytes]:
    found: list[bytes] = []
    for number, (low, high, rank) in enumerate(places, first):
        captures = (one for one in archive.directories.members(low, high) if one[-1:] == CAPTURE)
        member = next(islice(captures, rank, None), b"")
        keys = keys_of(archive, member)[:VERSIONS_MAX] if member else []
        is_whole = not _payloads(archive, keys, partial(take, number))
        found.append(member if is_whole else b"")
    return found


def _payloads(archive: Archive, keys: Sequence[bytes], take: TakePayload) -> list[bytes]:
    reader, missing = Reader(archive), list[bytes]()
    for key in keys:
        value = archive.index.get(CAPTURE + key)
        capture = None if value is None else reader.try_read(CAPTURE + key, value)
        if capture is None:
            missing.append(key)
        else:
            take(capture.id.digest, capture.payload)
    return missing


def _check_large(parcel: Lying) -> Checked:
    deposit, packed = check_large(parcel, MEMBER_BYTES_MAX)
    return Checked(deposit, signer_of(deposit), None, packed)


def _disputed_of(archive: Archive, deposits: Iterable[Deposit]) -> set[CaptureId]:
    return {one.id for one in deposits if _is_disputed(archive, one)}


def _is_disputed(archive: Archive, deposit: Deposit) -> bool:
    """Does somebody else vouch for another content of that day? Most days have one capture: then nothing is read."""
    start, end = keys_of_member(member_of(capture_key(deposit.id)))
    entries = list(islice(archive.index.scan(start, end), VERSIONS_MAX))
    if len(entries) < 2:
        return False
    of_day = (Reader(archive).try_read(key, value) for key, value in entries)
    # Without the bodies: one URL may have many large contents on a day.
    return deposit.id in disputed([_Vouched(one.id, one.voucher) for one in of_day if one is not None])


class _Vouched(NamedTuple):
    id: CaptureId
    voucher: str


def _broken(archive: Archive, noted: int, known: Iterable[bytes], *, may_scan: bool, most: int) -> Broken:
    count = archive.counters.damaged
    is_scan = may_scan and count != noted
    if not is_scan:
        entries = ((key, archive.index.get(key)) for key in sorted(known))
    else:
        entries = ((key, value) for key, value in archive.index.scan(CAPTURE, after(CAPTURE)))
    # What lies in quarantine has no row to be found by.
    broken = list(dict.fromkeys(islice(archive.quarantine.keys(), most)))
    damage = _Damage(archive)
    for key, value in entries:
        if value is not None and damage.is_in(decode_entry(value).place):
            if len(broken) >= most:
                return Broken(noted, broken, is_scan)
            broken.append(key)
    return Broken(count if is_scan else noted, broken, is_scan)


class _Damage:
    """Where members were found damaged: a capture's own, or one beside it."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._offsets: defaultdict[str, list[int]] = defaultdict(list)
        for path, offset in sorted(archive.damage):
            self._offsets[path].append(offset)

    def is_in(self, place: FilePlace) -> bool:
        if place.file not in self._archive.files.catalogue or not self._offsets:
            return False
        offsets = self._offsets.get(self._archive.files.path(place.file), [])
        at = bisect_left(offsets, place.offset)
        return at < len(offsets) and offsets[at] < place.end
