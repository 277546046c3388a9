"""What tests of visits are made of: answers as a fetcher gives them, and a crawler's world without sockets."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from crawler.core.capture import Capture, payload_digests
from crawler.core.link import Link
from crawler.core.politeness import Lease, OriginReport, Wait
from crawler.core.robots import ALLOW_ALL, RobotsRules
from crawler.core.urls import Origin
from crawler.ports import FetchRequest

ADDRESS = "192.0.2.1"
DAY = 20_000
DAY_S = 86_400.0


def answer(
    url: str,
    body: bytes = b"",
    *,
    status: int = 200,
    fields: bytes = b"Content-Type: text/html\r\n",
    redirect_to: str | None = None,
    requested_at: float = DAY * DAY_S,
) -> Capture:
    sha256, sha1 = payload_digests(body)
    return Capture(
        url=url,
        requested_at=requested_at,
        duration_s=0.1,
        request=b"",
        status=status,
        head=b"HTTP/1.1 %d X\r\n%b\r\n" % (status, fields),
        body=body,
        sha256=sha256,
        sha1=sha1,
        remote_ip=ADDRESS,
        mime="text/html",
        redirect_to=redirect_to,
    )


@dataclass
class Site:
    """A fetcher that answers each request by a function, and remembers them."""

    answers: Callable[[FetchRequest], Capture]
    asked: list[FetchRequest] = field(default_factory=list)
    is_blocked: bool = False
    """Requests are taken and never answered."""

    async def fetch(self, request: FetchRequest) -> Capture:
        self.asked.append(request)
        if self.is_blocked:
            await anyio.sleep_forever()
        await anyio.lowlevel.checkpoint()
        return self.answers(request)

    async def address_of(self, host: str) -> str:
        del host
        return ADDRESS


@dataclass
class Permits:
    """A steward that grants everything at once and counts what was not given back."""

    out: int = 0
    granted: int = 0
    reports: list[OriginReport] = field(default_factory=list)

    async def rules(self, origin: Origin) -> RobotsRules | Wait:
        del origin
        await anyio.lowlevel.checkpoint()
        return ALLOW_ALL

    async def rules_alone(self, origin: Origin) -> RobotsRules | Wait:
        return await self.rules(origin)

    async def lease(self, origin: Origin, address: str) -> Lease | Wait:
        del address
        self.out += 1
        self.granted += 1
        return Lease(origin=origin, number=self.granted, starts_at=0.0, expires_at=1e9)

    async def give_back(self, lease: Lease, report: OriginReport) -> float:
        del lease
        self.out -= 1
        if report.fetches:
            self.reports.append(report)
        return anyio.current_time()


@dataclass
class Owner:
    """Takes every link for our own, and remembers which came."""

    divided: list[str] = field(default_factory=list)

    def divide(self, links: Sequence[Link]) -> list[Link]:
        self.divided += [link.url for link in links]
        return list(links)

    def is_our_turn(self, url: str) -> bool:
        del url
        return True
