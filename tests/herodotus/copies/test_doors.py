"""What may be brought by whom, and what is turned away?"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from random import Random
from typing import Any

import anyio
import pytest
from msgspec import structs

from crawler.core.urls import host_of
from herodotus.copies import wire
from herodotus.copies.doors import STANDINGS_S, Doors
from herodotus.copies.hand_over import HandedOver
from herodotus.core.captures import Deposit
from herodotus.core.copies.holder_states import Outcome
from herodotus.core.copies.tenure import Tenure
from herodotus.core.doors import Declined, Door, Passage, through
from herodotus.core.index_rows import capture_key
from herodotus.core.signatures import SignedWindow, signed, window_field, window_statement
from herodotus.peers.calls import RefusedError
from herodotus.store.holdings import ArchiveHoldings
from herodotus.store.intake import compress_bundle
from herodotus.store.reader import Reader
from tests.herodotus.copies.world import (
    NETWORK,
    Net,
    Peer,
    in_world,
    key_number,
    new_store,
    ring_of,
    steward_key,
)
from tests.herodotus.store.making import page

URL = "http://example.org/page"
STRANGER = key_number(99)


def doors_of(peer: Peer) -> Doors:
    doors = peer.copies.parts.doors
    assert isinstance(doors, Doors)
    return doors


def now_s(net: Net) -> int:
    return int(net.wall_s(net.peers[0]))


def by_rank(net: Net, url: str = URL) -> list[Peer]:
    """All peers, the URL's owner first."""
    table, key = net.table(), page(url, 0, b"").key
    order = table.of(key, slack=len(net.peers))
    return [net.by_key[one.peer] for one in order]


def made(signer: Peer, url: str, time_s: int, body: bytes = b"body", **changed: Any) -> Deposit:
    """Fetched under a window of the host's steward."""
    net = signer.net
    steward = changed.pop("steward", None) or steward_of(net, url)
    subject, asker = changed.pop("subject", f"host:{host_of(url)}"), changed.pop("asker", signer.me)
    window = SignedWindow(
        steward=steward.me,
        number=7,
        granted_s=time_s - 2,
        starts_ms=1_500,
        lasts_ms=7_000,
        count=100,
        addresses=[],
    )
    window = structs.replace(window, **changed)
    statement = window_statement(window, NETWORK, asker, subject)
    window = structs.replace(window, signature=steward.key.sign(statement))
    deposit = page(url, time_s, body)
    return signed(signer.key, replace(deposit, extra=(*deposit.extra, window_field(window))))


def steward_of(net: Net, url: str) -> Peer:
    return net.by_key[net.table().of(steward_key(host_of(url)))[0].peer]


async def put(to: Peer, sender: bytes, *deposits: Deposit) -> list[int]:
    body = b"".join(
        frame
        for one in deposits
        for frame in wire.frames_of(wire.PARCEL, b"".join(compress_bundle(one, None)))
    )
    return list(await to.copies.services().calls[wire.PUT](sender, body))


async def keep(peer: Peer, deposit: Deposit) -> None:
    """It has it as if another holder had sent it, and sends it to nobody."""
    key = capture_key(deposit.id)
    peer.copies.parts.receiving.add(key)
    await peer.store.store(deposit)
    peer.copies.parts.receiving.discard(key)


def key_of(deposit: Deposit) -> bytes:
    return capture_key(deposit.id)[1:]


def door_in(peer: Peer, deposit: Deposit) -> str | None:
    found = Reader(peer.store.archive).read(deposit.id)
    return None if found is None else found.record.get("Herodotus-Door")


def play_with(
    play: Callable[[Net], Awaitable[None]],
    *,
    peers: int = 9,
    copies: int = 2,
    prepare: Callable[[Net], None] = lambda net: None,
) -> None:
    """Among strangers, as in the public network: what is brought in stays where it is."""

    async def whole(net: Net) -> None:
        net.spreads_imports = False
        prepare(net)
        await ring_of(net, *[None] * peers)
        await play(net)

    in_world(whole, copies=copies)


def test_a_key_that_never_joined_brings_nothing_of_any_day_and_is_named() -> None:
    async def play(net: Net) -> None:
        owner, now = by_rank(net)[0], now_s(net)
        stranger = STRANGER.public_key().public_bytes_raw()
        forged = [
            signed(STRANGER, page(URL, time_s, b"invented %d" % time_s))
            for time_s in (86_400, now - 86_400, now, 4_102_444_800)
        ]
        for one in forged:
            with pytest.raises(RefusedError, match="no-member"):
                await put(owner, stranger, one)
        with pytest.raises(RefusedError, match="no-member"):
            await owner.copies.services().calls[wire.COME](
                stranger, capture_key(forged[2].id)[1:13] + b"\0\0\0c"
            )
        await anyio.sleep(3_600)
        assert not any(peer.ids() for peer in net.peers)
        status = doors_of(owner).status(owner.copies.parts)
        assert status.turned_away == {"its sender is no member": 5}
        assert list(status.peers) == [stranger.hex()[:16]]

    play_with(play)


