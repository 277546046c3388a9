"""Helpers: how much each may have, which results are looked at, and how soon one that lies is found."""

from random import Random

import msgspec
import pytest

from herodotus.core.helpers import (
    BARRED_S,
    HELPERS_MAX,
    LEAST_BATCH,
    LEAST_HELPERS,
    YOUNG_S,
    HelperBook,
    HelpersFile,
    Verdict,
)

HELPER, OTHER = b"h" * 32, b"o" * 32
NOW = 1_700_000_000.0


def book_of(seed: int = 1, *, day: int = 10, fetched: int = 0) -> HelperBook:
    book = HelperBook(Random(seed))
    book.start_day(day)
    for _ in range(fetched):
        book.fetched(1)
    return book


def give(book: HelperBook, peer: bytes, now: float, most: int = 10_000) -> int:
    """As many as it may have."""
    given = 0
    while given < most and book.may_have(peer, now) > 0:
        book.give(peer, now)
        given += 1
    return given


def aged(book: HelperBook, peer: bytes = HELPER) -> HelperBook:
    """It brought 200 results, and a week passed."""
    for _ in range(200):
        book.brought(peer, NOW - YOUNG_S)
    return book


# --- how much


def test_a_young_helper_has_a_twentieth_of_the_day_and_a_known_one_three_tenths() -> None:
    least = LEAST_BATCH
    assert give(book_of(fetched=1_000), HELPER, NOW) == 50 + least
    assert give(aged(book_of(fetched=1_000)), HELPER, NOW) == 300 + least


def test_many_young_helpers_together_have_no_more_than_three() -> None:
    book = book_of(fetched=1_000)
    given = [give(book, bytes([number]) * 32, NOW) for number in range(40)]
    assert 150 <= sum(given) <= 150 + LEAST_HELPERS * LEAST_BATCH
    assert given[-1] == 0


def test_known_helpers_together_leave_the_owner_half_of_its_day() -> None:
    book = book_of(fetched=1_000)
    for number in range(3):
        aged(book, bytes([number]) * 32)
    given = [give(book, bytes([number]) * 32, NOW) for number in range(3)]
    assert 500 <= sum(given) <= 500 + 3 * LEAST_BATCH


def test_a_helper_has_a_batch_an_hour_however_small_the_day_is() -> None:
    book = book_of()
    assert give(book, HELPER, NOW) == LEAST_BATCH
    assert give(book, HELPER, NOW + 3_599) == 0
    assert give(book, HELPER, NOW + 3_600) == LEAST_BATCH


def test_the_day_before_counts_until_today_has_more() -> None:
    book = book_of(fetched=1_000)
    book.start_day(11)
    assert give(book, HELPER, NOW) == 50 + LEAST_BATCH
    book.start_day(13)  # the owner was away for a day
    assert give(book, OTHER, NOW) == LEAST_BATCH


# --- what is looked at


def test_every_second_of_the_first_fifty_is_looked_at_and_then_one_in_twenty() -> None:
    first = later = 0
    for seed in range(400):
        book = book_of(seed)
        first += sum(book.brought(HELPER, NOW) for _ in range(50))
        later += sum(book.brought(HELPER, NOW) for _ in range(50))
    assert 9_600 < first < 10_400
    assert 850 < later < 1_150


def test_a_difference_brings_back_every_second_for_two_hundred_results() -> None:
    again = after = 0
    for seed in range(100):
        book = book_of(seed)
        for _ in range(60):
            book.brought(HELPER, NOW)
        book.judge(HELPER, Verdict.OTHER, NOW)
        again += sum(book.brought(HELPER, NOW) for _ in range(200))
        after += sum(book.brought(HELPER, NOW) for _ in range(200))
    assert 9_600 < again < 10_400
    assert 850 < after < 1_150


def test_a_page_that_changes_each_time_says_nothing_about_its_helper() -> None:
    book = book_of()
    for _ in range(10):
        book.judge(HELPER, Verdict.CHANGING, NOW)
    assert not book.is_barred(HELPER, NOW)
    assert (book.counts.changing, book.counts.differed) == (10, 0)


