"""The words of an archive in memory, indexed in one go."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from urllib.parse import urlsplit

from tantivy import Document, Index

from herodotus.core.search.fields import (
    BODY,
    FIRST,
    HOST,
    ID,
    LANGUAGE,
    OPEN,
    POSITION,
    REST,
    SITE,
    STATUS,
    STEMMERS,
    TITLE,
    TYPE,
    UNTIL,
    prepared,
    sites_of,
    spell_id,
    stem_field,
)
from herodotus.core.warc import TIME_MAX_S
from herodotus.search.documents import text_of
from herodotus.search.schema import make_index
from herodotus.store import Catalogue, StoredCapture

HEAP_BYTES = 15_000_000

Fields = Mapping[str, str | int | Sequence[str]]


def page(position: int, first_s: int, until_s: int = OPEN, **fields: str | int | Sequence[str]) -> Fields:
    host = str(fields.get(HOST, "a.example.org"))
    body, language = prepared(str(fields.get(BODY, ""))), str(fields.get(LANGUAGE, "en"))
    stems = {stem_field(language): body} if language in STEMMERS else {}
    return {
        ID: spell_id(position, first_s), POSITION: position, FIRST: first_s, UNTIL: until_s,
        HOST: host, SITE: sites_of(host), TYPE: "text/html", LANGUAGE: language, STATUS: 200,
        **stems, **fields, BODY: body,
    }  # fmt: skip


def indexed(pages: Iterable[Fields]) -> Index:
    index = make_index(None)
    writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
    for fields in pages:
        writer.add_document(Document.from_dict(dict(fields), index.schema))
    writer.commit()
    index.reload()
    return index


def words_in(catalogue: Catalogue) -> Index:
    urls = [newest.url for one in catalogue.positions(b"", None) if (newest := catalogue.newest_at(one))]
    return indexed(fields for url in urls for fields in _spells(catalogue, url))


def _spells(catalogue: Catalogue, url: str) -> Iterable[Fields]:
    captures = [catalogue.newest(url, one.first_seen_s) for one in catalogue.history(url, 0, TIME_MAX_S)]
    kept = [one for one in captures if one is not None]
    firsts = [next(run) for _, run in groupby(kept, key=lambda one: (one.status, text_of(one)))]
    ends = [following.time_s for _, following in pairwise(firsts)] + [OPEN]
    return [_fields(one, until_s) for one, until_s in zip(firsts, ends, strict=True)]


def _fields(capture: StoredCapture, until_s: int) -> Fields:
    text = text_of(capture)
    more: Fields = {
        HOST: urlsplit(capture.url).hostname or "", LANGUAGE: text.language, STATUS: capture.status,
        TYPE: capture.mime, TITLE: prepared(text.title), REST: prepared(text.rest), BODY: text.body,
    }  # fmt: skip
    return page(int.from_bytes(capture.id.key[:8], "big"), capture.time_s, until_s, **more)
