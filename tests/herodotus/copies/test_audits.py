"""What does an audit prove, and what does it find out about a peer that has not what it said?"""

import random

import pytest

from dht import Contact
from dht.core.arcs import WHOLE
from dht.core.holders import Table
from dht.core.ids import PeerKey
from dht.core.placement import Rule
from dht.core.records import Address
from herodotus.copies.audits import audit, judge
from herodotus.copies.services import CopyServices
from herodotus.copies.shared_state import Parts, View
from herodotus.core.captures import Deposit
from herodotus.core.index_rows import capture_key
from herodotus.core.reconciliation import member_of
from herodotus.core.signatures import Proof
from herodotus.peers.calls import Services
from herodotus.store.holdings import ArchiveHoldings
from tests.herodotus.copies.sets import Straight
from tests.herodotus.store.making import NOW_S, page, store
from tests.herodotus.store.memory_store import AtOnce, MemoryStore

pytestmark = pytest.mark.anyio
PEER = Contact.at(PeerKey(b"\x05" * 32), Address(host=bytes((10, 0, 0, 5)), port=4484), 0, 0, "ip")
ME = bytes(32)
URL = "http://example.org/"
NONCE = b"n" * 16
OURS = page(URL, NOW_S, b"one body")
MEMBER = member_of(capture_key(OURS.id))


async def proofs(*deposits: Deposit, nonce: bytes = NONCE + PEER.peer + ME) -> list[Proof]:
    """Of a peer that has just these."""
    kept = MemoryStore(lambda: float(NOW_S))
    store(kept.archive, *deposits)
    (found,) = await ArchiveHoldings(kept).proofs([MEMBER], nonce)
    return found


async def found(theirs: list[Proof]) -> str:
    verdict = judge([MEMBER], [await proofs(OURS)], [theirs])
    named = {"without": verdict.without, "unproven": verdict.unproven, "different": verdict.different}
    assert all(members in ([], [MEMBER]) for members in named.values())
    return " ".join(word for word, members in named.items() if members) or verdict.result


async def test_who_has_the_bytes_proves_it() -> None:
    assert await found(await proofs(OURS)) == "proven"


async def test_who_has_nothing_of_it_is_found_out() -> None:
    assert await found([]) == "without"


async def test_who_kept_the_digests_and_dropped_the_bytes_is_found_out() -> None:
    (mine,) = await proofs(OURS)
    assert (
        await found([Proof(time_s=mine.time_s, digest=mine.digest, proof=bytes(len(mine.proof)))])
        == "unproven"
    )


async def test_a_proof_of_yesterday_proves_nothing_today() -> None:
    """Else one could keep it instead of the page."""
    assert await found(await proofs(OURS, nonce=b"y" * 16 + PEER.peer + ME)) == "unproven"


async def test_another_holders_proof_proves_nothing() -> None:
    """One that keeps nothing would pass the question on."""
    assert await found(await proofs(OURS, nonce=NONCE + b"\x06" * 32 + ME)) == "unproven"


async def test_another_content_of_that_day_is_no_lie_but_news() -> None:
    assert await found(await proofs(OURS, page(URL, NOW_S + 60, b"another"))) == "different"
    assert await found(await proofs(page(URL, NOW_S, b"another"))) == "different"


def test_of_what_we_have_no_more_nothing_is_asked() -> None:
    assert judge([MEMBER], [[]], [[]]).result == "proven"


def a_peer(calls: Services | None = None, *held: Deposit, me: bytes = ME) -> Parts:
    kept = MemoryStore(lambda: float(NOW_S))
    store(kept.archive, *held)
    return Parts(
        view=View(me=me, table=Table((), Rule(6)), contacts={PEER.peer: PEER}),
        holdings=lambda: ArchiveHoldings(kept),
        calls=lambda: Straight(calls or Services()),
        workers=AtOnce(),
        sign=lambda deposit: deposit,
        random=random.Random(1),
    )


@pytest.mark.parametrize("is_honest", [True, False])
async def test_the_word_of_who_has_not_what_it_confirmed_counts_no_more(is_honest: bool) -> None:
    """Else our own copies would go on the strength of it."""
    other = a_peer(None, *([OURS] if is_honest else []), me=PEER.peer)
    mine = a_peer(CopyServices(other, on_come=lambda: None).services(), OURS)
    key = capture_key(OURS.id)[1:]
    mine.ledger.confirm(mine.ledger.begin(PEER.peer, WHOLE, 0.0), (), is_promise=True, is_exact=True)
    assert mine.ledger.is_held(PEER.peer, key)
    verdict = await audit(mine, PEER.peer, [MEMBER])
    assert verdict is not None
    assert verdict.result == ("proven" if is_honest else "without")
    assert mine.ledger.is_held(PEER.peer, key) is is_honest
