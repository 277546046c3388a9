"""How fast are words taken in, how large is the index, and how fast are questions answered?

    scripts/bench search [--pages 100000]

A made-up corpus: pages of some 12 kB of HTML, words by Zipf's law, one site of 200 pages a host, the same each time.
They lie in an archive. Indexing is measured from there (read, parse, extract, write, commit), beside the library alone
on text that was extracted before. Questions are whole ones, grammar included. SQLite's FTS5 gets the same titles and
texts and the same words, in the same run. Times are of the processor, as the machine may be busy.
"""

import argparse
import itertools
import json
import random
import resource
import sqlite3
import statistics
import tempfile
import time
from bisect import bisect
from collections.abc import Callable, Iterator
from pathlib import Path

from tantivy import Document, Occur, Query

from herodotus.core.search.fields import BODY, FIRST, HOST, ID, POSITION, TITLE, UNTIL
from herodotus.core.search.grammar import parse
from herodotus.search.asking import answer
from herodotus.search.documents import Page
from herodotus.search.index import HEAP_BYTES, WordIndex
from herodotus.search.schema import make_index
from herodotus.search.writer import Writer
from herodotus.store.changes import ArchiveChanges
from herodotus.store.engine import Archive
from herodotus.store.recovery import open_archive
from tests.herodotus.store.making import NOW_S, archive_of, page, store

VOCABULARY = 50_000
WORDS = 900
QUESTIONS = 200
STORED_AT_ONCE = 200
SYLLABLES = [
    a + b for a in "bcdfghjklmnprstvw" for b in ("a", "e", "i", "o", "u", "ar", "en", "is", "ol", "un")
]


class Corpus:
    def __init__(self, pages: int) -> None:
        self.pages = pages
        chance = random.Random(1)
        self.words = ["".join(chance.choices(SYLLABLES, k=1 + rank % 4)) for rank in range(VOCABULARY)]
        self._weights = list(itertools.accumulate(1 / (rank + 10) for rank in range(VOCABULARY)))

    def text(self, number: int) -> list[str]:
        chance = random.Random(number)
        return chance.choices(self.words, cum_weights=self._weights, k=WORDS)

    def html(self, number: int) -> bytes:
        words = self.text(number)
        menu = "".join(
            f'<li class="item menu-item"><a href="/page/{n}/">{words[n]}</a></li>' for n in range(40)
        )
        rows = (" ".join(words[at : at + 60]) for at in range(40, WORDS, 60))
        body = "".join(f'<p class="paragraph text">{row.capitalize()}.</p>\n' for row in rows)
        scripts = "<script>" + "window.dataLayer.push({});" * 60 + "</script>"
        return (
            f'<!doctype html><html lang="en"><head><title>{" ".join(words[:6])}</title>{scripts}</head>'
            f"<body><nav><ul>{menu}</ul></nav><main><h1>{words[0]}</h1>{body}</main><footer>{words[1]}</footer>"
        ).encode()

    def url(self, number: int) -> str:
        return f"https://h{number // 200}.example/{number}"

    def rank(self, share: float) -> str:
        """A word at this share of all occurrences."""
        return self.words[bisect(self._weights, share * self._weights[-1])]


def filled(corpus: Corpus, home: Path) -> tuple[Archive, int]:
    archive = archive_of(home)
    open_archive(archive)
    raw = 0
    for start in range(0, corpus.pages, STORED_AT_ONCE):
        bodies = [corpus.html(n) for n in range(start, min(start + STORED_AT_ONCE, corpus.pages))]
        raw += sum(map(len, bodies))
        store(
            archive, *(page(corpus.url(start + n), NOW_S + start + n, body) for n, body in enumerate(bodies))
        )
    return archive, raw


def cpu_s(work: Callable[[], None]) -> float:
    begun = time.process_time()
    work()
    return time.process_time() - begun


def walk(archive: Archive, folder: Path) -> tuple[WordIndex, float]:
    words = WordIndex(folder)
    writer = Writer(words, ArchiveChanges(archive), 0, time.monotonic)

    def work() -> None:
        while writer.step():
            pass
        writer.commit()
        words.release()

    return words, cpu_s(work)


def alone(archive: Archive, folder: Path, pages: int) -> float:
    """The library on as much text of as many fields, extracted before; CPU seconds."""
    sample = list(itertools.islice(map(Page, ArchiveChanges(archive).shown(b"")), pages))
    folder.mkdir()
    index = make_index(folder)

    def work() -> None:
        writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
        for number, one in enumerate(sample):
            text = one.text
            fields = {
                ID: number,
                POSITION: one.position,
                FIRST: one.time_s,
                UNTIL: 0,
                TITLE: text.title,
                BODY: text.body,
                "rest": text.rest,
                "stem_en": text.body,
            }
            writer.add_document(Document.from_dict(fields, index.schema))
            if number % 4_096 == 4_095:
                writer.commit()
        writer.commit()
        writer.wait_merging_threads()

    return cpu_s(work)


