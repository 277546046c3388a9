"""Where do the words lie, and how far has the archive been read for them? One folder: the library's files and a state.

The state is written after the library's commit and says less than is there, never more: a writer that is killed between
the two reads some captures again, which changes nothing. While an index is filled it holds the words of all URLs up to
a place on the ring (`walked`); from then on it is whole.

The library refuses a file that is cut or missing, but not one with a flipped byte: each ends with a checksum, which
`damaged_file` compares. Nothing here may be trusted after damage was found; it is made again from the archive.
"""

import json
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, Self

import msgspec
from tantivy import DocAddress, Document, FieldType, Index, IndexWriter, Query, Searcher

from dht.core.arcs import NONE, Arcs
from herodotus.core.errors import SearchFailedError, StorageFailure
from herodotus.core.search.cover import Arc, Extent, arcs_of, keys_of
from herodotus.core.search.fields import DIGEST, FIRST, POSITION, SITE
from herodotus.core.search.spells import Newest
from herodotus.home.durable import write_durably
from herodotus.search.schema import by_id, make_index

FORMAT: Final = 3
"""Raised when fields, words or texts change: an index of before is made again."""
WHOLE_FORMAT: Final = 2
"""The same, without arcs: all words are in. A release that writes it would take an index with arcs for a whole one."""
HEAP_BYTES: Final = 32_000_000
"""Of the library's writer. With 64 MB a commit of 4,000 pages is no faster, with 15 MB it writes twice the segments."""
STATE: Final = "herodotus.json"
_FOOTER_MAGIC = 1337
_PIECE_BYTES = 1 << 20
ROWS_MAX: Final = 100_000


class IndexState(msgspec.Struct, frozen=True, kw_only=True):
    """How far an index is."""

    format: int = FORMAT
    incarnation: str = ""
    """Of the archive's own index, in hex: arrival numbers count within it."""
    tail: int = 0
    """Captures that arrived before it are in."""
    walked: str | None = ""
    """Up to which key of the archive the words are in, in hex; None: all are."""
    rules: tuple[tuple[str, str], ...] = ()
    """Subjects that are removed, sorted; nothing that they cover is in."""
    erased: tuple[tuple[str, str], ...] = ()
    """Those of them of which no byte is left in the files."""
    is_clean: bool = False
    """Closed with nothing left to do."""
    arcs: tuple[Arc, ...] = (Arc(0, 0),)
    """With the next three: an `Extent`."""
    todo: tuple[Arc, ...] = ()
    surplus: tuple[Arc, ...] = ()
    since_s: int | None = None

    @property
    def extent(self) -> Extent:
        arcs, todo, surplus = map(keys_of, (self.arcs, self.todo, self.surplus))
        return Extent(arcs=arcs, todo=todo, surplus=surplus, since_s=self.since_s)

    def with_extent(self, extent: Extent) -> Self:
        arcs, todo, surplus = map(arcs_of, (extent.arcs, extent.todo, extent.surplus))
        return msgspec.structs.replace(self, arcs=arcs, todo=todo, surplus=surplus, since_s=extent.since_s)


