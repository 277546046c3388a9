"""In from other tools and out to them, without loss; and what is broken or hostile costs only itself."""

import base64
import gc
import gzip
import hashlib
import json
import random
import tracemalloc
import warnings
import zipfile
import zlib
from collections.abc import Callable
from functools import cache
from io import BytesIO
from pathlib import Path

import pytest
import zstandard
from warcio.archiveiterator import ArchiveIterator
from warcio.statusandheaders import StatusAndHeaders
from warcio.warcwriter import WARCWriter

from herodotus.core.bundles import Visit
from herodotus.core.warc import format_record
from herodotus.store.foreign_records import Broken, ForeignRecord, RecordReader
from herodotus.store.holdings import digests_of
from herodotus.store.wacz import export_wacz
from herodotus.store.warc_export import export_warc
from herodotus.store.warc_import import ImportReport, import_file
from tests.herodotus.store.making import (
    NOW_S,
    foreign_response,
    foreign_revisit,
    page,
    random_text,
    sha1_text,
)
from tests.herodotus.store.memory_store import MemoryStore

pytestmark = pytest.mark.anyio


def _store() -> MemoryStore:
    return MemoryStore(lambda: float(NOW_S))


@cache
def _warcio_file(*, is_gzip: bool) -> bytes:
    with warnings.catch_warnings():
        # warcio leaves its spool files to the collector, which warns.
        warnings.simplefilter("ignore", ResourceWarning)
        data = _write_with_warcio(is_gzip=is_gzip)
        gc.collect()
    return data


def _write_with_warcio(*, is_gzip: bool) -> bytes:
    """As warcio's own recorder writes: a response, then its request; a revisit; metadata."""
    out = BytesIO()
    writer = WARCWriter(out, gzip=is_gzip)
    writer.write_record(writer.create_warcinfo_record("test.warc", {"software": "warcio"}))
    for n in range(3):
        url = f"http://example.org/{n}"
        headers = StatusAndHeaders("200 OK", [("Content-Type", "text/plain")], protocol="HTTP/1.1")
        asked = StatusAndHeaders(f"GET /{n} HTTP/1.1", [("Host", "example.org")], is_http_request=True)
        dated = {"WARC-Date": f"2020-01-01T00:00:0{n}Z"}
        response = writer.create_warc_record(
            url, "response", payload=BytesIO(b"text %d" % n), http_headers=headers, warc_headers_dict=dated
        )
        request = writer.create_warc_record(url, "request", http_headers=asked, warc_headers_dict=dated)
        writer.write_request_response_pair(request, response)
    revisit = writer.create_revisit_record(
        "http://example.org/again",
        "sha1:" + _sha1_of_first(),
        "http://example.org/0",
        "2020-01-01T00:00:00Z",
        http_headers=StatusAndHeaders("200 OK", [("X-Seen", "again")], protocol="HTTP/1.1"),
    )
    writer.write_record(revisit)
    return out.getvalue()


def _sha1_of_first() -> str:
    return base64.b32encode(hashlib.sha1(b"text 0").digest()).decode()


async def _import(data: bytes) -> tuple[MemoryStore, ImportReport]:
    store = _store()
    return store, await import_file(store, BytesIO(data))


@pytest.mark.parametrize("wrap", ["plain", "gzip", "one gzip member", "zstd", "zstd with dictionary"])
async def test_what_warcio_wrote_comes_in_whole(wrap: str) -> None:
    plain = _warcio_file(is_gzip=False)
    dictionary = zstandard.ZstdCompressionDict(plain[:1_000], dict_type=zstandard.DICT_TYPE_RAWCONTENT)
    frame = zstandard.ZstdCompressor(dict_data=dictionary).compress(plain)
    skippable = b"\x5d\x2a\x4d\x18" + len(dictionary.as_bytes()).to_bytes(4, "little") + dictionary.as_bytes()
    data = {
        "plain": plain,
        "gzip": _warcio_file(is_gzip=True),
        "one gzip member": gzip.compress(plain),
        "zstd": zstandard.compress(plain),
        "zstd with dictionary": skippable + frame,
    }[wrap]
    store, report = await _import(data)
    assert (report.skipped, report.problems) == (0, [])
    assert report.stored + report.revisits == 4
    for n in range(3):
        found = await store.newest(f"http://example.org/{n}", 2**32 - 1)
        assert found is not None
        assert found.body == b"text %d" % n
        kinds = [record.kind for record in found.companions]
        assert kinds[-1] == "request"
        assert found.companions[-1].get("WARC-Concurrent-To") == found.record.record_id
    again = await store.newest("http://example.org/again", 2**32 - 1)
    assert again is not None
    assert (again.body, again.head) == (b"text 0", b"HTTP/1.1 200 OK\r\nX-Seen: again\r\n\r\n")


