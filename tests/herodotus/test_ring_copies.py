"""Does what comes to one peer of a real ring live on when peers are killed? Real processes, real sockets."""

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from herodotus.operate.http_questions import NoAnswer, ask
from herodotus.operate.lab_ring import LabPeer, kill
from tests.herodotus.operate.cli.processes import called, herodotus
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import warc_of
from tests.herodotus.test_ring_lab import free_base

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]  # seven peers share two processors
PEERS, PAGES = 7, 24
WAIT_S = 90.0


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[list[LabPeer]]:
    folder = tmp_path / "ring"
    base = str(free_base(PEERS))
    up = herodotus("ring", "up", "--peers", str(PEERS), "--base-port", base, "--dir", folder, "--json")
    assert up.code == 0, up.err
    try:
        yield [LabPeer(**one) for one in json.loads(up.out)["peers"]]
    finally:
        assert herodotus("ring", "down", "--dir", folder).code == 0


def statuses(peers: list[LabPeer]) -> list[dict[str, Any]]:
    found = []
    for peer in peers:
        try:
            found.append(ask(peer.http, "/api/v1/status"))
        except NoAnswer:
            found.append({})
    return found


def wait_until(what: Callable[[], bool], say: Callable[[], object]) -> None:
    async def wait() -> None:
        with anyio.fail_after(WAIT_S):
            while not what():  # noqa: ASYNC110  # other processes tell only when they are asked
                await anyio.sleep(0.5)

    try:
        anyio.run(wait)
    except TimeoutError:
        pytest.fail(f"not within {WAIT_S} s: {say()}")


def body_of(number: int) -> bytes:
    return b"<p>page %d</p>" % number * 40


def url_of(number: int) -> str:
    return f"http://example.org/{number}"


def read_through(peer: LabPeer, number: int) -> bytes:
    with urllib.request.urlopen(f"{peer.http}/web/20260101000000id_/{url_of(number)}", timeout=30) as answer:
        return bytes(answer.read())


def test_captures_of_one_peer_are_readable_through_any_survivor_of_a_leave_and_a_kill(
    peers: list[LabPeer], tmp_path: Path
) -> None:
    first = peers[0]
    warc = warc_of(
        tmp_path / "made", *(response(url_of(number), "20260101", body_of(number)) for number in range(PAGES))
    )
    assert called("import", "--home", first.home, warc).code == 0

    def copies_are_exact() -> bool:
        found = statuses(peers)
        return (
            all(one.get("copies") == {"6": one["store"]["captures"]} for one in found)
            and sum(one["store"]["captures"] for one in found) == 6 * PAGES
        )

    wait_until(copies_are_exact, lambda: [(one.get("copies"), one.get("store")) for one in statuses(peers)])

    *rest, leaver = peers
    left = herodotus("stop", "--home", leaver.home, "--hand-over", "20")
    assert left.code == 0, left.err
    assert all(one["store"]["captures"] == PAGES for one in statuses(rest))

    killed, *survivors = rest
    assert kill(killed)
    for peer in survivors:
        for number in range(PAGES):
            assert read_through(peer, number) == body_of(number)


def test_nothing_is_lost_when_all_are_killed_at_once_and_then_five_of_the_seven(
    peers: list[LabPeer], tmp_path: Path
) -> None:
    pages = 400
    records = [response(url_of(number), "20260101", body_of(number)) for number in range(pages)]
    warc = warc_of(tmp_path / "made", *records)
    assert called("import", "--home", peers[2].home, warc).code == 0
    for peer in peers:  # copies are on their way
        assert kill(peer)
    folder = Path(peers[0].home).parent
    revived = herodotus("ring", "revive", *map(str, range(PEERS)), "--dir", folder)
    assert revived.code == 0, revived.err

    def all_have_six_copies() -> bool:
        """Some have a seventh: a peer that held them while the ring came together promised not to drop them yet."""
        found = [one for one in statuses(peers) if one]
        return (
            len(found) == PEERS
            and all(int(copies) >= 6 for one in found for copies in one["copies"])
            and sum(one["store"]["captures"] for one in found) >= 6 * pages
        )

    wait_until(all_have_six_copies, lambda: [one.get("copies") for one in statuses(peers)])
    *lost, one, other = peers
    for peer in lost:
        assert kill(peer)
    for number in range(pages):  # of six copies on seven hosts one is left at least
        for peer in (one, other):
            assert read_through(peer, number) == body_of(number)

    def both_have_all() -> bool:
        return all(found.get("store", {}).get("captures") == pages for found in statuses([one, other]))

    wait_until(both_have_all, lambda: [found.get("copies") for found in statuses([one, other])])
    for number in range(pages):
        assert read_through(one, number) == read_through(other, number) == body_of(number)
