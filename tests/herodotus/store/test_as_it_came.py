"""Is a parcel that is kept as it came what would have been written for it? Beside the receiver that takes all apart."""

import random
import re
import struct
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from crawler.core.capture import TlsFacts
from herodotus.core.captures import CaptureId, Deposit, RecordType
from herodotus.core.doors import Door, Passage, field_of
from herodotus.core.errors import MalformedRecordError
from herodotus.core.signatures import WINDOW, signed, signer_of
from herodotus.core.warc import WarcRecord, format_record, split_record
from herodotus.store.holdings import check_all, checked, unpacked
from herodotus.store.intake import Copy, Intake, compress_bundle
from herodotus.store.members import gzip_member, gzip_stored, scan_members
from herodotus.store.reader import Reader
from herodotus.store.recovery import rebuild
from herodotus.store.sealing import seal
from tests.herodotus.deposits import altered
from tests.herodotus.store.making import NOW_S, open_on, page
from tests.herodotus.store.memory_store import MemoryDisk

KEY = Ed25519PrivateKey.from_private_bytes(b"\3" * 32)
URL = "http://example.org/"
MOST = 1 << 20
CRAWLED = (field_of(Passage(Door.CRAWLED)),)


def crawled(number: int = 0, body: bytes = b"<p>hello</p>" * 40, **fields: object) -> Deposit:
    tls = TlsFacts(protocol="TLSv1.3", cipher="A B", certificate_sha256=bytes(32), error=None)
    deposit = altered(page(f"{URL}{number}", NOW_S, body), duration_s=0.25, via=URL, tls=tls, **fields)
    return signed(KEY, replace(deposit, extra=(*CRAWLED, (WINDOW, "1 aGVsbG8="))))


def parcel_of(deposit: Deposit) -> bytes:
    return b"".join(bytes(one) for one in compress_bundle(deposit, None))


def contents(data: bytes) -> list[bytes]:
    return [content for _, _, content in scan_members(lambda at, size: data[at : at + size], 0, len(data))]


def foreign() -> Deposit:
    note = WarcRecord(fields=(("WARC-Type", "conversion"), ("X-Of", "them")), block=b"other\r\n\r\nform")
    return signed(KEY, replace(page(URL, NOW_S), companions=(note,), extra=(("X-Their", "field"),)))


KINDS = {
    "a page": crawled(),
    "an address without a body": crawled(body=b""),
    "nothing but a head": signed(KEY, page(URL, NOW_S)),
    "cut off": crawled(truncated="length"),
    "another's url": signed(KEY, page("http://example.org/\xe4 b", NOW_S)),
    "a picture": signed(KEY, page(URL, NOW_S, random.Random(1).randbytes(3_000), "image/png")),
    "of another archive": foreign(),
    "a resource": signed(KEY, altered(replace(page(URL, NOW_S), type=RecordType.RESOURCE), head=b"")),
}


def agree(data: bytes) -> bool:
    """Both receivers make the same of it; whether it is kept as it came."""
    try:
        old = unpacked(data, MOST)
    except MalformedRecordError:
        with pytest.raises(MalformedRecordError):
            checked(data, MOST)
        return False
    new, size = checked(data, MOST)
    assert new.deposit == old
    assert new.signer == signer_of(old)
    assert size >= len(old.capture.head) + len(old.capture.body)
    if new.members is None:
        return False
    assert b"".join(new.members) == data
    assert [contents(one) for one in new.members] == [[one] for one in contents(parcel_of(old))]
    assert size == sum(map(len, contents(data)))
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_what_this_archive_writes_is_kept_as_it_comes_and_other_forms_are_written_anew(kind: str) -> None:
    is_kept = kind not in ("of another archive", "a resource")
    assert agree(parcel_of(KINDS[kind])) is is_kept


def test_what_does_not_pack_is_kept_of_any_size() -> None:
    rng = random.Random(3)
    for size in (0, 1, 300, 1_000, 1_023, 1_024, 5_000, 70_000):
        for body in (rng.randbytes(size), bytes(rng.choices(range(32, 127), k=size))):
            note = format_record((("WARC-Type", "metadata"), ("Content-Type", "text/plain")), body)
            deposit = replace(crawled(body=body), companions=(split_record(note)[0],))
            assert agree(parcel_of(deposit))


