"""Does a newcomer get the charter it was invited to, from real peers by real sockets, and no other?"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial

import pytest

from herodotus.core.admission import AdmissionLimits
from herodotus.core.charter import TEST_CHARTER, Charter
from herodotus.core.invitation import CHARTER_BYTES, Invitation, InvitedContact, key_hash
from herodotus.peers.calls import PeerKey, RefusedError, Services
from herodotus.peers.invited import (
    CHARTER_BYTES_MAX,
    SERVICE,
    Knocking,
    NobodyAnswered,
    charter_services,
    fetch_charter,
)
from herodotus.peers.net.certificate import caller_context
from herodotus.peers.net.tls_line import dial_tls
from tests.dht.link_world import key_from
from tests.herodotus.peers.net.peers import LIMITS, Called, Known, called, caller

pytestmark = pytest.mark.anyio
NOW_S = 1_795_000_000.0
TODAY = int(NOW_S // 86_400)
LIBRARY = replace(TEST_CHARTER, name="library", founded="2026-11-19")
OTHER = replace(LIBRARY, name="other")
NETWORK = LIBRARY.network_id()[:8]
nobody_known = partial(Known, is_everybody=False)
in_library = partial(called, network=NETWORK, known=nobody_known())


def to(*doors: Called, charter: Charter = LIBRARY, day: int = TODAY, host: str = "127.0.0.1") -> Invitation:
    contacts = tuple(
        InvitedContact(key_hash=key_hash(door.contact.peer), host=host, port=door.port) for door in doors
    )
    return Invitation(charter_hash=charter.network_id()[:CHARTER_BYTES], day=day, contacts=contacts)


def newcomer() -> Knocking:
    return Knocking(dial=partial(dial_tls, context=caller_context()), key=key_from("newcomer"), unix_s=NOW_S)


def giving(text: bytes) -> Services:
    async def get(_caller: PeerKey, _body: bytes) -> bytes:
        return text

    return Services(calls={SERVICE: get}, for_anybody=frozenset({SERVICE}))


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_stranger_with_an_invitation_gets_the_charter(host: str) -> None:
    async with in_library(charter_services(LIBRARY)) as door:
        line = str(to(door, host=host))
        assert await fetch_charter(Invitation.parse(line), newcomer()) == LIBRARY


async def test_one_contact_that_answers_is_enough() -> None:
    async with in_library(charter_services(LIBRARY)) as door:
        gone = replace(door, port=1)
        assert await fetch_charter(to(gone, gone, door), newcomer()) == LIBRARY


@pytest.mark.parametrize(
    ("services", "says"),
    [
        (giving(OTHER.to_toml().encode()), "charter of another network"),
        (giving(b"name = "), "cannot be read"),
        (giving(b"\xff\xff"), "cannot be read"),
        (giving(b"a = " + b"[" * 20_000), "cannot be read"),
        (charter_services(OTHER), "another charter"),
        (Services(), "unknown"),
    ],
)
async def test_a_contact_that_lies_is_named(services: Services, says: str) -> None:
    async with in_library(services) as door:
        with pytest.raises(NobodyAnswered, match=says) as caught:
            await fetch_charter(to(door), newcomer())
        assert f"127.0.0.1:{door.port}" in str(caught.value)


async def test_another_key_at_the_address_gets_no_hello() -> None:
    async with in_library(charter_services(LIBRARY)) as door:
        invitation = to(door)
        (contact,) = invitation.contacts
        wrong = replace(invitation, contacts=(replace(contact, key_hash=bytes(8)),))
        with pytest.raises(NobodyAnswered, match="another peer sits there"):
            await fetch_charter(wrong, newcomer())
        assert door.answering.status().answered == 0


async def test_a_contact_that_moved_to_another_network_says_so() -> None:
    async with called(charter_services(OTHER), network=OTHER.network_id()[:8]) as door:
        with pytest.raises(NobodyAnswered, match="now of network"):
            await fetch_charter(to(door), newcomer())


async def test_an_old_invitation_tells_its_age() -> None:
    async with in_library(charter_services(LIBRARY)) as door:
        gone = replace(door, port=1)
        with pytest.raises(NobodyAnswered, match=r"none of the 2 peers .* is 84 days old"):
            await fetch_charter(to(gone, gone, day=TODAY - 84), newcomer())


async def test_a_stranger_may_ask_for_nothing_else_and_not_often() -> None:
    asked = 0

    async def secret(_caller: PeerKey, _body: bytes) -> bytes:
        nonlocal asked
        asked += 1
        return b"secret"

    open_to_all = charter_services(LIBRARY)
    services = Services.of(open_to_all, Services(calls={"secret": secret}))
    async with (
        in_library(services, limits=AdmissionLimits(arrivals_per_prefix=LIMITS.arrivals_per_prefix)) as door,
        caller(network=NETWORK, known=nobody_known(record=b"")) as stranger,
    ):
        with pytest.raises(RefusedError, match="unknown"):
            await stranger.call(door.contact, "secret", b"")
        with pytest.raises(RefusedError, match="unknown"):
            await stranger.call(door.contact, SERVICE, bytes(1_000))
        assert asked == 0
        body = LIBRARY.network_id()[:CHARTER_BYTES]
        outcomes = [await _outcome(partial(stranger.call, door.contact, SERVICE, body)) for _ in range(8)]
        assert outcomes[:5] == ["charter"] * 5
        assert "busy" in outcomes[5:]


async def _outcome(ask: Callable[[], Awaitable[bytes]]) -> str:
    try:
        return "charter" if await ask() == LIBRARY.to_toml().encode() else "?"
    except RefusedError as error:
        return error.reason


async def test_a_charter_that_is_too_large_is_refused_in_words() -> None:
    large = replace(LIBRARY, scope=tuple(f"{n}.example.org" for n in range(5_000)))
    assert len(large.to_toml()) > CHARTER_BYTES_MAX
    async with called(charter_services(large), network=large.network_id()[:8], known=nobody_known()) as door:
        with pytest.raises(NobodyAnswered, match="too large"):
            await fetch_charter(to(door, charter=large), newcomer())
