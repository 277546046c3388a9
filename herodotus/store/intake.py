"""Is this capture new, and which record is written for it?

A payload that the bucket has already is stored as a revisit of its original. The decision looks at the index and at
earlier items that the committer has not made durable yet. Items reach the disk in this order or not at all. When a
commit fails, every decision that relied on it is made again (`generation`).
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from enum import Enum
from itertools import chain
from threading import Lock
from typing import NamedTuple

from herodotus.core.bundles import format_around, format_bundle
from herodotus.core.captures import CaptureId, Deposit, Mode, Original, RecordType
from herodotus.core.errors import DamagedRecordError, MalformedRecordError
from herodotus.core.index_rows import RowKind, bucket_of, capture_key, decode_entry
from herodotus.store.engine import Archive
from herodotus.store.large_parcels import Packed, in_pieces
from herodotus.store.log import NewCapture
from herodotus.store.losses import is_newer
from herodotus.store.members import LARGE_BYTES, gzip_in_parts, gzip_quickly, gzip_stored
from herodotus.store.quarantine import Lost, Quarantined
from herodotus.store.reader import Reader
from herodotus.store.spools import Lying, Spool

RECENT_MAX = 65_536  # originals, some 400 bytes each
IN_PARTS_FROM = 1024 * 1024
"""A larger body is compressed without being put together with its head."""
SHARED_BYTES_MAX = 32 * 1024 * 1024
"""A larger body is stored with each of its captures: to find another with it, that one is read as a whole."""
# Compressed already: trying again costs time and gains nothing (images, sound, video, archives).
COMPRESSED_MIMES = (
    "image/jpeg",
    "image/png",
    "image/gif",
    "image/webp",
    "image/avif",
    "audio/",
    "video/",
    "font/woff",
)
COMPRESSED_EXACT = frozenset(
    {"application/zip", "application/gzip", "application/x-gzip", "application/pdf", "application/zstd"}
)


class StoreOutcome(Enum):
    NEW = "new"
    REVISIT = "revisit"
    """The payload was there; the capture refers to it."""
    KNOWN = "known"
    """This very capture is stored already: nothing was written."""
    DELETED = "deleted"
    """This very capture was deleted for good, or all of its page was: nothing was written."""


class Copy(NamedTuple):
    """Another holder's capture, which was checked, its signature as well."""

    deposit: Deposit
    members: tuple[bytes, ...] | None = None
    """What this archive would write for it, if it has a body here; compressed by another holder, perhaps."""
    packed: Packed | None = None


class Prepared(NamedTuple):
    id: CaptureId
    outcome: StoreOutcome
    item: NewCapture | None
    original: Original | None
    """The original for later captures, when this one has the body."""
    generation: int


