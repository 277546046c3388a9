"""What did the server mean to show? The stored body without what only the way to us asked for.

Imported records may hold bodies as they were sent: in chunks, compressed. Both are undone within bounds; a body
that cannot be decoded stays as it is stored, and is shown without its coding: a browser that could
undo it would find a page in it that nobody looked at.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from crawler.core.content import decoded
from herodotus.core.captures import HTTP_HEAD_BYTES_MAX, StoredCapture
from herodotus.core.chunked import dechunked

DECODED_BYTES_MAX = 128 * 1024 * 1024  # no record holds more
Fields = list[tuple[str, str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Payload:
    """`fields` without those that `body` no longer answers to."""

    fields: Fields
    body: bytes
    encoding: str = ""
    """The content coding that is left on the body: it was to be kept, or cannot be undone."""

    def values(self, name: str) -> list[str]:
        return [value for known, value in self.fields if known.lower() == name]


def fields_of(head: bytes) -> Fields:
    """Folded lines joined; what is no field is left out. Values as UTF-8 where they are, with escapes where not."""
    fields: Fields = []
    for line in head[:HTTP_HEAD_BYTES_MAX].split(b"\n")[1:]:
        text = line.rstrip(b"\r").decode("utf-8", "surrogateescape")
        if text[:1] in (" ", "\t") and fields:
            fields[-1] = fields[-1][0], f"{fields[-1][1]} {text.strip()}"
            continue
        name, colon, value = text.partition(":")
        if colon and name.strip():
            fields.append((name.strip(), value.strip()))
    return fields


def head_fields(capture: StoredCapture) -> Fields:
    """Of a resource, which has no head, the type that its record names."""
    fields = fields_of(capture.head)
    if not capture.head and (content_type := capture.record.get("Content-Type")):
        fields.append(("Content-Type", content_type))
    return fields


def payload_of(
    capture: StoredCapture,
    *,
    keep_encodings: frozenset[str] = frozenset(),
    bytes_max: int = DECODED_BYTES_MAX,
    fields: Fields | None = None,
) -> Payload:
    """A single content coding of `keep_encodings` is left on: its client takes it as it is. Decoded at most up to
    `bytes_max`, the rest is cut off. `fields`: those of its head, where they are known."""
    fields = head_fields(capture) if fields is None else fields
    body = capture.body
    if any(name.lower() == "transfer-encoding" and "chunked" in value.lower() for name, value in fields):
        # A body that is not in chunks after all (many archives undo them and keep the header) stays as it is.
        inside, is_all = dechunked(body)
        body = inside if inside or is_all else body
    codings = (value for name, value in fields if name.lower() == "content-encoding")
    encoding = ",".join(one for one in _listed(codings) if one != "identity")
    if encoding and encoding not in keep_encodings:
        result = decoded(body, encoding, bytes_max)
        if result.content or not body:
            body, encoding = result.content, ""
    gone = {"transfer-encoding", "content-length"}
    if not encoding or encoding in keep_encodings:
        gone.add("content-encoding")
    return Payload(fields=[one for one in fields if one[0].lower() not in gone], body=body, encoding=encoding)


def _listed(values: Iterable[str]) -> Iterator[str]:
    for value in values:
        yield from (one for one in (part.strip().lower() for part in value.split(",")) if one)
