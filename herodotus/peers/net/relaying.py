"""How does a member help peers that cannot be called? It keeps their lines, passes knocks on, and joins connections.

Three services (`docs/protocol/lines.md`). All that passes through a joint is TLS between its two ends: a relay can drop
it, delay it and count it, but not read or change it. `core.relays.RelayDesk` has the bounds.
"""

from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

import anyio
import anyio.abc
from anyio.streams.memory import MemoryObjectSendStream

from dht.core.frames import Address as SocketAddress
from dht.core.limits import Bucket, Rate
from dht.endpoint import packed_address
from herodotus.core.errors import MalformedError
from herodotus.core.relays import Kept, Mapping, RelayDesk, Way, way_between
from herodotus.core.settings.sections import RelaySettings
from herodotus.core.status import RelayStatus
from herodotus.peers.calls import PeerKey, RefusedError, Services
from herodotus.peers.net.arranged import TOKEN_BYTES
from herodotus.peers.net.line import Arrangements, caller_address
from herodotus.peers.net.lines_wire import (
    KNOCK,
    TELL,
    WAIT,
    Alive,
    Arranged,
    Knock,
    Knocked,
    Seen,
    pack,
    read_knock,
    read_waiting,
    wire_lines,
)

ALIVE_S: Final = 25.0
"""Each sign of life and its acknowledgement take 133 bytes. A relay among 1,000 peers has eight lines in the mean, and
they cost it 0.34 kbit/s (`simnet run home-lines`); 12 s took 0.7, more than all gossip."""
KNOCKS_WAITING_MAX: Final = 32
JOINED_S_MAX: Final = 600.0
IDLE_S: Final = 60.0
BYTES_PER_MINUTE: Final = 1 << 20
"""Of one joint: questions and pages pass, copies are handed on by others."""
BUSY_AGAIN_S: Final = 300.0
JOINT_AGAIN_S: Final = 5.0
MBIT_BYTES: Final = 125_000.0
Message = TypeVar("Message")


@dataclass(slots=True, eq=False)
class _Waiter:
    """One closed peer's line, and what it is to be told."""

    kept: Kept
    told: MemoryObjectSendStream[Knocked]


