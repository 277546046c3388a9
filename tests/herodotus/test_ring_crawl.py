"""A ring of real processes crawls a made-up web, judged by that web's oracle and its server's log."""

import json
import signal
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import anyio
import pytest

from dht.core.ids import CIRCLE, Key, number_of
from herodotus.core.charter import TEST_CHARTER
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import Home
from herodotus.operate import lab_ring, lab_web
from herodotus.operate.cli.commands.ring import DEMO_DELAY_S
from herodotus.operate.http_questions import NoAnswer, ask
from herodotus.operate.lab_ring import LabPeer
from tests.herodotus.test_ring_lab import free_base, herodotus, status, until

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

CRAWLED_S = 240.0
ROUNDED_S = 0.001  # the server's log has times to the millisecond


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "ring"
    yield folder
    anyio.run(lab_ring.end, lab_ring.homes_of(folder), 1.0)
    lab_web.end(folder)


def up(folder: Path, count: int, *more: object) -> tuple[list[LabPeer], str]:
    base = free_base(count, lab_web.PORT_OFFSET)
    done = herodotus(
        "ring", "up", "--peers", count, "--base-port", base, "--web", "demo", "--dir", folder, "--json", *more
    )
    facts = json.loads(done.stdout)
    return [LabPeer(**peer) for peer in facts["peers"]], facts["web"]


def reachable(control: str) -> set[str]:
    with urllib.request.urlopen(f"{control}reachable", timeout=30) as answer:
        return set(answer.read().decode().split())


def requests(folder: Path, control: str) -> list[dict[str, Any]]:
    """What the web answered, without the testers' own."""
    port = control.rstrip("/").rpartition(":")[2]
    lines = [json.loads(line) for line in lab_web.log_in(folder).read_text().splitlines()]
    return [
        {**line, "url": f"http://{line['host']}:{port}{line['path']}"}
        for line in lines
        if line["host"] != "127.0.0.1"
    ]


def is_done(peers: list[LabPeer]) -> bool:
    try:
        crawls = [status(peer)["crawl"] for peer in peers]
    except NoAnswer:
        return False
    return all(crawl["state"] == "done for today" and not crawl["due"] for crawl in crawls) and any(
        crawl["fetched"] for crawl in crawls
    )


def captured(peer: LabPeer, urls: set[str]) -> set[str]:
    """Which of them some peer of the ring holds: this one asks the others."""
    found = set[str]()
    for host in sorted({url.split("/")[2] for url in urls}):
        question = f"{peer.http}/cdx/search/cdx?url={host}&matchType=host&fl=original&limit=100000"
        with urllib.request.urlopen(question, timeout=60) as answer:
            found |= set(answer.read().decode().split())
    return found & urls


def answers_for_the_ring(peer: LabPeer) -> bool:
    """A question in words, to all peers: some pages are in the indexes, the last ones may not be yet."""
    try:
        told = ask(peer.http, "/api/v1/search?q=status:200")
    except NoAnswer:
        return False
    return bool(
        told["ring"]["share"] == 1 and told["ring"]["peers"] > 1 and told["pages"] > len(told["hits"]) > 0
    )


def shares(peers: list[LabPeer]) -> list[tuple[int, str]]:
    """Where on the circle whose stretch ends, in order."""
    return sorted(
        (number_of(Key(bytes.fromhex(node["position"]))), peer.peer)
        for peer in peers
        for node in status(peer)["ring"]["nodes"]
    )


def spacings(lines: list[dict[str, Any]]) -> dict[str, float]:
    """The least pause that each host saw between two requests, robots.txt included, by the kernel's clock: the web's
    own process stood still for up to 1.2 s on a busy machine, and then looked at several requests at once."""
    times: dict[str, list[float]] = defaultdict(list)
    for line in lines:
        times[line["host"]].append(line["arrived"])
    return {
        host: min(after - before for before, after in pairwise(sorted(seen))) for host, seen in times.items()
    }


