"""Routers are asked, judged and given their ports back; they are real servers on loopback."""

import ipaddress
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from dht.discovery import port_mapping
from dht.discovery.gateway_codec import (
    Epoch,
    GatewayRefused,
    Mapped,
    Transport,
    parse_epoch,
    parse_pcp_map,
    parse_pmp_address,
    parse_pmp_map,
    pcp_announce_request,
    pcp_map_request,
    pmp_map_request,
)
from dht.discovery.port_mapping import (
    DatagramGateway,
    MappingOutcome,
    MappingState,
    PortMapper,
    judge,
)
from dht.discovery.upnp import UpnpGateway
from tests.dht.discovery.routers import DatagramRouter, UpnpRouter, upnp_router

anyio_test = pytest.mark.anyio


@asynccontextmanager
async def running(router: DatagramRouter) -> AsyncIterator[DatagramGateway]:
    async with anyio.create_task_group() as group:
        group.start_soon(router.run)
        yield DatagramGateway("127.0.0.1", router.port, first_wait_s=0.05, tries=2)
        group.cancel_scope.cancel()
    router.listening.close()


def test_requests_are_the_bytes_of_the_rfcs() -> None:
    assert pmp_map_request(4000, 4001, 3600).hex() == "000100000fa00fa100000e10"
    request = pcp_map_request(
        nonce=b"n" * 12, client_ip="10.0.0.2", internal_port=4000, external_port=0, lifetime_s=3600
    )
    assert len(request) == 60
    assert request[:24].hex() == "0201000000000e10" + "00000000000000000000ffff0a000002"
    assert request[36:44].hex() == "110000000fa00000"


@given(st.binary(max_size=80))
def test_no_bytes_of_a_stranger_upset_the_parsers(data: bytes) -> None:
    for result in (parse_pmp_address(data), parse_pmp_map(data, 1), parse_pcp_map(data, bytes(12), 1)):
        assert result is None or isinstance(result, GatewayRefused | Mapped | str)
    epoch_s = parse_epoch(data)
    assert epoch_s is None or 0 <= epoch_s < 2**32


@anyio_test
async def test_a_router_with_pcp_maps_and_takes_back() -> None:
    router = DatagramRouter()
    async with running(router) as gateway:
        result = await gateway.map(4000, 4000, 3600)
        assert result == Mapped(external_port=4000, lifetime_s=3600, external_ip="8.8.4.4")
        assert router.mappings == {("UDP", 4000): 4000}
        await gateway.unmap(4000)
        assert router.mappings == {}


@anyio_test
async def test_a_router_with_nat_pmp_alone_is_asked_in_its_own_words() -> None:
    router = DatagramRouter(speaks_pcp=False)
    async with running(router) as gateway:
        result = await gateway.map(4000, 4000, 3600)
        assert result == Mapped(external_port=4000, lifetime_s=3600, external_ip="8.8.4.4")
        assert gateway.protocol == "NAT-PMP"
        await gateway.unmap(4000)
        assert router.mappings == {}


@anyio_test
async def test_a_lost_request_is_sent_again() -> None:
    async with running(DatagramRouter(dropped_first=1)) as gateway:
        assert isinstance(await gateway.map(4000, 4000, 3600), Mapped)


@anyio_test
async def test_a_router_that_refuses_is_reported_in_plain_words() -> None:
    router = DatagramRouter(result_code=2)
    async with running(router) as gateway:
        mapper = PortMapper([("PCP", gateway)], 4000)
        outcome = await mapper.map_once()
    assert outcome.state is MappingState.FAILED
    assert "switched off in its settings" in outcome.explanation


@anyio_test
async def test_where_no_router_answers_the_next_kind_is_tried() -> None:
    silent = DatagramRouter(dropped_first=1000)
    async with running(silent) as gateway, running(DatagramRouter()) as second:
        outcome = await PortMapper([("PCP", gateway), ("PCP", second)], 4000).map_once()
    assert outcome.state is MappingState.MAPPED


@pytest.mark.parametrize(
    ("external_ip", "state", "words"),
    [
        ("8.8.4.4", MappingState.MAPPED, "forwards UDP and TCP port 4000 of 8.8.4.4"),
        ("192.168.1.7", MappingState.DOUBLE_NAT, "double NAT"),
        ("not an address", MappingState.MAPPED, "an address it did not tell"),
        ("100.64.3.4", MappingState.DOUBLE_NAT, "carrier-grade NAT"),
    ],
)
def test_the_outside_address_decides_what_a_mapping_is_worth(
    external_ip: str, state: MappingState, words: str
) -> None:
    outcome = judge("PCP", Mapped(external_port=4000, lifetime_s=3600, external_ip=external_ip))
    assert outcome.state is state
    assert words in outcome.explanation


