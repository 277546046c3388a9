"""When does the machine run? At a message, at an event, and when its next deadline is due.

One loop and a look at the clock; what the machine wants done is handed to `perform`, effect by effect. After any call
into the machine follows a `pump`, so that no effect stays behind and no deadline is slept through.
"""

import logging
from collections.abc import Callable, Sequence

import anyio

from dht.core.clock import RingClock
from dht.core.effects import Effect
from dht.core.seat import ClockJumped, SeatEvent
from dht.core.seated_machine import SeatedMachine
from dht.transport import Received

logger = logging.getLogger(__name__)

CLOCK_LOOK_S = 15.0
"""A laptop that woke up joins again within so much; reading a clock costs nothing."""


class MachineLoop:
    def __init__(
        self,
        seated: SeatedMachine,
        wall_clock: Callable[[], float],
        perform: Callable[[Effect], None],
        on_settled: Callable[[], None],
    ) -> None:
        """`on_settled` is called whenever all effects have been performed."""
        self._seated = seated
        self._wall_clock = wall_clock
        self._perform = perform
        self._on_settled = on_settled
        self._clock = RingClock(0.0)  # set by `run`, before anything is dated
        self._deadline_moved = anyio.Event()
        self._armed_for: float | None = None
        self._is_pumping = False
        self.is_stopped = False
        """The sockets close in a moment, and cannot answer any more."""

    def now(self) -> float:
        return self._clock.now(anyio.current_time())

    def tell(self, event: SeatEvent) -> None:
        if not self.is_stopped:
            self._seated.tell(event, self.now())
            self.pump()

    def receive(self, batch: Sequence[Received]) -> None:
        now = self.now()
        for message, sender in batch:
            self._seated.machine.receive(message, sender, now)
        self.pump()

    def pump(self) -> None:
        """Perform all effects; those that performing causes come after them, in the same call."""
        if self._is_pumping:
            return
        self._is_pumping = True
        try:
            while effects := self._seated.take_effects(self.now()):
                for effect in effects:
                    self._perform(effect)
        finally:
            self._is_pumping = False
        self._on_settled()
        # Only an earlier deadline wakes the loop: after a later one it finds nothing due and sleeps again.
        deadline = self._seated.next_deadline()
        if deadline != self._armed_for and (self._armed_for is None or (deadline or 0) < self._armed_for):
            self._deadline_moved.set()

    def start_clock(self) -> None:
        self._clock = RingClock(self._wall_offset_s())

    async def keep_time(self) -> None:
        while True:
            self._deadline_moved = anyio.Event()
            deadline = self._armed_for = self._seated.next_deadline()
            wait_s = float("inf") if deadline is None else max(0.0, deadline - self.now())
            with anyio.move_on_after(wait_s):
                await self._deadline_moved.wait()
            self._armed_for = None
            self._seated.advance(self.now())
            self.pump()
            await anyio.lowlevel.checkpoint()

    async def watch_clock(self) -> None:
        while True:
            await anyio.sleep(CLOCK_LOOK_S)
            if jump_s := self._clock.look(self._wall_offset_s()):
                logger.warning("the clock jumped step_s=%.0f", jump_s)
                self.tell(ClockJumped())

    def _wall_offset_s(self) -> float:
        return self._wall_clock() - anyio.current_time()
