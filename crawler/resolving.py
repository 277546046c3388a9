"""Where does a name lead, as far as we may go? Addresses remembered for a while, without the forbidden ones."""

from collections.abc import Awaitable, Callable

import anyio
from cachetools import TTLCache

from crawler.core.urls import is_public
from crawler.names import DnsNames

NAMES_REMEMBERED_MAX = 20_000

Resolve = Callable[[str], Awaitable[list[str]]]
"""A host name's addresses, the preferred first; raises OSError when there are none."""


class ForbiddenSocketError(OSError):
    """Raised between address and connection."""


class GuardedResolver:
    """Names to addresses, remembered for a while, without those that are not to be connected to."""

    def __init__(self, resolve: Resolve | None, *, ttl_s: float, allow_private: bool) -> None:
        """Without `resolve` it asks DNS."""
        self._own_names = DnsNames()  # opens nothing before it is asked
        self._resolve: Resolve = resolve or self._own_names
        self._allow_private = allow_private
        self._known: TTLCache[str, list[str]] = TTLCache(NAMES_REMEMBERED_MAX, ttl_s, anyio.current_time)

    async def addresses(self, host: str) -> list[str]:
        """All allowed addresses; raises OSError when there are none."""
        known = self._known.get(host)
        if known is None:
            known = self._known[host] = await self._resolve(host)
        allowed = [address for address in known if self._allow_private or is_public(address)]
        if not allowed:
            raise ForbiddenSocketError(f"{host} leads only to {', '.join(known[:3]) or 'no address'}")
        return allowed

    async def close(self) -> None:
        self._known.clear()
        await self._own_names.close()
