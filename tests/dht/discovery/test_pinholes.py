"""A firewall of IPv6 is searched for, asked and given its pinholes back; the router is a real server on loopback."""

from pathlib import Path

import pytest

from dht.discovery import pinholes
from dht.discovery.gateway_codec import GatewayRefused, Mapped, Transport
from dht.discovery.pinholes import PinholeGateway, interface_of
from dht.discovery.port_mapping import MappingState, PortMapper
from tests.dht.discovery.routers import FirewallRouter, firewall_router

pytestmark = pytest.mark.anyio


async def test_a_firewall_lets_in_both_protocols_and_closes_again_at_the_end() -> None:
    with firewall_router(FirewallRouter()) as router:
        mapper = PortMapper([("IGD 2", PinholeGateway("::1", router.searched_at))], 4484)
        outcome = await mapper.map_once()
        assert (outcome.external_port, outcome.external_ip, outcome.protocol) == (4484, "::1", "IGD 2")
        expected = {"1": ("17", "::1", "4484", "3600"), "2": ("6", "::1", "4484", "3600")}
        assert router.pinholes == expected
        await mapper.map_once()
        assert router.pinholes == expected, "the same ones, for longer"
        await mapper.release()
        assert router.pinholes == {}


async def test_a_firewall_that_refuses_is_reported_in_its_own_words() -> None:
    with firewall_router(FirewallRouter(refuses="InboundPinholeNotAllowed")) as router:
        outcome = await PortMapper([("IGD 2", PinholeGateway("::1", router.searched_at))], 4484).map_once()
    assert outcome.state is MappingState.FAILED
    assert "the router refuses: InboundPinholeNotAllowed" in outcome.explanation


async def test_a_lost_search_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pinholes, "SEARCH_S", 0.2)
    with firewall_router(FirewallRouter(unanswered=1)) as router:
        result = await PinholeGateway("::1", router.searched_at).map(4484, 4484, 60)
    assert result == Mapped(external_port=4484, lifetime_s=60, external_ip="::1")


async def test_nobody_is_spoken_to_but_the_machine_that_answered() -> None:
    with firewall_router(FirewallRouter(named_host="2001:db8::1")) as router:
        result = await PinholeGateway("::1", router.searched_at).map(4484, 4484, 60)
    assert isinstance(result, Mapped), "at its own address, not at the one that it named"
    assert router.hosts_named[0].startswith("[2001:db8::1]:")


async def test_a_router_without_such_a_firewall_is_no_gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    with firewall_router(FirewallRouter(description="<root>nothing</root>")) as router:
        result = await PinholeGateway("::1", router.searched_at).map(4484, 4484, 60)
    assert result == GatewayRefused(code=-1, reason="the router's description has no firewall")
    monkeypatch.setattr(pinholes, "SEARCH_S", 0.05)
    silent = FirewallRouter(unanswered=2)
    with firewall_router(silent) as router:
        result = await PinholeGateway("::1", router.searched_at).map(4484, 4484, 60)
        assert result == GatewayRefused(code=-1, reason="no router has a firewall that can be asked")
        gone = await PinholeGateway("2001:db8::99", router.searched_at).map(4484, 4484, 60)
    assert isinstance(gone, GatewayRefused), "the address is not ours any more"


async def test_a_firewall_that_began_anew_is_seen_to_have_no_pinhole_of_ours() -> None:
    with firewall_router(FirewallRouter()) as router:
        gateway = PinholeGateway("::1", router.searched_at)
        await gateway.map(4484, 4484, 60, Transport.UDP)
        await gateway.map(4484, 4484, 60, Transport.TCP)
        assert await gateway.holds(4484, Transport.TCP) is True
        del router.pinholes["2"]
        assert await gateway.holds(4484, Transport.UDP) is True
        assert await gateway.holds(4484, Transport.TCP) is False
        router.refuses, router.refusal_code = "Action not authorized", 606
        assert await gateway.holds(4484, Transport.UDP) is False, "another machine has the number"
        router.refuses, router.refusal_code = "Invalid Action", 401
        assert await gateway.holds(4484, Transport.UDP) is None, "it does not know the question"


async def test_what_was_never_opened_is_not_closed() -> None:
    gateway = PinholeGateway("::1", ("::1", 9))
    await gateway.unmap(4484, Transport.TCP)
    assert await gateway.epoch_s() is None
    assert await gateway.holds(4484, Transport.TCP) is None


def test_the_search_leaves_by_the_interface_that_has_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "if_inet6"
    table.write_text(
        f"{'0' * 31}1 01 80 10 80       lo\n2a01000100010000000000000000000a 1f 40 00 80     eth0\n",
        encoding="ascii",
    )
    monkeypatch.setattr(pinholes, "INTERFACES", table)
    assert interface_of("2a01:1:1::a") == 31
    assert interface_of("2a01:1:1::b") == 0
    monkeypatch.setattr(pinholes, "INTERFACES", tmp_path / "none")
    assert interface_of("2a01:1:1::a") == 0
