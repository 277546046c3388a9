"""What does a peer hold of what its stewards say? No window that outlives a lease, no wait that outlives the liar."""

import dataclasses
from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.lease_office import LATE_SHARE_MAX
from crawler.core.politeness import LeaseRefusal, LeaseTerms, OriginReport, PolitenessPolicy, Wait
from dht import Contact
from herodotus.crawl.stewards.ask_queue import Told
from herodotus.crawl.stewards.windows import WAIT_MAX_S, HostNote, Windows
from herodotus.crawl.stewards.wire import TIME_MS_MAX, Answer, Ask, Granted, NotYet, Return

pytestmark = pytest.mark.anyio
TERMS = LeaseTerms.of(PolitenessPolicy(delay_floor_s=2.0))


@pytest.fixture
def anyio_backend() -> Any:
    return "trio", {"clock": trio.testing.MockClock(autojump_threshold=0)}


async def told(answer: Answer) -> HostNote | Wait | LeaseRefusal:
    """By a peer whose steward says this."""

    async def ask(_ask: Ask) -> Told:
        await anyio.lowlevel.checkpoint()
        return Told(answer, anyio.current_time(), anyio.current_time())

    def give_back(_to: Contact | None, _returned: Return) -> None:
        pass

    return await Windows(TERMS, ask, give_back, own_key=bytes(32)).get("a.example", "http://a.example", "")


async def test_a_window_within_the_life_of_a_lease_is_held_as_it_was_granted() -> None:
    note = await told(Granted(1, 10_000, 20_000, 5, 2_000))
    assert isinstance(note, HostNote)
    assert note.window is not None
    now = anyio.current_time()
    assert (note.window.starts_at - now, note.window.ends_at - now) == pytest.approx((10.0, 30.0))


async def test_a_window_for_a_week_ends_with_the_life_of_a_lease() -> None:
    """The next steward is silent for no longer: who is cut off from a liar must not go on beside it."""
    note = await told(Granted(1, 10_000, TIME_MS_MAX, 5, 2_000))
    assert isinstance(note, HostNote)
    assert note.window is not None
    assert note.window.ends_at - anyio.current_time() == pytest.approx(TERMS.life_s)


async def test_a_window_in_a_week_is_none_and_somebody_is_asked_again_soon() -> None:
    found = await told(Granted(1, TIME_MS_MAX, 1_000, 5, 2_000))
    assert isinstance(found, Wait)
    assert found.until - anyio.current_time() == pytest.approx(TERMS.life_s)


async def test_a_steward_that_says_not_yet_for_a_week_is_asked_again_by_then() -> None:
    found = await told(NotYet(TIME_MS_MAX, "others are before"))
    assert isinstance(found, Wait)
    assert found.until - anyio.current_time() == pytest.approx(WAIT_MAX_S)


class Names:
    """A steward that covers what it is asked for, or what it likes."""

    def __init__(self, covers: str | None = None) -> None:
        self.covers = covers
        self.asked: list[str | None] = []
        self.returned: list[int] = []
        self.windows = Windows(TERMS, self._ask, self._take_back, own_key=bytes(32))

    async def _ask(self, ask: Ask) -> Told:
        await anyio.lowlevel.checkpoint()
        self.asked.append(ask.address)
        covers = [self.covers or ask.address or ""]
        now = anyio.current_time()
        return Told(Granted(len(self.asked), 0, 20_000, 5, 2_000, addresses=covers), now, now)

    def _take_back(self, _to: Contact | None, returned: Return) -> None:
        self.returned.append(returned.number)

    async def get(self, address: str) -> HostNote | Wait | LeaseRefusal:
        return await self.windows.get("a.example", "http://a.example", address)


async def test_a_window_is_used_for_the_address_that_it_covers_and_no_other() -> None:
    names = Names()
    note = await names.get("93.184.0.1")
    assert isinstance(note, HostNote)
    stay = note.stay
    assert await names.get("93.184.0.1") is note
    assert (names.asked, stay.is_over) == (["93.184.0.1"], False)
    assert await names.get("93.184.0.2") is note
    assert (names.asked, names.returned) == (["93.184.0.1", "93.184.0.2"], [1])
    assert (stay.is_over, note.stay.is_over) == (True, False)


async def test_a_window_that_does_not_name_the_address_is_none() -> None:
    found = await Names(covers="93.184.0.9").get("93.184.0.1")
    assert isinstance(found, Wait)
    assert found.until - anyio.current_time() == pytest.approx(WAIT_MAX_S)


