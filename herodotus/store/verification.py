"""Is everything that the archive says it has really there and unharmed?

Every file is read from its first byte to its last: checksums, digests, payloads. Then the index is compared with the
files, and revisits without their original are listed. Repairing rebuilds the index and reports which captures must
come from another copy.
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import groupby

from herodotus.core.errors import DamagedRecordError, MalformedRecordError
from herodotus.core.index_rows import (
    CAPTURE,
    PAYLOAD,
    PAYLOAD_PREFIX_BYTES,
    TOMBSTONE,
    FilePlace,
    IndexEntry,
    RowKind,
    after,
    capture_key,
    decode_entry,
    family_key,
)
from herodotus.core.lost_files import LostFile
from herodotus.core.warc import decode_digest
from herodotus.store.companions import is_list_right, make_list
from herodotus.store.engine import DAMAGE_MAX, Archive, Damage
from herodotus.store.losses import settle
from herodotus.store.mending import look
from herodotus.store.notes import note_places
from herodotus.store.reader import Reader
from herodotus.store.recovery import notice, rebuild
from herodotus.store.resync import Search
from herodotus.store.scan import ScanProgress, scan_file
from herodotus.store.stored_records import StoredCapture

Report = Callable[[str, int, int], None]
"""Path, bytes done, bytes altogether."""


@dataclass(slots=True, kw_only=True)
class Verification:
    files: int = 0
    records: int = 0
    bytes: int = 0
    damage: list[Damage] = field(default_factory=list)
    """Of which the first 10,000 are named."""
    damaged: int = 0
    orphans: int = 0
    """Damaged, too: whole revisits with a damaged original."""
    missing: int = 0
    """The index knows them, no file has them: captures, and notes of visits and deletions. With those that are lost."""
    lost: int = 0
    """Captures that went with files that are gone or too short, and are not back."""
    losses: list[LostFile] = field(default_factory=list)
    lists: list[str] = field(default_factory=list)
    """Of captures, beside segments: they were gone or other than when they were written, and are made again."""
    unknown: int = 0
    """A file has them, the index does not."""
    quarantined: int = 0
    """Captures that lie damaged in quarantine and are not whole again."""
    foreign: tuple[str, ...] = ()
    """Files in our folders that are none of ours: left alone."""
    is_repaired: bool = False

    @property
    def is_sound(self) -> bool:
        return not (self.damaged or self.missing or self.unknown or self.lost or self.quarantined)


def verify(
    archive: Archive, *, repair: bool = False, report: Report = lambda path, done, total: None
) -> Verification:
    """Reading and storing continue meanwhile; sealing waits."""
    with archive.upkeep_lock:
        found = Verification()
        notice(archive)
        with archive.lock:
            ends = {number: archive.files.size(number) for number in sorted(archive.files.catalogue)}
            if archive.log.is_open:
                ends[archive.log.number] = archive.log.tail
        seen = _Seen(ends, archive.files.catalogue, archive.log.number)
        for number, end in ends.items():
            _verify_file(archive, number, end, found, seen, report)
            if not is_list_right(archive, number) and make_list(archive, number):
                found.lists.append(archive.files.catalogue[number].name.cdxj)
        found.missing = sum(
            seen.misses(decode_entry(value).place) for _, value in archive.index.scan(CAPTURE, after(CAPTURE))
        )
        found.missing += sum(seen.misses(FilePlace(*place, 0)) for place in note_places(archive))
        for orphan in _orphans(archive, seen):
            found.orphans += 1
            _note(archive, orphan.place.file, orphan.place.offset, "its original is not here", found)
        with archive.lock:  # or a log that is begun meanwhile would be forgotten again
            archive.files.load()
        found.foreign = tuple(archive.files.foreign)
        settle(archive)
        found.quarantined = archive.quarantine.captures
        look(archive)
        found.losses, found.lost = list(archive.lost_files.open), archive.lost_files.waiting
        found.missing += found.lost
        if repair and not found.is_sound:
            rebuild(archive)
            found.is_repaired = True
        return found


class _Seen:
    """Where captures and notes were found: eight bytes each, ascending within a file."""

    def __init__(self, ends: Mapping[int, int], catalogue: Container[int], log: int) -> None:
        self._ends = ends
        self._log = log
        self._catalogue = catalogue
        self._places: dict[int, array[int]] = {number: array("Q") for number in ends}
        self.unsound: set[FilePlace] = set()
        """Captures that seem damaged, only the first of them: each is read again before it is reported."""

    def add(self, place: FilePlace) -> None:
        self._places[place.file].append(place.offset << 32 | place.skip)

    def misses(self, place: FilePlace) -> bool:
        """Captures stored since verifying began are not looked for."""
        if place.file not in self._ends:
            return place.file not in self._catalogue
        if place.file == self._log and place.offset >= self._ends[place.file]:
            return False
        of_file = self._places[place.file]
        wanted = place.offset << 32 | place.skip
        at = bisect_left(of_file, wanted)
        return at == len(of_file) or of_file[at] != wanted


def _orphans(archive: Archive, seen: _Seen) -> Iterator[IndexEntry]:
    """Revisits without a body. Where one may be missing they are read, which looks everywhere for it."""
    reader = Reader(archive)
    payloads = archive.index.scan(PAYLOAD, after(PAYLOAD))
    for prefix, group in groupby(payloads, key=lambda found: found[0][:PAYLOAD_PREFIX_BYTES]):
        if not any(key[PAYLOAD_PREFIX_BYTES] == RowKind.REVISIT for key, _ in group):
            continue
        for key, value in reader.entries_of_payload(prefix[1], prefix[2:]):
            entry = decode_entry(value)
            if (
                entry.kind is RowKind.BODY
                and not seen.misses(entry.place)
                and _short(entry.place) not in seen.unsound
            ):
                break
            if (
                entry.kind is RowKind.REVISIT
                and not seen.misses(entry.place)
                and not _is_readable(reader, key, entry)
            ):
                yield entry


def _short(place: FilePlace) -> FilePlace:
    return place._replace(length=0)


def _is_readable(reader: Reader, key: bytes, entry: IndexEntry) -> bool:
    try:
        reader.read_entry(key, entry)
    except DamagedRecordError:
        return False
    except FileNotFoundError:
        return True  # missing itself, and counted as that
    return True


def _verify_file(
    archive: Archive,
    number: int,
    end: int,
    found: Verification,
    seen: _Seen,
    report: Report,
) -> None:
    found.files += 1
    found.bytes += end
    path = archive.files.path(number)
    progress = ScanProgress()
    search = Search(archive.files, number)
    start = 0
    while start < end:
        try:
            for one in scan_file(archive.files, number, start, end, progress, is_thorough=True):
                found.records += 1
                report(path, one.place.end, end)
                seen.add(one.place)
                if isinstance(one, StoredCapture):
                    _verify_capture(archive, one, found, seen)
            start = end
        except MalformedRecordError as error:
            _note(archive, number, progress.whole_to, error.reason, found)
            following = search.next_whole(progress.whole_to + 1, end)
            start = end if following is None else following


def _verify_capture(archive: Archive, capture: StoredCapture, found: Verification, seen: _Seen) -> None:
    key = capture_key(capture.id)
    if archive.index.get(key) is None and archive.index.get(family_key(TOMBSTONE, key)) is None:
        found.unknown += 1
    try:
        check_payload(capture, archive.digest_of)
    except MalformedRecordError as error:
        _note(archive, capture.place.file, capture.place.offset, error.reason, found)
        if len(seen.unsound) < DAMAGE_MAX:
            seen.unsound.add(_short(capture.place))


def check_payload(capture: StoredCapture, digest_of: Callable[[bytes], bytes]) -> None:
    """Its own digests, which agree with the block's unless one was forged."""
    if capture.is_revisit:
        return
    if capture.payload_digest(digest_of) != capture.id.digest:
        raise MalformedRecordError("the payload does not match its SHA-256")
    name, _, value = (capture.sha1 or "").partition(":")
    stated = decode_digest(value, 20) if name == "sha1" else None
    if stated is not None and capture.payload_sha1 != stated:
        raise MalformedRecordError("the payload does not match its SHA-1")


def _note(archive: Archive, number: int, offset: int, reason: str, found: Verification) -> None:
    found.damaged += 1
    if len(found.damage) < DAMAGE_MAX:
        found.damage.append(Damage(path=archive.files.path(number), offset=offset, reason=reason))
    archive.note_damage(number, offset, reason)
