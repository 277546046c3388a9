"""How is a question asked of the library? One query for the conditions, one for the dates, one for the arcs.

A bare word adds up what it and its forms weigh in each field. On the Cranfield collection (225 questions, nDCG@10)
adding up gave 0.539, the greatest of them alone 0.525, and words as written alone 0.469.
"""

from collections.abc import Iterable, Sequence

from tantivy import FieldType, Index, Occur, Query, Schema, Searcher

from herodotus.core.errors import QuestionError
from herodotus.core.search.cover import Arc
from herodotus.core.search.fields import (
    ANCHOR,
    BODY,
    FIRST,
    ID,
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
    WEIGHTS,
    stem_field,
)
from herodotus.core.search.questions import (
    And,
    Dated,
    Field,
    Leaf,
    Name,
    Node,
    Not,
    Or,
    Phrase,
    Word,
)
from herodotus.core.search.weights import Weights, idf
from herodotus.search.schema import stems_of, words_of

STEM_WEIGHT = 2.0
"""Of the forms of a word, beside `WEIGHTS`. On Cranfield 1, 2 and 3 gave 0.524, 0.539 and 0.544."""
_RAW = {Name.SITE: SITE, Name.LINKSTO: LINKS_TO, Name.TYPE: TYPE, Name.LANG: LANGUAGE}


class Queries:
    """Of one index at one moment."""

    def __init__(self, index: Index, searcher: Searcher, weights: Weights | None = None) -> None:
        self._schema: Schema = index.schema
        self._searcher = searcher
        self._weights = weights or {}

    def of(self, tree: Node) -> Query:
        """QuestionError where a word has no letter that the index keeps."""
        return self._of(tree, _languages(tree))

    def at(self, dated: Dated) -> Query:
        """Documents whose days reach into the date; those that begin or end there are for `begun` and `ended`."""
        return self.both(
            self._range(FIRST, None, dated.to_s),
            self._range(UNTIL, dated.from_s + 1, None),
        )

    def begun(self, dated: Dated) -> Query:
        return self._range(FIRST, dated.from_s, dated.to_s)

    def ended(self, dated: Dated) -> Query:
        """What has not ended has the greatest number, which is no moment."""
        return self._range(UNTIL, dated.from_s, min(dated.to_s, _LAST_MOMENT_S))

    def on(self, arcs: Iterable[Arc]) -> Query:
        ranges = [piece for arc in arcs for piece in _pieces(arc)]
        return self.any_of([self._range(POSITION, low, high) for low, high in ranges])

    def these(self, ids: Iterable[int]) -> Query:
        return Query.term_set_query(self._schema, ID, list(ids))

    def both(self, scored: Query, *others: Query) -> Query:
        """The others have no part in the score."""
        filters = [(Occur.Must, Query.const_score_query(other, 0.0)) for other in others]
        return Query.boolean_query([(Occur.Must, scored), *filters])

    def any_of(self, queries: Sequence[Query]) -> Query:
        return Query.boolean_query([(Occur.Should, query) for query in queries])

    def _of(self, node: Node, languages: Sequence[str]) -> Query:
        match node:
            case And(parts):
                must = [
                    (Occur.Must, self._of(part, languages)) for part in parts if not isinstance(part, Not)
                ]
                never = [
                    (Occur.MustNot, self._of(part.part, languages)) for part in parts if isinstance(part, Not)
                ]
                return Query.boolean_query([*must, *never])
            case Or(parts):
                return self.any_of([self._of(part, languages) for part in parts])
            case Not():
                raise AssertionError("a question takes out of something")
            case _:
                return self._of_leaf(node, languages)

    def _of_leaf(self, leaf: Leaf, languages: Sequence[str]) -> Query:
        match leaf:
            case Word(text):
                words = _cut(text)
                return (
                    self._word(words[0], languages) if len(words) == 1 else self._phrase(words, (TITLE, BODY))
                )
            case Phrase(text):
                words = _cut(text)
                return self._as_written(words[0]) if len(words) == 1 else self._phrase(words, (TITLE, BODY))
            case Field(name, value):
                return self._field(name, value)

    def _word(self, word: str, languages: Sequence[str]) -> Query:
        stems = [
            Query.boost_query(
                self._term(stem_field(language), stem), STEM_WEIGHT * self._correction(word, BODY)
            )
            for language in languages
            for stem in stems_of(word, language)
        ]
        return self.any_of([*self._fields(word), *stems])

    def _as_written(self, word: str) -> Query:
        return self.any_of(self._fields(word))

    def _fields(self, word: str) -> list[Query]:
        return [
            self._weighed(self._term(name, word), word, name)
            for name in (TITLE, BODY, REST, ANCHOR, URL_WORDS)
        ]

    def _phrase(self, words: list[str], fields: Iterable[str]) -> Query:
        phrases = []
        for name in fields:
            phrase = Query.phrase_query(self._schema, name, list(words))
            phrases.append(Query.boost_query(phrase, WEIGHTS[name] * self._correction_of_phrase(words, name)))
        return self.any_of(phrases)

    def _field(self, name: Name, value: str) -> Query:
        match name:
            case Name.TITLE:
                words = _cut(value)
                return self._term(TITLE, words[0]) if len(words) == 1 else self._phrase(words, (TITLE,))
            case Name.INURL:
                terms = [(Occur.Must, self._term(URL_WORDS, word)) for word in _cut(value)]
                return Query.boolean_query(terms)
            case Name.STATUS:
                return Query.const_score_query(Query.term_query(self._schema, STATUS, int(value)), 0.0)
            case _:
                return Query.const_score_query(self._term(_RAW[name], value), 0.0)

    def _term(self, field: str, word: str) -> Query:
        return Query.term_query(self._schema, field, word, "freq")

    def _weighed(self, query: Query, word: str, field: str) -> Query:
        return Query.boost_query(query, WEIGHTS[field] * self._correction(word, field))

    def _correction(self, word: str, field: str) -> float:
        """From this index's idf to the ring's, as the library takes its own."""
        return self._correction_of_phrase([word], field)

    def _correction_of_phrase(self, words: Sequence[str], field: str) -> float:
        """A phrase weighs as much as its words together."""
        if any(word not in self._weights for word in words):
            return 1.0
        of_title = field == TITLE
        name = TITLE if of_title else BODY
        given = (self._weights[word] for word in words)
        own = (idf(self._searcher.num_docs, self._searcher.doc_freq(name, word)) for word in words)
        return sum(one.title if of_title else one.body for one in given) / sum(own)

    def _range(self, field: str, low: int | None, high: int | None) -> Query:
        return Query.range_query(self._schema, field, FieldType.Unsigned, low, high)


