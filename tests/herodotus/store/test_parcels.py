"""What does an archive give to other peers, and let go of for them?"""

import gzip
import hashlib
import os
from dataclasses import replace
from functools import partial

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.core.capture import TlsFacts
from herodotus.core.bundles import TOMBSTONES_TYPE, format_tombstones
from herodotus.core.captures import Deposit, Mode, RecordType
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import CAPTURE, capture_key, decode_entry
from herodotus.core.reconciliation import member_of
from herodotus.core.signatures import signed
from herodotus.core.warc import Fields, WarcRecord, format_record
from herodotus.store import engine
from herodotus.store.engine import Archive
from herodotus.store.faces import Parcel
from herodotus.store.files import Files
from herodotus.store.holdings import (
    count_captures,
    drop,
    has_member,
    keys_of,
    members_in,
    parcel_at,
    parcels_at,
    unpacked,
)
from herodotus.store.intake import Intake, StoreOutcome, compress_bundle
from herodotus.store.log import NOTE_TARGET
from herodotus.store.members import gzip_member
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.sealing import compact, seal
from tests.herodotus.deposits import altered
from tests.herodotus.store.making import DAY_S, NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryDisk, MemoryIndex

URL = "http://example.org/"
ALL = (bytes(12), None)
KEY = Ed25519PrivateKey.from_private_bytes(b"\3" * 32)


def sent_of(archive: Archive, member: bytes) -> list[Parcel]:
    found = (parcel_at(archive, key, unsigned) for key in keys_of(archive, member))
    return [one for one in found if one is not None]


def unsigned(deposit: Deposit) -> Deposit:
    return deposit


def member(deposit: Deposit) -> bytes:
    return member_of(capture_key(deposit.id))


def test_what_the_crawler_learned_travels_to_the_byte() -> None:
    """The metadata record stays as the first peer wrote it. So does a truncation reason that we do not know."""
    tls = TlsFacts(protocol="TLSv1.3", cipher="A B", certificate_sha256=bytes(32), error="self-signed")
    learned = {
        "via": "http://example.org/a",
        "duration_s": 0.0126,
        "tls": tls,
        "truncated": "a word of others",
    }
    parcel = b"".join(compress_bundle(altered(page(URL, NOW_S), **learned), None))
    arrived = unpacked(parcel)
    assert (arrived.capture.duration_s, arrived.capture.via, arrived.capture.tls) == (None, None, None)
    assert [record.kind for record in arrived.companions] == ["request", "metadata"]
    assert b"".join(compress_bundle(arrived, None)) == parcel
    archive = open_on(MemoryDisk())
    store(archive, arrived)
    for _ in ("log", "segment"):
        (sent,) = sent_of(archive, member(arrived))
        assert gzip.decompress(sent.data[:]) == gzip.decompress(parcel)
        seal(archive)
    archive.close()


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_parcel_is_the_capture_with_its_whole_body_wherever_it_lies(is_sealed: bool) -> None:
    archive = open_on(MemoryDisk())
    first, again = page(URL, NOW_S, b"body" * 500), page(URL, NOW_S + DAY_S, b"body" * 500)
    assert store(archive, first, again) == [StoreOutcome.NEW, StoreOutcome.REVISIT]
    if is_sealed:
        seal(archive)
    for deposit in (first, again):
        (parcel,) = sent_of(archive, member(deposit))
        arrived = unpacked(parcel.data)
        assert (arrived.id, arrived.capture.body, arrived.capture.head) == (
            deposit.id,
            deposit.capture.body,
            deposit.capture.head,
        )
        there = open_on(MemoryDisk())
        assert store(there, arrived) == [StoreOutcome.NEW]
        found = Reader(there).read(deposit.id)
        assert found is not None
        assert [one.block for one in found.companions] == [deposit.capture.request]


def test_what_lies_in_the_log_travels_as_it_lies() -> None:
    archive = open_on(MemoryDisk())
    deposit = page(URL, NOW_S, b"body" * 500)
    store(archive, deposit)
    parcel = parcel_at(archive, capture_key(deposit.id)[1:], unsigned)
    assert parcel is not None
    assert archive.files.read_at(archive.log.number, 0, archive.log.tail).endswith(parcel.data[:])


