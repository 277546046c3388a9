"""Where in the ring does an archived address belong, and at which portals is it read?

A peer's record names its ring port; its portal is 1,000 above it, which is the port that every peer uses unless its
operator chose another. Whom the ring does not see well is left out: the reader goes to the next one.
"""

import hashlib
from collections.abc import Callable

from dht import Contact, Ring
from dht.core.ids import key_of
from dht.endpoint import socket_address
from dht.errors import NoAnswerError
from herodotus.config.load import HTTP_PORT_OFFSET
from herodotus.core.fields import Endpoint
from herodotus.identity import PeerId, short_name
from herodotus.portal.elsewhere import Place

_PORT_MAX = 65_535


class RingDirections:
    """`ring` is asked for each time: it is there only while the peer is a member."""

    def __init__(self, ring: Callable[[], Ring], own_key: bytes, copies: int) -> None:
        self._ring = ring
        self._own_key = own_key
        self._copies = copies

    async def holders(self, url: str) -> tuple[Place, ...]:
        ring = self._ring()
        try:
            contacts = await ring.holders(key_of(url.encode("utf-8", "surrogateescape")), self._copies)
        except NoAnswerError:
            return ()
        clocks = {member.peer: member.clock for member in ring.members()}
        return tuple(
            place
            for contact in contacts
            if clocks.get(contact.peer, "well") == "well" and (place := self._place(contact)) is not None
        )

    def _place(self, contact: Contact) -> Place | None:
        if contact.peer == self._own_key:
            return Place(origin="", is_self=True)
        host, port = socket_address(contact.address.host, contact.address.port)
        if port + HTTP_PORT_OFFSET > _PORT_MAX:
            return None
        origin = f"http://{Endpoint(host=host, port=port + HTTP_PORT_OFFSET)}"
        return Place(origin=origin, name=short_name(PeerId(hashlib.sha256(contact.peer).digest())))
