"""What does a reader see of a hit? Address, title and lines of the page, all from the archive's own bytes.

So a page that was removed is in no answer, whatever the index still holds, and a hit that another peer told shows what
this peer's own copy says.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence

from herodotus.core.search.answers import Hit, Shown, Told
from herodotus.core.search.fields import OPEN
from herodotus.core.search.text import PageText
from herodotus.search.documents import text_of
from herodotus.search.snippets import snippet_of
from herodotus.store import Catalogue, StoredCapture

_POSITION_BYTES = 8
_WORD = re.compile(r"\w+")
_SHINGLE_WORDS = 4
_SKETCH_WORDS_MAX = 2_000
_SKETCH_HASHES = 64
_HASH_BYTES = 4
"""Two of 2,000 pieces have the same once in 2,000 texts."""
"""The least of so many hashes estimate how much two texts have in common, to within 0.06."""
ALIKE = 0.85
"""In common, for two pages to be told as one: a date, a counter or a name differs."""


def shown(catalogue: Catalogue, hits: Iterable[Hit], words: Sequence[str]) -> list[Shown]:
    """In a thread, some 0.2 ms a page of 12 kB. Hits of which nothing can be read are left out."""
    told = (told_here(catalogue, hit, words) for hit in hits)
    return grouped(one for one in told if one is not None)


def told_here(catalogue: Catalogue, hit: Hit, words: Sequence[str], *, is_exact: bool = False) -> Told | None:
    """From this peer's own copy. `is_exact`: of the second in which the hit began; else of the newest before."""
    capture = _capture(catalogue, hit)
    if capture is None or (is_exact and capture.time_s != hit.first_s):
        return None
    text = text_of(capture)
    return Told(_told(capture, hit, text, words), _sketch(text.body))


def grouped(found: Iterable[Told]) -> list[Shown]:
    """Those with nearly the same text stand below the first of them."""
    groups: list[tuple[frozenset[int], Shown]] = []
    for one, sketch in found:
        hashes = _hashes(sketch)
        like = next((other for known, other in groups if _in_common(hashes, known) >= ALIKE), None)
        if like is not None:
            like.alike.append(one)
        else:
            groups.append((hashes, one))
    return [one for _, one in groups]


def _told(capture: StoredCapture, hit: Hit, text: PageText, words: Sequence[str]) -> Shown:
    return Shown(
        url=capture.url,
        title=text.title,
        snippet=snippet_of(text, words),
        first_s=hit.first_s,
        until_s=None if hit.until_s == OPEN else hit.until_s,
        status=capture.status,
        media_type=capture.mime,
        language=text.language,
        digest=capture.sha1 or "",
        versions=hit.versions,
    )


def _capture(catalogue: Catalogue, hit: Hit) -> StoredCapture | None:
    newest = catalogue.newest_at(hit.position.to_bytes(_POSITION_BYTES, "big"))
    return None if newest is None else catalogue.newest(newest.url, hit.first_s)


def _sketch(text: str) -> bytes:
    """Equal texts have equal sketches. The sketch of a text of a few words is empty."""
    words = _WORD.findall(text[: 8 * _SKETCH_WORDS_MAX])
    pieces = {" ".join(words[at : at + _SHINGLE_WORDS]) for at in range(len(words) - _SHINGLE_WORDS + 1)}
    hashes = {
        hashlib.blake2b(piece.encode("utf-8", "replace"), digest_size=_HASH_BYTES).digest()
        for piece in pieces
    }
    return b"".join(sorted(hashes)[:_SKETCH_HASHES])


def _hashes(sketch: bytes) -> frozenset[int]:
    return frozenset(
        int.from_bytes(sketch[at : at + _HASH_BYTES], "big") for at in range(0, len(sketch), _HASH_BYTES)
    )


def _in_common(one: frozenset[int], other: frozenset[int]) -> float:
    if not one or not other:
        return 0.0
    least = sorted(one | other)[:_SKETCH_HASHES]
    return sum(number in one and number in other for number in least) / len(least)
