"""Large captures are checked, read, proven and sent without being held, and are the same as small ones in all else."""

import errno
import os
import random
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from herodotus.core.captures import LargeBody, pieces_of
from herodotus.core.copies.possession import FullProof
from herodotus.core.copies.sampling import SampledProof
from herodotus.core.errors import StoreRefusedError
from herodotus.core.index_rows import capture_key
from herodotus.core.layout import Compression
from herodotus.core.signatures import prove
from herodotus.portal.api.containers import _contents
from herodotus.store.catalogue import ArchiveCatalogue
from herodotus.store.disk import Disk
from herodotus.store.engine import Archive
from herodotus.store.holdings import parcel_at, unpacked
from herodotus.store.large_captures import LargeCapture
from herodotus.store.large_parcels import check_large
from herodotus.store.members import LARGE_BYTES, MEMBER_BYTES_MAX
from herodotus.store.reader import Reader
from herodotus.store.recovery import rebuild
from herodotus.store.sealing import seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.spools import OnDisk, Spool, put_together
from herodotus.store.stored_records import StoredCapture
from herodotus.store.verification import verify
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryDisk

URL = "http://example.org/"
NOISE = random.Random(1).randbytes(1 << 16)
BODY = b"".join(NOISE + b"%d" % n for n in range(160))
"""10 MB that hardly pack within a window of gzip."""
ZEROS = bytes(64 << 20)


