"""Do the first sentences of a status say what is the case, and nothing that nobody knows?"""

from dataclasses import replace
from typing import Any

import pytest

from herodotus.core.sentences import ALONE_AFTER_S, said
from herodotus.core.status import (
    BudgetStatus,
    CopiesStatus,
    CrawlStatus,
    HelpingStatus,
    LeavingStatus,
    PeerStatus,
    PlacesStatus,
    ReadersStatus,
    RingStatus,
    StoreStatus,
    UncallableStatus,
)
from tests.herodotus.portal.statuses import STATUS


def with_ring(uptime_s: int = 3_600, **facts: Any) -> PeerStatus:
    ring = replace(STATUS.ring, **{"heard_s": 3, "reachability": "member: 3 peers called back", **facts})
    return replace(STATUS, ring=ring, uptime_s=uptime_s)


def crawling(**facts: Any) -> PeerStatus:
    return replace(STATUS, crawl=CrawlStatus(**{"state": "crawling", "known": 9, "fetched": 1_234, **facts}))


def resting(*closed_by: str, closed_s: int = 7_200, **crawl: Any) -> PeerStatus:
    budget = BudgetStatus(
        closed_by=closed_by,
        closed_s=closed_s,
        month_up_bytes=100 * 10**9,
        month_down_bytes=170 * 10**9,
        month_bytes_max=300 * 10**9,
    )
    return replace(crawling(**crawl), budget=budget)


# -- who it is to the ring --------------------------------------------------------------------------------


def test_a_peer_alone_says_so_within_half_a_minute_and_what_to_do() -> None:
    young = with_ring(members=1, heard_s=None, uptime_s=ALONE_AFTER_S - 1)
    assert said(young).standing == "Looking for other peers."
    fresh = with_ring(members=1, heard_s=None, uptime_s=ALONE_AFTER_S)
    assert said(fresh).standing == (
        "Alone: no peer answered since 12:00 UTC. Use `herodotus join INVITATION` or `--join`; or let others join this"
        " peer: `herodotus invite`."
    )
    left = with_ring(members=1, heard_s=900)
    assert said(left).standing.startswith("Alone: no peer answered since 12:45 UTC.")
    yesterday = with_ring(members=1, heard_s=86_400, uptime_s=90_000)
    assert said(yesterday).standing.startswith("Alone: no peer answered since 2026-11-18 13:00 UTC.")


def test_a_table_of_members_that_do_not_answer_is_no_ring() -> None:
    assert said(with_ring(heard_s=60)).standing == (
        "Cut off: none of 19 other members answered since 12:59 UTC. Check this machine's line and its firewall."
    )
    assert said(with_ring(members=2, heard_s=None)).standing.startswith(
        "Cut off: none of 1 other member answered"
    )
    assert "Cut off" not in said(with_ring(heard_s=59)).standing
    assert "Cut off" not in said(with_ring(heard_s=179, silent_after_s=180)).standing, (
        "a ring that asks seldom"
    )


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (
            {},
            "Member: 3 peers called back. The ring has 20 members, and calls get through to this peer's neighbours.",
        ),
        ({"reachability": "Half open. x."}, "Half open. x. The ring has"),
        ({"reachability": ""}, "The ring has 20"),
        ({"ideal": False}, "members, and this peer's place among them is not settled yet."),
        (
            {
                "ideal": False,
                "uncallable": (
                    UncallableStatus(peer="ab", address="192.0.2.9:4484", why="no answer", for_s=9),
                ),
            },
            "20 members, and no call gets through to 1 of them.",
        ),
        (
            {"places": PlacesStatus(by="prefix", probation_days=7, is_counted=False)},
            "neighbours. It does not count as a holder yet: a new member does after 7 days.",
        ),
    ],
)
def test_the_standing_is_what_calls_have_shown(facts: dict[str, Any], words: str) -> None:
    assert words in said(with_ring(**facts)).standing


# -- what it does now -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (crawling(due=5), "Crawling: 1,234 pages visited today, 5 to go."),
        (crawling(state="done for today"), "Nothing is due now: 1,234 pages visited today."),
        (
            crawling(state="done for today", known=0),
            "no page is known yet. Name one with `herodotus seed add URL`.",
        ),
        (crawling(state="no room on the disk"), "Not crawling: there is no room on the disk."),
        (crawling(state="waiting for the archive"), "Opening the archive."),
        (crawling(state="failed, begins again soon"), "Crawl: failed, begins again soon."),
        (crawling(state="paused", paused_s=None), "Paused until you say `herodotus resume`."),
        (
            resting("paused", state="paused", paused_s=1_500),
            "Paused for another 25 min (`herodotus resume` ends it).",
        ),
        (resting("battery"), "Resting: this machine runs on its battery."),
        (resting("metered line"), "Resting: this machine's line is metered."),
        (resting("hours"), "Resting: outside the hours that were offered, for another 2 h 0 min."),
        (
            resting("month"),
            "Resting: 270.0 GB of 300.0 GB of this month's volume are used, for another 2 h 0 min.",
        ),
        (
            resting("ahead of the month", closed_s=59),
            "Resting for another 59 s, so that the month's volume lasts",
        ),
        (
            replace(STATUS, leaving=LeavingStatus(state="handing over", peers=3, parts=9, parts_over=4)),
            "Leaving for good (handing over): 4 of 9 parts are with 3 other peers.",
        ),
    ],
)
def test_what_it_does_is_said_plainly(status: PeerStatus, words: str) -> None:
    assert words in said(status).doing


