"""Does a real browser show the start page, without a complaint and without asking anybody else?"""

import json
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.herodotus.operate.cli.processes import new_home, running

pytestmark = [pytest.mark.e2e, pytest.mark.needs("chromium")]
BROWSER_S = 60


@dataclass(frozen=True)
class Visit:
    dom: str
    complaints: list[str]
    asked: list[str]  # addresses that the page itself caused to be asked


def visit(origin: str, folder: Path) -> Visit:
    events = folder / "net.json"
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
        "--disable-background-networking", "--disable-component-update", "--disable-sync",
        "--disable-dev-shm-usage", "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
        "--enable-logging=stderr", f"--user-data-dir={folder / 'profile'}", f"--log-net-log={events}",
        "--dump-dom", f"{origin}/",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=BROWSER_S, check=True, cwd=folder)
    # The browser's own requests, and the one for the page, have no page as their initiator.
    parts = [event.get("params", {}) for event in json.loads(events.read_text())["events"]]
    return Visit(
        dom=done.stdout,
        complaints=[line for line in done.stderr.splitlines() if ":CONSOLE" in line],
        asked=sorted({one["url"] for one in parts if one.get("initiator") == origin and "url" in one}),
    )


def test_the_start_page_is_shown_and_asks_nobody_else(tmp_path: Path) -> None:
    with running(new_home(tmp_path / "peer")) as peer:
        seen = visit(peer.http, tmp_path)
    assert "<h1>Herodotus</h1>" in seen.dom
    assert str(peer.facts["peer_id"]) in seen.dom
    assert seen.complaints == []
    assert set(seen.asked) <= {f"{peer.http}/opensearch.xml"}, (
        "how to search here, which a browser may want to know"
    )


class _Careless(BaseHTTPRequestHandler):
    """A page that asks another place, and whose policy refuses its own style."""

    def do_GET(self) -> None:
        body = b"<title>x</title><style>p { color: red }</style><img src='http://127.0.0.1:1/spy.png'>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Security-Policy", "style-src 'none'")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        pass


@pytest.fixture
def careless() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Careless) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_page_that_did_otherwise_would_be_noticed(careless: str, tmp_path: Path) -> None:
    seen = visit(careless, tmp_path)
    assert "http://127.0.0.1:1/spy.png" in seen.asked
    assert any("Content Security Policy" in line for line in seen.complaints)
