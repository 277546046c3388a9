"""Deposits of tests and benches, and the removal of all versions of a page."""

from dataclasses import replace
from typing import Any

from crawler.core.capture import Capture, payload_digests
from herodotus.core.captures import Deposit, parse_http_head
from herodotus.store.store import DiskStore


def make_deposit(
    *, url: str, time_s: int, head: bytes, body: bytes, ip: str = "", request: bytes = b""
) -> Deposit:
    sha256, sha1 = payload_digests(body)
    status, mime = parse_http_head(head)
    return Deposit(
        capture=Capture(
            url=url,
            requested_at=float(time_s),
            duration_s=None,
            request=request,
            status=status,
            head=head,
            body=body,
            sha256=sha256,
            sha1=sha1,
            remote_ip=ip,
            mime=mime,
        )
    )


def altered(deposit: Deposit, **fields: Any) -> Deposit:
    """With another capture in it."""
    return replace(deposit, capture=replace(deposit.capture, **fields))


async def delete_url(store: DiskStore, url: str) -> int:
    return await store.delete([version.id for version in await store.history(url)])


def payload_digest(body: bytes) -> str:
    """As people write it."""
    return f"sha256:{payload_digests(body)[0].hex()}"
