"""What does the origin answer? HTTP to Capture, by a client that does this and nothing else.

One GET is one exchange: no redirect is followed, no cookie kept, no proxy of the environment asked. A general
client costs more than everything else that happens to a page, so this one goes from bytes to
capture without objects between: the request is written as the archive keeps it, the head kept as it came in.
What is cut off by a limit is a truncated capture; what gives no head is a FetchError. The guard against forged
targets and the limits are those of `crawler.connections`.
"""

import asyncio
import math
import ssl
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from types import TracebackType
from typing import NamedTuple, Self

from cachetools import LRUCache

from crawler.answered import Exchange, capture_of
from crawler.connections import ConnectionEndedError, Limits, Opener, OriginConnection, OriginEndpoint, Pool
from crawler.core.answers import AnswerReader, BadAnswerError
from crawler.core.capture import Capture, MediaType, TlsFacts, Truncation
from crawler.core.errors import (
    FetchError,
    ForbiddenAddressError,
    MalformedResponseError,
    OtherAddressError,
    TooLateError,
    TooSlowError,
    UnreachableError,
    UnresolvableError,
)
from crawler.core.politeness import NoWay, Stay, Wait
from crawler.core.urls import STANDARD, UrlRules
from crawler.names import TooManyLookupsError
from crawler.ports import BodyPlace, BodyRooms, ConnectionRoom, FetchRequest, FreeRoom, Skipped
from crawler.resolving import ForbiddenSocketError, GuardedResolver, Resolve, plain

