"""How do missing captures come here? From several holders at once, each asked for what few others could give.

Wanted captures are in memory only: arrived ones are durable, and the next comparison finds the others missing again.
So a peer that is killed in the middle loses only the rest of a question.

May these parcels come in? They are taken apart, checked and stored here in lists, or refused, however they came.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass

import anyio
import anyio.abc

from herodotus.copies import wire
from herodotus.copies.shared_state import Parts
from herodotus.copies.wire import BROKEN, DELETED, KNOWN, NOT_MINE, STORED, UNSIGNED, outcome_of
from herodotus.core.copies import PeerKey
from herodotus.core.doors import Passage, TurnedAway, through
from herodotus.core.errors import ArchiveError, MalformedError, MalformedRecordError
from herodotus.core.index_rows import capture_key
from herodotus.core.reconciliation import member_of
from herodotus.peers.calls import CallError
from herodotus.store import Checked, Lying, OnDisk, StoreOutcome, Taken

logger = logging.getLogger(__name__)

_OUTCOMES = {
    StoreOutcome.NEW: STORED,
    StoreOutcome.REVISIT: STORED,
    StoreOutcome.KNOWN: KNOWN,
    StoreOutcome.DELETED: DELETED,
}


AT_ONCE = 64
"""Parcels that are checked in one go, and share a look at the index and a flush of the disk."""
LIGHT_BYTES_MAX = 1 << 20
"""Unpacked, of all parcels that are checked in one go. A larger capture is checked piece by piece, one at a time."""
COPIES_MADE = 4
"""Of what parcels hold while they are unpacked and stored: content, block, body, and the records that are written."""
_BOOKED_MIN = 16 << 10
_UNFOLDS = 16
"""A page takes a third to a tenth of its bytes on its way. What unfolds to more than this is tried a second time."""


async def receive_all(parts: Parts, parcels: Sequence[Lying], sender: PeerKey) -> list[tuple[int, bytes]]:
    """What became of each, in order, and which member it was (empty when that cannot be said). Durable when it returns.

    Raises StoreRefusedError when the disk refused one of them: then nothing of it is to blame.
    """
    results: list[tuple[int, bytes]] = []
    bytes_max = 0
    while (at := len(results)) < len(parcels):
        some = _next_list(parcels, at)
        bytes_max = max(bytes_max, _booked(some))
        found = await _receive_list(parts, some, sender, bytes_max) if some else []
        if found:
            bytes_max = 0
        elif some and bytes_max < LIGHT_BYTES_MAX:
            bytes_max = LIGHT_BYTES_MAX  # the first unfolds to more than parcels of its length do
        else:
            found, bytes_max = [await _receive_large(parts, parcels[at], sender)], 0
        results += found
    return results


def _next_list(parcels: Sequence[Lying], start: int) -> list[bytes]:
    """Those that may be checked in one go; none if the first is too large for that."""
    some: list[bytes] = []
    size = 0
    for data in parcels[start : start + AT_ONCE]:
        size += len(data)
        if size > LIGHT_BYTES_MAX or isinstance(data, OnDisk):
            break
        some.append(bytes(data))
    return some


def _booked(some: Sequence[bytes]) -> int:
    """A few kilobytes may unfold to as much as a capture may be: it is bounded before it is unpacked."""
    return min(LIGHT_BYTES_MAX, max(_BOOKED_MIN, _UNFOLDS * sum(map(len, some))))


async def _receive_list(
    parts: Parts, some: Sequence[bytes], sender: PeerKey, bytes_max: int
) -> list[tuple[int, bytes]]:
    """Of the first of these, as many as hold no more than that together."""
    async with parts.unpacked.held(sender, COPIES_MADE * bytes_max):
        return await _take_in(parts, await parts.opened().check_all(some, bytes_max), sender)


async def _receive_large(parts: Parts, data: Lying, sender: PeerKey) -> tuple[int, bytes]:
    arrived: Checked | MalformedRecordError
    async with parts.unpacking:
        try:
            arrived = await parts.opened().check(data)
        except MalformedRecordError as error:
            arrived = error
        (result,) = await _take_in(parts, [arrived], sender)
    return result


@dataclass(slots=True)
class _Arrival:
    """A sound parcel that somebody vouches for, and what is decided about it."""

    checked: Checked
    signer: PeerKey
    key: bytes
    passage: Passage | None = None


async def _take_in(
    parts: Parts, arrived: Sequence[Checked | MalformedRecordError], sender: PeerKey
) -> list[tuple[int, bytes]]:
    results: list[tuple[int, bytes]] = []
    sound: dict[int, _Arrival] = {}
    for number, one in enumerate(arrived):
        if isinstance(one, MalformedRecordError):
            parts.counts.refused += 1
            parts.suspects.note(sender, "broken parcel")
            results.append((BROKEN, b""))
            continue
        key = capture_key(one.deposit.id)
        results.append((BROKEN, member_of(key)))
        if not parts.view.may_hold(one.deposit.key):
            parts.counts.refused += 1
            results[number] = NOT_MINE, member_of(key)
        elif one.signer is None:
            parts.counts.refused += 1
            parts.suspects.note(sender, "a signature that does not fit")
            results[number] = UNSIGNED, member_of(key)
        else:
            parts.offers.came(key[1:])
            sound[number] = _Arrival(one, one.signer, key)
    for number, why in (await _turned_away(parts, sound, sender)).items():
        parts.counts.refused += 1
        results[number] = outcome_of(why), results[number][1]
        del sound[number]
    for number, outcome in (await _store(parts, sound, sender)).items():
        results[number] = outcome, results[number][1]
    return results


async def _turned_away(parts: Parts, sound: Mapping[int, _Arrival], sender: PeerKey) -> dict[int, TurnedAway]:
    """The doors by which they come in are noted with them; those that find none are left."""
    turned_away: dict[int, TurnedAway] = {}
    doors = parts.doors
    if doors is None:
        return turned_away

    def note(number: int, ruling: Passage | TurnedAway) -> None:
        arrival = sound[number]
        if isinstance(ruling, TurnedAway):
            turned_away[number] = ruling
            return
        arrival.passage = ruling
        deposit = through(ruling, arrival.checked.deposit)
        if deposit is not arrival.checked.deposit:
            arrival.checked = arrival.checked._replace(deposit=deposit, members=None)

    async def judge(number: int, arrival: _Arrival) -> None:
        note(number, await doors.judge(parts, arrival.checked.deposit, arrival.signer, sender))

    # Those about which others must be asked are asked about together.
    async with anyio.create_task_group() as tasks:
        for number, arrival in sound.items():
            ruling = doors.judge_at_once(parts, arrival.checked.deposit, arrival.signer, sender)
            if ruling is None:
                tasks.start_soon(judge, number, arrival)
            else:
                note(number, ruling)
    return turned_away


async def _store(parts: Parts, sound: Mapping[int, _Arrival], sender: PeerKey) -> dict[int, int]:
    if not sound:
        return {}
    outcomes = dict.fromkeys(sound, BROKEN)
    errors: list[ArchiveError] = []
    new: list[_Arrival] = []
    keys = {arrival.key for arrival in sound.values()}
    parts.receiving |= keys
    try:
        taken = await parts.opened().take_all([arrival.checked for arrival in sound.values()])
        for number, one in zip(sound, taken, strict=True):
            if isinstance(one, Taken):
                outcomes[number] = _OUTCOMES[one.outcome]
                parts.counts.disputed += one.is_disputed
            elif not isinstance(one, MalformedRecordError):
                errors.append(one)
    finally:
        parts.receiving -= keys
        for number, arrival in sound.items():
            is_new = outcomes[number] == STORED
            if is_new:
                new.append(arrival)
            if parts.doors is not None and arrival.passage is not None:
                deposit, signer, passage = arrival.checked.deposit, arrival.signer, arrival.passage
                parts.doors.came(parts, deposit, signer, passage, is_new=is_new)
    parts.counts.received += len(new)
    if new:
        parts.hear()  # nobody is known to have them; then, that the sender has
    for arrival in new:
        parts.on_received(arrival.checked.deposit, arrival.signer)
    here = [arrival.key[1:] for number, arrival in sound.items() if outcomes[number] in wire.HELD]
    parts.ledger.held(sender, here)
    if errors:
        raise errors[0]
    return outcomes


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