def test_an_owner_brings_what_is_fresh_and_of_its_last_week_and_nothing_of_other_days() -> None:
    async def play(net: Net) -> None:
        owner, second, *_ = by_rank(net)
        other = by_rank(net)[-1]
        now = now_s(net)
        fresh, late = made(owner, URL, now - 3_600, b"1"), made(owner, URL, now - 2 * 86_400, b"2")
        assert await put(second, owner.me, fresh, late) == [wire.STORED, wire.STORED]
        assert door_in(second, fresh) == "1 crawled"
        assert door_in(second, late) == "1 late"
        ahead = made(owner, URL, now + 3_600, b"3")
        assert await put(second, owner.me, ahead) == [wire.AHEAD]
        # Some other member that does not fetch this URL, whatever the date.
        claims = [
            made(other, URL, time_s, b"%d" % time_s, steward=other) for time_s in (86_400, now - 86_400, now)
        ]
        assert await put(second, other.me, *claims) == [wire.DECLINED] * 3
        assert second.ids() == {key_of(fresh), key_of(late)}

    play_with(play)


def test_the_young_bring_nothing_of_their_own_and_are_no_second_holder() -> None:
    async def play(net: Net) -> None:
        owner, second, third, *_ = by_rank(net)
        now = now_s(net)
        net.young = {owner.me, third.me}
        await anyio.sleep(STANDINGS_S)
        assert await put(second, owner.me, made(owner, URL, now)) == [wire.DECLINED]
        net.young = {third.me, steward_of(net, URL).me}  # whose windows permit nothing either
        await anyio.sleep(STANDINGS_S)
        assert await put(second, owner.me, made(owner, URL, now - 1)) == [wire.DECLINED]
        net.young = {owner.me, third.me}
        await anyio.sleep(STANDINGS_S)
        old = of_a_peer_that_left(1_600_000_000)
        for peer in (owner, third):
            await peer.store.store(old)
        assert await put(second, owner.me, old) == [wire.DECLINED]

    play_with(play)


def test_in_a_new_network_where_too_few_are_of_age_the_young_count() -> None:
    async def play(net: Net) -> None:
        owner, second, third, *_ = by_rank(net)
        net.young = {peer.me for peer in net.peers}
        await anyio.sleep(STANDINGS_S)
        fresh = made(owner, URL, now_s(net))
        assert await put(second, owner.me, fresh) == [wire.STORED]
        assert door_in(second, fresh) == "1 crawled"
        old = of_a_peer_that_left(1_600_000_000)
        await third.store.store(old)
        await owner.store.store(old)
        assert await put(second, owner.me, old) == [wire.STORED]

    play_with(play)


def test_the_record_says_by_which_door_whatever_its_sender_wrote_into_it() -> None:
    async def play(net: Net) -> None:
        owner, second, *_ = by_rank(net)
        late = made(owner, URL, now_s(net) - 86_400)
        flattered = through(Passage(Door.CRAWLED), late)
        assert await put(second, owner.me, flattered) == [wire.STORED]
        assert door_in(second, late) == "1 late"

    play_with(play)


def test_what_is_brought_in_stays_where_it_is_and_its_peer_may_leave() -> None:
    async def play(net: Net) -> None:
        keeper = net.peers[0]
        imported = [
            through(Passage(Door.BROUGHT_IN), page(f"{URL}/{n}", 946_684_800, b"%d" % n)) for n in range(20)
        ]
        for one in imported:
            await keeper.store.store(one)
        await anyio.sleep(3_600)
        assert keeper.ids() == {key_of(one) for one in imported}
        assert not any(peer.ids() for peer in net.peers[1:])
        sent = net.bytes[wire.PUT]
        await anyio.sleep(2 * 3_600)
        assert net.bytes[wire.PUT] == sent  # what was declined is not sent each time anew
        with anyio.fail_after(600):
            done = await keeper.copies.hand_over()
        assert (done.kept_out, done.turned_away) == (20 * min(net.copies, len(net.peers) - 1), 0)

    play_with(play)


