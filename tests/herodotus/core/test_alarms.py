"""Is the operator told of what needs him, and left alone by what does not?"""

from dataclasses import replace

import pytest

from herodotus.core.alarms import alarms
from herodotus.core.status import (
    BudgetStatus,
    CallsStatus,
    CopiesStatus,
    CopyPlacesStatus,
    CrawlStatus,
    DoorStatus,
    HelpingStatus,
    HolderStatus,
    LeavingStatus,
    NoticesStatus,
    PeerStatus,
    ReadersStatus,
    SilentStatus,
    StoreStatus,
    UncallableStatus,
)
from tests.herodotus.portal.statuses import STATUS


def with_silent(members: int, silent: int) -> PeerStatus:
    found = SilentStatus(members=silent, network="10.200.0.0/24", in_network=silent - 1)
    return replace(STATUS, ring=replace(STATUS.ring, members=members, silent=found))


def test_a_peer_that_is_well_raises_none() -> None:
    assert alarms(STATUS) == ()
    assert alarms(replace(STATUS, ring=replace(STATUS.ring, members=1), uptime_s=3_599)) == (), "it is young"
    assert alarms(with_silent(300, 29)) == alarms(with_silent(8, 7)) == (), "some are always on their way out"
    moving = CopiesStatus(to_send=5, too_few=5, done_in_s=60)
    assert alarms(replace(STATUS, copying=moving)) == ()
    resting = BudgetStatus(closed_by=("battery",))
    assert alarms(replace(STATUS, copying=CopiesStatus(to_send=5, done_in_s=None), budget=resting)) == ()
    assert alarms(replace(STATUS, notices=NoticesStatus(open=3, hidden=5))) == (), "they can wait"
    assert alarms(replace(STATUS, budget=BudgetStatus(month_up_bytes=10**15))) == (), "no volume was agreed"


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (replace(STATUS, store=StoreStatus(problem="nothing can be stored: x")), "nothing can be stored: x"),
        (replace(STATUS, store=StoreStatus(damaged=3)), "3 damaged records"),
        (replace(STATUS, helping=HelpingStatus(distrusted=1)), "1 owner found that pages"),
        (
            replace(STATUS, store=StoreStatus(lost=150, lost_files=("logs/7", "logs/8"))),
            "150 captures are lost: logs/7 and 1 more. Check the disk. Other holders send them again by themselves",
        ),
        (replace(STATUS, store=StoreStatus(is_index_damaged=True)), "index is damaged: check the disk. The peer"),
        (replace(STATUS, restored=("home.json",)), "home.json of the home was lost or damaged"),
        (
            replace(STATUS, store=StoreStatus(quarantined=2, quarantined_urls=("http://a.example/",))),
            "Quarantine holds 2 captures that this disk could not read (http://a.example/): they wait for other",
        ),
        (
            replace(STATUS, store=StoreStatus(quarantined=2), copying=CopiesStatus(without_source=1)),
            "of 1 no peer that answers is known to have a copy",
        ),
        (replace(STATUS, crawl=CrawlStatus(problem="the disk is full")), "The crawl: the disk is full"),
        (replace(STATUS, copying=CopiesStatus(suspects={"b": "lied", "a": "lied"})), "2 peers broke a promise"),
        (
            replace(STATUS, copying=CopiesStatus(doors=DoorStatus(quotas_hit={"ab12": 270_000_000}))),
            "turned away were those of ab12 (270 MB). If you know these peers, raise copies.quota_mb",
        ),
        (
            replace(STATUS, copying=CopiesStatus(doors=DoorStatus(clock="behind"))),
            "clock seems to be behind: set it; until then captures of others are refused",
        ),
        (
            replace(STATUS, copying=CopiesStatus(doors=DoorStatus(clock="ahead"))),
            "clock seems to be ahead: set it; until then this peer's captures are refused",
        ),
        (
            replace(
                STATUS,
                copying=CopiesStatus(
                    holders=(
                        HolderStatus(peer="a", compared_s_ago=1, differences=0, is_absent=False, proof="failed"),
                        HolderStatus(peer="b", compared_s_ago=1, differences=0, is_absent=False, proof="doubted"),
                    )
                ),
            ),
            "1 holders failed proofs of what they hold: a;",
        ),
        (
            replace(
                STATUS, copying=CopiesStatus(places=CopyPlacesStatus(told="copies in 5 places", is_short=True))
            ),
            "The copies in 5 places: few networks have most of the ring. Invite members elsewhere",
        ),
        (
            replace(STATUS, copying=CopiesStatus(too_few=9, full=("a", "b"))),
            "9 captures have fewer copies than they should, as 2 holders have no room (a, b)",
        ),
        (replace(STATUS, copying=CopiesStatus(to_send=4, to_fetch=3, done_in_s=None)), "7 copies wait to be moved"),
        (
            replace(STATUS, ring=replace(STATUS.ring, ideal=True), copying=CopiesStatus(to_send=4, done_in_s=None)),
            "4 copies wait to be moved, and nothing moves: check the line, as the ring is ideal and calls get through",
        ),
        (
            replace(STATUS, copying=CopiesStatus(to_send=4, full=("a",), done_in_s=None)),
            "4 copies wait to be moved, and nothing moves: 1 holders have no room",
        ),
        (
            replace(
                STATUS,
                ring=replace(
                    STATUS.ring,
                    uncallable=(
                        UncallableStatus(peer="a", address="192.0.2.7:4484", why="no answer by TCP", for_s=9),
                    ),
                ),
            ),
            "1 members answer datagrams, and no call gets through to them: a at 192.0.2.7:4484 (no answer by TCP)",
        ),
        (replace(STATUS, readers=ReadersStatus(crowd="192.0.2.7")), "192.0.2.7 wants more connections to the portal"),
        (replace(STATUS, calls=CallsStatus(crowd="192.0.2.7")), "192.0.2.7 wants more connections for calls"),
        (
            replace(STATUS, notices=NoticesStatus(open=3, much=2, first=("3f9a01c2", "aa00aa00"))),
            "2 notices of removals each name over a thousandth",
        ),
        (replace(STATUS, copying=CopiesStatus(declined=10**9)), "1,000,000,000 captures have fewer copies"),
        (replace(STATUS, leaving=LeavingStatus(state="leaving", silent=2)), "2 peers that should take over"),
        (with_silent(300, 30), "30 members of the ring do not answer, 29 of them at 10.200.0.0/24: check"),
        (with_silent(9, 8), "8 members of the ring do not answer"),
        (replace(STATUS, ring=replace(STATUS.ring, members=1), uptime_s=3_600), "No other peer was found"),
        (
            replace(STATUS, budget=BudgetStatus(month_up_bytes=40, month_down_bytes=60, month_bytes_max=100)),
            "This month's volume is used up",
        ),
    ],
)  # fmt: skip
def test_what_somebody_should_act_on_is_said_once(status: PeerStatus, words: str) -> None:
    (alarm,) = alarms(status)
    assert words in alarm
