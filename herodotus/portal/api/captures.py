"""What is asked about addresses and their captures: versions, records, a sample."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, TypeVar

import msgspec
from msgspec import Meta

from herodotus.core.disputes import disputed
from herodotus.core.errors import DamagedRecordError
from herodotus.core.index_rows import KEY_BYTES
from herodotus.core.warc import TIME_MAX_S, WarcRecord, format_date
from herodotus.portal.answer import PUBLIC, Answer
from herodotus.portal.api.endpoints import (
    AbsentError,
    ApiEndpoint,
    ApiQuestion,
    Date,
    NotHereError,
    Token,
    Url,
    moment_of,
)
from herodotus.portal.archive_pages import Asked
from herodotus.portal.archive_questions import Shelf
from herodotus.portal.histories import contents_of
from herodotus.portal.memento import memento_path
from herodotus.portal.targets import Moment, spellings
from herodotus.portal.tokens import number_of, position_of_token
from herodotus.store import Catalogue, StoredCapture, Version, as_warc

VERSIONS_SHOWN_MAX = 1_000
"""Of one content; the rest is counted."""
CAPTURES_SHOWN_MAX = 5_000
"""Of all contents of an answer: 2 MB."""

T = TypeVar("T")


# -- questions and answers --------------------------------------------------------------------------------


class CapturesQuestion(ApiQuestion, frozen=True, kw_only=True, rename={"from_": "from"}):
    url: Url
    from_: Date | None = None
    to: Date | None = None
    limit: Annotated[int, Meta(ge=1, le=1000, description="contents in one answer")] = 100
    after: Token | None = None


class CaptureFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One capture, and how often it was found unchanged since."""

    url: str
    date: str
    status: int
    mime: str
    bytes: int
    visits: int
    last_seen: str
    memento: str
    disputed: bool
    """Another peer stored something else on that day."""
    door: str = ""
    """How it came into the network: `crawled`, `late`, `brought-in` or `unknown`, and `healed` where this peer has it
    from other holders; empty where its record does not say."""
    fetched_by: str = ""
    """The key of the peer that signed it."""
    permitted_by: str = ""
    """The key of the steward that signed the window of the fetch."""


class CaptureContent(msgspec.Struct, frozen=True, kw_only=True):
    """All captures of an address that have the same bytes."""

    digest: str
    first_seen: str
    last_seen: str
    count: int
    captures: tuple[CaptureFacts, ...]


class Captures(msgspec.Struct, frozen=True, kw_only=True):
    """Versions of an address, duplicates grouped, by when a content was first seen."""

    url: str
    contents: tuple[CaptureContent, ...]
    next: str | None


class SampleQuestion(ApiQuestion, frozen=True, kw_only=True):
    seed: Annotated[str, Meta(max_length=64, description="the same seed gives the same sample")] = ""
    limit: Annotated[int, Meta(ge=1, le=100, description="addresses in one answer")] = 10
    after: Token | None = None


class SampledCapture(msgspec.Struct, frozen=True, kw_only=True):
    url: str
    date: str
    digest: str
    status: int
    mime: str
    memento: str


class Sample(msgspec.Struct, frozen=True, kw_only=True):
    """Addresses next to each other on the ring: as those are hashes, this is chance."""

    captures: tuple[SampledCapture, ...]
    next: str | None


class RecordsQuestion(ApiQuestion, frozen=True, kw_only=True):
    url: Url
    date: Date | None = None


class WarcRecordFacts(msgspec.Struct, frozen=True, kw_only=True):
    type: str
    record_id: str
    date: str
    fields: tuple[tuple[str, str], ...]
    block_bytes: int


class WarcRecords(msgspec.Struct, frozen=True, kw_only=True):
    """The WARC records of the capture that answers for a date, its own first."""

    url: str
    date: str
    memento: str
    http_head: str
    records: tuple[WarcRecordFacts, ...]


