"""Does what is new go out at once, whatever else a holder is waiting for?"""

from dataclasses import dataclass, field
from random import Random

import anyio
import pytest

from dht import Contact
from dht.core.ids import Key
from dht.core.places import PlaceRules
from herodotus.copies import push_queue, wire
from herodotus.core.index_rows import capture_key
from herodotus.peers.calls import PeerUnreachableError, RefusedError
from tests.herodotus.copies.world import Net, Peer, deposit, in_world, ring_of
from tests.herodotus.store.making import NOW_S, page


def hears_first_from_another(peer: Peer, times: int) -> None:
    """So many times it says that all it is offered is coming already."""
    left = times

    def tamper(service: str, answer: bytes) -> bytes:
        nonlocal left
        if service != wire.LACKS or left == 0:
            return answer
        left -= 1
        return bytes([wire.COMING]) * len(answer)

    peer.tamper = tamper


async def known_of_old(sender: Peer, holder: Peer, url: str) -> bytes:
    """A capture of which the sender cannot tell that nobody else has it, as after a restart."""
    key = capture_key(page(url, NOW_S, url.encode() * 20).id)
    sender.copies.parts.receiving.add(key)
    assert await deposit(sender, url) == key[1:]
    sender.copies.parts.receiving.discard(key)
    sender.copies._pusher.add_missing(holder.me, [key[1:]])
    return key[1:]


def test_new_captures_do_not_wait_for_one_that_is_coming_from_another() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None)
        sender, holder = net.peers
        hears_first_from_another(holder, 1)
        coming = await known_of_old(sender, holder, "http://example.org/coming")
        await anyio.sleep(1)
        pusher = sender.copies._pusher
        for number in range(push_queue.COMING_TRIES + 1):  # as often as it would be asked in vain
            key = await deposit(sender, f"http://example.org/{number}")
            await anyio.sleep(0.5)
            assert key in holder.ids()
            assert coming not in holder.ids()
            assert pusher.is_pending(holder.me)
        await anyio.sleep(push_queue.COMING_S)
        assert coming in holder.ids()
        assert not pusher.is_pending(holder.me)

    in_world(play)


def test_what_never_comes_is_left_to_the_comparisons(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(push_queue, "COMING_TRIES", 2)

    async def play(net: Net) -> None:
        await ring_of(net, None, None)
        sender, holder = net.peers
        hears_first_from_another(holder, 3)
        coming = await known_of_old(sender, holder, "http://example.org/coming")
        await anyio.sleep(2 * push_queue.COMING_S)
        assert sender.copies._pusher.pending == 1
        with anyio.fail_after(push_queue.COMING_S - 5):  # it is not waited for a third time
            while coming not in holder.ids():  # noqa: ASYNC110  # an archive in virtual time tells nobody
                await anyio.sleep(1)

    in_world(play)


def test_many_holders_that_do_not_answer_hold_up_none_of_the_others() -> None:
    """More of them than are sent to at a time."""

    async def play(net: Net) -> None:
        net.copies = 2 * push_queue.PEERS_AT_ONCE
        await ring_of(net, *[None] * net.copies)
        sender = net.peers[0]
        around = sorted(net.peers[1:], key=lambda peer: peer.me)
        silent, others = around[: push_queue.PEERS_AT_ONCE + 1], around[push_queue.PEERS_AT_ONCE + 1 :]
        for peer in silent:
            peer.is_up = False  # and the ring has not noticed
        key = await deposit(sender, "http://example.org/")
        await anyio.sleep(10)
        assert all(key in peer.ids() for peer in others)

    in_world(play)


def test_what_is_new_goes_at_once_to_those_who_learn() -> None:
    """They do not count: the sender waits for the holders only."""

    async def play(net: Net) -> None:
        net.young = {net.add().me for _ in range(6)}
        net.young -= {one.me for one in net.peers[:4]}
        for peer in net.peers:
            await net.start(peer)
        await anyio.sleep(60)
        sender, learned = net.peers[0], 0
        for number in range(20):
            key = await deposit(sender, f"http://example.org/{number}")
            await anyio.sleep(5)
            learners = {one.peer for one in net.table().learners(Key(key[:12]))} - {sender.me}
            learned += len(learners)
            assert learners == {one.me for one in net.peers if one.me in net.young and key in one.ids()}
        assert learned

    in_world(play, copies=3, places=PlaceRules())


@pytest.mark.parametrize("outcome", [wire.NOT_MINE, wire.BROKEN, wire.KNOWN])
def test_only_who_says_that_it_has_a_capture_counts_as_having_it(outcome: int) -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None)
        sender, holder = net.peers
        await anyio.sleep(60)  # by then they have compared, so that the holder's word is known
        holder.tamper = lambda service, answer: (
            bytes([outcome]) * len(answer) if service == wire.LACKS else answer
        )
        key = await known_of_old(sender, holder, "http://example.org/")
        await anyio.sleep(5)
        assert not sender.copies._pusher.is_pending(holder.me)
        assert key not in holder.ids()
        assert sender.copies.parts.ledger.is_held(holder.me, key) is (outcome == wire.KNOWN)

    in_world(play)


