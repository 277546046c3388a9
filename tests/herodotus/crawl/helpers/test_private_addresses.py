"""Does a helper connect where no window should lead? With the fetcher that peers have, and a server on this machine."""

import anyio
import pytest

from crawler.http import FetchSettings, HttpFetcher
from herodotus.crawl.helpers.helping import Times
from herodotus.crawl.helpers.wire import BODY_BYTES_MAX, Item
from tests.crawler.origin import origin, says
from tests.herodotus.crawl.helpers.working import Web, helping_with, wall, window_for

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("is_allowed", [False, True])
async def test_a_helper_connects_to_no_private_address_whatever_its_owner_shows(is_allowed: bool) -> None:
    page = says(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 9\r\n\r\n<p>inside")
    async with (
        origin({"/": page}) as server,
        HttpFetcher(FetchSettings(allow_private_addresses=is_allowed), wall_clock=wall) as fetcher,
    ):
        url = f"http://inside.example:{server.port}/"
        window = window_for(url, addresses=["127.0.0.1"])
        now = anyio.current_time()
        found = await helping_with(Web(), fetcher=fetcher).fetched(
            0,
            Item(url, "", "", 5_000, "127.0.0.1", BODY_BYTES_MAX, window),
            Times(got=now, starts_by=now + 5.0, due=now + 10.0),
        )
        asked = len(server.requests)
    if is_allowed:  # so it is the address alone that keeps it out
        assert (found.status, found.body, found.address, asked) == (200, b"<p>inside", "127.0.0.1", 1)
    else:
        assert (found.status, found.word, asked) == (0, "ForbiddenAddressError", 0)
