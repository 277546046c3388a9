"""Does `status` say who asks to the peer of its own home, and to no other?"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from herodotus.cli import main
from herodotus.home import Home

TOKEN = "a-token-of-forty-three-characters-or-so-....."


class _Peer(BaseHTTPRequestHandler):
    heard: ClassVar[list[str | None]] = []

    def do_GET(self) -> None:
        self.heard.append(self.headers["Authorization"])
        body = json.dumps({"peer_id": "evzt-oa44"}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the name is http.server's
        pass


@pytest.fixture
def peer() -> Iterator[str]:
    _Peer.heard.clear()
    with HTTPServer(("127.0.0.1", 0), _Peer) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def status(*arguments: str) -> str:
    done = CliRunner().invoke(main, ["status", "--json", *arguments])
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.parametrize("has_token", [True, False])
def test_the_secret_of_a_home_goes_to_its_own_peer(
    peer: str, tmp_path: Path, has_token: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    assert CliRunner().invoke(main, ["init", "--home", str(home.path), "--network", "test"]).exit_code == 0
    if has_token:
        home.token.write_text(TOKEN + "\n", encoding="ascii")
    monkeypatch.setattr("herodotus.cli.daemon._running_address", lambda frame: peer)
    assert "evzt-oa44" in status("--home", str(home.path))
    assert _Peer.heard == [f"Bearer {TOKEN}" if has_token else None]
    status("--home", str(home.path), "--peer", peer)
    assert _Peer.heard[1:] == [None]
