"""How do all peers together look to the servers of a simulated web? The servers answer, and note rude peers.

All crawlers ask the same servers, so facts that no single peer can know show here: whether two peers came to one host
within its delay, or at the same time, and whether any peer asked for a URL that robots.txt forbids.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import NamedTuple, Self
from urllib.parse import urlsplit

import anyio

from crawler.core.capture import (
    Capture,
    FetchOutcome,
    MediaType,
    PayloadDigest,
    payload_digests,
    redirect_target,
)
from crawler.core.politeness import NoWay, Wait
from crawler.core.urls import STANDARD, reached, target_of
from crawler.http import NO_WAY_AGAIN_S
from crawler.ports import FetchRequest, Skipped
from simnet.web import Oracle, Web, WebRequest
from simnet.web.site import EPOCH_S, Response

ROUND_TRIP_S = 0.1
HOSTS_AT_AN_ADDRESS = 2
ROUNDING_S = 1e-6


class FetchStart(NamedTuple):
    at: float
    peer: int
    url: str


class Rudeness(NamedTuple):
    at: float
    what: str


@dataclass(slots=True)
class Site:
    """A server of the tester's own, beside the web's: it has every path, and manners that a story may change."""

    name: str
    address: str
    robots: str = ""
    answer_s: float = 0.2
    leads: Callable[[int], str] | None = None
    """Where its name leads, as DNS tells it to each peer; None: to its address."""
    trouble: Callable[[float], int] = lambda _now: 200
    """The status of every answer, by the time of the request."""

    def respond(self, path: str) -> Response:
        body = self.robots if path == "/robots.txt" else f"<title>{path}</title>"
        return Response(
            status=self.trouble(anyio.current_time()),
            headers=(("Content-Type", "text/html"),),
            body=body.encode(),
            delay_s=self.answer_s,
        )


class Origins:
    """All the web's servers. Its days are counted from 0."""

    def __init__(self, web: Web, *, day_s: float, delay_floor_s: float) -> None:
        self.web, self.oracle = web, Oracle(web)
        self.day_s = day_s
        self.starts: dict[str, list[FetchStart]] = defaultdict(list)
        self.visits: dict[int, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        """By day of the visitor's clock: which peers asked for a URL."""
        self.rude: list[Rudeness] = []
        self.note: Callable[[FetchStart], None] = lambda start: None
        self.sites: dict[str, Site] = {}
        self.no_way: set[tuple[int, str]] = set()
        """Peers, and hosts of whose family they have no address."""
        self.most_open: Counter[str] = Counter()
        """Requests that an address had to answer at once, at most."""
        self.at_address: dict[str, list[FetchStart]] = defaultdict(list)
        self._open: Counter[str] = Counter()
        self._delay_floor_s = delay_floor_s
        self._busy: dict[str, int] = {}

    def today(self) -> int:
        return int(anyio.current_time() // self.day_s)

    async def answer(
        self, peer: int, url: str, headers: Mapping[str, str], day: int, address: str
    ) -> Response:
        """At the address that the peer is connected to."""
        host = urlsplit(url).netloc
        start = FetchStart(anyio.current_time(), peer, url)
        self._judge(host, start)
        self.note(start)
        self.starts[host].append(start)
        self.visits[day][url].append(peer)
        address = reached(address)
        self.at_address[address].append(start)
        site = self.sites.get(host)
        if site is not None:
            response = site.respond(target_of(url))
        else:
            response = self.web.respond(
                WebRequest(host=host, path=target_of(url), headers=headers), self.today()
            )
        self._busy[self._line(host, peer)] = peer
        self._open[address] += 1
        self.most_open[address] = max(self.most_open[address], self._open[address])
        try:
            await anyio.sleep(ROUND_TRIP_S + response.delay_s)
        finally:
            self._busy.pop(self._line(host, peer), None)
            self._open[address] -= 1
        return response

    def _line(self, host: str, peer: int) -> str:
        """Of which one is open at a time: where no delay is agreed, each peer may have one."""
        return host if self._delay_floor_s else f"{host} {peer}"

    def _judge(self, host: str, start: FetchStart) -> None:
        last = self.starts[host][-1] if self.starts[host] else None
        since_s = start.at - last.at if last is not None else float("inf")
        what = ""
        line = self._line(host, start.peer)
        if line in self._busy:
            what = f"while peer {self._busy[line]} was answered"
        elif last is not None and since_s < self._delay_floor_s - ROUNDING_S:
            what = f"{since_s:.3f} s after peer {last.peer} came to its host"
        elif (
            host not in self.sites
            and not start.url.endswith("/robots.txt")
            and not self.oracle.is_allowed(start.url)
        ):
            what = "against robots.txt"
        if what:
            self.rude.append(Rudeness(start.at, f"peer {start.peer} asked for {start.url} {what}"))

    def address(self, host: str, peer: int) -> str:
        """Where the name leads for a peer."""
        site = self.sites.get(host)
        if site is not None:
            return site.leads(peer) if site.leads is not None else site.address
        place = self.oracle.place(f"http://{host}/")
        if place is None:
            return ""
        number = place.host.number // HOSTS_AT_AN_ADDRESS
        return f"93.184.{number >> 8}.{number & 255}"


class SimulatedFetcher:
    """One peer's `Fetcher`, without sockets."""

    def __init__(
        self,
        origins: Origins,
        peer: int,
        user_agent: str,
        wall_clock: Callable[[], float],
        check_alive: Callable[[], None] = lambda: None,
    ) -> None:
        self._origins, self._peer = origins, peer
        self._user_agent, self._wall_clock, self._check_alive = user_agent, wall_clock, check_alive

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def address_of(self, host: str) -> str | Wait:
        await anyio.lowlevel.checkpoint()
        address = self._origins.address(host, self._peer)
        if (self._peer, host) in self._origins.no_way:
            again_at = anyio.current_time() + NO_WAY_AGAIN_S
            return NoWay(until=again_at, reason="this machine has no IPv4", address=address)
        return address

    async def fetch(self, request: FetchRequest) -> Capture | Skipped:
        headers = {"user-agent": self._user_agent}
        if request.etag:
            headers["if-none-match"] = request.etag
        if request.last_modified:
            headers["if-modified-since"] = request.last_modified
        started_at, start = self._wall_clock(), anyio.current_time()
        self._check_alive()
        day = int((started_at - EPOCH_S) // self._origins.day_s)
        address = request.address
        if address is None:
            address = self._origins.address(urlsplit(request.url).netloc, self._peer)
        response = await self._origins.answer(self._peer, request.url, headers, day, address)
        duration_s = anyio.current_time() - start
        mime = MediaType.of(response.header("Content-Type")).mime
        if response.status == 200 and request.accepts is not None and not request.accepts(mime):
            return Skipped(url=request.url, status=200, mime=mime, duration_s=duration_s)
        return capture_of_response(request, headers, response, started_at, duration_s, mime)


def capture_of_response(
    request: FetchRequest,
    headers: Mapping[str, str],
    response: Response,
    started_at: float,
    duration_s: float,
    mime: str,
) -> Capture:
    body, outcome = response.body, FetchOutcome.STORED
    sha256, sha1 = payload_digests(body)
    if response.status == 304 and request.digest is not None:
        outcome, body, sha256, sha1 = FetchOutcome.NOT_MODIFIED, b"", request.digest, b""
    elif response.status == 200 and sha256 == request.digest:
        outcome, body = FetchOutcome.SAME_DIGEST, b""
    location = response.header("Location")
    return Capture(
        url=request.url,
        requested_at=started_at,
        duration_s=duration_s,
        request=_head(f"GET {target_of(request.url)} HTTP/1.1", headers.items()),
        status=response.status,
        head=_head(f"HTTP/1.1 {response.status} OK", response.headers),
        body=body,
        sha256=PayloadDigest(sha256),
        sha1=sha1,
        remote_ip="",
        outcome=outcome,
        mime=mime,
        redirect_to=redirect_target(response.status, location, request.url, STANDARD),
        via=request.via,
    )


def _head(first: str, fields: Iterable[tuple[str, str]]) -> bytes:
    lines = [first, *(f"{name}: {value}" for name, value in fields)]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape")
