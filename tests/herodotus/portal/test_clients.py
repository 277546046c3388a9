"""Do other people's clients of web archives work against a peer, as they are?

Two of them know one archive only, by its name. Their connections to that name are led to the peer, which is told
that it is called so; nothing else of them is changed.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit, urlunsplit

import cdx_toolkit.myrequests
import pytest
import requests
from cdx_toolkit import CDXFetcher
from memento_client import MementoClient
from requests.adapters import HTTPAdapter
from wayback import Mode, WaybackClient, WaybackSession
from wayback.exceptions import MementoPlaybackError
from waybackpy import WaybackMachineAvailabilityAPI, WaybackMachineCDXServerAPI

from tests.herodotus.portal.library import HOME, SITE, response
from tests.herodotus.portal.shelves import peer_with

pytestmark = pytest.mark.e2e
KNOWN_NAME = "web.archive.org"


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    pages = [response(HOME, f"202601{day:02}060000", b"<p>day %d" % day) for day in (1, 2, 5, 9, 20)]
    style = response(f"{SITE}/style.css", "20260101060001", b"p{color:red}", "text/css")
    folder = tmp_path_factory.mktemp("clients")
    with peer_with(folder, *pages, style, public_url=f"https://{KNOWN_NAME}") as running:
        yield running.http


@pytest.fixture
def by_name(peer: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
