"""Datagram sockets in memory, for nodes whose clock is virtual.

A datagram is there the moment it was sent. The kernel's may come a few milliseconds later on a busy machine, and a
virtual clock has passed many time-outs by then: such tests failed by chance.
"""

import errno
import os
import socket
from collections import deque
from collections.abc import Iterator
from typing import Any, Self

from dht.core.frames import DATAGRAM_BYTES_MAX

SocketAddress = tuple[str, int]
WAITING_MAX = 10_000
"""Datagrams that wait to be read; more are dropped, as the kernel would."""
FIRST_PORT = 20_000


class Net:
    """Which socket has which address; the same ports in the same order in each test."""

    def __init__(self) -> None:
        self.bound: dict[SocketAddress, MemorySocket] = {}
        self.ports: Iterator[int] = iter(())

    def clear(self) -> None:
        for sock in list(self.bound.values()):
            sock.close()
        self.ports = iter(range(FIRST_PORT, 65_536))


net = Net()


class MemorySocket:
    """Of a non-blocking `socket.socket`, what nodes and their tests use."""

    def __init__(self, family: int = socket.AF_INET) -> None:
        self.family = family
        self._arrived: deque[tuple[bytes, SocketAddress]] = deque()
        self._readable = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._address: SocketAddress = ("::" if family == socket.AF_INET6 else "0.0.0.0", 0)
        self._is_closed = False

    def bind(self, address: SocketAddress) -> None:
        host, port = address[:2]
        self._address = (host, port or next(net.ports))
        if self._address in net.bound:
            raise OSError(errno.EADDRINUSE, f"{self._address} is taken")
        net.bound[self._address] = self

    def fileno(self) -> int:
        return self._readable

    def getsockname(self) -> SocketAddress:
        return self._address

    def sendto(self, data: bytes, address: SocketAddress, /) -> int:
        there = net.bound.get((address[0], address[1]))
        if there is not None and len(there._arrived) < WAITING_MAX:
            there._arrived.append((bytes(data), self._address))
            if len(there._arrived) == 1:
                os.eventfd_write(there._readable, 1)
        return len(data)

    def recvfrom(self, bufsize: int = DATAGRAM_BYTES_MAX, /) -> tuple[bytes, Any]:
        if not self._arrived:
            raise BlockingIOError
        data, source = self._arrived.popleft()
        if not self._arrived:
            os.eventfd_read(self._readable)
        return data[:bufsize], source

    def close(self) -> None:
        if not self._is_closed:
            self._is_closed = True
            if net.bound.get(self._address) is self:
                del net.bound[self._address]
            os.close(self._readable)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def bind(address: SocketAddress) -> MemorySocket:
    """As `dht.udp.bind`."""
    sock = MemorySocket(socket.AF_INET6 if ":" in address[0] else socket.AF_INET)
    try:
        sock.bind(address)
    except OSError:
        sock.close()
        raise
    return sock
