"""Digests that are kept equal what a walk over everything gives, whatever happened between."""

import random
from collections import Counter

import pytest

from herodotus.core.captures import CaptureId
from herodotus.core.index_rows import CAPTURE, DAY_S, TOMBSTONE, after
from herodotus.core.reconciliation import leaf_digest, member_of, root_digest, top_digests
from herodotus.store.deletion import delete
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.holdings import digests_of
from herodotus.store.index import IndexBatch
from herodotus.store.intake import Intake
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.sealing import compact, seal
from herodotus.store.settings import ArchiveSettings
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryDisk, MemoryIndex
from tests.herodotus.store.power import JournalledIndex


def _open(disk: MemoryDisk, index: MemoryIndex) -> Archive:
    archive = Archive(
        Files([disk]), index, now=lambda: float(NOW_S), settings=ArchiveSettings(log_bytes_max=6_000)
    )
    open_archive(archive)
    return archive


def _members(archive: Archive, key_from: bytes, key_to: bytes | None) -> set[bytes]:
    found = set()
    for family in (CAPTURE, TOMBSTONE):
        for key, _ in archive.index.scan(family, after(family)):
            if key_from <= key[1:13] and (key_to is None or key[1:13] < key_to):
                found.add(member_of(key))
    return found


def _check(archive: Archive, key_from: bytes = b"", key_to: bytes | None = None) -> None:
    members = _members(archive, key_from, key_to)
    directories = {int.from_bytes(member[:2], "big") for member in members}
    assert digests_of(archive, key_from, key_to) == {
        directory: leaf_digest(m for m in members if m[:2] == directory.to_bytes(2, "big"))
        for directory in directories
    }
    captures = Counter(member_of(key) for key, _ in archive.index.scan(CAPTURE, after(CAPTURE)))
    assert list(archive.directories.several(key_from, key_to)) == sorted(
        member for member, count in captures.items() if count > 1 and member in members
    )


@pytest.mark.parametrize("seed", range(8))
def test_kept_digests_equal_those_of_a_full_scan(seed: int) -> None:
    rng = random.Random(seed)
    disk, index = MemoryDisk(), JournalledIndex()
    archive = _open(disk, index)
    live: list[CaptureId] = []

    for step in range(40):
        action = rng.choice(["store"] * 6 + ["delete", "seal", "compact", "crash", "rebuild", "ask", "ask"])
        if action == "store":
            # Few URLs and days: several captures of a URL on one day are one member.
            when = NOW_S + rng.randrange(3) * DAY_S + rng.randrange(5)
            deposits = [page(f"http://example.org/{rng.randrange(9)}", when, b"%d" % rng.randrange(4))]
            store(archive, *deposits)
            live += [deposit.id for deposit in deposits]
        elif action == "delete" and live:
            delete(archive, Intake(archive), [live.pop(rng.randrange(len(live)))])
        elif action == "seal":
            seal(archive)
        elif action == "compact":
            compact(archive, dead_min=0)
        elif action == "crash":
            assert isinstance(archive.index, JournalledIndex)
            archive.log.end()
            archive = _open(disk, archive.index.after_crash(rng))
        elif action == "rebuild":
            rebuild(archive)
        elif action == "ask":
            ends = sorted(rng.randbytes(rng.choice((1, 2, 3, 12))) for _ in range(2))
            _check(archive, ends[0], rng.choice((ends[1], None)))
        if step % 10 == 9:
            _check(archive)
    _check(archive)


def test_peers_with_equal_captures_have_equal_roots_and_one_capture_shows() -> None:
    first, second = open_on(MemoryDisk()), open_on(MemoryDisk())
    deposits = [page(f"http://example.org/{n}", NOW_S + n * 7_000, b"%d" % n) for n in range(60)]
    store(first, *deposits)
    store(second, *reversed(deposits))
    # Another content of the same URL and day is the thesis's "disputed", not a difference.
    store(second, page(deposits[0].capture.url, deposits[0].capture.time_s, b"other"))
    roots = [root_digest(top_digests(digests_of(archive, b"", None))) for archive in (first, second)]
    assert roots[0] == roots[1]
    extra = page("http://example.org/extra", NOW_S)
    store(second, extra)
    ours, theirs = digests_of(first, b"", None), digests_of(second, b"", None)
    differing = {directory for directory in ours | theirs if ours.get(directory) != theirs.get(directory)}
    assert differing == {int.from_bytes(extra.key[:2], "big")}


def test_opening_deletes_the_sketches_of_earlier_releases_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.store.digests._DELETED_AT_ONCE", 7)
    disk, index = MemoryDisk(), JournalledIndex()
    archive = _open(disk, index)
    store(archive, *(page(f"http://example.org/{n}", NOW_S, b"%d" % n) for n in range(30)))
    before = index.content()
    for number in range(16):
        index.write(
            IndexBatch([(b"s" + bytes((number,)), bytes(100)), (b"e" + number.to_bytes(4, "big"), bytes(17))])
        )
    archive.close()
    again = _open(disk, index)
    assert index.content() == before
    # The rows by which other spellings are found are not among them: they stay.
    assert Reader(again).spellings(("https://www.example.org/3",)) == ["http://example.org/3"]
    assert again.captures == 30
    _check(again)
    again.close()
    index.batches.clear()
    _open(disk, index)
    touched = {key[:1] for batch in index.batches if batch for key, _ in batch.changes}
    assert not touched & {b"s", b"e"}
