"""How does the log become ring-ordered segments, and how do segments get rid of deleted captures?

Both are one operation: take the live captures of some files, in key order, write new segments, and put them in place
of the old files at once. Storing and reading continue meanwhile; the lock is held only to begin and to swap. A
capture that was deleted while its copy was being written stays deleted: the index changes only where it still has the
value that was read.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, islice

from herodotus.core.cdxj import mime_of_line
from herodotus.core.errors import (
    DamagedRecordError,
    IndexFailedError,
    MalformedRecordError,
    StoreRefusedError,
    UpkeepStoppedError,
)
from herodotus.core.index_rows import (
    AUXILIARY,
    BUCKETS,
    CAPTURE,
    IndexEntry,
    RowKind,
    after,
    auxiliary_key,
    auxiliary_place,
    decode_entry,
    encode_entry,
    encode_numbers,
)
from herodotus.core.layout import CDXJ_BYTES_MAX, Compression, FileName
from herodotus.store.disk import read_file, sync_folder
from herodotus.store.engine import EPOCH_KEY, Archive
from herodotus.store.free_space import find_room, grown
from herodotus.store.index import IndexBatch
from herodotus.store.intake import is_compressed
from herodotus.store.journal import is_decided, settle_journals, write_journal
from herodotus.store.large_captures import LargeCapture
from herodotus.store.losses import Losses, settle
from herodotus.store.members import Dictionary, check_members
from herodotus.store.missing_files import settle_manifest
from herodotus.store.notes import SortedNotes
from herodotus.store.reader import MemberCache
from herodotus.store.salvage import salvaged, whole_parts
from herodotus.store.segments import (
    PACK_BYTES_MAX,
    PACK_VERSIONS_MAX,
    URL_BYTES,
    Lines,
    Moving,
    Row,
    SegmentWriter,
)
from herodotus.store.stored_records import StoredCapture

DEAD_MIN = 0.25  # rewriting a file for less moves three live bytes for each that it frees
INDEX_BATCH = 5_000
COMPACTED_BYTES_MAX = 1024 * 1024 * 1024

SAMPLES_MAX = 4_000  # a second of training; more teaches little

Pace = Callable[[int], None]
"""Called with the bytes just moved; a rate limit waits inside it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sealed:
    files_before: int
    files_after: int
    captures: int
    bytes_before: int
    bytes_after: int
    copied: int
    """Captures whose members were copied unchanged."""
    skipped: int
    """Damaged records, which stay out of the new files (and in the damage report), and go into quarantine."""


NOTHING = Sealed(
    files_before=0, files_after=0, captures=0, bytes_before=0, bytes_after=0, copied=0, skipped=0
)


def seal(archive: Archive, pace: Pace = lambda moved: None) -> Sealed:
    """Turn everything stored so far into segments."""
    with archive.upkeep_lock:
        settle(archive)  # what was stored again is in the log now, and not any more when it was sealed
        with archive.lock:
            archive.roll()
            inputs = [log for log in archive.files.logs() if log != archive.log.number]
            inputs = [log for log in inputs if log not in archive.files.unreadable]
        return _Merge(archive, {log: archive.files.size(log) for log in inputs}, pace).run()


def compact(archive: Archive, dead_min: float = DEAD_MIN, pace: Pace = lambda moved: None) -> Sealed:
    """Rewrite the segments of which a good part is dead: the deadest first, and not all at once, as old and new
    are on the disk together until the end. Call it again until nothing is left."""
    with archive.upkeep_lock:
        shares = dead_shares(archive)
        for number in archive.rotten_files() & shares.keys():
            shares[number] = max(shares[number], dead_min)
        for number in archive.files.unreadable:
            shares.pop(number, None)
        live: dict[int, int] = {}
        size = 0
        room = sum(archive.free_on(slice_) for slice_ in archive.files.present)
        for number in sorted((n for n in shares if shares[n] >= dead_min), key=lambda n: (-shares[n], n)):
            own = archive.files.size(number)
            size += own
            kept = int(own * (1 - shares[number]))
            if live and (size > COMPACTED_BYTES_MAX or grown(sum(live.values()) + kept) > room):
                break
            live[number] = kept
        return _Merge(archive, live, pace).run() if live else NOTHING


def dead_shares(archive: Archive) -> dict[int, float]:
    """How much of each segment nobody can reach any more; counted, so no crash unbalances it."""
    live: Counter[int] = Counter()
    for _, value in archive.index.scan(CAPTURE, after(CAPTURE)):
        live[decode_entry(value).place.file] += 1
    shares = {}
    for number in archive.files.segments():
        located = archive.files.catalogue[number]
        try:
            lines = read_file(archive.files.disk(located.slice), located.name.cdxj, CDXJ_BYTES_MAX).count(
                b"\n"
            )
        except FileNotFoundError:
            continue
        shares[number] = 1 - live[number] / lines if lines else 0.0
    return shares


