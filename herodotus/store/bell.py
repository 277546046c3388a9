"""How does another thread wake tasks, whichever loop they run on? Without waiting for that loop."""

import asyncio
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from herodotus.core.ports import Workers

Call = Callable[[], object]


class Bell:
    """Rung from any thread; the loop then makes the calls. Many rings wake the loop once."""

    def __init__(self, schedule: Callable[[Call], object], gone: type[Exception]) -> None:
        self._schedule = schedule
        self._gone = gone
        self._calls: deque[Call] = deque()
        self._is_ringing = False

    def ring(self, call: Call) -> None:
        self._calls.append(call)
        if not self._is_ringing:
            self._is_ringing = True
            with suppress(self._gone):  # nobody waits on a loop that ended
                self._schedule(self._answer)

    def _answer(self) -> None:
        # First, so that a call that comes from now on rings again.
        self._is_ringing = False
        while self._calls:
            self._calls.popleft()()


def _at_once(call: Call) -> object:
    return call()


def current_bell(workers: Workers) -> Bell:
    """Of the loop that runs the caller; where there are no other threads, a ring is a call."""
    if not workers.has_threads:
        return Bell(_at_once, RuntimeError)
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio  # a peer on asyncio starts without it

        return Bell(trio.lowlevel.current_trio_token().run_sync_soon, trio.RunFinishedError)
    return Bell(loop.call_soon_threadsafe, RuntimeError)