def test_what_is_brought_in_spreads_where_the_charter_says_so_and_is_called_so_everywhere() -> None:
    async def play(net: Net) -> None:
        keeper = net.peers[0]
        imported = through(Passage(Door.BROUGHT_IN), page(URL, 946_684_800, b"old"))
        await keeper.store.store(imported)
        await net.settle({key_of(imported)}, within_s=7_200)
        assert {door_in(net.by_key[one], imported) for one in net.holders(key_of(imported))} == {
            "1 brought-in"
        }

    async def spreading(net: Net) -> None:
        await ring_of(net, *[None] * 9)
        await play(net)

    in_world(spreading, copies=2)


# -- healed -----------------------------------------------------------------------------------------------


def of_a_peer_that_left(time_s: int) -> Deposit:
    """None of the members fetched it."""
    return through(Passage(Door.CRAWLED), signed(key_number(50), page(URL, time_s, b"kept")))


def test_an_old_capture_that_two_holders_have_comes_to_the_third() -> None:
    async def play(net: Net) -> None:
        first, second, third, *_ = by_rank(net)
        old = of_a_peer_that_left(1_600_000_000)
        await keep(second, old)
        assert await put(first, second.me, old) == [wire.DECLINED]
        doors_of(first).declined = Declined()
        await keep(third, old)
        assert await put(first, second.me, old) == [wire.STORED]
        assert door_in(first, old) == "1 crawled healed"

    play_with(play)


def test_who_leaves_does_not_end_as_long_as_no_door_lets_its_captures_in() -> None:
    async def play(net: Net) -> None:
        first, second, third, *_, elsewhere = by_rank(net)
        old = through(Passage(Door.CRAWLED), signed(elsewhere.key, page(URL, 1_600_000_000, b"kept")))
        await second.store.store(old)
        told = list[HandedOver]()
        done = None
        with anyio.move_on_after(6 * 3_600):
            done = await second.copies.hand_over(told.append)
        assert done is None, "nobody else has it"
        assert (told[-1].turned_away > 0, told[-1].silent) == (True, 0)
        await third.store.store(old)
        with anyio.fail_after(6 * 3_600):
            done = await second.copies.hand_over(told.append)
        assert (done.turned_away, done.parts_over) == (0, done.parts)
        assert key_of(old) in first.ids()

    play_with(play)


def test_two_keys_of_one_place_are_one_holder() -> None:
    async def play(net: Net) -> None:
        first, second, third, fourth, *_ = by_rank(net)
        doors = doors_of(first)
        net.place_of = {second.me: b"place", third.me: b"place"}
        await anyio.sleep(STANDINGS_S)
        old = of_a_peer_that_left(1_600_000_000)
        for peer in (second, third):
            await peer.store.store(old)
        assert await put(first, second.me, old) == [wire.DECLINED]
        doors.declined = Declined()
        await fourth.store.store(old)
        assert await put(first, second.me, old) == [wire.STORED]

    play_with(play)


def test_two_keys_of_one_place_that_are_asked_are_one_holder() -> None:
    async def play(net: Net) -> None:
        first, second, third, fourth, *_, elsewhere = by_rank(net)
        net.place_of = {third.me: b"place", fourth.me: b"place"}
        await anyio.sleep(STANDINGS_S)
        old = of_a_peer_that_left(1_600_000_000)
        for peer in (third, fourth):
            await keep(peer, old)
        assert await put(first, elsewhere.me, old) == [wire.DECLINED]
        doors_of(first).declined = Declined()
        await keep(second, old)
        assert await put(first, elsewhere.me, old) == [wire.STORED]

    play_with(play)


def test_another_content_of_the_same_second_is_no_second_word() -> None:
    async def play(net: Net) -> None:
        _, second, third, *_ = by_rank(net)
        old = of_a_peer_that_left(1_600_000_000)
        await third.store.store(old)
        key, digest = key_of(old), old.id.digest
        ask = third.copies.services().calls[wire.HAS]
        contents = [(key, digest), (key, digest[:3] + bytes(29)), (bytes(19), digest)]
        assert list(await ask(second.me, wire.encode_contents(contents))) == [1, 0, 0]

    play_with(play)


def test_one_that_nobody_can_be_asked_about_may_come_again_soon() -> None:
    async def play(net: Net) -> None:
        first, second, third, fourth, *_ = by_rank(net)
        old = of_a_peer_that_left(1_600_000_000)
        for peer in (second, third):
            await peer.store.store(old)
        for peer in (third, fourth):
            peer.is_up = False
        assert await put(first, second.me, old) == [wire.DECLINED]
        third.is_up = True
        await put(first, second.me, old)
        assert first.ids() == {key_of(old)}

    play_with(play)


