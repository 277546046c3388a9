"""Does a peer stay within what its volunteer offered, whatever it is asked and whatever the clock says?"""

import random
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from herodotus.core.budgets import (
    ASK_AGAIN_S,
    BURST_BYTES_MIN,
    MONTHS_KEPT,
    POSITION_BYTES,
    Budgets,
    ClockReading,
    Month,
    Spending,
    TrafficLedger,
    Volume,
    offered_bytes,
    virtual_nodes_for,
)
from herodotus.core.offered_limits import DiskLimits, Hours, TrafficLimits

DAY_S = 86_400.0
GB = 1_000_000_000


def at(text: str, *, offset_s: float = 0.0, steady_s: float | None = None) -> ClockReading:
    """A moment by the volunteer's own clock."""
    wall_s = datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() - offset_s
    return ClockReading(
        steady_s=wall_s if steady_s is None else steady_s, wall_s=wall_s, local_offset_s=offset_s
    )


NOON = at("2026-11-18T12:00:00")


def later(moment: ClockReading, seconds: float) -> ClockReading:
    return ClockReading(
        steady_s=moment.steady_s + seconds,
        wall_s=moment.wall_s + seconds,
        local_offset_s=moment.local_offset_s,
    )


def budgets(**limits: object) -> Budgets:
    return Budgets(TrafficLimits(**limits), TrafficLedger())  # type: ignore[arg-type]  # each test names its own


# -- rates ------------------------------------------------------------------------------------------------


def test_only_what_no_limit_speaks_of_is_free() -> None:
    def free_of(**limits: object) -> set[Spending]:
        return {kind for kind in Spending if budgets(**limits).is_free(kind)}

    down = {Spending.CRAWL, Spending.COPIES_IN, Spending.FETCHED, Spending.LINE_IN}
    assert free_of(down_bytes_per_s=1.0) == set(Spending) - down
    assert free_of(up_bytes_per_s=1.0) == down
    assert free_of(month_bytes=1) == {Spending.FETCHED}
    assert free_of(hours=(Hours.parse("01:00-02:00"),)) == {
        kind for kind in Spending if not kind.is_background
    }


def test_each_spending_is_booked_in_the_month_of_its_moment_also_when_the_clock_goes_back() -> None:
    free = budgets(month_day=5)
    for text in ("2026-11-18T12:00:00", "2026-12-04T23:59:59", "2026-12-05T00:00:00", "2026-11-05T00:00:00"):
        free.charge(Spending.FETCHED, 1, at(text))
    assert {name: volume.down for name, volume in free.ledger.months().items()} == {
        "2026-12": 1,
        "2026-11": 3,
    }


def test_without_limits_nothing_waits() -> None:
    free = budgets()
    assert all(map(free.is_free, Spending))
    assert [free.grant(kind, 10**12, NOON) for kind in Spending] == [0.0] * len(Spending)


def test_a_rate_is_kept_after_its_burst() -> None:
    one = budgets(down_bytes_per_s=100_000.0)
    assert one.grant(Spending.CRAWL, 200_000, NOON) == 0.0  # the burst of two seconds
    assert one.grant(Spending.CRAWL, 1, NOON) == pytest.approx(0.0, abs=1e-4)
    assert one.grant(Spending.CRAWL, 100_000, later(NOON, 1.0)) == 0.0
    assert one.grant(Spending.CRAWL, 1, later(NOON, 1.0)) > 0.0


def test_what_is_larger_than_a_burst_passes_and_is_paid_for_after() -> None:
    one = budgets(down_bytes_per_s=100_000.0)
    assert one.grant(Spending.CRAWL, 1_200_000, NOON) == 0.0
    assert one.grant(Spending.CRAWL, 1, NOON) == pytest.approx(10.0, abs=0.001)
    assert one.grant(Spending.CRAWL, 1, later(NOON, 9.9)) > 0.0
    assert one.grant(Spending.CRAWL, 1, later(NOON, 10.001)) == 0.0


