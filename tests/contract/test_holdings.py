"""What `Holdings` promises to the other holders, on every implementation."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from herodotus.core.captures import CaptureId, Deposit, LargeBody
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import TOMBSTONE, capture_key, decode_entry
from herodotus.core.reconciliation import member_of
from herodotus.core.signatures import prove, signed
from herodotus.store import Checked, Held, Holdings, Parcel, StoreOutcome
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.store import DiskStore
from tests.contract.opened_stores import KINDS, opened_store
from tests.herodotus.store.copying import take, unpack
from tests.herodotus.store.making import NOW_S, page
from tests.herodotus.store.memory_store import MemoryStore

pytestmark = pytest.mark.anyio
URL = "http://example.org/"
ALL = (bytes(12), None)
DAY_S = 86_400


class Opened(NamedTuple):
    store: DiskStore
    holdings: Holdings


@pytest.fixture(params=KINDS)
async def opened(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Opened]:
    async with opened_store(request.param, tmp_path) as store:
        yield Opened(store, ArchiveHoldings(store))


def unsigned(deposit: Deposit) -> Deposit:
    return deposit


def key_of(id_: CaptureId) -> bytes:
    return capture_key(id_)[1:]


def member(deposit: Deposit) -> bytes:
    return member_of(capture_key(deposit.id))


def key_number(number: int) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32)


async def sent_of(holdings: Holdings, member: bytes) -> list[Parcel]:
    found = [await holdings.parcel(key, unsigned) for key in sorted(await holdings.keys_of([member]))]
    return [one for one in found if one is not None]


async def test_what_is_stored_is_counted_listed_and_held(opened: Opened) -> None:
    store, holdings = opened
    first, again, other = page(URL, NOW_S, b"1"), page(URL, NOW_S + 1, b"2"), page(f"{URL}other", NOW_S, b"3")
    for deposit in (first, again, other):
        await store.store(deposit)
    assert holdings.captures == 3
    assert await holdings.counts([ALL, (b"\xff" * 12, None)]) == [3, 0]
    assert await holdings.members([ALL]) == sorted([member(first), member(other)])
    assert await holdings.keys([ALL]) == sorted(key_of(one.id) for one in (first, again, other))
    assert await holdings.keys([ALL], beside_others=True) == sorted([key_of(first.id), key_of(again.id)])
    assert await holdings.keys_of([member(first)]) == {key_of(first.id), key_of(again.id)}
    absent = page(f"{URL}absent", NOW_S)
    assert await holdings.held([key_of(first.id), key_of(absent.id)]) == [Held.HERE, Held.LACKING]
    assert await holdings.lacking([member(first), member(absent)]) == [member(absent)]


async def test_equal_stamps_mean_equal_digests_and_counts(opened: Opened) -> None:
    store, holdings = opened
    seen: dict[object, object] = {}
    counted: dict[object, object] = {}
    for number in range(6):
        # Of two contents on one day the second changes no digest.
        await store.store(page(f"{URL}{number // 2}", NOW_S, b"%d" % number))
        for _ in range(2):
            digests = await holdings.digests(*ALL)
            assert seen.setdefault(holdings.stamp, digests) == digests
            counts = await holdings.counts([ALL])
            assert counted.setdefault(holdings.counted, counts) == counts
    assert len(await holdings.digests(*ALL)) == 3
    assert len(seen) >= 3


async def test_equal_captures_have_equal_digests(opened: Opened) -> None:
    store, holdings = opened
    other = MemoryStore(lambda: 0.0)
    there = ArchiveHoldings(other)
    deposits = [page(f"http://example.org/{n}", NOW_S, b"%d" % n) for n in range(20)]
    for deposit in deposits:
        await store.store(deposit)
    for deposit in reversed(deposits):
        await other.store(deposit)
    digests = await holdings.digests(b"", None)
    assert digests == await there.digests(b"", None)
    await other.delete([deposits[3].id])
    changed = await there.digests(b"", None)
    ((directory, _), _) = set(digests.items()) ^ set(changed.items())
    assert directory == int.from_bytes(deposits[3].key[:2], "big")


async def test_what_is_drawn_is_read_with_all_its_contents_and_what_is_not_there_is_said(
    opened: Opened,
) -> None:
    store, holdings = opened
    first = page(URL, NOW_S, b"first")
    later = page(URL, NOW_S + 60, b"second that day")
    for deposit in (first, later):
        await store.store(deposit)
    ((low, high, count),) = await holdings.tallies(*ALL)
    assert count == 1  # URLs on a day
    assert low[:2] == first.key[:2]
    taken: list[tuple[int, bytes, bytes | LargeBody]] = []
    drawn = await holdings.draw(
        [(low, high, 0), (low, high, 1)],
        lambda number, digest, payload: taken.append((number, digest, payload)),
    )
    assert drawn == [member(first), b""]
    assert taken == [(0, one.capture.sha256, one.capture.body) for one in (first, later)]
    await store.delete([first.id])
    ((_, _, count),) = await holdings.tallies(*ALL)
    assert count == 1
    await store.delete([later.id])
    ((_, _, count),) = await holdings.tallies(*ALL)
    assert count == 0  # what is buried is compared, and not drawn


async def test_payloads_are_read_in_order_and_the_missing_named(opened: Opened) -> None:
    store, holdings = opened
    deposit, nowhere = page(URL, NOW_S, b"body"), page(f"{URL}nowhere", NOW_S)
    await store.store(deposit)
    taken: list[tuple[bytes, bytes | LargeBody]] = []
    keys = [key_of(nowhere.id), key_of(deposit.id)]
    missing = await holdings.payloads(keys, lambda digest, payload: taken.append((digest, payload)))
    assert missing == keys[:1]
    assert taken == [(deposit.capture.sha256, b"body")]


async def test_a_parcel_is_taken_in_elsewhere_as_the_same_capture(opened: Opened) -> None:
    store, holdings = opened
    there = ArchiveHoldings(MemoryStore(lambda: float(NOW_S)))
    deposit = page(URL, NOW_S, b"body")
    await store.store(deposit)
    parcel = await holdings.parcel(key_of(deposit.id), unsigned)
    assert parcel is not None
    assert [one.data for one in await sent_of(holdings, member(deposit))] == [parcel.data]
    arrived = await unpack(there, parcel.data)
    assert (arrived.id, arrived.capture.body) == (deposit.id, b"body")
    assert (await take(there, arrived)).outcome is StoreOutcome.NEW
    assert (await take(there, arrived)).outcome is StoreOutcome.KNOWN
    assert await there.digests(*ALL) == await holdings.digests(*ALL)
    assert await there.proofs([member(deposit)], b"n" * 16) == await holdings.proofs(
        [member(deposit)], b"n" * 16
    )
    assert await holdings.parcel(key_of(page(f"{URL}absent", NOW_S).id), unsigned) is None


async def test_what_is_no_parcel_or_too_large_is_refused(opened: Opened) -> None:
    store, holdings = opened
    deposit = page(URL, NOW_S, bytes(10_000))
    await store.store(deposit)
    parcel = await holdings.parcel(key_of(deposit.id), unsigned)
    assert parcel is not None
    for data in (b"x", parcel.data[:-9]):
        with pytest.raises(MalformedRecordError):
            await unpack(holdings, data)
    sent = parcel.data[:]
    assert await holdings.check_all([sent], 1_000) == []
    assert [type(one) for one in await holdings.check_all([b"x", sent, sent], 15_000)] == [
        MalformedRecordError,
        Checked,
    ]


async def test_a_content_for_which_another_peer_vouches_makes_a_day_disputed(opened: Opened) -> None:
    _, holdings = opened
    mine, own_again, theirs = (
        signed(key_number(key), page(URL, NOW_S + at, body))
        for key, at, body in ((1, 0, b"a"), (1, 1, b"b"), (2, 2, b"c"))
    )
    taken = [await take(holdings, one) for one in (mine, own_again, theirs, theirs)]
    assert [one.is_disputed for one in taken] == [False, False, True, False]


async def test_the_guard_decides_whether_something_is_dropped_and_may_change_its_mind(opened: Opened) -> None:
    store, holdings = opened
    deposit = page(URL, NOW_S)
    await store.store(deposit)
    asked: list[bool] = []

    def first_only() -> bool:
        asked.append(not asked)
        return asked[-1]

    keys = [key_of(deposit.id)]
    assert await holdings.drop(*ALL, keys, lambda: False) == 0
    assert await holdings.drop(*ALL, keys, first_only) == 0  # it is asked again before anything goes
    assert len(asked) == 2
    assert holdings.captures == 1
    before = holdings.stamp, holdings.counted
    assert await holdings.drop(*ALL, [], lambda: True) == 0  # nothing else than what is named
    assert await holdings.drop(*ALL, keys, lambda: True) == 1
    assert (holdings.stamp, holdings.counted) != before
    assert await holdings.held([key_of(deposit.id)]) == [Held.LACKING]
    assert (await take(holdings, deposit)).outcome is StoreOutcome.NEW


async def test_what_was_deleted_is_said_to_be_and_does_not_come_back(opened: Opened) -> None:
    store, holdings = opened
    deposit = page(URL, NOW_S)
    await store.store(deposit)
    assert await store.delete([deposit.id]) == 1
    assert await holdings.held([key_of(deposit.id)]) == [Held.DELETED]
    assert await holdings.buried(member(deposit)) == [key_of(deposit.id)]
    assert await holdings.lacking([member(deposit)]) == []
    assert await holdings.members([ALL]) == [member(deposit)[:-1] + TOMBSTONE]
    assert (await take(holdings, deposit)).outcome is StoreOutcome.DELETED


async def test_a_proof_needs_the_body_and_the_nonce(opened: Opened) -> None:
    store, holdings = opened
    deposit = page(URL, NOW_S, b"body")
    await store.store(deposit)
    nothing, [proof] = await holdings.proofs([member(page(URL, NOW_S + DAY_S)), member(deposit)], b"1" * 16)
    assert nothing == []
    assert (proof.time_s, proof.digest) == (NOW_S, deposit.capture.sha256)
    assert proof.proof == prove(b"1" * 16, deposit.capture.sha256, b"body")
    assert proof.proof != prove(b"2" * 16, deposit.capture.sha256, b"body")


async def test_what_comes_in_is_signed_and_told_of(opened: Opened) -> None:
    store, holdings = opened
    told: list[CaptureId] = []
    waited: list[CaptureId] = []

    async def acknowledge(id_: CaptureId) -> None:
        waited.append(id_)

    key = key_number(1)
    holdings.listen(told.extend, sign=lambda deposit: signed(key, deposit), acknowledge=acknowledge)
    deposit = page(URL, NOW_S)
    await store.store(deposit)
    assert told == waited == [deposit.id]
    [parcel] = await sent_of(holdings, member(deposit))
    arrived = await unpack(holdings, parcel.data)
    assert signed(key_number(2), arrived) is arrived  # somebody vouches for it already


async def test_the_damaged_is_found_and_a_whole_copy_repairs_it(opened: Opened) -> None:
    store, holdings = opened
    deposits = [page(f"{URL}{number}", NOW_S) for number in range(3)]
    for deposit in deposits:
        await store.store(deposit)
    assert (await holdings.broken(0, (), may_scan=True, most=10)).keys == []
    archive, key = store.archive, capture_key(deposits[1].id)
    value = archive.index.get(key)
    assert value is not None
    place = decode_entry(value).place
    archive.note_damage(place.file, place.offset, "rotten")
    assert (await holdings.broken(0, (), may_scan=False, most=10)).keys == []
    found = await holdings.broken(0, (), may_scan=True, most=10)
    assert (found.noted, found.keys, found.is_scan) == (1, [key], True)
    assert (await holdings.broken(found.noted, found.keys, may_scan=True, most=10)).keys == [key]
