"""What other people's tools recorded comes in whole: each payload, status and date as the server sent them."""

import re
import subprocess
from collections.abc import Iterator
from io import BytesIO
from pathlib import Path

import anyio
import pytest

from herodotus.home import clock
from herodotus.store.foreign_records import ForeignRecord, RecordReader
from herodotus.store.warc_import import ImportReport, import_file
from tests.herodotus.store.judging import BARE, PYTHON, WAIT_S, fetch, judge, pywb, run, system_tool
from tests.herodotus.store.making import NOW_S
from tests.herodotus.store.memory_store import MemoryStore
from tests.herodotus.store.sending import Site, serving

pytestmark = [pytest.mark.anyio, pytest.mark.e2e]
HERE = Path(__file__).parent
END_S = 2**32 - 1


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with serving() as site:
        yield site


async def _import(data: bytes, store: MemoryStore) -> ImportReport:
    report = await import_file(store, BytesIO(data))
    assert (report.skipped, report.problems) == (0, [])
    return report


async def _check(
    store: MemoryStore, site: Site, from_s: float, to_s: float, *, requests: bool = True
) -> None:
    """Everything that was sent is there, as it was sent, when it was sent."""
    for path, sent in site.pages.items():
        found = await store.newest(site.address + path, END_S)
        assert found is not None, path
        assert (found.status, found.body) == (sent.status, sent.body), path
        assert int(from_s) <= found.time_s <= to_s
        for name, value in sent.headers:
            assert f"\r\n{name}: {value}\r\n".encode() in found.head
        if requests:
            [request] = [record for record in found.companions if record.kind == "request"]
            assert request.block.startswith(f"GET {path} HTTP/1.".encode())


def _wget(folder: Path, site: Site, *options: str) -> None:
    words = [system_tool("wget"), "-q", "-O", "/dev/null", "--max-redirect=0", *options, *site.urls]
    done = subprocess.run(words, cwd=folder, env=BARE, timeout=WAIT_S, check=False)
    assert done.returncode == 8  # one of the answers was an error, as it should be


@pytest.mark.needs("wget")
async def test_wget(site: Site, tmp_path: Path) -> None:
    store, begun = MemoryStore(lambda: float(NOW_S)), clock.unix_seconds()
    _wget(tmp_path, site, "--warc-file=first", "--warc-cdx")
    ended = clock.unix_seconds()
    report = await _import((tmp_path / "first.warc.gz").read_bytes(), store)
    assert report.stored + report.revisits == len(site.pages) + 2  # what wget was asked to do, and its log
    await _check(store, site, begun, ended)

    _wget(tmp_path, site, "--warc-file=second", "--no-warc-compression", "--warc-dedup=first.cdx")
    second = (tmp_path / "second.warc").read_bytes()
    assert second.count(b"WARC-Type: revisit") == len(site.pages) - 1  # not of the empty one
    # A year later: they were recorded in one second, which would be the same captures once more.
    second = re.sub(rb"(?<=WARC-Date: )\d{4}", lambda match: b"%d" % (int(match[0]) + 1), second)
    report = await _import(second, store)
    assert report.revisits == len(site.pages) - 1
    await _check(store, site, ended, begun + 370 * 86_400)


@pytest.mark.needs(judge("warcio"))
async def test_warcio(site: Site, tmp_path: Path) -> None:
    store, begun = MemoryStore(lambda: float(NOW_S)), clock.unix_seconds()
    run(PYTHON, HERE / "warcio_child.py", "out.warc.gz", *site.urls, cwd=tmp_path)
    report = await _import((tmp_path / "out.warc.gz").read_bytes(), store)
    assert report.stored + report.revisits == len(site.pages)
    await _check(store, site, begun, clock.unix_seconds())


@pytest.mark.needs(judge("scrapy"))
async def test_scrapy(site: Site, tmp_path: Path) -> None:
    store, begun = MemoryStore(lambda: float(NOW_S)), clock.unix_seconds()
    run(PYTHON, HERE / "scrapy_child.py", "out.warc.gz", *site.urls, cwd=tmp_path)
    report = await _import((tmp_path / "out.warc.gz").read_bytes(), store)
    assert report.stored + report.revisits == len(site.pages)
    await _check(store, site, begun, clock.unix_seconds(), requests=False)


@pytest.mark.needs(judge("pywb"), judge("wb-manager"))
async def test_the_recorder_of_pywb(site: Site, tmp_path: Path) -> None:
    store, begun = MemoryStore(lambda: float(NOW_S)), clock.unix_seconds()
    run(judge("wb-manager"), "init", "site", cwd=tmp_path)
    with pywb(tmp_path, recorder="live", collections={"live": "$live"}) as address:
        for url in site.urls:
            fetch(f"{address}/site/record/id_/{url}")
        # It writes after it has answered.
        for _ in range(WAIT_S * 50):
            if len(_recorded(tmp_path)) == len(site.pages):
                break
            await anyio.sleep(0.02)
    files = list((tmp_path / "collections" / "site" / "archive").iterdir())
    for path in files:
        await _import(path.read_bytes(), store)
    await _check(store, site, begun, clock.unix_seconds(), requests=False)


def _recorded(folder: Path) -> list[str]:
    found = []
    for path in (folder / "collections" / "site" / "archive").iterdir():
        items = RecordReader(BytesIO(path.read_bytes()))
        found += [
            item.record.url or ""
            for item in items
            if isinstance(item, ForeignRecord) and item.record.kind == "request"
        ]
    return found
