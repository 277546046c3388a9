"""How did others put pages on disks? The layouts that the archive is measured against, each as its paper
says.

All get the same pages in the same order, and the same request: be durable when `store` returns, except where
the paper's system was not (the thesis's), which is kept that way and said in the table.
"""

import gzip
import hashlib
import os
import sqlite3
import zlib
from collections.abc import Iterable, Sequence
from pathlib import Path
from threading import Lock
from typing import Protocol

from herodotus.core.captures import Deposit
from herodotus.core.index_rows import FilePlace, decode_entry
from herodotus.store.intake import Intake
from herodotus.store.log import Item
from herodotus.store.reader import Reader
from herodotus.store.recovery import open_archive
from tests.herodotus.deposits import make_deposit
from tests.herodotus.store.making import archive_of

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\nServer: bench\r\n\r\n"
NOW_S = 1_700_000_000


class Layout(Protocol):
    name: str

    def store(self, pages: Sequence[tuple[str, bytes]]) -> None: ...
    def read(self, url: str, body_digest: bytes) -> bytes: ...
    def close(self) -> None: ...


class PlainFiles:
    """A file per page, named by its URL's digest, fsync each: what Gomes measured against, without the
    network."""

    name = "plain files + fsync"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for directory in range(256):
            (folder / f"{directory:02x}").mkdir()

    def _path(self, url: str) -> Path:
        name = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
        return self._folder / name[:2] / name

    def store(self, pages: Sequence[tuple[str, bytes]]) -> None:
        for url, body in pages:
            path = self._path(url)
            with path.open("wb") as file:
                file.write(body)
                file.flush()
                os.fsync(file.fileno())

    def read(self, url: str, body_digest: bytes) -> bytes:
        return self._path(url).read_bytes()

    def close(self) -> None:
        """Nothing is open."""


class ThesisLayout:
    """Section 4.5.1: 65,536 folders by 16 bits of the key, a gzip file per page and date, no fsync."""

    name = "thesis: gzip files, no fsync"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        for directory in range(65_536):
            if directory % 256 == 0:
                (folder / f"{directory >> 8:02x}").mkdir()
            (folder / f"{directory >> 8:02x}" / f"{directory & 255:02x}").mkdir()

    def _path(self, url: str) -> Path:
        name = hashlib.sha1(url.encode(), usedforsecurity=False).hexdigest()
        return self._folder / name[:2] / name[2:4] / name[4:]

    def store(self, pages: Sequence[tuple[str, bytes]]) -> None:
        for url, body in pages:
            self._path(url).write_bytes(gzip.compress(body, 6))

    def read(self, url: str, body_digest: bytes) -> bytes:
        return gzip.decompress(self._path(url).read_bytes())

    def close(self) -> None:
        """Nothing is open."""


class WebstoreLayout:
    """Gomes, section 3: a block per content, named by its digest, a readable header with a reference count,
    fsync."""

    name = "Webstore: zlib blocks, refcount, fsync"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = Lock()
        for directory in range(256):
            (folder / f"{directory:02x}").mkdir()

    def _path(self, digest: str) -> Path:
        return self._folder / digest[:2] / digest

    def store(self, pages: Sequence[tuple[str, bytes]]) -> None:
        for _, body in pages:
            digest = hashlib.sha256(body).hexdigest()
            path = self._path(digest)
            if path.exists():
                # Two clients must not count the same reference.
                with self._lock, path.open("r+b") as file:
                    count = int(file.readline().split()[-1])
                    file.seek(0)
                    file.write(b"references %10d\n" % (count + 1))
                    file.flush()
                    os.fsync(file.fileno())
                continue
            with path.open("wb") as file:
                file.write(
                    b"references %10d\nsize %d\ncodec zlib\n\n" % (1, len(body)) + zlib.compress(body, 6)
                )
                file.flush()
                os.fsync(file.fileno())

    def read(self, url: str, body_digest: bytes) -> bytes:
        return zlib.decompress(self._path(body_digest.hex()).read_bytes().partition(b"\n\n")[2])

    def close(self) -> None:
        """Nothing is open."""


class SqliteBlobs:
    """Bodies by digest and pages by URL in one database, committed once for each batch it is given."""

    name = "SQLite blobs"

    def __init__(self, folder: Path) -> None:
        self._lock = Lock()
        self._database = sqlite3.connect(folder / "pages.sqlite", check_same_thread=False)
        self._database.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL;"
            "CREATE TABLE body (digest BLOB PRIMARY KEY, content BLOB);"
            "CREATE TABLE page (url TEXT, digest BLOB); CREATE INDEX by_url ON page (url)"
        )

    def store(self, pages: Sequence[tuple[str, bytes]]) -> None:
        rows = [(url, hashlib.sha256(body).digest(), body) for url, body in pages]
        known = self._database.execute
        with self._lock, self._database:
            for url, digest, body in rows:
                if known("SELECT 1 FROM body WHERE digest = ?", (digest,)).fetchone() is None:
                    known("INSERT INTO body VALUES (?, ?)", (digest, zlib.compress(body, 1)))
                known("INSERT INTO page VALUES (?, ?)", (url, digest))

    def read(self, url: str, body_digest: bytes) -> bytes:
        [(content,)] = self._database.execute(
            "SELECT content FROM page JOIN body USING (digest) WHERE url = ? LIMIT 1", (url,)
        ).fetchall()
        return zlib.decompress(content)

    def close(self) -> None:
        self._database.close()


class OurLog:
    """The archive's engine as its committer uses it: batches, one flush each."""

    name = "Herodotus"

    def __init__(self, folder: Path) -> None:
        self.archive = archive_of(folder)
        open_archive(self.archive)
        self._intake = Intake(self.archive)
        self._reader = Reader(self.archive)
        self._times: dict[str, int] = {}

    def store(self, pages: Sequence[tuple[str, bytes]]) -> None:
        items = list[Item]()
        for url, body in pages:
            self._times[url] = self._times.get(url, NOW_S) + 1
            prepared = self._intake.prepare(deposit_for(url, body, self._times[url]))
            self._intake.promise(prepared)
            if prepared.item is not None:
                items.append(prepared.item)
        self.archive.commit(items)

    def read(self, url: str, body_digest: bytes) -> bytes:
        found = self._reader.newest(url, 2**32 - 1)
        assert found is not None
        return found.body

    def places(self, urls: Iterable[str]) -> list[FilePlace]:
        """Where the newest captures are: for who wants to read the same bytes without us."""
        found = []
        for url in urls:
            key = self.archive.version_at(url, 2**32 - 1)
            value = None if key is None else self.archive.index.get(key)
            assert value is not None
            found.append(decode_entry(value).place)
        return found

    def close(self) -> None:
        self.archive.close()


def deposit_for(url: str, body: bytes, time_s: int) -> Deposit:
    request = f"GET {url} HTTP/1.1\r\nUser-Agent: bench\r\n\r\n".encode()
    return make_deposit(url=url, time_s=time_s, head=HEAD, body=body, ip="192.0.2.1", request=request)


LAYOUTS = (PlainFiles, ThesisLayout, WebstoreLayout, SqliteBlobs)
