"""What time is it for a ring machine? Seconds since the epoch that never go back while the machine lives.

Records carry dates, so the machine needs the wall clock; its timers must not run twice, so it needs a clock that only
goes forward. Both are had by adding an offset to a steady clock: now = steady + offset. The wall clock is looked at now
and then, and there are three findings:

    it is ahead by less than a minute      the offset grows: time skips a little
    it is behind by less than a minute     the offset stays: our time is a little ahead until the wall clock catches up
    it is a minute or more off             it was set, or the computer slept: take it over, and start a new machine,
                                           since the old one's time may have to go back
"""

CLOCK_STEP_S = 60.0
"""A wall clock this far from where it should be was set, or slept; NTP slews what is less."""


class RingClock:
    """`offset_s` is wall clock minus steady clock, both read in one moment."""

    __slots__ = ("offset_s",)

    def __init__(self, offset_s: float) -> None:
        self.offset_s = offset_s

    def now(self, steady_s: float) -> float:
        return steady_s + self.offset_s

    def look(self, offset_s: float) -> float:
        """The offset as it is now. Gives the seconds of a jump, after which only a new machine may read this clock;
        0.0 where there was none.
        """
        step_s = offset_s - self.offset_s
        if abs(step_s) >= CLOCK_STEP_S:
            self.offset_s = offset_s
            return step_s
        self.offset_s = max(self.offset_s, offset_s)
        return 0.0
