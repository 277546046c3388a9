"""How do missing captures come here? From several holders at once, each asked for what few others could give.

Wanted captures are in memory only: arrived ones are durable, and the next comparison finds the others missing again.
So a peer that is killed in the middle loses only the rest of a question.

May this parcel come in? Each is taken apart, checked and stored here, or refused, however it came.
"""

import logging
from collections.abc import Callable, Sequence
from contextlib import aclosing

import anyio
import anyio.abc

from herodotus.copies import wire
from herodotus.copies.shared_state import Parts
from herodotus.copies.wire import BROKEN, DELETED, KNOWN, NOT_MINE, STORED, UNSIGNED, outcome_of
from herodotus.core.captures import CaptureId, Deposit
from herodotus.core.copies import PeerKey
from herodotus.core.doors import Passage, TurnedAway, through
from herodotus.core.errors import ArchiveError, MalformedError, MalformedRecordError, StoreRefusedError
from herodotus.core.index_rows import capture_key
from herodotus.core.reconciliation import member_of
from herodotus.core.signatures import signer_of
from herodotus.peers.calls import CallError
from herodotus.store import Lying, Packed, StoreOutcome, is_within

logger = logging.getLogger(__name__)

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
"""Unpacked. Nearly all pages are smaller; larger captures are checked piece by piece, one at a time."""
_BOOKED = (16 << 10, 64 << 10, 256 << 10, LIGHT_BYTES_MAX)
"""What a parcel that holds no more is booked for, times the copies."""
COPIES_MADE = 4
"""Of a capture while it is unpacked and stored: content, block, body, and the record that is written."""


async def receive_all(parts: Parts, parcels: Sequence[Lying], sender: PeerKey) -> list[tuple[int, bytes]]:
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


async def receive(parts: Parts, data: Lying, sender: PeerKey) -> tuple[int, bytes]:
    """What became of it, and which member it was (empty when that cannot be said). Durable when it returns.

    Raises StoreRefusedError when the disk cannot take it: then nothing of it is to blame.
    """
    # A few kilobytes may unfold to as much as a capture may be: what they hold is found out before it is held.
    most = next((most for most in _BOOKED if is_within(data, most)), None)
    try:
        if most is None:
            async with parts.unpacking:
                deposit, packed = await parts.opened().check(data)
                return await _take_in(parts, deposit, sender, packed)
        async with parts.unpacked.held(sender, COPIES_MADE * most):
            deposit = await parts.opened().unpack(data, most)
            return await _take_in(parts, deposit, sender)
    except MalformedRecordError:
        parts.counts.refused += 1
        parts.suspects.note(sender, "broken parcel")
        return BROKEN, b""


async def _take_in(
    parts: Parts, deposit: Deposit, sender: PeerKey, packed: Packed | None = None
) -> tuple[int, bytes]:
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
    passage: Passage | None = None
    if parts.doors is not None:
        ruling = await parts.doors.judge(parts, deposit, signer, sender)
        if isinstance(ruling, TurnedAway):
            parts.counts.refused += 1
            return outcome_of(ruling), member
        passage, deposit = ruling, through(ruling, deposit)
    parts.receiving.add(key)
    outcome = BROKEN
    try:
        taken = await parts.opened().take(deposit, packed)
        outcome = _OUTCOMES[taken.outcome]
    except MalformedRecordError:
        return BROKEN, member
    finally:
        parts.receiving.discard(key)
        if parts.doors is not None and passage is not None:
            parts.doors.came(parts, deposit, signer, passage, is_new=outcome == STORED)
    if outcome == STORED:
        parts.counts.received += 1
        parts.counts.disputed += taken.is_disputed
        parts.hear()  # nobody is known to have it; then, that the sender is
        parts.on_received(deposit, signer)
    if outcome != DELETED:
        parts.ledger.held(sender, [key[1:]])
    return outcome, member


