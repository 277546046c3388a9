"""What does an answer tell, given what was asked? The capture, also of an exchange that another crawler had for us.

The body is dropped when it tells nothing new. Nothing here knows how the answer came.
"""

from dataclasses import dataclass

from crawler.core.answers import AnswerReader
from crawler.core.capture import (
    Capture,
    FetchOutcome,
    MediaType,
    PayloadDigest,
    TlsFacts,
    Truncation,
    payload_digests,
    redirect_target,
)
from crawler.core.urls import UrlRules
from crawler.ports import FetchRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The facts beside an answer's head and body, as a `Capture` has them."""

    requested_at: float
    duration_s: float
    request: bytes
    remote_ip: str
    truncated: Truncation | None = None
    tls: TlsFacts | None = None
    fetched_by: str = ""


def capture_of(
    asked: FetchRequest, reader: AnswerReader, body: bytes, exchange: Exchange, rules: UrlRules
) -> Capture:
    """The reader has the answer's whole head."""
    # What the limit cuts is compared up to there: as much of it was archived before.
    is_comparable = exchange.truncated in (None, Truncation.LENGTH)
    digest, sha1, outcome, body = _judged(asked, reader.status, body, is_comparable=is_comparable)
    return Capture(
        url=asked.url,
        requested_at=exchange.requested_at,
        duration_s=exchange.duration_s,
        request=exchange.request,
        status=reader.status,
        head=reader.head,
        body=body,
        sha256=digest,
        sha1=sha1,
        remote_ip=exchange.remote_ip,
        outcome=outcome,
        truncated=exchange.truncated,
        mime=MediaType.of(reader.content_type).mime,
        redirect_to=redirect_target(reader.status, reader.location, asked.url, rules),
        via=asked.via,
        tls=exchange.tls,
        fetched_by=exchange.fetched_by,
    )


def _judged(
    asked: FetchRequest, status: int, body: bytes, *, is_comparable: bool
) -> tuple[PayloadDigest, bytes, FetchOutcome, bytes]:
    """Both digests, what the visit tells, and the body, which is dropped when it tells nothing new."""
    if status == 304 and asked.digest is not None and (asked.etag or asked.last_modified):
        return asked.digest, b"", FetchOutcome.NOT_MODIFIED, b""
    sha256, sha1 = payload_digests(body)
    if status == 200 and is_comparable and sha256 == asked.digest:
        return sha256, sha1, FetchOutcome.SAME_DIGEST, b""
    return sha256, sha1, FetchOutcome.STORED, body
