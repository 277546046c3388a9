"""How does a reader take a million pages along, and continue tomorrow? In parts, each naming the next.

A stream is a question and what had arrived when it began; both are in the token of each part, so the peer remembers
nothing, no connection stays open, a slow reader holds nothing up, and a part that was lost is asked for again. Put
together, the parts of a WARC stream are one WARC file, and those of an NDJSON stream one list of lines. Each capture
comes exactly once: in the order of the ring, or, where a host is asked for, in that of its addresses, which are then
walked through instead of the whole archive.
"""

import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from msgspec import Meta

from herodotus.core.archive_errors import CursorExpiredError, DamagedRecordError
from herodotus.core.captures import StoredCapture
from herodotus.core.index_rows import (
    KEY_BYTES,
    IndexEntry,
    address_key,
    after,
    arrival_of,
    decode_entry,
    time_of,
    url_prefix,
)
from herodotus.core.positions import position_of
from herodotus.core.warc import TIME_MAX_S, format_date
from herodotus.portal.answer import PUBLIC, Answer
from herodotus.portal.api.captures import as_warc
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, Date, Token, moment_of
from herodotus.portal.api.rest import following
from herodotus.portal.api.tokens import key_of_token, token_of_key
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.cdx import BadQuestionError, ranges_of
from herodotus.store.engine import Archive
from herodotus.store.neighbours import addresses
from herodotus.store.reader import Reader
from herodotus.store.stored_records import MemberCache
from herodotus.store.streams import Cursor, Query, Stream

PART_BYTES_MAX = 8 * 1024 * 1024
"""Of payloads in one part, and one capture more."""
LOOKED_AT_MAX = 2_000
"""Captures that are read for one part, whether they fit the question or not."""
WALKED_MAX = 20_000
"""Addresses that are walked through for one part."""
TOKEN_ADDRESS_BYTES = 1_024
_TRIES = 3


PositionText = Annotated[str, Meta(pattern="^([0-9a-f]{2}){1,20}$")]
Host = Annotated[
    str,
    Meta(
        pattern="^[A-Za-z0-9._-]{1,253}$",
        description="a host and those below it; org takes a top-level domain",
    ),
]
MediaStart = Annotated[str, Meta(max_length=100, description="the start of the media type: image/")]
Status = Annotated[int, Meta(ge=0, le=999, description="of the answer")]


class Form(Enum):
    NDJSON = "ndjson"
    WARC = "warc"


class StreamQuestion(ApiQuestion, frozen=True, kw_only=True, rename={"from_": "from"}):
    form: Annotated[Form, Meta(description="lines of JSON, or a WARC file")] = Form.NDJSON
    key_from: Annotated[PositionText | None, Meta(description="start of an arc of the ring, included")] = None
    key_to: Annotated[PositionText | None, Meta(description="end of the arc, not included")] = None
    host: Host | None = None
    from_: Date | None = None
    to: Date | None = None
    type: MediaStart | None = None
    status: Status | None = None
    bodies: Annotated[bool, Meta(description="NDJSON: with the payload, in base64")] = False
    limit: Annotated[int, Meta(ge=1, le=1000, description="captures in one part")] = 100
    after: Token | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamPart:
    captures: tuple[StoredCapture, ...]
    next: str | None
    skipped: int


def stream_endpoints(shelf: Shelf) -> list[ApiEndpoint]:
    return [
        ApiEndpoint(
            path="/api/v1/stream",
            summary="All matching captures of this peer, in parts that you can ask for again.",
            question=StreamQuestion,
            media=("application/x-ndjson", "application/warc"),
            work=StreamAnswers(shelf).part,
            cost=10.0,
            may_be_gone=True,
        )
    ]