def test_eight_peers_crawl_the_made_up_web_wholly_once_politely_and_each_its_share(folder: Path) -> None:
    peers, control = up(folder, 8)
    expected = reachable(control)
    anyio.run(until, lambda: is_done(peers) and seen(folder, control) >= expected, CRAWLED_S)
    lines = requests(folder, control)
    pages = Counter(line["url"] for line in lines if line["path"] != "/robots.txt")
    assert pages == Counter(expected)
    assert min(spacings(lines).values()) >= DEMO_DELAY_S - 1.1 * ROUNDED_S
    assert captured(peers[0], expected) == expected
    anyio.run(until, lambda: all(map(answers_for_the_ring, peers)), CRAWLED_S)
    ends = shares(peers)
    fetched = Counter({peer.peer: status(peer)["crawl"]["fetched"] for peer in peers})
    assert sum(fetched.values()) == len(expected)
    for (before, _), (end, peer) in pairwise([ends[-1], *ends]):
        share = (end - before) % CIRCLE / CIRCLE
        spread = sqrt(len(expected) * share * (1 - share))  # of a binomial distribution: keys are hashes
        assert abs(fetched[peer] - len(expected) * share) <= 5 * spread + 1
    assert "stopped 8 peers" in herodotus("ring", "down", "--dir", folder).stderr
    anyio.run(until, lambda: not lab_web.processes_of(folder))


def seen(folder: Path, control: str) -> set[str]:
    return {line["url"] for line in requests(folder, control)}


def test_the_web_of_a_ring_that_cannot_be_is_ended(folder: Path) -> None:
    base = free_base(2, lab_web.PORT_OFFSET)
    command = ("ring", "up", "--peers", 1, "--base-port", base, "--web", "demo", "--dir", folder)
    process, control = lab_web.start(folder / "other", base + lab_web.PORT_OFFSET, None)
    try:
        assert len(lab_web.front_pages(control)) == lab_web.HOSTS
        assert "did not start" in herodotus(*command, code=1).stderr
        assert lab_web.processes_of(folder) == []
        assert lab_ring.processes_on(lab_ring.homes_of(folder)) == {}
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def test_what_the_charter_and_the_web_do_not_agree_on_is_refused(folder: Path, tmp_path: Path) -> None:
    charter = tmp_path / "network.toml"
    charter.write_text('name = "strict"\n', encoding="utf-8")
    refused = ("ring", "up", "--web", "demo", "--network", charter, "--dir", folder)
    assert "allow_private_addresses" in herodotus(*refused, code=2).stderr
    lengths = ("ring", "up", "--day-length", 60, "--network", charter, "--dir", folder)
    assert "day_length_s" in herodotus(*lengths, code=2).stderr


def test_stewards_that_are_killed_make_no_host_be_asked_too_often(folder: Path) -> None:
    charter = replace(TEST_CHARTER, name="test demo", delay_floor_s=DEMO_DELAY_S)
    charter = lab_ring.with_day_of(folder, charter, unix_seconds())
    for number in range(4):
        home = Home(Path(lab_ring.place(folder, number, 0).home))
        lab_ring.make_home(home, charter, {"ring.suspicion_s": 1.0})
    peers, control = up(folder, 4, "--web-pages", lab_web.PAGES_LEAST)
    expected = reachable(control)
    anyio.run(until, lambda: len(requests(folder, control)) > 40, CRAWLED_S)
    herodotus("ring", "kill", 2, 3, "--dir", folder)
    left = peers[:2]
    # Whoever is left finds out, takes over their hosts, is silent for a while, and goes on.
    anyio.run(until, lambda: is_done(left) and seen(folder, control) >= expected, CRAWLED_S)
    assert min(spacings(requests(folder, control)).values()) >= DEMO_DELAY_S - 1.1 * ROUNDED_S


def test_a_ring_of_which_all_are_killed_in_the_midst_of_a_crawl_lost_nothing_and_goes_on(
    folder: Path,
) -> None:
    peers, control = up(folder, 4, "--web-pages", lab_web.PAGES_LEAST)
    expected = reachable(control)
    anyio.run(until, lambda: len(requests(folder, control)) > 40, CRAWLED_S)
    shown = captured(peers[0], expected)
    assert shown
    for peer in peers:
        assert lab_ring.kill(peer)
    assert len(seen(folder, control) & expected) < len(expected)  # it was in the midst
    herodotus("ring", "revive", *range(4), "--dir", folder)
    # What was there before is there at once, not only when it was fetched again.
    assert captured(peers[0], expected) >= shown
    anyio.run(until, lambda: is_done(peers) and captured(peers[0], expected) == expected, CRAWLED_S)
    assert min(spacings(requests(folder, control)).values()) >= DEMO_DELAY_S - 1.1 * ROUNDED_S
