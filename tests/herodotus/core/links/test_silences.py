"""Are the silent left alone for longer each time, and those who answer never?"""

from random import Random

from herodotus.core.links.senders import FIRST_S, LONGEST_S, PEERS_MAX, Silences


def test_a_silent_peer_is_left_alone_for_longer_each_time_and_until_it_answers() -> None:
    silences, now = Silences(Random(1)), 100.0
    assert not silences.is_silent(b"a", now)
    for expected_s in (5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0):
        silences.failed(b"a", now)
        assert silences.is_silent(b"a", now + 0.79 * expected_s)
        assert not silences.is_silent(b"b", now)
        now += 1.21 * expected_s
        assert not silences.is_silent(b"a", now)
    silences.answered(b"a")
    silences.failed(b"a", now)
    assert not silences.is_silent(b"a", now + 1.21 * FIRST_S)


def test_who_names_its_time_is_left_alone_for_so_long_within_reason() -> None:
    silences = Silences(Random(1))
    silences.failed(b"a", 0.0, asks_for_s=60.0)
    assert silences.is_silent(b"a", 59.0)
    assert not silences.is_silent(b"a", 61.0)
    silences.failed(b"b", 0.0, asks_for_s=1e9)
    assert not silences.is_silent(b"b", LONGEST_S + 1)


def test_the_silent_are_remembered_up_to_a_bound() -> None:
    silences = Silences(Random(1))
    for number in range(PEERS_MAX + 10):
        silences.failed(number.to_bytes(2, "big"), 0.0)
    assert len(silences) == PEERS_MAX
    assert not silences.is_silent((9).to_bytes(2, "big"), 1.0)
    assert silences.is_silent((10).to_bytes(2, "big"), 1.0)
