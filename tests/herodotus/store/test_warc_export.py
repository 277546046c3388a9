"""What leaves is complete in itself, whatever part of the archive was asked for."""

import gzip
import json
import random
import zipfile
from io import BytesIO
from pathlib import Path

import anyio
import pytest
from warcio.archiveiterator import ArchiveIterator

from herodotus.core.bundles import NO_ANSWER, Visit
from herodotus.core.orders import Export
from herodotus.operate.offline_archive import opened
from herodotus.store.engine import Archive
from herodotus.store.external_sort import SortedLines
from herodotus.store.performer import EXPORTS_BETWEEN_WORDS, perform
from herodotus.store.stored_records import StoredCapture
from herodotus.store.streams import Query
from herodotus.store.wacz import export_wacz, title_of
from herodotus.store.warc_export import Exported, export_warc
from simnet.world.disk import SimulatedDisk
from tests.herodotus.store.making import DAY_S, NOW_S, note_visits, open_on, page, store

URL = "http://example.org/"
Record = tuple[str, str, str | None]


def _records(data: bytes) -> list[Record]:
    """Type, date and what it refers to, of the captures alone."""
    found = []
    for record in ArchiveIterator(BytesIO(data), check_digests="raise"):
        if record.rec_type in ("response", "revisit"):
            fields = [record.rec_headers.get_header(f"WARC-{name}") for name in ("Date", "Refers-To-Date")]
            found.append((record.rec_type, fields[0][:10], fields[1] and fields[1][:10]))
            record.content_stream().read()
    return found


def _export(archive: Archive, query: Query | None = None, pattern: str | None = None) -> list[Record]:
    out = BytesIO()
    export_warc(archive, out, query=query, url_pattern=pattern)
    return _records(out.getvalue())


@pytest.fixture
def archive() -> Archive:
    """A page that changed on the third day and was found unchanged on the days between."""
    archive = open_on(SimulatedDisk())
    store(archive, page(URL, NOW_S, b"<p>one"), page(URL, NOW_S + 3 * DAY_S, b"<p>two"))
    note_visits(archive, *(Visit(url=URL, time_s=NOW_S + day * DAY_S, status=304) for day in (1, 2, 4)))
    return archive


def test_visits_stand_right_after_the_version_they_found(archive: Archive) -> None:
    assert _export(archive) == [
        ("response", "2023-11-14", None),
        ("revisit", "2023-11-15", "2023-11-14"),
        ("revisit", "2023-11-16", "2023-11-14"),
        ("response", "2023-11-17", None),
        ("revisit", "2023-11-18", "2023-11-17"),
    ]


def test_visits_without_an_answer_are_not_exported(archive: Archive) -> None:
    before = _export(archive)
    note_visits(
        archive,
        Visit(url=URL, time_s=NOW_S + 5 * DAY_S, status=NO_ANSWER, problem="connection refused"),
        Visit(url=URL, time_s=NOW_S + 6 * DAY_S, status=NO_ANSWER),
    )
    assert _export(archive) == before


def test_days_that_changed_nothing_take_the_older_version_along(archive: Archive) -> None:
    days = Query(from_s=NOW_S + 2 * DAY_S, to_s=NOW_S + 3 * DAY_S)
    assert _export(archive, days) == [
        ("response", "2023-11-14", None),
        ("revisit", "2023-11-16", "2023-11-14"),
    ]


def test_visits_of_what_was_not_asked_for_stay_behind(archive: Archive) -> None:
    store(archive, page("http://other.example/", NOW_S, b"<p>other"))
    assert _export(archive, pattern="http://other*") == [("response", "2023-11-14", None)]
    assert _export(archive, Query(status=404)) == []


def test_a_visit_refers_to_the_original_and_never_to_a_revisit(archive: Archive) -> None:
    store(archive, page(URL, NOW_S + 5 * DAY_S, b"<p>one"))
    note_visits(archive, Visit(url=URL, time_s=NOW_S + 6 * DAY_S, status=304))
    assert _export(archive)[-2:] == [
        ("revisit", "2023-11-19", "2023-11-14"),
        ("revisit", "2023-11-20", "2023-11-14"),
    ]


def test_an_original_outside_the_days_asked_for_is_written_again_with_its_body(archive: Archive) -> None:
    store(archive, page(URL, NOW_S + 5 * DAY_S, b"<p>one"))
    note_visits(archive, Visit(url=URL, time_s=NOW_S + 6 * DAY_S, status=304))
    assert _export(archive, Query(from_s=NOW_S + 5 * DAY_S)) == [
        ("response", "2023-11-19", None),
        ("revisit", "2023-11-20", "2023-11-19"),
    ]


def test_the_notes_for_an_index_say_where_each_record_lies(archive: Archive) -> None:
    out = BytesIO()
    noted: list[Exported] = []
    export_warc(archive, out, note=noted.append)
    assert [exported.mime for exported in noted] == [
        "text/html", "warc/revisit", "warc/revisit", "text/html", "warc/revisit",
    ]  # fmt: skip
    for exported in noted:
        place = exported.place
        member = gzip.decompress(out.getvalue()[place.offset : place.offset + place.length])
        assert f"WARC-Target-URI: {exported.event.url}\r\n".encode() in member