IDLE_CONNECTIONS_MAX = 256
"""Kept for hosts that rest between two requests: a new TLS connection costs ten times a fetch."""
UNKEPT_MAX = 4_096
LATE_TIMES_MAX = 8
"""In a row. After the first the next lease is longer; but a busy machine may be the slow one. A host for
which eight are too short counts as too slow."""
BAD_CERTIFICATES_MAX = 10_000
DNS_AGAIN_S = 2.0
NO_WAY_AGAIN_S = 600.0
"""A machine that comes home has another line; late in the day others fetch what waits."""
"""Until a host whose name is being looked up has its next turn."""
ONE_OF_SEVERAL_S = 4.0
"""For a connection to an address, when the name has others: two packets that were lost on the way."""
_TRUNCATIONS = {
    "length": Truncation.LENGTH,
    "time": Truncation.TIME,
    "disconnect": Truncation.DISCONNECT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchSettings:
    user_agent: str = "Herodotus/0.1"
    accept: str = "text/html,application/xhtml+xml,application/xml;q=0.9,image/*,*/*;q=0.8"
    connections: int = 56
    """As in the thesis (5.1); up to 512."""
    connect_timeout_s: float = 15.0
    head_timeout_s: float = 30.0
    """From the request to the end of the head."""
    body_timeout_s: float = 60.0
    """A body that takes longer is cut, so that a drip of bytes holds a connection for a minute at most."""
    body_bytes_max: int = 32 * 2**20
    keepalive_s: float = 20.0
    connections_per_address: int = 2
    """Before a connection is opened for a lease, others that wait for a next request at its address end, beyond so many
    with those that carry one."""
    dns_ttl_s: float = 300.0
    dns_patience_s: float = 1.0
    """A connection does not wait longer for a name; its host has another turn when DNS has answered."""
    allow_private_addresses: bool = False
    room: ConnectionRoom = field(default_factory=FreeRoom)
    leads_out: Callable[[str], bool] = field(default=lambda address: True)
    """Has this machine a way to addresses of this one's family?"""


class _Target(NamedTuple):
    endpoint: OriginEndpoint
    authority: str
    path: str


class HttpFetcher:
    """Async context manager; `fetch` may run in many tasks at once, `connections` of them at a time."""

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
        self._opener = Opener(
            allow_private=settings.allow_private_addresses, connect_timeout_s=settings.connect_timeout_s
        )
        self._pool = Pool(
            idle_max=max(IDLE_CONNECTIONS_MAX, settings.connections), keepalive_s=settings.keepalive_s
        )
        self._bad_certificates: LRUCache[str, str] = LRUCache(BAD_CERTIFICATES_MAX)
        self._unkept: LRUCache[OriginEndpoint, None] = LRUCache(
            UNKEPT_MAX
        )  # that ended a kept one as we wrote
        self._fixed_head = (
            f"\r\nUser-Agent: {settings.user_agent}\r\nAccept: {settings.accept}\r\n"
            "Accept-Encoding: gzip, deflate, br, zstd\r\n"
        )
        self._late_times: LRUCache[OriginEndpoint, int] = LRUCache(UNKEPT_MAX)
        self._busy_at: Counter[str] = Counter()
        self._is_open = False

    async def __aenter__(self) -> Self:
        self._loop = asyncio.get_running_loop()
        self._places = asyncio.Semaphore(self._settings.connections)
        self._bodies = BodyRooms()
        self._is_open = True
        self._settings.room.gives(self._pool.give_up)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_open = False
        self._settings.room.gives_no_more(self._pool.give_up)
        self._pool.close()
        await asyncio.sleep(0)  # the transports tell their protocols in the loop's next turn
        await self._resolver.close()

    async def address_of(self, host: str) -> str | Wait:
        if _is_literal(host):
            return plain(host.strip("[]"))
        try:
            async with asyncio.timeout(self._settings.dns_patience_s):
                found = await self._resolver.addresses(host)
        except (TimeoutError, TooManyLookupsError):
            return Wait(until=self._loop.time() + DNS_AGAIN_S, reason="DNS has not answered yet")
        except (OSError, ValueError):  # ValueError: no name that DNS could be asked for
            return ""
        able = next((address for address in found if self._settings.leads_out(address)), None)
        if able is not None:
            return able
        family = "IPv6" if ":" in found[0] else "IPv4"
        again_at = self._loop.time() + NO_WAY_AGAIN_S
        return NoWay(until=again_at, reason=f"this machine has no {family}", address=found[0])

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        target, began = _target_of(request.url), self._loop.time()
        certificate_error = self._bad_certificates.get(target.endpoint.host)
        try:
            return await self._exchange(request, target, certificate_error, began)
        except ssl.SSLCertVerificationError as error:
            reason = str(error)[:300]
        self._bad_certificates[target.endpoint.host] = reason
        return await self._exchange(request, target, reason, began)

    async def _exchange(
        self, request: FetchRequest, target: _Target, certificate_error: str | None, began: float
    ) -> Capture | Skipped:
        assert self._is_open
        endpoint = target.endpoint
        if certificate_error is not None:
            endpoint = OriginEndpoint(endpoint.host, endpoint.port, is_secure=True, is_lenient=True)
        written = self._request_head(request, target)
        reader = AnswerReader(BytesIO)
        place = request.place or BodyPlace(self._bodies)
        limits = Limits(
            head_timeout_s=self._settings.head_timeout_s,
            body_timeout_s=self._settings.body_timeout_s,
            body_bytes_max=min(request.body_bytes_max or 2**62, self._settings.body_bytes_max),
            is_wanted=_wanting(request),
            wait_for_room=place.grow,
        )
        async with self._places:
            started_at = self._wall_clock()
            start = self._loop.time()
            there = request.address or ""
            self._busy_at[there] += 1
            try:
                connection, outcome, reader = await self._ask(endpoint, request, written, reader, limits)
            except ssl.SSLCertVerificationError:
                raise
            except _LateError as error:
                raise self._too_late(request.url, endpoint, began) from error
            except (OSError, BadAnswerError, ValueError) as error:
                raise _as_fetch_error(request.url, error) from error
            finally:
                self._busy_at[there] -= 1
                if not self._busy_at[there]:
                    del self._busy_at[there]
                if place is not request.place:
                    place.leave()
            duration_s = self._loop.time() - start
        self._late_times.pop(endpoint, None)
        mime = MediaType.of(reader.content_type).mime
        if outcome == "unwanted":
            return Skipped(url=request.url, status=reader.status, mime=mime, duration_s=duration_s)
        body = reader.body(limits.body_bytes_max if outcome == "length" else None)
        exchange = Exchange(
            requested_at=started_at,
            duration_s=duration_s,
            request=written,
            remote_ip=connection.peer,
            truncated=_TRUNCATIONS.get(outcome),
            tls=_tls_facts(connection.tls, certificate_error),
        )
        return capture_of(request, reader, body, exchange, self._rules)

    async def _ask(
        self,
        endpoint: OriginEndpoint,
        request: FetchRequest,
        written: bytes,
        reader: AnswerReader,
        limits: Limits,
    ) -> tuple[OriginConnection, str, AnswerReader]:
        """On a kept connection if there is one. Such a one may have ended as we wrote: then a new one is asked. As the
        server may have read the request all the same, and so sees two at once, that is to happen to it once only.
        """
        self._check_time(request)  # it may have waited for a place
        kept = self._pool.take(endpoint, request.address)
        if kept is not None:
            try:
                outcome = await kept.ask(written, reader, limits)
            except ConnectionEndedError:
                if reader.has_begun:
                    raise
                reader = AnswerReader(BytesIO)
                self._unkept[endpoint] = None
            else:
                self._keep(endpoint, kept, request.stay)
                return kept, outcome, reader
        fresh = await self._connect(endpoint, request.address)
        try:
            self._check_time(request)
        except _LateError:
            fresh.abort()  # it is connected under a lease that is over
            raise
        outcome = await fresh.ask(written, reader, limits)
        self._keep(endpoint, fresh, request.stay)
        return fresh, outcome, reader

    def _check_time(self, request: FetchRequest) -> None:
        """Just before a request is written: others may have been permitted to ask from the end of the lease on."""
        if request.starts_by is not None and self._loop.time() > request.starts_by:
            raise _LateError

    def _too_late(self, url: str, endpoint: OriginEndpoint, began: float) -> FetchError:
        """A host to which no lease is long enough would be asked for a lease again and again."""
        times = self._late_times[endpoint] = self._late_times.get(endpoint, 0) + 1
        if times < LATE_TIMES_MAX:
            return TooLateError(url, self._loop.time() - began)
        del self._late_times[endpoint]
        return TooSlowError(url, "no lease lasts until a connection is there")

    async def _connect(self, endpoint: OriginEndpoint, address: str | None) -> OriginConnection:
        """To the address of the lease and no other, whatever DNS says by now."""
        host = endpoint.host
        known = [] if address else await self._addresses(host)
        if address is None:
            return await self._opened(endpoint, known)
        if not address:
            raise _UnresolvedError(f"{host} led nowhere when permission was asked for")
        # The cap of an address is for what is open there, and not only for what is being answered.
        self._pool.leave(address, but=self._settings.connections_per_address - self._busy_at[address])
        within_s = ONE_OF_SEVERAL_S if self._resolver.has_others(host, address) else math.inf
        try:
            fresh = await self._opened(endpoint, [address], within_s)
        except (ssl.SSLError, ForbiddenSocketError):
            raise
        except OSError as error:  # a TimeoutError is one
            self._resolver.note(host, address, is_reached=False)
            if self._resolver.has_others(host, address):
                raise _OneOfSeveralError(f"{address} took no connection") from error
            raise
        self._resolver.note(host, address, is_reached=True)
        return fresh

    async def _opened(
        self, endpoint: OriginEndpoint, addresses: list[str], within_s: float = math.inf
    ) -> OriginConnection:
        slot = await self._settings.room.enter()
        try:
            fresh = await self._opener.open(endpoint, addresses, self._loop, within_s=within_s)
        except BaseException:
            slot.leave()
            raise
        fresh.takes(slot)
        return fresh

    def _keep(self, endpoint: OriginEndpoint, connection: OriginConnection, stay: Stay | None) -> None:
        if not connection.is_open:
            return
        if endpoint in self._unkept or not self._is_open:  # closed meanwhile: nobody would end it
            connection.abort()
            return
        self._pool.give(endpoint, connection, self._loop)
        if stay is not None:
            stay.keep(connection.abort)

    async def _addresses(self, host: str) -> list[str]:
        if _is_literal(host):
            return [host]
        try:
            return await self._resolver.addresses(host)
        except ForbiddenSocketError:
            raise
        except OSError as error:
            raise _UnresolvedError(str(error)) from error

    def _request_head(self, request: FetchRequest, target: _Target) -> bytes:
        """The bytes that are sent and kept. Nothing in a validator can end its line: heads were split at lines."""
        conditions = ""
        if request.etag:
            conditions = f"If-None-Match: {_one_line(request.etag)}\r\n"
        if request.last_modified:
            conditions += f"If-Modified-Since: {_one_line(request.last_modified)}\r\n"
        head = f"GET {target.path} HTTP/1.1\r\nHost: {target.authority}{self._fixed_head}"
        # Validators were read as Latin-1, so that every byte of them goes back as it came.
        return head.encode("utf-8", "surrogateescape") + f"{conditions}\r\n".encode("latin-1", "replace")


class _UnresolvedError(OSError):
    """No address for the name."""


class _OneOfSeveralError(OSError):
    """No connection to this one."""


def _wanting(request: FetchRequest) -> Callable[[AnswerReader], bool]:
    accepts = request.accepts
    if accepts is None:
        return lambda reader: True
    return lambda reader: reader.status != 200 or accepts(MediaType.of(reader.content_type).mime)


def _tls_facts(tls: TlsFacts | None, certificate_error: str | None) -> TlsFacts | None:
    if tls is None or certificate_error is None:
        return tls
    return TlsFacts(
        protocol=tls.protocol,
        cipher=tls.cipher,
        certificate_sha256=tls.certificate_sha256,
        error=certificate_error,
    )


def _target_of(url: str) -> _Target:
    """Where a canonical URL leads."""
    path_at = url.index("/", 8)
    is_secure = url.startswith("https")
    return _Target(*_authority(url[8 if is_secure else 7 : path_at], is_secure), url[path_at:])


@lru_cache(maxsize=4_096)
def _authority(authority: str, is_secure: bool) -> tuple[OriginEndpoint, str]:
    host, _, port = authority.rpartition(":")
    if not host or port.endswith("]"):
        host, port = authority, "443" if is_secure else "80"
    return OriginEndpoint(host.strip("[]"), int(port), is_secure), authority


def _is_literal(host: str) -> bool:
    return ":" in host or host.startswith("[") or host.replace(".", "").isdigit()


def _one_line(value: str) -> str:
    return " ".join(value.split()) if "\n" in value or "\r" in value else value


class _LateError(Exception):
    """The lease is over."""


def _as_fetch_error(url: str, error: Exception) -> FetchError:
    reason = str(error)[:300] or type(error).__name__
    if isinstance(error, ForbiddenSocketError) or isinstance(error.__cause__, ForbiddenSocketError):
        return ForbiddenAddressError(url, reason)
    if isinstance(error, _UnresolvedError):
        return UnresolvableError(url, reason)
    if isinstance(error, _OneOfSeveralError):
        return OtherAddressError(url, reason)
    if isinstance(error, TimeoutError):
        return TooSlowError(url, "no answer within the deadline")
    if isinstance(error, (BadAnswerError, ValueError)) and not isinstance(error, OSError):
        return MalformedResponseError(url, reason)
    return UnreachableError(url, reason)
