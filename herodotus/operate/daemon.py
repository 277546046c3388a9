"""How does a peer live as a process? Until a signal ends it, ordered by a socket.

The life: the caller has locked the home; open all parts, say "ready", wait for a signal, drain, leave.
"""

import logging
import signal
from collections.abc import AsyncIterator, Callable

import anyio

from herodotus.core.charter import Charter
from herodotus.core.errors import SettingError, StorageFailure
from herodotus.core.settings.sections import Settings
from herodotus.core.status import PeerStatus
from herodotus.home.folder import HomeLock
from herodotus.home.identity import shown_peer_id
from herodotus.home.second_copies import HomeWatch
from herodotus.operate.heap import give_back_remains, remains_of_malloc
from herodotus.operate.order_socket import open_door
from herodotus.operate.systemd import ServiceManager
from herodotus.peer import Peer, PeerParts
from herodotus.world import World

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 2.0
LOOK_AT_HOME_S = 30.0
"""What is hurt at two looks is put back: within a minute, like other files of a home."""
BEGIN_ANEW_S = 10.0
"""After a start at least: a disk that damages each index at once must not have the peer start again all day."""


async def run(parts: PeerParts, lock: HomeLock, world: World, on_ready: Callable[[PeerStatus], None]) -> bool:
    """Serve until a signal; the first one drains, a second one stops at once. True: nobody asked for the end, and the
    peer is to start again, since its index must be made again."""
    check_contact(parts.charter, parts.settings)
    must_begin_anew = False
    manager = ServiceManager.from_environment()
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            stop = anyio.Event()
            tasks.start_soon(_obey, signals, stop, tasks.cancel_scope)
            if manager.watchdog_s is not None:
                tasks.start_soon(_say_alive, manager, manager.watchdog_s / 2)
            peer = Peer(parts, world)
            async with peer.serving(), open_door(parts.home, peer.perform):
                lock.publish(peer.http)
                tasks.start_soon(give_back_remains, remains_of_malloc())
                watch = HomeWatch(parts.home.path, lock.hold_on)
                tasks.start_soon(keep_home_whole, watch, peer.was_put_back, peer.read_token)
                tasks.start_soon(_end_when_left, peer, stop)
                damaged = anyio.Event()
                tasks.start_soon(_end_when_damaged, peer, damaged, stop)
                logger.info("ready http=%s peer=%s", peer.http, shown_peer_id(parts.peer_id))
                on_ready(await peer.status())
                manager.notify("READY=1", f"STATUS=serving {peer.http}")
                await stop.wait()
                must_begin_anew = damaged.is_set()
                if not must_begin_anew:
                    manager.notify("STOPPING=1")
                logger.info("stopping drain_s=%g", parts.settings.lifecycle.drain_s)
            tasks.cancel_scope.cancel()
    logger.info("stopped")
    return must_begin_anew


async def keep_home_whole(
    watch: HomeWatch, tell: Callable[[list[str]], object], read_token: Callable[[], object]
) -> None:
    """`tell` what was put back. `read_token` of the operator, who may have deleted it to have another."""
    while True:
        await anyio.sleep(LOOK_AT_HOME_S)
        tell(await anyio.to_thread.run_sync(watch.look))
        try:
            await anyio.to_thread.run_sync(read_token)
        except (OSError, StorageFailure) as error:
            logger.warning("the operator's secret stays as it was error=%s", error)


def check_contact(charter: Charter, settings: Settings) -> None:
    if charter.contact_required and not settings.operator.contact:
        raise SettingError(
            source="config.toml",
            key="operator.contact",
            problem=f"must be set: the charter of network {charter.name!r} requires that site owners can reach you",
            hint='write contact = "https://…" there, or set HERODOTUS_OPERATOR_CONTACT',
        )


async def _obey(signals: AsyncIterator[signal.Signals], stop: anyio.Event, scope: anyio.CancelScope) -> None:
    async for number in signals:
        if stop.is_set():
            logger.warning("second signal, stopping at once signal=%s", number.name)
            scope.cancel()
            return
        logger.info("signal received signal=%s", number.name)
        stop.set()


async def _end_when_left(peer: Peer, stop: anyio.Event) -> None:
    await peer.left.wait()
    logger.info("left for good")
    stop.set()


async def _end_when_damaged(peer: Peer, damaged: anyio.Event, stop: anyio.Event) -> None:
    """Readers are in the middle of the index, and the other parts hold what they read there: so all of the peer ends,
    for some seconds, rather than the archive under its parts."""
    began = anyio.current_time()
    while not peer.is_index_damaged or anyio.current_time() - began < BEGIN_ANEW_S:  # noqa: ASYNC110 - found in threads
        await anyio.sleep(LOOK_EVERY_S)
    logger.warning("the index is damaged: starting again, to make it again from the files")
    damaged.set()
    stop.set()


async def _say_alive(manager: ServiceManager, period_s: float) -> None:
    """The service manager restarts us when this loop stops turning."""
    while True:
        manager.notify("WATCHDOG=1")
        await anyio.sleep(period_s)
