"""Whom did this peer meet before, so that a restart needs no stranger's help?

The 256 met last, and 16 seeds: those known longest, who are kept even when a bad week pushes everybody else
out, since an eclipsed peer forgets its honest contacts first. What is not met for 60 days goes, seeds
included only when they have failed as long.
"""

import logging
from pathlib import Path

import msgspec
from msgspec import structs

from dht.discovery.addresses import Endpoint, parse_ip
from dht.discovery.state_file import read_state, write_state

log = logging.getLogger(__name__)

RECENT_MAX = 256
SEEDS_MAX = 16
AGE_MAX_S = 60 * 86400.0
_VERSION = 1


class RememberedPeer(msgspec.Struct, array_like=True, frozen=True, kw_only=True):
    """As it stands in the file."""

    peer_id: bytes
    host: str
    port: int
    first_met_at: float
    last_met_at: float

    @property
    def endpoint(self) -> Endpoint:
        return self.host, self.port


class _File(msgspec.Struct, array_like=True):
    version: int
    network: bytes
    rows: list[RememberedPeer]


class RememberedPeers:
    """In memory until `save`; times are wall clock, passed in."""

    def __init__(self, path: Path, network: bytes) -> None:
        self._path = path
        self._network = network
        self._peers: dict[bytes, RememberedPeer] = {}

    def load(self, now: float) -> None:
        """A missing, torn or alien file leaves us with nobody, and a warning."""
        saved = read_state(self._path, _File)
        if saved is None:
            return
        if saved.version != _VERSION or saved.network != self._network:
            log.warning("remembered peers are of another version or network, ignored path=%s", self._path)
            return
        for row in saved.rows[: RECENT_MAX + SEEDS_MAX]:
            if parse_ip(row.host) is None or not 0 < row.port < 65536:
                continue
            # A clock that was wrong must not make a contact eternal.
            last = min(row.last_met_at, now)
            first = min(row.first_met_at, last)
            self._peers[row.peer_id] = structs.replace(row, first_met_at=first, last_met_at=last)
        self._trim(now)

    def met(self, peer_id: bytes, endpoint: Endpoint, now: float) -> None:
        """It answered, with its proof, from this address."""
        known = self._peers.get(peer_id)
        first = known.first_met_at if known else now
        self._peers[peer_id] = RememberedPeer(
            peer_id=peer_id, host=endpoint[0], port=endpoint[1], first_met_at=first, last_met_at=now
        )
        if len(self._peers) > RECENT_MAX + SEEDS_MAX:
            self._trim(now)

    def seeds(self) -> list[RememberedPeer]:
        oldest = sorted(self._peers.values(), key=lambda peer: (peer.first_met_at, peer.peer_id))
        return oldest[:SEEDS_MAX]

    def in_order(self) -> list[RememberedPeer]:
        """Met last first, then by id: the order to try them in."""
        return sorted(self._peers.values(), key=lambda peer: (-peer.last_met_at, peer.peer_id))

    def _trim(self, now: float) -> None:
        fresh = [peer for peer in self.in_order() if now - peer.last_met_at <= AGE_MAX_S]
        self._peers = {peer.peer_id: peer for peer in fresh}
        kept = self.seeds()
        seed_ids = {peer.peer_id for peer in kept}
        recent = [peer for peer in fresh if peer.peer_id not in seed_ids][:RECENT_MAX]
        self._peers = {peer.peer_id: peer for peer in kept + recent}
        assert len(self._peers) <= RECENT_MAX + SEEDS_MAX

    def save(self, now: float) -> None:
        """Atomic; a full disk is only logged, because the peer can do without."""
        self._trim(now)
        try:
            write_state(self._path, _File(_VERSION, self._network, self.in_order()))
        except OSError as error:
            log.warning("remembered peers not saved path=%s error=%s", self._path, error)