def test_many_at_once_are_asked_about_together() -> None:
    async def play(net: Net) -> None:
        first, second, third, *_ = by_rank(net)
        urls = [f"http://example.org/{n}" for n in range(400)]
        same = [url for url in urls if by_rank(net, url)[:3] == [first, second, third]]
        assert len(same) > 4
        old = [signed(key_number(50), page(url, 1_600_000_000, b"kept")) for url in same]
        for one in old:
            for peer in (second, third):
                await peer.store.store(one)
        before = anyio.current_time()
        assert await put(first, second.me, *old) == [wire.STORED] * len(old)
        assert anyio.current_time() - before < 0.2  # one question, there and back
        assert doors_of(first).status(first.copies.parts).came == {"unknown healed": len(old)}

    play_with(play)


# -- windows ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changed",
    [
        {"subject": "host:example.com"},
        {"asker": bytes(32)},
        {"granted_s": 1_600_000_000},
        {"granted_s": 1_999_999_999},
        {"count": 0},
    ],
)
def test_a_window_of_another_host_peer_or_time_permits_nothing(changed: dict[str, Any]) -> None:
    async def play(net: Net) -> None:
        owner, second, *_ = by_rank(net)
        assert await put(second, owner.me, made(owner, URL, now_s(net), **changed)) == [wire.DECLINED]

    play_with(play)


def test_a_window_that_was_right_for_its_peer_is_right_for_no_other() -> None:
    async def play(net: Net) -> None:
        owner, second, third, *_ = by_rank(net)
        permitted = made(owner, URL, now_s(net))
        again = signed(owner.key, replace(page(URL, now_s(net) + 1, b"again"), extra=permitted.extra[:1]))
        assert await put(second, owner.me, permitted, again) == [wire.STORED] * 2
        lent = signed(third.key, replace(page(URL, now_s(net), b"lent"), extra=permitted.extra[:1]))
        assert await put(second, third.me, lent) == [wire.DECLINED]

    play_with(play)


def by_steward_rank(net: Net, host: str = "example.org") -> list[Peer]:
    """All peers, the host's steward first."""
    order = net.table().of(steward_key(host), slack=len(net.peers))
    return [net.by_key[one.peer] for one in order]


def test_only_a_host_s_stewards_permit_and_of_old_days_fewer() -> None:
    """Of the last week any of the first k + 2 may have been it, while the ring was split."""

    async def play(net: Net) -> None:
        owner, second, *_ = by_rank(net)
        month_s = 30 * 86_400
        for rank, steward in enumerate(by_steward_rank(net)):
            outcome = wire.STORED if rank <= 3 else wire.DECLINED
            for days in (0, 6):
                fresh = made(owner, URL, now_s(net) - days * 86_400 - rank, b"%d" % rank, steward=steward)
                assert await put(second, owner.me, fresh) == [outcome], (rank, days)
            outcome = wire.STORED if rank <= 2 else wire.DECLINED
            if steward is not owner:
                old = made(owner, URL, now_s(net) - month_s - rank, b"old %d" % rank, steward=steward)
                assert await put(second, owner.me, old) == [outcome], rank
        stranger = net.add()
        forged = made(owner, URL, now_s(net) - 50, b"forged", steward=stranger)
        assert await put(second, owner.me, forged) == [wire.DECLINED]
        bare = signed(owner.key, page(URL, now_s(net), b"no window"))
        assert await put(second, owner.me, bare) == [wire.DECLINED]

    play_with(play)


def test_a_member_that_is_far_from_a_host_permits_nothing_of_it_to_itself() -> None:
    """It owns some pages of the host, and wants to write today's history of them without leave."""

    async def play(net: Net) -> None:
        far = by_steward_rank(net)[4:]
        urls = [f"http://example.org/{number}" for number in range(60)]
        own = [(url, order) for url in urls if (order := by_rank(net, url))[0] in far]
        assert len(own) > 3
        for url, (owner, second, *_) in own:
            forged = made(owner, url, now_s(net), b"invented", steward=owner)
            assert await put(second, owner.me, forged) == [wire.DECLINED]

    play_with(play)


def test_where_a_steward_is_away_the_next_one_permits_of_old_days_too() -> None:
    async def play(net: Net) -> None:
        *away, heir = by_steward_rank(net)[:4]
        pages = (f"http://example.org/{n}" for n in range(99))
        url = next(
            one
            for one in pages
            if not {id(peer) for peer in by_rank(net, one)[:2]} & {*map(id, [*away, heir])}
        )
        owner, second, *_ = by_rank(net, url)
        old = made(owner, url, now_s(net) - 30 * 86_400, b"by the next", steward=heir)
        assert await put(second, owner.me, old) == [wire.DECLINED]
        doors_of(second).declined = Declined()
        for peer in away:
            net.crash(peer)
        await anyio.sleep(10)
        assert set(second.copies.parts.view.absent) == {peer.me for peer in away}
        assert await put(second, owner.me, old) == [wire.STORED]

    play_with(play)


