"""DNS that takes its time: who waits for it, and who does not; and what c-ares says of a name server's answers."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import cast

import aiodns
import anyio
import pytest
from aiodns.error import DNSError
from pycares import AddrInfoNode, AddrInfoResult

from crawler.core.politeness import HostSteward
from crawler.core.scope import CrawlScope
from crawler.frontier import Frontier
from crawler.frontier_rows import frontier_rows
from crawler.http import HttpFetcher
from crawler.names import (
    LOOKUPS_MAX,
    LOOKUPS_PER_ZONE_MAX,
    DnsNames,
    Question,
    TooManyLookupsError,
    zone_of,
)
from crawler.steward import LocalSteward
from crawler.worker import Crawler, WorkerSettings
from tests.crawler.memory import MemorySink
from tests.crawler.origin import origin, says
from tests.crawler.synthetic import FIRST_DAY, LOCAL, QUICK

pytestmark = pytest.mark.anyio


def answer(*addresses: str) -> AddrInfoResult:
    nodes = [AddrInfoNode(60, 0, socket.AF_INET, 0, 0, (one.encode(), 0)) for one in addresses]
    return AddrInfoResult(cnames=[], nodes=nodes)


class Dns:
    """Answers at once, but for names below `slow.example`, which wait until they may go on."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.waiting: list[Question] = []
        self.goes_on = False

    def __call__(self, host: str) -> Question:
        self.asked.append(host)
        question: Question = asyncio.get_running_loop().create_future()
        if host.endswith(("slow.example", ".test")):
            self.waiting.append(question)
            if self.goes_on:
                self.go_on()
        else:
            question.set_result(answer("127.0.0.1"))
        return question

    def go_on(self) -> None:
        self.goes_on = True
        while self.waiting:
            self.waiting.pop().set_exception(DNSError(12, "no answer"))


async def begun(names: DnsNames, hosts: list[str]) -> int:
    """How many of them could begin; nobody waits for any."""
    count = len(hosts)
    for host in hosts:
        try:
            async with asyncio.timeout(0):
                await names(host)
        except TooManyLookupsError:
            count -= 1
        except TimeoutError:
            pass
    return count


