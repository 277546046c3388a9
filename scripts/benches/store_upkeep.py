"""What does an archive cost besides storing and reading? Streaming, sealing, recovery, the index, memory."""

import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from fastwarc.warc import ArchiveIterator

from herodotus.core.captures import CaptureId, position_of
from herodotus.core.index_rows import FilePlace, IndexEntry, RowKind, arrival_of
from herodotus.store.digests import DirectoryDigests
from herodotus.store.holdings import digests_of
from herodotus.store.index import IndexBatch, RocksIndex
from herodotus.store.log import NewTombstones
from herodotus.store.members import gzip_member
from herodotus.store.recovery import open_archive, rebuild
from herodotus.store.sealing import compact, seal
from herodotus.store.streams import Query, Stream
from scripts.benches.store_corpus import Pages
from scripts.benches.store_layouts import NOW_S, OurLog, deposit_for
from tests.herodotus.store.making import archive_of

BATCH = 64
ROUNDS = 3
HOSTS, WORDS = 2_000, 3_000

Row = tuple[str, float, str]


def cpu_us(work: Callable[[], object], count: int, rounds: int = 1) -> float:
    """The best of some rounds, of this thread: on a busy machine the others are noise."""
    best = float("inf")
    for _ in range(rounds):
        begun = time.thread_time()
        work()
        best = min(best, time.thread_time() - begun)
    return best / count * 1e6


def measure_streaming(pages: Pages, scratch: Path) -> Iterator[Row]:
    """Each capture's body against its digest, beside FastWARC, which reads the same bodies and checks none."""
    with _Stored(pages, scratch) as log:
        archive = log.archive
        yield "rebuild from the log, CPU s per million", cpu_us(lambda: rebuild(archive), len(pages)), "s"
        yield "seal", cpu_us(lambda: seal(archive), len(pages)), "us"
        yield "rebuild from segments, CPU s per million", cpu_us(lambda: rebuild(archive), len(pages)), "s"
        segments = list((log.folder / "archive" / "segments").rglob("*.warc.*"))
        size = sum(path.stat().st_size for path in segments)
        yield "raw:disk, sealed", sum(len(body) for _, body in pages) / size, ""
        ours = cpu_us(lambda: _count(Stream(archive, Query()), len(pages)), len(pages), ROUNDS)
        theirs = cpu_us(lambda: _count(_fastwarc(segments), len(pages)), len(pages), ROUNDS)
        yield "stream, parsed and checked", ours, "us"
        yield "FastWARC on the same files", theirs, "us"
        yield "speed of ours / FastWARC's (goal 0.6)", theirs / ours, ""
        victims = [deposit_for(url, body, NOW_S + 1).id for url, body in pages[::4]]
        archive.commit([NewTombstones(ids=tuple(victims))])
        begun = time.thread_time()
        done = compact(archive, dead_min=0)
        cost = (time.thread_time() - begun) / done.captures * 1e6
        yield "compaction, 25 % dead, a live capture", cost, "us"
        yield "of these copied as they were", done.copied / done.captures, ""


class _Stored:
    """An archive with the pages in its log, in a folder that goes again."""

    def __init__(self, pages: Pages, scratch: Path) -> None:
        self.folder = Path(tempfile.mkdtemp(dir=scratch))
        self._log = OurLog(self.folder)
        self.archive = self._log.archive
        self.store(pages)

    def store(self, pages: Pages) -> None:
        for at in range(0, len(pages), BATCH):
            self._log.store(pages[at : at + BATCH])

    def __enter__(self) -> "_Stored":
        return self

    def __exit__(self, *error: object) -> None:
        self._log.close()
        shutil.rmtree(self.folder)


def _fastwarc(paths: list[Path]) -> Iterator[bytes]:
    for path in paths:
        with path.open("rb") as file:
            for record in ArchiveIterator(file, parse_http=False):
                if record.headers.get("WARC-Type") == "response":
                    yield record.reader.read()


def _count(items: Iterator[object] | Stream, expected: int) -> None:
    assert sum(1 for _ in items) == expected


def measure_versions(versions: list[list[bytes]], scratch: Path) -> Iterator[Row]:
    """Raw bytes for each byte on disk, when every page was captured so many times."""
    raw = sum(len(body) for bodies in versions for body in bodies)
    yield "pages", float(len(versions)), ""
    yield "versions of each", float(len(versions[0])), ""
    yield (
        "raw:disk, a gzip member each (the log's codec)",
        raw / sum(len(gzip_member(body)) for bodies in versions for body in bodies),
        "",
    )
    folder = Path(tempfile.mkdtemp(dir=scratch))
    log = OurLog(folder)
    for day in range(len(versions[0])):
        log.store([(f"http://example.org/{n}", bodies[day]) for n, bodies in enumerate(versions)])
    seal(log.archive)
    size = sum(path.stat().st_size for path in (folder / "archive" / "segments").rglob("*.warc.*"))
    yield "raw:disk, sealed, all records", raw / size, ""
    log.close()
    shutil.rmtree(folder)


