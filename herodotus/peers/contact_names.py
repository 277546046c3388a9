"""Where are the contacts that an operator named? Names are asked of DNS each time, since they may move.

DNS only says where to knock. Who sits there is proven by the ring's own handshake, so a name server that lies leads to
peers that do not answer, and to no others.
"""

import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from typing import Final

import aiodns
import anyio
from aiodns.error import DNSError
from pycares import SRVRecordData, TXTRecordData

from crawler.names import DnsNames
from herodotus.core.host_names import host_kind
from herodotus.core.settings.fields import PeerDoor

logger = logging.getLogger(__name__)

SERVICE: Final = "_herodotus._tcp."
PORT: Final = 4484
"""Of a name for which DNS tells no other."""
ASK_S: Final = 5.0
PLACES_MAX: Final = 64
TEXTS_MAX: Final = 16
_NETWORK: Final = re.compile(r"h1 (?:[^ ]+ )*net=([0-9a-fA-F]{16})(?: |\Z)")
"""Of a TXT record: this version, and a network's id as people compare it. Other words may stand beside it."""
_TRY_S: Final = 1.0
_TRIES: Final = 3
Endpoint = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Dns:
    """What is asked: a host's addresses, the doors (host and port) of a service, and its TXT records. All raise
    OSError."""

    addresses: Callable[[str], Awaitable[Sequence[str]]]
    services: Callable[[str], Awaitable[Sequence[Endpoint]]]
    texts: Callable[[str], Awaitable[Sequence[str]]]


@asynccontextmanager
async def system_dns() -> AsyncIterator[Dns]:
    names = DnsNames()
    resolver = aiodns.DNSResolver(timeout=_TRY_S, tries=_TRIES)

    async def asked(name: str, kind: str) -> list[object]:
        try:
            found = await resolver.query_dns(name, kind)
        except DNSError as error:
            raise OSError(f"{name}: {error.args[-1]}") from error
        return [one.data for one in found.answer]

    async def texts(name: str) -> list[str]:
        records = [one for one in await asked(name, "TXT") if isinstance(one, TXTRecordData)]
        return [one.data.decode("ascii", "replace") for one in records]

    async def services(name: str) -> list[Endpoint]:
        records = [one for one in await asked(name, "SRV") if isinstance(one, SRVRecordData)]
        records.sort(key=lambda one: (one.priority, -one.weight))
        return [(one.target.rstrip("."), one.port) for one in records if one.target.rstrip(".")]

    try:
        yield Dns(addresses=names, services=services, texts=texts)
    finally:
        await resolver.close()
        await names.close()


async def places_of(
    doors: Sequence[PeerDoor],
    *,
    families: Collection[bool],
    network: bytes = b"",
    dns: Callable[[], AbstractAsyncContextManager[Dns]] = system_dns,
) -> Sequence[Endpoint]:
    """Addresses of our families (is it IPv6?) and ports, in the order of the doors. Names that DNS does not know are
    logged, and so are those that say that they lead to another network than ours.
    """
    found = {door: [(door.host, door.port)] for door in doors if not door.is_name and door.port is not None}
    names = {door for door in doors if door.is_name}
    if names:
        async with dns() as asked, anyio.create_task_group() as tasks:

            async def ask(door: PeerDoor) -> None:
                found[door] = await _asked(door, asked, families=families, network=network)

            for door in names:
                tasks.start_soon(ask, door)
    places = (place for door in doors for place in found[door])
    return list(dict.fromkeys(places))[:PLACES_MAX]


async def _asked(door: PeerDoor, dns: Dns, *, families: Collection[bool], network: bytes) -> list[Endpoint]:
    found: list[Endpoint] = []
    reason = "no answer in time"
    with anyio.move_on_after(ASK_S):
        reason = "unknown"
        others = await _other_networks(door, dns, network)
        if others:
            reason = f"its peers are of network {others}, and this one is of {network.hex()}"
        for host, port in [] if others else await _hosts(door, dns):
            try:
                addresses = [host] if host_kind(host) else await dns.addresses(host)
            except (OSError, ValueError) as error:
                reason = str(error)
                continue
            family = [one for one in addresses if (":" in one) in families]
            reason = (
                "it has no address of our family, see ring.listen" if addresses and not family else reason
            )
            found += [(one, port) for one in family]
    if not found:
        logger.warning("a contact was not found name=%s reason=%s", door, reason)
    return found


async def _hosts(door: PeerDoor, dns: Dns) -> Sequence[Endpoint]:
    """With a port it is a host; without one, it may be a service's name."""
    if door.port is not None:
        return [(door.host, door.port)]
    try:
        return await dns.services(SERVICE + door.host) or [(door.host, PORT)]
    except (OSError, ValueError):
        return [(door.host, PORT)]


async def _other_networks(door: PeerDoor, dns: Dns, network: bytes) -> str:
    """The networks of which a service says that its peers are, where ours is not among them; nothing where it does not
    say. A name server that lies keeps nobody from the ring who knows another way in."""
    if door.port is not None or not network:
        return ""
    try:
        texts = await dns.texts(SERVICE + door.host)
    except (OSError, ValueError):
        return ""
    named = {found[1].lower() for text in texts[:TEXTS_MAX] if (found := _NETWORK.match(text))}
    return "" if network.hex() in named else ", ".join(sorted(named))
