"""Do the programs that everybody has read an archive in the ways in which people use them?"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.herodotus.portal.library import HOME, SITE, response
from tests.herodotus.portal.shelves import peer_with
from tests.herodotus.store.judging import run, system_tool

pytestmark = [pytest.mark.e2e, pytest.mark.needs("wget")]


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pages = [response(HOME, f"202601{day:02}060000", b"<p>day %d" % day) for day in (1, 2, 5)]
    moved = response(f"{SITE}/moved", "20260101", b"", "text/html", 301, f"Location: {HOME}")
    with peer_with(tmp_path_factory.mktemp("programs"), *pages, moved) as running:
        yield running.http


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (f"/web/20260105060000id_/{HOME}", b"<p>day 5"),
        (f"/web/20260102id_/{HOME}", b"<p>day 2"),
        (f"/web/2id_/{HOME}", b"<p>day 5"),
        (f"/web/0id_/{HOME}", b"<p>day 1"),
        ("/web/2026id_/example.org/", b"<p>day 5"),
        ("/web/20260105060000id_/http://www.example.org", b"<p>day 5"),
        ("/web/20260105060000id_/https%3A%2F%2Fexample.org%2F", b"<p>day 5"),
        (f"/web/2id_/{SITE}/moved", b"<p>day 1"),  # the redirect's own date
        ("/cdx/search/cdx?url=example.org&limit=-1&fl=timestamp", b"20260105060000\n"),
        ("/cdx/search/cdx?url=example.org/*&limit=-1&fl=original", f"{SITE}/moved\n".encode()),
        ("/cdx/search/cdx?url=http%3A%2F%2Fwww.example.org%2F&fl=timestamp&limit=1", b"20260101060000\n"),
    ],
)
def test_wget_reads_it(peer: str, path: str, body: bytes, tmp_path: Path) -> None:
    assert run(system_tool("wget"), "-q", "--no-proxy", "-O", "-", peer + path, cwd=tmp_path) == body


def test_wget_takes_a_page_with_all_its_parts(peer: str, tmp_path: Path) -> None:
    command = ["-q", "--no-proxy", "-p", "-nH", "-P", "page", f"{peer}/web/20260105060000id_/{HOME}"]
    run(system_tool("wget"), *command, cwd=tmp_path)
    files = [file for file in (tmp_path / "page").rglob("*") if file.is_file() and file.name != "robots.txt"]
    assert [file.read_bytes() for file in files] == [b"<p>day 5"]
