"""Which faults strike which hosts, and when? Faults as data, so they can be drawn, listed, shortened and replayed.

A new kind of fault is a function under `@fault_kind("name")` that does it to the world. `draw_faults` makes
a random schedule that ends in time for the world to recover; `settle` is the fault that undoes all that
lasts.
"""

import errno
import math
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from simnet.world.disk import SYNCS, WRITES, Failure
from simnet.world.network import LineQuality

if TYPE_CHECKING:
    from simnet.world.hosts import WorldHost
    from simnet.world.world import World

Strike = Callable[["Fault", "World"], None]
_KINDS: dict[str, Strike] = {}


def _mend_disk(host: "WorldHost") -> None:
    host.disk.mend()
    host.disk.capacity_bytes = None


def _fill_disk(host: "WorldHost", settings: Mapping[str, float]) -> None:
    host.disk.capacity_bytes = host.disk.bytes_used + int(settings.get("left_bytes", 0.0))


def _break_disk(host: "WorldHost", settings: Mapping[str, float]) -> None:
    share = settings.get("share", 0.1)
    host.disk.fail(Failure(calls=WRITES | SYNCS, error=errno.EIO, probability=share))


_ON_EACH: Mapping[str, Callable[["WorldHost", Mapping[str, float]], object]] = {
    "crash": lambda host, settings: host.crash(power_cut=bool(settings.get("power_cut", 1.0))),
    "start": lambda host, _: host.start(),
    "suspend": lambda host, settings: host.suspend(settings.get("for_s", 60.0)),
    "stall": lambda host, settings: host.stall(settings.get("for_s", 5.0)),
    "clock": lambda host, settings: host.set_clock(
        skew_s=settings.get("skew_s", 0.0), drift=settings.get("drift", 0.0)
    ),
    "disk full": _fill_disk,
    "disk errors": _break_disk,
    "disk repaired": lambda host, _: _mend_disk(host),
    "rot": lambda host, _: host.disk.rot_somewhere(host.rng),
}
"""Kinds that strike each of a fault's hosts by itself, and what they do to it with the fault's settings."""


class FaultError(Exception):
    """A fault that cannot be: an unknown kind, a host that is not there, a time before the beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """`hosts` are numbers; the kind defines the `settings`."""

    kind: str
    at_s: float
    hosts: tuple[int, ...] = ()
    settings: dict[str, float] = field(default_factory=dict)

    def check(self, hosts: int) -> None:
        known = _KINDS.keys() | _ON_EACH.keys()
        if self.kind not in known:
            raise FaultError(f"no fault is called {self.kind!r}; there are {', '.join(sorted(known))}")
        if not 0 <= self.at_s < math.inf:
            raise FaultError(f"{self.kind} at {self.at_s} s is before the world begins or never")
        for host in self.hosts:
            if not 0 <= host < hosts:
                raise FaultError(f"{self.kind} strikes host {host}, but there are {hosts}, from 0")
        if self.kind == "clog" and len(self.hosts) != 2:
            raise FaultError(
                f"{self.kind} is of a link: from one host to another, not of {len(self.hosts)} hosts"
            )
        if self.kind == "link":
            try:
                LineQuality(**self.settings)
            except (TypeError, ValueError) as error:
                raise FaultError(f"no link can be like this: {error}") from error

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, told: dict[str, Any]) -> "Fault":
        try:
            return cls(
                kind=str(told["kind"]),
                at_s=float(told["at_s"]),
                hosts=tuple(int(host) for host in told["hosts"]),
                settings={str(name): float(value) for name, value in told["settings"].items()},
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise FaultError(f"not a fault: {told!r}") from error


def fault_kind(name: str) -> Callable[[Strike], Strike]:
    def register(strike: Strike) -> Strike:
        _KINDS[name] = strike
        return strike

    return register


def apply_fault(fault: Fault, world: "World") -> None:
    strike = _ON_EACH.get(fault.kind)
    if strike is None:
        _KINDS[fault.kind](fault, world)
        return
    for number in fault.hosts:
        strike(world.hosts[number], fault.settings)


@fault_kind("restart")
def _restart(fault: Fault, world: "World") -> None:
    """Power cut, and back after `for_s`."""
    for number in fault.hosts:
        world.hosts[number].crash()
        world.schedule.after(fault.settings.get("for_s", 1.0), world.hosts[number].start)


@fault_kind("move")
def _move(fault: Fault, world: "World") -> None:
    """A new address, as of a laptop in another network."""
    for number in fault.hosts:
        move = int(fault.settings.get("move", 1.0))
        world.hosts[number].change_address(world.fresh_address(number, move))


@fault_kind("partition")
def _partition(fault: Fault, world: "World") -> None:
    """`hosts` on one side, all others on the other."""
    inside = set(fault.hosts)
    world.network.partition("partition", inside, set(range(len(world.hosts))) - inside)


@fault_kind("mute")
def _mute(fault: Fault, world: "World") -> None:
    """They hear everybody, and nobody hears them."""
    inside = set(fault.hosts)
    world.network.cut("mute", inside, set(range(len(world.hosts))) - inside)


@fault_kind("heal")
def _heal(fault: Fault, world: "World") -> None:
    world.network.heal()


@fault_kind("clog")
def _clog(fault: Fault, world: "World") -> None:
    """The link from the first to the second opens after `for_s`."""
    source, target = fault.hosts[:2]
    world.network.clog(source, target, world.now + fault.settings.get("for_s", 5.0))


@fault_kind("link")
def _link(fault: Fault, world: "World") -> None:
    """Everybody's link: loss, duplicate, reorder, reorder_s, extra_s."""
    world.network.change_link(**fault.settings)


