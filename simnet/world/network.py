"""What becomes of a datagram between two hosts?

It may be lost, doubled, late, out of order, cut off by a partition (in one direction only, if so asked),
held up until a time, slowed by a thin line, or refused by a NAT. Rules are data (`LineQuality`); the common case, no
rule, costs one look.

Host numbers, not addresses, decide about links, so a host that changes its address keeps its place in the
world.
"""

import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from simnet.world.latency import Latency, Uniform
from simnet.world.schedule import EventQueue
from simnet.world.trace import Trace

Address = tuple[str, int]
NatKind = Literal["none", "cone", "symmetric"]

FIRST_PORT = 20_000
MAPPINGS_MAX = 4_096


class Nat:
    """A home router. `cone`: one outer port for each inner one, open to everybody once it has sent (full cone).
    `symmetric`: an outer port for each destination, open to that destination only. Both forget by `rebind`, as when
    the router restarts."""

    def __init__(self, kind: NatKind, *, public_ip: str) -> None:
        self.kind = kind
        self.public_ip = public_ip
        self._ports: dict[tuple[Address, Address | None], int] = {}
        self._open_to: dict[int, Address | None] = {}
        self._next_port = FIRST_PORT

    def leave(self, inner: Address, target: Address) -> Address:
        """The address that the receiver will see."""
        key = (inner, target if self.kind == "symmetric" else None)
        port = self._ports.get(key)
        if port is None:
            port = self._next_port
            self._next_port = FIRST_PORT + (port + 1 - FIRST_PORT) % 40_000
            if len(self._ports) >= MAPPINGS_MAX:
                oldest = next(iter(self._ports))
                self._open_to.pop(self._ports.pop(oldest), None)
            self._ports[key] = port
            self._open_to[port] = key[1]
        return self.public_ip, port

    def lets_in(self, target: Address, sender: Address) -> bool:
        if target[1] not in self._open_to:
            return False
        only = self._open_to[target[1]]
        return only is None or only == sender

    def rebind(self) -> None:
        self._ports.clear()
        self._open_to.clear()


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
    bytes_per_s: float | None = None
    queue_s: float = (
        2.0  # with `bytes_per_s`: datagrams that would wait longer are dropped, as by a full router
    )

    def __post_init__(self) -> None:
        for name in ("loss", "duplicate", "reorder"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name} is a share, 0 to 1, not {getattr(self, name)}")
        for name in ("reorder_s", "extra_s", "queue_s"):
            if getattr(self, name) < 0.0:
                raise ValueError(f"{name} cannot be negative: {getattr(self, name)}")
        if self.bytes_per_s is not None and self.bytes_per_s <= 0.0:
            raise ValueError(f"bytes_per_s must be positive, not {self.bytes_per_s}")


@dataclass(slots=True)
class NetworkCounters:
    sent: int = 0
    sent_bytes: int = 0
    lost: int = 0
    cut: int = 0


def _outer(inner: Address) -> int:
    """Another network has another router, so a host that moves there gets another visible address."""
    return int(inner[0].split(".")[0]) % 16


@dataclass(slots=True)
class _Plug:
    host: int
    address: Address
    receive: Receive
    nat: Nat | None = None


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
        self._line_free_s: dict[tuple[int, int], float] = {}
        self._note_rules()

    # -- the places of hosts --------------------------------------------------------------------------------

    def plug(self, host: int, address: Address, receive: Receive, nat: NatKind = "none") -> None:
        """From now on datagrams to `address` reach this host. Behind a NAT, `address` is the inner one."""
        self.unplug(host)
        gate = (
            None
            if nat == "none"
            else Nat(
                nat,
                public_ip=f"203.{(host >> 16 & 15) << 4 | _outer(address)}.{host >> 8 & 255}.{host & 255}",
            )
        )
        plug = _Plug(host, address, receive, gate)
        self._hosts[host] = plug
        if gate is None:
            self._plugs[address] = plug
        else:
            self._plugs[(gate.public_ip, 0)] = plug

    def unplug(self, host: int) -> None:
        """Unplug a host's cable: datagrams under way to it are lost."""
        plug = self._hosts.pop(host, None)
        if plug is not None:
            self._plugs.pop(plug.address if plug.nat is None else (plug.nat.public_ip, 0), None)

    def rebind_nat(self, host: int) -> None:
        """The router restarted: its mappings are gone, and new ones get other ports."""
        plug = self._hosts.get(host)
        if plug is not None and plug.nat is not None:
            plug.nat.rebind()

    # -- rules ----------------------------------------------------------------------------------------------

    def change_link(self, **changes: float | None) -> None:
        """For everybody."""
        self.link = replace(self.link, **changes)  # type: ignore[arg-type]  # names and values checked by Link
        self._note_rules()

    def mend_links(self) -> None:
        """Good links for everybody."""
        self.change_link(loss=0.0, duplicate=0.0, reorder=0.0, extra_s=0.0, bytes_per_s=None)

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
        shown = sender.address if sender.nat is None else sender.nat.leave(sender.address, target)
        plug = self._plugs.get(target) or self._plugs.get((target[0], 0))
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
        is_plain_link = not (link.duplicate or link.reorder or link.extra_s or link.bytes_per_s)
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
        if link.bytes_per_s is not None:
            waited = self._queue(pair, link, len(data))
            if waited is None:
                self.counters.lost += 1
                return
            delay_s += waited
        if self._clogs:
            delay_s = max(delay_s, self._clogs.get(pair, 0.0) - self._schedule.now)
        self._schedule.after(delay_s, self._arrive, host, shown, target, data)
        if link.duplicate and rng.random() < link.duplicate:
            again_s = delay_s + self.latency.seconds(source, host, rng) * rng.random()
            self._schedule.after(again_s, self._arrive, host, shown, target, data)

    def _queue(self, pair: tuple[int, int], link: LineQuality, size: int) -> float | None:
        """Seconds until the line is free and the datagram through, or None where the queue is full."""
        assert link.bytes_per_s is not None
        now = self._schedule.now
        free = max(self._line_free_s.get(pair, 0.0), now)
        if free - now > link.queue_s:
            return None
        self._line_free_s[pair] = free + size / link.bytes_per_s
        return free - now + size / link.bytes_per_s

    def _arrive(self, host: int, shown: Address, target: Address, data: bytes) -> None:
        plug = self._plugs.get(target) or self._plugs.get((target[0], 0))
        if plug is None or plug.host != host:
            return
        if plug.nat is not None and not plug.nat.lets_in(target, shown):
            return
        if self._trace is not None:
            self._trace.arrived(self._schedule.now, host, shown, data)
        plug.receive(data, shown)

    def can_reach(self, source: int, target: int) -> bool:
        """Whether a datagram would pass the cuts; for carriers of streams."""
        return source in self._hosts and target in self._hosts and not self._is_cut(source, target)

    def _is_cut(self, source: int, target: int) -> bool:
        return any(source in sources and target in targets for sources, targets in self._cuts.values())
