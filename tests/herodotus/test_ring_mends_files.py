"""Does a peer whose log was removed or cut notice it, and get its captures back? Real processes, real sockets."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus.operate.lab_ring import LabPeer, kill
from tests.herodotus.operate.cli.processes import called, herodotus
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import warc_of
from tests.herodotus.test_ring_copies import body_of, read_through, statuses, url_of, wait_until
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
        assert herodotus("ring", "down", "--dir", folder).code == 0


def _last_log(peer: LabPeer) -> Path:
    return max((Path(peer.home) / "archive" / "log").iterdir())


def test_a_log_that_was_removed_and_one_that_was_cut_come_back_from_other_holders(
    peers: list[LabPeer], tmp_path: Path
) -> None:
    records = [response(url_of(number), "20260101", body_of(number)) for number in range(PAGES)]
    assert called("import", "--home", peers[0].home, warc_of(tmp_path / "made", *records)).code == 0

    def all_have_all() -> bool:
        return [one.get("store", {}).get("captures") for one in statuses(peers)] == [PAGES] * PEERS

    wait_until(all_have_all, lambda: [one.get("store") for one in statuses(peers)])
    removed, cut = peers[1], peers[2]
    for peer in peers:
        assert kill(peer)
    _last_log(removed).unlink()
    verified = herodotus("verify", "--home", removed.home, "--json")
    found = json.loads(verified.out)
    assert (verified.code, found["is_sound"], found["lost"]) == (1, False, PAGES)
    os.truncate(_last_log(cut), _last_log(cut).stat().st_size // 2)
    folder = Path(removed.home).parent
    assert herodotus("ring", "revive", "1", "--dir", folder).code == 0

    def alarms_of(peer: LabPeer) -> list[str]:
        return [one for facts in statuses([peer]) for one in facts.get("alarms", []) if "are lost" in one]

    wait_until(lambda: bool(alarms_of(removed)), lambda: statuses([removed]))
    assert alarms_of(removed)[0].startswith(
        f"{PAGES} captures are lost: {found['losses'][0]['path']} is gone"
    )
    assert herodotus("ring", "revive", "0", "2", "--dir", folder).code == 0

    def are_mended() -> bool:
        stores = [one.get("store", {}) for one in statuses([removed, cut])]
        return all(one.get("captures") == PAGES and one.get("lost") == 0 for one in stores)

    wait_until(are_mended, lambda: [one.get("store") for one in statuses(peers)])
    for peer in (removed, cut):
        for number in range(PAGES):
            assert read_through(peer, number) == body_of(number)
        assert kill(peer)
        assert herodotus("verify", "--home", peer.home).code == 0
    assert "archive: lost" in (Path(cut.home) / "log" / "herodotus.log").read_text()