@fault_kind("settle")
def _settle(fault: Fault, world: "World") -> None:
    """The end of all trouble: links good, cuts healed, clocks right, disks whole, everybody up."""
    network = world.network
    network.heal()
    network.mend_links()
    for host in world.hosts:
        _mend_disk(host)
        if host.skew_s or host.drift:
            host.set_clock(skew_s=0.0)
        host.start()


# The faults that `draw_faults` draws, with their settings. Each undoes itself, or `settle` does.
_DRAWN: tuple[tuple[str, Callable[[random.Random], dict[str, float]]], ...] = (
    ("restart", lambda rng: {"for_s": rng.uniform(0.1, 30.0)}),
    ("restart", lambda rng: {"for_s": rng.uniform(0.1, 3.0)}),
    ("suspend", lambda rng: {"for_s": rng.uniform(1.0, 60.0)}),
    ("stall", lambda rng: {"for_s": rng.uniform(0.1, 10.0)}),
    ("clock", lambda rng: {"skew_s": rng.uniform(-300.0, 300.0), "drift": rng.uniform(-1e-4, 1e-4)}),
    ("partition", lambda rng: {}),
    ("mute", lambda rng: {}),
    ("heal", lambda rng: {}),
    ("clog", lambda rng: {"for_s": rng.uniform(0.5, 20.0)}),
    ("link", lambda rng: {"loss": rng.uniform(0, 0.3), "duplicate": rng.uniform(0, 0.1), "reorder": 0.2}),
)


def draw_faults(
    rng: random.Random, *, hosts: int, count: int, until_s: float, kinds: Iterable[str] | None = None
) -> list[Fault]:
    """`count` faults before `until_s`, then `settle`."""
    if count < 0 or hosts < 1 or until_s <= 0:
        raise FaultError(f"cannot draw {count} faults for {hosts} hosts within {until_s} s")
    drawn = [entry for entry in _DRAWN if kinds is None or entry[0] in set(kinds)]
    if not drawn:
        raise FaultError("none of these kinds can be drawn")
    faults = []
    for _ in range(count):
        kind, settings = rng.choice(drawn)
        faults.append(
            Fault(
                kind=kind,
                at_s=rng.uniform(0.0, until_s),
                hosts=_victims(rng, kind, hosts),
                settings=settings(rng),
            )
        )
    faults.sort(key=lambda fault: fault.at_s)
    return [*faults, Fault(kind="settle", at_s=until_s)]


def _victims(rng: random.Random, kind: str, hosts: int) -> tuple[int, ...]:
    if kind in ("heal", "link"):
        return ()
    if kind == "clog":
        return (rng.randrange(hosts), rng.randrange(hosts))
    most = max(1, hosts // 2) if kind in ("partition", "mute") else max(1, hosts // 4)
    return tuple(sorted(rng.sample(range(hosts), rng.randint(1, most))))


def shorten(
    faults: Sequence[Fault], still_fails: Callable[[list[Fault]], bool], runs_max: int = 200
) -> list[Fault]:
    """A shorter schedule that still fails, by leaving out ever smaller pieces (delta debugging)."""
    kept = list(faults)
    piece = max(1, len(kept) // 2)
    runs = 0
    while piece and runs < runs_max:
        at = 0
        while at < len(kept) and runs < runs_max:
            tried = kept[:at] + kept[at + piece :]
            runs += 1
            if still_fails(tried):
                kept = tried
            else:
                at += piece
        piece //= 2
    return kept