class _CountingGateway:
    """A gateway that only keeps a diary, for virtual time."""

    def __init__(
        self,
        epoch: Callable[[float], float | None] = lambda now: now,
        holds: Callable[[Transport, float], bool | None] = lambda transport, now: None,
    ) -> None:
        self.asked_at: list[float] = []
        self.unmapped: list[tuple[str, int]] = []
        self._epoch, self._holds = epoch, holds

    async def map(
        self, internal_port: int, external_port: int, lifetime_s: int, transport: Transport
    ) -> Mapped | GatewayRefused:
        del internal_port
        if transport is Transport.UDP:
            self.asked_at.append(anyio.current_time())
        return Mapped(external_port=external_port, lifetime_s=lifetime_s, external_ip="8.8.4.4")

    async def unmap(self, external_port: int, transport: Transport) -> None:
        self.unmapped.append((transport.name, external_port))

    async def epoch_s(self) -> int | None:
        await anyio.lowlevel.checkpoint()
        told = self._epoch(anyio.current_time())
        return None if told is None else int(told)

    async def holds(self, external_port: int, transport: Transport) -> bool | None:
        assert external_port == 4000
        await anyio.lowlevel.checkpoint()
        return self._holds(transport, anyio.current_time())


def test_a_mapping_is_renewed_at_half_time_and_given_back_at_the_end() -> None:
    gateway = _CountingGateway()
    outcomes: list[MappingOutcome] = []

    async def keep(outcome: MappingOutcome) -> None:
        outcomes.append(outcome)

    async def scenario() -> list[float]:
        start = anyio.current_time()
        with anyio.move_on_after(5500):
            await PortMapper([("PCP", gateway)], 4000).run(keep)
        return [round(at - start) for at in gateway.asked_at]

    clock = trio.testing.MockClock(autojump_threshold=0)
    assert anyio.run(scenario, backend="trio", backend_options={"clock": clock}) == [0, 1800, 3600, 5400]
    assert len(outcomes) == 1
    assert gateway.unmapped == [("UDP", 4000), ("TCP", 4000)]


@anyio_test
async def test_a_upnp_router_maps_and_takes_back() -> None:
    with upnp_router(UpnpRouter()) as router:
        gateway = UpnpGateway(description_url=router.url)
        result = await gateway.map(4000, 4000, 3600)
        assert result == Mapped(external_port=4000, lifetime_s=3600, external_ip="8.8.4.4")
        assert router.mappings["UDP", "4000"]["NewLeaseDuration"] == "3600"
        await gateway.unmap(4000)
        assert router.mappings == {}


@anyio_test
async def test_a_upnp_router_is_asked_whether_it_holds_our_mapping_still() -> None:
    with upnp_router(UpnpRouter()) as router, upnp_router(UpnpRouter()) as elsewhere:
        gateway = UpnpGateway(description_url=router.url)
        assert await gateway.holds(4000, Transport.UDP) is False
        await gateway.map(4000, 4000, 3600)
        assert await gateway.holds(4000, Transport.UDP) is True
        assert await gateway.holds(4000, Transport.TCP) is False
        router.is_busy = True
        assert await gateway.holds(4000, Transport.UDP) is None
        router.is_busy = False
        router.mappings["UDP", "4000"]["NewInternalClient"] = "192.168.1.77"
        assert await gateway.holds(4000, Transport.UDP) is False, "another machine has our port"
        router.is_busy = True
        gateway.description_url = elsewhere.url
        assert await gateway.holds(4000, Transport.UDP) is False, "it began anew and listens elsewhere"


@anyio_test
async def test_a_upnp_router_that_takes_mappings_without_an_end_alone_gets_such() -> None:
    with upnp_router(UpnpRouter(is_for_ever=True)) as router:
        gateway = UpnpGateway(description_url=router.url)
        result = await gateway.map(4000, 4000, 3600)
        assert result == Mapped(external_port=4000, lifetime_s=3600, external_ip="8.8.4.4")
        assert router.mappings["UDP", "4000"]["NewLeaseDuration"] == "0"


