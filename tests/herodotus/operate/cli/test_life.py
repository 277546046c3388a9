"""Does a peer live as its users expect: started, asked, stopped, killed, started again?"""

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest

from tests.herodotus.operate.cli.processes import (
    HERODOTUS,
    WAIT_S,
    Result,
    clean_environment,
    herodotus,
    new_home,
    running,
)
from tests.herodotus.trees import tree

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Each test leaves it as it was: not running."""
    return new_home(tmp_path_factory.mktemp("life") / "a peer's home")


def fetched(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=WAIT_S) as answer:
        content: bytes = answer.read()
        return content


def begin_request(http: str) -> socket.socket:
    """A reader who has not finished asking."""
    host, port = http.removeprefix("http://").split(":")
    reader = socket.create_connection((host, int(port)), timeout=WAIT_S)
    reader.sendall(b"GET / HTTP/1.1\r\nHost: pe")
    return reader


def test_a_peer_runs_is_asked_and_is_stopped(home: Path) -> None:
    with running(home) as peer:
        assert set(peer.facts) == {"peer_id", "http", "home", "pid"}
        assert (peer.facts["home"], peer.facts["pid"]) == (str(home), peer.process.pid)
        assert b"<h1>Herodotus</h1>" in fetched(peer.http)

        status = herodotus("status", "--home", home, "--json")
        assert status.code == 0
        assert {"peer_id", "http", "ring", "crawl", "store", "copies"} <= set(status.json)
        assert {"members", "ideal", "arcs"} <= set(status.json["ring"])
        assert set(status.json["crawl"]) >= {"known", "due", "fetched", "unchanged", "failed"}
        assert set(status.json["store"]) >= {"captures", "bytes"}
        assert (status.json["peer_id"], status.json["http"]) == (peer.facts["peer_id"], peer.http)
        assert status.err == ""
        assert herodotus("status", "--peer", peer.http, "--json").json["pid"] == peer.process.pid

        said = herodotus("status", "--home", home).out.splitlines()
        assert said[0].startswith(("Looking for other peers", "Alone: no peer answered since "))
        people = herodotus("status", "--home", home, "--verbose")
        rows = [line.split() for line in people.out.splitlines()]
        assert ["peer_id", peer.facts["peer_id"]] in rows
        assert any(row[:1] == ["ring"] and "1" in row and "members" in " ".join(row) for row in rows)

        stop = herodotus("stop", "--home", home)
        assert (stop.code, stop.out) == (0, "")
        assert stop.err == f"stopped process {peer.process.pid}\n"
        out, err = peer.process.communicate(timeout=WAIT_S)
        assert peer.process.returncode == 0
        assert out == f"ready: {peer.http}/ (peer {peer.facts['peer_id'][:14]}, Ctrl-C stops)\n"
        assert [line.split(" ", 3)[3] for line in err.splitlines()] == [
            f"ready http={peer.http} peer={peer.facts['peer_id']}",
            "signal received signal=SIGTERM",
            "stopping drain_s=2",
            "stopped",
        ]
    assert herodotus("status", "--home", home).code == 3
    assert herodotus("stop", "--home", home).code == 3


def test_a_second_process_on_the_home_is_told_who_is_there(home: Path) -> None:
    with running(home) as peer:
        second = herodotus("run", "--home", home)
        assert (second.code, second.out) == (1, "")
        assert f"is in use by process {peer.process.pid};" in second.err
        assert fetched(f"{peer.http}/healthz") == b"ok\n"


def test_a_killed_peer_starts_again(home: Path) -> None:
    with running(home) as peer:
        before = peer.facts["peer_id"]
        assert peer.end(signal.SIGKILL)[0] == -signal.SIGKILL
        assert herodotus("status", "--home", home).code == 3
    with running(home) as peer:
        assert peer.facts["peer_id"] == before
        assert peer.end()[0] == 0


def test_two_peers_share_a_machine(home: Path, tmp_path: Path) -> None:
    with running(home) as one, running(new_home(tmp_path / "other")) as other:
        assert one.http != other.http
        assert one.facts["peer_id"] != other.facts["peer_id"]
        for peer in (one, other):
            assert herodotus("status", "--home", peer.home, "--json").json["pid"] == peer.process.pid
        assert other.end(signal.SIGINT)[0] == 0
        assert fetched(f"{one.http}/healthz") == b"ok\n"


def test_an_unfinished_reader_does_not_keep_a_stopping_peer(home: Path) -> None:
    with running(home, environment={"HERODOTUS_LIFECYCLE_DRAIN_S": "8"}) as peer, begin_request(peer.http):
        peer.process.send_signal(signal.SIGTERM)
        assert peer.process.wait(timeout=10) == 0


# A peer whose portal has an answer under way that never ends.
_ENDLESS = """
import contextlib, sys, anyio
from herodotus.portal import Portal
really_serving = Portal.serving
@contextlib.asynccontextmanager
async def serving(self, stop_s):
    async with really_serving(self, stop_s):
        try:
            yield
        finally:
            await anyio.sleep_forever()
