"""Does the server stay polite and bounded, whatever comes over a real socket?"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass

import anyio
import anyio.abc
import anyio.lowlevel
import pytest

from herodotus.core.admission import CROWD_FROM
from herodotus.core.errors import PortTaken
from herodotus.core.settings.fields import HostPort
from herodotus.core.settings.sections import HttpSettings
from herodotus.core.status import PeerStatus
from herodotus.portal import Portal, http_connection, server
from herodotus.portal.answer import Answer, Request
from herodotus.portal.handlers import Handlers
from herodotus.portal.http_connection import Entry, HttpConnection
from tests.herodotus.portal.library import no_cache
from tests.herodotus.portal.statuses import STATUS

pytestmark = pytest.mark.anyio


@pytest.fixture(params=[False, True], ids=["asyncio", "uvloop"])
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, bool]]:
    """uvloop is what peers run on, where there is one."""
    return "asyncio", {"use_uvloop": request.param}


async def status() -> PeerStatus:
    return STATUS


LOOPBACK = HostPort(host="127.0.0.1", port=0)


@asynccontextmanager
async def portal(
    *, connections_max: int = 8, per_address: int = 32, idle_s: float = 30, listen: HostPort = LOOPBACK
) -> AsyncIterator[Portal]:
    settings = HttpSettings(
        listen=listen, connections_max=connections_max, connections_per_address=per_address, idle_s=idle_s
    )
    made = Portal(settings, Handlers(status), no_cache())
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5):
            yield made


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes


async def connect(portal: Portal) -> anyio.abc.SocketStream:
    return await anyio.connect_tcp(portal.endpoint.host, portal.endpoint.port)


async def received(stream: anyio.abc.ByteReceiveStream) -> bytes:
    """Everything until the other end closes; a reset ends it, too."""
    whole = bytearray()
    with suppress(anyio.BrokenResourceError):
        async for part in stream:
            whole += part
    return bytes(whole)


async def exchange(portal: Portal, request: bytes) -> Reply:
    async with await connect(portal) as stream:
        with suppress(anyio.BrokenResourceError):  # refused before all of it was sent
            await stream.send(request)
        return parsed(await received(stream))


def parsed(raw: bytes) -> Reply:
    head, _, body = raw.partition(b"\r\n\r\n")
    first, *lines = head.decode().split("\r\n")
    headers = dict(line.split(": ", 1) for line in lines)
    return Reply(status=int(first.split(" ")[1]), headers=headers, body=body)


def request(path: str = "/healthz", method: str = "GET", *headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", *headers]
    return "\r\n".join([*lines, "", ""]).encode()


async def test_a_page_travels_with_its_headers_and_length() -> None:
    async with portal() as served:
        reply = await exchange(served, request("/"))
    assert reply.status == 200
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in reply.headers["Content-Security-Policy"]
    assert int(reply.headers["Content-Length"]) == len(reply.body)
    assert b"Halikarnassos" in reply.body


@pytest.mark.parametrize(("version", "is_old"), [("1.0", True), ("1.1", False)])
async def test_the_old_tongue_of_a_proxy_is_noticed(version: str, is_old: bool) -> None:
    seen: list[bool] = []

    class Noting(Handlers):
        async def answer(self, request: Request) -> Answer:
            seen.append(request.is_http_1_0)
            return await super().answer(request)

    made = Portal(HttpSettings(listen=LOOPBACK), Noting(status), no_cache())
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5):
            await exchange(made, request().replace(b"HTTP/1.1", f"HTTP/{version}".encode()))
    assert seen == [is_old]


async def test_no_answer_waits_for_an_earlier_one_to_be_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    """40 ms each, as other archives' servers take (Nagle and delayed acknowledgements)."""
    options: list[int] = []
    made = HttpConnection.connection_made

    def noting(visitor: HttpConnection, transport: asyncio.BaseTransport) -> None:
        made(visitor, transport)
        accepted = transport.get_extra_info("socket")
        options.append(accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr(HttpConnection, "connection_made", noting)
    async with portal() as served:
        await exchange(served, request("/"))
    assert options == [1]


async def test_head_is_the_same_without_the_body() -> None:
    async with portal() as served:
        full, head = await exchange(served, request("/")), await exchange(served, request("/", "HEAD"))
    assert head.status == 200
    assert head.body == b""
    assert head.headers["Content-Length"] == full.headers["Content-Length"]


async def test_posting_is_refused_with_what_is_allowed() -> None:
    async with portal() as served:
        reply = await exchange(served, request("/", "POST", "Content-Length: 5") + b"hello")
    assert (reply.status, reply.headers["Allow"]) == (405, "GET, HEAD")
    assert reply.headers["Content-Type"] == "application/problem+json"


@pytest.mark.parametrize(
    "path", ["/a?b=c", "//evil.example/", "/%2e%2e/%2e%2e/etc/passwd", "/%ff%00", "/../x", "/a%0Ab"]
)
async def test_odd_paths_are_simply_not_here(path: str) -> None:
    async with portal() as served:
        reply = await exchange(served, request(path))
        assert (reply.status, reply.headers["Content-Type"]) == (404, "text/html; charset=utf-8")


@pytest.mark.parametrize(
    "raw",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) + b"\r\n\r\n",
        b"\x00" * 10_000 + b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Long: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"".join(b"X-%d: a\r\n" % n for n in range(20_000)) + b"\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n",
        b"GET http://[::1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
    ],
    ids=["tls", "zeros", "no path", "version", "long path", "long header", "many headers", "negative length",
         "two lengths", "bad chunk", "bad address"],
)  # fmt: skip
async def test_what_is_not_http_is_refused_and_the_next_reader_is_served(
    raw: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with portal(idle_s=1) as served:
        async with await connect(served) as stream:
            with suppress(anyio.BrokenResourceError):
                await stream.send(raw)
            answered = await received(stream)
        assert not answered or parsed(answered).status in (400, 404, 405, 414, 431, 505)
        assert (await exchange(served, request())).status == 200
        assert served.malformed == 1
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


@pytest.mark.usefixtures("strangers")
async def test_a_connection_too_many_is_told_to_come_back() -> None:
    async with portal(connections_max=8) as served:
        held = [await from_another(served, "127.0.1.9") for _ in range(8)]
        for stream in held:  # an answer on each shows that the server counts it
            assert await answered(stream) == 200
        refused = await from_another(served, "127.0.2.9")
        said = parsed(await received(refused))
        assert (said.status, said.headers["Retry-After"]) == (503, "10")
        assert served.refused == 1
        await held[0].aclose()
        while served.connections == 8:  # until the server has seen the close
            await anyio.lowlevel.checkpoint()
        async with await from_another(served, "127.0.2.9") as stream:
            assert await answered(stream) == 200
        for stream in (*held, refused):
            await stream.aclose()


@pytest.mark.parametrize(
    "begun", [b"", b"GET / HTTP/1.1\r\nHost: pe", b"GET /healthz HTTP/1.1\r\nHost: a\r\n\r\n"]
)
async def test_of_this_machine_the_one_that_asks_nothing_for_longest_gives_way(begun: bytes) -> None:
    async with portal(connections_max=8) as served, AsyncExitStack() as held:
        streams = []
        for number in range(24):
            streams.append(await held.enter_async_context(await connect(served)))
            await streams[-1].send(begun)
            while served.connections + served.refused <= number:
                await anyio.lowlevel.checkpoint()
            assert served.connections <= 8
        assert (await exchange(served, request())).status == 200
        assert served.refused == 24 - 8 + 1
        for stream in streams[:17]:
            await received(stream)  # it ends


class Losing(Handlers):
    """Its readers are gone when their answers are made."""

    served: Portal

    async def answer(self, request: Request) -> Answer:
        for visitor in self.served._visitors.values():
            assert visitor._transport is not None
            visitor._transport.close()
        return Answer(content_type="text/plain", body=b"late")


async def test_a_reader_who_leaves_while_it_is_answered_is_no_mistake_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    handlers = Losing(status)
    handlers.served = made = Portal(HttpSettings(listen=LOOPBACK), handlers, no_cache())
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5), await connect(made) as stream:
            with caplog.at_level(logging.DEBUG, logger="herodotus.portal"):
                await stream.send(request())
                assert await received(stream) == b""
                while made.connections:
                    await anyio.lowlevel.checkpoint()
    assert [one.getMessage() for one in caplog.records if "reader left" in one.getMessage()] != []
    assert [one for one in caplog.records if one.levelno >= logging.WARNING] == []


