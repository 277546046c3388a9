"""May this parcel come in? Each is taken apart, checked and stored here, or refused, however it came."""

from collections.abc import Sequence

import anyio

from herodotus.copies.shared_state import Parts
from herodotus.copies.wire import BROKEN, DELETED, KNOWN, NOT_MINE, STORED, UNSIGNED
from herodotus.core.captures import CaptureId, Deposit
from herodotus.core.copies import PeerKey
from herodotus.core.digests import member_of
from herodotus.core.errors import MalformedRecordError, StoreRefusedError
from herodotus.core.index_rows import capture_key
from herodotus.core.signatures import signer_of
from herodotus.store import MEMBER_BYTES_MAX, StoreOutcome

_OUTCOMES = {
    StoreOutcome.NEW: STORED,
    StoreOutcome.REVISIT: STORED,
    StoreOutcome.KNOWN: KNOWN,
    StoreOutcome.DELETED: DELETED,
}


def member_of_id(id_: CaptureId) -> bytes:
    return member_of(capture_key(id_))


AT_ONCE = 64
"""Parcels that are stored together: they share a flush of the disk."""
LIGHT_BYTES_MAX = 1 << 20
"""Unpacked; so many parcels at once may take 64 MiB. Nearly all pages are smaller."""


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
    deposit = await _unpacked(parts, data, LIGHT_BYTES_MAX)
    if deposit is not None:
        return await _take_in(parts, deposit, sender)
    async with parts.unpacking:  # a few kilobytes may unfold to what a parcel may hold at most: one at a time
        deposit = await _unpacked(parts, data, MEMBER_BYTES_MAX)
        if deposit is None:
            parts.counts.refused += 1
            parts.suspects.note(sender, "broken parcel")
            return BROKEN, b""
        return await _take_in(parts, deposit, sender)


async def _unpacked(parts: Parts, data: bytes, bytes_max: int) -> Deposit | None:
    """None when it is broken or holds more."""
    try:
        return await parts.opened().unpack(data, bytes_max)
    except MalformedRecordError:
        return None


async def _take_in(parts: Parts, deposit: Deposit, sender: PeerKey) -> tuple[int, bytes]:
    member = member_of_id(deposit.id)
    if not parts.view.may_hold(deposit.key):
        parts.counts.refused += 1
        return NOT_MINE, member
    signer = signer_of(deposit)
    if signer is None:
        parts.counts.refused += 1
        parts.suspects.note(sender, "a signature that does not fit")
        return UNSIGNED, member
    key = capture_key(deposit.id)
    parts.offers.came(key[1:])
    parts.receiving.add(key)
    try:
        taken = await parts.opened().take(deposit)
    except MalformedRecordError:
        return BROKEN, member
    finally:
        parts.receiving.discard(key)
    outcome = _OUTCOMES[taken.outcome]
    if outcome == STORED:
        parts.counts.received += 1
        parts.counts.disputed += taken.is_disputed
        parts.hear()  # nobody is known to have it; then, that the sender is
        parts.on_received(deposit, signer)
    if outcome != DELETED:
        parts.ledger.held(sender, [key[1:]])
    return outcome, member