Portal.serving = serving
import herodotus.operate.cli
sys.argv = ["herodotus", "run", "--home", sys.argv[1]]
herodotus.operate.cli.main()
"""


def test_a_second_signal_stops_a_peer_that_is_still_draining(home: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _ENDLESS, str(home)], env=clean_environment(), text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        assert " ready http=" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert "signal received signal=SIGTERM" in process.stderr.readline()
        assert "stopping" in process.stderr.readline()
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=10)
    finally:
        process.kill()
    assert "second signal, stopping at once signal=SIGTERM" in err
    assert process.returncode == 0


def test_stop_says_when_a_peer_does_not_and_forces_it_when_asked(home: Path) -> None:
    with running(home) as peer:
        peer.process.send_signal(signal.SIGSTOP)
        stop = herodotus("stop", "--home", home, "--wait", "0.1")
        assert stop.code == 1
        assert stop.err == (
            f"herodotus: error: process {peer.process.pid} is still running after 0.1 s; "
            "`herodotus stop --force` kills it\n"
        )
        forced = herodotus("stop", "--home", home, "--wait", "0.1", "--force", "-q")
        assert (forced.code, forced.err) == (0, "")
        assert peer.process.wait(WAIT_S) == -signal.SIGKILL


def test_machines_read_one_line_that_says_ready(home: Path) -> None:
    with running(home, "--json", "-q") as peer:
        code, out, err = peer.end()
    assert code == 0
    assert json.loads(out) == peer.facts
    assert err == ""


def test_the_log_follows_the_settings(home: Path, tmp_path: Path) -> None:
    with running(home, environment={"HERODOTUS_LOG_FORMAT": "json"}) as peer:
        _, _, err = peer.end()
    assert [json.loads(line)["message"] for line in err.splitlines()][-1] == "stopped"
    log = home / "log" / "herodotus.log"
    assert json.loads(log.read_text().splitlines()[-1])["logger"] == "herodotus.operate.daemon"
    assert log.stat().st_mode & 0o777 == 0o600


def test_the_service_manager_hears_ready_alive_and_stopping(home: Path, tmp_path: Path) -> None:
    address = str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(address)
        manager.settimeout(WAIT_S)
        environment = {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": "100000"}
        with running(home, environment=environment) as peer:
            ready = f"READY=1\nSTATUS=serving {peer.http}".encode()
            heard = [manager.recv(1000)]
            while heard[-1] != ready or heard.count(b"WATCHDOG=1") < 2:
                heard.append(manager.recv(1000))
                assert len(heard) < 600, heard[-5:]  # a minute of saying that it lives
            assert peer.end()[0] == 0
        while (word := manager.recv(1000)) == b"WATCHDOG=1":
            pass
        assert word == b"STOPPING=1"


def test_a_taken_port_is_said_and_nothing_changes(home: Path) -> None:
    with running(home) as peer:
        other = new_home(home.parent / "taken")
        before = tree(other)
        address = peer.http.removeprefix("http://")
        result = herodotus("run", "--home", other, "--http", address, "-q")
    assert (result.code, result.out) == (1, "")
    assert result.err == (
        f"herodotus: error: cannot listen on {address}: address already in use; "
        "choose another with --http or the setting http.listen\n"
    )
    after = tree(other)
    made = {path for path in after if path not in before}
    assert {path for path in made if not path.startswith("state/second")} <= {
        "state/lock",
        "log/herodotus.log",
    }
    assert {path: after[path] for path in before} == before


def test_ready_is_told_only_where_somebody_can_hear_it(home: Path) -> None:
    closed = herodotus("run", "--home", home, "--ready-fd", "77")
    assert closed.code == 2
    assert "Invalid value for '--ready-fd': 77 is not open for writing" in closed.err
    reader, writer = os.pipe()
    try:
        only_read = herodotus("run", "--home", home, "--ready-fd", str(reader), pass_fds=[reader])
        assert only_read.code == 2
    finally:
        os.close(reader)
        os.close(writer)


def test_a_listener_who_left_does_not_keep_the_peer_from_serving(home: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [HERODOTUS, "run", "--home", str(home), "--ready-fd", str(writer), "--json", "-q"]
    process = subprocess.Popen(
        command, env=clean_environment(), pass_fds=[writer], stdout=subprocess.PIPE, text=True
    )
    os.close(writer)
    assert process.stdout is not None
    facts = json.loads(process.stdout.readline())
    assert fetched(f"{facts['http']}/healthz") == b"ok\n"
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=WAIT_S)
    assert process.returncode == 0


def test_a_locked_key_opens_with_its_passphrase_alone(tmp_path: Path) -> None:
    secret = {"HERODOTUS_PASSPHRASE": "open sesame"}
    home = tmp_path / "peer"
    made = herodotus("init", "--home", home, "--network", "test", "--preset", "test", environment=secret)
    assert made.code == 0
    without = herodotus("run", "--home", home)
    assert without.code == 2
    assert without.err.endswith(
        "is locked with a passphrase; set HERODOTUS_PASSPHRASE, or run where it can be typed\n"
    )
    with running(home, environment=secret) as peer:
        assert peer.end()[0] == 0


def typed(*arguments: str | Path, words: bytes) -> tuple[int, str]:
    """Exit code and output of the command where somebody types this when asked for the passphrase."""
    keyboard, terminal = pty.openpty()
    try:
        process = subprocess.Popen(
            [HERODOTUS, *map(str, arguments)], env=clean_environment(), stdin=terminal, stdout=subprocess.PIPE,
            stderr=terminal, start_new_session=True, text=True,
        )  # fmt: skip
        asked = b""
        while b"Passphrase of the key:" not in asked:
            asked += os.read(keyboard, 1000)
        os.write(keyboard, words + b"\n")
        out, _ = process.communicate(timeout=WAIT_S)
    finally:
        os.close(keyboard)
        os.close(terminal)
    return process.returncode, out


def test_a_locked_key_opens_with_a_passphrase_typed_at_a_terminal(tmp_path: Path) -> None:
    secret = {"HERODOTUS_PASSPHRASE": "open sesame"}
    home = tmp_path / "peer"
    herodotus("init", "--home", home, "--network", "test", environment=secret)
    code, out = typed("identity", "show", "--home", home, words=b"open sesame")
    assert code == 0
    assert out.strip() == herodotus("identity", "show", "--home", home, environment=secret).out.strip()


def test_a_locked_key_is_rotated_with_a_passphrase_typed_at_a_terminal(tmp_path: Path) -> None:
    secret = {"HERODOTUS_PASSPHRASE": "open sesame"}
    home = tmp_path / "peer"
    herodotus("init", "--home", home, "--network", "test", environment=secret)
    assert typed("identity", "rotate", "--home", home, words=b"open says me")[0] == 2
    code, out = typed("identity", "rotate", "--home", home, words=b"open sesame")
    shown = herodotus("identity", "show", "--home", home, environment=secret)
    assert (code, shown.code) == (0, 0)  # the new key is locked with the same passphrase
    assert f"new  {shown.out}" in out


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (b"", "remote end closed connection without response"),
        (b"garbage\r\n\r\n", "that is not HTTP (BadStatusLine)"),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "not found"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]", "the answer is not a peer's status"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{", "the answer is not JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"[" * 100_000, "the answer is not JSON"),
        (b"HTTP/1.1 200 OK\r\n\r\n\xff", "the answer is not JSON"),
    ],
    ids=["nothing", "garbage", "not found", "list", "cut", "deep", "bytes"],
)
def test_a_strange_answer_to_status_is_one_sentence(reply: bytes, words: str) -> None:
    result = asked_of(reply)
    assert (result.code, result.out) == (1, "")
    assert words in result.err
    assert len(result.err.splitlines()) == 1


def test_anothers_peer_cannot_steer_our_terminal() -> None:
    body = json.dumps({"peer_id": "a\x1b[2Jb", "ring": {"\x1b]0;x\x07": 1}}).encode()
    result = asked_of(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    assert result.code == 0
    assert "\x1b" not in result.out
    assert "\x07" not in result.out
    assert " a\\u001b[2Jb\n" in result.out


def asked_of(reply: bytes) -> Result:
    """`status` of a peer that sends just this."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(10_000)
                connection.sendall(reply)

        stranger = threading.Thread(target=answer)
        stranger.start()
        result = herodotus("status", "--peer", f"http://127.0.0.1:{server.getsockname()[1]}")
        stranger.join(WAIT_S)
        return result