def vouching() -> tuple[Archive, list[bytes]]:
    """An archive that signs what it takes in, and the keys of three captures in it."""
    archive = open_on(MemoryDisk())
    archive.sign, archive.has_signer = partial(signed, KEY), True
    deposits = [page(f"{URL}{number}", NOW_S, b"body%d" % number * 500) for number in range(3)]
    store(archive, *deposits)
    return archive, [capture_key(one.id)[1:] for one in deposits]


def unread(_deposit: Deposit) -> Deposit:
    pytest.fail("it is taken apart")


def test_what_this_peer_has_just_written_is_sent_without_being_taken_apart() -> None:
    archive, keys = vouching()
    log = archive.files.read_at(archive.log.number, 0, archive.log.tail)
    parcels = parcels_at(archive, keys, unread, 1 << 20)
    assert all(one is not None and one.data[:] in log for one in parcels)
    assert [unpacked(one.data).id.time_s for one in parcels if one is not None] == [NOW_S] * 3
    assert len(parcels_at(archive, keys, unread, 1)) == 1  # one at least
    assert parcels_at(archive, [bytes(19)], unread, 1 << 20) == [None]


def test_what_rotted_since_it_was_written_is_not_sent_and_noted() -> None:
    archive, keys = vouching()
    entry = decode_entry(archive.index.get(CAPTURE + keys[1]) or b"")
    disk = archive.files.disk(0)
    descriptor = disk.open(archive.files.path(entry.place.file), os.O_RDWR)
    disk.pwrite(descriptor, b"!rot!", entry.place.offset + 40)
    disk.close(descriptor)
    first, rotten, last = parcels_at(archive, keys, partial(signed, KEY), 1 << 20)
    assert rotten is None
    assert first is not None
    assert last is not None
    assert len(archive.damage) == 1


@pytest.mark.parametrize("mode", [Mode.REGULAR, Mode.COPY])
def test_nobody_vouches_for_what_no_key_signed_and_for_the_copies_of_others(mode: Mode) -> None:
    archive = open_on(MemoryDisk())
    if mode is Mode.COPY:
        archive.sign, archive.has_signer = partial(signed, KEY), True
    deposit = page(URL, NOW_S)
    store(archive, deposit, mode=mode)
    assert not archive.vouched
    read: list[Deposit] = []

    def sign(deposit: Deposit) -> Deposit:
        read.append(deposit)
        return signed(KEY, deposit)

    assert parcels_at(archive, [capture_key(deposit.id)[1:]], sign, 1 << 20) != [None]
    assert len(read) == 1


def test_so_many_captures_are_vouched_for_and_the_oldest_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "VOUCHED_MAX", 2)
    archive, keys = vouching()
    assert [key[1:] for key in archive.vouched] == keys[1:]
    assert None not in parcels_at(archive, keys, partial(signed, KEY), 1 << 20)


def test_broken_parcels_are_refused() -> None:
    archive = open_on(MemoryDisk())
    deposit = page(URL, NOW_S, b"body" * 500)
    store(archive, deposit)
    (parcel,) = sent_of(archive, member(deposit))
    sent = parcel.data[:]
    members = [bytes(one) for one in compress_bundle(deposit, None)]
    two = b"".join(members) + b"".join(compress_bundle(page(URL, NOW_S + 1), None))
    for data in (b"", b"x", sent[:-1], members[1], two, members[0] + members[0]):
        with pytest.raises(MalformedRecordError):
            unpacked(data)
    refused = 0
    for at in range(0, len(sent), 7):
        changed = sent[:at] + bytes((sent[at] ^ 0x10,)) + sent[at + 1 :]
        try:
            assert unpacked(changed).id == deposit.id  # a bit of gzip's own head, which means nothing
        except MalformedRecordError:
            refused += 1
    assert refused > len(parcel.data) // 7 * 0.9


def _beside(deposit: Deposit, *records: bytes) -> bytes:
    return b"".join((*compress_bundle(deposit, None), *map(gzip_member, records)))


