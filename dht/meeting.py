"""Who is at these addresses? Connections to contacts by address, and what they say of ours."""

import logging
from collections import Counter
from collections.abc import Callable, Sequence

import anyio

from dht.core.ids import PeerKey
from dht.core.records import Address, Contact
from dht.endpoint import address_text
from dht.errors import RequestFailedError
from dht.udp import UdpTransport

logger = logging.getLogger(__name__)

CONNECT_S = 12.0
"""A handshake repeats each of its frames for 6.5 s; a peer that answers at all does so within two such frames."""
MEET_AT_ONCE_MAX = 16
MEET_ENOUGH = 2
"""A join asks two contacts, apart."""
MEET_GRACE_S = 1.0
"""Once so many have answered, the others have this long: a dead contact is silent for 6.5 s."""


class Meeting:
    """For the peer `own`; remembers from which hosts others see us come."""

    def __init__(self, own: PeerKey, transport: Callable[[], UdpTransport]) -> None:
        self._own = own
        self._transport = transport
        self._seen_as: Counter[bytes] = Counter()

    async def meet(self, address: Address, *, is_chosen: bool = True) -> Contact | None:
        """The peer at this address; None if no peer of our network answers.

        By default the address is our operator's word, or our own memory's, and not a stranger's (`Unanswered`).
        """
        try:
            with anyio.fail_after(CONNECT_S):
                met = await self._transport().connect(address, is_chosen=is_chosen)
        except (RequestFailedError, TimeoutError) as error:
            logger.info("no answer address=%s reason=%s", address_text(address), error)
            return None
        if met.seen is not None:
            self._seen_as[met.seen.host] += 1
        return met.contact

    async def meet_some(self, addresses: Sequence[Address]) -> list[Contact]:
        """Those of these that answer; the others are not waited for once some have answered."""
        contacts: dict[PeerKey, Contact] = {}
        limiter = anyio.CapacityLimiter(MEET_AT_ONCE_MAX)

        async with anyio.create_task_group() as tasks:

            async def meet_one(address: Address) -> None:
                async with limiter:
                    contact = await self.meet(address)
                if contact is not None and contact.peer != self._own:
                    contacts[contact.peer] = contact
                    if len(contacts) >= MEET_ENOUGH:
                        grace_end = anyio.current_time() + MEET_GRACE_S
                        tasks.cancel_scope.deadline = min(tasks.cancel_scope.deadline, grace_end)

            for address in addresses:
                tasks.start_soon(meet_one, address)
        return sorted(contacts.values(), key=lambda contact: contact.position)

    def seen_hosts(self) -> tuple[bytes, ...]:
        """The address that most met peers saw, of each family in which we met one."""
        by_family = {
            len(host): host for host in sorted(self._seen_as, key=lambda host: (self._seen_as[host], host))
        }
        return tuple(by_family.values())
