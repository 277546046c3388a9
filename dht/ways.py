"""By which of its lines do datagrams reach a peer? One with lines in two families may be open by one of them alone.

The line that answered last comes first, then IPv6 if we have it, then IPv4. One that has not answered for a quarter of
a second gives way to the next, with whatever is sent then. The ring asks again what it had no answer to, so no payload
has to wait for the race.

One that is behind our own router is reached where it answered inside the house.

Only addresses of a record in our table are exchanged for each other: what is sent to find out whether a peer is at an
address goes there and nowhere else.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from ipaddress import ip_address
from typing import Final, Protocol

from dht.core.frames import Address as SocketAddress
from dht.core.ids import IPV6_BYTES, PeerKey
from dht.core.records import Contact, Line
from dht.endpoint import FRESH_S, SessionEndpoint, is_posted, packed_address, socket_address

NEXT_LINE_S: Final = 0.25
"""RFC 8305, section 5."""
FORGOTTEN_S: Final = 30.0
"""Who is asked something new begins with the line that was good."""
TRIED_MAX: Final = 4_096


class KnownLines(Protocol):
    def lines_of(self, peer: PeerKey) -> tuple[Line, ...]: ...


class Ways:
    def __init__(
        self,
        endpoint: SessionEndpoint,
        known: KnownLines,
        own_lines: Callable[[], Sequence[Line]],
        families: Collection[bool],
    ) -> None:
        """`families` are those of our sockets, whether it is IPv6; `own_lines` say in which of them we have an
        address.
        """
        self._endpoint, self._known, self._own_lines = endpoint, known, own_lines
        self._families = families
        self._tried: OrderedDict[bytes, tuple[int, float]] = OrderedDict()
        """Which line was tried last, and when."""

    def way_to(self, to: Contact, target: SocketAddress, now: float) -> SocketAddress:
        """Where to send what is for this peer at `target`."""
        inside = self.near(to.peer, now, to.address.host)
        if inside is not None:
            return inside
        session = self._endpoint.link.sessions.of(to.peer)
        if session is not None and now >= session.expires_at:
            session = None
        lines = self._known.lines_of(to.peer)
        if not lines and session is not None and not self._has(to.address.host):
            # A newcomer that we meet in a family of ours, and whose first line is not: we could never ask it there.
            met = self._endpoint.met(packed_address(session.address), now)
            lines = met.record.record.lines if met is not None and met.record is not None else ()
        if len(lines) < 2 or all(line.address != to.address for line in lines):
            return target
        ways = [socket_address(line.host, line.udp) for line in self._in_order(lines)]
        if session is not None and session.address in ways:
            ways.remove(session.address)
            ways.insert(0, session.address)
            if now - session.used_at <= FRESH_S:
                self._tried.pop(to.peer, None)
                return session.address
        return ways[self._number(to.peer, now) % len(ways)] if ways else target

    def near(self, peer: PeerKey, now: float, host: bytes = b"") -> SocketAddress | None:
        """Where it answered inside our own network, if it is behind our router: its record names the router's address,
        which many routers do not let their own hosts reach. `host` is where it says that it is, if it is in no table of
        ours, as one that claims our own position: unheard, it would keep us out of the ring, or us it.
        """
        own = {line.host for line in self._own_lines()}
        hosts = {host, *(line.host for line in self._known.lines_of(peer))}
        if own.isdisjoint(hosts):
            return None
        outside = {socket_address(one, 0)[0] for one in own | hosts if one}
        met = (
            session
            for session in self._endpoint.link.sessions
            if session.public_key == peer
            and now < session.expires_at
            and session.address[0] not in outside
            and not is_posted(session.address)
            and ip_address(session.address[0]).is_private
        )
        last = max(met, key=lambda session: session.used_at, default=None)
        return None if last is None else last.address

    def _has(self, host: bytes) -> bool:
        return any(len(line.host) == len(host) for line in self._own_lines())

    def _in_order(self, lines: Collection[Line]) -> list[Line]:
        has_ipv6 = any(len(line.host) == IPV6_BYTES for line in self._own_lines())
        usable = [line for line in lines if line.udp and (len(line.host) == IPV6_BYTES) in self._families]
        return sorted(usable, key=lambda line: (len(line.host) == IPV6_BYTES) is not has_ipv6)

    def _number(self, peer: bytes, now: float) -> int:
        number, since = self._tried.get(peer, (0, now))
        if now - since >= FORGOTTEN_S:
            number, since = 0, now
        elif now - since >= NEXT_LINE_S:
            number, since = number + 1, now
        self._tried[peer] = number, since
        self._tried.move_to_end(peer)
        if len(self._tried) > TRIED_MAX:
            self._tried.popitem(last=False)
        return number
