"""Readers who ask for what costs the peer much: large captures, hostile pages, long histories, orders without end."""

import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from herodotus.core.warc import format_date, format_record
from scripts.benches.attacking.target import Victim

MIB = 1 << 20
ATTACK_S = 30.0
CONNECTIONS = 160
"""The portal takes 128 from this machine; of one elsewhere 32."""
START_S = 1_600_000_000
SECOND = 20200913122640
"""The same as paths have it."""
LARGE, MANY = "http://large.example/", "http://many.example/"
VERSIONS = 100_000
HOSTILE = {
    "http://hostile.example/page": (
        "text/html",
        b"<a href=/x style='a:url(/y)' onclick='location=1'>" * 400_000,
    ),
    "http://hostile.example/text": ("text/html", b"<p>" + b"<b id=1>x" * 2_000_000),
    "http://hostile.example/style": ("text/css", b"a{b:url(/x)}@import '/y';" * 800_000),
    "http://hostile.example/script": ("text/javascript", b"window.location=top.location;" * 700_000),
    "http://hostile.example/open": ("text/html", b"<a href='" * 2_000_000),
}
"""20 MB each."""
POSTED = (
    "/save/",
    "/save/http://a.example/",
    "/status",
    "/notices",
    "/api/v1/imports",
    "/api/v1/status",
    "/web/x",
    "/",
)