def test_the_two_directions_are_apart() -> None:
    one = budgets(down_bytes_per_s=1_000.0, up_bytes_per_s=1_000.0)
    one.charge(Spending.CRAWL, 10_000_000, NOON)
    assert one.grant(Spending.COPIES_IN, 1, NOON) > 1_000
    assert one.grant(Spending.READERS, 1, NOON) == 0.0
    one.charge(Spending.LINE_OUT, 10_000_000, NOON)
    assert one.grant(Spending.READERS, 1, NOON) > 1_000


def test_what_was_told_to_wait_is_not_booked() -> None:
    one = budgets(down_bytes_per_s=1_000.0)
    one.charge(Spending.CRAWL, 500_000, NOON)
    assert one.grant(Spending.CRAWL, 777, NOON) > 0
    assert one.spent(NOON) == Volume(down=500_000)


def test_a_steady_clock_that_stands_still_or_goes_back_gives_nothing() -> None:
    one = budgets(up_bytes_per_s=1_000.0)
    one.charge(Spending.READERS, BURST_BYTES_MIN + 10_000, NOON)
    first = one.grant(Spending.READERS, 1, NOON)
    assert first == pytest.approx(10.0, abs=0.01)
    assert one.grant(Spending.READERS, 1, later(NOON, -1_000.0)) == first
    assert one.grant(Spending.READERS, 1, NOON) == first


@given(
    seed=st.integers(0, 2**32),
    rate=st.floats(100.0, 1e8),
    sizes=st.lists(st.integers(1, 5_000_000), min_size=1, max_size=60),
)
def test_over_any_time_no_more_flows_than_the_rate_a_burst_and_one_piece(
    seed: int, rate: float, sizes: list[int]
) -> None:
    chance = random.Random(seed)
    one, now, sent = budgets(up_bytes_per_s=rate), NOON, 0
    for size in sizes:
        wait_s = one.grant(Spending.COPIES_OUT, size, now)
        if wait_s == 0.0:
            sent += size
        now = later(now, max(wait_s, chance.random()))
        if wait_s > 0.0:
            assert one.grant(Spending.COPIES_OUT, 0, later(now, 1e-3)) == 0.0, (
                seed
            )  # the wait was long enough
    passed = now.steady_s - NOON.steady_s + 1e-3
    assert sent <= max(BURST_BYTES_MIN, 2 * rate) + rate * passed + max(sizes), seed


# -- the month --------------------------------------------------------------------------------------------


def test_a_month_begins_on_the_day_that_the_provider_says() -> None:
    month = Month.at(at("2026-03-04T12:00:00"), 5)
    assert (month.name, month.elapsed_s, month.length_s) == ("2026-02", 27.5 * DAY_S, 28 * DAY_S)
    assert Month.at(at("2026-03-05T00:00:00"), 5) == Month(name="2026-03", elapsed_s=0.0, length_s=31 * DAY_S)
    assert Month.at(at("2026-01-01T00:00:00"), 2).name == "2025-12"
    assert Month.at(at("2026-12-31T23:59:59"), 1).length_s == 31 * DAY_S


@given(wall_s=st.floats(1.77e9, 4e9), day=st.integers(1, 28), offset_s=st.integers(-43_200, 50_400))
def test_every_moment_is_within_its_month(wall_s: float, day: int, offset_s: int) -> None:
    month = Month.at(ClockReading(steady_s=0, wall_s=wall_s, local_offset_s=offset_s), day)
    assert 0 <= month.elapsed_s < month.length_s
    assert 28 * DAY_S <= month.length_s <= 31 * DAY_S


def test_the_month_turns_at_the_volunteers_midnight() -> None:
    auckland = at("2026-12-01T00:30:00", offset_s=13 * 3600.0)
    assert auckland.wall_s < at("2026-11-30T12:00:00").wall_s
    assert Month.at(auckland, 1).name == "2026-12"


