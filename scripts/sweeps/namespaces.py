"""How do peers of one machine get lines of their own, that can be slow or cut? A network namespace for each.

    peer n (10.77.0.n) ── veth ──┬── bridge br0 ── 10.77.0.254: the tester, and the made-up web at 127.16.0.0/16
                                 └── bridge br1: the other side while the ring is split; the web is there, too

It needs `unshare` and `ip`, and either root or user namespaces: the tester runs itself again inside namespaces of its
own, so that nothing of it is left on the machine, whatever happens. Where the kernel has no `netem`, a line is slow
by `tbf`: a rate, and what waits in its queue.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

_WEB = "127.16.0.0/16"
_INSIDE = "SWEEP_INSIDE"  # settings of peers begin with HERODOTUS_
_UNSHARE = (
    "unshare",
    "--map-root-user",
    "--net",
    "--mount",
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child",
)
_NETEM = "netem rate 2mbit delay 80ms 20ms loss 0.5%"
_TBF = "tbf rate 2mbit burst 16k latency 300ms"


@dataclass(frozen=True, slots=True)
class Plan:
    """Which addresses the lines have; `bits` is how much of one is the network's."""

    peer: str
    """With `{}` for the peer's number, from 1."""
    tester: str
    bits: int


ONE_NETWORK = Plan("10.77.0.{}", "10.77.0.254", 24)
"""All peers are neighbours, as in a house."""
NETWORK_EACH = Plan("10.{}.0.1", "10.255.0.254", 8)
"""Each peer is in an area of its own, as among strangers."""


def is_inside() -> bool:
    return _INSIDE in os.environ


def why_not() -> str | None:
    """Why this machine cannot have them; None where it can."""
    for program in ("unshare", "ip", "tc", "mount"):
        if shutil.which(program) is None:
            return f"there is no program {program}"
    probe = (
        "sh",
        "-c",
        "mount -t tmpfs none /run && mkdir /run/netns && ip netns add x && ip link add name br0 type bridge",
    )
    done = subprocess.run([*_UNSHARE, *probe], capture_output=True, text=True, check=False)
    return None if done.returncode == 0 else f"the kernel refuses namespaces ({done.stderr.strip()[:80]})"


def run_inside(module: str, arguments: Sequence[str]) -> int:
    """The same program again, in namespaces that end with it."""
    command = [*_UNSHARE, sys.executable, "-m", module, *arguments]
    return subprocess.run(command, env={**os.environ, _INSIDE: "1"}, check=False).returncode


class Lines:
    """Of peers 0 to `count` - 1."""

    def __init__(self, count: int, plan: Plan = ONE_NETWORK) -> None:
        self._plan = plan
        _do("mount -t tmpfs none /run")
        Path("/run/netns").mkdir()
        _do("ip link set lo up")
        _route_loopback()
        for bridge in ("br0", "br1"):
            _do(f"ip link add {bridge} type bridge")
            _do(f"ip link set {bridge} up")
        _do(f"ip addr add {plan.tester}/{plan.bits} dev br0")
        _do(f"ip addr add {plan.tester}/32 dev br1")
        for number in range(count):
            self._add(number)
        self.slowed_by = "netem" if _can_do(_in(0, f"tc qdisc add dev eth0 root {_NETEM}")) else "tbf"
        _can_do(_in(0, "tc qdisc del dev eth0 root"))
        self._apart: set[int] = set()

    def _add(self, number: int) -> None:
        _do(f"ip netns add p{number}")
        _do(f"ip link add v{number} type veth peer name eth0 netns p{number}")
        _do(f"ip link set v{number} master br0 up")
        for words in (
            "ip link set lo up",
            f"ip addr add {self.address(number)}/{self._plan.bits} dev eth0",
            "ip link set eth0 up",
            "ip route del local 127.0.0.0/8 dev lo table local",
            f"ip route add {_WEB} via {self._plan.tester} src {self.address(number)}",
        ):
            _do(_in(number, words))
        _do(_in(number, f"{sys.executable} -c {_quoted(_ROUTE_LOOPBACK)}"))

    def address(self, number: int) -> str:
        return self._plan.peer.format(number + 1)

    def command(self, number: int) -> list[str]:
        """What comes before a command of that peer."""
        return ["ip", "netns", "exec", f"p{number}"]

    def slow(self, number: int) -> None:
        how = _NETEM if self.slowed_by == "netem" else _TBF
        _do(_in(number, f"tc qdisc replace dev eth0 root {how}"))

    def quick(self, number: int) -> None:
        _do(_in(number, "tc qdisc del dev eth0 root"))

    def split(self, side: Collection[int]) -> None:
        """These no longer reach the others; the web and the tester are with both."""
        for number in side:
            _do(f"ip link set v{number} master br1")
            _do(f"ip route replace {self.address(number)}/32 dev br1 src {self._plan.tester}")
            self._apart.add(number)

    def heal(self) -> None:
        for number in sorted(self._apart):
            _do(f"ip route del {self.address(number)}/32 dev br1")
            _do(f"ip link set v{number} master br0")
        self._apart.clear()


_ROUTE_LOOPBACK = (
    "import pathlib; "
    "[one.write_text('1') for one in pathlib.Path('/proc/sys/net/ipv4/conf').glob('*/route_localnet')]"
)


def _route_loopback() -> None:
    """The made-up web has addresses of 127.0.0.0/8, and is reached from other namespaces by them."""
    for one in Path("/proc/sys/net/ipv4/conf").glob("*/route_localnet"):
        one.write_text("1", encoding="ascii")
    Path("/proc/sys/net/ipv4/conf/default/route_localnet").write_text("1", encoding="ascii")


def _quoted(words: str) -> str:
    return f'"{words}"'


def _in(number: int, words: str) -> str:
    return f"ip netns exec p{number} {words}"


def _do(words: str) -> None:
    subprocess.run(words, shell=True, check=True, stdin=subprocess.DEVNULL)  # noqa: S602  # words of ours


def _can_do(words: str) -> bool:
    return subprocess.run(words, shell=True, check=False, capture_output=True).returncode == 0  # noqa: S602  # words of ours
