"""What do the parts of the copying share? The ring, the archive, the way to others, and what is known of them.

How many bytes of copies travelled one way, and may the next ones? The peer's budget says when.

Which digests does a scope have? The former ones, if nothing was stored or deleted since the last question.

What does this peer believe about holders, just now? One object that all parts of the copying look at.
"""

import logging
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from operator import attrgetter
from random import Random
from typing import Protocol

import anyio
from cachetools import LRUCache

from dht import Contact, Subscription
from dht.core import ids
from dht.core.arcs import NONE, Arcs
from dht.core.holders import Table
from herodotus.core import reconciliation
from herodotus.core.captures import Deposit
from herodotus.core.copies import PeerKey
from herodotus.core.copies.holder_states import FullHolders, HolderStates
from herodotus.core.copies.ledger import Group, HoldingLedger, Offers, Wanted, shared_with
from herodotus.core.copies.possession import EachItsOwn, Standings
from herodotus.core.doors import Declined, Passage, TurnedAway
from herodotus.core.index_rows import KEY_BYTES as POSITION_BYTES
from herodotus.core.ports import Lane, Workers
from herodotus.core.reconciliation import Scope
from herodotus.core.status import DoorStatus
from herodotus.peers.calls import Calls, RefusedError
from herodotus.peers.ring_view import RingPositions
from herodotus.store import Holdings, Sign

logger = logging.getLogger(__name__)

SLACK, SLACK_BY_PLACE = 1, 2
"""Copies beyond k that are taken when offered: two views of the ring may differ by a peer (ring.md 5). Where copies
count by place, a member more or less moves others up (holders.md 4)."""
PROMISES_MAX = 16
"""To one peer; of more, two that end one after the other are made one."""
PROMISED_MAX = 4_096
"""Peers at a time; far fewer hold something with us."""


@dataclass(slots=True)
class Promise:
    arcs: Arcs
    until: float


@dataclass(slots=True)
class View:
    me: PeerKey
    table: Table
    contacts: Mapping[ids.PeerKey, Contact] = field(default_factory=dict)
    absent: Mapping[ids.PeerKey, float] = field(default_factory=dict)
    groups: Sequence[Group] = ()
    """What is ours to hold, by the peers that hold it with us."""
    share: Arcs = NONE
    wide_share: Arcs = NONE
    """What is ours, or would be with a slack of copies more."""
    spare: Arcs = NONE
    """What is kept beside it while there is room."""
    keeps_spares: bool = False
    """There is room."""
    changed_at: float = 0.0
    """When this peer's own share last was another."""
    version: int = 0
    """Grows with every change of holders, anywhere."""
    promises: dict[PeerKey, list[Promise]] = field(default_factory=dict)
    given: int = 0
    """Promises ever."""

    @property
    def copies(self) -> int:
        return self.table.rule.copies

    @property
    def spare_copies(self) -> int:
        return self.table.rule.places.spare_copies

    def take(self, table: Table, contacts: Mapping[ids.PeerKey, Contact], now: float) -> None:
        """A new look at the ring."""
        me = ids.PeerKey(self.me)
        learned = table.learned(me)
        share = (table.arcs(me) | learned).coarse()
        if share != self.share:
            self.changed_at = now
        self.version += not table.is_like(self.table)
        self.table, self.contacts = table, contacts
        self.groups = [Group(holders, arcs.coarse()) for holders, arcs in table.groups(me).items()]
        # What we learn while we are young is compared with its holders as if we were one of them.
        self.groups += self.groups_in(learned) if learned else ()
        slack = SLACK if table.rule.is_plain else SLACK_BY_PLACE
        self.share, self.wide_share = share, (table.arcs(me, slack) | learned).coarse()
        self.spare = table.arcs(me, self.spare_copies).coarse() - share if self.spare_copies else NONE

    def holders(self, position: bytes) -> tuple[PeerKey, ...]:
        """Of a capture or a member, by its position, with which its key begins."""
        return tuple(contact.peer for contact in self.table.of(ids.Key(position[:POSITION_BYTES])))

    def next_holders(self, position: bytes) -> tuple[PeerKey, ...]:
        """Those after the holders that take what is offered, in order."""
        slack = SLACK if self.table.rule.is_plain else SLACK_BY_PLACE
        found = self.table.of(ids.Key(position[:POSITION_BYTES]), slack)[self.copies :]
        return tuple(contact.peer for contact in found)

    def learners(self, position: bytes) -> tuple[PeerKey, ...]:
        """Members that are not of age yet, and store it as if they were."""
        found = self.table.learners(ids.Key(position[:POSITION_BYTES]))
        return tuple(contact.peer for contact in found)

    def groups_in(self, arcs: Arcs) -> list[Group]:
        """The holders of a set of keys, ours or not; what is less than one position, as where the set ends in the midst
        of one, belongs to the holders before.
        """
        coarse = ((holders, some.coarse()) for holders, some in self.table.groups(arcs).items())
        return [Group(holders, some) for holders, some in coarse if some]

    def may_hold(self, position: bytes) -> bool:
        return position in self.wide_share or (self.keeps_spares and position in self.spare)

    def holds_all(self, arcs: Arcs) -> bool:
        return arcs <= self.share

    def may_hold_all(self, arcs: Arcs) -> bool:
        return arcs <= self.wide_share

    def promise(self, peer: PeerKey, arcs: Arcs, now: float, lasts_s: float) -> bool:
        """Nothing of it goes from here for so long. False when too many others count on us already."""
        until = now + lasts_s
        if peer not in self.promises and len(self.promises) >= PROMISED_MAX:
            return False
        known = self.promises.setdefault(peer, [])
        known[:] = [one for one in known if one.until > now and (one.arcs != arcs or one.until > until)]
        known.append(Promise(arcs, until))
        if len(known) > PROMISES_MAX:
            # Whatever is put together ends with the last of it: those that end at nearly the same time lose the least.
            known.sort(key=attrgetter("until"))
            at = min(range(len(known) - 1), key=lambda place: known[place + 1].until - known[place].until)
            both = known[at : at + 2]
            known[at : at + 2] = [Promise(both[0].arcs | both[1].arcs, both[1].until)]
        self.given += 1
        return True

    def is_promised(self, arcs: Arcs, now: float) -> bool:
        """Does somebody count on us for any of it?"""
        self.end_promises(now)
        return any(one.arcs & arcs for known in self.promises.values() for one in known)

    def end_promises(self, now: float) -> None:
        for peer in list(self.promises):
            kept = [one for one in self.promises[peer] if one.until > now]
            if kept:
                self.promises[peer] = kept
            else:
                del self.promises[peer]

    def shared_with(self, peer: PeerKey) -> Arcs:
        return shared_with(self.groups, peer)

    def others(self) -> list[PeerKey]:
        """Peers that we share something with."""
        return sorted({peer for group in self.groups for peer in group.holders} - {self.me})


