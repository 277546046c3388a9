"""Whole peers live in a world: sound as they are, caught where their wiring is wrong, and touching nothing outside."""

import logging
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace

import pytest

from herodotus.core.copies.absence import Absence
from herodotus.peer import Peer
from herodotus.peers.calls import Services
from simnet.peers import Peers
from simnet.runs import Options, RunReport, run_scenario
from simnet.scenarios import find_scenario
from simnet.scenarios.peers import ALIVE, CHECKED, CHECKERS, COPIED, KEPT, POLITE
from simnet.world.disk import SimulatedDisk

pytestmark = pytest.mark.timeout(600)
SMALL = {
    "hosts": "3", "pages": "2", "day_s": "1200", "kills": "0", "drains": "0",
    "torn_s": "0", "wiped": "0", "skew_s": "0",
}  # fmt: skip


def live(seed: int = 1, *, peers: int = 3, days: int = 2, **settings: str) -> RunReport:
    options = Options(seed=seed, peers=peers, days=days, settings=SMALL | settings)
    report, _ = run_scenario(find_scenario("peers"), options)
    return report


def complaint_of(report: RunReport) -> str:
    assert report.violation is not None
    return str(report.violation["checker"])


def test_nothing_is_lost_missed_or_rude_though_machines_fail_and_one_leaves() -> None:
    report = live(2, peers=4, days=6, kills="2", drains="1", torn_s="300", wiped="0.3", skew_s="10")
    assert report.ok, report.violation
    assert {outcome.name for outcome in report.checkers} == set(CHECKERS)
    assert report.figures["power cuts"] >= 1
    assert report.figures["drained"] == 1
    assert report.figures["captures"] > 10


TRACE = """
from tests.simnet.test_peers import live
print(live(3, days=1, kills="3").trace)
"""


def test_the_same_seed_is_the_same_life_in_another_process() -> None:
    def trace(hash_seed: str) -> str:
        environment = os.environ | {"PYTHONHASHSEED": hash_seed}
        command = [sys.executable, "-c", TRACE]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout

    assert trace("1") == trace("2") != ""


def test_an_hour_of_three_peers_touches_no_clock_no_chance_no_socket_and_no_thread(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forbidden(*_arguments: object, **_options: object) -> object:
        raise AssertionError("a simulated peer asked the machine itself")

    asked = [
        (time, "time"), (time, "time_ns"), (os, "urandom"), (threading, "Thread"), (secrets, "token_bytes"),
        (random.SystemRandom, "random"), (random.SystemRandom, "getrandbits"), (socket.socket, "__init__"),
    ]  # fmt: skip
    # Each log record reads the wall clock by itself, which is the logger's doing and not the peer's. Whether
    # records are made depends on the levels that tests before this one left behind.
    monkeypatch.setattr(logging, "time", SimpleNamespace(time=lambda: 0.0))
    running = Peers.running

    @asynccontextmanager
    async def alone(peers: Peers) -> AsyncIterator[Peers]:
        with monkeypatch.context() as patch:  # once trio has the sockets by which it wakes itself
            for module, name in asked:
                patch.setattr(module, name, forbidden)
            async with running(peers):
                yield peers

    monkeypatch.setattr(Peers, "running", alone)
    report = live(4, day_s="3600", days=1)
    assert report.ok, report.violation
    assert report.figures["fetches"] > 10


# --- planted in the wiring


def test_copies_whose_coming_is_not_passed_on_are_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert live(5, cross_fetch_share="0.5").ok
    monkeypatch.setattr(Peer, "_note_received", lambda *_: None)
    assert complaint_of(live(5, cross_fetch_share="0.5")) == CHECKED


def test_a_peer_that_answers_before_it_can_call_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    @asynccontextmanager
    async def answering_first(self: Peer) -> AsyncIterator[None]:
        ring = self._membership.node
        async with (
            self._call_port.answering(ring, self._membership.port, Services.of(self._steward.services)),
            self._call_port.calling(ring, self._membership.port) as calls,
            self._exchange.opened(ring, calls, self._daily),
        ):
            yield

    monkeypatch.setattr(Peer, "_calls_opened", answering_first)
    assert complaint_of(live(6)) == ALIVE


def test_copies_that_are_not_told_of_departures_stay_too_few(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"drains": "1", "change_share": "0.5", "copies": "3"}
    assert live(7, peers=4, days=3, **settings).ok
    monkeypatch.setattr(Absence, "depart", lambda *_: None)
    assert complaint_of(live(7, peers=4, days=3, **settings)) == COPIED


# --- and elsewhere


def test_a_disk_that_does_not_sync_loses_what_was_acknowledged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimulatedDisk, "fdatasync", lambda disk, fd: None)
    monkeypatch.setattr(SimulatedDisk, "fsync", lambda disk, fd: None)
    assert complaint_of(live(8)) == KEPT


def test_stewards_that_let_everybody_go_at_once_are_rude(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("herodotus.crawl.stewards.windows.Windows.start", lambda *_: None)
    assert complaint_of(live(9)) == POLITE


@pytest.mark.sweep
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(1, 4))
def test_a_month_of_twelve_peers(seed: int) -> None:
    report, _ = run_scenario(find_scenario("peers"), Options(seed=seed))
    assert report.ok, report.violation
    assert (report.peers, report.virtual_s) == (12, 30 * 3_600 - 1.0)
