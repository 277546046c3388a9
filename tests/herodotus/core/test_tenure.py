"""Is a key ours long enough to speak for it?"""

import random

from dht.core.arcs import WHOLE, Arc, Arcs
from dht.core.ids import key_from_number, number_of
from herodotus.crawl.stewards.office import CHANGES_MAX, Tenure

SILENT_S = 60.0


def arc(start: int, end: int) -> Arc:
    return Arc(key_from_number(start), key_from_number(end))


def test_all_is_new_at_first() -> None:
    tenure = Tenure(SILENT_S)
    assert not tenure.has(key_from_number(5))
    tenure.change(Arcs([arc(0, 10)]), 100.0)
    assert tenure.has(key_from_number(10))
    assert not tenure.has(key_from_number(11))
    assert tenure.opens_at(key_from_number(5)) == 160.0


def test_the_first_peer_of_a_network_need_not_wait_for_stewards_before_it() -> None:
    tenure = Tenure(SILENT_S, begins_ring=True)
    tenure.change(Arcs(), 90.0)
    tenure.change(WHOLE, 100.0)
    assert tenure.opens_at(key_from_number(5)) <= 100.0
    tenure.change(Arcs([arc(0, 10)]), 110.0)
    tenure.change(WHOLE, 120.0)
    assert tenure.opens_at(key_from_number(5)) <= 120.0, "ours all the time"
    assert tenure.opens_at(key_from_number(15)) == 180.0, "another's meanwhile"


def test_a_first_peer_that_others_joined_at_once_waits_as_all_do() -> None:
    tenure = Tenure(SILENT_S, begins_ring=True)
    tenure.change(Arcs([arc(0, 10)]), 100.0)
    tenure.change(WHOLE, 101.0)
    assert tenure.opens_at(key_from_number(5)) == 160.0
    assert tenure.opens_at(key_from_number(15)) == 161.0


def test_what_stays_ours_keeps_its_time_and_what_comes_begins_anew() -> None:
    tenure = Tenure(SILENT_S)
    tenure.change(Arcs([arc(0, 10)]), 0.0)
    tenure.change(Arcs([arc(0, 20)]), 100.0)
    assert tenure.opens_at(key_from_number(5)) <= 100.0
    assert tenure.opens_at(key_from_number(15)) == 160.0
    tenure.change(Arcs([arc(4, 20)]), 110.0)
    assert not tenure.has(key_from_number(3))
    tenure.change(Arcs([arc(0, 20)]), 120.0)
    assert tenure.opens_at(key_from_number(3)) == 180.0
    assert tenure.opens_at(key_from_number(15)) == 160.0
    assert tenure.opens_at(key_from_number(8)) <= 100.0


def test_being_told_the_same_again_changes_nothing_and_missing_news_all() -> None:
    tenure = Tenure(SILENT_S)
    tenure.change(Arcs([arc(0, 10)]), 0.0)
    tenure.change(Arcs([arc(0, 10)]), 100.0)
    assert tenure.opens_at(key_from_number(5)) == 60.0
    tenure.lose_all(200.0)
    assert tenure.opens_at(key_from_number(5)) == 260.0


def test_any_history_says_at_least_what_a_plain_record_says() -> None:
    """Against a table that remembers for each key when it was last not ours; more changes than are remembered."""
    for seed in range(20):
        chance = random.Random(seed)
        tenure, now = Tenure(SILENT_S), 0.0
        keys = [key_from_number(number) for number in range(0, 100, 7)]
        last_not_ours = dict.fromkeys(keys, 0.0)
        held: list[Arc] = []
        for _ in range(2 * CHANGES_MAX):
            for key in keys:
                if not any(number_of(one.start) < number_of(key) <= number_of(one.end) for one in held):
                    last_not_ours[key] = now
            held = [arc(start := chance.randrange(60), start + chance.randrange(1, 40)) for _ in range(2)]
            tenure.change(Arcs(held), now)
            for key in keys:
                if tenure.has(key):
                    assert tenure.opens_at(key) >= min(last_not_ours[key] + SILENT_S, now + SILENT_S) or (
                        last_not_ours[key] + SILENT_S < now
                    ), seed
            now += chance.choice([0.01, 0.1, 5.0])


def test_more_changes_than_are_remembered_make_a_longer_silence_and_never_a_shorter_one() -> None:
    """Two of the oldest become one: only what was ours in both counts as ours then."""
    tenure = Tenure(SILENT_S)
    tenure.change(Arcs([arc(0, 10)]), 0.0)
    tenure.change(Arcs([arc(20, 30)]), 1.0)  # the first ten keys are not ours for a while
    tenure.change(Arcs([arc(0, 10)]), 2.0)
    for number in range(CHANGES_MAX):
        tenure.change(Arcs([arc(0, 10), arc(40, 50 + number % 2)]), 3.0 + number / 1_000)
    assert tenure.opens_at(key_from_number(5)) >= 2.0 + SILENT_S
