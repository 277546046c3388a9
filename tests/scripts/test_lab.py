"""Is what the lab of lines judges true? Its scenarios take minutes and are run by hand (scripts/lab lines)."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts.labs import routers, run
from scripts.labs.claims import Case, Claim, claim_of, untruth
from scripts.labs.kinds import KINDS, SHORT
from scripts.labs.routers import Behaviour

ROOT = Path(__file__).parents[2]
OPEN = Case(by_udp=True, by_tcp=True, is_owner=True, is_called=True)
CLOSED = Case(by_udp=False, by_tcp=False, is_owner=False, is_called=False)


def test_each_scenario_is_listed_with_what_it_does(capsys: pytest.CaptureFixture[str]) -> None:
    assert run.main(["list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(run.SCENARIOS)
    assert all(re.fullmatch(r"[a-z]+ +[A-Z0-9].*\.", line) for line in lines)


@pytest.mark.parametrize(
    ("sentence", "claim"),
    [
        ("member: 3 peers of different networks could call this peer back", Claim(standing="member")),
        ("Member. 3 peers in 3 networks called this peer by UDP and TCP", Claim(standing="member")),
        ("member: not tested; a member on trust; no router was asked", Claim(standing="trust")),
        ("Member on trust: 2 other networks are known, a test needs 3.", Claim(standing="trust")),
        ("Member behind a closed router: others reach it through 3 relays.", Claim(standing="closed")),
        ("leaf: half open: UDP arrives and TCP does not (5 peers)", Claim(standing="half", arrives="UDP")),
        ("Half open: TCP 4484 arrives, UDP 4484 does not.", Claim(standing="half", arrives="TCP")),
        ("leaf: 5 peers tried to call back and none got through", Claim(standing="leaf")),
        ("Not callable yet: 5 peers tried. Fetching for others.", Claim(standing="leaf")),
        ("Helper: nobody can call this line.", Claim(standing="helper")),
        ("Alone: no peer answered since 09:14.", Claim(standing="alone")),
        ("Cut off: none of 5 other members answered since 09:14.", Claim(standing="alone")),
        ("Looking for other peers.", Claim(standing="unknown")),
    ],
)
def test_what_a_status_says_of_the_line_is_understood(sentence: str, claim: Claim) -> None:
    assert claim_of(sentence) == claim


def test_true_claims_are_found_true() -> None:
    half = Case(by_udp=True, by_tcp=False, is_owner=False, is_called=False)
    relayed = Case(by_udp=False, by_tcp=False, is_owner=True, is_called=True)
    assert untruth(Claim(standing="member"), OPEN) == ""
    assert untruth(Claim(standing="half", arrives="UDP"), half) == ""
    assert untruth(Claim(standing="leaf"), CLOSED) == ""
    assert untruth(Claim(standing="closed"), relayed) == ""


@pytest.mark.parametrize(
    ("claim", "case", "words"),
    [
        (Claim(standing="member"), CLOSED, "do not get through by UDP and TCP"),
        (
            Claim(standing="trust"),
            Case(by_udp=True, by_tcp=False, is_owner=True, is_called=True),
            "do not get through by TCP",
        ),
        (
            Claim(standing="member"),
            Case(by_udp=True, by_tcp=True, is_owner=False, is_called=True),
            "owns nothing",
        ),
        (Claim(standing="leaf"), OPEN, "get through by UDP and TCP"),
        (
            Claim(standing="leaf"),
            Case(by_udp=False, by_tcp=False, is_owner=True, is_called=False),
            "owns keys",
        ),
        (Claim(standing="half", arrives="UDP"), CLOSED, "by UDP they do not"),
        (Claim(standing="half", arrives="TCP"), OPEN, "by UDP they get through"),
        (Claim(standing="closed"), CLOSED, "no call"),
        (Claim(standing="alone"), OPEN, "in a ring"),
        (
            Claim(standing="trust"),
            Case(by_udp=True, by_tcp=True, is_owner=True, is_called=False, is_alone=True),
            "it is alone",
        ),
    ],
)
def test_false_claims_are_found_false(claim: Claim, case: Case, words: str) -> None:
    assert words in untruth(claim, case)


def test_a_router_forwards_what_its_owner_asked_for_and_no_more() -> None:
    text = routers.rules(Behaviour(forwarded=("udp",)), routers.HOME_LAN)
    assert 'iifname "wan" udp dport 4484 dnat ip to 192.168.1.10' in text
    assert "tcp dport 4484" not in text
    assert "fully-random" not in text


def test_only_a_symmetric_router_draws_its_ports() -> None:
    assert "masquerade fully-random" in routers.rules(Behaviour(is_symmetric=True), routers.HOME_LAN)


def test_a_router_that_may_not_be_asked_runs_no_daemon() -> None:
    assert routers.daemon_config(Behaviour(), routers.HOME_LAN) is None
    config = routers.daemon_config(Behaviour(asks_by=("pcp",)), routers.HOME_LAN)
    assert config is not None
    assert "enable_natpmp=yes" in config
    assert "enable_upnp=no" in config


@pytest.mark.e2e
def test_real_peers_behind_real_routers_say_truly_what_their_lines_are() -> None:
    reason = run.why_not()
    if reason is not None:
        pytest.skip(f"no network namespaces here: {reason}")
    done = subprocess.run(
        [sys.executable, "-m", "scripts.labs.run", "kinds", "--short", "--json"],
        cwd=ROOT, env=os.environ, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = {row["kind"]: row for row in json.loads(done.stdout)["rows"]}
    assert set(rows) == set(SHORT)
    assert set(SHORT) < set(KINDS)
    assert {kind: row["true"] for kind, row in rows.items()} == dict.fromkeys(SHORT, "yes")
    assert rows["upnp"]["tcp"], "the router forwards TCP for those that ask"
    assert rows["upnp"]["owns"]
    assert not rows["udp-only"]["owns"], "nobody could bring it copies"