def measure_recovery(pages: Pages, scratch: Path) -> Iterator[Row]:
    """Opened after a crash with the log unindexed since the last flush of the index: 32 MiB at most."""
    with _Stored(pages, scratch) as log:
        crashed = Path(tempfile.mkdtemp(dir=scratch))
        log.archive.index.flush()
        shutil.copytree(log.folder / "index", crashed / "index", ignore=shutil.ignore_patterns("LOCK"))
        extra = [(f"{url}/more", body) for url, body in pages]
        before = log.archive.log.tail
        log.store(extra)
        unflushed = log.archive.log.tail - before
        shutil.copytree(log.folder / "archive", crashed / "archive")
        archive = archive_of(crashed)
        begun = time.perf_counter()
        open_archive(archive)
        took_s = time.perf_counter() - begun
        assert archive.captures == 2 * len(pages)
        yield "log to read again", unflushed / 1e6, "MB"
        yield "serving again after", took_s, "s"
        yield "so with the bound of 32 MiB (extrapolated)", took_s * 33.6e6 / unflushed, "s"
        archive.close()
        shutil.rmtree(crashed)


def measure_index(captures: int, scratch: Path) -> Iterator[Row]:
    """An index of so many captures of made-up URLs, in a process of its own; their WARC files are not written."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    for step in ("fill", "open"):
        command = [sys.executable, "-m", "scripts.benches.store_upkeep", step, str(folder), str(captures)]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        for line in done.stdout.splitlines():
            name, figure, unit = line.split("\t")
            yield f"{captures:,} captures: {name}", float(figure), unit
    shutil.rmtree(folder)


def _fill(folder: Path, captures: int) -> Iterator[Row]:
    archive = archive_of(folder)
    open_archive(archive)
    rng = random.Random(5)
    begun = time.thread_time()
    for at in range(0, captures, 128):
        batch = IndexBatch()
        for number in range(at, min(at + 128, captures)):
            digest, url = rng.randbytes(32), _made_up_url(number)
            id_ = CaptureId(key=position_of(url), time_s=NOW_S + number % 864_000, digest=digest)
            place = FilePlace(1, number * 3_600 & 0xFFFF_FFFF, 3_500)
            entry = IndexEntry(place=place, kind=RowKind.BODY, arrival=arrival_of(1, place.offset))
            archive.put(batch, id_, entry, url=url)
        archive.write(batch)
    yield "index a capture", (time.thread_time() - begun) / captures * 1e6, "us"
    archive.flush_index()
    assert isinstance(archive.index, RocksIndex)
    yield "bytes a capture as written", archive.index.bytes_used() / captures, "B"
    archive.index.compact()
    yield "bytes a capture merged", archive.index.bytes_used() / captures, "B"
    begun = time.thread_time()
    digests_of(archive, b"", None)
    yield "all digests computed", time.thread_time() - begun, "s"
    begun = time.thread_time()
    digests_of(archive, b"", None)
    yield "all digests again, nothing changed", time.thread_time() - begun, "s"
    archive.close()


def _made_up_url(number: int) -> str:
    """Words of 3,000 on 2,000 hosts: the list of addresses is part of the index, and compresses as they do."""
    rest, host = divmod(number * 2_654_435_761 % 2**32, HOSTS)
    rest, first = divmod(rest, WORDS)
    return f"http://www.host{host}.example/word{first}/part{rest % WORDS}-{number % 977}.html?id={number}"


def _open(folder: Path, captures: int) -> Iterator[Row]:
    before_kib = _resident_kib()
    begun = time.perf_counter()
    index = RocksIndex(folder / "index")
    DirectoryDigests(index).load()
    yield "opened in", time.perf_counter() - begun, "s"
    rng = random.Random(6)
    keys = [b"c" + position_of(_made_up_url(rng.randrange(captures)))[:12] for _ in range(20_000)]
    begun = time.thread_time()
    for key in keys:
        assert index.last_before(key, key + b"\xff" * 7) is not None
    yield "found by URL", (time.thread_time() - begun) / len(keys) * 1e6, "us"
    used_kib = _resident_kib() - before_kib
    yield "memory after 20,000 look-ups, beyond the bare program", used_kib / 1024, "MB"
    index.close()


def _resident_kib() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") // 1024


def main(step: str, folder: Path, captures: int) -> None:
    for name, figure, unit in (_fill if step == "fill" else _open)(folder, captures):
        print(f"{name}\t{figure}\t{unit}")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
