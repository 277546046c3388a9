"""A small site that remembers what it sent, byte for byte, for tools that archive it."""

import gzip
import random
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

from tests.herodotus.store.collection import PNG
from tests.herodotus.store.making import random_text


@dataclass(frozen=True, kw_only=True)
class Sent:
    status: int = 200
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/html"),)
    body: bytes = b""
    """Without transfer coding, with content coding."""
    chunk_bytes: int = 0
    is_ended_by_closing: bool = False


SITE: dict[str, Sent] = {
    "/": Sent(body=b"<title>Start</title><p>hello"),
    "/chunked": Sent(body=random_text(random.Random(1), 5_000), chunk_bytes=700),
    "/packed": Sent(
        headers=(("Content-Type", "text/html"), ("Content-Encoding", "gzip")),
        body=gzip.compress(b"<p>packed" * 50, mtime=0),
    ),
    "/packed-chunked": Sent(
        headers=(("Content-Type", "text/html"), ("Content-Encoding", "gzip")),
        body=gzip.compress(b"<p>packed in chunks" * 50, mtime=0),
        chunk_bytes=40,
    ),
    "/moved": Sent(
        status=302, headers=(("Location", "/target"), ("Content-Type", "text/plain")), body=b"see /target"
    ),
    "/target": Sent(body=b"<p>the target"),
    "/missing": Sent(status=404, body=b"<p>nothing here"),
    "/picture.png": Sent(headers=(("Content-Type", "image/png"),), body=PNG),
    "/same/1": Sent(body=b"<p>the same words"),
    "/same/2": Sent(body=b"<p>the same words"),
    "/empty": Sent(headers=(("Content-Type", "text/plain"),)),
    "/large": Sent(headers=(("Content-Type", "text/plain"),), body=random_text(random.Random(2), 300_000)),
    "/latin?q=a%20b&x=caf%C3%A9": Sent(
        headers=(("Content-Type", "text/html; charset=iso-8859-1"),), body="<p>Grüße".encode("latin-1")
    ),
    "/until-closed": Sent(body=b"<p>no length was announced", is_ended_by_closing=True),
}


@dataclass
class Site:
    address: str
    pages: dict[str, Sent] = field(default_factory=lambda: dict(SITE))

    @property
    def urls(self) -> list[str]:
        return [self.address + path for path in self.pages]


@contextmanager
def serving() -> Iterator[Site]:
    site = Site("")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            sent = site.pages[self.path]
            self.send_response(sent.status)
            for name, value in sent.headers:
                self.send_header(name, value)
            if sent.chunk_bytes:
                self.send_header("Transfer-Encoding", "chunked")
            elif sent.is_ended_by_closing:
                self.send_header("Connection", "close")
            else:
                self.send_header("Content-Length", str(len(sent.body)))
            self.end_headers()
            self.wfile.write(_chunks(sent) if sent.chunk_bytes else sent.body)

        def handle(self) -> None:
            # A tool that has what it came for may hang up as it likes.
            with suppress(ConnectionResetError, BrokenPipeError):
                super().handle()

        def log_message(self, *_: object) -> None:
            """The test's output is for failures."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    site.address = f"http://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def _chunks(sent: Sent) -> bytes:
    out = bytearray()
    for at in range(0, len(sent.body), sent.chunk_bytes):
        piece = sent.body[at : at + sent.chunk_bytes]
        out += b"%x;part=%d\r\n" % (len(piece), at) + piece + b"\r\n"
    return bytes(out + b"0\r\nX-Trailer: yes\r\n\r\n")