@anyio_test
async def test_the_second_peer_of_a_house_gets_another_outside_port_by_upnp() -> None:
    taken = frozenset({("UDP", "4000"), ("TCP", "4000"), ("TCP", "4001")})
    with upnp_router(UpnpRouter(taken=taken)) as router:
        mapper = PortMapper([("UPnP", UpnpGateway(description_url=router.url))], 4000)
        outcome = await mapper.map_once()
        assert (outcome.state, outcome.external_port) == (MappingState.MAPPED, 4002)
        assert {("UDP", "4002"), ("TCP", "4002")} <= router.mappings.keys()
    all_taken = frozenset(("UDP", str(port)) for port in range(65_530, 65_536))
    with upnp_router(UpnpRouter(taken=all_taken)) as router:
        result = await UpnpGateway(description_url=router.url).map(4000, 65_530, 3600)
    assert result == GatewayRefused(code=-1, reason="the router did not take the mapping")


@anyio_test
@pytest.mark.parametrize("speaks_pcp", [True, False])
async def test_both_protocols_are_mapped_at_one_outside_port_and_given_back(speaks_pcp: bool) -> None:
    router = DatagramRouter(speaks_pcp=speaks_pcp)
    async with running(router) as gateway:
        mapper = PortMapper([("PCP", gateway)], 4000)
        assert (await mapper.map_once()).state is MappingState.MAPPED
        assert router.mappings == {("UDP", 4000): 4000, ("TCP", 4000): 4000}
        await mapper.release()
        assert router.mappings == {}


@anyio_test
async def test_a_router_that_forwards_datagrams_alone_is_named_with_what_to_do() -> None:
    router = DatagramRouter(refused=frozenset({"TCP"}))
    async with running(router) as gateway:
        mapper = PortMapper([("PCP", gateway)], 4000)
        outcome = await mapper.map_once()
        assert (outcome.state, outcome.external_port) == (MappingState.HALF, 4000)
        assert "forward TCP port 4000 to port 4000 of this machine by hand" in outcome.explanation
        await mapper.release()
        assert router.mappings == {}


@anyio_test
async def test_where_tcp_gets_another_outside_port_udp_follows_it() -> None:
    router = DatagramRouter(taken=frozenset({("TCP", 4000)}))
    async with running(router) as gateway:
        outcome = await PortMapper([("PCP", gateway)], 4000).map_once()
    assert (outcome.state, outcome.external_port) == (MappingState.MAPPED, 4001)
    assert router.mappings == {("UDP", 4000): 4001, ("TCP", 4000): 4001}


@anyio_test
async def test_where_no_port_is_free_for_both_it_is_half() -> None:
    router = DatagramRouter(taken=frozenset({("TCP", 4000), ("UDP", 4001)}))
    async with running(router) as gateway:
        outcome = await PortMapper([("PCP", gateway)], 4000).map_once()
    assert outcome.state is MappingState.HALF
    assert "another outside port" in outcome.explanation
    assert router.mappings == {("UDP", 4000): outcome.external_port}


@anyio_test
async def test_a_upnp_router_maps_both() -> None:
    with upnp_router(UpnpRouter()) as router:
        mapper = PortMapper([("UPnP", UpnpGateway(description_url=router.url))], 4000)
        assert (await mapper.map_once()).state is MappingState.MAPPED
        assert sorted(router.mappings) == [("TCP", "4000"), ("UDP", "4000")]
        await mapper.release()
        assert router.mappings == {}


@anyio_test
async def test_a_upnp_router_that_refuses_gives_a_reason() -> None:
    with upnp_router(UpnpRouter(is_refusing=True)) as router:
        result = await UpnpGateway(description_url=router.url).map(4000, 4000, 3600)
    assert isinstance(result, GatewayRefused)
    assert result.reason.startswith("UPnP")


@anyio_test
async def test_a_upnp_router_behind_another_is_seen_to_be() -> None:
    with upnp_router(UpnpRouter(external_ip="192.168.0.9")) as router:
        mapper = PortMapper([("UPnP", UpnpGateway(description_url=router.url))], 4000)
        outcome = await mapper.map_once()
    assert outcome.state is MappingState.DOUBLE_NAT