class Intake:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._reader = Reader(archive)
        self._recent: OrderedDict[tuple[int, bytes], Original] = OrderedDict()
        self._leaving: frozenset[CaptureId] = frozenset()
        self._lock = Lock()
        self.generation = 0
        archive.on_gone = self.forget

    def prepare_copy(self, copy: Copy) -> Prepared:
        return self.prepare(copy.deposit, Mode.COPY, copy.packed, copy)

    def prepare(
        self,
        deposit: Deposit,
        mode: Mode = Mode.REGULAR,
        packed: Packed | None = None,
        copy: Copy | None = None,
    ) -> Prepared:
        """Decide and compress; nothing is written yet. Costs no disk access for most captures. With `packed` the
        deposit has no body: that was checked as it passed by, and passes by again when it is written."""
        # Read before anything else is looked at. If something goes from now on, the number has changed by the time of
        # the commit, and the decision is made again; read later, it could hide what went in between.
        generation = self.generation
        capture, id_ = deposit.capture, deposit.id
        key = capture_key(id_)
        if self._archive.is_deleted(key) or self._is_removed(capture.url, id_.digest, mode):
            return Prepared(
                id=id_, outcome=StoreOutcome.DELETED, item=None, original=None, generation=generation
            )
        known = self._archive.index.get(key)
        lost = self._archive.quarantine.lost(key)
        body_bytes = len(capture.body) if packed is None else packed.body_bytes
        is_here = known is not None and self._is_here(id_, known, packed)
        if known is not None and is_here and not self._completes(deposit, known, lost):
            return Prepared(
                id=id_, outcome=StoreOutcome.KNOWN, item=None, original=None, generation=generation
            )
        # A capture that is stored again must not refer to itself.
        found = self._find_original(deposit, body_bytes, mode, generation) if known is None else None
        if copy is None:
            deposit = self._archive.sign(deposit)
        record_id = deposit.record_id
        members = None if copy is None or found is not None else copy.members
        item = NewCapture(
            id=id_,
            kind=RowKind.BODY if found is None else RowKind.REVISIT,
            members=members or compress_to_disk(deposit, found, record_id, packed, self._archive.spool),
            url="" if found is not None and found.url == capture.url else capture.url,
            arrival=decode_entry(known).arrival
            if known is not None
            else None
            if lost is None
            else lost[1].arrival,
            # What came from another holder it got from there: nobody is waiting for it from here.
            is_vouched=self._archive.has_signer and found is None and mode is not Mode.COPY,
        )
        assert found is None or found.digest == id_.digest, "a revisit says that the bytes are the same"
        own = Original(
            url=capture.url,
            time_s=capture.time_s,
            digest=id_.digest,
            size=body_bytes,
            record_id=record_id,
        )
        return Prepared(
            id=id_,
            outcome=StoreOutcome.NEW if found is None else StoreOutcome.REVISIT,
            item=item,
            original=own if found is None and body_bytes else None,
            generation=generation,
        )

    def _is_removed(self, url: str, digest: bytes, mode: Mode) -> bool:
        """Other holders' copies come in while they are only hidden: nothing is lost if the removal is undone."""
        removed = self._archive.removed
        return removed.declines(url, digest) if mode is Mode.COPY else removed.covers_capture(url, digest)

    def _is_whole(self, id_: CaptureId) -> bool:
        """False when the capture in the index is damaged: then this copy repairs it."""
        try:
            capture = self._reader.read(id_)
            if capture is not None:
                capture.parts()
        except DamagedRecordError:
            return False
        if capture is None and self._reader.find(id_) is not None:
            raise MalformedRecordError("another capture of that URL and second begins with the same digest")
        return True

    def _is_here(self, id_: CaptureId, known: bytes, packed: Packed | None) -> bool:
        """A large one is not read as a whole to find out: what was found damaged is known."""
        return self._is_whole(id_) if packed is None else not self._archive.is_at_damage(known)

    def _completes(self, deposit: Deposit, known: bytes, lost: tuple[Quarantined, Lost] | None) -> bool:
        """A record beside ours went into quarantine, and this copy has it."""
        if lost is None or not lost[1].records or is_newer(self._archive, decode_entry(known).place, lost[0]):
            return False
        return len(format_bundle(deposit, None)) >= lost[1].records

    def _find_original(
        self, deposit: Deposit, body_bytes: int, mode: Mode, generation: int
    ) -> Original | None:
        capture, bucket = deposit.capture, bucket_of(deposit.key)
        if (
            body_bytes > SHARED_BYTES_MAX
            or mode is Mode.FORCE_NEW
            or not body_bytes
            or deposit.type is not RecordType.RESPONSE
        ):
            return None
        if self._archive.files.missing:
            return None  # on a slice that is missing may stand that the original was deleted
        if mode is Mode.COMPARE:
            # The capture to compare with must be on disk: queued ones cannot be read yet.
            return self._reader.original(
                bucket, capture.sha256, len(capture.body), capture.body, self._leaving
            )
        with self._lock:
            known = self._recent.get((bucket, capture.sha256))
            if known is not None:
                self._recent.move_to_end((bucket, capture.sha256))
                if (known.url, known.time_s) == (capture.url, capture.time_s):
                    return None  # this very capture is on its way: it must not become a revisit of itself
        if known is None:
            known = self._reader.original(bucket, capture.sha256, body_bytes, None, self._leaving)
            if known is not None:
                self._remember(bucket, known, generation)
        return known if known is not None and known.size == body_bytes else None

    def promise(self, prepared: Prepared) -> None:
        """Note an item handed to the committer: later ones may refer to it."""
        if prepared.original is not None:
            assert prepared.outcome is StoreOutcome.NEW, "only a record with a body can be referred to"
            self._remember(bucket_of(prepared.id.key), prepared.original, prepared.generation)

    def _remember(self, bucket: int, original: Original, generation: int) -> None:
        with self._lock:
            if generation != self.generation:
                return  # its originals may be gone: refused or deleted meanwhile
            self._recent[bucket, original.digest] = original
            while len(self._recent) > RECENT_MAX:
                self._recent.popitem(last=False)

    def forget(self) -> None:
        """A commit failed, or something was deleted: remembered originals may be missing."""
        with self._lock:
            self.generation += 1
            self._recent.clear()

    @contextmanager
    def without(self, ids: Collection[CaptureId]) -> Iterator[None]:
        """These captures are about to go: nothing new may refer to them, not even an item prepared before."""
        self._part_with(frozenset(ids))
        try:
            yield
        finally:
            self._part_with(frozenset())

    def _part_with(self, ids: frozenset[CaptureId]) -> None:
        with self._archive.lock:  # so that no commit is between its look at the generation and its end
            self._leaving = ids
            self.forget()


