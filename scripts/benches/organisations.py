"""How can a disk of pages be organised? The three ways of WebBase (section 3.2 and 4.3), behind one interface.

*Log*: appended in arrival order, with a B-tree of which only the leaves lie on disk. *Hash*: buckets of 64 KB in
order of the identifier, pages sorted within, overflow at the end of the file. *Hashed-log*: as many logs as there are
buffers' worth of disk, each for a range of identifiers; sorted when they are read. What Herodotus does is the fourth:
a hashed-log whose logs are merged into sorted files when it is idle. All get pages that are compressed already, so
that no codec is measured, and each flushes whatever it writes.
"""

import os
import struct
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from itertools import groupby
from pathlib import Path
from typing import Protocol

from herodotus.core.captures import Mode
from herodotus.store.intake import Intake
from herodotus.store.log import Item
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from herodotus.store.sealing import seal
from herodotus.store.streams import Query, Stream
from tests.herodotus.deposits import make_deposit
from tests.herodotus.store.making import archive_of

BUCKET_BYTES = 64 * 1024
LEAF_BYTES = 8 * 1024
TRANSFER_BYTES = 64 * 1024
OCCUPANCY = 0.6
_PAGE = struct.Struct("<20sII")  # identifier, when it was added, length
_ENTRY = struct.Struct("<20sQI")  # identifier, offset, length
_BUCKET = struct.Struct("<Ii")  # bytes used, number of the bucket that continues it
_LEAF_ENTRIES = LEAF_BYTES // _ENTRY.size

Page = tuple[bytes, bytes]
"""Identifier (20 bytes, evenly spread) and compressed content."""


class Way(Enum):
    """How pages arrive (table 3)."""

    RANDOM = "random order"
    BUFFERED = "random order, buffer"
    SORTED = "sorted"


class Organisation(Protocol):
    name: str

    def add(self, pages: Sequence[Page], way: Way) -> None:
        """Durable when it returns."""
        ...

    def finish(self) -> None:
        """The batch is over: what reading needs is made."""
        ...

    def read(self, identifier: bytes) -> bytes: ...

    def stream(self) -> Iterator[Page]:
        """What was there when it began, each page once."""
        ...

    def close(self) -> None: ...


def range_of(identifier: bytes, ranges: int) -> int:
    return int.from_bytes(identifier[:8], "big") * ranges >> 64


class _File:
    def __init__(self, path: Path) -> None:
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)

    def write(self, data: bytes, at: int) -> None:
        os.pwrite(self.fd, data, at)
        os.fdatasync(self.fd)

    def read(self, length: int, at: int) -> bytes:
        return os.pread(self.fd, length, at)

    @property
    def size(self) -> int:
        return os.fstat(self.fd).st_size

    def close(self) -> None:
        os.close(self.fd)


def _pack(pages: Sequence[tuple[bytes, int, bytes]]) -> bytes:
    return b"".join(_PAGE.pack(identifier, order, len(data)) + data for identifier, order, data in pages)


def _unpack(data: bytes) -> list[tuple[bytes, int, bytes]]:
    pages, at = [], 0
    while at < len(data):
        identifier, order, length = _PAGE.unpack_from(data, at)
        at += _PAGE.size
        pages.append((identifier, order, data[at : at + length]))
        at += length
    return pages


