"""How many bytes did a TCP connection really put on the line? As the kernel counts them: headers and repeats included.

Linux tells for each connection the bytes sent (what was sent again too), the bytes received, and the segments both
ways, among them those that only acknowledge. Each segment has a header of IP and one of TCP. What is missing is the
farewell after the last look, some two segments each way.
"""

import socket
import struct
from typing import Final, Protocol

_FIGURES: Final = struct.Struct("=120xQQII56xQ")
"""Of `struct tcp_info`: bytes acknowledged, bytes received, segments out and in, bytes sent (Linux 4.19)."""
_HEADERS_V4, _HEADERS_V6 = 52, 72
"""IP 20 or 40, TCP 20, and 12 for its timestamps, which Linux sends with each segment."""
FAREWELL_SEGMENTS: Final = 2


class SocketFigures(Protocol):
    """The part of a socket that tells; loops have sockets of their own classes."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes: ...
    def getpeername(self) -> object: ...


def carried(connection: SocketFigures | None) -> tuple[int, int]:
    """Bytes in and out so far; (0, 0) where the system does not tell, or the connection is gone."""
    option = getattr(socket, "TCP_INFO", None)
    if option is None or connection is None:
        return 0, 0
    try:
        found = connection.getsockopt(socket.IPPROTO_TCP, option, _FIGURES.size)
        peer = connection.getpeername()
    except (OSError, ValueError):  # ValueError: what uvloop shows of a closed one has no descriptor
        return 0, 0
    if len(found) < _FIGURES.size:
        return 0, 0
    _, received, segments_out, segments_in, sent = _FIGURES.unpack(found)
    is_v6 = isinstance(peer, tuple) and ":" in str(peer[0]) and not str(peer[0]).startswith("::ffff:")
    headers = _HEADERS_V6 if is_v6 else _HEADERS_V4
    return (
        received + (segments_in + FAREWELL_SEGMENTS) * headers,
        sent + (segments_out + FAREWELL_SEGMENTS) * headers,
    )
