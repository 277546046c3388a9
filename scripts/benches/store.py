"""How does the archive compare with the ways of the papers, on the same pages in one run?

Pages are the HTML of Debian documentation packages (`--corpus` takes any folder of HTML files). What counts
are ratios to what is measured beside it; each figure is one run. CPU times are of the threads that work and
bear a busy machine; rates do not.
"""

import argparse
import hashlib
import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import partial
from itertools import product
from pathlib import Path

import anyio

from herodotus.core.index_rows import FilePlace
from herodotus.machine import Machine
from herodotus.store.members import decode_member
from herodotus.store.store import open_store
from scripts.benches.store_corpus import Pages, load_corpus, load_versions
from scripts.benches.store_layouts import LAYOUTS, NOW_S, Layout, OurLog, deposit_for
from scripts.benches.store_upkeep import (
    BATCH,
    Row,
    measure_index,
    measure_recovery,
    measure_streaming,
    measure_versions,
)
from tests.herodotus.store.making import archive_of

CLIENTS = (1, 5, 25)
SHARES = (0.0, 0.5, 1.0)


@contextmanager
def timed(figures: dict[str, float], name: str, count: int) -> Iterator[None]:
    wall, cpu = time.perf_counter(), time.process_time()
    yield
    figures[name] = count / (time.perf_counter() - wall)
    figures[f"{name} cpu"] = (time.process_time() - cpu) / count * 1e6


def settle(folder: Path) -> None:
    """Write what is dirty of these files alone: others may be writing on this machine, too."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.fsync(file.fileno())


def drop_caches(folder: Path) -> None:
    """Of these files, settled before; it needs no privileges."""
    for path in folder.rglob("*"):
        if path.is_file():
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def disk_bytes(folder: Path) -> int:
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


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
        settle(folder)
        figures["raw:disk"] = sum(len(body) for _, body in pages) / disk_bytes(folder)
        places = layout.places(url for url, _ in order) if isinstance(layout, OurLog) else []
        for temperature in ("warm", "cold"):
            if temperature == "cold":
                drop_caches(folder)
            with timed(figures, temperature, len(order)):
                for url, digest in order:
                    layout.read(url, digest)
        for temperature in ("warm", "cold"):
            if places:
                _read_raw(folder, places, figures, temperature)
        with timed(figures, "dup", len(pages)):
            for batch in batches:
                layout.store(batch)
    shutil.rmtree(folder)
    return figures


def _read_raw(folder: Path, places: Sequence[FilePlace], figures: dict[str, float], temperature: str) -> None:
    """The same records without us: bare reads, and reads that are decoded."""
    [path] = (folder / "archive" / "log").glob("*.gz")
    with path.open("rb") as file:
        for name, use in (("pread", bytes), ("pread+decode", decode_member)):
            if temperature == "cold":
                drop_caches(folder)
            with timed(figures, f"{name} {temperature}", len(places)):
                for place in places:
                    use(os.pread(file.fileno(), place.length, place.offset))


def print_layouts(pages: Pages, scratch: Path) -> None:
    names = ("new", "dup", "warm", "cold")
    print(f"{'':40}" + "".join(f"{name + '/s':>9}{'CPU us':>8}" for name in names) + f"{'raw:disk':>9}")
    all_figures = {}
    for make in (*LAYOUTS, OurLog):
        figures = all_figures[make.name] = measure_layout(make, pages, scratch)
        cells = "".join(f"{figures[name]:>9.0f}{figures[name + ' cpu']:>8.0f}" for name in names)
        print(f"{make.name:40}{cells}{figures['raw:disk']:>9.2f}", flush=True)
    ours, plain, thesis = (all_figures[make.name] for make in (OurLog, LAYOUTS[0], LAYOUTS[1]))
    for name in ("pread", "pread+decode"):
        cells = "".join(
            f"{ours[f'{name} {temperature}']:>9.0f}{ours[f'{name} {temperature} cpu']:>8.0f}"
            for temperature in ("warm", "cold")
        )
        print(f"{'  the same records by ' + name:40}{'':34}{cells}")
    print("\nratios, by rate and by CPU; goals of DESIGN")
    for name, goal, over, under in (
        ("new stores / plain files", 3, (ours, "new"), (plain, "new")),
        ("new stores / thesis's layout", 2, (ours, "new"), (thesis, "new")),
        ("duplicates / plain files", 7, (ours, "dup"), (plain, "dup")),
        ("cold reads / bare pread", 0.5, (ours, "cold"), (ours, "pread cold")),
        ("warm reads / pread and decode", 0.5, (ours, "warm"), (ours, "pread+decode warm")),
    ):
        rate = over[0][over[1]] / under[0][under[1]]
        cpu = under[0][under[1] + " cpu"] / over[0][over[1] + " cpu"]
        print(f"  {name:38}{rate:>9.2f}{cpu:>9.2f}   goal {goal}")


def _work(pages: Pages, share: float, number: int) -> tuple[Pages, Pages]:
    """What is known already, and what then comes: so many of a hundred known. Each round has pages of its own, as all
    of a layout's rounds fill one store: making the thesis's 65,536 folders for each took most of the time."""
    own = [(f"{url}/{number}", body + b"<!-- %d -->" % number) for url, body in pages]
    rng = random.Random(3)
    known = own[: len(own) // 3]
    return known, [rng.choice(known) if rng.random() < share else page for page in own[len(known) :]]


def _rounds() -> Iterator[tuple[int, int, float]]:
    return ((number, *pair) for number, pair in enumerate(product(CLIENTS, SHARES)))


def measure_clients(make: Callable[[Path], Layout], pages: Pages, folder: Path) -> Iterator[float]:
    """Webstore's figure 6, at several shares of duplicates: stores a second, each client one page after another."""
    with closing(make(folder)) as layout:
        for number, clients, share in _rounds():
            known, work = _work(pages, share, number)
            for at in range(0, len(known), BATCH):
                layout.store(known[at : at + BATCH])
            with ThreadPoolExecutor(clients) as pool:
                begun = time.perf_counter()
                for _ in pool.map(lambda page: layout.store([page]), work):
                    pass
                yield len(work) / (time.perf_counter() - begun)


