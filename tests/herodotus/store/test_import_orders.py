"""Whole files as a user gives them: packages, files in the wrong order, interrupted ones, and what is no archive."""

import json
import random
import signal
import subprocess
import zipfile
from contextlib import suppress
from pathlib import Path

import pytest

from herodotus.store.import_orders import MARK_BYTES, Marks
from herodotus.store.wacz import export_wacz
from tests.herodotus.operate.cli.processes import HERODOTUS, WAIT_S, called, clean_environment, new_home
from tests.herodotus.operate.cli.test_archive import run
from tests.herodotus.store import collection
from tests.herodotus.store.making import foreign_response, foreign_revisit

URL = "http://example.org/"


def test_a_package_comes_in_as_it_went_out(tmp_path: Path) -> None:
    archive = collection.make(tmp_path / "first")
    export_wacz(archive, tmp_path / "all.wacz")
    archive.close()
    imported = run(tmp_path / "second", "import", "--json", str(tmp_path / "all.wacz"))
    [report] = json.loads(imported.stdout)
    assert (imported.exit_code, report["stored"] + report["revisits"], report["visits"]) == (0, 25, 2)
    assert run(tmp_path / "second", "get", f"{collection.SITE}picture").stdout_bytes == collection.PNG
    again = run(tmp_path / "second", "import", str(tmp_path / "all.wacz"))
    assert again.stderr.endswith("all.wacz: 0 captures stored, 25 known already, 2 unchanged visits\n")


def test_names_in_a_package_lead_nowhere_and_hold_no_secrets(tmp_path: Path) -> None:
    record = foreign_response(URL, "2020-01-01T00:00:00Z", b"inside")
    with zipfile.ZipFile(tmp_path / "odd.wacz", "w", zipfile.ZIP_DEFLATED) as package:
        package.writestr("../../../escaped.warc", record)
        package.writestr("archive/broken.warc.gz", b"\x1f\x8b\x08rubbish")
        package.writestr("pages/pages.jsonl", "{}")
    imported = run(tmp_path / "home", "import", str(tmp_path / "odd.wacz"))
    assert imported.exit_code == 1
    assert "in archive/broken.warc.gz" in imported.stderr
    assert run(tmp_path / "home", "get", URL).stdout == "inside"
    assert {path.name for path in tmp_path.parent.rglob("escaped*")} == set()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "it holds no WARC or ARC record"),
        (b"root:x:0:0:root\n" * 1_000, "it holds no WARC or ARC record"),
        (None, "there is no WARC file in this ZIP"),
    ],
)
def test_what_is_no_archive_is_said_to_be_none(content: bytes | None, sentence: str, tmp_path: Path) -> None:
    path = tmp_path / "file"
    if content is None:
        with zipfile.ZipFile(path, "w") as package:
            package.writestr("holiday.jpg", b"not ours")
    else:
        path.write_bytes(content)
    result = run(tmp_path / "home", "import", str(path))
    assert result.exit_code == 1
    assert sentence in result.stderr + str(result.exception)


def test_a_revisit_finds_the_original_in_a_later_file(tmp_path: Path) -> None:
    (tmp_path / "1.warc").write_bytes(
        foreign_revisit(URL, "2020-01-03T00:00:00Z", b"a")
        + foreign_revisit(URL, "2020-01-04T00:00:00Z", b"b")
    )
    (tmp_path / "2.warc").write_bytes(foreign_response(URL, "2020-01-01T00:00:00Z", b"a"))
    result = run(tmp_path / "home", "import", "--json", str(tmp_path / "1.warc"), str(tmp_path / "2.warc"))
    first, second = json.loads(result.stdout)
    assert (first["revisits"], first["skipped"], second["stored"], result.exit_code) == (1, 1, 1, 1)
    assert first["problems"][0]["reason"] == "a revisit whose original the archive does not have"
    assert run(tmp_path / "home", "get", "--at", "20200103", URL).stdout == "a"


def test_a_mark_counts_for_the_same_file_and_archive_alone(tmp_path: Path) -> None:
    file, path = tmp_path / "x.warc", tmp_path / "imports.json"
    file.write_bytes(b"some")
    status = file.stat()
    Marks(path, b"here").note(file, status, MARK_BYTES - 1)
    assert not path.exists()  # not worth a mark yet
    Marks(path, b"here").note(file, status, MARK_BYTES)
    assert Marks(path, b"here").start_of(file, status) == MARK_BYTES
    assert Marks(path, b"elsewhere").start_of(file, status) == 0
    file.write_bytes(b"other")
    assert Marks(path, b"here").start_of(file, file.stat()) == 0
    Marks(path, b"here").done(file)
    assert Marks(path, b"here").start_of(file, status) == 0
    path.write_bytes(b"{rubbish")
    assert Marks(path, b"here").start_of(file, status) == 0


RECORDS = 2_400
"""Of 8 kB that cannot be compressed: 19 MB, so that there are nine marks on the way."""


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "large.warc"
    rng = random.Random(5)
    with path.open("wb") as out:
        for number in range(RECORDS):
            out.write(foreign_response(f"{URL}{number}", "2020-01-01T00:00:00Z", rng.randbytes(8_000)))
    return path


@pytest.mark.e2e
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_import_goes_on_where_it_was(end: signal.Signals, large: Path, tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    mark = home / "state" / "imports.json"
    command = [HERODOTUS, "import", "--home", str(home), str(large)]
    with subprocess.Popen(command, env=clean_environment(), stderr=subprocess.PIPE, text=True) as process:
        while not mark.exists():  # a wait, and no spinning: who spins has used up its turn when it matters
            with suppress(subprocess.TimeoutExpired):
                process.wait(timeout=0.001)
                break
        process.send_signal(end)
        _, said = process.communicate(timeout=WAIT_S)
    assert process.returncode == (-9 if end is signal.SIGKILL else 130), said
    if end is signal.SIGINT:
        assert said.strip() == "herodotus: error: interrupted"
    [marked] = [one["offset"] for one in json.loads(mark.read_text()).values()]

    done = called("import", "--home", home, "--json", large)
    [report] = done.json
    assert (done.code, report["skipped"]) == (0, 0), done.err
    assert report["records"] == large.read_bytes()[marked:].count(b"WARC/1.1\r\n") < RECORDS
    assert report["stored"] + report["known"] == report["records"]
    assert json.loads(mark.read_text()) == {}
    assert called("stats", "--home", home, "--json").json["captures"] == RECORDS
    assert called("verify", "--home", home).code == 0
