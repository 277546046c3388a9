"""When may a surplus copy go, and what must not happen between the look and the deed? Each way to go too early."""

import os
import random
from collections.abc import Callable, Container, Hashable
from dataclasses import replace
from typing import cast

import anyio
import pytest

from dht import Contact
from dht.core.arcs import NONE, WHOLE
from dht.core.holders import Table
from dht.core.ids import Key, PeerKey
from dht.core.placement import Rule
from dht.core.records import Address
from herodotus.copies import surplus, wire
from herodotus.copies.full_proofs import ANSWER_S, PROVED_TO_ONE_AN_HOUR
from herodotus.copies.services import CopyServices
from herodotus.copies.shared_state import Parts, View
from herodotus.copies.surplus import DEED_S, LettingGo, ShareSurvey, farthest_first
from herodotus.core.captures import Deposit
from herodotus.core.copies.holder_states import Outcome
from herodotus.core.copies.ledger import Group, Steadiness
from herodotus.core.copies.possession import PROOF_USED_WITHIN_S, EachItsOwn, Room
from herodotus.core.index_rows import CAPTURE, after, capture_key, decode_entry
from herodotus.core.reconciliation import Range, arcs_of, ranges_of
from herodotus.core.settings.sections import CopiesSettings
from herodotus.peers.calls import Calls, RefusedError, Services
from herodotus.store import holdings
from herodotus.store.engine import Archive
from herodotus.store.holdings import ArchiveHoldings, drop
from herodotus.store.intake import Intake
from tests.herodotus.copies.sets import WHOLE_RING, Straight
from tests.herodotus.store.making import NOW_S, page, store
from tests.herodotus.store.memory_store import AtOnce, MemoryStore

pytestmark = pytest.mark.anyio
ADDRESS = Address(host=bytes((127, 0, 0, 1)), port=4_484)
ME, OTHERS = b"\0" * 32, tuple(bytes((number,)) * 32 for number in range(1, 7))
HALF_RING = (Range(bytes(12), b"\x80" + bytes(11)),)
HALF = arcs_of(HALF_RING)


HOUR_S, DAY_S = 3_600.0, 86_400.0
SETTINGS = CopiesSettings(keep_s=30.0, full_share=0.0, let_go_share=1.0, promise_s=DAY_S)


class Holder:
    """One of the six, who has the same."""

    def __init__(self, peer: bytes, scene: "Scene") -> None:
        self.store = MemoryStore(lambda: float(NOW_S))
        contact = Contact.at(PeerKey(ME), ADDRESS, 0, 0, "off")
        self.parts = Parts(
            view=View(me=peer, table=Table((), Rule(6)), share=WHOLE, contacts={PeerKey(ME): contact}),
            holdings=lambda: ArchiveHoldings(self.store),
            calls=lambda: Straight(Services()),
            workers=AtOnce(),
            sign=lambda deposit: deposit,
            random=random.Random(1),
            now=lambda: scene.now,
        )
        self.services = CopyServices(self.parts, on_come=lambda: None).services()
        self.tamper: Callable[[bytes, bytes], bytes] = lambda question, answer: answer
        """What it makes of its answer to a full proof's question."""

    async def prove(self, question: bytes) -> bytes:
        return self.tamper(question, await self.services.calls[wire.PROVE](ME, question))


class Sighted(EachItsOwn):
    """Standings that a test sets."""

    def __init__(self) -> None:
        self.places: dict[bytes, str] = {}
        self.veterans, self.of_age = set(OTHERS), set(OTHERS)

    def place_of(self, peer: bytes) -> Hashable:
        return self.places.get(peer, peer)

    def is_of_age(self, peer: bytes) -> bool:
        return peer in self.of_age

    def is_veteran(self, peer: bytes) -> bool:
        return peer in self.veterans