def test_a_package_lists_visits_in_its_index_and_titles_in_its_pages(
    archive: Archive, tmp_path: Path
) -> None:
    store(archive, page(URL, NOW_S + 7 * DAY_S, b"<html><TITLE lang=en>\n A &amp; B </TITLE>"))
    export_wacz(archive, tmp_path / "out.wacz")
    with zipfile.ZipFile(tmp_path / "out.wacz") as wacz:
        blocks = wacz.read("indexes/index.cdx.gz")
        meta, *starts = wacz.read("indexes/index.idx").decode().splitlines()
        pages = [json.loads(line) for line in wacz.read("pages/pages.jsonl").splitlines()]
    assert meta == '!meta 0 {"format": "cdxj-gzip-1.0", "filename": "index.cdx.gz"}'
    [start] = starts
    place = json.loads(start.split(" ", 2)[2])
    lines = gzip.decompress(blocks[place["offset"] : place["offset"] + place["length"]]).decode().splitlines()
    assert start.split(" ")[:2] == lines[0].split(" ")[:2]
    mimes = [json.loads(line.split(" ", 2)[2])["mime"] for line in lines]
    assert (mimes.count("text/html"), mimes.count("warc/revisit")) == (3, 3)
    assert [one["title"] for one in pages[1:]] == [URL, URL, "A & B"]
    assert len({one["id"] for one in pages}) == 4
    assert [path.name for path in tmp_path.iterdir()] == ["out.wacz"]


def test_a_package_that_fails_leaves_nothing_behind(archive: Archive, tmp_path: Path) -> None:
    def give_up(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        export_wacz(archive, tmp_path / "out.wacz", progress=give_up)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.anyio
@pytest.mark.parametrize("is_wacz", [False, True])
async def test_an_export_ends_when_it_is_told_to(is_wacz: bool, tmp_path: Path) -> None:
    pages = [page(f"{URL}{number}", NOW_S, b"%d" % number) for number in range(EXPORTS_BETWEEN_WORDS + 1)]
    async with opened(tmp_path / "home") as archive_store, anyio.create_task_group() as tasks:
        for deposit in pages:
            tasks.start_soon(archive_store.store, deposit)
    said: list[str] = []
    (tmp_path / "out").mkdir()
    target = tmp_path / "out" / "some.file"
    async with opened(tmp_path / "home") as archive_store:
        with anyio.CancelScope() as scope:

            def interrupt(words: str) -> None:
                said.append(words)
                scope.cancel()

            await perform(archive_store, Export(target=str(target), is_wacz=is_wacz), interrupt)
        assert scope.cancelled_caught
        assert said == [f"{target}: {EXPORTS_BETWEEN_WORDS} captures"]
        assert list(target.parent.iterdir()) == []
        await perform(archive_store, Export(target=str(target), is_wacz=is_wacz), said.append)
    assert [path.name for path in target.parent.iterdir()] == ["some.file"]


@pytest.mark.parametrize(
    ("headers", "body", "title"),
    [
        ("text/html", "<title>Grüße</title>".encode(), "Grüße"),
        ("text/html; charset=iso-8859-1", "<title>Grüße</title>".encode("latin-1"), "Grüße"),
        ("text/html", "<meta charset='cp1251'><title>Привет</title>".encode("cp1251"), "Привет"),
        ("text/html; charset=nonsense", b"<title>plain</title>", "plain"),
        ("text/html\r\nContent-Encoding: gzip", gzip.compress(b"<title>packed</title>", mtime=0), "packed"),
        ("text/html\r\nContent-Encoding: gzip", b"\x1f\x8b\x08rubbish", ""),
        ("text/html", b"<title>never ends", ""),
        ("text/html", b"<title>" + b"x" * 1_000 + b"</title>", "x" * 300),
        ("text/html", b" " * 70_000 + b"<title>too late</title>", ""),
    ],
)
def test_a_title_is_found_in_what_servers_send(headers: str, body: bytes, title: str) -> None:
    archive = open_on(SimulatedDisk())
    store(archive, page(URL, NOW_S, body, headers))
    found: list[Exported] = []
    export_warc(archive, BytesIO(), note=found.append)
    assert [title_of(one.event) for one in found if isinstance(one.event, StoredCapture)] == [title]


def test_lines_are_sorted_by_runs_as_they_would_be_at_once(tmp_path: Path) -> None:
    rng = random.Random(8)
    lines = [rng.randbytes(rng.randrange(40)).replace(b"\n", b"") for _ in range(2_000)]
    with SortedLines(tmp_path, run_bytes_max=10_000) as sorter:
        for line in lines:
            sorter.add(line)
        assert list(sorter) == sorted(lines)
        assert len(list(tmp_path.rglob("*"))) > 10
    assert list(tmp_path.iterdir()) == []
