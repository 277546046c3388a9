"""Do two holders find each other's losses and lies by their daily proofs, and nothing where there is none?"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import cast

import msgspec
import pytest

from dht import Contact
from dht.core.holders import Table
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.records import Address
from herodotus.copies import wire
from herodotus.copies.audits import Auditor
from herodotus.copies.failures import Failures
from herodotus.copies.sampled_proofs import REVEAL_WITHIN_S, own_set, sample
from herodotus.copies.services import CopyServices
from herodotus.copies.shared_state import Parts, View
from herodotus.core.captures import Deposit
from herodotus.core.copies.holder_states import HolderState, HolderStates, Outcome
from herodotus.core.copies.sampling import commitment, seed_of
from herodotus.core.reconciliation import ranges_of
from herodotus.core.signatures import Proof, signed
from herodotus.peers.calls import Calls, PeerUnreachableError, RefusedError
from herodotus.store.holdings import ArchiveHoldings
from tests.herodotus.copies.sets import Straight
from tests.herodotus.copies.test_letting_go import forgets_bytes
from tests.herodotus.copies.world import key_number
from tests.herodotus.store.making import NOW_S, page, store
from tests.herodotus.store.memory_store import AtOnce, MemoryStore

pytestmark = pytest.mark.anyio
HOUR_S, DAY_S = 3_600.0, 86_400.0
KEYS = tuple(bytes((number,)) * 32 for number in (1, 2))
PAGES = [page(f"http://example.org/{number}", NOW_S, b"%d" % number * 50) for number in range(40)]


class Side:
    """One of two peers that share the whole ring."""

    def __init__(self, pair: "Pair", number: int) -> None:
        self.pair, self.me, self.other = pair, KEYS[number], KEYS[1 - number]
        self.store = MemoryStore(lambda: float(NOW_S))
        view = View(me=self.me, table=Table((), Rule(2)))
        contacts = {contact.peer: contact for contact in map(contact_of, KEYS)}
        view.take(Table(contacts.values(), Rule(2)), contacts, 0.0)
        self.parts = Parts(
            view=view,
            holdings=lambda: ArchiveHoldings(self.store),
            calls=lambda: cast("Calls", self),
            workers=AtOnce(),
            sign=partial(signed, key_number(number)),
            random=random.Random(number),
            now=lambda: pair.now,
            states=HolderStates(every_s=DAY_S),
        )
        self.services = CopyServices(self.parts, on_come=lambda: None).services()
        self.compared_again: list[bytes] = []
        self.auditor = Auditor(self.parts, every_s=DAY_S, on_doubt=self.compared_again.append)
        self.tamper: Callable[[str, bytes], bytes] = lambda service, answer: answer
        self.is_up = True
        self.bytes = 0
        self.calls = 0

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        other = self.pair.sides[KEYS.index(to.peer)]
        if not other.is_up:
            raise PeerUnreachableError
        answer = other.tamper(service, await Straight(other.services, self.me).call(to, service, body))
        self.bytes += len(body) + len(answer)
        self.calls += 1
        return answer

    def stream(
        self, to: Contact, service: str, body: bytes
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return Straight(self.pair.sides[KEYS.index(to.peer)].services, self.me).stream(to, service, body)

    async def ask(self) -> Outcome | None:
        return await self.auditor.ask(self.other)

    def state(self) -> HolderState:
        """Of the other one, as this one sees it."""
        return self.parts.states.state(self.other, self.pair.now)

    def keep(self, *deposits: Deposit) -> None:
        store(self.store.archive, *deposits)


def contact_of(peer: bytes) -> Contact:
    address = Address(host=bytes((127, 0, 0, peer[0])), port=4_484)
    return Contact(peer=PeerKey(peer), address=address, slot=0, index=0, position=Key(peer[:20]))


def count_of(answer: bytes) -> int:
    """How many lists there are: what a proxy in the middle knows from the question."""
    return len(msgspec.msgpack.decode(answer))


def bent(proof: Proof) -> Proof:
    return msgspec.structs.replace(proof, proof=bytes(len(proof.proof)))


class Pair:
    def __init__(self) -> None:
        self.now = 0.0
        self.sides = [Side(self, 0), Side(self, 1)]
        for side in self.sides:
            side.keep(*PAGES)


@pytest.fixture
def pair() -> Pair:
    return Pair()


async def test_two_that_have_the_same_prove_it_both_in_two_calls(pair: Pair) -> None:
    mine, other = pair.sides
    assert await mine.ask() is Outcome.PROVEN
    assert mine.state() is other.state() is HolderState.PROVEN
    for side, peer in ((mine, other.me), (other, mine.me)):
        used = (await side.parts.opened().room()).used
        assert 0 < side.parts.states.proven_bytes(peer, pair.now) == used  # the two share all that there is
        assert side.parts.states.proven_bytes(peer, pair.now + 8 * DAY_S) == 0
    assert (mine.calls, mine.bytes) == (2, 193)
    assert mine.compared_again == []


async def test_who_kept_the_index_and_lost_the_bytes_says_so_and_is_then_caught(pair: Pair) -> None:
    mine, other = pair.sides
    for deposit in PAGES[:20]:
        forgets_bytes(other.store, deposit)
    assert await mine.ask() is Outcome.LACKING  # once is no lie: a disk may fail
    assert mine.compared_again == [other.me]
    assert mine.parts.states.counts(other.me, pair.now)
    pair.now += DAY_S
    assert await mine.ask() is Outcome.WRONG  # it compared as if it had everything, again
    pair.now += HOUR_S
    assert await mine.ask() is Outcome.WRONG
    assert mine.state() is HolderState.FAILED
    assert mine.parts.states.proven_bytes(other.me, pair.now) == 0
    assert mine.parts.suspects.counts[other.me]["has not what it confirmed"] == 2


async def test_who_makes_proofs_up_is_doubted_and_an_hour_later_failed(pair: Pair) -> None:
    mine, other = pair.sides

    def made_up(service: str, answer: bytes) -> bytes:
        if service == wire.REVEAL:
            return b"p" * 32
        if service == wire.POLL:
            proofs = wire.decode_proofs(answer, count_of(answer))
            return wire.encode_proofs([[bent(one) for one in some] for some in proofs])
        return answer

    other.tamper = made_up
    assert await mine.ask() is Outcome.WRONG
    assert mine.state() is HolderState.DOUBTED
    failed: list[float] = []
    mine.parts.on_failed = lambda: failed.append(pair.now)
    pair.now += HOUR_S
    assert await mine.ask() is Outcome.WRONG
    assert mine.state() is HolderState.FAILED
    assert failed == [HOUR_S]
    # It counts again after a full proof alone.
    other.tamper = lambda service, answer: answer
    pair.now += DAY_S
    assert await mine.ask() is Outcome.FULLY_PROVEN
    assert mine.state() is HolderState.PROVEN
    assert failed == [HOUR_S, HOUR_S + DAY_S]


async def test_what_an_honest_peer_proves_is_no_help_to_one_without_the_bytes(pair: Pair) -> None:
    """A liar asks an honest peer with the asker's own nonces: the answer names the wrong prover."""
    mine, honest = pair.sides
    seed = seed_of(b"a" * 16, b"b" * 16)
    scope = ranges_of(mine.parts.view.shared_with(honest.me))
    found = await sample(mine.parts, b"\x07" * 32, scope, seed)  # what a third peer should say to us
    passed_on = (await sample(honest.parts, mine.me, scope, seed)).own
    assert found.theirs != passed_on
    assert (await sample(mine.parts, honest.me, scope, seed)).theirs == passed_on


