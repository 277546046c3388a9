"""How do WebBase's organisations compare on this disk, and where does ours stand? Its tables 3 and 4 in one run.

The same pages, compressed beforehand (no codec is measured), go into a log, a hash, a hashed-log as the paper has
them, and Herodotus. Every write is flushed; reads are cold (the files' pages are dropped from memory first). What
counts are ratios: the paper's disk sought for 10 ms, and this machine's does not.
"""

import argparse
import hashlib
import os
import random
import shutil
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from scripts.benches.organisations import (
    ORGANISATIONS,
    Hash,
    HashedLog,
    Herodotus,
    Log,
    Organisation,
    Page,
    Way,
)
from scripts.benches.store import disk_bytes, drop_caches
from scripts.benches.store_corpus import load_corpus

PAPER_3 = {
    "streaming": {"log": 6_300, "hash": 3_900},
    "random reads": {"log": 35, "hash": 51},
    Way.RANDOM.value: {"log": 6_100, "hash": 23},
    Way.BUFFERED.value: {"log": 6_100, "hash": 35, "hashed-log (paper)": 660},
    Way.SORTED.value: {"log": 6_100, "hash": 1_300},
}
PAPER_4 = {"log": (6_100, 11_700), "hash": (35, 1_260), "hashed-log (paper)": (660, 1_260)}
ONE_BY_ONE = 1_000
"""Pages that are added singly: more would take long and say the same."""
READS = 2_000
UPDATE_RATIO = 0.25
Make = Callable[[Path, int, int], Organisation]


