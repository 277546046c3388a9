"""Do the others still have the bytes, and the same ones? Questions with a nonce, which digests alone cannot answer.

Now and then a few members are drawn and one holder is asked for what it has of them. A peer that cannot prove what it
confirmed is named; a content that we have not is fetched, and then both are kept: the day is disputed.

What of ours was found damaged, and which peer gives it to us again? Each look costs nothing until something is.

Whatever reads a record notes where it is damaged: a reader's visit, a poll, `verify`, the slow scrub. The captures that
lie there, and those whose bytes are in quarantine, are fetched from other holders like any that are missing; the
archive takes a whole copy in place of a broken one.
"""

import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import anyio

from herodotus.copies import wire
from herodotus.copies.fetch_queue import fetch
from herodotus.copies.shared_state import Parts
from herodotus.core.copies import PeerKey
from herodotus.core.errors import ArchiveError, MalformedError
from herodotus.core.reconciliation import drawn_from, member_of, ranges_of
from herodotus.core.signatures import Proof
from herodotus.peers.calls import CallError
from herodotus.store import Holdings

logger = logging.getLogger(__name__)

SAMPLE = 16
PAST_MAX = 32


@dataclass(slots=True)
class AuditVerdict:
    """What a poll found about one holder."""

    without: list[bytes] = field(default_factory=list)
    """Members that it said it holds, and has nothing of."""
    unproven: list[bytes] = field(default_factory=list)
    """It names our content, but its bytes are others."""
    different: list[bytes] = field(default_factory=list)
    """It has content of that day that we have not."""

    @property
    def result(self) -> str:
        """The worst of it in a word."""
        return (
            "unproven"
            if self.unproven
            else "without"
            if self.without
            else "different"
            if self.different
            else "proven"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Audited:
    peer: PeerKey
    at: float
    asked: int
    result: str


def judge(members: list[bytes], ours: list[list[Proof]], theirs: list[list[Proof]]) -> AuditVerdict:
    verdict = AuditVerdict()
    for member, mine, other in zip(members, ours, theirs, strict=True):
        if not mine:
            continue  # gone since it was drawn
        known = {(one.time_s, one.digest): one.proof for one in mine}
        if not other:
            verdict.without.append(member)
        if any(known.get((one.time_s, one.digest), one.proof) != one.proof for one in other):
            verdict.unproven.append(member)
        if any((one.time_s, one.digest) not in known for one in other):
            verdict.different.append(member)
    return verdict


class Auditor:
    def __init__(self, parts: Parts, *, every_s: float, on_doubt: Callable[[PeerKey], None]) -> None:
        """`on_doubt`: this peer's confirmation is wrong, and must be checked again."""
        self._parts = parts
        self._every_s = every_s
        self._on_doubt = on_doubt
        self._doubted: set[PeerKey] = set()
        self.past: deque[Audited] = deque(maxlen=PAST_MAX)
        """Newest last."""

    async def run(self) -> None:
        while True:
            await anyio.sleep(self._every_s * self._parts.random.uniform(0.5, 1.0))
            others = [peer for peer in self._parts.view.others() if self._parts.contact(peer) is not None]
            if others:
                await self._audit(self._parts.random.choice(others))

    async def _audit(self, peer: PeerKey) -> None:
        parts = self._parts
        members = await self._draw(peer)
        verdict = await audit(parts, peer, members)
        if verdict is None:
            return
        self._doubted.intersection_update(parts.view.contacts)
        self.past.append(Audited(peer=peer, at=parts.now(), asked=len(members), result=verdict.result))
        if verdict.without:
            # It may have dropped it while it was not a holder; if it claims the copy again, it lies.
            if peer in self._doubted:
                parts.suspects.note(peer, "has not what it confirmed")
            self._doubted.add(peer)
        else:
            self._doubted.discard(peer)
        if verdict.without or verdict.unproven:
            self._on_doubt(peer)
        if verdict.different:
            try:
                await fetch(parts, peer, verdict.different)
            except ArchiveError as error:
                logger.warning("another peer's capture cannot be stored error=%s", error)

    async def _draw(self, peer: PeerKey) -> list[bytes]:
        """Members that the peer said it has all contents of, from all over what we share with it."""
        scope, random = ranges_of(self._parts.view.shared_with(peer)), self._parts.random
        holdings = self._parts.holdings()
        if not scope or holdings is None:
            return []
        found = await holdings.drawn([drawn_from(scope, random) for _ in range(SAMPLE)])
        held = self._parts.ledger.is_held
        return [member for member, keys in sorted(found.items()) if all(held(peer, key) for key in keys)]


async def audit(parts: Parts, peer: PeerKey, members: list[bytes]) -> AuditVerdict | None:
    """None when the peer does not answer."""
    contact = parts.contact(peer)
    holdings = parts.holdings()
    if contact is None or holdings is None or not members:
        return None
    nonce = parts.random.randbytes(wire.NONCE_BYTES)
    try:
        answer = await parts.calls().call(contact, wire.POLL, wire.encode_poll(nonce, members))
        theirs = wire.decode_proofs(answer, len(members))
    except CallError:
        return None
    except MalformedError:
        parts.suspects.note(peer, "malformed answer")
        return None
    ours = await holdings.proofs(members, nonce)
    verdict = judge(members, ours, theirs)
    parts.counts.audited += 1
    if verdict.unproven:
        parts.suspects.note(peer, "cannot prove that it has the bytes")
    if verdict.without or verdict.unproven:
        parts.ledger.doubt(peer)
    return verdict


BROKEN_MAX = 10_000
"""Captures under repair; the rest follows when these are whole."""
SCAN_S = 600.0
"""The whole index is read for newly noted damage at most so often."""
ASK_AGAIN_S, ASK_AGAIN_S_MAX = 600.0, 86_400.0
"""What nobody could mend is asked for again after so long, then after twice as long, and so on: a copy elsewhere may be
no better than ours."""


class Repairs:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._noted = 0
        """Damages that were looked for."""
        self._scan_at = 0.0
        """Not again before."""
        self._broken: set[bytes] = set()
        self._asked: dict[bytes, tuple[float, float]] = {}
        """When each is asked for again, and how long that was."""
        self.without_source = 0
        """Damaged captures that no peer that answers is known to have."""

    def __len__(self) -> int:
        return len(self._broken)

    async def look(self, holdings: Holdings) -> bool:
        """Ask for whole copies of what is damaged; whether there is something to fetch."""
        before, known, now = self._noted, frozenset(self._broken), self._parts.now()
        may_scan = now >= self._scan_at
        found = await holdings.broken(before, known, may_scan=may_scan, most=BROKEN_MAX)
        self._noted, broken = found.noted, found.keys
        if found.is_scan:
            self._scan_at = now + SCAN_S
        self._broken = set(broken)
        self._parts.counts.repaired += len(known - self._broken)
        self._asked = {key: self._asked[key] for key in self._asked.keys() & self._broken}
        self.without_source = 0
        released: list[bytes] = []
        for key in broken:
            sources = self._sources(key)
            if sources and not self._parts.view.may_hold(key[1:]):
                released.append(key)
                continue
            self.without_source += not sources
            due, waited = self._asked.get(key, (now, ASK_AGAIN_S / 2))
            if not sources or now < due:
                continue
            wait = min(2 * waited, ASK_AGAIN_S_MAX)
            self._asked[key] = now + wait, wait
            for peer in sources:
                self._parts.wanted.add([member_of(key)], peer)
        if released:
            await holdings.release(released)
        return bool(broken)

    def _sources(self, key: bytes) -> list[PeerKey]:
        view, ledger = self._parts.view, self._parts.ledger
        others = [peer for peer in view.holders(key[1:]) if peer != view.me and peer not in view.absent]
        return [peer for peer in others if ledger.is_held(peer, key[1:])]
