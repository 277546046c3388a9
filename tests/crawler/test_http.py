"""What the crawler's own HTTP client does beyond what it shares with the one that judges it."""

import asyncio

import anyio
import pytest

from crawler.core.capture import Capture, FetchOutcome, payload_digests
from crawler.core.errors import TooLateError, TooSlowError, UnreachableError
from crawler.http import FetchSettings, HttpFetcher
from crawler.ports import LARGE_BODIES_AT_ONCE, FetchRequest, FreeRoom, FreeSlot
from tests.crawler.origin import origin, says

pytestmark = pytest.mark.anyio


def fetcher(body_timeout_s: float = 60.0) -> HttpFetcher:
    settings = FetchSettings(allow_private_addresses=True, body_timeout_s=body_timeout_s)
    return HttpFetcher(settings, wall_clock=lambda: 1.0)


async def test_a_validator_goes_back_byte_for_byte() -> None:
    async with origin({"/": says(b"HTTP/1.1 304 Not Modified\r\n\r\n")}) as served, fetcher() as client:
        await client.fetch(FetchRequest(url=served.url(), etag=b'"\xc3\xa9\xff"'.decode("latin-1")))
        assert b'\r\nIf-None-Match: "\xc3\xa9\xff"\r\n' in served.requests[0]


async def test_a_server_that_ends_kept_connections_sees_a_request_twice_once_and_never_again() -> None:
    async def ends(writer: asyncio.StreamWriter) -> None:
        writer.close()

    kept = says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")
    async with origin({"/": kept, "/ends": ends}) as served, fetcher() as client:
        for _ in range(3):
            await client.fetch(FetchRequest(url=served.url()))
            with pytest.raises(UnreachableError):
                await client.fetch(FetchRequest(url=served.url("/ends")))
        paths = [head.split(b" ")[1] for head in served.requests]
        assert paths == [b"/", b"/ends", b"/ends", b"/", b"/ends", b"/", b"/ends"]


async def test_a_name_that_dns_cannot_be_asked_for_has_no_address() -> None:
    async with fetcher() as client:
        assert await client.address_of("x" * 64 + ".example") == ""


async def test_waiting_for_other_large_bodies_is_not_held_against_an_origin() -> None:
    body = b"x" * (2 * 2**20)
    answer = says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
    async with origin({"/": answer}) as served, fetcher(body_timeout_s=1.0) as client:
        for _ in range(LARGE_BODIES_AT_ONCE):
            await client._bodies.large.acquire()
        asyncio.get_running_loop().call_later(1.2, client._bodies.large.release)
        with anyio.fail_after(60):
            capture = await client.fetch(FetchRequest(url=served.url()))
        assert isinstance(capture, Capture)
        assert (capture.truncated, capture.body == body) == (None, True)


async def test_a_304_that_nobody_asked_for_is_no_word_of_an_unchanged_page() -> None:
    """The digest is sent along to compare bodies; without a validator there was no condition."""
    digest, _ = payload_digests(b"known")
    async with origin({"/": says(b"HTTP/1.1 304 Not Modified\r\n\r\n")}) as served, fetcher() as client:
        unasked = await client.fetch(FetchRequest(url=served.url(), digest=digest))
        asked = await client.fetch(FetchRequest(url=served.url(), digest=digest, etag='"e"'))
    assert isinstance(unasked, Capture)
    assert isinstance(asked, Capture)
    assert (unasked.outcome, unasked.sha256 == digest) == (FetchOutcome.STORED, False)
    assert (asked.outcome, asked.sha256) == (FetchOutcome.NOT_MODIFIED, digest)


@pytest.mark.parametrize("end", ["\r\n", "\n", "\r"])
async def test_a_validator_cannot_add_a_line_to_our_request(end: str) -> None:
    async with origin({"/": says(b"HTTP/1.1 304 Not Modified\r\n\r\n")}) as served, fetcher() as client:
        bad = f'"e"{end}X-Smuggled: yes{end}'
        await client.fetch(FetchRequest(url=served.url(), etag=bad, last_modified=bad))
    (head,) = served.requests
    fields = [line.partition(b":")[0] for line in head.replace(b"\r", b"\n").split(b"\n") if line][1:]
    assert fields == [
        b"Host", b"User-Agent", b"Accept", b"Accept-Encoding", b"If-None-Match", b"If-Modified-Since",
    ]  # fmt: skip


class SlowRoom(FreeRoom):
    """There is room for a connection only after some moment."""

    until = 0.0

    async def enter(self) -> FreeSlot:
        is_there = asyncio.Event()
        asyncio.get_running_loop().call_at(self.until + 0.01, is_there.set)
        await is_there.wait()
        return FreeSlot()


async def test_a_request_whose_lease_ended_before_its_connection_was_there_is_not_sent() -> None:
    """From then on another peer may ask the same host: two requests a delay apart would come at once."""
    room = SlowRoom()
    settings = FetchSettings(allow_private_addresses=True, room=room, keepalive_s=1_000)
    async with (
        origin({"/": says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")}) as served,
        HttpFetcher(settings, wall_clock=lambda: 1.0) as client,
    ):
        room.until = asyncio.get_running_loop().time() + 0.2
        late = FetchRequest(url=served.url(), address="127.0.0.1", starts_by=room.until)
        with pytest.raises(TooLateError) as caught:
            await client.fetch(late)
        assert caught.value.late_s > 0
        assert served.requests == []
        await client.fetch(FetchRequest(url=served.url(), address="127.0.0.1"))
        with anyio.fail_after(30):
            while served.open > 1:  # the late one ends: it was opened under a lease that is over
                await anyio.lowlevel.checkpoint()
        assert (served.connections, len(served.requests)) == (2, 1)


async def test_a_connection_is_not_used_nor_opened_under_a_lease_that_is_over() -> None:
    """A fetch may have waited long for its place among the others."""
    async with (
        origin({"/": says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")}) as served,
        fetcher() as client,
    ):
        over = FetchRequest(url=served.url(), starts_by=asyncio.get_running_loop().time() - 0.002)
        with pytest.raises(TooLateError):
            await client.fetch(over)
        assert served.connections == 0
        await client.fetch(FetchRequest(url=served.url()))
        with pytest.raises(TooLateError):
            await client.fetch(over)
        assert len(served.requests) == 1


async def test_a_host_for_which_no_lease_is_long_enough_counts_as_too_slow() -> None:
    async with (
        origin({"/": says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")}) as served,
        fetcher() as client,
    ):
        over = FetchRequest(url=served.url(), starts_by=asyncio.get_running_loop().time() - 0.002)
        found = []
        for is_over in (True, True, False, *[True] * 9):
            try:
                await client.fetch(over if is_over else FetchRequest(url=served.url()))
            except (TooLateError, TooSlowError) as error:
                found.append(type(error))
        assert found == [TooLateError] * 9 + [TooSlowError, TooLateError]
