"""How does a peer that cannot be called stay callable? It keeps lines at three relays, and does what they pass on.

So does a peer of one family while there are members that have only the other: for those it is closed.

Each line leaves from the port on which the peer listens, so a relay sees how the peer's router shows that port. A knock
is answered by the way that the relay names (`arranged.py`). `core.relays.RelayKeeper` decides which relays, and from
when on the peer is a member behind a closed router.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from random import Random
from typing import Final, Protocol

import anyio
import anyio.abc

from dht import Contact
from dht.core.ids import PeerKey
from dht.core.records import Line
from dht.endpoint import socket_address
from herodotus.core.errors import MalformedError
from herodotus.core.relays import Arrangement, Candidate, Mapping, RelayKeeper
from herodotus.peers.calls import CallError, PeerUnreachableError, Questions
from herodotus.peers.net.arranged import TOKEN_S
from herodotus.peers.net.connection import FrameConnection
from herodotus.peers.net.line import Arrangements, Dial, LineBrokenError
from herodotus.peers.net.lines_wire import (
    TELL,
    WAIT,
    Knocked,
    Seen,
    Waiting,
    pack,
    read_piece,
    socket_lines,
)
from herodotus.peers.net.relaying import ALIVE_S
from herodotus.peers.net.ways import lines_at, stream_address
from herodotus.peers.net.wire import FROM_CALLED, CallQuestion, FrameError, FrameKind

logger = logging.getLogger(__name__)

SILENT_S: Final = ALIVE_S + 5.0
"""TCP has sent a lost sign of life four times by then."""
STANDSTILL_S: Final = 1.0
"""A line that is silent for too long has so long to be heard. When a busy machine goes on, signs of life wait to be
read, and all lines would break at once: the peer would be a leaf for half an hour."""
LOOK_S: Final = 2.0
CONNECT_S: Final = 10.0
ANSWERING_MAX: Final = 16
TELL_S: Final = 5.0


class RelayCalls(Questions, Protocol):
    def held(self, to: Contact, dial: Dial) -> AbstractAsyncContextManager[FrameConnection]:
        """A connection of its own, both ends introduced; closed at the end. Raises a CallError."""
        ...


class OnChanged(Protocol):
    def __call__(self, relays: Sequence[PeerKey], *, is_member: bool) -> None:
        """Told the relays' keys, and whether they make us a member."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLinesParts:
    number: int
    """Of our port."""
    chance: Random
    wanted: int
    full_after_s: float
    members: Callable[[], Iterable[tuple[Candidate, Contact]]]
    """Those that can be called."""
    lines_of: Callable[[PeerKey], tuple[Line, ...]]
    is_closed: Callable[[], bool]
    """Has a test shown that nobody can call us?"""
    is_apart: Callable[[], bool]
    """Are there members that have no family in common with us?"""
    on_changed: OnChanged


@dataclass(slots=True)
class _Listening:
    """For the next word of a relay."""

    patience: anyio.CancelScope
    since: float
    late_at: float | None = None
    """When it was first found silent for too long."""


