"""Does bulk leave room on a slow line, fill most of it, and leave a fast one alone? In virtual time."""

from collections import deque
from dataclasses import dataclass, field

import pytest

from herodotus.core.pacer import (
    ASKED_WITHIN_S,
    CEILING_S,
    DEBT_MAX_S,
    LATE_S,
    NARROW,
    PIECE_BYTES_MAX,
    PIECE_BYTES_MIN,
    PIECE_S,
    PROMPT_AFTER_S,
    PROMPT_S,
    RATE_MIN,
    REST_MAX_S,
    SLOW_AFTER_S,
    STUCK_S,
    WINDOW_BYTES_FIRST,
    LineRate,
    OwnQueue,
    Pacer,
    SlowLine,
    Traffic,
    WaySample,
)

STEP_S = 0.005
LOOK_S = 0.05
PACKET_BYTES = 1_448
WAY_S = 0.04
"""There and back."""


@dataclass
class Modem:
    """A line, its queue, and one connection with as much bulk as may leave."""

    rate: float
    pacer: Pacer
    now: float = 0.0
    free_at: float = 0.0
    sent: int = 0
    acknowledged: int = 0
    under_way: deque[tuple[float, int]] = field(default_factory=deque)
    looked_at: float = 0.0

    @property
    def queue_s(self) -> float:
        return max(0.0, self.free_at - self.now)

    def send(self, size: int) -> None:
        self.sent += size
        while size:
            packet = min(size, PACKET_BYTES)
            self.free_at = max(self.free_at, self.now) + packet / self.rate
            self.under_way.append((self.free_at + WAY_S, packet))
            size -= packet

    def run(self, seconds: float) -> tuple[float, float]:
        """Bulk's share of the line, and the longest queue on the way."""
        end, before, longest = self.now + seconds, self.sent, 0.0
        while self.now < end:
            self.now += STEP_S
            while self.under_way and self.under_way[0][0] <= self.now:
                self.acknowledged += self.under_way.popleft()[1]
            self._send_what_may()
            if self.now - self.looked_at >= LOOK_S:
                self.look()
            longest = max(longest, self.queue_s)
        return (self.sent - before) / (self.rate * seconds), longest

    def _send_what_may(self) -> None:
        ticket = self.pacer.ticket(Traffic.COPIES)
        self.pacer.enter(ticket, self.now)
        while self.pacer.wait_s(ticket, self.now) == 0.0 and self.queue_s < 0.8:
            self.send(self.pacer.take(ticket, 1 << 20, self.now))
        self.pacer.leave(ticket)
        self.pacer.end(ticket)

    def look(self) -> None:
        self.looked_at = self.now
        under_way = sum(size for _, size in self.under_way)
        sample = WaySample(WAY_S + self.queue_s, WAY_S, self.acknowledged, under_way, 0)
        self.pacer.rate.saw({"only": sample}, self.acknowledged, self.now)


def modem(kbit: float, offered: float | None = None) -> Modem:
    return Modem(kbit * 125.0, Pacer(LineRate(offered)))


@pytest.mark.parametrize("kbit", [128.0, 256.0, 2_000.0])
def test_a_full_line_is_measured_and_then_bulk_has_most_of_it_without_a_queue(kbit: float) -> None:
    line = modem(kbit)
    line.run(6.0)
    share, longest = line.run(20.0)
    assert 0.8 <= share <= 0.98
    assert longest <= max(2 * PIECE_S, 2 * PIECE_BYTES_MIN / line.rate)


def test_a_line_that_becomes_half_as_fast_has_no_queue_again_within_ten_seconds() -> None:
    line = modem(256.0)
    line.run(20.0)
    line.rate /= 2
    line.run(10.0)
    share, longest = line.run(20.0)
    assert share >= 0.8
    assert longest <= 0.2


def test_a_line_without_a_queue_is_never_held_up() -> None:
    """As one machine or a house: bytes are acknowledged as fast as they come."""
    line = modem(400_000.0)
    line.run(2.0)
    assert line.pacer.rate.at(line.now) is None
    assert line.sent > line.rate


def test_what_others_fill_costs_a_tenth_that_comes_back() -> None:
    line = modem(256.0)
    line.run(10.0)
    before = line.pacer.rate.at(line.now)
    assert before is not None
    line.pacer.rate._note(before, line.now)
    assert line.pacer.rate.at(line.now) == pytest.approx(0.9 * before)
    assert line.pacer.rate.at(line.now + 5.0) == pytest.approx(0.9 * before * 1.01**5)
    assert line.pacer.rate.at(line.now + 60.0) == pytest.approx(before)


def test_a_line_that_became_faster_is_found_after_a_while() -> None:
    line = modem(256.0)
    line.run(10.0)
    line.rate *= 2
    line.now += CEILING_S
    line.run(90.0)
    share, _ = line.run(30.0)
    assert share >= 0.75


def test_the_operators_rate_holds_from_the_first_byte() -> None:
    line = modem(100_000.0, offered=50_000.0)
    line.run(10.0)
    assert line.sent <= 50_000 * 10 + PIECE_BYTES_MAX