class WordIndex:
    """One thread writes at a time; searchers may be used by others meanwhile."""

    def __init__(self, folder: Path) -> None:
        """SearchFailedError where what lies there cannot be used."""
        self.folder = folder
        with _told():
            folder.mkdir(parents=True, exist_ok=True)
            self.state = self._read_state()
            self.index: Index = make_index(folder)
            self.index.reload()
        self.schema = self.index.schema
        self.searcher: Searcher = self.index.searcher()
        self._writer: IndexWriter | None = None
        self.uncommitted = 0
        """Documents written and deletions since the last commit."""

    def _read_state(self) -> IndexState:
        path = self.folder / STATE
        if not path.exists():
            if any(self.folder.iterdir()):
                raise SearchFailedError("words without a state")
            return IndexState()
        try:
            state = msgspec.json.decode(path.read_bytes(), type=IndexState)
        except msgspec.DecodeError as error:
            raise SearchFailedError(f"its state cannot be read: {error}") from error
        if state.format == WHOLE_FORMAT:
            return msgspec.structs.replace(state, format=FORMAT)
        if state.format != FORMAT:
            raise SearchFailedError(f"it has the words of format {state.format}")
        return state

    @property
    def documents(self) -> int:
        return self.searcher.num_docs

    @property
    def answered(self) -> Arcs:
        """The keys of which all words are in, as of the last commit."""
        return NONE if self.state.walked is not None else self.state.extent.answered

    @property
    def is_filled(self) -> bool:
        return self.state.walked is None and not self.state.extent.lacking

    def bytes_used(self) -> int:
        return sum(path.stat().st_size for path in _files(self.folder))

    # -- asking -------------------------------------------------------------------------------------------

    def newest(self, position: int) -> Newest | None:
        """As of the last commit."""
        found = self.searcher.search(self._at(position), limit=1, count=False, order_by_field=FIRST)
        if not found.hits:
            return None
        first, digest = self._numbers([found.hits[0][1]], FIRST, DIGEST)[0]
        return Newest(first, digest)

    def firsts_between(self, low: int, high: int) -> list[tuple[int, int]]:
        """Position and first of each spell of the positions from `low` to `high`, both included."""
        query = Query.range_query(
            self.schema, POSITION, FieldType.Unsigned, lower_bound=low, upper_bound=high
        )
        found = self.searcher.search(query, limit=ROWS_MAX, count=False)
        rows = self._numbers([address for _, address in found.hits], POSITION, FIRST)
        return [(position, first) for position, first in rows]

    def _at(self, position: int) -> Query:
        return Query.term_query(self.schema, POSITION, position)

    def _numbers(self, addresses: list[DocAddress], *fields: str) -> list[tuple[int, ...]]:
        columns = [self.searcher.fast_field_values(field, addresses) for field in fields]
        return [tuple(int(value or 0) for value in row) for row in zip(*columns, strict=True)]

    # -- writing ------------------------------------------------------------------------------------------

    def add(self, document: Document) -> None:
        with _told():
            self._open_writer().add_document(document)
        self.uncommitted += 1

    def delete(self, document: int) -> None:
        self._delete(by_id(self.schema, document))

    def delete_url(self, position: int) -> None:
        self._delete(self._at(position))

    def delete_host(self, host: str) -> None:
        """And those below it."""
        self._delete(Query.term_query(self.schema, SITE, host))

    def delete_behind(self, position: int) -> None:
        self._delete(
            Query.range_query(
                self.schema, POSITION, FieldType.Unsigned, lower_bound=position, include_lower=False
            )
        )

    def delete_between(self, low: int, high: int) -> None:
        """Both included."""
        self._delete(
            Query.range_query(self.schema, POSITION, FieldType.Unsigned, lower_bound=low, upper_bound=high)
        )

    def delete_all(self) -> None:
        self._delete(Query.all_query())

    def _delete(self, query: Query) -> None:
        with _told():
            self._open_writer().delete_documents_by_query(query)
        self.uncommitted += 1

    def _open_writer(self) -> IndexWriter:
        if self._writer is None:
            self._writer = self.index.writer(heap_size=HEAP_BYTES, num_threads=1)
            # A kill within a commit leaves a file whose name the next commit wants.
            self._writer.garbage_collect_files()
        return self._writer

    def commit(self, state: IndexState) -> None:
        """Durable and visible when it returns. Where it fails, the writer is given up, and what was not committed is
        to be written again."""
        if self.uncommitted and self._writer is not None:
            try:
                with _told():
                    self._writer.commit()
                    self.index.reload()
            except SearchFailedError:
                self.give_up()
                raise
            self.searcher = self.index.searcher()
            self.uncommitted = 0
        if state != self.state:
            with _told():
                write_durably(self.folder / STATE, msgspec.json.encode(state))
            self.state = state

    def give_up(self) -> None:
        """Forget what was not committed."""
        self._writer, self.uncommitted = None, 0

    def release(self) -> None:
        """The writer's memory; what was not committed is lost. Waits for merges."""
        writer, self._writer, self.uncommitted = self._writer, None, 0
        if writer is not None:
            with _told():
                writer.wait_merging_threads()

    @property
    def is_released(self) -> bool:
        return self._writer is None

    def _segments(self) -> list[dict[str, Any]]:
        """As the library lists them: other files were left by a kill, or belong to a commit under way."""
        with _told():
            found: list[dict[str, Any]] = json.loads((self.folder / "meta.json").read_bytes())["segments"]
        return found

    def dead_share(self) -> float:
        """Of the documents in its files, so many are deleted and still there."""
        segments = self._segments()
        documents = sum(segment["max_doc"] for segment in segments)
        dead = sum(segment["deletes"]["num_deleted_docs"] for segment in segments if segment["deletes"])
        return dead / documents if documents else 0.0

    def damaged_file(self) -> str | None:
        """The name of the first file whose checksum does not fit; None where all fit."""
        listed = {segment["segment_id"].replace("-", ""): segment["deletes"] for segment in self._segments()}
        for path in sorted(_files(self.folder)):
            name, *number, kind = path.name.split(".")
            if name not in listed or kind == "temp":
                continue
            deletes = listed[name]
            is_listed = not number or (deletes is not None and number == [str(deletes["opstamp"])])
            if is_listed and not _is_sound(path):
                return path.name
        return None


def _files(folder: Path) -> Iterator[Path]:
    return (path for path in folder.iterdir() if path.is_file())


def _is_sound(path: Path) -> bool:
    """As the library writes them: content, a footer of JSON with the content's CRC-32, the footer's length, a mark. A
    file that goes meanwhile was merged."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            if size < 8:
                return False
            file.seek(size - 8)
            end = file.read(8)
            length, magic = int.from_bytes(end[:4], "little"), int.from_bytes(end[4:], "little")
            if magic != _FOOTER_MAGIC or length > size - 8:
                return False
            body = size - 8 - length
            file.seek(body)
            try:
                stated = json.loads(file.read(length))["crc"]
            except (ValueError, KeyError, TypeError):
                return False
            file.seek(0)
            crc, left = 0, body
            while left:
                piece = file.read(min(left, _PIECE_BYTES))
                if not piece:
                    return False
                crc, left = zlib.crc32(piece, crc), left - len(piece)
            return bool(crc == stated)
    except FileNotFoundError:
        return True


@contextmanager
def _told() -> Iterator[None]:
    """The library's errors as ours."""
    try:
        yield
    except (OSError, ValueError, RuntimeError, StorageFailure) as error:
        raise SearchFailedError(str(error)[:300]) from error