async def test_a_nonce_that_was_chosen_late_is_refused(pair: Pair) -> None:
    """Whoever knows both nonces could look for a seed that spares what it lost."""
    mine, other = pair.sides
    scope = ranges_of(mine.parts.view.shared_with(other.me))
    digest = await own_set(mine.parts, scope)
    handlers = other.services.calls

    async def agreed(nonce: bytes) -> bytes:
        question = wire.SampleQuestion(scope, digest, commitment(nonce))
        return await handlers[wire.SAMPLE](mine.me, wire.encode_sample(question))

    assert len(await agreed(b"a" * 16)) == wire.NONCE_BYTES
    with pytest.raises(RefusedError):
        await handlers[wire.REVEAL](mine.me, wire.encode_reveal(b"b" * 16, b"p" * 32))
    with pytest.raises(RefusedError):  # one try
        await handlers[wire.REVEAL](mine.me, wire.encode_reveal(b"a" * 16, b"p" * 32))
    await agreed(b"a" * 16)
    pair.now += REVEAL_WITHIN_S + 1
    with pytest.raises(RefusedError):
        await handlers[wire.REVEAL](mine.me, wire.encode_reveal(b"a" * 16, b"p" * 32))
    await agreed(b"a" * 16)
    assert len(await handlers[wire.REVEAL](mine.me, wire.encode_reveal(b"a" * 16, b"p" * 32))) == 32
    assert other.state() is HolderState.UNPROVEN  # that was no proof


