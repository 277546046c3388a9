"""Do captures come to be with all their holders, and stay there, while peers come and go? In virtual time."""

from collections.abc import Collection, Sequence
from dataclasses import replace

import anyio
import pytest

from herodotus.copies import surplus, wire
from herodotus.copies.full_proofs import Proven
from herodotus.copies.shared_state import Parts
from herodotus.core.copies.ledger import PROMISE_KEPT_S, Group, HoldingLedger
from herodotus.store import Holdings
from tests.herodotus.copies.storm import CaptureLostError, storm
from tests.herodotus.copies.test_byzantine import withholding
from tests.herodotus.copies.world import Net, deposit, in_world, ring_of
from tests.herodotus.deposits import delete_url
from tests.herodotus.store.making import NOW_S


def test_what_one_peer_stores_comes_to_its_six_holders_and_nobody_else_keeps_it() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 9)
        keys = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(60)}
        await net.settle(keys, within_s=900)

    in_world(play)


def test_a_page_s_second_content_of_a_day_comes_also_to_who_had_the_first_alone() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 7)
        urls = [f"http://example.org/{n}" for n in range(40)]
        keys = {await deposit(net.peers[0], url) for url in urls}
        await net.settle(keys, within_s=900)
        away = net.peers[4]
        net.crash(away)
        keys |= {await deposit(net.peers[0], url, time_s=NOW_S + 60, body=b"later") for url in urls[:20]}
        await anyio.sleep(60)
        await net.start(away)
        await net.settle(keys, within_s=1_500 + PROMISE_KEPT_S)

    in_world(play)


def test_a_lost_peer_s_copies_are_made_anew_once_it_is_gone_for_long_and_not_before() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 9)
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
        await ring_of(net, *[None] * 7)
        before = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(60)}
        await net.settle(before, within_s=900)
        away = net.peers[5]
        net.crash(away)
        keys = before | {await deposit(net.peers[0], f"http://example.org/new/{n}") for n in range(6)}
        await anyio.sleep(2 * 3_600)
        net.bytes.clear()
        await net.start(away)
        await net.settle(keys, within_s=1_500)
        assert away.copies.parts.counts.received <= 6

    in_world(play)


def test_a_new_peer_fills_and_others_let_go_of_what_is_no_longer_theirs() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 7)
        keys = {await deposit(net.peers[n % 7], f"http://example.org/{n}") for n in range(60)}
        await net.settle(keys, within_s=900)
        await net.start(net.add())
        await net.settle(keys, within_s=1_500 + PROMISE_KEPT_S)  # what was promised stays until then
        await anyio.sleep(300)
        for peer in net.peers:
            assert peer.copies.histogram == {6: len(peer.ids())}

    in_world(play)


def test_who_leaves_hands_over_first() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 8)
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
        await ring_of(net, *[None] * 12)
        keys = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(30)}
        await net.settle(keys, within_s=900)
        net.split({number: number % 2 for number in range(12)})
        await anyio.sleep(30)
        keys |= {await deposit(net.peers[n % 2], f"http://example.org/half/{n}") for n in range(30)}
        await anyio.sleep(2_000)
        net.heal()
        await net.settle(keys, within_s=2_500 + PROMISE_KEPT_S)

    in_world(play)


def test_a_store_that_waits_for_all_copies_returns_when_they_are_durable() -> None:
    async def play(net: Net) -> None:
        net.settings = replace(net.settings, acknowledge="k")
        await ring_of(net, *[None] * 8)
        key = await deposit(net.peers[0], "http://example.org/")
        assert len(net.copies_of(key) - {0}) >= 5

    in_world(play)


def test_a_dead_holder_does_not_hold_up_the_others() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 6)
        net.peers[4].is_up = False  # it answers nobody, and the ring has not noticed
        keys = [await deposit(net.peers[0], f"http://example.org/{n}") for n in range(20)]
        await anyio.sleep(5)
        assert all(len(net.copies_of(key)) == 5 for key in keys)
        net.peers[4].is_up = True
        await net.settle(set(keys), within_s=1_500)

    in_world(play)


def test_liars_lose_nothing_and_are_named() -> None:
    """A sixth of the holders: one changes bytes, one acknowledges what it throws away and gives nothing back."""

    def changing(service: str, answer: bytes) -> bytes:
        if service == wire.TAKE and len(answer) > 100:
            return answer[:60] + bytes((answer[60] ^ 1,)) + answer[61:]
        return answer

    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 12)
        liars = {2: changing, 9: withholding(net.random)}
        for number, tamper in liars.items():
            net.peers[number].tamper = tamper
        keys = {await deposit(net.peers[0], f"http://example.org/{n}") for n in range(30)}
        await anyio.sleep(1_000)
        for number in (4, 6, 7):
            net.crash(net.peers[number], loses_disk=True)
            await anyio.sleep(2_000)
        for _ in range(2):
            await net.start(net.add())
        await anyio.sleep(4_000)
        for key in keys:
            for peer in (net.by_key[one] for one in net.holders(key)):
                assert peer.number in liars or key in peer.ids()
        named = {one for peer in net.peers if peer.is_up for one in peer.copies.parts.suspects.counts}
        assert {net.by_key[one].number for one in named} == set(liars)

    in_world(play, seed=3)  # in some worlds nobody fetches from the first liar, and so nobody finds it


def test_what_holders_deleted_stays_with_the_rest_however_few_they_are() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 6)
        keys = [await deposit(net.peers[0], f"http://example.org/{n}") for n in range(10)]
        await net.settle(set(keys), within_s=900)
        await delete_url(net.peers[0].store, "http://example.org/0")
        for peer in net.peers[:4]:
            await delete_url(peer.store, "http://example.org/1")
        await anyio.sleep(2_000)
        assert net.copies_of(keys[0]) == {1, 2, 3, 4, 5}
        assert net.copies_of(keys[1]) == {4, 5}

    in_world(play)


def test_in_a_ring_smaller_than_the_copies_nobody_deletes_for_the_others() -> None:
    async def play(net: Net) -> None:
        await ring_of(net, *[None] * 3)
        key = await deposit(net.peers[0], "http://example.org/")
        await net.settle({key}, within_s=900)
        for peer in net.peers[1:]:
            await delete_url(peer.store, "http://example.org/")
        await anyio.sleep(2_000)
        assert net.copies_of(key) == {0}

    in_world(play)


def test_nothing_is_lost_in_a_storm() -> None:
    storm(1, events=25)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(1_000))
def test_nothing_is_lost_in_any_storm(seed: int) -> None:
    storm(seed)


def test_a_peer_that_lets_go_before_all_holders_have_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant believes one holder, and asks for no proofs, which would not let it."""

    sound = HoldingLedger.may_go

    def hasty(ledger: HoldingLedger, group: Group, absent: Collection[bytes], now: float) -> bool:
        return any(sound(ledger, group._replace(holders=(one,)), absent, now) for one in group.holders)

    async def believing(
        parts: Parts, _holdings: Holdings, _holders: Sequence[bytes], keys: Sequence[bytes], **_: object
    ) -> Proven:
        await anyio.lowlevel.checkpoint()
        return Proven(sorted(keys), parts.now())

    monkeypatch.setattr(HoldingLedger, "may_go", hasty)
    monkeypatch.setattr(surplus, "ask_all", believing)
    assert any(is_caught(seed) for seed in (5, 7, 8))


def is_caught(seed: int) -> bool:
    caught = False
    try:
        storm(seed, events=25)
    except* CaptureLostError:
        caught = True
    return caught
