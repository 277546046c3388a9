"""Four keys on one address remove a host from a ring of honest peers: what is deleted there? Real daemons."""

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus.operate.lab_ring import LabPeer
from tests.herodotus.operate.cli.processes import called, herodotus
from tests.herodotus.portal.library import response
from tests.herodotus.portal.shelves import warc_of
from tests.herodotus.test_ring_copies import body_of, read_through, statuses, url_of, wait_until
from tests.herodotus.test_ring_lab import free_base

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]  # eight peers share two processors
HONEST, KEYS, PAGES = 4, 4, 20


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[list[LabPeer]]:
    folder = tmp_path / "ring"
    base = str(free_base(HONEST + KEYS))
    up = herodotus(
        "ring", "up", "--peers", str(HONEST + KEYS), "--base-port", base, "--dir", folder, "--json"
    )
    assert up.code == 0, up.err
    try:
        yield [LabPeer(**one) for one in json.loads(up.out)["peers"]]
    finally:
        with contextlib.suppress(Exception):
            herodotus("ring", "down", "--dir", folder)


def test_four_keys_remove_a_host_and_nothing_is_deleted_or_hidden_elsewhere(
    peers: list[LabPeer], tmp_path: Path
) -> None:
    honest, keys = peers[:HONEST], peers[HONEST:]
    pages = [response(url_of(number), "20260101", body_of(number)) for number in range(PAGES)]
    warc = warc_of(tmp_path / "made", *pages)
    for peer in honest:
        assert called("import", "--home", peer.home, warc).code == 0

    def are_copied() -> bool:
        return all(one["store"]["captures"] for one in statuses(keys) if one) and len(statuses(keys)) == KEYS

    wait_until(are_copied, lambda: [one.get("store") for one in statuses(peers)])
    before = [one["store"]["captures"] for one in statuses(honest)]
    for peer in keys:
        removed = called("remove", "--home", peer.home, "--host", "example.org", "--erase", "--yes")
        assert removed.code == 0, removed.err

    def are_told() -> bool:
        found = statuses(honest)
        return all(one and one["notices"]["open"] == KEYS for one in found) and all(
            one["copying"]["compared"] >= HONEST + KEYS for one in found
        )

    wait_until(are_told, lambda: [(one.get("notices"), one.get("copying")) for one in statuses(honest)])
    for one, count in zip(statuses(honest), before, strict=True):
        assert one["store"]["captures"] >= count
        assert one["notices"]["hidden"] == 0
        assert any("notices of removals each name over a thousandth" in alarm for alarm in one["alarms"])
    for peer in honest:
        assert read_through(peer, 0) == body_of(0)
        notices = called("notices", "--home", peer.home, "--json").json
        assert [notice["state"] for notice in notices] == ["open"] * KEYS