def record(url: str, time_s: int, mime: str, body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n" % mime.encode()
    fields = (
        ("WARC-Type", "response"),
        ("WARC-Record-ID", f"<urn:uuid:{os.urandom(16).hex()}>"),
        ("WARC-Date", format_date(time_s)),
        ("WARC-Target-URI", url),
        ("Content-Type", "application/http;msgtype=response"),
    )
    return format_record(fields, head + body)


def large_captures() -> Iterator[bytes]:
    for number in range(3):
        yield record(LARGE, START_S + number, "application/octet-stream", os.urandom(100 * MIB))


def hostile_pages() -> Iterator[bytes]:
    for url, (mime, body) in HOSTILE.items():
        for number in range(2):
            yield record(url, START_S + number, mime, body[:20_000_000] + b"%d" % number)


def many_versions() -> Iterator[bytes]:
    for number in range(VERSIONS):
        yield record(MANY, START_S + 60 * number, "text/html", b"version %d" % (number % 50_000))
    for number in range(20_000):
        yield record(f"{MANY}{number}", START_S, "text/html", b"page %d" % number)


async def imported(victim: Victim, records: Iterator[bytes]) -> None:
    with tempfile.TemporaryDirectory(prefix="herodotus-attackers-") as scratch:
        path = Path(scratch) / "captures.warc"
        with path.open("wb") as out:  # nothing else runs yet
            out.writelines(records)
        command = [sys.executable, "-m", "herodotus", "import", "--home", victim.peer.home, str(path)]
        running = await asyncio.create_subprocess_exec(
            *command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        await running.wait()
    victim.forget_peak()


@asynccontextmanager
async def connected(victim: Victim) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", victim.http_port, limit=MIB)
    try:
        yield reader, writer
    finally:
        writer.close()


def question(path: str, method: str = "GET") -> bytes:
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n".encode()


async def asked(victim: Victim, requests: list[bytes], connections: int, *, bytes_per_s: float = 1e12) -> str:
    """Again and again, in turns; what comes is read as slowly as said."""
    answers, received = dict[str, int](), 0

    async def one(number: int) -> None:
        nonlocal received
        while True:
            number += 1
            with suppress(OSError):
                async with connected(victim) as (reader, writer):
                    writer.write(requests[number % len(requests)])
                    await writer.drain()
                    status = (await reader.readline()).decode(errors="replace")[9:12] or "none"
                    answers[status] = answers.get(status, 0) + 1
                    while piece := await reader.read(256 * 1024):
                        received += len(piece)
                        await asyncio.sleep(len(piece) / bytes_per_s)
            await asyncio.sleep(0.01)

    tasks = [asyncio.ensure_future(one(number)) for number in range(connections)]
    await asyncio.sleep(ATTACK_S)
    for task in tasks:
        task.cancel()
    await asyncio.wait(tasks)
    told = ", ".join(f"{count} x {status}" for status, count in sorted(answers.items()))
    return f"{told or 'nothing'}; {received / 1e6:,.0f} MB"


def gets(*paths: str) -> list[bytes]:
    return [question(path) + b"\r\n" for path in paths]


async def large_read(victim: Victim) -> str:
    await imported(victim, large_captures())
    return await asked(victim, gets(*(f"/web/{SECOND + n}id_/{LARGE}" for n in range(3))), 32)


async def large_read_slowly(victim: Victim) -> str:
    await imported(victim, large_captures())
    return await asked(victim, gets(f"/web/{SECOND}id_/{LARGE}"), CONNECTIONS, bytes_per_s=64_000)


async def rewritten(victim: Victim) -> str:
    await imported(victim, hostile_pages())
    paths = [f"/web/{SECOND}{flag}/{url}" for url in HOSTILE for flag in ("", "if_", "cs_", "js_")]
    return await asked(victim, gets(*paths), 32)


async def rewritten_slowly(victim: Victim) -> str:
    await imported(victim, hostile_pages())
    return await asked(
        victim, gets(*(f"/web/{SECOND}if_/{url}" for url in HOSTILE)), CONNECTIONS, bytes_per_s=64_000
    )


async def compared(victim: Victim) -> str:
    await imported(victim, many_versions())
    await imported(victim, hostile_pages())
    urls = [*HOSTILE, MANY]
    return await asked(victim, gets(*(f"/web/diff/{SECOND}/{SECOND + 1}/{url}" for url in urls)), 16)


async def histories(victim: Victim) -> str:
    await imported(victim, many_versions())
    paths = (
        *(f"/web/timemap/{form}/{MANY}" for form in ("link", "json", "cdxj")),
        f"/web/*/{MANY}",
        f"/cdx?url={MANY}&limit=10000",
        f"/cdx?url={MANY}&limit=10000&output=json",
        "/cdx?url=many.example&matchType=domain&limit=10000&output=json",
        "/cdx?url=example&matchType=domain&limit=-10000",
        "/search?q=many.example&limit=10000",
        f"/api/v1/captures?url={MANY}&limit=1000",
        f"/web/*/{MANY}*",
        "/api/v1/containers/1/records?limit=1000",
        f"/cdx?url={MANY}&limit=10000&collapse=digest&showDupeCount=true",
    )
    return await asked(victim, gets(*paths), 32)


async def containers(victim: Victim) -> str:
    await imported(victim, large_captures())
    return await asked(victim, gets(*(f"/api/v1/containers/{n}/records" for n in range(1, 5))), 32)


async def posted(victim: Victim) -> str:
    body = os.urandom(MIB) * 8
    heads = (
        question(path, "POST") + b"Content-Type: %s\r\nContent-Length: %d\r\n\r\n" % (kind, len(body))
        for path in POSTED
        for kind in (
            b"application/x-www-form-urlencoded",
            b"application/json",
            b"multipart/form-data; boundary=a",
        )
    )
    return await asked(victim, [head + body for head in heads], CONNECTIONS)


async def saved(victim: Victim) -> str:
    requests = [
        question(f"/save/http://127.0.9.{n}:8099/", "POST") + b"Content-Length: 0\r\n\r\n"
        for n in range(1, 99)
    ]
    return await asked(victim, requests, CONNECTIONS)


ATTACKS: dict[str, Callable[[Victim], Awaitable[str]]] = {
    "32 readers of captures of 100 MiB": large_read,
    "160 slow readers of captures of 100 MiB": large_read_slowly,
    "32 readers of hostile pages of 20 MB": rewritten,
    "160 slow readers of hostile pages of 20 MB": rewritten_slowly,
    "16 comparisons of hostile pages": compared,
    "32 readers of 100,000 versions": histories,
    "32 readers of what is in files": containers,
    "160 orders of 8 MiB": posted,
    "160 orders to save": saved,
}
