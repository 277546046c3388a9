"""How does one machine get an internet with customers, home routers and carriers? By network namespaces.

    the web ─ 93.184.0.0/16 ─┐
                             core (our own namespace: routes, filters nothing)
    62.1.0.1 ── customer ────┤
    62.2.0.1 ── router ──────┤        192.168.1.1 ── 192.168.1.10, .11: hosts behind it
    62.3.0.1 ── carrier ─────┘        100.64.0.1 ── 100.64.0.10: a router, with hosts behind it

Every customer has a /16 of its own, by IPv4 and IPv6, so that no two of them are in one place of the ring. A namespace
that is given a line has it as `wan` (a router) or `eth0` (a host). All of it ends with the tester's process, since that
runs in namespaces of its own (`scripts/sweeps/namespaces.py`). It does not know peers.
"""

import ctypes
import os
import select
import shlex
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from scripts.labs import routers
from scripts.labs.routers import Behaviour

WEB_V4, WEB_V6 = "93.184.0.{}", "2a93:184::{:x}"
WEB_HOSTS_MAX = 250
_GATEWAY_V4, _GATEWAY_V6 = "169.254.1.1", "fe80::1"
_CUSTOMER_V6 = "fe80::2"
DAEMON_ENDS_S = 10.0
_CLONE_NEWNET = 0x4000_0000
_LIBC = ctypes.CDLL(None, use_errno=True)


class CannotMake(Exception):
    """The machine refused; the message has its words."""


