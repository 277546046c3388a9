"""What does this machine offer, and how does the peer take no more? Disk, processor, and the share that follows."""

import os
from dataclasses import replace

from dht.core.records import SignedRecord
from dht.wire import decode_record
from herodotus.core.budgets import offered_bytes, virtual_nodes_for
from herodotus.core.charter import Charter
from herodotus.core.errors import HerodotusError
from herodotus.core.settings.sections import Settings
from herodotus.home.durable import storage_failure
from herodotus.home.folder import Home
from herodotus.home.identity import PeerId, load_key, peer_id
from herodotus.store import free_bytes_at


def step_back(niceness: int) -> None:
    """Let other programs of this machine go first. A higher niceness that we were started with stays."""
    with_us = os.getpriority(os.PRIO_PROCESS, 0)
    if niceness > with_us:
        os.setpriority(os.PRIO_PROCESS, 0, niceness)


def own_peer_id(home: Home) -> PeerId | None:
    """None if the key is locked or unreadable: only to name the peer we do not ask for a passphrase."""
    try:
        return peer_id(load_key(home.key, None).public_key())
    except HerodotusError:
        return None


def archive_bytes_used(home: Home) -> int:
    """Counts the files on the home's own disk, not those of other slices."""
    folder = home.path / "archive"
    try:
        return sum(one.stat().st_size for one in folder.rglob("*") if one.is_file())
    except OSError as error:
        raise storage_failure(error, folder, "read") from error


def with_offered_positions(home: Home, charter: Charter, settings: Settings) -> Settings:
    """The number for `ring.virtual_nodes = 0`, from the peer's offer and its number in the last run."""
    if settings.ring.virtual_nodes > 0:
        return settings
    disk = settings.budget.disk
    offered = offered_bytes(disk, used=archive_bytes_used(home), free=free_bytes_at(home.path))
    positions = virtual_nodes_for(
        offered,
        positions_max=max(1, charter.positions_per_address // charter.slots),
        before=_positions_before(home),
    )
    return replace(settings, ring=replace(settings.ring, virtual_nodes=positions))


def _positions_before(home: Home) -> int | None:
    try:
        signed = decode_record(home.record.read_bytes())
    except OSError:
        return None
    return signed.record.virtual_nodes if isinstance(signed, SignedRecord) else None
