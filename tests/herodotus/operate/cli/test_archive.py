"""The archive's commands, as an operator or a script uses them."""

import json
import os
from functools import partial
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from herodotus.operate import offline_archive
from herodotus.operate.cli import main
from herodotus.operate.cli.console import parse_moment
from herodotus.store.upkeep import tidy_before_leaving
from tests.herodotus.store.making import NOW_S, two_versions_file

URL = "http://example.org/"


def run(home: Path, *words: str) -> Result:
    """In a home that is made if it is missing."""
    mask = os.umask(0o077)
    try:
        if not (home / "network.toml").exists():
            made = CliRunner().invoke(
                main, ["init", "--network", "test", "--preset", "test", "--home", str(home)]
            )
            assert made.exit_code == 0, made.output
        return CliRunner().invoke(main, [words[0], "--home", str(home), *words[1:]])
    finally:
        os.umask(mask)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """With two versions of a page, which came by import."""
    file = two_versions_file(tmp_path, URL)
    imported = run(tmp_path / "home", "import", "--json", str(file))
    assert imported.exit_code == 0, imported.output
    assert json.loads(imported.stdout)[0]["stored"] == 2
    return tmp_path / "home"


def test_an_import_seals_what_it_stored_when_that_is_enough(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert list((home / "archive" / "segments").rglob("*.zst")) == []
    monkeypatch.setattr(offline_archive, "tidy_before_leaving", partial(tidy_before_leaving, from_bytes=1))
    again = run(home, "import", str(tmp_path / "two.warc.gz"))
    assert again.exit_code == 0
    assert "2 known already" in again.stderr
    [segment] = (home / "archive" / "segments").rglob("*.zst")
    assert segment.stat().st_size > 500
    assert run(home, "get", URL).stdout_bytes == b"second"


def test_get_gives_the_body_of_a_date(home: Path) -> None:
    assert run(home, "get", URL).stdout_bytes == b"second"
    assert run(home, "get", "--at", "20231115", URL).stdout_bytes == b"second"
    assert run(home, "get", "--at", "20231114", URL).stdout_bytes == b"first"
    raw = run(home, "get", "--at", "20231114", "--raw", URL).stdout_bytes
    assert raw.startswith(b"HTTP/1.1 200 OK\r\n")
    assert raw.endswith(b"\r\n\r\nfirst")


def test_what_is_not_there_is_exit_3(home: Path) -> None:
    for words in (
        ("get", "http://other.example/"),
        ("get", "--at", "1999", URL),
        ("history", "http://other.example/"),
    ):
        result = run(home, *words)
        assert (result.exit_code, result.stdout) == (3, "")
        assert "not in the archive" in result.stderr


def test_history_for_machines_has_the_documented_keys(home: Path) -> None:
    versions = json.loads(run(home, "history", "--json", URL).stdout)
    assert [version["date"] for version in versions] == ["2023-11-14T22:13:20Z", "2023-11-15T22:13:20Z"]
    assert versions[0]["digest"].startswith("sha256:")
    assert {"url", "date", "digest", "status", "mime", "first_seen", "last_seen"} <= set(versions[0])


def test_exported_files_come_in_again(home: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.warc.gz"
    assert run(home, "export", "--warc", str(out), "--to", "20231114").exit_code == 0
    assert run(tmp_path / "other", "import", str(out)).exit_code == 0
    assert json.loads(run(tmp_path / "other", "stats", "--json").stdout)["captures"] == 1
    assert run(home, "export", "--wacz", str(tmp_path / "out.wacz")).exit_code == 0
    assert run(home, "export").exit_code == 2


def test_verify_finds_damage_and_repair_makes_the_index_fit(home: Path) -> None:
    assert run(home, "verify").exit_code == 0
    [log] = (home / "archive" / "log").iterdir()
    data = bytearray(log.read_bytes())
    data[400] ^= 0xFF
    log.write_bytes(data)
    result = run(home, "verify", "--json")
    assert result.exit_code == 1
    assert len(json.loads(result.stdout)["damage"]) == 1


def test_expunging_deletes_versions_that_newer_ones_follow_and_says_which(home: Path) -> None:
    asked_for = run(home, "expunge", "--older-than", "30")
    assert asked_for.exit_code == 130  # nobody there to say yes
    for words in ((), ("--older-than", "1", "--before", "2020")):
        assert run(home, "expunge", "--yes", *words).exit_code == 2
    rehearsed = run(home, "expunge", "--dry-run", "--older-than", "30")
    assert rehearsed.stdout == f"2023-11-14T22:13:20Z  {URL}\n"
    assert "1 captures would be deleted" in rehearsed.stderr
    assert json.loads(run(home, "history", "--json", URL).stdout)[0]["date"] == "2023-11-14T22:13:20Z"
    assert run(home, "expunge", "--yes", "--before", "2023").exit_code == 0
    expunged = run(home, "expunge", "--yes", "--json", "--before", "2024")
    assert json.loads(expunged.stdout) == {
        "captures": 1,
        "first": [{"url": URL, "date": "2023-11-14T22:13:20Z"}],
    }
    assert [line["date"] for line in json.loads(run(home, "history", "--json", URL).stdout)] == [
        "2023-11-15T22:13:20Z"
    ]
    assert run(home, "get", URL).stdout_bytes == b"second"
    assert "1 captures" not in run(home, "expunge", "--dry-run", "--before", "2024").stderr


def test_rebuild_index_counts_what_it_found(home: Path) -> None:
    result = run(home, "rebuild-index")
    assert (result.exit_code, result.stderr) == (0, "2 captures indexed\n")


def test_moments_are_padded_to_the_side_they_stand_on() -> None:
    assert parse_moment("1970") == 0
    assert parse_moment("197002", is_end=True) == 59 * 86_400 - 1
    assert parse_moment("1970-01-01", is_end=True) == 86_400 - 1
    assert parse_moment(None) == 0
    with pytest.raises(click.BadParameter):
        parse_moment("yesterday")


def test_the_ten_lines_of_the_documentation_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = (Path(__file__).parents[4] / "docs" / "look-up" / "library.md").read_text()
    lines = text.partition("```python\n")[2].partition("```")[0].replace("/srv/herodotus", str(home))
    exec(compile(lines, "docs/look-up/library.md", "exec"), {})
    assert capsys.readouterr().out == f"{URL} {NOW_S} 5\n{URL} {NOW_S + 86_400} 6\n"
