"""What the archive's tests are made of: deposits, disks, and an archive that opens in one line."""

import base64
import hashlib
import random
import secrets
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

from herodotus.core.bundles import Visit
from herodotus.core.captures import Deposit, Mode
from herodotus.core.warc import format_record
from herodotus.home.clock import unix_seconds
from herodotus.store.disk import Disk, OsDisk
from herodotus.store.engine import Archive
from herodotus.store.files import Files
from herodotus.store.index import Index
from herodotus.store.intake import Intake, StoreOutcome
from herodotus.store.log import Item, NewVisits
from herodotus.store.recovery import open_archive
from herodotus.store.settings import ArchiveSettings
from herodotus.store.slices import archive_at
from herodotus.store.warc_export import export_warc
from tests.herodotus.deposits import make_deposit
from tests.herodotus.store.memory_store import MemoryIndex

NOW_S = 1_700_000_000
DAY_S = 86_400


def page(url: str, time_s: int, body: bytes = b"<html>hello</html>", mime: str = "text/html") -> Deposit:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {mime}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    request = f"GET {url} HTTP/1.1\r\nUser-Agent: herodotus\r\n\r\n".encode()
    return make_deposit(url=url, time_s=time_s, head=head, body=body, ip="192.0.2.1", request=request)


def random_text(rng: random.Random, size: int) -> bytes:
    words = [
        b"archive",
        b"ring",
        b"page",
        b"copy",
        b"successor",
        b"day",
        b"<p>",
        b"</p>",
        b"link",
        b"history",
    ]
    return b" ".join(rng.choice(words) for _ in range(size // 6))[:size]


def open_on(
    disk: Disk | Path,
    index: Index | None = None,
    settings: ArchiveSettings | None = None,
    random_bytes: Callable[[int], bytes] = secrets.token_bytes,
) -> Archive:
    slices = [OsDisk(disk) if isinstance(disk, Path) else disk]
    archive = Archive(
        Files(slices),
        index or MemoryIndex(),
        now=lambda: float(NOW_S),
        settings=settings,
        random_bytes=random_bytes,
    )
    open_archive(archive)
    return archive


def store(archive: Archive, *deposits: Deposit, mode: Mode = Mode.REGULAR) -> list[StoreOutcome]:
    """One commit for all; each may refer to those before it."""
    intake = Intake(archive)
    outcomes, items = [], list[Item]()
    for deposit in deposits:
        prepared = intake.prepare(deposit, mode)
        intake.promise(prepared)
        outcomes.append(prepared.outcome)
        if prepared.item is not None:
            items.append(prepared.item)
    if items:
        archive.commit(items)
    return outcomes


def note_visits(archive: Archive, *visits: Visit) -> None:
    archive.commit([NewVisits(visits=visits)])


def foreign_response(url: str, date: str, body: bytes, *extra: tuple[str, str]) -> bytes:
    fields = (
        ("WARC-Type", "response"),
        ("WARC-Record-ID", f"<urn:uuid:12345678-1234-4234-8234-{hashlib.sha256(body).hexdigest()[:12]}>"),
        ("WARC-Date", date),
        ("WARC-Target-URI", url),
        ("Content-Type", "application/http;msgtype=response"),
        *extra,
    )
    return format_record(fields, b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n" + body)


def sha1_text(data: bytes) -> str:
    return "sha1:" + base64.b32encode(hashlib.sha1(data).digest()).decode()


def foreign_revisit(url: str, date: str, body: bytes, head: bytes = b"HTTP/1.1 200 OK\r\n\r\n") -> bytes:
    """As WARC 1.0 has it: it names a record and a digest, no date."""
    fields = (
        ("WARC-Type", "revisit"),
        ("WARC-Record-ID", "<urn:uuid:aaaaaaaa-1234-4234-8234-123456789abc>"),
        ("WARC-Refers-To", "<urn:uuid:bbbbbbbb-1234-4234-8234-123456789abc>"),
        ("WARC-Profile", "http://netpreserve.org/warc/1.0/revisit/identical-payload-digest"),
        ("WARC-Date", date),
        ("WARC-Target-URI", f"<{url}>"),
        ("WARC-Payload-Digest", sha1_text(body)),
        ("Content-Type", "application/http;msgtype=response"),
    )
    return format_record(fields, head)


def two_versions_file(folder: Path, url: str) -> Path:
    """A WARC file of two days of one page, for imports."""
    elsewhere = folder / "elsewhere"
    elsewhere.mkdir()
    archive = open_on(elsewhere)
    store(archive, page(url, NOW_S, b"first"), page(url, NOW_S + DAY_S, b"second"))
    out = BytesIO()
    export_warc(archive, out)
    archive.close()
    file = folder / "two.warc.gz"
    file.write_bytes(out.getvalue())
    return file


def archive_of(home: Path, settings: ArchiveSettings | None = None) -> Archive:
    """Of a home, by the machine's clock."""
    return archive_at(home, unix_seconds, settings)
