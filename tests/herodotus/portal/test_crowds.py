"""Does a peer serve on when very many come, and when many take their answers slowly or not at all?"""

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from urllib.parse import urlsplit

import pytest

from tests.herodotus.operate.cli.processes import RunningPeer, called, new_home, running
from tests.herodotus.portal.library import HOME, SITE, response
from tests.herodotus.portal.shelves import warc_of

pytestmark = pytest.mark.e2e
CROWD = 10_000
LARGE_BYTES = 3_000_000
WAIT_S = 60.0


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of a connection are files, in processes of their own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < CROWD + 1_000:
        pytest.skip(f"a process may open only {hard} files here")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connect(peer: RunningPeer) -> socket.socket:
    place = urlsplit(peer.http)
    return socket.create_connection((place.hostname, place.port or 0), timeout=WAIT_S)


def ask(connection: socket.socket, path: str = "/healthz") -> None:
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())


def head_of(connection: socket.socket) -> bytes:
    received = b""
    while b"\r\n\r\n" not in received and (piece := connection.recv(4_096)):
        received += piece
    return received


def memory_bytes(peer: RunningPeer) -> int:
    text = Path(f"/proc/{peer.process.pid}/status").read_text()
    (line,) = [line for line in text.splitlines() if line.startswith("VmRSS:")]
    return int(line.split()[1]) * 1_024


@pytest.mark.usefixtures("many_files")
def test_ten_thousand_readers_at_once_are_served_and_one_more_has_the_place_of_the_longest_silent(
    tmp_path: Path,
) -> None:
    environment = {"HERODOTUS_HTTP_CONNECTIONS_MAX": str(CROWD), "HERODOTUS_HTTP_IDLE_S": "300"}
    with running(new_home(tmp_path / "home"), environment=environment) as peer, ExitStack() as stack:
        before = memory_bytes(peer)
        crowd = []
        for _ in range(CROWD):
            connection = stack.enter_context(connect(peer))
            ask(connection)
            crowd.append(connection)
        assert {head_of(connection)[:15] for connection in crowd} == {b"HTTP/1.1 200 OK"}
        started = perf_counter()
        with connect(peer) as one_more:
            ask(one_more)
            assert head_of(one_more).startswith(b"HTTP/1.1 200 ")
        crowd[0].settimeout(WAIT_S)
        rest = crowd[0].recv(4_096)  # what was left of its answer
        assert not rest or not crowd[0].recv(4_096), "it is closed"
        for connection in (crowd[1], crowd[-1], crowd[CROWD // 2]):
            ask(connection)
            assert head_of(connection).startswith(b"HTTP/1.1 200 ")
        assert perf_counter() - started < 5
        assert memory_bytes(peer) - before < CROWD * 60_000


def test_readers_who_take_nothing_hold_up_nobody_else_and_a_bounded_memory(tmp_path: Path) -> None:
    folder = warc_of(
        tmp_path / "made",
        response(HOME, "20260101", b"<p>small"),
        response(
            f"{SITE}/large", "20260101", bytes(range(256)) * (LARGE_BYTES // 256), "application/octet-stream"
        ),
    )
    home = new_home(tmp_path / "home")
    assert called("import", "--home", home, folder).code == 0
    environment = {"HERODOTUS_HTTP_CONNECTIONS_MAX": "512"}
    with running(home, environment=environment) as peer, ExitStack() as stack:
        before = memory_bytes(peer)
        for _ in range(300):
            slow = stack.enter_context(connect(peer))
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            ask(slow, f"/web/20260101000000id_/{SITE}/large")
        started, good = perf_counter(), 0
        while good < 50:  # the first of them may be told to come back: 300 at once are more than may wait
            with connect(peer) as quick:
                ask(quick, f"/web/20260101000000id_/{HOME}")
                answer = head_of(quick)
                assert answer[:13] in (b"HTTP/1.1 200 ", b"HTTP/1.1 503 "), answer
                good += answer.startswith(b"HTTP/1.1 200 ")
            assert perf_counter() - started < 30
        # The 256 MiB that wait are held up to four times on their way (read, answered, written, in the transport).
        assert memory_bytes(peer) - before < 1_400_000_000
