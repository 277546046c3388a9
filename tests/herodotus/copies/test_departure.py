"""Does a peer that leaves for good go in the right order, and may it be stopped, killed and told to stay?"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from herodotus.copies.departure import LINKS_PATIENCE_S, Leaving, LeavingPorts, NobodyToHandTo
from herodotus.copies.hand_over import HandedOver
from herodotus.core.errors import StorageFailure
from herodotus.home.folder import Home
from simnet.host import TrioCarrier, run_world

DONE = HandedOver(peers=3, parts=4, parts_over=4)


@dataclass
class Peer:
    """The rest of a peer: what was asked of it, in order, and what it holds back."""

    home: Home
    others: int = 3
    links: int = 0
    holds: int | None = 9
    young: int = 0
    """Times that the ring does not know yet who will hold what."""
    asked: list[str] = field(default_factory=list)
    may_finish: anyio.Event = field(default_factory=anyio.Event)
    failures: int = 0

    def leaving(self) -> Leaving:
        return Leaving(
            LeavingPorts(
                home=self.home,
                pause=self.pause,
                resume=self.resume,
                others=lambda: self.others,
                links_waiting=lambda: self.links,
                holds=lambda: self.holds,
                hand_over=self.hand_over,
            )
        )

    async def pause(self) -> None:
        if self.failures:
            self.failures -= 1
            raise StorageFailure(path="paused", action="write", reason="the disk is full", hint="make room")
        self.asked.append("pause")
        self.home.paused.touch()

    async def resume(self) -> None:
        self.asked.append("resume")
        self.home.paused.unlink(missing_ok=True)

    async def hand_over(self, tell: Callable[[HandedOver], None]) -> HandedOver:
        self.asked.append("hand over")
        if self.young or not self.holds:
            self.young = max(0, self.young - 1)
            return HandedOver()
        tell(HandedOver(peers=3, parts=4, parts_over=1, silent=2))
        await self.may_finish.wait()
        return DONE


@pytest.fixture
def home(tmp_path: Path) -> Home:
    (tmp_path / "state").mkdir()
    return Home(tmp_path)


@asynccontextmanager
async def opened(leaving: Leaving) -> AsyncIterator[Leaving]:
    async with leaving.opened():
        yield leaving


async def order(leaving: Leaving, said: list[str] | None = None) -> HandedOver | None:
    await leaving.begin()
    return await leaving.follow((said if said is not None else []).append, None)


def test_it_rests_hands_over_and_may_end_and_crawls_when_it_is_started_again(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        peer, said = Peer(home), list[str]()
        peer.may_finish.set()
        async with opened(peer.leaving()) as leaving:
            assert await order(leaving, said) == DONE
            assert (peer.asked, leaving.status().state) == (["pause", "hand over"], "handed over, ending")
            await leaving.left.wait()
        assert not home.draining.exists()
        assert not home.paused.exists()

    run_world(play, seed=1)


def test_links_are_waited_for_but_not_for_ever(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        peer = Peer(home, links=7)
        peer.may_finish.set()
        async with opened(peer.leaving()) as leaving:
            began = anyio.current_time()
            said: list[str] = []
            await order(leaving, said)
            assert "delivering links: 7 wait" in said
            assert LINKS_PATIENCE_S <= anyio.current_time() - began < LINKS_PATIENCE_S + 2

    run_world(play, seed=1)


def test_who_is_alone_is_refused_and_goes_on_as_before(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        peer = Peer(home, others=0)
        async with opened(peer.leaving()) as leaving:
            with pytest.raises(NobodyToHandTo, match="nobody to hand over to"):
                await leaving.begin()
            assert (peer.asked, home.draining.exists()) == ([], False)

    run_world(play, seed=1)


def test_it_goes_on_when_nobody_looks_and_tells_how_far_it_is(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        peer = Peer(home)
        async with opened(peer.leaving()) as leaving:
            await leaving.begin()
            said: list[str] = []
            assert await leaving.follow(said.append, 3.0) is None
            assert (
                said[-1] == "handing over: 1 of 4 parts are with 3 other peers; 2 of them do not take it now"
            )
            assert (leaving.status().parts_over, leaving.status().silent) == (1, 2)
            peer.may_finish.set()
            await leaving.left.wait()

    run_world(play, seed=1)


@pytest.mark.parametrize("was_paused", [False, True])
def test_it_may_stay_and_crawls_as_before_and_may_leave_later(home: Home, was_paused: bool) -> None:
    async def play(_: TrioCarrier) -> None:
        if was_paused:
            home.paused.touch()
        peer = Peer(home)
        async with opened(peer.leaving()) as leaving:
            assert not await leaving.stay()
            await leaving.begin()
            await leaving.follow(lambda _: None, 2.0)
            assert await leaving.stay()
            await anyio.wait_all_tasks_blocked()
            assert leaving.status().state == "staying"
            assert (home.draining.exists(), home.paused.exists()) == (False, was_paused)
            peer.may_finish.set()
            assert await order(leaving) == DONE
        assert home.paused.exists() == was_paused
        assert peer.asked == ["pause", "hand over", *([] if was_paused else ["resume"]), "pause", "hand over"]

    run_world(play, seed=1)


def test_who_is_killed_midway_goes_on_by_himself_when_others_are_seen_again(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        first = Peer(home)
        async with opened(first.leaving()) as leaving:
            await leaving.begin()
            await leaving.follow(lambda _: None, 2.0)
        assert home.draining.exists()
        again = Peer(home, others=0)
        again.may_finish.set()
        async with opened(again.leaving()) as leaving:
            await anyio.sleep(20)
            assert leaving.status().state == "waiting for the archive, or for other members"
            again.others = 1
            await leaving.left.wait()
        assert not home.draining.exists()

    run_world(play, seed=1)


def test_a_full_disk_is_no_reason_to_end_the_peer(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        peer = Peer(home, failures=2)
        peer.may_finish.set()
        async with opened(peer.leaving()) as leaving:
            assert await order(leaving) == DONE

    run_world(play, seed=1)


def test_an_empty_archive_is_handed_over_at_once_but_not_one_that_is_not_open(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        peer = Peer(home, holds=None)
        async with opened(peer.leaving()) as leaving:
            await leaving.begin()
            assert await leaving.follow(lambda _: None, 30.0) is None
            peer.holds = 0
            assert await leaving.follow(lambda _: None, 30.0) == HandedOver()
            await leaving.left.wait()
        assert not home.draining.exists()

    run_world(play, seed=1)


def test_who_only_hands_over_is_not_done_before_somebody_has_it(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        peer, said = Peer(home, young=3), list[str]()
        peer.may_finish.set()
        async with opened(peer.leaving()) as leaving:
            assert await leaving.only_hand_over(said.append, 0.9) is None
            assert (peer.young, said) == (1, [])
            assert await leaving.only_hand_over(said.append, 30.0) == DONE
            assert said == ["1 of 4 parts are with 3 other peers; 2 of them do not take it now"]
            assert (leaving.status().state, peer.asked) == ("staying", ["hand over"] * 4)
            peer.holds = 0
            assert await leaving.only_hand_over(said.append, 30.0) == HandedOver()
            peer.others = 0
            with pytest.raises(NobodyToHandTo):
                await leaving.only_hand_over(said.append, 30.0)

    run_world(play, seed=1)


def refuse(mark: Path) -> None:
    """As a disk that gives no mark back, and cannot take it away either."""
    mark.unlink()
    mark.mkdir()


def test_a_mark_that_cannot_be_taken_away_is_no_reason_to_end_the_peer(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        peer = Peer(home)
        async with opened(peer.leaving()) as leaving:
            await leaving.begin()
            await leaving.follow(lambda _: None, 2.0)
            refuse(home.draining)
            peer.may_finish.set()
            assert await leaving.follow(lambda _: None, 100.0) is None
            home.draining.rmdir()
            assert await leaving.follow(lambda _: None, 100.0) == DONE
            await leaving.left.wait()

    run_world(play, seed=1)


def test_who_cannot_take_the_order_back_goes_on_leaving(home: Home) -> None:
    async def play(_: TrioCarrier) -> None:
        peer = Peer(home)
        async with opened(peer.leaving()) as leaving:
            await leaving.begin()
            await leaving.follow(lambda _: None, 2.0)
            refuse(home.draining)
            with pytest.raises(IsADirectoryError):
                await leaving.stay()
            home.draining.rmdir()
            peer.may_finish.set()
            assert await leaving.follow(lambda _: None, 100.0) == DONE
        assert "resume" not in peer.asked

    run_world(play, seed=1)