def test_no_more_captures_come_under_a_window_than_it_permits() -> None:
    async def play(net: Net) -> None:
        owner, second, *_ = by_rank(net)
        now = now_s(net)
        many = [made(owner, URL, now, b"%d" % n, count=3) for n in range(5)]
        assert await put(second, owner.me, *many[:3]) == [wire.STORED] * 3
        assert await put(second, owner.me, *many) == [*[wire.KNOWN] * 3, *[wire.DECLINED] * 2]

    play_with(play)


def test_a_steward_invents_no_past_of_its_hosts() -> None:
    async def play(net: Net) -> None:
        _, second, *_ = by_rank(net)
        steward = steward_of(net, URL)
        assert await put(second, steward.me, made(steward, URL, 86_400)) == [wire.DECLINED]

    play_with(play)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_steward_invents_no_past_with_a_key_that_it_made_up(is_known: bool) -> None:
    """Such a key is in no place. What a peer signed that left needs a holder beside its steward."""

    async def play(net: Net) -> None:
        owner, second, third, *_ = by_rank(net)
        steward = next(one for one in by_steward_rank(net) if one not in (owner, second, third))
        signer = third if is_known else net.add()
        forged = made(signer, URL, now_s(net) - 40 * DAY_S, b"invented", steward=steward)
        outcome = wire.STORED if is_known else wire.DECLINED
        assert await put(owner, steward.me, forged) == [outcome]
        if not is_known:
            doors_of(owner).declined = Declined()
            await second.store.store(forged)
            assert await put(owner, steward.me, forged) == [wire.STORED]

    play_with(play)


def test_a_steward_and_a_signer_invent_no_past_of_days_when_others_held_the_page() -> None:
    """Two places of age, of which one is a steward of the host: their window outweighs no holder that was there."""

    async def play(net: Net) -> None:
        first, *_ = by_rank(net)
        days_passed(net)
        steward, signer = [one for one in by_steward_rank(net)[:3] if one is not first][:2]
        forged = made(signer, URL, now_s(net) - 9 * DAY_S, b"invented", steward=steward)
        assert await put(first, signer.me, forged) == [wire.DECLINED]
        before = made(signer, URL, now_s(net) - 2 * HELD_DAYS * DAY_S, b"of before", steward=steward)
        assert await put(first, signer.me, before) == [wire.STORED], "nobody can know"

    play_with(play, copies=6)


def test_an_old_capture_needs_no_second_holder_where_its_window_holds() -> None:
    async def play(net: Net) -> None:
        owner, second, third, *_ = by_rank(net)
        old = through(Passage(Door.CRAWLED), made(owner, URL, now_s(net) - 40 * 86_400))
        net.by_key.pop(owner.me)
        assert await put(second, third.me, old) == [wire.STORED]
        assert door_in(second, old) == "1 crawled healed"

    play_with(play)


# -- tricks with what was true once -------------------------------------------------------------------------


def test_two_places_of_one_person_that_hold_a_page_heal_a_past_from_before_all_others_held_it() -> None:
    """Not stopped: two holders of age in two places are what stands for a capture that is older than all that the
    others know. One alone is not enough, and neither are two places that do not hold the page."""

    async def play(net: Net) -> None:
        first, second, third, *_, far, other = by_rank(net)
        invented = signed(far.key, page(URL, 1_600_000_000, b"invented"))
        for peer in (far, other):
            await peer.store.store(invented)
        assert await put(first, far.me, invented) == [wire.DECLINED]
        assert await put(first, other.me, invented) == [wire.DECLINED]
        doors_of(first).declined = Declined()
        await second.store.store(invented)
        assert await put(first, second.me, invented) == [wire.DECLINED]
        doors_of(first).declined = Declined()
        await third.store.store(invented)
        assert await put(first, second.me, invented) == [wire.STORED]
        assert door_in(first, invented) == "1 unknown healed"

    play_with(play)


DAY_S = 86_400
HELD_DAYS = 12


def days_passed(net: Net) -> None:
    """All have held the same keys for so long, and known each other for longer."""
    net.known_days_else = 300
    for peer in net.peers:
        held_s, captures = now_s(net), peer.store.archive.captures
        since = Tenure()
        since.hold(peer.copies.parts.view.share, held_s - HELD_DAYS * DAY_S, captures)
        kept = since.keep()
        assert kept is not None
        peer.tenure._layers.clear()
        peer.tenure._kept = structs.replace(kept, saved_s=held_s)
        peer.tenure.hold(peer.copies.parts.view.share, held_s, captures)
        doors_of(peer)._share_since = float("-inf")