@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
async def test_many_members_and_large_ones_come_in_whole(pack: Callable[[bytes], bytes]) -> None:
    """One to the record, as most tools write them; some expand to more than is decoded at a time."""
    bodies = [random_text(random.Random(n), 100 + 400 * n) * (1 + 9 * (n % 7 == 0)) for n in range(70)]
    records = [
        foreign_response(f"http://example.org/{n}", "2020-01-01T00:00:00Z", body)
        for n, body in enumerate([*bodies, b"again " * 400_000])
    ]
    store, report = await _import(b"".join(map(pack, records)))
    assert (report.stored, report.problems) == (71, [])
    for n, body in enumerate(bodies):
        found = await store.newest(f"http://example.org/{n}", 2**32 - 1)
        assert found is not None
        assert found.body == body


async def test_importing_twice_stores_nothing_twice() -> None:
    store = _store()
    data = _warcio_file(is_gzip=True)
    first = await import_file(store, BytesIO(data))
    second = await import_file(store, BytesIO(data), start=0)
    assert first.stored + first.revisits == 4
    assert (second.stored, second.revisits, second.known) == (0, 0, 4)


async def test_an_import_resumes_at_an_offset() -> None:
    data = _warcio_file(is_gzip=True)
    offsets = [item.offset for item in RecordReader(BytesIO(data))]
    store = _store()
    begun = await import_file(store, BytesIO(data[: offsets[4]]))
    resumed = await import_file(store, BytesIO(data), start=begun.offset)
    assert (begun.problems, resumed.problems) == ([], [])
    assert (begun.stored, resumed.known, resumed.stored + resumed.revisits) == (2, 1, 2)
    assert (await store.statistics()).captures == 4


async def test_arc_files_come_in() -> None:
    body = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<p>old</p>"
    version = b"1 0 Archive\nURL IP-address Archive-date Content-type Archive-length\n\n"
    data = b"filedesc://x.arc 0.0.0.0 19970101000000 text/plain %d\n" % len(version) + version + b"\n"
    data += b"http://old.example/ 192.0.2.7 19970102030405 text/html %d\n" % len(body) + body + b"\n"
    for packed in (data, gzip.compress(data), zstandard.compress(data)):
        store, report = await _import(packed)
        assert report.problems == []
        found = await store.newest("http://old.example/", 2**32 - 1)
        assert found is not None
        assert (found.body, found.mime) == (b"<p>old</p>", "text/html")
        assert found.record.get("WARC-Date") == "1997-01-02T03:04:05Z"
        assert found.record.get("WARC-IP-Address") == "192.0.2.7"


async def test_an_old_revisit_finds_its_original_among_the_versions_before() -> None:
    url = "http://example.org/"
    data = foreign_response(url, "2020-01-01T00:00:00Z", b"a") + foreign_response(
        url, "2020-01-02T00:00:00Z", b"b"
    )
    store, report = await _import(data + foreign_revisit(url, "2020-01-03T00:00:00Z", b"a"))
    assert (report.stored, report.revisits, report.problems) == (2, 1, [])
    found = await store.newest(url, 2**32 - 1)
    assert found is not None
    assert (found.record.get("WARC-Date"), found.body) == ("2020-01-03T00:00:00Z", b"a")
    _, report = await _import(data + foreign_revisit(url, "2020-01-03T00:00:00Z", b"c"))
    assert [problem.reason for problem in report.problems] == [
        "a revisit whose original the archive does not have"
    ]