def test_background_work_is_spread_over_the_month_a_day_ahead() -> None:
    one = budgets(month_bytes=100 * GB)  # 3 GB a day for it, in a month of 30 days
    first = at("2026-11-01T00:00:00")
    assert one.grant(Spending.CRAWL, 3 * GB - 1, first) == 0.0
    assert one.grant(Spending.CRAWL, 3 * GB, first) == 0.0  # the last piece may pass the mark
    assert one.grant(Spending.CRAWL, 1, first) == pytest.approx(DAY_S, rel=1e-6)
    assert one.grant(Spending.COPIES_OUT, 1, later(first, DAY_S - 60)) == pytest.approx(60, abs=0.01)
    assert one.grant(Spending.CRAWL, 1, later(first, DAY_S + 1)) == 0.0


def test_the_last_tenth_is_for_readers_and_the_ring() -> None:
    one = budgets(month_bytes=100 * GB)
    end = at("2026-11-30T12:00:00")
    one.charge(Spending.READERS, 90 * GB, end)
    assert one.grant(Spending.CRAWL, 1, end) == DAY_S / 2
    assert one.grant(Spending.READERS, 10 * GB, end) == 0.0
    assert one.grant(Spending.READERS, 1, end) == DAY_S / 2
    assert one.grant(Spending.CRAWL, 1, later(end, DAY_S / 2)) == 0.0


def test_what_is_fetched_is_booked_but_waits_for_the_rate_alone() -> None:
    one = budgets(month_bytes=1_000, hours=(Hours.parse("02:00-03:00"),), down_bytes_per_s=1_000.0)
    assert one.grant(Spending.FETCHED, 1_000_000, NOON) == 0.0
    assert one.spent(NOON) == Volume(down=1_000_000)
    assert one.grant(Spending.FETCHED, 1, NOON) > 100


# -- wrong clocks -----------------------------------------------------------------------------------------


def test_a_clock_that_leapt_ahead_and_came_back_has_forgotten_nothing() -> None:
    one = budgets(month_bytes=100 * GB)
    one.charge(Spending.READERS, 100 * GB, NOON)
    astray = at("2031-02-03T04:05:06")
    assert one.grant(Spending.READERS, GB, astray) == 0.0
    assert one.grant(Spending.READERS, 1, NOON) > DAY_S
    assert one.ledger.months() == {"2026-11": Volume(up=100 * GB), "2031-02": Volume(up=GB)}


def test_before_the_clock_is_set_spendings_go_to_the_month_booked_last() -> None:
    ledger = TrafficLedger({"2026-10": Volume(up=1), "2026-11": Volume(up=99 * GB)})
    one = Budgets(TrafficLimits(month_bytes=100 * GB), ledger)
    boot = at("1970-01-01T00:00:30")
    assert one.grant(Spending.CRAWL, 1, boot) == ASK_AGAIN_S
    assert one.grant(Spending.READERS, GB, boot) == 0.0
    assert one.grant(Spending.READERS, 1, boot) == ASK_AGAIN_S
    assert ledger.of("2026-11") == Volume(up=100 * GB)


def test_before_the_clock_is_set_no_hour_is_a_good_one() -> None:
    one = budgets(hours=(Hours.parse("00:00-24:00"),))
    assert one.grant(Spending.CRAWL, 1, at("1970-01-01T12:00:00")) == ASK_AGAIN_S
    assert one.grant(Spending.CRAWL, 1, NOON) == 0.0
    assert one.grant(Spending.READERS, 1, at("1970-01-01T12:00:00")) == 0.0


def test_the_ledger_is_bounded_and_drops_what_was_not_booked_for_longest() -> None:
    ledger = TrafficLedger()
    for number in range(40):
        ledger.book(f"{2026 + number // 12}-{number % 12 + 1:02}", up=number)
        ledger.book("2026-01", down=1)
    assert len(ledger.months()) == MONTHS_KEPT
    assert ledger.of("2026-01") == Volume(down=40)
    assert ledger.last == "2026-01"
    assert len(TrafficLedger({str(number): Volume() for number in range(100)}).months()) == MONTHS_KEPT


