"""Remembered peers survive restarts and bad files, within bounds."""

from pathlib import Path

import msgspec
import pytest

from dht.discovery.remembered import AGE_MAX_S, RememberedPeers

NETWORK = b"ring-one"


def peers_at(path: Path, network: bytes = NETWORK) -> RememberedPeers:
    return RememberedPeers(path / "peers.msgpack", network)


def test_peers_met_are_there_after_a_restart_the_latest_first(tmp_path: Path) -> None:
    before = peers_at(tmp_path)
    before.met(b"a", ("10.0.0.1", 1), now=100.0)
    before.met(b"b", ("10.0.0.2", 2), now=200.0)
    before.met(b"a", ("10.0.0.9", 9), now=300.0)
    before.save(now=300.0)
    after = peers_at(tmp_path)
    after.load(now=400.0)
    peers = after.in_order()
    assert [(peer.peer_id, peer.endpoint) for peer in peers] == [
        (b"a", ("10.0.0.9", 9)),
        (b"b", ("10.0.0.2", 2)),
    ]
    assert (peers[0].first_met_at, peers[0].last_met_at) == (100.0, 300.0)


def test_seeds_outlive_a_flood_of_new_faces(tmp_path: Path) -> None:
    peers = peers_at(tmp_path)
    for number in range(2000):
        peers.met(number.to_bytes(2, "big"), ("10.0.0.1", 1), now=float(number))
    peers.save(now=2000.0)
    assert len(peers.in_order()) == 256 + 16
    assert [int.from_bytes(peer.peer_id) for peer in peers.seeds()] == list(range(16))
    assert int.from_bytes(peers.in_order()[0].peer_id) == 1999


def test_peers_not_met_for_sixty_days_are_forgotten(tmp_path: Path) -> None:
    peers = peers_at(tmp_path)
    peers.met(b"old", ("10.0.0.1", 1), now=0.0)
    peers.met(b"new", ("10.0.0.2", 1), now=10.0)
    peers.save(now=AGE_MAX_S + 5)
    assert [peer.peer_id for peer in peers.in_order()] == [b"new"]


@pytest.mark.parametrize(
    "data", [b"", b"\x00" * 100, b"\x93\x01", b"\x80\x04\x95pickle", b"\x91" * 5000, bytes(2 << 20)]
)
def test_a_torn_or_alien_file_means_a_warning_and_an_empty_start(
    tmp_path: Path, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "peers.msgpack").write_bytes(data)
    peers = peers_at(tmp_path)
    peers.load(now=0.0)
    assert peers.in_order() == []
    assert "starting without it" in caplog.text


def test_a_file_cut_anywhere_is_never_half_read(tmp_path: Path) -> None:
    peers = peers_at(tmp_path)
    peers.met(b"a", ("10.0.0.1", 1), now=1.0)
    peers.save(now=1.0)
    whole = (tmp_path / "peers.msgpack").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "peers.msgpack").write_bytes(whole[:length])
        cut = peers_at(tmp_path)
        cut.load(now=1.0)
        assert len(cut.in_order()) == 0


def test_peers_of_another_network_are_not_ours(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    peers = peers_at(tmp_path)
    peers.met(b"a", ("10.0.0.1", 1), now=1.0)
    peers.save(now=1.0)
    other = peers_at(tmp_path, b"ring-two")
    other.load(now=1.0)
    assert len(other.in_order()) == 0
    assert "another version or network" in caplog.text


def test_rows_that_cannot_be_addresses_are_left_out_and_future_times_cut(tmp_path: Path) -> None:
    rows = [[b"a", "host.example", 1, 0.0, 0.0], [b"b", "10.0.0.1", 0, 0.0, 0.0], [b"c", "::1", 5, 9e9, 9e9]]
    (tmp_path / "peers.msgpack").write_bytes(msgspec.msgpack.encode([1, NETWORK, rows]))
    peers = peers_at(tmp_path)
    peers.load(now=50.0)
    assert [(peer.peer_id, peer.last_met_at) for peer in peers.in_order()] == [(b"c", 50.0)]


def test_a_disk_that_refuses_is_logged_not_raised(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_bytes(b"")
    peers = RememberedPeers(tmp_path / "file" / "peers.msgpack", NETWORK)
    peers.met(b"a", ("10.0.0.1", 1), now=1.0)
    peers.save(now=1.0)
    assert "not saved" in caplog.text