async def test_a_revisit_of_a_resource_is_stored_under_the_digest_of_its_whole_body() -> None:
    """A resource has no head, so an empty line in it does not end one."""
    body, url = b"one\n\ntwo", "http://example.org/copy"
    revisit = foreign_revisit(url, "2020-01-02T00:00:00Z", body, b"").replace(
        b"WARC-Refers-To: <urn:uuid:bbbbbbbb-1234-4234-8234-123456789abc>",
        b"WARC-Refers-To-Target-URI: http://example.org/\r\nWARC-Refers-To-Date: 2020-01-01T00:00:00Z",
    )
    store, report = await _import(_record("http://example.org/", body) + revisit)
    assert report.problems == []
    found = await store.newest(url, 2**32 - 1)
    assert found is not None
    assert found.body == body
    assert found.record.get("WARC-Payload-Digest") == sha1_text(body)


async def test_the_head_of_a_304_brings_the_originals_up_to_date() -> None:
    url = "http://example.org/"
    unchanged = foreign_revisit(
        url, "2020-01-02T00:00:00Z", b"a", b"HTTP/1.1 304 Not Modified\r\nX-Day: 2\r\n\r\n"
    )
    store, report = await _import(foreign_response(url, "2020-01-01T00:00:00Z", b"a") + unchanged)
    assert report.problems == []
    found = await store.newest(url, 2**32 - 1)
    assert found is not None
    assert (found.record.get("WARC-Date"), found.status, found.mime) == (
        "2020-01-02T00:00:00Z",
        200,
        "text/plain",
    )
    assert b"X-Day: 2" in found.head


async def test_a_payload_digest_decides_only_where_nothing_else_vouches_for_the_block() -> None:
    url, wrong = "http://example.org/", ("WARC-Payload-Digest", sha1_text(b"something else"))
    alone = foreign_response(url, "2020-01-01T00:00:00Z", b"body", wrong)
    _, report = await _import(alone)
    assert [problem.reason for problem in report.problems] == ["the payload does not match its digest"]
    block = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nbody"
    vouched = foreign_response(
        url, "2020-01-01T00:00:00Z", b"body", wrong, ("WARC-Block-Digest", sha1_text(block))
    )
    store, report = await _import(vouched)
    assert report.problems == []
    found = await store.newest(url, 2**32 - 1)
    assert found is not None
    assert found.record.get("WARC-Payload-Digest") == sha1_text(b"body")
    assert found.record.get("Herodotus-Foreign-Payload-Digest") == sha1_text(b"something else")


def _record(url: str, block: bytes, *extra: tuple[str, str]) -> bytes:
    fields = (
        ("WARC-Type", "resource"),
        ("WARC-Record-ID", "<urn:uuid:12345678-1234-4234-8234-123456789abc>"),
        ("WARC-Date", "2020-01-01T00:00:00Z"),
        ("WARC-Target-URI", url),
        ("Content-Type", "text/plain"),
        *extra,
    )
    return format_record(fields, block)


HOSTILE = {
    "a lying length": _record("http://bad/", b"x").replace(
        b"Content-Length: 1", b"Content-Length: 999999999999"
    ),
    "a negative length": _record("http://bad/", b"x").replace(b"Content-Length: 1", b"Content-Length: -1"),
    "no length": _record("http://bad/", b"x").replace(b"Content-Length: 1\r\n", b""),
    "an endless head": b"WARC/1.1\r\nX: " + b"y" * 300_000 + b"\r\n\r\n",
    "too many fields": b"WARC/1.1\r\n" + b"X: y\r\n" * 5_000 + b"\r\n",
    "a NUL": _record("http://bad/\0", b"x").replace(b"bad/ ", b"bad/\0"),
    "a wrong digest": _record("http://bad/", b"x", ("WARC-Block-Digest", "sha1:" + "A" * 32)),
    "a date in the future of dates": _record("http://bad/", b"x").replace(b"2020-", b"9999-"),
    "no URL": _record("", b"x"),
    "a huge URL": _record("http://bad/" + "a" * 20_000, b"x"),
    "rubbish": random.Random(1).randbytes(10_000).replace(b"WARC", b"____"),
}


