"""Which members can be called? Watches calls, and knocks at one ward and at neighbours that were not called lately.

`core/reach.py` decides whom and when; this shell opens the connections.
"""

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from typing import Protocol

import anyio
import anyio.abc

from dht import Contact
from dht.core.ids import PeerKey
from dht.core.reader import Member
from dht.endpoint import socket_address
from dht.node_types import NodeStatistics
from herodotus.core.reach import Reach
from herodotus.core.settings.fields import HostPort
from herodotus.core.status import UncallableStatus

logger = logging.getLogger(__name__)

KNOCK_S = 10.0
"""TCP has sent four times by then."""
COMPLAIN_S = 4.0
"""It has sent three times: the member is told that calls fail. It tests itself, which takes longer than to be sure."""
LOOK_S = 10.0
"""At the ring; somebody who asks for the status looks at once."""
NEWS_S = 0.05
AT_ONCE = 4
SHOWN_MAX = 64
Knock = Callable[[Member], Awaitable[None]]
"""Opens a connection to the member and closes it. Raises OSError."""


class ReachedRing(Protocol):
    """The part of `dht.RingNode` that is watched."""

    @property
    def me(self) -> Contact: ...
    def statistics(self) -> NodeStatistics: ...
    def members(self) -> tuple[Member, ...]: ...
    def callable_members(self) -> list[Contact]: ...
    @property
    def is_closed(self) -> bool: ...
    def relays_of(self, peer: PeerKey) -> tuple[Contact, ...]: ...
    def is_apart(self, peer: PeerKey) -> bool: ...
    def tell_calls_fail(self, peer: PeerKey) -> None:
        """To the member itself, which may not know."""


class ReachWatch:
    def __init__(self, knock: Knock, every_s: float) -> None:
        self._knock = knock
        self._every_s, self._reach = every_s, Reach(every_s)
        self._ring: ReachedRing | None = None
        self._members: dict[bytes, Member] = {}
        self._under_way: set[bytes] = set()
        self._news = anyio.Event()

    def called(self, peer: bytes, why: str | None) -> None:
        """A call to it worked, or did not, and why."""
        self._reach.called(peer, anyio.current_time(), why)

    @property
    def is_proven(self) -> bool:
        if self._ring is None:
            return False
        self._look()
        is_proven = self._reach.is_proven(anyio.current_time())
        if not is_proven:
            self._news.set()
        return is_proven

    def status(self) -> tuple[UncallableStatus, ...]:
        now = anyio.current_time()
        found = self._reach.uncallable(now)[:SHOWN_MAX]
        return tuple(
            UncallableStatus(
                peer=peer.hex()[:16], address=self._address(peer), why=why, for_s=int(now - since)
            )
            for peer, why, since in found
            if peer in self._members
        )

    def _address(self, peer: bytes) -> str:
        at = self._members[peer].address
        host, port = socket_address(at.host, at.port)
        return str(HostPort(host=host, port=port))

    def _look(self) -> None:
        """Those next to us on the ring, at each of our positions, that are well by datagrams."""
        assert self._ring is not None
        own = self._ring.me.peer
        self._members = {
            member.peer: member
            for member in self._ring.members()
            if member.peer != own and member.clock == "well" and self._is_in_reach(member.peer)
        }
        near: list[bytes] = []
        for node in self._ring.statistics().ring.nodes:
            before = () if node.predecessor is None else (node.predecessor,)
            near += [contact.peer for contact in (*before, *node.successors[:2])]
        ring = self._ring
        arranged = {peer for peer in self._members if self._is_arranged(peer)}
        others = {one.peer for one in ring.callable_members()} & self._members.keys() - arranged
        self._reach.watch(
            (peer for peer in near if peer in self._members),
            self._members,
            ward=None if ring.is_closed else next_key(own, others),  # or most would have several
            arranged=arranged,
        )

    @asynccontextmanager
    async def running(self, ring: ReachedRing) -> AsyncIterator[None]:
        self._ring = ring
        async with anyio.create_task_group() as tasks:
            if self._every_s:
                tasks.start_soon(self._keep_knocking, tasks)
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self._ring = None

    async def _keep_knocking(self, tasks: anyio.abc.TaskGroup) -> None:
        while True:
            self._news = anyio.Event()
            self._look()
            now = anyio.current_time()
            found = self._reach.next_knock(now, self._under_way)
            wait_s = LOOK_S if found is None else min(found[1] - now, LOOK_S)
            if found is not None and wait_s <= 0 and len(self._under_way) < AT_ONCE:
                self._under_way.add(found[0])
                self._reach.knocks(found[0], now)
                tasks.start_soon(self._knock_at, found[0])
                continue
            with anyio.move_on_after(max(wait_s, NEWS_S) if len(self._under_way) < AT_ONCE else LOOK_S):
                await self._news.wait()
            await anyio.sleep(NEWS_S)

    async def _knock_at(self, peer: bytes) -> None:
        member, why = self._members[peer], None
        try:
            async with anyio.create_task_group() as meanwhile:
                meanwhile.start_soon(self._complain, member)
                why = await self._found_wrong(member)
                meanwhile.cancel_scope.cancel()
        finally:
            self._under_way.discard(peer)
        before = self._uncallable()
        self._reach.knocked(peer, anyio.current_time(), why)
        if why is not None:
            self._tell(member)
        if self._uncallable() != before:
            logger.warning("calls peer=%s state=%s", peer.hex()[:16], why or "get through again")
        self._news.set()

    async def _found_wrong(self, member: Member) -> str | None:
        try:
            with anyio.fail_after(KNOCK_S):
                await self._knock(member)
        except TimeoutError:
            return "no answer by TCP"
        except OSError as error:
            return error.strerror or str(error) or "no connection"
        return None

    async def _complain(self, member: Member) -> None:
        """While the knock is under way still."""
        await anyio.sleep(COMPLAIN_S)
        self._tell(member)

    def _is_arranged(self, peer: bytes) -> bool:
        return self._ring is not None and bool(self._ring.relays_of(PeerKey(peer)))

    def _is_in_reach(self, peer: bytes) -> bool:
        """That we have no family in common, and it no relay that we know, is not its fault; it would test itself for
        ever.
        """
        assert self._ring is not None
        return self._is_arranged(peer) or not self._ring.is_apart(PeerKey(peer))

    def _tell(self, member: Member) -> None:
        """Where a test of its own line can say why."""
        if self._ring is not None and not self._is_arranged(member.peer):
            self._ring.tell_calls_fail(member.peer)

    def _uncallable(self) -> int:
        return len(self._reach.uncallable(anyio.current_time()))


def next_key(own: bytes, others: Collection[bytes]) -> bytes | None:
    """The one after our own, round and round: so everybody is somebody's."""
    return min(others, key=lambda key: (key <= own, key), default=None)
