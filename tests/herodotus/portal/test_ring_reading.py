"""Is a page that lives on one peer of a ring read through another one? Real peers, a real ring."""

import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from herodotus.operate.lab_ring import LabPeer
from tests.herodotus.operate.cli.processes import called, herodotus
from tests.herodotus.portal.library import HOME, response
from tests.herodotus.portal.shelves import warc_of
from tests.herodotus.test_ring_lab import free_base

pytestmark = pytest.mark.e2e


@pytest.fixture
def peers(tmp_path: Path) -> Iterator[list[LabPeer]]:
    folder = tmp_path / "ring"
    base = str(free_base(3))
    up = herodotus("ring", "up", "--peers", "3", "--base-port", base, "--dir", folder, "--json")
    assert up.code == 0, up.err
    try:
        yield [LabPeer(**one) for one in json.loads(up.out)["peers"]]
    finally:
        assert herodotus("ring", "down", "--dir", folder).code == 0


def test_every_peer_of_a_ring_is_a_door_to_what_one_of_them_has(peers: list[LabPeer], tmp_path: Path) -> None:
    holder, *others = peers
    warc = warc_of(tmp_path / "made", response(HOME, "20260101", b"<p>one copy"))
    assert called("import", "--home", holder.home, warc).code == 0
    for peer in others:
        listed = called("history", "--peer", peer.http, "--json", HOME)
        assert [one["date"] for one in listed.json] == ["2026-01-01T00:00:00Z"], listed.err
        with urllib.request.urlopen(f"{peer.http}/web/2026/{HOME}", timeout=30) as answer:
            assert b"<p>one copy" in answer.read()
            assert answer.url.startswith(f"{peer.http}/web/20260101000000/")
            assert holder.http not in str(answer.headers)
        assert called("history", "--peer", peer.http, "http://nobody.example/").code == 3
