"""Do the archive's commands work while a peer has the archive open, and does it survive a broken one?"""

import json
import urllib.request
from pathlib import Path

import pytest

from tests.herodotus.operate.cli.processes import called, new_home, running
from tests.herodotus.portal.shelves import found_in_words
from tests.herodotus.store.making import two_versions_file

pytestmark = pytest.mark.e2e
URL = "http://example.org/"


@pytest.fixture
def two_versions(tmp_path: Path) -> Path:
    return two_versions_file(tmp_path, URL)


def test_the_commands_reach_the_archive_through_the_running_peer(two_versions: Path, tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    with running(home) as peer:
        imported = called("import", "--home", home, "--json", two_versions)
        assert (imported.code, imported.json[0]["stored"]) == (0, 2), imported.err
        status = called("status", "--home", home, "--json").json
        assert (status["store"]["captures"], status["store"]["state"]) == (2, "open")
        assert status["store"]["bytes"] > 500
        assert called("stats", "--home", home, "--json").json["captures"] == 2
        assert [one["date"][:10] for one in called("history", "--home", home, "--json", URL).json] == [
            "2023-11-14", "2023-11-15",
        ]  # fmt: skip
        body = tmp_path / "body"
        assert called("get", "--home", home, "--at", "20231114", "-o", body, URL).code == 0
        assert body.read_bytes() == b"first"
        assert called("get", "--home", home, "-o", body, "http://nobody.example/").code == 3
        over_http = ["--peer", peer.http]
        assert len(called("history", *over_http, "--json", URL).json) == 2
        raw = called("get", *over_http, "--raw", "--at", "20231114", "-o", body, URL)
        assert raw.code == 0, raw.err
        assert body.read_bytes().startswith(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n")
        assert body.read_bytes().endswith(b"\r\n\r\nfirst")
        assert called("get", *over_http, "--at", "2022", "-o", body, URL).code == 3
        assert called("history", *over_http, "http://nobody.example/").code == 3
        assert called("history", "--peer", "http://127.0.0.1:1", URL).code == 1
        assert called("verify", "--home", home).code == 0
        packed = tmp_path / "out.wacz"
        assert called("export", "--home", home, "--wacz", packed).code == 0
        assert packed.stat().st_size > 1_000
        assert found_in_words(peer, "second") == [URL]
        told = called("search", "--home", home, "second")
        assert told.out == f"(no title)\n  {URL}\n  since 2023-11-15\n  second\n\n1 page in 1 version\n"
        (found,) = called("search", *over_http, "--json", "first", "on:2023-11-14").json["hits"]
        assert (found["url"], found["until"][:10]) == (URL, "2023-11-15")
        nothing = called("search", "--home", home, "secomd")
        assert (nothing.code, "did you mean second (not secomd)?" in nothing.err) == (3, True)
        assert called("search", "--home", home, "fir*").code == 2
        assert called("search", *over_http, "fir*").code == 2
        assert called("remove", "--home", home, "--yes", URL).code == 0
        assert called("search", "--home", home, "second").code == 3
        assert called("remove", "--home", home, "--undo", URL).code == 0
        refused = called("rebuild-index", "--home", home)
        assert (refused.code, "stop the peer first" in refused.err) == (1, True)
        code, _, err = peer.end()
        assert (code, "Traceback" in err) == (0, False), err
    assert called("history", "--home", home, "--json", URL).json[1]["status"] == 200
    stopped = called("search", "--home", home, "second")
    assert (stopped.code, "no peer runs on this home" in stopped.err) == (3, True)


def test_old_versions_are_deleted_by_the_running_peer(two_versions: Path, tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    with running(home):
        assert called("import", "--home", home, two_versions).code == 0
        rehearsed = called("expunge", "--home", home, "--json", "--dry-run", "--before", "2024")
        assert (rehearsed.code, rehearsed.json["captures"]) == (0, 1), rehearsed.err
        expunged = called("expunge", "--home", home, "--json", "--yes", "--before", "2024")
        assert (expunged.code, expunged.json["captures"]) == (0, 1), expunged.err
        assert [one["date"][:10] for one in called("history", "--home", home, "--json", URL).json] == [
            "2023-11-15"
        ]


def test_a_peer_whose_archive_is_broken_says_so_and_serves_the_rest(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    (home / "index").rmdir()
    (home / "index").write_text("not a folder")
    with running(home) as peer:
        with urllib.request.urlopen(f"{peer.http}/healthz", timeout=20) as answer:
            assert answer.read() == b"ok\n"
        with urllib.request.urlopen(f"{peer.http}/api/v1/status", timeout=20) as answer:
            store_status = json.load(answer)["store"]
        assert store_status["state"] == "unusable"
        assert "cannot be opened" in store_status["problem"]
        refused = called("stats", "--home", home)
        assert (refused.code, "cannot be opened" in refused.err) == (1, True)
        assert peer.end()[0] == 0
