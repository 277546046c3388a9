"""How is the peer started? `run`."""

import contextlib
import fcntl
import gc
import json
import logging
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import anyio
import click

from herodotus.core.errors import StorageFailure
from herodotus.core.status import PeerStatus
from herodotus.home.clock import unix_seconds
from herodotus.home.folder import Home, check_network, locked, open_home
from herodotus.home.second_copies import keep_home, restore_home
from herodotus.home.seeds import add_seeds
from herodotus.operate.cli.choices import chosen_charter, unlocked_key
from herodotus.operate.cli.commands.crawl import checked_seeds
from herodotus.operate.cli.frame import CommandFrame, framed, main
from herodotus.operate.settings.load import text_layer, with_http_beside_ring

logger = logging.getLogger(__name__)

BEGUN_ANEW_MAX = 100
"""So often a process makes its index again."""


@main.command()
@click.option("--listen", metavar="IP:PORT", help="Where other peers reach this peer (default: [::]:4484).")
@click.option(
    "--http", metavar="IP:PORT", help="Where readers reach the portal (default: the peer's port + 1000)."
)
@click.option(
    "--join",
    metavar="HOST[:PORT]",
    multiple=True,
    help="A peer to join the ring through, by address or name; several are better.",
)
@click.option(
    "--seed", metavar="URL", multiple=True, help="A page to start at; kept, as by `herodotus seed add`."
)
@click.option("--virtual", metavar="N", help="Positions on the ring (default: by the offered disk).")
@click.option("--network", metavar="FILE", help="Refuse to start unless the home belongs to this network.")
@click.option(
    "--ready-fd",
    metavar="N",
    type=click.IntRange(0),
    help="Write one JSON line to this descriptor when serving.",
)
@click.option(
    "--begins-network", is_flag=True, hidden=True, help="For `network create`: there are no other peers."
)
@framed(json=True)
def run(
    frame: CommandFrame,
    listen: str | None,
    http: str | None,
    join: tuple[str, ...],
    seed: tuple[str, ...],
    virtual: str | None,
    network: str | None,
    ready_fd: int | None,
    begins_network: bool,
) -> None:
    """Run the peer until Ctrl-C. It serves readers, takes part in the ring, and crawls its share every day.

    The first SIGINT or SIGTERM finishes open work and stops; a second one stops at once.

    \b
    Examples:
      herodotus run
      herodotus run --join 192.0.2.7:4484 --seed https://example.org/
      herodotus run --home /srv/herodotus --listen [::]:4500 --http 127.0.0.1:8080
    """
    from herodotus.operate.heap import importing, keep_heap_small

    with importing():
        from herodotus import peer as peers  # with the HTTP server and all, which no other command needs
        from herodotus.home.rotation import standing_previous_key
        from herodotus.machine import Machine
        from herodotus.operate.daemon import run as run_peer
        from herodotus.operate.offer import step_back, with_offered_positions

    os.umask(0o077)
    if ready_fd is not None:
        _check_open(ready_fd)
    restored = restore_home(frame.home.path)
    charter = open_home(frame.home)
    if network is not None:
        check_network(chosen_charter(network), frame.home, file=Path(network))
    given = {
        "http.listen": ("--http", http),
        "ring.listen": ("--listen", listen),
        "ring.join": ("--join", ",".join(join) or None),
        "ring.virtual_nodes": ("--virtual", virtual),
    }
    flags = {key: (source, text) for key, (source, text) in given.items() if text is not None}
    effective = with_http_beside_ring(frame.effective(text_layer(flags)))
    key, passphrase = unlocked_key(frame.home.key)
    step_back(effective.settings.budget.niceness)
    keep_heap_small()
    with locked(frame.home) as lock:
        parts = peers.PeerParts(
            home=frame.home,
            charter=charter,
            settings=with_offered_positions(frame.home, charter, effective.settings),
            key=key,
            restored=tuple(restored),
            begins_network=begins_network,
            previous_key=standing_previous_key(frame.home, key, passphrase, unix_seconds()),
        )
        frame.configure_logs(effective, into_home=True)
        for name in restored:
            logger.warning("put back from its second copy file=%s", name)
        keep_home(frame.home.path)
        if seed:
            wanted = checked_seeds(seed, charter, effective.settings.crawl.opt_out)
            add_seeds(frame.home.path, wanted, now=unix_seconds())
        on_ready: Callable[[PeerStatus], None] = partial(_announce, frame, ready_fd)
        for _ in range(BEGUN_ANEW_MAX):
            is_again = anyio.run(
                run_peer,
                parts,
                lock,
                Machine(),
                on_ready,
                backend="asyncio",
                backend_options={"use_uvloop": True},
            )
            if not is_again:
                return
            gc.collect()  # what is left of iterators holds the lock of the index
            on_ready = _say_nothing
        raise IndexDamagedAgain(frame.home)


def _check_open(descriptor: int) -> None:
    """Must be called before anything else is opened, because that could get this very number."""
    try:
        is_open = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE != os.O_RDONLY
    except OSError:
        is_open = False
    if not is_open:
        raise click.BadParameter(f"{descriptor} is not open for writing", param_hint="'--ready-fd'")


class IndexDamagedAgain(StorageFailure):
    def __init__(self, home: Home) -> None:
        super().__init__(
            path=str(home.path / "index"),
            action="keep",
            reason=f"it was made again {BEGUN_ANEW_MAX} times, and damaged again",
            hint="replace the disk",
        )


def _say_nothing(_status: PeerStatus) -> None:
    """The starter was told once."""


def _announce(frame: CommandFrame, ready_fd: int | None, status: PeerStatus) -> None:
    facts = {"peer_id": status.peer_id, "http": status.http, "home": str(frame.home.path), "pid": status.pid}
    if ready_fd is not None:
        with contextlib.suppress(BrokenPipeError), os.fdopen(ready_fd, "w", closefd=ready_fd > 2) as channel:
            channel.write(json.dumps(facts) + "\n")  # the starter may have left; the peer serves anyway
    frame.show(facts, [f"ready: {status.http}/ (peer {status.peer_id[:14]}, Ctrl-C stops)"])