ASKED_AT_ONCE = 256
TOGETHER_BYTES = 1 << 20
"""Of what arrives, stored with one flush of the disk."""
SOURCES_AT_ONCE = 4
GIVEN_MIN = 0.5
"""Share of what was asked. A peer that gives less announced too much, and must not keep others from being asked."""
DEADLINE_S = 300.0
"""For what was asked at once; the budget of a slow line gives some 40 MB in it."""
REST_S = 30.0
"""After the disk refused: it is full, and only its operator can help."""


class Puller:
    def __init__(self, parts: Parts, *, on_more: Callable[[PeerKey], None]) -> None:
        """`on_more`: the peer gave all that was known of, and has more."""
        self._parts = parts
        self._on_more = on_more
        self._changed = anyio.Event()
        self._busy: set[PeerKey] = set()

    def poke(self) -> None:
        """There is something new to fetch."""
        self._changed.set()

    async def run(self) -> None:
        async with anyio.create_task_group() as tasks:
            while True:
                self._changed = anyio.Event()
                for source in self._parts.wanted.sources():
                    if len(self._busy) < SOURCES_AT_ONCE and source not in self._busy:
                        self._busy.add(source)
                        tasks.start_soon(self._fetch_from, source)
                await self._changed.wait()

    async def _fetch_from(self, source: PeerKey) -> None:
        """One question; the next may be another source's turn."""
        members = self._parts.wanted.take(source, ASKED_AT_ONCE)
        wanted = self._parts.wanted
        try:
            settled = await fetch(self._parts, source, members) if members else set()
            if len(settled) < len(members) * GIVEN_MIN:
                wanted.lost(source)
        except ArchiveError as error:
            logger.warning("copies cannot be stored, fetching pauses error=%s", error)
            settled = set()
            await anyio.sleep(REST_S)
        finally:
            self._busy.discard(source)
        for member in members:
            if member in settled:
                wanted.got(member)
            else:
                wanted.failed(member, source)
        if wanted.has_more(source):
            self._on_more(source)
        self._changed.set()


async def fetch(parts: Parts, source: PeerKey, members: Sequence[bytes]) -> set[bytes]:
    """Take these from a peer; those of which at least one capture is here now. Raises StoreRefusedError."""
    contact = parts.contact(source)
    settled: set[bytes] = set()
    if contact is None:
        parts.wanted.lost(source)
        return settled
    asked = set(members)
    try:
        with anyio.fail_after(DEADLINE_S):
            async with (
                parts.calls().stream(contact, wire.TAKE, wire.encode_list(members)) as pieces,
                aclosing(wire.read_frames(pieces, parts.fetching_large, parts.opened())) as frames,
            ):
                parcels: list[Lying] = []
                async for frame in frames:
                    await parts.download.spend(len(frame.data))
                    if _is_parcel(parts, source, frame, asked):
                        parcels.append(frame.data)
                    if sum(map(len, parcels)) >= TOGETHER_BYTES:
                        await _take(parts, source, parcels, asked, settled)
                        parcels = []
                await _take(parts, source, parcels, asked, settled)
    except (CallError, TimeoutError):
        parts.wanted.lost(source)
    except MalformedError:
        parts.suspects.note(source, "malformed answer")
        parts.wanted.lost(source)
    return settled


def _is_parcel(parts: Parts, source: PeerKey, frame: wire.CopyFrame, asked: set[bytes]) -> bool:
    if frame.kind == wire.MISSING:
        if frame.data not in asked:
            raise MalformedError("an answer to another question")
        parts.suspects.note(source, "has not what it announced")
        return False
    if frame.kind != wire.PARCEL:
        raise MalformedError("only parcels were asked for")
    return True


async def _take(
    parts: Parts, source: PeerKey, parcels: list[Lying], asked: set[bytes], settled: set[bytes]
) -> None:
    for outcome, member in await receive_all(parts, parcels, source):
        if member and member not in asked:
            raise MalformedError("a capture that nobody asked for")
        if outcome in wire.HELD or outcome == wire.DELETED:
            settled.add(member)
            parts.counts.pulled += outcome == wire.STORED
