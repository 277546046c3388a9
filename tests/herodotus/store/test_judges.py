"""What we write is read by other people's tools: every record of the archive, and every export."""

import gzip
import json
import shutil
import zipfile
from collections import Counter
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest
from fastwarc.warc import ArchiveIterator

from herodotus.core.layout import Compression
from herodotus.core.warc import format_digits
from herodotus.store.wacz import export_wacz
from herodotus.store.warc_export import export_warc
from tests.herodotus.store import collection
from tests.herodotus.store.judging import fetch, judge, pywb, run, system_tool

pytestmark = pytest.mark.e2e

# Of `collection`, counted by hand: 25 captures, a request with each but the DNS answer; one record of what the
# crawler learned, two days of unchanged visits, one tombstone.
RECORDS = {"response": 23, "revisit": 1, "resource": 1, "request": 24, "metadata": 4}
FILES = {Compression.GZIP: 14, Compression.ZSTD: 14}  # 13 buckets have something, and there is a log


def _make(folder: Path, codec: Compression) -> Path:
    """A home, and beside it its exports `all.warc.gz` and `all.wacz`. The index is gone."""
    archive = collection.make(folder / "home", codec)
    with (folder / "all.warc.gz").open("wb") as out:
        export_warc(archive, out)
    export_wacz(archive, folder / "all.wacz")
    archive.close()
    shutil.rmtree(folder / "home" / "index")
    with zipfile.ZipFile(folder / "all.wacz") as wacz:
        (folder / "inner.warc.gz").write_bytes(wacz.read("archive/data.warc.gz"))
    return folder


@pytest.fixture(scope="module", params=list(Compression), ids=["gzip profile", "zstd profile"])
def made(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Compression]:
    return _make(tmp_path_factory.mktemp("made"), request.param), request.param


