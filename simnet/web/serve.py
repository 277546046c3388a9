"""How do real programs fetch the synthetic web? A small HTTP/1.1 server on loopback with many virtual hosts.

The host is taken from the `Host` header, or, where that names none of ours, from the address connected to.
So with literal addresses any program can crawl it, and with names one whose resolver knows them. Requests
to 127.0.0.1 itself are for the tester:

    GET  /                  the state: day, hosts, requests so far
    POST /day/next          the next day dawns;  POST /day/17: that day
    GET  /expect?url=URL    the oracle's answer for a URL today: status, digest, links
    GET  /reachable         every URL that may be crawled today, one a line

Each answer is one line of JSON in the log: when (seconds since the server began) it was looked at and when the kernel
had its request, which day, host, path, client, status, whether conditional, bytes, and the client's name. The second
time judges how far requests are apart: on a busy machine this process stands still for up to a second, and then looks
at two that came long after each other. A hand-made protocol answers several times as many requests
as a framework, since a crawler's benchmark must not measure the server.
"""

import asyncio
import contextlib
import signal
import socket
import struct
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs, urlsplit

import click
import msgspec
import uvloop
from cachetools import LRUCache

from herodotus.home.clock import unix_seconds
from simnet.web.hosts import WebSettings
from simnet.web.oracle import Oracle
from simnet.web.site import Response, Web, WebRequest

CONTROL_ADDRESS = "127.0.0.1"
LISTENERS_MAX = 1_000  # a socket each; beyond, names on one address
HEAD_BYTES_MAX = 65_536
CONNECTIONS_MAX = 20_000
CACHE_BYTES = 64 * 2**20
CACHED_BODY_BYTES_MAX = 2**20
LOG_FLUSH_S = 0.05
ACCEPTED_AT_ONCE_MAX = 64
READ_BYTES = 65_536
SO_TIMESTAMPNS = 35
"""Of Linux, on most processors (asm-generic/socket.h); Python has no name for it."""
_TIMESPEC = struct.Struct("@qq")
_REASONS = {status.value: status.phrase for status in HTTPStatus}


class ServeError(Exception):
    """The web cannot be served as requested; the message gives the reason and a remedy."""


@dataclass(slots=True)
class ServeStatistics:
    requests: int = 0
    conditional: int = 0
    not_modified: int = 0
    refused: int = 0
    bytes_sent: int = 0


Asked = tuple[str, str, bool, int]
"""Host, path, whether gzip is accepted, day."""
Answered = tuple[int, bytes, float]
"""Status, the whole answer, its delay."""


