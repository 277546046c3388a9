"""What is a computer in this world? An address, a clock that may be wrong, a disk, and a program that may
be down.

A program is a sans-IO machine by its shape (`Program`): it is told of arrivals and of the time on its own clock, and
returns messages to send and the time to be woken. The host drives it: crash, restart on the same disk, suspend (a
laptop lid: datagrams of that time are gone), stall (a long pause: they wait).
"""

import random
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Protocol, runtime_checkable

from simnet.world.disk import SimulatedDisk
from simnet.world.network import Address, Network
from simnet.world.schedule import EventQueue
from simnet.world.trace import Trace

BACKLOG_MAX = 10_000  # datagrams that wait for a stalled program; a socket buffer would hold fewer

WAKES_AT_ONCE_MAX = 10_000
ROUNDING_S = 1e-6


class LivelockError(Exception):
    """A program asks to be woken again and again without its time moving on."""

    def __init__(self, host: int, time_s: float) -> None:
        super().__init__(f"the program of host {host} keeps a deadline that has passed, at {time_s} s")
        self.host, self.time_s = host, time_s


class Program(Protocol):
    def receive(self, data: bytes, sender: Address, now: float) -> None: ...
    def advance(self, now: float) -> None: ...
    def next_deadline(self) -> float | None: ...
    def take_datagrams(self) -> Sequence[tuple[Address, bytes]]: ...


@runtime_checkable
class Stoppable(Protocol):
    """A program that is more than an object, such as tasks of a loop, and must be told that it is dead."""

    def stop(self) -> None: ...


Boot = Callable[["WorldHost"], Program]


class WorldHost:
    def __init__(
        self,
        *,
        number: int,
        address: Address,
        boot: Boot,
        schedule: EventQueue,
        network: Network,
        trace: Trace,
        chance: Callable[[str], random.Random],
    ) -> None:
        self.number, self.address = number, address
        self._chance = chance
        self.program: Program | None = None
        self.boots = 0
        self.skew_s = 0.0
        self.drift = 0.0
        self._boot, self._schedule, self._network, self._trace = boot, schedule, network, trace
        self._asleep_until = 0.0
        self._stalled_until = 0.0
        self._paused_until = 0.0  # the later of the two
        self._backlog: list[tuple[bytes, Address]] = []
        self._timer: tuple[float, int, float] | None = (
            None  # due, its number, the deadline as the program said it
        )
        self._dues = (0.0, 0)  # how often it was woken at this very time

    # Made when first asked for: of 100,000 hosts that only route, none needs a disk.
    @cached_property
    def rng(self) -> random.Random:
        return self._chance(f"host/{self.number}")

    @cached_property
    def disk(self) -> SimulatedDisk:
        return SimulatedDisk(rng=self._chance(f"disk/{self.number}"))

    @property
    def is_up(self) -> bool:
        return self.program is not None

    @property
    def is_responsive(self) -> bool:
        return self.program is not None and self._schedule.now >= self._paused_until

    def clock(self) -> float:
        """The time on this host's clock; programs see no other."""
        return self._schedule.now * (1.0 + self.drift) + self.skew_s

    # -- its life -------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Boot the program; nothing happens where it runs already."""
        if self.is_up:
            return
        self.boots += 1
        self._trace.note(self._schedule.now, "start", self.number, self.boots)
        self._plug()
        self.program = self._boot(self)
        self._settle()

    def crash(self, *, power_cut: bool = True) -> None:
        """The program is gone at once. With `power_cut` its disk forgets unsynced bytes; without (kill -9) the
        operating system lives on and keeps them."""
        if not self.is_up:
            return
        self._trace.note(self._schedule.now, "crash", self.number, power_cut)
        stopped: object = self.program
        self.program = None
        if isinstance(stopped, Stoppable):
            stopped.stop()
        self._backlog.clear()
        self._disarm()
        # The next program starts on a machine that boots: it inherits no pause of the old one.
        self._asleep_until = self._stalled_until = self._paused_until = 0.0
        self._network.unplug(self.number)
        if "disk" in self.__dict__:
            if power_cut:
                self.disk.power_cut(self.rng)
            else:
                self.disk.close_all()

    def suspend(self, for_s: float) -> None:
        """A closed lid: no time passes for the program, and datagrams to it are lost."""
        self._asleep_until = max(self._asleep_until, self._schedule.now + for_s)
        self._pause_until(self._asleep_until, "suspend")

    def stall(self, for_s: float) -> None:
        """A pause of the program alone: datagrams to it wait."""
        self._stalled_until = max(self._stalled_until, self._schedule.now + for_s)
        self._pause_until(self._stalled_until, "stall")

    def change_address(self, address: Address) -> None:
        self._trace.note(self._schedule.now, "address", self.number, *address)
        self.address = address
        if self.is_up:
            self._plug()

    def set_clock(self, *, skew_s: float, drift: float = 0.0) -> None:
        """A jump of the clock, and from then on how fast it goes wrong."""
        self._trace.note(self._schedule.now, "clock", self.number, skew_s, drift)
        self.skew_s, self.drift = skew_s - drift * self._schedule.now, drift
        self._settle()

    def wake(self) -> None:
        """Take the program's wishes now; for callers that changed it from outside."""
        self._settle()

    # -- driving the program --------------------------------------------------------------------------------

    def _plug(self) -> None:
        self._network.plug(self.number, self.address, self._receive)

    def _pause_until(self, until: float, kind: str) -> None:
        self._paused_until = max(self._asleep_until, self._stalled_until)
        self._trace.note(self._schedule.now, kind, self.number, until)
        self._disarm()
        self._schedule.at(until, self._resume)

    def _resume(self) -> None:
        if not self.is_responsive:
            return
        backlog, self._backlog = self._backlog, []
        for data, sender in backlog:
            self._receive(data, sender)
        self._settle()

    def _receive(self, data: bytes, sender: Address) -> None:
        program = self.program
        if program is None:
            return
        if self._schedule.now < self._paused_until:
            if self._schedule.now >= self._asleep_until and len(self._backlog) < BACKLOG_MAX:
                self._backlog.append((data, sender))
            return
        program.receive(data, sender, self._schedule.now * (1.0 + self.drift) + self.skew_s)
        self._settle()

    def _due(self) -> None:
        timer, self._timer = self._timer, None
        program = self.program
        now = self._schedule.now
        if program is None or timer is None or now < self._paused_until:
            return
        clock = self.clock()
        if clock < timer[2] < clock + ROUNDING_S:
            clock = timer[2]  # rounding put a skewed clock a hair before the deadline it was woken for
        self._count_wakes(now)
        program.advance(clock)
        self._settle()

    def _count_wakes(self, now: float) -> None:
        self._dues = (now, self._dues[1] + 1 if self._dues[0] == now else 1)
        if self._dues[1] > WAKES_AT_ONCE_MAX:
            raise LivelockError(self.number, now)

    def _settle(self) -> None:
        """Send the program's messages, and set its timer to its present deadline."""
        program = self.program
        if program is None or self._schedule.now < self._paused_until:
            return
        for target, data in program.take_datagrams():
            self._network.send(self.number, target, data)
        deadline = program.next_deadline()
        if deadline is None:
            self._disarm()
            return
        due = (deadline - self.skew_s) / (1.0 + self.drift)
        timer = self._timer
        if timer is not None:
            if timer[0] == due:
                return
            self._schedule.cancel(timer[1])
        self._timer = (due, self._schedule.at(due, self._due), deadline)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._schedule.cancel(self._timer[1])
            self._timer = None
