"""The judge of our own HTTP client (ADR 10): the same port on aiohttp, which every test of the fetcher runs beside it.

One GET is one exchange: no redirect is followed, no cookie kept, no proxy of the environment asked. The
head is recorded as it came in, before the parser sees it; the body without its transfer coding, with its
content coding. The guard against forged targets sits where it cannot be evaded: on the address that a
socket is about to connect to. A bad certificate is recorded and the page fetched all the same. What is cut
off by a limit is a truncated capture; what gives no head is a FetchError, so no error of aiohttp is seen
outside of this file.
"""

import asyncio
import hashlib
import socket
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Any, Self

import aiohttp
import anyio
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.client_proto import ResponseHandler
from yarl import URL

from crawler.connections import LARGE_BODY_BYTES, lenient_context
from crawler.core.answers import FIELD_BYTES_MAX, HEAD_BYTES_MAX
from crawler.core.capture import (
    REDIRECTS,
    Capture,
    FetchOutcome,
    MediaType,
    PayloadDigest,
    TlsFacts,
    Truncation,
)
from crawler.core.errors import (
    FetchError,
    ForbiddenAddressError,
    MalformedResponseError,
    MalformedUrlError,
    TooSlowError,
    UnreachableError,
    UnresolvableError,
)
from crawler.core.politeness import Wait
from crawler.core.urls import STANDARD, UrlRules, host_of, is_public, target_of
from crawler.http import BAD_CERTIFICATES_MAX, DNS_AGAIN_S, FetchSettings
from crawler.names import TooManyLookupsError
from crawler.ports import LARGE_BODIES_AT_ONCE, FetchRequest, Skipped
from crawler.resolving import ForbiddenSocketError, GuardedResolver, Resolve


