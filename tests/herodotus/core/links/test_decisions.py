"""Who holds what, who is visited when, whose turn it is, whom to believe: decided without input or output."""

from random import Random

import pytest

from dht.core.holders import Table
from dht.core.ids import Key
from dht.core.placement import Rule
from herodotus.core.links.senders import FIRST_JUDGED, IGNORED_S, SENDERS_MAX, Senders
from herodotus.core.links.turns import looks
from herodotus.core.links.walk_plan import Keys, stops_of
from tests.herodotus.peers.table_ring import contact_of, link_peer


@pytest.mark.parametrize("seed", range(5))
def test_each_key_is_planned_for_its_six_holders_and_nobody_else(seed: int) -> None:
    chance = Random(seed)
    contacts = [
        contact_of(link_peer(number)) for number in range(seed * 100, seed * 100 + chance.randint(2, 40))
    ]
    ring, own = Table(contacts, Rule(6)), contacts[0]
    keys = sorted(Key(chance.randbytes(20)) for _ in range(300))
    stops = stops_of(Keys(b"".join(keys)), ring, own)
    planned = {(keys[place], stop.contact.peer) for stop in stops for place in stop.places()}
    around = sorted(contacts, key=lambda contact: contact.position)
    for key in keys:
        owner = next((n for n, contact in enumerate(around) if contact.position >= key), 0)
        holders = {around[(owner + n) % len(around)].peer for n in range(min(6, len(around)))} - {own.peer}
        assert {peer for known, peer in planned if known == key} == holders
    assert sum(1 for stop in stops for _ in stop.places()) == len(planned)
    assert len({stop.contact.peer for stop in stops}) == len(stops)


def test_an_empty_ring_has_no_holders() -> None:
    assert Table((), Rule(6)).of(Key(bytes(20))) == ()
    assert stops_of(Keys(bytes(20)), Table((), Rule(6)), contact_of(link_peer(0))) == []


def test_stand_ins_look_one_after_the_other_and_before_the_day_ends() -> None:
    for number in range(20):
        times = looks(5, 100.0, link_peer(number).peer)
        assert times == sorted(times)
        assert times[0] >= 50.0
        assert times[-1] <= 86.0
        assert times[1] - times[0] == pytest.approx(8.0)
    assert max(looks(15, 100.0, b"\xff" * 32)) <= 95.0


def test_a_sender_of_sound_links_is_never_stopped_at_a_crawlers_pace() -> None:
    senders = Senders()
    for second in range(2_000):
        assert senders.may_send(b"a", float(second)) is None
        senders.sent(b"a", float(second), links=400, strays=4, rubbish=2)


def test_a_million_links_at_once_are_taken_at_a_bounded_pace() -> None:
    senders, now, waits = Senders(), 0.0, 0
    for _ in range(500):
        if (not_now := senders.may_send(b"farm", now)) is not None:
            assert not_now.reason == "busy"
            now += not_now.retry_after_s
            waits += 1
        senders.sent(b"farm", now, links=2_000, strays=0, rubbish=0)
    assert waits > 400
    assert now == pytest.approx((1_000_000 - 100_000) / 500, rel=0.02)
    assert senders.may_send(b"other", now) is None


def test_some_rubbish_slows_a_sender_longer_each_time_and_much_shuts_it_out() -> None:
    senders, now, waits = Senders(), 0.0, []
    for _ in range(4):
        senders.sent(b"a", now, links=FIRST_JUDGED * 2, strays=0, rubbish=FIRST_JUDGED // 5)
        not_now = senders.may_send(b"a", now)
        assert not_now is not None
        assert not_now.reason == "slow down"
        waits.append(not_now.retry_after_s)
        now += not_now.retry_after_s + 600
    assert waits == [60, 120, 240, 480]
    senders.nonsense(b"b", now)
    ignored = senders.may_send(b"b", now)
    assert ignored is not None
    assert (ignored.reason, ignored.retry_after_s) == ("ignored", IGNORED_S)
    assert senders.may_send(b"b", now + IGNORED_S + 1) is None


def test_a_wrong_table_is_no_malice() -> None:
    senders = Senders()
    senders.sent(b"a", 0.0, links=1_000, strays=400, rubbish=0)
    assert senders.may_send(b"a", 0.0) is None


def test_senders_are_remembered_up_to_a_bound() -> None:
    senders = Senders()
    for number in range(SENDERS_MAX + 100):
        senders.may_send(b"%d" % number, 0.0)
    assert len(senders) == SENDERS_MAX