# -- hours ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("window", "clock", "wait_h"),
    [
        ("01:00-06:00", "00:00", 1), ("01:00-06:00", "01:00", 0), ("01:00-06:00", "05:59", 0),
        ("01:00-06:00", "06:00", 19), ("22:00-06:00", "23:00", 0), ("22:00-06:00", "05:00", 0),
        ("22:00-06:00", "06:00", 16), ("22:00-24:00", "23:59", 0), ("22:00-24:00", "00:00", 22),
        ("00:00-24:00", "13:00", 0),
    ],
)  # fmt: skip
def test_background_work_waits_for_its_hours(window: str, clock: str, wait_h: float) -> None:
    one = budgets(hours=(Hours.parse(window),))
    now = at(f"2026-11-18T{clock}:00", offset_s=-5 * 3600.0)
    assert one.grant(Spending.CRAWL, 1, now) == wait_h * 3600.0
    assert one.grant(Spending.COPIES_OUT, 1, now) == wait_h * 3600.0
    assert one.grant(Spending.READERS, 1, now) == 0.0


def test_of_several_windows_the_next_counts() -> None:
    one = budgets(hours=(Hours.parse("02:00-03:00"), Hours.parse("13:30-14:00")))
    assert one.grant(Spending.CRAWL, 1, NOON) == 1.5 * 3600


@pytest.mark.parametrize(
    "text",
    ["", "1-2", "01:00", "25:00-26:00", "01:60-02:00", "03:00-03:00", "24:00-01:00", "²1:00-02:00", "a-b"],
)
def test_what_is_no_window_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is no window of hours"):
        Hours.parse(text)


def test_a_window_is_written_as_it_was_read() -> None:
    assert [str(Hours.parse(text)) for text in ("22:00-06:30", "00:00-24:00")] == [
        "22:00-06:30",
        "00:00-24:00",
    ]


# -- the disk ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "left", "used", "free", "offered"),
    [
        (None, 10 * GB, 50 * GB, 100 * GB, 140 * GB),
        (100 * GB, 10 * GB, 50 * GB, 100 * GB, 100 * GB),
        (500 * GB, 10 * GB, 50 * GB, 100 * GB, 140 * GB),
        (None, 10 * GB, 50 * GB, 3 * GB, 50 * GB),
        (20 * GB, 10 * GB, 50 * GB, 3 * GB, 20 * GB),
    ],
)
def test_what_is_offered_is_the_cap_or_what_the_disk_can_give(
    cap: int | None, left: int, used: int, free: int, offered: int
) -> None:
    limits = DiskLimits(archive_bytes_max=cap, free_bytes_min=left)
    assert offered_bytes(limits, used=used, free=free) == offered


@pytest.mark.parametrize(
    ("offered_gb", "positions"), [(0, 1), (10, 1), (50, 1), (100, 2), (200, 4), (380, 8), (10_000, 8)]
)
def test_positions_follow_the_storage_offered(offered_gb: int, positions: int) -> None:
    assert virtual_nodes_for(offered_gb * GB, positions_max=8) == positions


@given(offered=st.integers(0, 10**14), most=st.integers(1, 64))
def test_more_storage_never_means_fewer_positions(offered: int, most: int) -> None:
    here, more = (virtual_nodes_for(one, positions_max=most) for one in (offered, offered + POSITION_BYTES))
    assert 1 <= here <= more <= min(most, here + 1)


def test_a_share_is_not_handed_about_for_little() -> None:
    assert virtual_nodes_for(170 * GB, positions_max=8, before=4) == 4
    assert virtual_nodes_for(235 * GB, positions_max=8, before=4) == 4
    assert virtual_nodes_for(150 * GB, positions_max=8, before=4) == 3
    assert virtual_nodes_for(400 * GB, positions_max=2, before=4) == 2
    assert virtual_nodes_for(200 * GB, positions_max=8, before=0) == 4
