"""What does an honest day cost a peer? Bytes on the line by kind, signatures, and processor time.

    scripts/bench day                         1,000 members for 24 hours, nobody comes or goes (some 10 minutes)
    scripts/bench day --up-h 96 --down-h 24   members that are off for a day after four days, as in the thesis
    scripts/bench day --whole 12 --pages 20   12 whole peers with stores and a crawl, for a day
    scripts/bench day --added                 what proofs, windows and notices add, from what one of each costs

A thousand whole peers are too many for one machine, so `days/ring.py` runs the ring without sessions and keys, and
`days/whole.py` whole peers in a small ring. Both say by which rules they count what is not there.
"""

import argparse

from scripts.benches.days.added import told
from scripts.benches.days.ring import RingDay
from scripts.benches.days.whole import WholeDay


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench day", description=__doc__)
    parser.add_argument("--members", type=int, default=1_000)
    parser.add_argument("--positions", type=int, default=1, help="of each member: one for each 50 GB (1)")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--up-h", type=float, default=96.0, help="mean time until a member is off (96)")
    parser.add_argument("--down-h", type=float, default=0.0, help="mean time for which it is (0: never)")
    parser.add_argument("--whole", type=int, default=0, metavar="PEERS", help="whole peers instead of a ring")
    parser.add_argument("--pages", type=int, default=20, help="pages of each host, one host a peer (20)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--added", action="store_true", help="by rule instead: proofs, windows, notices")
    given = parser.parse_args()
    if given.added:
        lines = [line for copies in (6, 10) for line in told(copies)]
    elif given.whole:
        lines = WholeDay(peers=given.whole, pages=given.pages, seed=given.seed).run()
    else:
        lines = RingDay(
            members=given.members,
            positions=given.positions,
            hours=given.hours,
            up_h=given.up_h,
            down_h=given.down_h,
            seed=given.seed,
        ).run()
    print("\n".join(lines))


if __name__ == "__main__":
    main()
