"""What do the parts of the copying share? The ring, the archive, the way to others, and what is known of them."""

import logging
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

import anyio

from dht import Contact, Subscription
from dht.core import ids
from herodotus.copies.digest_cache import Tops
from herodotus.copies.meter import Meter
from herodotus.copies.own_share import View
from herodotus.core.captures import Deposit
from herodotus.core.copies import PeerKey
from herodotus.core.copies.ledger import HoldingLedger
from herodotus.core.copies.offers import Offers
from herodotus.core.copies.wanted import Wanted
from herodotus.core.ports import Lane, Workers
from herodotus.peers.calls import Calls, RefusedError
from herodotus.peers.ring_view import RingPositions
from herodotus.store import Holdings, Sign

logger = logging.getLogger(__name__)

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
    overflowed: int = 0


@dataclass(slots=True, kw_only=True)
class Parts:
    view: View
    holdings: Callable[[], Holdings | None]
    calls: Callable[[], Calls]
    workers: Workers
    sign: Sign
    random: Random
    """For nonces: nobody may foresee them."""
    upload: Meter
    download: Meter
    now: Callable[[], float] = anyio.current_time
    ledger: HoldingLedger = field(default_factory=HoldingLedger)
    wanted: Wanted = field(default_factory=Wanted)
    suspects: Suspects = field(default_factory=Suspects)
    counts: CopyCounts = field(default_factory=CopyCounts)
    offers: Offers = field(default_factory=Offers)
    tops: Tops = field(default_factory=Tops)
    receiving: set[bytes] = field(default_factory=set)
    """Captures being stored that came from another peer: they are not pushed on from here."""
    unpacking: anyio.Lock = field(default_factory=anyio.Lock)
    """Held while a parcel is unpacked and stored that is large inside."""
    hear: Callable[[], None] = lambda: None
    """Takes notice of all that was stored until now."""
    on_received: OnReceived = nobody_told

    def opened(self) -> Holdings:
        holdings = self.holdings()
        if holdings is None:
            raise RefusedError("not-ready", retry_after_s=10.0)
        return holdings

    def contact(self, peer: PeerKey) -> Contact | None:
        return self.view.contacts.get(ids.PeerKey(peer))
