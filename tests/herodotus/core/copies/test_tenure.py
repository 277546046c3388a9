"""Since when does a peer hold which keys? It says so only where it was there all the time."""

import msgspec

from dht.core.arcs import Arc, Arcs
from dht.core.ids import Key
from herodotus.core.copies import tenure
from herodotus.core.copies.tenure import ARCS_MAX, GAP_S, LAYERS_MAX, Tenure, TenureFile

DAY_S = 86_400


def key(first: int) -> Key:
    return Key(bytes((first,)) + bytes(19))


def arcs(*pairs: tuple[int, int]) -> Arcs:
    return Arcs(Arc(key(start), key(end)) for start, end in pairs)


def held(*times: tuple[int, Arcs]) -> Tenure:
    one = Tenure()
    for now_s, share in times:
        one.hold(share, now_s, 100)
    return one


def again(one: Tenure) -> Tenure:
    kept = one.keep()
    assert kept is not None
    return Tenure(msgspec.json.decode(msgspec.json.encode(kept), type=TenureFile))


def test_each_key_is_held_since_it_came() -> None:
    one = held((1_000, arcs((10, 20))), (2_000, arcs((10, 30))), (3_000, arcs((15, 40))))
    assert [one.since(key(at)) for at in (12, 16, 20, 25, 35, 50)] == [None, 1_000, 1_000, 2_000, 3_000, None]


def test_what_was_not_ours_for_a_while_begins_anew() -> None:
    one = held((1_000, arcs((10, 30))), (2_000, arcs((10, 20))), (3_000, arcs((10, 30))))
    assert [one.since(key(at)) for at in (15, 25)] == [1_000, 3_000]


def test_another_life_takes_up_where_the_last_one_ended() -> None:
    one = held((1_000, arcs((10, 20))), (2_000, arcs((10, 30))))
    after = again(one)
    assert after.since(key(15)) is None, "nothing is known yet"
    assert after.keep() is None
    after.hold(arcs((10, 40)), 2_000 + GAP_S, 100)
    assert [after.since(key(at)) for at in (15, 25, 35)] == [1_000, 2_000, 2_000 + GAP_S]


def test_who_was_away_for_more_than_a_day_or_has_another_archive_cannot_know() -> None:
    for away_s, captures in ((GAP_S + 1, 100), (60, 98), (-1, 100)):
        after = again(held((1_000, arcs((10, 20)))))
        after.hold(arcs((10, 20)), 1_000 + away_s, captures)
        assert after.since(key(15)) == 1_000 + away_s


def test_a_suspended_machine_cannot_know_either() -> None:
    assert held((1_000, arcs((10, 20))), (1_001 + GAP_S, arcs((10, 20)))).since(key(15)) == 1_001 + GAP_S


def test_layers_are_bounded_and_nobody_becomes_older_by_that() -> None:
    one = Tenure()
    for number in range(LAYERS_MAX + 40):
        one.hold(arcs((0, number + 1)), 1_000 + number, 100)
        assert len(one._layers) <= LAYERS_MAX
    assert one.since(key(1)) == one.since(key(41)) == 1_040
    assert one.since(key(100)) == 1_099


def test_arcs_are_bounded() -> None:
    one = Tenure()
    many = Arcs(
        Arc(Key(n.to_bytes(20, "big")), Key((n + 1).to_bytes(20, "big"))) for n in range(2, 4 * ARCS_MAX, 2)
    )
    one.hold(many, 1_000, 100)
    assert tenure._arcs_in(one._layers) <= ARCS_MAX


def test_of_times_without_room_it_cannot_know() -> None:
    one = held((1_000, arcs((10, 20))))
    for at in (5 * DAY_S, 5 * DAY_S + GAP_S, 20 * DAY_S):
        one.turned_away(at)
    for days, may_have in (
        (3, False),
        (4, True),
        (5.5, True),
        (6, True),
        (6.1, False),
        (19, True),
        (20.1, False),
    ):
        assert again(one).may_have_turned_away(int(days * DAY_S), DAY_S) == may_have, days
    for number in range(3 * tenure.FULL_SPANS_MAX):
        one.turned_away((30 + 2 * number) * DAY_S)
    kept = one.keep()
    assert kept is not None
    assert len(kept.full) == tenure.FULL_SPANS_MAX
    assert one.may_have_turned_away(10 * DAY_S, 0), "what is put together covers more, never less"
