"""Does the library do what the index needs, where it is known to do otherwise?"""

import random
from collections.abc import Iterable
from pathlib import Path

import pytest
from tantivy import Document, Index, Occur, Query, Searcher

from herodotus.core.search.fields import BODY, ID, POSITION, prepared, stem_field
from herodotus.search.schema import by_id, make_index, stems_of, words_of

HEAP_BYTES = 15_000_000
"""The least that the library takes."""


def _filled(rows: Iterable[tuple[int, int, str]]) -> Index:
    index = make_index(None)
    writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
    for id_, position, text in rows:
        written = prepared(text)
        fields = {ID: id_, POSITION: position, BODY: written, stem_field("en"): written}
        writer.add_document(Document.from_dict(fields, index.schema))
    writer.commit()
    index.reload()
    return index


def _found(index: Index, query: Query) -> set[int]:
    searcher = index.searcher()
    addresses = [address for _score, address in searcher.search(query, limit=2_000).hits]
    return {int(value) for value in searcher.fast_field_values(ID, addresses) if value is not None}


def _phrase(index: Index, text: str) -> Query:
    words = words_of(text)
    if len(words) == 1:
        return Query.term_query(index.schema, BODY, words[0])
    return Query.phrase_query(index.schema, BODY, list(words))


def test_a_deletion_takes_the_document_that_was_named_and_no_other() -> None:
    chance = random.Random(20)
    ids = [chance.getrandbits(64) for _ in range(500)] + [number << 60 for number in range(16)]
    index = _filled((id_, 1, "word") for id_ in ids)
    gone = {*chance.sample(ids, 100), 1 << 60}
    writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
    for id_ in gone:
        writer.delete_documents_by_query(by_id(index.schema, id_))
    writer.commit()
    index.reload()
    assert _found(index, Query.all_query()) == set(ids) - gone


def test_the_librarys_deletion_by_term_takes_another_document() -> None:
    """When this fails the library has changed, and `by_id` may be given up."""
    index = _filled((number << 60, 1, "word") for number in range(16))
    writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
    writer.delete_documents_by_term(ID, 1 << 60)
    writer.commit()
    index.reload()
    assert 1 << 60 in _found(index, Query.all_query())


def test_documents_of_one_batch_lie_in_the_order_of_the_ring() -> None:
    positions = [random.Random(3).getrandbits(64) for _ in range(200)]
    searcher = _filled((number, position, "word") for number, position in enumerate(positions)).searcher()
    assert _in_order_of_documents(searcher) == sorted(positions)


def _in_order_of_documents(searcher: Searcher) -> list[int]:
    assert searcher.num_segments == 1
    addresses = [address for _score, address in searcher.search(Query.all_query(), limit=1_000).hits]
    addresses.sort(key=lambda address: address.doc)
    return [int(value) for value in searcher.fast_field_values(POSITION, addresses) if value is not None]


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ("中国的首都是北京", "首都", "都首"),
        ("ประเทศไทย", "ไทย", "ยไท"),
        ("대한민국의 수도", "민국", "국민"),
        ("我的iPhone手机坏了", "手机", "机手"),
        ("Les CAFÉS de Paris", "cafes", "café"),
        ("snake_case and kebab-case", "snake case", "snakecase"),
    ],
)
def test_words_of_pages_and_of_questions_are_cut_alike(text: str, matching: str, other: str) -> None:
    index = _filled([(1, 1, text)])
    assert _found(index, _phrase(index, matching)) == {1}
    assert _found(index, _phrase(index, other)) == set()


def test_a_word_of_64_bytes_counts_and_a_longer_one_does_not() -> None:
    assert words_of("a" * 64 + " " + "b" * 65 + " end") == ["a" * 64, "end"]


def test_a_form_of_a_word_is_found_by_another() -> None:
    index = _filled([(1, 1, "The archives were crawling")])
    (stem,) = stems_of("crawled", "en")
    asked = Query.term_query(index.schema, stem_field("en"), stem)
    assert _found(index, asked) == {1}
    assert _found(index, _phrase(index, "crawled")) == set()


def test_an_index_is_read_again_from_its_folder(tmp_path: Path) -> None:
    index = make_index(tmp_path)
    writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
    writer.add_document(Document.from_dict({ID: 7, POSITION: 9, BODY: "word"}, index.schema))
    writer.commit()
    writer.wait_merging_threads()
    again = make_index(tmp_path)
    again.reload()
    both = [(Occur.Must, _phrase(again, "word")), (Occur.Must, by_id(again.schema, 7))]
    assert _found(again, Query.boolean_query(both)) == {7}
