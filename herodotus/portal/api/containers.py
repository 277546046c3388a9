"""What is asked about the archive's files: which there are, and what is in one of them, record by record."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

import msgspec
from msgspec import Meta

from herodotus.core.errors import MalformedRecordError
from herodotus.core.warc import PAYLOAD_SHA256, WarcRecord, split_record
from herodotus.portal.api.endpoints import ApiEndpoint, ApiQuestion, GoneError, NotHereError, Token
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.targets import BadQuestionError
from herodotus.portal.tokens import number_of
from herodotus.store import Catalogue, ContainerFacts, StoredCapture

CONTENT_BYTES_MAX = 16 * 1024 * 1024
"""Unpacked for one answer, and the member after it."""
FIELD_CHARS_MAX = 2_048
Shows = Callable[[str, str], bool]

Number = Annotated[int, Meta(ge=1, le=2**32 - 1, description="of the file, as in its name")]


class ContainersQuestion(ApiQuestion, frozen=True, kw_only=True):
    limit: Annotated[int, Meta(ge=1, le=1000, description="files in one answer")] = 100
    after: Token | None = None


class ContainerQuestion(ApiQuestion, frozen=True, kw_only=True):
    number: Number


class ContentsQuestion(ApiQuestion, frozen=True, kw_only=True):
    number: Number
    limit: Annotated[
        int, Meta(ge=1, le=1000, description="records in one answer, up to the end of a member")
    ] = 100
    after: Token | None = None


class Container(msgspec.Struct, frozen=True, kw_only=True):
    """A log takes captures of all the ring as they come; a segment is one arc (bucket), sorted, and never changed."""

    number: int
    path: str
    kind: str
    bucket: int | None
    epoch: int | None
    codec: str
    bytes: int


class Containers(msgspec.Struct, frozen=True, kw_only=True):
    containers: tuple[Container, ...]
    next: str | None


class ContainedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Of a member of `length` bytes at `offset`; `skip` is where in its content the record begins."""

    type: str
    record_id: str
    date: str
    url: str
    mime: str
    block_bytes: int
    offset: int
    length: int
    skip: int


class Contents(msgspec.Struct, frozen=True, kw_only=True):
    """`damaged_at`: from this byte on nothing can be read."""

    number: int
    records: tuple[ContainedRecord, ...]
    damaged_at: int | None
    next: str | None


@dataclass(frozen=True, slots=True)
class ContainerAnswers:
    shelf: Shelf

    @ApiEndpoint("/api/v1/containers", "The archive's files: logs and segments, by number.")
    async def list_all(self, question: ContainersQuestion, asked: Asked) -> Containers:
        behind = number_of(question.after)

        def work(catalogue: Catalogue) -> list[Container]:
            return [_shown(one) for one in islice(catalogue.containers(behind), question.limit + 1)]

        found = await self.shelf.ask(work)
        shown = tuple(found[: question.limit])
        following = str(shown[-1].number) if len(found) > question.limit else None
        return Containers(containers=shown, next=following)

    @ApiEndpoint("/api/v1/containers/{number}", "One of the archive's files.", may_be_missing=True)
    async def one(self, question: ContainerQuestion, asked: Asked) -> Container:
        found = await self.shelf.ask(lambda catalogue: catalogue.container(question.number))
        if found is None:
            raise NotHereError(f"the archive has no file {question.number}")
        return _shown(found)

    @ApiEndpoint(
        "/api/v1/containers/{number}/records",
        "The records of a file, in its order.",
        cost=5.0,
        may_be_missing=True,
        may_be_gone=True,
    )
    async def contents(self, question: ContentsQuestion, asked: Asked) -> Contents:
        start = number_of(question.after)
        return await self.shelf.ask(
            lambda catalogue: _contents(catalogue, question.number, start, question.limit)
        )


def _shown(facts: ContainerFacts) -> Container:
    return Container(
        number=facts.number,
        path=facts.path,
        kind="log" if facts.is_log else "segment",
        bucket=facts.bucket,
        epoch=facts.epoch,
        codec=facts.codec,
        bytes=facts.bytes,
    )


def _contents(catalogue: Catalogue, number: int, start: int, limit: int) -> Contents:
    try:
        size, members = catalogue.contents(number, start)
        return _read(members, number, start, size, limit, catalogue.shows_record)
    except (KeyError, FileNotFoundError) as error:
        if start:
            raise GoneError(
                f"file {number} was sealed or rewritten meanwhile: read the list again"
            ) from error
        raise NotHereError(f"the archive has no file {number}") from error


def _read(
    members: Iterator[tuple[int, int, bytes | StoredCapture]],
    number: int,
    start: int,
    size: int,
    limit: int,
    shows: Shows,
) -> Contents:
    records: list[ContainedRecord] = []
    at, unpacked, damaged_at = start, 0, None
    try:
        for offset, length, content in members:
            if isinstance(content, StoredCapture):
                records += _large(content, offset, length, shows)
                unpacked += content.body_bytes
            else:
                records += _records_of(content, offset, length, shows)
                unpacked += len(content)
            at = offset + length
            if len(records) >= limit or unpacked >= CONTENT_BYTES_MAX:
                break
    except MalformedRecordError as error:
        if at == start != 0:
            raise BadQuestionError("after: no record begins there") from error
        damaged_at = at
    following = str(at) if at < size and damaged_at is None else None
    return Contents(number=number, records=tuple(records), damaged_at=damaged_at, next=following)


def _large(capture: StoredCapture, offset: int, length: int, shows: Shows) -> list[ContainedRecord]:
    if not shows(capture.url, capture.id.digest.hex()):
        return []
    return [_record(capture.record, offset, length, 0, len(capture.head) + capture.body_bytes)]


def _records_of(content: bytes, offset: int, length: int, shows: Shows) -> list[ContainedRecord]:
    found, skip = [], 0
    while skip < len(content):
        record, following = split_record(content, skip)
        if shows(record.url or "", (record.get(PAYLOAD_SHA256) or "").removeprefix("sha256:")):
            found.append(_record(record, offset, length, skip, len(record.block)))
        skip = following
    return found


def _record(record: WarcRecord, offset: int, length: int, skip: int, block_bytes: int) -> ContainedRecord:
    def field(name: str) -> str:
        return (record.get(name) or "")[:FIELD_CHARS_MAX]

    return ContainedRecord(
        type=record.kind[:FIELD_CHARS_MAX],
        record_id=field("WARC-Record-ID"),
        date=field("WARC-Date"),
        url=(record.url or "")[:FIELD_CHARS_MAX],
        mime=field("Content-Type"),
        block_bytes=block_bytes,
        offset=offset,
        length=length,
        skip=skip,
    )
