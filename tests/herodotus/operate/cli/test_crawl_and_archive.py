"""Does one peer alone archive a site, and give it back? Real processes, a real web server on loopback."""

import http.server
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.herodotus.operate.cli.processes import HERODOTUS, WAIT_S, clean_environment, herodotus, new_home
from tests.herodotus.serving import serving

pytestmark = pytest.mark.e2e


@pytest.fixture
def web() -> Iterator[str]:
    """The first page of a small synthetic web."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    sizes = ["--hosts", "2", "--pages-min", "3", "--pages-max", "8", "--tidy"]
    command = [sys.executable, "-m", "simnet", "web", "--port", port, *sizes]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["first"]
        process.terminate()
        process.wait()


def test_a_crawled_site_is_listed_read_verified_and_exported(web: str, tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    crawled = herodotus("crawl", web, "--home", str(home), "--scope", "any", "--json")
    assert crawled.code == 0, crawled.err
    counts = json.loads(crawled.out)
    assert counts["fetched"] > 2
    assert counts["failed"] == 0
    versions = json.loads(herodotus("history", web, "--home", str(home), "--json").out)
    assert [version["status"] for version in versions] == [200]
    assert set(versions[0]) >= {"url", "date", "digest", "status", "mime", "first_seen", "last_seen"}
    assert herodotus("get", web, "--home", str(home)).out.startswith("<!DOCTYPE html>")
    assert herodotus("verify", "--home", str(home)).code == 0
    packed = tmp_path / "site.wacz"
    assert herodotus("export", "--wacz", str(packed), "--home", str(home)).code == 0
    assert packed.stat().st_size > 1_000


def test_what_is_not_archived_is_not_found(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    asked = herodotus("history", "http://nobody.example/", "--home", str(home))
    assert asked.code == 3
    assert "not in the archive" in asked.err


@dataclass
class Site:
    url: str = ""
    answered: list[str] = field(default_factory=list)
    is_visited: threading.Event = field(default_factory=threading.Event)

    @property
    def origin(self) -> str:
        return self.url.rstrip("/")


@pytest.fixture
def site() -> Iterator[Site]:
    """A front page that leads to 30 pages; each must be asked for once, whatever is done to the crawl."""
    served = Site()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/robots.txt":
                self.send_error(404)
                return
            served.answered.append(self.path)
            links = "".join(f'<a href="/{number}">x</a>' for number in range(30)) if self.path == "/" else ""
            body = f"<html>{self.path}{links}".encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
            served.is_visited.set()

        def log_message(self, *args: object) -> None:
            del args

    with serving(Handler) as server:
        served.url = f"http://127.0.0.1:{server.server_port}/"
        yield served
    assert len(served.answered) == len(set(served.answered)) == 31


def test_a_crawl_that_is_paused_and_interrupted_goes_on_and_fetches_nothing_twice(
    site: Site, tmp_path: Path
) -> None:
    home = new_home(tmp_path / "home")
    command = [HERODOTUS, "crawl", site.url, "--home", str(home), "--delay", "1", "--json"]
    with subprocess.Popen(
        command, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert site.is_visited.wait(WAIT_S)
        process.send_signal(signal.SIGTSTP)
        _, status = os.waitpid(process.pid, os.WUNTRACED)
        assert os.WSTOPSIG(status) == signal.SIGSTOP  # by itself, when nothing was under way any more
        process.send_signal(signal.SIGCONT)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, err
    first = json.loads(out)
    assert first["ended"] == "interrupted"
    again = herodotus("crawl", "--resume", "--delay", "0", "--home", str(home), "--json").json
    assert again["ended"] == "done"
    assert first["stored"] + again["stored"] == 31
    assert again["by_host"][site.origin]["failed"] == 0
    nothing = herodotus("crawl", "--resume", "--home", str(home))
    assert "all 31 known URLs were visited today" in nothing.err


def test_a_crawl_that_takes_in_more_looks_through_the_archive_and_fetches_only_the_rest(
    site: Site, tmp_path: Path
) -> None:
    home = new_home(tmp_path / "home")
    first = herodotus("crawl", site.url, "--depth", "0", "--home", str(home), "--json").json
    assert (first["fetched"], first["known"]) == (1, 1)
    wider = herodotus("crawl", site.url, "--depth", "1", "--home", str(home), "--json").json
    assert (wider["fetched"], wider["reread"], wider["known"]) == (30, 1, 31)


def test_a_host_that_cannot_be_reached_is_named_and_the_command_fails(
    tmp_path: Path, free_tcp_port: int
) -> None:
    home = new_home(tmp_path / "home")
    failed = herodotus("crawl", f"http://127.0.0.1:{free_tcp_port}/", "--home", str(home))
    assert failed.code == 1
    assert f"http://127.0.0.1:{free_tcp_port}: robots.txt could not be fetched" in failed.err


def test_a_crawl_does_not_wait_for_hours_and_says_until_when_a_host_rests(tmp_path: Path) -> None:
    asked: list[str] = []

    class Busy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self.path)
            self.send_response(404 if self.path == "/robots.txt" else 503)
            if self.path != "/robots.txt":
                self.send_header("Retry-After", "7200")
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: object) -> None:
            del args

    home = new_home(tmp_path / "home")
    with serving(Busy) as server:
        origin = f"http://127.0.0.1:{server.server_port}"
        first = herodotus("crawl", f"{origin}/page", "--home", str(home), "--json").json
        again = herodotus("crawl", "--resume", "--home", str(home))
    assert (first["ended"], first["waiting"]["urls"], list(first["waiting"]["hosts"])) == (
        "waiting",
        1,
        [origin],
    )
    assert f"1 URLs wait for hosts that rest: {origin} until 20" in again.err
    assert "crawl --resume" in again.err
    assert asked == ["/robots.txt", "/page"]  # the rest is kept by the second command
