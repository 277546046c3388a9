"""Where in the ring does an archived address belong, and at which portals is it read?

A peer's record names its ring port; its portal is 1,000 above it, which is the port that every peer uses unless its
operator chose another. A peer that the ring does not see well is left out: the reader goes to the next one.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace

from dht import Contact, Member, Ring
from dht.endpoint import socket_address
from dht.errors import NoAnswerError
from herodotus.core.captures import position_of
from herodotus.core.settings.fields import HostPort
from herodotus.core.settings.sections import HTTP_PORT_OFFSET
from herodotus.home.identity import PeerId, short_name
from herodotus.portal.api.network import PeerFacts
from herodotus.portal.other_holders import PortalAddress

_PORT_MAX = 65_535


class RingDirections:
    """`ring` is asked for each time: it is there only while the peer is a member."""

    def __init__(self, ring: Callable[[], Ring], own_key: bytes, copies: int) -> None:
        self._ring = ring
        self._own_key = own_key
        self._copies = copies

    async def holders(self, url: str) -> tuple[PortalAddress, ...]:
        ring = self._ring()
        try:
            contacts = await ring.holders(position_of(url), self._copies)
        except NoAnswerError:
            return ()
        clocks = {member.peer: member.clock for member in ring.members()}
        counts = ring.standings()
        return tuple(
            replace(place, place=counts[contact.peer].place) if contact.peer in counts else place
            for contact in contacts
            if clocks.get(contact.peer, "well") == "well" and (place := self._place(contact)) is not None
        )

    async def others(self) -> tuple[PortalAddress, ...]:
        """Everybody that the ring sees well, from this peer on: each begins with somebody else."""
        members = [member for member in self._ring().members() if member.clock == "well"]
        behind = [member for member in members if member.peer > self._own_key]
        before = [member for member in members if member.peer < self._own_key]
        places = (self._place(member) for member in (*behind, *before))
        return tuple(place for place in places if place is not None)

    def peers(self) -> tuple[PeerFacts, ...]:
        """Everybody that the ring knows, by key, however they are."""
        return tuple(map(self._facts, self._ring().members()))

    def _facts(self, member: Member) -> PeerFacts:
        host, port = socket_address(member.address.host, member.address.port)
        place = self._place(member)
        return PeerFacts(
            key=member.peer.hex(),
            address=str(HostPort(host=host, port=port)),
            http=None if place is None or place.is_self else place.origin,
            positions=member.virtual_nodes,
            clock=member.clock,
            is_self=place is not None and place.is_self,
        )

    def _place(self, contact: Contact | Member) -> PortalAddress | None:
        if contact.peer == self._own_key:
            return PortalAddress(origin="", is_self=True)
        host, port = socket_address(contact.address.host, contact.address.port)
        if port + HTTP_PORT_OFFSET > _PORT_MAX:
            return None
        origin = f"http://{HostPort(host=host, port=port + HTTP_PORT_OFFSET)}"
        return PortalAddress(origin=origin, name=short_name(PeerId(hashlib.sha256(contact.peer).digest())))
