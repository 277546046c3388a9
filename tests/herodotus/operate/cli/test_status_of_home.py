"""Does `status` say who asks to the peer of its own home, and to no other?"""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import ClassVar

import pytest
from click.testing import CliRunner

from herodotus.home.folder import Home
from herodotus.operate.cli import main

TOKEN = "a-token-of-forty-three-characters-or-so-....."


class _Peer(BaseHTTPRequestHandler):
    heard: ClassVar[list[str | None]] = []
    answers_max: ClassVar[int] = 100
    facts: ClassVar[dict[str, object]] = {}

    def do_GET(self) -> None:
        self.heard.append(self.headers["Authorization"])
        is_ill = len(self.heard) > self.answers_max
        body = (
            b"ill"
            if is_ill
            else json.dumps({"peer_id": "evzt-oa44", "uptime_s": len(self.heard), **self.facts}).encode()
        )
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
    monkeypatch.setattr("herodotus.operate.cli.commands.status.running_address", lambda frame: peer)
    assert "evzt-oa44" in status("--home", str(home.path))
    assert _Peer.heard == [f"Bearer {TOKEN}" if has_token else None]
    status("--home", str(home.path), "--peer", peer)
    assert _Peer.heard[1:] == [None]


def test_a_watched_status_is_shown_again_with_the_log_until_the_peer_is_gone(
    peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Home(tmp_path / "home")
    assert CliRunner().invoke(main, ["init", "--home", str(home.path), "--network", "test"]).exit_code == 0
    (home.log / "herodotus.log").write_text("".join(f"line {n}\n" for n in range(9)))
    monkeypatch.setattr("herodotus.operate.cli.commands.status.running_address", lambda frame: peer)
    monkeypatch.setattr("herodotus.operate.cli.commands.status._WATCH_PERIOD_S", 0.0)
    monkeypatch.setattr(_Peer, "answers_max", 3)
    done = CliRunner().invoke(main, ["status", "--watch", "--home", str(home.path)])
    rows = done.stdout.splitlines()
    assert [row.split()[1] for row in rows if row.startswith("uptime_s")] == ["1", "2", "3"]
    assert rows[-6:] == ["the log's last lines", *(f"line {n}" for n in range(4, 9))]
    assert done.exit_code == 1, "what cannot be asked any more is said"
    elsewhere = CliRunner().invoke(main, ["status", "--home", str(home.path), "--peer", peer])
    assert "last lines" not in elsewhere.stdout


def test_a_plan_of_the_ring_takes_its_members_places_and_uptime_and_says_what_vanishing_peers_take(
    peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = str(tmp_path / "home")
    assert CliRunner().invoke(main, ["init", "--home", home, "--network", "test"]).exit_code == 0
    seen = {"members": 40, "places": {"by": "prefix", "places": 12}}
    monkeypatch.setattr(_Peer, "facts", {"ring": seen, "observation": {"there": 0.5}})
    monkeypatch.setattr("herodotus.operate.cli.commands.plan.running_address", lambda frame: peer)

    def planned(*arguments: str) -> str:
        done = CliRunner().invoke(main, ["plan", "--ring", "--home", home, *arguments])
        assert done.exit_code == 0, done.output
        return done.output

    assumed = json.loads(planned("--json", "--uptime", "0.9"))["assumptions"]
    names = ("nodes", "places", "copies", "spare_copies", "uptime")
    assert [assumed[name] for name in names] == [40, 12, 6, 4, 0.9], "what is stated counts for more"
    assert "with a third (4 of 12 places) no capture with 6 copies" in planned()
    assert "reachable                 98.4375 %" in planned(), "six copies, each there half of the time"
    seen["places"] = {"by": "peer", "places": 0}
    assert json.loads(planned("--json"))["assumptions"]["places"] == 40, "each key is a place of its own"
