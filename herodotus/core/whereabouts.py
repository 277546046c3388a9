"""Has this peer's address changed? What a look at its own machine says, every ten seconds.

Three things happen to a home line: the address of the interface that leads out changes (another network, another
cable, a VPN), the router's address changes, and the computer sleeps and wakes elsewhere. The first is seen here. If
others reached the peer at that very address, the new one is the peer's; if a router was between, only others can tell,
and so after a sleep: then somebody has to be spoken to, and `seen` of two of them says where we are (`dht.endpoint`).

Asking the kernel for a route sends nothing and costs microseconds, on every system; netlink is Linux's alone.
"""

from collections.abc import Sequence
from enum import Enum
from ipaddress import ip_address
from typing import Final

LOOK_EVERY_S: Final = 10.0
SLEPT_S: Final = 30.0
"""So far the wall clock ran ahead between two looks: the machine slept, and its address may be another."""


GONE_LOOKS: Final = 3
"""So often in a row nothing leads out in the family of our address. An interface that asks for its address again is
without one for a second or two."""


class Finding(Enum):
    NOTHING = "nothing"
    ELSEWHERE = "elsewhere"
    """The address of the interface is ours, and another one."""
    OTHER_FAMILY = "other family"
    """Nothing leads out any more in the family of our address, and something does in the other one."""
    UNSURE = "unsure"
    """Others are to be spoken to."""


def has_family(outgoing: Sequence[str], *, of: str) -> bool:
    """Is one of a machine's addresses of this one's family? A machine without any may be offline for a moment."""
    return not outgoing or any((":" in one) == (":" in of) for one in outgoing)


class Whereabouts:
    def __init__(self, outgoing: bytes, wall_s: float, steady_s: float) -> None:
        self.outgoing = outgoing
        self._offset_s = wall_s - steady_s
        self._gone = 0

    def look(self, outgoing: bytes, ours: bytes, wall_s: float, steady_s: float) -> Finding:
        """`outgoing` is the interface's address now, in the family of `ours` if it has one; `ours` the one under which
        others know us."""
        slept_s, self._offset_s = wall_s - steady_s - self._offset_s, wall_s - steady_s
        before, self.outgoing = self.outgoing, outgoing
        if len(outgoing) != len(ours):
            self._gone += not ip_address(outgoing).is_loopback
            return Finding.OTHER_FAMILY if self._gone == GONE_LOOKS else Finding.NOTHING
        self._gone = 0
        if outgoing == before:
            return Finding.UNSURE if slept_s >= SLEPT_S else Finding.NOTHING
        is_direct = ours == before and ip_address(before).is_global == ip_address(outgoing).is_global
        return Finding.ELSEWHERE if is_direct and not ip_address(outgoing).is_loopback else Finding.UNSURE
