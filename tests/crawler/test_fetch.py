import asyncio
import datetime as dt
import gzip
import hashlib
import ipaddress
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crawler.core.capture import Capture, FetchOutcome, PayloadDigest, Truncation
from crawler.core.errors import (
    FetchError,
    ForbiddenAddressError,
    MalformedResponseError,
    TooSlowError,
    UnreachableError,
    UnresolvableError,
)
from crawler.http import FetchSettings, HttpFetcher
from crawler.ports import FetchRequest, Skipped
from tests.crawler.aiohttp_fetcher import AiohttpFetcher
from tests.crawler.origin import Answer, origin, says

pytestmark = pytest.mark.anyio

BROKEN = Truncation.DISCONNECT
LOCAL = FetchSettings(
    allow_private_addresses=True,
    head_timeout_s=0.5,
    body_timeout_s=0.5,
    connect_timeout_s=0.5,
    body_bytes_max=3 * 2**20,
)


chosen: list[type[HttpFetcher] | type[AiohttpFetcher]] = []


@pytest.fixture(autouse=True, params=[HttpFetcher, AiohttpFetcher])
def _each_fetcher(request: pytest.FixtureRequest) -> None:
    """All that is said here holds for both: one is the fetcher, the other the client that judges it."""
    chosen[:] = [request.param]


def fetcher(
    settings: FetchSettings = LOCAL, resolve: Callable[[str], Awaitable[list[str]]] | None = None
) -> HttpFetcher | AiohttpFetcher:
    async def nowhere(host: str) -> list[str]:
        raise OSError(f"no address for {host}")

    return chosen[0](settings, wall_clock=lambda: 1_000.0, resolve=resolve or nowhere)


async def fetched(url: str, **more: object) -> Capture:
    async with fetcher() as client:
        found = await client.fetch(FetchRequest(url=url, **more))  # type: ignore[arg-type]  # fields by name
    assert isinstance(found, Capture)
    return found


async def test_a_capture_holds_the_exchange_as_it_was_on_the_wire() -> None:
    head = b"HTTP/1.1 200 Very  OK\r\ncontent-TYPE:text/html ; charset=x\r\n"
    head += b"X-B: 1\r\nx-a:  2 \r\nX-B: 3\r\nContent-Length: 5\r\n\r\n"
    async with origin({"/a?b": says(head + b"hello")}) as served:
        capture = await fetched(served.url("/a?b"), etag='"e"', last_modified="yesterday")
        assert capture.request == served.requests[0]
    assert capture.head == head
    assert (capture.status, capture.body, capture.mime, capture.remote_ip) == (
        200,
        b"hello",
        "text/html",
        "127.0.0.1",
    )
    assert capture.sha256 == hashlib.sha256(b"hello").digest()
    assert capture.sha1 == hashlib.sha1(b"hello").digest()
    assert b'If-None-Match: "e"\r\nIf-Modified-Since: yesterday\r\n' in capture.request
    assert b"ookie" not in capture.request
    assert (capture.requested_at, capture.truncated, capture.tls) == (1_000.0, None, None)


async def test_a_head_in_many_pieces_after_interim_answers_is_recorded_alone() -> None:
    async def drip(writer: asyncio.StreamWriter) -> None:
        for piece in (
            b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 O",
            b"K\r\nA: b\r",
            b"\nContent-Length: 2\r\n\r",
            b"\nhi",
        ):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)

    async with origin({"/": drip}) as served:
        capture = await fetched(served.url())
    assert capture.head == b"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\n"
    assert capture.body == b"hi"


async def test_transfer_coding_is_undone_and_content_coding_is_kept() -> None:
    packed = gzip.compress(b"hello")
    chunks = b"".join(b"%x\r\n%b\r\n" % (1, packed[i : i + 1]) for i in range(len(packed)))
    answer = (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
        + chunks
        + b"0\r\n\r\n"
    )
    async with origin({"/": says(answer)}) as served:
        capture = await fetched(served.url())
    assert capture.body == packed
    assert capture.header("transfer-encoding") == "chunked"


async def test_connections_are_kept_and_each_capture_has_its_own_head() -> None:
    def numbered(n: int) -> Answer:
        return says(b"HTTP/1.1 200 OK\r\nX-N: %d\r\nContent-Length: 1\r\n\r\n%d" % (n, n))

    async with origin({f"/{n}": numbered(n) for n in range(5)}) as served, fetcher() as client:
        for n in range(5):
            capture = await client.fetch(FetchRequest(url=served.url(f"/{n}")))
            assert isinstance(capture, Capture)
            assert (capture.header("x-n"), capture.body) == (str(n), str(n).encode())
        assert served.connections == 1


