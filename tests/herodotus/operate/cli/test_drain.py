"""`drain` as a volunteer has it: one of a real ring leaves, is killed at it, and leaves all the same."""

import json
import random
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest

from herodotus.home.clock import local_offset_seconds, unix_seconds
from herodotus.home.folder import Home, running_on
from herodotus.operate import lab_ring
from herodotus.operate.lab_ring import LabPeer
from tests.herodotus.operate.cli.processes import called, herodotus, new_home, running
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import warc_of
from tests.herodotus.test_ring_copies import read_through, statuses, wait_until
from tests.herodotus.test_ring_lab import free_base

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(240)]
PEERS, PAGES = 3, 30


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[list[LabPeer]]:
    folder = tmp_path / "ring"
    base = str(free_base(PEERS))
    up = herodotus("ring", "up", "--peers", str(PEERS), "--base-port", base, "--dir", folder, "--json")
    assert up.code == 0, up.err
    try:
        yield [LabPeer(**one) for one in json.loads(up.out)["peers"]]
    finally:
        anyio.run(lab_ring.end, lab_ring.homes_of(folder), 5.0)


def body_of(number: int) -> bytes:
    """Nothing makes it much shorter."""
    return random.Random(number).randbytes(8_000).hex().encode()


def hours_far_from_now() -> str:
    now_s = unix_seconds()
    hour = int((now_s + local_offset_seconds(now_s)) // 3_600)
    return f"{(hour + 6) % 24:02}:00-{(hour + 7) % 24:02}:00"


def test_who_leaves_hands_over_first_and_may_change_his_mind_or_be_killed_at_it(
    peers: list[LabPeer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leaver, slow, other = peers
    records = [response(f"http://example.org/{n}", "20260101", body_of(n)) for n in range(PAGES)]
    assert lab_ring.kill(leaver)
    monkeypatch.setenv("HERODOTUS_BUDGET_HOURS", hours_far_from_now())  # nothing is copied, so he is not done
    slowed = lab_ring.start(Path(leaver.home), leaver.peer, leaver.http.removeprefix("http://"), other.peer)
    wait_until(
        lambda: statuses([leaver])[0].get("ring", {}).get("members") == PEERS, lambda: statuses([leaver])
    )
    assert called("import", "--home", leaver.home, warc_of(tmp_path / "made", *records)).code == 0

    waited = herodotus("drain", "--home", leaver.home, "--wait", "2")
    assert (waited.code, "has not handed over everything" in waited.err) == (1, True), waited.err
    stays = herodotus("drain", "--home", leaver.home, "--cancel", "--json")
    assert stays.code == 0, stays.err
    assert stays.json == {"was_draining": True}
    (shown,) = statuses([leaver])
    assert (shown["leaving"]["state"], shown["crawl"]["state"] == "paused") == ("staying", False)

    begun = herodotus("drain", "--home", leaver.home, "--wait", "0", "--json")
    assert (begun.code, begun.json) == (0, {"peers": 0, "kept_out": 0, "is_over": False}), begun.err
    assert lab_ring.kill(leaver)
    slowed.wait(timeout=30)
    monkeypatch.delenv("HERODOTUS_BUDGET_HOURS")
    again = lab_ring.start(Path(leaver.home), leaver.peer, leaver.http.removeprefix("http://"), other.peer)
    assert again.wait(timeout=180) == 0  # nobody had to tell it again

    wait_until(
        lambda: all(one["store"]["captures"] == PAGES for one in statuses([slow, other])),
        lambda: [one.get("store") for one in statuses([slow, other])],
    )
    left = herodotus("drain", "--home", slow.home)
    assert (left.code, "everything it held is with 1 other peer\n" in left.err) == (0, True), left.err
    assert [running_on(Home(Path(peer.home))) is None for peer in peers] == [True, True, False]
    assert all(read_through(other, n) == body_of(n) for n in range(0, PAGES, 7))


def test_who_is_alone_or_asleep_is_told_so(tmp_path: Path) -> None:
    home = new_home(tmp_path / "home")
    asleep = called("drain", "--home", home)
    assert (asleep.code, "no peer runs" in asleep.err) == (3, True)
    with running(home) as peer:
        for command in (("drain",), ("stop", "--hand-over", "5")):
            alone = called(*command, "--home", home)
            assert (alone.code, "nobody to hand over to" in alone.err) == (1, True), alone.err
        assert peer.process.poll() is None
        assert "not leaving" in called("drain", "--cancel", "--home", home).err
