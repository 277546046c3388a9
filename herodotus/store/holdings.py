"""How does the archive answer other holders of the same share? The face `Holdings`, over log, files and index.

Reading the index or a file is a job for the store's workers. It sees the archive as it is when the job runs.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from itertools import islice
from typing import NamedTuple, TypeVar

from herodotus.core.captures import CaptureId, Deposit
from herodotus.core.copies.proofs import VERSIONS_MAX, Proof, prove
from herodotus.core.digests import keys_of_member, member_of
from herodotus.core.disputes import disputed
from herodotus.core.index_rows import CAPTURE, after, capture_key, decode_entry
from herodotus.core.signatures import SIGNATURE, voucher_in
from herodotus.store.engine import Archive
from herodotus.store.faces import Broken, Held, OnStored, Parcel, Sign, Stretch, Taken
from herodotus.store.intake import StoreOutcome
from herodotus.store.parcels import (
    buried,
    bury,
    count_captures,
    drop,
    has_member,
    keys_beside_others,
    keys_in,
    keys_of,
    member_after,
    members_in,
    parcel_at,
    parcels_of,
    unpacked,
)
from herodotus.store.reader import Reader
from herodotus.store.store import READING, UPKEEP, Acknowledge, DiskStore

T = TypeVar("T")
_NEW = (StoreOutcome.NEW, StoreOutcome.REVISIT)


class ArchiveHoldings:
    """Implements `herodotus.store.Holdings`; it keeps nothing of its own, so any number may stand on one store."""

    def __init__(self, store: DiskStore) -> None:
        self._store = store
        self._archive = store.archive

    async def _read(self, job: Callable[[Archive], T]) -> T:
        return await self._store.workers.work(lambda: job(self._archive), READING)

    # -- changes ------------------------------------------------------------------------------------------

    @property
    def captures(self) -> int:
        return self._archive.captures

    @property
    def stamp(self) -> object:
        return self._archive.directories, self._archive.directories.changes

    @property
    def counted(self) -> tuple[int, int]:
        return self._archive.captures, self._archive.rewrites

    def listen(self, on_stored: OnStored, *, sign: Sign, acknowledge: Acknowledge | None = None) -> None:
        self._archive.sign, self._archive.on_stored = sign, on_stored
        if acknowledge is not None:
            self._store.acknowledge = acknowledge

    # -- what there is ------------------------------------------------------------------------------------

    async def digests(self, low: bytes, high: bytes | None) -> dict[int, bytes]:
        return await self._store.workers.work(lambda: digests_of(self._archive, low, high), UPKEEP)

    async def members(self, stretches: Sequence[Stretch]) -> list[bytes]:
        return await self._read(
            lambda archive: [one for pair in stretches for one in members_in(archive, *pair)]
        )

    async def keys(self, stretches: Sequence[Stretch], *, beside_others: bool = False) -> list[bytes]:
        asked = keys_beside_others if beside_others else keys_in
        return await self._read(lambda archive: [key for pair in stretches for key in asked(archive, *pair)])

    async def counts(self, stretches: Sequence[Stretch]) -> list[int]:
        return await self._read(lambda archive: [count_captures(archive, *pair) for pair in stretches])

    async def keys_of(self, members: Sequence[bytes]) -> set[bytes]:
        return await self._read(lambda archive: {key for one in members for key in keys_of(archive, one)})

    async def drawn(self, places: Sequence[tuple[bytes, Stretch]]) -> dict[bytes, list[bytes]]:
        return await self._read(lambda archive: _drawn(archive, places))

    async def lacking(self, members: Sequence[bytes]) -> list[bytes]:
        return await self._read(lambda archive: [one for one in members if not has_member(archive, one)])

    async def held(self, keys: Sequence[bytes]) -> list[Held]:
        return await self._read(lambda archive: [_held(archive, key) for key in keys])

    async def broken(self, noted: int, known: Iterable[bytes], *, may_scan: bool, most: int) -> Broken:
        return await self._read(lambda archive: _broken(archive, noted, known, may_scan=may_scan, most=most))

    # -- what travels -------------------------------------------------------------------------------------

    async def parcel(self, key: bytes, sign: Sign) -> Parcel | None:
        return await self._read(lambda archive: parcel_at(archive, key, sign))

    async def parcels(self, member: bytes, sign: Sign) -> list[Parcel]:
        return await self._read(lambda archive: list(parcels_of(archive, member, sign)))

    async def buried(self, member: bytes) -> list[bytes]:
        return await self._read(lambda archive: buried(archive, member))

    async def proofs(self, members: Sequence[bytes], nonce: bytes) -> list[list[Proof]]:
        return await self._read(lambda archive: [_proofs(archive, one, nonce) for one in members])

    async def unpack(self, parcel: bytes, bytes_max: int) -> Deposit:
        return await self._read(lambda _archive: unpacked(parcel, bytes_max))

    async def take(self, deposit: Deposit) -> Taken:
        outcome = (await self._store.store(deposit)).outcome
        is_disputed = outcome in _NEW and await self._read(lambda archive: _is_disputed(archive, deposit))
        return Taken(outcome, is_disputed)

    # -- what goes ----------------------------------------------------------------------------------------

    async def drop(self, low: bytes, high: bytes | None, may_go: Callable[[], bool]) -> int:
        return await self._read(lambda archive: drop(archive, self._store.intake, low, high, may_go))

    async def bury(self, keys: Collection[bytes]) -> int:
        return await self._read(lambda archive: bury(archive, self._store.intake, keys))

    async def compact(self) -> None:
        await self._store.compact()


def digests_of(archive: Archive, low: bytes, high: bytes | None) -> dict[int, bytes]:
    with archive.lock:
        return archive.directories.digests(low, high)


def _drawn(archive: Archive, places: Sequence[tuple[bytes, Stretch]]) -> dict[bytes, list[bytes]]:
    found: dict[bytes, list[bytes]] = {}
    for position, (low, high) in places:
        member = member_after(archive, position, high) or member_after(archive, low, high)
        if member is not None:
            found[member] = keys_of(archive, member)
    return found


def _held(archive: Archive, key: bytes) -> Held:
    if archive.is_deleted(CAPTURE + key):
        return Held.DELETED
    return Held.LACKING if archive.index.get(CAPTURE + key) is None else Held.HERE


def _proofs(archive: Archive, member: bytes, nonce: bytes) -> list[Proof]:
    reader = Reader(archive)
    found: list[Proof] = []
    for key, value in archive.index.scan(*keys_of_member(member[:-1] + CAPTURE)):
        capture = reader.try_read(key, value)
        if capture is not None and len(found) < VERSIONS_MAX:
            proof = prove(nonce, capture.id.digest, capture.body)
            found.append(Proof(time_s=capture.time_s, digest=capture.id.digest, proof=proof))
    return found


class _Vouched(NamedTuple):
    id: CaptureId
    voucher: str


def _is_disputed(archive: Archive, deposit: Deposit) -> bool:
    """Does somebody else vouch for another content of that day? Most days have one capture: then nothing is read."""
    start, end = keys_of_member(member_of(capture_key(deposit.id)))
    entries = list(islice(archive.index.scan(start, end), VERSIONS_MAX))
    if len(entries) < 2:
        return False
    of_day = (Reader(archive).try_read(key, value) for key, value in entries)
    vouched = [_Vouched(one.id, voucher_in(one.record.get(SIGNATURE))) for one in of_day if one is not None]
    return deposit.id in disputed(vouched)


def _broken(archive: Archive, noted: int, known: Iterable[bytes], *, may_scan: bool, most: int) -> Broken:
    count = archive.counters.damaged
    is_scan = may_scan and count != noted
    if not is_scan:
        entries = ((key, archive.index.get(key)) for key in sorted(known))
    else:
        entries = ((key, value) for key, value in archive.index.scan(CAPTURE, after(CAPTURE)))
    broken: list[bytes] = []
    for key, value in entries:
        if value is not None and _is_at_damage(archive, value):
            broken.append(key)
            if len(broken) >= most:
                return Broken(noted, broken, is_scan)
    return Broken(count if is_scan else noted, broken, is_scan)


def _is_at_damage(archive: Archive, value: bytes) -> bool:
    place = decode_entry(value).place
    located = archive.files.catalogue.get(place.file)
    return located is not None and (archive.files.path(place.file), place.offset) in archive.damage