@pytest.mark.parametrize("name", sorted(HOSTILE))
@pytest.mark.parametrize("packed", [False, True])
async def test_a_hostile_record_costs_only_itself(name: str, packed: bool) -> None:
    parts = [_record("http://good/1", b"one"), HOSTILE[name], _record("http://good/2", b"two")]
    data = b"".join(gzip.compress(part) if packed else part for part in parts)
    store, report = await _import(data)
    for url, body in (("http://good/1", b"one"), ("http://good/2", b"two")):
        found = await store.newest(url, 2**32 - 1)
        assert found is not None
        assert found.body == body
    assert report.skipped >= 1
    assert (await store.statistics()).captures == 2


async def test_a_bomb_is_given_up_and_the_next_member_is_read() -> None:
    bomb = zlib.compressobj(9, zlib.DEFLATED, 31)
    zeros = b"".join(bomb.compress(bytes(1_000_000)) for _ in range(300)) + bomb.flush()
    data = (
        gzip.compress(_record("http://good/1", b"one"))
        + zeros
        + gzip.compress(_record("http://good/2", b"two"))
    )
    _, report = await _import(data)
    assert report.stored == 2
    assert report.skipped >= 1


async def test_a_zstd_bomb_is_given_up_and_the_next_frame_is_read() -> None:
    zeros = zstandard.compress(bytes(300_000_000))
    data = (
        zstandard.compress(_record("http://good/1", b"one"))
        + zeros
        + zstandard.compress(_record("http://good/2", b"two"))
    )
    _, report = await _import(data)
    assert report.stored == 2
    assert report.skipped >= 1


@pytest.mark.parametrize("packed", [False, True])
def test_a_head_without_end_takes_no_memory(packed: bool) -> None:
    """Of 64 MB here; a gigabyte is the same, only longer."""
    head = b"WARC/1.1\r\nX: " + b"y" * 64_000_000 + b"\r\n\r\n"
    good = _record("http://good/", b"good")
    file = BytesIO(gzip.compress(head, 1) + gzip.compress(good) if packed else head + good)
    del head
    tracemalloc.start()
    try:
        found = [item.record.url for item in RecordReader(file) if isinstance(item, ForeignRecord)]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found == ["http://good/"]
    assert peak < 8_000_000


async def test_chunks_that_lie_leave_the_body_as_it_was_recorded() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    for number, body in enumerate((b"-5\r\nhello\r\n0\r\n\r\n", b"ffffffff\r\nhello\r\n0\r\n\r\n")):
        url = f"http://example.org/{number}"
        fields = (
            ("WARC-Type", "response"),
            ("WARC-Record-ID", "<urn:uuid:12345678-1234-4234-8234-123456789abc>"),
            ("WARC-Date", "2020-01-01T00:00:00Z"),
            ("WARC-Target-URI", url),
            ("Content-Type", "application/http;msgtype=response"),
        )
        store, report = await _import(format_record(fields, head + body))
        assert report.problems == []
        found = await store.newest(url, 2**32 - 1)
        assert found is not None
        assert found.body == body


async def test_a_name_that_leads_out_is_a_name_like_any_other() -> None:
    name = "../../../../etc/passwd\\..\\.."
    store, report = await _import(_record(name, b"harmless"))
    assert report.problems == []
    found = await store.newest(name, 2**32 - 1)
    assert found is not None
    assert found.body == b"harmless"


async def test_half_a_member_at_the_end_is_reported_with_its_offset() -> None:
    first = gzip.compress(_record("http://good/1", b"one"))
    data = first + gzip.compress(_record("http://good/2", b"two"))[:-20]
    _, report = await _import(data)
    assert report.stored == 1
    assert [problem.offset for problem in report.problems] == [len(first)]


