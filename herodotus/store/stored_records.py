"""How is a stored capture found in a file, and how little of it must be parsed to give it back?

A place leads to a member; decoding it checks the codec's checksum. Our own records have one form, which a single
expression parses; any other (a foreign record, a revisit) goes through the general parser. Unused fields, and the
request beside the response, stay bytes.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator
from itertools import pairwise

from herodotus.core.bundles import is_note
from herodotus.core.captures import (
    CaptureId,
    RecordType,
    end_of_http_head,
    id_of_record,
    position_of,
    split_payload,
)
from herodotus.core.errors import DamagedRecordError, MalformedRecordError
from herodotus.core.index_rows import FilePlace
from herodotus.core.warc import PAYLOAD_SHA256, WarcRecord, check_block, parse_date, sha1_of, split_record
from herodotus.store.files import Files
from herodotus.store.members import decode_member

PRIMARY = frozenset(kind.value for kind in RecordType)
READ_AHEAD_BYTES = 256 * 1024  # a stream's neighbours in one call to the disk
READ_AHEAD_FILES = 4  # segments of one bucket alternate in ring order
OURS = re.compile(
    rb"WARC/1\.1\r\nWARC-Type: response\r\nWARC-Record-ID: [^\r\n]+\r\n"
    rb"WARC-Date: ([-0-9]{10}T[:0-9]{8}Z)\r\nWARC-Target-URI: ([^\s<]\S*)\r\n"
    rb"(?:WARC-IP-Address: [^\r\n]+\r\n)?WARC-Payload-Digest: (sha1:[A-Z2-7]{32})\r\n"
    rb"Herodotus-Payload-Digest: sha256:([0-9a-f]{64})\r\nWARC-Block-Digest: (sha1:[A-Z2-7]{32})\r\n"
    rb"(?:WARC-Truncated: [^\r\n]+\r\n)?Content-Type: application/http;msgtype=response\r\n"
    rb"(?:Herodotus-Signature: [^\r\n]+\r\n)?Content-Length: (\d{1,12})\r\n\r\n"
)
_OUR_COMPANION = re.compile(
    rb"WARC/1\.1\r\nWARC-Type: (?:request\r\n(?:(?!Content-Length)[-A-Za-z]+: [^\r\n]*\r\n)*"
    # A note is metadata, too, of a type of its own.
    rb"|metadata\r\n(?:(?!(?i:Content-))[-A-Za-z]+: [^\r\n]*\r\n)*Content-Type: application/warc-fields\r\n)"
    rb"Content-Length: (\d{1,9})\r\n\r\n"
)


class Seen:
    """The parts of a record that reading needs: its id and its payload."""

    __slots__ = ("body", "head", "id", "is_revisit", "sha1", "url")

    def __init__(
        self, *, id_: CaptureId, url: str, head: bytes, body: bytes, is_revisit: bool, sha1: str | None
    ) -> None:
        self.id = id_
        self.url = url
        self.head = head
        self.body = body
        self.is_revisit = is_revisit
        self.sha1 = sha1
        """As WARC-Payload-Digest has it."""


class StoredRecords:
    """One capture's records, as bytes in a member that was decoded."""

    __slots__ = ("_companions", "_content", "_files", "_following", "_record", "_rest", "place")

    def __init__(self, content: bytes, rest: bytes, files: Files, place: FilePlace) -> None:
        self._content = content
        self._rest = rest
        """Members that follow and belong to the capture, still compressed."""
        self._files = files
        self.place = place
        self._following = -1
        self._record: WarcRecord | None = None
        self._companions: tuple[WarcRecord, ...] | None = None

    @property
    def record(self) -> WarcRecord:
        if self._record is None:
            try:
                self._record, self._following = split_record(self._content, self.place.skip)
                # Of others the payload is checked, and the codec's checksum covers the head.
                if self._record.kind == "revisit" or self._record.get(PAYLOAD_SHA256) is None:
                    check_block(self._record)
            except MalformedRecordError as error:
                raise self._damaged(error) from error
        return self._record

    @property
    def companions(self) -> tuple[WarcRecord, ...]:
        if self._companions is None:
            if self._following < 0:
                _ = self.record
            try:
                self._companions = tuple(self._parse_companions())
            except MalformedRecordError as error:
                raise self._damaged(error) from error
        return self._companions

    def seen(self) -> Seen:
        """The payload is not compared with the digest yet."""
        content = self._content
        ours = OURS.match(content, self.place.skip)
        if ours is None:
            return self._seen_generally()
        date, url_bytes, sha1, sha256, _, length = ours.groups()
        start = ours.end()
        end = start + int(length)
        if end > len(content) or not content.startswith(b"\r\n\r\n", end):
            raise self._damaged(MalformedRecordError("no two line ends after the block"))
        self._following = end + 4
        split = end_of_http_head(content, start, end)
        url = url_bytes.decode("utf-8", "surrogateescape")
        try:
            time_s = parse_date(date.decode())
        except MalformedRecordError as error:
            raise self._damaged(error) from error
        return Seen(
            id_=CaptureId(key=position_of(url), time_s=time_s, digest=bytes.fromhex(sha256.decode())),
            url=url,
            head=content[start:split],
            body=content[split:end],
            is_revisit=False,
            sha1=sha1.decode(),
        )

    def _seen_generally(self) -> Seen:
        record = self.record
        try:
            id_ = id_of_record(record)
        except MalformedRecordError as error:
            raise self._damaged(error) from error
        head, body = split_payload(record)
        return Seen(
            id_=id_,
            url=record.url or "",
            head=head,
            body=body,
            is_revisit=record.kind == "revisit",
            sha1=record.get("WARC-Payload-Digest"),
        )

    def parts(self) -> list[bytes]:
        """The records as they were written, the capture's own first: to be written again as they are."""
        if self._following < 0:
            _ = self.record
        own = self._content[self.place.skip : self._following]
        try:
            ends = _ends_of_companions(self._content, self._following)
            found = [own, *_cut(self._content, ends)]
            for content in self._members():
                found += _cut(content, _ends_of_companions(content, 0))
        except MalformedRecordError as error:
            raise self._damaged(error) from error
        return found

    def _parse_companions(self) -> Iterator[WarcRecord]:
        for content, start in ((self._content, self._following), *((more, 0) for more in self._members())):
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


