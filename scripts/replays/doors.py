"""By which other addresses of this machine does a browser come to a peer, and what is a page without its keepers?

A peer listens at 127.0.0.1, where pages have names. A door passes requests on from another address, by which pages are
in a sandbox. A *bare* door takes away all that keeps a page in: the headers of policies, the frame's sandbox, our
script. What an attack achieves there, it achieves; what it does not achieve there either proves nothing.
"""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PEER: str = "127.0.0.1"
_KEEPERS = frozenset(
    {"content-security-policy", "connection-allowlist", "permissions-policy", "cross-origin-opener-policy",
     "cross-origin-resource-policy", "x-content-type-options", "x-dns-prefetch-control", "etag"}
)  # fmt: skip
_IN_PAGE = re.compile(
    rb"<script src=\"/web/_/client\.js\"></script>| sandbox=\"[^\"]*\"|archived-(?=speculationrules)"
)
_OWN = frozenset({"connection", "transfer-encoding", "content-length", "server", "date"})


def _handler(port: int, *, is_bare: bool) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"] or 0))
            fields = {
                name: value
                for name, value in self.headers.items()
                if not (is_bare and name.lower() in ("accept-encoding", "origin", "if-none-match"))
            }
            peer = HTTPConnection(PEER, port, timeout=30)
            try:
                peer.request(self.command, self.path, body or None, fields)
                answer = peer.getresponse()
                self._pass_on(answer.status, answer.getheaders(), answer.read())
            except (OSError, HTTPException):
                self.close_connection = True
            finally:
                peer.close()

        do_POST = do_GET  # noqa: N815  # the name is http.server's
        do_HEAD = do_GET  # noqa: N815
        do_OPTIONS = do_GET  # noqa: N815

        def _pass_on(self, status: int, fields: list[tuple[str, str]], body: bytes) -> None:
            if is_bare and any(value.startswith("text/html") for _, value in fields):
                body = _IN_PAGE.sub(b"", body)
            self.send_response_only(status)
            for name, value in fields:
                if name.lower() not in _OWN and not (is_bare and name.lower() in _KEEPERS):
                    self.send_header(name, value)
            if status >= 200 and status not in (204, 304):
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
            pass

    return Handler


@contextmanager
def door(address: str, port: int, *, is_bare: bool = False) -> Iterator[None]:
    """To the peer at the same port."""
    with ThreadingHTTPServer((address, port), _handler(port, is_bare=is_bare)) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
