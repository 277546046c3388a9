"""Deposits of tests and benches, and the removal of all versions of a page."""

import hashlib

from herodotus.core.captures import Deposit, parse_http_head
from herodotus.store.store import DiskStore


def make_deposit(
    *, url: str, time_s: int, head: bytes, body: bytes, ip: str | None = None, request: bytes = b""
) -> Deposit:
    return Deposit(
        url=url,
        time_s=time_s,
        head=head,
        body=body,
        sha256=hashlib.sha256(body).digest(),
        sha1=hashlib.sha1(body, usedforsecurity=False).digest(),
        ip=ip,
        mime=parse_http_head(head)[1],
        request=request,
    )


async def delete_url(store: DiskStore, url: str) -> int:
    return await store.delete([version.id for version in await store.history(url)])
