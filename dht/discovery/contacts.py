"""In which order does a newcomer try whom?

Contacts named on the command line, then remembered peers, then the local network, then the rendezvous: from
what the owner said to what strangers say. Each source is asked only when those before it did not suffice.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from dht.discovery.addresses import Endpoint

CONTACTS_PER_SOURCE_MAX = 272
"""All that is remembered (256 + 16); other sources give fewer."""


class Source(Enum):
    JOIN = "join"
    REMEMBERED = "remembered"
    LAN = "lan"
    RENDEZVOUS = "rendezvous"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownAddress:
    endpoint: Endpoint
    source: Source


Ask = Callable[[], Awaitable[Sequence[Endpoint]]]


async def contacts_in_order(
    sources: Sequence[tuple[Source, Ask]], own: Endpoint
) -> AsyncGenerator[KnownAddress, None]:
    """Each endpoint once, from the first source that names it; sources are asked lazily, in `Source`
    order.
    """
    rank = list(Source)
    seen = {own}
    for source, ask in sorted(sources, key=lambda pair: rank.index(pair[0])):
        for endpoint in list(await ask())[:CONTACTS_PER_SOURCE_MAX]:
            if endpoint not in seen:
                seen.add(endpoint)
                yield KnownAddress(endpoint=endpoint, source=source)
