"""How does a command reach an archive? By the home's lock, through the peer that runs on the home, or at another peer.
And how does it give that peer another order?

A running peer holds the lock and the archive: then orders go to that peer, through the socket in its home.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from herodotus.core.errors import HomeInUse
from herodotus.core.orders import ArchiveOrder, CrawlControl, OrderReport, Performer, RebuildWords, Search
from herodotus.home.folder import Home, locked, open_home
from herodotus.operate.cli.console import end_progress, show_progress
from herodotus.operate.cli.frame import CommandFrame

NOT_FOUND = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveAccess:
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

        yield ArchiveAccess(performer=partial(read_from, peer), is_running=True)
        return
    charter = open_home(frame.home)
    if not gives_away:
        os.umask(0o077)  # what it leaves in the home is for its owner alone
    effective = frame.effective()
    frame.configure_logs(effective)
    with _held_or_running(frame.home) as is_running:
        if is_running:
            from herodotus.operate.order_socket import ask_at_door

            performer: Performer = partial(ask_at_door, frame.home)
        else:
            from herodotus.operate.offer import own_peer_id
            from herodotus.operate.offline_archive import performer_of
            from herodotus.store import archive_settings

            files = archive_settings(effective.settings, charter, own_peer_id(frame.home)) if stores else None
            performer = performer_of(frame.home.path, files)
        yield ArchiveAccess(performer=performer, is_running=is_running)


def order_running_peer(
    frame: CommandFrame, order: CrawlControl | RebuildWords | Search
) -> dict[str, Any] | None:
    """The report of the peer that runs on the home; None when none does."""
    from herodotus.operate.order_socket import ask_at_door

    with _held_or_running(frame.home) as is_running:
        facts: dict[str, Any] | None = ask_at_door(frame.home, order, frame.say).facts if is_running else None
        return facts


@contextmanager
def _held_or_running(home: Home) -> Iterator[bool]:
    """Whether a peer runs on the home; if none does, the home is locked for us."""
    with ExitStack() as held:
        try:
            held.enter_context(locked(home))
            is_running = False
        except HomeInUse:
            if not home.door.exists():  # the holder is another command, such as a crawl
                raise
            is_running = True
        yield is_running
