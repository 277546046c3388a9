"""Does a ring put pages into as good an order as one index of all of them would?

    scripts/bench ring_ranking --data FOLDER [--parts 8,64]

The Cranfield collection: 1,400 abstracts, 225 questions, and which abstracts answer them. FOLDER has its files as they
are handed round: `cran.all.1400`, `cran.qry` and `cranqrel`. The abstracts are divided by their hashes; a peer indexes
three neighbouring parts and answers for one. nDCG@10 with gains of 5 less the judgement (1 is best; -1 and above 4 are
none), for one index, for peers that weigh words each by itself, and by weights of the asker: its own index's, or 16's.
"""

import argparse
import hashlib
import json
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tantivy import Index

from herodotus.core.search.answers import Answer
from herodotus.core.search.cover import CIRCLE, Arc
from herodotus.core.search.merging import merged
from herodotus.core.search.questions import Or, Question, Word
from herodotus.core.search.weights import Weights, added, weights_of
from herodotus.search.asking import answer, frequencies
from herodotus.search.queries import words_asked
from tests.herodotus.search.archives import Fields, indexed, page

COPIES = 3
SAMPLES = 16
STOP_WORDS = (
    "a an and any are as at be been being both by can could do does for from has have how if in is it its of on or "
    "that the their there these this to was were what when which who why will with"
)
STOP = frozenset(STOP_WORDS.split())
_FIELD = re.compile(r"^\.([A-Z])[ ]?(.*)$", re.MULTILINE)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--parts", default="8,64")
    options = parser.parse_args()
    documents = [(position_of(number), fields) for number, fields in entries(options.data / "cran.all.1400")]
    texts = entries(options.data / "cran.qry")
    questions = [question_of(fields["W"]) for _, fields in texts]
    judged = gains(options.data / "cranqrel", len(questions))
    one = indexed(as_page(position, fields) for position, fields in documents)

    def ndcg(ask: Callable[[int, Question], Answer]) -> float:
        found = (ask(number, question) for number, question in enumerate(questions))
        return statistics.mean(value_of(told, gain) for told, gain in zip(found, judged, strict=True))

    whole = ndcg(lambda _, question: answer(one, question, now_s=0))
    told: dict[str, object] = {"one index": round(whole, 4)}
    for parts in map(int, options.parts.split(",")):
        told[f"{parts} parts"] = {
            name: f"{value:.4f} ({value / whole:.1%})"
            for name, value in divided(documents, parts, ndcg).items()
        }
    print(json.dumps(told, indent=1))


def divided(
    documents: Sequence[tuple[int, Mapping[str, str]]],
    parts: int,
    ndcg: Callable[[Callable[[int, Question], Answer]], float],
) -> dict[str, float]:
    arcs = [Arc(part * CIRCLE // parts, (part + 1) * CIRCLE // parts % CIRCLE) for part in range(parts)]
    indexes = [
        indexed(
            as_page(position, fields)
            for position, fields in documents
            if any(arcs[(part + beside) % parts].has(position) for beside in range(COPIES))
        )
        for part in range(parts)
    ]

    def asked(question: Question, weights: Weights | None) -> Answer:
        found = [
            answer(index, question, now_s=0, arcs=[arc], weights=weights, suggests=False)
            for index, arc in zip(indexes, arcs, strict=True)
        ]
        return merged(found, 10, values=1, likelier={})

    return {
        "each by itself": ndcg(lambda _, question: asked(question, None)),
        "weights of the asker": ndcg(
            lambda number, question: asked(question, weights(question, [indexes[number % parts]]))
        ),
        f"weights of {SAMPLES} peers": ndcg(
            lambda number, question: asked(
                question,
                weights(
                    question, [indexes[(number + beside) % parts] for beside in range(min(SAMPLES, parts))]
                ),
            )
        ),
    }


def weights(question: Question, indexes: Sequence[Index]) -> Weights:
    words = words_asked(question.tree)
    return weights_of(words, added([frequencies(index, words) for index in indexes], len(words)))


def entries(file: Path) -> list[tuple[int, dict[str, str]]]:
    """By number: the fields of each, by their letters."""
    found = []
    for entry in re.split(r"^\.I[ ]+", file.read_text(), flags=re.MULTILINE)[1:]:
        number, _, rest = entry.partition("\n")
        pieces = _FIELD.split(rest)
        found.append(
            (int(number), {pieces[at]: pieces[at + 2].strip() for at in range(1, len(pieces) - 2, 3)})
        )
    return found


def position_of(number: int) -> int:
    return int.from_bytes(hashlib.sha1(str(number).encode(), usedforsecurity=False).digest()[:8], "big")


def as_page(position: int, fields: Mapping[str, str]) -> Fields:
    title = fields.get("T", "")
    return page(position, 1, title=title, body=fields.get("W", "").removeprefix(title))


def question_of(text: str) -> Question:
    words = dict.fromkeys(word for word in re.findall(r"[a-z0-9]+", text.lower()) if word not in STOP)
    return Question(tree=Or(tuple(Word(word) for word in words)))


def gains(file: Path, questions: int) -> list[dict[int, int]]:
    """By position of the document. Questions are numbered in their order, whatever number they carry."""
    found: list[dict[int, int]] = [{} for _ in range(questions)]
    for line in file.read_text().splitlines():
        question, document, judgement = map(int, line.split()[:3])
        if 1 <= judgement <= 4:
            found[question - 1][position_of(document)] = 5 - judgement
    return found


def value_of(told: Answer, gain: Mapping[int, int]) -> float:
    def summed(values: Sequence[int]) -> float:
        return sum(value / math.log2(place + 2) for place, value in enumerate(values[:10]))

    best = summed(sorted(gain.values(), reverse=True))
    return summed([gain.get(hit.position, 0) for hit in told.hits]) / best if best else 0.0


if __name__ == "__main__":
    main()