class Relay:
    """The relay's services; `running` keeps its joints."""

    def __init__(
        self,
        settings: RelaySettings,
        entropy: Callable[[int], bytes],
        lines_of: Callable[[PeerKey], tuple[SocketAddress, ...]],
    ) -> None:
        """`lines_of` tells where a member can be called, as its record says."""
        self._settings = settings
        self._entropy = entropy
        self._lines_of = lines_of
        self._desk = RelayDesk()
        self._waiters: dict[PeerKey, _Waiter] = {}
        self._arrangements: Arrangements | None = None
        self._tasks: anyio.abc.TaskGroup | None = None
        self._bucket: Bucket | None = None
        self._bytes = 0
        self._counts: Counter[str] = Counter()

    def services(self) -> Services:
        return Services(calls={KNOCK: self._knock, TELL: self._tell}, streams={WAIT: self._wait})

    def status(self) -> RelayStatus:
        return RelayStatus(
            kept=self._desk.kept, joined=self._desk.joints, bytes=self._bytes, counts=dict(self._counts)
        )

    @asynccontextmanager
    async def running(self, arrangements: Arrangements | None) -> AsyncIterator[None]:
        """None: in this world nobody needs a relay."""
        if arrangements is None or not self._settings.mbit_per_s:
            yield
            return
        rate = self._settings.mbit_per_s * MBIT_BYTES
        self._bucket = Bucket(Rate(per_second=rate, burst=max(1.0, rate)), anyio.current_time())
        self._arrangements = arrangements
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            try:
                yield
            finally:
                tasks.cancel_scope.cancel()
                self._arrangements = self._tasks = None

    # --- services

    async def _wait(self, peer: PeerKey, body: bytes) -> AsyncIterator[bytes]:
        asked, seen = _read(read_waiting, body), caller_address.get()
        kept = None if self._arrangements is None else self._desk.keeps(peer, seen)
        if kept is None:
            self._counts["busy"] += 1
            raise RefusedError("busy", retry_after_s=BUSY_AGAIN_S)
        kept.mapping = asked.mapping
        told, news = anyio.create_memory_object_stream[Knocked](KNOCKS_WAITING_MAX)
        before = self._waiters.get(peer)
        if before is not None:
            before.told.close()
        self._waiters[peer] = _Waiter(kept, told)
        try:
            at = packed_address(seen)
            yield pack(Seen(at.host, at.port))
            while True:
                knocked: Knocked | None = None
                with anyio.move_on_after(ALIVE_S):
                    try:
                        knocked = await news.receive()
                    except anyio.EndOfStream:  # it opened a newer line
                        return
                yield pack(knocked or Alive())
        finally:
            news.close()
            told.close()
            self._desk.ends(peer, kept)
            if self._waiters.get(peer) is not None and self._waiters[peer].kept is kept:
                del self._waiters[peer]

    async def _tell(self, peer: PeerKey, body: bytes) -> bytes:
        if not self._desk.maps(peer, _read(read_waiting, body).mapping):
            raise RefusedError("not-here")
        await anyio.lowlevel.checkpoint()
        return b""

    async def _knock(self, caller: PeerKey, body: bytes) -> bytes:
        asked = _read(read_knock, body)
        kept = self._desk.knocked(caller, asked.called, anyio.current_time())
        if isinstance(kept, str):
            self._counts[kept] += 1
            raise RefusedError(kept, retry_after_s=1.0)
        assert self._tasks is not None, "nobody is kept while we do not run"
        lines = self._caller_lines(caller, asked)
        way = way_between(asked.mapping, lines, kept, asked.wanted)
        if way is Way.JOIN and not self._desk.may_join(caller, asked.called):
            self._counts["joints full"] += 1
            raise RefusedError("busy", retry_after_s=JOINT_AGAIN_S)  # another relay has room perhaps
        token = self._entropy(TOKEN_BYTES)
        knocked = Knocked(token, caller, wire_lines(lines), way)
        try:
            self._waiters[asked.called].told.send_nowait(knocked)
        except anyio.WouldBlock:
            raise RefusedError("too-many", retry_after_s=1.0) from None
        self._tasks.start_soon(self._join, token, caller, asked.called)
        await anyio.lowlevel.checkpoint()
        self._counts[f"way {way.value}"] += 1
        return pack(Arranged(token, wire_lines((kept.seen,)), way))

    def _caller_lines(self, caller: PeerKey, asked: Knock) -> tuple[SocketAddress, ...]:
        """Only where it was seen, or where its record says that it can be called: nobody is aimed at others."""
        if asked.mapping is Mapping.OPEN:
            return self._lines_of(caller)
        host, _ = caller_address.get()
        return ((host, asked.port),) if asked.port else ()

    # --- joints

    async def _join(self, token: bytes, one: PeerKey, other: PeerKey) -> None:
        assert self._arrangements is not None
        try:
            async with self._arrangements.both(token) as joint:
                if joint is None:
                    return
                if not self._desk.joins(one, other):
                    self._counts["joints refused"] += 1
                    return
                try:
                    bucket = Bucket(
                        Rate(per_second=BYTES_PER_MINUTE / 60, burst=BYTES_PER_MINUTE), anyio.current_time()
                    )

                    async def admits(size: int) -> None:
                        await self._admits(bucket, size)

                    with anyio.move_on_after(JOINED_S_MAX):
                        await joint.carry(admits, IDLE_S)
                finally:
                    self._desk.parts(one, other)
        except OSError:
            self._counts["joints refused"] += 1

    async def _admits(self, of_joint: Bucket, size: int) -> None:
        assert self._bucket is not None
        self._bytes += size
        for bucket in (of_joint, self._bucket):
            wait_s = bucket.wait_s(anyio.current_time(), size)
            bucket.spend(anyio.current_time(), size)
            if wait_s:
                await anyio.sleep(wait_s)


def _read(read: Callable[[bytes], Message], body: bytes) -> Message:
    try:
        return read(body)
    except MalformedError as error:
        raise RefusedError("malformed") from error