def measured(ask: Callable[[str], object], questions: Iterator[str]) -> dict[str, float]:
    taken = []
    for question in questions:
        begun = time.thread_time()
        ask(question)
        taken.append(1_000 * (time.thread_time() - begun))
    cuts = statistics.quantiles(taken, n=100)
    return {f"p{share}_cpu_ms": round(cuts[share - 1], 2) for share in (50, 95, 99)}


def questions(corpus: Corpus, kind: str) -> Iterator[str]:
    chance = random.Random(kind)
    day = time.strftime("%Y-%m-%d", time.gmtime(NOW_S + corpus.pages // 2))
    for _ in range(QUESTIONS):
        one, two, three = (corpus.rank(chance.uniform(0.05, 0.6)) for _ in range(3))
        around = corpus.text(chance.randrange(corpus.pages))[200:202]
        yield {
            "one word": one,
            "three words": f"{one} {two} {three}",
            "phrase": f'"{" ".join(around)}"',
            "three words on a day": f"{one} {two} {three} on:{day}",
            "three words of a site": f"{one} {two} site:h{chance.randrange(max(1, corpus.pages // 200))}.example",
        }[kind]


KINDS = ("one word", "three words", "phrase", "three words on a day", "three words of a site")


def library_beside(corpus: Corpus, words: WordIndex) -> dict[str, object]:
    """The best ten pages that have three words in their main text, and the hosts of them all: nothing of ours around
    it."""
    chance = random.Random("library")

    def wanted() -> Query:
        asked = [corpus.rank(chance.uniform(0.05, 0.6)) for _ in range(3)]
        terms = [Query.term_query(words.schema, BODY, word) for word in asked]
        return Query.boolean_query([(Occur.Must, term) for term in terms])

    hosts = {"hosts": {"terms": {"field": HOST, "size": 10}}}
    asked = [wanted() for _ in range(QUESTIONS)]
    numbers = [str(number) for number in range(QUESTIONS)]
    return {
        "three words": measured(lambda n: words.searcher.search(asked[int(n)], limit=10), iter(numbers)),
        "facet by host": measured(lambda n: words.searcher.aggregate(asked[int(n)], hosts), iter(numbers)),
    }


def sqlite_beside(corpus: Corpus, archive: Archive) -> dict[str, object]:
    with sqlite3.connect(":memory:") as database:
        database.execute("CREATE VIRTUAL TABLE pages USING fts5(title, body, content='')")
        pages = (Page(capture) for capture in ArchiveChanges(archive).shown(b""))
        texts = [(one.text.title, one.text.body) for one in itertools.islice(pages, corpus.pages)]
        insert = "INSERT INTO pages(title, body) VALUES (?, ?)"
        taken_s = cpu_s(lambda: (database.executemany(insert, texts), None)[1])
        size = database.execute("PRAGMA page_count").fetchone()[0] * 4_096

        def ask(words: str) -> object:
            found = "SELECT rowid FROM pages WHERE pages MATCH ? ORDER BY rank LIMIT 10"
            return database.execute(found, (words,)).fetchall()

        asked = {kind: measured(ask, questions(corpus, kind)) for kind in KINDS[:3]}
    return {"pages_a_cpu_s": round(len(texts) / taken_s), "bytes": size, "questions": asked}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=100_000)
    parser.add_argument("--alone", type=int, default=10_000, help="pages that the library alone gets")
    parser.add_argument("--without-sqlite", action="store_true")
    options = parser.parse_args()
    corpus = Corpus(options.pages)
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        archive, raw = filled(corpus, home)
        before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024
        words, whole_s = walk(archive, home / "words")
        alone_s = alone(archive, home / "alone", min(options.alone, options.pages)) * max(
            1, options.pages / options.alone
        )
        size = words.bytes_used()

        def ask(text: str) -> object:
            return answer(words.index, parse(text, NOW_S), now_s=NOW_S)

        facts: dict[str, object] = {
            "pages": options.pages,
            "html_bytes": raw,
            "pages_a_cpu_s": round(options.pages / whole_s),
            "library_alone_pages_a_cpu_s": round(options.pages / alone_s),
            "of_the_library_alone": round(alone_s / whole_s, 2),
            "index_bytes": size,
            "of_the_html": round(size / raw, 4),
            "memory_before_mb": round(before_mb),
            "memory_most_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1_024),
            "questions": {kind: measured(ask, questions(corpus, kind)) for kind in KINDS},
        }
        facts["library"] = library_beside(corpus, words)
        if not options.without_sqlite:
            facts["sqlite_fts5"] = sqlite_beside(corpus, archive)
        archive.close()
    print(json.dumps(facts, indent=1))


if __name__ == "__main__":
    main()