def do(words: str, *, given: str | None = None) -> str:
    """What the command prints. Raises CannotMake."""
    done = subprocess.run(
        shlex.split(words),
        input=given,
        stdin=subprocess.DEVNULL if given is None else None,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise CannotMake(f"`{words}` ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """Sockets that this thread makes in the block are of that namespace, and stay so."""
    own = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        other = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
        try:
            _enter(other)
        finally:
            os.close(other)
        try:
            yield
        finally:
            _enter(own)
    finally:
        os.close(own)


def _enter(namespace: int) -> None:
    if _LIBC.setns(namespace, _CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "setns")


@dataclass(slots=True)
class Host:
    """A namespace with a line; `addresses` are its own, which others may not be able to reach."""

    name: str
    addresses: tuple[str, ...]
    interface: str = "eth0"

    def do(self, words: str, *, given: str | None = None) -> str:
        return do(f"ip netns exec {self.name} {words}", given=given)

    def command(self, *words: str) -> list[str]:
        return ["ip", "netns", "exec", self.name, *words]

    def limit(self, kbit_per_s: int) -> None:
        """What leaves by its line; the queue of a slow modem holds 800 ms."""
        self.do(
            f"tc qdisc replace dev {self.interface} root tbf rate {kbit_per_s}kbit burst 4k latency 800ms"
        )

    def unlimit(self) -> None:
        self.do(f"tc qdisc del dev {self.interface} root")


class Router(Host):
    """Also a carrier's; `behaviour` is what it does with strangers' packets."""

    def __init__(
        self, name: str, addresses: tuple[str, ...], behaviour: Behaviour, lan: str, number: int
    ) -> None:
        super().__init__(name, addresses, interface="wan")
        self.behaviour = behaviour
        self._lan = lan
        self._number = number
        self._hosts = 0
        self.do("ip link add lan type bridge")
        self.do("ip link set lan up")
        self.do(f"ip addr add {lan}.1/24 dev lan")
        if behaviour.v6:
            self.do(f"ip -6 addr add {_prefix_v6(number)}::1/64 dev lan nodad")
        self.apply()

    def apply(self) -> None:
        """As after it was switched on: nothing is mapped, and nothing remembered."""
        self.do("nft -f -", given=routers.rules(self.behaviour, self._lan))
        self.do("conntrack -F")
        self._restart_daemon()

    reboot = apply

    def block(self, *protocols: str) -> None:
        """Nothing of these protocols comes in from outside, whatever is mapped or known; none: all pass again."""
        self.do("nft flush chain inet lab_faults forward")
        for protocol in protocols:
            self.do(f"nft add rule inet lab_faults forward iifname wan meta l4proto {protocol} drop")

    def _restart_daemon(self) -> None:
        config = routers.daemon_config(self.behaviour, self._lan)
        note, file = Path(f"/run/{self.name}.pid"), Path(f"/run/{self.name}.conf")
        if note.exists():
            _end_daemon(int(note.read_text(encoding="ascii")))
            note.unlink(missing_ok=True)  # it takes its note along, if it has the time
        if config is not None:
            file.write_text(config, encoding="ascii")
            self.do(f"miniupnpd -f {file} -P {note}")

    def host(self, name: str) -> Host:
        """Another one behind it."""
        at, self._hosts = 10 + self._hosts, self._hosts + 1
        addresses = []
        _make_namespace(name)
        host = Host(name, ())
        do(f"ip link add eth0 netns {name} type veth peer name h{at} netns {self.name}")
        self.do(f"ip link set h{at} master lan up")
        host.do("ip link set eth0 up")
        if self.behaviour.v4:
            host.do(f"ip addr add {self._lan}.{at}/24 dev eth0")
            host.do(f"ip route add default via {self._lan}.1")
            addresses.append(f"{self._lan}.{at}")
        if self.behaviour.v6:
            prefix = _prefix_v6(self._number)
            host.do(f"ip -6 addr add {prefix}::{at:x}/64 dev eth0 nodad")
            host.do(f"ip -6 route add default via {prefix}::1")
            addresses.append(f"{prefix}::{at:x}")
        host.addresses = tuple(addresses)
        return host

    def router(self, name: str, behaviour: Behaviour) -> "Router":
        """A customer of a carrier, with a router at home."""
        at, self._hosts = 10 + self._hosts, self._hosts + 1
        _make_namespace(name)
        do(f"ip link add wan netns {name} type veth peer name h{at} netns {self.name}")
        self.do(f"ip link set h{at} master lan up")
        outer = Host(name, ())
        outer.do("ip link set wan up")
        outer.do(f"ip addr add {self._lan}.{at}/24 dev wan")
        outer.do(f"ip route add default via {self._lan}.1")
        return Router(name, (f"{self._lan}.{at}",), behaviour, routers.HOME_LAN, 0)


class Internet:
    """Made once in a process, inside namespaces of its own."""

    def __init__(self) -> None:
        do("mount -t tmpfs none /run")
        Path("/run/netns").mkdir()
        _settle()
        do("ip link set lo up")
        do(f"ip addr add {_GATEWAY_V4}/32 dev lo")
        do(f"ip route add local {WEB_V4.format(0)}/16 dev lo")
        do(f"ip -6 route add local {WEB_V6.format(0)}/48 dev lo")
        self._lines = 0
        self._customers = 0

    def resolve(self, names: Sequence[str], *, v6: bool = True) -> None:
        """From now on these names lead to addresses of the web, for everybody."""
        assert len(names) <= WEB_HOSTS_MAX, names
        rows = ["127.0.0.1 localhost", "::1 localhost"]
        for number, name in enumerate(names, start=1):
            rows.append(f"{WEB_V4.format(number)} {name}")
            rows += [f"{WEB_V6.format(number)} {name}"] if v6 else []
        file = Path("/run/hosts")
        file.write_text("\n".join(rows) + "\n", encoding="ascii")
        do("mount --bind /run/hosts /etc/hosts")

    def customer(self, name: str, *, v4: bool = True, v6: bool = False, mtu: int = 1_500) -> Host:
        """A machine with addresses of its own and no router."""
        self._customers += 1
        return Host(name, self._lead(name, "eth0", self._customers, v4=v4, v6=v6, mtu=mtu))

    def router(
        self, name: str, behaviour: Behaviour, *, mtu: int = 1_500, lan: str = routers.HOME_LAN
    ) -> Router:
        self._customers += 1
        number = self._customers
        addresses = self._lead(name, "wan", number, v4=behaviour.v4, v6=False, mtu=mtu)
        if behaviour.v6:
            do(f"ip -6 route add {_prefix_v6(number)}::/48 via {_CUSTOMER_V6} dev w{self._lines}")
            do(f"ip netns exec {name} ip -6 addr add {_CUSTOMER_V6}/64 dev wan nodad")
            do(f"ip netns exec {name} ip -6 route add default via {_GATEWAY_V6} dev wan")
        return Router(name, addresses, behaviour, lan, number)

    def change_address(self, one: Host) -> str:
        """The provider gives another one, of another /16; the old one leads nowhere. Gives the new one."""
        self._customers += 1
        (old,) = (address for address in one.addresses if ":" not in address)
        new = _address_v4(self._customers)
        line = next(row.split()[2] for row in do("ip route show").splitlines() if row.startswith(f"{old} "))
        do(f"ip route del {old}/32 dev {line}")
        do(f"ip route add {new}/32 dev {line}")
        one.do(f"ip addr del {old}/32 dev {one.interface}")
        one.do(f"ip addr add {new}/32 dev {one.interface}")
        one.do(f"ip route replace default via {_GATEWAY_V4} dev {one.interface} onlink")
        one.addresses = tuple(new if address == old else address for address in one.addresses)
        return new

    def other_card(self, one: Host) -> str:
        """The wire is plugged in and the radio goes off: another interface, with another address. Gives that."""
        self._customers += 1
        self._lines += 1
        (old,) = (address for address in one.addresses if ":" not in address)
        new, line, card = _address_v4(self._customers), f"w{self._lines}", f"card{self._lines}"
        do(f"ip link add {line} type veth peer name {card} netns {one.name}")
        do(f"ip link set {line} up")
        do(f"ip route add {new}/32 dev {line}")
        one.do(f"ip link set {card} up")
        one.do(f"ip addr add {new}/32 dev {card}")
        one.do(f"ip link set {one.interface} down")
        one.do(f"ip route replace default via {_GATEWAY_V4} dev {card} onlink")
        one.interface = card
        one.addresses = tuple(new if address == old else address for address in one.addresses)
        return new

    def tunnel(self, one: Host) -> str:
        """What it sends leaves by another address from now on, as over a VPN; the old one still leads to it. Gives the
        new one."""
        self._customers += 1
        (old,) = (address for address in one.addresses if ":" not in address)
        new = _address_v4(self._customers)
        line = next(row.split()[2] for row in do("ip route show").splitlines() if row.startswith(f"{old} "))
        do(f"ip route add {new}/32 dev {line}")
        one.do(f"ip addr add {new}/32 dev {one.interface}")
        one.do(f"ip route replace default via {_GATEWAY_V4} dev {one.interface} onlink src {new}")
        one.addresses = (*one.addresses, new)
        return new

    def _lead(
        self, name: str, interface: str, number: int, *, v4: bool, v6: bool, mtu: int
    ) -> tuple[str, ...]:
        self._lines += 1
        line, addresses = f"w{self._lines}", []
        _make_namespace(name)
        do(f"ip link add {line} mtu {mtu} type veth peer name {interface} mtu {mtu} netns {name}")
        do(f"ip link set {line} up")
        do(f"ip -6 addr add {_GATEWAY_V6}/64 dev {line} nodad")
        at = Host(name, (), interface)
        at.do(f"ip link set {interface} up")
        if v4:
            address = _address_v4(number)
            do(f"ip route add {address}/32 dev {line}")
            at.do(f"ip addr add {address}/32 dev {interface}")
            at.do(f"ip route add default via {_GATEWAY_V4} dev {interface} onlink")
            addresses.append(address)
        if v6:
            address = f"{_prefix_v6(number)}::1"
            do(f"ip -6 route add {address}/128 dev {line}")
            at.do(f"ip -6 addr add {address}/128 dev {interface} nodad")
            at.do(f"ip -6 route add default via {_GATEWAY_V6} dev {interface}")
            addresses.append(address)
        return tuple(addresses)


def _end_daemon(pid: int) -> None:
    """And waits, since the next one needs its ports."""
    handle = os.pidfd_open(pid)
    try:
        os.kill(pid, signal.SIGKILL)  # as when the plug is pulled
        select.select([handle], [], [], DAEMON_ENDS_S)
    finally:
        os.close(handle)


def _address_v4(number: int) -> str:
    return f"62.{number}.0.1"


def _prefix_v6(number: int) -> str:
    return f"2a{number:02x}:1:1"


def _make_namespace(name: str) -> None:
    do(f"ip netns add {name}")
    with inside(name):
        _settle()
    do(f"ip -n {name} link set lo up")


def _settle() -> None:
    """Of the namespace that this thread is in: it forwards, and no interface takes an address by itself."""
    for name, value in (
        ("ipv4/ip_forward", "1"),
        ("ipv6/conf/all/forwarding", "1"),
        ("ipv6/conf/default/forwarding", "1"),
        ("ipv6/conf/default/accept_dad", "0"),
        ("ipv6/conf/default/addr_gen_mode", "1"),
    ):
        Path("/proc/sys/net", name).write_text(value, encoding="ascii")
