"""Are contacts found by their names, whatever DNS says?"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import anyio
import pytest

from herodotus.core.settings.fields import PeerDoor
from herodotus.peers.contact_names import ASK_S, PLACES_MAX, PORT, Dns, Endpoint, places_of
from simnet.host import TrioCarrier, run_world

pytestmark = pytest.mark.anyio


@dataclass
class Zone:
    addresses: dict[str, list[str]] = field(default_factory=dict)
    services: dict[str, list[Endpoint]] = field(default_factory=dict)
    mute: frozenset[str] = frozenset()
    texts: dict[str, list[str]] = field(default_factory=dict)

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Dns]:
        yield Dns(addresses=self._addresses, services=self._services, texts=self._texts)

    async def _addresses(self, name: str) -> Sequence[str]:
        if name in self.mute:
            await anyio.sleep_forever()
        if name not in self.addresses:
            raise OSError("not found")
        return self.addresses[name]

    async def _texts(self, name: str) -> Sequence[str]:
        if name not in self.texts:
            raise OSError("not found")
        return self.texts[name]

    async def _services(self, name: str) -> Sequence[Endpoint]:
        if name not in self.services:
            raise OSError("not found")
        return self.services[name]


ZONE = Zone(
    addresses={
        "one.example.org": ["192.0.2.1", "2001:db8::1"],
        "two.example.org": ["192.0.2.2"],
        "six.example.org": ["2001:db8::6"],
    },
    services={
        "_herodotus._tcp.ring.example.org": [
            ("one.example.org", 4500),
            ("gone.example.org", 1),
            ("two.example.org", 4501),
        ],
        "_herodotus._tcp.empty.example.org": [],
    },
    mute=frozenset({"mute.example.org"}),
)


def doors(*texts: str) -> list[PeerDoor]:
    return [PeerDoor.parse(text) for text in texts]


@pytest.mark.parametrize(
    ("texts", "is_ipv6", "found"),
    [
        (["192.0.2.7:4484", "[2001:db8::7]:1"], False, [("192.0.2.7", 4484), ("2001:db8::7", 1)]),
        (["one.example.org:4484"], False, [("192.0.2.1", 4484)]),
        (["one.example.org:4484"], True, [("2001:db8::1", 4484)]),
        (["six.example.org:4484"], False, []),
        (["one.example.org"], False, [("192.0.2.1", PORT)]),
        (["ring.example.org"], False, [("192.0.2.1", 4500), ("192.0.2.2", 4501)]),
        (["ring.example.org", "192.0.2.1:4500"], False, [("192.0.2.1", 4500), ("192.0.2.2", 4501)]),
        (["gone.example.org:1", "two.example.org:2"], False, [("192.0.2.2", 2)]),
        (["gone.example.org"], False, []),
    ],
)
async def test_contacts_are_found_by_number_name_and_service(
    texts: list[str], is_ipv6: bool, found: list[Endpoint]
) -> None:
    assert await places_of(doors(*texts), families={is_ipv6}, dns=ZONE) == found


def test_a_name_server_that_says_nothing_holds_up_no_other_contact() -> None:
    async def play(_: TrioCarrier) -> None:
        began = anyio.current_time()
        found = await places_of(
            doors("mute.example.org:1", "two.example.org:2", "192.0.2.9:9"), families={False}, dns=ZONE
        )
        assert found == [("192.0.2.2", 2), ("192.0.2.9", 9)]
        assert anyio.current_time() - began == ASK_S

    run_world(play, seed=1)


async def test_a_name_with_very_many_addresses_is_not_all_of_the_ring() -> None:
    crowd = Zone(addresses={"many.example.org": [f"192.0.2.{n}" for n in range(1, 255)]})
    assert len(await places_of(doors("many.example.org:1"), families={False}, dns=crowd)) == PLACES_MAX


OURS = bytes.fromhex("0123456789abcdef")


@pytest.mark.parametrize(
    ("texts", "is_asked"),
    [
        ([], True),
        (["h1 net=0123456789ABCDEF key=00"], True),
        (["h1 key=00 net=0123456789abcdef"], True),
        (["h1 net=fedcba9876543210"], False),
        (["h1 net=fedcba9876543210", "h1 net=0123456789abcdef"], True),
        (
            [
                "v=spf1 net=fedcba9876543210",
                "h2 net=fedcba9876543210",
                "h1 net=fe",
                "h1",
                "h1 net=" + "f" * 99,
            ],
            True,
        ),
    ],
)
async def test_a_name_that_leads_to_another_network_is_not_knocked_at(
    texts: list[str], is_asked: bool
) -> None:
    zone = Zone(
        addresses={"one.example.org": ["192.0.2.1"]},
        services={"_herodotus._tcp.ring.example.org": [("one.example.org", 4500)]},
        texts={"_herodotus._tcp.ring.example.org": texts},
    )
    found = await places_of(doors("ring.example.org"), families={False}, network=OURS, dns=zone)
    assert found == ([("192.0.2.1", 4500)] if is_asked else [])
    assert await places_of(doors("one.example.org:4500"), families={False}, network=OURS, dns=zone)
