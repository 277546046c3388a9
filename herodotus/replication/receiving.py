"""May this parcel come in? Whatever way it came, each is taken apart, checked and stored here, or refused."""

from collections.abc import Sequence

import anyio

from herodotus.archive.holding import unpacked
from herodotus.archive.intake import Outcome
from herodotus.core.archive_errors import MalformedRecordError, StoreRefusedError
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


AT_ONCE = 64
"""Parcels that are stored together: they share a flush of the disk."""


async def receive_all(parts: Parts, parcels: Sequence[bytes], sender: PeerKey) -> list[tuple[int, bytes]]:
    """As `receive` for each, in order. Raises StoreRefusedError when the disk refused one of them."""
    results: dict[int, tuple[int, bytes]] = {}
    refusals: list[StoreRefusedError] = []

    async def one(number: int) -> None:
        try:
            results[number] = await receive(parts, parcels[number], sender)
        except StoreRefusedError as error:
            refusals.append(error)

    for start in range(0, len(parcels), AT_ONCE):
        async with anyio.create_task_group() as tasks:
            for number in range(start, min(start + AT_ONCE, len(parcels))):
                tasks.start_soon(one, number)
        if refusals:
            raise refusals[0]
    return [results[number] for number in range(len(parcels))]


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
        parts.hear()  # nobody is known to have it; then, that the sender is
    if outcome != DELETED:
        parts.ledger.held(sender, [key[1:]])
    return outcome, member