def test_a_past_that_two_holders_invent_of_days_when_others_held_the_page_is_a_claim() -> None:
    async def play(net: Net) -> None:
        first, second, third, *_ = by_rank(net)
        days_passed(net)
        invented = signed(second.key, page(URL, now_s(net) - 9 * DAY_S, b"invented"))
        for peer in (second, third):
            await peer.store.store(invented)
        assert await put(first, second.me, invented) == [wire.DECLINED]

    play_with(play, copies=6)


def test_a_past_that_half_of_the_holders_have_is_repaired_whatever_the_others_say() -> None:
    async def play(net: Net) -> None:
        first, *others = by_rank(net)
        days_passed(net)
        true = signed(key_number(50), page(URL, now_s(net) - 9 * DAY_S, b"true"))
        for peer in others[:2]:
            await peer.store.store(true)
        assert await put(first, others[0].me, true) == [wire.DECLINED]
        doors_of(first).declined = Declined()
        await others[2].store.store(true)  # three of six; those behind them cannot know
        assert await put(first, others[0].me, true) == [wire.STORED]

    play_with(play, copies=6)


@pytest.mark.parametrize(
    "why", ["held for a day", "met lately", "of before", "lost something", "had no room"]
)
def test_who_cannot_know_does_not_keep_a_real_past_out(why: str) -> None:
    """Two of six copies are left, and four holders are new, or lost theirs."""

    async def play(net: Net) -> None:
        first, second, third, *others = by_rank(net)
        days_passed(net)
        true = signed(key_number(50), page(URL, now_s(net) - 9 * DAY_S, b"true"))
        if why == "held for a day":
            for peer in (first, *others):
                peer.tenure._layers.clear()
        elif why == "met lately":
            net.known_days = {peer.me: 3 for peer in others}
            first.tenure._layers.clear()
        elif why == "of before":
            true = signed(key_number(50), page(URL, now_s(net) - 2 * HELD_DAYS * DAY_S, b"true"))
        elif why == "had no room":
            for peer in (first, *others):
                peer.tenure.turned_away(now_s(net) - 9 * DAY_S + 60)
        else:
            for peer in (first, *others):
                losing(peer)
        for peer in (second, third):
            await peer.store.store(true)
        assert await put(first, second.me, true) == [wire.STORED]

    play_with(play, copies=6)


@pytest.mark.parametrize("seed", [1, 2])
def test_a_real_past_heals_after_each_third_of_the_peers_came_back_empty(seed: int) -> None:
    """Of six copies two to six are left each time. Half of the captures have a window and a signer that is there, the
    others were signed by a peer that left."""

    async def play(net: Net) -> None:
        keys = set[bytes]()
        for number in range(40):
            url = f"http://example.org/{number}"
            owner, *_ = by_rank(net, url)
            at = now_s(net) - 9 * DAY_S - number
            left = signed(key_number(50), page(url, at, b"by one that left"))
            old = made(owner, url, at) if number % 2 else left
            keys.add(key_of(old))
            for peer in by_rank(net, url)[:6]:
                await peer.store.store(old)
        days_passed(net)
        order = [*net.peers]
        Random(seed).shuffle(order)
        for third in (order[0::3], order[1::3], order[2::3]):
            for peer in third:
                net.crash(peer, loses_disk=True)
                peer.tenure = Tenure()
            await anyio.sleep(120)
            for peer in third:
                await net.start(peer)
            with anyio.move_on_after(4 * 3_600):
                while any(not set(net.holders(key)) <= having(net, key) for key in keys):  # noqa: ASYNC110  # virtual
                    await anyio.sleep(60)
            few = [len(having(net, key)) for key in keys if not set(net.holders(key)) <= having(net, key)]
            assert not few, few

    play_with(play, peers=12, copies=6)


def having(net: Net, key: bytes) -> set[bytes]:
    return {net.peers[number].me for number in net.copies_of(key)}


def losing(peer: Peer) -> None:
    holdings = peer.copies.parts.holdings
    peer.copies.parts.holdings = lambda: Losing(peer.store)
    assert holdings() is not None


class Losing(ArchiveHoldings):
    lost = 7


def test_nothing_of_before_the_network_is_healed_but_what_was_brought_in_where_it_spreads() -> None:
    async def play(net: Net) -> None:
        first, second, third, *_ = by_rank(net)
        old = of_a_peer_that_left(1_600_000_000)
        for peer in (second, third):
            await peer.store.store(old)
        assert await put(first, second.me, old) == [wire.DECLINED]

    def prepare(net: Net) -> None:
        net.founded_s = 1_600_200_000.0

    play_with(play, prepare=prepare)


