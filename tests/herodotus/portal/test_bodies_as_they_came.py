"""Does a body come back byte for byte, whatever its head says of it, by whichever way it came into the archive?

`HERODOTUS_BODIES=10000 pytest` on this file tries more bodies than each run does.
"""

import gzip
import os
import re
import zlib
from collections.abc import Iterator
from io import BytesIO
from random import Random

import brotli
import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator

from herodotus.core.warc import TIME_MAX_S, format_record
from herodotus.portal.answer import Request
from herodotus.store.warc_export import export_warc
from herodotus.store.warc_import import import_file
from tests.herodotus.portal.library import HOST, SITE, Library, response
from tests.herodotus.store.making import NOW_S
from tests.herodotus.store.memory_store import MemoryStore

pytestmark = pytest.mark.anyio
BODIES = int(os.environ.get("HERODOTUS_BODIES", "400"))
DATE = "20260101"
CHUNKED = "Transfer-Encoding: chunked"
PACKERS = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.ZstdCompressor().compress,
}
HEADS: list[tuple[str, ...]] = [
    (),
    (CHUNKED,),
    ("transfer-encoding: gzip, chunked",),
    ("Transfer-Encoding: identity", "Content-Length: 3"),
    ("Content-Encoding: gzip",),
    ("Content-Encoding: deflate", CHUNKED),
    ("content-encoding: br",),
    ("Content-Encoding: zstd", "Content-Length: 1000000"),
    ("Content-Encoding: gzip, br", CHUNKED),
    ("Content-Encoding: aws-chunked",),
    ("Content-Encoding: identity", "Content-Length: 0"),
    ("Transfer-Encoding: chunked", "Transfer-Encoding: chunked"),
]
TYPES = ["application/javascript", "text/plain", "image/png", "text/html", "", "no type at all"]


@pytest.fixture
def library() -> Library:
    return Library()


def bodies(rng: Random, count: int) -> Iterator[bytes]:
    """Of each kind that has been taken for something else: what looks like chunks, or like a coding, and is cut."""
    for _ in range(count):
        plain = rng.choice(
            [rng.randbytes(rng.randrange(80)), b"export const a = 1;\r\n", b"0\n1\r\n", b"<p>text"]
        )
        kind = rng.randrange(5)
        if kind == 1:
            size = b"%x" % max(0, len(plain) + rng.choice([0, 0, -1, 1]))
            plain = size + rng.choice([b"\r\n", b"\n", b";a=b\r\n", b" "]) + plain
            plain += rng.choice([b"\r\n0\r\n\r\n", b"\r\n0\r\n", b"\r\n", b"", b"\r\n0\r\n\r\nmore"])
        if kind in (2, 3):
            packed = rng.choice(list(PACKERS.values()))(plain)
            plain = packed if kind == 2 else packed[: rng.randrange(len(packed))] + rng.choice([b"", plain])
        yield plain


@pytest.mark.parametrize("seed", [1])
async def test_any_body_comes_back_byte_for_byte_whatever_its_head_says(library: Library, seed: int) -> None:
    rng = Random(seed)
    for number, body in enumerate(bodies(rng, BODIES)):
        url, fields, kind = f"{SITE}/{number}", rng.choice(HEADS), rng.choice(TYPES)
        await library.store.store(response(url, DATE, body, kind, 200, *fields))
        for accepted in ("", "gzip"):
            request = Request(
                method="GET",
                target=f"/web/{DATE}000000id_/{url}",
                headers={"host": HOST, "accept-encoding": accepted},
            )
            answer = await library.handlers.answer(request)
            told = [f"{name.removeprefix('X-Archive-Orig-')}: {value}" for name, value in answer.repeated]
            assert [line for line in told if line in fields] == list(fields)
            assert "Transfer-Encoding" not in answer.headers
            coding = ",".join(
                one.partition(": ")[2] for one in fields if one.lower().startswith("content-enc")
            )
            if answer.body != body:  # then its coding was true, to the last byte
                assert "Content-Encoding" not in answer.headers
                assert answer.body == undone(body, coding), (body, coding, answer.body)
            elif "Content-Encoding" in answer.headers:
                assert answer.headers["Content-Encoding"] == coding


