"""What do the rooms of a peer ask of the machine that runs it? Workers for jobs that would hold up the loop.

Small protocols of values and calls, so that a machine and a simulation of one can both stand behind them; `world.py`
has the peer's other demands on the world.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Lane:
    """Jobs of one kind. A limited number run at once; the others wait."""

    name: str
    width: int


class Clocks(Protocol):
    """None of them stands for another; steady time in the loop is `anyio.current_time`."""

    def unix_s(self) -> float:
        """Seconds since 1970, by a wall clock that may be wrong and may be set."""
        ...

    def elapsed_s(self) -> float:
        """Never set back, and runs on while the machine sleeps; asked from any thread."""
        ...

    def steady_s(self) -> float:
        """Never set back, and stands still while the machine sleeps; asked from any thread."""
        ...

    def local_offset_s(self, unix_s: float) -> float:
        """By how much the local time is ahead of UTC then."""
        ...


class Workers(Protocol):
    """Performs work that waits for a disk, or takes long."""

    @property
    def has_threads(self) -> bool:
        """False: jobs run at once in the loop, where nothing may wait for another thread."""
        ...

    def steady_s(self) -> float:
        """Never set back; asked from any thread."""
        ...

    def work(self, job: Callable[[], T], lane: Lane) -> Awaitable[T]:
        """The job's result. A cancelled caller waits for a job that has begun."""
        ...
