"""Are copies beyond the six there while there is room, and only then? Peers in virtual time, each a place."""

from collections.abc import Callable
from dataclasses import replace
from random import Random

import anyio
import pytest

from dht.core.ids import Key
from dht.core.places import PlaceRules
from herodotus.copies import wire
from herodotus.core.copies.schedule import ComparisonSchedule, Purpose
from herodotus.store.settings import ArchiveSettings
from tests.herodotus.copies.world import SETTINGS, Net, Peer, deposit, in_world, ring_of
from tests.herodotus.store.making import NOW_S

COPIES, SPARES = 3, 2
PLACES = PlaceRules(spare_copies=SPARES)
ROOMY = replace(SETTINGS, full_share=0.9, compare_s=600.0)


async def archived(net: Net, count: int, site: str = "example.org") -> set[bytes]:
    return {
        await deposit(net.peers[n % len(net.peers)], f"http://{site}/{n}", body=b"%04d" % n * 60)
        for n in range(count)
    }


def keepers(net: Net, key: bytes) -> set[int]:
    found = net.table().of(Key(key[:12]), SPARES)
    return {net.by_key[one.peer].number for one in found}


async def until(is_so: Callable[[], bool], within_s: float) -> None:
    with anyio.move_on_after(within_s):
        while not is_so():  # noqa: ASYNC110  # what peers hold in virtual time tells nobody
            await anyio.sleep(5)
    assert is_so()


def test_the_next_on_the_ring_fill_up_and_the_holders_know_how_far() -> None:
    async def play(net: Net) -> None:
        net.settings = ROOMY
        await ring_of(net, *[None] * 8)
        keys = await archived(net, 24)
        await until(lambda: all(keepers(net, key) <= net.copies_of(key) for key in keys), 1_500)
        await anyio.sleep(1_500)  # all have asked each other
        for peer in net.peers:
            told = peer.copies.status().spares
            kept = {key for key in peer.ids() if peer.me not in net.holders(key)}
            spare = {key for key in kept if peer.number in keepers(net, key)}
            assert (told.copies, told.held, told.fills) == (SPARES, len(spare), True)
            assert (told.own, told.known) == (len(peer.ids() - kept), SPARES * len(peer.ids() - kept))

    in_world(play, copies=COPIES, places=PLACES)


def test_all_holders_gone_at_once_take_nothing_along() -> None:
    async def play(net: Net) -> None:
        net.settings = ROOMY
        await ring_of(net, *[None] * 8)
        keys = await archived(net, 24)
        await anyio.sleep(2_000)
        victim = min(keys)
        for holder in net.holders(victim):
            net.crash(net.by_key[holder], loses_disk=True)
        await anyio.sleep(1_500)
        there = set[bytes]().union(*(peer.ids() for peer in net.peers if peer.is_up))
        assert keys <= there
        assert len(net.copies_of(victim)) >= COPIES

    in_world(play, copies=COPIES, places=PLACES)


def test_spares_take_no_room_that_is_needed_and_are_no_surplus_before() -> None:
    """Where the archive nears its offer nothing is filled; what is there goes, on full proofs, when room is needed."""

    async def play(net: Net) -> None:
        net.settings = replace(ROOMY, keep_s=30.0)
        await ring_of(net, *[None] * 8)
        keys = await archived(net, 60)
        await anyio.sleep(2_000)
        small = max(net.peers, key=lambda peer: len(spares_at(net, peer, keys)))
        used = small.store.archive.room().used
        small.store.archive.settings = ArchiveSettings(archive_bytes_max=int(used / 0.76))
        before = spares_at(net, small, keys)
        assert small.copies.status().dropped == 0, "there was room"
        more = await archived(net, 40, "example.com")
        await anyio.sleep(3_000)
        found = small.copies.status()
        assert not found.spares.fills
        assert spares_at(net, small, keys) < before
        assert found.dropped, "spare copies made room"
        assert all(key in small.ids() for key in more if small.me in net.holders(key)), (
            "for what must be held"
        )
        assert all(
            set(net.holders(key)) <= {net.peers[n].me for n in net.copies_of(key)} for key in keys | more
        )

    in_world(play, copies=COPIES, places=PLACES)


@pytest.mark.parametrize("full", [0.0, 0.8])
def test_what_a_keeper_of_spares_fetched_alone_comes_to_the_holders_beside_what_they_have_of_that_day(
    full: float,
) -> None:
    """While the ring was split it owned the URL on its side. Members do not tell how many captures a day has. An
    archive between the two bounds keeps the spare copies that it has, takes no more, and tells of them all the same."""

    async def play(net: Net) -> None:
        net.settings = ROOMY
        await ring_of(net, *[None] * 8)
        url = "http://example.org/"
        first = await deposit(net.peers[0], url)
        await until(lambda: keepers(net, first) <= net.copies_of(first), 1_500)
        alone = max(keepers(net, first) - {net.by_key[one].number for one in net.holders(first)})
        net.split({alone: 1})
        second = await deposit(net.peers[alone], url, time_s=NOW_S + 60, body=b"changed since")
        if full:
            archive = net.peers[alone].store.archive
            archive.settings = ArchiveSettings(archive_bytes_max=int(archive.room().used / full))
        await anyio.sleep(300)  # it has tried to send it, and seen how full it is
        assert net.copies_of(second) == {alone}
        net.heal()
        holders = {net.by_key[one].number for one in net.holders(second)}
        assert alone not in holders
        await until(lambda: holders <= net.copies_of(second), 3_000)
        assert net.peers[alone].copies.status().spares.fills is not bool(full)

    in_world(play, copies=COPIES, places=PLACES)


def spares_at(net: Net, peer: Peer, keys: set[bytes]) -> set[bytes]:
    spare = {key for key in keys & peer.ids() if peer.me not in net.holders(key)}
    return {key for key in spare if peer.number in keepers(net, key)}


def test_spares_wait_while_there_is_anything_else_to_do() -> None:
    schedule = ComparisonSchedule(every_s=100.0, soon_s=0.0, random=Random(1))
    tasks = [(b"a", Purpose.SPARE), (b"b", Purpose.SHARED), (b"c", Purpose.COUNT)]
    schedule.set_tasks(tasks, 0.0, changed=())
    assert schedule.take(1.0) == (b"b", Purpose.SHARED)
    assert schedule.take(1.0, is_busy=True) is None
    assert schedule.next_deadline(is_busy=True) is None
    assert schedule.take(1.0) in {tasks[0], tasks[2]}


def test_counting_spares_costs_a_digest_where_they_are_whole() -> None:
    async def play(net: Net) -> None:
        net.settings = ROOMY
        await ring_of(net, *[None] * 8)
        await archived(net, 24)
        await anyio.sleep(3_000)
        before = dict(net.bytes)
        await anyio.sleep(2 * ROOMY.compare_s)
        grown = {name for name in net.bytes if net.bytes[name] > before.get(name, 0)}
        assert wire.ROOT in grown
        assert not grown & {wire.TOPS, wire.CELLS, wire.MEMBERS, wire.TAKE, wire.PUT}

    in_world(play, copies=COPIES, places=PLACES)