def test_what_two_holders_brought_in_stays_with_them() -> None:
    async def play(net: Net) -> None:
        first, second, third, *_ = by_rank(net)
        old = through(Passage(Door.BROUGHT_IN), signed(second.key, page(URL, 1_600_000_000, b"kept")))
        for peer in (second, third):
            await peer.store.store(old)
        assert await put(first, second.me, old) == [wire.KEPT_OUT]

    play_with(play)


def test_a_signature_of_one_capture_is_none_of_another_day_page_or_body() -> None:
    async def play(net: Net) -> None:
        owner, second, *_ = by_rank(net)
        now = now_s(net)
        true = made(owner, URL, now - 60, b"true")
        copied = {name: value for name, value in true.extra if name.startswith("Herodotus-")}
        elsewhere = next(url for n in range(60) if second in by_rank(net, url := f"{URL}/{n}")[:2])
        for other in (
            page(URL, now, b"true"),
            page(URL, now - 60, b"invented"),
            page(elsewhere, now - 60, b"true"),
        ):
            replayed = replace(other, extra=(*other.extra, *copied.items()))
            assert await put(second, owner.me, replayed) == [wire.UNSIGNED]
        assert await put(second, owner.me, true) == [wire.STORED]

    play_with(play)


def test_what_a_peer_signed_that_left_comes_by_two_holders_only() -> None:
    """Whoever has the key of a peer that left, or was put out, writes no fresh history with it."""

    async def play(net: Net) -> None:
        owner, second, third, *_ = by_rank(net)
        steward = next(one for one in by_steward_rank(net) if one not in (owner, second, third))
        net.crash(owner)
        await anyio.sleep(2 * 3_600)
        fresh = made(owner, URL, now_s(net), b"by a ghost", steward=steward)
        assert await put(second, third.me, fresh) == [wire.DECLINED]

    play_with(play)


@pytest.mark.parametrize("hours", [-24, 24])
def test_a_steward_whose_clock_is_a_day_off_permits_nothing_of_today(hours: int) -> None:
    """Its windows lie in another day than the capture; with a fetcher of the same clock they lie in the future, or are
    called late."""

    async def play(net: Net) -> None:
        owner, second, *_ = by_rank(net)
        now, off_s = now_s(net), hours * 3_600
        wrong = made(owner, URL, now, b"1", granted_s=now + off_s)
        assert await put(second, owner.me, wrong) == [wire.DECLINED]
        both = made(owner, URL, now + off_s, b"2")
        assert await put(second, owner.me, both) == [wire.AHEAD if hours > 0 else wire.STORED]
        assert door_in(second, both) == (None if hours > 0 else "1 late")

    play_with(play)


# -- quotas -----------------------------------------------------------------------------------------------


def test_a_signer_that_floods_is_stopped_and_named_and_repair_goes_on() -> None:
    async def play(net: Net) -> None:
        owner, second, third, *_ = by_rank(net)
        now = now_s(net)
        flood = [made(owner, URL, now - n, b"rubbish %d" % n * 40) for n in range(30)]
        outcomes = await put(second, owner.me, *flood)
        assert set(outcomes) == {wire.STORED, wire.DECLINED}
        assert (
            sum(len(one.capture.body) for one, got in zip(flood, outcomes, strict=True) if got == wire.STORED)
            < 4_000
        )
        status = doors_of(second).status(second.copies.parts)
        assert list(status.quotas_hit) == [owner.me.hex()[:16]]
        old = of_a_peer_that_left(1_600_000_000)
        await third.store.store(old)
        assert await put(second, owner.me, old) == [wire.STORED]

    def small(net: Net) -> None:
        net.quota_bytes = 4_000

    play_with(play, prepare=small)


def test_who_proved_much_of_ours_brings_more_until_it_fails() -> None:
    """A hundredth of it, beside its quota."""

    async def play(net: Net) -> None:
        owner, second, *_ = by_rank(net)
        states, now = second.copies.parts.states, now_s(net)
        pages = [made(owner, URL, now - n, b"%d" % n + b"x" * 1_000) for n in range(4)]
        states.note(owner.me, Outcome.PROVEN, anyio.current_time(), 100_000)
        assert await put(second, owner.me, pages[0]) == [wire.STORED]
        assert await put(second, owner.me, pages[1]) == [wire.DECLINED]
        doors_of(second).declined = Declined()
        states.note(owner.me, Outcome.PROVEN, anyio.current_time(), 500_000)
        assert await put(second, owner.me, *pages[1:3]) == [wire.STORED, wire.STORED]
        states.note(owner.me, Outcome.WRONG, anyio.current_time())
        assert await put(second, owner.me, pages[3]) == [wire.DECLINED]

    def small(net: Net) -> None:
        net.quota_bytes = 300

    play_with(play, prepare=small)


