"""Does a peer start, and go on, whatever file of its home was lost or damaged? Real processes."""

import os
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from herodotus.operate.http_questions import ask
from tests.herodotus.operate.cli.processes import RunningPeer, called, new_home, running
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import warc_of
from tests.herodotus.test_ring_copies import body_of, url_of, wait_until
from tests.herodotus.test_ring_lab import free_base

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
PAGES = 300


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = new_home(tmp_path / "home")
    records = [response(url_of(number), "20260101", body_of(number)) for number in range(PAGES)]
    assert called("import", "--home", home, warc_of(tmp_path / "made", *records)).code == 0
    return home


def _options() -> list[str]:
    base = free_base(1)
    return ["--listen", f"127.0.0.1:{base}", "--http", f"127.0.0.1:{base + 1_000}"]


def _body(peer: RunningPeer, number: int) -> bytes | None:
    address = f"{peer.http}/web/20260101000000id_/{url_of(number)}"
    try:
        with urllib.request.urlopen(address, timeout=30) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, OSError):
        return None


def _gives_all(peer: RunningPeer) -> bool:
    return all(_body(peer, number) == body_of(number) for number in range(PAGES))


def _log(home: Path) -> str:
    return (home / "log" / "herodotus.log").read_text()


def test_an_index_that_rots_under_a_running_peer_is_made_again_by_it(home: Path) -> None:
    with running(home, *_options()) as peer:
        assert peer.end()[0] == 0
    table = max((home / "index").glob("*.sst"), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 8] ^= 8  # of a block that nobody reads at a start
    table.write_bytes(data)
    with running(home, *_options()) as peer:

        def is_whole() -> bool:
            return "starting again" in _log(home) and _gives_all(peer)

        wait_until(is_whole, lambda: _log(home)[-1_000:])
        status = ask(peer.http, "/api/v1/status")
        assert status["pid"] == peer.process.pid
        assert status["store"]["captures"] == PAGES
        assert called("verify", "--home", home).code == 0
        assert peer.end()[0] == 0


def test_a_peer_starts_without_any_small_file_that_it_had(home: Path) -> None:
    with running(home, *_options()) as peer:
        peer_id = peer.facts["peer_id"]
        assert peer.end()[0] == 0
    state = home / "state"
    for path in (home / "identity.key", home / "network.toml", state / "home.json", state / "operator.token"):
        path.unlink()
    for path in (home / "config.toml", state / "record", home / "queue" / "CURRENT"):
        os.truncate(path, path.stat().st_size // 2)
    for path in (state / "lock", state / "observation", home / "log" / "herodotus.log", state / "manifest"):
        path.unlink()
        path.mkdir()
    os.truncate(max((state / "exchange").glob("MANIFEST*")), 0)
    (home / "archive" / "manifest" / "tail").unlink()
    with running(home, *_options()) as peer:
        assert peer.facts["peer_id"] == peer_id
        status = ask(peer.http, "/api/v1/status")
        assert (status["store"]["captures"], status["crawl"]["problem"]) == (PAGES, None)
        assert any("identity.key" in one and "check the disk" in one for one in status["alarms"])
        assert _gives_all(peer)
        assert peer.end()[0] == 0
    assert "put back from its second copy" in _log(home)


def test_what_no_copy_can_give_back_is_a_sentence_that_says_what_to_do(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    (home / "identity.key").unlink()
    found = called("run", "--home", home, *_options())
    assert found.code == 1
    assert "restore identity.key from a backup" in found.err
