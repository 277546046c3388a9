"""Sealed, compacted, read by strangers: the captures stay what they were."""

import json
import random
import subprocess
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from types import SimpleNamespace

import pytest
from fastwarc.warc import ArchiveIterator as FastIterator
from warcio.archiveiterator import ArchiveIterator
from warcio.checker import Checker

from herodotus.core.bundles import Visit
from herodotus.core.captures import Deposit
from herodotus.core.index_rows import capture_key
from herodotus.core.layout import Compression
from herodotus.store.engine import Archive
from herodotus.store.intake import StoreOutcome
from herodotus.store.log import NewTombstones
from herodotus.store.members import decode_member, scan_members
from herodotus.store.reader import Reader, Version
from herodotus.store.recovery import rebuild
from herodotus.store.sealing import compact, dead_shares, seal
from herodotus.store.settings import ArchiveSettings
from herodotus.store.throttle import Throttle
from herodotus.store.verification import verify
from tests.herodotus.store.making import NOW_S, note_visits, open_on, page, random_text, store

CODECS = [Compression.ZSTD, Compression.GZIP]


def _some(rng: random.Random, count: int) -> list[Deposit]:
    deposits = []
    for n in range(count):
        mime = "image/png" if n % 7 == 0 else "text/html"
        body = rng.randbytes(2_000) if mime == "image/png" else random_text(rng, 1_500)
        deposits.append(page(f"http://example.org/{n % 20}", NOW_S + n, body, mime))
    return deposits


def _all_there(archive: Archive, deposits: list[Deposit]) -> None:
    reader = Reader(archive)
    for deposit in deposits:
        found = reader.read(deposit.id)
        assert found is not None
        assert found.body == deposit.capture.body
        assert found.companions[0].block == deposit.capture.request


@pytest.mark.parametrize("codec", CODECS)
def test_sealed_captures_are_read_and_survive_rebuilding(tmp_path: Path, codec: Compression) -> None:
    archive = open_on(tmp_path, settings=ArchiveSettings(codec=codec))
    deposits = _some(random.Random(1), 80)
    store(archive, *deposits)
    note_visits(archive, Visit(url=deposits[5].capture.url, time_s=NOW_S + 500, status=304))
    before = _history(archive, deposits[5].capture.url)
    sealed = seal(archive)
    assert sealed.captures == 80
    assert archive.files.logs() == [archive.log.number]
    _all_there(archive, deposits)
    assert _history(archive, deposits[5].capture.url) == before
    rebuild(archive)
    _all_there(archive, deposits)
    assert _history(archive, deposits[5].capture.url) == before
    archive.close()


def _history(archive: Archive, url: str) -> list[Version]:
    """Without what sealing is there to change."""
    return [replace(version, stored_bytes=0) for version in Reader(archive).history(url)]