class Bench:
    def __init__(self, pages: list[Page], scratch: Path, buffer_bytes: int) -> None:
        self.pages = pages
        self.content_bytes = sum(len(data) for _, data in pages)
        self._scratch = scratch
        self._buffer_bytes = buffer_bytes

    @contextmanager
    def making(self, make: Make) -> Iterator[tuple[Organisation, Path]]:
        folder = Path(tempfile.mkdtemp(dir=self._scratch))
        try:
            with closing(make(folder, self.content_bytes, self._buffer_bytes)) as organisation:
                yield organisation, folder
        finally:
            shutil.rmtree(folder)

    def table_3(self, make: Make) -> dict[str, float]:
        figures: dict[str, float] = {}
        ordered = sorted(self.pages)
        with self.making(make) as (organisation, _):
            begun = time.perf_counter()
            organisation.add(ordered, Way.SORTED)
            figures[Way.SORTED.value] = len(ordered) / (time.perf_counter() - begun)
        with self.making(make) as (organisation, folder):
            half = len(self.pages) // 2
            organisation.add(self.pages[:half], Way.BUFFERED)
            begun = time.perf_counter()
            organisation.add(self.pages[half:-ONE_BY_ONE], Way.BUFFERED)
            figures[Way.BUFFERED.value] = (len(self.pages) - half - ONE_BY_ONE) / (
                time.perf_counter() - begun
            )
            begun = time.perf_counter()
            organisation.add(self.pages[-ONE_BY_ONE:], Way.RANDOM)
            figures[Way.RANDOM.value] = ONE_BY_ONE / (time.perf_counter() - begun)
            organisation.finish()
            figures["random reads"] = self._read(organisation, folder)
            drop_caches(folder)
            begun = time.perf_counter()
            assert sum(1 for _ in organisation.stream()) == len(self.pages)
            figures["streaming"] = len(self.pages) / (time.perf_counter() - begun)
            figures["streaming, 1 read in 16"] = self._stream_while_reading(organisation, folder)
            figures["bytes on disk per byte"] = disk_bytes(folder) / self.content_bytes
        return figures

    def _read(self, organisation: Organisation, folder: Path) -> float:
        chosen = random.Random(2).sample(self.pages, READS)
        if isinstance(organisation, HashedLog):
            chosen = chosen[:50]  # each reads a whole log: nobody would
        drop_caches(folder)
        begun = time.perf_counter()
        for identifier, data in chosen:
            assert organisation.read(identifier) == data
        return len(chosen) / (time.perf_counter() - begun)

    def _stream_while_reading(self, organisation: Organisation, folder: Path) -> float:
        if isinstance(organisation, HashedLog):
            return float("nan")
        chosen = random.Random(3).sample(self.pages, len(self.pages) // 16)
        drop_caches(folder)
        begun = time.perf_counter()
        for number, _ in enumerate(organisation.stream()):
            if number % 16 == 0 and number // 16 < len(chosen):
                organisation.read(chosen[number // 16][0])
        return len(self.pages) / (time.perf_counter() - begun)

    def table_4(self, make: Make) -> tuple[float, float]:
        """Pages a second into the update node, and seconds until the read node has them."""
        count = int(len(self.pages) * UPDATE_RATIO)
        renewed = [
            (identifier, data[::-1]) for identifier, data in random.Random(4).sample(self.pages, count)
        ]
        if make is Herodotus:
            return self._table_4_of_ours(renewed)
        with self.making(Hash) as (readers, _), self.making(make) as (updates, folder):
            readers.add(sorted(self.pages), Way.SORTED)
            begun = time.perf_counter()
            updates.add(renewed, Way.BUFFERED)
            rate = count / (time.perf_counter() - begun)
            drop_caches(folder)
            begun = time.perf_counter()
            readers.add(list(updates.stream()), Way.BUFFERED if make is Log else Way.SORTED)
            return rate, time.perf_counter() - begun

    def _table_4_of_ours(self, renewed: list[Page]) -> tuple[float, float]:
        """One node does both, and readers are not stopped: the time is that of sealing."""
        with self.making(Herodotus) as (organisation, _):
            organisation.add(self.pages, Way.BUFFERED)
            organisation.finish()
            begun = time.perf_counter()
            organisation.add(renewed, Way.BUFFERED)
            rate = len(renewed) / (time.perf_counter() - begun)
            begun = time.perf_counter()
            organisation.finish()
            return rate, time.perf_counter() - begun


def load_pages(corpus: Path, count: int) -> list[Page]:
    bodies = [zlib.compress(body, 6) for _, body in load_corpus(corpus, count)]
    pages = []
    for number in range(count):
        identifier = hashlib.sha1(b"%d" % number, usedforsecurity=False).digest()
        pages.append((identifier, bodies[number % len(bodies)]))
    return pages


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench webbase", description=__doc__)
    parser.add_argument(
        "--corpus", type=Path, default=Path(".venv/bench-corpus"), help="folder of HTML files"
    )
    parser.add_argument("--pages", type=int, default=20_000)
    parser.add_argument(
        "--buffer", type=int, default=1024 * 1024, help="bytes of memory for pages on their way"
    )
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to measure"
    )
    asked = parser.parse_args()
    bench = Bench(load_pages(asked.corpus, asked.pages), asked.scratch, asked.buffer)
    print(
        f"{len(bench.pages)} pages, mean {bench.content_bytes // len(bench.pages)} bytes compressed,"
        f" buffer {asked.buffer} bytes, load {os.getloadavg()[0]:.1f}; the paper's figures in parentheses"
    )
    names = [getattr(make, "name", "") for make in ORGANISATIONS]
    found = [bench.table_3(make) for make in ORGANISATIONS]
    print("\nTable 3, pages/s" + " " * 14 + "".join(f"{name:>24}" for name in names))
    for row in (*PAPER_3, "streaming, 1 read in 16", "bytes on disk per byte"):
        cells = [
            _cell(figures[row], PAPER_3.get(row, {}).get(name))
            for name, figures in zip(names, found, strict=True)
        ]
        print(f"{row:30}" + "".join(f"{cell:>24}" for cell in cells))
    print(
        f"\nTable 4, {UPDATE_RATIO:.0%} of the pages renewed; pages/s added, seconds until they can be read"
    )
    for make, name in zip(ORGANISATIONS, names, strict=True):
        rate, seconds = bench.table_4(make)
        paper = PAPER_4.get(name)
        print(f"{name:30}{_cell(rate, paper and paper[0]):>24}{_cell(seconds, paper and paper[1]):>24}")


def _cell(figure: float, paper: float | None) -> str:
    shown = "-" if figure != figure else f"{figure:,.2f}" if figure < 100 else f"{figure:,.0f}"
    return shown if paper is None else f"{shown} ({paper:,})"


if __name__ == "__main__":
    main()
