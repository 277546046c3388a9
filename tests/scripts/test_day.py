"""Does the bench of an honest day count what it says?"""

import re

from scripts.benches.days.ring import RingDay, a_handshake
from scripts.benches.days.whole import on_the_line, tls_handshake_bytes


def figures(lines: list[str]) -> dict[str, float]:
    """kB a member and day, by kind."""
    rows = [re.fullmatch(r"  (\w[\w ]*?) +([\d.,]+) kB +[\d.,]+ bit/s", line) for line in lines]
    return {row[1]: float(row[2].replace(",", "")) for row in rows if row is not None}


def test_each_pair_of_a_quiet_ring_shakes_hands_once_a_day_and_kinds_add_up() -> None:
    lines = RingDay(members=5, positions=1, hours=0.5, up_h=96.0, down_h=0.0, seed=1).run()
    kinds = figures(lines)
    assert kinds.keys() >= {"Digest", "GetState", "handshakes", "sent in all"}
    assert abs(sum(kinds.values()) - 2 * kinds["sent in all"]) < 0.02 * kinds["sent in all"]
    (shakes,) = (int(match[1]) for line in lines if (match := re.search(r"handshakes (\d+) \(", line)))
    assert shakes <= 4 * 48, "with each of four others once in half an hour, told for a day"
    assert f"signatures made 0.0 + {shakes} in handshakes" in "\n".join(lines), "each end makes one"


def test_members_that_were_off_shake_hands_again_and_sign_anew() -> None:
    calm = RingDay(members=8, positions=1, hours=2.0, up_h=1.0, down_h=0.0, seed=1).run()
    lively = RingDay(members=8, positions=1, hours=2.0, up_h=1.0, down_h=0.2, seed=1).run()
    assert figures(lively)["handshakes"] > figures(calm)["handshakes"]
    assert not any("signatures made 0.0" in line for line in lively)


def test_a_line_has_heads_for_each_packet_and_record() -> None:
    assert on_the_line(100) == 100 + 22 + 40
    assert on_the_line(20_000) == 20_000 + 2 * 22 + 15 * 40


def test_handshakes_are_real_ones() -> None:
    assert 1_000 < a_handshake().sent_bytes < 2_000, "six datagrams, with two records and their heads"
    assert 1_000 < tls_handshake_bytes() < 4_000