@pytest.fixture(scope="module")
def exports(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _make(tmp_path_factory.mktemp("exports"), Compression.ZSTD)


def _files(folder: Path) -> list[Path]:
    return sorted((folder / "home" / "archive").rglob("*.warc.*"))


def _plain(files: list[Path], target: Path) -> list[Path]:
    """Taken apart by gzip and zstd alone."""
    target.mkdir()
    plain = []
    for path in files:
        tool = ("zstd", "-dcq") if path.suffix == ".zst" else ("gzip", "-dc")
        content = run(system_tool(tool[0]), *tool[1:], path, cwd=target)
        plain.append(target / f"{path.parent.name}-{path.name}".rpartition(".")[0])
        plain[-1].write_bytes(content)
    return plain


@pytest.mark.needs("zstd", judge("warcio"), judge("cdx-indexer"))
def test_without_our_software_every_tool_reads_every_record(
    made: tuple[Path, Compression], tmp_path: Path
) -> None:
    folder, codec = made
    files = _files(folder)
    assert len(files) == FILES[codec]
    expected = Counter({**RECORDS, "warcinfo": len(files)})

    plain = _plain(files, tmp_path / "plain")
    lines = b"".join(path.read_bytes() for path in plain).split(b"\r\n")
    types = [line.removeprefix(b"WARC-Type: ").decode() for line in lines if line.startswith(b"WARC-Type: ")]
    assert Counter(types) == expected, "zcat and zstd -dc"

    listed = run(judge("warcio"), "index", "-f", "warc-type", *plain, cwd=tmp_path)
    assert Counter(json.loads(line)["warc-type"] for line in listed.splitlines()) == expected, "warcio"
    run(judge("warcio"), "check", *plain, cwd=tmp_path)

    seen = Counter[str]()
    for path in files:  # as they lie there
        with path.open("rb") as file:
            for record in ArchiveIterator(file, parse_http=False):
                assert record.verify_block_digest() or record.headers.get("WARC-Type") == "warcinfo"
                record.reader.read()
                seen[record.headers["WARC-Type"]] += 1
    assert seen == expected, "FastWARC"

    indexed = run(judge("cdx-indexer"), "-j", "-a", *plain, cwd=tmp_path).splitlines()
    assert len(indexed) == sum(RECORDS.values()), "pywb"


@pytest.mark.needs("zstd", judge("warcio"), judge("cdx-indexer"))
def test_our_indexes_are_the_ones_that_pywb_makes(made: tuple[Path, Compression], tmp_path: Path) -> None:
    """Key, date, URL, type, status and digest; in gzip files also where the record lies."""
    folder, codec = made
    segments = [path for path in _files(folder) if path.parent.name != "log"]
    read = segments if codec is Compression.GZIP else _plain(segments, tmp_path / "plain")
    theirs = run(judge("cdx-indexer"), "-j", *read, cwd=tmp_path).decode().splitlines()
    ours = [
        line
        for path in segments
        for line in path.with_name(path.name.partition(".")[0] + ".cdxj").read_text().splitlines()
    ]
    names = (
        "url",
        "mime",
        "status",
        "digest",
        *(("offset", "filename") if codec is Compression.GZIP else ()),
    )
    notes = [line for line in theirs if line.startswith("urn:herodotus:archive")]
    assert len(notes) == 3  # our own bookkeeping, which is no capture: pywb lists it, we do not
    assert _index(ours, names) == _index([line for line in theirs if line not in notes], names)
    exported = run(judge("cdx-indexer"), "-j", "inner.warc.gz", cwd=folder).decode().splitlines()
    with zipfile.ZipFile(folder / "all.wacz") as wacz:
        packed = gzip.decompress(wacz.read("indexes/index.cdx.gz")).decode().splitlines()
    assert packed == sorted(packed)
    run(judge("warcio"), "check", "all.warc.gz", "inner.warc.gz", cwd=folder)
    names = ("url", "mime", "status", "digest", "offset", "length")
    assert _index(packed, names) == _index(exported, names)


def _index(lines: list[str], names: tuple[str, ...]) -> list[tuple[str, ...]]:
    found = []
    for line in lines:
        key, date, fields = line.split(" ", 2)
        values = json.loads(fields)
        if values["mime"] == "warc/revisit":
            values.pop("status", None)  # pywb does not look for it, ReplayWeb.page shows it
        found.append((key, date, *(values.get(name, "-") for name in names)))
    return sorted(found)


@pytest.mark.needs(judge("warcio"), judge("wacz"))
def test_warcio_and_wacz_find_nothing_wrong_with_our_exports(exports: Path) -> None:
    said = run(judge("warcio"), "check", "-v", "all.warc.gz", "inner.warc.gz", cwd=exports).decode()
    # 25 captures of which 1 is a revisit, 24 requests, 1 metadata: all but the three revisits are checked.
    assert (said.count("digest pass"), said.count("not checked (revisit)")) == (2 * 49, 2 * 3)
    assert "is valid" in run(judge("wacz"), "validate", "-f", "all.wacz", cwd=exports).decode()


@pytest.mark.needs(judge("pywb"), judge("wb-manager"))
def test_pywb_replays_every_capture_of_an_export_as_it_was(exports: Path, tmp_path: Path) -> None:
    run(judge("wb-manager"), "init", "all", cwd=tmp_path)
    run(judge("wb-manager"), "add", "all", exports / "all.warc.gz", cwd=tmp_path)
    with pywb(tmp_path) as address:
        for deposit in collection.deposits():
            if not deposit.capture.head:
                continue  # a DNS answer has no address in the web
            answer = fetch(f"{address}/all/{format_digits(deposit.capture.time_s)}id_/{deposit.capture.url}")
            assert answer.status == int(deposit.capture.head[9:12]), deposit.capture.url
            assert answer.body == deposit.capture.body
            assert (
                parsedate_to_datetime(answer.headers["Memento-Datetime"]).timestamp()
                == deposit.capture.time_s
            )
        for visit in collection.visits():
            answer = fetch(f"{address}/all/{format_digits(visit.time_s)}id_/{visit.url}")
            assert (answer.status, answer.body) == (200, b"<p>version 0")
            assert parsedate_to_datetime(answer.headers["Memento-Datetime"]).timestamp() == visit.time_s