def test_the_router_of_the_default_route_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    routes = tmp_path / "route"
    routes.write_text(
        "Iface\tDestination\tGateway\tFlags\nlo\t0000007F\t00000000\t0001\neth0\t00000000\t0101A8C0\t0003\n"
    )
    monkeypatch.setattr(port_mapping, "ROUTES", routes)
    assert port_mapping.default_gateway() == "192.168.1.1"
    monkeypatch.setattr(port_mapping, "ROUTES", tmp_path / "none")
    assert port_mapping.default_gateway() is None


def test_a_router_is_asked_again_when_strangers_do_not_get_through_but_not_for_each_word() -> None:
    async def scenario() -> list[float]:
        gateway = _CountingGateway()
        mapper = PortMapper([("PCP", gateway)], 4000)

        async def keep(outcome: MappingOutcome) -> None:
            del outcome

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(mapper.run, keep)
            for wait_s in (5, 20, 1, 30):
                await anyio.sleep(wait_s)
                mapper.ask_again()
            await anyio.sleep(1)
            tasks.cancel_scope.cancel()
        return gateway.asked_at

    clock = trio.testing.MockClock(autojump_threshold=0)
    assert anyio.run(scenario, backend="trio", backend_options={"clock": clock}) == [0, 25, 56]


@anyio_test
async def test_a_pinhole_is_asked_for_from_the_address_that_it_is_for() -> None:
    router = DatagramRouter(host="::1", external_ip="2001:db8::7")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(router.run)
        gateway = DatagramGateway("::1", router.port, inside="::1")
        outcome = await PortMapper([("PCP", gateway)], 4000).map_once()
        assert (outcome.external_port, outcome.external_ip) == (4000, "2001:db8::7")
        assert router.mappings == {("UDP", 4000): 4000, ("TCP", 4000): 4000}
        assert router.client == ipaddress.ip_address("::1")
        nobody = DatagramGateway("::1", router.port, inside="2001:db8::99")
        assert isinstance(await nobody.map(4000, 4000, 60), GatewayRefused)
        tasks.cancel_scope.cancel()
    router.listening.close()


