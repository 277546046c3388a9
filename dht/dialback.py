"""Do strangers reach a peer that asks us? A nonce from a fresh socket: does it come back? Where do streams lead?

Routers let in those whom their peer called, so the asked one's own dial shows little: it passes the request on to a
member of its own choice, in another network, which dials only if it has not talked to the peer lately (`ColdDials`).
Where there is none, as in a small ring where all talk to all, it dials by itself, and its answer says so. How a peer
asks for itself is in `dht.own_reach`; `docs/protocol/ring.md` §5 has it on the wire.
"""

import hmac
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Final

import anyio
import anyio.abc

from dht.core.frames import DATAGRAM_BYTES_MAX, NONCE_BYTES, Echo, Nonce, parse_greeting
from dht.core.frames import Address as SocketAddress
from dht.core.ids import PeerKey
from dht.core.limits import Buckets, Rate, prefix_of
from dht.core.messages import DialBackReply, DialBackRequest, Message
from dht.core.records import Contact
from dht.endpoint import socket_address
from dht.udp import bind

logger = logging.getLogger(__name__)

AT_ONCE_MAX: Final = 16
PER_PREFIX: Final = Rate(per_second=1, burst=1)
NONCES: Final = 3
NONCE_EVERY_S: Final = 0.5
STREAM_S: Final = 4.0
"""For TCP and TLS: three crossings, and one lost packet, which TCP repeats after a second."""

Send = Callable[[Message, Contact], object]
DialBack = Callable[[str, bytes, bytes, SocketAddress, Counter[str], int], Awaitable[bool]]
DialStream = Callable[[SocketAddress, PeerKey], Awaitable[bool]]
"""Whether a stream to this address and port leads to the peer of this key."""


async def dial_back(
    host: str,
    network: bytes,
    nonce: bytes,
    target: SocketAddress,
    counts: Counter[str],
    tries: int = NONCES,
) -> bool:
    """Whether the nonce came back to a socket of ours (on `host`) that this address has never heard of."""
    try:
        sock = bind((host, 0))
    except OSError as error:
        logger.warning("no socket for a dial-back error=%s", error)
        return False
    frame = Nonce(network=network, value=nonce).pack()
    with sock:
        for _ in range(tries):
            try:
                sock.sendto(frame, target)
            except OSError:  # no route, or an ICMP answer to the last one: the next may fare better
                counts["dial_back_unsendable"] += 1
            with anyio.move_on_after(NONCE_EVERY_S):
                while True:
                    await anyio.wait_readable(sock)
                    try:
                        data, source = sock.recvfrom(DATAGRAM_BYTES_MAX + 1)
                    except OSError:
                        continue
                    if source[:2] == target and _is_echo(data, network, nonce):
                        return True
                    counts["dial_back_nonce"] += 1
    return False


def _is_echo(data: bytes, network: bytes, nonce: bytes) -> bool:
    frame = parse_greeting(data, network)
    return isinstance(frame, Echo) and hmac.compare_digest(frame.value, nonce)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialled:
    is_reached: bool
    by_stream: bool


ByStranger = Callable[[DialBackRequest, Contact], Awaitable[Dialled | None]]
"""What a stranger found; None where there is none."""


class DialBacks:
    """Dials within bounds; beyond them an asker gets no answer and asks another peer."""

    def __init__(
        self,
        network: bytes,
        hosts: Iterable[str],
        entropy: Callable[[int], bytes],
        dial: DialBack = dial_back,
        dial_stream: DialStream | None = None,
    ) -> None:
        """`hosts` are where we listen, one per family: dial-backs leave by the same addresses. Without `dial_stream`
        peers have datagrams alone.
        """
        self._host_of = {":" in host: host for host in hosts}
        self._network = network
        self._entropy = entropy
        self._dial = dial
        self._dial_stream = dial_stream
        self._buckets = Buckets()
        self._under_way: set[Hashable] = set()
        self.counts: Counter[str] = Counter()

    def take(self, what: Hashable, address: SocketAddress, now: float) -> bool:
        """Whether this one is served, of all for its network: then `give_back` must follow."""
        if what in self._under_way:
            return False  # asked again
        if (":" in address[0]) not in self._host_of:
            self.counts["dial_back_family"] += 1
            return False
        if len(self._under_way) >= AT_ONCE_MAX or not self._buckets.take(prefix_of(address), PER_PREFIX, now):
            self.counts["dial_back_flood"] += 1
            return False
        self._under_way.add(what)
        return True

    def give_back(self, what: Hashable) -> None:
        self._under_way.remove(what)

    async def serve(
        self, request: DialBackRequest, sender: Contact, send: Send, by_stranger: ByStranger | None = None
    ) -> None:
        """Only ever to the address that the session has proven: the ports alone are the asker's word."""
        try:
            found = None if by_stranger is None else await by_stranger(request, sender)
            is_cold = found is not None
            if found is None:
                host, _ = socket_address(sender.address.host, request.udp)
                found = await self.dial((host, request.udp), (host, request.tcp), sender.peer)
        finally:
            self.give_back((sender.peer, request.id))
        reply = DialBackReply(
            id=request.id, is_reached=found.is_reached, by_stream=found.by_stream, is_cold=is_cold
        )
        send(reply, sender)

    async def dial(
        self, datagrams: SocketAddress, streams: SocketAddress, peer: PeerKey, *, is_cold: bool = False
    ) -> Dialled:
        """`is_cold`: the address is another peer's word, so a second nonce goes there only if a stream has shown that
        the peer is there.
        """
        host, nonce = self._host_of[":" in datagrams[0]], self._entropy(NONCE_BYTES)
        is_reached = by_stream = False

        async def stream() -> None:
            nonlocal by_stream
            if self._dial_stream is not None:
                with anyio.move_on_after(STREAM_S):
                    by_stream = await self._dial_stream(streams, peer)

        async def datagram(tries: int) -> None:
            nonlocal is_reached
            is_reached = await self._dial(host, self._network, nonce, datagrams, self.counts, tries)

        if is_cold and self._dial_stream is not None:
            await stream()
            await datagram(NONCES if by_stream else 1)
        else:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream)
                await datagram(1 if is_cold else NONCES)
        if self._dial_stream is None:
            by_stream = is_reached
        if not (is_reached and by_stream):
            self.counts["dial_back_failed"] += 1
        return Dialled(is_reached=is_reached, by_stream=by_stream)