class Working(Handlers):
    """Its answers take until the end of the test, except for those of whether it is well."""

    async def answer(self, request: Request) -> Answer:
        if request.path != "/healthz":
            await anyio.sleep_forever()
        return await super().answer(request)


async def is_at_work(served: Portal, stream: anyio.abc.SocketStream) -> None:
    await stream.send(request("/web/2026/https://example.org/"))
    while sum(one._is_under_way for one in served._visitors.values()) < served.connections:
        await anyio.lowlevel.checkpoint()


async def test_the_operator_is_let_in_when_programs_of_this_machine_hold_all_places() -> None:
    made = Portal(
        HttpSettings(listen=LOOPBACK, connections_max=8),
        Working(status, is_secret=lambda given: given == "sesame"),
        no_cache(),
    )
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5), AsyncExitStack() as held:
            for _ in range(8):
                await is_at_work(made, await held.enter_async_context(await connect(made)))
            for told in ("", "Authorization: Bearer guessed", "X: Authorization: Bearer sesame"):
                assert (await exchange(made, request("/healthz", "GET", told or "X: y"))).status == 503
            assert (
                await exchange(made, request("/healthz", "GET", "authorization: BEARER sesame"))
            ).status == 200
            whole = request("/healthz", "GET", "Authorization: Bearer sesame")
            async with await connect(made) as stream:  # piece by piece
                for at in range(0, len(whole), 7):
                    await stream.send(whole[at : at + 7])
                    await anyio.lowlevel.checkpoint()
                assert parsed(await received(stream)).status == 200
            for _ in range(server._AT_DOOR_MAX + 5):  # who says nothing at the door keeps nobody from it
                await held.enter_async_context(await connect(made))
            assert (
                await exchange(made, request("/healthz", "GET", "Authorization: Bearer sesame"))
            ).status == 200
            async with await connect(made) as stream:
                with suppress(anyio.BrokenResourceError):
                    await stream.send(b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000)
                assert parsed(await received(stream)).status == 503


