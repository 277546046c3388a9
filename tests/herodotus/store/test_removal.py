"""Does what an operator removes go, with its bytes where he says so, and does it stay away?"""

import gzip
import urllib.error
import urllib.request
from io import BytesIO
from pathlib import Path

import pytest
import zstandard

from crawler.core.scope import CrawlScope
from herodotus.core.errors import FileSyntaxError
from herodotus.core.removals import (
    NOTHING_REMOVED,
    MalformedSubjectError,
    Removals,
    Subject,
    subject_of,
)
from herodotus.home.removed import (
    Telling,
    TooManyRemoved,
    forget_removed,
    note_removed,
    read_removed,
    removals_in,
    removals_of,
)
from herodotus.home.seeds import seeds_of
from herodotus.store.warc_export import export_warc
from tests.herodotus.operate.cli.processes import WAIT_S, called, new_home, running
from tests.herodotus.store.making import NOW_S, open_on, page, store

SECRET = b"what must not be archived, 0123456789"
PAGES = {
    "http://example.org/": b"start",
    "https://example.org/private?x=1": SECRET + b" a",
    "http://example.org/private?x=1": SECRET + b" b",
    "http://www.example.org/deep/er": SECRET + b" c",
    "http://example.org:8080/port": SECRET + b" d",
    "http://example.organic/": b"another site",
    "http://other.example/": b"of somebody else",
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made")
    (folder / "archive").mkdir()
    archive = open_on(folder / "archive")
    store(
        archive,
        *[
            page(url, NOW_S + day * 86_400, body + b"%d" % day)
            for url, body in PAGES.items()
            for day in (0, 1)
        ],
    )
    store(archive, page("HTTP://Example.ORG/Odd", NOW_S, SECRET + b" e"))
    out = BytesIO()
    export_warc(archive, out)
    archive.close()
    (folder / "all.warc.gz").write_bytes(out.getvalue())
    return folder / "all.warc.gz"


@pytest.fixture
def home(file: Path, tmp_path: Path) -> Path:
    made = new_home(tmp_path / "home")
    assert called("import", "--home", made, file).code == 0
    return made


def there(home: Path) -> set[str]:
    return {
        url for url in [*PAGES, "HTTP://Example.ORG/Odd"] if called("history", "--home", home, url).code == 0
    }


# -- the list ---------------------------------------------------------------------------------------------


def test_a_host_covers_all_below_it_and_a_page_both_schemes_in_every_spelling() -> None:
    removals = Removals.of(hosts=["*.Example.org"], urls=["https://a.example/x?utm_source=y#z"])
    assert [removals.covers(url) for url in ("http://example.org/", "https://www.example.org:81/a")] == [
        True
    ] * 2
    assert [removals.covers(url) for url in ("https://a.example/x", "HTTP://A.EXAMPLE/x#q")] == [True] * 2
    others = (
        "http://example.organic/",
        "http://a.example/",
        "http://a.example/xy",
        "urn:example.org",
        "dns:a",
    )
    assert [removals.covers(url) for url in others] == [False] * len(others)
    assert not NOTHING_REMOVED.covers("http://example.org/")


def subjects(*pairs: tuple[str, str]) -> list[Subject]:
    return [subject_of(*pair) for pair in pairs]


def test_a_prefix_covers_what_begins_so_and_a_digest_its_content_anywhere() -> None:
    removals = Removals.of_subjects(subjects(("prefix", "https://a.example/x/"), ("digest", "AB" * 32)))
    covered = ("http://a.example/x/", "https://A.example/x/y?z=1")
    assert [removals.covers(url) for url in covered] == [True] * 2
    others = (
        "http://a.example/x",
        "http://a.example/y/x/",
        "http://b.a.example/x/",
        "http://a.example:81/x/",
    )
    assert [removals.covers(url) for url in others] == [False] * 4
    assert removals.covers_capture("http://b.example/", b"\xab" * 32)
    assert not removals.covers_capture("http://b.example/", b"\xac" * 32)
    assert not removals.declines("http://a.example/x/", bytes(32))


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        ("host", "http://a.example/"),
        ("host", "a b"),
        ("host", ""),
        ("url", "http://[/"),
        ("url", "http://a.example/" + "x" * 2_001),
        ("prefix", "http://a.example/?x"),
        ("digest", "ab" * 31),
        ("site", "a.example"),
    ],
)
def test_what_names_nothing_is_no_subject(kind: str, name: str) -> None:
    with pytest.raises(MalformedSubjectError):
        subject_of(kind, name)


