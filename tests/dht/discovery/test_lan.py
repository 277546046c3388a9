"""LAN discovery by real multicast on the loopback interface."""

import anyio
import pytest

from dht.discovery.lan import LanDiscovery, LanSettings, ZeroconfLan

pytestmark = pytest.mark.anyio


def lan(number: int, network: bytes = b"ring-one") -> ZeroconfLan:
    settings = LanSettings(
        network=network,
        peer_id=bytes([number]) * 32,
        port=4000 + number,
        addresses=["127.0.0.1"],
        interfaces=["127.0.0.1"],
    )
    return ZeroconfLan(settings)


async def until_found(service: ZeroconfLan, endpoint: tuple[str, int]) -> None:
    while await service.contacts() != [endpoint]:
        with anyio.move_on_after(0.5):  # a name may be announced while contacts() was resolving others
            await service._heard.wait()


async def test_peers_of_one_network_find_each_other_and_nobody_of_another() -> None:
    one, two, foreign = lan(1), lan(2), lan(3, b"ring-two")
    try:
        for service in (foreign, one, two):
            await service.start()
        with anyio.fail_after(60):
            await until_found(one, ("127.0.0.1", 4002))
            await until_found(two, ("127.0.0.1", 4001))
        assert await foreign.contacts() == []
    finally:
        for service in (one, two, foreign):
            await service.stop()
    await one.stop()
    assert await one.contacts() == []


async def test_switched_off_it_finds_nobody() -> None:
    service = LanDiscovery()
    await service.start()
    assert await service.contacts() == []
    await service.stop()
