"""Where does a name lead, as far as we may go? Addresses remembered for a while, without the forbidden ones."""

from collections.abc import Awaitable, Callable

import anyio
from cachetools import TTLCache

from crawler.core.urls import is_public, reached
from crawler.names import DnsNames

NAMES_REMEMBERED_MAX = 20_000
FAILURES_REMEMBERED_MAX = 20_000
IPV6_FAILURES_MAX = 3
"""In a row; then the line is taken for one that only looks as if it had IPv6, until a connection shows otherwise."""

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
        self._failed: TTLCache[tuple[str, str], bool] = TTLCache(
            FAILURES_REMEMBERED_MAX, ttl_s, anyio.current_time
        )
        self._ipv6_failures = 0

    async def addresses(self, host: str) -> list[str]:
        """All allowed addresses, those last that lately took no connection; raises OSError when there are none."""
        known = self._known.get(host)
        if known is None:
            known = self._known[host] = [plain(address) for address in await self._resolve(host)]
        allowed = [address for address in known if self._allow_private or is_public(address)]
        if not allowed:
            raise ForbiddenSocketError(f"{host} leads only to {', '.join(known[:3]) or 'no address'}")
        return (
            sorted(allowed, key=lambda address: self._doubt(host, address)) if len(allowed) > 1 else allowed
        )

    def note(self, host: str, address: str, *, is_reached: bool) -> None:
        """Whether there was a connection."""
        if ":" in address:
            self._ipv6_failures = 0 if is_reached else self._ipv6_failures + 1
        if is_reached:
            self._failed.pop((host, address), None)
        else:
            self._failed[host, address] = True

    def has_others(self, host: str, address: str) -> bool:
        """Whether the name has another address, which is not known to fail."""
        return any(
            other != address
            and (host, other) not in self._failed
            and (self._allow_private or is_public(other))
            for other in self._known.get(host, ())
        )

    def _doubt(self, host: str, address: str) -> tuple[bool, bool]:
        return (host, address) in self._failed, ":" in address and self._ipv6_failures >= IPV6_FAILURES_MAX

    async def close(self) -> None:
        self._known.clear()
        await self._own_names.close()


def plain(address: str) -> str:
    """A socket shows an IPv4 address as one, however DNS wrote it."""
    return reached(address) if address.lower().startswith("::ffff:") else address
