"""What does a capture's deletion at other peers do here? Nothing, however many keys say so."""

import anyio

from herodotus.copies import wire
from herodotus.core.index_rows import CAPTURE, TOMBSTONE
from herodotus.core.reconciliation import member_of
from tests.herodotus.copies.world import Net, deposit, in_world, ring_of
from tests.herodotus.deposits import delete_url

HONEST, KEYS = 7, 4


def test_four_keys_that_delete_everything_delete_nothing_of_seven_honest_peers() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * (HONEST + KEYS))
        urls = [f"http://example.org/{n}" for n in range(40)]
        keys = {await deposit(net.peers[n % HONEST], url) for n, url in enumerate(urls)}
        await net.settle(keys, within_s=900)
        honest, attackers = net.peers[:HONEST], net.peers[HONEST:]
        before = {peer.number: peer.ids() for peer in honest}
        for peer in attackers:
            for url in urls:
                await delete_url(peer.store, url)
        net.bytes.clear()
        await anyio.sleep(4 * net.settings.compare_s)
        assert {peer.number: peer.ids() for peer in honest} == before
        assert not any(peer.ids() for peer in attackers), "what was erased is not pushed again"
        sent = net.bytes.get(wire.PUT, 0)
        assert sent == 0, f"{sent} bytes of captures went to peers that want none"
        for peer in honest:
            status = peer.copies.status()
            gone = {key for key in before[peer.number] if {one.me for one in attackers} & {*net.holders(key)}}
            assert status.declined == len(gone)
            assert status.too_few == 0, "declined is not lost"
        assert not any(peer.copies.parts.suspects.counts for peer in honest)

    in_world(play)


def test_a_tombstone_that_a_peer_sends_instead_of_a_capture_is_not_taken() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None)
        first, second = net.peers
        key = await deposit(first, "http://example.org/")
        await net.settle({key}, within_s=900)
        await delete_url(second.store, "http://example.org/")
        member = member_of(CAPTURE + key)[:-1] + TOMBSTONE
        assert await first.copies.parts.opened().lacking([member]) == [member]
        await anyio.sleep(4 * net.settings.compare_s)
        assert key in first.ids()

    in_world(play)