def test_an_offer_beyond_the_line_is_lowered_to_what_it_carries() -> None:
    line = modem(256.0, offered=100_000.0)
    line.run(10.0)
    _, longest = line.run(30.0)
    assert longest <= 0.2
    assert (line.pacer.rate.at(line.now) or 0.0) < line.rate


def test_a_new_address_is_measured_anew() -> None:
    line = modem(256.0)
    line.run(10.0)
    line.pacer.rate.start_over(line.now)
    assert line.pacer.rate.at(line.now) is None


def test_a_new_line_gets_little_at_first() -> None:
    pacer = Pacer(LineRate())
    ticket = pacer.ticket(Traffic.COPIES)
    pacer.enter(ticket, 0.0)
    given = 0
    while pacer.wait_s(ticket, 0.0) == 0.0:
        given += pacer.take(ticket, 1 << 20, 0.0)
    assert WINDOW_BYTES_FIRST <= given <= 2 * WINDOW_BYTES_FIRST


def test_a_rest_ends_though_all_connections_closed_or_never_empty() -> None:
    stuck: dict[object, WaySample] = {"stuck": WaySample(1.0, 0.04, 100_000, 9_000, 9_000)}
    for samples in ({}, stuck):
        rate = LineRate()
        full = WaySample(0.9, 0.04, 0, 20_000, 0)
        for step in range(100):
            rate.saw({"one": full}, 1_000 * step, 0.05 * step)
        assert rate.is_resting
        rate.saw(samples, 100_000, 5.0 + REST_MAX_S)
        assert not rate.is_resting


def test_links_go_before_copies_and_what_began_first_is_finished_first() -> None:
    pacer = Pacer(LineRate(10_000.0))
    first, second = pacer.ticket(Traffic.COPIES), pacer.ticket(Traffic.COPIES)
    links = pacer.ticket(Traffic.LINKS)
    for ticket in (second, first, links):
        pacer.enter(ticket, 0.0)
    order = []
    now = 0.0
    for ticket in (links, first, second):
        assert all(pacer.wait_s(other, now) is None for other in (links, first, second) if other > ticket)
        order.append(pacer.wait_s(ticket, now))
        pacer.take(ticket, 1_200, now)
        pacer.leave(ticket)
        pacer.end(ticket)
        now += 0.12
    assert order == [0.0, 0.0, 0.0]


def test_who_left_the_queue_to_hand_over_a_piece_keeps_its_place() -> None:
    pacer = Pacer(LineRate(10_000.0))
    first, second = pacer.ticket(Traffic.COPIES), pacer.ticket(Traffic.COPIES)
    pacer.enter(second, 0.0)
    assert pacer.wait_s(second, 0.0) == 0.0
    pacer.enter(first, 0.0)
    assert pacer.wait_s(second, 0.0) is None
    assert pacer.wait_s(first, 0.0) == 0.0


def test_one_message_of_a_lane_is_under_way_until_it_is_whole_or_stuck() -> None:
    """The other end's patience runs from the first byte: three at once on a slow line would all be late."""
    for rate in (LineRate(10_000.0), LineRate()):  # full, or new to us
        pacer = Pacer(rate)
        first, second = pacer.ticket(Traffic.COPIES), pacer.ticket(Traffic.COPIES)
        pacer.enter(first, 0.0)
        pacer.take(first, 1_200, 0.0)
        pacer.leave(first)
        pacer.enter(second, 0.0)
        assert pacer.wait_s(second, 0.5) == pytest.approx(STUCK_S - 0.5)
        pacer.enter(first, 1.0)
        assert (pacer.wait_s(first, 1.0), pacer.wait_s(second, 1.0)) == (0.0, None)
        pacer.take(first, 1_200, 1.0)
        pacer.leave(first)
        assert pacer.wait_s(second, 1.0 + STUCK_S) == 0.0, "its connection takes nothing"
        pacer.enter(first, 3.5)
        pacer.leave(first)
        pacer.end(first)
        assert pacer.wait_s(second, 4.0) == 0.0


def test_where_the_line_is_free_all_messages_go_at_once() -> None:
    rate = LineRate()
    rate.saw({}, 0, 0.0)  # nothing tells
    pacer = Pacer(rate)
    tickets = [pacer.ticket(Traffic.COPIES) for _ in range(3)]
    for ticket in tickets:
        pacer.enter(ticket, 0.0)
        assert pacer.wait_s(ticket, 0.0) == 0.0
        pacer.take(ticket, 1_200, 0.0)
        pacer.leave(ticket)


