"""What does a peer hold of what its stewards say? No window that outlives a lease, no wait that outlives the liar."""

from typing import Any

import anyio
import pytest
import trio.testing

from crawler.core.politeness import LeaseRefusal, LeaseTerms, PolitenessPolicy, Wait
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

    return await Windows(TERMS, ask, give_back, own_key=bytes(32)).get("a.example", "http://a.example")


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
