"""Do we and another holder both have what we share? Four messages a day, in two calls, and both have proven it.

The first call agrees on what both have and on a seed that neither chose (`core.copies.sampling`), the second carries
the asker's nonce and proof, and brings the other's. A proof that is wrong says nothing yet: something may have come in
between, or a day may have other contents there. `audits` then asks about the drawn captures one by one.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import NamedTuple

from dht import Contact
from dht.core.limits import Buckets, Rate
from herodotus.copies import wire
from herodotus.copies.shared_state import Parts
from herodotus.core import reconciliation
from herodotus.core.captures import LargeBody
from herodotus.core.copies import PeerKey
from herodotus.core.copies.holder_states import Outcome
from herodotus.core.copies.sampling import SampledProof, commitment, draws, seed_of, set_digest
from herodotus.core.reconciliation import Scope, arcs_of, ranges_of
from herodotus.peers.calls import RefusedError

REVEAL_WITHIN_S = 120.0
"""After that the asker may have looked for a nonce that suits it."""
OPEN_MAX = 256
"""Proofs under way; a peer has one with us at a time."""
AGREED_MIN = 0.9
"""Of the captures, must be in directories that both have alike: with less, the two compare first."""
_TO_ALL = Rate(per_second=60 / 3_600, burst=60)
"""A peer of 80 neighbours is asked 80 times a day; 100 draws read 100 places of a disk, a second of it."""
_TO_ONE = Rate(per_second=6 / 3_600, burst=6)


class Sample(NamedTuple):
    """Both proofs about a seed, as this peer computes them."""

    own: bytes
    theirs: bytes
    members: list[bytes]
    is_whole: bool
    """All that was drawn could be read here."""


async def sample(parts: Parts, peer: PeerKey, scope: Scope, seed: bytes) -> Sample:
    """What this peer and another one should say to each other."""
    holdings, me = parts.opened(), parts.view.me
    tallies = [one for part in scope for one in await holdings.tallies(*part)]
    drawn = draws(seed, [count for _, _, count in tallies])
    own = SampledProof(seed, prover=me, asker=peer)
    theirs = SampledProof(seed, prover=peer, asker=me)

    def take(number: int, digest: bytes, payload: bytes | LargeBody) -> None:
        own.add(number, digest, payload)
        theirs.add(number, digest, payload)

    places = [(*tallies[draw.part][:2], draw.rank) for draw in drawn]
    members = await holdings.draw(places, take)
    return Sample(own.bytes, theirs.bytes, [one for one in members if one], all(members))


@dataclass(frozen=True, slots=True)
class _Open:
    scope: Scope
    commitment: bytes
    nonce: bytes
    until: float


class SampledProofService:
    """Answers those who ask."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._open: OrderedDict[PeerKey, _Open] = OrderedDict()
        self._rations = Buckets()

    async def sample(self, sender: PeerKey, body: bytes) -> bytes:
        question, parts = wire.decode_sample(body), self._parts
        if await own_set(parts, question.scope) != question.digest:
            return b""
        nonce = parts.random.randbytes(wire.NONCE_BYTES)
        until = parts.now() + REVEAL_WITHIN_S
        self._open[sender] = _Open(question.scope, question.commitment, nonce, until)
        self._open.move_to_end(sender)
        if len(self._open) > OPEN_MAX:
            self._open.popitem(last=False)
        return nonce

    async def reveal(self, sender: PeerKey, body: bytes) -> bytes:
        """Only for the nonce that the asker was committed to before it knew ours, and once."""
        nonce, proof = wire.decode_reveal(body)
        parts, now = self._parts, self._parts.now()
        known = self._open.pop(sender, None)
        if known is None or now > known.until or commitment(nonce) != known.commitment:
            raise RefusedError("not-asked")
        for who, rate in (("all", _TO_ALL), (sender, _TO_ONE)):
            if wait_s := self._rations.ration(who, rate, 1.0, now):
                raise RefusedError("busy", retry_after_s=wait_s)
        found = await sample(parts, sender, known.scope, seed_of(nonce, known.nonce))
        if (
            found.is_whole
            and proof == found.theirs
            and parts.view.shared_with(sender) <= arcs_of(known.scope)
        ):
            proven = await bytes_within(parts, known.scope)
            parts.states.note(sender, Outcome.PROVEN, parts.now(), proven)
        return found.own


async def own_set(parts: Parts, scope: Scope) -> bytes:
    return set_digest(reconciliation.root_of(await parts.tops.of(parts.opened(), scope)))


async def bytes_within(parts: Parts, scope: Scope) -> int:
    """What this peer has of a scope, by the mean of its captures."""
    holdings = parts.opened()
    captures = sum(await holdings.counts(scope))
    return (await holdings.room()).used * captures // max(1, holdings.captures)


class Asked(NamedTuple):
    outcome: Outcome
    members: list[bytes]
    """That were drawn."""
    proven_bytes: int = 0


async def ask(parts: Parts, contact: Contact, scope: Scope) -> Asked:
    """Prove to another holder what we have of a scope, and hear its proof. WRONG is to be looked at more closely.
    Raises a CallError, and a MalformedError."""
    nonce = parts.random.randbytes(wire.NONCE_BYTES)
    theirs = await _agree(parts, contact, scope, nonce)
    if not theirs:
        scope = await _mostly_alike(parts, contact, scope)
        theirs = await _agree(parts, contact, scope, nonce) if scope else b""
    if not theirs:
        return Asked(Outcome.OTHER_SET, [])
    found = await sample(parts, contact.peer, scope, seed_of(nonce, theirs))
    answer = await parts.calls().call(contact, wire.REVEAL, wire.encode_reveal(nonce, found.own))
    if not found.is_whole:
        return Asked(Outcome.OTHER_SET, [])  # our own disk is the trouble
    is_right = wire.decode_sampled_proof(answer) == found.theirs
    if not is_right:
        return Asked(Outcome.WRONG, found.members)
    return Asked(Outcome.PROVEN, found.members, await bytes_within(parts, scope))


async def _agree(parts: Parts, contact: Contact, scope: Scope, nonce: bytes) -> bytes:
    question = wire.SampleQuestion(scope, await own_set(parts, scope), commitment(nonce))
    return wire.decode_sample_answer(
        await parts.calls().call(contact, wire.SAMPLE, wire.encode_sample(question))
    )


async def _mostly_alike(parts: Parts, contact: Contact, scope: Scope) -> Scope:
    """The part of a scope that both have alike, where that is most of it: something is always on its way."""
    holdings, same = parts.opened(), await alike(parts, contact, scope)
    counts = [sum(await holdings.counts(part)) for part in (scope, same)]
    is_most = same and counts[1] >= AGREED_MIN * counts[0]
    return same if is_most and len(same) <= wire.SCOPE_RANGES_MAX else ()


async def alike(parts: Parts, contact: Contact, scope: Scope) -> Scope:
    """The directories of a scope with the same digests here and there."""
    answer = await parts.calls().call(contact, wire.TOPS, wire.encode_scope(scope))
    ours = await parts.tops.of(parts.opened(), scope)
    other = reconciliation.differing(scope, ours, wire.decode_tops(answer, scope))
    return ranges_of(arcs_of(scope) & ~arcs_of(other))