class KeptLines:
    def __init__(self, parts: KeptLinesParts, calls: RelayCalls, arrangements: Arrangements) -> None:
        self._parts, self._calls, self._arrangements = parts, calls, arrangements
        self.keeper = RelayKeeper(parts.chance, wanted=parts.wanted, full_after_s=parts.full_after_s)
        self._seen: dict[bytes, tuple[str, int]] = {}
        self._told = Mapping.UNKNOWN
        self._shown: tuple[tuple[bytes, ...], bool, bool] = ((), False, False)
        self._trying: set[bytes] = set()
        self._answering = 0
        self._listening: dict[int, _Listening] = {}
        """By the connection's identity, while it is read."""
        self._changed = anyio.Event()
        self.counts: Counter[str] = Counter()

    def own_port(self) -> tuple[int, Mapping]:
        """As our router shows it."""
        if not self._parts.is_closed():
            return 0, Mapping.OPEN
        ports = [port for _, port in self._seen.values()]
        return (ports[0] if ports else 0), self._mapping()

    def _mapping(self) -> Mapping:
        """From two relays on it shows; with one, a port that was kept as it is speaks for itself."""
        ports = {port for _, port in self._seen.values()}
        if len(ports) > 1:
            return Mapping.CHANGES
        is_shown = bool(ports) and (len(self._seen) > 1 or ports == {self._parts.number})
        return Mapping.SAME if is_shown else Mapping.UNKNOWN

    async def run(self) -> None:
        """Until cancelled. While all can call us no line is kept."""
        while True:
            if self._is_wanted():
                async with anyio.create_task_group() as tasks:
                    await self._keep(tasks)
                    tasks.cancel_scope.cancel()
                self._forget()
            await anyio.sleep(LOOK_S)

    def _is_wanted(self) -> bool:
        return self._parts.is_closed() or self._parts.is_apart()

    async def _keep(self, tasks: anyio.abc.TaskGroup) -> None:
        """Until all can call us."""
        while self._is_wanted():
            self._changed = anyio.Event()
            now = anyio.current_time()
            self._lose_patience(now)
            self.keeper.advance(now)
            self._show()
            known = {one.peer: (one, contact) for one, contact in self._parts.members()}
            if not self._trying:
                for one in self.keeper.choice((one for one, _ in known.values()), now):
                    self._trying.add(one.peer)
                    tasks.start_soon(self._try, *known[one.peer], tasks)
            mapping = self._mapping()
            if mapping is not self._told:
                self._told = mapping
                for relay in self.keeper.relays:
                    if relay in known:
                        tasks.start_soon(self._tell, known[relay][1], mapping)
            with anyio.move_on_after(LOOK_S):
                await self._changed.wait()

    def _show(self) -> None:
        shown = self.keeper.relays, self.keeper.is_member, self._parts.is_closed()
        if shown != self._shown:
            self._shown = shown
            logger.info("relays kept=%d member=%s", len(shown[0]), shown[1])
            self._parts.on_changed([PeerKey(relay) for relay in shown[0]], is_member=shown[1])

    def _forget(self) -> None:
        parts = self._parts
        self.keeper = RelayKeeper(parts.chance, wanted=parts.wanted, full_after_s=parts.full_after_s)
        self._seen.clear()
        self._trying.clear()
        self._told = Mapping.UNKNOWN
        self._show()

    async def _tell(self, relay: Contact, mapping: Mapping) -> None:
        try:
            await self._calls.call(relay, TELL, pack(Waiting(mapping)), deadline_s=TELL_S)
        except CallError:
            self.counts["mapping untold"] += 1  # knocks there are joined, which always works

    # --- one relay

    async def _try(self, one: Candidate, contact: Contact, tasks: anyio.abc.TaskGroup) -> None:
        """The first to be connected are the nearest, and are kept."""
        is_kept = is_spare = is_silent = False
        try:
            with anyio.CancelScope() as patience:
                patience.deadline = anyio.current_time() + CONNECT_S
                async with self._calls.held(contact, self._arrangements.dial_from_port) as connection:
                    question = CallQuestion(
                        service=WAIT, deadline_s=SILENT_S, is_stream=True, body=pack(Waiting(self._mapping()))
                    )
                    if not self.keeper.may_keep(one):
                        is_spare = True
                        return
                    await connection.send(question.pack())
                    seen = await self._piece(connection)
                    is_spare = not self.keeper.may_keep(one)
                    if is_spare or not isinstance(seen, Seen):
                        return
                    patience.deadline = float("inf")
                    self.keeper.keeps(one, anyio.current_time())
                    self._seen[one.peer] = socket_address(seen.host, seen.port)
                    is_kept = True
                    self._trying.discard(one.peer)
                    self._changed.set()
                    await self._wait(connection, contact, tasks)
            is_silent = patience.cancelled_caught
        except (CallError, LineBrokenError, FrameError, MalformedError) as error:
            is_silent = isinstance(error, PeerUnreachableError)
            logger.debug("no line at relay=%s error=%r", contact.peer.hex()[:16], error)
        finally:
            self._trying.discard(one.peer)
            self._seen.pop(one.peer, None)
            if is_kept:
                self.counts["lost"] += 1
                self.keeper.lost(one.peer, anyio.current_time())
            elif not is_spare:
                self.counts["refused"] += 1
                self.keeper.refused(one.peer, anyio.current_time(), is_silent=is_silent)
            self._changed.set()

    async def _wait(self, connection: FrameConnection, relay: Contact, tasks: anyio.abc.TaskGroup) -> None:
        """Raises LineBrokenError and the like at its end."""
        while True:
            piece = await self._piece(connection)
            if isinstance(piece, Knocked):
                if self._answering >= ANSWERING_MAX:
                    self.counts["knocks refused"] += 1
                    continue
                self._answering += 1
                tasks.start_soon(self._answer, piece, relay)
            elif isinstance(piece, Seen):
                self._seen[relay.peer] = socket_address(piece.host, piece.port)
                self._changed.set()

    async def _piece(self, connection: FrameConnection) -> object:
        piece: object = None
        with anyio.CancelScope() as patience:
            self._listening[id(connection)] = _Listening(patience, anyio.current_time())
            try:
                found = await connection.read(FROM_CALLED)
            finally:
                del self._listening[id(connection)]
            if found.kind is not FrameKind.PIECE:
                raise LineBrokenError("the relay ended it")
            piece = read_piece(found.content)
        if patience.cancelled_caught:
            raise LineBrokenError("silent")
        return piece

    def _lose_patience(self, now: float) -> None:
        """With relays that say nothing, if that is theirs and not our own standstill."""
        for one in self._listening.values():
            if one.late_at is not None and now - one.late_at >= STANDSTILL_S:
                one.patience.cancel()
            elif one.late_at is None and now - one.since >= SILENT_S:
                one.late_at = now

    async def _answer(self, knocked: Knocked, relay: Contact) -> None:
        parts = self._parts
        arrangement = Arrangement(
            token=knocked.token,
            way=knocked.way,
            lines=lines_at(socket_lines(knocked.lines), parts.lines_of(PeerKey(knocked.caller))),
            relay=stream_address(relay, parts.lines_of(relay.peer)),
        )
        try:
            with anyio.move_on_after(TOKEN_S) as patience:
                await self._arrangements.answer(arrangement)
            self.counts["knocks in vain" if patience.cancelled_caught else "knocks answered"] += 1
        except OSError:
            self.counts["knocks in vain"] += 1
        finally:
            self._answering -= 1
