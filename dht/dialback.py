"""Could a stranger reach me? Both sides of a dial-back, with the sockets that `dht.core.reachability` does without.

`DialBacks` serves others: a nonce from a fresh socket to the asker, and does it come back? Is the asker where a stream
to the same port leads? `OwnReach` asks for
ourselves: it picks members of different networks, gives their answers to the machine and tells the node the verdict.
`docs/protocol/ring.md` §5 says how it looks on the wire.
"""

import hmac
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

import anyio
import anyio.abc

from dht.core.frames import DATAGRAM_BYTES_MAX, NONCE_BYTES, Echo, Nonce, parse_greeting
from dht.core.frames import Address as SocketAddress
from dht.core.ids import PeerKey
from dht.core.limits import Buckets, Rate, prefix_of
from dht.core.messages import DialBackReply, DialBackRequest, Message
from dht.core.reachability import (
    ReachabilityMachine,
    RequestDialBacks,
    StandingChanged,
    choose_helpers,
)
from dht.core.reader import RingReader
from dht.core.records import Contact
from dht.core.strangers import StrangerReplies
from dht.endpoint import socket_address
from dht.udp import bind

logger = logging.getLogger(__name__)

AT_ONCE_MAX: Final = 16
PER_PREFIX: Final = Rate(per_second=1, burst=1)
NONCES: Final = 3
NONCE_EVERY_S: Final = 0.5
ASKED_MAX: Final = 3
STREAM_S: Final = 4.0
"""For TCP and TLS: three crossings, and one lost packet, which TCP repeats after a second."""
ASK_EVERY_S: Final = 5.0  # the stream's 4 s, and a slow way there and back
AWAITED_S: Final = ASKED_MAX * ASK_EVERY_S
TABLE_PATIENCE_S: Final = 5.0
"""A peer that has just joined knows few networks; its first test waits for the table, but not longer."""

Send = Callable[[Message, Contact], object]
DialBack = Callable[[str, bytes, bytes, SocketAddress, Counter[str]], Awaitable[bool]]
DialStream = Callable[[SocketAddress, PeerKey], Awaitable[bool]]
"""Whether a stream to this address and port leads to the peer of this key."""


async def dial_back(
    host: str, network: bytes, nonce: bytes, target: SocketAddress, counts: Counter[str]
) -> bool:
    """Whether the nonce came back to a socket of ours (on `host`) that this address has never heard of."""
    try:
        sock = bind((host, 0))
    except OSError as error:
        logger.warning("no socket for a dial-back error=%s", error)
        return False
    frame = Nonce(network=network, value=nonce).pack()
    with sock:
        for _ in range(NONCES):
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


class DialBacks:
    """Serves askers within bounds; beyond them an asker gets no answer and asks another peer."""

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
        self._active = 0
        self.counts: Counter[str] = Counter()

    def take(self, sender: Contact, now: float) -> bool:
        """Whether this one is served: then `serve` must follow."""
        address = socket_address(sender.address.host, sender.address.port)
        if (":" in address[0]) not in self._host_of:
            self.counts["dial_back_family"] += 1
            return False
        if self._active >= AT_ONCE_MAX or not self._buckets.take(prefix_of(address), PER_PREFIX, now):
            self.counts["dial_back_flood"] += 1
            return False
        self._active += 1
        return True

    async def serve(self, request: DialBackRequest, sender: Contact, send: Send) -> None:
        """Only ever to the address that the session has proven: the port alone is the asker's word."""
        target = socket_address(sender.address.host, request.port)
        host, nonce = self._host_of[":" in target[0]], self._entropy(NONCE_BYTES)
        is_reached = by_stream = False

        async def stream() -> None:
            nonlocal by_stream
            if self._dial_stream is not None:
                with anyio.move_on_after(STREAM_S):
                    by_stream = await self._dial_stream(target, sender.peer)

        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(stream)
                is_reached = await self._dial(host, self._network, nonce, target, self.counts)
        finally:
            self._active -= 1
            assert self._active >= 0, "`serve` follows `take`"
        if self._dial_stream is None:
            by_stream = is_reached
        if not (is_reached and by_stream):
            self.counts["dial_back_failed"] += 1
        send(DialBackReply(id=request.id, is_reached=is_reached, by_stream=by_stream), sender)


@dataclass(slots=True)
class _Asked:
    contact: Contact
    answer: DialBackReply | None
    event: anyio.Event


