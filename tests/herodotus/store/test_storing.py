"""What is stored comes back, also after the index is lost and after the process is."""

import hashlib
import random
from itertools import islice
from pathlib import Path

import pytest

from herodotus.core.bundles import Visit
from herodotus.core.captures import Mode
from herodotus.core.errors import DamagedRecordError
from herodotus.store.intake import Intake, StoreOutcome
from herodotus.store.reader import Reader
from herodotus.store.recovery import rebuild
from simnet.world.disk import SimulatedDisk
from tests.herodotus.deposits import altered
from tests.herodotus.store.making import NOW_S, note_visits, open_on, page, store
from tests.herodotus.store.memory_store import MemoryIndex

URL = "http://example.org/"


def test_a_capture_comes_back_with_its_request(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposit = page(URL, NOW_S, b"first")
    assert store(archive, deposit) == [StoreOutcome.NEW]
    found = Reader(archive).read(deposit.id)
    assert found is not None
    assert (found.body, found.status, found.mime) == (b"first", 200, "text/html")
    assert found.head == deposit.capture.head
    assert found.record.get("WARC-IP-Address") == "192.0.2.1"
    assert [record.kind for record in found.companions] == ["request"]
    assert found.companions[0].block == deposit.capture.request
    assert found.companions[0].get("WARC-Concurrent-To") == found.record.record_id
    archive.close()


def test_the_newest_not_newer_is_chosen(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, *(page(URL, NOW_S + day, b"day %d" % day) for day in (0, 10, 20)))
    reader = Reader(archive)
    bodies = [
        None if found is None else found.body
        for found in (reader.newest(URL, NOW_S + at) for at in (-1, 0, 9, 10, 19, 99))
    ]
    assert bodies == [None, b"day 0", b"day 0", b"day 10", b"day 10", b"day 20"]
    archive.close()


def test_the_same_payload_is_a_revisit_that_names_the_original(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    first, second, third = (page(URL, NOW_S + n, b"same body") for n in range(3))
    assert store(archive, first) == [StoreOutcome.NEW]
    assert store(archive, second, third) == [StoreOutcome.REVISIT, StoreOutcome.REVISIT]
    found = Reader(archive).read(third.id)
    assert found is not None
    assert found.is_revisit
    assert found.body == b"same body"
    assert found.record.block == third.capture.head
    assert found.record.get("WARC-Refers-To-Target-URI") == URL
    assert found.record.get("WARC-Refers-To-Date") == "2023-11-14T22:13:20Z"
    assert len(Reader(archive).of_payload(first.capture.sha256)) == 3
    archive.close()


def test_storing_a_capture_again_writes_nothing(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, page(URL, NOW_S))
    tail = archive.log.tail
    assert store(archive, page(URL, NOW_S)) == [StoreOutcome.KNOWN]
    assert archive.log.tail == tail
    archive.close()


def test_force_new_stores_the_body_again(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, page(URL, NOW_S))
    assert store(archive, page(URL, NOW_S + 1), mode=Mode.FORCE_NEW) == [StoreOutcome.NEW]
    archive.close()


def test_unchanged_visits_count_for_the_version_before_them(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    store(archive, page(URL, NOW_S, b"a"), page(URL, NOW_S + 100, b"b"))
    note_visits(archive, *(Visit(url=URL, time_s=NOW_S + at, status=304) for at in (10, 20, 110)))
    expected = [(2, NOW_S + 20), (1, NOW_S + 110)]
    assert [(v.visits, v.last_seen_s) for v in Reader(archive).history(URL)] == expected
    rebuild(archive)
    assert [(v.visits, v.last_seen_s) for v in Reader(archive).history(URL)] == expected
    archive.close()


def test_a_lost_index_is_made_anew_and_an_old_one_catches_up(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposits = [page(f"http://example.org/{n}", NOW_S, b"page %d" % n) for n in range(40)]
    store(archive, *deposits[:20])
    note_visits(archive, Visit(url=deposits[0].capture.url, time_s=NOW_S + 5, status=304))
    assert isinstance(archive.index, MemoryIndex)
    old = MemoryIndex(archive.index.content())
    store(archive, *deposits[20:])
    whole = [pair for pair in archive.index.content() if pair[0] != b"mincarnation"]
    archive.close()
    for index in (MemoryIndex(), old):
        again = open_on(tmp_path, index)
        assert [pair for pair in index.content() if pair[0][:1] in b"cdv"] == [
            pair for pair in whole if pair[0][:1] in b"cdv"
        ]
        assert all(Reader(again).read(deposit.id) is not None for deposit in deposits)
        again.close()


def test_a_torn_tail_is_cut_and_storing_goes_on(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    first, second = page(URL, NOW_S, b"kept"), page(URL, NOW_S + 1, b"torn")
    store(archive, first)
    kept = archive.log.tail
    store(archive, second)
    archive.close()
    path = tmp_path / "log" / "00000001.warc.gz"
    path.write_bytes(path.read_bytes()[: kept + 40])
    again = open_on(tmp_path)
    assert path.stat().st_size == kept
    assert Reader(again).read(first.id) is not None
    assert Reader(again).read(second.id) is None
    assert store(again, second) == [StoreOutcome.NEW]
    again.close()


def test_a_rotten_record_is_reported_and_the_others_are_served(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    deposits = [page(f"http://example.org/{n}", NOW_S, b"page %d" % n) for n in range(3)]
    store(archive, *deposits)
    entry = Reader(archive).find(deposits[1].id)
    assert entry is not None
    path = tmp_path / "log" / "00000001.warc.gz"
    data = bytearray(path.read_bytes())
    data[entry.place.offset + 60] ^= 0x10
    path.write_bytes(data)
    with pytest.raises(DamagedRecordError):
        Reader(archive).read(deposits[1].id)
    assert Reader(archive).read(deposits[2].id) is not None
    assert [(d.path, d.offset) for d in archive.damage.values()] == [
        ("log/00000001.warc.gz", entry.place.offset)
    ]
    archive.close()


def test_what_does_not_match_its_digest_is_damaged_and_not_served(tmp_path: Path) -> None:
    """Nothing else tells: the bytes are as they were written."""
    archive = open_on(tmp_path)
    forged = altered(page("http://example.org/", NOW_S, b"forged"), sha256=hashlib.sha256(b"honest").digest())
    store(archive, forged)
    with pytest.raises(DamagedRecordError, match="digest"):
        Reader(archive).read(forged.id)
    assert Reader(archive).newest(forged.capture.url, NOW_S) is None
    archive.close()


def test_a_capture_that_refers_to_what_is_not_its_body_is_damaged_and_not_served(tmp_path: Path) -> None:
    archive = open_on(tmp_path)
    urls = (f"http://example.org/{number}" for number in range(1_000))
    first, second = islice((url for url in urls if page(url, NOW_S).key[0] >> 4 == 3), 2)
    digest = hashlib.sha256(b"honest").digest()
    original, honest = altered(page(first, NOW_S, b"forged"), sha256=digest), page(second, NOW_S, b"honest")
    assert store(archive, original, honest) == [StoreOutcome.NEW, StoreOutcome.REVISIT]
    with pytest.raises(DamagedRecordError, match="original"):
        Reader(archive).read(honest.id)
    archive.close()


def test_what_is_served_after_a_crash_of_the_process_outlives_a_power_cut() -> None:
    """It was in the log and nobody had flushed it; whoever read it meanwhile may have acted on it."""
    disk = SimulatedDisk()
    archive = open_on(disk)
    promised, late = page(URL, NOW_S), page(f"{URL}late", NOW_S)
    store(archive, promised)
    prepared = Intake(archive).prepare(late)
    assert prepared.item is not None
    archive.log.write(prepared.item.members)  # and the process was killed
    again = open_on(disk)
    assert Reader(again).read(late.id) is not None
    images = list(disk.crash_images(random.Random(1), limit=20))
    assert images
    for image in images:
        reader = Reader(open_on(image))
        assert [reader.read(one.id) is not None for one in (promised, late)] == [True, True]