def test_a_parcel_cannot_bring_tombstones_of_other_captures_along() -> None:
    archive = open_on(MemoryDisk())
    victim, bait = page(URL, NOW_S), page(f"{URL}bait", NOW_S)
    store(archive, victim)
    note = format_tombstones([victim.id], NOTE_TARGET)
    with pytest.raises(MalformedRecordError, match="a capture or a note itself"):
        unpacked(_beside(bait, note))
    rebuild(archive)
    assert Reader(archive).read(victim.id) is not None


def test_a_parcel_of_many_bombs_is_refused_before_it_fills_the_memory() -> None:
    one = format_record((("WARC-Type", "metadata"),), bytes(200_000))
    bombs = _beside(page(URL, NOW_S), *[one] * 20)
    assert len(bombs) < 50_000
    assert len(unpacked(bombs, 5_000_000).companions) == 21
    with pytest.raises(MalformedRecordError, match="more than 1000000 bytes"):
        unpacked(bombs, 1_000_000)


@pytest.mark.parametrize(
    "fields",
    [
        (("WARC-Type", "metadata"), ("Content-Type", f"{TOMBSTONES_TYPE}\x01")),
        (("WARC-Type", "resource\x01"), ("WARC-Date", "2023-01-01T00:00:00Z"), ("WARC-Target-URI", URL)),
        (("WARC-Type", "metadata"), ("Content-Length\x01", "3")),
        (("WARC-Type", "metadata"), ("WARC-Block-Digest", "\x01sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ")),
    ],
)
def test_a_record_that_would_be_read_as_another_one_does_not_come_in(fields: Fields) -> None:
    """What breaks lines is cleaned away when it is written, which may make something else of it."""
    record = WarcRecord(fields=fields, block=b"not nothing")
    archive = open_on(MemoryDisk())
    with pytest.raises(MalformedRecordError):
        store(archive, replace(page(URL, NOW_S), companions=(record,)))


def test_a_field_that_would_be_read_as_another_one_does_not_come_in() -> None:
    archive = open_on(MemoryDisk())
    resource = replace(altered(page(URL, NOW_S), head=b""), type=RecordType.RESOURCE)
    for field in (
        ("\x01X-Continued", "on"),
        ("Content-Length\x01", "3"),
        ("Content-Type", "application/http"),
    ):
        with pytest.raises(MalformedRecordError):
            store(archive, replace(resource, extra=(field, ("Content-Type", "text/plain"))))
    store(archive, replace(resource, extra=(("X-Other", "\x01fine"), ("Content-Type", "text/plain"))))
    rebuild(archive)
    assert Reader(archive).read(resource.id) is not None


def test_what_is_dropped_is_no_tombstone_and_takes_no_body_along() -> None:
    """Two URLs of a bucket share a body; the one that has it goes, the other must keep it."""
    archive = open_on(MemoryDisk())
    by_bucket: dict[int, list[Deposit]] = {}
    for number in range(60):
        deposit = page(f"http://example.org/{number}", NOW_S, b"the same" * 100)
        by_bucket.setdefault(deposit.key[0] >> 4, []).append(deposit)
    first, second = next(some for some in by_bucket.values() if len(some) > 1)[:2]
    assert store(archive, first, second) == [StoreOutcome.NEW, StoreOutcome.REVISIT]
    position = first.key[:12]
    after = (int.from_bytes(position, "big") + 1).to_bytes(12, "big")
    intake = Intake(archive)
    assert drop(archive, intake, position, after, lambda: False) == 0
    assert drop(archive, intake, position, after) == 1
    assert Reader(archive).read(first.id) is None
    assert not has_member(archive, member(first))
    kept = Reader(archive).read(second.id)
    assert kept is not None
    assert kept.body == second.capture.body
    assert (archive.captures, count_captures(archive, *ALL)) == (1, 1)
    assert members_in(archive, *ALL) == [member(second)]
    assert store(archive, first) == [StoreOutcome.REVISIT]  # it may come back


