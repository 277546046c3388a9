"""Behind a damaged place reading goes on, whatever stands there, and for a bounded price."""

import gzip
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from herodotus.core.bundles import format_bundle
from herodotus.core.captures import Deposit
from herodotus.core.layout import Compression
from herodotus.store import resync
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.intake import StoreOutcome
from herodotus.store.members import GZIP_MAGIC, Dictionary, first_bytes, gzip_member, zstd_frame
from herodotus.store.reader import Reader
from herodotus.store.sealing import seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.verification import verify
from simnet.world.disk import SimulatedDisk
from tests.herodotus.store.making import NOW_S, open_on, page, random_text, store

HOSTILE = "http://example.org/hostile"


def _around(body: bytes) -> tuple[Deposit, Deposit, Deposit]:
    """Its body is packed already by what it says it is, so it stands in the log as it is."""
    before, after = (page(f"http://example.org/{name}", NOW_S, name.encode()) for name in ("before", "after"))
    return before, page(HOSTILE, NOW_S, body, "image/jpeg"), after


def _break_start(disk: SimulatedDisk, archive: Archive, deposit: Deposit) -> None:
    entry = Reader(archive).find(deposit.id)
    assert entry is not None
    disk.rot(archive.files.path(entry.place.file), (entry.place.offset + 1) * 8)


@contextmanager
def _counted_reads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    lengths: list[int] = []
    original = Files.read_at

    def read_at(self: Files, number: int, offset: int, length: int) -> bytes:
        lengths.append(length)
        return original(self, number, offset, length)

    with monkeypatch.context() as patched:
        patched.setattr(Files, "read_at", read_at)
        yield lengths