def test_three_differences_end_the_trust_for_thirty_days_and_then_it_begins_anew() -> None:
    book = aged(book_of(fetched=1_000))
    for _ in range(3):
        assert not book.is_barred(HELPER, NOW)
        book.judge(HELPER, Verdict.OTHER, NOW)
    assert book.is_barred(HELPER, NOW + BARRED_S - 1)
    assert book.may_have(HELPER, NOW + BARRED_S - 1) == 0
    assert not book.is_barred(HELPER, NOW + BARRED_S)
    assert book.may_have(HELPER, NOW + BARRED_S) == 50  # as a young one


def test_a_difference_is_forgiven_after_two_hundred_results_without_another() -> None:
    book = book_of()
    for _ in range(5):
        book.judge(HELPER, Verdict.OTHER, NOW)
        for _ in range(200):
            book.brought(HELPER, NOW)
    assert not book.is_barred(HELPER, NOW)


def results_until_found(seed: int, altered: float, most: int = 20_000) -> int:
    book, chance = HelperBook(Random(seed)), Random(f"altered {seed}")
    for result in range(1, most):
        is_altered = chance.random() < altered
        if book.brought(HELPER, NOW):
            book.judge(HELPER, Verdict.OTHER if is_altered else Verdict.SAME, NOW)
        if book.is_barred(HELPER, NOW):
            return result
    return most


def test_a_helper_that_alters_one_body_in_twenty_is_found_within_six_hundred_results() -> None:
    found = sorted(results_until_found(seed, 0.05) for seed in range(1_000))
    assert found[900] <= 600
    assert found[500] <= 150


@pytest.mark.parametrize(("altered", "within"), [(1.0, 20), (0.5, 40), (0.2, 100)])
def test_a_helper_that_alters_more_is_found_sooner(altered: float, within: int) -> None:
    found = sorted(results_until_found(seed, altered) for seed in range(1_000))
    assert found[900] <= within


# --- those that bring nothing


def test_a_helper_that_brings_nothing_rests_for_longer_and_longer() -> None:
    book = book_of(fetched=1_000)
    for _ in range(3):
        assert book.may_have(HELPER, NOW) > 0
        book.lose(HELPER, NOW)
    assert book.may_have(HELPER, NOW + 59) == 0
    assert book.may_have(HELPER, NOW + 60) > 0
    book.lose(HELPER, NOW + 60)
    assert book.may_have(HELPER, NOW + 60 + 119) == 0
    for _ in range(100):
        book.lose(HELPER, NOW)
    assert book.may_have(HELPER, NOW + 86_400) > 0
    book.brought(HELPER, NOW + 86_400)
    book.lose(HELPER, NOW + 86_400)
    assert book.may_have(HELPER, NOW + 86_400) > 0


# --- memory


def test_what_is_known_of_helpers_outlives_the_peer() -> None:
    book = book_of(fetched=1_000)
    for _ in range(3):
        book.judge(HELPER, Verdict.OTHER, NOW)
    give(book, OTHER, NOW)
    kept = msgspec.json.decode(msgspec.json.encode(book.keep()), type=HelpersFile)
    again = HelperBook(Random(1), kept)
    assert again.barred(NOW) == {HELPER: int(NOW + BARRED_S)}
    assert again.may_have(OTHER, NOW) == 0
    assert again.keep() == kept


def test_the_bytes_of_the_file() -> None:
    book = book_of(day=20_000, fetched=2)
    book.give(HELPER, NOW)
    book.brought(HELPER, NOW + 5)
    book.judge(HELPER, Verdict.OTHER, NOW + 5)
    assert msgspec.json.encode(book.keep()) == (
        b'{"format":1,"day":20000,"fetched":2,"yesterday":0,"helpers":{"' + HELPER.hex().encode() + b'":{'
        b'"first_s":1700000000,"last_s":1700000005,"results":1,"watched":200,"differences":1,"barred_until_s":0,'
        b'"lost":0,"rests_until_s":0,"today":1,"least_s":1700000000,"least_left":7}}}'
    )


def test_helpers_without_trust_are_remembered_when_keys_are_made_up() -> None:
    book = book_of()
    for _ in range(3):
        book.judge(HELPER, Verdict.OTHER, NOW)
    for number in range(2 * HELPERS_MAX):
        book.brought(number.to_bytes(32, "big"), NOW)
    assert book.is_barred(HELPER, NOW)
    assert len(book.keep().helpers) == HELPERS_MAX
