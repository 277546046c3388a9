"""How is the synthetic web served so quickly that only its client is measured?

Every answer of one day is rendered before the first request, with its 304 beside it; a request costs three
searches in its bytes and one look into a table. Run as a process of its own, on a core of its own:
`python -m scripts.benches.crawling.origin PORT HOSTS PAGES_MAX [FILE]` writes the URLs into the file, prints one line
when it listens, and ends by SIGTERM.
"""

import asyncio
import re
import signal
import sys
from pathlib import Path
from typing import cast

import uvloop

from simnet.web import Oracle, Web, WebSettings
from simnet.web.serve import listening_sockets, render
from simnet.web.site import WebRequest

_HOST = re.compile(rb"\r\n[Hh]ost: *([^\r\n:]+)")
_ETAG = re.compile(rb"\r\n[Ii]f-[Nn]one-[Mm]atch: *([^\r\n]+)")
NOT_FOUND = b"HTTP/1.1 404 Not Found\r\nContent-Type: text/plain\r\nContent-Length: 4\r\n\r\n404\n"

Answers = dict[tuple[bytes, bytes], tuple[bytes, bytes, bytes]]
"""(host, target) -> (whole answer, ETag, whole 304)."""


def web_of(port: int, hosts: int, pages_max: int) -> Web:
    """Without troubles: every address answers, so that all clients have the same work."""
    return Web(WebSettings(hosts=hosts, pages_max=pages_max, port=port, troubles=False))


def rendered(web: Web, urls: list[str]) -> Answers:
    answers: Answers = {}
    for url in urls:
        host, _, path = url.removeprefix("http://").partition("/")
        name, target = host.partition(":")[0], f"/{path}"
        response = web.respond(WebRequest(host=name, path=target), 0)
        etag = response.header("ETag") or ""
        same = web.respond(WebRequest(host=name, path=target, headers={"if-none-match": etag}), 0)
        answers[name.encode(), target.encode()] = (
            render(response, "GET"),
            etag.encode(),
            render(same, "GET"),
        )
    return answers


class _Connection(asyncio.Protocol):
    def __init__(self, answers: Answers) -> None:
        self._answers = answers
        self._rest = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        *heads, self._rest = (self._rest + data).split(b"\r\n\r\n")
        for head in heads:
            self._answer(head)

    def _answer(self, head: bytes) -> None:
        target = head.split(b" ", 2)[1]
        host = _HOST.search(head)
        found = self._answers.get((host[1] if host else b"", target))
        if found is None:
            self._transport.write(NOT_FOUND)
            return
        answer, etag, not_modified = found
        asked = _ETAG.search(head)
        self._transport.write(not_modified if asked and etag and asked[1] == etag else answer)
        if head.startswith(b"GET ") and b" HTTP/1.0\r\n" in head:
            self._transport.close()


async def serve(web: Web, answers: Answers) -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, done.set)
    servers = [
        await loop.create_server(lambda: _Connection(answers), sock=each, backlog=1_024)
        for each in listening_sockets(web)
    ]
    print(len(answers), flush=True)
    await done.wait()
    for server in servers:
        server.close()


def main() -> None:
    port, hosts, pages_max = map(int, sys.argv[1:4])
    web = web_of(port, hosts, pages_max)
    oracle = Oracle(web)
    urls = sorted(oracle.reachable(oracle.front_pages(), 0))
    for name in sys.argv[4:]:
        Path(name).write_text("\n".join(urls))
    robots = [f"{web.hosts.origin(number)}/robots.txt" for number in range(hosts)]
    answers = rendered(web, [*urls, *robots])
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(web, answers))


if __name__ == "__main__":
    main()