def test_whatever_rests_it_is_said_what_goes_on() -> None:
    for why in ("paused", "battery", "metered line", "hours", "month", "ahead of the month"):
        assert said(resting(why)).doing.endswith(
            "Crawling and copies rest; the ring goes on, and readers are served."
        )
    both = said(resting("battery", "hours")).doing
    assert both.index("battery") < both.index("hours")


@pytest.mark.parametrize(
    ("copying", "words"),
    [
        (CopiesStatus(), ""),
        (
            CopiesStatus(to_send=2_000, to_fetch=3, done_in_s=200),
            "Copies: 2,000 to send and 3 to fetch, done in about 3 min.",
        ),
        (CopiesStatus(to_send=1, done_in_s=0), "Copies: 1 to send, done in about 1 s."),
        (CopiesStatus(to_fetch=7, done_in_s=None), "Copies: 7 to fetch, nothing moves now."),
    ],
)
def test_copies_under_way_are_told_with_their_pace(copying: CopiesStatus, words: str) -> None:
    assert (
        said(replace(crawling(due=1), copying=copying))
        .doing.removeprefix(said(crawling(due=1)).doing)
        .strip()
        == words
    )
    if words:
        assert said(replace(resting("battery"), copying=copying)).doing.endswith(" when it goes on.")


def test_readers_besides_the_one_who_asks_are_counted() -> None:
    def doing(connections: int) -> str:
        return said(replace(STATUS, readers=ReadersStatus(connections=connections))).doing

    assert doing(1) == doing(0)
    assert doing(2).endswith("1 other reader is connected.")
    assert doing(3).endswith("2 other readers are connected.")


# -- what it holds, what comes next -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "1,234 captures in 99 B. All have the copies that they should have, as their holders last confirmed."),
        ({}, "confirmed. It is a holder of 5.9% of all addresses."),
        ({"copies": {}}, "How many copies others have is not known yet."),
        ({"copying": CopiesStatus(too_few=30)}, "30 have fewer copies than they should, 1,234 of them are here alone."),
        ({"copying": CopiesStatus(too_few=30), "copies": {"2": 30}}, "30 have fewer copies than they should. It"),
        ({"store": StoreStatus()}, "It holds nothing yet. It is a holder of"),
        ({"store": StoreStatus(state="opening")}, "The archive: opening."),
        ({"store": StoreStatus(state="broken", problem="the index is damaged")}, "The archive: the index is damaged."),
    ],
)  # fmt: skip
def test_what_it_holds_is_what_holders_have_confirmed(changes: dict[str, Any], words: str) -> None:
    assert words in said(replace(STATUS, **changes)).holds


def test_a_peer_alone_boasts_of_no_share() -> None:
    assert said(with_ring(members=1)).holds == "It holds 1,234 captures in 99 B. Nobody else has them."


def test_the_day_s_end_and_what_was_left_over_come_next() -> None:
    status = crawling(left_over=1, day_ends="2026-11-19T00:00:00+00:00")
    assert said(status).next == (
        "1 page of earlier days come first. At 00:00 UTC, in 11 h 59 min, all pages are due again."
    )
    rests = resting("battery", day_ends="2026-11-19T00:00:00+00:00")
    assert said(rests).next == "At 00:00 UTC, in 11 h 59 min, a new day begins."
    late = replace(crawling(day_ends="2026-11-18T00:00:00+00:00"), uptime_s=90_000)
    assert said(late).next == "At 00:00 UTC, in 1 s, all pages are due again. Running for 1 d 1 h."
    leaving = replace(status, leaving=LeavingStatus(state="handing over"))
    assert said(leaving).next.startswith("The peer ends when all is handed over")


def test_an_empty_status_is_said_somehow() -> None:
    ring = RingStatus(
        members=0,
        ideal=False,
        arcs=(),
        address="",
        slot=0,
        reachability="",
        nodes=(),
        unwell={},
        traffic=STATUS.ring.traffic,
    )
    one = said(replace(STATUS, ring=ring, crawl=CrawlStatus(), copies={}))
    assert one.standing
    assert one.holds


def test_a_helper_says_what_it_did_today() -> None:
    leaf = with_ring(reachability="Not callable yet: 3 peers tried, and none got through to 192.0.2.7.")
    busy = replace(leaf, helping=HelpingStatus(is_helper=True, fetched=312, owners=4))
    told = said(busy)
    assert told.standing == (
        "Helper: nobody can call this line. Today it fetched 312 pages for 4 owners."
        " 3 peers tried, and none got through to 192.0.2.7."
    )
    assert told.doing.startswith("Fetching for others, as it has no share of its own.")
    idle = said(replace(leaf, helping=HelpingStatus(is_helper=True)))
    assert idle.standing.startswith("Not callable yet: 3 peers tried")
    assert "Fetching for others" in idle.doing
    assert "Today it fetched 0 pages." in idle.doing
    assert "Helper" not in said(leaf).standing
    half = replace(busy, ring=replace(busy.ring, reachability="Half open: UDP 4484 arrives, TCP does not."))
    assert said(half).standing.startswith("Half open")
    assert "312 pages for 4 owners" in said(half).doing
