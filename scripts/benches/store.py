"""How does the archive compare with the ways of the papers, on the same pages in one run?

Pages are the HTML of Debian documentation packages (`--corpus` takes any folder of HTML files). What counts
are ratios to what is measured beside it; each figure is one run.
"""

import argparse
import hashlib
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import anyio
from fastwarc.warc import ArchiveIterator

from herodotus.archive.commands import archive_of
from herodotus.archive.engine import Archive, Item
from herodotus.archive.intake import Intake
from herodotus.archive.reading import Reader
from herodotus.archive.recovery import open_archive, rebuild
from herodotus.archive.rocks import RocksIndex
from herodotus.archive.sealing import seal
from herodotus.archive.store import open_store
from herodotus.archive.streaming import Query, Stream
from herodotus.core.deposits import Deposit, make_deposit
from scripts.benches.store_layouts import LAYOUTS, Layout

PACKAGES = (
    "python3.11-doc",
    "postgresql-doc-15",
    "git-doc",
    "apache2-doc",
    "debian-policy",
    "libboost1.81-doc",
)
BODY_BYTES_MAX = 60_000  # keeps the mean near the thesis's 12 kB
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nServer: bench\r\n\r\n"
NOW_S = 1_700_000_000
BATCH = 64

Pages = list[tuple[str, bytes]]


def load_corpus(folder: Path, count: int) -> Pages:
    if not folder.exists():
        fetch_corpus(folder)
    bodies: dict[bytes, bytes] = {}
    for path in sorted(folder.rglob("*.html")):
        if path.is_file():
            body = path.read_bytes()
            if 0 < len(body) <= BODY_BYTES_MAX:
                bodies.setdefault(hashlib.sha256(body).digest(), body)
    pages = [(f"http://example.org/{number}", body) for number, body in enumerate(bodies.values())]
    random.Random(1).shuffle(pages)
    return pages[:count]


def fetch_corpus(folder: Path) -> None:
    folder.mkdir(parents=True)
    for package in PACKAGES:
        got = subprocess.run(
            ["apt-get", "download", "-q", package], cwd=folder, capture_output=True, check=False
        )
        if got.returncode:
            print(f"without {package}: apt-get could not fetch it", file=sys.stderr)
    for archive in folder.glob("*.deb"):
        subprocess.run(["dpkg", "-x", archive.name, "pages"], cwd=folder, check=True)
        archive.unlink()


@contextmanager
def timed(figures: dict[str, float], name: str, count: int) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    figures[name] = count / (time.perf_counter() - wall)
    figures[f"{name} cpu"] = (time.process_time() - cpu) / count * 1e6


def drop_caches(folder: Path) -> None:
    """Of these files alone, so that it needs no privileges; what is dirty is written first."""
    os.sync()
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


class OurLog:
    """The archive's engine as its committer uses it: batches of 64, one flush each."""

    name = "Herodotus"

    def __init__(self, folder: Path) -> None:
        self.archive = archive_of(folder)
        open_archive(self.archive)
        self._intake = Intake(self.archive)
        self._reader = Reader(self.archive)
        self._times: dict[str, int] = {}

    def store(self, pages: Sequence[tuple[str, bytes]]) -> None:
        items = list[Item]()
        for url, body in pages:
            self._times[url] = self._times.get(url, NOW_S) + 1
            prepared = self._intake.prepare(_deposit(url, body, self._times[url]))
            self._intake.promise(prepared)
            if prepared.item is not None:
                items.append(prepared.item)
        self.archive.commit(items)

    def read(self, url: str, body_digest: bytes) -> bytes:
        found = self._reader.newest(url, 2**32 - 1)
        assert found is not None
        return found.body

    def close(self) -> None:
        self.archive.close()


def _deposit(url: str, body: bytes, time_s: int) -> Deposit:
    request = f"GET {url} HTTP/1.1\r\nUser-Agent: bench\r\n\r\n".encode()
    return make_deposit(url=url, time_s=time_s, head=HEAD, body=body, ip="192.0.2.1", request=request)


def measure_layout(make: Callable[[Path], Layout], pages: Pages, scratch: Path) -> dict[str, float]:
    figures: dict[str, float] = {}
    folder = Path(tempfile.mkdtemp(dir=scratch))
    batches = [pages[at : at + BATCH] for at in range(0, len(pages), BATCH)]
    order = [(url, hashlib.sha256(body).digest()) for url, body in pages]
    random.Random(2).shuffle(order)
    with closing(make(folder)) as layout:
        with timed(figures, "new", len(pages)):
            for batch in batches:
                layout.store(batch)
        os.sync()
        figures["raw:disk"] = sum(len(body) for _, body in pages) / disk_bytes(folder)
        with timed(figures, "duplicate", len(pages)):
            for batch in batches:
                layout.store(batch)
        with timed(figures, "warm", len(order)):
            for url, digest in order:
                assert hashlib.sha256(layout.read(url, digest)).digest() == digest
        drop_caches(folder)
        with timed(figures, "cold", len(order)):
            for url, digest in order:
                layout.read(url, digest)
    shutil.rmtree(folder)
    return figures