class _Merge:
    def __init__(self, archive: Archive, live: Mapping[int, int], pace: Pace) -> None:
        """`live` are the files that go in, and how many of their bytes are to be written again."""
        self._archive = archive
        self._files = archive.files
        self._live = live
        self._inputs = frozenset(live)
        self._slices: dict[int, int] = {}
        self._pace = pace
        self._cache = MemberCache(archive.files, reads_ahead=True)
        self._lines = Lines(archive)
        self._copied = 0
        self._dictionaries: dict[int, Dictionary | None] = {}
        self._writers: list[SegmentWriter] = []
        self._auxiliary: list[tuple[int, int]] = []
        self._skipped = 0
        self._losses = Losses(archive)
        self._epoch = 0
        self._segment_is_full_at = archive.settings.segment_bytes_max * 15 // 16

    def run(self) -> Sealed:
        """StoreRefusedError when a disk fails or is full, UpkeepStoppedError when the pace says so: then all is as
        it was, and the unfinished files go."""
        if not self._inputs:
            return NOTHING
        if self._archive.refusal is not None:
            raise StoreRefusedError(self._archive.refusal)
        with self._archive.writing_index():
            return self._run()

    def _run(self) -> Sealed:
        try:
            with SortedNotes(self._archive, self._inputs, self._pace) as notes:
                installs = self._write_all(notes)
                self._skipped += notes.skipped
                self._losses.note_notes(notes.damaged)
            self._check_readable()
            # Durable before anything is decided: whatever happens next, one of the two places has them.
            self._losses.put()
        except OSError as error:
            self._give_up()
            raise StoreRefusedError(f"no segment can be written: {error.strerror}") from error
        except (UpkeepStoppedError, IndexFailedError, StoreRefusedError):
            self._give_up()
            raise
        return self._swap(installs)

    def _check_readable(self) -> None:
        """The disk may read an unreadable file tomorrow, so the file stays, but is not an input again until the next
        opening."""
        for number in sorted(self._inputs & self._files.unreadable):
            raise StoreRefusedError(f"{self._files.path(number)} could not be read: it stays as it is")

    def _give_up(self) -> None:
        for writer in self._writers:
            writer.give_up()

    def _write_all(self, notes: SortedNotes) -> list[tuple[int, str]]:
        # The index's knowledge of the inputs is durable before they go: visits are counted once and for all.
        self._archive.flush_index()
        # Also above epochs that left no file, when all their captures were deleted: the index has heard of
        # them, and would take a segment of the same number for one it knows.
        known = max(located.name.epoch for located in self._files.catalogue.values())
        self._epoch = 1 + max(known, self._archive.epoch, self._archive.manifest.epoch)
        self._slices = find_room(self._archive, self._epoch, self._live, self._counted)
        for bucket in range(BUCKETS):
            self._merge_bucket(bucket, notes.of_bucket(bucket))
        installs = [pair for writer in self._writers for pair in writer.finish()]
        for slice_, folder in sorted({(slice_, path.rpartition("/")[0]) for slice_, path in installs}):
            sync_folder(self._files.disk(slice_), folder)
        return installs

    def _counted(self) -> dict[int, int]:
        """The bytes of each bucket that are written again."""
        counted = {}
        for bucket in range(BUCKETS):
            groups = self._versions(*_bounds(bucket))
            members = ({entry.place[:2]: entry.place.length for _, _, entry in group} for group in groups)
            counted[bucket] = sum(sum(lengths.values()) for lengths in members)
        return counted

    # -- what goes in -------------------------------------------------------------------------------------

    def _merge_bucket(self, bucket: int, notes: Iterator[bytes]) -> None:
        writer: SegmentWriter | None = None
        for group in self._versions(*_bounds(bucket)):
            if writer is None or writer.size >= self._segment_is_full_at:
                writer = self._begin(bucket)
            before = writer.size
            self._write_versions(writer, self._copy_members(writer, group))
            self._pace(writer.size - before)
        for note in notes:
            if writer is None or writer.size >= self._segment_is_full_at:
                writer = self._begin(bucket)
            before = writer.size
            self._auxiliary.append((writer.name.number, writer.add_note(note)))
            self._pace(writer.size - before)

    def _versions(self, start: bytes, end: bytes) -> Iterator[list[Row]]:
        """The captures to move, those of one URL together."""
        found = (
            Row(key, value, entry)
            for key, value in self._archive.index.scan(start, end)
            if (entry := decode_entry(value)).place.file in self._inputs
        )
        # The index is read in the order of its keys: a merge of any number of files costs no sort and little memory.
        for _, group in groupby(found, key=lambda row: row.key[:URL_BYTES]):
            yield list(group)

    def _copy_members(self, writer: SegmentWriter, group: list[Row]) -> list[Row]:
        """Copy the members that can stay as they are; returns the captures that must be repacked.

        That is a member of a segment all of whose captures live, unless versions in other files could join it.
        """
        members: dict[tuple[int, int], list[Row]] = {}
        for row in group:
            place = row.entry.place
            members.setdefault((place.file, place.offset), []).append(row)
        # A member has a line for each capture that was ever in it. Fewer of them in the index means that some were
        # deleted: their bytes must not go over, so the member is taken apart.
        lines = {at: self._lines.of_member(*at, writer) for at in members}
        open_in = {
            at[0] for at, pack in members.items() if len(pack) < PACK_VERSIONS_MAX and not _dense(lines[at])
        }
        rest: list[Row] = []
        for at, pack in members.items():
            is_final = (
                len(open_in) <= 1
                or len(pack) >= PACK_VERSIONS_MAX
                or _dense(lines[at])
                or not writer.name.codec.shares_members
            )
            member = self._member(pack[0].entry) if is_final and len(lines[at]) == len(pack) else None
            if member is None:
                rest += pack
            else:
                writer.add_copied(member, pack, lines[at])
                self._copied += len(pack)
        return sorted(rest)

    def _member(self, entry: IndexEntry) -> bytes | None:
        try:
            data = self._files.read(entry.place)
            if entry.place.file in self._archive.rotten:
                check_members(data, self._files.dictionary(entry.place.file))
        except (DamagedRecordError, MalformedRecordError, OSError):
            return None  # repacking will report the trouble
        return data

    def _read(self, row: Row, codec: Compression) -> Moving | None:
        entry = row.entry
        try:
            capture = self._cache.capture(entry.place)
        except DamagedRecordError as error:
            return self._without(row, error.reason, salvaged(self._archive, row.key, entry), 0)
        if isinstance(capture, LargeCapture):
            return Moving(row, capture, (), None)
        try:
            parts = tuple(capture.parts())
        except DamagedRecordError as error:
            return self._without(row, error.reason, (capture, whole_parts(capture)), 1)
        is_gzip = self._files.catalogue[entry.place.file].name.codec is Compression.GZIP
        packed = self._files.read(entry.place) if is_gzip and codec is Compression.GZIP else None
        return Moving(row, capture, parts, packed)

    def _without(
        self, row: Row, reason: str, found: tuple[StoredCapture, tuple[bytes, ...]] | None, lost: int
    ) -> Moving | None:
        """The member goes into quarantine as it is; what of it is whole goes on. `lost` records were beside that."""
        place = row.entry.place
        self._archive.note_damage(place.file, place.offset, reason)
        self._skipped += 1
        if found is None:
            self._losses.note(row.key, row.value, row.entry, reason)
            return None
        capture, parts = found
        self._losses.note(row.key, row.value, row.entry, reason, records=len(parts) + lost)
        return Moving(row, capture, parts, None)

    # -- what comes out -----------------------------------------------------------------------------------

    def _begin(self, bucket: int) -> SegmentWriter:
        assert self._epoch > 0, "chosen before the first file is begun"
        with self._archive.lock:
            number = self._files.take_number()
        name = FileName(number=number, bucket=bucket, epoch=self._epoch, codec=self._archive.settings.codec)
        writer = SegmentWriter(
            self._files,
            self._slices[bucket],
            name,
            self._archive.settings.software,
            int(self._archive.now()),
            self._dictionary(bucket),
        )
        self._writers.append(writer)
        return writer

    def _dictionary(self, bucket: int) -> Dictionary | None:
        """Learned once for a bucket, from captures all over it."""
        size = self._archive.settings.dictionary_bytes
        if not size or not self._archive.settings.codec.takes_dictionary:
            return None
        if bucket not in self._dictionaries:
            self._dictionaries = {bucket: Dictionary.train(self._samples(bucket), size)}
        return self._dictionaries[bucket]

    def _samples(self, bucket: int) -> list[bytes]:
        groups = islice(self._versions(*_bounds(bucket)), SAMPLES_MAX)
        first = (self._read(group[0], Compression.ZSTD) for group in groups)
        found = (moving for moving in first if moving is not None and not is_compressed(moving.mime))
        return [moving.parts[0] for moving in found if moving.parts]

    def _write_versions(self, writer: SegmentWriter, group: list[Row]) -> None:
        pack: list[Moving] = []
        size = 0
        for row in group:
            moving = self._read(row, writer.name.codec)
            if moving is None:
                continue
            if isinstance(moving.capture, LargeCapture):
                if pack:
                    writer.add_pack(pack, is_compressed=False)
                    pack, size = [], 0
                self._add_large(writer, moving, moving.capture)
                continue
            is_dense = moving.row.entry.kind is RowKind.BODY and is_compressed(moving.mime)
            if pack and (is_dense or len(pack) >= PACK_VERSIONS_MAX or size + moving.size > PACK_BYTES_MAX):
                writer.add_pack(pack, is_compressed=False)
                pack, size = [], 0
            if is_dense:
                writer.add_pack([moving], is_compressed=True)
                continue
            pack.append(moving)
            size += moving.size
        if pack:
            writer.add_pack(pack, is_compressed=False)

    def _add_large(self, writer: SegmentWriter, moving: Moving, capture: LargeCapture) -> None:
        try:
            writer.add_large(moving, capture, is_compressed=is_compressed(moving.mime))
        except DamagedRecordError as error:
            # It was whole a moment ago, and half of it is in the new file: all stays where it is.
            raise StoreRefusedError(f"no segment can be written: {error}") from error

    def _swap(self, installs: list[tuple[int, str]]) -> Sealed:
        before = sum(self._files.size(number) for number in self._inputs)
        removals = []
        for number in sorted(self._inputs):
            located = self._files.catalogue[number]
            removals.append((located.slice, located.name.path))
            if not located.name.is_log:
                removals += [(located.slice, located.name.cdxj), (located.slice, located.name.zdict)]
        with self._archive.lock:
            if self._archive.refusal is not None:
                raise StoreRefusedError(self._archive.refusal)
            outputs = [writer.name.number for writer in self._writers]
            assert self._inputs.isdisjoint(outputs), "what was just written would be removed"
            assert self._archive.log.number not in self._inputs, "captures may be stored there by now"
            try:
                write_journal(self._files, self._epoch, installs, removals)
                moved = self._settle(installs)
            except OSError as error:
                raise self._refused(error) from error
        after_ = sum(self._files.size(writer.name.number) for writer in self._writers)
        return Sealed(
            files_before=len(self._inputs),
            files_after=len(self._writers),
            captures=moved,
            bytes_before=before,
            bytes_after=after_,
            copied=self._copied,
            skipped=self._skipped,
        )

    def _settle(self, installs: list[tuple[int, str]]) -> int:
        # The journal is durable: from here on the swap happens, now or at the next opening, which does the same steps
        # again. New files come before the index says so, and old ones go after it: whatever the index says in
        # between, the file that it names is there. The journal goes last, as a crash is repaired by it.
        for slice_, path in installs:
            self._files.disk(slice_).rename(path + ".part", path)
        for writer in self._writers:
            self._files.add(writer.slice, writer.name)
        moved = self._relocate()
        for number in self._inputs:
            self._files.forget(number)
        self._archive.rotten -= self._inputs
        settle_journals(self._files, self._archive.manifest.swapping)
        settle_manifest(self._archive)
        return moved

    def _refused(self, error: OSError) -> StoreRefusedError:
        """A journal that is there may be durable: its new files stay for the next opening, and nothing follows it."""
        if is_decided(self._files, self._epoch):
            self._archive.refusal = f"new segments could not be put in place: {error.strerror}"
            return StoreRefusedError(self._archive.refusal)
        self._give_up()
        return StoreRefusedError(f"no segment can be written: {error.strerror}")

    def _relocate(self) -> int:
        # Compare and swap, under the lock that commits and deletions take. What was deleted since has no row, what was
        # stored again has another value: both keep what they say. So the long copying needs no lock at all, and the
        # price is a few dead bytes in the new file. To note what changes while copying would be a second truth.
        index = self._archive.index
        moved = 0
        batch = IndexBatch()
        for writer in self._writers:
            for move in writer.moved:
                if index.get(move.key) == move.value:
                    batch.put(move.key, encode_entry(move.entry))
                    moved += 1
                if len(batch.changes) >= INDEX_BATCH:
                    index.write(batch)
                    batch = IndexBatch()
        for key, _ in list(index.scan(AUXILIARY, after(AUXILIARY))):
            if auxiliary_place(key)[0] in self._inputs:
                batch.delete(key)
        for file, offset in self._auxiliary:
            batch.put(auxiliary_key(file, offset))
        self._losses.leave_out()
        # With the last rows in one write: an index of this epoch knows every place in it, and an older one is told all
        # of them again at the next opening.
        if self._writers:
            batch.put(EPOCH_KEY, encode_numbers((self._epoch,)))
        index.write(batch)
        return moved


def _bounds(bucket: int) -> tuple[bytes, bytes]:
    start = CAPTURE + bytes((bucket << 4,))
    return start, CAPTURE + bytes(((bucket + 1) << 4,)) if bucket < BUCKETS - 1 else after(CAPTURE)


def _dense(lines: list[str]) -> bool:
    """A capture in a compressed format, which has a member of its own."""
    return len(lines) == 1 and is_compressed(mime_of_line(lines[0]))
