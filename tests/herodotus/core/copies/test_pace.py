"""When will a repair be done, as far as the last minutes tell?"""

from herodotus.core.copies.schedule import SPAN_S, Pace


def test_what_is_left_takes_as_long_as_the_last_minutes_say() -> None:
    pace = Pace()
    assert (pace.left_s(0), pace.left_s(5)) == (0, None)
    pace.note(100, 0.0)
    pace.note(150, 100.0)
    assert pace.left_s(200) == 400
    pace.note(150, SPAN_S + 150.0)  # nothing moved for so long
    assert pace.left_s(200) is None
