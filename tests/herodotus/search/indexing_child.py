"""Stores captures and keeps the index of words level, until it is killed. Says each capture that it stored."""

import random
import sys
from pathlib import Path
from unittest.mock import patch

from herodotus.core.removals import Removals, subject_of
from herodotus.core.search.cover import SURPLUS_S, Arc, keys_of
from herodotus.home.clock import steady_seconds
from herodotus.search import writer as writing
from herodotus.search.keeper import SPARE_BYTES, Keeper
from herodotus.store.changes import ArchiveChanges
from herodotus.store.deletion import delete
from herodotus.store.intake import Intake
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from tests.herodotus.store.making import NOW_S, archive_of, page, store

PAGES = 40
SOME = [
    keys_of([Arc(0, 0)]),
    keys_of([Arc(0, 1 << 63)]),
    keys_of([Arc(3 << 62, 1 << 61), Arc(1 << 62, 3 << 61)]),
]
"""For which keys others ask this peer, one after the other; 30 captures are a day."""


def main(home: Path, seed: int) -> None:
    chance = random.Random(seed)
    archive = archive_of(home)
    open_archive(archive)
    patch.multiple(writing, COMMIT_S=0.0, CAPTURES_A_STEP=4).start()
    now_s = 0.0
    keeper = Keeper(
        home / "words",
        ArchiveChanges(archive),
        now=steady_seconds,
        free_bytes=lambda: SPARE_BYTES,
        unix_s=lambda: now_s,
    )
    keeper.wanted = SOME[0]
    for number in range(seed * 10_000, seed * 10_000 + 5_000):
        url = f"https://h{chance.randrange(4)}.example/{chance.randrange(PAGES)}"
        body = f"<title>T</title><p>text {chance.randrange(3)}".encode()
        store(archive, page(url, NOW_S + chance.randrange(100_000), body))
        if number % 7 == 0:
            delete(archive, Intake(archive), [version.id for version in Reader(archive).history(url)][:1])
        if number % 50 == 0:
            hidden = [subject_of("host", "h1.example")] if number % 100 else []
            archive.removed = Removals.of_subjects(hidden)
        now_s += SURPLUS_S / 30
        if number % 20 == 0:
            keeper.wanted = chance.choice(SOME)
        if number % 60 == 0:
            keeper.rebuild()
        for _ in range(chance.randrange(4)):
            keeper.step()
        sys.stdout.write(f"{number}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
