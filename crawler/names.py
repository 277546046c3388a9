"""Who asks DNS, and how do slow names hold up nobody else? A thread for each name, few for one zone.

The system's resolver blocks, for half a minute when a zone's servers are down; the pools of the event loops have four
or six threads for everything, so that a handful of such names stops a crawl. Here a lookup goes on when who asked does
not wait for it any more, and its answer is there for a while for who asks again. A zone has a few lookups at a time,
whatever the number of its hosts. Threads are bounded, and do not keep the process from its end.
"""

import asyncio
import contextlib
import socket
import threading
from collections import Counter, OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

LOOKUPS_MAX = 128
"""At a time, more than the default of connections, each of which waits for one name."""
LOOKUPS_PER_ZONE_MAX = 8
LOOKUP_S_MAX = 20.0
"""Then it counts as failed. The thread stays until the system gives up, too."""
ANSWERS_KEPT_S = 30.0
"""For who asks again, failures among them: a name that cannot be resolved has many URLs."""
ANSWERS_KEPT_MAX = 4_096
SHORT_LABEL = 3
"""`co.uk` and `com.au` are no zones of one owner: there a zone has three labels."""

LookUp = Callable[[str], list[str]]
"""A name's addresses; blocks; raises OSError, or ValueError for what is no name."""


class TooManyLookupsError(OSError):
    """Not now: ask again in a moment."""


@dataclass(slots=True)
class _Lookup:
    answered: asyncio.Future[None]
    begun_at: float
    zone: str


@dataclass(frozen=True, slots=True)
class _Answer:
    addresses: list[str]
    error: Exception | None
    kept_until: float


class SystemNames:
    """A `Resolve` by the system. Used from one asyncio loop."""

    def __init__(self, look_up: LookUp | None = None) -> None:
        self._look_up = look_up or addresses_by_system
        self._under_way: dict[str, _Lookup] = {}
        self._of_zone: Counter[str] = Counter()
        self._answers: OrderedDict[str, _Answer] = OrderedDict()

    async def __call__(self, host: str) -> list[str]:
        """Cancelled, it leaves the lookup going on. Raises OSError or ValueError when there is no address."""
        loop = asyncio.get_running_loop()
        answer = self._answers.get(host)
        if answer is None or answer.kept_until <= loop.time():
            lookup = self._under_way.get(host) or self._begin(host, loop)
            left_s = lookup.begun_at + LOOKUP_S_MAX - loop.time()
            done, _ = await asyncio.wait([lookup.answered], timeout=max(0.0, left_s))
            if not done:
                raise OSError(f"DNS did not tell the address of {host} in {LOOKUP_S_MAX:g} s")
            answer = self._answers[host]
        if answer.error is not None:
            raise answer.error
        return answer.addresses

    def _begin(self, host: str, loop: asyncio.AbstractEventLoop) -> _Lookup:
        zone = zone_of(host)
        if len(self._under_way) >= LOOKUPS_MAX or self._of_zone[zone] >= LOOKUPS_PER_ZONE_MAX:
            raise TooManyLookupsError(f"too many names are looked up to begin with {host}")

        def run() -> None:
            addresses: list[str] = []
            error: Exception | None = None
            try:
                addresses = self._look_up(host)
            except (OSError, ValueError) as problem:
                error = problem
            with contextlib.suppress(RuntimeError):  # the loop has ended, nobody wants to know
                loop.call_soon_threadsafe(self._end, host, addresses, error, loop)

        try:
            threading.Thread(target=run, name=f"dns {host[:60]}", daemon=True).start()
        except RuntimeError as error:  # the system's limit; others under way will end
            raise TooManyLookupsError(f"no thread to look up {host}") from error
        lookup = self._under_way[host] = _Lookup(loop.create_future(), loop.time(), zone)
        self._of_zone[zone] += 1  # the thread's answer comes in a later turn of the loop
        return lookup

    def _end(
        self, host: str, addresses: list[str], error: Exception | None, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._answers[host] = _Answer(addresses, error, loop.time() + ANSWERS_KEPT_S)
        self._answers.move_to_end(host)
        if len(self._answers) > ANSWERS_KEPT_MAX:
            self._answers.popitem(last=False)
        lookup = self._under_way.pop(host)
        self._of_zone[lookup.zone] -= 1
        if not self._of_zone[lookup.zone]:
            del self._of_zone[lookup.zone]
        lookup.answered.set_result(None)


def addresses_by_system(host: str) -> list[str]:
    """All of the system's addresses for a name, the preferred first."""
    found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def zone_of(host: str) -> str:
    """Whose servers are asked for a name, as far as the name alone can tell."""
    labels = host.rstrip(".").split(".")
    is_shared = len(labels) > 2 and len(labels[-2]) <= SHORT_LABEL
    return ".".join(labels[-3:] if is_shared else labels[-2:])
