"""How does the library see a document: which fields, cut into words by which rules?

The library is imported with this module: 5 MB of code, so a peer imports it when its search starts. A deletion by
term on a number deletes another document than the one asked for (0.27.0): `by_id` is a query, and documents are
deleted by queries alone.
"""

from functools import cache
from pathlib import Path
from typing import Final

from tantivy import Filter, Index, Query, Schema, SchemaBuilder, TextAnalyzer, TextAnalyzerBuilder, Tokenizer

from herodotus.core.search.fields import (
    ANCHOR,
    BODY,
    DIGEST,
    FIRST,
    HOST,
    ID,
    INLINKS,
    LANGUAGE,
    LINKS_TO,
    POSITION,
    REST,
    SITE,
    STATUS,
    STEMMERS,
    TITLE,
    TYPE,
    UNTIL,
    URL_WORDS,
    WORD_BYTES_MAX,
    prepared,
    stem_field,
)

_WORDS: Final = "words"
_RAW: Final = "raw"


def make_schema() -> Schema:
    builder = SchemaBuilder()
    for name in (TITLE, BODY):
        builder.add_text_field(name, tokenizer_name=_WORDS, index_option="position")
    builder.add_text_field(REST, tokenizer_name=_WORDS, index_option="freq")
    for language in STEMMERS:
        field = stem_field(language)
        builder.add_text_field(field, tokenizer_name=field, index_option="freq")
    for name in (URL_WORDS, ANCHOR):
        builder.add_text_field(name, tokenizer_name=_WORDS, index_option="basic")
    for name in (SITE, LINKS_TO):
        builder.add_text_field(name, tokenizer_name=_RAW, index_option="basic")
    for name in (HOST, TYPE, LANGUAGE):
        builder.add_text_field(name, tokenizer_name=_RAW, index_option="basic", fast=True)
    for name in (FIRST, UNTIL, INLINKS, DIGEST):
        builder.add_unsigned_field(name, fast=True)
    for name in (POSITION, STATUS, ID):
        builder.add_unsigned_field(name, fast=True, indexed=True)
    return builder.build()


def make_index(folder: Path | None) -> Index:
    """A new index, or the one that lies in this folder; without a folder in memory. It serves what is committed when
    it is told to reload."""
    path = None if folder is None else str(folder)
    index = Index(make_schema(), path=path, reuse=True, sort_by_field=POSITION)
    register_tokenizers(index)
    index.config_reader("manual")
    return index


def register_tokenizers(index: Index) -> None:
    index.register_tokenizer(_WORDS, _word_analyzer())
    for language in STEMMERS:
        index.register_tokenizer(stem_field(language), _stem_analyzer(language))


def by_id(schema: Schema, document: int) -> Query:
    return Query.term_query(schema, ID, document)


def words_of(text: str) -> list[str]:
    """As they stand in the fields of words, in the order of the text: what a question must ask for."""
    return _word_analyzer().analyze(prepared(text))


def stems_of(text: str, language: str) -> list[str]:
    """As they stand in the field of stems of one of `STEMMERS`."""
    return _stem_analyzer(language).analyze(prepared(text))


@cache
def _word_analyzer() -> TextAnalyzer:
    return _cutting().filter(Filter.ascii_fold()).build()


@cache
def _stem_analyzer(language: str) -> TextAnalyzer:
    # Stemmers know accents, so these are folded afterwards.
    return _cutting().filter(Filter.stemmer(STEMMERS[language])).filter(Filter.ascii_fold()).build()


def _cutting() -> TextAnalyzerBuilder:
    # The library's filter keeps what is shorter than its limit.
    cutting = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(WORD_BYTES_MAX + 1))
    return cutting.filter(Filter.lowercase())
