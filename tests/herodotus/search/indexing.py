"""What the tests of the index of words are made of: an archive in memory, and an index that follows it."""

from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

from tantivy import Query

from dht.core.arcs import WHOLE, Arcs
from herodotus.core.captures import position_of
from herodotus.core.doors import Door, Passage, through
from herodotus.core.removals import Removals, Subject
from herodotus.core.search.fields import BODY, DIGEST, FIRST, POSITION, UNTIL
from herodotus.search.follower import stays_here
from herodotus.search.index import WordIndex
from herodotus.search.schema import words_of
from herodotus.search.writer import Writer
from herodotus.store.changes import ArchiveChanges
from herodotus.store.deletion import delete
from herodotus.store.engine import Archive
from herodotus.store.intake import Intake
from herodotus.store.reader import Reader
from tests.herodotus.store.making import NOW_S, open_on, page, store
from tests.herodotus.store.memory_store import MemoryDisk

URLS = [f"https://{host}/{path}" for host in ("a.example", "www.a.example", "b.example") for path in "xyz"]
Row = tuple[int, int, int, int]


@dataclass
class Bench:
    """An archive, and an index that follows it; now and then both are closed, or killed."""

    folder: Path
    archive: Archive = field(default_factory=lambda: open_on(MemoryDisk()))
    now_s: float = 0.0

    def __post_init__(self) -> None:
        self.open()

    def open(self) -> None:
        self.changes = ArchiveChanges(self.archive)
        tail = self.changes.begin(lambda: None)
        self.words = WordIndex(self.folder)
        self.writer = Writer(self.words, self.changes, tail, lambda: self.now_s, stays=stays_here)

    def kill(self) -> None:
        """Nothing of what was not committed is left."""
        self.words.give_up()
        self.changes.end()

    def close(self) -> None:
        self.catch_up()
        self.writer.commit(is_last=True)
        self.words.release()
        self.changes.end()

    def put(self, url: str, day: int, text: str) -> None:
        store(self.archive, page(url, NOW_S + day, f"<title>T</title><p>{text}".encode()))

    def bring_in(self, url: str, day: int, text: str) -> None:
        """As an import does."""
        deposit = page(url, NOW_S + day, f"<title>T</title><p>{text}".encode())
        store(self.archive, through(Passage(Door.BROUGHT_IN), deposit))

    def remove(self, *subjects: Subject) -> None:
        self.archive.removed = Removals.of_subjects(subjects)

    def delete(self, url: str) -> None:
        ids = [version.id for version in Reader(self.archive).history(url)]
        delete(self.archive, Intake(self.archive), ids[:1])

    def catch_up(self, steps: int | None = None) -> None:
        self.writer.take(self.changes.take())
        self.writer.follow_rules()
        while steps is None or steps > 0:
            if not self.writer.step():
                break
            steps = None if steps is None else steps - 1
        if steps is None:
            self.writer.commit()

    def documents(self) -> list[Row]:
        return rows_of(self.words)

    def anew(self, arcs: Arcs = WHOLE) -> list[Row]:
        """Of these keys, and of what was brought in."""
        of_here = {_number(one.id.key) for one in ArchiveChanges(self.archive).shown(b"") if stays_here(one)}
        rows = made_anew(self.archive)
        return [row for row in rows if row[0].to_bytes(8, "big") in arcs or row[0] in of_here]


def made_anew(archive: Archive) -> list[Row]:
    with TemporaryDirectory() as folder:
        words = WordIndex(Path(folder) / "anew")
        writer = Writer(words, ArchiveChanges(archive), 0, lambda: 0.0)
        while writer.step():
            pass
        writer.commit()
        words.release()
        return rows_of(words)


def rows_of(words: WordIndex) -> list[Row]:
    hits = words.searcher.search(Query.all_query(), limit=10_000).hits
    addresses = [address for _, address in hits]
    fields = (POSITION, FIRST, UNTIL, DIGEST)
    columns = [words.searcher.fast_field_values(field, addresses) for field in fields]
    found = [tuple(int(value or 0) for value in row) for row in zip(*columns, strict=True)]
    return sorted((position, first, until, digest) for position, first, until, digest in found)


def found_with(words: WordIndex, text: str) -> int:
    """How many documents have a word in their main text."""
    (word,) = words_of(text)
    return len(words.searcher.search(Query.term_query(words.schema, BODY, word), limit=10_000).hits)


def place(url: str) -> int:
    return _number(position_of(url))


def _number(position: bytes) -> int:
    return int.from_bytes(position[:8], "big")