def test_the_note_is_kept_with_its_dates_and_taken_back(tmp_path: Path) -> None:
    host, page_ = subjects(("host", "example.org"), ("url", "https://a.example/x"))
    note_removed(tmp_path, [host], now=1_795_000_000)
    again = note_removed(tmp_path, [host, page_], now=1_795_000_009, telling=Telling(reason="legal"))
    assert (tmp_path / "removed.json").read_bytes() == (
        b'{"format":2,"lived_s":9.0,"seen_s":1795000009,"rules":['
        b'{"kind":"host","name":"example.org","removed":1795000000,"state":"hidden","at_s":0.0},'
        b'{"kind":"url","name":"https://a.example/x","removed":1795000009,"state":"hidden","at_s":9.0,'
        b'"telling":{"reason":"legal"}}]}'
    )
    assert (tmp_path / "removed.json").stat().st_mode & 0o777 == 0o600
    assert removals_of(tmp_path) == removals_in(again)
    after, unknown = forget_removed(tmp_path, subjects(("host", "b.example"), ("url", "http://a.example/x")))
    assert [rule.subject for rule in after.rules] == [host, page_]
    assert unknown == subjects(("host", "b.example"), ("url", "http://a.example/x"))
    after, unknown = forget_removed(tmp_path, [page_])
    assert ([rule.subject for rule in after.rules], unknown) == ([host], [])


def test_a_note_of_an_earlier_release_says_what_was_erased(tmp_path: Path) -> None:
    (tmp_path / "removed.json").write_bytes(
        b'{"format":1,"hosts":[{"name":"example.org","removed":1795000000}],'
        b'"urls":[{"name":"https://a.example/x","removed":1795000009}]}'
    )
    found = removals_of(tmp_path)
    for url in ("http://www.example.org/", "http://a.example/x"):
        assert found.covers(url)
        assert found.declines(url, bytes(32))
    note_removed(tmp_path, subjects(("host", "example.org"), ("host", "c.example")), now=1_795_000_010)
    states = {rule.name: rule.state for rule in read_removed(tmp_path).rules}
    assert states == {"example.org": "erased", "https://a.example/x": "erased", "c.example": "hidden"}


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b'{"format":1,"hosts":[{"name":"a b","removed":1}]}',
        b'{"format":2,"rules":[{"kind":"host","name":"A.example","removed":1,"state":"hidden"}]}',
        b'{"format":2,"rules":[{"kind":"host","name":"a.example","removed":1,"state":"gone"}]}',
        b'{"format":2,"rules":[{"kind":"host","name":"a.example","removed":1}]}',
        b'{"format":3}',
        b"\xff",
    ],
)
def test_a_note_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "removed.json").write_bytes(content)
    with pytest.raises(FileSyntaxError, match=r"removed\.json (is damaged|has format 3)"):
        removals_of(tmp_path)


def test_the_note_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.home.removed.REMOVED_MAX", 2)
    note_removed(tmp_path, subjects(("host", "a.example"), ("host", "b.example")), now=1)
    with pytest.raises(TooManyRemoved, match="remove whole hosts"):
        note_removed(tmp_path, subjects(("url", "https://c.example/")), now=1)
    assert len(read_removed(tmp_path).rules) == 2


def test_a_crawl_takes_no_link_that_was_removed() -> None:
    removals = Removals.of(hosts=["example.org"], urls=[])
    scope = CrawlScope(is_removed=removals.covers)
    assert scope.refuses_url("http://www.example.org/") == "removed"
    assert scope.refuses_url("http://other.example/") is None


# -- the command ------------------------------------------------------------------------------------------


def test_a_page_goes_in_both_schemes_and_does_not_come_back(home: Path, file: Path) -> None:
    assert there(home) == {*PAGES, "HTTP://Example.ORG/Odd"}
    gone = called("remove", "--home", home, "--json", "example.org/private?x=1")
    assert gone.code == 0, gone.err
    assert (gone.json["captures"], gone.json["addresses"]) == (4, 2)
    left = {url for url in PAGES if "private" not in url}
    assert there(home) & set(PAGES) == left
    again = called("import", "--home", home, file)
    assert "deleted here, so not taken back" in again.err
    assert there(home) & set(PAGES) == left
    assert called("verify", "--home", home).code == 0


