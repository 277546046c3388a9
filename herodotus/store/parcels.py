"""What do other peers ask of this archive, and what does it take from them? Members, parcels, and dropped copies.

A parcel is one capture as it travels: a gzip member to the record, the capture's own first, with its whole body. From
the log it is copied byte by byte. A capture that shares a frame with others, or refers to another record for its
body, is assembled. No parcel is trusted: `unpacked` checks every digest.
"""

from collections.abc import Callable, Collection, Iterable, Iterator

from herodotus.core.bundles import format_foreign_companion
from herodotus.core.captures import CaptureId, Deposit, deposit_of_record, payload_sha256
from herodotus.core.digests import keys_of_member, member_of
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import (
    CAPTURE,
    KEY_BYTES,
    TOMBSTONE,
    VISITS,
    RowKind,
    after,
    decode_entry,
    family_key,
    payload_key,
)
from herodotus.core.warc import WarcRecord, check_block, split_records
from herodotus.store.deletion import TOMBSTONES_PER_RECORD, delete, deposit_of_stored, move_bodies
from herodotus.store.engine import Archive
from herodotus.store.faces import Parcel, Sign
from herodotus.store.index import IndexBatch
from herodotus.store.intake import Intake, compress_bundle
from herodotus.store.items import NewTombstones
from herodotus.store.members import MEMBER_BYTES_MAX, scan_members
from herodotus.store.reader import Reader
from herodotus.store.stored_records import PRIMARY

DROPPED_AT_ONCE = 1_000
"""Captures that go under one lock: others wait a tenth of a second at most."""
COMPANIONS_MAX = 256


def members_in(archive: Archive, low: bytes, high: bytes | None) -> list[bytes]:
    """Captures before tombstones, either in order of position and day."""
    return list(archive.directories.members(low, high))


def count_captures(archive: Archive, low: bytes, high: bytes | None) -> int:
    end = after(CAPTURE) if high is None else CAPTURE + high[:KEY_BYTES]
    return sum(1 for _ in archive.index.scan(CAPTURE + low[:KEY_BYTES], end))


def keys_in(archive: Archive, low: bytes, high: bytes | None) -> list[bytes]:
    """Of all captures, without their family."""
    end = after(CAPTURE) if high is None else CAPTURE + high[:KEY_BYTES]
    return [key[1:] for key, _ in archive.index.scan(CAPTURE + low[:KEY_BYTES], end)]


def keys_beside_others(archive: Archive, low: bytes, high: bytes | None) -> list[bytes]:
    """Of the captures that are not their URL's only one of a day, without their family."""
    return [key for member in archive.directories.several(low, high) for key in keys_of(archive, member)]


def member_after(archive: Archive, position: bytes, high: bytes | None) -> bytes | None:
    """The first member with a capture from a position on."""
    end = after(CAPTURE) if high is None else CAPTURE + high[:KEY_BYTES]
    found = next(archive.index.scan(CAPTURE + position[:KEY_BYTES], end), None)
    return None if found is None else member_of(found[0])


def has_member(archive: Archive, member: bytes) -> bool:
    """Also when it was here and was deleted for good: then it is not wanted."""
    if _first(archive, member) is not None:
        return True
    return archive.has_tombstones and _first(archive, member[:-1] + TOMBSTONE) is not None


def _first(archive: Archive, member: bytes) -> tuple[bytes, bytes] | None:
    return next(archive.index.scan(*keys_of_member(member)), None)


def parcels_of(archive: Archive, member: bytes, sign: Sign) -> Iterator[Parcel]:
    """The readable captures of a member."""
    for key, value in archive.index.scan(*keys_of_member(member)):
        parcel = _parcel(archive, key, value, sign)
        if parcel is not None:
            yield parcel


def parcel_at(archive: Archive, key: bytes, sign: Sign) -> Parcel | None:
    """`key` is of an index entry, without its family. None when it is not here, or broken."""
    value = archive.index.get(CAPTURE + key)
    return None if value is None else _parcel(archive, CAPTURE + key, value, sign)


def _parcel(archive: Archive, key: bytes, value: bytes, sign: Sign) -> Parcel | None:
    """The sender of an unsigned capture vouches for it, as if it had brought it in."""
    capture = Reader(archive).try_read(key, value)
    if capture is None:
        return None
    deposit = deposit_of_stored(capture)
    vouched = sign(deposit)
    data = _as_it_lies(archive, key) if vouched is deposit and not capture.is_revisit else None
    if data is None:
        data = b"".join(compress_bundle(vouched, None))
    return Parcel(id=capture.id, data=data)


def keys_of(archive: Archive, member: bytes) -> list[bytes]:
    """Of the captures of a member, without their family."""
    return [key[1:] for key, _ in archive.index.scan(*keys_of_member(member))]


