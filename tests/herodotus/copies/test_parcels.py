"""What do parcels cost the peer that takes them in?"""

import random
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import anyio
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht.core.arcs import WHOLE
from dht.core.holders import Table
from dht.core.placement import Rule
from herodotus.copies import fetch_queue
from herodotus.copies.fetch_queue import LIGHT_BYTES_MAX, receive_all
from herodotus.copies.shared_state import Parts, View
from herodotus.copies.wire import BROKEN, NOT_MINE, STORED, UNSIGNED
from herodotus.core.captures import Deposit
from herodotus.core.copies import PeerKey
from herodotus.core.index_rows import capture_key
from herodotus.core.reconciliation import member_of
from herodotus.core.signatures import signed
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.intake import compress_bundle
from tests.herodotus.copies.world import new_store
from tests.herodotus.deposits import altered
from tests.herodotus.store.making import NOW_S, page
from tests.herodotus.store.memory_store import AtOnce

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
    held: set[bytes] = set()
    held_at_once: list[int] = []
    take_in = fetch_queue._take_in

    async def watched(parts: Parts, deposit: Deposit, sender: PeerKey) -> tuple[int, bytes]:
        held.add(deposit.key)
        held_at_once.append(len(held))
        await anyio.lowlevel.checkpoint()
        result = await take_in(parts, deposit, sender)
        held.discard(deposit.key)
        return result

    monkeypatch.setattr(fetch_queue, "_take_in", watched)
    large = [parcel(number, LIGHT_BYTES_MAX) for number in range(4)]
    small = [parcel(number, 100) for number in range(10, 14)]
    assert [outcome for outcome, _ in await receive_all(parts, large, SENDER)] == [STORED] * 4
    assert max(held_at_once) == 1
    held_at_once.clear()
    assert [outcome for outcome, _ in await receive_all(parts, small, SENDER)] == [STORED] * 4
    assert max(held_at_once) == 4
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
