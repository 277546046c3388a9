"""The loopback server, through real sockets and a real client."""

import asyncio
import io
import json
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import anyio
import pytest

from simnet.web import Oracle, Web, WebSettings
from simnet.web.serve import ServeError, WebServer, listening_sockets

pytestmark = pytest.mark.anyio


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


class Running:
    def __init__(self, server: WebServer, log: io.BytesIO, client: aiohttp.ClientSession) -> None:
        self.server, self.log, self.client = server, log, client
        self.web = server.web
        self.control = f"http://127.0.0.1:{server.web.settings.port}"

    def lines(self) -> list[dict[str, Any]]:
        self.server.flush_log()
        return [json.loads(line) for line in self.log.getvalue().splitlines()]


@asynccontextmanager
async def running(**settings: Any) -> AsyncIterator[Running]:
    web = Web(WebSettings(**{"seed": 7, "hosts": 12, "pages_max": 60, "port": free_port()} | settings))
    log = io.BytesIO()
    server = WebServer(web, log=log, delay_factor=0.0)
    async with server.serving(), aiohttp.ClientSession(auto_decompress=False) as client:
        yield Running(server, log, client)


async def test_every_url_is_answered_as_the_function_answers() -> None:
    async with running() as ring:
        oracle = Oracle(ring.web)
        urls = sorted(oracle.reachable(oracle.front_pages(), 0))
        for url in urls[:150]:
            plain = {"Accept-Encoding": "identity"}
            async with ring.client.get(url, headers=plain, allow_redirects=False) as answer:
                expected = oracle.get(url, 0)
                assert (answer.status, await answer.read()) == (expected.status, expected.body)
                assert answer.headers.get("ETag") == expected.header("ETag")


async def test_names_lead_to_hosts_through_the_host_header() -> None:
    async with running(names="test") as ring:
        name = ring.web.hosts.name(3)
        async with ring.client.get(f"{ring.control}/", headers={"Host": name}) as answer:
            assert await answer.read() == Oracle(ring.web).get(ring.web.hosts.origin(3) + "/", 0).body


async def test_the_day_is_moved_from_outside_and_pages_follow() -> None:
    async with running() as ring:
        url = ring.web.hosts.origin(0) + "/"
        async with ring.client.post(f"{ring.control}/day/200") as answer:
            assert await answer.json() == {"day": 200}
        async with ring.client.post(f"{ring.control}/day/next") as answer:
            assert await answer.json() == {"day": 201}
        async with ring.client.post(f"{ring.control}/day/yesterday") as answer:
            assert answer.status == 400
        async with ring.client.get(url, headers={"Accept-Encoding": "identity"}) as answer:
            assert await answer.read() == Oracle(ring.web).get(url, 201).body


async def test_the_tester_can_ask_the_oracle_from_outside() -> None:
    async with running() as ring:
        oracle = Oracle(ring.web)
        url = oracle.front_pages()[0]
        async with ring.client.get(f"{ring.control}/expect", params={"url": url}) as answer:
            told = await answer.json()
        assert told["sha256"] == oracle.digest(url, 0)
        assert told["links"] == oracle.links(url, 0)
        async with ring.client.get(f"{ring.control}/reachable") as answer:
            assert set((await answer.text()).split()) == oracle.reachable(oracle.front_pages(), 0)
        async with ring.client.get(f"{ring.control}/expect", params={"url": "http://elsewhere/"}) as answer:
            assert answer.status == 404
        async with ring.client.get(f"{ring.control}/expect", params={"url": "http://["}) as answer:
            assert answer.status == 400


async def test_each_request_is_a_line_of_the_log() -> None:
    async with running() as ring:
        url = ring.web.hosts.origin(1) + "/"
        await ring.client.get(url, headers={"User-Agent": "tester"})
        await ring.client.get(url, headers={"If-None-Match": '"x"', "If-Modified-Since": "nonsense"})
        first, second = ring.lines()
        assert first["host"] == ring.web.hosts.name(1)
        assert (first["path"], first["agent"], first["client"]) == ("/", "tester", "127.0.0.1")
        assert (first["conditional"], second["conditional"]) == (False, True)
        assert 0 <= first["time"] <= second["time"]


