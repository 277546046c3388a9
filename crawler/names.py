"""How are names looked up, so that slow ones delay no others? By c-ares (aiodns), few questions at a time for one zone.

The system's own call blocks a thread for half a minute when a zone's servers are down; c-ares needs one thread for all
names. It reads the system's name servers, search domains and list of hosts, but no other source that the system may
have (mDNS, LDAP). A lookup continues when nobody waits for it any more, and its answer is kept for a while for the next
asker. A zone has a few lookups at a time, whatever the number of its hosts.
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import aiodns
from aiodns.error import DNSError
from cachetools import TTLCache
from pycares import AddrInfoResult

LOOKUPS_MAX = 128
"""At a time, more than the default of connections, each of which waits for one name."""
LOOKUPS_PER_ZONE_MAX = 8
LOOKUP_S_MAX = 20.0
"""Then it counts as failed, whatever c-ares still hopes for."""
FIRST_TRY_S = 1.0
TRIES_MAX = 5
"""Each try waits twice as long as the one before; c-ares begins with less for a name server that was quick before. Name
servers need some ten seconds to find out that a zone does not answer."""
ANSWERS_KEPT_S = 30.0
"""How long answers are kept, failures too: a name that cannot be resolved has many URLs."""
ANSWERS_KEPT_MAX = 4_096
SHORT_LABEL = 3
"""`co.uk` and `com.au` are no zones of one owner: there a zone has three labels."""

Question = asyncio.Future[AddrInfoResult]
LookUp = Callable[[str], Question]
"""Begins to ask for a name's addresses; raises ValueError for what is no name. The answer may be a DNSError."""


class TooManyLookupsError(OSError):
    """Not now: ask again in a moment."""


@dataclass(frozen=True, slots=True)
class _Lookup:
    question: Question
    begun_at: float


class DnsNames:
    """A `Resolve` by DNS. Used from one asyncio loop; its maker closes it."""

    def __init__(self, look_up: LookUp | None = None) -> None:
        self._look_up = look_up
        self._resolver: aiodns.DNSResolver | None = None
        self._under_way: dict[str, _Lookup] = {}
        self._of_zone: Counter[str] = Counter()
        self._answered: TTLCache[str, _Lookup] = TTLCache(ANSWERS_KEPT_MAX, ANSWERS_KEPT_S, _now)

    async def __call__(self, host: str) -> list[str]:
        """If cancelled, the lookup continues. Raises OSError or ValueError if there is no address."""
        lookup = self._answered.get(host) or self._under_way.get(host) or self._begin(host)
        left_s = lookup.begun_at + LOOKUP_S_MAX - _now()
        done, _ = await asyncio.wait([lookup.question], timeout=max(0.0, left_s))
        if not done:
            raise OSError(f"DNS did not tell the address of {host} in {LOOKUP_S_MAX:g} s")
        return addresses_of(host, lookup.question)

    async def close(self) -> None:
        if self._resolver is not None:
            await self._resolver.close()

    def _begin(self, host: str) -> _Lookup:
        zone = zone_of(host)
        if len(self._under_way) >= LOOKUPS_MAX or self._of_zone[zone] >= LOOKUPS_PER_ZONE_MAX:
            raise TooManyLookupsError(f"too many names are looked up to begin with {host}")
        lookup = _Lookup((self._look_up or self._by_dns)(host), _now())

        def end(
            question: Question,
        ) -> None:  # called in a later turn of the loop, before the waiting tasks continue
            self._answered[host] = self._under_way.pop(host)
            self._of_zone[zone] -= 1
            if not self._of_zone[zone]:
                del self._of_zone[zone]
            question.exception()  # looked at: perhaps nobody else waits for it any more

        self._under_way[host] = lookup
        self._of_zone[zone] += 1
        lookup.question.add_done_callback(end)
        return lookup

    def _by_dns(self, host: str) -> Question:
        if self._resolver is None:
            self._resolver = aiodns.DNSResolver(timeout=FIRST_TRY_S, tries=TRIES_MAX)
        return self._resolver.getaddrinfo(host, type=socket.SOCK_STREAM)


def _now() -> float:
    """anyio's clock needs a task; c-ares answers into none."""
    return asyncio.get_running_loop().time()


def addresses_of(host: str, question: Question) -> list[str]:
    """All addresses of an answered question, the preferred first (RFC 6724)."""
    try:
        found = question.result()
    except DNSError as error:
        raise OSError(f"{host}: {error.args[-1]}") from error
    return list(dict.fromkeys(node.addr[0].decode() for node in found.nodes))


def zone_of(host: str) -> str:
    """Whose servers are asked for a name, as far as the name alone can tell."""
    labels = host.rstrip(".").split(".")
    is_shared = len(labels) > 2 and len(labels[-2]) <= SHORT_LABEL
    return ".".join(labels[-3:] if is_shared else labels[-2:])
