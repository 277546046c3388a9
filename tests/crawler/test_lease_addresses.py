"""Whatever DNS says: where does a fetch go, and what stays open there? At the address of its lease, and for as long."""

import asyncio
from collections.abc import Callable

import pytest

from crawler.core.capture import Capture
from crawler.core.errors import OtherAddressError, UnreachableError, UnresolvableError
from crawler.core.politeness import HostSteward, Lease, NoWay, PolitenessPolicy, Stay, Wait
from crawler.core.urls import Origin, reached
from crawler.http import FetchSettings, HttpFetcher
from crawler.ports import FetchRequest
from crawler.resolving import IPV6_FAILURES_MAX, GuardedResolver
from tests.crawler.origin import origin, says

pytestmark = pytest.mark.anyio
PAGE = {"/": says(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx")}
HERE, VICTIM, NOBODY = "127.0.0.1", "127.0.0.2", "127.0.0.3"


def names(
    leads: Callable[[str], list[str]],
    *,
    dns_ttl_s: float = 300.0,
    leads_out: Callable[[str], bool] = lambda address: True,
) -> HttpFetcher:
    async def resolve(host: str) -> list[str]:
        return leads(host)

    chosen = FetchSettings(allow_private_addresses=True, dns_ttl_s=dns_ttl_s, leads_out=leads_out)
    return HttpFetcher(chosen, wall_clock=lambda: 1.0, resolve=resolve)


async def got(client: HttpFetcher, url: str, address: str | None, stay: Stay | None = None) -> str:
    found = await client.fetch(FetchRequest(url=url, address=address, stay=stay))
    assert isinstance(found, Capture)
    return found.remote_ip


async def noticed(is_so: Callable[[], bool]) -> None:
    """A server hears of the end of a connection a moment later, and long before an idle one would grow too old."""
    async with asyncio.timeout(10):
        while not is_so():  # noqa: ASYNC110  # a server tells nobody
            await asyncio.sleep(0.01)


async def test_a_name_that_leads_elsewhere_between_permission_and_connection_leads_nobody_there() -> None:
    answers = [[HERE], [VICTIM]]
    async with (
        origin(PAGE) as served,
        origin(PAGE, host=VICTIM, port=served.port) as victim,
        names(lambda _host: answers.pop(0) if answers else [VICTIM], dns_ttl_s=0.0) as client,
    ):
        address = await client.address_of("rebound.example")
        assert address == HERE
        url = served.url(host="rebound.example")
        assert await got(client, url, HERE) == HERE
        assert victim.connections == 0
        assert await got(client, url, VICTIM) == VICTIM, "for which another lease was asked"


async def test_a_kept_connection_to_another_address_than_the_lease_covers_ends() -> None:
    async with (
        origin(PAGE) as served,
        origin(PAGE, host=VICTIM, port=served.port) as victim,
        names(lambda _host: [VICTIM, HERE]) as client,
    ):
        url = served.url(host="two.example")
        assert await got(client, url, VICTIM) == VICTIM
        assert await got(client, url, HERE) == HERE
        await noticed(lambda: victim.open == 0)


async def test_of_several_addresses_one_that_takes_no_connection_is_followed_by_another_after_asking() -> (
    None
):
    async with origin(PAGE) as served, names(lambda _host: [NOBODY, HERE]) as client:
        url = served.url(host="two.example")
        assert await client.address_of("two.example") == NOBODY
        with pytest.raises(OtherAddressError):
            await got(client, url, NOBODY)
        assert served.connections == 0, "no lease covers it yet"
        assert await client.address_of("two.example") == HERE
        assert await got(client, url, HERE) == HERE


async def test_a_site_of_a_family_that_this_machine_has_not_is_left_alone_and_one_of_both_is_asked_by_the_other() -> (
    None
):
    both = {"both.example": ["93.184.216.34", "2001:db8::7"], "four.example": ["93.184.216.34"]}
    async with names(both.__getitem__, leads_out=lambda address: ":" in address) as client:
        assert await client.address_of("both.example") == "2001:db8::7"
        found = await client.address_of("four.example")
        assert isinstance(found, NoWay)
        assert (found.reason, found.address) == ("this machine has no IPv4", "93.184.216.34")
        assert found.until > asyncio.get_running_loop().time() + 500


async def test_when_no_address_takes_a_connection_that_is_a_failure_of_the_host() -> None:
    async with names(lambda _host: [NOBODY, VICTIM]) as client:
        await client.address_of("two.example")
        with pytest.raises(OtherAddressError):
            await got(client, "http://two.example:8098/", NOBODY)
        with pytest.raises(UnreachableError) as failed:
            await got(client, "http://two.example:8098/", VICTIM)
        assert not isinstance(failed.value, OtherAddressError)


async def test_where_a_name_led_nowhere_when_permission_was_asked_for_nothing_is_connected_to() -> None:
    async with origin(PAGE) as served, names(lambda _host: [HERE]) as client:
        with pytest.raises(UnresolvableError):
            await got(client, served.url(host="late.example"), "")
        assert served.connections == 0


async def test_connections_that_wait_for_a_next_request_end_with_the_stay() -> None:
    async with origin(PAGE) as served, names(lambda _host: [HERE]) as client:
        stays = [Stay() for _ in range(5)]
        for number, stay in enumerate(stays):
            await got(client, served.url(host=f"h{number}.example"), HERE, stay)
            stay.end()
        await noticed(lambda: served.open == 0)
        await got(client, served.url(host="h.example"), HERE, stays[0])  # over before the answer came
        await noticed(lambda: served.open == 0)


async def test_many_names_at_one_address_leave_no_more_open_there_than_its_cap() -> None:
    async with origin(PAGE) as served, names(lambda _host: [HERE]) as client:
        for number in range(12):
            await got(client, served.url(host=f"h{number}.example"), HERE)
            await noticed(lambda: served.open <= 2)
        assert served.connections == 12


async def test_an_address_counts_once_however_it_is_written() -> None:
    assert {
        reached(one) for one in ("[::ffff:192.0.2.1]", "::FFFF:c000:201", "64:ff9b::192.0.2.1", "192.0.2.1")
    } == {"192.0.2.1"}
    assert reached("2001:DB8:0::1%eth0") == "2001:db8::1"
    assert reached("no address") == "no address"
    steward = HostSteward(PolitenessPolicy(per_address_concurrency=2))
    spellings = ("192.0.2.1", "::ffff:192.0.2.1", "64:ff9b::c000:201")
    found = [
        steward.lease(Origin(f"http://h{at}.example"), 0.0, address=one) for at, one in enumerate(spellings)
    ]
    assert [type(one) for one in found] == [Lease, Lease, Wait]


async def test_addresses_of_a_line_that_only_looks_as_if_it_had_ipv6_come_last() -> None:
    async def resolve(_host: str) -> list[str]:
        return ["2001:db8::1", "192.0.2.1"]

    resolver = GuardedResolver(resolve, ttl_s=300.0, allow_private=True)
    for number in range(IPV6_FAILURES_MAX):
        assert (await resolver.addresses("fresh.example"))[0] == "2001:db8::1"
        resolver.note(f"h{number}.example", "2001:db8::1", is_reached=False)
    assert (await resolver.addresses("fresh.example"))[0] == "192.0.2.1"
    resolver.note("only.example", "2001:db8::2", is_reached=True)
    assert (await resolver.addresses("fresh.example"))[0] == "2001:db8::1"
    await resolver.close()