async def test_what_was_kept_open_under_a_window_ends_soon_after_it() -> None:
    names = Names()
    note = await names.get("93.184.0.1")
    assert isinstance(note, HostNote)
    ended: list[float] = []
    note.stay.keep(lambda: ended.append(anyio.current_time()))
    note.window = dataclasses.replace(note.window or pytest.fail("none"), next_start_at=19.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(names.windows.return_idle)
        await anyio.sleep(30)
        tasks.cancel_scope.cancel()
    assert ended == [pytest.approx(20.0, abs=0.6)]


class Steward:
    """Grants what it is asked for after a while, with some spacing; and remembers."""

    def __init__(self, spacing_ms: int, *, takes_s: float = 0.0, lasts_ms: int = 1_000) -> None:
        self.asked = 0
        self.late_ms: list[int] = []
        self.returned: list[int] = []
        floor_s = spacing_ms / 1000
        terms = LeaseTerms.of(PolitenessPolicy(delay_floor_s=floor_s))
        self.windows = Windows(terms, self._ask, self._take_back, own_key=bytes(32))
        self._spacing_ms, self._takes_s, self._lasts_ms = spacing_ms, takes_s, lasts_ms

    async def _ask(self, ask: Ask) -> Told:
        asked = anyio.current_time()
        await anyio.sleep(self._takes_s)
        self.asked += 1
        self.late_ms.append(ask.lasts_ms)
        answer = Granted(self.asked, 0, self._lasts_ms, ask.wanted, self._spacing_ms, addresses=["192.0.2.1"])
        return Told(answer, asked, anyio.current_time())

    def _take_back(self, _to: Contact | None, returned: Return) -> None:
        self.returned.append(returned.number)

    async def get(self) -> HostNote | Wait | LeaseRefusal:
        return await self.windows.get("a.example", "http://a.example", "192.0.2.1")


@pytest.mark.parametrize(("spacing_ms", "returned"), [(0, []), (2_000, [1])])
async def test_a_window_that_nobody_waits_for_is_kept_for_links_to_come(
    spacing_ms: int, returned: list[int]
) -> None:
    steward = Steward(spacing_ms, lasts_ms=10_000)
    await steward.get()
    steward.windows.ended("a.example", OriginReport(status=None, duration_s=0.0, fetches=0), 0.0)
    assert steward.returned == returned


@pytest.mark.parametrize(("spacing_ms", "is_held"), [(0, True), (500, False)])
async def test_a_slow_way_takes_nothing_of_a_window_in_which_starts_need_not_be_apart(
    spacing_ms: int, *, is_held: bool
) -> None:
    found = await Steward(spacing_ms, takes_s=0.6).get()
    assert isinstance(found, HostNote) == is_held
    if isinstance(found, Wait):
        assert found.until - anyio.current_time() == pytest.approx(0.25), "by what the way takes now"


async def test_a_host_that_is_long_to_reach_has_longer_windows_and_starts_earlier_in_them() -> None:
    steward = Steward(2_000, lasts_ms=20_000)
    for late_s in (3.0, 0.0, 0.0, 1e9):
        note = await steward.get()
        assert isinstance(note, HostNote)
        assert note.window is not None
        steward.windows.ended(
            "a.example", OriginReport(status=None, duration_s=0.0, fetches=0, late_s=late_s), 0.0
        )
    assert steward.late_ms == [0, 3_000, 2_625, 2_296]
    note = await steward.get()
    assert isinstance(note, HostNote)
    assert steward.late_ms[-1] == 1_000 * LATE_SHARE_MAX * TERMS.window_s == 7_500
    assert note.window is not None
    now = anyio.current_time()
    assert [note.window.is_over(now + after_s) for after_s in (12.49, 12.51)] == [False, True]
    assert steward.windows.starts_by("a.example") == pytest.approx(now + 20.0)
    assert steward.windows.starts_by("b.example") is None


async def test_a_window_shorter_than_the_way_is_used_in_its_first_half() -> None:
    """The steward lengthens windows up to a bound: beyond, a fetch is tried that may be too late."""
    steward = Steward(2_000, lasts_ms=6_000)
    await steward.get()
    late = OriginReport(status=None, duration_s=0.0, fetches=0, late_s=7.0)
    steward.windows.ended("a.example", late, 0.0)
    note = await steward.get()
    assert isinstance(note, HostNote)
    assert note.window is not None
    now = anyio.current_time()
    assert [note.window.is_over(now + after_s) for after_s in (0.0, 2.99, 3.01)] == [False, False, True]
