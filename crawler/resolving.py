"""Where does a name lead, as far as we may go? Addresses remembered for a while, without the forbidden ones."""

import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import anyio
from aiohttp.abc import AbstractResolver, ResolveResult

from crawler.core.addresses import is_public

NAMES_REMEMBERED_MAX = 20_000

Resolve = Callable[[str], Awaitable[list[str]]]
"""A host name's addresses, the preferred first; raises OSError when there are none."""


class ForbiddenSocketError(OSError):
    """Raised between address and connection."""


class GuardedResolver(AbstractResolver):
    """Names to addresses, remembered for a while, without those that are not to be connected to."""

    def __init__(self, resolve: Resolve, *, ttl_s: float, allow_private: bool) -> None:
        self._resolve = resolve
        self._ttl_s = ttl_s
        self._allow_private = allow_private
        self._known: OrderedDict[str, tuple[float, list[str]]] = OrderedDict()

    async def addresses(self, host: str) -> list[str]:
        """All allowed addresses; raises OSError when there are none."""
        now = anyio.current_time()
        known = self._known.get(host)
        if known is None or known[0] <= now:
            known = (now + self._ttl_s, await self._resolve(host))
            self._known[host] = known
            if len(self._known) > NAMES_REMEMBERED_MAX:
                self._known.popitem(last=False)
        allowed = [address for address in known[1] if self._allow_private or is_public(address)]
        if not allowed:
            raise ForbiddenSocketError(f"{host} leads only to {', '.join(known[1][:3]) or 'no address'}")
        return allowed

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in await self.addresses(host)
        ]

    async def close(self) -> None:
        self._known.clear()
