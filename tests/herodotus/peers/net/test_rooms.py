"""Who waits for a connection, who gives one up, and is the bound kept by real fetches and calls?"""

import anyio
import pytest

from crawler.core.capture import Capture
from crawler.http import FetchSettings, HttpFetcher
from crawler.ports import FetchRequest
from herodotus.core.connections import Use
from herodotus.home import clock
from herodotus.peers.net.rooms import Rooms, Slot
from tests.crawler.synthetic import synthetic_web

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(60)]


def filled(rooms: Rooms, use: Use) -> list[Slot]:
    return list(iter(lambda: rooms.take(use), None))


async def test_who_finds_no_room_waits_until_somebody_leaves() -> None:
    rooms = Rooms(100)
    slots = filled(rooms, Use.CALLING)
    entered: list[Slot] = []

    async def enter() -> None:
        entered.append(await rooms.room(Use.CALLING).enter())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(enter)
        await anyio.wait_all_tasks_blocked()
        assert entered == []
        slots[0].leave()
        slots[0].leave()
        await anyio.wait_all_tasks_blocked()
    assert (len(entered), rooms.connections.of(Use.CALLING)) == (1, len(slots)), (
        "leaving twice is leaving once"
    )


async def test_what_rests_is_closed_for_who_needs_room_its_own_use_last() -> None:
    rooms = Rooms(100)
    web, gone = filled(rooms, Use.WEB), list[str]()
    calling = [slot for _ in range(20) if (slot := rooms.take(Use.CALLING))]

    def give(name: str, slots: list[Slot]) -> bool:
        if not slots:
            return False
        gone.append(name)
        slots.pop().leave()
        return True

    def give_web() -> bool:
        return give("web", web)

    rooms.room(Use.CALLING).gives(lambda: give("calling", calling))
    rooms.room(Use.WEB).gives(give_web)
    assert rooms.room(Use.CALLING).take() is not None
    assert gone == ["web"]
    rooms.room(Use.WEB).gives_no_more(give_web)
    filled(rooms, Use.CALLING)
    assert rooms.room(Use.CALLING).take() is not None
    assert gone == ["web", "calling"]


async def test_what_connections_carried_is_summed_up_and_looked_at_more_than_once() -> None:
    rooms = Rooms(100)
    first, second = (rooms.room(Use.CALLING).take() for _ in range(2))
    assert first is not None
    assert second is not None
    first.carried(100, 10)
    first.carried(150, 15)
    second.carried(1_000, 2_000)
    first.carried(0, 0)  # closed meanwhile: nobody knows any more
    first.leave()
    first.carried(9_999, 9_999)
    assert (rooms.bytes_in, rooms.bytes_out) == (1_150, 2_015)


async def test_nobody_in_use_has_to_go() -> None:
    rooms = Rooms(100)
    filled(rooms, Use.CALLED)
    assert rooms.room(Use.CALLED).take() is None


async def test_a_crawl_s_kept_connections_stay_within_its_room_and_go_first() -> None:
    rooms = Rooms(25)  # 9 for sites, and 5 that are for whoever comes first
    most = 0
    settings = FetchSettings(
        connections=6, allow_private_addresses=True, connections_per_address=64, room=rooms.room(Use.WEB)
    )
    async with synthetic_web(3, hosts=30, pages_max=1, troubles=False) as web:
        async with HttpFetcher(settings, wall_clock=clock.unix_seconds) as fetcher:
            for url in web.seeds:
                found = await fetcher.fetch(FetchRequest(url=url))
                assert isinstance(found, Capture)
                most = max(most, rooms.connections.of(Use.WEB))
            assert most == rooms.connections.of(Use.WEB) == 14, "some are kept"
            slots = [slot for _ in range(10) if (slot := rooms.room(Use.CALLING).take())]
            assert len(slots) == 10, "those that rest give way to calls"
            assert rooms.connections.of(Use.WEB) == 9
            assert rooms.bytes_in > rooms.bytes_out > 6 * (52 * 4 + 100), "what went has told what it carried"
        assert rooms.connections.of(Use.WEB) == 0
