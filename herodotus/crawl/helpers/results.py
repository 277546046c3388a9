"""How does what a helper found travel, and which of it does an owner take for what the origin said?

A helper that says ill of a host is not believed: no answer, 403, 429, 5xx may be about the helper's own line, or
invented to keep a host from being crawled. The owner then asks the host itself.
"""

from typing import Final

from crawler.answered import Exchange, capture_of
from crawler.core.answers import AnswerReader, BadAnswerError
from crawler.core.capture import Capture, TlsFacts, Truncation
from crawler.core.urls import UrlRules, reached
from crawler.ports import FetchRequest, Skipped
from herodotus.core.errors import MalformedError
from herodotus.crawl.helpers.wire import (
    BODY_BYTES_MAX,
    HEAD_BYTES_MAX,
    REQUEST_BYTES_MAX,
    TIME_MS_MAX,
    UNWANTED,
    WORD_CHARACTERS_MAX,
    Result,
    Tls,
)

_BELIEVED: Final = frozenset({404, 410})


def is_believed(status: int) -> bool:
    """Without asking the host itself."""
    return 200 <= status < 400 or status in _BELIEVED


def no_result(index: int, why: str) -> Result:
    return Result(index, 0, word=why[:WORD_CHARACTERS_MAX])


def result_of(index: int, found: Capture | Skipped, started_s: float) -> Result:
    """The helper's words. `started_s`: after it had the owner's answer."""
    started_ms, took_ms = _ms(started_s), _ms(found.duration_s or 0.0)
    if isinstance(found, Skipped):
        return Result(index, found.status, started_ms=started_ms, took_ms=took_ms, word=UNWANTED)
    is_too_long = (
        len(found.body) > BODY_BYTES_MAX
        or len(found.head) > HEAD_BYTES_MAX
        or len(found.request) > REQUEST_BYTES_MAX
    )
    if is_too_long:
        return no_result(index, Truncation.LENGTH)
    return Result(
        index,
        found.status,
        head=found.head,
        body=found.body,
        address=found.remote_ip,
        started_ms=started_ms,
        took_ms=took_ms,
        request=found.request,
        word=found.truncated or "",
        tls=None if found.tls is None else _told(found.tls),
    )


def found_in(
    asked: FetchRequest, result: Result, *, sent_at: float, now: float, helper: str, rules: UrlRules
) -> Capture | Skipped | None:
    """What the helper found, by the owner's clock: the work was sent, and it is now. None: the owner asks itself.

    Raises MalformedError for what no honest helper sends.
    """
    if not result.status or result.word == Truncation.LENGTH:
        return None
    took_s = min(result.took_ms / 1000, max(0.0, now - sent_at))
    if result.word == UNWANTED:
        return (
            Skipped(url=asked.url, status=200, mime="", duration_s=took_s) if result.status == 200 else None
        )
    reader = _read(result)
    if result.address and reached(result.address) != reached(asked.address or ""):
        raise MalformedError("another address than that of the window")
    if not is_believed(result.status):
        return None
    return capture_of(
        asked,
        reader,
        result.body,
        Exchange(
            requested_at=min(sent_at + result.started_ms / 1000, now),
            duration_s=took_s,
            request=result.request,
            remote_ip=result.address,
            truncated=Truncation(result.word) if result.word else None,
            tls=None if result.tls is None else _facts(result.tls),
            fetched_by=helper,
        ),
        rules,
    )


def is_same(one: Capture | Skipped, other: Capture | Skipped) -> bool:
    """Whether the origin said the same both times, as far as an archive keeps it."""
    if isinstance(one, Skipped) or isinstance(other, Skipped):
        return isinstance(one, Skipped) and isinstance(other, Skipped)
    if not one.is_new or not other.is_new:  # what is archived already, however the server said so
        return not one.is_new and not other.is_new
    return (one.status, one.version, one.mime) == (other.status, other.version, other.mime)


def _read(result: Result) -> AnswerReader:
    reader = AnswerReader()
    try:
        reader.receive(result.head)
    except BadAnswerError as error:
        raise MalformedError(str(error)) from error
    if reader.head != result.head or reader.status != result.status or reader.body_bytes:
        raise MalformedError("its head is not the one of an answer")
    if result.word not in ("", Truncation.TIME, Truncation.DISCONNECT):
        raise MalformedError("an unknown word")
    return reader


def _ms(seconds: float) -> int:
    return min(int(max(0.0, seconds) * 1000), TIME_MS_MAX)


def _told(tls: TlsFacts) -> Tls:
    return Tls(tls.protocol[:100], tls.cipher[:100], tls.certificate_sha256[:32], (tls.error or "")[:300])


def _facts(tls: Tls) -> TlsFacts:
    return TlsFacts(
        protocol=_printable(tls.protocol),
        cipher=_printable(tls.cipher),
        certificate_sha256=tls.certificate_sha256,
        error=_printable(tls.error) or None,
    )


def _printable(text: str) -> str:
    if not text.isprintable():
        raise MalformedError("words that cannot be printed")
    return text