class OwnReach:
    """Runs the reachability machine; `run` beside the node, once it has joined."""

    def __init__(
        self,
        wanted: int,
        reader: RingReader,
        strangers: StrangerReplies,
        *,
        send: Send,
        tell: Callable[[StandingChanged], None],
        entropy: Callable[[int], bytes],
        random: Random,
    ) -> None:
        """`strangers` answer the nonces for as long as we await some."""
        self._wanted = wanted
        self._reader = reader
        self._strangers = strangers
        self._send = send
        self._tell_node = tell
        self._entropy = entropy
        self._random = random
        self._asked: dict[int, _Asked] = {}
        self._changed = anyio.Event()
        self._grown = anyio.Event()
        self.machine = ReachabilityMachine(wanted, now=0.0, is_prefix_distinct=wanted > 1)

    def test_again(self) -> None:
        """Our address or the router's mapping is another."""
        self.machine.address_changed(anyio.current_time())
        self._changed.set()

    def table_changed(self) -> None:
        """Perhaps there are enough networks now."""
        self._grown.set()

    def answered(self, reply: DialBackReply, sender: Contact) -> None:
        """Only from the peer that was asked; anything else is for nobody."""
        asked = self._asked.get(reply.id)
        if asked is not None and asked.contact.peer == sender.peer:
            asked.answer = reply
            asked.event.set()

    async def run(self) -> None:
        if self._wanted:
            await self._await_table()
        async with anyio.create_task_group() as tasks:
            while True:
                self._changed = anyio.Event()
                self.machine.advance(anyio.current_time())
                for effect in self.machine.take_effects():
                    if isinstance(effect, RequestDialBacks):
                        tasks.start_soon(self._test, effect)
                    else:
                        self._tell(effect)
                deadline = self.machine.next_deadline()
                with anyio.CancelScope(deadline=float("inf") if deadline is None else deadline):
                    await self._changed.wait()
                await anyio.lowlevel.checkpoint()

    def _tell(self, effect: StandingChanged) -> None:
        if self._wanted:  # where nobody is asked, nothing is news
            logger.info("reachability standing=%s reason=%s", effect.standing.value, effect.reason)
        self._tell_node(effect)

    async def _await_table(self) -> None:
        with anyio.move_on_after(TABLE_PATIENCE_S):
            while len(self._networks()) < self._wanted:
                self._grown = anyio.Event()
                await self._grown.wait()

    def _networks(self) -> dict[bytes, list[Contact]]:
        networks: dict[bytes, list[Contact]] = {}
        for contact in self._reader.owners_that_are_well():
            networks.setdefault(self._network_of(contact), []).append(contact)
        return networks

    def _network_of(self, contact: Contact) -> bytes:
        """IPv4 /16, IPv6 /32; where one dial-back is enough, every peer is a network of its own."""
        host = contact.address.host
        if self._wanted == 1:
            return contact.peer
        return host[:2] if len(host) == 4 else host[:4]

    async def _test(self, request: RequestDialBacks) -> None:
        networks = self._networks()
        if len(networks) < request.wanted:
            self.machine.networks_missing(
                round_number=request.round, known=len(networks), now=anyio.current_time()
            )
            self._changed.set()
            return
        members = [contact for contacts in networks.values() for contact in contacts]
        self._random.shuffle(members)
        by_peer = {contact.peer: contact for contact in members}
        chosen = choose_helpers(((c.peer, self._network_of(c)) for c in members), request.wanted)
        self._strangers.nonces_awaited_until = anyio.current_time() + AWAITED_S
        async with anyio.create_task_group() as tasks:
            for contact in (by_peer[peer] for peer in by_peer if peer in chosen):
                tasks.start_soon(self._ask, request.round, contact)
        self.machine.helpers_missing(round_number=request.round, now=anyio.current_time())
        self._changed.set()

    async def _ask(self, round_number: int, contact: Contact) -> None:
        request_id = int.from_bytes(self._entropy(8), "big")
        request = DialBackRequest(id=request_id, port=self._reader.me.address.port)
        asked = self._asked[request.id] = _Asked(contact, None, anyio.Event())
        try:
            for _ in range(ASKED_MAX):
                self._send(request, contact)
                with anyio.move_on_after(ASK_EVERY_S):
                    await asked.event.wait()
                if asked.answer is not None:
                    break
        finally:
            del self._asked[request.id]
        if asked.answer is not None:
            self.machine.dialed_back(
                round_number=round_number,
                prefix=self._network_of(contact),
                is_reached=asked.answer.is_reached,
                by_stream=asked.answer.by_stream,
                now=anyio.current_time(),
            )
            self._changed.set()