def test_a_mark_in_the_head_of_a_member_is_no_matter() -> None:
    """The log of each peer has its own, where gzip has a time."""
    data = b"".join(one[:4] + b"mark" + one[8:] for one in compress_bundle(crawled(), None))
    assert agree(data)


def with_extra_field(member: bytes) -> bytes:
    return member[:3] + b"\4" + member[4:10] + struct.pack("<H", 4) + b"HIDE" + member[10:]


def with_name(member: bytes) -> bytes:
    return member[:3] + b"\x08" + member[4:10] + b"name\0" + member[10:]


def padded(content: bytes) -> bytes:
    """With thousands of empty blocks."""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
    body = b"".join(deflate.flush(zlib.Z_FULL_FLUSH) for _ in range(3)) + b"\0\0\0\xff\xff" * 4_000
    body += deflate.compress(content) + deflate.flush()
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + body + struct.pack("<II", zlib.crc32(content), len(content))


def of_contents(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[bytes], bytes]:
    return lambda data: b"".join(map(gzip_member, change(contents(data))))


def first(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return of_contents(lambda parts: [change(parts[0]), *parts[1:]])


def second(change: Callable[[bytes], bytes]) -> Callable[[bytes], bytes]:
    return of_contents(lambda parts: [parts[0], change(parts[1]), *parts[2:]])


def members_of(data: bytes) -> list[bytes]:
    return [bytes(gzip_member(one)) for one in contents(data)]


def bent(pattern: bytes, by: bytes, one: bytes) -> bytes:
    return re.sub(pattern, by, one, count=1)


def before_door(field: bytes) -> Callable[[bytes], bytes]:
    return first(lambda one: one.replace(b"Herodotus-Door", field + b"\r\nHerodotus-Door", 1))


FORGED: dict[str, Callable[[bytes], bytes]] = {
    "an extra gzip field": lambda data: with_extra_field(members_of(data)[0]) + b"".join(members_of(data)[1:]),
    "a gzip name": lambda data: members_of(data)[0] + with_name(members_of(data)[1]) + members_of(data)[2],
    "padding": lambda data: padded(contents(data)[0]) + b"".join(members_of(data)[1:]),
    "two captures": lambda data: data + parcel_of(crawled(1)),
    "two captures in a member": first(lambda one: one + contents(parcel_of(crawled(1)))[0]),
    "a capture behind a request": second(lambda one: one + contents(parcel_of(crawled(1)))[0]),
    "two records in a member": of_contents(lambda parts: [parts[0] + parts[1], *parts[2:]]),
    "a request first": of_contents(lambda parts: [parts[1], parts[0], *parts[2:]]),
    "another url": first(lambda one: one.replace(b"example.org/0", b"example.org/1", 1)),
    "a url with spaces around it": first(lambda one: one.replace(b"URI: http", b"URI:  http", 1)),
    "a space behind": first(lambda one: bent(rb"(IP-Address: [^\r]+)", rb"\1 ", one)),
    "another sha-1": first(lambda one: bent(rb"(WARC-Payload-Digest: sha1:).", rb"\g<1>7", one)),
    "another block digest": first(lambda one: bent(rb"(WARC-Block-Digest: sha1:).", rb"\g<1>7", one)),
    "another sha-256": first(lambda one: bent(rb"(sha256:)..", rb"\g<1>00", one)),
    "a digest in capitals": first(lambda one: one.replace(b"-Payload-Digest: sha256:", b"-Payload-Digest: SHA256:", 1)),
    "another body": first(lambda one: one.replace(b"<p>hello", b"<p>hallo", 1)),
    "a length that leaves some out": first(lambda one: bent(rb"(-Length: )\d+(\r\n\r\nH)", rb"\g<1>100\2", one)),
    "a length with zeros before": first(lambda one: bent(rb"(-Length: )(\d+\r\n\r\nH)", rb"\g<1>00\2", one)),
    "a second length": before_door(b"Content-Length: 5"),
    "a second url": before_door(b"WARC-Target-URI: http://e.org/"),
    "a second door": before_door(b"Herodotus-Door: 1 late"),
    "300 doors": before_door(b"\r\n".join([b"Herodotus-Door: 1 late"] * 300)),
    "a folded line": first(lambda one: one.replace(b"Herodotus-Door: 1 ", b"Herodotus-Door: 1\r\n ", 1)),
    "bare line ends": first(lambda one: one.replace(b"\r\nHerodotus-Door", b"\nHerodotus-Door", 1)),
    "a nul": first(lambda one: one.replace(b"1 crawled", b"1 crawl\0d", 1)),
    "a line end in the door": first(lambda one: one.replace(b"1 crawled", b"1 crawled\rX: y", 1)),
    "another case": first(lambda one: one.replace(b"WARC-Type", b"warc-type", 1)),
    "another version": first(lambda one: one.replace(b"WARC/1.1", b"WARC/1.0", 1)),
    "a revisit": first(lambda one: one.replace(b"Type: response", b"Type: revisit", 1)),
    "no end": first(lambda one: one[:-1]),
    "more behind": first(lambda one: one + b"\r\n"),
    "a request with another length": second(lambda one: bent(rb"Content-Length: \d+", b"Content-Length: 3", one)),
    "a request with another digest": second(lambda one: bent(rb"(Block-Digest: sha1:).", rb"\g<1>7", one)),
    "a request that is a note": second(lambda one: format_record(
        (("WARC-Type", "metadata"), ("Content-Type", "application/vnd.herodotus.tombstones")), b"")),
    "cut": lambda data: data[:-5],
    "more bytes": lambda data: data + b"\0",
    "another checksum": lambda data: data[:-8] + bytes(4) + data[-4:],
    "not packed": lambda data: b"".join(map(gzip_stored, contents(data))),
}  # fmt: skip
STILL_PLAIN = {"not packed", "another url", "a second door"}
"""What was written is what its record says; signature and door are judged behind."""


@pytest.mark.parametrize("how", FORGED)
def test_what_is_forged_is_made_the_same_of_and_never_kept(how: str) -> None:
    data = FORGED[how](parcel_of(crawled()))
    assert data != parcel_of(crawled())
    assert agree(data) is (how in STILL_PLAIN)
    if how == "another url":
        assert checked(data, MOST)[0].signer is None


def test_any_bytes_are_made_the_same_of() -> None:
    rng = random.Random(7)
    whole = [parcel_of(one) for one in KINDS.values()]
    pieces = [
        b"\r\n",
        b"\r",
        b"\n",
        b" ",
        b"\0",
        b": ",
        b"WARC/1.1\r\n",
        b"\r\n\r\n",
        b"\xc2\x85",
        b"\xff",
        b"\xe2\x80\xa8",
    ]
    kept = 0
    for _ in range(1_500):
        parts = contents(rng.choice(whole))
        number = rng.randrange(len(parts))
        part = bytearray(parts[number])
        head = part.find(b"\r\n\r\n") + 4
        at = rng.randrange(head if rng.random() < 0.8 else len(part))
        piece = rng.choice(pieces) if rng.random() < 0.6 else rng.randbytes(1)
        part[at : at + rng.choice((0, 0, 1, len(piece)))] = piece
        parts[number] = bytes(part)
        data = b"".join(map(gzip_member, parts))
        if rng.random() < 0.2:
            data = data[: (spoilt := rng.randrange(len(data)))] + rng.randbytes(1) + data[spoilt + 1 :]
        kept += agree(data)
    assert kept > 10, "some changes are of no consequence, and some of those are tried"


def test_kept_and_written_anew_are_read_alike_also_after_a_rebuild_and_sealed() -> None:
    deposits = [crawled(number, b"<p>%d</p>" % number * 50) for number in range(4)]
    parcels = [parcel_of(one) for one in deposits]
    found = check_all(parcels, MOST)

    def read_by(is_kept: bool) -> list[object]:  # both are tried
        archive = open_on(MemoryDisk())
        intake, items = Intake(archive), []
        for one in found:
            assert not isinstance(one, MalformedRecordError)
            assert one.members is not None
            prepared = intake.prepare_copy(Copy(one.deposit, one.members if is_kept else None))
            assert prepared.item is not None
            items.append(prepared.item)
        archive.commit(items)
        seen: list[object] = []
        for change in (lambda: None, lambda: rebuild(archive), lambda: seal(archive)):
            change()
            assert archive.captures == 4
            seen += [_read(Reader(archive), one.id) for one in deposits]
        return seen

    assert read_by(is_kept=True) == read_by(is_kept=False)


def _read(reader: Reader, id_: CaptureId) -> object:
    capture = reader.read(id_)
    assert capture is not None
    return capture.id, capture.url, capture.body, capture.record.fields, capture.companions, capture.voucher
