"""Do other people's clients of web archives work against a peer, as they are?

Two of them know one archive only, by its name. Their connections to that name are led to the peer, which is told
that it is called so; nothing else of them is changed.
"""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import anyio
import cdx_toolkit.myrequests
import pytest
import requests
import savepagenow
from cdx_toolkit import CDXFetcher
from memento_client import MementoClient
from requests.adapters import HTTPAdapter
from requests.utils import parse_header_links
from wayback import Mode, WaybackClient, WaybackSession
from wayback.exceptions import MementoPlaybackError
from waybackpack import Pack, Session
from waybackpack.cdx import search as waybackpack_search
from waybackpy import WaybackMachineAvailabilityAPI, WaybackMachineCDXServerAPI, WaybackMachineSaveAPI

from herodotus.core.settings.sections import HttpSettings
from herodotus.portal import Portal
from tests.herodotus.portal.library import HOME, SITE, no_cache, response
from tests.herodotus.portal.rooms import Room
from tests.herodotus.portal.shelves import peer_with
from tests.herodotus.portal.test_save_pages import NOW_S, OwnSaves
from tests.herodotus.portal.test_server import LOOPBACK

pytestmark = pytest.mark.e2e
KNOWN_NAME = "web.archive.org"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pages = [response(HOME, f"202601{day:02}060000", b"<p>day %d" % day) for day in (1, 2, 5, 9, 20)]
    style = response(f"{SITE}/style.css", "20260101060001", b"p{color:red}", "text/css")
    plain = [response("http://example.com/", f"2026020{day}", b"plain %d" % day) for day in (1, 1, 3)]
    safe = response("https://www.example.com/", "20260202", b"safe 2")
    folder = tmp_path_factory.mktemp("clients")
    with peer_with(folder, *pages, style, *plain, safe, public_url=f"https://{KNOWN_NAME}") as running:
        yield running.http