async def measure_our_clients(pages: Pages, folder: Path) -> list[float]:
    """The same through the store's own face, where clients are tasks and wait for one flush together."""
    rates = []
    times = iter(range(NOW_S, 2**32))
    async with open_store(archive_of(folder), Machine()) as store:

        async def client(pairs: Iterator[tuple[str, bytes]]) -> None:
            for url, body in pairs:
                await store.store(deposit_for(url, body, next(times)))

        async def run(pairs: Pages, clients: int) -> float:
            shared = iter(pairs)
            begun = time.perf_counter()
            async with anyio.create_task_group() as tasks:
                for _ in range(clients):
                    tasks.start_soon(client, shared)
            return len(pairs) / (time.perf_counter() - begun)

        for number, clients, share in _rounds():
            known, work = _work(pages, share, number)
            await run(known, BATCH)
            rates.append(await run(work, clients))
    return rates


def print_clients(pages: Pages, scratch: Path) -> None:
    print(
        "stores/s by clients and duplicates\n"
        f"{'':40}" + "".join(f"{clients:>5}c{share:>4.0%}" for clients, share in product(CLIENTS, SHARES))
    )
    for make in (*LAYOUTS, OurLog):
        folder = Path(tempfile.mkdtemp(dir=scratch))
        rates = (
            anyio.run(partial(measure_our_clients, pages, folder), backend_options={"use_uvloop": True})
            if make is OurLog
            else measure_clients(make, pages, folder)
        )
        print(f"{make.name:40}", end="")
        for rate in rates:
            print(f"{rate:>10.0f}", end="", flush=True)
        print()
        shutil.rmtree(folder)


def print_rows(rows: Iterable[Row]) -> None:
    for name, figure, unit in rows:
        print(f"{name:66}{figure:>10.2f} {unit}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench store", description=__doc__)
    parser.add_argument(
        "--corpus", type=Path, default=Path(".venv/bench-corpus"), help="folder of HTML files"
    )
    parser.add_argument("--pages", type=int, default=6_000)
    parser.add_argument("--captures", type=int, nargs="*", default=[1_000_000], help="sizes of the index")
    parser.add_argument(
        "--scratch", type=Path, default=Path(tempfile.gettempdir()), help="a folder on the disk to measure"
    )
    sections = ("layouts", "clients", "streaming", "versions", "recovery", "index")
    parser.add_argument("--only", choices=sections, nargs="*", default=sections)
    asked = parser.parse_args()
    pages = load_corpus(asked.corpus, asked.pages)
    mean = sum(len(body) for _, body in pages) // max(1, len(pages))
    print(f"{len(pages)} pages, mean {mean} bytes, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.1f}")
    steps: dict[str, Callable[[], None]] = {
        "layouts": lambda: print_layouts(pages, asked.scratch),
        "clients": lambda: print_clients(pages[: len(pages) // 10], asked.scratch),
        "streaming": lambda: print_rows(measure_streaming(pages, asked.scratch)),
        "versions": lambda: print_rows(measure_versions(load_versions(60, 16), asked.scratch)),
        "recovery": lambda: print_rows(measure_recovery(pages, asked.scratch)),
        "index": lambda: print_rows(
            row for captures in asked.captures for row in measure_index(captures, asked.scratch)
        ),
    }
    for name in asked.only:
        print()
        steps[name]()


if __name__ == "__main__":
    main()