def test_strangers_bring_nothing_also_by_the_hand_of_a_member() -> None:
    """The quota of one that is no member is not 16 MB: it is nothing, and nobody else's is used up by it."""

    async def play(net: Net) -> None:
        _, second, third, *_ = by_rank(net)
        stranger, now = net.add(), now_s(net)
        forged = [made(stranger, URL, now - n, b"%d" % n, steward=third) for n in range(5)]
        assert await put(second, third.me, *forged) == [wire.DECLINED] * 5
        quotas = doors_of(second)._rules.quotas
        assert (quotas.keep().signers, quotas.keep().places) == ({}, {})

    play_with(play)


def test_captures_sent_again_use_up_nobody_s_quota() -> None:
    async def play(net: Net) -> None:
        owner, second, third, *_ = by_rank(net)
        now = now_s(net)
        first = made(owner, URL, now, b"x" * 3_000)
        assert await put(second, owner.me, first) == [wire.STORED]
        for _ in range(5):
            assert await put(second, third.me, first) == [wire.KNOWN]
        assert await put(second, owner.me, made(owner, URL, now - 1, b"y" * 500)) == [wire.STORED]

    def small(net: Net) -> None:
        net.quota_bytes = 8_000

    play_with(play, prepare=small)


# -- clocks -----------------------------------------------------------------------------------------------


def test_a_peer_whose_clock_is_behind_says_so_and_takes_all_of_it_later() -> None:
    async def play(net: Net) -> None:
        slow, *others = by_rank(net)
        net.clock_off_s[slow.number] = -5 * 3_600.0
        now = int(net.wall_s(others[0]))
        pages = [made(others[n % 8], f"{URL}/{n}", now + n) for n in range(60)]
        for one, peer in zip(pages, others * 8, strict=False):
            await put(slow, peer.me, one)
        assert not slow.ids()
        assert doors_of(slow).status(slow.copies.parts).clock == "behind"
        assert not any(doors_of(peer).status(peer.copies.parts).clock for peer in others)

    play_with(play)


def test_a_peer_whose_clock_is_ahead_is_told_by_three_places() -> None:
    async def play(net: Net) -> None:
        net.clock_off_s[0] = 86_400.0
        fast = net.peers[0]
        for number in range(30):
            await fast.store.store(made(fast, f"{URL}/{number}", int(net.wall_s(fast))))
        await anyio.sleep(60)
        status = doors_of(fast).status(fast.copies.parts)
        assert status.clock == "ahead"
        assert {one for peer in net.peers[1:] for one in peer.ids()} == set()

    play_with(play)


@pytest.mark.parametrize("places", [1, 2])
def test_fewer_places_than_three_do_not_make_a_peer_doubt_its_clock(places: int) -> None:
    async def play(net: Net) -> None:
        first, *others = by_rank(net)
        for peer in others[:places]:
            for number in range(5):
                await put(first, peer.me, made(peer, URL, now_s(net) + 7_200 + number))
        assert doors_of(first).status(first.copies.parts).clock == ""

    play_with(play)


def test_a_store_without_a_door_in_its_records_still_opens() -> None:
    store = new_store()
    deposit = page(URL, 1_600_000_000, b"of before")
    anyio.run(store.store, deposit)
    found = Reader(store.archive).read(deposit.id)
    assert found is not None
    assert found.record.get("Herodotus-Door") is None


# -- why --------------------------------------------------------------------------------------------------


def test_the_holders_of_a_capture_are_asked_for_this_very_content() -> None:
    async def play(net: Net) -> None:
        owner, second, *_ = by_rank(net)
        net.place_of = {owner.me: bytes((4, 192, 0, 2))}
        net.tell()
        await anyio.sleep(STANDINGS_S)
        fresh = made(owner, URL, now_s(net))
        await owner.store.store(fresh)
        await anyio.sleep(30)
        told = await second.copies.told_by_holders(fresh.id)
        assert [one["has_it"] for one in told] == [True, True]
        assert [one["is_this_peer"] for one in told] == [False, True]
        other = fresh.id._replace(digest=fresh.id.digest[:3] + bytes(29))
        assert [one["has_it"] for one in await second.copies.told_by_holders(other)] == [False, False]
        owner.is_up = False
        assert [one["has_it"] for one in await second.copies.told_by_holders(fresh.id)] == [None, True]

    play_with(play)