@pytest.fixture
def by_name(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lead_to(peer, monkeypatch)


def lead_to(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a resolver would do."""
    send = HTTPAdapter.send

    def led(
        self: HTTPAdapter, request: requests.PreparedRequest, *rest: Any, **options: Any
    ) -> requests.Response:
        asked = urlsplit(str(request.url))
        if asked.hostname in (KNOWN_NAME, "archive.org"):
            request.headers["Host"] = KNOWN_NAME
            request.url = urlunsplit(("http", urlsplit(peer).netloc, *asked[2:]))
            answer = send(self, request, *rest, **options)
            answer.url = urlunsplit(asked)
            return answer
        return send(self, request, *rest, **options)

    monkeypatch.setattr(HTTPAdapter, "send", led)


def unhurried() -> WaybackSession:
    """Its pauses are meant for somebody else's servers; so are those that the tests below take away."""
    return WaybackSession(search_calls_per_second=1000, memento_calls_per_second=1000)


@pytest.mark.usefixtures("by_name")
def test_wayback_searches_and_reads_mementos() -> None:
    with WaybackClient(unhurried()) as client:
        found = list(client.search(HOME, from_date=datetime(2026, 1, 2, tzinfo=UTC)))
        assert [one.timestamp.day for one in found] == [2, 5, 9, 20]
        assert (found[0].statuscode, found[0].mimetype, found[0].original) == (200, "text/html", HOME)
        memento = client.get_memento(found[1])
        assert memento.text == "<p>day 5"
        assert memento.memento_url == f"https://{KNOWN_NAME}/web/20260105060000id_/{HOME}"
        assert memento.links["prev memento"]["url"].startswith(f"https://{KNOWN_NAME}/web/20260102060000")
        view = client.get_memento(HOME, timestamp=datetime(2026, 1, 9, 6, tzinfo=UTC), mode=Mode.view)
        assert "day 9" in view.text
        near = client.get_memento(HOME, timestamp=datetime(2026, 1, 3, tzinfo=UTC), exact=False)
        assert near.timestamp == datetime(2026, 1, 2, 6, tzinfo=UTC)
        with pytest.raises(MementoPlaybackError):
            client.get_memento(f"{SITE}/gone", timestamp="20260101000000")
        assert list(client.search("nobody.example")) == []
        site = list(
            client.search(SITE, match_type="prefix", collapse="urlkey", filter_field="mimetype:text/css")
        )
        assert [one.original for one in site] == [f"{SITE}/style.css"]


@pytest.mark.usefixtures("by_name")
def test_wayback_follows_a_long_answer_by_its_resume_key() -> None:
    with WaybackClient(unhurried()) as client:
        found = list(client.search(SITE, match_type="domain", limit=2))
    assert [one.timestamp.day for one in found] == [1, 2, 5, 9, 20, 1]


@pytest.mark.usefixtures("by_name")
def test_waybackpy_finds_by_availability_and_cdx() -> None:
    api = WaybackMachineAvailabilityAPI(HOME, "test")
    api.api_call_time_gap = 0
    assert api.near(year=2026, month=1, day=6, hour=0, minute=0).archive_url == (
        f"https://{KNOWN_NAME}/web/20260105060000/{HOME}"
    )
    assert api.oldest().timestamp() == datetime(2026, 1, 1, 6)  # noqa: DTZ001  # the library's own form
    assert api.newest().timestamp() == datetime(2026, 1, 20, 6)  # noqa: DTZ001
    found = WaybackMachineCDXServerAPI(HOME, "test", start_timestamp="20260102", end_timestamp="20260109")
    assert [one.timestamp for one in found.snapshots()] == [
        "20260102060000",
        "20260105060000",
        "20260109060000",
    ]
    near = WaybackMachineCDXServerAPI(HOME, "test").near(year=2026, month=1, day=8)
    assert near.timestamp == "20260109060000"
    assert WaybackMachineCDXServerAPI(HOME, "test").oldest().timestamp == "20260101060000"
    assert WaybackMachineCDXServerAPI(HOME, "test").newest().timestamp == "20260120060000"


def test_cdx_toolkit_lists_captures(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cdx_toolkit.myrequests.retry_info["default"], "minimum_interval", 0)
    fetcher = CDXFetcher(source=f"{peer}/cdx/search/cdx")
    found = list(fetcher.iter(HOME, limit=3))
    assert [one["timestamp"] for one in found] == ["20260101060000", "20260102060000", "20260105060000"]
    site = list(fetcher.iter(f"{SITE}/*", limit=100, filter="=status:200"))
    assert {one["url"] for one in site} == {HOME, f"{SITE}/style.css"}
    assert len(fetcher.get(HOME, from_ts="20260105", to="20260109")) == 2


def test_memento_client_negotiates_a_date(peer: str) -> None:
    client = MementoClient(timegate_uri=f"{peer}/web/", check_native_timegate=False)
    try:
        # By the address of a memento, as it would ask the live web for the page's own.
        page = f"{peer}/web/20260120060000/{HOME}"
        info = client.get_memento_info(page, datetime(2026, 1, 6, tzinfo=UTC).replace(tzinfo=None))
    finally:
        client.session.close()
    mementos = info["mementos"]
    assert info["original_uri"] == HOME
    assert mementos["closest"]["uri"] == [f"{peer}/web/20260105060000/{HOME}"]
    assert mementos["closest"]["datetime"] == datetime(2026, 1, 5, 6)  # noqa: DTZ001  # the library's own form
    assert mementos["first"]["uri"] == [f"{peer}/web/20260101060000/{HOME}"]
    assert mementos["last"]["uri"] == [f"{peer}/web/20260120060000/{HOME}"]


def test_cdx_toolkit_reads_what_it_lists(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(cdx_toolkit.myrequests.retry_info["default"], "minimum_interval", 0)
    fetcher = CDXFetcher(source=f"{peer}/cdx/search/cdx", wb=f"{peer}/web")
    found = list(fetcher.iter(HOME, limit=2))
    assert [one.content for one in found] == [b"<p>day 1", b"<p>day 2"]
    assert not found[0].is_revisit()
    for one in found:
        one.fetch_warc_record().raw_stream.close()


@pytest.mark.usefixtures("by_name")
def test_waybackpack_takes_every_version(tmp_path: Path) -> None:
    unhurried = Session(max_retries=0, delay_retry=0)
    listed = waybackpack_search(HOME, from_date="20260102", to_date="20260109", session=unhurried)
    assert [one["timestamp"][6:8] for one in listed] == ["02", "05", "09"]
    Pack(HOME, timestamps=[one["timestamp"] for one in listed], session=unhurried).download_to(
        str(tmp_path / "raw"), raw=True
    )
    assert taken(tmp_path / "raw") == {
        f"202601{day:02}060000/example.org/index.html": b"<p>day %d" % day for day in (2, 5, 9)
    }


@pytest.mark.parametrize("asked", ["example.com", "http://example.com/", "https://example.com/"])
@pytest.mark.usefixtures("by_name")
def test_waybackpack_takes_what_is_listed_of_other_spellings(asked: str, tmp_path: Path) -> None:
    """It follows no redirects, and puts the dates of all spellings before the one that it was given."""
    unhurried = Session(max_retries=0, delay_retry=0)
    Pack(asked, uniques_only=True, session=unhurried).download_to(str(tmp_path), raw=True)
    assert sorted(taken(tmp_path).values()) == [b"plain 1", b"plain 3", b"safe 2"]
    Pack(asked, session=unhurried).download_to(str(tmp_path / "whole"))
    assert all(b"safe" in body or b"plain" in body for body in taken(tmp_path / "whole").values())


def taken(folder: Path) -> dict[str, bytes]:
    files = (file for file in folder.rglob("*") if file.is_file())
    return {str(file.relative_to(folder)): file.read_bytes() for file in files}


def test_a_reader_of_timemaps_learns_every_memento(peer: str) -> None:
    """As aggregators do: by the relations and dates of the links, in each of the forms."""
    link = requests.get(f"{peer}/web/timemap/link/{HOME}", timeout=10).text
    mementos = [one for one in parse_header_links(link.replace("\n", " ")) if "memento" in one["rel"].split()]
    json_form = requests.get(f"{peer}/web/timemap/json/{HOME}", timeout=10).json()["mementos"]
    rows = requests.get(f"{peer}/web/timemap/cdxj/{HOME}", timeout=10).text.splitlines()
    addresses = [one["url"] for one in mementos]
    assert [one["uri"] for one in json_form["list"]] == addresses
    assert [json.loads(row.split(" ", 2)[2])["uri"] for row in rows if row[0] != "!"] == addresses
    assert (json_form["first"]["uri"], json_form["last"]["uri"]) == (addresses[0], addresses[-1])
    for address, memento in zip(addresses, mementos, strict=True):
        answer = requests.get(f"{peer}/web/{address.partition('/web/')[2]}", timeout=10)
        assert answer.headers["Memento-Datetime"] == memento["datetime"]


@pytest.mark.parametrize("form", ["json", "cdx", ""])
def test_lists_where_the_pages_of_the_wayback_machine_ask_for_them(peer: str, form: str) -> None:
    asked = {"url": HOME, "collapse": "digest", "fl": "timestamp", "limit": "2"}
    text = requests.get(f"{peer}/web/timemap/{form}", params=asked, timeout=10).text
    assert text == (
        '[["timestamp"],\n["20260101060000"],\n["20260102060000"]]\n'
        if form == "json"
        else "20260101060000\n20260102060000\n"
    )


def test_pages_are_saved_by_the_clients_that_ask_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    date = datetime.fromtimestamp(NOW_S, UTC).strftime("%Y%m%d%H%M%S")
    saves = OwnSaves()
    room = Room(response(HOME, date, b"<p>saved"), saves=saves, public_url=f"https://{KNOWN_NAME}")
    settings = HttpSettings(listen=LOOPBACK, public_url=f"https://{KNOWN_NAME}")

    async def run() -> None:
        portal = Portal(settings, room.handlers, no_cache())
        with anyio.fail_after(60):
            async with portal.serving(stop_s=0.5):
                lead_to(f"http://127.0.0.1:{portal.endpoint.port}", monkeypatch)
                await anyio.to_thread.run_sync(ask)

    def ask() -> None:
        memento = f"https://{KNOWN_NAME}/web/{date}/{HOME}"
        assert savepagenow.capture(HOME) == memento
        assert savepagenow.capture_or_cache(HOME) == (memento, True)
        api = WaybackMachineSaveAPI(HOME, "test", max_tries=1)
        assert api.save() == memento

    anyio.run(run)
    assert saves.urls == [HOME] * 3