def compress_bundle(deposit: Deposit, original: Original | None) -> tuple[bytes, ...]:
    """One gzip member to the record, as every WARC reader expects."""
    if original is None and len(deposit.capture.body) > IN_PARTS_FROM:
        parts, companions = _around(deposit, deposit.record_id, in_pieces(deposit.capture))
        return (b"".join(parts), *companions)
    return _compressed(deposit, original, deposit.record_id)


def compress_to_disk(
    deposit: Deposit,
    original: Original | None,
    record_id: str,
    packed: Packed | None,
    spool: Callable[[], Spool],
) -> tuple[Lying, ...]:
    """The same, a large one in a spool. `packed` has the body where the deposit has none."""
    if original is None and packed is None and len(deposit.capture.body) > IN_PARTS_FROM:
        packed = in_pieces(deposit.capture)
    if original is not None or packed is None:
        return _compressed(deposit, original, record_id)
    parts, companions = _around(deposit, record_id, packed)
    if packed.body_bytes <= LARGE_BYTES:
        return (b"".join(parts), *companions)
    lying = spool()
    for part in parts:
        lying.append(part)
    return (lying, *companions)


def _compressed(deposit: Deposit, original: Original | None, record_id: str) -> tuple[bytes, ...]:
    first, *companions = format_bundle(deposit, original, record_id)
    is_stored = original is None and is_compressed(deposit.capture.mime)
    compress = gzip_stored if is_stored else gzip_quickly
    return (compress(first), *map(gzip_quickly, companions))


def _around(deposit: Deposit, record_id: str, packed: Packed) -> tuple[Iterator[bytes], list[bytes]]:
    """The member of the capture, in pieces, and those behind it."""
    before, behind, companions = format_around(deposit, record_id, packed.body_bytes, packed.block_sha1)
    is_stored = is_compressed(deposit.capture.mime)
    parts = gzip_in_parts(chain((before,), packed.pieces(), (behind,)), is_stored=is_stored)
    return parts, list(map(gzip_quickly, companions))


def is_compressed(mime: str) -> bool:
    return mime.startswith(COMPRESSED_MIMES) or mime in COMPRESSED_EXACT