class _RecordingHandler(ResponseHandler):
    """aiohttp's protocol, which keeps the head's bytes as they came in."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self.head = bytearray()
        self._is_recording = False
        self.peer = ""
        self.tls: TlsFacts | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        name = transport.get_extra_info("peername")
        self.peer = str(name[0]) if name else ""
        secured = transport.get_extra_info("ssl_object")
        if secured is not None:
            certificate = secured.getpeercert(binary_form=True) or b""
            self.tls = TlsFacts(
                protocol=secured.version() or "",
                cipher=(secured.cipher() or ("",))[0],
                certificate_sha256=hashlib.sha256(certificate).digest(),
            )

    def set_response_params(self, **parameters: Any) -> None:
        self.head = bytearray()
        self._is_recording = True
        super().set_response_params(**parameters)

    def data_received(self, data: bytes) -> None:
        if self._is_recording:
            self._record(data)
        super().data_received(data)

    def _record(self, data: bytes) -> None:
        self.head += data
        while (end := _end_of_head(self.head)) is not None:
            status = self.head[9:12]
            if status[:1] == b"1" and status != b"101":
                del self.head[:end]  # an interim answer: the real one follows
                continue
            del self.head[end:]
            self._is_recording = False
            return
        if len(self.head) > HEAD_BYTES_MAX:
            self._is_recording = False
            if self.transport is not None:
                self.transport.abort()


def _recording_handler(loop: asyncio.AbstractEventLoop) -> ResponseHandler:
    return _RecordingHandler(loop)


def _end_of_head(data: bytearray) -> int | None:
    found = [at + len(mark) for mark in (b"\r\n\r\n", b"\n\n") if (at := data.find(mark)) >= 0]
    return min(found) if found else None


class _RecordedResponse(aiohttp.ClientResponse):
    handler: _RecordingHandler

    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        self.handler = connection.protocol  # kept: the connection may be given back before we look
        return await super().start(connection)


class _Resolver(AbstractResolver):
    """Our resolver, as aiohttp asks one."""

    def __init__(self, names: GuardedResolver) -> None:
        self._names = names

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self._names.addresses(host)
        ]

    async def close(self) -> None:
        """The fetcher closes what it opened."""


class AiohttpFetcher:
    """Async context manager; `fetch` may run in many tasks at once, up to `connections` of them usefully."""

    def __init__(
        self,
        settings: FetchSettings,
        *,
        wall_clock: Callable[[], float],
        resolve: Resolve | None = None,
        rules: UrlRules = STANDARD,
    ) -> None:
        self._settings = settings
        self._wall_clock = wall_clock
        self._rules = rules
        self._resolver = GuardedResolver(
            resolve, ttl_s=settings.dns_ttl_s, allow_private=settings.allow_private_addresses
        )
        self._large_bodies = anyio.CapacityLimiter(LARGE_BODIES_AT_ONCE)
        self._bad_certificates: OrderedDict[str, str] = OrderedDict()
        self._lenient = lenient_context()
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        settings = self._settings
        connector = aiohttp.TCPConnector(
            limit=settings.connections,
            resolver=_Resolver(self._resolver),
            use_dns_cache=False,
            keepalive_timeout=settings.keepalive_s,
            socket_factory=self._open_socket,
        )
        # aiohttp has no public seam before its parser; a test fails should this one move.
        connector._factory = partial(_recording_handler, asyncio.get_running_loop())
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=_RecordedResponse,
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=settings.connect_timeout_s),
            auto_decompress=False,
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            max_line_size=FIELD_BYTES_MAX,
            max_field_size=FIELD_BYTES_MAX,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._session is not None
        with anyio.CancelScope(shield=True):
            await self._session.close()
            await self._resolver.close()

    async def address_of(self, host: str) -> str | Wait:
        if host.startswith("[") or host.replace(".", "").isdigit():
            return host.strip("[]")
        try:
            with anyio.fail_after(self._settings.dns_patience_s):
                return (await self._resolver.addresses(host))[0]
        except (TimeoutError, TooManyLookupsError):
            return Wait(until=anyio.current_time() + DNS_AGAIN_S, reason="DNS has not answered yet")
        except OSError:
            return ""

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        host = host_of(request.url)
        certificate_error = self._bad_certificates.get(host)
        try:
            return await self._exchange(request, certificate_error)
        except aiohttp.ClientConnectorCertificateError as error:
            reason = str(error.certificate_error)[:300]
        self._bad_certificates[host] = reason
        if len(self._bad_certificates) > BAD_CERTIFICATES_MAX:
            self._bad_certificates.popitem(last=False)
        return await self._exchange(request, reason)

    async def _exchange(self, request: FetchRequest, certificate_error: str | None) -> Capture | Skipped:
        assert self._session is not None
        url = request.url
        headers = self._headers(request)
        started_at = self._wall_clock()
        start = anyio.current_time()
        try:
            with anyio.fail_after(self._settings.connect_timeout_s + self._settings.head_timeout_s):
                response = await self._session.get(
                    URL(url, encoded=True),
                    headers=headers,
                    allow_redirects=False,
                    ssl=True if certificate_error is None else self._lenient,
                )
        except aiohttp.ClientConnectorCertificateError:
            raise
        except Exception as error:
            raise _as_fetch_error(url, error) from error
        assert isinstance(response, _RecordedResponse)
        try:
            return await self._read(request, headers, response, started_at, start, certificate_error)
        finally:
            response.close() if not response.content.is_eof() else response.release()

    async def _read(
        self,
        request: FetchRequest,
        headers: dict[str, str],
        response: _RecordedResponse,
        started_at: float,
        start: float,
        certificate_error: str | None,
    ) -> Capture | Skipped:
        handler = response.handler
        mime = MediaType.of(response.headers.get("Content-Type")).mime
        status = response.status
        if status == 200 and request.accepts is not None and not request.accepts(mime):
            return Skipped(url=request.url, status=status, mime=mime, duration_s=anyio.current_time() - start)
        head = bytes(handler.head)
        tls = handler.tls
        if tls is not None and certificate_error is not None:
            tls = TlsFacts(
                protocol=tls.protocol,
                cipher=tls.cipher,
                certificate_sha256=tls.certificate_sha256,
                error=certificate_error,
            )
        body, truncated = await self._body(response, request.body_bytes_max or self._settings.body_bytes_max)
        sha256 = PayloadDigest(hashlib.sha256(body).digest())
        sha1 = hashlib.sha1(body, usedforsecurity=False).digest()
        outcome = FetchOutcome.STORED
        is_conditional = bool(request.etag or request.last_modified)
        if status == 304 and is_conditional and request.digest is not None:
            outcome, body, sha256, sha1 = FetchOutcome.NOT_MODIFIED, b"", request.digest, b""
        elif status == 200 and truncated is None and sha256 == request.digest:
            outcome, body = FetchOutcome.SAME_DIGEST, b""
        return Capture(
            url=request.url,
            requested_at=started_at,
            duration_s=anyio.current_time() - start,
            request=_request_head(request.url, headers),
            status=status,
            head=head,
            body=body,
            sha256=sha256,
            sha1=sha1,
            remote_ip=handler.peer,
            outcome=outcome,
            truncated=truncated,
            mime=mime,
            redirect_to=self._redirect_target(request.url, response),
            via=request.via,
            tls=tls,
        )

    async def _body(self, response: _RecordedResponse, bytes_max: int) -> tuple[bytes, Truncation | None]:
        """The body, as far as limits, time and the connection let it come."""
        body = bytearray()
        truncated: Truncation | None = None
        with anyio.move_on_after(self._settings.body_timeout_s) as scope:
            try:
                truncated = await self._read_body(response, body, bytes_max)
            except (aiohttp.ClientError, OSError):
                truncated = Truncation.DISCONNECT
        if scope.cancelled_caught:
            truncated = Truncation.TIME
        return bytes(body), truncated

    async def _read_body(
        self, response: _RecordedResponse, body: bytearray, bytes_max: int
    ) -> Truncation | None:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > bytes_max:
                break
            if len(body) > LARGE_BODY_BYTES:
                async with self._large_bodies:
                    return await self._read_large_body(response, body, bytes_max)
        return _cut(body, bytes_max)

    async def _read_large_body(
        self, response: _RecordedResponse, body: bytearray, bytes_max: int
    ) -> Truncation | None:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > bytes_max:
                break
        return _cut(body, bytes_max)

    def _headers(self, request: FetchRequest) -> dict[str, str]:
        headers = {
            "Host": request.url.split("/", 3)[2],
            "User-Agent": self._settings.user_agent,
            "Accept": self._settings.accept,
            "Accept-Encoding": "gzip, deflate, br, zstd",
        }
        if request.etag:
            headers["If-None-Match"] = request.etag
        if request.last_modified:
            headers["If-Modified-Since"] = request.last_modified
        return headers

    def _redirect_target(self, url: str, response: aiohttp.ClientResponse) -> str | None:
        location = response.headers.get("Location")
        if response.status not in REDIRECTS or not location:
            return None
        try:
            return self._rules.canonical(location, url)
        except MalformedUrlError:
            return None

    def _open_socket(self, address: Any) -> socket.socket:
        """The last word before a connection, for names, literals and redirects alike."""
        family, kind, protocol, _, target = address
        if not self._settings.allow_private_addresses and not is_public(str(target[0])):
            raise ForbiddenSocketError(f"{target[0]} is not a public address")
        return socket.socket(family=family, type=kind, proto=protocol)


def _request_head(url: str, headers: dict[str, str]) -> bytes:
    """The bytes that aiohttp sends for these headers (a test compares them to what a server received)."""
    lines = [f"GET {target_of(url)} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8", "surrogateescape")


def _cut(body: bytearray, bytes_max: int) -> Truncation | None:
    if len(body) <= bytes_max:
        return None
    del body[bytes_max:]
    return Truncation.LENGTH


def _as_fetch_error(url: str, error: BaseException) -> FetchError:
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and len(causes) < 10:
        causes.append(cause)
        os_error = getattr(cause, "os_error", None)
        cause = os_error if os_error not in causes and os_error is not None else cause.__cause__
    reason = str(error)[:300] or type(error).__name__
    if any(isinstance(one, ForbiddenSocketError) for one in causes):
        return ForbiddenAddressError(url, reason)
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return UnresolvableError(url, reason)
    if isinstance(error, (TimeoutError, aiohttp.ServerTimeoutError)):
        return TooSlowError(url, "no answer within the deadline")
    if isinstance(
        error, (aiohttp.ClientResponseError, aiohttp.InvalidURL, aiohttp.ClientPayloadError, ValueError)
    ):
        return MalformedResponseError(url, reason)
    if isinstance(error, (aiohttp.ClientError, OSError)):
        return UnreachableError(url, reason)
    raise error
