"""Which door, how much a day, and whose clock is wrong: without peers."""

import random

import msgspec
import pytest

from herodotus.core.doors import (
    AHEAD_S,
    DAY_S,
    FRESH_S,
    LATE_S,
    SIGNERS_MAX,
    Declined,
    Door,
    Passage,
    Quotas,
    QuotasFile,
    TurnedAway,
    crawled_at,
    door_shown,
    is_ahead,
    passage_of,
)

NOON_S = 1_700_000_000.0 // DAY_S * DAY_S + DAY_S / 2
A, B, C = b"a" * 32, b"b" * 32, b"c" * 32
HERE, THERE, FAR = b"1", b"2", b"3"


def test_an_owner_s_capture_is_fresh_then_late_then_too_old() -> None:
    assert crawled_at(NOON_S, NOON_S) is Door.CRAWLED
    assert crawled_at(NOON_S - FRESH_S, NOON_S) is Door.CRAWLED
    assert crawled_at(NOON_S - FRESH_S - 1, NOON_S) is Door.LATE
    assert crawled_at(NOON_S - LATE_S, NOON_S) is Door.LATE
    assert crawled_at(NOON_S - LATE_S - 1, NOON_S) is None
    assert not is_ahead(NOON_S + AHEAD_S, NOON_S)
    assert is_ahead(NOON_S + AHEAD_S + 1, NOON_S)


@pytest.mark.parametrize(
    "passage", [Passage(door, is_healed) for door in Door for is_healed in (False, True)]
)
def test_the_field_says_what_was_written(passage: Passage) -> None:
    assert passage_of(f"1 {passage}") == passage


@pytest.mark.parametrize("value", [None, "", "1", "2 crawled", "1 crawled twice", "1 by the roof", "crawled"])
def test_an_unreadable_field_says_nothing(value: str | None) -> None:
    assert passage_of(value) == Passage(Door.UNKNOWN)


def test_any_field_is_a_passage() -> None:
    rng = random.Random(3)
    for _ in range(500):
        passage_of("".join(chr(rng.randrange(32, 300)) for _ in range(rng.randrange(30))))


def test_readers_are_told_of_all_but_what_came_as_most_does() -> None:
    by = "ab" * 32
    shown = {
        door: door_shown(door, by) for door in ("", "crawled", "unknown", "late", "brought-in", "late healed")
    }
    assert shown == {
        "": "",
        "crawled": "",
        "unknown": "",
        "late": "came late by abababababababab",
        "brought-in": "brought in by abababababababab",
        "late healed": "came late by abababababababab, from other holders",
    }
    assert door_shown("unknown healed", by) == "from other holders"


# -- quotas -----------------------------------------------------------------------------------------------


def quotas(proven: int = 0, kept: QuotasFile | None = None) -> Quotas:
    book = Quotas(1_000, lambda _peer: proven, kept)
    assert book.hit(NOON_S) == {}
    return book


def test_a_signer_brings_so_much_a_day_and_of_what_it_proved_a_hundredth_more() -> None:
    book = quotas(proven=50_000)
    assert book.is_within(A, HERE, 1_500, NOON_S)
    assert not book.is_within(A, HERE, 1, NOON_S)
    assert book.hit(NOON_S) == {A: 1}
    assert book.is_within(B, THERE, 1_500, NOON_S)
    assert book.is_within(A, HERE, 1_500, NOON_S + DAY_S)
    assert book.hit(NOON_S + DAY_S) == {}


def test_a_place_brings_four_times_that_however_many_keys_it_has() -> None:
    book = quotas()
    taken = sum(book.is_within(bytes([number]) * 32, HERE, 100, NOON_S) for number in range(100))
    assert taken == 40


def test_what_others_bring_is_usual_and_four_times_that_no_flood() -> None:
    book = quotas()
    book.brought_own(3_000)
    assert book.is_within(A, HERE, 9_000, NOON_S)
    assert book.allowance(A, HERE) == 12_000


def test_keys_of_fewer_than_half_of_the_places_raise_nobody_s_share() -> None:
    book = quotas()
    for number in range(20):  # one person's
        book.is_within(bytes([number]) * 32, b"place %d" % (number % 2), 1_000, NOON_S)
    book.brought_own(10)
    book.is_within(B, THERE, 10, NOON_S)
    assert book.allowance(C, FAR) == 1_000


def test_what_was_here_already_uses_nothing_up() -> None:
    """Or anybody could send again what an honest peer signed."""
    book = quotas()
    for _ in range(50):
        assert book.is_within(A, HERE, 600, NOON_S)
        book.give_back(A, HERE, 600)


def test_a_restart_forgets_nothing_of_the_day() -> None:
    book = quotas()
    book.brought_own(7)
    assert book.is_within(A, HERE, 900, NOON_S)
    was_changed = book.is_changed
    data = msgspec.json.encode(book.keep())
    assert (was_changed, book.is_changed) == (True, False)
    assert data == (
        b'{"format":1,"day":%d,"own":7,"signers":{"%s":900},"places":{"31":900}}'
        % (NOON_S // DAY_S, A.hex().encode())
    )
    again = quotas(kept=msgspec.json.decode(data, type=QuotasFile))
    assert not again.is_within(A, HERE, 101, NOON_S)
    assert again.is_within(A, HERE, 100, NOON_S)


def test_the_books_are_bounded() -> None:
    book = Quotas(1 << 40, lambda _peer: 0)
    keys = [number.to_bytes(32, "big") for number in range(SIGNERS_MAX + 100)]
    assert sum(book.is_within(key, key, 1, NOON_S) for key in keys) == SIGNERS_MAX
    assert len(book.keep().signers) == len(book.keep().places) == SIGNERS_MAX


def test_what_was_declined_is_not_asked_for_again_there_and_may_come_from_elsewhere() -> None:
    declined = Declined()
    declined.note(b"key", b"member", A, 100.0, TurnedAway.QUOTA)
    assert declined.why(b"key", 99.0) is TurnedAway.QUOTA
    assert declined.not_from(A, [b"member", b"other"], 99.0) == [b"other"]
    assert declined.not_from(B, [b"member"], 99.0) == [b"member"]
    assert declined.why(b"key", 100.0) is None
    assert declined.not_from(A, [b"member"], 100.0) == [b"member"]