def _as_it_lies(archive: Archive, key: bytes) -> bytes | None:
    """None when it shares its place with others, or has moved since."""
    value = archive.index.get(key)
    entry = None if value is None else decode_entry(value)
    located = None if entry is None else archive.files.catalogue.get(entry.place.file)
    if entry is None or located is None or not located.name.is_log:
        return None
    try:
        return archive.files.read(entry.place)
    except FileNotFoundError:
        return None


def unpacked(data: bytes, bytes_max: int = MEMBER_BYTES_MAX) -> Deposit:
    """Raises MalformedRecordError at anything that does not fit, and where all of it is more than `bytes_max`."""
    records: list[WarcRecord] = []
    left = bytes_max
    for _, _, content in scan_members(
        lambda at, length: data[at : at + length], 0, len(data), bytes_max=bytes_max
    ):
        left -= len(content)
        if left < 0:
            raise MalformedRecordError(f"the parcel holds more than {bytes_max} bytes")
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
    if payload_sha256(record) != deposit.sha256:
        raise MalformedRecordError("the payload does not match its SHA-256")
    return deposit


def drop(
    archive: Archive,
    intake: Intake,
    low: bytes,
    high: bytes | None,
    may_go: Callable[[], bool] = lambda: True,
) -> int:
    """Drop captures that other peers hold now, without tombstones. Returns how many.

    Only the index forgets them. Their bytes go with the next compaction. An index that is rebuilt before that finds
    them again, and they are handed over again. `may_go` is asked while nothing can be stored. Nothing goes while a
    slice is missing: it may hold tombstones for the captures that would get the bodies.
    """
    total = 0
    while True:
        with archive.upkeep_lock:
            victims = _ids_in(archive, low, high)
            if not victims or archive.files.missing or not may_go():
                return total
            ids = [id_ for _, id_ in victims if id_ is not None]
            with intake.without(ids):
                move_bodies(archive, ids)  # remaining captures may refer to these
                with archive.lock:
                    if not may_go():
                        return total
                    archive.write(_forgetting(archive, victims))
                    archive.rewrites += 1
                    intake.forget()
        total += len(victims)


def bury(archive: Archive, intake: Intake, keys: Collection[bytes]) -> int:
    """Delete for good the captures that the other holders have deleted. `keys` are of index entries, without their
    family. Returns how many captures went."""
    count = 0
    with archive.upkeep_lock:
        while True:
            count += delete(archive, intake, _ids_at(archive, keys))
            with archive.lock:
                if _ids_at(archive, keys):
                    continue  # stored meanwhile
                others = [unread_id(key) for key in keys if archive.index.get(TOMBSTONE + key) is None]
                for at in range(0, len(others), TOMBSTONES_PER_RECORD):
                    archive.commit([NewTombstones(ids=tuple(others[at : at + TOMBSTONES_PER_RECORD]))])
                return count


def _ids_at(archive: Archive, keys: Iterable[bytes]) -> list[CaptureId]:
    """The ids of the captures that are here and can be read."""
    reader = Reader(archive)
    values = ((CAPTURE + key, archive.index.get(CAPTURE + key)) for key in keys)
    found = (reader.id_at(key, value) for key, value in values if value is not None)
    return [id_ for id_ in found if id_ is not None]


def _ids_in(archive: Archive, low: bytes, high: bytes | None) -> list[tuple[bytes, CaptureId | None]]:
    reader = Reader(archive)
    end = after(CAPTURE) if high is None else CAPTURE + high[:KEY_BYTES]
    found: list[tuple[bytes, CaptureId | None]] = []
    for key, value in archive.index.scan(CAPTURE + low[:KEY_BYTES], end):
        found.append((key, reader.id_at(key, value)))
        if len(found) >= DROPPED_AT_ONCE:
            break
    return found


def _forgetting(archive: Archive, victims: Collection[tuple[bytes, CaptureId | None]]) -> IndexBatch:
    batch = IndexBatch()
    for key, id_ in victims:
        if archive.index.get(key) is None:
            continue
        batch.added -= 1
        batch.delete(key)
        batch.delete(family_key(VISITS, key))
        if id_ is not None:
            for kind in RowKind:
                batch.delete(payload_key(key, id_.digest, kind))
    return batch


def buried(archive: Archive, member: bytes) -> list[bytes]:
    """The index keys, without their family, of a member's captures that were deleted for good."""
    return [key[1:] for key, _ in archive.index.scan(*keys_of_member(member[:-1] + TOMBSTONE))]


def unread_id(key: bytes) -> CaptureId:
    """Of an index key without its family: as much as a tombstone of a capture that is not here can say."""
    position, time_s, variant = key[:KEY_BYTES], key[KEY_BYTES : KEY_BYTES + 4], key[KEY_BYTES + 4 :]
    return CaptureId(
        key=position.ljust(20, b"\0"), time_s=int.from_bytes(time_s, "big"), digest=variant.ljust(32, b"\0")
    )