@contextmanager
def held_at_most(bytes_max: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        yield
        assert tracemalloc.get_traced_memory()[1] - before < bytes_max
    finally:
        tracemalloc.stop()


def stored(body: bytes) -> tuple[Archive, bytes]:
    """And the key of the capture in it."""
    archive = open_on(MemoryDisk())
    deposit = page(URL, NOW_S, body)
    store(archive, deposit)
    return archive, capture_key(deposit.id)


def read(archive: Archive, key: bytes) -> LargeCapture:
    value = archive.index.get(key)
    assert value is not None
    found = Reader(archive).try_read(key, value)
    assert isinstance(found, LargeCapture)
    return found


def test_a_large_capture_is_read_as_a_small_one() -> None:
    assert len(BODY) > LARGE_BYTES
    archive, key = stored(BODY)
    deposit = page(URL, NOW_S, BODY)
    found = read(archive, key)
    again = found.as_deposit()
    assert (found.id, found.url, found.head) == (deposit.id, URL, deposit.capture.head)
    assert (found.body_bytes, found.body == BODY) == (len(BODY), True)
    assert (again.capture.sha256, again.capture.sha1) == (deposit.capture.sha256, deposit.capture.sha1)
    assert [one.kind for one in found.companions] == ["request"]
    assert b"".join(found.parts()).count(b"WARC/1.1\r\n") == 2
    archive.close()


def test_a_revisit_of_a_large_capture_has_its_body() -> None:
    archive, _ = stored(BODY)
    later = page(URL, NOW_S + 60, BODY)
    store(archive, later)
    found = Reader(archive).newest(URL, NOW_S + 60)
    assert found is not None
    assert (found.is_revisit, found.is_passing, found.body_bytes) == (True, True, len(BODY))
    assert found.body == BODY
    archive.close()


def test_proofs_of_a_body_that_passes_by_are_those_of_one_that_is_held() -> None:
    archive, key = stored(BODY)
    payload = read(archive, key).payload
    assert isinstance(payload, LargeBody)
    assert payload.stretch(9_000_000, 9_000_020) == BODY[9_000_000:9_000_020]
    digest = bytes(32)
    assert prove(b"nonce", digest, payload) == prove(b"nonce", digest, BODY)
    full = FullProof(b"nonce"), FullProof(b"nonce")
    peers = {"prover": bytes(32), "asker": b"\1" * 32}
    sampled = SampledProof(b"s" * 32, **peers), SampledProof(b"s" * 32, **peers)
    bodies: tuple[bytes | LargeBody, ...] = (payload, BODY)
    for body, one, other in zip(bodies, full, sampled, strict=True):
        one.add(digest, body)
        other.add(3, digest, body)
    assert full[0].by(bytes(32), bytes(32)) == full[1].by(bytes(32), bytes(32))
    assert sampled[0].bytes == sampled[1].bytes
    archive.close()


def test_a_large_capture_is_checked_proven_and_sent_in_little_memory() -> None:
    archive, key = stored(ZEROS)
    with held_at_most(24 << 20):
        found = read(archive, key)
        prove(b"nonce", found.id.digest, found.payload)
        parcel = parcel_at(archive, key[1:], lambda deposit: deposit)
        assert parcel is not None
        deposit, packed = check_large(parcel.data, MEMBER_BYTES_MAX)
        assert (deposit.id, packed.body_bytes) == (found.id, len(ZEROS))
    archive.close()


@pytest.mark.parametrize("is_sealed", [False, True])
def test_a_large_capture_is_sent_whole(is_sealed: bool) -> None:
    archive, key = stored(BODY)
    if is_sealed:
        seal(archive)
    parcel = parcel_at(archive, key[1:], lambda deposit: deposit)
    assert parcel is not None
    arrived = unpacked(parcel.data)
    assert (arrived.id, arrived.capture.body == BODY, len(arrived.companions)) == (
        page(URL, NOW_S, BODY).id,
        True,
        1,
    )
    archive.close()


@pytest.mark.parametrize("codec", Compression)
def test_large_captures_are_sealed_and_looked_through_in_little_memory(codec: Compression) -> None:
    archive = open_on(MemoryDisk(), settings=ArchiveSettings(codec=codec))
    large, small = page(URL, NOW_S, ZEROS), page(URL, NOW_S + 60, b"small")
    noise = page(f"{URL}noise", NOW_S, BODY, "image/png")
    store(archive, large, small, noise)
    with held_at_most(48 << 20):  # of which the new segment, which is in memory here, takes 11
        assert seal(archive).captures == 3
        rebuild(archive)
        found = verify(archive)
    assert (found.records, found.is_sound) == (3, True)
    again = read(archive, capture_key(large.id))
    assert (again.body == ZEROS, [one.kind for one in again.companions]) == (True, ["request"])
    assert read(archive, capture_key(noise.id)).body == BODY
    other = Reader(archive).newest(URL, NOW_S + 60)
    assert other is not None
    assert other.body == b"small"
    archive.close()


def test_the_list_of_a_file_names_large_records_in_little_memory() -> None:
    archive, _ = stored(ZEROS)
    store(archive, page(URL, NOW_S + 60, b"small"))
    with held_at_most(24 << 20):
        _, found = ArchiveCatalogue(archive).contents(archive.log.number, 0)
        large = [one for _, _, one in found if isinstance(one, StoredCapture)]
    assert [(one.url, one.body_bytes) for one in large] == [(URL, len(ZEROS))]
    listed = _contents(ArchiveCatalogue(archive), archive.log.number, 0, 10).records
    sizes = {record.type: record.block_bytes for record in listed}
    assert sizes["response"] > len(ZEROS)
    archive.close()


@pytest.mark.parametrize("at", [0.2, 0.9])
def test_a_bit_that_turned_over_in_a_large_capture_is_found(at: float) -> None:
    disk = MemoryDisk()
    archive = open_on(disk)
    deposit = page(URL, NOW_S, BODY)
    store(archive, deposit)
    path = archive.files.path(archive.log.number)
    fd = archive.files.disk(0).open(path, os.O_RDWR)
    place = int(archive.log.tail * at)
    archive.files.disk(0).pwrite(
        fd, bytes((archive.files.read_at(archive.log.number, place, 1)[0] ^ 4,)), place
    )
    value = archive.index.get(capture_key(deposit.id))
    assert value is not None
    assert Reader(archive).try_read(capture_key(deposit.id), value) is None
    assert archive.counters.damaged == 1
    archive.close()


class FullAt(MemoryDisk):
    """Takes so many bytes of spools."""

    def pwrite(self, fd: int, data: bytes, offset: int) -> int:
        if offset + len(data) > 4 << 20:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().pwrite(fd, data, offset)


def test_a_spool_has_no_name_and_a_full_disk_refuses_it() -> None:
    disk: Disk = FullAt()
    spool = Spool(disk, "spool.0")
    assert disk.listdir(".") == []
    spool.append(b"abc" * 1_000)
    spool.append(b"end")
    assert (len(spool), spool[:3], spool[2_999:3_003], spool[-3:], spool[5:2]) == (
        3_003,
        b"abc",
        b"cend",
        b"end",
        b"",
    )
    with pytest.raises(StoreRefusedError, match="full"):
        spool.append(bytes(5 << 20))


def test_what_is_put_together_lies_where_its_largest_part_lies() -> None:
    disk = MemoryDisk()
    lying = OnDisk(lambda at, length: b"0123456789"[at : at + length], 10)
    assert put_together([b"a", b"b"], lambda: pytest.fail("no spool is needed")) == b"ab"
    assert put_together([lying], lambda: pytest.fail("no spool is needed")) is lying
    assert put_together([lying, b"b"], lambda: Spool(disk, "s"))[:] == b"0123456789b"
    assert b"".join(pieces_of(b"ab")) == b"ab"