def test_a_host_goes_with_all_below_it_whatever_brings_it_back(home: Path, tmp_path: Path) -> None:
    called("seed", "add", "--home", home, "http://example.org/", "http://other.example/")
    gone = called("remove", "--home", home, "--host", "example.org", "--json")
    assert gone.code == 0, gone.err
    assert gone.json["captures"] == 11
    assert there(home) == {"http://example.organic/", "http://other.example/"}
    assert [seed.url for seed in seeds_of(home)] == ["http://other.example/"]
    fresh = tmp_path / "fresh"
    fresh.mkdir()
    archive = open_on(fresh)
    store(archive, page("http://new.example.org/never/seen", NOW_S, b"x"))
    out = BytesIO()
    export_warc(archive, out)
    archive.close()
    (tmp_path / "fresh.warc.gz").write_bytes(out.getvalue())
    assert "1 deleted here" in called("import", "--home", home, tmp_path / "fresh.warc.gz").err

    listed = called("remove", "--home", home, "--list", "--json").json
    assert [(one["kind"], one["name"]) for one in listed] == [("host", "example.org")]
    assert called("remove", "--home", home, "--forget", "--host", "example.org").code == 0
    assert called("import", "--home", home, tmp_path / "fresh.warc.gz").code == 0
    assert called("history", "--home", home, "http://new.example.org/never/seen").code == 0


@pytest.mark.parametrize("is_sealed", [False, True])
def test_erasing_takes_the_bytes_from_the_disk(home: Path, is_sealed: bool) -> None:
    if is_sealed:  # what was sealed before takes another way than what is in the log
        called("remove", "--home", home, "--erase", "--yes", "http://nobody.example/")
        assert not list((home / "archive" / "log").glob("0*1.warc.gz"))
    unpacked = [_unpacked(file) for file in _files(home)]
    assert sum(body.count(SECRET) for body in unpacked) >= 5
    gone = called("remove", "--home", home, "--host", "example.org", "--erase", "--yes", "--json")
    assert (gone.code, gone.json["rewritten"] > 0) == (0, True), gone.err
    assert sum(_unpacked(file).count(SECRET) for file in _files(home)) == 0
    assert there(home) == {"http://example.organic/", "http://other.example/"}
    assert called("verify", "--home", home).code == 0


def _files(home: Path) -> list[Path]:
    return list((home / "archive").rglob("*.warc.*"))


def _unpacked(file: Path) -> bytes:
    if file.suffix == ".gz":
        return gzip.decompress(file.read_bytes())
    with (
        file.open("rb") as packed,
        zstandard.ZstdDecompressor().stream_reader(packed, read_across_frames=True) as out,
    ):
        return out.read()


def test_what_is_no_name_is_refused(home: Path) -> None:
    for arguments in (["--host", "http://a.example/"], ["--host", "a b"], ["http://[/"], []):
        assert called("remove", "--home", home, *arguments).code == 2, arguments
    assert not (home / "state" / "removed.json").exists()


@pytest.mark.e2e
def test_a_running_peer_removes_and_keeps_away(home: Path, file: Path) -> None:
    with running(home) as peer:
        shown = f"{peer.http}/web/20231114221320id_/http://www.example.org/deep/er"
        for _ in range(2):  # the second answer is one that is kept
            with urllib.request.urlopen(shown, timeout=WAIT_S) as answer:
                assert SECRET in answer.read()
        gone = called("remove", "--home", home, "--host", "example.org", "--erase", "--yes", "--json")
        assert gone.code == 0, gone.err
        assert gone.json["captures"] == 11
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(shown, timeout=WAIT_S)
        assert there(home) == {"http://example.organic/", "http://other.example/"}
        called("import", "--home", home, file)
        assert there(home) == {"http://example.organic/", "http://other.example/"}
        assert peer.end()[0] == 0
    assert there(home) == {"http://example.organic/", "http://other.example/"}


def test_a_full_archive_takes_nothing_in_and_lets_things_be_removed(home: Path, file: Path) -> None:
    full = {"HERODOTUS_BUDGET_DISK_GB_MAX": "0.000001"}  # 1 kB
    refused = called("import", "--home", home, "--resume-at", "0", file, environment=full)
    assert refused.code == 0, "what is known already needs no room"
    new = new_home(home.parent / "another")
    refused = called("import", "--home", new, file, environment=full)
    assert refused.code == 1
    assert "the archive is full: it may have 1000 bytes" in refused.err
    assert called("remove", "--home", home, "--host", "example.org", environment=full).code == 0
    assert there(home) == {"http://example.organic/", "http://other.example/"}