async def test_what_one_has_more_is_compared_first_and_the_rest_is_proven(pair: Pair) -> None:
    mine, other = pair.sides
    mine.keep(page("http://example.org/just-now", NOW_S))
    assert await mine.ask() is Outcome.PROVEN
    mine.keep(*(page(f"http://example.org/more/{number}", NOW_S) for number in range(20)))
    assert await mine.ask() is Outcome.OTHER_SET
    assert mine.compared_again == [other.me]
    assert mine.state() is HolderState.PROVEN  # of today's first proof


async def test_a_day_with_other_contents_is_no_failure(pair: Pair) -> None:
    mine, other = pair.sides
    for deposit in PAGES:
        other.keep(page(deposit.capture.url, NOW_S + 60, b"seen later that day"))
    assert await mine.ask() is Outcome.OTHER_SET
    assert mine.parts.suspects.counts == {}
    assert mine.state() is HolderState.UNPROVEN


async def test_our_own_damage_blames_nobody(pair: Pair) -> None:
    mine, _ = pair.sides
    for deposit in PAGES[:20]:
        forgets_bytes(mine.store, deposit)
    assert await mine.ask() is Outcome.OTHER_SET
    assert mine.parts.suspects.counts == {}


async def test_a_day_of_silence_fails(pair: Pair) -> None:
    mine, other = pair.sides
    other.is_up = False
    for _ in range(26):
        assert await mine.ask() is Outcome.SILENT
        pair.now += HOUR_S
    assert mine.state() is HolderState.FAILED


async def test_each_holder_is_asked_once_a_day(pair: Pair) -> None:
    mine, other = pair.sides
    await mine.auditor.ask_next()
    asked = mine.calls
    assert asked
    pair.now += DAY_S - 1
    await mine.auditor.ask_next()
    assert mine.calls == asked
    pair.now += 1
    await mine.auditor.ask_next()
    assert mine.calls == 2 * asked
    assert [one.result for one in mine.auditor.past] == ["proven", "proven"]
    assert other.state() is HolderState.PROVEN


def test_who_failed_stands_in_a_file_that_nothing_breaks(tmp_path: Path) -> None:
    file = tmp_path / "failed"
    failures = Failures(file, lambda: 1_000_000.0)
    assert failures.load() == {}
    failures.save({KEYS[0]: 60.0})
    assert Failures(file, lambda: 1_000_100.0).load() == {KEYS[0]: 160.0}
    assert file.read_bytes() == b'{"format":1,"failed":{"' + b"01" * 32 + b'":999940}}'
    for data in (b"", b"[]", b'{"format":2,"failed":{}}', b'{"format":1,"failed":{"zz":1}}'):
        file.write_bytes(data)
        assert failures.load() == {}
