"""May this parcel come in? Whatever way it came, each is taken apart, checked and stored here, or refused."""

from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import anyio

from herodotus.copies.shared_state import Parts
from herodotus.copies.wire import BROKEN, DELETED, KNOWN, NOT_MINE, STORED, UNSIGNED, VERSIONS_MAX
from herodotus.core.archive_errors import MalformedRecordError, StoreRefusedError
from herodotus.core.captures import CaptureId, Deposit
from herodotus.core.copies import PeerKey
from herodotus.core.digests import keys_of_member, member_of
from herodotus.core.disputes import disputed
from herodotus.core.index_rows import capture_key
from herodotus.core.signatures import SIGNATURE, signer_of, voucher_in
from herodotus.store.engine import Archive
from herodotus.store.intake import StoreOutcome
from herodotus.store.members import MEMBER_BYTES_MAX
from herodotus.store.parcels import unpacked
from herodotus.store.reader import Reader

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
        return await parts.opened_store().work(lambda _archive, _intake: unpacked(data, bytes_max))
    except MalformedRecordError:
        return None


async def _take_in(parts: Parts, deposit: Deposit, sender: PeerKey) -> tuple[int, bytes]:
    store = parts.opened_store()
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
        outcome = _OUTCOMES[(await store.store(deposit)).outcome]
    except MalformedRecordError:
        return BROKEN, member
    finally:
        parts.receiving.discard(key)
    if outcome == STORED:
        parts.counts.received += 1
        if await store.work(lambda archive, _intake: _is_disputed(archive, deposit)):
            parts.counts.disputed += 1
        parts.hear()  # nobody is known to have it; then, that the sender is
        parts.on_received(deposit, signer)
    if outcome != DELETED:
        parts.ledger.held(sender, [key[1:]])
    return outcome, member


class CheckedParcel(NamedTuple):
    id: CaptureId
    voucher: str


def _is_disputed(archive: Archive, deposit: Deposit) -> bool:
    """Does somebody else vouch for another content of that day? Most days have one capture: then nothing is read."""
    start, end = keys_of_member(member_of(capture_key(deposit.id)))
    entries = list(islice(archive.index.scan(start, end), VERSIONS_MAX))
    if len(entries) < 2:
        return False
    of_day = (Reader(archive).try_read(key, value) for key, value in entries)
    vouched = [
        CheckedParcel(one.id, voucher_in(one.record.get(SIGNATURE))) for one in of_day if one is not None
    ]
    return deposit.id in disputed(vouched)