async def test_who_takes_long_over_an_answer_gives_way_where_all_do() -> None:
    made = Portal(HttpSettings(listen=LOOPBACK, connections_max=8, idle_s=1), Working(status), no_cache())
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5), AsyncExitStack() as held:
            for _ in range(8):
                await is_at_work(made, await held.enter_async_context(await connect(made)))
            assert (await exchange(made, request())).status == 503
            while (await exchange(made, request())).status == 503:  # until the first has had its second
                await anyio.lowlevel.checkpoint()


class Abundant(Handlers):
    """Its answers are large, except for those of whether it is well."""

    async def answer(self, request: Request) -> Answer:
        if request.path != "/healthz":
            return Answer(content_type="image/png", body=bytes(8_000_000))
        return await super().answer(request)


async def test_who_takes_a_large_answer_slowly_gives_way_where_all_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_connection, "SLOW_AFTER_S", 0.2)
    monkeypatch.setattr(http_connection, "SLOW_BYTES_PER_S", 1e12)
    made = Portal(HttpSettings(listen=LOOPBACK, connections_max=8, idle_s=3600), Abundant(status), no_cache())
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5), AsyncExitStack() as held:
            for _ in range(8):
                await is_at_work(made, await held.enter_async_context(await connect(made)))
            while (await exchange(made, request("/healthz"))).status == 503:
                await anyio.lowlevel.checkpoint()