def test_readers_go_before_bulk_and_take_turns_with_what_began() -> None:
    pacer, now, order = Pacer(LineRate(10_000.0)), 0.0, []
    copies, links = pacer.ticket(Traffic.COPIES), pacer.ticket(Traffic.LINKS)
    pacer.enter(copies, now)
    pacer.enter(links, now)
    readers = [pacer.ticket(Traffic.READERS) for _ in range(4)]
    for reader in readers:
        pacer.enter(reader, now)
    for _ in range(7):
        now += 0.2
        (ticket,) = [one for one in (*readers, links, copies) if pacer.wait_s(one, now) == 0.0]
        order.append(ticket.traffic)
        pacer.take(ticket, 1_200, now)
        pacer.leave(ticket)
        if ticket.traffic is Traffic.READERS:
            readers.remove(ticket)
        else:
            pacer.enter(ticket, now)
    assert order == [Traffic.READERS, Traffic.LINKS] * 3 + [Traffic.READERS]
    assert pacer.wait_s(links, 9.0) == 0.0


def test_urgent_bytes_do_not_wait_and_bulk_makes_room_for_them_up_to_a_bound() -> None:
    pacer = Pacer(LineRate(10_000.0))
    ticket = pacer.ticket(Traffic.COPIES)
    pacer.enter(ticket, 0.0)
    pacer.charge(5_000, 0.0)
    assert pacer.wait_s(ticket, 0.0) == pytest.approx(0.5)
    pacer.charge(10_000_000, 0.0)
    assert pacer.wait_s(ticket, 0.0) == pytest.approx(DEBT_MAX_S)


def test_pieces_are_50_ms_of_the_rate_within_bounds() -> None:
    assert Pacer(LineRate(1_000.0)).piece_bytes(0.0) == PIECE_BYTES_MIN
    assert Pacer(LineRate(100_000.0)).piece_bytes(0.0) == 5_000
    assert Pacer(LineRate(1e9)).piece_bytes(0.0) == PIECE_BYTES_MAX


def test_no_guess_is_below_what_a_member_must_have() -> None:
    rate = LineRate()
    rate._note(0.0, 0.0)
    assert rate.at(0.0) == RATE_MIN


PEERS = (b"one", b"two", b"three")


def looked_at(line: SlowLine, begin: float, seconds: float, took_s: dict[bytes, float]) -> float | None:
    """Asked and looked at each half a minute: after how long it was another than before."""
    now = begin
    while now <= begin + seconds:
        for peer, took in took_s.items():
            line.asked(peer, took, now)
        if line.look(now):
            return now - begin
        now += 30.0
    return None


def test_a_line_by_which_most_answers_come_late_is_slow_after_minutes_and_prompt_again_after_an_hour() -> (
    None
):
    line = SlowLine(OwnQueue())
    assert looked_at(line, 0.0, 600.0, dict.fromkeys(PEERS, LATE_S + 0.1)) == SLOW_AFTER_S
    assert line.is_slow
    assert looked_at(line, 600.0, 7_200.0, dict.fromkeys(PEERS, PROMPT_S + 0.1)) is None
    begin = 8_000.0 + ASKED_WITHIN_S  # nothing else is remembered then
    assert looked_at(line, begin, 7_200.0, dict.fromkeys(PEERS, PROMPT_S - 0.1)) == PROMPT_AFTER_S
    assert not line.is_slow


def test_a_line_that_is_late_now_and_then_is_not_slow() -> None:
    line, late, prompt = SlowLine(OwnQueue()), dict.fromkeys(PEERS, 9.0), dict.fromkeys(PEERS, 0.1)
    for begin in range(0, 6_000, 600):
        assert looked_at(line, begin, SLOW_AFTER_S - ASKED_WITHIN_S, late) is None
        assert looked_at(line, begin + SLOW_AFTER_S - ASKED_WITHIN_S + 30.0, 360.0, prompt) is None


def test_no_half_of_the_stewards_makes_a_line_slow_however_often_they_are_asked() -> None:
    """They may answer late on purpose, to be stewards of our hosts."""
    line = SlowLine(OwnQueue())
    for now in range(0, 3_600, 2):
        line.asked(b"liar 1", 9.0, now)
        line.asked(b"liar 2", 9.0, now)
        if now % 30 == 0:
            for peer in PEERS:
                line.asked(peer, 0.1, now)
        assert not line.look(now)
    few = SlowLine(OwnQueue())
    assert looked_at(few, 0.0, 3_600.0, dict.fromkeys(PEERS[:2], 9.0)) is None


def test_a_line_that_carries_little_is_slow_until_it_was_seen_to_carry_more() -> None:
    queue = OwnQueue(carries=NARROW - 1)
    line = SlowLine(queue)
    assert looked_at(line, 0.0, 600.0, {}) == SLOW_AFTER_S
    assert looked_at(line, 600.0, 7_200.0, {}) is None
    queue.carries = NARROW
    assert looked_at(line, 8_000.0, 7_200.0, {}) == PROMPT_AFTER_S


@pytest.mark.parametrize("kbit", [96.0, 256.0])
def test_a_full_line_tells_what_it_carries(kbit: float) -> None:
    line = modem(kbit)
    line.run(20.0)
    carries = line.pacer.rate.own_queue.carries
    assert carries is not None
    assert 0.85 * line.rate < carries < 1.1 * line.rate
    line.pacer.rate.start_over(line.now)
    assert line.pacer.rate.own_queue.carries is None
