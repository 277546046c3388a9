"""Do strangers reach us? A peer asks members of different networks, and tells its node the verdict.

What the answers come to is decided in `dht.core.reachability`; how they are found is in `dht.dialback`.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

import anyio
import anyio.abc

from dht.cold_dials import network_of
from dht.core.messages import DialBackReply, DialBackRequest
from dht.core.reachability import (
    ReachabilityMachine,
    RequestDialBacks,
    RoundFailed,
    Spot,
    StandingChanged,
    Warmth,
    choose_helpers,
)
from dht.core.reader import RingReader
from dht.core.records import Address, Contact
from dht.core.strangers import StrangerReplies
from dht.dialback import Send
from dht.endpoint import socket_address

logger = logging.getLogger(__name__)

ASKED_MAX: Final = 3
ASK_EVERY_S: Final = 5.0
AWAITED_S: Final = ASKED_MAX * ASK_EVERY_S
"""The asked one has strangers dial for 9 s, and then dials by itself for 4."""
TABLE_PATIENCE_S: Final = 5.0
"""A peer that has just joined, perhaps again at another address, knows few networks; a test waits for the table, but
not longer."""


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
        inside: str = "",
        streamed_to: Callable[[str], bool] = lambda host: False,
        on_failed: Callable[[], None] = lambda: None,
        at: Callable[[], Address | None] | None = None,
    ) -> None:
        """`send` goes to just this address: the asked one has the host dialled from which it sees us. `inside` is our
        address behind a router. `streamed_to`: has a stream left for this host lately from the port on which we listen?
        `strangers` answer the nonces for as long as we await some. `at` is the line that is tested: the first, where
        nothing else is said.
        """
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
        self._inside = inside
        self._streamed_to = streamed_to
        self._on_failed = on_failed
        self._at = at or (lambda: reader.me.address)
        self.machine = ReachabilityMachine(wanted, now=0.0, is_prefix_distinct=wanted > 1)

    def test_again(self) -> None:
        """Our address or the router's mapping is another."""
        self.machine.address_changed(anyio.current_time())
        self._changed.set()

    def begin_again(self) -> None:
        """Another line of ours is dead: is this one alive now?"""
        self.machine.begin_again(anyio.current_time())
        self._changed.set()

    def calls_fail(self, sender: Contact) -> None:
        """A member says that its streams do not get through to us."""
        if self._reader.knows(sender.peer):
            self.machine.doubt(anyio.current_time())
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
        async with anyio.create_task_group() as tasks:
            while True:
                self._changed = anyio.Event()
                self.machine.advance(anyio.current_time())
                for effect in self.machine.take_effects():
                    if isinstance(effect, RequestDialBacks):
                        tasks.start_soon(self._test, effect)
                    elif isinstance(effect, RoundFailed):
                        self._on_failed()
                    else:
                        self._tell(effect)
                deadline = self.machine.next_deadline()
                with anyio.CancelScope(deadline=float("inf") if deadline is None else deadline):
                    await self._changed.wait()
                await anyio.lowlevel.checkpoint()

    def _tell(self, effect: StandingChanged) -> None:
        at = self._at()
        if self._wanted and at is not None:  # where nobody is asked, nothing is news
            host, _ = socket_address(at.host, at.port)
            logger.info(
                "reachability host=%s standing=%s reason=%s", host, effect.standing.value, effect.reason
            )
        self._tell_node(effect)

    async def _await_table(self) -> None:
        with anyio.move_on_after(TABLE_PATIENCE_S):
            while len(self._networks()) < self._wanted:
                self._grown = anyio.Event()
                await self._grown.wait()

    def _networks(self) -> dict[bytes, list[Contact]]:
        networks: dict[bytes, list[Contact]] = {}
        for one in self._reader.callable_members():
            contact = self._in_our_family(one)
            if contact is not None:
                networks.setdefault(self._network_of(contact), []).append(contact)
        return networks

    def _in_our_family(self, contact: Contact) -> Contact | None:
        """Where a member sees us come from the address that is tested; None if it has none such, or we have not."""
        at = self._at()
        if at is None:
            return None
        size = len(at.host)
        if len(contact.address.host) == size:
            return contact
        for line in self._reader.lines_of(contact.peer):
            if len(line.host) == size and line.udp:
                check = self._reader.machine.rules.id_check
                return Contact.at(contact.peer, line.address, contact.slot, contact.index, check)
        return None

    def _network_of(self, contact: Contact) -> bytes:
        """Where one dial-back is enough, every peer is a network of its own."""
        return contact.peer if self._wanted == 1 else network_of(contact.address.host)

    async def _test(self, request: RequestDialBacks) -> None:
        await self._await_table()
        networks, at = self._networks(), self._at()
        if at is None or len(networks) < request.wanted:
            self.machine.networks_missing(
                round_number=request.round, known=len(networks), now=anyio.current_time()
            )
            self._changed.set()
            return
        members = [contact for contacts in networks.values() for contact in contacts]
        self._random.shuffle(members)
        members.sort(key=self._has_streamed)  # who was never called is the better witness
        by_peer = {contact.peer: contact for contact in members}
        chosen = choose_helpers(((c.peer, self._network_of(c)) for c in members), request.wanted)
        host, port = socket_address(at.host, at.port)
        is_translated = self._inside and (":" in self._inside) == (":" in host)
        self.machine.spot = Spot(host=host, port=port, inside=self._inside if is_translated else host)
        self._strangers.nonces_awaited_until = anyio.current_time() + AWAITED_S
        async with anyio.create_task_group() as tasks:
            for contact in (by_peer[peer] for peer in by_peer if peer in chosen):
                tasks.start_soon(self._ask, request.round, contact, port)
        self.machine.helpers_missing(round_number=request.round, now=anyio.current_time())
        self._changed.set()

    async def _ask(self, round_number: int, contact: Contact, port: int) -> None:
        request_id = int.from_bytes(self._entropy(8), "big")
        request = DialBackRequest(id=request_id, udp=port, tcp=port)
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
                warmth=self._warmth(contact, asked.answer),
                now=anyio.current_time(),
            )
            self._changed.set()

    def _warmth(self, contact: Contact, answer: DialBackReply) -> Warmth:
        if answer.is_cold:
            return Warmth.STRANGER
        return Warmth.BY_STREAM if self._has_streamed(contact) else Warmth.BY_DATAGRAM

    def _has_streamed(self, contact: Contact) -> bool:
        host, _ = socket_address(contact.address.host, contact.address.port)
        return self._streamed_to(host)
