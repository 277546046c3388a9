import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.recrawl import (
    Known,
    Recrawl,
    Result,
    adaptive_interval_days,
    after_visit,
    decode_known,
    encode_known,
    priority_of,
)


def days_due(results: list[Result], recrawl: Recrawl = Recrawl.DAILY) -> list[int]:
    """How many days after each visit the URL is due again."""
    known, day, waits = Known(url="http://a.example/"), 100, []
    for result in results:
        known = after_visit(known, result, day, recrawl)
        waits.append(known.due_day - day)
        day = known.due_day
    return waits


def test_every_known_url_is_due_every_day() -> None:
    assert (
        days_due([Result.CHANGED, Result.UNCHANGED, Result.UNCHANGED, Result.REFUSED, Result.FORBIDDEN])
        == [1] * 5
    )


def test_a_failed_fetch_is_tried_three_times_a_day_and_then_on_ever_later_days() -> None:
    assert days_due([Result.FAILED] * 12) == [0, 0, 1, 0, 0, 2, 0, 0, 4, 0, 0, 8]


def test_gone_pages_are_asked_for_ever_more_rarely_and_never_forgotten() -> None:
    assert days_due([Result.GONE] * 9) == [1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_what_is_of_no_wanted_type_is_looked_at_ever_more_rarely() -> None:
    assert days_due([Result.UNWANTED] * 9) == [1, 2, 4, 8, 16, 32, 64, 64, 64]


def test_a_page_that_comes_back_is_daily_again() -> None:
    assert days_due([Result.GONE, Result.GONE, Result.GONE, Result.CHANGED, Result.GONE]) == [1, 2, 4, 1, 1]


def test_an_adaptive_schedule_is_daily_until_three_visits_are_known_and_then_slows_down() -> None:
    waits = days_due([Result.CHANGED] + [Result.UNCHANGED] * 40, Recrawl.ADAPTIVE)
    assert waits[:2] == [1, 1]
    assert waits == sorted(waits)
    assert waits[-1] == 32


def test_an_adaptive_schedule_keeps_visiting_daily_what_changes_daily() -> None:
    assert days_due([Result.CHANGED] * 20, Recrawl.ADAPTIVE) == [1] * 20


@pytest.mark.parametrize(
    ("visits", "unchanged", "expected"),
    [(2, 2, 2), (2, 0, 1), (10, 5, 2), (10, 9, 10), (20, 19, 20), (100, 100, 32)],
)
def test_the_estimate_follows_cho_and_garcia_molina(visits: int, unchanged: int, expected: int) -> None:
    assert adaptive_interval_days(visits=visits, unchanged=unchanged) == expected


@given(st.lists(st.sampled_from(Result), max_size=80), st.sampled_from(Recrawl))
def test_nothing_is_ever_due_in_the_past_or_never(results: list[Result], recrawl: Recrawl) -> None:
    assert all(0 <= wait <= 64 for wait in days_due(results, recrawl))


def test_seeds_go_first_and_images_of_a_page_before_deeper_pages() -> None:
    seed = priority_of(0, is_embedded=False, is_seed=True)
    page, image, deeper = (
        priority_of(1, is_embedded=False),
        priority_of(1, is_embedded=True),
        priority_of(2, is_embedded=False),
    )
    assert seed < page < image < deeper
    assert priority_of(10_000, is_embedded=True) <= 255


def test_records_round_trip_and_foreign_bytes_are_refused() -> None:
    known = Known(url="http://a.example/ü", depth=3, etag='"x"', digest=b"\x00" * 32)
    assert decode_known(encode_known(known)) == known
    with pytest.raises(msgspec.MsgspecError):
        decode_known(b"\x91\x01")


def test_the_record_of_a_new_url_has_these_bytes() -> None:
    assert encode_known(Known(url="http://a.example/", depth=1, priority=3)).hex() == (
        "dc0010"  # sixteen fields
        "b1687474703a2f2f612e6578616d706c652f"  # url
        "0103a0"  # depth, priority, via
        "00ff000000a0"  # due_day, last_day -1, visits, unchanged, failures, last_result
        "a0a0c400"  # etag, last_modified, digest
        "0000c0"  # hops, flags, bounds
    )


def test_a_record_of_an_older_release_is_read_with_defaults_for_what_it_lacks() -> None:
    old = bytes.fromhex("9db1687474703a2f2f612e6578616d706c652f0103a000ff000000a0a0a0c400")
    assert decode_known(old) == Known(url="http://a.example/", depth=1, priority=3, hops=0)


def test_a_row_with_flags_is_never_read_by_its_parity() -> None:
    """Rows that this release wrote; they stay as they are when later ones have more fields."""
    row = bytes.fromhex("b1687474703a2f2f612e6578616d706c652f0104a000ff000000a0a0a0c4000000")
    for head in ("9f", "dc000f"):
        known = decode_known(bytes.fromhex(head) + row)
        assert (known.priority, known.is_embedded) == (4, False)
    for head, more in (("dc0010", "c0"), ("dc0011", "c000")):
        longer = decode_known(bytes.fromhex(head) + row + bytes.fromhex(more))
        assert (longer.priority, longer.is_embedded, longer.bounds) == (4, False, None)


@pytest.mark.parametrize(
    ("priority", "is_embedded", "is_doubtful"),
    [
        (0, False, False),  # a seed
        (3, False, False),
        (4, True, False),
        (127, False, False),
        (128 + 3, False, True),
        (128 + 4, True, True),
        (254, True, True),
        (255, False, False),  # a retry
    ],
)
@pytest.mark.parametrize("fields", [13, 14])
def test_a_row_without_flags_is_read_by_the_parity_of_its_priority(
    fields: int, priority: int, is_embedded: bool, is_doubtful: bool
) -> None:
    row = b"\xb1http://a.example/\x01" + msgspec.msgpack.encode(priority)
    row += bytes.fromhex("a000ff000000a0a0a0c400") + b"\x00" * (fields - 13)
    known = decode_known(bytes((0x90 + fields,)) + row)
    assert (known.depth, known.priority) == (1, priority)
    assert (known.is_embedded, known.is_doubtful) == (is_embedded, is_doubtful)
    # Written again it says so itself, whatever becomes of its priority.
    known.priority = 255
    again = decode_known(encode_known(known))
    assert (again.is_embedded, again.is_doubtful) == (is_embedded, is_doubtful)