def measure_clients(pages: Pages, scratch: Path, clients: int, duplicates: float) -> float:
    """Gomes's figures 4 to 7: so many clients, so many of a hundred known already; stores a second."""
    folder = Path(tempfile.mkdtemp(dir=scratch))
    rng = random.Random(3)
    known = pages[: len(pages) // 4]
    work = iter([rng.choice(known) if rng.random() < duplicates else page for page in pages[len(known) :]])
    count = len(pages) - len(known)

    async def main() -> float:
        async with open_store(archive_of(folder)) as store:
            numbers = iter(range(1, 10_000_000))

            async def client(pairs: Iterator[tuple[str, bytes]]) -> None:
                for url, body in pairs:
                    await store.store(_deposit(url, body, NOW_S + next(numbers)))

            async def run(pairs: Iterator[tuple[str, bytes]]) -> None:
                async with anyio.create_task_group() as tasks:
                    for _ in range(clients):
                        tasks.start_soon(client, pairs)

            await run(iter(known))
            begun = time.perf_counter()
            await run(work)
            return count / (time.perf_counter() - begun)

    try:
        return anyio.run(main)
    finally:
        shutil.rmtree(folder)


def measure_upkeep(pages: Pages, scratch: Path) -> dict[str, float]:
    """Streaming against FastWARC on the same files, sealing, rebuilding, and the index's bytes."""
    figures: dict[str, float] = {}
    folder = Path(tempfile.mkdtemp(dir=scratch))
    log = OurLog(folder)
    for at in range(0, len(pages), BATCH):
        log.store(pages[at : at + BATCH])
    archive = log.archive
    with timed(figures, "rebuild from the log", len(pages)):
        rebuild(archive)
    with timed(figures, "seal", len(pages)):
        seal(archive)
    with timed(figures, "rebuild from segments", len(pages)):
        rebuild(archive)
    figures["index bytes a capture"] = _index_bytes(archive) / len(pages)
    with timed(figures, "stream, parsed", len(pages)):
        assert sum(1 for _ in Stream(archive, Query())) == len(pages)
    paths = list((folder / "archive" / "segments").rglob("*.warc.*"))
    figures["raw:disk sealed"] = sum(len(body) for _, body in pages) / sum(
        path.stat().st_size for path in paths
    )
    log.close()
    with timed(figures, "FastWARC on the same files", len(pages)):
        seen = 0
        for path in paths:
            with path.open("rb") as file:
                for record in ArchiveIterator(file, parse_http=False):
                    if record.headers.get("WARC-Type") == "response":
                        record.reader.read()
                        seen += 1
        assert seen == len(pages)
    shutil.rmtree(folder)
    return figures


def _index_bytes(archive: Archive) -> int:
    assert isinstance(archive.index, RocksIndex)
    archive.index.compact()
    return archive.index.bytes_used()


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench store", description=__doc__)
    parser.add_argument(
        "--corpus", type=Path, default=Path(".venv/bench-corpus"), help="folder of HTML files"
    )
    parser.add_argument("--pages", type=int, default=6_000)
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to measure"
    )
    asked = parser.parse_args()
    pages = load_corpus(asked.corpus, asked.pages)
    mean = sum(len(body) for _, body in pages) // max(1, len(pages))
    print(f"{len(pages)} pages, mean {mean} bytes, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}\n")
    print(f"{'':40}{'new/s':>9}{'CPU us':>8}{'dup/s':>9}{'warm/s':>9}{'cold/s':>9}{'raw:disk':>9}")
    for make in (*LAYOUTS, OurLog):
        figures = measure_layout(make, pages, asked.scratch)
        cells = (figures[name] for name in ("new", "new cpu", "duplicate", "warm", "cold"))
        print(
            f"{make.name:40}"
            + "".join(f"{cell:>{width}.0f}" for cell, width in zip(cells, (9, 8, 9, 9, 9), strict=True))
            + f"{figures['raw:disk']:>9.2f}"
        )
    print("\nclients: stores/s at 0, 50, 100 % duplicates")
    for clients in (1, 5, 25, 128):
        rates = [measure_clients(pages, asked.scratch, clients, share) for share in (0.0, 0.5, 1.0)]
        print(f"{clients:>7}: " + "".join(f"{rate:>9.0f}" for rate in rates))
    print()
    for name, figure in measure_upkeep(pages, asked.scratch).items():
        unit = "" if "raw:disk" in name or "bytes" in name else (" us" if name.endswith("cpu") else "/s")
        print(f"{name:40}{figure:>9.1f}{unit}")


if __name__ == "__main__":
    main()