@dataclass
class Taking:
    """What a connection is asked, without a line: a clock, and the bytes that went out."""

    now: float = 100.0
    sent: int = 500

    def connection(self, monkeypatch: pytest.MonkeyPatch) -> HttpConnection:
        monkeypatch.setattr(HttpConnection, "carried", lambda _: (0, self.sent))
        made = HttpConnection(
            asyncio.Protocol(),
            no_cache(),
            now=lambda: self.now,
            enters=lambda _: Entry.ROOM,
            left=lambda _: None,
            is_secret=lambda _: False,
        )
        made.begun()
        return made


@pytest.mark.parametrize(
    ("seconds", "sent", "gives_way"),
    [
        (4.9, 0, False),
        (5.1, 1_000_000, True),
        (5.1, 1_400_000, False),
        (20.0, 5_000_000, True),
        (20.0, 5_200_000, False),
        (30.1, 90_000_000, True),
    ],
)
async def test_only_a_slow_reader_of_a_large_answer_gives_way_before_it_has_been_silent_for_long(
    monkeypatch: pytest.MonkeyPatch, seconds: float, sent: int, gives_way: bool
) -> None:
    taking = Taking()
    visitor = taking.connection(monkeypatch)
    visitor.sending()
    taking.now += seconds
    taking.sent += sent
    assert (visitor.gives_way(30.0) is not None) is gives_way


async def test_who_is_worked_for_does_not_give_way_nor_where_nobody_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    taking = Taking(sent=0)
    visitor = taking.connection(monkeypatch)
    taking.now += 20
    assert visitor.gives_way(30.0) is None, "the answer is still being made"
    visitor.sending()
    taking.now += 9
    assert visitor.gives_way(30.0) is None, "no system told how much went out"


async def from_another(portal: Portal, address: str) -> anyio.abc.SocketStream:
    """A stranger: all of 127 is this machine to others, in tests here only 127.0.0.1."""
    return await anyio.connect_tcp(portal.endpoint.host, portal.endpoint.port, local_host=address)


async def answered(stream: anyio.abc.SocketStream) -> int:
    await stream.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
    return parsed(await stream.receive()).status


@pytest.fixture
def strangers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "is_this_machine", lambda address: address == "127.0.0.1")


@pytest.mark.usefixtures("strangers")
async def test_one_address_cannot_hold_the_portal_and_the_operator_always_looks() -> None:
    async with portal(connections_max=64, per_address=5) as served, AsyncExitStack() as held:
        got = []
        for _ in range(CROWD_FROM + 5):
            stream = await held.enter_async_context(await from_another(served, "127.0.1.9"))
            got.append(await answered(stream))
        assert got == [200] * 5 + [503] * CROWD_FROM
        assert served.crowd == "127.0.1.9"
        others = await held.enter_async_context(await from_another(served, "127.0.2.1"))
        assert await answered(others) == 200
        for network in range(3, 64):  # many networks together hold the rest, and that is all that they hold
            stream = await held.enter_async_context(await from_another(served, f"127.0.{network}.1"))
            got.append(await answered(stream))
        assert got[-1] == 503
        assert served.connections == 64
        assert (await exchange(served, request())).status == 200, "from this machine"


@pytest.mark.usefixtures("strangers")
async def test_a_place_is_free_again_when_its_reader_left() -> None:
    async with portal(per_address=1) as served:
        for _ in range(50):
            async with await from_another(served, "127.0.1.9") as stream:
                assert await answered(stream) == 200
                async with await from_another(served, "127.0.1.9") as refused:
                    assert await answered(refused) == 503
            while served.connections:
                await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize("begun", [b"", b"GET / HTTP/1.1\r\nHost: pe"], ids=["nothing", "half a request"])
