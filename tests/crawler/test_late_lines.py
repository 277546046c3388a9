"""Do requests reach a server a delay apart, though one of the lines holds them up?

A window says when requests may arrive. Its holder knows when they leave.
"""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crawler.core.lease_office import LATE_SHARE_MAX, LeaseOffice
from crawler.core.politeness import SPREAD_S, HeldWindow, LeaseTerms, PolitenessPolicy, Window

HOST = "host:h.example"
SLOW, QUICK = b"s" * 32, b"q" * 32


@dataclass(frozen=True)
class Line:
    """A request leaves it `queue_s` late, and is `way_s` on its way to wherever."""

    queue_s: float
    way_s: float = 0.02

    @property
    def late_s(self) -> float:
        return self.queue_s + self.way_s

    @property
    def round_trip_s(self) -> float:
        return self.queue_s + 2 * self.way_s


def terms(delay_s: float) -> LeaseTerms:
    return LeaseTerms.of(PolitenessPolicy(delay_floor_s=delay_s))


def held(window: Window, line: Line, *, asked: float, knows_line: bool = True) -> HeldWindow:
    """As its holder has it, whom the answer reached a round trip after it asked. The queue is on the way out."""
    granted = asked + line.late_s
    found = HeldWindow.received(
        window.number,
        window.starts_at - granted,
        window.ends_at - window.starts_at,
        window.count,
        window.spacing_s,
        asked=asked,
        got=asked + line.round_trip_s,
    )
    found.late_s = line.round_trip_s if knows_line else 0.0
    return found


def last_departure(window: HeldWindow) -> float:
    return window.ends_at - window.late_s


def gap_between(
    slow: Line, quick: Line, *, delay_s: float, knows_line: bool, spread: bool, filled_s: float = 0.0
) -> float:
    """Of arrivals: the last one of the slow line's window, the first of the quick one's, which comes next. The slow
    line fills by `filled_s` between the ask and the request.
    """
    known = terms(delay_s)
    office = LeaseOffice(known)
    first = office.ask(SLOW, HOST, 4, slow.late_s, late_s=2 * slow.round_trip_s if knows_line else 0.0)
    assert isinstance(first, Window)
    if not spread:
        next(iter(office._books.values())).spread_s = 0.0
    mine = held(first, slow, asked=0.0, knows_line=knows_line)
    if knows_line:
        mine.late_s = max(mine.late_s, slow.queue_s + filled_s)
    ended = office.ask(QUICK, HOST, 4, first.ends_at + 1e-3)
    assert isinstance(ended, Window)
    theirs = held(ended, quick, asked=first.ends_at + 1e-3 - quick.late_s)
    return theirs.opens_at() + quick.late_s - (last_departure(mine) + slow.late_s + filled_s)


def test_a_line_that_held_up_requests_used_to_take_the_delay_away() -> None:
    """As a lab saw it on a line of 256 kbit/s under bulk, two requests 11 ms apart: the ask found the line empty, the
    last request found 0.8 s of copies before it, and the next peer had only been told of the end of the window.
    """
    slow, quick = Line(queue_s=0.0), Line(queue_s=0.0, way_s=0.001)
    before = gap_between(slow, quick, delay_s=0.8, knows_line=False, spread=False, filled_s=0.791)
    assert before == pytest.approx(0.011)
    assert gap_between(slow, quick, delay_s=0.8, knows_line=True, spread=True, filled_s=0.791) >= 0.8


@given(
    queue=st.floats(0.0, 1.0),
    filled=st.floats(0.0, 1.0),
    way=st.floats(0.0, 0.3),
    other_way=st.floats(0.0, 0.3),
    delay=st.floats(0.25, 10.0),
)
def test_arrivals_of_two_holders_are_a_delay_apart_whatever_their_lines(
    queue: float, filled: float, way: float, other_way: float, delay: float
) -> None:
    slow, quick = Line(queue, way), Line(0.0, other_way)
    gap = gap_between(slow, quick, delay_s=delay, knows_line=True, spread=True, filled_s=filled)
    assert gap >= delay - 1e-6


@pytest.mark.parametrize("queue_s", [0.0, 0.4, 0.8, 2.0])
def test_a_slow_line_has_as_much_use_of_a_window_as_a_quick_one(queue_s: float) -> None:
    def usable(line: Line) -> float:
        office = LeaseOffice(terms(2.0))
        window = office.ask(SLOW, HOST, 1, line.late_s, late_s=2 * line.round_trip_s)
        assert isinstance(window, Window)
        mine = held(window, line, asked=0.0)
        return last_departure(mine) - mine.opens_at()

    assert usable(Line(queue_s)) == pytest.approx(usable(Line(0.0, way_s=0.0)), abs=1e-6)


def test_no_holder_makes_a_window_longer_than_its_share() -> None:
    office, known = LeaseOffice(terms(2.0)), terms(2.0)
    window = office.ask(SLOW, HOST, 1, 0.0, late_s=1e6)
    assert isinstance(window, Window)
    assert window.ends_at - window.starts_at == known.slack_s + LATE_SHARE_MAX * known.window_s


def test_windows_of_one_holder_need_no_spread() -> None:
    office, known = LeaseOffice(terms(2.0)), terms(2.0)
    first = office.ask(QUICK, HOST, 1, 0.0)
    assert isinstance(first, Window)
    book = next(iter(office._books.values()))
    assert book.free_from(0.0, QUICK) == first.ends_at + 2.0
    assert book.free_from(0.0, SLOW) == first.ends_at + SPREAD_S + 2.0
    assert known.spread_s == SPREAD_S


def test_nothing_departs_that_would_arrive_after_the_end() -> None:
    window = HeldWindow.received(1, 0.0, 10.0, 5, 2.0, asked=100.0, got=100.5)
    window.late_s = 0.8
    assert not window.is_over(109.2)
    assert window.is_over(109.21)