class Log:
    name = "log"

    def __init__(self, folder: Path, capacity_bytes: int, buffer_bytes: int) -> None:
        del capacity_bytes, buffer_bytes  # a log grows as it likes and needs no buffer but its transfers
        self._log, self._leaves = _File(folder / "log"), _File(folder / "leaves")
        self._tail = self._log.size
        self._catalog: list[tuple[bytes, int, int]] = []
        self._first: list[bytes] = []
        """Of each leaf: the inner nodes of the tree."""

    def add(self, pages: Sequence[Page], way: Way) -> None:
        buffer: list[bytes] = []
        held = 0
        for identifier, data in pages:
            self._catalog.append((identifier, self._tail + held + _PAGE.size, len(data)))
            buffer += (_PAGE.pack(identifier, len(self._catalog), len(data)), data)
            held += _PAGE.size + len(data)
            if held >= TRANSFER_BYTES:
                self._append(b"".join(buffer))
                buffer, held = [], 0
        self._append(b"".join(buffer))

    def _append(self, data: bytes) -> None:
        if data:
            self._log.write(data, self._tail)
            self._tail += len(data)

    def finish(self) -> None:
        entries = sorted(self._catalog)
        leaves = [entries[at : at + _LEAF_ENTRIES] for at in range(0, len(entries), _LEAF_ENTRIES)]
        self._first = [leaf[0][0] for leaf in leaves]
        packed = (b"".join(_ENTRY.pack(*entry) for entry in leaf).ljust(LEAF_BYTES, b"\0") for leaf in leaves)
        self._leaves.write(b"".join(packed), 0)

    def read(self, identifier: bytes) -> bytes:
        leaf = bisect_right(self._first, identifier) - 1
        entries = self._leaves.read(LEAF_BYTES, leaf * LEAF_BYTES)
        at = 0
        while entries[at : at + 20] != identifier:
            at += _ENTRY.size
        _, offset, length = _ENTRY.unpack_from(entries, at)
        return self._log.read(length, offset)

    def stream(self) -> Iterator[Page]:
        end, at, rest = self._tail, 0, b""
        while at < end:
            piece = rest + self._log.read(min(TRANSFER_BYTES, end - at), at)
            at += len(piece) - len(rest)
            done = 0
            while done + _PAGE.size <= len(piece):
                identifier, _, length = _PAGE.unpack_from(piece, done)
                if done + _PAGE.size + length > len(piece):
                    break
                yield identifier, piece[done + _PAGE.size : done + _PAGE.size + length]
                done += _PAGE.size + length
            rest = piece[done:]

    def close(self) -> None:
        self._log.close()
        self._leaves.close()


class Hash:
    """As a node for reading has it: a page of the same identifier is replaced."""

    name = "hash"

    def __init__(self, folder: Path, capacity_bytes: int, buffer_bytes: int) -> None:
        self._file = _File(folder / "buckets")
        self._buckets = max(1, round(capacity_bytes / OCCUPANCY / BUCKET_BYTES))
        self._buffer_bytes = buffer_bytes
        self._end = self._buckets
        self._added = 0
        os.ftruncate(self._file.fd, self._buckets * BUCKET_BYTES)

    def add(self, pages: Sequence[Page], way: Way) -> None:
        if way is Way.RANDOM:
            for page in pages:
                self._merge(range_of(page[0], self._buckets), [page])
            return
        for batch in [list(pages)] if way is Way.SORTED else _by_bytes(pages, self._buffer_bytes):
            # One sweep of the arm; sorted pages come to each bucket together.
            batch.sort(key=lambda page: page[0])
            for bucket, group in groupby(batch, key=lambda page: range_of(page[0], self._buckets)):
                self._merge(bucket, list(group))

    def _merge(self, bucket: int, pages: list[Page]) -> None:
        chain, known = self._read_chain(bucket)
        merged = {identifier: (identifier, order, data) for identifier, order, data in known}
        for identifier, data in pages:
            self._added += 1
            merged[identifier] = (identifier, self._added, data)
        rest = sorted(merged.values())
        at = 0
        while rest or at < len(chain):
            room, taken = BUCKET_BYTES - _BUCKET.size, 0
            while taken < len(rest) and room >= _PAGE.size + len(rest[taken][2]):
                room -= _PAGE.size + len(rest[taken][2])
                taken += 1
            assert taken or not rest, "a page is larger than a bucket"
            content, rest = _pack(rest[:taken]), rest[taken:]
            if rest and at + 1 == len(chain):
                chain.append(self._end)
                self._end += 1
            following = chain[at + 1] if at + 1 < len(chain) else -1
            data = _BUCKET.pack(len(content), following) + content
            self._file.write(data.ljust(BUCKET_BYTES, b"\0"), chain[at] * BUCKET_BYTES)
            at += 1

    def _read_chain(self, bucket: int) -> tuple[list[int], list[tuple[bytes, int, bytes]]]:
        chain, pages = [bucket], []
        while True:
            data = self._file.read(BUCKET_BYTES, chain[-1] * BUCKET_BYTES)
            used, following = _BUCKET.unpack_from(data) if data else (0, -1)
            pages += _unpack(data[_BUCKET.size : _BUCKET.size + used])
            if following <= 0:  # an untouched bucket is all zeros
                return chain, pages
            chain.append(following)

    def finish(self) -> None:
        """There is nothing but the buckets."""

    def read(self, identifier: bytes) -> bytes:
        bucket = range_of(identifier, self._buckets)
        while True:
            data = self._file.read(BUCKET_BYTES, bucket * BUCKET_BYTES)
            used, bucket = _BUCKET.unpack_from(data)
            at = _BUCKET.size
            while at < _BUCKET.size + used:
                found, _, length = _PAGE.unpack_from(data, at)
                at += _PAGE.size
                if found == identifier:
                    return data[at : at + length]
                at += length

    def stream(self) -> Iterator[Page]:
        """Paused at bucket boundaries only, so that pages that move within one are met once."""
        boundary = self._added
        for bucket in range(self._buckets):
            for identifier, order, data in self._read_chain(bucket)[1]:
                if order <= boundary:
                    yield identifier, data

    def close(self) -> None:
        self._file.close()


