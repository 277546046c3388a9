"""What is sent back? A whole answer as a value, so that any server, or a simulated one, can carry it.

How does an answer become what this request asked for? Validators, ranges and compression, without sockets.
"""

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from typing import Any

from herodotus.portal.request import Request

STYLE = """
:root { color-scheme: light dark;
  --ink: #1d1b16; --paper: #fbf8f1; --quiet: #6a6355; --line: #d9d1bf; --accent: #7a3b12; --mark: #f0ddc4;
  --strong: #e0b583; --field: #fff }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9e3d5; --paper: #191713; --quiet: #a49b88; --line: #3d382e; --accent: #e0a06c; --mark: #4a3722;
    --strong: #7a5530; --field: #100f0c }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 56rem; padding: 1rem 1.25rem 3rem; background: var(--paper); color: var(--ink);
  font: 1.06rem/1.55 Georgia, "Times New Roman", serif }
header { font-variant: small-caps; letter-spacing: .04em; margin-bottom: .75rem }
header a { text-decoration: none }
h1 { font-size: 1.8rem; line-height: 1.25; margin: .75rem 0 0 }
h1.address { font-size: 1.35rem }
h2 { font-size: 1.2rem; margin: 2rem 0 .6rem; border-bottom: 1px solid var(--line) }
p.lead { color: var(--quiet); margin-top: .25rem }
.quiet { color: var(--quiet); font-size: .9rem }
.trouble { border-left: 4px solid var(--accent); padding: .4rem .8rem; background: var(--mark) }
.address { overflow-wrap: anywhere }
a { color: var(--accent) }
:focus-visible { outline: 2px solid var(--accent); outline-offset: 2px }
form { margin: 1rem 0 }
label { display: block; color: var(--quiet); font-size: .9rem }
.ask { display: flex; flex-wrap: wrap; gap: .5rem }
input { flex: 1 1 16rem; min-width: 0; font: inherit; padding: .4rem .6rem; color: var(--ink);
  background: var(--field); border: 1px solid var(--quiet); border-radius: 4px }
button { font: inherit; padding: .4rem .9rem; color: var(--paper); background: var(--accent); border: 0;
  border-radius: 4px; cursor: pointer }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.25rem; margin: 0 }
dt { color: var(--quiet) } dd { margin: 0; overflow-wrap: anywhere }
code, .id { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .92em; overflow-wrap: anywhere }
pre { background: color-mix(in srgb, var(--ink) 7%, transparent); padding: .75rem 1rem; white-space: pre-wrap;
  overflow-wrap: anywhere }
ul.addresses { padding-left: 1.1rem } ul.addresses li { overflow-wrap: anywhere; margin: .2rem 0 }
ol.years { list-style: none; padding: 0; margin: 0; display: grid; gap: .15rem; max-width: 30rem }
ol.years a { display: grid; grid-template-columns: 3.5rem 1fr 4rem; gap: .75rem; align-items: center }
ol.years meter { width: 100%; height: .9rem; accent-color: var(--accent) }
meter::-webkit-meter-bar { background: var(--mark); border: 0 }
meter::-webkit-meter-optimum-value { background: var(--accent) }
meter::-moz-meter-bar { background: var(--accent) }
.timeline { margin: 0 } .timeline svg { width: 100%; height: 1.6rem; display: block;
  border-bottom: 1px solid var(--line) }
.timeline path { fill: none; vector-effect: non-scaling-stroke }
.timeline .seen { stroke: var(--mark); stroke-width: 10px }
.timeline .change { stroke: var(--accent); stroke-width: 2px }
.timeline figcaption { display: flex; flex-wrap: wrap; justify-content: space-between; gap: 0 1rem; color: var(--quiet);
  font-size: .9rem }
figure.ring { margin: 1rem 0; display: flex; flex-wrap: wrap; gap: .5rem 1.5rem; align-items: center }
.ring svg { width: 13rem; flex: none } .ring circle, .ring path { fill: none }
.ring .all { stroke: var(--line); stroke-width: 2 } .ring .held { stroke: var(--strong); stroke-width: 12 }
.ring .own { fill: var(--accent) } .ring .other { fill: var(--paper); stroke: var(--ink); stroke-width: 1.5 }
.ring figcaption { flex: 1 1 14rem; color: var(--quiet); font-size: .9rem }
.histogram meter { width: 10rem; max-width: 50%; height: .9rem; vertical-align: middle }
.log { font-size: .8rem; line-height: 1.4; max-height: 24rem; overflow-y: auto }
time { white-space: nowrap }
.months { display: grid; grid-template-columns: repeat(auto-fill, minmax(13.5rem, 1fr)); gap: 1rem 2rem }
.months table { border-collapse: collapse; width: 100%; max-width: 20rem; font-size: .92rem }
.months caption { text-align: left; font-weight: bold; padding-bottom: .2rem }
.months th { font-weight: normal; color: var(--quiet) } .months abbr { text-decoration: none }
.months th, .months td { width: 14.28%; text-align: center; padding: 0; line-height: 1.9rem }
.months td { color: var(--quiet) }
.months td a { display: block; border-radius: 4px; text-decoration: none }
.months .stored a { background: var(--mark); font-weight: bold } .months .many a { background: var(--strong) }
.months .same a { border-bottom: 2px solid var(--line) }
.wide { overflow-x: auto }
table.versions, table.figures { border-collapse: collapse; width: 100%; font-size: .95rem }
:is(.versions, .figures) th { text-align: left; color: var(--quiet); font-weight: normal }
:is(.versions, .figures) :is(th, td) { padding: .25rem .9rem .25rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top }
.figures .id { overflow-wrap: normal; white-space: nowrap }
.versions td:first-child, .versions td:nth-child(4) { white-space: nowrap }
footer { margin-top: 3rem; color: var(--quiet); font-size: .9rem }
@media (max-width: 36rem) {
  dl { grid-template-columns: 1fr; gap: 0 } dd { margin-bottom: .6rem }
  button { flex: 1 1 100% }
  .months { grid-template-columns: 1fr } .months table { max-width: none } .months td { line-height: 2.5rem }
  .versions thead { position: absolute; clip-path: inset(50%) }
  .versions tr { display: block; padding: .5rem 0; border-bottom: 1px solid var(--line) }
  .versions td { display: inline; border: 0 } .versions td:last-child { display: block }
}
table.diff { border-collapse: collapse; width: 100%; table-layout: fixed; font-size: .95rem; line-height: 1.45 }
.diff th { text-align: left; color: var(--quiet); font-weight: normal; border-bottom: 1px solid var(--line) }
.diff td { vertical-align: top; padding: .15rem .6rem .15rem .5rem; overflow-wrap: anywhere; unicode-bidi: isolate }
.diff .same td, .diff .gap td { color: var(--quiet) } .diff .gap td { padding-block: .5rem; font-style: italic }
.diff .changed td { border-left: 3px solid var(--strong) } .diff .changed td:empty { border-color: var(--line) }
.diff ins { background: var(--mark); color: var(--ink); text-decoration: none; font-weight: bold }
.diff del { color: var(--accent) }
@media (max-width: 36rem) {
  .diff.side thead { position: absolute; clip-path: inset(50%) }
  .diff.side tr, .diff.side td { display: block } .diff.side .same td + td, .diff.side td:empty { display: none }
}
"""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: HTTPStatus = HTTPStatus.OK
    content_type: str
    body: bytes
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