_LAST_MOMENT_S = 2**32 - 2


def words_asked(tree: Node) -> list[str]:
    """Those that a page must have, as the index has them: each once, in their order."""
    found: list[str] = []
    for leaf in _wanted(tree):
        if isinstance(leaf, Word | Phrase):
            found.extend(words_of(leaf.text))
        elif leaf.name is Name.TITLE:
            found.extend(words_of(leaf.value))
    return list(dict.fromkeys(found))


def _wanted(node: Node) -> Iterable[Leaf]:
    match node:
        case Not():
            return ()
        case And(parts) | Or(parts):
            return [leaf for part in parts for leaf in _wanted(part)]
        case _:
            return (node,)


def _languages(tree: Node) -> Sequence[str]:
    """Whose forms are looked for: where the question names one, its alone."""
    parts = tree.parts if isinstance(tree, And) else (tree,)
    for part in parts:
        if isinstance(part, Field) and part.name is Name.LANG:
            return [part.value] if part.value in STEMMERS else []
    return list(STEMMERS)


def _cut(text: str) -> list[str]:
    words = words_of(text)
    if not words:
        raise QuestionError(part=text, problem="is no word that an index holds", hint="write another")
    return words


def _pieces(arc: Arc) -> list[tuple[int | None, int | None]]:
    """Both ends included."""
    if arc.after == arc.last:
        return [(0, None)]
    begin = arc.after + 1
    if arc.after < arc.last:
        return [(begin, arc.last)]
    return [(0, arc.last), *([(begin, None)] if begin < 1 << 64 else [])]
