"""What can a peer do to a command that reads its archive? Be refused with a sentence."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from herodotus.core.orders import Get, History
from herodotus.operate.remote_archive import read_from

DAY_S = 1_767_225_600


class _Odd(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        if self.headers["Accept"] == "application/json":
            self.send_error(404 if self.path == "/web/*/http://a.example/caf%E9" else 500)
            return
        self.send_response(200)
        self.send_header("Memento-Datetime", "Thu, 01 Jan 2026 00:00:00 GMT")
        self.send_header("X-Archive-Orig-Status", self.path.rpartition("=")[2].replace("SQUARE", "\u00b2"))
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"body")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        pass


@pytest.fixture
def odd() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Odd) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("told", "first"),
    [("404", b"HTTP/1.1 404 Not Found"), ("SQUARE", b"HTTP/1.1 200 OK"), ("9" * 5_000, b"HTTP/1.1 200 OK")],
)
def test_an_archived_status_is_three_digits(odd: str, told: str, first: bytes) -> None:
    order = Get(url=f"http://a.example/?s={told}", not_after_s=DAY_S, is_raw=True)
    report = read_from(odd, order, lambda words: None)
    assert report.content is not None
    assert report.content.split(b"\r\n")[0] == first


def test_a_url_that_is_no_utf_8_is_asked_for_by_its_bytes(odd: str) -> None:
    order = History(url=b"http://a.example/caf\xe9".decode("utf-8", "surrogateescape"))
    assert read_from(odd, order, lambda words: None).facts is None