def undone(body: bytes, codings: str) -> bytes:
    """By the libraries' own whole-body functions."""
    for coding in reversed(codings.split(", ")):
        if coding == "gzip":
            body = zlib.decompressobj(31).decompress(body)
        elif coding == "deflate":
            wrapped = len(body) > 1 and body[0] & 15 == 8 and int.from_bytes(body[:2], "big") % 31 == 0
            body = zlib.decompress(body, 15 if wrapped else -15)
        elif coding == "br":
            body = brotli.decompress(body)
        else:
            assert coding == "zstd"
            body = zstandard.ZstdDecompressor().decompress(body, 1_000)
    return body


@pytest.mark.parametrize("seed", [2])
async def test_any_body_goes_out_to_other_tools_and_comes_back(seed: int) -> None:
    """With a head that claims chunks no longer, or warcio would take some of these bodies apart."""
    rng = Random(seed)
    store, again = MemoryStore(lambda: float(NOW_S)), MemoryStore(lambda: float(NOW_S))
    out = BytesIO()
    deposits = [
        response(f"{SITE}/{number}", DATE, body, rng.choice(TYPES), 200, *rng.choice(HEADS))
        for number, body in enumerate(bodies(rng, BODIES))
    ]
    for deposit in deposits:
        await store.store(deposit)
    export_warc(store.archive, out)
    bodies_of = {deposit.capture.url: deposit.capture.body for deposit in deposits}
    for record in ArchiveIterator(BytesIO(out.getvalue())):
        if record.rec_type == "response":
            assert record.http_headers.get_header("Transfer-Encoding") is None
            url = record.rec_headers.get_header("WARC-Target-URI")
            assert record.raw_stream.read() == bodies_of.pop(url)
    assert len(bodies_of) < BODIES  # the others are revisits
    report = await import_file(again, BytesIO(out.getvalue()))
    assert (report.problems, report.skipped) == ([], 0)
    for deposit in deposits:
        found = await again.newest(deposit.capture.url, TIME_MAX_S)
        assert found is not None
        assert (found.head, found.body) == (deposit.capture.head, deposit.capture.body)


@pytest.mark.parametrize("seed", [3])
async def test_any_body_of_another_tool_stays_unless_it_is_chunks_to_its_last_byte(
    library: Library, seed: int
) -> None:
    rng = Random(seed)
    expected = {}
    records = []
    for number, body in enumerate(bodies(rng, BODIES)):
        url, fields = f"{SITE}/{number}", rng.choice(HEADS)
        head = "\r\n".join(["HTTP/1.1 200 OK", *fields, "", ""]).encode()
        chunks = re.fullmatch(rb"(?s)([0-9a-f]+)(?:;a=b)?\r\n(.*)\r\n0\r\n(?:\r\n)?", body)
        is_claimed = any("chunked" in one and "Content" not in one for one in fields)
        if chunks and is_claimed and int(chunks[1], 16) == len(chunks[2]) > 0:
            expected[url] = chunks[2]
        elif body == b"0\r\n\r\n" and is_claimed:
            expected[url] = b""
        else:
            expected[url] = body
        records.append(
            format_record(
                (
                    ("WARC-Type", "response"),
                    ("WARC-Record-ID", f"<urn:uuid:12345678-1234-4234-8234-{number:012}>"),
                    ("WARC-Date", "2026-01-01T00:00:00Z"),
                    ("WARC-Target-URI", url),
                    ("Content-Type", "application/http;msgtype=response"),
                ),
                head + body,
            )
        )
    report = await import_file(library.store, BytesIO(b"".join(records)))
    assert report.problems == []
    for url, body in expected.items():
        found = await library.store.newest(url, TIME_MAX_S)
        assert found is not None
        assert found.body == body, url
