"""How does a command reach an archive? By the home's lock, through the peer that runs on the home, or at another peer.

A running peer holds the lock and the archive: then orders go to that peer, through the socket in its home.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from herodotus.core.errors import HomeInUse
from herodotus.core.orders import ArchiveOrder, OrderReport, Performer
from herodotus.home.folder import locked, open_home
from herodotus.operate.cli.console import end_progress, show_progress
from herodotus.operate.cli.frame import CommandFrame

NOT_FOUND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveAccess:
    folder: Path
    """Of the home."""
    performer: Performer
    is_running: bool
    """Whether a running peer performs."""

    def perform(self, order: ArchiveOrder) -> OrderReport:
        try:
            return self.performer(order, show_progress)
        finally:
            end_progress()


@contextmanager
def archive_access(
    frame: CommandFrame, *, peer: str | None = None, stores: bool = False, gives_away: bool = False
) -> Iterator[ArchiveAccess]:
    """`stores`: within the disk that was offered. `gives_away`: files of its own making are for others to read."""
    if peer is not None:
        from herodotus.operate.remote_archive import read_from

        yield ArchiveAccess(folder=frame.home.path, performer=partial(read_from, peer), is_running=True)
        return
    charter = open_home(frame.home)
    if not gives_away:
        os.umask(0o077)  # what it leaves in the home is for its owner alone
    effective = frame.effective()
    frame.configure_logs(effective)
    with ExitStack() as held:
        try:
            held.enter_context(locked(frame.home))
        except HomeInUse:
            if not frame.home.door.exists():  # the holder is another command, such as a crawl
                raise
            from herodotus.operate.order_socket import ask_at_door

            performer: Performer = partial(ask_at_door, frame.home)
            is_running = True
        else:
            from herodotus.operate.offer import own_peer_id
            from herodotus.operate.offline_archive import performer_of
            from herodotus.store import archive_settings

            files = archive_settings(effective.settings, charter, own_peer_id(frame.home)) if stores else None
            performer = performer_of(frame.home.path, files)
            is_running = False
        yield ArchiveAccess(folder=frame.home.path, performer=performer, is_running=is_running)
