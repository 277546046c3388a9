"""How is a stored capture found in a file, and how little of it must be parsed to give it back?

A place leads to a member; decoding it checks the codec's checksum. Our own records have one form, which a single
expression parses; any other (a foreign record, a revisit) goes through the general parser. Unused fields, and the
request beside the response, stay bytes.
"""

import hashlib
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import sha256
from itertools import pairwise

from crawler.core.capture import Capture, MediaType, redirect_target
from crawler.core.urls import STANDARD, UrlRules
from herodotus.core.bundles import is_note
from herodotus.core.captures import (
    CaptureId,
    Deposit,
    LargeBody,
    Original,
    RecordType,
    capture_of_record,
    deposit_of_record,
    end_of_http_head,
    id_of_record,
    parse_http_head,
    position_of,
    split_payload,
)
from herodotus.core.doors import DOOR, passage_of
from herodotus.core.errors import DamagedRecordError, MalformedRecordError
from herodotus.core.index_rows import FilePlace, RowKind
from herodotus.core.signatures import SIGNATURE, WINDOW, voucher_in, window_of_field
from herodotus.core.warc import (
    PAYLOAD_SHA256,
    WarcRecord,
    check_block,
    parse_date,
    split_record,
)
from herodotus.store.files import Files
from herodotus.store.members import decode_member, is_within

PRIMARY = frozenset(kind.value for kind in RecordType)
OURS = re.compile(
    rb"WARC/1\.1\r\nWARC-Type: response\r\nWARC-Record-ID: [^\r\n]+\r\n"
    rb"WARC-Date: ([-0-9]{10}T[:0-9]{8}Z)\r\nWARC-Target-URI: ([^\s<]\S*)\r\n"
    rb"(?:WARC-IP-Address: [^\r\n]+\r\n)?WARC-Payload-Digest: (sha1:[A-Z2-7]{32})\r\n"
    rb"Herodotus-Payload-Digest: sha256:([0-9a-f]{64})\r\nWARC-Block-Digest: (sha1:[A-Z2-7]{32})\r\n"
    rb"(?:WARC-Truncated: [^\r\n]+\r\n)?Content-Type: application/http;msgtype=response\r\n"
    rb"(?:Herodotus-(?:Signature|Door|Window): [^\r\n]+\r\n){0,3}Content-Length: (\d{1,12})\r\n\r\n"
)
_OUR_COMPANION = re.compile(
    rb"WARC/1\.1\r\nWARC-Type: (?:request\r\n(?:(?!Content-Length)[-A-Za-z]+: [^\r\n]*\r\n)*"
    # A note is metadata, too, of a type of its own.
    rb"|metadata\r\n(?:(?!(?i:Content-))[-A-Za-z]+: [^\r\n]*\r\n)*Content-Type: application/warc-fields\r\n)"
    rb"Content-Length: (\d{1,9})\r\n\r\n"
)


