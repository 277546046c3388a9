"""What must not happen between the look at promises and the deed? Each moment at which a copy could go too early."""

import random
from collections.abc import Callable

import pytest

from dht.core.arcs import NONE, WHOLE
from dht.core.holders import Table
from dht.core.placement import Rule
from herodotus.copies import wire
from herodotus.copies.services import CopyServices
from herodotus.copies.shared_state import Parts, View
from herodotus.copies.surplus import DEED_S, ShareSurvey, let_go
from herodotus.core.copies.ledger import Group
from herodotus.core.index_rows import CAPTURE, after
from herodotus.core.reconciliation import Range, arcs_of
from herodotus.peers.calls import Services
from herodotus.store import holdings
from herodotus.store.engine import Archive
from herodotus.store.holdings import ArchiveHoldings, drop
from herodotus.store.intake import Intake
from tests.herodotus.copies.sets import WHOLE_RING, Straight
from tests.herodotus.store.making import NOW_S, page
from tests.herodotus.store.memory_store import AtOnce, MemoryStore

pytestmark = pytest.mark.anyio
ME, OTHERS = b"\0" * 32, tuple(bytes((number,)) * 32 for number in range(1, 7))
HALF_RING = (Range(bytes(12), b"\x80" + bytes(11)),)
HALF = arcs_of(HALF_RING)


class Scene:
    """A peer whose whole archive is surplus, and six who promised to hold it."""

    def __init__(self) -> None:
        self.store = MemoryStore(lambda: float(NOW_S))
        self.holdings = ArchiveHoldings(self.store)
        self.now = 1_000.0
        self.stored = 0
        self.fresh: list[bytes] = []
        view = View(me=ME, table=Table((), Rule(6)), share=HALF, wide_share=WHOLE)
        self.parts = Parts(
            view=view,
            holdings=lambda: self.holdings,
            calls=lambda: Straight(Services()),
            workers=AtOnce(),
            sign=lambda deposit: deposit,
            random=random.Random(0),
            now=lambda: self.now,
            hear=self.hear,
        )
        self.group = Group(arcs=WHOLE, holders=OTHERS)
        for peer in OTHERS:
            self.parts.ledger.confirm(
                self.parts.ledger.begin(peer, WHOLE, self.now), (), is_promise=True, is_exact=True
            )

    def hear(self) -> None:
        while self.fresh:
            self.parts.ledger.stored(self.fresh.pop())

    def note(self, key: bytes) -> None:
        """As the thread does that made it durable."""
        self.fresh.append(key)
        self.stored += 1

    async def let_go(self) -> int:
        found = ShareSurvey(surplus=[self.group], standing=(0, 0, self.parts.view.version))
        return await let_go(self.parts, self.holdings, found, keep_s=30.0, stored=lambda: self.stored)

    @property
    def captures(self) -> list[bytes]:
        return [key[1:] for key, _ in self.store.archive.index.scan(CAPTURE, after(CAPTURE))]


@pytest.fixture
async def scene() -> Scene:
    made = Scene()
    for number in range(3):
        await made.store.store(page(f"http://example.org/{number}", NOW_S))
    return made


async def test_what_all_six_promised_goes(scene: Scene) -> None:
    assert await scene.let_go() == 3
    assert scene.captures == []


async def test_what_was_stored_and_not_heard_of_stays(scene: Scene) -> None:
    scene.note(scene.captures[0])
    assert await scene.let_go() == 0


async def test_fewer_than_k_holders_let_nothing_go(scene: Scene) -> None:
    scene.group = Group(arcs=WHOLE, holders=OTHERS[:5])
    assert await scene.let_go() == 0


async def test_who_is_among_the_holders_lets_nothing_go(scene: Scene) -> None:
    scene.group = Group(arcs=WHOLE, holders=(ME, *OTHERS[:5]))
    assert await scene.let_go() == 0


async def test_a_survey_of_another_ring_lets_nothing_go(scene: Scene) -> None:
    found = ShareSurvey(surplus=[scene.group], standing=(0, 0, scene.parts.view.version))
    scene.parts.view.version += 1
    assert await let_go(scene.parts, scene.holdings, found, keep_s=30.0, stored=lambda: 0) == 0


def something_stored(scene: Scene) -> None:
    scene.note(scene.captures[0])


def ring_changed(scene: Scene) -> None:
    scene.parts.view.version += 1


def promised(scene: Scene) -> None:
    scene.parts.view.promise(OTHERS[0], WHOLE, scene.now + 600)


def slept(scene: Scene) -> None:
    scene.now += DEED_S + 1


@pytest.mark.parametrize("happens", [something_stored, ring_changed, promised, slept])
async def test_what_changes_between_the_look_and_the_deed_stops_it(
    scene: Scene, happens: Callable[[Scene], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It happens while the deed waits for its thread."""

    def later(
        archive: Archive, intake: Intake, low: bytes, high: bytes | None, may_go: Callable[[], bool]
    ) -> int:
        happens(scene)
        return drop(archive, intake, low, high, may_go)

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


async def test_who_is_among_the_holders_lets_nothing_go_whatever_was_promised(scene: Scene) -> None:
    scene.group = Group(arcs=WHOLE, holders=(ME, *OTHERS[:5]))
    ledger = scene.parts.ledger
    ledger.confirm(ledger.begin(ME, WHOLE, scene.now), (), is_promise=True, is_exact=True)
    assert await scene.let_go() == 0


async def test_what_was_promised_to_somebody_does_not_go_before_that_promise_is_over(scene: Scene) -> None:
    scene.parts.view.promise(b"\x09" * 32, HALF, scene.now + 100)
    assert await scene.let_go() == 0
    scene.now += 100
    assert await scene.let_go() == 3


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
