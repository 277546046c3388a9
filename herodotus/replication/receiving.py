"""May this parcel come in? Whatever way it came, each is taken apart, checked and stored here, or refused."""

from herodotus.archive.holding import unpacked
from herodotus.archive.intake import Outcome
from herodotus.core.archive_errors import MalformedRecordError
from herodotus.core.deposits import CaptureId
from herodotus.core.digests import member_of
from herodotus.core.entries import capture_key
from herodotus.core.replication.places import PeerKey
from herodotus.core.signatures import signer_of
from herodotus.replication.parts import Parts
from herodotus.replication.wire import BROKEN, DELETED, KNOWN, NOT_MINE, STORED, UNSIGNED

_OUTCOMES = {
    Outcome.NEW: STORED,
    Outcome.REVISIT: STORED,
    Outcome.KNOWN: KNOWN,
    Outcome.DELETED: DELETED,
}


def member_of_id(id_: CaptureId) -> bytes:
    return member_of(capture_key(id_))


async def receive(parts: Parts, data: bytes, sender: PeerKey) -> tuple[int, bytes]:
    """What became of it, and which member it was (empty when that cannot be said). Durable when it returns.

    Raises StoreRefusedError when the disk cannot take it: then nothing of it is to blame.
    """
    store = parts.opened_store()
    try:
        deposit = await store.work(lambda _archive, _intake: unpacked(data))
    except MalformedRecordError:
        parts.counts.refused += 1
        parts.suspects.note(sender, "broken parcel")
        return BROKEN, b""
    member = member_of_id(deposit.id)
    if not parts.view.may_hold(deposit.key):
        parts.counts.refused += 1
        return NOT_MINE, member
    if signer_of(deposit) is None:
        parts.counts.refused += 1
        parts.suspects.note(sender, "a signature that does not fit")
        return UNSIGNED, member
    key = capture_key(deposit.id)
    parts.receiving.add(key)
    try:
        outcome = _OUTCOMES[(await store.store(deposit)).outcome]
    except MalformedRecordError:
        return BROKEN, member
    finally:
        parts.receiving.discard(key)
    if outcome == STORED:
        parts.counts.received += 1
        parts.ledger.stored(member)
    if outcome != DELETED:
        parts.ledger.held(sender, [member])
    return outcome, member