def quick_look(content: bytes, at: int) -> tuple[CaptureId, int] | None:
    """The id of the response at a place, and the start of the next record. None unless it has our own form and its
    block matches its digest."""
    ours = OURS.match(content, at)
    if ours is None:
        return None
    date, url, _, sha256, block_digest, length = ours.groups()
    end = ours.end() + int(length)
    if not content.startswith(b"\r\n\r\n", end):
        return None
    if sha1_of(content[ours.end() : end]) != block_digest.decode():
        raise MalformedRecordError("the block does not match its digest")
    key = position_of(url.decode("utf-8", "surrogateescape"))
    id_ = CaptureId(key=key, time_s=parse_date(date.decode()), digest=bytes.fromhex(sha256.decode()))
    return id_, end + 4


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


def _cut(content: bytes, ends: list[int]) -> list[bytes]:
    return [content[start:end] for start, end in pairwise(ends)]


class MemberCache:
    """Members by their places. Neighbours share one, so the last is kept; a stream reads ahead."""

    def __init__(self, files: Files, *, reads_ahead: bool = False) -> None:
        self._files = files
        self._at: tuple[int, int] | None = None
        self._content, self._rest = b"", b""
        self._ahead: OrderedDict[int, tuple[int, bytes]] | None = OrderedDict() if reads_ahead else None

    def written(self, place: FilePlace) -> StoredRecords:
        """DamagedRecordError when it is not whole, FileNotFoundError when the file is not here (any more)."""
        at = (place.file, place.offset)
        if at != self._at:
            self._at = None
            data = self._bytes_at(place)
            try:
                self._content, length = decode_member(data, dictionary=self._files.dictionary(place.file))
            except MalformedRecordError as error:
                path = self._files.path(place.file)
                raise DamagedRecordError(path, place.offset, error.reason) from error
            self._rest = data[length:]
            self._at = at
        return StoredRecords(self._content, self._rest, self._files, place)

    def _bytes_at(self, place: FilePlace) -> bytes:
        if self._ahead is None or place.length > READ_AHEAD_BYTES:
            return self._files.read(place)
        start, data = self._ahead.get(place.file, (0, b""))
        at = place.offset - start
        if not 0 <= at <= len(data) - place.length:
            data, at = self._files.read_at(place.file, place.offset, READ_AHEAD_BYTES), 0
            self._ahead[place.file] = (place.offset, data)
            self._ahead.move_to_end(place.file)
            if len(self._ahead) > READ_AHEAD_FILES:
                self._ahead.popitem(last=False)
            if len(data) < place.length:
                return self._files.read(place)  # which raises with the reason
        return data[at : at + place.length]
