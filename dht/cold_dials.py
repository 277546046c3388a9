"""How does a peer have strangers dial another one, and for whom does it dial as a stranger?

A router that filters by address lets in whom its peer has called, from whatever port. So a test counts as cold only
if the dialler has not talked to the peer for longer than routers remember. Who asks names an address, as anybody who
tells of peers does: what leaves there is bounded like a handshake that nobody has answered (`dht.core.unanswered`).
"""

from collections.abc import Callable
from ipaddress import ip_address
from random import Random
from typing import Final

import anyio

from dht.core.frames import Address as SocketAddress
from dht.core.ids import IPV4_BYTES
from dht.core.link import SessionKeeper
from dht.core.messages import DialBackRequest, StrangerDial, StrangerDialled
from dht.core.reader import RingReader
from dht.core.records import Contact
from dht.dialback import DialBacks, Dialled, Send
from dht.endpoint import socket_address

STRANGERS_MAX: Final = 3
"""That are asked, one after the other: in a large ring the first one is a stranger, in a small one nobody is."""
STRANGER_S: Final = 7.0
"""The stream's 4 s, three nonces, and a slow way there and back."""
STRANGERS_S: Final = 9.0
LATELY_S: Final = 300.0
"""Routers forget whom their peer called by datagram after 30 to 180 s (RFC 4787 asks for 120 s at least)."""


class ColdDials:
    def __init__(
        self,
        reader: RingReader,
        link: SessionKeeper,
        dial_backs: DialBacks,
        *,
        send: Send,
        entropy: Callable[[int], bytes],
        random: Random,
    ) -> None:
        self._reader = reader
        self._link = link
        self._dial_backs = dial_backs
        self._send = send
        self._entropy = entropy
        self._random = random
        self._asked: dict[int, _Asked] = {}

    # --- for others, by strangers of our choice

    async def by_stranger(self, request: DialBackRequest, subject: Contact) -> Dialled | None:
        """What a stranger found who has dialled the subject; None if nobody could."""
        with anyio.move_on_after(STRANGERS_S):
            for contact in self._candidates(subject):
                found = await self._ask(request, subject, contact)
                if found is not None and found.is_stranger:
                    return Dialled(is_reached=found.is_reached, by_stream=found.by_stream)
        self._dial_backs.counts["dial_back_warm"] += 1
        return None

    def _candidates(self, subject: Contact) -> list[Contact]:
        """Members in other networks than the subject's and ours, that have its family."""
        host = subject.address.host
        apart = {network_of(host), network_of(self._reader.me.address.host)}
        found = [
            contact
            for contact in self._reader.owners_that_are_well()
            if contact.peer != subject.peer
            and network_of(contact.address.host) not in apart
            and any(len(line.host) == len(host) for line in self._reader.lines_of(contact.peer))
        ]
        return self._random.sample(found, min(STRANGERS_MAX, len(found)))

    async def _ask(
        self, request: DialBackRequest, subject: Contact, contact: Contact
    ) -> StrangerDialled | None:
        number = int.from_bytes(self._entropy(8), "big")
        asked = self._asked[number] = _Asked(contact)
        question = StrangerDial(
            id=number, peer=subject.peer, host=subject.address.host, udp=request.udp, tcp=request.tcp
        )
        try:
            self._send(question, contact)
            with anyio.move_on_after(STRANGER_S):
                await asked.event.wait()
        finally:
            del self._asked[number]
        return asked.answer

    def answered(self, reply: StrangerDialled, sender: Contact) -> None:
        """Only from the peer that was asked."""
        asked = self._asked.get(reply.id)
        if asked is not None and asked.contact.peer == sender.peer:
            asked.answer = reply
            asked.event.set()

    # --- as a stranger

    def take(self, request: StrangerDial, asker: Contact, now: float) -> bool:
        """Whether we dial: then `serve` must follow.  The asker is told at once where we do not."""
        if self._is_stranger(request, asker, now) and self._has_room(request, asker, now):
            return True
        refused = StrangerDialled(id=request.id, is_stranger=False, is_reached=False, by_stream=False)
        self._send(refused, asker)
        return False

    def _has_room(self, request: StrangerDial, asker: Contact, now: float) -> bool:
        datagrams, _ = _targets(request)
        if not self._dial_backs.take((asker.peer, request.id), datagrams, now):
            return False
        if self._link.unanswered.has_answered(datagrams):
            return True
        refusal = self._link.unanswered.refusal(datagrams, now)
        if refusal is not None:
            self._dial_backs.counts[refusal] += 1
            self._dial_backs.give_back((asker.peer, request.id))
        return refusal is None

    def _is_stranger(self, request: StrangerDial, asker: Contact, now: float) -> bool:
        """Members alone may have us dial, and into the internet alone where we are in it ourselves."""
        if not self._reader.knows(asker.peer):
            return False
        host, own = ip_address(request.host), ip_address(self._reader.me.address.host)
        if own.is_global and not host.is_global:
            return False
        (name, _), _ = _targets(request)
        return not any(
            session.address[0] == name or session.public_key == request.peer
            for session in self._link.sessions
            if now - session.used_at < LATELY_S
        )

    async def serve(self, request: StrangerDial, asker: Contact) -> None:
        datagrams, streams = _targets(request)
        try:
            found = await self._dial_backs.dial(datagrams, streams, request.peer, is_cold=True)
        finally:
            self._dial_backs.give_back((asker.peer, request.id))
            self._link.unanswered.closed(datagrams)
        if found.is_reached:
            self._link.unanswered.answered(datagrams)
        reply = StrangerDialled(
            id=request.id, is_stranger=True, is_reached=found.is_reached, by_stream=found.by_stream
        )
        self._send(reply, asker)


class _Asked:
    __slots__ = ("answer", "contact", "event")

    def __init__(self, contact: Contact) -> None:
        self.contact = contact
        self.event = anyio.Event()
        self.answer: StrangerDialled | None = None


def _targets(request: StrangerDial) -> tuple[SocketAddress, SocketAddress]:
    """For datagrams and for streams."""
    return socket_address(request.host, request.udp), socket_address(request.host, request.tcp)


def network_of(host: bytes) -> bytes:
    """IPv4 /16, IPv6 /32: what one provider's customers share."""
    return host[:2] if len(host) == IPV4_BYTES else host[:4]
