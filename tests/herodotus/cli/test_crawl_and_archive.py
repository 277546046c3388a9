"""Does one peer alone archive a site, and give it back? Real processes, a real web server on loopback."""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.herodotus.cli.processes import herodotus, new_home

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
