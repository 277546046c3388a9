"""What time is it on the running loop? `anyio.current_time` without finding out at each call which loop runs."""

import asyncio
from collections.abc import Callable

import anyio
import sniffio


def loop_clock() -> Callable[[], float]:
    """The running loop's clock; good for as long as that loop runs."""
    if sniffio.current_async_library() == "asyncio":
        return asyncio.get_running_loop().time
    return anyio.current_time
