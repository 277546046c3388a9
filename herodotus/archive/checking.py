"""Is everything that the archive says it has really there and unharmed?

Every file is read from its first byte to its last: checksums, digests, payloads. Then the index is compared
with what was found. Repairing makes the index anew and tells which captures must come from another copy.
"""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field

from herodotus.archive.engine import Archive, Damage
from herodotus.archive.recovery import rebuild
from herodotus.archive.scan import Bundle, Progress, check_payload, scan_bundles
from herodotus.core.archive_errors import MalformedRecordError
from herodotus.core.entries import CAPTURE, TOMBSTONE, Place, after, capture_key, decode_entry, family_key

Report = Callable[[str, int, int], None]
"""Path, bytes done, bytes altogether."""


@dataclass(slots=True, kw_only=True)
class Verification:
    files: int = 0
    records: int = 0
    bytes: int = 0
    damage: list[Damage] = field(default_factory=list)
    missing: int = 0
    """The index knows them, no file has them."""
    unknown: int = 0
    """A file has them, the index does not."""
    foreign: tuple[str, ...] = ()
    """Files in our folders that are none of ours: left alone."""
    is_repaired: bool = False

    @property
    def is_sound(self) -> bool:
        return not (self.damage or self.missing or self.unknown)


def verify(
    archive: Archive, *, repair: bool = False, report: Report = lambda path, done, total: None
) -> Verification:
    """Reading and storing go on meanwhile; sealing waits."""
    with archive.upkeep_lock:
        found = Verification()
        places: set[tuple[int, int, int]] = set()
        with archive.lock:
            ends = {number: archive.files.size(number) for number in sorted(archive.files.catalogue)}
            if archive.log.is_open:
                ends[archive.log.number] = archive.log.tail
        for number, end in ends.items():
            _verify_file(archive, number, end, found, places, report)
        found.missing = sum(
            1
            for _, value in archive.index.scan(CAPTURE, after(CAPTURE))
            if _is_missing(decode_entry(value).place, ends, places, archive.files.catalogue)
        )
        with archive.lock:  # or a log that is begun meanwhile would be forgotten again
            archive.files.load()
        found.foreign = tuple(archive.files.foreign)
        if repair and not found.is_sound:
            rebuild(archive)
            found.is_repaired = True
        return found


def _is_missing(
    place: Place, ends: Mapping[int, int], places: set[tuple[int, int, int]], catalogue: Container[int]
) -> bool:
    """What was stored since verifying began is not looked for."""
    if place.file not in ends:
        return place.file not in catalogue
    return place.offset < ends[place.file] and (place.file, place.offset, place.skip) not in places


def _verify_file(
    archive: Archive,
    number: int,
    end: int,
    found: Verification,
    places: set[tuple[int, int, int]],
    report: Report,
) -> None:
    found.files += 1
    found.bytes += end
    path = archive.files.path(number)
    progress = Progress()
    start = 0
    while start < end:
        try:
            for bundle in scan_bundles(
                lambda at, n: archive.files.read_at(number, at, n),
                start,
                end,
                progress,
                dictionary=archive.files.dictionary(number),
                is_thorough=True,
            ):
                found.records += 1
                report(path, bundle.end, end)
                if bundle.id is None:
                    continue
                places.add((number, bundle.offset, bundle.skip))
                _verify_capture(archive, number, bundle, found)
            start = end
        except MalformedRecordError as error:
            _note(archive, number, progress.whole_to, error.reason, found)
            start = archive.files.find(
                number, archive.files.catalogue[number].name.codec.magic, progress.whole_to + 1, end
            )


def _verify_capture(archive: Archive, number: int, bundle: Bundle, found: Verification) -> None:
    assert bundle.id is not None
    key = capture_key(bundle.id)
    if archive.index.get(key) is None and archive.index.get(family_key(TOMBSTONE, key)) is None:
        found.unknown += 1
    try:
        check_payload(bundle.record, bundle.id, archive.digest_of)
    except MalformedRecordError as error:
        _note(archive, number, bundle.offset, error.reason, found)


def _note(archive: Archive, number: int, offset: int, reason: str, found: Verification) -> None:
    found.damage.append(Damage(path=archive.files.path(number), offset=offset, reason=reason))
    archive.note_damage(number, offset, reason)