Spend = Callable[[int], Awaitable[None]]
"""Returns when so many bytes may flow."""


async def freely(size: int) -> None:
    del size


class Meter:
    """Counts what was spent; `spend` waits until it may be."""

    def __init__(self, spend: Spend = freely) -> None:
        self._spend = spend
        self.spent = 0

    async def spend(self, size: int) -> None:
        await self._spend(size)
        self.spent += size


KEPT = 64
"""Scopes: two to a neighbour; 5 kB each where a scope is all of the ring."""


class Tops:
    """The digests of scopes."""

    def __init__(self) -> None:
        self._known: LRUCache[Scope, tuple[object, Sequence[bytes]]] = LRUCache(KEPT)

    async def of(self, holdings: Holdings, scope: Scope) -> Sequence[bytes]:
        """The digest of each of `directories`. What is stored meanwhile may be in it or not."""
        stamp = holdings.stamp  # before the look: what comes in between is looked for the next time
        known = self._known.get(scope)
        if known is None or known[0] != stamp:
            digests = [await holdings.digests(one.low, one.high) for one in scope]
            known = stamp, reconciliation.tops_of(scope, digests)
            self._known[scope] = known
        return known[1]


ROOM_BYTES = 64 << 20
ROOM_BYTES_OF_ONE = 8 << 20


class Room:
    """How much may parcels take in memory? Each is booked, for its peer and for all together; who finds no room
    waits."""

    def __init__(self, bytes_max: int = ROOM_BYTES, bytes_of_one: int = ROOM_BYTES_OF_ONE) -> None:
        self._bytes_max, self._bytes_of_one = bytes_max, bytes_of_one
        self.held_bytes = 0
        self._of = Counter[PeerKey]()
        self._freed = anyio.Event()

    @asynccontextmanager
    async def held(self, peer: PeerKey, size: int) -> AsyncIterator[None]:
        assert size <= self._bytes_of_one, "it would wait for ever"
        while self.held_bytes + size > self._bytes_max or self._of[peer] + size > self._bytes_of_one:
            await self._freed.wait()
        self._book(peer, size)
        try:
            yield
        finally:
            self._book(peer, -size)
            self._freed.set()
            self._freed = anyio.Event()

    def _book(self, peer: PeerKey, size: int) -> None:
        self.held_bytes += size
        self._of[peer] += size
        if not self._of[peer]:
            del self._of[peer]


SUSPECTS_MAX = 1_024
REASONS_MAX = 16
"""Of one suspect; the others are counted together."""
SHOWN_KEY = 16
COMPARING = Lane("cells of comparisons", 2)
"""Making and reading them takes a processor for a while, and no disk."""


class WatchedRing(RingPositions, Protocol):
    """What the copying asks of the ring."""

    def events(self) -> AbstractContextManager[Subscription]: ...


OnReceived = Callable[[Deposit, PeerKey], None]
"""Of a capture that was not here, and who signed it."""


