"""A home router that answers PCP in ways of its own; a program that runs in the router's namespace.

    other-port  maps, at another outside port than was asked for
    liar        says that it mapped, and lets nobody in
    one         has room for one mapping: the second is refused

Mappings are rules of nftables in the router's `inet filter` table. It answers for as long as it runs, and nobody but
the laboratory asks it.
"""

import argparse
import ipaddress
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Sequence

from dht.discovery.gateway_codec import GATEWAY_PORT

MANNERS = ("other-port", "liar", "one")
LIFETIME_S = 3_600
SHIFT = 40_000
_PCP_VERSION, _MAP, _ANSWERS = 2, 1, 0x80
_NO_RESOURCES = 8  # RFC 6887, 7.4
_REQUEST_BYTES = 60
_PROTOCOLS = {6: "tcp", 17: "udp"}


class OddGateway:
    """Decides and answers; `forward` lets strangers in."""

    def __init__(self, manner: str, outside: str) -> None:
        self.manner = manner
        self._outside = ipaddress.IPv6Address(f"::ffff:{outside}").packed
        self._mapped: dict[tuple[str, int, int], int] = {}
        self._began = time.monotonic()

    def answer(self, request: bytes, inside: str) -> tuple[bytes, tuple[str, int, int] | None]:
        """The answer, and (protocol, outside port, inside port) where a mapping is new. b"" for what is not asked."""
        if len(request) < _REQUEST_BYTES or request[0] != _PCP_VERSION or request[1] != _MAP:
            return b"", None
        (lifetime_s,) = struct.unpack_from("!I", request, 4)
        nonce, number = request[24:36], request[36]
        port, wanted = struct.unpack_from("!HH", request, 40)
        key = (inside, number, port)
        if lifetime_s == 0:
            self._mapped.pop(key, None)
            return self._packed(0, 0, nonce, number, port, wanted), None
        if self.manner == "one" and key not in self._mapped and self._mapped:
            return self._packed(_NO_RESOURCES, 30, nonce, number, port, 0), None
        is_new = key not in self._mapped
        outside = port if self.manner != "other-port" else (port + SHIFT) % 65_536
        self._mapped[key] = outside
        new = (_PROTOCOLS[number], outside, port) if is_new and self.manner != "liar" else None
        return self._packed(0, LIFETIME_S, nonce, number, port, outside), new

    def _packed(
        self, code: int, lifetime_s: int, nonce: bytes, number: int, port: int, outside: int
    ) -> bytes:
        epoch = int(time.monotonic() - self._began)
        head = struct.pack("!BBxBII12x", _PCP_VERSION, _ANSWERS | _MAP, code, lifetime_s, epoch)
        return head + nonce + struct.pack("!B3xHH", number, port, outside) + self._outside


def forward(protocol: str, outside: int, inside_host: str, inside: int) -> None:
    rule = f'iifname "wan" {protocol} dport {outside} dnat ip to {inside_host}:{inside}'
    subprocess.run(
        ["nft", "add", "rule", "inet", "filter", "prerouting_miniupnpd", *rule.split()], check=True
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manner", choices=MANNERS)
    parser.add_argument("listen", help="the router's address inside")
    parser.add_argument("outside", help="and outside")
    asked = parser.parse_args(arguments)
    gateway = OddGateway(asked.manner, asked.outside)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((asked.listen, GATEWAY_PORT))
        while True:
            request, source = sock.recvfrom(1_200)
            answer, new = gateway.answer(request, source[0])
            if new is not None:
                forward(new[0], new[1], source[0], new[2])
            if answer:
                sock.sendto(answer, source)


if __name__ == "__main__":
    sys.exit(main())
