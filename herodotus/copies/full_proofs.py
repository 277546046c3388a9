"""Can every holder prove that it has each of these captures, byte for byte? Asked before a surplus copy goes.

The asker reads its own captures once and compares the proofs of all holders with what it computed. A peer that
answers promises to keep them before it looks at them, so nothing of it goes afterwards.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import anyio

from dht.core.limits import Buckets, Rate
from herodotus.copies import wire
from herodotus.copies.shared_state import Parts
from herodotus.core import reconciliation
from herodotus.core.copies import PeerKey
from herodotus.core.copies.holder_states import Outcome
from herodotus.core.copies.possession import FullProof
from herodotus.core.errors import MalformedError
from herodotus.peers.calls import CallError, RefusedError
from herodotus.store import Holdings

READ_AT_ONCE = 32
"""Captures in one turn of a reader's thread, so that readers wait for it some milliseconds."""
ANSWER_S = 300.0
"""For a slow disk to read `PROVED_MAX` captures."""
PROVED_AN_HOUR = 262_144
"""Captures, for all askers together: at 20 kB each some 5 GB, and 26 s of a processor."""
PROVED_TO_ONE_AN_HOUR = 65_536
"""A peer of ten million captures, which lets a twentieth go in a day, asks for 21,000."""
_TO_ALL = Rate(per_second=PROVED_AN_HOUR / 3_600, burst=PROVED_AN_HOUR / 4)
_TO_ONE = Rate(per_second=PROVED_TO_ONE_AN_HOUR / 3_600, burst=PROVED_TO_ONE_AN_HOUR / 4)


async def read_into(holdings: Holdings, keys: Sequence[bytes], proof: FullProof) -> list[bytes]:
    """The keys of what could not be read."""
    missing: list[bytes] = []
    for at in range(0, len(keys), READ_AT_ONCE):
        missing += await holdings.payloads(keys[at : at + READ_AT_ONCE], proof.add)
    return missing


class FullProofService:
    """Answers those who ask."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._rations = Buckets()
        self._is_reading = anyio.Lock()

    async def prove(self, sender: PeerKey, body: bytes) -> bytes:
        question = wire.decode_prove(body)
        parts, view, now = self._parts, self._parts.view, self._parts.now()
        arcs = reconciliation.arcs_of((question.stretch,))
        # Before the look at what there is: nothing of what the answer speaks of may go from now on.
        if not view.holds_all(arcs) or not view.promise(sender, arcs, now, question.promise_s):
            return wire.encode_full_answer(wire.FullAnswer(is_holder=False))
        self._ration(sender, len(question.keys), now)
        proof = FullProof(question.nonce)
        async with self._is_reading:  # of one after the other: a disk reads no faster for two
            missing = await read_into(parts.opened(), question.keys, proof)
        if missing:
            answer = wire.FullAnswer(is_holder=True, missing=wire.encode_list(missing))
        else:
            answer = wire.FullAnswer(is_holder=True, proof=proof.by(prover=view.me, asker=sender))
        return wire.encode_full_answer(answer)

    def _ration(self, sender: PeerKey, count: int, now: float) -> None:
        buckets = self._rations.of("all", _TO_ALL, now), self._rations.of(sender, _TO_ONE, now)
        if wait_s := max(bucket.wait_s(now, count) for bucket in buckets):
            raise RefusedError("busy", retry_after_s=wait_s)
        for bucket in buckets:
            bucket.spend(now, count)


@dataclass(slots=True)
class Proven:
    """What may be relied upon, and since when."""

    keys: list[bytes]
    """In order; what cannot be read here is not among them."""
    at: float
    """When the first question was asked."""
    unproven: dict[PeerKey, Outcome] = field(default_factory=dict)
    """The holders that did not prove it: one is enough for everything to stay."""

    @property
    def is_by_all(self) -> bool:
        return bool(self.keys) and not self.unproven


async def ask_all(
    parts: Parts,
    holdings: Holdings,
    holders: Sequence[PeerKey],
    keys: Sequence[bytes],
    *,
    promise_s: float,
    on_doubt: Callable[[PeerKey], None],
) -> Proven:
    """Ask each holder for a full proof of these captures, all with one nonce. `on_doubt`: what the peer confirmed is
    wrong, and must be compared again."""
    at, nonce = parts.now(), parts.random.randbytes(wire.NONCE_BYTES)
    keys = sorted(keys)
    own = FullProof(nonce)
    if missing := set(await read_into(holdings, keys, own)):
        keys, own = [key for key in keys if key not in missing], FullProof(nonce)
        if await read_into(holdings, keys, own):
            return Proven([], at)  # it goes bad, or away, while we look: nothing of it is relied upon
    found = Proven(keys, at)
    if not keys:
        return found
    question = wire.encode_prove(wire.FullQuestion(keys, nonce, int(promise_s)))

    async def ask(peer: PeerKey) -> None:
        expected = own.by(prover=peer, asker=parts.view.me)
        outcome = await _asked(parts, peer, question, expected, on_doubt)
        if outcome is not Outcome.PROVEN:
            found.unproven[peer] = outcome

    async with anyio.create_task_group() as tasks:
        for peer in holders:
            tasks.start_soon(ask, peer)
    return found


async def _asked(
    parts: Parts, peer: PeerKey, question: bytes, expected: bytes, on_doubt: Callable[[PeerKey], None]
) -> Outcome:
    contact = parts.contact(peer)
    if contact is None:
        return Outcome.SILENT
    try:
        answer = wire.decode_full_answer(
            await parts.calls().call(contact, wire.PROVE, question, deadline_s=ANSWER_S)
        )
    except CallError:
        return Outcome.SILENT
    except MalformedError:
        parts.suspects.note(peer, "malformed answer")
        return Outcome.WRONG
    if not answer.is_holder:
        return Outcome.OTHER_SET
    if answer.proof == expected:
        return Outcome.PROVEN
    if not answer.missing:
        parts.suspects.note(peer, "cannot prove that it has the bytes")
    parts.ledger.doubt(peer)
    on_doubt(peer)
    return Outcome.LACKING if answer.missing else Outcome.WRONG
