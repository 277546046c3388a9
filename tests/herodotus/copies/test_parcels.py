"""What do parcels cost the peer that takes them in?"""

import random
import tracemalloc
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.arcs import WHOLE
from dht.core.holders import Table
from dht.core.placement import Rule
from herodotus.copies import fetch_queue, wire
from herodotus.copies.fetch_queue import LIGHT_BYTES_MAX, receive_all
from herodotus.copies.shared_state import Parts, Room, View
from herodotus.copies.wire import BROKEN, KNOWN, NOT_MINE, STORED, UNSIGNED
from herodotus.core.captures import Deposit
from herodotus.core.copies import PeerKey
from herodotus.core.errors import MalformedRecordError
from herodotus.core.index_rows import capture_key
from herodotus.core.reconciliation import member_of
from herodotus.core.signatures import signed
from herodotus.store import Checked
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.intake import compress_bundle
from herodotus.store.members import decode_member, gzip_member, scan_members
from tests.herodotus.copies.world import new_store
from tests.herodotus.deposits import altered
from tests.herodotus.store.making import NOW_S, page
from tests.herodotus.store.memory_store import AtOnce, MemoryStore

pytestmark = pytest.mark.anyio
SENDER = PeerKey(b"\2" * 32)
KEY = Ed25519PrivateKey.from_private_bytes(b"\3" * 32)


def parcel(number: int, size: int) -> bytes:
    deposit = page(f"http://example.org/{number}", NOW_S, bytes(size) + b"%d" % number)
    return b"".join(compress_bundle(signed(KEY, deposit), None))


async def test_few_kilobytes_that_unfold_to_megabytes_are_taken_in_one_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = new_store()
    parts = Parts(
        view=View(me=bytes(32), table=Table((), Rule(6)), wide_share=WHOLE),
        holdings=lambda: ArchiveHoldings(store),
        calls=lambda: pytest.fail("nobody is called"),
        workers=AtOnce(),
        sign=lambda deposit: deposit,
        random=random.Random(1),
    )
    held_at_once: list[int] = []
    take_in = fetch_queue._take_in

    async def watched(
        parts: Parts, arrived: Sequence[Checked | MalformedRecordError], sender: PeerKey
    ) -> list[tuple[int, bytes]]:
        held_at_once.append(len(arrived))
        return await take_in(parts, arrived, sender)

    monkeypatch.setattr(fetch_queue, "_take_in", watched)
    large = [parcel(number, LIGHT_BYTES_MAX) for number in range(4)]
    small = [parcel(number, 100) for number in range(10, 14)]
    assert [outcome for outcome, _ in await receive_all(parts, large, SENDER)] == [STORED] * 4
    assert held_at_once == [0, 0, 1] * 4, "each is tried as a small one, and once more with more room"
    held_at_once.clear()
    assert [outcome for outcome, _ in await receive_all(parts, small, SENDER)] == [STORED] * 4
    assert held_at_once == [4]
    assert await receive_all(parts, [b"x"], SENDER) == [(BROKEN, b"")]
    assert parts.counts.refused == 1


async def test_of_a_capture_that_was_not_here_is_told_once_and_by_whose_word_it_is() -> None:
    told: list[tuple[str, bytes]] = []
    store = new_store()
    parts = Parts(
        view=View(me=bytes(32), table=Table((), Rule(6)), wide_share=WHOLE),
        holdings=lambda: ArchiveHoldings(store),
        calls=lambda: pytest.fail("nobody is called"),
        workers=AtOnce(),
        sign=lambda deposit: deposit,
        random=random.Random(1),
        on_received=lambda deposit, signer: told.append((deposit.capture.url, signer)),
    )
    await receive_all(parts, [parcel(1, 10)], SENDER)
    await receive_all(parts, [parcel(1, 10), b"broken"], SENDER)
    assert told == [("http://example.org/1", KEY.public_key().public_bytes_raw())]


def forged(deposit: Deposit) -> Deposit:
    """With the signature of another capture."""
    other = signed(KEY, page("http://example.org/other", NOW_S, b"other"))
    return replace(deposit, extra=other.extra)


