"""Do the others still have the bytes, and the same ones? Questions with a nonce, which digests alone cannot answer.

Now and then a few members are drawn and one holder is asked for what it has of them. Whoever cannot prove what it
confirmed is named; a content that we have not is fetched, and then both are kept: the day is disputed.
"""

import hashlib
from dataclasses import dataclass, field

from herodotus.archive.engine import Archive
from herodotus.archive.reading import Reader
from herodotus.calls import CallError
from herodotus.core.digests import keys_of_member
from herodotus.core.entries import CAPTURE
from herodotus.core.replication.places import PeerKey
from herodotus.replication import wire
from herodotus.replication.parts import Parts
from herodotus.replication.wire import Proof

SAMPLE = 16


def proofs_of(archive: Archive, member: bytes, nonce: bytes) -> list[Proof]:
    """Of each content of a member that can be read."""
    reader = Reader(archive)
    found: list[Proof] = []
    for key, value in archive.index.scan(*keys_of_member(member[:-1] + CAPTURE)):
        capture = reader.try_read(key, value)
        if capture is not None and len(found) < wire.VERSIONS_MAX:
            proof = prove(nonce, capture.id.digest, capture.body)
            found.append(Proof(time_s=capture.time_s, digest=capture.id.digest, proof=proof))
    return found


def prove(nonce: bytes, digest: bytes, body: bytes) -> bytes:
    return hashlib.sha256(b"herodotus/poll/1" + nonce + digest + body).digest()[: wire.PROOF_BYTES]


@dataclass(slots=True)
class Verdict:
    """What a poll found about one holder."""

    without: list[bytes] = field(default_factory=list)
    """Members that it said it holds, and has nothing of."""
    unproven: list[bytes] = field(default_factory=list)
    """It names our content, but its bytes are others."""
    different: list[bytes] = field(default_factory=list)
    """It has content of that day that we have not."""


def judge(members: list[bytes], ours: list[list[Proof]], theirs: list[list[Proof]]) -> Verdict:
    verdict = Verdict()
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


async def audit(parts: Parts, peer: PeerKey, members: list[bytes]) -> Verdict | None:
    """None when the peer does not answer."""
    contact = parts.contact(peer)
    store = parts.store()
    if contact is None or store is None or not members:
        return None
    nonce = parts.random.randbytes(wire.NONCE_BYTES)
    try:
        answer = await parts.calls().call(contact, wire.POLL, wire.encode_poll(nonce, members))
        theirs = wire.decode_proofs(answer, len(members))
    except CallError:
        return None
    except wire.MalformedMessageError:
        parts.suspects.note(peer, "malformed answer")
        return None
    ours = await store.work(lambda archive, _intake: [proofs_of(archive, one, nonce) for one in members])
    verdict = judge(members, ours, theirs)
    parts.counts.audited += 1
    if verdict.unproven:
        parts.suspects.note(peer, "cannot prove that it has the bytes")
    if verdict.without or verdict.unproven:
        parts.ledger.doubt(peer)
    return verdict
