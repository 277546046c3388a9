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