async def test_the_log_tells_when_the_kernel_had_a_request_however_late_it_was_looked_at() -> None:
    """Two requests that came apart are apart in the log, though the server's process stood still meanwhile."""
    async with running() as ring:
        loop, port = asyncio.get_running_loop(), ring.web.settings.port
        clients = [await asyncio.open_connection(ring.web.hosts.name(number), port) for number in (0, 1)]
        await ring.client.get(f"{ring.control}/")  # both connections are accepted before this one
        for at, (_, writer) in enumerate(clients):
            writer.write(b"GET /%d HTTP/1.0\r\n\r\n" % at)
            until = loop.time() + 0.05
            while loop.time() < until:  # the server shares our loop, which stands still
                pass
        for reader, writer in clients:
            await reader.read()
            writer.close()
            await writer.wait_closed()
        early, late = (line for line in ring.lines() if line["path"] in ("/0", "/1"))
        assert late["arrived"] - early["arrived"] >= 0.0499
        assert late["arrived"] <= late["time"] + 0.001  # of two clocks


async def test_an_answer_for_which_the_socket_has_no_room_comes_whole_and_the_next_one_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    large = b"HTTP/1.1 200 OK\r\n\r\n" + bytes(range(256)) * 2**15
    async with running() as ring:
        monkeypatch.setattr(ring.server, "answer", lambda *_: (200, large, 0.0, "h"))
        reader, writer = await asyncio.open_connection("127.0.0.1", ring.web.settings.port)
        writer.write(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n")
        with anyio.fail_after(60):
            assert await reader.read(-1) == 2 * large
        writer.close()
        await writer.wait_closed()
        assert (ring.server.connections, ring.server.statistics.requests) == (0, 2)


async def raw(ring: Running, data: bytes) -> bytes:
    reader, writer = await asyncio.open_connection(ring.web.hosts.name(0), ring.web.settings.port)
    writer.write(data)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"nonsense\r\n\r\n", b"400"),
        (b"GET http://[ HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nno colon\r\n\r\n", b"400"),
        (b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello", b"413"),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * 70_000, b"431"),
        (b"GET / HTTP/1.0\r\n\r\n", b"200"),
        (b"DELETE / HTTP/1.1\r\nConnection: close\r\n\r\n", b"405"),
        (b"GET /nowhere HTTP/1.1\r\nHost: 127.16.1.2\r\nConnection: close\r\n\r\n", b"404"),
    ],
)
async def test_bad_requests_get_an_answer_and_the_end(sent: bytes, status: bytes) -> None:
    async with running(troubles=False) as ring:
        assert (await raw(ring, sent)).split(b" ")[1] == status


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with running(troubles=False) as ring:
        both = b"HEAD / HTTP/1.1\r\n\r\nHEAD /x HTTP/1.1\r\nConnection: close\r\n\r\n"
        answer = await raw(ring, both)
        assert answer.index(b"200 OK") < answer.index(b"404 Not Found")


def test_a_port_in_use_is_said_so() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        web = Web(WebSettings(hosts=2, port=taken.getsockname()[1]))
        with pytest.raises(ServeError, match=r"cannot listen on 127\.0\.0\.1"):
            listening_sockets(web)


def test_more_hosts_than_sockets_are_refused_with_the_way_out() -> None:
    with pytest.raises(ServeError, match="use names"):
        listening_sockets(Web(WebSettings(hosts=5_000, port=8_080)))


def test_the_log_is_a_file_of_json_lines(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as log:
        server = WebServer(Web(WebSettings(hosts=1)), log=log)
        server._lines.append(b'{"a":1}')
        server.flush_log()
    assert (tmp_path / "log").read_text() == '{"a":1}\n'


@pytest.mark.e2e
def test_the_command_serves_advances_on_sigusr1_and_ends_on_sigterm(tmp_path: Path) -> None:
    port, log = free_port(), tmp_path / "requests.jsonl"
    command = [sys.executable, "-m", "simnet", "web", "--port", str(port), "--hosts", "3", "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        ready = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGUSR1)
        urllib.request.urlopen(ready["first"], timeout=20).close()
        state = json.load(urllib.request.urlopen(ready["control"], timeout=20))
        process.terminate()
        _, talk = process.communicate(timeout=20)
    assert state["day"] == 1
    assert process.returncode == 0
    assert "2 requests answered" in talk
    assert [json.loads(line)["path"] for line in log.read_text().splitlines()] == ["/", "/"]


@pytest.mark.e2e
def test_the_command_refuses_what_cannot_be_served() -> None:
    command = [sys.executable, "-m", "simnet", "web", "--pages-min", "10", "--pages-max", "5"]
    outcome = subprocess.run(command, capture_output=True, text=True, check=False)
    assert outcome.returncode == 2
    assert "pages_min 10 must be 1 to pages_max 5" in outcome.stderr
