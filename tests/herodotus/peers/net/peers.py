"""Peers that call each other by real sockets on loopback, without a ring."""

import random
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact
from dht.core.handshake import raw_public_key
from dht.core.ids import PeerKey
from dht.core.limits import Rate
from dht.core.records import Address, Line
from herodotus.core.admission import AdmissionLimits, CallerStanding
from herodotus.peers.calls import Services
from herodotus.peers.net.answering import Answering, AnsweringParts, open_answering
from herodotus.peers.net.calling import CallingParts, TlsCalls, open_calling
from herodotus.peers.net.certificate import caller_context
from herodotus.peers.net.tls_line import claim_tcp, dial_tls
from herodotus.peers.net.ways import WaysParts
from tests.dht.link_world import NETWORK, key_from

LOOPBACK = bytes((127, 0, 0, 1))
FREE = Rate(per_second=1e6, burst=1e6)
LIMITS = AdmissionLimits(arrivals_per_prefix=FREE, unproven_per_prefix=64)


@dataclass
class Known:
    """An acquaintance that a test fills by hand."""

    record: bytes = b"record"
    members: set[bytes] = field(default_factory=set)
    is_everybody: bool = True
    rotations: dict[tuple[bytes, bytes], bytes] = field(default_factory=dict)

    def own_record(self) -> bytes:
        return self.record

    def standing(self, caller: bytes, record: bytes, host: str) -> CallerStanding:
        if self.is_everybody or caller in self.members:
            return CallerStanding.MEMBER
        return CallerStanding.NEWCOMER if record == f"newcomer at {host}".encode() else CallerStanding.UNKNOWN

    def is_rotation(self, record: bytes, *, old: bytes, new: bytes) -> bool:
        return self.rotations.get((old, new)) == record


def contact(key: Ed25519PrivateKey, port: int) -> Contact:
    return Contact.at(raw_public_key(key), Address(host=LOOPBACK, port=port), 0, 0, "off")  # type: ignore[arg-type]  # raw bytes of a key


@dataclass
class Called:
    answering: Answering
    contact: Contact
    port: int


@asynccontextmanager
async def called(
    services: Services,
    *,
    name: str = "called",
    network: bytes = NETWORK,
    limits: AdmissionLimits = LIMITS,
    known: Known | None = None,
    idle_s: float = 30.0,
    entropy: Callable[[int], bytes] | None = None,
) -> AsyncIterator[Called]:
    key = key_from(name)
    port = claim_tcp("127.0.0.1", 0, key)
    parts = AnsweringParts(
        own_key=raw_public_key(key),
        network=network,
        acquaintance=known or Known(),
        services=services,
        limits=limits,
        idle_s=idle_s,
        entropy=entropy or random.Random(name).randbytes,
    )
    async with open_answering(parts, port) as answering:
        yield Called(answering, contact(key, port.number), port.number)


@asynccontextmanager
async def caller(
    *,
    name: str = "caller",
    network: bytes = NETWORK,
    known: Known | None = None,
    urgent: Collection[str] = (),
    on_called: Callable[[bytes, str | None], None] = lambda peer, why: None,
    lines_of: Callable[[PeerKey], tuple[Line, ...]] = lambda peer: (),
) -> AsyncIterator[TlsCalls]:
    parts = CallingParts(
        key=key_from(name),
        network=network,
        ways=WaysParts(dial=partial(dial_tls, context=caller_context()), lines_of=lines_of),
        acquaintance=known or Known(),
        urgent=urgent,
        on_called=on_called,
    )
    async with open_calling(parts) as calls:
        yield calls


def with_limits(**changes: object) -> AdmissionLimits:
    return replace(LIMITS, **changes)  # type: ignore[arg-type]  # names and types are those of the test's author