@pytest.mark.parametrize(
    ("via", "flags", "expected"),
    [
        ("fe800000000000000000000000000001", "00000003", "fe80::1%eth0"),
        ("20010db8000000000000000000000001", "00000003", "2001:db8::1"),
        ("00" * 16, "00000001", None),  # the network itself, without a router
    ],
)
def test_the_router_of_ipv6_is_named_with_its_interface(
    via: str, flags: str, expected: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = tmp_path / "ipv6_route"
    near = f"20010db8{'0' * 24} 40 {'0' * 32} 00 {'0' * 32} 00000100 00000001 00000000 00000001 eth0"
    default = f"{'0' * 32} 00 {'0' * 32} 00 {via} 00000400 00000003 00000000 {flags} eth0"
    table.write_text(f"{near}\n{default}\n", encoding="ascii")
    monkeypatch.setattr(port_mapping, "ROUTES_V6", table)
    assert port_mapping.default_gateway_v6() == expected
    monkeypatch.setattr(port_mapping, "ROUTES_V6", tmp_path / "none")
    assert port_mapping.default_gateway_v6() is None


def test_a_routers_clock_is_asked_for_in_the_words_of_the_rfcs() -> None:
    assert pcp_announce_request("10.0.0.2").hex() == "0200000000000000" + "00000000000000000000ffff0a000002"
    assert parse_epoch(bytes.fromhex("0280000000000000" + "0000004d" + "00" * 12)) == 77
    not_known_there = bytes.fromhex("0280000400000000" + "0000004d" + "00" * 12)
    assert parse_epoch(not_known_there) == 77, "each answer has it"
    assert parse_epoch(bytes.fromhex("00800000" + "0000004d" + "08080404")) == 77
    assert parse_epoch(bytes.fromhex("0281000000000000" + "0000004d" + "00" * 12)) is None, "of a mapping"
    assert parse_epoch(bytes.fromhex("0280000000000000" + "0000004d" + "00" * 11)) is None


@pytest.mark.parametrize(
    ("router_s", "at", "has_restarted"),
    [
        (115, 15.0, False),
        (99, 0.5, False),  # a second less is allowed
        (98, 0.5, True),
        (3, 15.0, True),
        (115, 18.0, False),  # slower and faster by two seconds and a sixteenth
        (114, 19.0, True),
        (1_000, 15.0, True),  # our own clock stood still: the machine slept
        (160, 54.5, False),
    ],
)
def test_a_router_has_restarted_if_its_clock_fell_or_left_ours(
    router_s: int, at: float, has_restarted: bool
) -> None:
    assert Epoch(router_s, at).has_restarted(Epoch(100, 0.0)) is has_restarted


@anyio_test
@pytest.mark.parametrize("speaks_pcp", [True, False])
async def test_routers_of_both_kinds_tell_their_clock(speaks_pcp: bool) -> None:
    async with running(DatagramRouter(speaks_pcp=speaks_pcp, epoch_s=4_711)) as gateway:
        await gateway.map(4000, 4000, 3600)
        assert await gateway.epoch_s() == 4_711


def _asked_at(
    epoch: Callable[[float], float | None],
    for_s: float,
    holds: Callable[[Transport, float], bool | None] = lambda transport, now: None,
) -> list[float]:
    """When a router with such a clock, or with such a memory, is asked for its mapping; our own clock begins with 0."""

    async def scenario() -> list[float]:
        start = anyio.current_time()
        gateway = _CountingGateway(
            epoch=lambda now: epoch(now - start), holds=lambda transport, now: holds(transport, now - start)
        )
        mapper = PortMapper([("PCP", gateway)], 4000)

        async def keep(outcome: MappingOutcome) -> None:
            del outcome

        with anyio.move_on_after(for_s):
            await mapper.run(keep)
        return [round(at - start) for at in gateway.asked_at]

    clock = trio.testing.MockClock(autojump_threshold=0)
    return anyio.run(scenario, backend="trio", backend_options={"clock": clock})


def test_a_router_that_was_switched_off_is_asked_again_at_the_next_look() -> None:
    assert _asked_at(lambda now: 5_000 + now if now < 100 else now - 100, 1_000) == [0, 105]


def test_a_router_that_does_not_answer_while_it_starts_is_asked_when_it_does() -> None:
    def clock(now: float) -> float | None:
        return 5_000 + now if now < 100 else now - 100 if now > 170 else None

    assert _asked_at(clock, 1_000) == [0, 180]


def test_a_routers_clock_that_stands_still_is_not_believed_for_long() -> None:
    assert _asked_at(lambda now: 77.0, 1_700) == [0, 30, 45]


def _no_clock(now: float) -> None:
    """As UPnP."""


@pytest.mark.parametrize("lost", [Transport.UDP, Transport.TCP])
def test_a_router_without_a_clock_is_asked_again_when_it_has_forgotten_one_mapping(lost: Transport) -> None:
    def holds(transport: Transport, now: float) -> bool:
        return transport is not lost or now < 100 or now > 110

    assert _asked_at(_no_clock, 1_000, holds) == [0, 105]


def test_a_router_that_is_silent_while_it_starts_is_asked_when_it_speaks() -> None:
    def holds(transport: Transport, now: float) -> bool | None:
        return True if now < 100 or now > 170 else None if now < 130 else False

    assert _asked_at(_no_clock, 1_000, holds) == [0, 135, 165]


def test_the_new_mapping_of_a_router_that_had_forgotten_us_is_news_for_who_was_closed_meanwhile() -> None:
    told: list[MappingOutcome] = []

    async def scenario() -> None:
        start = anyio.current_time()
        gateway = _CountingGateway(epoch=_no_clock, holds=lambda transport, now: not 100 < now - start < 110)

        async def keep(outcome: MappingOutcome) -> None:
            told.append(outcome)

        with anyio.move_on_after(4_000):
            await PortMapper([("UPnP", gateway)], 4000).run(keep)

    clock = trio.testing.MockClock(autojump_threshold=0)
    anyio.run(scenario, backend="trio", backend_options={"clock": clock})
    assert len(told) == 2, "at the start and after the loss, and not at each renewal"
    assert told[0] == told[1]


def test_a_router_that_denies_what_it_holds_is_not_believed_for_long() -> None:
    assert _asked_at(_no_clock, 1_700, lambda transport, now: False) == [0, 15, 45]


def test_a_router_is_asked_for_its_memory_each_half_minute_and_only_if_it_has_no_clock() -> None:
    asked: list[float] = []

    def holds(transport: Transport, now: float) -> bool:
        if transport is Transport.UDP:
            asked.append(round(now))
        return True

    assert _asked_at(_no_clock, 130, holds) == [0]
    assert asked == [15, 45, 75, 105]
    asked.clear()
    assert _asked_at(lambda now: 5_000 + now, 130, holds) == [0]
    assert asked == []