async def test_a_redirect_is_a_capture_and_is_not_followed() -> None:
    answer = b"HTTP/1.1 302 Found\r\nLocation: /there?#x\r\nContent-Length: 4\r\n\r\ngone"
    async with origin({"/": says(answer)}) as served:
        capture = await fetched(served.url())
        assert (capture.status, capture.redirect_to, capture.body) == (302, served.url("/there"), b"gone")
        assert len(served.requests) == 1


async def test_what_did_not_change_is_noted_without_its_body() -> None:
    digest = PayloadDigest(hashlib.sha256(b"hello").digest())
    answers = {
        "/304": says(b'HTTP/1.1 304 Not Modified\r\nETag: "e"\r\n\r\n'),
        "/200": says(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
    }
    async with origin(answers) as served:
        modified = await fetched(served.url("/304"), etag='"e"', digest=digest)
        same = await fetched(served.url("/200"), etag='"e"', digest=digest)
    assert (modified.outcome, modified.body, modified.sha256) == (FetchOutcome.NOT_MODIFIED, b"", digest)
    assert (same.outcome, same.body, same.sha256) == (FetchOutcome.SAME_DIGEST, b"", digest)


async def test_an_unwanted_media_type_is_not_read() -> None:
    answer = b"HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nContent-Length: 1000000000\r\n\r\n"
    async with origin({"/": says(answer)}) as served, fetcher() as client:
        found = await client.fetch(FetchRequest(url=served.url(), accepts=lambda mime: mime == "text/html"))
    assert isinstance(found, Skipped)
    assert found.mime == "video/mp4"


async def endless(writer: asyncio.StreamWriter, start: bytes, piece: bytes) -> None:
    writer.write(start)
    while True:
        writer.write(piece)
        await writer.drain()


def forever(start: bytes, piece: bytes) -> Answer:
    async def write(writer: asyncio.StreamWriter) -> None:
        await endless(writer, start, piece)

    return write


async def stalls(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n\r\nfirst")
    await writer.drain()
    await asyncio.Event().wait()


async def says_nothing(writer: asyncio.StreamWriter) -> None:
    await asyncio.Event().wait()


async def breaks(writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst")
    await writer.drain()
    writer.transport.abort()


@pytest.mark.parametrize(
    ("answer", "truncated", "body"),
    [
        (forever(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 65_536), Truncation.LENGTH, b"x" * 3 * 2**20),
        (stalls, Truncation.TIME, b"first"),
        (breaks, BROKEN, None),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nfirst"), BROKEN, b"first"),
        (says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nfirst"), BROKEN, b"first"),
    ],
)
async def test_a_body_that_does_not_end_well_is_a_truncated_capture(
    answer: Answer, truncated: Truncation | None, body: bytes | None
) -> None:
    async with origin({"/once": answer}) as served:
        capture = await fetched(served.url("/once"))
    assert capture.truncated is truncated
    assert body is None or capture.body == body


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (forever(b"HTTP/1.1 200 OK\r\n", b"X-More: 1\r\n" * 100), FetchError),
        (forever(b"HTTP/1.1 200 OK\r\nX: ", b"x" * 65_536), FetchError),
        (says(b"HTTP/1.1 200 OK\r\nSet-Cookie: " + b"c" * 1_000_000 + b"\r\n\r\n"), FetchError),
        (says(b"<html>HTTP/0.9</html>"), MalformedResponseError),
        # a head whose body is already seen to be garbage is not trusted either
        (says(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n"), MalformedResponseError),
        (says(b"HTTP/1.1 abc\r\n\r\n"), MalformedResponseError),
        (says(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n"), MalformedResponseError),
        (says(b""), UnreachableError),
        (says_nothing, TooSlowError),
    ],
)
async def test_what_gives_no_head_is_an_error_of_ours_and_others_are_not_affected(
    answer: Answer, expected: type[FetchError]
) -> None:
    fine = says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    async with origin({"/once": answer, "/fine": fine}) as served, fetcher() as client:
        with pytest.raises(expected) as caught:
            await client.fetch(FetchRequest(url=served.url("/once")))
        assert caught.value.url == served.url("/once")
        assert isinstance(await client.fetch(FetchRequest(url=served.url("/fine"))), Capture)


@pytest.mark.parametrize(
    "greeting", [b"HTTP/1.1 400 Plain\r\n\r\n", b"\x16\x03\x01\x00\x02\x02\x28", b"\0" * 100, b""]
)
async def test_what_is_no_tls_is_an_error_of_ours(greeting: bytes) -> None:
    """An https address whose server speaks something else, or sends an alert at once."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(greeting)
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, fetcher() as client:
        with pytest.raises(FetchError):
            await client.fetch(FetchRequest(url=f"https://127.0.0.1:{port}/"))


async def test_nobody_listening_and_no_name_are_told_apart(free_tcp_port: int) -> None:
    with pytest.raises(UnreachableError):
        await fetched(f"http://127.0.0.1:{free_tcp_port}/")
    with pytest.raises(UnresolvableError):
        await fetched("http://nowhere.example/")


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "0x7f.1",
        "2130706433",
        "[::ffff:127.0.0.1]",
        "localhost",
        "rebound.example",
        "mixed.example",
    ],
)
async def test_private_addresses_are_never_connected_to(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen from the listening socket: no connection arrives, whatever the form of the address."""
    from crawler.core.urls import canonical

    async def resolve(name: str) -> list[str]:
        return ["127.0.0.1", "::1"] if name != "localhost" else ["127.0.0.1"]

    answer = says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    async with origin({"/": answer}) as served:
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, served.url())
        async with fetcher(FetchSettings(connect_timeout_s=0.5), resolve) as client:
            with pytest.raises(ForbiddenAddressError):
                await client.fetch(FetchRequest(url=canonical(served.url("/", host))))
        assert served.connections == 0


async def test_a_name_that_turns_private_after_it_was_checked_is_not_connected_to() -> None:
    """DNS rebinding: the first look is public, the second is not; the guard decides on what is
    connected to.
    """
    answers = iter([["93.184.216.34"], ["127.0.0.1"]])

    async def resolve(name: str) -> list[str]:
        return next(answers)

    async with origin({"/": says(b"")}) as served:
        async with fetcher(FetchSettings(dns_ttl_s=0.0), resolve) as client:
            assert await client.address_of("rebound.example") == "93.184.216.34"
            with pytest.raises(ForbiddenAddressError):
                await client.fetch(FetchRequest(url=served.url("/", "rebound.example")))
        assert served.connections == 0


async def test_proxies_of_the_environment_are_ignored(
    monkeypatch: pytest.MonkeyPatch, free_tcp_port: int
) -> None:
    monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{free_tcp_port}")
    async with origin({"/": says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")}) as served:
        assert (await fetched(served.url())).status == 200


@pytest.fixture
def bad_certificate(tmp_path: Path) -> ssl.SSLContext:
    """Self-signed and expired."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(dt.datetime(2001, 1, 1, tzinfo=dt.UTC))
        .not_valid_after(dt.datetime(2002, 1, 1, tzinfo=dt.UTC))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    file = tmp_path / "both.pem"
    file.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return context


async def test_a_bad_certificate_is_recorded_and_the_page_archived(bad_certificate: ssl.SSLContext) -> None:
    answer = says(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
    async with origin({"/": answer}, tls=bad_certificate) as served:
        capture = await fetched(served.url())
    assert capture.body == b"hi"
    assert capture.tls is not None
    assert capture.tls.protocol.startswith("TLSv1")
    assert "self-signed" in (capture.tls.error or "")


async def test_a_fetch_can_be_cancelled_at_any_time() -> None:
    async with origin({"/": says_nothing}) as served, fetcher() as client:
        with anyio.move_on_after(0.05) as scope:
            await client.fetch(FetchRequest(url=served.url()))
        assert scope.cancelled_caught


async def test_a_kept_connection_that_ends_as_it_is_asked_is_replaced_once() -> None:
    asked: list[int] = []

    async def ends_the_first_time(writer: asyncio.StreamWriter) -> None:
        asked.append(1)
        if len(asked) == 1:
            writer.transport.abort()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")

    fine = says(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
    async with origin({"/": fine, "/again": ends_the_first_time}) as served, fetcher() as client:
        await client.fetch(FetchRequest(url=served.url()))
        capture = await client.fetch(FetchRequest(url=served.url("/again")))
        assert isinstance(capture, Capture)
        assert (capture.body, served.connections) == (b"hi", 2)


async def test_many_large_bodies_at_once_all_come_whole() -> None:
    large = b"x" * (2 * 2**20)
    answer = says(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(large), large))
    settings = FetchSettings(allow_private_addresses=True)
    async with origin({"/": answer}) as served, fetcher(settings) as client:
        found: list[Capture | Skipped] = []

        async def get() -> None:
            found.append(await client.fetch(FetchRequest(url=served.url())))

        async with anyio.create_task_group() as tasks:
            for _ in range(12):
                tasks.start_soon(get)
    assert [one.body == large and one.truncated is None for one in found if isinstance(one, Capture)] == [
        True
    ] * 12