def bent(deposit: Deposit) -> Deposit:
    """Signed, and changed on the way."""
    vouched = signed(KEY, deposit)
    return altered(vouched, head=vouched.capture.head.replace(b"200 OK", b"200 No"))


@pytest.mark.parametrize("bring", [lambda deposit: deposit, forged, bent])
async def test_what_nobody_vouches_for_is_refused_and_never_vouched_for_by_us(
    bring: Callable[[Deposit], Deposit],
) -> None:
    told: list[str] = []
    store = new_store()
    store.archive.sign = partial(signed, Ed25519PrivateKey.from_private_bytes(b"\4" * 32))
    parts = Parts(
        view=View(me=bytes(32), table=Table((), Rule(6)), wide_share=WHOLE),
        holdings=lambda: ArchiveHoldings(store),
        workers=AtOnce(),
        calls=lambda: pytest.fail("nobody is called"),
        sign=lambda deposit: deposit,
        random=random.Random(1),
        on_received=lambda deposit, _signer: told.append(deposit.capture.url),
    )
    deposit = page("http://example.org/1", NOW_S, b"body")
    data = b"".join(compress_bundle(bring(deposit), None))
    (result,) = await receive_all(parts, [data], SENDER)
    assert result == (UNSIGNED, member_of(capture_key(deposit.id)))
    assert (store.archive.captures, told, parts.counts.refused) == (0, [], 1)
    assert parts.suspects.counts[SENDER]["a signature that does not fit"] == 1


async def test_what_others_have_to_hold_is_not_taken() -> None:
    store = new_store()
    parts = Parts(
        view=View(me=bytes(32), table=Table((), Rule(6))),
        holdings=lambda: ArchiveHoldings(store),
        workers=AtOnce(),
        calls=lambda: pytest.fail("nobody is called"),
        sign=lambda deposit: deposit,
        random=random.Random(1),
    )
    (result,) = await receive_all(parts, [parcel(1, 10)], SENDER)
    assert (result[0], store.archive.captures) == (NOT_MINE, 0)


def parts_of(store: MemoryStore) -> Parts:
    return Parts(
        view=View(me=bytes(32), table=Table((), Rule(6)), wide_share=WHOLE),
        holdings=lambda: ArchiveHoldings(store),
        calls=lambda: pytest.fail("nobody is called"),
        workers=AtOnce(),
        sign=lambda deposit: deposit,
        random=random.Random(1),
    )


def contents(parcel: bytes) -> list[bytes]:
    return [
        content for _, _, content in scan_members(lambda at, size: parcel[at : at + size], 0, len(parcel))
    ]


async def test_a_large_capture_comes_in_whole_and_goes_on_as_it_came() -> None:
    store = new_store()
    sent = parcel(1, 3 * LIGHT_BYTES_MAX)
    assert [outcome for outcome, _ in await receive_all(parts_of(store), [sent, sent], SENDER)] == [
        STORED,
        KNOWN,
    ]
    holdings = ArchiveHoldings(store)
    (member,) = await holdings.members([(bytes(12), None)])
    (key,) = await holdings.keys_of([member])
    held = await holdings.parcel(key, lambda deposit: deposit)
    assert held is not None
    assert contents(held.data[:]) == contents(sent)
    read = await store.newest("http://example.org/1", NOW_S)
    assert read is not None
    assert (len(read.body), read.body[-2:], len(read.companions)) == (3 * LIGHT_BYTES_MAX + 1, b"\x001", 1)
    again = new_store()
    assert [outcome for outcome, _ in await receive_all(parts_of(again), [held.data], SENDER)] == [STORED]


async def test_what_holds_a_hundred_megabytes_takes_a_few_while_it_comes_in() -> None:
    store, sent = new_store(), parcel(1, 100 << 20)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        assert [outcome for outcome, _ in await receive_all(parts_of(store), [sent], SENDER)] == [STORED]
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak - before < 16 << 20


