"""How does a reader take a million pages along, and continue tomorrow? In parts, each naming the next.

A stream is a question and the time at which it began. Both are in the token of each part, so the peer remembers
nothing, no connection stays open, a slow reader delays nobody, and a lost part can be asked for again. Together, the
parts of a WARC stream are one WARC file, and those of an NDJSON stream one list of lines. Each capture comes exactly
once: in the order of the ring, or, for a host, in the order of its addresses, which are walked instead of the whole
archive.
"""

import base64
import json
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated

from msgspec import Meta

from herodotus.core.index_rows import KEY_BYTES
from herodotus.core.warc import TIME_MAX_S, format_date
from herodotus.portal.answer import PUBLIC, Answer
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, Date, Token, moment_of
from herodotus.portal.api.rest import following
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.cdx import ranges_of
from herodotus.portal.targets import BadQuestionError
from herodotus.portal.tokens import ForeignTokenError, key_of_token, token_of_key
from herodotus.store import Catalogue, Cursor, HostPlace, Query, StoredCapture, as_warc

PART_BYTES_MAX = 8 * 1024 * 1024
"""Of payloads in one part, and one capture more."""
LOOKED_AT_MAX = 2_000
"""Captures that are read for one part, whether they fit the question or not."""


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


@dataclass(frozen=True, slots=True)
class StreamAnswers:
    shelf: Shelf

    @ApiEndpoint(
        "/api/v1/stream",
        "All matching captures of this peer, in parts that you can ask for again.",
        media=("application/x-ndjson", "application/warc"),
        cost=10.0,
        may_be_gone=True,
    )
    async def part(self, question: StreamQuestion, asked: Asked) -> Answer:
        query = _query(question)

        def work(catalogue: Catalogue) -> tuple[StreamPart, bytes]:
            part = (_of_ring if question.host is None else _of_host)(catalogue, question, query)
            written = as_warc if question.form is Form.WARC else partial(_line, has_body=question.bodies)
            return part, b"".join(map(written, part.captures))

        part, body = await self.shelf.ask(work)
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


def _line(capture: StoredCapture, *, has_body: bool) -> bytes:
    facts = {
        "url": capture.url,
        "date": format_date(capture.time_s),
        "digest": f"sha256:{capture.id.digest.hex()}",
        "status": capture.status,
        "mime": capture.mime,
        "bytes": len(capture.body),
        "key": capture.id.key.hex(),
    }
    if has_body:
        facts["head"] = capture.head.decode("utf-8", "replace")
        facts["body"] = base64.b64encode(capture.body).decode()
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


def _of_ring(catalogue: Catalogue, question: StreamQuestion, query: Query) -> StreamPart:
    cursor = Cursor.decode(question.after) if question.after else None
    # Its filters are applied here, as it would look for a capture that fits without end.
    unfiltered = Query(key_from=query.key_from, key_to=query.key_to, from_s=query.from_s, to_s=query.to_s)
    stream = catalogue.stream(unfiltered, cursor, is_whole=question.form is Form.WARC)
    taken = _Taken(question, query)
    is_full = any(map(taken.is_full_with, stream))
    at = stream.cursor.encode() if is_full else None
    return StreamPart(captures=tuple(taken.captures), next=at, skipped=stream.skipped)


# -- a host -----------------------------------------------------------------------------------------------


def encode_place(place: HostPlace) -> str:
    data = (
        place.incarnation
        + place.boundary.to_bytes(8, "big")
        + place.position
        + bytes((len(place.key),))
        + place.key
        + place.address
    )
    return "h" + token_of_key(data)


def decode_place(text: str) -> HostPlace:
    data = key_of_token(text[1:])
    head = 16 + KEY_BYTES + 1
    if text[:1] != "h" or len(data) <= head or len(data) < head + data[head - 1] + 1:
        raise ForeignTokenError
    end = head + data[head - 1]
    return HostPlace(
        incarnation=data[:8],
        boundary=int.from_bytes(data[8:16], "big"),
        position=data[16 : head - 1],
        key=data[head:end],
        address=data[end:],
    )


def _of_host(catalogue: Catalogue, question: StreamQuestion, query: Query) -> StreamPart:
    assert question.host is not None
    ranges = sorted(ranges_of(f"http://{question.host.lower().strip('.')}/", "domain"))
    if not ranges:
        raise BadQuestionError("host: this is not a host name")
    place = decode_place(question.after) if question.after else None
    stream = catalogue.host_stream(ranges, query, place, is_whole=question.form is Form.WARC)
    if place is not None and not any(start <= place.address < end for start, end in ranges):
        raise BadQuestionError("after: this token is from a stream of another host")
    taken = _Taken(question, query)
    is_full = any(map(taken.is_full_with, stream))
    at = encode_place(stream.place) if is_full or stream.is_cut else None
    return StreamPart(captures=tuple(taken.captures), next=at, skipped=stream.skipped)