def test_a_peer_that_comes_back_without_its_disk_counts_for_nothing_that_it_had() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None)
        keeper, unlucky = net.peers
        key = await deposit(keeper, "http://example.org/")
        await net.settle({key}, within_s=900)
        ledger = keeper.copies.parts.ledger
        while not ledger.is_held(unlucky.me, key):  # noqa: ASYNC110  # a ledger tells nobody
            await anyio.sleep(5)
        net.crash(unlucky, loses_disk=True)
        await anyio.sleep(5)
        unlucky.stalls = (wire.CELLS, wire.MEMBERS)
        await net.start(unlucky)
        await anyio.sleep(1.5)  # the ring is looked at, and nothing was compared or sent yet
        assert ledger.is_held(unlucky.me, key) <= (key in unlucky.ids())

    in_world(play)


@dataclass
class Watched:
    """What a peer asks others, and how often its messages get lost on the way back."""

    told: list[tuple[str, bytes, int]] = field(default_factory=list)
    """The service, who was asked, and the length of the question."""
    lost: int = 0

    def of(self, service: str) -> list[bytes]:
        return [to for asked, to, _ in self.told if asked == service]


def watched(peer: Peer) -> Watched:
    found = Watched()
    calls = peer.copies.parts.calls()

    class Watching:
        stream = staticmethod(calls.stream)

        async def call(self, to: Contact, service: str, body: bytes, *, deadline_s: float = 30.0) -> bytes:
            found.told.append((service, to.peer, len(body)))
            answer = await calls.call(to, service, body, deadline_s=deadline_s)
            if service == wire.PUT and found.lost:
                found.lost -= 1
                raise PeerUnreachableError
            return answer

    peer.copies.parts.calls = Watching
    return found


def test_new_captures_go_out_in_one_list_unasked() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None)
        sender, holder = net.peers
        found = watched(sender)
        keys = set()
        for number in range(10):
            keys.add(await deposit(sender, f"http://example.org/{number}"))
            await anyio.sleep(push_queue.GATHER_S / 20)
        await anyio.sleep(1)
        assert keys <= holder.ids()
        assert (found.of(wire.PUT), found.of(wire.LACKS)) == ([holder.me], [])
        assert not sender.copies._pusher.is_pending(holder.me)

    in_world(play)


def test_a_list_has_64_captures_or_a_mebibyte() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None)
        sender, holder = net.peers
        found = watched(sender)
        keys = {await deposit(sender, f"http://example.org/{number}", body=b"") for number in range(150)}
        await anyio.sleep(5)
        assert keys <= holder.ids()
        assert 3 <= len(found.of(wire.PUT)) <= 5
        found.told.clear()
        chance = Random(1)
        large = {
            await deposit(sender, f"http://example.org/large{number}", body=chance.randbytes(300_000))
            for number in range(8)
        }
        await anyio.sleep(5)
        assert large <= holder.ids()
        assert all(size < wire.PUT_BYTES_MAX for _, _, size in found.told)
        assert len(found.of(wire.PUT)) == 2

    in_world(play)


