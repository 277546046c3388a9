"""How does another thread wake a task, whichever loop it runs on? Without waiting for that loop."""

import asyncio
from collections.abc import Callable

import trio

Waker = Callable[[Callable[[], object]], None]


def current_waker() -> Waker:
    """Call it in the task; what it returns may be called from any thread, and drops the call when the loop is
    gone."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        token = trio.lowlevel.current_trio_token()
        return lambda call: _quietly(token.run_sync_soon, call, trio.RunFinishedError)
    return lambda call: _quietly(loop.call_soon_threadsafe, call, RuntimeError)


def _quietly(
    schedule: Callable[[Callable[[], object]], object], call: Callable[[], object], gone: type[Exception]
) -> None:
    try:
        schedule(call)
    except gone:
        return  # nobody waits on a loop that ended