class StreamAnswers:
    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf

    async def part(self, question: StreamQuestion, asked: Asked) -> Answer:
        query = _query(question)

        def work(archive: Archive) -> tuple[StreamPart, bytes]:
            part = (_of_ring if question.host is None else _of_host)(archive, question, query)
            written = as_warc if question.form is Form.WARC else _line_with_body if question.bodies else _line
            return part, b"".join(map(written, part.captures))

        part, body = await self._shelf.ask(work)
        headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", **PUBLIC}
        headers["X-Herodotus-Captures"] = str(len(part.captures))
        headers["X-Herodotus-Skipped"] = str(part.skipped)
        if part.next is not None:
            headers["Link"] = f'<{following(asked.request, part.next)}>; rel="next"'
            headers["X-Herodotus-Resume"] = part.next
        kind = "application/warc" if question.form is Form.WARC else "application/x-ndjson"
        return Answer(content_type=kind, body=body, headers=headers)


def _query(question: StreamQuestion) -> Query:
    if question.host is not None and (question.key_from or question.key_to):
        raise BadQuestionError("host: an arc of the ring has pages of all hosts; choose host or arc")
    return Query(
        key_from=bytes.fromhex(question.key_from or ""),
        key_to=bytes.fromhex(question.key_to) if question.key_to else None,
        from_s=moment_of(question.from_, "from").from_s if question.from_ else 0,
        to_s=(moment_of(question.to, "to").target_s if question.to else TIME_MAX_S) + 1,
        mime=question.type or None,
        status=question.status,
    )


def _line(capture: StoredCapture) -> bytes:
    return _json_line(_facts(capture))


def _line_with_body(capture: StoredCapture) -> bytes:
    head = capture.head.decode("utf-8", "replace")
    return _json_line({**_facts(capture), "head": head, "body": base64.b64encode(capture.body).decode()})


def _facts(capture: StoredCapture) -> dict[str, object]:
    return {
        "url": capture.url,
        "date": format_date(capture.time_s),
        "digest": f"sha256:{capture.id.digest.hex()}",
        "status": capture.status,
        "mime": capture.mime,
        "bytes": len(capture.body),
        "key": capture.id.key.hex(),
    }


def _json_line(facts: dict[str, object]) -> bytes:
    return json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


# -- the whole ring, or an arc of it ----------------------------------------------------------------------


class _Taken:
    """What a part has room for."""

    def __init__(self, question: StreamQuestion, query: Query) -> None:
        self._question = question
        self._query = query
        self.captures: list[StoredCapture] = []
        self.looked_at = 0
        self._bytes = 0

    def is_full_with(self, capture: StoredCapture) -> bool:
        self.looked_at += 1
        self._bytes += len(capture.body)
        if self._query.fits(capture):
            self.captures.append(capture)
        return (
            len(self.captures) >= self._question.limit
            or self._bytes >= PART_BYTES_MAX
            or self.looked_at >= LOOKED_AT_MAX
        )


def _of_ring(archive: Archive, question: StreamQuestion, query: Query) -> StreamPart:
    cursor = Cursor.decode(question.after) if question.after else None
    # Its filters are applied here, as it would look for a capture that fits without end.
    unfiltered = Query(key_from=query.key_from, key_to=query.key_to, from_s=query.from_s, to_s=query.to_s)
    stream = Stream(archive, unfiltered, cursor, is_whole=question.form is Form.WARC)
    taken = _Taken(question, query)
    is_full = any(taken.is_full_with(capture) for capture in stream)
    following_ = stream.cursor.encode() if is_full else None
    return StreamPart(captures=tuple(taken.captures), next=following_, skipped=stream.skipped)


# -- a host -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCursor:
    """The last capture that was looked at: the start of its URL's address, its key (of zero length: none of it yet),
    and what had arrived when the stream began."""

    incarnation: bytes
    boundary: int
    address: bytes
    position: bytes
    key: bytes

    def encode(self) -> str:
        data = (
            self.incarnation
            + self.boundary.to_bytes(8, "big")
            + self.position
            + bytes((len(self.key),))
            + self.key
            + self.address
        )
        return "h" + token_of_key(data)

    @classmethod
    def decode(cls, text: str) -> "HostCursor":
        data = key_of_token(text[1:])
        head = 16 + KEY_BYTES + 1
        if text[:1] != "h" or len(data) <= head or len(data) < head + data[head - 1] + 1:
            raise BadQuestionError("after: this archive did not give this token")
        end = head + data[head - 1]
        return cls(
            incarnation=data[:8],
            boundary=int.from_bytes(data[8:16], "big"),
            position=data[16 : head - 1],
            key=data[head:end],
            address=data[end:],
        )