class WebServer:
    """The data that connections share: the web, the day, the log. `delay_factor` 0 makes slow hosts quick."""

    def __init__(
        self,
        web: Web,
        *,
        day: int = 0,
        log: BinaryIO | None = None,
        delay_factor: float = 1.0,
        listen: Sequence[str] = (),
    ) -> None:
        self.web = web
        self._listen = listen
        self.day = day
        self.delay_factor = delay_factor
        self.statistics = ServeStatistics()
        self._oracle = Oracle(web)
        self._cache: LRUCache[Asked, Answered] = LRUCache(CACHE_BYTES, lambda answer: len(answer[1]))
        self._log = log
        self._lines: list[bytes] = []
        self._encode = msgspec.json.Encoder().encode
        self._began = self._began_unix_s = 0.0
        self._open: set[_Connection] = set()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[int]:
        """Listens while inside; gives the port."""
        loop = asyncio.get_running_loop()
        self._began, self._began_unix_s = loop.time(), unix_seconds()
        sockets = listening_sockets(self.web, self._listen)
        try:
            for each in sockets:
                each.setblocking(False)
                each.listen(1_024)
                loop.add_reader(each, self._accept, each)
            yield self.web.settings.port
        finally:
            for each in sockets:
                loop.remove_reader(each)
                each.close()
            for connection in list(self._open):
                connection.end()
            self.flush_log()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTED_AT_ONCE_MAX):
            try:
                accepted, _ = listening.accept()
            except OSError:  # nobody is there, or was and left
                return
            if len(self._open) >= CONNECTIONS_MAX:
                self.statistics.refused += 1
                accepted.close()
                continue
            self._open.add(_Connection(self, accepted))

    def ended(self, connection: "_Connection") -> None:
        self._open.discard(connection)

    @property
    def connections(self) -> int:
        return len(self._open)

    def answer(
        self, address: str, method: str, target: str, headers: dict[str, str]
    ) -> tuple[int, bytes, float, str]:
        """(status, whole answer, delay, host); `address` is the one that the client connected to."""
        host = headers.get("host", "").partition(":")[0]
        if self.web.hosts.number(host) is None:
            host = address if self.web.hosts.number(address) is not None else host
        if address == CONTROL_ADDRESS and self.web.hosts.number(host) is None:
            try:
                return (*self._control(method, target), 0.0, host)
            except ValueError as error:  # a malformed URL, or a web too large to walk
                return 400, _json(400, {"error": str(error)}), 0.0, host
        if target.startswith("http://"):
            parts = urlsplit(target)
            target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return (*self._web_answer(host, method, target, headers), host)

    def record(self, line: dict[str, object]) -> None:
        if self._log is None:
            return
        if not self._lines:
            asyncio.get_running_loop().call_later(LOG_FLUSH_S, self.flush_log)
        self._lines.append(self._encode(line))

    def flush_log(self) -> None:
        if self._log is not None and self._lines:
            self._lines.append(b"")
            self._log.write(b"\n".join(self._lines))
            self._log.flush()
            self._lines.clear()

    def seconds(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def seconds_of(self, unix_s: float) -> float:
        """A moment of the kernel's clock, as seconds since the server began."""
        return unix_s - self._began_unix_s

    def _web_answer(
        self, host: str, method: str, target: str, headers: dict[str, str]
    ) -> tuple[int, bytes, float]:
        is_conditional = "if-none-match" in headers or "if-modified-since" in headers
        key = (host, target, "gzip" in headers.get("accept-encoding", ""), self.day)
        is_plain = method == "GET" and not is_conditional
        found = self._cache.get(key) if is_plain else None
        self.statistics.conditional += is_conditional
        if found is not None:
            return found
        request = WebRequest(host=host, path=target, method=method, headers=headers)
        response = self.web.respond(request, self.day)
        self.statistics.not_modified += response.status == 304
        answer = (response.status, render(response, method), response.delay_s * self.delay_factor)
        if is_plain and len(answer[1]) <= CACHED_BODY_BYTES_MAX:
            self._cache[key] = answer
        return answer

    def _control(self, method: str, target: str) -> tuple[int, bytes]:
        parts = urlsplit(target)
        if method == "POST" and parts.path.startswith("/day/"):
            wanted = parts.path.removeprefix("/day/")
            if wanted != "next" and not (wanted.isascii() and wanted.isdigit() and len(wanted) < 7):
                return 400, _json(400, {"error": f"no such day: {wanted}"})
            self.day = self.day + 1 if wanted == "next" else int(wanted)
            return 200, _json(200, {"day": self.day})
        if method != "GET":
            return 405, _json(405, {"error": "only GET, and POST /day/N"})
        if parts.path == "/":
            return 200, _json(200, self._state())
        if parts.path == "/expect":
            return self._expect(parse_qs(parts.query).get("url", [""])[0])
        if parts.path == "/reachable":
            urls = sorted(self._oracle.reachable(self._oracle.front_pages(), self.day))
            body = "".join(f"{url}\n" for url in urls).encode()
            return 200, _head(
                200, (("Content-Type", "text/plain"), ("Content-Length", str(len(body))))
            ) + body
        return 404, _json(404, {"error": "see the manual: /, /day/next, /expect?url=, /reachable"})

    def _state(self) -> dict[str, object]:
        settings = self.web.settings
        first = [f"{self.web.hosts.origin(number)}/" for number in range(min(settings.hosts, 20))]
        return {"day": self.day, "settings": asdict(settings), "hosts": first, **asdict(self.statistics)}

    def _expect(self, url: str) -> tuple[int, bytes]:
        if self._oracle.place(url) is None:
            return 404, _json(404, {"error": f"not of this web: {url}"})
        told = {
            "url": url,
            "day": self.day,
            "status": self._oracle.get(url, self.day).status,
            "sha256": self._oracle.digest(url, self.day),
            "allowed": self._oracle.is_allowed(url),
            "links": self._oracle.links(url, self.day),
        }
        return 200, _json(200, told)


def listening_sockets(web: Web, listen: Sequence[str] = ()) -> list[socket.socket]:
    """Loopback addresses only, so that nobody outside finds this web; or those of `listen`, for a laboratory whose
    peers have lines of their own."""
    settings = web.settings
    addresses = list(listen) or [CONTROL_ADDRESS]
    if settings.names == "loopback" and not listen:
        if settings.hosts >= LISTENERS_MAX:
            raise ServeError(
                f"{settings.hosts:,} hosts would need as many addresses; beyond {LISTENERS_MAX:,} use names"
            )
        addresses += [web.hosts.name(number) for number in range(settings.hosts)]
    made: list[socket.socket] = []
    for address in addresses:
        one = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        made.append(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if sys.platform == "linux":
            one.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # connections inherit it
        if one.family is socket.AF_INET6:
            one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        try:
            one.bind((address, settings.port))
        except OSError as error:
            for each in made:
                each.close()
            raise ServeError(f"cannot listen on {address}:{settings.port}: {error.strerror}") from error
    return made


def render(response: Response, method: str) -> bytes:
    head = _head(response.status, response.headers)
    return head if method == "HEAD" or response.status == 304 else head + response.body


def _head(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\n{lines}\r\n".encode("latin-1")


def _json(status: int, told: dict[str, object]) -> bytes:
    body = msgspec.json.encode(told) + b"\n"
    return _head(status, (("Content-Type", "application/json"), ("Content-Length", str(len(body))))) + body


class _Connection:
    """One client. Answers go out in the order of the requests; while one waits (a slow host, a full socket)
    the next are not looked at, and past a bound not even read. Its socket is read here, as a transport does not tell
    when the kernel had the bytes."""

    def __init__(self, server: WebServer, accepted: socket.socket) -> None:
        self._server = server
        self._loop = asyncio.get_running_loop()
        self._socket = accepted
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._buffer = b""
        self._left = b""
        """Of answers: what the socket did not take yet."""
        self._address = accepted.getsockname()[0]
        self._client, self._port = _name_of(accepted)
        self._timer: asyncio.TimerHandle | None = None
        self._arrived_unix_s = 0.0
        """Of the last bytes; 0 where the kernel does not tell."""
        self._is_reading = self._is_open = True
        self._is_closing = False
        self._loop.add_reader(accepted, self._read)

    def end(self) -> None:
        if not self._is_open:
            return
        self._is_open, self._is_closing = False, True
        if self._timer is not None:
            self._timer.cancel()
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._server.ended(self)

    def _read(self) -> None:
        try:
            data, told, _, _ = self._socket.recvmsg(READ_BYTES, socket.CMSG_SPACE(_TIMESPEC.size))
        except BlockingIOError:
            return
        except OSError:
            data, told = b"", []
        if not data:
            self.end()
            return
        self._arrived_unix_s = 0.0
        for level, kind, value in told:
            if (level, kind) == (socket.SOL_SOCKET, SO_TIMESTAMPNS):
                seconds, rest_ns = _TIMESPEC.unpack(value)
                self._arrived_unix_s = seconds + rest_ns / 1e9
        self._buffer = self._buffer + data if self._buffer else data
        if len(self._buffer) > 2 * HEAD_BYTES_MAX:
            self._loop.remove_reader(self._socket)
            self._is_reading = False
        self._work()

    def _write(self, data: bytes, *, is_last: bool) -> None:
        self._left, self._is_closing = data, is_last
        self._drain()
        if self._left:
            self._loop.add_writer(self._socket, self._writable)

    def _writable(self) -> None:
        self._drain()
        if not self._left and self._is_open:
            self._loop.remove_writer(self._socket)
            self._work()

    def _drain(self) -> None:
        """What the socket takes now; then the end, if these are the last bytes."""
        try:
            self._left = self._left[self._socket.send(self._left) :]
        except BlockingIOError:
            return
        except OSError:  # the client is gone
            self._left, self._is_closing = b"", True
        if self._is_closing and not self._left:
            self.end()

    def _work(self) -> None:
        while self._buffer and self._timer is None and not self._left and not self._is_closing:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0 or end > HEAD_BYTES_MAX:
                if len(self._buffer) > HEAD_BYTES_MAX:
                    self._refuse(431)
                return
            head, self._buffer = self._buffer[:end], self._buffer[end + 4 :]
            if not self._is_reading:
                self._loop.add_reader(self._socket, self._read)
                self._is_reading = True
            self._request(head)

    def _request(self, head: bytes) -> None:
        lines = head.decode("latin-1").split("\r\n")
        words = lines[0].split(" ")
        if len(words) != 3 or not words[2].startswith("HTTP/1."):
            self._refuse(400)
            return
        headers = {}
        for line in lines[1:]:
            name, separator, value = line.partition(":")
            if not separator:
                self._refuse(400)
                return
            headers[name.lower()] = value.strip()
        if headers.get("content-length", "0") != "0" or "transfer-encoding" in headers:
            self._refuse(413)  # nothing here takes a body
            return
        method, target, version = words
        try:
            status, answer, delay_s, host = self._server.answer(self._address, method, target, headers)
        except ValueError:  # a target such as http://[
            self._refuse(400)
            return
        wants_close = headers.get("connection", "").lower() == "close" or version == "HTTP/1.0"
        self._note(host, method, target, headers, status, len(answer))
        if delay_s > 0:
            self._timer = self._loop.call_later(delay_s, self._send_late, answer, wants_close)
        else:
            self._write(answer, is_last=wants_close)

    def _note(
        self, host: str, method: str, target: str, headers: dict[str, str], status: int, size: int
    ) -> None:
        server = self._server
        server.statistics.requests += 1
        server.statistics.bytes_sent += size
        server.record(
            {
                "time": round(server.seconds(), 6),
                "arrived": round(
                    server.seconds_of(self._arrived_unix_s) if self._arrived_unix_s else server.seconds(), 6
                ),
                "day": server.day,
                "host": host,
                "path": target,
                "client": self._client,
                "client_port": self._port,
                "method": method,
                "status": status,
                "conditional": "if-none-match" in headers or "if-modified-since" in headers,
                "bytes": size,
                "agent": headers.get("user-agent", ""),
            }
        )

    def _send_late(self, answer: bytes, wants_close: bool) -> None:
        self._timer = None
        self._write(answer, is_last=wants_close)
        self._work()

    def _refuse(self, status: int) -> None:
        self._server.statistics.refused += 1
        self._buffer = b""
        self._write(_head(status, (("Content-Length", "0"), ("Connection", "close"))), is_last=True)


def _name_of(accepted: socket.socket) -> tuple[str, int]:
    """The client's address and port; it may be gone."""
    try:
        address, port = accepted.getpeername()[:2]
    except OSError:
        return "", 0
    return str(address), int(port)


async def serve(
    server: WebServer,
    *,
    day_length_s: float | None = None,
    when_ready: Callable[[], None] = lambda: None,
) -> None:
    """Until SIGINT or SIGTERM; SIGUSR1 brings the next day, and so does every `day_length_s`."""
    loop = asyncio.get_running_loop()
    is_done = asyncio.Event()

    def next_day() -> None:
        server.day += 1

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, is_done.set)
    loop.add_signal_handler(signal.SIGUSR1, next_day)
    async with server.serving():
        when_ready()
        while not is_done.is_set():
            try:
                await asyncio.wait_for(is_done.wait(), day_length_s)
            except TimeoutError:
                next_day()


def run_web(
    settings: WebSettings,
    *,
    day: int,
    day_length_s: float | None,
    log: Path | None,
    delay_factor: float,
    listen: Sequence[str] = (),
) -> None:
    web = Web(settings)
    with ExitStack() as stack:
        try:
            lines = stack.enter_context(log.open("ab")) if log else None
        except OSError as error:
            raise ServeError(f"cannot write --log {log}: {error.strerror}") from error
        server = WebServer(web, day=day, log=lines, delay_factor=delay_factor, listen=listen)

        def tell() -> None:
            ready = {
                "control": f"http://127.0.0.1:{settings.port}/",
                "first": f"{web.hosts.origin(0)}/",
                "hosts": settings.hosts,
                "day": day,
            }
            click.echo(msgspec.json.encode(ready).decode())

        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        runner.run(serve(server, day_length_s=day_length_s, when_ready=tell))
    click.echo(f"simnet web: {server.statistics.requests:,} requests answered", err=True)
