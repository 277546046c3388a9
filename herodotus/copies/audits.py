"""Do the others still have the bytes, and the same ones? Questions with a nonce, which digests alone cannot answer.

Once a day this peer and each other holder prove to each other a hundred captures of what they share (`sampled_proofs`).
Where the proofs differ, the other is asked for what it has of each of them. A peer that cannot prove what it confirmed
is named, and asked again after an hour; the second time it does not count any more (`core.copies.holder_states`). A
content that we have not is fetched, and then both are kept: the day is disputed.

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

from herodotus.copies import sampled_proofs, wire
from herodotus.copies.fetch_queue import fetch
from herodotus.copies.full_proofs import ask_all
from herodotus.copies.shared_state import SHOWN_KEY, Parts
from herodotus.core.copies import PeerKey
from herodotus.core.copies.holder_states import HolderState, Outcome
from herodotus.core.errors import ArchiveError, MalformedError
from herodotus.core.reconciliation import Scope, member_of, ranges_of
from herodotus.core.signatures import Proof
from herodotus.peers.calls import CallError
from herodotus.store import Holdings

logger = logging.getLogger(__name__)

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
    """Asks each other holder once a day for a proof, and those that were doubted again after an hour."""

    def __init__(self, parts: Parts, *, every_s: float, on_doubt: Callable[[PeerKey], None]) -> None:
        """`on_doubt`: this peer's confirmation is wrong, and must be checked again."""
        self._parts = parts
        self._every_s = every_s
        self._on_doubt = on_doubt
        self._lacked: set[PeerKey] = set()
        """Those that said they lack something they had confirmed."""
        self._fully: dict[PeerKey, bytes] = {}
        """How far those that failed have proven all they share with us."""
        self.past: deque[Audited] = deque(maxlen=PAST_MAX)
        """Newest last."""

    async def run(self) -> None:
        while True:
            others = [peer for peer in self._parts.view.others() if self._parts.contact(peer) is not None]
            wait_s = self._every_s / max(
                4, 2 * len(others)
            )  # at least twice as often as there are proofs a day
            await anyio.sleep(wait_s * self._parts.random.uniform(0.5, 1.0))
            try:
                await self.ask_next()
            except ArchiveError as error:
                logger.warning("no proofs can be made error=%s", error)

    async def ask_next(self) -> None:
        """The one that has waited the longest, if anybody is due."""
        parts, now = self._parts, self._parts.now()
        due = [
            (parts.states.due_at(peer, now), peer)
            for peer in parts.view.others()
            if parts.contact(peer) is not None
        ]
        due = [one for one in due if one[0] <= now]
        if due:
            first = min(due)[0]
            await self.ask(parts.random.choice([peer for at, peer in due if at == first]))

    async def ask(self, peer: PeerKey) -> Outcome | None:
        """None where there is nothing to ask about."""
        parts = self._parts
        contact, scope = parts.contact(peer), ranges_of(parts.view.shared_with(peer))[: wire.SCOPE_RANGES_MAX]
        if contact is None or not scope or parts.holdings() is None:
            return None
        members: list[bytes] = []
        proven = 0
        try:
            if parts.states.state(peer, parts.now()) is HolderState.FAILED:
                outcome = await self._ask_fully(peer, scope)
                proven = await sampled_proofs.bytes_within(parts, scope)
            else:
                outcome, members, proven = await sampled_proofs.ask(parts, contact, scope)
        except CallError:
            outcome = Outcome.SILENT
        except MalformedError:
            parts.suspects.note(peer, "malformed answer")
            outcome = Outcome.WRONG
        if outcome is Outcome.WRONG and members:
            outcome = await self._look_closer(peer, members)
        self._note(peer, outcome, len(members), proven)
        return outcome

    def _note(self, peer: PeerKey, outcome: Outcome, asked: int, proven_bytes: int) -> None:
        parts, now = self._parts, self._parts.now()
        before = parts.states.state(peer, now)
        parts.states.note(peer, outcome, now, proven_bytes)
        if outcome is not Outcome.SILENT:
            parts.counts.audited += 1
            self.past.append(Audited(peer=peer, at=now, asked=asked, result=outcome.value))
        if outcome in (Outcome.LACKING, Outcome.WRONG):
            parts.ledger.doubt(peer)
        if outcome in (Outcome.LACKING, Outcome.WRONG, Outcome.OTHER_SET):
            self._on_doubt(peer)
        state = parts.states.state(peer, now)
        if state is not before and HolderState.FAILED in (state, before):
            logger.warning("holder proofs peer=%s state=%s", peer.hex()[:SHOWN_KEY], state.value)
            self._fully.pop(peer, None)
            parts.on_failed()

    async def _look_closer(self, peer: PeerKey, members: list[bytes]) -> Outcome:
        """What is it that differs? A day with other contents is no lie."""
        lacks, distinct = False, sorted(set(members))  # where there is little, some were drawn twice
        for at in range(0, len(distinct), wire.POLLED_MAX):
            verdict = await audit(self._parts, peer, distinct[at : at + wire.POLLED_MAX])
            if verdict is None:
                return Outcome.SILENT
            if verdict.unproven:
                return Outcome.WRONG
            lacks |= bool(verdict.without)
            if verdict.different:
                try:
                    await fetch(self._parts, peer, verdict.different)
                except ArchiveError as error:
                    logger.warning("another peer's capture cannot be stored error=%s", error)
        if not lacks:
            self._lacked.discard(peer)
            return Outcome.OTHER_SET
        # It may have dropped it while it was not a holder; if it claims the copy again, it lies.
        self._lacked.intersection_update(self._parts.view.contacts)
        if peer in self._lacked:
            self._parts.suspects.note(peer, "has not what it confirmed")
            return Outcome.WRONG
        self._lacked.add(peer)
        return Outcome.LACKING

    async def _ask_fully(self, peer: PeerKey, scope: Scope) -> Outcome:
        """Who failed counts again once it proved all that both hold: as much a day as it answers."""
        parts, holdings = self._parts, self._parts.opened()
        begin = self._fully.get(peer, b"")
        keys = [key for key in await holdings.keys(scope) if key > begin]
        for at in range(0, len(keys), wire.PROVED_MAX):
            some = keys[at : at + wire.PROVED_MAX]
            found = await ask_all(parts, holdings, [peer], some, promise_s=1, on_doubt=self._on_doubt)
            if peer in found.unproven:
                if found.unproven[peer] is not Outcome.SILENT:
                    self._fully.pop(peer, None)
                return found.unproven[peer]
            self._fully[peer] = some[-1]
        return Outcome.FULLY_PROVEN


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
    ours = await holdings.proofs(members, nonce + peer + parts.view.me)
    verdict = judge(members, ours, theirs)
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