class StoredCapture:
    """A capture as the archive gives it back: its name at once, all else when it is asked for.

    A `Reader` has checked the body against the digest, and has given a revisit the body that another record holds.
    Most readers never need the record's other fields or the request beside it: these are parsed on demand, and raise
    DamagedRecordError when they differ from what was written.
    """

    __slots__ = (
        "_body",
        "_companions",
        "_content",
        "_files",
        "_head",
        "_http",
        "_lender",
        "_record",
        "_rest",
        "_split",
        "_start",
        "following",
        "id",
        "is_revisit",
        "place",
        "sha1",
        "url",
    )

    def __init__(
        self,
        content: bytes,
        place: FilePlace,
        files: Files,
        parsed: re.Match[bytes] | tuple[WarcRecord, int],
        rest: bytes = b"",
    ) -> None:
        """`content` is of the member at the place. `parsed` is a match of `OURS` in it, or the record there with the
        start of the next. `rest` are members that follow and belong to the capture, still compressed.
        MalformedRecordError when the record names no capture."""
        self.place = place
        self._content, self._files, self._rest = content, files, rest
        self._companions: tuple[WarcRecord, ...] | None = None
        self._http: tuple[int, str] | None = None
        self._record: WarcRecord | None = None
        self._head: bytes | None = None
        self._body: bytes | None = None
        self._lender: StoredCapture | None = None
        if isinstance(parsed, tuple):
            self._take_record(*parsed)
            return
        date, url, sha1, digest, _, length = parsed.groups()
        self._start = parsed.end()
        end = self._start + int(length)
        if not content.startswith(b"\r\n\r\n", end):
            raise MalformedRecordError("no two line ends after the block")
        self._split = end_of_http_head(content, self._start, end)
        self.following = end + 4
        """Where the next record starts in the content."""
        self.url = url.decode("utf-8", "surrogateescape")
        self.id = CaptureId(position_of(self.url), parse_date(date.decode()), bytes.fromhex(digest.decode()))
        self.is_revisit = False
        self.sha1: str | None = sha1.decode()
        """As WARC-Payload-Digest has it."""

    def _take_record(self, record: WarcRecord, following: int) -> None:
        self._record, self.following = record, following
        self.id = id_of_record(record)
        self.url = record.url or ""
        self.is_revisit = record.kind == "revisit"
        self.sha1 = record.get("WARC-Payload-Digest")
        self._head, self._body = split_payload(record)

    @property
    def head(self) -> bytes:
        """Of HTTP, with its blank line; empty for what came otherwise."""
        if self._head is None:
            self._head = self._content[self._start : self._split]
        return self._head

    @property
    def body(self) -> bytes:
        if self._lender is not None:
            return self._lender.body
        if self._body is None:
            self._body = self._content[self._split : self.following - 4]
        return self._body

    @property
    def body_bytes(self) -> int:
        """Its length, without a copy of it."""
        if self._lender is not None:
            return self._lender.body_bytes
        return self.following - 4 - self._split if self._body is None else len(self._body)

    @property
    def payload(self) -> bytes | LargeBody:
        """The body, which is not held where it is large."""
        return self.body if self._lender is None else self._lender.payload

    @property
    def is_passing(self) -> bool:
        """Its body is not held."""
        return self._lender is not None

    def borrow(self, original: "StoredCapture") -> None:
        """A revisit has its body from there."""
        if original.is_passing:
            self._lender = original
        else:
            self._body = original.body

    def payload_digest(self, digest_of: Callable[[bytes], bytes]) -> bytes:
        """SHA-256 of its own body."""
        return digest_of(self.body)

    @property
    def payload_sha1(self) -> bytes:
        """Of its own body."""
        return hashlib.sha1(self.body, usedforsecurity=False).digest()

    @property
    def time_s(self) -> int:
        return self.id.time_s

    @property
    def kind(self) -> RowKind:
        return RowKind.REVISIT if self.is_revisit else RowKind.BODY

    @property
    def status(self) -> int:
        return self._parsed_head()[0]

    @property
    def mime(self) -> str:
        return self._parsed_head()[1]

    @property
    def media_type(self) -> str:
        """The HTTP head declares it. Without a head the record does, and its type may have parameters."""
        return self.mime if self.head else self.record.get("Content-Type") or ""

    def _parsed_head(self) -> tuple[int, str]:
        if self._http is None:
            self._http = parse_http_head(self.head)
        return self._http

    @property
    def record(self) -> WarcRecord:
        """The capture's own record as it was written."""
        if self._record is None:
            try:
                self._record, _ = split_record(self._content, self.place.skip)
            except MalformedRecordError as error:
                raise self._damaged(error) from error
        return self._record

    @property
    def voucher(self) -> str:
        return voucher_in(self.record.get(SIGNATURE))

    @property
    def door(self) -> str:
        field = self.record.get(DOOR)
        return "" if field is None else str(passage_of(field))

    @property
    def steward(self) -> str:
        window = window_of_field(self.record.get(WINDOW))
        return "" if window is None else window.steward.hex()

    @property
    def companions(self) -> tuple[WarcRecord, ...]:
        if self._companions is None:
            try:
                self._companions = tuple(self._parse_companions())
            except MalformedRecordError as error:
                raise self._damaged(error) from error
        return self._companions

    def as_original(self) -> Original:
        """For captures that share the body."""
        return Original(
            url=self.url,
            time_s=self.time_s,
            digest=self.id.digest,
            size=self.body_bytes,
            record_id=self.record.record_id,
        )

    def named_original(self) -> CaptureId | None:
        """The capture that a revisit says has the body."""
        url, date = self.record.get("WARC-Refers-To-Target-URI"), self.record.get("WARC-Refers-To-Date")
        if url is None or date is None:
            return None
        return CaptureId(key=position_of(url), time_s=parse_date(date), digest=self.id.digest)

    def as_capture(self, rules: UrlRules = STANDARD) -> Capture:
        """As the crawler would have made it, as far as the record tells."""
        capture = capture_of_record(self.record, self.url, self.head, self.body, self.id.digest)
        target = redirect_target(capture.status, capture.header("Location"), self.url, rules)
        return replace(capture, mime=MediaType.of(capture.header("Content-Type")).mime, redirect_to=target)

    def as_deposit(self) -> Deposit:
        """With the whole body, as for a new capture: for other archives, and for revisits whose original goes."""
        # Reading checked the body against the digest; a forged one must keep its stated digest.
        content = (self.head, self.body)
        return deposit_of_record(
            self.record, self.url, self.companions, content=content, sha256=self.id.digest
        )

    def parts(self) -> list[bytes]:
        """The records as they were written, the capture's own first: to be written again as they are."""
        return [self.own, *self.beside]

    @property
    def beside(self) -> list[bytes]:
        """The records behind its own. DamagedRecordError where one is broken."""
        try:
            found = list(self.in_member)
            for content in self._members():
                found += companions_in(content)
        except MalformedRecordError as error:
            raise self._damaged(error) from error
        return found

    @property
    def own(self) -> bytes:
        """Its record as it was written."""
        return self._content[self.place.skip : self.following]

    @property
    def in_member(self) -> list[bytes]:
        """The records beside it that share its member. MalformedRecordError where one is broken."""
        return companions_in(*self._beside)

    @property
    def _beside(self) -> tuple[bytes, int]:
        """What follows its own record in its member, and where in it."""
        return self._content, self.following

    @property
    def rest(self) -> bytes:
        """The members behind its own that belong to it."""
        return self._rest

    def _parse_companions(self) -> Iterator[WarcRecord]:
        for content, start in (self._beside, *((more, 0) for more in self._members())):
            for at in _ends_of_companions(content, start)[:-1]:
                record, _ = split_record(content, at)
                check_block(record)
                yield record

    def _members(self) -> list[bytes]:
        found, rest = [], self._rest
        while rest:
            content, length = decode_member(rest)
            found.append(content)
            rest = rest[length:]
        return found

    def _damaged(self, error: MalformedRecordError) -> DamagedRecordError:
        return DamagedRecordError(self._files.path(self.place.file), self.place.offset, error.reason)


