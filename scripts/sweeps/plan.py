"""What goes wrong when? The faults of a day, drawn by a seed, so that no more peers are out than copies can bear."""

from dataclasses import dataclass
from enum import Enum
from random import Random


class Kind(Enum):
    KILL = "kill"
    """SIGKILL, and started again at the end."""
    STOP = "stand still"
    """SIGSTOP, and SIGCONT at the end."""
    FULL = "disk full"
    SLOW = "slow line"
    SPLIT = "split"
    """One side of it; all others are on the other side."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    kind: Kind
    begins: float
    """As a share of the day, like `ends`."""
    ends: float
    peers: tuple[int, ...]

    def __str__(self) -> str:
        who = ", ".join(map(str, self.peers))
        return f"{self.kind.value} {who} from {self.begins:.0%} to {self.ends:.0%} of the day"


OUT_MAX = 3
"""Peers killed or stopped at a time; with those of the small half of a split they stay below six copies."""


def faults_of_day(
    random: Random, peers: int, *, has_lines: bool, disks: tuple[int, ...], can_split: bool
) -> list[Fault]:
    """`disks` are the peers whose disk can be filled. Faults of a kind do not overlap with each other."""
    found = []
    out = random.sample(range(peers), OUT_MAX)
    found.append(_fault(random, Kind.KILL, out[: random.randint(1, 2)]))
    found.append(_fault(random, Kind.STOP, out[2:]))
    if disks:
        found.append(_fault(random, Kind.FULL, [random.choice(disks)]))
    if has_lines:
        found.append(Fault(kind=Kind.SLOW, begins=0.0, ends=0.9, peers=tuple(random.sample(range(peers), 2))))
    if has_lines and can_split:
        side = random.sample(range(peers), random.randint(1, peers // 2))
        found.append(_fault(random, Kind.SPLIT, side))
    return sorted(found, key=lambda fault: (fault.begins, fault.kind.value))


def _fault(random: Random, kind: Kind, peers: list[int]) -> Fault:
    begins = random.uniform(0.05, 0.45)
    return Fault(kind=kind, begins=begins, ends=begins + random.uniform(0.1, 0.4), peers=tuple(sorted(peers)))
