"""How does an answer become what this request asked for? Validators, ranges and compression, without sockets."""

import hashlib
import re
import zlib
from dataclasses import replace
from http import HTTPStatus

from herodotus.portal.answer import Answer
from herodotus.portal.request import Request

COMPRESSED_BYTES_MIN = 1_000  # below, the headers weigh more than what is saved
COMPRESSED_BYTES_MAX = 4_000_000  # above, the loop would wait too long
_LEVEL = 1  # three quarters of the saving for a third of the time
_TEXTS = (
    "text/",
    "application/json",
    "application/javascript",
    "application/xml",
    "application/xhtml",
    "image/svg",
)
_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def finished(request: Request, answer: Answer) -> Answer:
    """Only whole, good answers have a validator; others go as they are."""
    if answer.status is not HTTPStatus.OK or "ETag" in answer.headers or "Etag" in answer.headers:
        return answer
    asked_range = request.header("range")
    is_compressed = not asked_range and _is_compressible(request, answer)
    coding = "gzip" if is_compressed else answer.headers.get("Content-Encoding", "")
    # The tag is of the bytes that are sent: each coding has its own (RFC 9110, 8.8.3).
    digest = hashlib.blake2b(answer.body, digest_size=12).hexdigest()
    tag = f'"{digest}{"-" + coding if coding else ""}"'
    headers = {**answer.headers, "ETag": tag, "Vary": _vary(answer)}
    answer = replace(answer, headers=headers)
    if _matches(request.header("if-none-match"), tag):
        kept = {name: value for name, value in headers.items() if name != "Content-Encoding"}
        return replace(answer, status=HTTPStatus.NOT_MODIFIED, body=b"", headers=kept)
    if is_compressed:
        return replace(answer, body=_gzipped(answer.body), headers={**headers, "Content-Encoding": "gzip"})
    if not answer.headers.get("Content-Encoding"):
        answer = replace(answer, headers={**headers, "Accept-Ranges": "bytes"})
        if asked_range and request.header("if-range") in ("", tag):
            return _part(answer, asked_range)
    return answer


def _vary(answer: Answer) -> str:
    known = answer.headers.get("Vary", "")
    return f"{known}, Accept-Encoding" if known else "Accept-Encoding"


def accepts(request: Request, coding: str) -> bool:
    """Whether a client takes a coding (RFC 9110, 12.5.3); what it says wrongly is a no."""
    for one in request.header("accept-encoding").lower().split(","):
        name, _, parameters = one.partition(";")
        if name.strip() in (coding, "*"):
            weight = parameters.replace(" ", "").removeprefix("q=")
            return re.fullmatch(r"0(\.0*)?", weight) is None
    return False


def _is_compressible(request: Request, answer: Answer) -> bool:
    return (
        COMPRESSED_BYTES_MIN <= len(answer.body) <= COMPRESSED_BYTES_MAX
        and "Content-Encoding" not in answer.headers
        and answer.content_type.lower().startswith(_TEXTS)
        and accepts(request, "gzip")
    )


def _gzipped(body: bytes) -> bytes:
    deflate = zlib.compressobj(_LEVEL, zlib.DEFLATED, 31)
    return deflate.compress(body) + deflate.flush()


def _matches(given: str, tag: str) -> bool:
    return given.strip() == "*" or tag in (one.strip().removeprefix("W/") for one in given.split(","))


def _part(answer: Answer, asked: str) -> Answer:
    """One range; several, and what is no range of bytes, get the whole (RFC 9110, 14.2)."""
    match = _RANGE.fullmatch(asked.strip())
    if match is None or not (match[1] or match[2]):
        return answer
    size = len(answer.body)
    if match[1]:
        start, end = int(match[1]), min(int(match[2]), size - 1) if match[2] else size - 1
        if match[2] and int(match[2]) < start:
            return answer
    else:
        start, end = max(size - int(match[2]), 0), size - 1
    if start >= size or (not match[1] and int(match[2]) == 0):
        headers = {**answer.headers, "Content-Range": f"bytes */{size}"}
        return replace(answer, status=HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE, body=b"", headers=headers)
    headers = {**answer.headers, "Content-Range": f"bytes {start}-{end}/{size}"}
    body = answer.body[start : end + 1]
    return replace(answer, status=HTTPStatus.PARTIAL_CONTENT, body=body, headers=headers)
