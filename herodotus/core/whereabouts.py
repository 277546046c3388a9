"""Has this peer's address changed? What a look at its own machine says, every ten seconds.

Three things happen to a home line: the address of the interface that leads out changes (another network, another
cable, a VPN), the router's address changes, and the computer sleeps and wakes elsewhere. The first is seen here. If
others reached the peer at that very address, the new one is the peer's; if a router was between, only others can tell,
and so after a sleep: then somebody has to be spoken to, and `seen` of two of them says where we are (`dht.endpoint`).

Asking the kernel for a route sends nothing and costs microseconds, on every system; netlink is Linux's alone.
"""

from enum import Enum
from ipaddress import ip_address
from typing import Final

LOOK_EVERY_S: Final = 10.0
SLEPT_S: Final = 30.0
"""So far the wall clock ran ahead between two looks: the machine slept, and its address may be another."""


class Finding(Enum):
    NOTHING = "nothing"
    ELSEWHERE = "elsewhere"
    """The address of the interface is ours, and another one."""
    UNSURE = "unsure"
    """Others are to be spoken to."""


class Whereabouts:
    def __init__(self, outgoing: bytes, wall_s: float, steady_s: float) -> None:
        self.outgoing = outgoing
        self._offset_s = wall_s - steady_s

    def look(self, outgoing: bytes, ours: bytes, wall_s: float, steady_s: float) -> Finding:
        """`outgoing` is the interface's address now, `ours` the one under which others know us."""
        slept_s, self._offset_s = wall_s - steady_s - self._offset_s, wall_s - steady_s
        before, self.outgoing = self.outgoing, outgoing
        if outgoing == before:
            return Finding.UNSURE if slept_s >= SLEPT_S else Finding.NOTHING
        is_direct = ours == before and ip_address(before).is_global == ip_address(outgoing).is_global
        return Finding.ELSEWHERE if is_direct and not ip_address(outgoing).is_loopback else Finding.UNSURE
