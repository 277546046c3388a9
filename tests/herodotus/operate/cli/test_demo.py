"""`scripts/run` as a stranger has it, but for the setting up: what it says is there can be read."""

import http.server
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

import pytest

from herodotus.operate import lab_ring, lab_web
from herodotus.operate.http_questions import NoAnswer, ask
from tests.herodotus.operate.cli.processes import clean_environment
from tests.herodotus.serving import serving
from tests.herodotus.test_ring_lab import commands_naming, free_base

ROOT = Path(__file__).parents[4]

pytestmark = pytest.mark.e2e


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """Its own copy, so that what it keeps is its own."""
    (tmp_path / "scripts").mkdir()
    return Path(shutil.copy(ROOT / "scripts" / "demo.py", tmp_path / "scripts"))


@pytest.mark.timeout(120)
def test_one_peer_archives_two_days_and_names_a_page_that_can_be_read(demo: Path) -> None:
    with peer_of_demo(demo) as (http, ended):
        page = (demo.parents[1] / ".demo" / "archived").read_text()
        assert history(http, page)
        assert re.fullmatch(
            rf"{http}/web/\d{{14}}\w*/{re.escape(page)}", urlopen(f"{http}/web/{page}").geturl()
        )
    said, code = ended()
    day_one = re.search(r"day one: (\d+) documents archived", said)
    day_two = re.search(r"day two: (\d+) visited, (\d+) unchanged, (\d+) archived", said)
    assert day_one is not None, said
    assert day_two is not None, said
    visited, unchanged, archived = map(int, day_two.groups())
    assert int(day_one[1]) > 100
    assert visited > 100
    assert unchanged > 0.8 * visited
    assert archived <= visited - unchanged
    assert code == 0


@pytest.mark.timeout(400)
def test_a_ring_archives_two_days_loses_a_peer_and_still_gives_its_pages(demo: Path) -> None:
    folder = demo.parents[1] / ".demo" / "ring"
    base = free_base(5, lab_web.PORT_OFFSET)
    said: list[str] = []
    command = [sys.executable, str(demo), "--base-port", str(base)]
    with subprocess.Popen(command, env=clean_environment(), stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            for line in process.stderr:
                said.append(line)
                if "until Ctrl-C" in line:
                    break
            shown = "".join(said)
            assert "cannot be shown" not in shown
            killed = int(must(r"killed peer (\d) \(kill -9\), which answered for [1-9]", shown)[1])
            peers = lab_ring.load(folder).peers
            assert len(peers) == 5
            assert [lab_ring.is_running(peer) for peer in peers] == [number != killed for number in range(5)]
            with pytest.raises(NoAnswer):
                ask(peers[killed].http, "/api/v1/status")
            must(r"byte for byte the same", shown)
            portal, page = must(r"(http://127\.0\.0\.1:\d+)/web/\*/(\S+)", shown).groups()
            assert portal in {peer.http for peer in peers} - {peers[killed].http}
            digests = {row["digest"] for row in history(portal, page)}
            assert len(digests) > 1
            assert commands_naming(folder)
        finally:
            process.send_signal(signal.SIGINT)
            _, rest = process.communicate(timeout=90)
    assert process.returncode == 0, rest
    assert commands_naming(folder) == []
    assert "next start removes" in rest


@pytest.mark.timeout(200)
def test_a_ring_whose_ports_are_taken_gives_way_to_one_peer(demo: Path) -> None:
    """It says so, and names the port; the peer that goes on is that of the test above."""
    base = free_base(5, lab_web.PORT_OFFSET)
    with http.server.HTTPServer(("127.0.0.1", base + 1001), http.server.BaseHTTPRequestHandler):
        # One peer goes on at the portal's own port, which may be taken on this machine; so it is not waited for.
        command = [sys.executable, str(demo), "--base-port", str(base)]
        with subprocess.Popen(command, env=clean_environment(), stderr=subprocess.PIPE, text=True) as process:
            try:
                assert process.stderr is not None
                line = next((one for one in process.stderr if "continuing with a single peer" in one), "")
            finally:
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=90)
    assert "the ring cannot be shown" in line
    assert f"127.0.0.1:{base + 1001}" in line
    assert commands_naming(demo.parents[1] / ".demo" / "ring") == []


class _Site(http.server.BaseHTTPRequestHandler):
    pages = {  # noqa: RUF012  # read only
        "/": b"<title>front</title><a href='/about.html'>about</a>",
        "/about.html": b"<title>about</title>we are three",
    }

    def do_GET(self) -> None:
        body = self.pages.get(self.path)
        self.send_response(200 if body is not None else 404)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body or b"")))
        self.end_headers()
        self.wfile.write(body or b"")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  # the base class's name
        """The test's output is not for it."""


@pytest.mark.timeout(120)
def test_somebodys_site_is_archived_by_one_peer_and_served(demo: Path) -> None:
    with serving(_Site) as server:
        site = f"http://127.0.0.1:{server.server_port}/"
        with peer_of_demo(demo, site) as (portal, ended):
            server.shutdown()
            for path, body in _Site.pages.items():
                url = f"{site}{path[1:]}"
                (row,) = history(portal, url)
                date = re.sub(r"\D", "", row["date"])[:14]
                assert urlopen(f"{portal}/web/{date}id_/{url}").read() == body
            assert ask(portal, "/api/v1/status")["crawl"]["state"] == "paused"
    said, code = ended()
    assert f"/web/*/{site}" in said
    assert code == 0


def must(pattern: str, text: str) -> re.Match[str]:
    found = re.search(pattern, text)
    assert found is not None, text
    return found


def history(portal: str, url: str) -> list[dict[str, str]]:
    with urlopen(Request(f"{portal}/web/*/{url}", headers={"Accept": "application/json"})) as answer:
        rows: list[dict[str, str]] = json.load(answer)
    return rows


class Ended:
    """What it said to people, and its exit code, once it has ended."""

    said = ""
    code = -1

    def __call__(self) -> tuple[str, int]:
        return self.said, self.code


@contextmanager
def peer_of_demo(demo: Path, *urls: str) -> Iterator[tuple[str, Ended]]:
    """A demonstration that became a peer: where it is read. Ends it by Ctrl-C."""
    reader, writer = os.pipe()
    command = [sys.executable, str(demo), *urls, "--http", "127.0.0.1:0", "--ready-fd", str(writer)]
    ended = Ended()
    with (
        os.fdopen(reader) as ready,
        subprocess.Popen(
            command, env=clean_environment(), pass_fds=(writer,), stderr=subprocess.PIPE, text=True
        ) as process,
    ):
        try:
            os.close(writer)
            line = ready.readline()
            assert line, "it ended before it was ready"
            yield json.loads(line)["http"], ended
        finally:
            process.send_signal(signal.SIGINT)
            _, ended.said = process.communicate(timeout=60)
            ended.code = process.returncode