@pytest.mark.parametrize(
    "spoil",
    [
        lambda sent: sent[:-1],
        lambda sent: sent + b"x",
        lambda sent: sent[:-9] + bytes((sent[-9] ^ 1,)) + sent[-8:],
        lambda sent: sent + gzip_member(b"WARC/1.1\r\nWARC-Type: response\r\nContent-Length: 0\r\n\r\n\r\n\r\n"),
        lambda sent: gzip_member(decode_member(sent)[0].replace(b"\0\0\0\0", b"\0\0\0\1", 1)),
        lambda sent: gzip_member(decode_member(sent)[0] + b"WARC/1.1\r\n"),
        lambda sent: gzip_member(decode_member(sent)[0].replace(b"Herodotus-Payload-Digest", b"X-Payload-Digest")),
        lambda sent: gzip_member(decode_member(sent)[0].replace(b"WARC-Type: response", b"WARC-Type: revisit ")),
        lambda sent: gzip_member(b"\0" * (2 << 20)),
        lambda sent: b"\x1f\x8b\x08\0" + bytes(2 << 20),
    ],
    ids=["cut", "longer", "changed", "a second capture", "another body", "a second record", "no digest", "revisit",
         "no record", "no gzip"],
)  # fmt: skip
async def test_a_large_parcel_that_does_not_fit_is_refused(spoil: Callable[[bytes], bytes]) -> None:
    store = new_store()
    sent = spoil(parcel(1, 2 * LIGHT_BYTES_MAX))
    parts = parts_of(store)
    assert [outcome for outcome, _ in await receive_all(parts, [sent], SENDER)] == [BROKEN]
    assert (store.archive.captures, parts.counts.refused) == (0, 1)


async def test_room_is_for_each_and_for_all_and_comes_back() -> None:
    room, entered = Room(100, 40), list[tuple[bytes, int]]()
    release = anyio.Event()

    async def hold(peer: bytes, size: int) -> None:
        async with room.held(PeerKey(peer), size):
            entered.append((peer, size))
            await release.wait()

    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            for peer, size in ((b"a", 40), (b"a", 1), (b"b", 40), (b"c", 30), (b"d", 20)):
                tasks.start_soon(hold, peer, size)
                await anyio.wait_all_tasks_blocked()
            assert entered == [(b"a", 40), (b"b", 40), (b"d", 20)], "a has what one may have, c finds no room"
            assert room.held_bytes == 100
            release.set()
    assert sorted(entered[3:]) == [(b"a", 1), (b"c", 30)]
    assert (room.held_bytes, dict(room._of)) == (0, {})


async def test_parcels_that_unfold_are_booked_for_their_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of(new_store())
    booked = list[int]()
    take_in = fetch_queue._take_in

    async def watched(*given: Any) -> list[tuple[int, bytes]]:
        booked.append(parts.unpacked.held_bytes)
        await anyio.lowlevel.checkpoint()
        return await take_in(*given)

    async def receive(first: int) -> None:
        sent = [parcel(number, LIGHT_BYTES_MAX - 5_000) for number in range(first, first + 3)]
        assert [outcome for outcome, _ in await receive_all(parts, sent, SENDER)] == [STORED] * 3

    monkeypatch.setattr(fetch_queue, "_take_in", watched)
    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            for first in range(0, 9, 3):
                tasks.start_soon(receive, first)
    assert max(booked) == 8 << 20
    assert parts.unpacked.held_bytes == 0
    assert parts.unpacked.held_bytes == 0


async def test_only_one_large_parcel_is_put_together_at_a_time() -> None:
    lock, order = anyio.Lock(), list[str]()
    body = bytes(wire.LARGE_BYTES + 3 * wire.PIECE_BYTES)

    async def pieces() -> AsyncIterator[bytes]:
        for frame in wire.frames_of(wire.PARCEL, body):
            await anyio.lowlevel.checkpoint()
            yield frame

    async def read(name: str) -> None:
        async for frame in wire.read_frames(pieces(), lock):
            order.append(f"{name} has it")
            await anyio.wait_all_tasks_blocked()
            assert frame.data == body
            order.append(f"{name} stored it")

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(read, "one")
        tasks.start_soon(read, "other")
    first, second = order[0].split()[0], order[2].split()[0]
    assert order == [f"{first} has it", f"{first} stored it", f"{second} has it", f"{second} stored it"]
    assert not lock.locked()
