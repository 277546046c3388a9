"""Sites that answer with as much as they can: pages, packed pages, styles, sitemaps, heads."""

import asyncio
import gzip
import subprocess
import sys
from collections.abc import Awaitable, Callable
from functools import partial

import brotli

from scripts.benches.attacking.target import Victim

MIB = 1 << 20
HOSTS = 64
"""Addresses of this machine, each a host of its own to the crawler: more than it has connections."""
ATTACK_S = 45.0


def links(count: int) -> bytes:
    return b"".join(b"<a href=/%d>" % number for number in range(count))


def left_open() -> bytes:
    """One element with many attributes, which each paragraph opens again: 100 kB that ask for a tree of 484 MB."""
    return b"<p><b " + b" ".join(b"a%d" % number for number in range(12_000)) + b">" + b"<p>x" * 790


def locations(count: int) -> bytes:
    return b"".join(b"<loc>http://h/%d</loc>" % number for number in range(count))


PAGES: dict[str, tuple[bytes, bytes, Callable[[], bytes]]] = {
    "links": (b"text/html", b"", lambda: links(2_000_000)[: 30 * MIB]),
    "text": (b"text/html", b"", lambda: b"a" * (31 * MIB)),
    "nul": (b"text/html", b"", lambda: bytes(31 * MIB)),
    "bomb": (b"text/html", b"br", lambda: brotli.compress(links(40_000_000)[: 400 * MIB], quality=1)),
    "zeros": (b"text/html", b"gzip", lambda: gzip.compress(bytes(400 * MIB), 1)),
    "crowds": (b"text/html", b"", lambda: links(400_000)[: 39 * MIB // 10]),
    "open": (b"text/html", b"", left_open),
    "sitemap": (b"application/xml", b"", lambda: (b"<urlset>" + locations(1_300_000))[: 30 * MIB]),
    "style": (b"text/css", b"", lambda: b"".join(b"a{b:url(/%d)}" % n for n in range(1_800_000))[: 30 * MIB]),
    "picture": (b"image/png", b"", lambda: bytes(31 * MIB)),
}
"""Type, coding and body by path. Crowds are just small enough that the survey reads their links."""


def front(names: list[str]) -> bytes:
    """Leads to everything, many times over."""
    return b"".join(
        b"<a href=/%s?%d>x</a><img src=/%s?p%d>" % (name.encode(), number, name.encode(), number)
        for name in names
        for number in range(50)
    )


async def attack(victim: Victim, kinds: list[str]) -> str:
    known = {kind: (mime, coding, made()) for kind, (mime, coding, made) in PAGES.items() if kind in kinds}
    sent = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                name = request.split(b" ")[1].decode().strip("/").partition("?")[0]
                if name == "robots.txt":
                    writer.write(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
                    continue
                mime, coding, body = known.get(name, (b"text/html", b"", front(kinds)))
                head = b"HTTP/1.1 200 OK\r\nContent-Type: " + mime + b"\r\nContent-Length: %d\r\n" % len(body)
                writer.write(head + (b"Content-Encoding: " + coding + b"\r\n" if coding else b"") + b"\r\n")
                for at in range(0, len(body), MIB):
                    writer.write(body[at : at + MIB])
                    await writer.drain()
                sent += len(body)
        except (OSError, asyncio.IncompleteReadError):
            writer.close()

    servers = [await asyncio.start_server(answer, f"127.0.9.{n}", 8_099) for n in range(1, HOSTS + 1)]
    seeds = [f"http://127.0.9.{n}:8099/" for n in range(1, HOSTS + 1)]
    command = [sys.executable, "-m", "herodotus", "seed", "add", "--home", victim.peer.home, *seeds]
    added = await asyncio.create_subprocess_exec(*command, stderr=subprocess.DEVNULL)
    await added.wait()
    await asyncio.sleep(ATTACK_S)
    for server in servers:
        server.close()
    return f"{sent / 1e6:,.0f} MB sent by {HOSTS} hosts"


def of(*kinds: str) -> Callable[[Victim], Awaitable[str]]:
    return partial(attack, kinds=list(kinds))


ATTACKS: dict[str, Callable[[Victim], Awaitable[str]]] = {
    "site of large pages": of("links", "text", "nul"),
    "site of crowded pages": of("crowds", "open"),
    "site of packed pages": of("bomb", "zeros"),
    "site of sitemaps, styles and pictures": of("sitemap", "style", "picture"),
}