def test_what_may_have_come_is_asked_about_before_it_is_sent_again() -> None:
    """The answer to the first try got lost."""

    async def play(net: Net) -> None:
        await ring_of(net, None, None)
        sender, holder = net.peers
        found = watched(sender)
        found.lost = 1
        key = await deposit(sender, "http://example.org/")
        await anyio.sleep(60)
        assert key in holder.ids()
        assert (len(found.of(wire.PUT)), len(found.of(wire.LACKS))) == (1, 1)
        assert not sender.copies._pusher.is_pending(holder.me)

    in_world(play)


def test_what_only_a_relay_s_line_would_carry_is_handed_on_by_another_holder() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None, None)
        sender, closed, other = net.peers
        found = watched(sender)
        sender.copies.parts.is_relayed = lambda peer: peer == closed.me
        key = await deposit(sender, "http://example.org/")
        await anyio.sleep(push_queue.COMING_S + 10)
        assert key in other.ids()
        assert key in closed.ids()
        assert found.of(wire.PUT) == [other.me]
        await anyio.sleep(push_queue.COMING_S)
        assert not sender.copies._pusher.is_pending(closed.me)

    in_world(play)


def test_what_nobody_can_hand_on_goes_by_the_relay_after_all() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None, None)
        sender, closed, other = net.peers
        for peer in (sender, other):
            peer.copies.parts.is_relayed = lambda peer: peer == closed.me
        key = await deposit(sender, "http://example.org/")
        await anyio.sleep(push_queue.COMING_S + 10)
        assert key not in closed.ids()
        await anyio.sleep(push_queue.COMING_S)
        assert key in closed.ids()

    in_world(play)


def test_only_what_the_third_should_hold_and_we_have_is_handed_on() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None, None)
        sender, holder, asked = net.peers
        key = await deposit(sender, "http://example.org/")
        await anyio.sleep(5)
        calls = sender.copies.parts.calls()
        contact = sender.copies.parts.contact(asked.me)
        assert contact is not None
        body = wire.encode_hand_on(holder.me, [key, bytes(19)])
        assert await calls.call(contact, wire.HAND_ON, body) == bytes([wire.COMING, wire.NOT_MINE])
        for to in (asked.me, bytes(32)):
            with pytest.raises(RefusedError, match="no-way"):
                await calls.call(contact, wire.HAND_ON, wire.encode_hand_on(to, [key]))
        for junk in (b"", bytes(31), bytes(33)):
            with pytest.raises(RefusedError):
                await calls.call(contact, wire.HAND_ON, junk)

    in_world(play)


def test_a_holder_hears_within_seconds_who_else_has_what_it_was_sent() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None, None, None)
        sender, holder, *_ = net.peers
        await anyio.sleep(60)
        for number in range(5):
            await deposit(sender, f"http://example.org/{number}")
        await anyio.sleep(push_queue.TOLD_EVERY_S + 2)
        for peer in net.peers:
            await peer.copies.survey()
            assert peer.copies.histogram == {4: 5}
        ledger = holder.copies.parts.ledger
        assert not any(ledger.is_held(net.peers[2].me, key) for key in holder.ids()), "it is hearsay"
        assert not sender.copies._pusher._held_by
        assert not sender.copies._pusher._news

    in_world(play)


def test_nobody_tells_of_its_own_copies_or_of_ours() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, None, None, None)
        liar, holder, other = net.peers
        await anyio.sleep(60)
        key = await known_of_old(holder, other, "http://example.org/")
        told = {liar.me: [key], holder.me: [key]}
        contact = liar.copies.parts.contact(holder.me)
        assert contact is not None
        await liar.copies.parts.calls().call(contact, wire.COPIED, wire.encode_copied(told))
        known = holder.copies.parts.ledger._confirmed
        assert not any(one.said for some in known.values() for one in some)

    in_world(play)
