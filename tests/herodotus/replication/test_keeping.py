"""Do captures come to be with all their holders, and stay there, while peers come and go? In virtual time."""

from collections.abc import Awaitable, Callable

import anyio

from simnet.host import TrioCarrier, run_world
from tests.herodotus.replication.world import Net, deposit


def in_world(play: Callable[[Net], Awaitable[None]], *, seed: int = 1, copies: int = 6) -> None:
    async def main(_: TrioCarrier) -> None:
        async with anyio.create_task_group() as tasks:
            await play(Net(tasks, seed=seed, copies=copies))
            tasks.cancel_scope.cancel()

    run_world(main, seed=seed)


async def ring_of(net: Net, count: int) -> None:
    for _ in range(count):
        await net.start(net.add())


def test_what_one_peer_stores_comes_to_its_six_holders_and_nobody_else_keeps_it() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, 9)
        await anyio.sleep(60)
        keys = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(60)}
        await net.settle(keys, within_s=900)

    in_world(play)


def test_a_lost_peer_s_copies_are_made_anew_once_it_is_gone_for_long_and_not_before() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, 9)
        await anyio.sleep(60)
        keys = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(40)}
        await net.settle(keys, within_s=900)
        lost = net.peers[3]
        held = {peer.number: len(peer.ids()) for peer in net.peers}
        net.crash(lost, loses_disk=True)
        await anyio.sleep(net.settings.departed_s / 2)
        assert {p.number: len(p.ids()) for p in net.peers if p is not lost} == {
            number: count for number, count in held.items() if number != lost.number
        }
        await net.settle(keys, within_s=1_500)

    in_world(play)


def test_who_returns_with_its_disk_gets_only_what_it_missed() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, 7)
        await anyio.sleep(60)
        before = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(60)}
        await net.settle(before, within_s=900)
        away = net.peers[5]
        net.crash(away)
        keys = before | {await deposit(net.peers[0], f"http://example.org/new/{n}") for n in range(6)}
        await anyio.sleep(6 * 3_600)
        net.bytes.clear()
        await net.start(away)
        await net.settle(keys, within_s=1_500)
        assert away.copies.parts.counts.received <= 6

    in_world(play)


def test_a_new_peer_fills_and_others_let_go_of_what_is_no_longer_theirs() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, 7)
        await anyio.sleep(60)
        keys = {await deposit(net.peers[n % 7], f"http://example.org/{n}") for n in range(60)}
        await net.settle(keys, within_s=900)
        await net.start(net.add())
        await net.settle(keys, within_s=1_500)
        await anyio.sleep(300)
        for peer in net.peers:
            assert peer.copies.histogram == {6: len(peer.ids())}

    in_world(play)


def test_who_leaves_hands_over_first() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, 8)
        await anyio.sleep(60)
        keys = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(40)}
        await net.settle(keys, within_s=900)
        leaver = net.peers[2]
        with anyio.fail_after(120):
            await leaver.copies.hand_over()
        net.crash(leaver, loses_disk=True)
        assert all(len(net.copies_of(key)) >= 6 for key in keys)

    in_world(play)


def test_the_halves_of_a_split_ring_come_together_with_all_that_either_has() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, 12)
        await anyio.sleep(60)
        keys = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(30)}
        await net.settle(keys, within_s=900)
        net.split({number: number % 2 for number in range(12)})
        await anyio.sleep(30)
        keys |= {await deposit(net.peers[n % 2], f"http://example.org/half/{n}") for n in range(30)}
        await anyio.sleep(2_000)
        net.heal()
        await net.settle(keys, within_s=2_500)

    in_world(play)