class HashedLog:
    """For a node that takes updates: quick to add to, streamed in order; reading one page reads a whole log."""

    name = "hashed-log (paper)"

    def __init__(self, folder: Path, capacity_bytes: int, buffer_bytes: int) -> None:
        count = max(1, capacity_bytes // buffer_bytes)
        self._logs = [_File(folder / f"{number:05}") for number in range(count)]
        self._tails = [0] * count
        self._buffer_bytes = buffer_bytes

    def add(self, pages: Sequence[Page], way: Way) -> None:
        for batch in (
            ([page] for page in pages) if way is Way.RANDOM else _by_bytes(pages, self._buffer_bytes)
        ):
            batch.sort(key=lambda page: page[0])
            for log, group in groupby(batch, key=lambda page: range_of(page[0], len(self._logs))):
                data = _pack([(identifier, 0, content) for identifier, content in group])
                self._logs[log].write(data, self._tails[log])
                self._tails[log] += len(data)

    def finish(self) -> None:
        """Sorting waits until they are read."""

    def read(self, identifier: bytes) -> bytes:
        log = range_of(identifier, len(self._logs))
        found = {known: data for known, _, data in _unpack(self._logs[log].read(self._tails[log], 0))}
        return found[identifier]

    def stream(self) -> Iterator[Page]:
        for log, tail in zip(self._logs, tuple(self._tails), strict=True):
            for identifier, _, data in sorted(_unpack(log.read(tail, 0))):
                yield identifier, data

    def close(self) -> None:
        for log in self._logs:
            log.close()


class Herodotus:
    """The archive as its committer uses it, batches of 64 with one flush each; then sealed."""

    name = "hashed-log (Herodotus)"
    _HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\n\r\n"
    _BATCH = 64

    def __init__(self, folder: Path, capacity_bytes: int, buffer_bytes: int) -> None:
        del capacity_bytes, buffer_bytes
        self._archive = archive_of(folder)
        open_archive(self._archive)
        self._intake, self._reader = Intake(self._archive), Reader(self._archive)
        self._time_s = 1_700_000_000

    def add(self, pages: Sequence[Page], way: Way) -> None:
        for at in range(0, len(pages), self._BATCH):
            items: list[Item] = []
            self._time_s += 1
            for identifier, data in pages[at : at + self._BATCH]:
                deposit = make_deposit(url=_url(identifier), time_s=self._time_s, head=self._HEAD, body=data)
                item = self._intake.prepare(deposit, Mode.FORCE_NEW).item
                assert item is not None
                items.append(item)
            self._archive.commit(items)

    def finish(self) -> None:
        seal(self._archive)

    def read(self, identifier: bytes) -> bytes:
        found = self._reader.newest(_url(identifier), 2**32 - 1)
        assert found is not None
        return found.body

    def stream(self) -> Iterator[Page]:
        for capture in Stream(self._archive, Query()):
            yield bytes.fromhex(capture.url.rpartition("/")[2]), capture.body

    def close(self) -> None:
        self._archive.close()


def _url(identifier: bytes) -> str:
    return f"http://example.org/{identifier.hex()}"


def _by_bytes(pages: Sequence[Page], bytes_max: int) -> Iterator[list[Page]]:
    batch: list[Page] = []
    held = 0
    for page in pages:
        batch.append(page)
        held += len(page[1])
        if held >= bytes_max:
            yield batch
            batch, held = [], 0
    if batch:
        yield batch


ORGANISATIONS: tuple[Callable[[Path, int, int], Organisation], ...] = (Log, Hash, HashedLog, Herodotus)
