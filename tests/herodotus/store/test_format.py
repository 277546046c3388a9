"""The page that describes the format shows what is written, byte for byte."""

import gzip
from pathlib import Path

import pytest

from herodotus.core.bundles import Visit, format_bundle, format_tombstones, format_visits
from herodotus.core.captures import Original
from herodotus.core.index_rows import (
    FilePlace,
    IndexEntry,
    RowKind,
    arrival_of,
    capture_key,
    decode_entry,
    encode_entry,
    payload_key,
)
from herodotus.store.members import scan_members
from tests.herodotus.deposits import altered, make_deposit
from tests.herodotus.store.making import open_on, store

DOC = (Path(__file__).parents[3] / "docs" / "protocol" / "store.md").read_text()
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n"
REQUEST = b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n"
FIRST = make_deposit(
    url="http://example.org/",
    time_s=1_700_000_000,
    head=HEAD,
    body=b"<p>hello</p>",
    ip="192.0.2.1",
    request=REQUEST,
)


def _is_shown(record: bytes) -> bool:
    shown = record.decode().replace("\r\n", "\n").rstrip("\n")
    return f"```\n{shown}\n```" in DOC


def test_the_documented_capture_is_what_is_written() -> None:
    assert [_is_shown(record) for record in format_bundle(FIRST, None)] == [True, True]


def test_the_documented_revisit_is_what_is_written() -> None:
    again = make_deposit(
        url=FIRST.capture.url, time_s=1_700_086_400, head=HEAD, body=FIRST.capture.body, ip="192.0.2.1"
    )
    original = Original(
        url=FIRST.capture.url,
        time_s=FIRST.capture.time_s,
        digest=FIRST.capture.sha256,
        size=12,
        record_id=FIRST.record_id,
    )
    assert _is_shown(format_bundle(again, original)[0])


def test_the_documented_notes_are_what_is_written() -> None:
    visit = Visit(url=FIRST.capture.url, time_s=1_700_172_800, status=304)
    assert _is_shown(format_visits([visit], "urn:herodotus:archive"))
    assert _is_shown(format_tombstones([FIRST.id], "urn:herodotus:archive"))


def test_the_documented_index_entries_are_what_is_written() -> None:
    key = capture_key(FIRST.id)
    assert key.hex() == "63bbf5caaf2e8efeeaf919e0d86553f100a5652b"
    assert (
        payload_key(key, FIRST.capture.sha256, RowKind.BODY).hex()
        == "640ba5652be1ca8600bbf5caaf2e8efeea6553f100"
    )
    stored = IndexEntry(place=FilePlace(1, 227, 405), kind=RowKind.BODY, arrival=arrival_of(1, 227))
    sealed = IndexEntry(place=FilePlace(13, 250, 900, 512), kind=RowKind.REVISIT, arrival=arrival_of(1, 227))
    assert (encode_entry(stored).hex(), encode_entry(sealed).hex()) == (
        "0201e301950300",
        "010dfa018407800401e301",
    )
    assert [decode_entry(encode_entry(entry)) for entry in (stored, sealed)] == [stored, sealed]
    assert all(text in DOC for text in (key.hex(), encode_entry(stored).hex(), encode_entry(sealed).hex()))


def test_the_members_of_a_log_begin_with_its_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also those of who goes on with it; and gzip reads them as any others."""
    for number in range(2):
        archive = open_on(tmp_path, random_bytes=lambda size: b"mark"[:size])
        store(archive, altered(FIRST, requested_at=FIRST.capture.requested_at + number))
        archive.close()
    data = (tmp_path / "log" / "00000001.warc.gz").read_bytes()
    members = list(scan_members(lambda at, size: data[at : at + size], 0, len(data)))
    assert {data[at : at + 8].hex() for at, _, _ in members} == {"1f8b08006d61726b"}
    assert "1f8b08006d61726b" in DOC
    assert gzip.decompress(data) == b"".join(content for _, _, content in members)
    assert len(members) == 5
