"""Does the operator see what copies lack, when it will be mended, with whom they were compared, and who lied?"""

from dataclasses import replace

from herodotus.core.status import AuditStatus, CopiesStatus, CrossFetchStatus, HolderStatus
from herodotus.operate.cli.status_text import status_lines
from herodotus.portal.metrics import PortalFigures, metrics
from herodotus.portal.status_page import status_page
from tests.herodotus.portal.statuses import STATUS

COPYING = CopiesStatus(
    to_send=30,
    to_fetch=70,
    done_in_s=3_700,
    too_few=12,
    too_few_bytes=34_000,
    under_repair=5,
    repaired=6,
    disputed=7,
    holders=(
        HolderStatus(
            peer="ab12", compared_s_ago=7_300, differences=8, bytes=9_100, is_absent=False, proof="doubted"
        ),
        HolderStatus(peer="cd34", compared_s_ago=None, differences=0, is_absent=True),
    ),
    audits=(AuditStatus(peer="ab12", s_ago=60, asked=16, result="unproven"),),
    cross_fetches=CrossFetchStatus(
        made=47,
        agreed=23,
        differed=17,
        changing=6,
        unclear=1,
        peers={"9a": {"agreed": 3, "differed": 15, "changing": 1}},
    ),
    suspects={"<ef>": "malformed answer (2)"},
)


def test_the_status_page_has_a_part_about_copies() -> None:
    text = status_page(replace(STATUS, copying=COPYING), PortalFigures())
    for shown in (
        "12 captures, about 34.0 kB",
        "<dd>30, 70</dd>",
        "done in about 1 h 1 min",
        "5 to do, 6 done",
        "<dd>7</dd>",
        "ab12 unproven 1 min ago",
        "<dd>47: 23 agree, 17 differ, 6 change</dd>",
        "<dd>9a 15 of 19</dd>",
        "&lt;ef&gt;: malformed answer (2)",
        "<td>2 h 1 min ago</td><td>8</td><td>9.1 kB</td><td>doubted</td>",
        "<td>absent</td><td>–</td>",
    ):
        assert shown in text
    assert "nothing moves at the moment" in status_page(
        replace(STATUS, copying=replace(COPYING, done_in_s=None)), PortalFigures()
    )


def test_the_metrics_count_what_is_not_as_it_should_be() -> None:
    lines = metrics(replace(STATUS, copying=COPYING), PortalFigures()).decode().splitlines()
    for line in (
        "herodotus_copies_too_few 12.0",
        "herodotus_copies_too_few_bytes 34000.0",
        "herodotus_copies_to_move 100.0",
        "herodotus_copies_under_repair 5.0",
        "herodotus_copies_suspects 1.0",
        "herodotus_copies_disputed_total 7.0",
        "herodotus_copies_repaired_total 6.0",
        'herodotus_copies_cross_fetches_total{result="agreed"} 23.0',
        'herodotus_copies_cross_fetches_total{result="differed"} 17.0',
        'herodotus_copies_cross_fetches_total{result="unclear"} 1.0',
        'herodotus_copies_cross_fetches_total{result="changing"} 6.0',
    ):
        assert line in lines


def test_a_terminal_shows_holders_audits_and_suspects() -> None:
    copying = {
        "too_few": 12,
        "holders": [
            {"peer": "ab12", "compared_s_ago": 7_300, "differences": 8, "bytes": 9_100, "is_absent": False},
            {
                "peer": "cd34",
                "compared_s_ago": None,
                "differences": 0,
                "bytes": 0,
                "is_absent": True,
                "proof": "proven",
                "proven_s_ago": 3_600,
            },
        ],
        "audits": [{"peer": "ab12", "s_ago": 60, "asked": 16, "result": "unproven"}],
        "cross_fetches": {"made": 41, "peers": {"9a": {"agreed": 3, "differed": 15}}},
        "doors": {
            "came": {"crawled": 9, "late healed": 1},
            "turned_away": {"its sender is no member": 5},
            "peers": {"77aa": "its sender is no member (5)"},
        },
        "suspects": {"ef56": "malformed answer (2)"},
    }
    assert status_lines({"copying": copying})[-9:] == [
        "copying      too_few 12",
        "  holder     ab12  compared 7,300 s ago: 8 differences, 9,100 bytes",
        "  holder     cd34  not compared yet: 0 differences, 0 bytes, absent, proven 3,600 s ago",
        "  audit      ab12  unproven, 60 s ago",
        "  checked    9a  15 differ, 3 agree",
        "  came in    crawled 9  late healed 1",
        "  refused    its sender is no member 5",
        "  sender     77aa  its sender is no member (5)",
        "  suspect    ef56  malformed answer (2)",
    ]
