"""What was asked, and what is sent back? Both are values, so that any server, or a simulated one, can carry them.

The target of a request is raw, because archived addresses stand in it.

How does an answer become what this request asked for? Validators, ranges and compression, without sockets.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from herodotus.core.captures import LargeBody, stretch_of

PARAMETERS_MAX = 64
BODY_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """`headers` by lower-case name; `target` is path and query as they came over the wire."""

    method: str = "GET"
    target: str = "/"
    headers: Mapping[str, str] = field(default_factory=dict)
    client: str = ""
    """Where it came from, as far as a connection tells."""
    body: bytes = b""
    """Of an order; readers send none that is looked at."""
    is_http_1_0: bool = False
    """As no browser has spoken for long, and some proxies do."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> str:
        return self.target.partition("?")[2]

    def header(self, name: str) -> str:
        return self.headers.get(name, "")

    def parameters(self) -> list[tuple[str, str]]:
        """Decoded, in order; ValueError where there are more than anybody needs."""
        return parse_qsl(
            self.query, keep_blank_values=True, errors="replace", max_num_fields=PARAMETERS_MAX, separator="&"
        )

    def parameter(self, name: str) -> str:
        return dict(reversed(self.parameters())).get(name, "")


def query_of(pairs: Iterable[tuple[str, str]]) -> str:
    """What `parameters` reads back."""
    return urlencode(list(pairs), quote_via=quote, errors="replace")


def wants_json(request: Request) -> bool:
    """A browser takes both, and gets the page."""
    accept = request.header("accept")
    return "json" in accept and "text/html" not in accept


def parsed_address(address: str) -> IPv4Address | IPv6Address | None:
    """An IPv4 address also where a socket of IPv6 shows it."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return None
    return parsed.ipv4_mapped or parsed if isinstance(parsed, IPv6Address) else parsed


STYLE = "\n" + (Path(__file__).parent / "templates" / "style.css").read_text("utf-8")
_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

# Our pages need nothing from anywhere: whatever a bug lets into one cannot run, load or post.
PAGE_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src 'self' data:; "
        # Not 'self': the form asks this peer, which may send on to another, and browsers hold redirects to it, too.
        "form-action http: https:; "
        "frame-ancestors 'none'; base-uri 'none'"
    ),
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def _at_once(pieces: Iterator[bytes]) -> AsyncGenerator[bytes]:
    for piece in pieces:
        yield piece


@dataclass(frozen=True, slots=True, kw_only=True)
class Passing:
    """A body that is not held, or a part of it."""

    body: LargeBody
    name: str
    """Another for other bytes."""
    start: int = 0
    size: int
    read: Callable[[Iterator[bytes]], AsyncGenerator[bytes]] = _at_once
    """Gives the pieces, made where nobody waits for it."""

    def pieces(self) -> AsyncGenerator[bytes]:
        return self.read(stretch_of(self.body.pieces(), self.start, self.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: HTTPStatus = HTTPStatus.OK
    content_type: str
    body: bytes
    passing: Passing | None = None
    """In the place of the body, if that is large."""
    headers: dict[str, str] = field(default_factory=dict)
    repeated: tuple[tuple[str, str], ...] = ()
    """Headers of which a name may stand several times."""
    is_of_archive_alone: bool = False
    """Whether it follows from the request and the archive's state, so that it may be repeated (`answer_cache.py`)."""


Headers = Mapping[str, str]


def html(page: str, status: HTTPStatus = HTTPStatus.OK, headers: Headers | None = None) -> Answer:
    headers = {**PAGE_HEADERS, **(headers or {})}
    return Answer(status=status, content_type="text/html; charset=utf-8", body=page.encode(), headers=headers)