@pytest.mark.parametrize("is_verifying", [False, True])
def test_a_body_full_of_magic_numbers_does_not_make_the_search_long(
    is_verifying: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a log as it was before there were marks
    disk = SimulatedDisk()
    archive = open_on(disk, random_bytes=bytes)
    before, hostile, after = _around(GZIP_MAGIC * 10_000)
    assert store(archive, before, hostile, after) == [StoreOutcome.NEW] * 3
    _break_start(disk, archive, hostile)
    with _counted_reads(monkeypatch) as lengths:
        if is_verifying:
            assert len(verify(archive).damage) == 1
        else:
            archive = open_on(disk, random_bytes=bytes)
            assert Reader(archive).read(after.id) is not None
    assert sum(lengths) < 10_000_000  # each number used to have all that follows it read: 330 MB
    assert Reader(archive).read(before.id) is not None


@pytest.mark.parametrize("pack", [gzip_member, zstd_frame])
@pytest.mark.parametrize("codec", [None, *Compression])
@pytest.mark.parametrize("is_followed", [True, False])
def test_records_within_a_body_are_not_taken_for_ours(
    pack: Callable[[bytes], bytes], codec: Compression | None, is_followed: bool
) -> None:
    """A page that holds an archive, even one made to deceive: damage before it must not let it out."""
    disk = SimulatedDisk()
    archive = open_on(disk, settings=ArchiveSettings(codec=codec or Compression.ZSTD))
    forged = page("http://example.org/forged", NOW_S, b"never said")
    body = pack(b"".join(format_bundle(forged, None)))
    before, hostile, after = _around(body)
    store(archive, before, hostile)
    if is_followed:
        store(archive, after)
    if codec is not None:
        seal(archive)
    _break_start(disk, archive, hostile)
    again = open_on(disk)
    assert Reader(again).find(forged.id) is None
    assert Reader(again).read(before.id) is not None
    assert (Reader(again).find(after.id) is not None) == is_followed
    assert verify(again).unknown == 0


def test_a_log_without_a_mark_is_searched_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = SimulatedDisk()
    archive = open_on(disk, random_bytes=bytes)
    before, broken, after = _around(b"body")
    store(archive, before, broken, after)
    _break_start(disk, archive, broken)
    again = open_on(disk, random_bytes=bytes)
    assert Reader(again).read(after.id) is not None


@pytest.mark.parametrize("member", [0, 1])
def test_a_mark_that_rotted_is_not_believed(member: int) -> None:
    disk = SimulatedDisk()
    archive = open_on(disk)
    before, broken, after = _around(b"body")
    info_bytes = archive.log.tail
    store(archive, before, broken, after)
    disk.rot(archive.files.path(1), (info_bytes * member + 5) * 8)
    _break_start(disk, archive, broken)
    again = open_on(disk)
    assert [Reader(again).find(deposit.id) is not None for deposit in (before, broken, after)] == [
        True,
        False,
        True,
    ]


def test_a_segment_without_its_list_is_searched_all_the_same(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposits = [page(f"http://example.org/{n}", NOW_S, b"%d" % n) for n in range(100)]
    store(archive, *deposits)
    seal(archive)
    entry = Reader(archive).find(deposits[3].id)
    assert entry is not None
    segment = tmp_path / archive.files.path(entry.place.file)
    data = bytearray(segment.read_bytes())
    data[entry.place.offset + 1] ^= 1
    segment.write_bytes(data)
    for path in tmp_path.rglob("*.cdxj"):
        path.unlink()
    again = open_on(tmp_path)
    assert [deposit.capture.url for deposit in deposits if Reader(again).find(deposit.id) is None] == [
        deposits[3].capture.url
    ]


def test_what_is_not_searched_to_its_end_is_not_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    """Members that begin as records and are none cost more; beyond a bound the file is left as it is."""
    disk = SimulatedDisk()
    archive = open_on(disk, random_bytes=bytes)
    lure = gzip.compress(b"WARC/1.1 and nothing else", mtime=0)
    before, hostile, after = _around(lure * 1_000)
    store(archive, before, hostile, after)
    _break_start(disk, archive, hostile)
    [path] = [path for path in disk.paths() if "log/" in path]
    data = disk.read_bytes(path)
    with monkeypatch.context() as patched:
        patched.setattr(resync, "SEARCH_BYTES_MAX", 1_000_000)
        archive = open_on(disk, random_bytes=bytes)
        assert [damage.reason for damage in archive.damage.values()] == [
            "neither a gzip member nor a zstd frame; the rest was not searched to its end"
        ]
        assert Reader(archive).read(before.id) is not None
        assert store(archive, page("http://example.org/later", NOW_S)) == [StoreOutcome.NEW]
    assert disk.read_bytes(path) == data
    again = open_on(disk, random_bytes=bytes)
    assert all(Reader(again).read(deposit.id) is not None for deposit in (before, after))


@pytest.mark.parametrize("pack", [gzip_member, zstd_frame])
@pytest.mark.parametrize("flaw", ["broken", "too large", "no record"])
@pytest.mark.parametrize("is_verifying", [False, True])
def test_bombs_within_a_body_are_not_decoded_without_end(
    pack: Callable[[bytes], bytes], flaw: str, is_verifying: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What fails costs as much as what does not: a file full of them used to be decoded for minutes."""
    codec = Compression.GZIP if pack is gzip_member else Compression.ZSTD
    disk = SimulatedDisk()
    archive = open_on(disk, settings=ArchiveSettings(codec=codec), random_bytes=bytes)
    bomb = pack(b"WARC/1.1" + bytes(4_000_000))
    if flaw == "broken":
        bomb = bomb[:-4] + bytes(4)
    if flaw == "too large":
        monkeypatch.setattr("herodotus.store.members.MEMBER_BYTES_MAX", 3_000_000)
        monkeypatch.setattr(resync, "MEMBER_BYTES_MAX", 3_000_000)
    rng = random.Random(1)  # what lies between them keeps sealing from packing them once more
    before, hostile, after = _around(b"".join(bomb + rng.randbytes(20_000) for _ in range(20)))
    store(archive, before, hostile, after)
    if codec is Compression.ZSTD:
        seal(archive)
        for path in disk.paths():
            if path.endswith(".cdxj"):
                disk.unlink(path)
    _break_start(disk, archive, hostile)
    monkeypatch.setattr(resync, "SEARCH_BYTES_MAX", 20_000_000)
    if is_verifying:
        verify(archive)
    again = open_on(disk, random_bytes=bytes)
    assert [damage.reason.partition("; ")[2] for damage in again.damage.values()] == [
        "the rest was not searched to its end"
    ]
    assert Reader(again).read(before.id) is not None


def test_rot_in_a_segment_with_a_dictionary_costs_one_frame() -> None:
    disk = SimulatedDisk()
    archive = open_on(disk, settings=ArchiveSettings(dictionary_bytes=2_000))
    rng = random.Random(1)
    deposits = [
        page(f"http://example.org/{n}", NOW_S + n, random_text(rng, 600) + b"%d" % n) for n in range(2_000)
    ]
    store(archive, *deposits)
    seal(archive)
    victim = next(
        path
        for number in archive.files.segments()
        if archive.files.dictionary(number) is not None
        for path in [archive.files.path(number)]
    )
    inside = next(
        deposit
        for deposit in deposits
        if (entry := Reader(archive).find(deposit.id)) is not None
        and archive.files.path(entry.place.file) == victim
        and entry.place.offset > 20_000
    )
    _break_start(disk, archive, inside)
    again = open_on(disk)
    lost = [deposit.capture.url for deposit in deposits if Reader(again).find(deposit.id) is None]
    assert lost == [inside.capture.url]


@pytest.mark.parametrize("pack", [gzip_member, zstd_frame])
def test_the_first_bytes_of_a_member_are_known_from_its_start(pack: Callable[[bytes], bytes]) -> None:
    packed = pack(b"WARC/1.1\r\n" + random.Random(1).randbytes(5_000))
    assert first_bytes(packed[:1_000], 5) == b"WARC/"
    assert first_bytes(b"\0" + packed, 5) == b""
    assert first_bytes(packed[:4] + b"\xff" * 40, 5) == b""


def test_the_first_bytes_of_a_frame_with_a_dictionary_need_it() -> None:
    rng = random.Random(1)
    dictionary = Dictionary.train([random_text(rng, 600) for _ in range(500)], 2_000)
    assert dictionary is not None
    assert first_bytes(dictionary.encode(b"WARC/1.1"), 5, dictionary) == b"WARC/"