def _of_host(archive: Archive, question: StreamQuestion, query: Query) -> StreamPart:
    assert question.host is not None
    ranges = sorted(ranges_of(f"http://{question.host.lower().strip('.')}/", "domain"))
    if not ranges:
        raise BadQuestionError("host: this is not a host name")
    with archive.lock:
        boundary = arrival_of(archive.log.number, archive.log.tail)
    cursor = HostCursor.decode(question.after) if question.after else None
    if cursor is not None:
        if cursor.incarnation != archive.incarnation:
            raise CursorExpiredError
        if not any(start <= cursor.address < end for start, end in ranges):
            raise BadQuestionError("after: this token is from a stream of another host")
        boundary = cursor.boundary
    walk = _HostWalk(archive, query, boundary, cursor, is_whole=question.form is Form.WARC)
    taken = _Taken(question, query)
    is_full = any(taken.is_full_with(capture) for capture in walk.captures(ranges))
    at = walk.cursor() if is_full or walk.is_cut else None
    return StreamPart(captures=tuple(taken.captures), next=at, skipped=walk.skipped)


class _HostWalk:
    def __init__(
        self, archive: Archive, query: Query, boundary: int, cursor: HostCursor | None, *, is_whole: bool
    ) -> None:
        self._archive = archive
        self._query = query
        self._boundary = boundary
        self._begun = cursor
        self._is_whole = is_whole
        self._reader = Reader(archive)
        self._cache = MemberCache(archive.files)
        self._url = ""
        self._key = b""
        self.is_cut = False
        self.skipped = 0

    def cursor(self) -> str:
        return HostCursor(
            incarnation=self._archive.incarnation,
            boundary=self._boundary,
            address=address_key(self._url)[:TOKEN_ADDRESS_BYTES],
            position=position_of(self._url)[:KEY_BYTES],
            key=self._key,
        ).encode()

    def captures(self, ranges: Sequence[tuple[bytes, bytes]]) -> Iterator[StoredCapture]:
        begun_key = b"" if self._begun is None else self._begun.key
        for number, url in enumerate(self._urls(ranges)):
            self._url, self._key = url, begun_key
            begun_key = b""
            if number == WALKED_MAX:
                self.is_cut = True
                return
            yield from self._of_url(url_prefix(position_of(url)))

    def _of_url(self, prefix: bytes) -> Iterator[StoredCapture]:
        start = self._key + b"\0" if self._key else prefix
        for key, value in self._archive.index.scan(start, after(prefix)):
            entry = decode_entry(value)
            if entry.arrival < self._boundary and self._query.from_s <= time_of(key) < self._query.to_s:
                self._key = key
                capture = self._read(key, entry)
                if capture is not None:
                    yield capture

    def _read(self, key: bytes, entry: IndexEntry) -> StoredCapture | None:
        """None for what is damaged, which is counted, or was deleted meanwhile."""
        for _ in range(_TRIES):
            try:
                capture = self._reader.read_entry(entry, self._cache)
                if self._is_whole:
                    _ = capture.companions
            except DamagedRecordError:
                break
            except FileNotFoundError:  # sealed in this very moment: the index knows the new place
                data = self._archive.index.get(key)
                if data is None:
                    return None
                entry = decode_entry(data)
            else:
                return capture
        self.skipped += 1
        return None

    def _urls(self, ranges: Sequence[tuple[bytes, bytes]]) -> Iterator[str]:
        """From where the cursor is, that address included: long ones are told apart by their keys."""
        begun = self._begun
        is_there = begun is None
        for start, end in ranges:
            if begun is not None and end <= begun.address:
                continue
            for url in addresses(self._archive, start if begun is None else max(start, begun.address), end):
                is_there = is_there or (begun is not None and position_of(url)[:KEY_BYTES] == begun.position)
                if is_there:
                    yield url