def json_bytes(value: Any) -> bytes:
    """An address may hold what UTF-8 cannot (imported files have any bytes): it becomes a question mark."""
    return json.dumps(value, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"


def document(
    value: Any,
    status: HTTPStatus = HTTPStatus.OK,
    headers: Headers | None = None,
    content_type: str = "application/json",
) -> Answer:
    """Anything that json can write; small by nature, so it is made whole."""
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store", **(headers or {})}
    return Answer(status=status, content_type=content_type, body=json_bytes(value), headers=headers)


def text(words: str) -> Answer:
    return Answer(
        content_type="text/plain; charset=utf-8", body=words.encode(), headers={"Cache-Control": "no-store"}
    )


PUBLIC = {"Access-Control-Allow-Origin": "*"}
"""On what any page of the web may read: everything here is public, and asks for no cookie."""
PRIVATE = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""On what is for the operator's eyes: no page of another site may read it, and nothing on the way may keep it."""


def moved(location: str, status: HTTPStatus = HTTPStatus.FOUND, headers: Headers | None = None) -> Answer:
    """`location` is ASCII and has no line end; see `memento.header_url`."""
    return Answer(
        status=status,
        content_type="text/plain; charset=utf-8",
        body=b"",
        headers={"Location": location, **(headers or {})},
    )


def problem(status: HTTPStatus, detail: str, headers: Headers | None = None) -> Answer:
    """RFC 9457, for machines."""
    facts = {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail}
    return document(facts, status, headers, "application/problem+json")


def data(content_type: str, words: str | bytes, headers: Headers) -> Answer:
    """For programs of any site; what UTF-8 cannot write becomes a question mark."""
    headers = {**PUBLIC, **headers, "X-Content-Type-Options": "nosniff"}
    body = words.encode("utf-8", "replace") if isinstance(words, str) else words
    return Answer(content_type=content_type, body=body, headers=headers)


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
    if answer.passing is not None:
        return _finished_passing(request, answer, answer.passing)
    is_compressed = not asked_range and _is_compressible(request, answer)
    coding = "gzip" if is_compressed else answer.headers.get("Content-Encoding", "")
    # The tag is of the bytes that are sent: each coding has its own (RFC 9110, 8.8.3).
    digest = hashlib.blake2b(answer.body, digest_size=12).hexdigest()
    tag = f'"{digest}{"-" + coding if coding else ""}"'
    vary = answer.headers.get("Vary", "")
    headers = {
        **answer.headers,
        "ETag": tag,
        "Vary": f"{vary}, Accept-Encoding" if vary else "Accept-Encoding",
    }
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


def _finished_passing(request: Request, answer: Answer, passing: Passing) -> Answer:
    coding = answer.headers.get("Content-Encoding", "")
    tag, vary = f'"{passing.name}{"-" + coding if coding else ""}"', answer.headers.get("Vary", "")
    headers = {
        **answer.headers,
        "ETag": tag,
        "Vary": f"{vary}, Accept-Encoding" if vary else "Accept-Encoding",
    }
    if _matches(request.header("if-none-match"), tag):
        kept = {name: value for name, value in headers.items() if name != "Content-Encoding"}
        return replace(answer, status=HTTPStatus.NOT_MODIFIED, passing=None, headers=kept)
    if coding:
        return replace(answer, headers=headers)
    answer = replace(answer, headers={**headers, "Accept-Ranges": "bytes"})
    if request.header("range") and request.header("if-range") in ("", tag):
        return _part(answer, request.header("range"))
    return answer


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
    passing = answer.passing
    size = len(answer.body) if passing is None else passing.size
    if match[1]:
        start, end = int(match[1]), min(int(match[2]), size - 1) if match[2] else size - 1
        if match[2] and int(match[2]) < start:
            return answer
    else:
        start, end = max(size - int(match[2]), 0), size - 1
    if start >= size or (not match[1] and int(match[2]) == 0):
        headers = {**answer.headers, "Content-Range": f"bytes */{size}"}
        status = HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        return replace(answer, status=status, body=b"", passing=None, headers=headers)
    headers = {**answer.headers, "Content-Range": f"bytes {start}-{end}/{size}"}
    if passing is not None:
        part = replace(passing, start=start, size=end + 1 - start)
        return replace(answer, status=HTTPStatus.PARTIAL_CONTENT, passing=part, headers=headers)
    body = answer.body[start : end + 1]
    return replace(answer, status=HTTPStatus.PARTIAL_CONTENT, body=body, headers=headers)