# -- answers ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class CaptureAnswers:
    shelf: Shelf

    @ApiEndpoint("/api/v1/captures", "Versions of an address, duplicates grouped.", may_be_elsewhere=True)
    async def captures(self, question: CapturesQuestion, asked: Asked) -> Captures:
        from_s = moment_of(question.from_, "from").from_s if question.from_ else 0
        to_s = moment_of(question.to, "to").target_s if question.to else TIME_MAX_S
        skipped = number_of(question.after)
        urls = spellings(question.url)
        for url in [*urls, *await self.shelf.spellings(urls)]:
            async with self.shelf.history((url,), from_s, to_s) as versions:
                if versions:
                    write = partial(_grouped, url, versions, skipped, question.limit)
                    return await self.shelf.in_thread(write)
        raise AbsentError(urls[0])

    @ApiEndpoint(
        "/api/v1/records", "The WARC records of a capture, without their blocks.", may_be_elsewhere=True
    )
    async def records(self, question: RecordsQuestion, asked: Asked) -> WarcRecords:
        def work(_: Catalogue, capture: StoredCapture) -> WarcRecords:
            return WarcRecords(
                url=capture.url,
                date=format_date(capture.time_s),
                memento=memento_path(capture.url, capture.time_s),
                http_head=capture.head.decode("utf-8", "replace"),
                records=tuple(map(record_facts, (capture.record, *capture.companions))),
            )

        return await at_moment(self.shelf, question.url, moment_of(question.date), work)

    @ApiEndpoint(
        "/api/v1/records/warc",
        "A capture as a WARC file of its own.",
        media=("application/warc",),
        cost=2.0,
        may_be_elsewhere=True,
    )
    async def warc(self, question: RecordsQuestion, asked: Asked) -> Answer:
        moment = moment_of(question.date)
        body = await at_moment(self.shelf, question.url, moment, lambda _, capture: as_warc(capture))
        return Answer(
            content_type="application/warc",
            body=body,
            headers={
                **PUBLIC,
                "X-Content-Type-Options": "nosniff",
                "Content-Disposition": 'attachment; filename="capture.warc.gz"',
            },
        )

    @ApiEndpoint(
        "/api/v1/sample", "A random sample of this peer's addresses, each with its newest capture.", cost=2.0
    )
    async def sample(self, question: SampleQuestion, asked: Asked) -> Sample:
        begun = hashlib.sha1(question.seed.encode("utf-8", "replace"), usedforsecurity=False).digest()[
            :KEY_BYTES
        ]
        at = begun if question.after is None else position_of_token(question.after)
        captures, stopped = await self.shelf.ask(
            lambda catalogue: _sampled(catalogue, begun, at, question.limit)
        )
        return Sample(captures=tuple(captures), next=None if stopped is None else stopped.hex())


async def at_moment(
    shelf: Shelf, url: str, moment: Moment, work: Callable[[Catalogue, StoredCapture], T]
) -> T:
    """`work` on the capture that answers for a moment, in a thread."""
    urls = spellings(url)
    chosen = await shelf.choose(urls, moment)
    if chosen is None:
        raise AbsentError(urls[0])

    def read(catalogue: Catalogue) -> T:
        capture = catalogue.newest(chosen.url, chosen.time_s)
        if capture is None:
            raise NotHereError("this peer's copy of that day is damaged, and it has no older one")
        try:
            return work(catalogue, capture)
        except DamagedRecordError as error:
            raise NotHereError("this peer's copy of that day is damaged") from error

    return await shelf.ask(read)


def record_facts(record: WarcRecord) -> WarcRecordFacts:
    return WarcRecordFacts(
        type=record.kind,
        record_id=record.record_id,
        date=record.get("WARC-Date") or "",
        fields=tuple((name, value) for name, value in record.fields),
        block_bytes=len(record.block),
    )


def _grouped(url: str, versions: Sequence[Version], skipped: int, limit: int) -> Captures:
    of_doubt = disputed(versions)
    contents, known = contents_of(
        versions, skipped, limit, each_max=VERSIONS_SHOWN_MAX, most=CAPTURES_SHOWN_MAX
    )
    shown = tuple(
        CaptureContent(
            digest=f"sha256:{one.digest.hex()}",
            first_seen=format_date(one.first_s),
            last_seen=format_date(one.last_s),
            count=one.count,
            captures=tuple(_facts(version, version.id in of_doubt) for version in one.versions),
        )
        for one in contents
    )
    end = skipped + len(shown)
    return Captures(url=url, contents=shown, next=str(end) if end < known else None)


def _facts(version: Version, is_disputed: bool) -> CaptureFacts:
    return CaptureFacts(
        url=version.url,
        date=format_date(version.first_seen_s),
        status=version.status,
        mime=version.mime,
        bytes=version.size,
        visits=version.visits,
        last_seen=format_date(version.last_seen_s),
        memento=memento_path(version.url, version.first_seen_s),
        disputed=is_disputed,
        door=version.door,
        fetched_by=version.voucher,
        permitted_by=version.steward,
    )


# -- in a thread ------------------------------------------------------------------------------------------


def _sampled(
    catalogue: Catalogue, begun: bytes, at: bytes, limit: int
) -> tuple[list[SampledCapture], bytes | None]:
    """From `at` around the ring to where the sample began; `at` is left out unless it is the beginning."""
    found: list[SampledCapture] = []
    spans: list[tuple[bytes, bytes | None]] = [(at, begun)] if at < begun else [(at, None), (b"", begun)]
    for position in (one for span in spans for one in catalogue.positions(*span)):
        capture = None if position == at != begun else catalogue.newest_at(position)
        if capture is not None:
            found.append(_sampled_capture(capture))
            if len(found) == limit:
                return found, position
    return found, None


def _sampled_capture(capture: StoredCapture) -> SampledCapture:
    return SampledCapture(
        url=capture.url,
        date=format_date(capture.time_s),
        digest=f"sha256:{capture.id.digest.hex()}",
        status=capture.status,
        mime=capture.mime,
        memento=memento_path(capture.url, capture.time_s),
    )
