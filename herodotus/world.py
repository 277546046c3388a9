"""What does a peer ask of the world? Everything that is not the same for a daemon and a simulated peer.

`machine.py` is the daemon's world: the system's clocks, threads, sockets, RocksDB, DNS and the web. `simnet` has
another, in virtual time, with a network, disks and a web of its own; the peer that runs in it is this very one. So a
part of a peer that opens a socket, starts a thread, reads a clock or draws from the system's chance by itself is a
mistake: it takes what it needs from here, by `peer.py`.

Sleeping, deadlines, locks and task groups are anyio's in both worlds; steady time in the loop is `anyio.current_time`.
"""

from pathlib import Path
from random import Random
from typing import Protocol

from crawler.core.rows import RowLimits, Rows
from herodotus.store.home_archive import StoreWorld


class World(StoreWorld, Protocol):
    @property
    def chance(self) -> Random:
        """For all draws, and for secrets."""
        ...

    @property
    def process_id(self) -> int: ...

    def rows(self, folder: Path, limits: RowLimits) -> Rows:
        """Raises RowsUnusableError."""
        ...