def nobody_told(_deposit: Deposit, _signer: PeerKey) -> None:
    """What came is nobody's business."""


class Suspects:
    """Who broke its word, and how often: shown to the operator, who alone can do something about it."""

    def __init__(self) -> None:
        self.counts: dict[PeerKey, Counter[str]] = {}

    def note(self, peer: PeerKey, reason: str) -> None:
        known = self.counts.get(peer)
        if known is None:
            if len(self.counts) >= SUSPECTS_MAX:
                return
            known = self.counts[peer] = Counter()
        if reason not in known and len(known) >= REASONS_MAX:
            reason = "in other ways"
        if not known[reason]:
            logger.warning("a peer broke a promise peer=%s how=%s", peer.hex()[:SHOWN_KEY], reason)
        known[reason] += 1


class DoorKeeper(Protocol):
    """Who may bring what (`herodotus.copies.doors`)."""

    @property
    def declined(self) -> Declined: ...

    def admits(self, parts: "Parts", sender: PeerKey) -> bool:
        """Whether it may bring anything, or ask for a second word."""
        ...

    async def judge(
        self, parts: "Parts", deposit: Deposit, signer: PeerKey, sender: PeerKey
    ) -> Passage | TurnedAway:
        """By which door this comes in. Asks other holders where it must."""
        ...

    def judge_at_once(
        self, parts: "Parts", deposit: Deposit, signer: PeerKey, sender: PeerKey
    ) -> Passage | TurnedAway | None:
        """The same where nobody has to be asked, else None."""
        ...

    def came(
        self, parts: "Parts", deposit: Deposit, signer: PeerKey, passage: Passage, *, is_new: bool
    ) -> None:
        """What became of one that was let in."""
        ...

    def look(self, parts: "Parts") -> None:
        """To be called every few minutes: what do we hold?"""
        ...

    def never_came(self, parts: "Parts", position: bytes, time_s: int) -> bool:
        """Of a capture that is not here."""
        ...

    def had_no_room(self) -> None:
        """For a capture that was offered to us."""
        ...

    def was_ahead(self, parts: "Parts", peer: PeerKey) -> None:
        """It said of a capture of ours that its date is ahead of its clock."""
        ...

    def status(self, parts: "Parts") -> DoorStatus: ...


@dataclass(slots=True)
class CopyCounts:
    """Since the start."""

    pushed: int = 0
    pulled: int = 0
    received: int = 0
    refused: int = 0
    compared: int = 0
    failed: int = 0
    dropped: int = 0
    disputed: int = 0
    repaired: int = 0
    audited: int = 0


@dataclass(slots=True, kw_only=True)
class Parts:
    view: View
    holdings: Callable[[], Holdings | None]
    calls: Callable[[], Calls]
    workers: Workers
    sign: Sign
    random: Random
    """For nonces: nobody may foresee them."""
    upload: Meter = field(default_factory=Meter)
    download: Meter = field(default_factory=Meter)
    now: Callable[[], float] = anyio.current_time
    """From any thread. It runs on while the machine sleeps: the promises of others run out meanwhile."""
    ledger: HoldingLedger = field(default_factory=HoldingLedger)
    wanted: Wanted = field(default_factory=Wanted)
    suspects: Suspects = field(default_factory=Suspects)
    counts: CopyCounts = field(default_factory=CopyCounts)
    offers: Offers = field(default_factory=Offers)
    tops: Tops = field(default_factory=Tops)
    receiving: set[bytes] = field(default_factory=set)
    """Captures being stored that came from another peer: they are not pushed on from here."""
    unpacked: Room = field(default_factory=Room)
    """Booked before a parcel is unpacked."""
    sending: Room = field(default_factory=Room)
    """Booked while a parcel waits for its taker."""
    unpacking: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a parcel is checked and stored that is large inside."""
    fetching_large: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a large parcel comes in, until it is stored."""
    reading: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a capture is read to be sent: nobody knows before how large it is inside."""
    states: HolderStates = field(default_factory=HolderStates)
    full: FullHolders = field(default_factory=FullHolders)
    is_relayed: Callable[[PeerKey], bool] = lambda peer: False
    """Does nothing but a relay's line lead there from here? Then it is no way for copies."""
    on_failed: Callable[[], None] = lambda: None
    """A holder failed its proofs, or counts again."""
    standings: Callable[[], Standings] = EachItsOwn
    hear: Callable[[], None] = lambda: None
    """Takes notice of all that was stored until now."""
    on_received: OnReceived = nobody_told
    doors: DoorKeeper | None = None
    """None: whatever is sound comes in."""

    def opened(self) -> Holdings:
        holdings = self.holdings()
        if holdings is None:
            raise RefusedError("not-ready", retry_after_s=10.0)
        return holdings

    def contact(self, peer: PeerKey) -> Contact | None:
        return self.view.contacts.get(ids.PeerKey(peer))
