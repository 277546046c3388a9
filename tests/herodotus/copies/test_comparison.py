"""Do two holders find out what they do not share, in few bytes, whatever the other says?"""

import random
from collections.abc import Callable, Iterable

import pytest

from dht import Contact
from dht.core.holders import Table
from dht.core.ids import PeerKey
from dht.core.placement import Rule
from dht.core.records import Address
from herodotus.copies import wire
from herodotus.copies.comparison import LiarError, SetDifference, compare
from herodotus.copies.services import CopyServices
from herodotus.copies.shared_state import Parts, View
from herodotus.core.errors import MalformedError
from herodotus.core.reconciliation import Range, Scope, arcs_of
from herodotus.peers.calls import Calls
from tests.herodotus.copies.sets import WHOLE_RING, MemberSet, Straight
from tests.herodotus.store.memory_store import AtOnce

pytestmark = pytest.mark.anyio
THEM = Contact.at(PeerKey(b"\1" * 32), Address(host=bytes(4), port=1), 0, 0, "off")
Tamper = Callable[[str, bytes], bytes]


def member(rng: random.Random, family: bytes = b"c") -> bytes:
    return rng.randbytes(12) + rng.randrange(19_000, 19_400).to_bytes(3, "big") + family


def parts_of(members: MemberSet, calls: Calls | None = None, scope: Scope = WHOLE_RING) -> Parts:
    return Parts(
        view=View(me=b"\1" * 32, table=Table((), Rule(6)), share=arcs_of(scope)),
        holdings=lambda: members.holdings,
        workers=AtOnce(),
        calls=lambda: calls or pytest.fail("nobody is called"),
        sign=lambda deposit: deposit,
        random=random.Random(0),
        now=lambda: 0.0,
    )


def answers(theirs: MemberSet, scope: Scope = WHOLE_RING) -> CopyServices:
    return CopyServices(parts_of(theirs, scope=scope), on_come=lambda: None)


async def compared(
    ours: Iterable[bytes], theirs: Iterable[bytes], scope: Scope = WHOLE_RING, tamper: Tamper | None = None
) -> tuple[SetDifference, Straight]:
    calls = Straight(answers(MemberSet(theirs)).services(), tamper=tamper)
    return await compare(parts_of(MemberSet(ours), calls), THEM, scope, b"n" * 16), calls


@pytest.mark.parametrize("differences", [0, 1, 10, 300, 3_000])
async def test_all_differences_are_found_in_bytes_that_follow_their_number(differences: int) -> None:
    rng = random.Random(differences)
    common = {member(rng) for _ in range(10_000)}
    here = {member(rng, rng.choice([b"c", b"t"])) for _ in range(differences // 2)}
    there = {member(rng) for _ in range(differences - differences // 2)}
    found, calls = await compared(common | here, common | there)
    assert (found.missing_here, found.missing_there) == (there, here)
    total = sum(calls.bytes.values())
    assert total == found.sent + found.received
    assert total <= {0: 120, 1: 6_000, 10: 8_000, 300: 21_000, 3_000: 130_000}[differences]


async def test_who_has_nothing_is_told_by_a_list() -> None:
    rng = random.Random(1)
    theirs = {member(rng) for _ in range(20_000)}
    found, calls = await compared((), theirs)
    assert found.missing_here == theirs
    assert wire.MEMBERS in found.steps
    assert sum(calls.bytes.values()) < 17 * len(theirs) + 12_000


async def test_only_what_was_asked_about_is_compared() -> None:
    rng = random.Random(2)
    ours, theirs = {member(rng) for _ in range(2_000)}, {member(rng) for _ in range(2_000)}
    scope = (Range(b"\x10" + bytes(11), b"\x23\x45" + bytes(10)), Range(b"\xf0" + bytes(11), None))

    def within(members: set[bytes]) -> set[bytes]:
        return {
            one
            for one in members
            if any(part.low <= one and (part.high or one + b"\0") > one for part in scope)
        }

    found, _ = await compared(ours, theirs, scope)
    assert (found.missing_here, found.missing_there) == (within(theirs), within(ours))


async def test_who_promises_holds_all_of_it_by_its_own_view() -> None:
    low = (Range(bytes(12), b"\x80" + bytes(11)),)
    calls = Straight(answers(MemberSet(()), low).services())
    assert (await compare(parts_of(MemberSet(()), calls), THEM, low, bytes(16))).is_holder
    assert not (await compare(parts_of(MemberSet(()), calls), THEM, WHOLE_RING, bytes(16))).is_holder


async def test_a_root_said_back_is_not_believed() -> None:
    """The nonce is not the same twice, so what was an answer once is none now."""
    old: list[bytes] = []

    def replayed(service: str, answer: bytes) -> bytes:
        if service == wire.ROOT:
            old.append(answer)
            return old[0]
        return answer

    rng = random.Random(3)
    members = {member(rng) for _ in range(100)}
    calls = Straight(answers(MemberSet(members)).services(), tamper=replayed)
    first = await compare(parts_of(MemberSet(members), calls), THEM, WHOLE_RING, b"a" * 16)
    second = await compare(parts_of(MemberSet(members), calls), THEM, WHOLE_RING, b"b" * 16)
    assert first.steps == [wire.ROOT]
    assert second.steps == [wire.ROOT, wire.TOPS]


@pytest.mark.parametrize("seed", range(12))
async def test_poisoned_cells_end_and_harm_nobody(seed: int) -> None:
    """Cells that lead nowhere: the list is asked for instead, or the peer is called a liar."""
    rng = random.Random(seed)

    def poisoned(service: str, answer: bytes) -> bytes:
        if service == wire.CELLS and len(answer) > 4:
            return bytes(byte ^ (rng.random() < 0.05) for byte in answer)
        return answer

    ours, theirs = {member(rng) for _ in range(3_000)}, {member(rng) for _ in range(3_000)}
    try:
        found, _ = await compared(ours, theirs, tamper=poisoned)
    except MalformedError:
        return
    assert (found.missing_here, found.missing_there) == (theirs - ours, ours - theirs)


@pytest.mark.parametrize("seed", range(4))
async def test_members_outside_of_the_question_are_a_lie(seed: int) -> None:
    rng = random.Random(seed)
    theirs = MemberSet(member(rng) for _ in range(4_000))

    def lying(service: str, answer: bytes) -> bytes:
        if service == wire.MEMBERS and answer:
            return b"\xee" * 15 + b"c" + answer[16:]
        return answer

    calls = Straight(answers(theirs).services(), tamper=lying)
    scope = (Range(bytes(12), b"\x80" + bytes(11)),)
    with pytest.raises(LiarError):
        await compare(parts_of(MemberSet(()), calls), THEM, scope, bytes(16))


@pytest.mark.parametrize("service", [wire.ROOT, wire.TOPS, wire.CELLS, wire.MEMBERS])
@pytest.mark.parametrize("seed", range(8))
async def test_any_bytes_are_an_answer_or_an_error_of_the_protocol(service: str, seed: int) -> None:
    rng = random.Random(seed)

    def noise(asked: str, answer: bytes) -> bytes:
        return rng.randbytes(rng.randrange(60)) if asked == service else answer

    ours = {member(rng) for _ in range(50)}
    theirs = {member(rng) for _ in range(rng.choice([50, 9_000]))}
    try:
        found, _ = await compared(ours, theirs, tamper=noise)
    except MalformedError:
        return
    assert found.missing_there <= ours
