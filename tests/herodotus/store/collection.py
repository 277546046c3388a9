"""A small archive in which every kind of record occurs, for other people's tools to read."""

import gzip
from dataclasses import replace
from pathlib import Path

from herodotus.core.bundles import Visit
from herodotus.core.captures import Deposit, RecordType
from herodotus.core.layout import Compression
from herodotus.store.deletion import delete
from herodotus.store.engine import Archive
from herodotus.store.intake import Intake
from herodotus.store.recovery import open_archive
from herodotus.store.sealing import seal
from herodotus.store.settings import ArchiveSettings
from tests.herodotus.deposits import altered, make_deposit
from tests.herodotus.store.making import DAY_S, NOW_S, archive_of, note_visits, page, store

SITE = "http://example.org/"
VERSIONED = f"{SITE}versions"
"""Three contents on four days: the last is the first again, so a revisit; then two unchanged visits."""
DELETED = f"{SITE}deleted"
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060"
    "000000050001a5f645400000000049454e44ae426082"
)


def _exchange(url: str, time_s: int, head: bytes, body: bytes) -> Deposit:
    request = f"GET {url} HTTP/1.1\r\nHost: example.org\r\n\r\n".encode()
    return make_deposit(
        url=url, time_s=time_s, head=head + b"\r\n\r\n", body=body, ip="192.0.2.1", request=request
    )


def deposits() -> list[Deposit]:
    first = NOW_S
    packed = gzip.compress(b"<p>sent with gzip</p>", mtime=0)
    return [
        *(page(f"{SITE}{n}", first + n, f"<title>Page {n}</title><p>{n}".encode() * 20) for n in range(12)),
        *(page(VERSIONED, first + day * DAY_S, b"<p>version %d" % (day % 3)) for day in range(4)),
        page(f"{SITE}picture", first + 20, PNG, "image/png"),
        page(f"{SITE}empty", first + 21, b""),
        page(f"{SITE}caf%C3%A9?q=a%20b&c=d", first + 22, "<p>café".encode(), "text/html; charset=utf-8"),
        page("https://other.example:8443/path", first + 23, b"<p>another host"),
        _exchange(f"{SITE}moved", first + 24, b"HTTP/1.1 301 Moved Permanently\r\nLocation: /0", b""),
        _exchange(f"{SITE}gone", first + 25, b"HTTP/1.1 404 Not Found\r\nContent-Type: text/html", b"<p>no"),
        _exchange(
            f"{SITE}packed",
            first + 26,
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\n"
            b"Content-Length: %d" % len(packed),
            packed,
        ),
        altered(page(f"{SITE}learned", first + 27, b"<p>with metadata"), via=SITE, duration_s=0.012),
        _resource("dns:example.org", first + 28, b"20231114221320\nexample.org. 60 IN A 192.0.2.1\n"),
    ]


def _resource(url: str, time_s: int, body: bytes) -> Deposit:
    made = altered(make_deposit(url=url, time_s=time_s, head=b"", body=body), mime="text/dns")
    return replace(made, type=RecordType.RESOURCE, extra=(("Content-Type", "text/dns"),))


def visits() -> list[Visit]:
    return [Visit(url=VERSIONED, time_s=NOW_S + day * DAY_S, status=304) for day in (4, 5)]


def make(home: Path, codec: Compression = Compression.ZSTD, *, log_too: bool = True) -> Archive:
    """Open: most of it sealed, and with `log_too` the rest still in the log."""
    archive = archive_of(home, ArchiveSettings(codec=codec))
    open_archive(archive)
    everything = deposits()
    sealed = everything[: -8 if log_too else None]
    doomed = page(DELETED, NOW_S, b"<p>unwanted")
    store(archive, *sealed, doomed)
    note_visits(archive, *visits())
    delete(archive, Intake(archive), [doomed.id])
    seal(archive)
    if log_too:
        store(archive, *everything[-8:])
    return archive