@pytest.mark.parametrize("seed", range(60))
async def test_any_damage_ends_in_records_and_reports(seed: int) -> None:
    rng = random.Random(seed)
    data = bytearray(_warcio_file(is_gzip=rng.random() < 0.5))
    if rng.random() < 0.3:
        data = bytearray(zstandard.compress(bytes(data)))
    for _ in range(rng.randint(1, 8)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    for item in RecordReader(BytesIO(bytes(data[: rng.randint(1, len(data))]))):
        assert isinstance(item, ForeignRecord | Broken)


async def test_an_export_is_self_contained_and_comes_in_again_equal() -> None:
    store = _store()
    rng = random.Random(3)
    shared = random_text(rng, 2_000)
    for n in range(20):
        body = shared if n % 3 == 0 else random_text(rng, 500)
        await store.store(page(f"http://example.org/{n % 7}", NOW_S + n, body))
    await store.note_visits(
        [Visit(url="http://example.org/1", time_s=NOW_S + 100 + n, status=304) for n in range(3)]
    )
    await store.seal()
    out = BytesIO()
    report = export_warc(store.archive, out)
    assert (report.captures, report.visits) == (20, 3)
    assert report.bytes == len(out.getvalue())
    bodies = {}
    for record in ArchiveIterator(BytesIO(out.getvalue()), check_digests="raise"):
        url, date = (record.rec_headers.get_header(name) for name in ("WARC-Target-URI", "WARC-Date"))
        if record.rec_type == "response":
            bodies[url, date] = record.content_stream().read()
        elif record.rec_type == "revisit":
            to = [record.rec_headers.get_header(f"WARC-Refers-To-{part}") for part in ("Target-URI", "Date")]
            assert tuple(to) in bodies
    copy, imported = await _import(out.getvalue())
    assert imported.problems == []
    assert digests_of(copy.archive, b"", None) == digests_of(store.archive, b"", None)
    for n in range(7):
        url = f"http://example.org/{n}"
        theirs, ours = await copy.history(url), await store.history(url)
        assert [(v.id, v.visits, v.last_seen_s) for v in theirs] == [
            (v.id, v.visits, v.last_seen_s) for v in ours
        ]


async def test_an_export_without_the_original_carries_the_body() -> None:
    store = _store()
    urls = sorted((f"http://example.org/{n}" for n in range(200)), key=lambda url: page(url, 0).key)
    first, second = urls[:2]  # neighbours on the ring, so in one bucket
    await store.store(page(first, NOW_S, b"shared body"))
    await store.store(page(second, NOW_S + 1, b"shared body"))
    out = BytesIO()
    export_warc(store.archive, out, url_pattern=second)
    copy, _ = await _import(out.getvalue())
    found = await copy.newest(second, 2**32 - 1)
    assert found is not None
    assert (found.body, found.is_revisit) == (b"shared body", False)


async def test_a_wacz_has_what_the_format_asks_for(tmp_path: Path) -> None:
    store = _store()
    for n in range(5):
        await store.store(page(f"http://example.org/{n}", NOW_S + n, b"<p>%d</p>" % n))
    target = tmp_path / "export.wacz"
    export_wacz(store.archive, target)
    with zipfile.ZipFile(target) as wacz:
        package = json.loads(wacz.read("datapackage.json"))
        for resource in package["resources"]:
            content = wacz.read(resource["path"])
            assert resource["bytes"] == len(content)
            assert resource["hash"] == f"sha256:{hashlib.sha256(content).hexdigest()}"
        data = wacz.read("archive/data.warc.gz")
        index = gzip.decompress(wacz.read("indexes/index.cdx.gz")).decode().splitlines()
        assert index == sorted(index)
        assert len(index) == 5
        for line in index:
            entry = json.loads(line.split(" ", 2)[2])
            member = gzip.decompress(data[int(entry["offset"]) :][: int(entry["length"])])
            assert entry["url"].encode() in member
        pages = [json.loads(line) for line in wacz.read("pages/pages.jsonl").splitlines()]
        assert [page_["url"] for page_ in pages[1:]] != []
        assert {page_["url"] for page_ in pages[1:]} == {f"http://example.org/{n}" for n in range(5)}