def test_versions_of_a_url_share_a_frame(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    rng = random.Random(2)
    text = random_text(rng, 8_000)
    versions = [page("http://example.org/", NOW_S + n, text + b"%d" % n) for n in range(20)]
    store(archive, *versions)
    seal(archive)
    reader = Reader(archive)
    places = [entry.place for entry in (reader.find(version.id) for version in versions) if entry is not None]
    assert len({place.offset for place in places}) == 2  # sixteen and four
    assert max(place.length for place in places) < 6_000
    archive.close()


@pytest.mark.parametrize("codec", CODECS)
def test_compaction_drops_what_was_deleted_and_nothing_else(tmp_path: Path, codec: Compression) -> None:
    archive = open_on(tmp_path, settings=ArchiveSettings(codec=codec))
    deposits = _some(random.Random(3), 60)
    store(archive, *deposits)
    seal(archive)
    archive.commit([NewTombstones(ids=tuple(deposit.id for deposit in deposits[:40]))])
    assert min(dead_shares(archive).values()) >= 0
    done = compact(archive)
    assert done.bytes_after < done.bytes_before
    seal(archive)
    _all_there(archive, deposits[40:])
    for index_state in ("live", "rebuilt"):
        assert all(Reader(archive).read(deposit.id) is None for deposit in deposits[:40]), index_state
        rebuild(archive)
    compact(archive, dead_min=0)
    _all_there(archive, deposits[40:])
    archive.close()


def test_a_second_sealing_adds_files_and_compaction_joins_them(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposits = _some(random.Random(4), 60)
    store(archive, *deposits[:30])
    seal(archive)
    store(archive, *deposits[30:])
    seal(archive)
    files = len(archive.files.segments())
    compact(archive, dead_min=0)
    assert len(archive.files.segments()) < files
    _all_there(archive, deposits)
    archive.close()


@pytest.mark.parametrize("codec", CODECS)
def test_strangers_read_every_record_without_our_software(tmp_path: Path, codec: Compression) -> None:
    archive = open_on(tmp_path, settings=ArchiveSettings(codec=codec))
    deposits = _some(random.Random(5), 50)
    store(archive, *deposits, page("http://example.org/same", NOW_S, deposits[1].capture.body))
    seal(archive)
    store(archive, page("http://example.org/log", NOW_S, b"still in the log"))
    archive.close()
    urls = sorted(deposit.capture.url for deposit in deposits)
    urls += ["http://example.org/log", "http://example.org/same"]
    seen_by_warcio, seen_by_fastwarc = [], []
    for path in sorted(tmp_path.rglob("*.warc.*")):
        program = ["zstd", "-dc"] if path.suffix == ".zst" else ["zcat"]
        plain = subprocess.run([*program, path], check=True, capture_output=True).stdout
        for record in ArchiveIterator(BytesIO(plain), check_digests="raise"):
            record.content_stream().read()
            if record.rec_type in ("response", "revisit"):
                seen_by_warcio.append(record.rec_headers.get_header("WARC-Target-URI"))
        for fast in FastIterator(BytesIO(path.read_bytes()), parse_http=False):
            if fast.headers.get("WARC-Type") in ("response", "revisit"):
                assert fast.verify_block_digest()
                seen_by_fastwarc.append(fast.headers["WARC-Target-URI"])
    assert sorted(seen_by_warcio) == sorted(urls)
    assert sorted(seen_by_fastwarc) == sorted(urls)


def test_warcio_check_passes_on_logs_and_gzip_segments(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = open_on(tmp_path, settings=ArchiveSettings(codec=Compression.GZIP))
    store(archive, *_some(random.Random(6), 20))
    seal(archive)
    store(archive, page("http://example.org/log", NOW_S))
    archive.close()

    paths = [str(path) for path in sorted(tmp_path.rglob("*.warc.gz"))]
    checker = Checker(SimpleNamespace(inputs=paths, verbose=False))
    checker.process_all()
    assert checker.exit_value == 0, capsys.readouterr().out


def test_the_cdxj_beside_a_segment_leads_to_every_record(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposits = _some(random.Random(7), 30)
    store(archive, *deposits)
    seal(archive)
    archive.close()
    seen = set()
    for path in tmp_path.rglob("*.cdxj"):
        lines = path.read_text().splitlines()
        assert lines == sorted(lines)
        for line in lines:
            _, _, fields = line.split(" ", 2)
            entry = json.loads(fields)
            data = (path.parent / entry["filename"]).read_bytes()
            member = data[int(entry["offset"]) :][: int(entry["length"])]
            plain = subprocess.run(["zstd", "-dc"], input=member, check=True, capture_output=True).stdout
            assert entry["url"].encode() in plain[int(entry.get("skip", 0)) :][:600]
            seen.add(entry["url"])
    assert seen == {deposit.capture.url for deposit in deposits}


@pytest.mark.parametrize("codec", CODECS)
def test_compaction_copies_members_that_live_whole_and_packs_the_rest_anew(
    tmp_path: Path, codec: Compression
) -> None:
    archive = open_on(tmp_path, settings=ArchiveSettings(codec=codec))
    deposits = _some(random.Random(8), 90)
    store(archive, *deposits)
    assert seal(archive).copied == 0
    before = _members(tmp_path)
    # One version of one URL goes: its neighbours in the frame are packed anew, all other frames are copied.
    victim = next(d for d in deposits if d.capture.url.endswith("/4"))
    archive.commit([NewTombstones(ids=(victim.id,))])
    done = compact(archive, dead_min=0)
    neighbours = (
        sum(1 for d in deposits if d.capture.url == victim.capture.url and d.capture.mime == "text/html") - 1
    )
    assert done.captures == 89
    assert done.copied == 89 - (neighbours if codec is Compression.ZSTD else 0)
    after = _members(tmp_path)
    assert len(after - before) <= 1 + 16  # the frame packed anew, and the warcinfo of each new segment
    kept = [deposit for deposit in deposits if deposit is not victim]
    _all_there(archive, kept)
    rebuild(archive)
    _all_there(archive, kept)
    archive.close()
    for path in tmp_path.rglob("*.cdxj"):
        for line in path.read_text().splitlines():
            entry = json.loads(line.split(" ", 2)[2])
            data = (path.parent / entry["filename"]).read_bytes()
            content, _ = decode_member(data[int(entry["offset"]) :][: int(entry["length"])])
            assert entry["url"].encode() in content[int(entry.get("skip", 0)) :][:600]


def _members(folder: Path) -> set[bytes]:
    found = set()
    for path in (folder / "segments").rglob("*.warc.*"):
        data = path.read_bytes()
        found |= _members_of(data)
    return found


def _members_of(data: bytes) -> set[bytes]:
    return {data[at : at + n] for at, n, _ in scan_members(lambda at, n: data[at : at + n], 0, len(data))}


def test_versions_from_several_segments_come_together_in_one_frame(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    versions = [page("http://example.org/", NOW_S + n, b"<p>version %d</p>" % n) for n in range(6)]
    for version in versions:
        store(archive, version)
        seal(archive)
    assert len(archive.files.segments()) == 6
    assert compact(archive, dead_min=0).copied == 0
    reader = Reader(archive)
    places = [entry.place for entry in (reader.find(version.id) for version in versions) if entry is not None]
    assert len(places) == 6
    assert len({(place.file, place.offset) for place in places}) == 1
    archive.close()


def test_upkeep_waits_when_it_moved_more_than_its_share() -> None:
    clock = [100.0]
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock[0] += seconds

    pace = Throttle(1_000, lambda: clock[0], wait)
    for _ in range(10):
        pace(500)
    assert sum(waits) == pytest.approx(5.0)
    clock[0] += 60
    waits.clear()
    pace(1_000)
    assert waits == [pytest.approx(1.0)]  # an idle minute is no credit


def test_sealing_says_what_it_moved(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, *_some(random.Random(9), 40))
    moved: list[int] = []
    done = seal(archive, moved.append)
    assert 0.8 * done.bytes_after < sum(moved) <= done.bytes_after
    archive.close()


def test_segments_with_a_dictionary_are_smaller_and_read_by_others_even_after_rot(tmp_path: Path) -> None:
    rng = random.Random(11)
    frame = random_text(rng, 3_000)
    deposits = [
        deposit
        for n in range(3_000)
        if (deposit := page(f"http://example.org/{n}", NOW_S, frame + b"%d" % n)).key[0] < 32  # two buckets
    ]
    folder = tmp_path
    sizes = {}
    for dictionary_bytes in (0, 16_384):
        folder = tmp_path / str(dictionary_bytes)
        folder.mkdir()
        archive = open_on(folder, settings=ArchiveSettings(dictionary_bytes=dictionary_bytes))
        store(archive, *deposits)
        assert seal(archive).skipped == 0
        archive.close()
        sizes[dictionary_bytes] = sum(path.stat().st_size for path in folder.rglob("segments/*/*.zst"))
    assert sizes[16_384] < 0.7 * sizes[0]
    segments = sorted(folder.rglob("segments/*/*.warc.zst"))
    assert all(path.with_name(path.name[:-9] + ".zdict").exists() for path in segments)
    seen = []
    for path in segments:
        beside = path.with_name(path.name[:-9] + ".zdict")
        plain = subprocess.run(["zstd", "-dc", "-D", beside, path], check=True, capture_output=True).stdout
        seen += [
            record.rec_headers.get_header("WARC-Target-URI") for record in ArchiveIterator(BytesIO(plain))
        ]
        for fast in FastIterator(BytesIO(path.read_bytes()), parse_http=False):
            assert fast.headers.get("WARC-Type") == "warcinfo" or fast.verify_block_digest()
    assert {deposit.capture.url for deposit in deposits} <= set(seen)
    # Rot in the dictionary of one file and in the copy beside another costs nothing.
    embedded = bytearray(segments[0].read_bytes())
    embedded[3_000] ^= 1
    segments[0].write_bytes(embedded)
    segments[1].with_name(segments[1].name[:-9] + ".zdict").write_bytes(b"rot")
    again = open_on(folder)
    _all_there(again, deposits)
    assert verify(again).damage == []
    assert compact(again, dead_min=0).captures == len(deposits)  # back to the profile without
    assert list(folder.rglob("*.zdict")) == []
    _all_there(again, deposits)
    again.close()


def test_what_is_stored_again_while_it_is_sealed_keeps_its_new_place(tmp_path: Path) -> None:
    """Its old copy turned out damaged behind the sealing's back: what it read of it before must not come back."""
    archive = open_on(tmp_path)
    deposits = sorted(_some(random.Random(12), 40), key=lambda deposit: deposit.key)
    store(archive, *deposits)
    first = deposits[0]
    old = Reader(archive).find(first.id)
    assert old is not None
    log = tmp_path / archive.files.path(old.place.file)
    outcomes: list[StoreOutcome] = []

    def meanwhile(_moved: int) -> None:
        if not outcomes:  # the first of all has just been written to its segment
            data = bytearray(log.read_bytes())
            data[old.place.offset + 200] ^= 0x10
            log.write_bytes(data)
            outcomes.extend(store(archive, first))

    seal(archive, meanwhile)
    assert outcomes == [StoreOutcome.NEW]
    entry = Reader(archive).find(first.id)
    assert entry is not None
    assert archive.files.catalogue[entry.place.file].name.is_log
    _all_there(archive, deposits)
    rebuild(archive)
    _all_there(archive, deposits)
    archive.close()


def test_a_capture_that_moved_since_the_index_was_read_is_found_where_it_is(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposit = page("http://example.org/", NOW_S, b"it moves")
    store(archive, deposit)
    key = capture_key(deposit.id)
    before = archive.index.get(key)
    assert before is not None
    seal(archive)
    reader = Reader(archive)
    found = [reader.try_read(key, before), reader.record_at(key, before)]
    assert [None if one is None else one.body for one in found] == [b"it moves", b"it moves"]
    archive.commit([NewTombstones(ids=(deposit.id,))])
    assert (reader.try_read(key, before), reader.record_at(key, before)) == (None, None)
    assert archive.damage == {}
    archive.close()
