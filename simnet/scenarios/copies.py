"""Do six copies last? One peer lost and made good, and a year in which peers come and go."""

from collections.abc import Callable
from functools import partial

from simnet.copyworld import DAY_S, CopyRules, CopyWorld, SimulatedHolder
from simnet.runs import ScenarioRun
from simnet.scenarios import Figures, scenario, try_out

GB, KBIT = 1e9, 1e3


def _worlds(run: ScenarioRun) -> Callable[[], CopyWorld]:
    """Lines and disks of the thesis's chapter 6, where nothing else is said."""
    peers = run.peers
    units = int(run.setting("units_per_peer", 8, low=1, high=1_000)) * peers
    node_bytes = run.setting("node_gb", 100, low=0.001) * GB
    rules = CopyRules(
        copies=int(run.setting("copies", 6, low=1, high=16)),
        departed_s=run.setting("departed_h", 24, low=0.01) * 3_600,
        unit_bytes=node_bytes * peers / 6 / units,
        up_bit_s=run.setting("up_kbit_s", 75, low=1) * KBIT,
        down_bit_s=run.setting("down_kbit_s", 150, low=1) * KBIT,
    )
    return partial(CopyWorld, rules, run.options.seed, peers=peers, units=units)


@scenario("lose-and-repair", summary="a peer is lost for good; how long and how much its copies take",
          peers=100, peers_min=20, peers_max=2_000, seconds=1.0)  # fmt: skip
def lose_and_repair(run: ScenarioRun) -> None:
    def work() -> tuple[Figures, str | None]:
        world = make()
        lost = max(world.peers.values(), key=lambda peer: len(peer.units))
        stored = len(lost.units) * world.rules.unit_bytes
        world.lose(lost)
        days = 0.0
        while world.histogram().keys() != {world.rules.copies} and days < limit:
            days += 0.25
            world.run_until(days * DAY_S)
        figures = {
            "bytes it held": stored,
            "bytes moved": world.bytes_moved,
            "moved for each byte": world.bytes_moved / max(1.0, stored),
            "days until all is as before": days,
            "units lost": float(len(world.lost)),
        }
        wrong = f"{len(world.lost)} units lost" if world.lost else None
        return figures, wrong or (f"not repaired in {limit} days" if days >= limit else None)

    make, limit = _worlds(run), run.setting("limit_days", 120, low=1)
    try_out(run, "its copies are made again", work)


class _Churn:
    """Peers are up and down by turns, and leave for good; a newcomer follows each one that leaves."""

    def __init__(self, world: CopyWorld, *, stay_days: float, up_h: float, down_h: float) -> None:
        self._world, self._stay_s = world, stay_days * DAY_S
        self._up_s, self._down_s = up_h * 3_600, down_h * 3_600
        self._gone: set[bytes] = set()
        for peer in list(world.peers.values()):
            self._live(peer)

    def _live(self, peer: SimulatedHolder) -> None:
        self._world.time.after(self._draw(self._stay_s), partial(self._leave, peer))
        self._world.time.after(self._draw(self._up_s), partial(self._turn, peer))

    def _draw(self, mean_s: float) -> float:
        return self._world.random.expovariate(1 / mean_s)

    def _turn(self, peer: SimulatedHolder) -> None:
        if peer.key not in self._gone:
            (self._world.go if peer.is_up else self._world.come_back)(peer)
            self._world.time.after(
                self._draw(self._up_s if peer.is_up else self._down_s), partial(self._turn, peer)
            )

    def _leave(self, peer: SimulatedHolder) -> None:
        self._gone.add(peer.key)
        self._world.lose(peer)
        self._live(self._world.join())

    @property
    def left(self) -> int:
        return len(self._gone)


@scenario("year-of-churn", summary="six copies through a year in which peers come, go and stay away",
          peers=500, peers_min=20, peers_max=5_000, seconds=1.0)  # fmt: skip
def year_of_churn(run: ScenarioRun) -> None:
    def work() -> tuple[Figures, str | None]:
        world = make()
        churn = _Churn(world, stay_days=stay_days, up_h=up_h, down_h=down_h)
        copies: list[float] = []
        lowest = world.rules.copies
        for day in range(1, int(days) + 1):
            world.run_until(day * DAY_S)
            histogram = world.histogram()
            copies.append(sum(number * units for number, units in histogram.items()) / len(world.units))
            lowest = min(lowest, *histogram)
        reachable = world.reachable()
        figures = {
            "peers that left": float(churn.left),
            "units": float(len(world.units)),
            "units lost": float(len(world.lost)),
            "dropped before six others had it": float(world.dropped_early),
            "copies, mean": sum(copies) / len(copies),
            "copies, lowest day's mean": min(copies),
            "copies at the end": copies[-1],
            "fewest copies of a unit on any day": float(lowest),
            "not reachable at the end": reachable[0] / len(world.units),
            "GB moved to a peer": world.bytes_moved / run.peers / GB,
            "kbit/s of a peer": world.bytes_moved * 8 / run.peers / (days * DAY_S) / KBIT,
        }
        wrong = f"{len(world.lost)} of {len(world.units)} units lost" if world.lost else None
        return figures, wrong or ("a copy went too early" if world.dropped_early else None)

    make = _worlds(run)
    days = run.options.days or run.setting("for_days", 365, low=1, high=3_660)
    stay_days = run.setting("stay_days", 360, low=0.1)
    up_h, down_h = run.setting("up_h", 96, low=0.1), run.setting("down_h", 24, low=0.1)
    try_out(run, "nothing is lost", work)


@scenario("keys-that-vanish", summary="one machine with many keys takes part for a fortnight, and goes with its disk",
          peers=50, peers_min=20, peers_max=2_000, seconds=1.0)  # fmt: skip
def keys_that_vanish(run: ScenarioRun) -> None:
    """All disks are always full: whatever may go goes. The keys hold and prove what is theirs until they go at once."""

    def work() -> tuple[Figures, str | None]:
        world = CopyWorld(rules, run.options.seed, peers=run.peers, units=units)
        honest = set(world.peers)
        came = [world.join(b"one /24") for _ in range(keys)]
        world.run_until(days * DAY_S)
        for peer in came:
            world.lose(peer)
        left = [len(world.owners[unit] & honest) for unit in world.units]
        figures = {
            "units": float(len(left)),
            "units lost": float(left.count(0)),
            "fewest honest copies": float(min(left)),
            "units that went somewhere": float(world.dropped),
        }
        wrong = f"{left.count(0)} of {len(left)} units lost" if not min(left) else None
        return figures, wrong

    keys = int(run.setting("keys", 30, low=1, high=1_000))
    days = run.options.days or run.setting("for_days", 14, low=0.1, high=3_660)
    units = int(run.setting("units", 2_000, low=1, high=100_000))
    rules = CopyRules(
        keep_s=run.setting("keep_h", 24, low=0.01) * 3_600,
        unit_bytes=1e6,
        up_bit_s=1e9,
        down_bit_s=2e9,
        by_place=bool(run.setting("places", 1, low=0, high=1)),
        asks_veterans=bool(run.setting("veterans", 1, low=0, high=1)),
    )
    try_out(run, "nothing is lost", work)