class Scene:
    """A peer whose whole archive is surplus, and six who promised to hold it."""

    def __init__(self) -> None:
        self.store = MemoryStore(lambda: float(NOW_S))
        self.holdings: ArchiveHoldings = ArchiveHoldings(self.store)
        self.standings = Sighted()
        self.settings = SETTINGS
        self.now = 1_000.0
        self.holders = {peer: Holder(peer, self) for peer in OTHERS}
        self.doubted: list[bytes] = []
        self.steadiness = Steadiness()
        self.stored = 0
        self.fresh: list[bytes] = []
        contacts = {PeerKey(peer): Contact.at(PeerKey(peer), ADDRESS, 0, 0, "off") for peer in OTHERS}
        table = Table(contacts.values(), Rule(6))
        view = View(me=ME, table=table, share=HALF, wide_share=WHOLE, contacts=contacts)
        self.parts = Parts(
            view=view,
            holdings=lambda: self.holdings,
            calls=lambda: cast("Calls", self),
            workers=AtOnce(),
            sign=lambda deposit: deposit,
            random=random.Random(0),
            now=lambda: self.now,
            hear=self.hear,
            standings=lambda: self.standings,
        )
        self.group = Group(arcs=WHOLE, holders=OTHERS)
        self.steadiness.see({WHOLE: OTHERS}, self.now - DAY_S)
        self.promise()
        self.letting_go = self.make()

    def make(self) -> LettingGo:
        return LettingGo(self.parts, self.settings, stored=lambda: self.stored, on_doubt=self.doubted.append)

    def promise(self) -> None:
        for peer in OTHERS:
            self.parts.ledger.confirm(
                self.parts.ledger.begin(peer, WHOLE, self.now), (), is_promise=True, is_exact=True
            )

    async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
        assert (service, deadline_s) == (wire.PROVE, ANSWER_S)
        return await self.holders[to.peer].prove(body)

    async def keep(self, *deposits: Deposit) -> None:
        """Here and with all holders."""
        for kept in (self.store, *(holder.store for holder in self.holders.values())):
            for deposit in deposits:
                await kept.store(deposit)

    def hear(self) -> None:
        while self.fresh:
            self.parts.ledger.stored(self.fresh.pop())

    def note(self, key: bytes) -> None:
        """As the thread does that made it durable."""
        self.fresh.append(key)
        self.stored += 1

    def hold_for_long(self, *holders: bytes) -> None:
        """The holders of all, for a day, each of whom would prove and promise it."""
        self.group = Group(arcs=WHOLE, holders=holders)
        self.steadiness.see({WHOLE: holders}, self.now - DAY_S)
        contacts = {PeerKey(peer): Contact.at(PeerKey(peer), ADDRESS, 0, 0, "off") for peer in holders}
        self.parts.view.contacts, self.parts.view.table = contacts, Table(contacts.values(), Rule(6))
        self.standings.of_age.update(holders)
        for peer in holders:
            if peer not in self.holders:
                self.holders[peer] = Holder(peer, self)
                self.holders[peer].store = self.store
            self.parts.ledger.confirm(
                self.parts.ledger.begin(peer, WHOLE, self.now), (), is_promise=True, is_exact=True
            )

    def survey(self) -> ShareSurvey:
        self.steadiness.see({self.group.arcs: self.group.holders}, self.now)
        return ShareSurvey(
            surplus=[self.group],
            pieces=[self.group],
            steadiness=self.steadiness,
            standing=(0, 0, self.parts.view.version, False),
        )

    async def let_go(self) -> int:
        return await self.letting_go.run_once(self.holdings, self.survey())

    @property
    def captures(self) -> list[bytes]:
        return [key[1:] for key, _ in self.store.archive.index.scan(CAPTURE, after(CAPTURE))]


@pytest.fixture
async def scene() -> Scene:
    return await made_scene()


async def made_scene() -> Scene:
    made = Scene()
    await made.keep(*(page(f"http://example.org/{number}", NOW_S) for number in range(3)))
    return made


async def test_what_all_six_promised_goes(scene: Scene) -> None:
    assert await scene.let_go() == 3
    assert scene.captures == []