async def test_a_connection_that_never_asks_is_closed(begun: bytes) -> None:
    async with portal(idle_s=1) as served, await connect(served) as stream:
        if begun:
            await stream.send(begun)
        started = anyio.current_time()
        assert await received(stream) == b""
        assert 0.5 < anyio.current_time() - started < 5


async def test_an_answered_connection_that_falls_silent_is_closed() -> None:
    async with portal(idle_s=1) as served, await connect(served) as stream:
        await stream.send(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\nGET / HT")
        started = anyio.current_time()
        assert (await received(stream)).endswith(b"ok\n")
        assert anyio.current_time() - started < 5


async def test_visitors_who_leave_without_a_word_are_not_remembered() -> None:
    async with portal(connections_max=8) as served:
        for _ in range(100):
            await (await connect(served)).aclose()
            assert (await exchange(served, request())).status in (200, 503)
        assert len(served._visitors) <= 8


async def test_leaving_answers_what_is_under_way_and_does_not_wait_for_the_silent() -> None:
    async with portal() as served:
        silent = await connect(served)
        assert (await exchange(served, request())).status == 200
        started = anyio.current_time()
    assert anyio.current_time() - started < 2
    assert await received(silent) == b""
    await silent.aclose()


async def test_nobody_works_for_a_reader_who_left() -> None:
    begun, ended = anyio.Event(), anyio.Event()

    class Slow(Handlers):
        async def answer(self, request: Request) -> Answer:
            begun.set()
            try:
                await anyio.sleep_forever()
            finally:
                ended.set()
            raise AssertionError("it was waited for")

    with anyio.fail_after(30):
        made = Portal(HttpSettings(listen=LOOPBACK), Slow(status), no_cache())
        async with made.serving(stop_s=0.5):
            stream = await connect(made)
            await stream.send(request("/web/2026/https://example.org/"))
            await begun.wait()
            await stream.aclose()
            await ended.wait()


async def test_a_taken_port_is_named_with_the_ways_to_another() -> None:
    async with portal() as served:
        with pytest.raises(PortTaken) as caught:
            async with portal(listen=served.endpoint):
                pass
    assert str(caught.value) == (
        f"cannot listen on {served.endpoint}: address already in use; "
        "choose another with --http or the setting http.listen"
    )


async def test_an_address_that_is_not_ours_is_named() -> None:
    with pytest.raises(PortTaken, match=r"cannot listen on 192\.0\.2\.1:0: cannot assign requested address"):
        async with portal(listen=HostPort(host="192.0.2.1", port=0)):
            pass


async def test_ipv6_is_served_like_ipv4() -> None:
    async with portal(listen=HostPort(host="::1", port=0)) as served:
        assert (await exchange(served, request())).status == 200


class Large(Handlers):
    async def answer(self, request: Request) -> Answer:
        return Answer(content_type="application/octet-stream", body=bytes(16_000_000))


async def test_a_reader_who_takes_a_large_answer_too_slowly_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "SLOWEST_BYTES_PER_S", 1e9)
    made = Portal(HttpSettings(listen=LOOPBACK, connections_max=8, idle_s=1), Large(status), no_cache())
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5):
            async with await connect(made) as slow:
                await slow.send(request("/"))
                while made.left == 0:  # it takes nothing meanwhile
                    await anyio.lowlevel.checkpoint()
                assert len(await received(slow)) < 16_000_000
            quick = await exchange(made, request("/"))
            assert (quick.status, len(quick.body), made.left) == (200, 16_000_000, 1)


async def test_large_answers_have_a_bound_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_OUTGOING_BYTES_MAX", 20_000_000)
    made = Portal(HttpSettings(listen=LOOPBACK, connections_max=8, idle_s=30), Large(status), no_cache())
    with anyio.fail_after(60):
        async with made.serving(stop_s=0.5), await connect(made) as slow:
            await slow.send(request("/"))
            while made._outgoing_bytes == 0:
                await anyio.lowlevel.checkpoint()
            assert (await exchange(made, request("/"))).status == 503
            assert (await exchange(made, request("/", "HEAD"))).status == 200