def test_dropped_bytes_go_with_the_next_compaction_and_not_before() -> None:
    archive = open_on(MemoryDisk())
    deposits = [page(f"http://example.org/{n}", NOW_S, b"%d" % n * 300) for n in range(40)]
    store(archive, *deposits)
    seal(archive)
    intake = Intake(archive)
    for deposit in deposits[:30]:
        drop(
            archive,
            intake,
            deposit.key[:12],
            (int.from_bytes(deposit.key[:12], "big") + 1).to_bytes(12, "big"),
        )
    assert archive.captures == 10
    rebuild(archive)
    assert archive.captures == 40  # the index forgot, the files did not
    for deposit in deposits[:30]:
        drop(
            archive,
            intake,
            deposit.key[:12],
            (int.from_bytes(deposit.key[:12], "big") + 1).to_bytes(12, "big"),
        )
    compact(archive)
    rebuild(archive)
    assert archive.captures == 10


def test_a_parcel_whose_body_is_not_that_of_its_digest_is_refused() -> None:
    """All else fits: it is a whole record of somebody who lies about one field."""
    forged = altered(page(URL, NOW_S, b"one body"), sha256=hashlib.sha256(b"another").digest())
    with pytest.raises(MalformedRecordError, match="SHA-256"):
        unpacked(b"".join(compress_bundle(forged, None)))


def test_a_parcel_whose_head_was_changed_on_the_way_is_refused() -> None:
    first, *others = compress_bundle(page(URL, NOW_S, b"body" * 500), None)
    record = gzip.decompress(first)
    assert record.count(b" 200 OK") == 1
    bent = gzip_member(record.replace(b" 200 OK", b" 203 OK"))
    with pytest.raises(MalformedRecordError):
        unpacked(b"".join((bent, *others)))
    assert unpacked(b"".join((gzip_member(record), *others))).capture.url == URL


def _two_of_one_body(archive: Archive) -> tuple[Deposit, Deposit, bytes, bytes]:
    """The second refers to the first; and the range that has the first alone."""
    by_bucket: dict[int, list[Deposit]] = {}
    for number in range(60):
        deposit = page(f"http://example.org/{number}", NOW_S, b"the same" * 100)
        by_bucket.setdefault(deposit.key[0] >> 4, []).append(deposit)
    first, second = next(some for some in by_bucket.values() if len(some) > 1)[:2]
    assert store(archive, first, second) == [StoreOutcome.NEW, StoreOutcome.REVISIT]
    low = first.key[:12]
    return first, second, low, (int.from_bytes(low, "big") + 1).to_bytes(12, "big")


def test_what_may_not_go_is_not_even_begun_with() -> None:
    archive = open_on(MemoryDisk())
    first, _, low, high = _two_of_one_body(archive)
    before = archive.log.tail
    assert drop(archive, Intake(archive), low, high, lambda: False) == 0
    assert archive.log.tail == before  # no body was moved
    assert Reader(archive).read(first.id) is not None


def test_what_may_not_go_any_more_when_its_body_has_been_moved_stays() -> None:
    archive = open_on(MemoryDisk())
    first, second, low, high = _two_of_one_body(archive)
    said = iter([True, False])
    assert drop(archive, Intake(archive), low, high, lambda: next(said)) == 0
    assert next(said, None) is None
    for deposit in (first, second):
        found = Reader(archive).read(deposit.id)
        assert found is not None
        assert found.body == deposit.capture.body


def test_nothing_goes_while_a_slice_is_away() -> None:
    """On it may stand that what would get the bodies was deleted."""
    disks, index = [MemoryDisk(), MemoryDisk()], MemoryIndex()
    archive = Archive(Files(disks), index, now=lambda: float(NOW_S))
    open_archive(archive)
    deposit = page(URL, NOW_S)
    store(archive, deposit)
    here = archive.log.slice
    present = [disk if number == here else None for number, disk in enumerate(disks)]
    archive = Archive(Files(present), MemoryIndex(index.content()), now=lambda: float(NOW_S))
    open_archive(archive)
    assert Reader(archive).read(deposit.id) is not None
    assert drop(archive, Intake(archive), *ALL) == 0
    assert Reader(archive).read(deposit.id) is not None
