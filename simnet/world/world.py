"""How do clock, network, hosts, faults and checkers become one run?

    world = World(seed=7)
    for number in range(3):
        world.add_host(boot)              # boot(host) -> Program, called at each start
    world.plan(faults)                    # data, see `faults.py`
    world.run_until(600.0, checkers)      # raises ViolationError when a checker objects

Chance is split by purpose (`chance("network")`), so one more draw in one place does not move all the others.
"""

import random
from collections.abc import Iterable, Sequence
from typing import Protocol

from simnet.world.faults import Fault, apply_fault
from simnet.world.hosts import Boot, WorldHost
from simnet.world.network import Address, Latency, LineQuality, Network
from simnet.world.schedule import EventQueue
from simnet.world.trace import Trace

PORT = 4_484


class Checker(Protocol):
    """Checks an invariant. Both methods return a violation as a sentence, or None."""

    @property
    def name(self) -> str: ...
    def after_event(self, world: "World") -> str | None: ...
    def at_end(self, world: "World") -> str | None: ...


class ViolationError(Exception):
    def __init__(self, *, checker: str, detail: str, time_s: float, event: int) -> None:
        super().__init__(f"{checker}: {detail} (at {time_s:.3f} s, event {event:,})")
        self.checker, self.detail, self.time_s, self.event = checker, detail, time_s, event


class World:
    def __init__(
        self,
        *,
        seed: int,
        latency: Latency | None = None,
        link: LineQuality | None = None,
    ) -> None:
        self.seed = seed
        self.schedule = EventQueue()
        self.trace = Trace()
        self.network = Network(
            self.schedule, self.chance("network"), latency=latency, link=link, trace=self.trace
        )
        self.hosts: list[WorldHost] = []
        self.faults_applied = 0

    @property
    def now(self) -> float:
        return self.schedule.now

    def chance(self, purpose: str) -> random.Random:
        """A stream of its own; seeded by text, which hashes the same in every process."""
        return random.Random(f"{self.seed}/{purpose}")

    def add_host(
        self,
        boot: Boot,
        *,
        address: Address | None = None,
        start_at: float | None = 0.0,
    ) -> WorldHost:
        """With `start_at` None the host stays down until someone starts it."""
        number = len(self.hosts)
        host = WorldHost(
            number=number,
            address=address or self.fresh_address(number),
            boot=boot,
            schedule=self.schedule,
            network=self.network,
            trace=self.trace,
            chance=self.chance,
        )
        self.hosts.append(host)
        if start_at is not None:
            self.schedule.at(start_at, host.start)
        return host

    def fresh_address(self, number: int, move: int = 0) -> Address:
        """Host `number`'s address after `moves` moves; hosts stand in distinct /24 networks as far as they
        go."""
        return f"{10 + move % 90}.{number >> 8 & 255}.{number & 255}.{1 + (number >> 16)}", PORT

    def plan(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            fault.check(len(self.hosts))
            self.schedule.at(fault.at_s, self._strike, fault)

    def run_until(self, when: float, checkers: Sequence[Checker] = ()) -> None:
        """Checkers look after every event, one by one, and stop the run at the first that objects."""
        watching = [checker for checker in checkers if is_watching(checker)]

        def look() -> None:
            for checker in watching:
                self._object(checker, checker.after_event(self))

        self.schedule.run_until(when, look if watching else None)

    def conclude(self, checkers: Sequence[Checker]) -> None:
        for checker in checkers:
            self._object(checker, checker.at_end(self))

    def live(self) -> list[WorldHost]:
        return [host for host in self.hosts if host.is_up]

    def _strike(self, fault: Fault) -> None:
        self.faults_applied += 1
        self.trace.note(self.now, "fault", fault.kind, *fault.hosts)
        apply_fault(fault, self)

    def _object(self, checker: Checker, detail: str | None) -> None:
        if detail is not None:
            event = self.trace.lines
            self.trace.note(self.now, "violation", checker.name, detail)
            raise ViolationError(checker=checker.name, detail=detail, time_s=self.now, event=event)


class Silent:
    """A base for checkers that look at one of the two moments only."""

    name = "silent"

    def after_event(self, world: World) -> str | None:
        return None

    def at_end(self, world: World) -> str | None:
        return None


def is_watching(checker: Checker) -> bool:
    return getattr(type(checker), "after_event", None) is not Silent.after_event
