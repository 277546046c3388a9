"""What is written for a deposit: its record, and those that belong to it?

This is in the path of every capture, so heads are written as text in one go; what a stranger chose (the URL,
fields of a foreign record) is cleaned of what could break a line.
"""

from herodotus.core.deposits import Deposit, Original
from herodotus.core.warc import (
    PAYLOAD_SHA256,
    REVISIT_PROFILE,
    clean,
    derive_record_id,
    field,
    format_date,
    format_record,
    sha1_label,
    sha1_of,
    split_head,
)

_REQUEST = "application/http;msgtype=request"
_RESPONSE = "application/http;msgtype=response"


def format_bundle(deposit: Deposit, original: Original | None, record_id: str | None = None) -> list[bytes]:
    """The capture itself first, then what belongs to it. With an original, no body."""
    primary_id = record_id or deposit.record_id
    date = format_date(deposit.time_s)
    url = clean(deposit.url)
    records = [_format_primary(deposit, primary_id, date, url, original)]
    if deposit.request or deposit.metadata:
        shared = f"WARC-Target-URI: {url}\r\nWARC-Date: {date}\r\nWARC-Concurrent-To: {primary_id}\r\n"
        if deposit.request:
            records.append(_format_companion("request", _REQUEST, deposit.request, primary_id, shared))
        if deposit.metadata:
            text = "".join(f"{name}: {' '.join(value.split())}\r\n" for name, value in deposit.metadata)
            block = text.encode("utf-8", "replace")
            records.append(
                _format_companion("metadata", "application/warc-fields", block, primary_id, shared)
            )
    records += [format_record(record.fields, record.block) for record in deposit.companions]
    if deposit.extra or deposit.companions:
        for record in records:
            split_head(record)  # a stranger's fields and ours together may be more than anybody reads
    return records


def _format_primary(
    deposit: Deposit, record_id: str, date: str, url: str, original: Original | None
) -> bytes:
    if original is None:
        kind, refers = deposit.type.value, ""
        block = deposit.head + deposit.body
    else:
        kind, block = "revisit", deposit.head
        refers = (
            f"WARC-Profile: {REVISIT_PROFILE}\r\n"
            f"WARC-Refers-To: {original.record_id}\r\n"
            f"WARC-Refers-To-Target-URI: {clean(original.url)}\r\n"
            f"WARC-Refers-To-Date: {format_date(original.time_s)}\r\n"
        )
    address = f"WARC-IP-Address: {clean(deposit.ip)}\r\n" if deposit.ip else ""
    truncated = f"WARC-Truncated: {clean(deposit.truncated)}\r\n" if deposit.truncated else ""
    return _whole(
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {record_id}\r\nWARC-Date: {date}\r\n"
        f"WARC-Target-URI: {url}\r\n{address}{refers}"
        f"WARC-Payload-Digest: {sha1_label(deposit.sha1)}\r\n"
        f"{PAYLOAD_SHA256}: sha256:{deposit.sha256.hex()}\r\n"
        f"WARC-Block-Digest: {sha1_of(block)}\r\n{truncated}{_last_fields(deposit)}",
        block,
    )


def _last_fields(deposit: Deposit) -> str:
    extra = "".join(f"{clean(name)}: {clean(value)}\r\n" for name, value in deposit.extra)
    if deposit.head:
        return f"Content-Type: {_RESPONSE}\r\n{extra}"
    if field(deposit.extra, "Content-Type") is None:
        return f"Content-Type: application/octet-stream\r\n{extra}"
    return extra


def _format_companion(kind: str, content_type: str, block: bytes, primary_id: str, shared: str) -> bytes:
    record_id = derive_record_id(kind.encode(), primary_id.encode())
    return _whole(
        f"WARC/1.1\r\nWARC-Type: {kind}\r\nWARC-Record-ID: {record_id}\r\n{shared}"
        f"WARC-Block-Digest: {sha1_of(block)}\r\nContent-Type: {content_type}\r\n",
        block,
    )


def _whole(head: str, block: bytes) -> bytes:
    announced = f"{head}Content-Length: {len(block)}\r\n\r\n"
    return b"".join((announced.encode("utf-8", "surrogateescape"), block, b"\r\n\r\n"))
