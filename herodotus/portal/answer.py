"""What is sent back? A whole answer as a value, so that any server, or a simulated one, can carry it."""

import base64
import hashlib
import json
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

STYLE = """
:root { color-scheme: light dark;
  --ink: #1d1b16; --paper: #fbf8f1; --quiet: #6a6355; --line: #d9d1bf; --accent: #7a3b12 }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e9e3d5; --paper: #191713; --quiet: #a49b88; --line: #3d382e; --accent: #e0a06c }
}
* { box-sizing: border-box }
body { margin: 0 auto; max-width: 46rem; padding: 1.5rem 1.25rem 3rem; background: var(--paper); color: var(--ink);
  font: 1.06rem/1.55 Georgia, "Times New Roman", serif }
h1 { font-size: 2rem; margin: .5rem 0 0 }
h2 { font-size: 1.2rem; margin: 2rem 0 .5rem; border-bottom: 1px solid var(--line) }
p.lead { color: var(--quiet); margin-top: .25rem }
a { color: var(--accent) }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .3rem 1.25rem; margin: 0 }
dt { color: var(--quiet) } dd { margin: 0; overflow-wrap: anywhere }
code, .id { font-family: ui-monospace, "DejaVu Sans Mono", monospace; font-size: .92em }
pre { background: color-mix(in srgb, var(--ink) 7%, transparent); padding: .75rem 1rem; overflow-x: auto }
footer { margin-top: 3rem; color: var(--quiet); font-size: .9rem }
@media (max-width: 30rem) { dl { grid-template-columns: 1fr; gap: 0 } dd { margin-bottom: .6rem } }
"""

_STYLE_HASH = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()

# Our pages need nothing from anywhere: whatever a bug lets into one cannot run, load or post.
PAGE_HEADERS = {
    "Content-Security-Policy": (
        f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src 'self' data:; form-action 'self'; "
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


def html(page: str, status: HTTPStatus = HTTPStatus.OK) -> Answer:
    return Answer(
        status=status, content_type="text/html; charset=utf-8", body=page.encode(), headers=dict(PAGE_HEADERS)
    )


def document(
    value: Any, status: HTTPStatus = HTTPStatus.OK, content_type: str = "application/json"
) -> Answer:
    """Anything that json can write; small by nature, so it is made whole."""
    body = json.dumps(value, ensure_ascii=False, indent=1).encode() + b"\n"
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store"}
    return Answer(status=status, content_type=content_type, body=body, headers=headers)


def text(words: str) -> Answer:
    return Answer(
        content_type="text/plain; charset=utf-8", body=words.encode(), headers={"Cache-Control": "no-store"}
    )


def problem(status: HTTPStatus, detail: str) -> Answer:
    """RFC 9457, for machines."""
    return document(
        {"type": "about:blank", "title": status.phrase, "status": status.value, "detail": detail},
        status,
        "application/problem+json",
    )
