"""Whom is an attack against, and with which key? A member's key makes calls of the peer's own kind."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from dht import Contact
from dht.core.ids import PeerKey
from dht.core.records import Address
from herodotus.home.folder import Home, read_charter
from herodotus.home.identity import load_key
from herodotus.operate.lab_ring import LabPeer
from herodotus.peers.net.calling import CallingParts, TlsCalls, open_calling
from herodotus.peers.net.certificate import caller_context
from herodotus.peers.net.tls_line import dial_tls
from herodotus.peers.net.ways import WaysParts
from tests.herodotus.peers.net.peers import Known

LOOPBACK = bytes(10) + b"\xff\xff\x7f\0\0\1"
NETWORK_BYTES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    peer: LabPeer
    attacker: LabPeer
    """A peer that was killed: its key and port are the attacker's."""
    pid: int

    @property
    def port(self) -> int:
        return int(self.peer.peer.rpartition(":")[2])

    @property
    def http_port(self) -> int:
        return int(self.peer.http.rpartition(":")[2])

    @property
    def network(self) -> bytes:
        return read_charter(Home(Path(self.peer.home)).charter).network_id()[:NETWORK_BYTES]

    @property
    def key(self) -> Ed25519PrivateKey:
        """The attacker's."""
        return load_key(Home(Path(self.attacker.home)).key, None)

    @property
    def contact(self) -> Contact:
        key = load_key(Home(Path(self.peer.home)).key, None).public_key().public_bytes_raw()
        return Contact.at(PeerKey(key), Address(host=LOOPBACK, port=self.port), 0, 0, "off")

    def forget_peak(self) -> None:
        """What was done until now was no attack."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    @asynccontextmanager
    async def calls(self, key: Ed25519PrivateKey | None = None) -> AsyncIterator[TlsCalls]:
        """With the attacker's key, or another."""
        parts = CallingParts(
            key=key or self.key,
            network=self.network,
            ways=WaysParts(dial=partial(dial_tls, context=caller_context())),
            acquaintance=Known(record=b""),
        )
        async with open_calling(parts) as calls:
            yield calls