def capture_of_file(data: bytes, bytes_max: int) -> StoredCapture:
    """The one capture of a file such as `as_warc` makes, its body checked. MalformedRecordError at anything else, and
    where the file holds more bytes than that."""
    if not is_within(data, bytes_max):
        raise MalformedRecordError(f"the file holds more than {bytes_max} bytes")
    content, length = decode_member(data, bytes_max)
    parsed = OURS.match(content) or checked_record(content, 0)
    capture = StoredCapture(content, FilePlace(0, 0, length), Files(()), parsed, data[length:])
    record, _ = split_record(content)
    if capture.is_revisit or sha256(capture.body).digest() != capture.id.digest:
        raise MalformedRecordError("the payload does not match its digest")
    if id_of_record(record) != capture.id:
        raise MalformedRecordError("the record is read in two ways")
    try:
        _ = capture.companions
    except DamagedRecordError as error:
        raise MalformedRecordError(str(error)) from error
    return capture


def end_of_companion(content: bytes, at: int) -> int:
    """The end of a request or a metadata record of our own form; -1 when there is neither."""
    companion = _OUR_COMPANION.match(content, at)
    if companion is None:
        return -1
    end = companion.end() + int(companion[1])
    return end + 4 if content.startswith(b"\r\n\r\n", end) else -1


def _ends_of_companions(content: bytes, start: int) -> list[int]:
    """Where the records up to the next capture or note start, and where the last of them ends."""
    ends = [start]
    at = start
    while at < len(content):
        following = end_of_companion(content, at)
        if following < 0:
            record, following = split_record(content, at)
            if record.kind in PRIMARY or is_note(record):
                break
        at = following
        ends.append(at)
    return ends


def companions_in(content: bytes, at: int = 0) -> list[bytes]:
    """The records from there up to the next capture or note."""
    return [content[start:end] for start, end in pairwise(_ends_of_companions(content, at))]


def checked_record(content: bytes, at: int) -> tuple[WarcRecord, int]:
    record, following = split_record(content, at)
    # Of others the payload is checked, and the codec's checksum covers the head.
    if record.kind == "revisit" or record.get(PAYLOAD_SHA256) is None:
        check_block(record)
    return record, following
