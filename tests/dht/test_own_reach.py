"""Which members does a peer ask whether strangers reach it? In virtual time, without sockets."""

from collections.abc import Collection
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import trio.testing

from dht.core.ids import PeerKey
from dht.core.messages import DialBackRequest, Message
from dht.core.reachability import RequestDialBacks
from dht.core.records import Address, Contact, Line
from dht.dialback import Send
from dht.endpoint import packed_address, socket_address
from dht.own_reach import OwnReach

pytestmark = pytest.mark.anyio
WANTED = 3


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


def contact(network: int) -> Contact:
    return Contact.at(
        PeerKey(bytes((network,)) * 32), packed_address((f"62.{network}.0.1", 4484)), 0, 0, "ip"
    )


class Members:
    """Twenty, each in a network of its own."""

    me = contact(99)

    def callable_members(self) -> list[Contact]:
        return [contact(network) for network in range(20)]

    machine = SimpleNamespace(rules=SimpleNamespace(id_check="ip"))

    def lines_of(self, peer: PeerKey) -> tuple[Line, ...]:
        six = packed_address((f"2001:{peer[0]}::1", 4484))
        return (Line.at(contact(peer[0]).address), Line.at(six))


def reach_of(chance: int, send: Send, relays: Collection[str] = (), at: Address | None = None) -> OwnReach:
    members: Any = Members()
    strangers: Any = SimpleNamespace(nonces_awaited_until=0.0)
    return OwnReach(
        WANTED,
        members,
        strangers,
        send=send,
        tell=lambda _: None,
        entropy=Random(chance).randbytes,
        random=Random(chance),
        inside="192.168.1.10",
        streamed_to=relays.__contains__,
        at=None if at is None else lambda: at,
    )


async def asked_by(chance: int, relays: set[str]) -> set[str]:
    sent: set[str] = set()

    def send(message: Message, to: Contact) -> None:
        assert isinstance(message, DialBackRequest)
        sent.add(socket_address(to.address.host, 0)[0])

    reach = reach_of(chance, send, relays)
    await reach._test(RequestDialBacks(round=1, wanted=WANTED))
    return sent


@pytest.mark.parametrize("chance", range(5))
async def test_those_to_whom_no_stream_was_opened_are_asked_first(chance: int) -> None:
    strangers = {"62.3.0.1", "62.17.0.1"}
    relays = {f"62.{network}.0.1" for network in range(20)} - strangers
    asked = await asked_by(chance, relays)
    assert len(asked) == WANTED + 2
    assert strangers < asked


async def test_the_others_are_drawn() -> None:
    assert await asked_by(1, set()) != await asked_by(2, set())


@pytest.mark.parametrize(
    ("at", "advice"),
    [
        (None, "In the router, forward TCP and UDP 4484 to 192.168.1.10."),
        ("2001:db8::7", "In the router, open the firewall for TCP and UDP 4484 to 2001:db8::7."),
    ],
)
async def test_the_advice_names_our_address_in_the_family_that_was_tested(
    at: str | None, advice: str
) -> None:
    reach = reach_of(1, lambda message, to: None, at=None if at is None else packed_address((at, 4484)))
    await reach._test(RequestDialBacks(round=1, wanted=WANTED))
    assert reach.machine.spot.advice == advice
