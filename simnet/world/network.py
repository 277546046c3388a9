"""What becomes of a datagram between two hosts?

It may be lost, doubled, late, out of order, cut off by a partition (in one direction only, if so asked),
or held up until a time. Rules are data (`LineQuality`); the common case, no rule, costs one look.

Host numbers, not addresses, decide about links, so a host that changes its address keeps its place in the
world.
"""

import math
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

from simnet.world.schedule import EventQueue
from simnet.world.trace import Trace


class Latency(Protocol):
    """How long a datagram takes from one host to another. A pair of hosts has a base delay that stays, and each
    datagram some jitter on it."""

    def seconds(self, source: int, target: int, rng: random.Random) -> float: ...


def _pair_chance(seed: int, source: int, target: int) -> random.Random:
    low, high = sorted((source, target))
    return random.Random(f"{seed}/{low}/{high}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Uniform:
    """Drawn for each datagram: the harshest about order, and the quickest to draw."""

    low_s: float = 0.02
    high_s: float = 0.12

    def seconds(self, source: int, target: int, rng: random.Random) -> float:
        return self.low_s + (self.high_s - self.low_s) * rng.random()


class LogNormal:
    """`median_s` one way; sigma 0.6 puts one pair in twenty beyond 2.7 times the median."""

    def __init__(
        self, *, median_s: float = 0.05, sigma: float = 0.6, jitter: float = 0.1, seed: int = 0
    ) -> None:
        self._median_s, self._sigma, self._jitter, self._seed = median_s, sigma, jitter, seed
        self._base = lru_cache(maxsize=1 << 18)(self._draw)

    def seconds(self, source: int, target: int, rng: random.Random) -> float:
        return self._base(source, target) * (1.0 + self._jitter * rng.random())

    def _draw(self, source: int, target: int) -> float:
        chance = _pair_chance(self._seed, source, target)
        return self._median_s * math.exp(self._sigma * chance.gauss(0.0, 1.0))


class King:
    """A plane of `width_s` from side to side, five continents on it, and a log-normal access delay per host: near hosts
    are near to the same others, as in the King measurements of the internet (median round trip 159 ms, mean 182 ms;
    Gummadi et al. 2002)."""

    CONTINENTS = ((0.15, 0.3, 0.3), (0.25, 0.7, 0.1), (0.5, 0.25, 0.3), (0.8, 0.35, 0.25), (0.9, 0.85, 0.05))

    def __init__(
        self, *, width_s: float = 0.13, access_s: float = 0.012, jitter: float = 0.1, seed: int = 0
    ) -> None:
        self._width_s, self._access_s, self._jitter, self._seed = width_s, access_s, jitter, seed
        self._place = lru_cache(maxsize=1 << 18)(self._draw)

    def seconds(self, source: int, target: int, rng: random.Random) -> float:
        x1, y1, access1 = self._place(source)
        x2, y2, access2 = self._place(target)
        base = self._width_s * math.hypot(x1 - x2, y1 - y2) + access1 + access2
        return base * (1.0 + self._jitter * rng.random())

    def _draw(self, host: int) -> tuple[float, float, float]:
        chance = random.Random(f"{self._seed}/{host}")
        x, y, _ = chance.choices(self.CONTINENTS, weights=[share for _, _, share in self.CONTINENTS])[0]
        access_s = self._access_s * math.exp(0.7 * chance.gauss(0.0, 1.0))
        return chance.gauss(x, 0.06), chance.gauss(y, 0.06), access_s


Address = tuple[str, int]
Receive = Callable[[bytes, Address], None]
DATAGRAM_BYTES_MAX = 65_507


@dataclass(frozen=True, slots=True, kw_only=True)
class LineQuality:
    """How datagrams fare. `reorder` is the share that is late by up to `reorder_s` more."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    reorder_s: float = 0.5
    extra_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "reorder"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is a share, 0 to 1, not {getattr(self, name)}")
        for name in ("reorder_s", "extra_s"):
            if getattr(self, name) < 0.0:
                raise ValueError(f"{name} cannot be negative: {getattr(self, name)}")


@dataclass(slots=True)
class NetworkCounters:
    sent: int = 0
    sent_bytes: int = 0
    lost: int = 0
    cut: int = 0


@dataclass(slots=True)
class _Plug:
    host: int
    address: Address
    receive: Receive


class Network:
    """`link` is how all pairs fare."""

    def __init__(
        self,
        schedule: EventQueue,
        rng: random.Random,
        *,
        latency: Latency | None = None,
        link: LineQuality | None = None,
        trace: Trace | None = None,
    ) -> None:
        self.counters = NetworkCounters()
        self.link = link or LineQuality()
        self.latency: Latency = latency or Uniform()
        self._schedule, self._rng, self._trace = schedule, rng, trace
        self._plugs: dict[Address, _Plug] = {}
        self._hosts: dict[int, _Plug] = {}
        self._cuts: dict[str, tuple[frozenset[int], frozenset[int]]] = {}
        self._clogs: dict[tuple[int, int], float] = {}
        self._note_rules()

    # -- the places of hosts --------------------------------------------------------------------------------

    def plug(self, host: int, address: Address, receive: Receive) -> None:
        """From now on datagrams to `address` reach this host."""
        self.unplug(host)
        self._hosts[host] = self._plugs[address] = _Plug(host, address, receive)

    def unplug(self, host: int) -> None:
        """Unplug a host's cable: datagrams under way to it are lost."""
        plug = self._hosts.pop(host, None)
        if plug is not None:
            self._plugs.pop(plug.address, None)

    # -- rules ----------------------------------------------------------------------------------------------

    def change_link(self, **changes: float | None) -> None:
        """For everybody."""
        self.link = replace(self.link, **changes)  # type: ignore[arg-type]  # names and values checked by Link
        self._note_rules()

    def mend_links(self) -> None:
        """Good links for everybody."""
        self.change_link(loss=0.0, duplicate=0.0, reorder=0.0, extra_s=0.0)

    def cut(self, name: str, sources: Iterable[int], targets: Iterable[int]) -> None:
        """Nothing goes from `sources` to `targets`. One direction, so a cut may be asymmetric or partial."""
        self._cuts[name] = (frozenset(sources), frozenset(targets))
        self._note_rules()

    def partition(self, name: str, *groups: Iterable[int]) -> None:
        """Nothing goes between any two of the groups, in either direction."""
        sets = [frozenset(group) for group in groups]
        for index, group in enumerate(sets):
            others = frozenset().union(*(other for other in sets if other is not group))
            self._cuts[f"{name}/{index}"] = (group, others)
        self._note_rules()

    def heal(self, name: str | None = None) -> None:
        """Undo the cuts and partitions of that name, or all."""
        for key in [key for key in self._cuts if name is None or key == name or key.startswith(f"{name}/")]:
            del self._cuts[key]
        self._note_rules()

    def clog(self, source: int, target: int, until: float) -> None:
        """Datagrams wait in this link and all come out when it opens."""
        self._clogs = {pair: opens for pair, opens in self._clogs.items() if opens > self._schedule.now}
        self._clogs[(source, target)] = until
        self._note_rules()

    # -- sending --------------------------------------------------------------------------------------------

    def send(self, source: int, target: Address, data: bytes) -> None:
        """From a host. Like UDP: never an error, perhaps never an arrival."""
        counters, length = self.counters, len(data)
        counters.sent += 1
        counters.sent_bytes += length
        sender = self._hosts.get(source)
        if sender is None or length > DATAGRAM_BYTES_MAX:
            return
        shown, plug = sender.address, self._plugs.get(target)
        if plug is None:
            return
        if self._has_rules:
            self._carry(source, plug.host, shown, target, data)
            return
        rng = self._rng
        if self.link.loss and rng.random() < self.link.loss:
            counters.lost += 1
            return
        delay_s = self.latency.seconds(source, plug.host, rng)
        self._schedule.after(delay_s, self._arrive, plug.host, shown, target, data)

    def _note_rules(self) -> None:
        """Whether anything but loss is asked of the network: most runs, most of the time, ask for nothing."""
        link = self.link
        is_plain_link = not (link.duplicate or link.reorder or link.extra_s)
        self._has_rules = bool(self._cuts or self._clogs) or not is_plain_link

    def _carry(self, source: int, host: int, shown: Address, target: Address, data: bytes) -> None:
        if self._cuts and self._is_cut(source, host):
            self.counters.cut += 1
            return
        pair = (source, host)
        link, rng = self.link, self._rng
        if link.loss and rng.random() < link.loss:
            self.counters.lost += 1
            return
        delay_s = self.latency.seconds(source, host, rng) + link.extra_s
        if link.reorder and rng.random() < link.reorder:
            delay_s += rng.random() * link.reorder_s
        if self._clogs:
            delay_s = max(delay_s, self._clogs.get(pair, 0.0) - self._schedule.now)
        self._schedule.after(delay_s, self._arrive, host, shown, target, data)
        if link.duplicate and rng.random() < link.duplicate:
            again_s = delay_s + self.latency.seconds(source, host, rng) * rng.random()
            self._schedule.after(again_s, self._arrive, host, shown, target, data)

    def _arrive(self, host: int, shown: Address, target: Address, data: bytes) -> None:
        plug = self._plugs.get(target)
        if plug is None or plug.host != host:
            return
        if self._trace is not None:
            self._trace.arrived(self._schedule.now, host, shown, data)
        plug.receive(data, shown)

    def can_reach(self, source: int, target: int) -> bool:
        """Whether a datagram would pass the cuts; for carriers of streams."""
        return source in self._hosts and target in self._hosts and not self._is_cut(source, target)

    def _is_cut(self, source: int, target: int) -> bool:
        return any(source in sources and target in targets for sources, targets in self._cuts.values())
