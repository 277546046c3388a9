"""How do sites of a folder become a live web? One server on loopback, for all names, as itself and as a proxy.

Browsers and wget ask it as their proxy, our crawler directly, as its resolver leads every name here. What a browser
asks of it while it shows an archived page has left the archive.
"""

import mimetypes
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

TYPES = {
    ".js": "text/javascript", ".mjs": "text/javascript", ".cjs": "text/javascript", ".css": "text/css",
    ".html": "text/html", ".htm": "text/html", ".json": "application/json", ".svg": "image/svg+xml",
    ".wasm": "application/wasm",
    ".woff": "font/woff", ".woff2": "font/woff2", ".ttf": "font/ttf", ".webmanifest": "application/manifest+json",
    ".md": "text/markdown", ".yaml": "application/yaml", ".ipynb": "application/json", ".map": "application/json",
    ".pdf": "application/pdf", ".xhtml": "application/xhtml+xml",
}  # fmt: skip
"""As usual servers send them; those of this machine's table differ from one to the next."""

OWN_BYTES_MAX = 16_384
"""Of pages that we wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    folder: Path
    fallback: str = ""
    """What is shown where there is nothing, as servers of applications with routes of their own do."""
    cdn: str = ""
    """The host that our own pages call `CDN`."""


@dataclass
class LiveWeb:
    port: int
    hosts: dict[str, Host] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    """What arrived since the last `forget`."""

    @property
    def proxy(self) -> str:
        return f"127.0.0.1:{self.port}"

    def address(self, host: str, path: str) -> str:
        return f"http://{host}:{self.port}/{path}"

    def forget(self) -> None:
        self.asked.clear()

    def body(self, url: str) -> bytes | None:
        """What the site has there, if that is a file."""
        parts = urlsplit(url)
        found = self.find(parts.hostname or "", parts.path)
        return self.read(parts.hostname or "", found) if found is not None and found.is_file() else None

    def read(self, name: str, file: Path) -> bytes:
        body, cdn = file.read_bytes(), self.hosts[name].cdn
        if cdn and len(body) < OWN_BYTES_MAX:
            body = body.replace(b"//CDN/", f"//{cdn}:{self.port}/".encode())
        return body

    def find(self, name: str, path: str) -> Path | None:
        """The file of an address, or the folder that it should end with a slash for."""
        host = self.hosts.get(name)
        if host is None:
            return None
        file = host.folder / unquote(path).lstrip("/")
        if not file.resolve().is_relative_to(host.folder.resolve()):
            return None
        if path.endswith("/"):
            file = file / "index.html"
        if file.is_dir() and (file / "index.html").is_file():
            return file
        if file.is_file():
            return file
        page = host.folder / host.fallback if host.fallback else None
        return page if page is not None and not file.suffix else None


def _handler(web: Callable[[], LiveWeb]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            url = self.path if "://" in self.path else f"http://{self.headers['Host']}{self.path}"
            web().asked.append(f"{self.command} {url}")
            parts = urlsplit(url)
            found = web().find(parts.hostname or "", parts.path)
            if found is None:
                self._say(404, "text/plain", b"not here")
            elif found.is_dir():
                self._say(301, "text/plain", b"", ("Location", quote(unquote(parts.path)) + "/"))
            else:
                kind = TYPES.get(found.suffix) or mimetypes.guess_type(found.name)[0]
                self._say(200, kind or "application/octet-stream", web().read(parts.hostname or "", found))

        def _say(self, status: int, kind: str, body: bytes, *headers: tuple[str, str]) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Access-Control-Allow-Origin", "*")
            for name, value in headers:
                self.send_header(name, value)
            self.end_headers()
            with suppress(OSError):  # who asked went away
                self.wfile.write(body if self.command != "HEAD" else b"")

        do_HEAD = do_POST = do_GET  # noqa: N815  # the names are http.server's

        def do_CONNECT(self) -> None:
            web().asked.append(f"CONNECT {self.path}")
            self.send_error(502)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
            pass

    return Handler


@contextmanager
def live_web(hosts: Mapping[str, Host]) -> Iterator[LiveWeb]:
    made: list[LiveWeb] = []
    with ThreadingHTTPServer(("127.0.0.1", 0), _handler(lambda: made[0])) as server:
        made.append(LiveWeb(port=server.server_port, hosts=dict(hosts)))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield made[0]
        finally:
            server.shutdown()
            thread.join()