async def test_one_slow_zone_stops_nobody_else(tmp_path: Path) -> None:
    """With fewer connections than it has hosts, and while none of its names has an answer."""
    answers = {
        "/robots.txt": says(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n"),
        "/": says(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 16\r\n\r\n<a href='/page'>x"
        ),
        "/page": says(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 4\r\n\r\ntext"),
    }
    settings = replace(LOCAL, dns_patience_s=0.02)
    frontier = Frontier(frontier_rows(tmp_path), day=FIRST_DAY)
    dns = Dns()
    async with (
        origin(answers) as served,
        HttpFetcher(settings, wall_clock=lambda: 1.7e9, resolve=DnsNames(dns)) as fetcher,
    ):
        steward = LocalSteward(
            HostSteward(QUICK),
            fetcher,
            product_token="Herodotus",
            wall_clock=lambda: 1.7e9,
        )
        limits = WorkerSettings(connections=4)
        crawler = Crawler(
            frontier, fetcher, MemorySink(), steward, CrawlScope(), limits, wall_clock=lambda: 1.7e9
        )
        crawler.seed([f"http://h{number}.slow.example/" for number in range(40)])
        crawler.seed([f"http://good{number}.example:{served.port}/" for number in range(10)])
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(crawler.run)
                while crawler.counts.stored < 20:  # the loop turns, as sockets do
                    await anyio.lowlevel.checkpoint()
                assert not dns.goes_on
                assert len([name for name in dns.asked if "slow" in name]) <= LOOKUPS_PER_ZONE_MAX
                dns.go_on()
        assert crawler.progress().due == 0
        assert crawler.counts.by_error["robots unreachable"] == 40
    frontier.close()


async def test_a_lookup_goes_on_when_nobody_waits_and_its_answer_is_there_later() -> None:
    dns = Dns()
    names = DnsNames(dns)
    for _ in range(3):
        assert await begun(names, ["a.slow.example"]) == 1
    dns.go_on()
    for _ in range(2):
        with pytest.raises(OSError, match="no answer"):
            await names("a.slow.example")
    assert dns.asked == ["a.slow.example"]


async def test_a_zone_and_all_together_have_a_bound() -> None:
    names = DnsNames(Dns())
    assert await begun(names, [f"{n}.slow.example" for n in range(50)]) == LOOKUPS_PER_ZONE_MAX
    assert await names("good.example") == ["127.0.0.1"]
    rest = LOOKUPS_MAX - LOOKUPS_PER_ZONE_MAX
    assert await begun(names, [f"www.zone{n}.test" for n in range(LOOKUPS_MAX)]) == rest


A, AAAA = 1, 28
TOLD = {
    ("both.example", A): [socket.inet_aton("192.0.2.1"), socket.inet_aton("192.0.2.2")],
    ("both.example", AAAA): [socket.inet_pton(socket.AF_INET6, "2001:db8::1")],
    ("six.example", AAAA): [socket.inet_pton(socket.AF_INET6, "2001:db8::6")],
    ("half.example", A): [socket.inet_aton("192.0.2.3")],
    ("short.search.example", A): [socket.inet_aton("192.0.2.4")],
}


class NameServer(asyncio.DatagramProtocol):
    """On loopback. Says nothing at all about `mute.example`, nor about the IPv6 address of `half.example`."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int]] = []
        self.was_asked = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.DatagramTransport", transport)

    def datagram_received(self, data: bytes, sender: tuple[str, int]) -> None:
        labels, at = [], 12
        while data[at]:
            labels.append(data[at + 1 : at + 1 + data[at]].decode())
            at += data[at] + 1
        kind = int.from_bytes(data[at + 1 : at + 3], "big")
        name = ".".join(labels).lower()
        self.asked.append((name, kind))
        self.was_asked.set()
        if name == "mute.example" or (name, kind) == ("half.example", AAAA):
            return
        told = TOLD.get((name, kind), [])
        is_known = any(name == known for known, _ in TOLD)
        flags = 0x8180 if is_known else 0x8183  # NXDOMAIN
        head = data[:2] + struct.pack("!5H", flags, 1, len(told), 0, 0) + data[12 : at + 5]
        records = [b"\xc0\x0c" + struct.pack("!HHIH", kind, 1, 60, len(one)) + one for one in told]
        self.transport.sendto(head + b"".join(records), sender)


@asynccontextmanager
async def name_server(*, tries: int = 2) -> AsyncIterator[tuple[NameServer, DnsNames]]:
    transport, server = await asyncio.get_running_loop().create_datagram_endpoint(
        NameServer, local_addr=("127.0.0.1", 0)
    )
    port = transport.get_extra_info("sockname")[1]
    resolver = aiodns.DNSResolver(
        nameservers=[f"127.0.0.1:{port}"], timeout=0.05, tries=tries, domains=["search.example"]
    )
    try:
        yield server, DnsNames(resolver.getaddrinfo)
    finally:
        await resolver.close()
        transport.close()


@pytest.mark.parametrize(
    ("host", "addresses"),
    [
        ("both.example", {"192.0.2.1", "192.0.2.2", "2001:db8::1"}),
        ("six.example", {"2001:db8::6"}),
        ("half.example", {"192.0.2.3"}),  # a name server that is mute on IPv6 delays, and hides nothing
        ("short", {"192.0.2.4"}),  # by the search domain
    ],
)
async def test_both_kinds_of_addresses_and_search_domains_are_asked_for(
    host: str, addresses: set[str]
) -> None:
    async with name_server() as (_, names):
        assert set(await names(host)) == addresses


async def test_the_systems_list_of_hosts_is_read_and_onions_are_asked_of_nobody() -> None:
    async with name_server() as (server, names):
        assert set(await names("localhost")) <= {"127.0.0.1", "::1"}
        with pytest.raises(OSError, match="not found"):
            await names("secret.onion")  # RFC 7686
        assert server.asked == []


@pytest.mark.parametrize("host", ["nosuch.example.", "mute.example", f"{'a' * 64}.example", "", "a..b"])
async def test_a_name_without_an_address_is_an_error_of_ours(host: str) -> None:
    async with name_server() as (server, names):
        with pytest.raises((OSError, ValueError)):
            await names(host)
        asked = len(server.asked)
        with pytest.raises((OSError, ValueError)):
            await names(host)
        assert len(server.asked) == asked


async def test_a_caller_that_is_cancelled_leaves_the_lookup_under_way_and_closing_ends_it() -> None:
    async with name_server(tries=10) as (server, names):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(names, "mute.example")
            await server.was_asked.wait()
            tasks.cancel_scope.cancel()
        assert await begun(names, ["mute.example"]) == 1
        assert ("mute.example", A) in server.asked


@pytest.mark.parametrize(
    ("host", "zone"),
    [
        ("www.example.org", "example.org"),
        ("example.org.", "example.org"),
        ("a.b.example.co.uk", "example.co.uk"),
        ("localhost", "localhost"),
    ],
)
def test_a_zone_is_told_by_the_name(host: str, zone: str) -> None:
    assert zone_of(host) == zone