async def test_what_was_stored_and_not_heard_of_stays(scene: Scene) -> None:
    scene.note(scene.captures[0])
    assert await scene.let_go() == 0


async def test_fewer_than_k_holders_let_nothing_go(scene: Scene) -> None:
    scene.hold_for_long(*OTHERS[:5])
    assert await scene.let_go() == 0


async def test_who_is_among_the_holders_lets_nothing_go(scene: Scene) -> None:
    scene.hold_for_long(ME, *OTHERS[:5])
    assert await scene.let_go() == 0


async def test_a_survey_of_another_ring_lets_nothing_go(scene: Scene) -> None:
    found = scene.survey()
    scene.parts.view.version += 1
    assert await scene.letting_go.run_once(scene.holdings, found) == 0


def something_stored(scene: Scene) -> None:
    scene.note(scene.captures[0])


def ring_changed(scene: Scene) -> None:
    scene.parts.view.version += 1


def promised(scene: Scene) -> None:
    scene.parts.view.promise(OTHERS[0], WHOLE, scene.now, 600)


def slept(scene: Scene) -> None:
    scene.now += DEED_S + 1


@pytest.mark.parametrize("happens", [something_stored, ring_changed, promised, slept])
async def test_what_changes_between_the_look_and_the_deed_stops_it(
    scene: Scene, happens: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happens while the deed waits for its thread."""

    def later(
        archive: Archive,
        intake: Intake,
        low: bytes,
        high: bytes | None,
        may_go: Callable[[], bool],
        only: Container[bytes],
    ) -> int:
        happens(scene)
        return drop(archive, intake, low, high, may_go, only)

    monkeypatch.setattr(holdings, "drop", later)
    assert await scene.let_go() == 0
    assert len(scene.captures) == 3


async def test_a_promise_is_given_before_the_look_at_what_it_speaks_of(scene: Scene) -> None:
    """Else what goes in between would be counted on."""
    given: list[int] = []

    class Watched(ArchiveHoldings):
        async def digests(self, low: bytes, high: bytes | None) -> dict[int, bytes]:
            given.append(scene.parts.view.given)
            return await super().digests(low, high)

    scene.holdings = Watched(scene.store)
    answers = CopyServices(scene.parts, on_come=lambda: None)
    question = wire.encode_scope(WHOLE_RING, b"n" * 16, wants_promise=True)
    await answers.services().calls[wire.ROOT](OTHERS[0], question)
    assert given == [1]


async def test_what_was_promised_to_somebody_does_not_go_before_that_promise_is_over(scene: Scene) -> None:
    scene.parts.view.promise(b"\x09" * 32, HALF, scene.now, 100)
    assert await scene.let_go() == 0
    scene.now += 100
    assert await scene.let_go() == 3


# -- whose word counts


async def test_fewer_than_three_veterans_let_nothing_go_though_all_prove_it(scene: Scene) -> None:
    """Eight keys of one machine prove what they like for a fortnight: they are nobody's old acquaintances."""
    scene.standings.veterans = set(OTHERS[:2])
    assert await scene.let_go() == 0
    scene.standings.veterans.add(OTHERS[5])
    assert await scene.let_go() == 3


async def test_holders_in_fewer_places_than_there_are_let_nothing_go(scene: Scene) -> None:
    scene.standings.places = dict.fromkeys(OTHERS[:2], "one house")
    assert await scene.let_go() == 3  # there are only five places
    scene = await made_scene()
    scene.standings.places = dict.fromkeys(OTHERS[:2], "one house")
    elsewhere = PeerKey(b"\x09" * 32)
    there = [*scene.parts.view.table.contacts, Contact.at(elsewhere, ADDRESS, 1, 0, "off")]
    scene.parts.view.table = Table(there, Rule(6))
    assert await scene.let_go() == 0


async def test_a_holder_that_is_not_of_age_lets_nothing_go(scene: Scene) -> None:
    scene.standings.of_age.discard(OTHERS[3])
    assert await scene.let_go() == 0


@pytest.mark.parametrize("outcome", [Outcome.WRONG, Outcome.LACKING])
async def test_a_holder_that_failed_a_daily_proof_lets_nothing_go(scene: Scene, outcome: Outcome) -> None:
    scene.parts.states.note(OTHERS[3], outcome, scene.now)
    assert await scene.let_go() == (3 if outcome is Outcome.LACKING else 0)


async def test_holders_that_changed_within_the_day_let_nothing_go(scene: Scene) -> None:
    """Though our own share is what it was for long."""
    former = scene.group
    scene.group = Group(arcs=WHOLE, holders=(*OTHERS[1:], OTHERS[0]))
    assert await scene.let_go() == 0
    scene.now += 29
    scene.promise()
    assert await scene.let_go() == 0
    scene.group = former
    scene.now += 29
    assert await scene.let_go() == 0  # they changed again
    scene.now += 30
    assert await scene.let_go() == 3


# -- proofs


def forgets(scene: Scene, peer: bytes, key: bytes) -> None:
    """Its index still has the capture's row; the bytes are gone."""
    blank(scene.holders[peer].store.archive, CAPTURE + key)


def forgets_bytes(store: MemoryStore, deposit: Deposit) -> None:
    blank(store.archive, capture_key(deposit.id))


def blank(archive: Archive, key: bytes) -> None:
    entry = archive.index.get(key)
    assert entry is not None
    place = decode_entry(entry).place
    disk = archive.files.disk(0)
    fd = disk.open(archive.files.path(place.file), os.O_RDWR)
    disk.pwrite(fd, bytes(place.length), place.offset)
    disk.close(fd)


async def test_one_holder_without_one_payload_keeps_all_of_it_here(scene: Scene) -> None:
    """It promised, and answered every comparison from its index."""
    forgets(scene, OTHERS[4], scene.captures[1])
    assert await scene.let_go() == 0
    assert scene.doubted == [OTHERS[4]]
    assert scene.parts.suspects.counts == {}  # it says so itself: a bad disk is no lie
    assert scene.parts.ledger.needs_promises(scene.group, scene.now) == [OTHERS[4]]


async def test_a_proof_is_over_every_capture(scene: Scene) -> None:
    """A sample of any size, drawn however well, may miss the one that is gone."""
    await scene.keep(*(page(f"http://example.org/more/{number}", NOW_S) for number in range(57)))
    forgets(scene, OTHERS[4], scene.captures[-1])
    assert await scene.let_go() == 0


async def test_who_leaves_the_missing_out_of_its_proof_is_found_and_named(scene: Scene) -> None:
    liar = scene.holders[OTHERS[4]]

    def made_up(question: bytes, answer: bytes) -> bytes:
        del question, answer
        return wire.encode_full_answer(wire.FullAnswer(is_holder=True, proof=b"p" * 32))

    liar.tamper = made_up
    assert await scene.let_go() == 0
    assert list(scene.parts.suspects.counts) == [OTHERS[4]]


async def test_the_proof_of_another_holder_proves_nothing(scene: Scene) -> None:
    """A peer that keeps nothing passes on what an honest one says."""
    answers: list[bytes] = []

    def heard(question: bytes, answer: bytes) -> bytes:
        del question
        answers.append(answer)
        return answer

    def copied(question: bytes, answer: bytes) -> bytes:
        del question, answer
        return answers[-1]

    scene.holders[OTHERS[0]].tamper, scene.holders[OTHERS[1]].tamper = heard, copied
    assert await scene.let_go() == 0
    assert answers
    assert list(scene.parts.suspects.counts) == [OTHERS[1]]


async def test_a_proof_that_was_made_before_the_question_proves_nothing(scene: Scene) -> None:
    earlier: list[bytes] = []

    def kept(question: bytes, answer: bytes) -> bytes:
        del question
        earlier.append(answer)
        return earlier[0]

    scene.holders[OTHERS[2]].tamper = kept
    scene.parts.ledger.doubt(OTHERS[0])
    assert await scene.let_go() == 0  # nobody is asked before all promised
    assert not earlier
    scene.promise()
    scene.standings.veterans.clear()
    assert await scene.let_go() == 0
    assert not earlier
    scene.standings.veterans.update(OTHERS)
    no_holder = wire.encode_full_answer(wire.FullAnswer(is_holder=False))
    scene.holders[OTHERS[1]].tamper = lambda question, answer: no_holder  # so that all are asked twice
    assert await scene.let_go() == 0
    scene.holders[OTHERS[1]].tamper = lambda question, answer: answer
    scene.promise()
    assert await scene.let_go() == 0
    assert list(scene.parts.suspects.counts[OTHERS[2]]) == ["cannot prove that it has the bytes"]


async def test_a_proof_older_than_an_hour_lets_nothing_go(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(question: bytes, answer: bytes) -> bytes:
        del question
        scene.now += PROOF_USED_WITHIN_S + 1
        scene.promise()  # the promises alone are fresh
        return answer

    scene.holders[OTHERS[0]].tamper = slow
    assert await scene.let_go() == 0
    monkeypatch.setattr(surplus, "PROOF_USED_WITHIN_S", 2 * HOUR_S)
    assert await scene.let_go() == 3


async def test_what_a_holder_proved_it_keeps_for_a_day(scene: Scene) -> None:
    """What it loses itself between proof and deletion, five others keep; what it would delete, it may not."""
    assert await scene.let_go() == 3
    positions = arcs_of([Range(bytes(12), None)])
    for holder in scene.holders.values():
        assert holder.parts.view.is_promised(positions, scene.now + DAY_S - 1)
        assert not holder.parts.view.is_promised(positions, scene.now + DAY_S)


async def test_what_came_after_the_proof_stays(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where nobody heard of it: only the captures in the proof go."""
    late = page("http://example.org/late", NOW_S)

    def later(
        archive: Archive,
        intake: Intake,
        low: bytes,
        high: bytes | None,
        may_go: Callable[[], bool],
        only: Container[bytes],
    ) -> int:
        store(archive, late)
        return drop(archive, intake, low, high, may_go, only)

    monkeypatch.setattr(holdings, "drop", later)
    assert await scene.let_go() == 3
    assert scene.captures == [capture_key(late.id)[1:]]


async def test_what_is_damaged_here_is_not_deleted_on_a_proof_of_the_rest(scene: Scene) -> None:
    scene.holders[ME] = Holder(ME, scene)
    scene.holders[ME].store = scene.store
    damaged = scene.captures[1]
    forgets(scene, ME, damaged)
    assert await scene.let_go() == 2
    assert scene.captures == [damaged]


async def test_a_holder_proves_nothing_that_is_not_its_own_share(scene: Scene) -> None:
    scene.holders[OTHERS[0]].parts.view.share = NONE
    assert await scene.let_go() == 0
    assert scene.parts.suspects.counts == {}


async def test_who_asks_for_proofs_without_an_end_is_told_to_wait(scene: Scene) -> None:
    holder = scene.holders[OTHERS[0]]
    question = wire.encode_prove(wire.FullQuestion(scene.captures, b"n" * 16, 60))

    async def ask_and_ask() -> None:
        for _ in range(PROVED_TO_ONE_AN_HOUR // 12 + 1):
            await holder.prove(question)

    with pytest.raises(RefusedError) as refused:
        await ask_and_ask()
    assert refused.value.reason == "busy"
    await holder.services.calls[wire.PROVE](OTHERS[1], question)  # others are heard


# -- how much, and which


class Sized(ArchiveHoldings):
    """So full as a test says."""

    used, offered = 900, 1_000

    async def room(self) -> Room:
        await anyio.lowlevel.checkpoint()
        return Room(self.used, self.offered)


async def test_nothing_goes_while_there_is_room(scene: Scene) -> None:
    scene.settings = replace(SETTINGS, full_share=0.9)
    scene.letting_go = scene.make()
    scene.holdings = sized = Sized(scene.store)
    sized.used = 899
    assert await scene.let_go() == 0
    sized.used = 900
    assert await scene.let_go() == 1  # and no more than is above


async def test_no_more_than_a_twentieth_goes_in_a_day(scene: Scene) -> None:
    scene.settings = replace(SETTINGS, full_share=0.9, let_go_share=0.05)
    scene.letting_go = scene.make()
    scene.holdings = sized = Sized(scene.store)
    sized.used = 1_000
    await scene.keep(*(page(f"http://example.org/more/{number}", NOW_S) for number in range(97)))
    assert await scene.let_go() == 5
    scene.now += HOUR_S
    for _ in range(3):
        scene.promise()
        assert await scene.let_go() == 0
    scene.now += DAY_S - HOUR_S - 1
    scene.promise()
    assert await scene.let_go() == 0
    scene.now += 1
    scene.promise()
    assert await scene.let_go() == 4


def test_what_is_farthest_from_being_ours_goes_first() -> None:
    mine = contact_at(0x80)
    others = [contact_at(number) for number in (0x10, 0x20, 0x30, 0x40, 0x50, 0x60, 0x90, 0xF0)]
    table = Table([mine, *others], Rule(2))
    view = View(me=mine.peer, table=table)
    # Keys at 0x0f belong to 0x10 and 0x20, and 0x80 is the seventh; at 0x5f it is the third, and the first spare.
    pieces = [
        Group(
            (others[at].peer, others[at + 1].peer),
            arcs_of([Range(bytes((low,)) * 12, bytes((low + 1,)) * 12)]),
        )
        for at, low in ((0, 0x0E), (2, 0x2E), (4, 0x4E), (3, 0x3E))
    ]
    assert [ranges_of(piece.arcs)[0].low[0] for piece in farthest_first(view, pieces)] == [
        0x0E,
        0x2E,
        0x3E,
        0x4E,
    ]


def test_what_ends_in_the_midst_of_a_position_has_no_piece_without_keys() -> None:
    """A surplus that ends where our share begins: the rest of that position has the next holders, and no keys."""
    mine = contact_at(0x80)
    others = [contact_at(number) for number in (0x10, 0x20, 0x30)]
    view = View(me=mine.peer, table=Table([mine, *others], Rule(2)))
    end = others[0].position
    surplus = arcs_of([Range(bytes((0x0E,)) * 12, (int.from_bytes(end[:12], "big") + 1).to_bytes(12, "big"))])
    assert len(view.table.groups(surplus)) == 2
    pieces = view.groups_in(surplus)
    assert [piece.holders for piece in farthest_first(view, pieces)] == [(others[0].peer, others[1].peer)]


def contact_at(number: int) -> Contact:
    position = Key(bytes((number,)) * 20)
    return Contact(peer=PeerKey(bytes((number,)) * 32), address=ADDRESS, slot=0, index=0, position=position)


async def test_nothing_goes_before_the_ring_has_been_the_same_for_a_while(scene: Scene) -> None:
    scene.parts.view.changed_at = scene.now - 29.0
    assert await scene.let_go() == 0
    scene.parts.view.changed_at = scene.now - 30.0
    assert await scene.let_go() == 3


async def test_what_a_peer_will_never_hold_it_does_not_promise(scene: Scene) -> None:
    scene.parts.view.share, scene.parts.view.wide_share = NONE, HALF
    answers = CopyServices(scene.parts, on_come=lambda: None)
    ask = answers.services().calls[wire.ROOT]
    found = wire.decode_root(
        await ask(OTHERS[0], wire.encode_scope(WHOLE_RING, b"n" * 16, wants_promise=True))
    )
    assert not found.is_holder
    assert scene.parts.view.given == 0
    # What it may soon hold it promises for a short while, and says that it is no holder yet.
    found = wire.decode_root(
        await ask(OTHERS[0], wire.encode_scope(HALF_RING, b"n" * 16, wants_promise=True))
    )
    assert not found.is_holder
    assert scene.parts.view.given == 1
